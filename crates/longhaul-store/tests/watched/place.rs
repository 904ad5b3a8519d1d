//! What the cases are made of.

use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::series::{HostPair, QuantitySeries, SeriesBucket, SeriesPoint};
use longhaul_model::report::v1::{AnyReport, ThroughputReport};
use longhaul_store::Archive;
use longhaul_store::history_store::{IncomingRun, SeriesReading, TimeRange};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// An archive of a test's own, empty at first.
pub struct Place(PathBuf);

impl Place {
    pub fn new() -> Place {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("watched-{number}"));
        let _ = std::fs::remove_dir_all(&folder);
        Place(folder.join("archive.sqlite3"))
    }

    /// A connection to it; each one sees what the others have written.
    pub fn open(&self) -> Archive {
        Archive::open(&self.0).expect("the archive opens")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.0.parent().expect("a folder"));
    }
}

pub const HOUR_US: i64 = 3_600_000_000;
pub const DAY_US: i64 = 24 * HOUR_US;

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

pub fn goodput(archive: &Archive, range: TimeRange, at_most: u32) -> QuantitySeries {
    archive.series(&geneva(), PathQuantity::Goodput, range, at_most).expect("a series")
}

/// All values as they are.
pub fn points(archive: &Archive) -> Vec<(i64, f64)> {
    let series = goodput(archive, TimeRange::ALL, 100_000);
    assert_eq!(series.buckets, []);
    let values = series.points.iter();
    values.map(|point| (point.at_us, point.value)).collect()
}

/// The hour that begins so many hours after [`MIDNIGHT_US`], as one bucket.
pub fn hour(after: i64, samples: u32, [min, median, max]: [f64; 3]) -> SeriesBucket {
    SeriesBucket {
        at_us: MIDNIGHT_US + after * HOUR_US,
        duration_us: HOUR_US as u64,
        samples,
        min,
        median,
        max,
    }
}
