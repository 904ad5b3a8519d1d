//! Applied, read back, reverted: bit for bit, and nothing but what was asked.

use crate::Test;
use crate::namespace::{VETH, elsewhere, journal};
use longhaul_model::report::v1::host::SettingChange;
use longhaul_probe::host::{HostError, apply_settings, revert_settings};
use longhaul_sys::host::{self, network_interface};
use serde_json::Value;
use std::path::Path;

pub const TESTS: &[Test] = &[
    ("a_triple_is_written_and_put_back_bit_for_bit", triple),
    ("the_value_before_the_first_of_two_changes_comes_back", twice),
    ("what_is_sealed_here_is_told_and_the_others_go_on", sealed),
    ("what_stands_already_is_neither_written_nor_journalled", standing),
    ("an_interface_gets_its_mtu_and_queue_back", of_interface),
    ("a_journal_that_cannot_be_read_stops_both_and_stays", unreadable),
    ("another_namespace_is_left_alone", other_namespace),
    ("settings_of_an_earlier_boot_are_told_as_gone", earlier_boot),
    ("settings_of_an_interface_that_is_no_more_are_told_as_gone", gone_interface),
    ("a_journal_cannot_make_revert_write_what_is_not_on_the_list", smuggled),
    ("what_is_asked_wrongly_changes_nothing", wrongly),
];

const NOW: &str = "2026-11-22T01:30:00Z";
const RMEM: &str = "net.ipv4.tcp_rmem";
const WMEM: &str = "net.ipv4.tcp_wmem";

pub fn exactly(name: &str) -> String {
    host::read_setting_exact(name).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn change(journal: &Path, changes: &[(&str, &str)]) -> Result<Vec<SettingChange>, HostError> {
    let owned: Vec<(String, String)> =
        changes.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    apply_settings(&owned, Some(VETH), journal, NOW)
}

/// Rewrites the journal as something else would have left it.
fn edit(journal: &Path, edit: impl FnOnce(&mut Value)) {
    let text = std::fs::read_to_string(journal).expect("the journal");
    let mut value: Value = serde_json::from_str(&text).expect("JSON");
    edit(&mut value);
    std::fs::write(journal, value.to_string()).expect("the journal again");
}

fn triple() {
    let (journal, before) = (journal("triple"), exactly(RMEM));
    assert_eq!(before.matches('\t').count(), 2, "{before:?}");
    let done = change(&journal, &[(RMEM, "4096 65536 8388608")]).expect("applied");
    assert_eq!(exactly(RMEM), "4096\t65536\t8388608");
    assert_eq!(done[0].before, before);
    assert_eq!(done[0].after.as_deref(), Some("4096\t65536\t8388608"));
    assert_eq!(done[0].error, None);
    let back = revert_settings(&journal).expect("reverted");
    assert!(back.len() == 1 && back[0].reverted, "{back:?}");
    assert_eq!(exactly(RMEM), before);
    assert!(!journal.exists());
    let again = revert_settings(&journal).expect_err("nothing is left");
    assert!(matches!(again, HostError::NothingToRevert { .. }));
    assert_eq!(again.exit_code(), 2);
}

fn twice() {
    let (journal, before) = (journal("twice"), [exactly(RMEM), exactly(WMEM)]);
    change(&journal, &[(RMEM, "4096 65536 1048576")]).expect("applied");
    change(&journal, &[(WMEM, "4096 65536 1048576"), (RMEM, "4096 65536 2097152")])
        .expect("applied again");
    assert_eq!(exactly(RMEM), "4096\t65536\t2097152");
    let back = revert_settings(&journal).expect("reverted");
    let names: Vec<&str> = back.iter().map(|change| change.name.as_str()).collect();
    assert_eq!(names, [WMEM, RMEM], "the newest first");
    assert_eq!([exactly(RMEM), exactly(WMEM)], before);
}

fn sealed() {
    let (journal, before) = (journal("sealed"), exactly(WMEM));
    let machine = exactly("net.core.rmem_max");
    let asked = [("net.core.rmem_max", "1234567"), (WMEM, "4096 65536 3145728")];
    let done = change(&journal, &asked).expect("applied");
    let why = done[0].error.as_deref().expect("an error");
    assert!(why.contains("initial network namespace"), "{why}");
    assert_eq!(done[0].after, None);
    assert_eq!(done[0].before, machine);
    assert_eq!(exactly(WMEM), "4096\t65536\t3145728");
    let back = revert_settings(&journal).expect("reverted");
    assert_eq!(back.len(), 1, "only what was written: {back:?}");
    assert_eq!(exactly(WMEM), before);
    assert_eq!(exactly("net.core.rmem_max"), machine);
}

fn standing() {
    let journal = journal("standing");
    let stands = exactly(RMEM).replace('\t', " ");
    let done = change(&journal, &[(RMEM, stands.as_str())]).expect("applied");
    assert_eq!(done[0].after.as_deref(), Some(exactly(RMEM).as_str()));
    assert!(!journal.exists());
}

fn of_interface() {
    let journal = journal("interface");
    let now = || {
        (network_interface::mtu_bytes(VETH), network_interface::transmit_queue_packets(VETH).ok())
    };
    let before = now();
    let asked = [
        ("interface.mtu", "9000"),
        ("interface.ring.rx", "4096"),
        ("interface.txqueuelen", "10000"),
    ];
    let done = change(&journal, &asked).expect("applied");
    assert_eq!(now(), (Some(9000), Some(10000)));
    assert!(done[1].error.is_some(), "veth has no rings: {done:?}");
    assert!(done.iter().all(|change| change.interface.as_deref() == Some(VETH)));
    revert_settings(&journal).expect("reverted");
    assert_eq!(now(), before);
    let refused = change(&journal, &[("interface.mtu", "7")]).expect("told");
    assert!(refused[0].error.is_some() && refused[0].after.is_none());
    assert!(!journal.exists() && now() == before);
}

fn unreadable() {
    let (journal, before) = (journal("unreadable"), exactly(RMEM));
    std::fs::create_dir_all(journal.parent().expect("a folder")).expect("a folder");
    for text in ["", "{", "{\"schema\":\"else/1\",\"applied_at\":\"\",\"changes\":[]}"] {
        std::fs::write(&journal, text).expect("a bad journal");
        let applied = change(&journal, &[(RMEM, "4096 65536 1048576")]);
        assert!(matches!(applied, Err(HostError::Unreadable { .. })), "{text:?}");
        assert!(matches!(revert_settings(&journal), Err(HostError::Unreadable { .. })));
        assert_eq!(std::fs::read_to_string(&journal).expect("still there"), text);
    }
    assert_eq!(exactly(RMEM), before);
}

fn other_namespace() {
    let (journal, before) = (journal("other-namespace"), exactly(RMEM));
    change(&journal, &[(RMEM, "4096 65536 1048576")]).expect("applied");
    let theirs = elsewhere(|| {
        let stands = exactly(RMEM);
        let applied = change(&journal, &[(RMEM, "4096 65536 2097152")]);
        assert!(matches!(applied, Err(HostError::OtherNamespace { .. })));
        let reverted = revert_settings(&journal);
        assert!(matches!(reverted, Err(HostError::OtherNamespace { .. })));
        exactly(RMEM) == stands
    });
    assert!(theirs, "the other namespace has what it had");
    revert_settings(&journal).expect("reverted where it was applied");
    assert_eq!(exactly(RMEM), before);
}

fn earlier_boot() {
    let (journal, before) = (journal("earlier-boot"), exactly(RMEM));
    change(&journal, &[(RMEM, "4096 65536 1048576")]).expect("applied");
    let applied = std::fs::read(&journal).expect("the journal");
    edit(&journal, |value| value["boot_id"] = "another".into());
    let told = revert_settings(&journal).expect("told");
    assert!(!told[0].reverted);
    assert!(told[0].error.as_deref().is_some_and(|why| why.contains("last reboot")));
    assert_eq!(exactly(RMEM), "4096\t65536\t1048576", "nothing was written");
    assert!(!journal.exists());
    std::fs::write(&journal, applied).expect("the journal of this boot");
    revert_settings(&journal).expect("reverted");
    assert_eq!(exactly(RMEM), before);
}

fn gone_interface() {
    let journal = journal("gone-interface");
    let before = (network_interface::mtu_bytes(VETH), exactly(RMEM));
    let asked = [("interface.mtu", "2000"), (RMEM, "4096 65536 1048576")];
    change(&journal, &asked).expect("applied");
    let applied = std::fs::read(&journal).expect("the journal");
    edit(&journal, |value| {
        value["changes"][0]["interface"] = "no-such".into();
    });
    let told = revert_settings(&journal).expect("told");
    assert!(told[0].reverted && !told[1].reverted, "{told:?}");
    assert!(told[1].error.as_deref().is_some_and(|why| why.contains("no longer exists")));
    assert!(!journal.exists());
    std::fs::write(&journal, applied).expect("the journal as it was");
    revert_settings(&journal).expect("reverted");
    assert_eq!((network_interface::mtu_bytes(VETH), exactly(RMEM)), before);
}

fn smuggled() {
    let journal = journal("smuggled");
    let forwarding = exactly("net.ipv4.ip_forward");
    change(&journal, &[(RMEM, "4096 65536 1048576")]).expect("applied");
    edit(&journal, |value| {
        let mut foreign = value["changes"][0].clone();
        foreign["name"] = "net.ipv4.ip_forward".into();
        foreign["before"] = if forwarding == "0" { "1".into() } else { "0".into() };
        value["changes"].as_array_mut().expect("changes").push(foreign);
    });
    let back = revert_settings(&journal).expect("the rest is reverted");
    assert!(!back[0].reverted && back[1].reverted, "{back:?}");
    assert_eq!(exactly("net.ipv4.ip_forward"), forwarding);
    assert!(journal.exists(), "what is not back stays in it");
    std::fs::remove_file(&journal).expect("removed by hand");
}

fn wrongly() {
    let (journal, before) = (journal("wrongly"), exactly(RMEM));
    let mixed = [(RMEM, "4096 65536 1048576"), ("kernel.core_pattern", "|/bin/sh")];
    let refused = change(&journal, &mixed).expect_err("not on the list");
    assert!(matches!(refused, HostError::NotWritable { .. }));
    assert!(refused.hint().is_some());
    let told = change(&journal, &[(RMEM, "many")]).expect("told");
    let why = told[0].error.as_deref().expect("an error");
    assert!(why.contains("does not accept this value"), "{why}");
    let missing = change(&journal, &[("net.ipv4.tcp_no_such_thing", "1")]).expect("told");
    assert!(missing[0].error.is_some());
    assert_eq!(exactly(RMEM), before);
    assert!(!journal.exists());
}
