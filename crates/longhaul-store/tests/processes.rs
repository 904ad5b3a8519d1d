//! An archive under several processes, and under a limit on the size of its file.
//!
//! Has its own `main`, because it starts itself again as the other processes: with the arguments
//! `append FILE PREFIX COUNT` it is one of them.

use longhaul_model::report::v1::ThroughputReport;
use longhaul_store::{Archive, StoreError};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const FIXTURE: &str = include_str!("../../../fixtures/reports/la-geneva-9-streams.json");
const FULL: u8 = 3;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, verb, file, prefix, count] = &arguments[..]
        && verb == "append"
    {
        return append_many(Path::new(file), prefix, count.parse().expect("a count"));
    }
    two_processes_lose_no_entry();
    a_file_that_may_not_grow_is_told_as_no_room();
    println!("archive and processes: 2 passed");
    ExitCode::SUCCESS
}

fn append_many(file: &Path, prefix: &str, count: u32) -> ExitCode {
    let mut report: ThroughputReport = serde_json::from_str(FIXTURE).expect("a report");
    for number in 0..count {
        report.run.id = format!("{prefix}-{number:04}");
        let outcome = Archive::open(file).and_then(|mut archive| archive.append(&report));
        match outcome {
            Ok(_) => {}
            Err(StoreError::Full { .. }) => return ExitCode::from(FULL),
            Err(other) => panic!("{other:?}"),
        }
    }
    ExitCode::SUCCESS
}

fn fresh(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    folder.join("archive.sqlite3")
}

fn two_processes_lose_no_entry() {
    let file = fresh("two_processes");
    let start = |prefix: &str| {
        Command::new(std::env::current_exe().expect("own path"))
            .arg("append")
            .arg(&file)
            .args([prefix, "30"])
            .spawn()
            .expect("start a process")
    };
    // Both begin on a file that does not exist, so that they also race for its tables.
    let children = [start("a"), start("b")];
    for mut child in children {
        assert!(child.wait().expect("wait").success());
    }
    let archive = Archive::open_existing(&file).expect("open").expect("there");
    assert_eq!(archive.list(1000).expect("list").len(), 60);
}

fn a_file_that_may_not_grow_is_told_as_no_room() {
    let file = fresh("no_room");
    std::fs::create_dir_all(file.parent().expect("a folder")).expect("make the folder");
    // A size limit on files stands in for a full disk; its signal is ignored so that the write
    // itself fails, as it does on a full disk.
    let script = "trap '' XFSZ; ulimit -f 1200; exec \"$0\" append \"$1\" full 100";
    let status = Command::new("sh")
        .args(["-c", script])
        .arg(std::env::current_exe().expect("own path"))
        .arg(&file)
        .status()
        .expect("start sh");
    assert_eq!(status.code(), Some(i32::from(FULL)));
    // What was stored before is still there and whole.
    let archive = Archive::open_existing(&file).expect("open").expect("there");
    assert!(!archive.list(1000).expect("list").is_empty());
    archive.find("full-0000").expect("the first entry reads back");
}
