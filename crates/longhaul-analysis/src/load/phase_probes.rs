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

use super::rtt_recovery;
use crate::stats::quantile::median;
use longhaul_model::report::v1::load::{LoadObservation, LoadPhase, LoadProbe};

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

impl PhaseProbes<'_> {
    pub fn round_trips(&self) -> Vec<f64> {
        list_round_trips(self.kept)
    }
}

/// The phases of a run.
pub struct RunPhases<'a> {
    pub all: Vec<PhaseProbes<'a>>,
    pub drift: ClockDrift,
}

impl<'a> RunPhases<'a> {
    pub fn of(observation: &'a LoadObservation) -> RunPhases<'a> {
        let first = find_first_idle(observation);
        let level = rtt_recovery::IdleRttLevel::of(first);
        let middle_us = median(list_round_trips(first)).map(|ns| (ns / 1e3) as u64);
        let mut all = Vec::new();
        let mut after_load = false;
        for phase in &observation.phases {
            let probes = select_probes(observation, phase.from_us, phase.until_us);
            let from_us = match phase.step {
                Some(_) => phase.from_us + compute_ramp_us(phase, middle_us),
                None if after_load => {
                    let back = level.and_then(|level| rtt_recovery::find_recovery(probes, level));
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
            compute_median_slope(&lows)
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

/// Returns the median slope between any two points (Theil 1950, Sen 1968).
fn compute_median_slope(points: &[(f64, f64)]) -> f64 {
    let pairs = points.iter().enumerate().flat_map(|(i, a)| {
        let later = points.iter().skip(i + 1).filter(move |b| b.0 > a.0);
        later.map(move |b| (b.1 - a.1) / (b.0 - a.0))
    });
    let found = median(pairs).unwrap_or(0.0);
    if found.abs() > MAX_DRIFT { 0.0 } else { found }
}
