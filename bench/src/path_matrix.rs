//! Tests what `longhaul path`, `path --load` and `longhaul load` say, on queueing disciplines that no
//! one here made.
//!
//! Each cell is a network of namespaces in a Linux guest whose clock is virtual: the host's own link,
//! the link between two routers, and the last one. The truth of routes, path MTUs and narrow links is in
//! the commands that made the network; that of delays under load is what the `ping` of iputils measured
//! at the same time.
//!
//! Units: milliseconds. Wrong when: the delay of a queue differs between the packets of `ping` and those
//! of the probes; both are few and small.

mod path_kinds;

use crate::guest_cells::{
    self, CellKind, GuestCell, JudgedCell, group_by_kind, judge_cells, parse_report, tabulate_wrong,
};
use crate::markdown_table::MarkdownTable;
use crate::verdict_matrix::matrix_cell::{DrawnPath, NETWORK};
use crate::{BenchArguments, BenchOutcome};
use longhaul_analysis::load::conclude_load;
use longhaul_analysis::path::conclude_path;
use longhaul_analysis::stats::median;
use longhaul_model::report::v1::path::{NarrowLink, PathAnalysis};
use longhaul_model::report::v1::{LoadReport, PathReport};
use path_kinds::KINDS;
use std::path::Path;

/// The minimum share of right cells of each kind.
const KIND_RIGHT_RATIO_MIN: f64 = 0.9;
/// The maximum difference between the delays of probes and of `ping` under load.
const DELAY_ERROR_RATIO: f64 = 0.15;
const DELAY_ERROR_MS: f64 = 1.0;
/// The maximum difference of an idle RTT from the delays of the network.
const IDLE_ERROR_MS: f64 = 0.5;
/// The TTL of the routers, and of the far host.
const HOPS: usize = 3;

/// The facts of a path that a command must find.
#[derive(Debug, Clone, Copy)]
enum PathCellTruth {
    /// The queue grows at the link before this hop. A managed queue may be too short to see, or lose so
    /// many probes that only a span of hops is found.
    NarrowLink { before_ttl: u8, is_managed: bool },
    /// The queue grows in one of these places, which is not a link between hops.
    OtherPlace(&'static [&'static str]),
    /// All hops answer after the delays of the network, and packets of this size pass.
    Route { mtu: u32 },
    /// The delay under load is that of `ping`.
    LoadedDelay,
}

/// The commands that make the narrow link and all that is special, and what distinguishes it.
#[derive(Debug, Clone)]
struct LinkSetup {
    commands: String,
    note: String,
}

/// A command of longhaul on a path.
#[derive(Debug, Clone)]
struct PathCell {
    path: DrawnPath,
    link: LinkSetup,
    options: String,
    truth: PathCellTruth,
}

impl PathCell {
    fn title(&self) -> String {
        let path = &self.path;
        let family = if path.is_ipv6 { ", IPv6" } else { "" };
        format!(
            "{:.1} Mbit/s, {} ms{family}; {}",
            path.rate_bps as f64 / 1e6,
            path.rtt_ms,
            self.link.note
        )
    }
}

/// Two idle seconds and the ramp pass before `ping` starts.
const PING: &str = "(sleep 6; ip netns exec near ping -n -i 0.05 -w 8 $ADDRESS >/run/ping) &\n";

/// The conclusion about a cell in words, and whether it is right.
#[derive(Debug, Clone)]
struct PathVerdict {
    text: String,
    is_right: bool,
}

impl GuestCell for PathCell {
    type Verdict = PathVerdict;
    const KINDS: &'static [CellKind<PathCell>] = &KINDS;

    /// Returns the script that prints the report, and then the RTTs of `ping` under load.
    fn script(&self, longhaul: &str) -> String {
        let (command, ping) = match self.truth {
            PathCellTruth::LoadedDelay => ("load", PING),
            _ => ("path", ""),
        };
        format!(
            "LONGHAUL='{longhaul}'\n{}{NETWORK}{}\nsleep 1\n{ping}\
             ip netns exec near $LONGHAUL {command} $ADDRESS {} --no-save --json --quiet\n\
             cat /run/ping 2>/dev/null || true\n",
            self.path.variables(),
            self.link.commands,
            self.options,
        )
    }

    fn judge(&self, text: &str) -> Result<PathVerdict, String> {
        if matches!(self.truth, PathCellTruth::LoadedDelay) {
            return judge_load(text);
        }
        let (report, _) = parse_report::<PathReport>(text)?;
        let analysis = conclude_path(&report.plan, &report.observation, &[], None).analysis;
        if let PathCellTruth::Route { mtu } = self.truth {
            return judge_route(self, mtu, &report, &analysis);
        }
        Ok(analysis.narrow_link.as_ref().map_or_else(
            || PathVerdict { text: format!("{:?}", report.observation.missing), is_right: false },
            |link| judge_narrow_link(self.truth, link),
        ))
    }

    fn format_row(judged: &JudgedCell<PathCell>) -> Vec<String> {
        let text =
            judged.verdict.as_ref().map_or_else(Clone::clone, |verdict| verdict.text.clone());
        let right = if PathCell::is_wrong(judged) { "**wrong**" } else { "right" };
        vec![judged.drawn.name(), judged.drawn.cell.title(), text, right.to_owned()]
    }

    fn is_wrong(judged: &JudgedCell<PathCell>) -> bool {
        !judged.verdict.as_ref().is_ok_and(|verdict| verdict.is_right)
    }
}

/// Runs the cells that the arguments select, or judges kept ones again, and tabulates them.
pub fn run_all(longhaul: &Path, arguments: &BenchArguments) -> Result<BenchOutcome, String> {
    let judged = judge_cells::<PathCell>(longhaul, arguments)?;
    let wrong = tabulate_wrong("Paths judged wrongly", "cell | path | said | ", &judged);
    let (kinds, missed) = tabulate_kinds(&judged);
    Ok(BenchOutcome::new(&[kinds, wrong], missed))
}

/// Runs one cell on this host, which is a guest, and returns its row of the table if it is wrong.
pub fn check_cell(longhaul: &Path, kind: &str, seed: u64, number: usize) -> Result<(), String> {
    guest_cells::check_cell::<PathCell>(longhaul, kind, seed, number)
}

fn tabulate_kinds(judged: &[JudgedCell<PathCell>]) -> (MarkdownTable, Vec<String>) {
    let mut table = MarkdownTable::new("Paths by kind", "kind | cells | right");
    let mut missed = Vec::new();
    for (kind, cells) in group_by_kind(judged) {
        let right = cells.iter().filter(|cell| !PathCell::is_wrong(cell)).count();
        table.row(vec![kind.to_owned(), cells.len().to_string(), right.to_string()]);
        if (right as f64) < KIND_RIGHT_RATIO_MIN * cells.len() as f64 {
            missed.push(format!("{kind}: {right} of {} cells are right", cells.len()));
        }
    }
    (table, missed)
}

fn judge_narrow_link(truth: PathCellTruth, link: &NarrowLink) -> PathVerdict {
    let is_right = match truth {
        PathCellTruth::NarrowLink { before_ttl, is_managed } => {
            let is_in_span = link.after_ttl.is_some_and(|after| after < before_ttl)
                && link.before_ttl.is_some_and(|before| before_ttl <= before);
            (link.verdict == "link" && link.before_ttl == Some(before_ttl))
                || (is_managed && (link.verdict == "none" || is_in_span))
        }
        PathCellTruth::OtherPlace(words) => words.contains(&link.verdict.as_str()),
        PathCellTruth::Route { .. } | PathCellTruth::LoadedDelay => false,
    };
    let place = link.before_ttl.map_or_else(String::new, |ttl| format!(" before {ttl}"));
    PathVerdict { text: format!("{}{place}", link.verdict), is_right }
}

fn judge_route(
    cell: &PathCell,
    mtu: u32,
    report: &PathReport,
    analysis: &PathAnalysis,
) -> Result<PathVerdict, String> {
    let route = report.observation.route.as_ref().ok_or("no route")?;
    let hop_ms: Vec<Option<f64>> =
        analysis.hops.iter().map(|hop| hop.rtt_min_ns.map(|ns| ns as f64 / 1e6)).collect();
    let expected_ms = [cell.path.rtt_ms / 2.0, cell.path.rtt_ms / 2.0, cell.path.rtt_ms];
    let are_delays_right = hop_ms.len() == HOPS
        && hop_ms.iter().zip(expected_ms).all(|(found, expected)| {
            found.is_some_and(|found| (found - expected).abs() <= IDLE_ERROR_MS)
        });
    let found_mtu = analysis.path_mtu.as_ref().map(|found| found.bytes);
    Ok(PathVerdict {
        text: format!("{hop_ms:?} ms, MTU {found_mtu:?} of {mtu}"),
        is_right: are_delays_right && route.reached && found_mtu == Some(mtu),
    })
}

/// Compares the median RTT under load with that of `ping`.
fn judge_load(text: &str) -> Result<PathVerdict, String> {
    let (report, rest) = parse_report::<LoadReport>(text)?;
    let analysis = conclude_load(&report.plan, &report.observation).analysis;
    let delays = analysis.steps.first().and_then(|step| step.delays).ok_or("no delays")?;
    let found_ms = delays.rtt_median_ns as f64 / 1e6;
    let expected_ms = median(parse_ping(rest)).ok_or("no answer to ping")?;
    let bound_ms = DELAY_ERROR_MS.max(DELAY_ERROR_RATIO * expected_ms);
    let grew = analysis.steps.first().and_then(|step| step.grew.clone()).unwrap_or_default();
    let sender = if report.plan.forward { "forward" } else { "reverse" };
    Ok(PathVerdict {
        text: format!("{found_ms:.1} of {expected_ms:.1} ms {grew}"),
        is_right: (found_ms - expected_ms).abs() <= bound_ms && (grew.is_empty() || grew == sender),
    })
}

/// Returns the RTTs that `ping` printed, in milliseconds.
fn parse_ping(text: &str) -> impl Iterator<Item = f64> {
    text.lines().filter_map(|line| line.split_once("time=")?.1.split(' ').next()?.parse().ok())
}
