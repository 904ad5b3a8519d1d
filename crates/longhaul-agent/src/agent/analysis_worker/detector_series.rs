//! Reads as many values of a series as the change detector needs.

use longhaul_history::change_detection::DetectionOptions;
use longhaul_history::change_detection::series_sample::{self, build_samples};
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::series::{HostPair, QuantitySeries, SeriesPoint};
use longhaul_store::history_store::{TimeRange, ingest_limits};
use longhaul_store::{Archive, StoreError};

/// The ranges that are tried, in slots: a little more than a week, two months, more than a year.
const RANGES_SLOTS: [i64; 3] = [1_100, 10_000, 60_000];
/// The number of samples that is enough for the detector.
const ENOUGH_SAMPLES: usize = series_sample::MAX_SERIES_SAMPLES * 9 / 10;

/// Returns the values of the shortest range with enough samples, or of the longest range.
pub fn read_detector_points(
    archive: &Archive,
    pair: &HostPair,
    quantity: PathQuantity,
    options: &DetectionOptions,
    now_us: i64,
) -> Result<Vec<SeriesPoint>, StoreError> {
    let slot_us = i64::try_from(options.slot_us).unwrap_or(i64::MAX);
    let mut points = Vec::new();
    for slots in RANGES_SLOTS {
        let begin_us = now_us.saturating_sub(slots.saturating_mul(slot_us));
        let range = TimeRange { begin_us, end_us: i64::MAX };
        let found = archive.series(pair, quantity, range, ingest_limits::MAX_SERIES_POINTS)?;
        points = flatten_series(found);
        if build_samples(&points, options.slot_us).len() >= ENOUGH_SAMPLES {
            break;
        }
    }
    Ok(points)
}

/// Uses the medians of the buckets if the archive has aggregated the values.
pub fn flatten_series(series: QuantitySeries) -> Vec<SeriesPoint> {
    let middle = |bucket: &longhaul_model::report::v1::series::SeriesBucket| SeriesPoint {
        at_us: bucket.at_us + i64::try_from(bucket.duration_us / 2).unwrap_or(0),
        value: bucket.median,
    };
    let mut points: Vec<SeriesPoint> = series.buckets.iter().map(middle).collect();
    points.extend(series.points);
    points
}
