//! Tests whether available bandwidth and capacity are right, on queueing disciplines and with traffic
//! that no one here made.
//!
//! Each bed is a network of namespaces in a Linux guest whose clock is virtual, with netem, tbf, htb,
//! fq_codel, CAKE or police; iperf3 and mgen send the traffic of others. What was free between the
//! first and the last probe follows from the settings of the disciplines and the kernel's counters of
//! what others sent. Errors are shares of the true capacity.
//!
//! Wrong when: a discipline does not keep to its setting.

mod bed_kinds;
mod rival_methods;
mod test_bed;

use crate::guest_cells::{
    self, CellKind, GuestCell, JudgedCell, group_by_kind, judge_cells, parse_report, tabulate_wrong,
};
use crate::markdown_table::{MarkdownTable, format_number};
use crate::{BenchArguments, BenchOutcome};
use bed_kinds::{KINDS, LIGHT_KIND};
use longhaul_analysis::available_bandwidth::conclude_available;
use longhaul_analysis::stats::{quantile, sort_finite};
use longhaul_model::report::v1::AvailableReport;
use longhaul_model::report::v1::available::AvailableEstimate;
use std::path::Path;
use test_bed::{RateTruth, TestBed, parse_counters};
use xtask::program_runner;

/// The gates: maximum errors as shares of the capacity, of all beds, and minimum shares of beds.
const MAX_AVAILABLE_ERRORS: [f64; 2] = [0.05, 0.15];
const MAX_CAPACITY_ERRORS: [f64; 2] = [0.02, 0.06];
const MIN_COVERED_RATIO: f64 = 0.88;
const MIN_ANSWERED_RATIO: f64 = 0.85;
/// A bed whose error is above this, or whose interval misses the truth by it, is listed.
const LISTED_ERROR: f64 = 0.1;

/// The estimate on a bed, and the truth.
#[derive(Debug, Clone)]
pub struct BedOutcome {
    estimate: AvailableEstimate,
    /// Absent if the bed has no single capacity.
    capacity_bps: Option<f64>,
    available_bps: f64,
    link_bps: f64,
    reasons: Vec<String>,
    rivals: [Option<f64>; 3],
}

impl BedOutcome {
    fn available_error(&self) -> Option<f64> {
        let found = self.estimate.available_bps? as f64;
        Some((found - self.available_bps).abs() / self.link_bps)
    }

    fn capacity_error(&self) -> Option<f64> {
        self.estimate.capacity_interval_bps?;
        let (found, truth) = (self.estimate.capacity_bps? as f64, self.capacity_bps?);
        Some((found / truth - 1.0).abs())
    }

    fn is_covered(&self) -> Option<bool> {
        let [low, high] = self.estimate.available_interval_bps?;
        Some((low as f64..=high as f64).contains(&self.available_bps))
    }
}

/// Runs the cells that the arguments select, or judges kept ones again, and tabulates them.
pub fn run_all(longhaul: &Path, arguments: &BenchArguments) -> Result<BenchOutcome, String> {
    program_runner::run_script("requirements.sh", &["traffic"])?;
    let judged = judge_cells::<TestBed>(longhaul, arguments)?;
    let columns = "bed | path | capacity, said / true | available, said / true | error, % of capacity | verdict | reason";
    let wrong = tabulate_wrong("Beds that were wrong or not answered", columns, &judged);
    let tables = [tabulate_kinds(&judged), tabulate_rivals(&judged), wrong];
    Ok(BenchOutcome::new(&tables, check_gates(&judged)))
}

/// Runs one bed on this host, which is a guest, and returns its row of the table if it is wrong.
pub fn check_bed(longhaul: &Path, kind: &str, seed: u64, number: usize) -> Result<(), String> {
    guest_cells::check_cell::<TestBed>(longhaul, kind, seed, number)
}

fn format_mbps(bps: Option<f64>) -> String {
    format_number(bps.map(|bps| bps / 1e6), 1)
}

impl GuestCell for TestBed {
    type Verdict = BedOutcome;
    const KINDS: &'static [CellKind<TestBed>] = &KINDS;

    fn script(&self, longhaul: &str) -> String {
        self.measure_script(longhaul)
    }

    fn judge(&self, text: &str) -> Result<BedOutcome, String> {
        let (report, rest) = parse_report::<AvailableReport>(text)?;
        let counters = parse_counters(rest);
        let conclusion = conclude_available(&report.plan, &report.observation);
        let estimate = conclusion.analysis.forward.ok_or("no estimate")?;
        let probing = report.observation.forward.ok_or("no probes")?;
        let available_bps = self.available_bps(&counters).ok_or("no counters of the probes")?;
        let one_rate = matches!(self.truth, RateTruth::Link(_));
        let rivals = [
            rival_methods::estimate_by_abwe(&probing),
            estimate
                .capacity_bps
                .and_then(|bps| rival_methods::estimate_by_spruce(&probing, bps as f64)),
            rival_methods::estimate_by_pathload(&probing),
        ];
        Ok(BedOutcome {
            estimate,
            capacity_bps: one_rate.then(|| self.capacity_bps()),
            available_bps,
            link_bps: self.capacity_bps(),
            reasons: conclusion.caveats.into_iter().map(|caveat| caveat.text).collect(),
            rivals,
        })
    }

    fn format_row(judged: &JudgedCell<TestBed>) -> Vec<String> {
        let drawn = &judged.drawn;
        let mut row = vec![drawn.name(), drawn.cell.title()];
        match &judged.verdict {
            Err(why) => row.push(format!("no report: {why}")),
            Ok(outcome) => {
                let estimate = &outcome.estimate;
                let as_bps = |bps: Option<u64>| format_mbps(bps.map(|bps| bps as f64));
                let [low, high] = estimate.available_interval_bps.unwrap_or_default();
                row.extend([
                    format!(
                        "{} / {}",
                        as_bps(estimate.capacity_bps),
                        format_mbps(outcome.capacity_bps)
                    ),
                    format!(
                        "{} [{}, {}] / {}",
                        as_bps(estimate.available_bps),
                        as_bps(Some(low)),
                        as_bps(Some(high)),
                        format_mbps(Some(outcome.available_bps))
                    ),
                    format_number(outcome.available_error().map(|error| 100.0 * error), 1),
                    format!("{} {}", estimate.verdict.word(), estimate.flags.join(", ")),
                    if estimate.available_bps.is_some() {
                        String::new()
                    } else {
                        outcome.reasons.first().cloned().unwrap_or_default()
                    },
                ]);
            }
        }
        row
    }

    /// Wrong is a bed without an answer, or with one that is far from the truth.
    fn is_wrong(judged: &JudgedCell<TestBed>) -> bool {
        judged.verdict.as_ref().map_or(true, |outcome| {
            outcome.available_error().is_none_or(|error| error > LISTED_ERROR)
                || outcome.is_covered() == Some(false)
                || outcome.capacity_error().is_some_and(|error| error > LISTED_ERROR)
        })
    }
}

/// The figures of the beds of one kind.
struct BedSummary {
    beds: usize,
    answered: usize,
    available_errors: Vec<f64>,
    capacity_errors: Vec<f64>,
    covered_ratio: f64,
}

impl BedSummary {
    fn of(judged: &[&JudgedCell<TestBed>]) -> BedSummary {
        let outcomes = || judged.iter().filter_map(|bed| bed.verdict.as_ref().ok());
        let errors = sort_finite(outcomes().filter_map(BedOutcome::available_error));
        let covered: Vec<bool> = outcomes().filter_map(BedOutcome::is_covered).collect();
        let holding = covered.iter().filter(|is_covered| **is_covered).count();
        BedSummary {
            beds: judged.len(),
            answered: errors.len(),
            covered_ratio: holding as f64 / covered.len().max(1) as f64,
            available_errors: errors,
            capacity_errors: sort_finite(outcomes().filter_map(BedOutcome::capacity_error)),
        }
    }

    fn row(&self, kind: &str) -> Vec<String> {
        let both = |errors: &[f64]| {
            let at = |part| format_number(quantile(errors, part).map(|error| 100.0 * error), 1);
            format!("{} / {}", at(0.5), at(0.9))
        };
        vec![
            kind.to_owned(),
            self.beds.to_string(),
            self.answered.to_string(),
            both(&self.capacity_errors),
            both(&self.available_errors),
            format!("{:.0}", 100.0 * self.covered_ratio),
        ]
    }

    fn answered_ratio(&self) -> f64 {
        self.answered as f64 / self.beds.max(1) as f64
    }
}

fn tabulate_kinds(judged: &[JudgedCell<TestBed>]) -> MarkdownTable {
    let columns = "kind | beds | answered | capacity, median / 90 % error, % | available, median / 90 % error, % of capacity | interval holds, %";
    let mut table = MarkdownTable::new("Available bandwidth by kind", columns);
    for (kind, beds) in group_by_kind(judged) {
        table.row(BedSummary::of(&beds).row(kind));
    }
    let full: Vec<&JudgedCell<TestBed>> =
        judged.iter().filter(|bed| bed.drawn.kind != LIGHT_KIND).collect();
    let all: Vec<&JudgedCell<TestBed>> = judged.iter().collect();
    for (name, beds) in [("**all but light**", full), ("**all**", all)] {
        table.row(BedSummary::of(&beds).row(name));
    }
    table
}

/// Tabulates the methods of other authors on the same trains, beside the estimate.
fn tabulate_rivals(judged: &[JudgedCell<TestBed>]) -> MarkdownTable {
    let columns = "method | answered | median error, % of capacity | 90 % error";
    let mut table = MarkdownTable::new("Other methods on the same trains", columns);
    let outcomes: Vec<&BedOutcome> =
        judged.iter().filter_map(|bed| bed.verdict.as_ref().ok()).collect();
    let mut add = |name: &str, errors: Vec<f64>| {
        let errors = sort_finite(errors);
        let at = |part| format_number(quantile(&errors, part).map(|error| 100.0 * error), 1);
        table.row(vec![name.to_owned(), errors.len().to_string(), at(0.5), at(0.9)]);
    };
    add("longhaul", outcomes.iter().filter_map(|it| it.available_error()).collect());
    let names = ["ABwE's formula", "Spruce's formula", "a search like pathload's"];
    for (index, name) in names.into_iter().enumerate() {
        let error =
            |it: &&BedOutcome| Some((it.rivals[index]? - it.available_bps).abs() / it.link_bps);
        add(name, outcomes.iter().filter_map(error).collect());
    }
    table
}

fn check_gates(judged: &[JudgedCell<TestBed>]) -> Vec<String> {
    let is_light = |bed: &&JudgedCell<TestBed>| bed.drawn.kind == LIGHT_KIND;
    let (light, full): (Vec<&JudgedCell<TestBed>>, Vec<&JudgedCell<TestBed>>) =
        judged.iter().partition(is_light);
    let (light, full) = (BedSummary::of(&light), BedSummary::of(&full));
    let all = BedSummary::of(&judged.iter().collect::<Vec<_>>());
    let mut missed = Vec::new();
    let figures = [
        ("available bandwidth", &all.available_errors, MAX_AVAILABLE_ERRORS),
        ("capacity", &all.capacity_errors, MAX_CAPACITY_ERRORS),
    ];
    for (name, errors, limits) in figures {
        for (part, limit) in [0.5, 0.9].into_iter().zip(limits) {
            if quantile(errors, part).is_some_and(|error| error > limit) {
                missed.push(format!("{name}: quantile {part} of the errors is above {limit}"));
            }
        }
    }
    for (name, beds) in [("not light", &full), ("light", &light)] {
        if !beds.available_errors.is_empty() && beds.covered_ratio < MIN_COVERED_RATIO {
            let percent = 100.0 * beds.covered_ratio;
            missed.push(format!("{name}: {percent:.0} % of the intervals hold the truth"));
        }
        if beds.beds > 0 && beds.answered_ratio() < MIN_ANSWERED_RATIO {
            missed.push(format!("{name}: {:.0} % answered", 100.0 * beds.answered_ratio()));
        }
    }
    missed
}
