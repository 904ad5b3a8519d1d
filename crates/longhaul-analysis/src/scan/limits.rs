//! Caveats of the scan itself.

use super::cells::{groups, without_result};
use super::noise::noise;
use super::order;
use super::words::direction;
use crate::throughput::words::percent;
use longhaul_model::report::v1::Caveat;
use longhaul_model::report::v1::scan::{Cell, Observation, Plan, Search};
use std::collections::BTreeMap;

/// With fewer results in a direction, conclusions are weak.
const FEW_CELLS: usize = 3;
/// If repeats scatter by more than this, a 3 % difference means nothing.
const NOISY_RATIO: f64 = 0.1;

/// Returns the caveats. `cells`: the basis of the conclusions; `left`: the number of others.
pub fn caveats(
    plan: &Plan,
    observation: &Observation,
    cells: &[&Cell],
    left: usize,
    stopped_by: &str,
) -> Vec<Caveat> {
    let mut found: Vec<Caveat> = Vec::new();
    found.extend(failed(observation));
    found.extend(interrupted(plan, observation, stopped_by));
    for forward in super::conclude::directions(plan) {
        // A guided search that settled needs no more probes.
        if plan.search == Search::Grid || stopped_by != "settled" {
            found.extend(few(cells, forward));
        }
        found.extend(noisy(cells, forward));
    }
    if left > 0 {
        let text = format!(
            "The path changed: {left} results of before or of the change itself are left out of the conclusions, which are of {} results",
            cells.len()
        );
        found.push(Caveat::new("path_changed", text));
    }
    found
}

fn failed(observation: &Observation) -> Option<Caveat> {
    let failed = without_result(observation);
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for cell in &failed {
        *reasons
            .entry(cell.error.as_deref().unwrap_or("no result"))
            .or_default() += 1;
    }
    let (reason, times) = reasons.into_iter().max_by_key(|(_, times)| *times)?;
    let text = format!(
        "{} probes gave no result; {times} of them: {reason}",
        failed.len()
    );
    Some(Caveat::new("failed_cells", text))
}

fn interrupted(plan: &Plan, observation: &Observation, stopped_by: &str) -> Option<Caveat> {
    if plan.search != Search::Grid {
        return None;
    }
    let all = order(plan).len();
    let mut places: Vec<u32> = observation.cells.iter().map(|c| c.index).collect();
    places.sort_unstable();
    places.dedup();
    (places.len() < all).then(|| {
        let text = format!(
            "{} of {all} probes of the grid were made (stopped by: {stopped_by}); what was not measured may be better",
            places.len()
        );
        Caveat::new("interrupted", text)
    })
}

fn few(cells: &[&Cell], forward: bool) -> Option<Caveat> {
    let count = cells.iter().filter(|c| c.forward == forward).count();
    (count < FEW_CELLS).then(|| {
        let way = direction(forward);
        Caveat::new("few_cells", format!("Only {count} probes gave a result in {way}; conclusions from so few are weak or absent"))
    })
}

fn noisy(cells: &[&Cell], forward: bool) -> Option<Caveat> {
    let scatter = noise(&groups(cells, forward))?;
    (scatter.ratio > NOISY_RATIO).then(|| {
        let text = format!(
            "One and the same setting scatters by {} from probe to probe in {}: differences smaller than that are chance; repeat more",
            percent(scatter.ratio),
            direction(forward)
        );
        Caveat::new("noisy_path", text)
    })
}
