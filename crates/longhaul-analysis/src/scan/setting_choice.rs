//! Chooses the best setting, and the smallest one that is as good.
//!
//! Smallest means: fewer streams, then a smaller window (an autotuned one is the smallest: nothing
//! has to be set), then the default congestion control; among equals the one with the shorter queue
//! and fewer retransmits.
//!
//! Source: seeds of SLAC 2000 to 2003 for "within 3 %"; Altman et al. 2006 for few streams. Units:
//! bit/s. Error: that of the medians (`noise`).
//! Wrong when: the scatter is larger than 3 % without repeats; the caveats report it.

use super::scan_cells::{
    ProbeNoise, SettingGroup, compute_interval_bps, estimate_noise, group_by_setting,
};
use crate::tune::{AS_GOOD_RATIO, MIN_ERROR_RATIO, NORMAL_QUANTILE, USUAL_ERROR_RATIO};
use crate::tune::{SettingMeasurement, estimate_expected_bps};
use longhaul_model::report::v1::scan::{
    ScanCell, ScanConclusion, ScanPlan, SearchMode, SettingChoice, TransferSetting,
};
use std::cmp::Ordering;

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
