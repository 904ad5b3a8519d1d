//! What is always true of the changes found, and the cases that started it all.

mod followed;
#[path = "../../tests/detection/synthetic_series.rs"]
mod synthetic_series;

use super::{DetectionOptions, LevelChange, find_level_changes};
use longhaul_model::report::v1::SeriesPoint;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::splitmix::SplitMix64;
use proptest::prelude::*;
use synthetic_series::{CADENCES, draw_series_set};

const HOUR_US: i64 = 3_600_000_000;

/// Hourly values: each level for so many of them, with even noise of so much.
fn series(levels: &[(f64, usize)], noise: f64, seed: u64) -> Vec<SeriesPoint> {
    let mut rng = SplitMix64::new(seed);
    let values = levels.iter().flat_map(|&(level, count)| vec![level; count]);
    let hours = values.zip(0i64..).map(|(value, hour)| SeriesPoint {
        at_us: hour * HOUR_US,
        value: value * (noise * rng.normal()).exp(),
    });
    hours.collect()
}

fn found(points: &[SeriesPoint]) -> Vec<LevelChange> {
    find_level_changes(points, PathQuantity::Goodput, &DetectionOptions::default())
}

fn places(changes: &[LevelChange]) -> Vec<usize> {
    changes.iter().map(|change| change.sample).collect()
}

#[test]
fn the_three_steps_of_june_2003_are_found_with_their_ratios() {
    for (before, after) in [(250e6, 150e6), (125e6, 60e6), (200e6, 280e6)] {
        let changes = found(&series(&[(before, 60), (after, 40)], 0.08, 3));
        assert_eq!(changes.len(), 1, "{before} to {after}: {changes:?}");
        let change = &changes[0];
        assert!(change.sample.abs_diff(60) <= 1, "{change:?}");
        assert_eq!(change.between_us[1], change.sample as i64 * HOUR_US);
        assert_eq!(change.between_us[1] - change.between_us[0], HOUR_US);
        let ratio = change.ratio().unwrap();
        assert!((ratio / (after / before) - 1.0).abs() < 0.06, "{ratio}");
        assert!(change.score >= 1.0);
        assert!((change.before.median / before - 1.0).abs() < 0.05);
    }
}

#[test]
fn levels_of_other_quantities_are_found_on_their_own_scales() {
    let cases = [
        // 150 to 160 ms of round trip, 12 to 13 hops, no loss to 2 %.
        (PathQuantity::RttFloor, 150_000.0, 160_000.0, 0.002),
        (PathQuantity::Hops, 12.0, 13.0, 0.0),
        (PathQuantity::Loss, 0.0, 0.02, 0.2),
    ];
    for (quantity, before, after, noise) in cases {
        let points = series(&[(before, 40), (after, 40)], noise, 1);
        let changes = find_level_changes(&points, quantity, &DetectionOptions::default());
        assert_eq!(places(&changes), [40], "{quantity:?}");
    }
}

#[test]
fn what_is_too_small_too_short_or_too_little_is_no_change() {
    let small = series(&[(100e6, 80), (95e6, 80)], 0.01, 1);
    assert_eq!(found(&small), []);
    let short = series(&[(100e6, 40), (20e6, 2), (100e6, 40)], 0.05, 1);
    assert_eq!(found(&short), []);
    let constant = series(&[(100e6, 200)], 0.0, 1);
    assert_eq!(found(&constant), []);
    assert_eq!(found(&[]), []);
    assert_eq!(found(&small[..1]), []);
}

#[test]
fn busy_afternoons_are_no_changes() {
    for case in draw_series_set(&CADENCES[2], 8, 11).iter().step_by(4) {
        assert!(case.changes_us.is_empty());
        let changes = found(&case.points);
        assert_eq!(places(&changes), Vec::<usize>::new());
    }
}

#[test]
fn most_steps_of_noisy_series_are_found_and_little_else() {
    for cadence in &CADENCES[..2] {
        let (mut marks, mut hits, mut others) = (0, 0, 0);
        for case in draw_series_set(cadence, 16, 31) {
            let mut left: Vec<i64> =
                found(&case.points).iter().map(|change| change.between_us[1]).collect();
            marks += case.changes_us.len();
            let reach = cadence.spacing_us * cadence.tolerance as i64;
            for mark in &case.changes_us {
                if let Some(i) = left.iter().position(|at| (at - mark).abs() <= reach) {
                    left.remove(i);
                    hits += 1;
                }
            }
            others += left.len();
        }
        let title = cadence.title;
        assert!(hits * 100 >= marks * 85, "{title}: {hits} of {marks}");
        assert!(others * 12 <= marks, "{title}: {others} beside {marks}");
    }
}

#[test]
fn time_that_runs_faster_gives_the_same_changes() {
    let case = draw_series_set(&CADENCES[2], 3, 21).swap_remove(2);
    let quick: Vec<SeriesPoint> =
        case.points.iter().map(|p| SeriesPoint { at_us: p.at_us / 144, value: p.value }).collect();
    let options = DetectionOptions::default().with_time_factor(144);
    let changes = find_level_changes(&quick, PathQuantity::Goodput, &options);
    assert_eq!(places(&changes), places(&found(&case.points)));
    assert_eq!(changes.len(), 2);
}

/// A series of one to three clear levels, by its seed.
fn clear() -> impl Strategy<Value = Vec<SeriesPoint>> {
    let levels = prop::collection::vec(25usize..60, 1..4);
    (levels, 1u64..1_000_000, 0.02..0.1).prop_map(|(lengths, seed, noise)| {
        let rates = [300e6, 170e6, 320e6];
        let levels: Vec<(f64, usize)> = rates.into_iter().zip(lengths).collect();
        series(&levels, noise, seed)
    })
}

/// One level.
fn quiet() -> impl Strategy<Value = Vec<SeriesPoint>> {
    (20usize..200, 1u64..1_000_000, 0.01..0.2)
        .prop_map(|(count, seed, noise)| series(&[(200e6, count)], noise, seed))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_series_in_other_units_has_the_same_changes(points in clear(), factor in 1e-3..1e3) {
        let scaled: Vec<SeriesPoint> = points
            .iter()
            .map(|p| SeriesPoint { at_us: p.at_us, value: p.value * factor })
            .collect();
        prop_assert_eq!(places(&found(&points)), places(&found(&scaled)));
    }

    #[test]
    fn a_series_backwards_has_its_changes_backwards(points in clear()) {
        let backwards: Vec<SeriesPoint> = points
            .iter()
            .map(|p| SeriesPoint { at_us: -p.at_us, value: p.value })
            .collect();
        let (there, back) = (found(&points), found(&backwards));
        prop_assert_eq!(there.len(), back.len());
        for (a, b) in there.iter().zip(back.iter().rev()) {
            prop_assert!(a.sample.abs_diff(points.len() - b.sample) <= 1, "{:?} {:?}", a, b);
        }
    }

    #[test]
    fn one_wild_value_is_no_change(points in quiet(), at in 0usize..200, factor in 0.01..20.0) {
        let before = places(&found(&points));
        let mut wild = points;
        let at = at % wild.len();
        wild[at].value *= factor;
        prop_assert_eq!(places(&found(&wild)), before);
    }

    #[test]
    fn what_is_no_value_and_comes_in_any_order_changes_nothing(points in clear(), seed in 0u64..99) {
        let expected = found(&points);
        let mut mixed = points.clone();
        let mut rng = SplitMix64::new(seed);
        for bad in [f64::NAN, f64::INFINITY, -1.0] {
            let at_us = points[rng.below(points.len())].at_us + HOUR_US / 2;
            mixed.push(SeriesPoint { at_us, value: bad });
        }
        mixed.push(points[rng.below(points.len())]);
        for i in (1..mixed.len()).rev() {
            mixed.swap(i, rng.below(i + 1));
        }
        prop_assert_eq!(found(&mixed), expected);
    }

    #[test]
    fn nothing_from_outside_can_panic(
        raw in prop::collection::vec((any::<i64>(), any::<f64>()), 0..60),
        slot_us in any::<u64>(),
        day_us in any::<u64>(),
    ) {
        let points: Vec<SeriesPoint> = raw.into_iter().map(|(at_us, value)| SeriesPoint { at_us, value }).collect();
        for quantity in PathQuantity::ALL {
            let options = DetectionOptions { slot_us, day_us, ..DetectionOptions::default() };
            for change in find_level_changes(&points, quantity, &options) {
                prop_assert!(change.score >= 1.0);
                prop_assert!(change.between_us[0] <= change.between_us[1]);
            }
        }
        prop_assert!(super::min_lasting_difference(PathQuantity::Goodput, 0.0) > 0.0);
    }
}
