//! Draws the conclusions from the cells of a scan, from a grid or a guided search.
//!
//! Source: the files named in [`super`]. Units: as named by the fields. Error: intervals given.
//! Wrong when: the path changed and too few cells followed; then nothing is concluded.

use super::goodput_asymmetry::analyse_asymmetry;
use super::kernel_needs::{DirectionHosts, find_clipped_window, list_needs};
use super::path_regimes::{build_regimes, find_stretches};
use super::scan_cells::list_measured_cells;
use super::scan_findings::ScanCase;
use super::{scan_caveats, scan_cells, scan_findings, scan_order, setting_choice, top_tenth};
use crate::{RunConclusion, VERSION};
use longhaul_model::report::v1::plan::RunDirection;
use longhaul_model::report::v1::scan::{
    ScanAnalysis, ScanCell, ScanObservation, ScanPlan, SearchMode,
};
use longhaul_model::report::v1::{ReportFinding, ThroughputReport, scan};

/// The grid that a guided search is compared with if its plan names none: 11 windows × 11 streams.
const SPARED_CELLS: u32 = 121;
/// The minimum share of a grid's settings in a stretch that allows conclusions.
const MIN_STRETCH_SHARE: f64 = 1.0 / 3.0;
/// The minimum number of probes per direction in a stretch of a guided search.
const MIN_GUIDED_PROBES: usize = 2;

/// Draws all conclusions from a scan. `runs` are the probes' own reports, in any order; without
/// them the hosts have no names and their findings are missing. Never fails: what cannot be
/// determined stays absent, and the caveats say so.
pub fn conclude_scan(
    plan: &ScanPlan,
    observation: &ScanObservation,
    runs: &[ThroughputReport],
    stopped_by: &str,
) -> RunConclusion<ScanAnalysis> {
    let all = list_measured_cells(observation);
    let stretches = find_stretches(&all);
    let regimes = build_regimes(&stretches);
    let cells = select_stretch(plan, &stretches);
    let hosts = [DirectionHosts::of(runs, true), DirectionHosts::of(runs, false)];
    let mut found: Vec<ReportFinding> =
        scan_findings::find_path_change(&regimes).into_iter().collect();
    let mut concluded = Vec::new();
    for forward in list_directions(plan) {
        let (direction, told) = conclude_direction(plan, cells, runs, forward);
        found.extend(told);
        concluded.push(direction);
    }
    let analysis = ScanAnalysis {
        version: VERSION,
        directions: concluded,
        probes_run: u32::try_from(all.len()).unwrap_or(u32::MAX),
        grid_cells: count_grid_cells(plan),
        stopped_by: stopped_by.to_owned(),
        asymmetry: analyse_asymmetry(cells, hosts),
        regimes,
    };
    let left = all.len() - cells.len();
    let caveats = scan_caveats::list_scan_caveats(plan, observation, cells, left, stopped_by);
    RunConclusion { analysis, findings: found, caveats }
}

fn conclude_direction(
    plan: &ScanPlan,
    cells: &[&ScanCell],
    runs: &[ThroughputReport],
    forward: bool,
) -> (scan::ScanConclusion, Vec<ReportFinding>) {
    let hosts = DirectionHosts::of(runs, forward);
    let mut found = scan::ScanConclusion {
        top_tenth: top_tenth::find_top_tenth(cells, forward),
        curves: scan_cells::build_curves(cells, forward),
        ..setting_choice::choose_settings(plan, cells, forward)
    };
    let gap = find_clipped_window(&found, cells, hosts);
    found.needs = list_needs(&found, cells, hosts, gap.as_ref());
    let told = scan_findings::list_scan_findings(&ScanCase {
        found: &found,
        cells,
        gap: gap.as_ref(),
        runs,
        both: plan.direction == RunDirection::Both,
    });
    (found, told)
}

/// Returns the latest stretch with enough cells; empty if the path changed and none has enough.
fn select_stretch<'c, 'a>(plan: &ScanPlan, stretches: &[&'c [&'a ScanCell]]) -> &'c [&'a ScanCell] {
    if let [only] = stretches {
        return only;
    }
    let least = match plan.search {
        SearchMode::Guided => MIN_GUIDED_PROBES,
        SearchMode::Grid => {
            (scan_order::list_settings(plan).len() as f64 * MIN_STRETCH_SHARE).ceil() as usize
        }
    };
    let enough = |stretch: &&&[&ScanCell]| {
        let held = |forward| stretch.iter().filter(|c| c.forward == forward).count();
        list_directions(plan).into_iter().all(|forward| held(forward) >= least)
    };
    stretches.iter().rev().find(enough).copied().unwrap_or(&[])
}

/// Returns the directions that the plan scans, forward first.
pub fn list_directions(plan: &ScanPlan) -> Vec<bool> {
    match plan.direction {
        RunDirection::Forward => vec![true],
        RunDirection::Reverse => vec![false],
        RunDirection::Both => vec![true, false],
    }
}

fn count_grid_cells(plan: &ScanPlan) -> u32 {
    let unbounded = plan.windows_bytes.is_empty() && plan.streams.is_empty();
    let settings = if plan.search == SearchMode::Guided && unbounded {
        SPARED_CELLS
    } else {
        u32::try_from(scan_order::list_settings(plan).len()).unwrap_or(u32::MAX)
    };
    let repeats = if plan.search == SearchMode::Grid { plan.repeats.max(1) } else { 1 };
    let directions = list_directions(plan).len() as u32;
    settings.saturating_mul(repeats).saturating_mul(directions)
}
