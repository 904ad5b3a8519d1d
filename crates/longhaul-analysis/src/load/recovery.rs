//! How long after the end of a load are round trips back on the idle level?
//!
//! Back is the first of ten answered probes in a row of which nine lie no higher than the 99th
//! percentile of the idle path before any load, or its median and four robust deviations, if that
//! is more; never less than a millisecond above the median. Lost probes between are passed over.
//!
//! Source: our own; the run of ten takes single late probes for what they are.
//! Units: microseconds. Error: one spacing of the probes.
//! Wrong when: others load the path at that moment; then it is their queue that is seen.

use crate::stats::quantile::{median, quantile, sorted};
use crate::stats::robust::mad_scale;
use longhaul_model::report::v1::load::Probe;

/// Answered probes in a row, and how many of them must be back.
const ROW: usize = 10;
const BACK: usize = 9;
const DEVIATIONS: f64 = 4.0;
const LEAST_ABOVE_NS: f64 = 1e6;
/// Idle probes without which no level is known.
const LEAST_IDLE: usize = 10;

/// Round trips up to here are those of the idle path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Level {
    ns: f64,
}

impl Level {
    pub fn of(idle: &[Probe]) -> Option<Level> {
        let trips = super::stretch::round_trips(idle);
        if trips.len() < LEAST_IDLE {
            return None;
        }
        let middle = median(trips.iter().copied())?;
        let scatter = DEVIATIONS * mad_scale(&trips)?;
        let high = quantile(&sorted(trips), 0.99)? - middle;
        Some(Level {
            ns: middle + scatter.max(high).max(LEAST_ABOVE_NS),
        })
    }
}

/// When the first probe was sent from which on round trips are back; `None`: not in these probes.
pub fn returned(probes: &[Probe], level: Level) -> Option<u64> {
    let answered: Vec<(u64, bool)> = probes
        .iter()
        .filter_map(|p| Some((p.echo.at_us, p.echo.rtt_ns? as f64 <= level.ns)))
        .collect();
    let row = answered.windows(ROW).find(|row| {
        let back = row.iter().filter(|(_, back)| *back).count();
        row[0].1 && back >= BACK
    });
    row.map(|row| row[0].0)
}
