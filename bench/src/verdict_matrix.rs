//! Tests whether the reported reason for a rate is the right one, on queueing disciplines that no one
//! here made.
//!
//! Each cell is a network of namespaces in a Linux guest whose clock is virtual: netem, tbf, htb,
//! fq_codel, CAKE, PIE, RED, police. Its numbers are drawn from a seed. Right: `limited_by` is one of
//! the cell's limiters, and a finding that the cell needs is reported. An accusation blames a
//! policer, a shaper, loss or a host; a false one has a confidence above 0.8 and is wrong.
//!
//! Wrong when: a cell's truth is a limit that the run did not reach; each kind draws its numbers so
//! that it does.

pub(crate) mod cell_kinds;
pub(crate) mod matrix_cell;

use crate::guest_cells::{
    self, CellKind, GuestCell, JudgedCell, group_by_kind, judge_cells, parse_report, tabulate_wrong,
};
use crate::markdown_table::{MarkdownTable, format_number, median};
use crate::stop_replay::{ReplayRule, STOP_COLUMNS, StopReplay, replay_stop, summarize_stops};
use crate::{BenchArguments, BenchOutcome};
use cell_kinds::KINDS;
use longhaul_analysis::limit::policer_fit::PolicerFit;
use longhaul_analysis::limit::run_reading::read_run;
use longhaul_analysis::throughput::{TransferEvidence, conclude_throughput};
use longhaul_model::report::v1::{ReportFinding, ThroughputReport};
use matrix_cell::MatrixCell;
use std::path::Path;

/// A wrong verdict with this confidence is a false accusation.
const ACCUSING_CONFIDENCE: f64 = 0.8;
/// The limiters and causes that blame somebody.
const ACCUSING_LIMITERS: [&str; 5] = ["policer", "shaper", "loss", "cpu_sender", "cpu_receiver"];
const ACCUSING_CAUSES: [&str; 6] =
    ["policer", "shaper", "random_loss", "host_drops", "cpu_sender", "cpu_receiver"];
/// The precision at which the replayed runs end: the default of `longhaul test`.
pub const STOP_PRECISION_RATIO: f64 = 0.03;
/// The kinds whose path changes in the middle of the run: their whole run is not what the rule ended.
const CHANGING_KINDS: [&str; 7] = [
    "datagrams arrive",
    "streams arrive",
    "traffic leaves",
    "traffic on and off",
    "capacity rises",
    "capacity falls",
    "outage",
];
/// The bytes of an Ethernet header.
const ETHERNET_BYTES: f64 = 14.0;
/// The minimum shares of right cells, of all and of each kind.
const RIGHT_RATIO_MIN: f64 = 0.97;
const KIND_RIGHT_RATIO_MIN: f64 = 0.9;

/// The verdict and the findings of the report of a cell.
#[derive(Debug, Clone)]
pub struct CellVerdict {
    limited_by: String,
    confidence_ratio: f64,
    findings: Vec<ReportFinding>,
    goodput_bps: Option<f64>,
    /// The limiter of the other direction of a run in both.
    reverse_limited_by: Option<String>,
    policer: Option<PolicerFit>,
    stop: Option<StopReplay>,
}

impl JudgedCell<MatrixCell> {
    fn is_right(&self) -> bool {
        self.verdict.as_ref().is_ok_and(|verdict| {
            let truth = self.drawn.cell.truth;
            let has = |cause: &&str| verdict.findings.iter().any(|found| found.cause == **cause);
            let limiters = verdict.reverse_limited_by.iter().chain([&verdict.limited_by]);
            limiters.into_iter().all(|it| truth.limiters.contains(&it.as_str()))
                && (truth.findings.is_empty() || truth.findings.iter().any(has))
                && (truth.findings.is_empty() || !has(&"healthy"))
        })
    }

    /// Returns the causes that are blamed falsely and with confidence.
    fn false_accusations(&self) -> Vec<String> {
        let Ok(verdict) = &self.verdict else {
            return Vec::new();
        };
        let true_words = self.drawn.cell.truth.limiters;
        let is_true = |word: &str| true_words.iter().any(|it| word.contains(it));
        let findings = verdict.findings.iter().filter(|found| {
            ACCUSING_CAUSES.contains(&found.cause.as_str())
                && found.confidence_ratio > ACCUSING_CONFIDENCE
        });
        let limiter = Some(verdict.limited_by.as_str()).filter(|it| {
            ACCUSING_LIMITERS.contains(it) && verdict.confidence_ratio > ACCUSING_CONFIDENCE
        });
        let causes = findings.map(|found| found.cause.as_str());
        let mut words: Vec<&str> = causes.chain(limiter).filter(|word| !is_true(word)).collect();
        words.dedup();
        words.into_iter().map(str::to_owned).collect()
    }
}

/// Runs the cells that the arguments select, or judges kept ones again, and tabulates them.
pub fn run_all(longhaul: &Path, arguments: &BenchArguments) -> Result<BenchOutcome, String> {
    let judged = judge_cells::<MatrixCell>(longhaul, arguments)?;
    let policers = list_policer_errors(&judged);
    let tables = [
        tabulate_kinds(&judged),
        tabulate_policers(&policers),
        tabulate_reliability(&judged),
        tabulate_stops(&judged),
        tabulate_wrong(
            "Wrong cells",
            "cell | path | truth | reported | Mbit/s |  | false accusations",
            &judged,
        ),
    ];
    let missed = [check_gates(&judged), check_policer_gates(&policers)].concat();
    Ok(BenchOutcome::new(&tables, missed))
}

/// Runs one cell on this host, which is a guest, and returns its row of the table if it is wrong.
pub fn check_cell(longhaul: &Path, kind: &str, seed: u64, number: usize) -> Result<(), String> {
    guest_cells::check_cell::<MatrixCell>(longhaul, kind, seed, number)
}

impl GuestCell for MatrixCell {
    type Verdict = CellVerdict;
    const KINDS: &'static [CellKind<MatrixCell>] = &KINDS;

    fn script(&self, longhaul: &str) -> String {
        self.test_script(longhaul)
    }

    fn judge(&self, text: &str) -> Result<CellVerdict, String> {
        let (report, _) = parse_report::<ThroughputReport>(text)?;
        let conclusion = conclude_throughput(&report.plan, &report.observation);
        let policer =
            read_run(&report.plan, &report.observation, TransferEvidence::default()).policer;
        let analysis = conclusion.analysis;
        let json = serde_json::json!({ "analysis": &analysis });
        Ok(CellVerdict {
            limited_by: json["analysis"]["limited_by"].as_str().unwrap_or_default().to_owned(),
            confidence_ratio: analysis.confidence_ratio,
            findings: conclusion.findings,
            goodput_bps: analysis.goodput_bps.or(analysis.mean_goodput_bps).map(|bps| bps as f64),
            reverse_limited_by: json["analysis"]["reverse"]["limited_by"]
                .as_str()
                .map(str::to_owned),
            policer,
            stop: replay_stop(&report, ReplayRule::KnownGoodput(STOP_PRECISION_RATIO)),
        })
    }

    fn format_row(judged: &JudgedCell<MatrixCell>) -> Vec<String> {
        let drawn = &judged.drawn;
        let truth = drawn.cell.truth;
        let (said, goodput) = match &judged.verdict {
            Ok(verdict) => {
                let causes = verdict.findings.iter().map(|found| found.cause.as_str());
                let causes: Vec<&str> = causes.collect();
                let reverse = verdict.reverse_limited_by.iter();
                let said = format!(
                    "{} {:.2} ({})",
                    [&verdict.limited_by]
                        .into_iter()
                        .chain(reverse)
                        .map(String::as_str)
                        .collect::<Vec<_>>()
                        .join(" / "),
                    verdict.confidence_ratio,
                    causes.join(", ")
                );
                (said, verdict.goodput_bps.map(|bps| bps / 1e6))
            }
            Err(why) => (format!("no answer: {why}"), None),
        };
        vec![
            drawn.name(),
            drawn.cell.title(),
            [truth.limiters, truth.findings].concat().join(", "),
            said,
            format_number(goodput, 2),
            if judged.is_right() { "right" } else { "**wrong**" }.to_owned(),
            judged.false_accusations().join(", "),
        ]
    }

    /// Wrong are also false accusations, and a policer whose rate or bucket is off.
    fn is_wrong(judged: &JudgedCell<MatrixCell>) -> bool {
        let policer = list_policer_errors(std::slice::from_ref(judged));
        !judged.is_right()
            || !judged.false_accusations().is_empty()
            || !check_policer_gates(&policer).is_empty()
    }
}

fn tabulate_kinds(judged: &[JudgedCell<MatrixCell>]) -> MarkdownTable {
    let mut table = MarkdownTable::new(
        "Verdicts by kind",
        "kind | cells | right | right, % | false accusations | median confidence",
    );
    for (kind, cells) in group_by_kind(judged) {
        table.row(summarize_cells(kind, &cells));
    }
    if !judged.is_empty() {
        table.row(summarize_cells("**all**", &judged.iter().collect::<Vec<_>>()));
    }
    table
}

fn summarize_cells(kind: &str, cells: &[&JudgedCell<MatrixCell>]) -> Vec<String> {
    let right = cells.iter().filter(|it| it.is_right()).count();
    let accused = cells.iter().filter(|it| !it.false_accusations().is_empty()).count();
    let confidences: Vec<f64> =
        cells.iter().filter_map(|it| Some(it.verdict.as_ref().ok()?.confidence_ratio)).collect();
    vec![
        kind.to_owned(),
        cells.len().to_string(),
        right.to_string(),
        format!("{:.1}", 100.0 * right as f64 / cells.len() as f64),
        accused.to_string(),
        format_number(median(&confidences), 2),
    ]
}

/// The relative errors of a policer's rate and bucket; `None` if they were not found, or a rate only as a
/// lower bound.
#[derive(Debug, Clone, Copy)]
struct PolicerErrors {
    rate_ratio: Option<f64>,
    bucket_ratio: Option<f64>,
}

/// Compares the policers that were found in policed cells with the truth. The policer counts Ethernet
/// frames, and the analysis payload.
fn list_policer_errors(judged: &[JudgedCell<MatrixCell>]) -> Vec<PolicerErrors> {
    let errors = judged.iter().filter_map(|it| {
        let cell = &it.drawn.cell;
        let bucket = cell.policer_bucket? as f64;
        let found = it.verdict.as_ref().ok()?.policer?;
        let headers = if cell.path.is_ipv6 { 72.0 } else { 52.0 };
        let mtu = cell.path.mtu as f64;
        let payload_ratio = (mtu - headers) / (mtu + ETHERNET_BYTES);
        Some(PolicerErrors {
            rate_ratio: (!found.is_lower_bound)
                .then(|| found.rate_bps / (cell.path.rate_bps as f64 * payload_ratio) - 1.0),
            bucket_ratio: found.burst_bytes.map(|bytes| bytes / (bucket * payload_ratio) - 1.0),
        })
    });
    errors.collect()
}

fn tabulate_policers(errors: &[PolicerErrors]) -> MarkdownTable {
    let columns = "value | found | median error, % | 90 % of errors below, % | within the gate, %";
    let mut table = MarkdownTable::new("Policers that were found", columns);
    for (name, gate, read) in POLICER_VALUES {
        let found = sorted_errors(errors, read);
        if found.is_empty() {
            continue;
        }
        table.row(vec![
            name.to_owned(),
            found.len().to_string(),
            format_number(median(&found).map(|it| it * 100.0), 1),
            format!("{:.1}", found[(found.len() - 1) * 9 / 10] * 100.0),
            format!("{:.1}", 100.0 * share_within(&found, gate)),
        ]);
    }
    table
}

type PolicerValue = (&'static str, f64, fn(&PolicerErrors) -> Option<f64>);

/// The values of a policer, with the maximum relative error of each.
const POLICER_VALUES: [PolicerValue; 2] =
    [("rate", 0.1, |it| it.rate_ratio), ("bucket", 0.25, |it| it.bucket_ratio)];

fn sorted_errors(errors: &[PolicerErrors], read: fn(&PolicerErrors) -> Option<f64>) -> Vec<f64> {
    let mut found: Vec<f64> = errors.iter().filter_map(read).map(f64::abs).collect();
    found.sort_by(f64::total_cmp);
    found
}

fn share_within(sorted: &[f64], gate: f64) -> f64 {
    sorted.partition_point(|error| *error <= gate) as f64 / sorted.len() as f64
}

fn check_policer_gates(errors: &[PolicerErrors]) -> Vec<String> {
    let missed = POLICER_VALUES.iter().filter_map(|(name, gate, read)| {
        let found = sorted_errors(errors, *read);
        let outside = found.iter().filter(|error| **error > *gate).count();
        (outside > 0).then(|| {
            format!(
                "the {name} of {outside} of {} policers is off by more than {:.0} %",
                found.len(),
                gate * 100.0
            )
        })
    });
    missed.collect()
}

/// Tabulates how often verdicts of about the same confidence are right.
fn tabulate_reliability(judged: &[JudgedCell<MatrixCell>]) -> MarkdownTable {
    let columns = "confidence | cells | mean confidence | right, %";
    let mut table = MarkdownTable::new("Reliability of the confidence", columns);
    for step in 0..10 {
        let (from, to) = (f64::from(step) / 10.0, f64::from(step + 1) / 10.0);
        let within: Vec<(f64, bool)> = judged
            .iter()
            .filter_map(|it| Some((it.verdict.as_ref().ok()?.confidence_ratio, it.is_right())))
            .filter(|(confidence, _)| (from..to).contains(&confidence.min(0.999)))
            .collect();
        if within.is_empty() {
            continue;
        }
        let count = within.len() as f64;
        let mean = within.iter().map(|it| it.0).sum::<f64>() / count;
        let right = within.iter().filter(|it| it.1).count() as f64;
        table.row(vec![
            format!("{from:.1} to {to:.1}"),
            within.len().to_string(),
            format!("{mean:.2}"),
            format!("{:.0}", 100.0 * right / count),
        ]);
    }
    table
}

/// Tabulates by kind when the rule ended the runs, and how their results differ from those of whole runs.
fn tabulate_stops(judged: &[JudgedCell<MatrixCell>]) -> MarkdownTable {
    let title = "Runs that end when their goodput is known";
    let mut table = MarkdownTable::new(title, &format!("kind | {STOP_COLUMNS}"));
    let mut add = |kind: &str, cells: &[&JudgedCell<MatrixCell>]| {
        let stops = cells.iter().filter_map(|it| it.verdict.as_ref().ok()?.stop.as_ref());
        let summary = summarize_stops(&stops.collect::<Vec<_>>());
        table.row([vec![kind.to_owned()], summary].concat());
    };
    for (kind, cells) in group_by_kind(judged) {
        add(kind, &cells);
    }
    let is_stationary = |it: &&JudgedCell<MatrixCell>| !CHANGING_KINDS.contains(&it.drawn.kind);
    let stationary: Vec<_> = judged.iter().filter(is_stationary).collect();
    add("**all whose path does not change**", &stationary);
    table
}

fn check_gates(judged: &[JudgedCell<MatrixCell>]) -> Vec<String> {
    let ratio = |cells: &[&JudgedCell<MatrixCell>]| {
        cells.iter().filter(|it| it.is_right()).count() as f64 / cells.len().max(1) as f64
    };
    let mut missed = Vec::new();
    let all: Vec<&JudgedCell<MatrixCell>> = judged.iter().collect();
    if ratio(&all) < RIGHT_RATIO_MIN {
        missed.push(format!("{:.1} % of all cells are right", 100.0 * ratio(&all)));
    }
    for (kind, cells) in group_by_kind(judged) {
        if ratio(&cells) < KIND_RIGHT_RATIO_MIN {
            missed.push(format!("{kind}: {:.1} % are right", 100.0 * ratio(&cells)));
        }
    }
    let accused = judged.iter().filter(|it| !it.false_accusations().is_empty()).count();
    if accused > 0 {
        missed.push(format!("{accused} false accusations"));
    }
    missed
}
