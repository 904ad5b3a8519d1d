//! Detects a step of the idle RTT.
//!
//! Each cell measures an idle RTT before its load; another route shows there first. The cut is
//! where the levels separate the cells of the two sides best; a few that a queue delayed may lie on
//! the wrong side.
//!
//! Source: SLAC's route changes of 2003 (150 to 160 ms to Lyon). Units: us. Error: one cell.
//! Wrong when: the new route has the same length to 5 %, or foreign load fills queues for minutes.

use super::RegimeCut;
use crate::stats::quantile::median;
use longhaul_model::report::v1::scan::ScanCell;
use std::time::Duration;

/// The minimum number of cells on each side of a cut.
const MIN_CELLS: usize = 3;
const MIN_STEP: Duration = Duration::from_millis(2);
const MIN_STEP_RATIO: f64 = 0.05;
/// The maximum share of a side's cells that are nearer to the other side's level.
const MAX_STRAYS_RATIO: f64 = 0.15;
/// The maximum number of positions tried; in longer scans some are skipped.
const MAX_POSITIONS: usize = 200;

/// Returns the minimum step that indicates another route.
pub fn compute_min_step(level: Duration) -> Duration {
    level.mul_f64(MIN_STEP_RATIO).max(MIN_STEP)
}

pub fn find_rtt_cut(cells: &[&ScanCell]) -> Option<RegimeCut> {
    let timed: Vec<(usize, f64)> = cells
        .iter()
        .enumerate()
        .filter_map(|(place, cell)| Some((place, cell.idle_rtt_us? as f64)))
        .collect();
    let last = timed.len().checked_sub(MIN_CELLS)?;
    let places = (MIN_CELLS..=last).step_by(timed.len().div_ceil(MAX_POSITIONS));
    let clearest = places
        .filter_map(|at| Some((at, compute_separation(&timed[..at], &timed[at..])?)))
        .max_by(|a, b| a.1.total_cmp(&b.1));
    clearest.map(|(at, _)| RegimeCut { last_before: timed[at - 1].0, first_after: timed[at].0 })
}

/// Returns the share of the cells on their own side, if the step is large and strays are few.
fn compute_separation(before: &[(usize, f64)], after: &[(usize, f64)]) -> Option<f64> {
    let level = |side: &[(usize, f64)]| median(side.iter().map(|(_, rtt)| *rtt));
    let (was, is) = (level(before)?, level(after)?);
    let least = compute_min_step(Duration::from_micros(was.min(is) as u64)).as_micros() as f64;
    if (was - is).abs() <= least {
        return None;
    }
    let middle = f64::midpoint(was, is);
    let strays = |side: &[(usize, f64)], level: f64| {
        let other = |rtt: f64| (rtt > middle) != (level > middle);
        side.iter().filter(|(_, rtt)| other(*rtt)).count() as f64
    };
    let (stray_before, stray_after) = (strays(before, was), strays(after, is));
    let few = |strays: f64, side: &[(usize, f64)]| strays <= MAX_STRAYS_RATIO * side.len() as f64;
    (few(stray_before, before) && few(stray_after, after))
        .then(|| 1.0 - (stray_before + stray_after) / (before.len() + after.len()) as f64)
}
