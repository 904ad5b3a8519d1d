//! Reads as many values of a series as the change detector needs.

use longhaul_analysis::detect::Options;
use longhaul_analysis::detect::sample::{self, samples};
use longhaul_model::report::v1::quantity::Quantity;
use longhaul_model::report::v1::series::{Pair, Point, Series};
use longhaul_store::watched::{Range, limits};
use longhaul_store::{StoreError, Watched};

/// The ranges that are tried, in slots: a little more than a week, two months, more than a year.
const SPANS_SLOTS: [i64; 3] = [1_100, 10_000, 60_000];
/// The number of samples that is enough for the detector.
const ENOUGH: usize = sample::MOST * 9 / 10;

/// Returns the values of the shortest range with enough samples, or of the longest range.
pub fn points(
    archive: &dyn Watched,
    (pair, quantity): (&Pair, Quantity),
    options: &Options,
    now_us: i64,
) -> Result<Vec<Point>, StoreError> {
    let slot_us = i64::try_from(options.slot_us).unwrap_or(i64::MAX);
    let mut points = Vec::new();
    for slots in SPANS_SLOTS {
        let begin_us = now_us.saturating_sub(slots.saturating_mul(slot_us));
        let range = Range {
            begin_us,
            end_us: i64::MAX,
        };
        let found = archive.series(pair, quantity, range, limits::SERIES_MAX)?;
        points = of(found);
        if samples(&points, options.slot_us).len() >= ENOUGH {
            break;
        }
    }
    Ok(points)
}

/// Uses the medians of the buckets if the archive has aggregated the values.
fn of(series: Series) -> Vec<Point> {
    let middle = |bucket: &longhaul_model::report::v1::series::Bucket| Point {
        at_us: bucket.at_us + i64::try_from(bucket.duration_us / 2).unwrap_or(0),
        value: bucket.median,
    };
    let mut points: Vec<Point> = series.buckets.iter().map(middle).collect();
    points.extend(series.points);
    points
}
