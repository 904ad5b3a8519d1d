//! Generated throughput series with known steps: hits, false alarms, and detection delay.

use super::{Places, rivals};
use crate::bench::table::{Table, median, number, quantile};
use longhaul_analysis::detect::plateau::{self, Rule, SLAC_2004, SLAC_2008};
use longhaul_analysis::detect::synthetic::{CADENCES, Cadence, Case, cases};
use longhaul_analysis::detect::watcher::Watcher;
use longhaul_analysis::detect::{Options, steps};
use longhaul_model::report::v1::event::{Event, State};
use longhaul_model::report::v1::quantity::Quantity;
use longhaul_model::report::v1::series::{Pair, Point};

const SEED: u64 = 5;
/// The number of series of each cadence; a quarter has no step.
const SERIES: usize = 480;
/// The number of series that are analysed value by value.
const FOLLOWED: usize = 16;
const F1_MIN: f64 = 0.93;
const FALSE_MAX: f64 = 0.05;

/// Returns the times of the changes found.
type Finder = fn(&[Point]) -> Vec<i64>;

const FINDERS: [(&str, Finder); 5] = [
    ("plateau, 2004", |points| plateaus(points, &SLAC_2004)),
    ("plateau, 2008", |points| plateaus(points, &SLAC_2008)),
    ("PELT, l2, BIC", |points| {
        on_logarithms(points, rivals::pelt)
    }),
    ("BOCPD, 1/100", |points| {
        on_logarithms(points, rivals::bocpd)
    }),
    ("**steps**", |points| {
        let found = steps(points, Quantity::Goodput, &Options::default());
        found.iter().map(|change| change.between_us[1]).collect()
    }),
];

fn plateaus(points: &[Point], rule: &Rule) -> Vec<i64> {
    let found = plateau::plateaus(points, Options::default().slot_us, rule);
    found
        .alerts
        .iter()
        .map(|alert| alert.between_us[1])
        .collect()
}

fn on_logarithms(points: &[Point], detector: fn(&[f64]) -> Places) -> Vec<i64> {
    let values: Vec<f64> = points.iter().map(|p| p.value.ln()).collect();
    detector(&values)
        .iter()
        .map(|&at| points[at].at_us)
        .collect()
}

#[derive(Default)]
struct Tally {
    hits: usize,
    found: usize,
    marks: usize,
    /// False alarms in series without a step, and the number of those series.
    false_in_unchanged: usize,
    unchanged: usize,
    /// The position errors of hits, in samples.
    off: Vec<f64>,
}

impl Tally {
    fn of(cadence: &Cadence, finder: Finder) -> Tally {
        let mut tally = Tally::default();
        for case in cases(cadence, SERIES, SEED) {
            tally.count(cadence, &case, &finder(&case.points));
        }
        tally
    }

    fn count(&mut self, cadence: &Cadence, case: &Case, found: &[i64]) {
        let mut left = found.to_vec();
        for mark in &case.changes_us {
            let off = |at: &i64| at.abs_diff(*mark) as f64 / cadence.spacing_us as f64;
            let nearest = (0..left.len()).min_by(|&a, &b| off(&left[a]).total_cmp(&off(&left[b])));
            if let Some(i) = nearest.filter(|&i| off(&left[i]) < cadence.tolerance as f64 + 0.5) {
                self.hits += 1;
                self.off.push(off(&left.remove(i)).round());
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
pub fn verdict() -> (Table, Vec<String>) {
    let title = format!("Made throughput series, {SERIES} of each, seed {SEED}");
    let columns = [
        "series",
        "method",
        "F1",
        "precision",
        "recall",
        "false events in a series without a step",
        "place off, samples: median (p90)",
    ];
    let (mut table, mut missed) = (Table::new(title, &columns), Vec::new());
    for cadence in &CADENCES {
        for (name, finder) in FINDERS {
            let tally = Tally::of(cadence, finder);
            table.row(row(cadence, name, &tally));
            if name.contains("steps") {
                missed.extend(gates(cadence, &tally));
            }
        }
    }
    (table, missed)
}

fn row(cadence: &Cadence, name: &str, tally: &Tally) -> Vec<String> {
    let p90 = quantile(&tally.off, 0.9);
    let off = format!("{} ({})", number(median(&tally.off), 0), number(p90, 0));
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

fn gates(cadence: &Cadence, tally: &Tally) -> Vec<String> {
    let (f1, false_events) = (tally.f1(), tally.false_per_unchanged());
    let mut missed = Vec::new();
    if f1 < F1_MIN {
        let title = cadence.title;
        missed.push(format!("{title}: F1 {f1:.3}; {F1_MIN} must be"));
    }
    if false_events > FALSE_MAX {
        missed.push(format!(
            "{}: {false_events:.2} false events in a series without a step; {FALSE_MAX} may be",
            cadence.title
        ));
    }
    missed
}

/// Analyses series value by value and returns the time until a change is suspected and confirmed.
pub fn suspicions() -> Table {
    let columns = [
        "series",
        "looks",
        "steps",
        "samples until suspected: median",
        "until confirmed: median",
        "false suspicions in 1000 looks",
    ];
    let title = format!("Followed value by value, {FOLLOWED} of each");
    let mut table = Table::new(title, &columns);
    for cadence in &CADENCES {
        table.row(delays(cadence));
    }
    table
}

fn delays(cadence: &Cadence) -> Vec<String> {
    let (mut looks, mut marks, mut wrong) = (0usize, 0usize, 0usize);
    let (mut suspected, mut confirmed) = (Vec::new(), Vec::new());
    let reach = cadence.tolerance as f64 + 0.5;
    for case in cases(cadence, FOLLOWED, SEED ^ 1) {
        let (seen, told) = follow(&case);
        looks += case.points.len();
        marks += case.changes_us.len();
        let true_ones = |at: i64| {
            case.changes_us
                .iter()
                .any(|mark| after(cadence, at, *mark).abs() < reach)
        };
        let never = seen.iter().filter(|it| it.state == State::Withdrawn);
        wrong += never.filter(|it| !true_ones(it.between_us[1])).count();
        for mark in &case.changes_us {
            let is_it = |it: &&Event| after(cadence, it.between_us[1], *mark).abs() < reach;
            let Some(event) = seen.iter().find(is_it) else {
                continue;
            };
            // The count begins with the first value after the step.
            let values_until = |at: i64| after(cadence, at, *mark).floor() + 1.0;
            suspected.push(values_until(event.announced_at_us));
            let is_sure = |it: &&Announced| it.id == event.id && it.state == State::Confirmed;
            let sure = told.iter().find(is_sure);
            confirmed.extend(sure.map(|it| values_until(it.at_us)));
        }
    }
    vec![
        cadence.title.to_owned(),
        looks.to_string(),
        format!("{} of {marks} found", confirmed.len()),
        number(median(&suspected), 0),
        number(median(&confirmed), 0),
        format!("{:.2}", 1000.0 * wrong as f64 / looks.max(1) as f64),
    ]
}

/// Returns the number of samples from the mark to a time.
fn after(cadence: &Cadence, at_us: i64, mark_us: i64) -> f64 {
    (at_us - mark_us) as f64 / cadence.spacing_us as f64
}

struct Announced {
    id: String,
    state: State,
    at_us: i64,
}

/// Returns the final events, and every announcement.
fn follow(case: &Case) -> (Vec<Event>, Vec<Announced>) {
    let watcher = Watcher {
        pair: Pair {
            from: String::from("near"),
            to: String::from("far"),
        },
        quantity: Quantity::Goodput,
        options: Options::default(),
    };
    let (mut events, mut told): (Vec<Event>, Vec<Announced>) = (Vec::new(), Vec::new());
    for (i, point) in case.points.iter().enumerate() {
        let followed = watcher.follow(&case.points[..=i], &events, point.at_us);
        for event in followed.events {
            if followed.news.contains(&event.id) {
                told.push(Announced {
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
