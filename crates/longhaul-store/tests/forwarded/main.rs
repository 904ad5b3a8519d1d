//! What only the archive in a file does: runs that come to be watched later, and the outbox.

mod joined;
mod outbox;
#[path = "../temporary_archive/mod.rs"]
mod temporary_archive;

use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::{AnyReport, HostPair, SeriesPoint, ThroughputReport};
use longhaul_store::history_store::{IncomingRun, PlannedRun, SeriesReading};

const FIXTURE: &str = include_str!("../../../../fixtures/reports/slac-daresbury-window.json");

/// 2026-11-22T00:00:00Z.
const MIDNIGHT_US: i64 = 1_795_305_600_000_000;

fn report(id: &str) -> ThroughputReport {
    let mut report: ThroughputReport = serde_json::from_str(FIXTURE).expect("a report");
    report.run.id = String::from(id);
    report
}

fn pair() -> HostPair {
    HostPair { from: "slac".to_owned(), to: "daresbury".to_owned() }
}

/// The same as the agent hands it over: with a value, for a planned run.
fn watched(id: &str, at_us: i64) -> IncomingRun {
    let report = AnyReport::Throughput(Box::new(report(id)));
    let mut run = IncomingRun::from_report(&report, at_us).expect("a text");
    run.pairs = vec![pair()];
    run.readings = vec![SeriesReading {
        pair: pair(),
        quantity: PathQuantity::Goodput,
        point: SeriesPoint { at_us, value: 5.0 },
    }];
    run.planned_id = Some(format!("planned-{id}"));
    run
}

fn planned(id: &str) -> PlannedRun {
    PlannedRun {
        id: format!("planned-{id}"),
        due_us: MIDNIGHT_US,
        measurement: "light".to_owned(),
        pair: Some(pair()),
        outcome: None,
    }
}
