//! Compares the settings of bulk runs.

use super::archived_path::{ArchivedBulkRun, ArchivedPath};
use longhaul_analysis::stats::{find_mode, median};
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::case::SettingCase;
use longhaul_model::report::v1::plan::ThroughputPlan;
use longhaul_model::report::v1::scan::{SettingChoice, TransferSetting};
use longhaul_model::report::v1::{AnyReport, BestSetting, HostPair, TimePeriod};
use std::collections::BTreeMap;

/// Returns the setting that a plan requests.
pub fn setting_of_plan(plan: &ThroughputPlan) -> TransferSetting {
    TransferSetting {
        window_bytes: plan.receive_buffer_bytes.or(plan.send_buffer_bytes),
        streams: plan.streams,
        congestion_control: plan.congestion_control.clone(),
        pacing_bps: plan.pacing_bps,
    }
}

/// Returns the settings of the standalone runs of two periods: forward first, the most used first.
pub fn compare_settings(material: &ArchivedPath, periods: [TimePeriod; 2]) -> Vec<SettingCase> {
    let mut found = Vec::new();
    for pair in material.directions() {
        let mut cases: Vec<SettingCase> = group_by_setting(material, &pair, periods)
            .into_iter()
            .map(|(setting, sides)| build_setting_case(&pair, setting, &sides))
            .collect();
        cases.sort_by_key(|case| std::cmp::Reverse(case.run_counts[0] + case.run_counts[1]));
        found.extend(cases);
    }
    found
}

/// Returns the start times of bulk runs whose setting occurs in only one period, if another one
/// occurs in both: their difference is due to the setting. Empty if no setting occurs in both.
pub fn list_one_period_runs(
    material: &ArchivedPath,
    pair: &HostPair,
    periods: [TimePeriod; 2],
) -> Vec<i64> {
    let settings = group_by_setting(material, pair, periods);
    let in_both = |sides: &[Vec<ArchivedBulkRun>; 2]| sides.iter().all(|it| !it.is_empty());
    if !settings.values().any(in_both) {
        return Vec::new();
    }
    let alone = settings.into_values().filter(|sides| !in_both(sides));
    alone.flatten().flatten().map(|run| run.at_us).collect()
}

/// Returns the bulk runs of each setting in each period.
fn group_by_setting<'a>(
    material: &ArchivedPath<'a>,
    pair: &HostPair,
    periods: [TimePeriod; 2],
) -> BTreeMap<TransferSetting, [Vec<ArchivedBulkRun<'a>>; 2]> {
    let mut settings: BTreeMap<_, [Vec<ArchivedBulkRun>; 2]> = BTreeMap::new();
    for run in material.bulk_runs(pair).into_iter().filter(ArchivedBulkRun::is_standalone) {
        let inside = periods.into_iter().enumerate().filter(|(_, it)| it.contains(run.at_us));
        for (side, _) in inside {
            settings.entry(setting_of_plan(&run.report.plan)).or_default()[side].push(run);
        }
    }
    settings
}

fn build_setting_case(
    pair: &HostPair,
    setting: TransferSetting,
    sides: &[Vec<ArchivedBulkRun>; 2],
) -> SettingCase {
    let [before, after] = sides;
    let count = |runs: &[ArchivedBulkRun]| u32::try_from(runs.len()).unwrap_or(u32::MAX);
    SettingCase {
        pair: pair.clone(),
        setting,
        run_counts: [count(before), count(after)],
        before_bps: compute_median_goodput(before),
        after_bps: compute_median_goodput(after),
        before_limited_by: find_common_limiter(before),
        after_limited_by: find_common_limiter(after),
    }
}

fn compute_median_goodput(runs: &[ArchivedBulkRun]) -> Option<u64> {
    let rates = runs.iter().filter_map(|run| run.goodput_bps().map(|bps| bps as f64));
    median(rates).map(|bps| bps.round() as u64)
}

/// Returns the most frequent limiter; unknown ones do not count.
pub fn find_common_limiter(runs: &[ArchivedBulkRun]) -> Option<Limiter> {
    let mut limiters: Vec<Limiter> = runs.iter().map(|run| run.analysis.limited_by).collect();
    limiters.retain(|limiter| *limiter != Limiter::Unknown);
    find_mode(&limiters)
}

/// Returns the recommendation of the latest scan in a period for this direction.
pub fn find_recommended_setting(
    material: &ArchivedPath,
    pair: &HostPair,
    period: TimePeriod,
) -> Option<BestSetting> {
    material.runs_within(period).rev().find_map(|run| {
        let AnyReport::Scan(scan) = &run.report else {
            return None;
        };
        let forward = run.near == pair.from;
        let mut directions = scan.analysis.directions.iter();
        let conclusion = directions.find(|direction| direction.forward == forward)?;
        let choice: &SettingChoice = conclusion.recommended.as_ref()?;
        Some(BestSetting {
            setting: choice.setting.clone(),
            goodput_bps: choice.goodput_bps,
            repeats: choice.probes,
            scan_id: Some(run.run_id.clone()),
        })
    })
}

/// Returns the recommendation of the latest scan, or else the setting with the best median goodput.
pub fn find_best_setting(
    material: &ArchivedPath,
    pair: &HostPair,
    period: TimePeriod,
) -> Option<BestSetting> {
    find_recommended_setting(material, pair, period).or_else(|| {
        let mut settings: BTreeMap<TransferSetting, Vec<ArchivedBulkRun>> = BTreeMap::new();
        for run in material.bulk_runs(pair) {
            if period.contains(run.at_us) {
                let setting = setting_of_plan(&run.report.plan);
                settings.entry(setting).or_default().push(run);
            }
        }
        let middles = settings.into_iter().filter_map(|(setting, runs)| {
            Some(BestSetting {
                setting,
                goodput_bps: compute_median_goodput(&runs)?,
                repeats: u32::try_from(runs.len()).unwrap_or(u32::MAX),
                scan_id: None,
            })
        });
        middles.max_by_key(|best| best.goodput_bps)
    })
}
