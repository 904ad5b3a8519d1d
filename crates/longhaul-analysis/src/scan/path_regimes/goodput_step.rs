//! Detects a step of the goodput of one setting.
//!
//! Logarithms of the goodput of repeated settings (in a grid the sentinels, in a guided search its
//! repeats) are fitted by one level for each setting and one common step; the step's t must be
//! significant as the largest of all positions tried. A few repeats often scatter much less than
//! they should by chance, so their variance is shrunk towards that of typical probes.
//!
//! Source: two-way least squares; Bonferroni; Smyth 2004 for the variance. Units: logarithms of
//! ratios. Error: see `accuracy`.
//! Wrong when: the scatter is far from normal, or one side holds a single outlier.
//!
//! # Steps of the idle RTT
//!
//! Detects a step of the idle RTT.
//!
//! Each cell measures an idle RTT before its load; another route shows there first. The cut is
//! where the levels separate the cells of the two sides best; a few that a queue delayed may lie on
//! the wrong side.
//!
//! Source: SLAC's route changes of 2003 (150 to 160 ms to Lyon). Units: us. Error: one cell.
//! Wrong when: the new route has the same length to 5 %, or foreign load fills queues for minutes.

use super::RegimeCut;
use crate::scan::scan_cells::cell_goodput;
use crate::stats::median;
use crate::stats::student_distribution::student_probability;
use longhaul_model::report::v1::scan::{ScanCell, TransferSetting};
use std::collections::BTreeMap;
use std::time::Duration;

/// Probability of a cut in a scan of a steady path, all positions together.
const FALSE_CUT_PROBABILITY: f64 = 0.01;
/// A smaller step changes no conclusion.
const MIN_STEP: f64 = 0.1;
/// The typical scatter of one probe, and the number of repeats that this prior is worth.
const USUAL_NOISE: f64 = 0.07;
const USUAL_FREEDOM: f64 = 6.0;
/// Half-width of a 95 % interval in standard errors.
const QUANTILE: f64 = 1.96;
/// The maximum number of positions tried; in longer scans some are skipped.
const MAX_POSITIONS: usize = 200;

struct RepeatedCell {
    place: usize,
    group: usize,
    logarithm: f64,
    /// Relative standard error by the run's own interval.
    own_error: Option<f64>,
}

pub fn find_goodput_cut(cells: &[&ScanCell]) -> Option<RegimeCut> {
    let ways: [&dyn Fn(&ScanCell) -> bool; 3] = [&|_| true, &|c| c.forward, &|c| !c.forward];
    let tried = ways.iter().filter_map(|way| find_clearest_step(&collect_repeats(cells, way)));
    let clearest = tried.min_by(|a, b| a.1.total_cmp(&b.1));
    // Three tests, so each has a third of the error probability.
    clearest.filter(|(_, chance)| *chance < FALSE_CUT_PROBABILITY / 3.0).map(|(cut, _)| cut)
}

/// Returns the sentinels and all cells of their settings; without sentinels, all repeated settings.
fn collect_repeats(cells: &[&ScanCell], chosen: &dyn Fn(&ScanCell) -> bool) -> Vec<RepeatedCell> {
    let watched = cells.iter().any(|c| c.sentinel);
    let mut groups: BTreeMap<(&TransferSetting, bool), Vec<usize>> = BTreeMap::new();
    for (place, cell) in cells.iter().enumerate().filter(|(_, c)| chosen(c)) {
        groups.entry((&cell.setting, cell.forward)).or_default().push(place);
    }
    let kept = groups.into_values().filter(|places| {
        places.len() > 1 && (!watched || places.iter().any(|p| cells[*p].sentinel))
    });
    let mut repeats: Vec<RepeatedCell> = Vec::new();
    for (group, places) in kept.enumerate() {
        repeats.extend(places.into_iter().map(|place| RepeatedCell {
            place,
            group,
            logarithm: cell_goodput(cells[place]).max(1.0).ln(),
            own_error: compute_own_error(cells[place]),
        }));
    }
    repeats.sort_by_key(|r| r.place);
    repeats
}

fn compute_own_error(cell: &ScanCell) -> Option<f64> {
    let [low, high] = cell.goodput_interval_bps?;
    let half = high.saturating_sub(low) as f64 / 2.0;
    Some(half / QUANTILE / cell_goodput(cell).max(1.0))
}

/// Returns the prior scatter of one of these probes: the typical one, or that within their own runs
/// if larger.
fn estimate_prior_noise(repeats: &[RepeatedCell]) -> f64 {
    let own = median(repeats.iter().filter_map(|r| r.own_error));
    own.map_or(USUAL_NOISE, |error| error.max(USUAL_NOISE))
}

/// Returns the best position for a step, and the probability of such a step anywhere by chance.
fn find_clearest_step(repeats: &[RepeatedCell]) -> Option<(RegimeCut, f64)> {
    let groups = 1 + repeats.iter().map(|r| r.group).max()?;
    let places = (1..repeats.len()).step_by(repeats.len().div_ceil(MAX_POSITIONS));
    let tried = places.len() as f64;
    let usual = estimate_prior_noise(repeats);
    places
        .filter_map(|at| Some((at, compute_step_probability(repeats, at, groups, usual)?)))
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(at, chance)| {
            let cut =
                RegimeCut { last_before: repeats[at - 1].place, first_after: repeats[at].place };
            (cut, (chance * tried).min(1.0))
        })
}

/// Returns the two-sided probability of a step as clear as the one at `at`; `None` if no setting
/// lies on both sides, or the step is small.
fn compute_step_probability(
    repeats: &[RepeatedCell],
    at: usize,
    groups: usize,
    usual: f64,
) -> Option<f64> {
    let mut sums = vec![[0.0f64; 3]; groups];
    for (i, r) in repeats.iter().enumerate() {
        let sum = &mut sums[r.group];
        sum[0] += 1.0;
        sum[1] += f64::from(u8::from(i >= at));
        sum[2] += r.logarithm;
    }
    let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
    for (i, r) in repeats.iter().enumerate() {
        let [count, after, total] = sums[r.group];
        let x = f64::from(u8::from(i >= at)) - after / count;
        let y = r.logarithm - total / count;
        (xx, xy, yy) = (xx + x * x, xy + x * y, yy + y * y);
    }
    if xx <= 0.0 {
        return None;
    }
    let step = xy / xx;
    let freedom = (repeats.len() as f64 - groups as f64 - 1.0).max(0.0);
    let own = (yy - step * xy).max(0.0);
    let all_freedom = freedom + USUAL_FREEDOM;
    let variance = (own + USUAL_FREEDOM * usual.powi(2)) / all_freedom;
    (step.abs() > MIN_STEP).then(|| student_probability(step / (variance / xx).sqrt(), all_freedom))
}

/// The minimum number of cells on each side of a cut.
const MIN_CELLS: usize = 3;
const MIN_RTT_STEP: Duration = Duration::from_millis(2);
const MIN_RTT_STEP_RATIO: f64 = 0.05;
/// The maximum share of a side's cells that are nearer to the other side's level.
const MAX_STRAYS_RATIO: f64 = 0.15;

/// Returns the minimum step that indicates another route.
pub fn compute_min_step(level: Duration) -> Duration {
    level.mul_f64(MIN_RTT_STEP_RATIO).max(MIN_RTT_STEP)
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
