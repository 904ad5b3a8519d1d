//! Estimates the scatter of goodput between probes of one setting, and the error of a median.
//!
//! Few settings have enough repeats of their own, so the relative scatter of all of them is pooled.
//! A single probe, without any repeat in the scan, has the interval of its own run.
//!
//! Source: pooled variance of repeats; Student's t. Units: ratios, bit/s. Error: for the interval
//! of a median, the 1.25 of normal values.
//! Wrong when: settings scatter very differently (for example policed and window-limited ones).

use super::scan_cells::{SettingGroup, cell_goodput};
use crate::stats::mean_interval::student_t_975;

/// The minimum degrees of freedom to estimate the scatter from repeats.
const MIN_FREEDOM: f64 = 2.0;
/// The median of normal values scatters this much more than their mean.
const MEDIAN_FACTOR: f64 = 1.25;

/// Relative standard deviation of one probe.
#[derive(Debug, Clone, Copy)]
pub struct ProbeNoise {
    pub ratio: f64,
    pub freedom: f64,
}

/// Returns the scatter pooled over the groups with repeats; `None` with too few of them.
pub fn estimate_noise(groups: &[SettingGroup]) -> Option<ProbeNoise> {
    let (mut squares, mut freedom) = (0.0, 0.0);
    for group in groups.iter().filter(|g| g.cells.len() > 1) {
        let count = group.cells.len() as f64;
        let mean = group.cells.iter().map(|c| cell_goodput(c)).sum::<f64>() / count;
        let off = |bps: f64| (bps / mean - 1.0).powi(2);
        squares += group.cells.iter().map(|c| off(cell_goodput(c))).sum::<f64>();
        freedom += count - 1.0;
    }
    (freedom >= MIN_FREEDOM).then(|| ProbeNoise { ratio: (squares / freedom).sqrt(), freedom })
}

/// Returns the 95 % interval of the group's median.
pub fn compute_interval_bps(group: &SettingGroup, noise: Option<ProbeNoise>) -> Option<[u64; 2]> {
    let own = group.cells.iter().filter_map(|c| {
        let [low, high] = c.goodput_interval_bps?;
        Some(high.saturating_sub(low) as f64 / 2.0)
    });
    let count = group.cells.len() as f64;
    let own_half = own.reduce(f64::max).map(|half| half / count.sqrt());
    let median = group.median_bps();
    let pooled_half = noise.map(|n| {
        let factor = if count > 2.0 { MEDIAN_FACTOR } else { 1.0 };
        factor * student_t_975(n.freedom) * n.ratio * median / count.sqrt()
    });
    let half = [own_half, pooled_half].into_iter().flatten().reduce(f64::max)?;
    Some([(median - half).max(0.0) as u64, (median + half) as u64])
}
