//! Runs and events that the tests of archives and of the shared database store.

use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::{
    AnyReport, ChangeEvent, EventState, HostPair, QuantityLevel, SeriesPoint, ThroughputReport,
};
use longhaul_store::history_store::{IncomingRun, SeriesReading};

pub const HOUR_US: i64 = 3_600_000_000;

/// 2026-11-22T00:00:00Z, the start of an hour.
pub const MIDNIGHT_US: i64 = 1_795_305_600_000_000;

const FIXTURE: &str = include_str!("../../../../fixtures/reports/slac-daresbury-window.json");

pub fn pair(from: &str, to: &str) -> HostPair {
    HostPair { from: from.to_owned(), to: to.to_owned() }
}

pub fn geneva() -> HostPair {
    pair("losangeles", "geneva")
}

/// A run of this id with one value of goodput.
pub fn run(id: &str, at_us: i64, value: f64) -> IncomingRun {
    let mut report: ThroughputReport = serde_json::from_str(FIXTURE).expect("a report");
    report.run.id = String::from(id);
    let mut run =
        IncomingRun::from_report(&AnyReport::Throughput(Box::new(report)), at_us).expect("text");
    run.pairs = vec![geneva()];
    run.readings = vec![SeriesReading {
        pair: geneva(),
        quantity: PathQuantity::Goodput,
        point: SeriesPoint { at_us, value },
    }];
    run
}

/// One run for each value; ids are of the times.
pub fn runs(values: &[(i64, f64)]) -> Vec<IncomingRun> {
    values.iter().map(|&(at_us, value)| run(&format!("run-{at_us}"), at_us, value)).collect()
}

pub fn event(id: &str, at_us: i64) -> ChangeEvent {
    let level = |median| QuantityLevel { median, deviation: 0.1, samples: 9 };
    ChangeEvent {
        id: id.to_owned(),
        pair: geneva(),
        quantity: PathQuantity::Goodput,
        state: EventState::Suspected,
        between_us: [at_us, at_us + HOUR_US],
        before: level(2.0),
        after: level(1.0),
        change_ratio: Some(0.5),
        score: 1.5,
        autocorrelation: 0.25,
        announced_at_us: at_us + HOUR_US,
        recovered_by: None,
        causes: vec![],
        unchanged: vec!["the route".to_owned()],
        scope: None,
        follow_ups: vec![],
        shared: None,
        part_of: None,
    }
}
