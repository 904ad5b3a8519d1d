//! Measures the asymmetry of a path's two directions over time, and finds its causes.
//!
//! Each run is matched with the nearest run of the other direction, so that both met the same path;
//! each run is used once. The result is the median ratio with its interval; a sign test shows
//! whether one direction is faster. The histogram uses SLAC's (forward - reverse) / (forward +
//! reverse).

use super::archived_path::ArchivedPath;
use super::asymmetry_causes;
use longhaul_analysis::scan::build_histogram;
use longhaul_analysis::stats::{median, sample_change, sign_test, sort_finite};
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::{
    AsymmetryVerdict, MatchedRuns, PathAsymmetry, SeriesPoint, TimePeriod,
};

/// The maximum number of points of each direction that are matched.
const MAX_MATCHED_POINTS: usize = 5_000;

/// Compares the directions of one path; `None` if neither has a goodput in the period.
pub fn compare_directions(
    material: &ArchivedPath,
    period: TimePeriod,
    most_apart_us: u64,
) -> Option<PathAsymmetry> {
    let [forward, reverse] = material.directions().map(|pair| {
        let mut points = material.points(&pair, PathQuantity::Goodput);
        points.retain(|point| period.contains(point.at_us) && point.value > 0.0);
        // Keeps the newest points: old ones explain little.
        points.split_off(points.len().saturating_sub(MAX_MATCHED_POINTS))
    });
    let ends = [forward.first(), reverse.first(), forward.last(), reverse.last()];
    let times = || ends.iter().flatten().map(|point| point.at_us);
    let span = TimePeriod { begin_us: times().min()?, end_us: times().max()?.saturating_add(1) };
    let matched = match_runs(&forward, &reverse, most_apart_us);
    let logs = sort_finite(matched.iter().map(|m| m.forward_by_reverse_ratio.ln()));
    let interval = sign_test::median_interval(&logs);
    let p = sign_test::sign_test_probability(&logs);
    let alone =
        |points: &[SeriesPoint]| u32::try_from(points.len() - matched.len()).unwrap_or(u32::MAX);
    let middle = median(logs.iter().copied());
    let verdict = match (p, middle) {
        (Some(p), Some(middle)) if p < sample_change::LEVEL && middle > 0.0 => {
            AsymmetryVerdict::ForwardFaster
        }
        (Some(p), Some(middle)) if p < sample_change::LEVEL && middle < 0.0 => {
            AsymmetryVerdict::ReverseFaster
        }
        (Some(_), _) => AsymmetryVerdict::NoneSeen,
        _ => AsymmetryVerdict::CannotTell,
    };
    Some(PathAsymmetry {
        pair: material.pair.clone(),
        period: Some(span),
        unmatched_run_counts: [alone(&forward), alone(&reverse)],
        median_ratio: middle.map(f64::exp),
        median_interval_ratio: interval.map(|ends| ends.map(f64::exp)),
        p_value: p,
        verdict,
        histogram: build_histogram(matched.iter().map(|pair| (pair.forward_bps, pair.reverse_bps))),
        causes: asymmetry_causes::find_asymmetry_causes(material, period, middle.map(f64::exp)),
        matched,
    })
}

/// Matches nearest neighbours first, each run once.
fn match_runs(
    forward: &[SeriesPoint],
    reverse: &[SeriesPoint],
    most_apart_us: u64,
) -> Vec<MatchedRuns> {
    let mut pairs: Vec<(u64, usize, usize)> = Vec::new();
    for (f, point) in forward.iter().enumerate() {
        let at = reverse.partition_point(|other| other.at_us < point.at_us);
        // The nearest run may already be matched; a few on either side are tried.
        let near = reverse.iter().enumerate().take(at + 3);
        for (r, other) in near.skip(at.saturating_sub(3)) {
            let apart = point.at_us.abs_diff(other.at_us);
            if apart <= most_apart_us {
                pairs.push((apart, f, r));
            }
        }
    }
    pairs.sort_unstable();
    let (mut taken, mut given) = (vec![false; forward.len()], vec![false; reverse.len()]);
    let mut found = Vec::new();
    for (_, f, r) in pairs {
        if !taken[f] && !given[r] {
            (taken[f], given[r]) = (true, true);
            found.push(build_match(forward[f], reverse[r]));
        }
    }
    found.sort_by_key(|matched| matched.at_us);
    found
}

fn build_match(forward: SeriesPoint, reverse: SeriesPoint) -> MatchedRuns {
    let (f, r) = (forward.value, reverse.value);
    MatchedRuns {
        at_us: forward.at_us,
        apart_us: reverse.at_us.saturating_sub(forward.at_us),
        forward_bps: f.round() as u64,
        reverse_bps: r.round() as u64,
        forward_by_reverse_ratio: f / r,
        asymmetry_ratio: (f - r) / (f + r),
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_archive;
    use super::*;
    use proptest::prelude::*;

    const ALL: TimePeriod = TimePeriod { begin_us: i64::MIN, end_us: i64::MAX };

    #[test]
    fn a_slower_way_back_is_told_with_its_bounds() {
        let mut sketch = test_archive::TestArchive::default();
        for hour in 0..10 {
            let wobble = 1.0 + 0.01 * (hour % 3) as f64;
            sketch.run(hour * 60, true, 100e6 * wobble);
            sketch.run(hour * 60 + 2, false, 50e6);
        }
        sketch.run(5_000, true, 90e6);
        let found = compare_directions(&sketch.material(), ALL, 600_000_000).unwrap();
        assert_eq!(found.verdict, AsymmetryVerdict::ForwardFaster);
        assert_eq!((found.matched.len(), found.unmatched_run_counts), (10, [1, 0]));
        let [low, high] = found.median_interval_ratio.unwrap();
        assert!(low >= 2.0 && high <= 2.05, "{low} {high}");
        let bin = found.histogram.iter().find(|bin| bin.cells > 0).unwrap();
        assert!((bin.from_ratio - 0.33).abs() < 1e-9, "{bin:?}");
    }

    #[test]
    fn few_runs_cannot_tell() {
        let mut sketch = test_archive::TestArchive::default();
        sketch.run(0, true, 100e6);
        sketch.run(1, false, 1e6);
        let found = compare_directions(&sketch.material(), ALL, 600_000_000).unwrap();
        assert_eq!((found.verdict, found.p_value), (AsymmetryVerdict::CannotTell, None));
        assert!((found.median_ratio.unwrap() - 100.0).abs() < 1e-6);
        let empty = test_archive::TestArchive::default();
        assert!(compare_directions(&empty.material(), ALL, 1).is_none());
    }

    proptest! {
        #[test]
        fn each_run_is_matched_once_and_none_is_too_far(
            f in proptest::collection::vec(0..1000i64, 0..40),
            r in proptest::collection::vec(0..1000i64, 0..40),
            most in 0..200u64,
        ) {
            let points = |mut times: Vec<i64>| -> Vec<SeriesPoint> {
                times.sort_unstable();
                times.into_iter().map(|at_us| SeriesPoint { at_us, value: 1e6 }).collect()
            };
            let (f, r) = (points(f), points(r));
            let pairs = match_runs(&f, &r, most);
            prop_assert!(pairs.len() <= f.len().min(r.len()));
            prop_assert!(pairs.iter().all(|p| p.apart_us.unsigned_abs() <= most));
            let rates = pairs.iter().map(|pair| (pair.forward_bps, pair.reverse_bps));
            let bins: u32 = build_histogram(rates).iter().map(|bin| bin.cells).sum();
            prop_assert_eq!(bins as usize, pairs.len());
        }
    }
}
