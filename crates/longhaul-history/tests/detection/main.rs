//! Change detection finds the steps of generated throughput series and those that people marked in
//! round-trip times, and little else: the gates of docs/methods/detection.md.

mod marked_series;
mod synthetic_series;

use longhaul_analysis::stats::median;
use longhaul_history::change_detection::event_tracking::EventTracker;
use longhaul_history::change_detection::{DetectionOptions, find_level_changes};
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::{ChangeEvent, EventState, HostPair};
use marked_series::{DetectionScore, MarkedSeries, index_at, read_rtt_windows, score_detection};
use std::collections::HashMap;
use synthetic_series::{CADENCES, SeriesCadence, SyntheticSeries, draw_series_set};

const SEED: u64 = 5;
/// The number of series of each cadence; a quarter has no step.
const SERIES: usize = 480;
/// The number of series that are analysed value by value.
const FOLLOWED_SERIES: usize = 16;
const F1_MIN: f64 = 0.93;
/// The maximum of false events in a series without a step.
const FALSE_MAX: f64 = 0.02;
/// The minimum of F1, precision and recall on marked round-trip times.
const MARKED_MIN: f64 = 0.80;
/// The minimum share of the steps that are confirmed, and the maximum of false suspicions in a
/// thousand analyses.
const CONFIRMED_MIN: f64 = 0.9;
const SUSPICIONS_MAX: f64 = 0.5;
/// The maximum of the median number of values until a step is suspected and confirmed.
const SUSPECTED_AFTER_MAX: f64 = 4.0;
const CONFIRMED_AFTER_MAX: f64 = 10.0;

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
        let (mut analyses, mut marks, mut wrong) = (0, 0, 0);
        let (mut suspected, mut confirmed) = (Vec::new(), Vec::new());
        for case in draw_series_set(cadence, FOLLOWED_SERIES, SEED ^ 1) {
            let FollowedSeries { events, confirmed_us } = follow_series(&case);
            analyses += case.points.len();
            marks += case.changes_us.len();
            let is_near = |event: &ChangeEvent, mark: i64| {
                count_samples_after(cadence, event.between_us[1], mark).abs() < reach(cadence)
            };
            let is_at_step =
                |event: &ChangeEvent| case.changes_us.iter().any(|mark| is_near(event, *mark));
            let withdrawn = events.iter().filter(|it| it.state == EventState::Withdrawn);
            wrong += withdrawn.filter(|event| !is_at_step(event)).count();
            for mark in &case.changes_us {
                let of_mark = events.iter().filter(|event| is_near(event, *mark));
                let Some(event) = of_mark.min_by_key(|event| event.announced_at_us) else {
                    continue;
                };
                // The count begins with the first value after the step.
                let count_until = |at| count_samples_after(cadence, at, *mark).floor() + 1.0;
                suspected.push(count_until(event.announced_at_us));
                confirmed.extend(confirmed_us.get(&event.id).map(|at| count_until(*at)));
            }
        }
        let suspicions = 1000.0 * ratio(wrong, analyses);
        let found = confirmed.len();
        let [suspected, confirmed] = [suspected, confirmed].map(|it| median(it).unwrap());
        let title = cadence.title;
        println!(
            "{title}: {found} of {marks} found in {analyses} analyses, suspected after \
             {suspected:.1} and confirmed after {confirmed:.1} values, {suspicions:.2}"
        );
        assert!(ratio(found, marks) >= CONFIRMED_MIN, "{title}: {found} of {marks} found");
        assert!(suspected <= SUSPECTED_AFTER_MAX, "{title}: suspected after {suspected}");
        assert!(confirmed <= CONFIRMED_AFTER_MAX, "{title}: confirmed after {confirmed}");
        assert!(suspicions <= SUSPICIONS_MAX, "{suspicions} false suspicions");
    }
}

#[test]
fn changes_of_rtt_are_found_where_people_marked_them() {
    let windows = read_rtt_windows();
    for half in ["a/", "b/"] {
        let of_half = windows.iter().filter(|it| it.name.starts_with(half));
        let scores: Vec<DetectionScore> = of_half.map(score_rtt_window).collect();
        assert_eq!(scores.len(), 100);
        let mean = DetectionScore::mean(&scores);
        println!("{half}: {mean}");
        let least = mean.f1.min(mean.precision).min(mean.recall);
        assert!(least >= MARKED_MIN, "{half}: {mean}");
    }
}

fn score_rtt_window(window: &MarkedSeries) -> DetectionScore {
    let options = DetectionOptions::default();
    let changes = find_level_changes(&window.points(), PathQuantity::RttFloor, &options);
    let found: Vec<usize> = changes.iter().map(|it| index_at(it.between_us[1])).collect();
    score_detection(window, &found)
}

struct FollowedSeries {
    /// The final events.
    events: Vec<ChangeEvent>,
    /// The time at which each was confirmed.
    confirmed_us: HashMap<String, i64>,
}

/// Analyses a series value by value.
fn follow_series(case: &SyntheticSeries) -> FollowedSeries {
    let watcher = EventTracker {
        pair: HostPair { from: String::from("near"), to: String::from("far") },
        quantity: PathQuantity::Goodput,
        options: DetectionOptions::default(),
    };
    let (mut events, mut confirmed_us) = (Vec::<ChangeEvent>::new(), HashMap::new());
    for (i, point) in case.points.iter().enumerate() {
        for event in watcher.update(&case.points[..=i], &events, point.at_us).events {
            if event.state == EventState::Confirmed {
                confirmed_us.entry(event.id.clone()).or_insert(point.at_us);
            }
            events.retain(|old| old.id != event.id);
            events.push(event);
        }
    }
    FollowedSeries { events, confirmed_us }
}
