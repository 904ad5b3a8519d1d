//! Two replicas, of which one is killed while results come in: nothing is lost, the other goes on,
//! and the killed one catches up.
//!
//! The servers are Debian's, of 2018: for how a cluster behaves, not for its dialect. What they
//! cannot do (retention, codecs, indices) the embedded engine is asked.

mod fleet;

use fleet::{Fleet, PASSWORD, wait_for};
use longhaul_clickhouse::{ClickHouseOptions, SqlDialect, open_history_store};
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::series::{HostPair, SeriesPoint};
use longhaul_model::report::v1::{AnyReport, ThroughputReport};
use longhaul_store::history_store::{
    AgentDelivery, IncomingRun, PlannedEntry, PlannedOutcome, PlannedRun, PlannedRunFilter,
    RunFilter, SeriesReading, TimeRange,
};
use longhaul_store::{HistoryStore, StoreError};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

const FIXTURE: &str = include_str!("../../../../fixtures/reports/slac-daresbury-window.json");

/// 2026-11-22T00:00:00Z.
const MIDNIGHT_US: i64 = 1_795_305_600_000_000;
const MINUTE_US: i64 = 60_000_000;

const BATCHES: i64 = 60;
const RUNS: i64 = 20;
/// One replica dies when this many batches are in.
const KILLED_AT: i64 = 20;

/// A batch that is not taken is said again for so long.
const STORED_WITHIN: Duration = Duration::from_secs(600);

fn pair() -> HostPair {
    HostPair { from: String::from("losangeles"), to: String::from("geneva") }
}

fn run(number: i64) -> IncomingRun {
    let mut report: ThroughputReport = serde_json::from_str(FIXTURE).expect("a report");
    report.run.id = format!("run-{number:06}");
    let at_us = MIDNIGHT_US + number * MINUTE_US;
    let mut run =
        IncomingRun::from_report(&AnyReport::Throughput(Box::new(report)), at_us).expect("text");
    run.pairs = vec![pair()];
    run.readings = vec![SeriesReading {
        pair: pair(),
        quantity: PathQuantity::Goodput,
        point: SeriesPoint { at_us, value: number as f64 },
    }];
    run.planned_id = Some(planned(number).id);
    run
}

fn planned(number: i64) -> PlannedRun {
    PlannedRun {
        id: format!("planned-{number:06}"),
        due_us: MIDNIGHT_US + number * MINUTE_US,
        measurement: String::from("bulk"),
        pair: Some(pair()),
    }
}

/// As an agent does: says it again until it is heard. Returns how often that was.
fn store(archive: &mut dyn HistoryStore, batch: i64) -> u32 {
    let numbers = batch * RUNS..(batch + 1) * RUNS;
    let done = |number: i64| PlannedEntry {
        planned: planned(number),
        outcome: Some(PlannedOutcome::Done { run_id: run(number).run.id }),
    };
    let delivery = AgentDelivery {
        planned: numbers.clone().map(done).collect(),
        runs: numbers.map(run).collect(),
        events: vec![],
    };
    let began = Instant::now();
    let mut again = 0;
    loop {
        match archive.receive(&delivery) {
            Ok(landed) => {
                assert_eq!(landed.differing, Vec::<String>::new());
                return again;
            }
            Err(error) => {
                assert!(began.elapsed() < STORED_WITHIN, "{}", told(&error));
                again += 1;
            }
        }
    }
}

fn told(error: &StoreError) -> String {
    let cause = std::error::Error::source(error).map(ToString::to_string);
    format!("{error}: {}", cause.unwrap_or_default())
}

fn connect(options: ClickHouseOptions) -> Box<dyn HistoryStore> {
    open_history_store(options).unwrap_or_else(|error| panic!("{}", told(&error)))
}

fn ids(archive: &dyn HistoryStore) -> Result<BTreeSet<String>, StoreError> {
    let filter = RunFilter { range: TimeRange::ALL, pair: None, kind: None, limit: 100_000 };
    let runs = archive.runs(&filter)?;
    Ok(runs.into_iter().map(|entry| entry.id).collect())
}

fn has_everything(archive: &dyn HistoryStore) -> Result<bool, StoreError> {
    let range = TimeRange::ALL;
    let series = archive.series(&pair(), PathQuantity::Goodput, range, 100_000)?;
    let expected: Vec<f64> = (0..BATCHES * RUNS).map(|it| it as f64).collect();
    let values: Vec<f64> = series.points.iter().map(|it| it.value).collect();
    let counts = archive.planned_counts(TimeRange::ALL)?;
    let all = (BATCHES * RUNS) as u64;
    let settled = (counts.done, counts.missed, counts.waiting) == (all, 0, 0);
    // Each table is copied for itself: a run may be there before its report is.
    for number in [0, KILLED_AT * RUNS, BATCHES * RUNS - 1] {
        if archive.report(&format!("run-{number:06}"))?.is_none() {
            return Ok(false);
        }
    }
    Ok(values == expected && settled && ids(archive)?.len() as u64 == all)
}

#[test]
fn a_killed_replica_costs_no_result_and_catches_up() {
    let mut fleet = Fleet::start();
    strangers_are_turned_away(&fleet);
    let mut archive = connect(fleet.options(&[0, 1]));
    let (landed, killed) = (Mutex::new(0), AtomicBool::new(false));
    let both = fleet.options(&[0, 1]);
    let first = fleet.options(&[0]);
    let (dying, other) = fleet.replicas.split_at_mut(1);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let in_time = || *landed.lock().expect("a count") >= KILLED_AT;
            wait_for("the first results", in_time);
            dying[0].kill();
            killed.store(true, SeqCst);
        });
        for batch in 0..BATCHES {
            store(archive.as_mut(), batch);
            *landed.lock().expect("a count") += 1;
            if batch == KILLED_AT + 2 {
                wait_for("the kill", || killed.load(SeqCst));
                // In the middle of it, whichever replica answers: somebody reads.
                assert!(!ids(archive.as_ref()).expect("an answer").is_empty());
            }
        }
    });
    drop(archive);
    // What the dead one alone had is away for as long as it is; the rest is not.
    let mut alone = connect(both.clone());
    assert!(
        ids(alone.as_ref()).expect("an answer").len() as i64 >= (BATCHES - KILLED_AT - 3) * RUNS
    );
    settles_as_ever(alone.as_mut());
    assert_eq!(other.len(), 1);
    dying[0].start();
    let back = connect(first);
    wait_for("what was missed by the killed one", || {
        has_everything(back.as_ref()).unwrap_or(false)
    });
    wait_for("what the killed one had alone", || has_everything(alone.as_ref()).unwrap_or(false));
    let grid = back.grid(PathQuantity::Goodput).expect("the grid");
    assert_eq!(grid.len(), 1);
    let newest = grid[0].newest.map(|it| it.value);
    assert_eq!(newest, Some((BATCHES * RUNS - 1) as f64));
}

/// A wrong password and a server that is too old are told as what they are.
fn strangers_are_turned_away(fleet: &Fleet) {
    let wrong =
        ClickHouseOptions { password: Some(String::from("battery-staple")), ..fleet.options(&[0]) };
    let Err(error) = open_history_store(wrong) else { panic!("a wrong password is taken") };
    let text = format!("{} {:?}", told(&error), error);
    assert!(!text.contains("battery-staple") && !text.contains(PASSWORD), "{text}");
    assert!(error.hint().is_some_and(|it| it.contains("password_file")), "{text}");
    let modern = ClickHouseOptions { dialect: SqlDialect::Current, ..fleet.options(&[0]) };
    let Err(error) = open_history_store(modern) else { panic!("a server of 2018 is taken") };
    let text = told(&error);
    assert!(text.contains("18.16") && text.contains("24.8"), "{text}");
}

/// A done run stays done, whatever is said of it with one replica down.
fn settles_as_ever(archive: &mut dyn HistoryStore) {
    let last = planned(BATCHES * RUNS - 1).id;
    let reason = String::from("late");
    archive.record_outcome(&last, &PlannedOutcome::Missed { reason }).expect("settled");
    let filter = PlannedRunFilter {
        range: TimeRange {
            begin_us: MIDNIGHT_US + (BATCHES * RUNS - 1) * MINUTE_US,
            end_us: i64::MAX,
        },
        pair: Some(pair()),
        waiting: false,
        limit: 10,
    };
    let rows = archive.planned(&filter).expect("an answer");
    assert_eq!(rows.len(), 1);
    assert!(matches!(rows[0].outcome, Some(PlannedOutcome::Done { .. })));
}
