//! What only the archive in a file does: runs that come to be watched later, and the outbox.

mod joined;
mod outbox;

use longhaul_model::report::v1::quantity::Quantity;
use longhaul_model::report::v1::series::{Pair, Point};
use longhaul_model::report::v1::{AnyReport, Throughput};
use longhaul_store::Archive;
use longhaul_store::watched::{Planned, Reading, WatchedRun};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

const FIXTURE: &str = include_str!("../../../../fixtures/reports/slac-daresbury-window.json");

/// 2026-11-22T00:00:00Z.
const MIDNIGHT_US: i64 = 1_795_305_600_000_000;

/// An archive file of a test's own.
struct Place(PathBuf);

impl Place {
    fn fresh() -> Place {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("forwarded-{number}"));
        let _ = std::fs::remove_dir_all(&folder);
        Place(folder.join("archive.sqlite3"))
    }

    fn open(&self) -> Archive {
        Archive::open(&self.0).expect("the archive opens")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.0.parent().expect("a folder"));
    }
}

fn report(id: &str) -> Throughput {
    let mut report: Throughput = serde_json::from_str(FIXTURE).expect("a report");
    report.run.id = String::from(id);
    report
}

fn pair() -> Pair {
    Pair {
        from: "slac".to_owned(),
        to: "daresbury".to_owned(),
    }
}

/// The same as the agent hands it over: with a value, for a planned run.
fn watched(id: &str, at_us: i64) -> WatchedRun {
    let report = AnyReport::Throughput(Box::new(report(id)));
    let mut run = WatchedRun::of(&report, at_us).expect("a text");
    run.pairs = vec![pair()];
    run.readings = vec![Reading {
        pair: pair(),
        quantity: Quantity::Goodput,
        point: Point { at_us, value: 5.0 },
    }];
    run.planned_id = Some(format!("planned-{id}"));
    run
}

fn planned(id: &str) -> Planned {
    Planned {
        id: format!("planned-{id}"),
        due_us: MIDNIGHT_US,
        measurement: "light".to_owned(),
        pair: Some(pair()),
    }
}
