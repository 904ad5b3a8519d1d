use super::super::{audit_host, list_rules};
use super::{FAST, VERY_FAST, observed, path, plan, verdict_on};
use longhaul_model::report::v1::host::{AuditGrade, AuditObservation, AuditPlan};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Modes and switches, whose numbers are no amounts.
const NO_AMOUNT: [&str; 1] = ["net.ipv4.tcp_slow_start_after_idle"];

/// Readings of amounts, modes and switches that many rules need.
const READINGS: [&str; 24] = [
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.ipv4.tcp_mem",
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.core.optmem_max",
    "net.core.netdev_max_backlog",
    "net.core.default_qdisc",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_moderate_rcvbuf",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_mtu_probing",
    "net.ipv4.tcp_recovery",
    "interface.speed_bps",
    "interface.mtu",
    "interface.qdisc",
    "interface.txqueuelen",
    "interface.ring.rx",
    "interface.ring.rx_max",
    "interface.coalesce.rx_usecs",
    "interface.pci.speed_gtps",
    "interface.pci.width",
    "cpu.governor",
    "softnet.dropped",
];

#[test]
fn a_host_that_tells_nothing_is_judged_in_nothing() {
    let (analysis, findings, _) = audit_host(&plan(FAST), &AuditObservation::default());
    assert_eq!(analysis.verdicts.len(), list_rules().count());
    for verdict in &analysis.verdicts {
        assert_eq!(verdict.grade, AuditGrade::Unknown, "{verdict:?}");
        assert!(verdict.text.starts_with("this host has no "), "{verdict:?}");
        assert!(verdict.remedies.is_empty());
    }
    assert!(findings.is_empty());
}

#[test]
fn why_a_reading_is_missing_is_told() {
    let mut host = AuditObservation::default();
    let why = String::from("permission denied");
    host.unread.insert(String::from("net.core.rmem_max"), why);
    let verdict = verdict_on("receive_buffer_max", &plan(FAST), &host);
    assert_eq!(verdict.grade, AuditGrade::Unknown);
    assert!(verdict.text.contains("permission denied"), "{}", verdict.text);
}

#[test]
fn numbers_that_are_none_and_numbers_beyond_belief_are_told() {
    for value in ["", "x", "-1", "1e9", "NaN", "18446744073709551615", "9007199254740993"] {
        let host = observed(&[("net.core.rmem_max", value), ("net.ipv4.tcp_rmem", value)]);
        for rule in ["receive_buffer_max", "receive_autotuning"] {
            let verdict = verdict_on(rule, &plan(FAST), &host);
            assert_eq!(verdict.grade, AuditGrade::Unknown, "{value}: {verdict:?}");
            assert!(verdict.text.contains("is not"), "{}", verdict.text);
        }
    }
    let falling = observed(&[("net.ipv4.tcp_rmem", "4096 131072 1")]);
    let verdict = verdict_on("receive_autotuning", &plan(FAST), &falling);
    assert_eq!(verdict.grade, AuditGrade::Unknown);
}

#[test]
fn rules_have_names_and_sources_of_their_own() {
    let names: BTreeSet<&str> = list_rules().map(|rule| rule.name).collect();
    assert_eq!(names.len(), list_rules().count());
    for rule in list_rules() {
        assert!(!rule.title.is_empty(), "{}", rule.name);
        let year = rule.source.split(|c: char| !c.is_ascii_digit());
        let year = year.filter(|part| part.len() == 4).count();
        assert!(year > 0, "{}: {} has no year", rule.name, rule.source);
    }
}

#[test]
fn without_a_path_the_host_is_judged_for_a_stated_one() {
    let host = observed(&[
        ("interface.speed_bps", "25000000000"),
        ("net.ipv4.tcp_rmem", "4096 131072 6291456"),
    ]);
    let (analysis, _, caveats) = audit_host(&AuditPlan::default(), &host);
    let verdict = &analysis.verdicts[0];
    assert_eq!(verdict.rule, "receive_autotuning");
    assert_eq!(verdict.path.as_deref(), Some("reference, 25 Gbit/s × 100 ms"));
    assert!(caveats.iter().any(|caveat| caveat.code == "reference_path"));
}

#[test]
fn the_path_that_asks_for_most_decides() {
    let host = observed(&[("net.ipv4.tcp_wmem", "4096 16384 4194304")]);
    let mut plan = plan((100_000_000, 20_000));
    plan.paths.push(path("farther", FAST));
    plan.paths.push(path("near", (1_000_000_000, 1_000)));
    let verdict = verdict_on("send_autotuning", &plan, &host);
    assert_eq!(verdict.path.as_deref(), Some("farther"));
    assert_eq!(verdict.remedies[0].value.as_deref(), Some("4096 16384 268435456"));
}

/// A value that a kernel might give, or that nobody would.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<u64>().prop_map(|n| n.to_string()),
        (0_u64..1 << 34).prop_map(|n| n.to_string()),
        (0_u64..10_000, 0_u64..1 << 24, 0_u64..1 << 34)
            .prop_map(|(a, b, c)| format!("{a}\t{b}\t{c}")),
        prop_oneof!["on", "off", "reno", "powersave", "pfifo_fast", "DMA", "-1", "NaN", "2.5"]
            .prop_map(String::from),
        ".{0,20}",
    ]
}

proptest! {
    #[test]
    fn no_remedy_lowers_what_is_there_and_no_number_is_none(
        values in proptest::collection::vec(value(), READINGS.len()),
        rate_bps in any::<u64>(),
        rtt_us in prop_oneof![any::<u64>(), 0_u64..1_000_000],
        which in 0..4,
    ) {
        let mut host = AuditObservation::default();
        for (name, value) in READINGS.into_iter().zip(values) {
            host.readings.insert(name.to_owned(), value);
        }
        let plan = plan(match which {
            0 => FAST,
            1 => VERY_FAST,
            _ => (rate_bps, rtt_us),
        });
        let (analysis, _, _) = audit_host(&plan, &host);
        prop_assert_eq!(analysis.verdicts.len(), list_rules().count());
        for verdict in &analysis.verdicts {
            prop_assert!(!verdict.text.contains("NaN") || verdict.grade != AuditGrade::Limits);
            for remedy in &verdict.remedies {
                let (Some(name), Some(wanted)) = (&remedy.name, &remedy.value) else { continue };
                let present = &host.readings[name.as_str()];
                prop_assert!(wanted != present, "{name} stays");
                let (Ok(last), Ok(now)) = (amount(wanted), amount(present)) else { continue };
                let is_amount = !NO_AMOUNT.contains(&name.as_str());
                prop_assert!(!is_amount || last > now, "{name}: {present} to {wanted}");
                prop_assert!(!name.ends_with("mem_max") || last < 1 << 31);
            }
        }
    }
}

/// The number, or the last of three.
fn amount(text: &str) -> Result<u64, std::num::ParseIntError> {
    text.split_whitespace().last().unwrap_or_default().parse()
}
