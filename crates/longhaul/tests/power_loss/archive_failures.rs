//! The archive: results that were shown survive.

use crate::disk_log::DiskLog;
use crate::recording_file_system::RecordingFileSystem;
use crate::{CUTS, FILL_ARCHIVE, empty_folder};
use longhaul_model::report::v1::{AnyReport, ThroughputReport};
use longhaul_model::splitmix::SplitMix64;
use longhaul_store::Archive;
use longhaul_store::history_store::IncomingRun;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

const FIXTURE: &str = include_str!("../../../../fixtures/reports/slac-daresbury-window.json");
/// The archive below the root of the disk, in folders that the program creates.
const FILE: &str = "share/longhaul/archive.sqlite3";
/// Openings of the archive by the program under test.
const OPENINGS: u64 = 12;

fn run(number: u64) -> ThroughputReport {
    let mut report: ThroughputReport = serde_json::from_str(FIXTURE).expect("a report");
    report.run.id = format!("run-{number}");
    report
}

fn incoming(number: u64) -> IncomingRun {
    let report = AnyReport::Throughput(Box::new(run(number)));
    IncomingRun::from_report(&report, number as i64).expect("a run")
}

/// Stores runs one by one and in batches, prints the number of those that are stored, and waits for
/// a line. Of the openings, some leave their log to the next one.
pub fn fill_archive(file: &Path) {
    let mut next = 0;
    let mut open = Vec::new();
    for opening in 0..OPENINGS {
        let mut archive = Archive::open(file).expect("an archive");
        for batch in 0..4 {
            let first = next;
            next += 1 + batch * (opening % 3);
            if batch == 0 {
                archive.append(&run(first)).expect("append");
            } else {
                let runs: Vec<IncomingRun> = (first..next).map(incoming).collect();
                archive.append_runs(&runs).expect("append");
            }
            println!("{next}");
            std::io::stdin().read_line(&mut String::new()).expect("a line");
        }
        if opening % 5 == 3 {
            archive.compact().expect("compact");
        }
        open.push(archive);
        // With the last connection, the log goes into the file and is removed.
        if opening % 3 == 2 {
            open.clear();
        }
    }
}

/// Runs [`fill_archive`] in a process of its own: one that maps files of a disk that it provides
/// itself would wait for itself.
fn record_filling(file: &Path, disk: &RecordingFileSystem) {
    let mut child = Command::new(std::env::current_exe().expect("own path"))
        .arg(FILL_ARCHIVE)
        .arg(file)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("start the program");
    let mut answers = child.stdin.take().expect("a pipe");
    for line in BufReader::new(child.stdout.take().expect("a pipe")).lines() {
        disk.record_shown(line.expect("a line").parse().expect("a number"));
        writeln!(answers).expect("it waits");
    }
    assert!(child.wait().expect("its end").success());
}

pub fn results_that_were_shown_survive_power_failures() {
    let mounted = empty_folder("archive");
    let disk = RecordingFileSystem::new();
    let session = disk.mount(&mounted).expect("mount");
    record_filling(&mounted.join(FILE), &disk);
    session.umount_and_join().expect("unmount");
    let log = disk.take_log();
    let mut random = SplitMix64::new(1);
    for cut in 0..CUTS {
        let count = random.below(log.operations.len() + 1);
        check_archive(&log, count, cut, &mut random);
    }
    println!("attack: tried {CUTS}");
}

fn check_archive(log: &DiskLog, count: usize, cut: usize, random: &mut SplitMix64) {
    let folder = empty_folder("archive-after");
    log.fail_power_after(count, random).write_to(&folder).expect("written");
    let context = format!("cut {cut}, after {count} of {} operations", log.operations.len());
    let mut archive = Archive::open(&folder.join(FILE)).expect(&context);
    let check = archive.check().expect(&context);
    assert!(check.problems.is_empty(), "{context}: {:?}", check.problems);
    for number in 0..log.last_shown(count).unwrap_or(0) {
        let expected = AnyReport::Throughput(Box::new(run(number)));
        let found = archive.report(&format!("run-{number}")).expect(&context);
        assert!(found == Some(expected), "{context}: run {number} is lost");
    }
    archive.append(&run(u64::MAX)).expect(&context);
}
