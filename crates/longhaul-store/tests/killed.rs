//! An archive whose writer is killed again and again, in the middle of whatever it does.
//!
//! Has its own `main`, because it starts itself again as that writer: with the arguments
//! `write FILE FIRST` it stores batch after batch from number FIRST on, says each number when it is
//! stored, and closes old hours now and then. It never ends by itself.

use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::{AnyReport, HostPair, PathReport, SeriesPoint};
use longhaul_store::Archive;
use longhaul_store::history_store::{
    self, IncomingRun, PlannedRun, RetentionPolicy, RunFilter, SeriesReading, TimeRange,
};
use longhaul_store::sqlite::outbox::MAIN_DESTINATION;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

const FIXTURE: &str = include_str!("../../../fixtures/reports/path-balanced-v6.json");
const KILLS: u64 = 50;
const KEEP: RetentionPolicy =
    RetentionPolicy { runs: Duration::from_secs(3600), hours: Duration::MAX };

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, verb, file, first] = &arguments[..]
        && verb == "write"
    {
        write_for_ever(Path::new(file), first.parse().expect("a number"));
    }
    killed_writers_lose_nothing_that_they_said();
    println!("archive and killed writers: 1 passed");
    ExitCode::SUCCESS
}

/// Batches differ in size, so that a kill finds them at different points.
fn runs_of(batch: u64) -> u64 {
    1 + batch * 37 % 60
}

fn pair() -> HostPair {
    HostPair { from: "a".to_owned(), to: "b".to_owned() }
}

/// Batch after batch, an hour of values in about three of them.
fn batch(number: u64) -> Vec<IncomingRun> {
    let mut report: PathReport = serde_json::from_str(FIXTURE).expect("a report");
    let run = |place: u64| {
        let at_us = (number * 60 + place) as i64 * 20_000_000;
        report.run.id = format!("run-{number}-{place}");
        let mut run = IncomingRun::from_report(&AnyReport::Path(Box::new(report.clone())), at_us)
            .expect("a report has a text");
        run.planned_id = Some(format!("planned-{number}-{place}"));
        run.readings = vec![SeriesReading {
            pair: pair(),
            quantity: PathQuantity::RttFloor,
            point: SeriesPoint { at_us, value: place as f64 },
        }];
        run
    };
    (0..runs_of(number)).map(run).collect()
}

fn write_for_ever(file: &Path, first: u64) -> ! {
    let mut archive = Archive::open(file).expect("open");
    archive.set_destinations(&[MAIN_DESTINATION]).expect("destinations");
    let mut out = std::io::stdout();
    for number in first.. {
        let runs = batch(number);
        let planned: Vec<PlannedRun> = runs
            .iter()
            .map(|run| PlannedRun {
                id: run.planned_id.clone().expect("planned"),
                due_us: run.at_us,
                measurement: "light".to_owned(),
                pair: Some(pair()),
                outcome: None,
            })
            .collect();
        archive.add_planned(&planned).expect("plan");
        archive.append_runs(&runs).expect("append");
        writeln!(out, "{number}").and_then(|()| out.flush()).expect("say so");
        if number % 3 == 0 {
            archive.retain(runs[0].at_us, &KEEP).expect("retain");
        }
    }
    unreachable!("the numbers do not end")
}

/// Starts a writer and kills it when it has said `more` batches; the first batch that was not said.
fn kill_after(file: &Path, first: u64, more: u64) -> u64 {
    let mut writer = Command::new(std::env::current_exe().expect("own path"))
        .arg("write")
        .arg(file)
        .arg(first.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("start a writer");
    let mut said = BufReader::new(writer.stdout.take().expect("a pipe")).lines();
    for _ in 0..more {
        said.next().expect("it goes on").expect("a line");
    }
    writer.kill().expect("kill");
    writer.wait().expect("wait");
    // What it said between the last line that was waited for and its end counts as well.
    first + more + said.count() as u64
}

fn killed_writers_lose_nothing_that_they_said() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("killed");
    let _ = std::fs::remove_dir_all(&folder);
    let file = folder.join("archive.sqlite3");
    let mut next = 0;
    for kill in 0..KILLS {
        next = kill_after(&file, next, kill % 4);
        if next > 0 {
            holds_batches_up_to(&file, next);
        }
    }
    assert!(next > KILLS, "the writers got somewhere: {next}");
    println!("attack: tried {KILLS}");
    std::fs::remove_dir_all(folder).expect("remove the folder");
}

/// Every batch before `next` is there, the one that was cut off is there whole or not at all, and
/// nothing is there twice.
fn holds_batches_up_to(file: &Path, next: u64) {
    let said: u64 = (0..next).map(runs_of).sum();
    let with_one_more = said + runs_of(next);
    let archive = Archive::open_existing(file).expect("open").expect("there");
    let filter = RunFilter { pair: Some(pair()), ..RunFilter::newest(u32::MAX) };
    let runs = archive.runs(&filter).expect("runs").len() as u64;
    assert!([said, with_one_more].contains(&runs), "{said}: {runs}");
    let counts = archive.planned_counts(TimeRange::ALL).expect("counts");
    let to_send = archive.backlog().expect("outbox").items;
    assert_eq!(to_send, runs + counts.planned, "what is stored is in the outbox");
    assert_eq!(counts.done, runs, "what is stored is settled");
    let series =
        archive.series(&pair(), PathQuantity::RttFloor, TimeRange::ALL, 100_000).expect("series");
    let hours: u64 = series.buckets.iter().map(|it| u64::from(it.samples)).sum();
    assert_eq!(hours + series.points.len() as u64, runs, "each run has its value");
    let hour = history_store::HOUR_US;
    let closed = series.buckets.last().map_or(0, |it| it.at_us + hour);
    assert!(series.points.iter().all(|point| point.at_us >= closed));
    let database = rusqlite::Connection::open(file).expect("open");
    let sound: String =
        database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("check");
    assert_eq!(sound, "ok");
}
