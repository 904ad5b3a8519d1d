//! Draws the conclusions from the cells of a scan, from a grid or a guided search.
//!
//! Source: the files named in [`super`]. Units: as named by the fields. Error: intervals given.
//! Wrong when: the path changed and too few cells followed; then nothing is concluded.
//!
//! # Top tenth
//!
//! The rate that the top tenth of a path's measurements exceeds.
//!
//! Its interval consists of two of the measurements, by the binomial distribution of the number
//! below the true quantile: no distribution of the measurements is assumed.
//!
//! Source: SLAC's bulk throughput pages (2000 on) for the tenth; David and Nagaraja, Order
//! Statistics, section 7.1, for the interval. Units: bit/s. Error: the interval; it holds the truth
//! in 95 of 100 cases or more (`accuracy`).
//! Wrong when: most cells of the grid cannot reach the path's rate; then a tenth is too many.
//!
//! # Setting choice
//!
//! Chooses the best setting, and the smallest one that is as good.
//!
//! Smallest means: fewer streams, then a smaller window (an autotuned one is the smallest: nothing
//! has to be set), then the default congestion control; among equals the one with the shorter queue
//! and fewer retransmits.
//!
//! Source: seeds of SLAC 2000 to 2003 for the smallest setting near the best; Altman et al. 2006 for
//! few streams. Units: bit/s. Error: that of the medians (`noise`).
//! Wrong when: the scatter is larger than 3 % without repeats; the caveats report it.

use super::goodput_asymmetry::analyse_asymmetry;
use super::kernel_needs::{DirectionHosts, find_clipped_window, list_needs};
use super::path_regimes::{build_regimes, find_stretches};
use super::scan_cells::{
    self, ProbeNoise, SettingGroup, cell_goodput, compute_interval_bps, estimate_noise,
    group_by_setting, list_failed_cells, list_measured_cells,
};
use super::scan_findings::{self, ScanCase};
use super::{order_cells, scan_order};
use crate::stats::sign_test::cumulative_binomial;
use crate::stats::{quantile, sort_finite};
use crate::throughput::format_whole_percent;
use crate::tune::{
    AS_GOOD_RATIO, MIN_ERROR_RATIO, NORMAL_QUANTILE, SettingMeasurement, USUAL_ERROR_RATIO,
    estimate_expected_bps,
};
use crate::{RunConclusion, VERSION};
use longhaul_model::report::v1::plan::RunDirection;
use longhaul_model::report::v1::scan::{
    self, ScanAnalysis, ScanCell, ScanConclusion, ScanObservation, ScanPlan, SearchMode,
    SettingChoice, TopTenth, TransferSetting,
};
use longhaul_model::report::v1::{ReportCaveat, ReportFinding, ThroughputReport};
use longhaul_model::units::{Bytes, Rate, count_of};
use std::cmp::Ordering;
use std::collections::BTreeMap;

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
    let caveats = list_scan_caveats(plan, observation, cells, left, stopped_by);
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
        ..choose_settings(plan, cells, forward)
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

/// Returns best, recommended, default and present setting of one direction's cells.
pub fn choose_settings(plan: &ScanPlan, cells: &[&ScanCell], forward: bool) -> ScanConclusion {
    let groups = group_by_setting(cells, forward);
    let scatter = estimate_noise(&groups);
    let best = groups.iter().reduce(|a, b| if is_better(b, a) { b } else { a });
    let rates = list_rates_bps(plan, &groups, scatter);
    let enough = AS_GOOD_RATIO * rates.iter().copied().fold(0.0, f64::max);
    let adequate = groups.iter().zip(&rates).filter(|(_, bps)| **bps >= enough);
    let recommended = adequate.map(|(g, _)| g).min_by(|a, b| compare_size(a, b));
    let of = |setting: &TransferSetting| groups.iter().find(|g| g.setting == setting);
    ScanConclusion {
        forward,
        best: best.map(|g| create_choice(g, scatter)),
        recommended: recommended.map(|g| create_choice(g, scatter)),
        default: of(&TransferSetting::default()).map(|g| create_choice(g, scatter)),
        present: plan.present.as_ref().and_then(of).map(|g| create_choice(g, scatter)),
        ..ScanConclusion::default()
    }
}

/// Returns the rate by which each group is judged: its median; in a guided search with few probes,
/// the curve through those that filled the path, so that no single probe decides by chance.
fn list_rates_bps(
    plan: &ScanPlan,
    groups: &[SettingGroup],
    scatter: Option<ProbeNoise>,
) -> Vec<f64> {
    if plan.search == SearchMode::Grid {
        return groups.iter().map(SettingGroup::median_bps).collect();
    }
    let measured = groups.iter().map(|g| {
        let half = compute_interval_bps(g, scatter)
            .map(|[low, high]| high.saturating_sub(low) as f64 / 2.0);
        SettingMeasurement {
            setting: g.setting,
            goodput_bps: g.median_bps(),
            error_ratio: half.map_or(USUAL_ERROR_RATIO, |h| {
                (h / NORMAL_QUANTILE / g.median_bps()).max(MIN_ERROR_RATIO)
            }),
            limiter: g.limiter(),
        }
    });
    estimate_expected_bps(&measured.collect::<Vec<_>>())
}

fn create_choice(group: &SettingGroup, scatter: Option<ProbeNoise>) -> SettingChoice {
    group.choice(compute_interval_bps(group, scatter))
}

fn is_better(one: &SettingGroup, other: &SettingGroup) -> bool {
    let by_rate = one.median_bps().total_cmp(&other.median_bps());
    by_rate.then_with(|| compare_size(other, one)) == Ordering::Greater
}

fn compare_size(one: &SettingGroup, other: &SettingGroup) -> Ordering {
    let size = |s: &TransferSetting| (s.streams, s.window_bytes, s.congestion_control.is_some());
    let load = |g: &SettingGroup| g.loaded_rtt_us().unwrap_or(u64::MAX);
    let again = |g: &SettingGroup| g.retransmitted_ratio().unwrap_or(1.0);
    size(one.setting)
        .cmp(&size(other.setting))
        .then_with(|| load(one).cmp(&load(other)))
        .then_with(|| again(one).total_cmp(&again(other)))
        .then_with(|| one.setting.cmp(other.setting))
}

/// With fewer results in a direction, conclusions are weak.
const FEW_CELLS: usize = 3;
/// If repeats scatter by more than this, a 3 % difference means nothing.
const NOISY_RATIO: f64 = 0.1;

/// Returns the caveats. `scan_cells`: the basis of the conclusions; `left`: the number of others.
pub fn list_scan_caveats(
    plan: &ScanPlan,
    observation: &ScanObservation,
    cells: &[&ScanCell],
    left: usize,
    stopped_by: &str,
) -> Vec<ReportCaveat> {
    let mut found: Vec<ReportCaveat> = Vec::new();
    found.extend(check_failed(observation));
    found.extend(check_interrupted(plan, observation, stopped_by));
    for forward in list_directions(plan) {
        // A guided search that settled needs no more probes.
        if plan.search == SearchMode::Grid || stopped_by != "settled" {
            found.extend(check_few_cells(cells, forward));
        }
        found.extend(check_noise(cells, forward));
    }
    if left > 0 {
        let text = format!(
            "The path changed during the scan: {left} results from before or during the change are not used; the conclusions use {} results",
            cells.len()
        );
        found.push(ReportCaveat::new("path_changed", text));
    }
    found
}

fn check_failed(observation: &ScanObservation) -> Option<ReportCaveat> {
    let failed = list_failed_cells(observation);
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for cell in &failed {
        *reasons.entry(cell.error.as_deref().unwrap_or("no result")).or_default() += 1;
    }
    let (reason, times) = reasons.into_iter().max_by_key(|(_, times)| *times)?;
    let text = format!("{} probes failed; {times} of them: {reason}", failed.len());
    Some(ReportCaveat::new("failed_cells", text))
}

fn check_interrupted(
    plan: &ScanPlan,
    observation: &ScanObservation,
    stopped_by: &str,
) -> Option<ReportCaveat> {
    if plan.search != SearchMode::Grid {
        return None;
    }
    let all = order_cells(plan).len();
    let mut places: Vec<u32> = observation.cells.iter().map(|c| c.index).collect();
    places.sort_unstable();
    places.dedup();
    (places.len() < all).then(|| {
        let text = format!(
            "Only {} of {all} probes of the grid were run (stopped by: {stopped_by}); an untested setting may be better",
            places.len()
        );
        ReportCaveat::new("interrupted", text)
    })
}

fn check_few_cells(cells: &[&ScanCell], forward: bool) -> Option<ReportCaveat> {
    let count = cells.iter().filter(|c| c.forward == forward).count();
    (count < FEW_CELLS).then(|| {
        let way = name_direction(forward);
        let text =
            format!("Only {count} probes gave a result in {way}: too few for firm conclusions");
        ReportCaveat::new("few_cells", text)
    })
}

fn check_noise(cells: &[&ScanCell], forward: bool) -> Option<ReportCaveat> {
    let scatter = estimate_noise(&group_by_setting(cells, forward))?;
    (scatter.ratio > NOISY_RATIO).then(|| {
        let text = format!(
            "Repeated probes of the same setting vary by {} in {}: smaller differences are noise; use more repeats",
            format_whole_percent(scatter.ratio),
            name_direction(forward)
        );
        ReportCaveat::new("noisy_path", text)
    })
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
