//! Caveats of the scan itself.

use super::order_cells;
use super::scan_cells::{estimate_noise, group_by_setting, list_failed_cells};
use super::scan_conclusion::name_direction;
use crate::throughput::format_whole_percent;
use longhaul_model::report::v1::ReportCaveat;
use longhaul_model::report::v1::scan::{ScanCell, ScanObservation, ScanPlan, SearchMode};
use std::collections::BTreeMap;

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
    for forward in super::scan_conclusion::list_directions(plan) {
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
