//! Measures the time from the end of a load until RTTs are back at the idle level.
//!
//! Recovery is the first of ten consecutive answered probes of which nine are no higher than the
//! 99th percentile of the idle path before any load, or its median plus four robust deviations, if
//! higher; at least a millisecond above the median. Lost probes are skipped.
//!
//! Source: our own; the run of ten tolerates single late probes. Units: microseconds. Error: one
//! spacing of the probes.
//! Wrong when: others load the path at that moment; then their queue is measured.

use crate::stats::quantile::{median, quantile, sort_finite};
use crate::stats::robust_scale::mad_scale;
use longhaul_model::report::v1::load::LoadProbe;

/// The number of consecutive answered probes, and of those that must be back.
const RECOVERY_PROBES: usize = 10;
const MIN_RECOVERED_PROBES: usize = 9;
const DEVIATIONS: f64 = 4.0;
const MIN_MARGIN_NS: f64 = 1e6;
/// The minimum number of idle probes to determine the level.
const MIN_IDLE_PROBES: usize = 10;

/// The maximum RTT that counts as idle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IdleRttLevel {
    ns: f64,
}

impl IdleRttLevel {
    pub fn of(idle: &[LoadProbe]) -> Option<IdleRttLevel> {
        let trips = super::phase_probes::list_round_trips(idle);
        if trips.len() < MIN_IDLE_PROBES {
            return None;
        }
        let middle = median(trips.iter().copied())?;
        let scatter = DEVIATIONS * mad_scale(&trips)?;
        let high = quantile(&sort_finite(trips), 0.99)? - middle;
        Some(IdleRttLevel { ns: middle + scatter.max(high).max(MIN_MARGIN_NS) })
    }
}

/// Returns the send time of the first probe of the recovery; `None` if these probes contain none.
pub fn find_recovery(probes: &[LoadProbe], level: IdleRttLevel) -> Option<u64> {
    let answered: Vec<(u64, bool)> = probes
        .iter()
        .filter_map(|p| Some((p.echo.at_us, p.echo.rtt_ns? as f64 <= level.ns)))
        .collect();
    let row = answered.windows(RECOVERY_PROBES).find(|row| {
        let back = row.iter().filter(|(_, back)| *back).count();
        row[0].1 && back >= MIN_RECOVERED_PROBES
    });
    row.map(|row| row[0].0)
}
