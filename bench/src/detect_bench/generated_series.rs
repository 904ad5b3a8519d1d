//! Generated throughput series with known steps: hits, false alarms, and detection delay.

use super::{ChangePositions, reference_detectors};
use crate::markdown_table::{MarkdownTable, format_number, median, quantile};
use crate::{BenchOutcome, list_missed};
use longhaul_accuracy::synthetic_series::{
    CADENCES, SeriesCadence, SyntheticSeries, draw_series_set,
};
use longhaul_history::change_detection::event_tracking::EventTracker;
use longhaul_history::change_detection::plateau_rule::{self, PlateauRule, SLAC_2004, SLAC_2008};
use longhaul_history::change_detection::{DetectionOptions, find_level_changes};
use longhaul_model::report::v1::event::{ChangeEvent, EventState};
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::series::{HostPair, SeriesPoint};

const SEED: u64 = 5;
/// The number of series of each cadence; a quarter has no step.
const SERIES: usize = 480;
/// The number of series that are analysed value by value.
const FOLLOWED_SERIES: usize = 16;
const F1_MIN: f64 = 0.93;
const FALSE_MAX: f64 = 0.05;

/// Returns the times of the changes found.
type ChangeFinder = fn(&[SeriesPoint]) -> Vec<i64>;

const FINDERS: [(&str, ChangeFinder); 5] = [
    ("plateau, 2004", |points| find_plateau_changes(points, &SLAC_2004)),
    ("plateau, 2008", |points| find_plateau_changes(points, &SLAC_2008)),
    ("PELT, l2, BIC", |points| detect_on_logarithms(points, reference_detectors::detect_pelt)),
    ("BOCPD, 1/100", |points| detect_on_logarithms(points, reference_detectors::detect_bocpd)),
    ("**steps**", |points| {
        let found = find_level_changes(points, PathQuantity::Goodput, &DetectionOptions::default());
        found.iter().map(|change| change.between_us[1]).collect()
    }),
];

fn find_plateau_changes(points: &[SeriesPoint], rule: &PlateauRule) -> Vec<i64> {
    let found = plateau_rule::apply_plateau_rule(points, DetectionOptions::default().slot_us, rule);
    found.alerts.iter().map(|alert| alert.between_us[1]).collect()
}

fn detect_on_logarithms(
    points: &[SeriesPoint],
    detector: fn(&[f64]) -> ChangePositions,
) -> Vec<i64> {
    let values: Vec<f64> = points.iter().map(|p| p.value.ln()).collect();
    detector(&values).iter().map(|&at| points[at].at_us).collect()
}

#[derive(Default)]
struct DetectionTally {
    hits: usize,
    found: usize,
    marks: usize,
    /// False alarms in series without a step, and the number of those series.
    false_in_unchanged: usize,
    unchanged: usize,
    /// The position errors of hits, in samples.
    position_errors: Vec<f64>,
}

impl DetectionTally {
    fn of(cadence: &SeriesCadence, finder: ChangeFinder) -> DetectionTally {
        let mut tally = DetectionTally::default();
        for case in draw_series_set(cadence, SERIES, SEED) {
            tally.count(cadence, &case, &finder(&case.points));
        }
        tally
    }

    fn count(&mut self, cadence: &SeriesCadence, case: &SyntheticSeries, found: &[i64]) {
        let mut left = found.to_vec();
        for mark in &case.changes_us {
            let off = |at: &i64| at.abs_diff(*mark) as f64 / cadence.spacing_us as f64;
            let nearest = (0..left.len()).min_by(|&a, &b| off(&left[a]).total_cmp(&off(&left[b])));
            if let Some(i) = nearest.filter(|&i| off(&left[i]) < cadence.tolerance as f64 + 0.5) {
                self.hits += 1;
                self.position_errors.push(off(&left.remove(i)).round());
            }
        }
        self.found += found.len();
        self.marks += case.changes_us.len();
        if case.changes_us.is_empty() {
            self.unchanged += 1;
            self.false_in_unchanged += found.len();
        }
    }

    fn precision(&self) -> f64 {
        self.hits as f64 / self.found.max(1) as f64
    }

    fn recall(&self) -> f64 {
        self.hits as f64 / self.marks.max(1) as f64
    }

    fn f1(&self) -> f64 {
        2.0 * self.hits as f64 / (self.found + self.marks).max(1) as f64
    }

    fn false_per_unchanged(&self) -> f64 {
        self.false_in_unchanged as f64 / self.unchanged.max(1) as f64
    }
}

/// Returns the table, and a sentence for every missed gate.
pub fn judge_detectors() -> BenchOutcome {
    let title = format!("Made throughput series, {SERIES} of each, seed {SEED}");
    let columns = "series | method | F1 | precision | recall | \
         false events in a series without a step | place off, samples: median (p90)";
    let (mut table, mut missed) = (MarkdownTable::new(title, columns), Vec::new());
    for cadence in &CADENCES {
        for (name, finder) in FINDERS {
            let tally = DetectionTally::of(cadence, finder);
            table.row(format_row(cadence, name, &tally));
            if name.contains("steps") {
                missed.extend(check_gates(cadence, &tally));
            }
        }
    }
    BenchOutcome::new(&[table], missed)
}

fn format_row(cadence: &SeriesCadence, name: &str, tally: &DetectionTally) -> Vec<String> {
    let p90 = quantile(&tally.position_errors, 0.9);
    let off =
        format!("{} ({})", format_number(median(&tally.position_errors), 0), format_number(p90, 0));
    vec![
        cadence.title.to_owned(),
        name.to_owned(),
        format!("{:.3}", tally.f1()),
        format!("{:.2}", tally.precision()),
        format!("{:.2}", tally.recall()),
        format!("{:.2}", tally.false_per_unchanged()),
        off,
    ]
}

fn check_gates(cadence: &SeriesCadence, tally: &DetectionTally) -> Vec<String> {
    let (f1, wrong, title) = (tally.f1(), tally.false_per_unchanged(), cadence.title);
    let series = "in a series without a step";
    list_missed([
        (f1 >= F1_MIN, format!("{title}: F1 {f1:.3}; {F1_MIN} must be")),
        (
            wrong <= FALSE_MAX,
            format!("{title}: {wrong:.2} false events {series}; {FALSE_MAX} may be"),
        ),
    ])
}

/// Analyses series value by value and returns the time until a change is suspected and confirmed.
pub fn measure_delays() -> MarkdownTable {
    let columns = "series | looks | steps | samples until suspected: median | \
         until confirmed: median | false suspicions in 1000 looks";
    let title = format!("Followed value by value, {FOLLOWED_SERIES} of each");
    let mut table = MarkdownTable::new(title, columns);
    for cadence in &CADENCES {
        table.row(format_delays(cadence));
    }
    table
}

fn format_delays(cadence: &SeriesCadence) -> Vec<String> {
    let (mut looks, mut marks, mut wrong) = (0usize, 0usize, 0usize);
    let (mut suspected, mut confirmed) = (Vec::new(), Vec::new());
    let reach = cadence.tolerance as f64 + 0.5;
    for case in draw_series_set(cadence, FOLLOWED_SERIES, SEED ^ 1) {
        let (seen, told) = follow_series(&case);
        looks += case.points.len();
        marks += case.changes_us.len();
        let true_ones = |at: i64| {
            case.changes_us.iter().any(|mark| count_samples_after(cadence, at, *mark).abs() < reach)
        };
        let never = seen.iter().filter(|it| it.state == EventState::Withdrawn);
        wrong += never.filter(|it| !true_ones(it.between_us[1])).count();
        for mark in &case.changes_us {
            let is_it = |it: &&ChangeEvent| {
                count_samples_after(cadence, it.between_us[1], *mark).abs() < reach
            };
            let Some(event) = seen.iter().find(is_it) else {
                continue;
            };
            // The count begins with the first value after the step.
            let values_until = |at: i64| count_samples_after(cadence, at, *mark).floor() + 1.0;
            suspected.push(values_until(event.announced_at_us));
            let is_sure =
                |it: &&EventAnnouncement| it.id == event.id && it.state == EventState::Confirmed;
            let sure = told.iter().find(is_sure);
            confirmed.extend(sure.map(|it| values_until(it.at_us)));
        }
    }
    vec![
        cadence.title.to_owned(),
        looks.to_string(),
        format!("{} of {marks} found", confirmed.len()),
        format_number(median(&suspected), 0),
        format_number(median(&confirmed), 0),
        format!("{:.2}", 1000.0 * wrong as f64 / looks.max(1) as f64),
    ]
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
    let (mut events, mut told): (Vec<ChangeEvent>, Vec<EventAnnouncement>) =
        (Vec::new(), Vec::new());
    for (i, point) in case.points.iter().enumerate() {
        let followed = watcher.update(&case.points[..=i], &events, point.at_us);
        for event in followed.events {
            if followed.announced_ids.contains(&event.id) {
                told.push(EventAnnouncement {
                    id: event.id.clone(),
                    state: event.state,
                    at_us: point.at_us,
                });
            }
            events.retain(|old| old.id != event.id);
            events.push(event);
        }
    }
    (events, told)
}
