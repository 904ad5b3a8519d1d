//! Change detection finds the steps of generated throughput series, and little else: the gates of
//! docs/methods/detection.md.

mod synthetic_series;

use longhaul_history::change_detection::event_tracking::EventTracker;
use longhaul_history::change_detection::{DetectionOptions, find_level_changes};
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::{ChangeEvent, EventState, HostPair};
use synthetic_series::{CADENCES, SeriesCadence, SyntheticSeries, draw_series_set};

const SEED: u64 = 5;
/// The number of series of each cadence; a quarter has no step.
const SERIES: usize = 480;
/// The number of series that are analysed value by value.
const FOLLOWED_SERIES: usize = 16;
const F1_MIN: f64 = 0.93;
/// The maximum of false events in a series without a step.
const FALSE_MAX: f64 = 0.05;
/// The minimum share of the steps that are confirmed, and the maximum of false suspicions in a
/// thousand analyses.
const CONFIRMED_MIN: f64 = 0.9;
const SUSPICIONS_MAX: f64 = 0.5;

fn ratio(count: usize, of: usize) -> f64 {
    count as f64 / of.max(1) as f64
}

/// Returns the distance from a step, in samples, within which a change counts as found.
fn reach(cadence: &SeriesCadence) -> f64 {
    cadence.tolerance as f64 + 0.5
}

/// Returns the number of samples from the mark to a time.
fn count_samples_after(cadence: &SeriesCadence, at_us: i64, mark_us: i64) -> f64 {
    (at_us - mark_us) as f64 / cadence.spacing_us as f64
}

#[test]
fn steps_are_found_and_series_without_one_have_no_events() {
    for cadence in &CADENCES {
        let (mut hits, mut found, mut marks) = (0, 0, 0);
        let (mut false_in_unchanged, mut unchanged) = (0, 0);
        for case in draw_series_set(cadence, SERIES, SEED) {
            let options = DetectionOptions::default();
            let changes = find_level_changes(&case.points, PathQuantity::Goodput, &options);
            let mut left: Vec<i64> = changes.iter().map(|change| change.between_us[1]).collect();
            found += left.len();
            marks += case.changes_us.len();
            if case.changes_us.is_empty() {
                unchanged += 1;
                false_in_unchanged += left.len();
            }
            for mark in &case.changes_us {
                let off = |at: i64| count_samples_after(cadence, at, *mark).abs();
                let nearest =
                    (0..left.len()).min_by(|&a, &b| off(left[a]).total_cmp(&off(left[b])));
                if let Some(i) = nearest.filter(|&i| off(left[i]) < reach(cadence)) {
                    left.remove(i);
                    hits += 1;
                }
            }
        }
        let f1 = ratio(2 * hits, found + marks);
        let wrong = ratio(false_in_unchanged, unchanged);
        let (title, precision, recall) = (cadence.title, ratio(hits, found), ratio(hits, marks));
        println!("{title}: F1 {f1:.3}, precision {precision:.2}, recall {recall:.2}, {wrong:.2}");
        assert!(f1 >= F1_MIN, "{title}: F1 {f1:.3}");
        assert!(wrong <= FALSE_MAX, "{title}: {wrong:.2} false events without a step");
    }
}

#[test]
fn steps_are_confirmed_as_their_values_arrive() {
    for cadence in &CADENCES {
        let (mut analyses, mut marks, mut wrong, mut confirmed) = (0, 0, 0, 0);
        for case in draw_series_set(cadence, FOLLOWED_SERIES, SEED ^ 1) {
            let events = follow_series(&case);
            analyses += case.points.len();
            marks += case.changes_us.len();
            let is_near = |event: &ChangeEvent, mark: i64| {
                count_samples_after(cadence, event.between_us[1], mark).abs() < reach(cadence)
            };
            let is_at_step =
                |event: &ChangeEvent| case.changes_us.iter().any(|mark| is_near(event, *mark));
            let withdrawn = events.iter().filter(|it| it.state == EventState::Withdrawn);
            wrong += withdrawn.filter(|event| !is_at_step(event)).count();
            let is_confirmed = |mark: &&i64| {
                let mut near = events.iter().filter(|event| is_near(event, **mark));
                near.any(|event| {
                    matches!(event.state, EventState::Confirmed | EventState::Recovered)
                })
            };
            confirmed += case.changes_us.iter().filter(is_confirmed).count();
        }
        let suspicions = 1000.0 * ratio(wrong, analyses);
        println!("{}: {confirmed} of {marks} found, {suspicions:.2}", cadence.title);
        assert!(ratio(confirmed, marks) >= CONFIRMED_MIN, "{confirmed} of {marks} found");
        assert!(suspicions <= SUSPICIONS_MAX, "{suspicions} false suspicions");
    }
}

/// Returns the final events of a series that is analysed value by value.
fn follow_series(case: &SyntheticSeries) -> Vec<ChangeEvent> {
    let watcher = EventTracker {
        pair: HostPair { from: String::from("near"), to: String::from("far") },
        quantity: PathQuantity::Goodput,
        options: DetectionOptions::default(),
    };
    let mut events: Vec<ChangeEvent> = Vec::new();
    for (i, point) in case.points.iter().enumerate() {
        for event in watcher.update(&case.points[..=i], &events, point.at_us).events {
            events.retain(|old| old.id != event.id);
            events.push(event);
        }
    }
    events
}
