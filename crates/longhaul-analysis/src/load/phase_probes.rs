//! Assigns probes to phases, and removes the clock drift from one-way delays.
//!
//! A probe belongs to the phase in which it was sent. The first part of a load is its ramp and is
//! left out: one second or ten round trips, at most half. An idle phase after a load begins when
//! RTTs are back at the level of the first idle phase.
//!
//! One-way delays contain the unknown offset of two clocks, which drifts by up to 100 ppm. The
//! drift is the slope through the minimum one-way delays of the idle phases (of both halves if
//! there is only one): queues only add delay, so the minima lie on a line.
//!
//! Source: the line of minima is Paxson's idea (SIGCOMM 1998), Moon's too (INFOCOM 1999). Units:
//! microseconds of the run's time axis, nanoseconds of delay.
//! Error: drift to about the scatter of the minima over the length of the run.
//! Wrong when: the route or its minimum delay changes within the run; or a clock is stepped.
//!
//! # Recovery after a load
//!
//! Measures the time from the end of a load until RTTs are back at the idle level.
//!
//! Recovery is the first of ten consecutive answered probes of which nine are no higher than the
//! 99th percentile of the idle path before any load, or its median plus four robust deviations, if
//! higher; at least a millisecond above the median. Lost probes are skipped.
//!
//! Source: our own; the run of ten tolerates single late probes. Units: microseconds. Error: one
//! spacing of the probes.
//! Wrong when: others load the path at that moment; then their queue is measured.
//!
//! # Delays of a phase
//!
//! Round trips, delay variation and loss of one stretch of probes.
//!
//! Round trips per minute: 60 s divided by the mean RTT without the slowest twentieth. The draft
//! takes the same mean over connections, handshakes and requests of HTTP; ours are single datagrams
//! of a separate flow, which wait in the same queue but in no application.
//!
//! Source: draft-ietf-ippm-responsiveness (round trips per minute, trimmed mean); RFC 5481 (delay
//! variation relative to the minimum); Wilson 1927 for the interval of a proportion. Units:
//! nanoseconds; shares; round trips per minute.
//! Error: quantiles to one probe; loss as its interval says, if losses are independent.
//! Wrong when: losses come in bursts, as under tail drop: then the interval is too narrow.
//!
//! # RTT rise
//!
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

use crate::stats::mean_interval::{self, mean_half_width};
use crate::stats::{compute_median_slope, mad_scale, median, quantile, sort_finite};
use longhaul_model::report::v1::load::{LoadObservation, LoadPhase, LoadProbe, ProbeDelays};

/// The part of a load that is left out: this long, or this many idle round trips.
const RAMP_US: u64 = 1_000_000;
const RAMP_TRIPS: u64 = 10;
/// A larger drift means that the clock is being set.
const MAX_DRIFT: f64 = 5e-4;
/// The minimum number of probes in an idle stretch that contributes to the line.
const MIN_LINE_PROBES: usize = 5;

/// A phase with its probes.
pub struct PhaseProbes<'a> {
    pub phase: &'a LoadPhase,
    /// The probes that count: without the ramp of a load, or the recovery after one.
    pub kept: &'a [LoadProbe],
}

/// The phases of a run.
pub struct RunPhases<'a> {
    pub all: Vec<PhaseProbes<'a>>,
    pub drift: ClockDrift,
}

impl<'a> RunPhases<'a> {
    pub fn of(observation: &'a LoadObservation) -> RunPhases<'a> {
        let first = find_first_idle(observation);
        let level = IdleRttLevel::of(first);
        let middle_us = median(list_round_trips(first)).map(|ns| (ns / 1e3) as u64);
        let mut all = Vec::new();
        let mut after_load = false;
        for phase in &observation.phases {
            let probes = select_probes(observation, phase.from_us, phase.until_us);
            let from_us = match phase.step {
                Some(_) => phase.from_us + compute_ramp_us(phase, middle_us),
                None if after_load => {
                    let back = level.and_then(|level| find_recovery(probes, level));
                    back.unwrap_or(phase.until_us)
                }
                None => phase.from_us,
            };
            after_load = phase.step.is_some();
            all.push(PhaseProbes {
                phase,
                kept: select_probes(observation, from_us, phase.until_us),
            });
        }
        let drift = ClockDrift::of(&all);
        RunPhases { all, drift }
    }

    /// Returns the probes of the idle path, in order.
    pub fn idle(&self) -> Vec<LoadProbe> {
        let idle = self.all.iter().filter(|s| s.phase.step.is_none());
        idle.flat_map(|s| s.kept).copied().collect()
    }
}

/// Returns the RTTs of the answered probes, in nanoseconds.
pub fn list_round_trips(probes: &[LoadProbe]) -> Vec<f64> {
    let answered = probes.iter().filter_map(|p| p.echo.rtt_ns);
    answered.map(|ns| ns as f64).collect()
}

fn compute_ramp_us(phase: &LoadPhase, rtt_us: Option<u64>) -> u64 {
    let length = phase.until_us.saturating_sub(phase.from_us);
    let trips = rtt_us.unwrap_or(0).saturating_mul(RAMP_TRIPS);
    RAMP_US.max(trips).min(length / 2)
}

/// Returns the probes before the first load; empty without a leading idle phase.
fn find_first_idle(observation: &LoadObservation) -> &[LoadProbe] {
    match observation.phases.first() {
        Some(phase) if phase.step.is_none() => {
            select_probes(observation, phase.from_us, phase.until_us)
        }
        _ => &[],
    }
}

/// Returns the probes sent in that span; probes are in order of sending.
fn select_probes(observation: &LoadObservation, from_us: u64, until_us: u64) -> &[LoadProbe] {
    let probes = &observation.probes;
    let first = probes.partition_point(|p| p.echo.at_us < from_us);
    let end = probes.partition_point(|p| p.echo.at_us < until_us);
    probes.get(first..end).unwrap_or(&[])
}

/// The relative drift of the two clocks, as seen in each direction.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ClockDrift {
    forward: f64,
    reverse: f64,
}

impl ClockDrift {
    fn of(stretches: &[PhaseProbes]) -> ClockDrift {
        let idle = || stretches.iter().filter(|s| s.phase.step.is_none());
        let one = |pick: fn(&LoadProbe) -> Option<i64>| {
            let mut lows: Vec<(f64, f64)> =
                idle().filter_map(|s| find_minimum(s.kept, pick)).collect();
            if let (1, Some(only)) = (lows.len(), idle().find(|s| !s.kept.is_empty())) {
                let (early, late) = only.kept.split_at(only.kept.len() / 2);
                lows =
                    [early, late].into_iter().filter_map(|half| find_minimum(half, pick)).collect();
            }
            compute_median_slope(&lows).filter(|it| it.abs() <= MAX_DRIFT).unwrap_or(0.0)
        };
        ClockDrift { forward: one(|p| p.forward_ns), reverse: one(|p| p.reverse_ns) }
    }

    /// Returns one-way delays without the drift; the offset remains.
    pub fn forward_ns(self, probes: &[LoadProbe]) -> Vec<f64> {
        remove_drift(probes, |p| p.forward_ns, self.forward)
    }

    pub fn reverse_ns(self, probes: &[LoadProbe]) -> Vec<f64> {
        remove_drift(probes, |p| p.reverse_ns, self.reverse)
    }
}

fn remove_drift(probes: &[LoadProbe], pick: fn(&LoadProbe) -> Option<i64>, drift: f64) -> Vec<f64> {
    let one = |p: &LoadProbe| Some(pick(p)? as f64 - drift * p.echo.at_us as f64 * 1e3);
    probes.iter().filter_map(one).collect()
}

/// Returns time and value of the minimum, in nanoseconds.
fn find_minimum(probes: &[LoadProbe], pick: fn(&LoadProbe) -> Option<i64>) -> Option<(f64, f64)> {
    let seen = || probes.iter().filter_map(|p| Some((p.echo.at_us as f64 * 1e3, pick(p)? as f64)));
    if seen().count() < MIN_LINE_PROBES {
        return None;
    }
    seen().min_by(|a, b| a.1.total_cmp(&b.1))
}

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
        let trips = list_round_trips(idle);
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

/// Share of the round trips that counts for the responsiveness.
pub(super) const TRIMMED: f64 = 0.95;
pub(super) const NANOS_PER_MINUTE: f64 = 6e10;

/// Returns the delays of a stretch; `None` if no probe was answered.
pub fn summarize_delays(probes: &[LoadProbe], drift: ClockDrift) -> Option<ProbeDelays> {
    let ascending = sort_finite(list_round_trips(probes));
    let at = |share: f64| quantile(&ascending, share).map(|ns| ns.round() as u64);
    let (sent, lost) = (probes.len(), probes.len() - ascending.len());
    Some(ProbeDelays {
        probes: u32::try_from(sent).unwrap_or(u32::MAX),
        rtt_min_ns: at(0.0)?,
        rtt_median_ns: at(0.5)?,
        rtt_p95_ns: at(0.95)?,
        rtt_max_ns: at(1.0)?,
        loss_ratio: lost as f64 / sent as f64,
        loss_interval_ratio: mean_interval::proportion_interval(lost as u64, sent as u64),
        forward_variation_ns: compute_variation(drift.forward_ns(probes)),
        reverse_variation_ns: compute_variation(drift.reverse_ns(probes)),
    })
}

fn compute_variation(one_way: Vec<f64>) -> Option<u64> {
    let ascending = sort_finite(one_way);
    let spread = quantile(&ascending, 0.95)? - quantile(&ascending, 0.0)?;
    Some(spread.round() as u64)
}

/// Returns round trips per minute, one after another.
pub fn compute_responsiveness(probes: &[LoadProbe]) -> Option<u32> {
    let ascending = sort_finite(list_round_trips(probes));
    let counted = ((ascending.len() as f64 * TRIMMED).ceil() as usize).max(1);
    let fastest = ascending.get(..counted)?;
    let mean = fastest.iter().sum::<f64>() / counted as f64;
    (mean > 0.0).then(|| (NANOS_PER_MINUTE / mean).round().min(f64::from(u32::MAX)) as u32)
}

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
    let before = list_round_trips(idle);
    let under = list_round_trips(loaded.kept);
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
