//! Killed at any moment: what stood comes back.

use crate::Test;
use crate::namespace::journal;
use crate::settings::exactly;
use longhaul_probe::host::{apply_settings, revert_settings};
use longhaul_sys::host;
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

pub const TESTS: &[Test] = &[
    ("killed_after_the_journal_and_before_the_write_is_healed", before_write),
    ("killed_after_the_write_and_before_it_is_recorded_is_healed", after_write),
    ("killed_anywhere_is_healed", anywhere),
];

/// The word that makes this executable a writer.
pub const AS_WRITER: &str = "as-writer";

const NAMES: [&str; 3] = ["net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem", "net.ipv4.tcp_notsent_lowat"];

fn values(round: u32) -> Vec<(String, String)> {
    let most = 1_048_576 + 4096 * (round % 1000);
    let triple = format!("4096 65536 {most}");
    let values = [triple.clone(), triple, most.to_string()];
    NAMES.map(str::to_owned).into_iter().zip(values).collect()
}

fn all() -> [String; 3] {
    NAMES.map(exactly)
}

/// Applies one set of values after the other until it is killed, at most for ten minutes.
pub fn write_for_ever(journal: &OsStr) -> ! {
    let begun = Instant::now();
    for round in 0.. {
        if begun.elapsed() > Duration::from_secs(600) {
            break;
        }
        apply_settings(&values(round), None, Path::new(journal), "now").expect("applied");
    }
    std::process::exit(1)
}

/// A journal as it stands once it is on disk and nothing is recorded yet.
fn unfinished(journal: &Path) {
    apply_settings(&values(7), None, journal, "now").expect("applied");
    let text = std::fs::read_to_string(journal).expect("the journal");
    let mut value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    for change in value["changes"].as_array_mut().expect("changes") {
        let change = change.as_object_mut().expect("a change");
        assert!(change.remove("after").is_some());
    }
    std::fs::write(journal, value.to_string()).expect("the journal again");
}

fn before_write() {
    let (journal, before) = (journal("before-write"), all());
    unfinished(&journal);
    for (name, value) in NAMES.iter().zip(&before) {
        host::write_setting(name, value).expect("as if it had never been written");
    }
    let back = revert_settings(&journal).expect("reverted");
    assert!(back.iter().all(|change| change.reverted), "{back:?}");
    assert_eq!(all(), before);
    assert!(!journal.exists());
    println!("attack: tried 1");
}

fn after_write() {
    let (journal, before) = (journal("after-write"), all());
    unfinished(&journal);
    assert_ne!(all(), before);
    revert_settings(&journal).expect("reverted");
    assert_eq!(all(), before);
    println!("attack: tried 1");
}

/// One writer, then two at a time, killed at ever other moments.
fn anywhere() {
    let (journal, before) = (journal("anywhere"), all());
    for round in 0..30_u32 {
        let mut writers: Vec<Child> = (0..=round % 2).map(|_| writer(&journal)).collect();
        until(&journal, before.as_slice());
        for _ in 0..round * 997 {
            std::thread::yield_now();
        }
        for writer in &mut writers {
            writer.kill().expect("the writer runs until it is killed");
            writer.wait().expect("its end");
            println!("attack: tried 1");
        }
        let back = revert_settings(&journal).expect("what the writers left is reverted");
        assert!(back.iter().all(|change| change.reverted), "{back:?}");
        assert_eq!(all(), before, "round {round}");
        assert!(!journal.exists());
    }
}

fn writer(journal: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("own executable"));
    command.arg(AS_WRITER).arg(journal);
    command.spawn().expect("a writer")
}

/// Waits until the writer has begun: its journal is there, or a value is already another.
fn until(journal: &Path, before: &[String]) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !journal.exists() && all() == before {
        assert!(Instant::now() < deadline, "no writer begins");
        std::thread::yield_now();
    }
}
