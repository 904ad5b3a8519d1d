//! Draws the conclusions from the cells of a scan, from a grid or a guided search.
//!
//! Source: the files named in [`super`]. Units: as named by the fields. Error: intervals given.
//! Wrong when: the path changed and too few cells followed; then nothing is concluded.
//!
//! Its interval consists of two of the measurements, by the binomial distribution of the number
//! below the true quantile: no distribution of the measurements is assumed.
//!
//! Source: SLAC's bulk throughput pages (2000 on) for the tenth; David and Nagaraja, Order
//! Statistics, section 7.1, for the interval. Units: bit/s. Error: the interval; it holds the truth
//! in 95 of 100 cases or more (`accuracy`).
//! Wrong when: most cells of the grid cannot reach the path's rate; then a tenth is too many.

use super::goodput_asymmetry::analyse_asymmetry;
use super::kernel_needs::{DirectionHosts, find_clipped_window, list_needs};
use super::path_regimes::{build_regimes, find_stretches};
use super::scan_cells::{self, cell_goodput, list_measured_cells};
use super::scan_findings::{self, ScanCase};
use super::{scan_caveats, scan_order, setting_choice};
use crate::stats::sign_test::cumulative_binomial;
use crate::stats::{quantile, sort_finite};
use crate::{RunConclusion, VERSION};
use longhaul_model::report::v1::plan::RunDirection;
use longhaul_model::report::v1::scan::{
    self, ScanAnalysis, ScanCell, ScanObservation, ScanPlan, SearchMode, TopTenth, TransferSetting,
};
use longhaul_model::report::v1::{ReportFinding, ThroughputReport};
use longhaul_model::units::{Bytes, Rate, count_of};

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
        top_tenth: find_top_tenth(cells, forward),
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

/// Formats a setting: `8 streams of 1 MiB`, `1 stream with auto window and bbr`.
pub fn format_setting_phrase(setting: &TransferSetting) -> String {
    let streams = count_of(u64::from(setting.streams), "stream");
    let window = setting.window_bytes.map_or_else(
        || format!("{streams} with auto window"),
        |bytes| format!("{streams} of {}", Bytes(bytes)),
    );
    let control = setting.congestion_control.as_ref();
    let control = control.map_or(String::new(), |name| format!(" and {name}"));
    let pacing = setting
        .pacing_bps
        .map_or(String::new(), |bps| format!(", each paced at {}", Rate::bits_per_second(bps)));
    format!("{window}{control}{pacing}")
}

pub fn name_direction(forward: bool) -> &'static str {
    if forward { "forward" } else { "reverse" }
}

/// Share of the measurements below it.
const SHARE: f64 = 0.9;
/// The minimum number of measurements for an upper tenth.
const MIN_CELLS: usize = 10;
const COVERAGE: f64 = 0.95;

/// Returns the top tenth of one direction's cells without sentinels; `None` with fewer than ten.
pub fn find_top_tenth(cells: &[&ScanCell], forward: bool) -> Option<TopTenth> {
    let chosen = cells.iter().filter(|c| c.forward == forward && !c.sentinel);
    compute_top_tenth(&sort_finite(chosen.map(|c| cell_goodput(c))))
}

/// Returns the top tenth of ascending rates in bit/s.
pub fn compute_top_tenth(ascending: &[f64]) -> Option<TopTenth> {
    if ascending.len() < MIN_CELLS {
        return None;
    }
    let interval = find_interval_ranks(ascending.len())
        .map(|(low, high)| [ascending[low - 1] as u64, ascending[high - 1] as u64]);
    Some(TopTenth {
        goodput_bps: quantile(ascending, SHARE)?.round() as u64,
        goodput_interval_bps: interval,
        cells: u32::try_from(ascending.len()).unwrap_or(u32::MAX),
    })
}

/// Returns the ranks (from 1) of the two measurements that bound the quantile; `None` if even all
/// measurements do not reach the coverage.
fn find_interval_ranks(count: usize) -> Option<(usize, usize)> {
    let below = cumulative_binomial(count, SHARE);
    let tail = (1.0 - COVERAGE) / 2.0;
    // Rank h bounds it from above if fewer than h measurements are below the quantile.
    let high = (1..=count).find(|h| below[h - 1] >= 1.0 - tail).unwrap_or(count);
    let low = (1..high).rev().find(|l| below[high - 1] - below[l - 1] >= COVERAGE)?;
    Some((low, high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_agree_with_the_printed_binomial_table() {
        // Binomial(50, 0.9): P(B <= 40) = 0.0245, P(B <= 48) = 0.9662, P(B <= 49) = 0.9948.
        assert_eq!(find_interval_ranks(50), Some((41, 50)));
        assert_eq!(find_interval_ranks(20), None, "0.9^20 of the truth lies above all of them");
        let below = cumulative_binomial(50, SHARE);
        assert!((below[40] - 0.0245).abs() < 5e-4 && (below[48] - 0.9662).abs() < 5e-4);
    }

    #[test]
    fn many_measurements_have_ranks_as_well() {
        for count in [1_000, 10_000, 50_000] {
            let (low, high) = find_interval_ranks(count).unwrap();
            let centre = count as f64 * SHARE;
            assert!((low as f64) < centre && centre < high as f64 && high <= count);
        }
    }
}
