//! The accuracy and the delay of change detection, on generated throughput series with known steps.

use crate::BenchOutcome;
use crate::markdown_table::{MarkdownTable, format_number, median, quantile};
use longhaul_accuracy::synthetic_series::{
    CADENCES, SeriesCadence, SyntheticSeries, draw_series_set,
};
use longhaul_history::change_detection::event_tracking::EventTracker;
use longhaul_history::change_detection::{DetectionOptions, find_level_changes};
use longhaul_model::report::v1::event::{ChangeEvent, EventState};
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::series::HostPair;

const SEED: u64 = 5;
/// The number of series of each cadence; a quarter has no step.
const SERIES: usize = 480;
/// The number of series that are analysed value by value.
const FOLLOWED_SERIES: usize = 16;
const F1_MIN: f64 = 0.93;
const FALSE_MAX: f64 = 0.05;

/// Returns both tables, and a sentence for every missed gate.
pub fn run_all() -> BenchOutcome {
    let mut steps = MarkdownTable::new(
        format!("Generated throughput series, {SERIES} of each, seed {SEED}"),
        "series | F1 | precision | recall | false events in a series without a step | \
         position error, samples: median (p90)",
    );
    let mut delays = MarkdownTable::new(
        format!("Followed value by value, {FOLLOWED_SERIES} of each"),
        "series | analyses | steps | samples until suspected: median | until confirmed: median | \
         false suspicions in 1000 analyses",
    );
    let mut missed = Vec::new();
    for cadence in &CADENCES {
        missed.extend(judge_cadence(cadence, &mut steps));
        delays.row(measure_delays(cadence));
    }
    BenchOutcome::new(&[steps, delays], missed)
}

/// Analyses whole series, adds a row, and returns a sentence for every missed gate.
fn judge_cadence(cadence: &SeriesCadence, table: &mut MarkdownTable) -> Vec<String> {
    let (mut found, mut marks) = (0, 0);
    let (mut false_in_unchanged, mut unchanged) = (0, 0);
    // The position errors of hits, in samples.
    let mut errors = Vec::new();
    for case in draw_series_set(cadence, SERIES, SEED) {
        let changes =
            find_level_changes(&case.points, PathQuantity::Goodput, &DetectionOptions::default());
        let mut left: Vec<i64> = changes.iter().map(|change| change.between_us[1]).collect();
        found += left.len();
        marks += case.changes_us.len();
        if case.changes_us.is_empty() {
            unchanged += 1;
            false_in_unchanged += left.len();
        }
        for mark in &case.changes_us {
            let off = |at: i64| count_samples_after(cadence, at, *mark).abs();
            let nearest = (0..left.len()).min_by(|&a, &b| off(left[a]).total_cmp(&off(left[b])));
            if let Some(i) = nearest.filter(|&i| off(left[i]) < reach(cadence)) {
                errors.push(off(left.remove(i)).round());
            }
        }
    }
    let ratio = |count: usize, of: usize| count as f64 / of.max(1) as f64;
    let f1 = ratio(2 * errors.len(), found + marks);
    let wrong = ratio(false_in_unchanged, unchanged);
    let (middle, p90) = (median(&errors), quantile(&errors, 0.9));
    table.row(vec![
        cadence.title.to_owned(),
        format!("{f1:.3}"),
        format!("{:.2}", ratio(errors.len(), found)),
        format!("{:.2}", ratio(errors.len(), marks)),
        format!("{wrong:.2}"),
        format!("{} ({})", format_number(middle, 0), format_number(p90, 0)),
    ]);
    let title = cadence.title;
    let low = (f1 < F1_MIN).then(|| format!("{title}: F1 {f1:.3}; {F1_MIN} must be"));
    let high = (wrong > FALSE_MAX)
        .then(|| format!("{title}: {wrong:.2} false events without a step; {FALSE_MAX} may be"));
    low.into_iter().chain(high).collect()
}

/// Analyses series value by value and returns a row with the time until a change is suspected and
/// confirmed.
fn measure_delays(cadence: &SeriesCadence) -> Vec<String> {
    let (mut analyses, mut marks, mut wrong) = (0usize, 0usize, 0usize);
    let (mut suspected, mut confirmed) = (Vec::new(), Vec::new());
    for case in draw_series_set(cadence, FOLLOWED_SERIES, SEED ^ 1) {
        let (events, announcements) = follow_series(&case);
        analyses += case.points.len();
        marks += case.changes_us.len();
        let is_near = |event: &ChangeEvent, mark: i64| {
            count_samples_after(cadence, event.between_us[1], mark).abs() < reach(cadence)
        };
        let never = events.iter().filter(|it| it.state == EventState::Withdrawn);
        wrong += never.filter(|it| !case.changes_us.iter().any(|mark| is_near(it, *mark))).count();
        for mark in &case.changes_us {
            let Some(event) = events.iter().find(|it| is_near(it, *mark)) else {
                continue;
            };
            // The count begins with the first value after the step.
            let values_until = |at: i64| count_samples_after(cadence, at, *mark).floor() + 1.0;
            suspected.push(values_until(event.announced_at_us));
            let is_sure =
                |it: &&EventAnnouncement| it.id == event.id && it.state == EventState::Confirmed;
            confirmed.extend(announcements.iter().find(is_sure).map(|it| values_until(it.at_us)));
        }
    }
    vec![
        cadence.title.to_owned(),
        analyses.to_string(),
        format!("{} of {marks} found", confirmed.len()),
        format_number(median(&suspected), 0),
        format_number(median(&confirmed), 0),
        format!("{:.2}", 1000.0 * wrong as f64 / analyses.max(1) as f64),
    ]
}

/// Returns the distance from a step, in samples, within which a change counts as found.
fn reach(cadence: &SeriesCadence) -> f64 {
    cadence.tolerance as f64 + 0.5
}

/// Returns the number of samples from the mark to a time.
fn count_samples_after(cadence: &SeriesCadence, at_us: i64, mark_us: i64) -> f64 {
    (at_us - mark_us) as f64 / cadence.spacing_us as f64
}

struct EventAnnouncement {
    id: String,
    state: EventState,
    at_us: i64,
}

/// Returns the final events, and every announcement.
fn follow_series(case: &SyntheticSeries) -> (Vec<ChangeEvent>, Vec<EventAnnouncement>) {
    let watcher = EventTracker {
        pair: HostPair { from: String::from("near"), to: String::from("far") },
        quantity: PathQuantity::Goodput,
        options: DetectionOptions::default(),
    };
    let (mut events, mut announcements): (Vec<ChangeEvent>, Vec<EventAnnouncement>) =
        (Vec::new(), Vec::new());
    for (i, point) in case.points.iter().enumerate() {
        let followed = watcher.update(&case.points[..=i], &events, point.at_us);
        for event in followed.events {
            if followed.announced_ids.contains(&event.id) {
                let (id, state) = (event.id.clone(), event.state);
                announcements.push(EventAnnouncement { id, state, at_us: point.at_us });
            }
            events.retain(|old| old.id != event.id);
            events.push(event);
        }
    }
    (events, announcements)
}
