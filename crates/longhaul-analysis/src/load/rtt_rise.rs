//! Measures the rise of RTTs under load, its confidence interval, and its direction.
//!
//! The rise is the median under load minus the median on the idle path. Its 95 % interval:
//! neighbouring probes of a sawtooth are correlated, so each part is cut into ten pieces, and the
//! scatter of the pieces' medians gives the error of the whole. The queueing delay is the 99th
//! percentile under load minus the idle median: the delay of the fullest queue.
//!
//! Direction: the same difference of medians for each one-way delay, clock drift removed. A
//! direction has grown if its part is a fifth of the whole or more.
//!
//! Source: RFC 6349 (buffer delay); batch medians after the batch means of Law and Kelton.
//! Units: nanoseconds. Error: the interval given; of the queueing delay about one packet and the
//! share of the time for which the queue was full.
//! Wrong when: under 1 % of the probes met the full queue; or a load is shorter than its sawtooth.

use super::phase_probes::{ClockDrift, PhaseProbes};
use crate::stats::mean_interval::mean_half_width;
use crate::stats::quantile::{median, quantile, sort_finite};
use longhaul_model::report::v1::load::LoadProbe;

/// The number of pieces of each part.
const PIECES: usize = 10;
/// The minimum number of probes per piece.
const MIN_PIECE_PROBES: usize = 5;
/// The minimum share of the whole rise in a direction that has grown.
const MIN_DIRECTION_SHARE: f64 = 0.2;
/// Smaller rises are noise of the hosts, in nanoseconds and as a share of the idle RTT.
pub const NOISE_NS: f64 = 1e6;
const NOISE_RATIO: f64 = 0.02;
const QUEUE_QUANTILE: f64 = 0.99;

#[derive(Debug, Clone, PartialEq)]
pub struct RttRise {
    pub ns: f64,
    pub interval_ns: Option<[f64; 2]>,
    pub queue_delay_ns: f64,
    pub direction: Option<&'static str>,
}

/// Returns `None` if either part has no answered probe.
pub fn measure_rtt_rise(
    idle: &[LoadProbe],
    loaded: &PhaseProbes,
    drift: ClockDrift,
) -> Option<RttRise> {
    let before = super::phase_probes::list_round_trips(idle);
    let under = super::phase_probes::list_round_trips(loaded.kept);
    let quiet = median(before.iter().copied())?;
    let middle = median(under.iter().copied())?;
    let fullest = quantile(&sort_finite(under.iter().copied()), QUEUE_QUANTILE)?;
    let ns = middle - quiet;
    let (lowest, highest) =
        under.iter().fold((middle, middle), |(low, high), ns| (low.min(*ns), high.max(*ns)));
    let half = compute_half_width(&under).zip(compute_half_width(&before)).map(|(a, b)| a.hypot(b));
    Some(RttRise {
        ns: ns.max(0.0),
        // A median lies within the range of its values.
        interval_ns: half.map(|half| {
            let low = (ns - half).max(lowest - quiet).max(0.0);
            [low, (ns + half).min(highest - quiet).max(low)]
        }),
        queue_delay_ns: (fullest - quiet).max(0.0),
        direction: find_rise_direction(idle, loaded, drift, ns, quiet),
    })
}

fn compute_half_width(values: &[f64]) -> Option<f64> {
    let size = values.len() / PIECES;
    if size < MIN_PIECE_PROBES {
        return None;
    }
    let pieces = values.chunks_exact(size);
    let medians: Vec<f64> = pieces.filter_map(|piece| median(piece.iter().copied())).collect();
    mean_half_width(&medians)
}

/// Returns true if a difference of medians exceeds the noise of the hosts.
pub fn is_significant_rise(rise_ns: f64, idle_ns: f64) -> bool {
    rise_ns > NOISE_NS.max(NOISE_RATIO * idle_ns)
}

fn find_rise_direction(
    idle: &[LoadProbe],
    loaded: &PhaseProbes,
    drift: ClockDrift,
    rise_ns: f64,
    idle_ns: f64,
) -> Option<&'static str> {
    if !is_significant_rise(rise_ns, idle_ns) {
        return None;
    }
    let step = |idle: Vec<f64>, loaded: Vec<f64>| Some(median(loaded)? - median(idle)?);
    let forward = step(drift.forward_ns(idle), drift.forward_ns(loaded.kept))?;
    let reverse = step(drift.reverse_ns(idle), drift.reverse_ns(loaded.kept))?;
    let grew = |part: f64| part >= MIN_DIRECTION_SHARE * rise_ns;
    match (grew(forward), grew(reverse)) {
        (true, true) => Some("both"),
        (true, false) => Some("forward"),
        (false, true) => Some("reverse"),
        (false, false) => None,
    }
}
