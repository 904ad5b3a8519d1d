//! Two replicas, of which one is killed while results come in: nothing is lost, the other goes on,
//! and the killed one catches up. Two shards: their hours are those of the values, and retention
//! deletes on both.
//!
//! The servers are Debian's, of 2018: for how a cluster behaves, not for its dialect. What they
//! cannot do (`DELETE FROM`, codecs, indices) the embedded engine is asked.

mod fleet;
mod two_shards;

use fleet::{Fleet, PASSWORD, ask, wait_for};
use longhaul_clickhouse::{ClickHouseOptions, ClickHouseSink};
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::{AnyReport, HostPair, SeriesPoint, ThroughputReport};
use longhaul_store::StoreError;
use longhaul_store::history_store::{
    AgentDelivery, IncomingRun, PlannedOutcome, PlannedRun, SeriesReading,
};
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

/// The runs that retention deletes while the replica is dead.
const DELETED: i64 = RUNS;

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
    run
}

fn planned(number: i64) -> PlannedRun {
    PlannedRun {
        id: format!("planned-{number:06}"),
        due_us: MIDNIGHT_US + number * MINUTE_US,
        measurement: String::from("bulk"),
        pair: Some(pair()),
        outcome: None,
    }
}

/// As an agent does: says it again until it is heard. Returns how often that was.
fn store(archive: &mut ClickHouseSink, batch: i64) -> u32 {
    let numbers = batch * RUNS..(batch + 1) * RUNS;
    let done = |number: i64| PlannedRun {
        outcome: Some(PlannedOutcome::Done { run_id: run(number).run.id }),
        ..planned(number)
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
            Ok(()) => return again,
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

fn connect(options: ClickHouseOptions) -> ClickHouseSink {
    ClickHouseSink::open(options).unwrap_or_else(|error| panic!("{}", told(&error)))
}

/// The number of listed runs; `None` while nobody answers.
fn count_runs(options: &ClickHouseOptions) -> Option<i64> {
    ask(options, "SELECT uniqExact(id) FROM run WHERE sender = ''")?.parse().ok()
}

fn has_all_but_deleted(options: &ClickHouseOptions) -> bool {
    let all = BATCHES * RUNS - DELETED;
    let values: Vec<String> = (DELETED..BATCHES * RUNS).map(|it| it.to_string()).collect();
    let found = ask(options, "SELECT value FROM value FINAL ORDER BY at_us");
    let settled = ask(options, "SELECT state, count() FROM planned FINAL GROUP BY state");
    // Each table is copied for itself: a run may be there before its report is.
    let reports = ask(options, "SELECT uniqExact(id) FROM report");
    found == Some(values.join("\n"))
        && settled == Some(format!("2\t{all}"))
        && reports == Some(all.to_string())
        && count_runs(options) == Some(all)
}

#[test]
fn a_killed_replica_costs_no_result_and_catches_up() {
    let mut fleet = Fleet::start(1);
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
            store(&mut archive, batch);
            *landed.lock().expect("a count") += 1;
            if batch == KILLED_AT + 2 {
                wait_for("the kill", || killed.load(SeqCst));
                // In the middle of it, whichever replica answers: somebody reads.
                assert!(count_runs(&both).is_some_and(|count| count > 0));
            }
        }
    });
    drop(archive);
    // What the dead one alone had is away for as long as it is; the rest is not.
    let mut alone = connect(both.clone());
    let count = count_runs(&both).expect("an answer");
    assert!(count >= (BATCHES - KILLED_AT - 3) * RUNS, "{count}");
    settles_as_ever(&mut alone, &both);
    assert_eq!(other.len(), 1);
    alone.delete_before(MIDNIGHT_US + DELETED * MINUTE_US).expect("deleted without the dead one");
    dying[0].start();
    wait_for("what was missed by the killed one", || has_all_but_deleted(&first));
    let newest = "SELECT argMaxMerge(newest_value) FROM newest";
    assert_eq!(ask(&first, newest), Some((BATCHES * RUNS - 1).to_string()));
}

/// A wrong password and a server that is too old are told as what they are.
fn strangers_are_turned_away(fleet: &Fleet) {
    let wrong =
        ClickHouseOptions { password: Some(String::from("battery-staple")), ..fleet.options(&[0]) };
    let Err(error) = ClickHouseSink::open(wrong) else { panic!("a wrong password is taken") };
    let text = format!("{} {:?}", told(&error), error);
    assert!(!text.contains("battery-staple") && !text.contains(PASSWORD), "{text}");
    assert!(error.hint().is_some_and(|it| it.contains("password_file")), "{text}");
    let modern = ClickHouseOptions { adapt_sql: None, ..fleet.options(&[0]) };
    let Err(error) = ClickHouseSink::open(modern) else { panic!("a server of 2018 is taken") };
    let text = told(&error);
    assert!(text.contains("18.16") && text.contains("24.8"), "{text}");
}

/// A done run stays done, whatever is said of it with one replica down.
fn settles_as_ever(archive: &mut ClickHouseSink, options: &ClickHouseOptions) {
    let last = planned(BATCHES * RUNS - 1);
    let sql = format!("SELECT state FROM planned FINAL WHERE id = '{}'", last.id);
    let reason = String::from("late");
    let late =
        PlannedRun { outcome: Some(PlannedOutcome::Missed { reason, detail: None }), ..last };
    let delivery = AgentDelivery { planned: vec![late], ..AgentDelivery::default() };
    archive.receive(&delivery).expect("settled");
    assert_eq!(ask(options, &sql).as_deref(), Some("2"));
}
