//! Cleans a series and thins it to samples.
//!
//! Keeps valid values in time order; if they come faster than the slot, takes the median of each
//! slot.
//! Source: our own (docs/methods/detection.md). Units: those of the values, us.
//! Error: a change is located to one slot at best.
//! Wrong when: a clock was set back: then values with wrong times come first.

use longhaul_analysis::stats::quantile::{median, quantile};
use longhaul_model::report::v1::series::SeriesPoint;

/// The maximum value; sums of squares below it are finite.
const MAX_VALUE: f64 = 1e100;

/// The maximum number of samples: a week of ten-minute medians, which the season needs.
pub const MAX_SERIES_SAMPLES: usize = 1008;
/// Values spaced slightly closer than the slot still count as one per slot.
const MIN_SPACING_RATIO: f64 = 0.9;

/// One value, or the median of the values of a slot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SeriesSample {
    /// The time of the first value in it.
    pub first_us: i64,
    /// The time of the last value in it.
    pub last_us: i64,
    pub value: f64,
}

/// Returns the newest samples in time order.
pub fn build_samples(points: &[SeriesPoint], slot_us: u64) -> Vec<SeriesSample> {
    let sound = clean_points(points);
    let all: Vec<SeriesSample> = match median_spacing_us(sound.iter().map(|p| p.at_us)) {
        Some(spacing) if spacing < MIN_SPACING_RATIO * slot_us as f64 => {
            group_by_slot(&sound, slot_us as i64)
        }
        _ => sound.iter().map(|p| summarize_slot(std::slice::from_ref(p))).collect(),
    };
    let first = all.len().saturating_sub(MAX_SERIES_SAMPLES);
    all[first..].to_vec()
}

/// Returns the median interval between times in us; absent for fewer than two.
pub fn median_spacing_us(times: impl Iterator<Item = i64> + Clone) -> Option<f64> {
    let gaps = times.clone().zip(times.skip(1)).map(|(a, b)| b.abs_diff(a));
    median(gaps.map(|gap| gap as f64))
}

fn clean_points(points: &[SeriesPoint]) -> Vec<SeriesPoint> {
    let mut sound: Vec<SeriesPoint> =
        points.iter().copied().filter(|p| (0.0..MAX_VALUE).contains(&p.value)).collect();
    sound.sort_by(|a, b| a.at_us.cmp(&b.at_us).then(a.value.total_cmp(&b.value)));
    sound.dedup_by_key(|p| p.at_us);
    sound
}

/// Groups by slot. Slots are counted from 1970, so that they do not move as the series grows.
fn group_by_slot(points: &[SeriesPoint], slot_us: i64) -> Vec<SeriesSample> {
    let same = |a: &SeriesPoint, b: &SeriesPoint| {
        a.at_us.div_euclid(slot_us) == b.at_us.div_euclid(slot_us)
    };
    points.chunk_by(same).map(summarize_slot).collect()
}

fn summarize_slot(points: &[SeriesPoint]) -> SeriesSample {
    let mut values: Vec<f64> = points.iter().map(|p| p.value).collect();
    values.sort_by(f64::total_cmp);
    SeriesSample {
        first_us: points[0].at_us,
        last_us: points[points.len() - 1].at_us,
        value: quantile(&values, 0.5).unwrap_or(0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: i64 = 60_000_000;

    fn point(at_us: i64, value: f64) -> SeriesPoint {
        SeriesPoint { at_us, value }
    }

    #[test]
    fn what_is_no_value_is_left_out_and_order_does_not_matter() {
        let points = [
            point(90 * MINUTE, 3.0),
            point(0, 1.0),
            point(30 * MINUTE, f64::NAN),
            point(60 * MINUTE, 2.0),
            point(70 * MINUTE, -1.0),
            point(60 * MINUTE, 2.0),
            point(80 * MINUTE, f64::INFINITY),
        ];
        let values: Vec<f64> =
            build_samples(&points, 600_000_000).iter().map(|it| it.value).collect();
        assert_eq!(values, [1.0, 2.0, 3.0]);
    }

    #[test]
    fn values_each_minute_become_ten_minute_medians() {
        let points: Vec<SeriesPoint> =
            (0..60).map(|i| point(i * MINUTE, (i % 10) as f64)).collect();
        let found = build_samples(&points, 600_000_000);
        assert_eq!(found.len(), 6);
        assert_eq!(found[1].first_us, 10 * MINUTE);
        assert_eq!(found[1].last_us, 19 * MINUTE);
        assert!((found[1].value - 4.5).abs() < 1e-9);
    }

    #[test]
    fn only_the_newest_are_kept_and_no_time_is_too_far() {
        let hour = 60 * MINUTE;
        let many: Vec<SeriesPoint> = (0..3000).map(|i| point(i * hour, 1.0)).collect();
        let found = build_samples(&many, 600_000_000);
        assert_eq!(found.len(), MAX_SERIES_SAMPLES);
        assert_eq!(found[MAX_SERIES_SAMPLES - 1].last_us, 2999 * hour);
        let far = [point(i64::MIN, 1.0), point(0, 1.0), point(i64::MAX, 1.0)];
        assert_eq!(build_samples(&far, 600_000_000).len(), 3);
    }
}
