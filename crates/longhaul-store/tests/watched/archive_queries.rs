//! Queries of the archive, with short answers.

use crate::history_cases::{HOUR_US, MIDNIGHT_US, geneva};
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::{QuantitySeries, SeriesBucket};
use longhaul_store::Archive;
use longhaul_store::history_store::TimeRange;

pub const DAY_US: i64 = 24 * HOUR_US;

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
