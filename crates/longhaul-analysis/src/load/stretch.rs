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

use super::recovery;
use crate::stats::quantile::median;
use longhaul_model::report::v1::load::{Observation, Phase, Probe};

/// The part of a load that is left out: this long, or this many idle round trips.
const RAMP_US: u64 = 1_000_000;
const RAMP_TRIPS: u64 = 10;
/// A larger drift means that the clock is being set.
const MOST_DRIFT: f64 = 5e-4;
/// The minimum number of probes in an idle stretch that contributes to the line.
const LEAST_ON_LINE: usize = 5;

/// A phase with its probes.
pub struct Stretch<'a> {
    pub phase: &'a Phase,
    /// The probes that count: without the ramp of a load, or the recovery after one.
    pub kept: &'a [Probe],
}

impl Stretch<'_> {
    pub fn round_trips(&self) -> Vec<f64> {
        round_trips(self.kept)
    }
}

/// The phases of a run.
pub struct Stretches<'a> {
    pub all: Vec<Stretch<'a>>,
    pub drift: Drift,
}

impl<'a> Stretches<'a> {
    pub fn of(observation: &'a Observation) -> Stretches<'a> {
        let first = first_idle(observation);
        let level = recovery::Level::of(first);
        let middle_us = median(round_trips(first)).map(|ns| (ns / 1e3) as u64);
        let mut all = Vec::new();
        let mut after_load = false;
        for phase in &observation.phases {
            let probes = between(observation, phase.from_us, phase.until_us);
            let from_us = match phase.step {
                Some(_) => phase.from_us + ramp_us(phase, middle_us),
                None if after_load => {
                    let back = level.and_then(|level| recovery::returned(probes, level));
                    back.unwrap_or(phase.until_us)
                }
                None => phase.from_us,
            };
            after_load = phase.step.is_some();
            all.push(Stretch {
                phase,
                kept: between(observation, from_us, phase.until_us),
            });
        }
        let drift = Drift::of(&all);
        Stretches { all, drift }
    }

    /// Returns the probes of the idle path, in order.
    pub fn idle(&self) -> Vec<Probe> {
        let idle = self.all.iter().filter(|s| s.phase.step.is_none());
        idle.flat_map(|s| s.kept).copied().collect()
    }
}

/// Returns the RTTs of the answered probes, in nanoseconds.
pub fn round_trips(probes: &[Probe]) -> Vec<f64> {
    let answered = probes.iter().filter_map(|p| p.echo.rtt_ns);
    answered.map(|ns| ns as f64).collect()
}

fn ramp_us(phase: &Phase, rtt_us: Option<u64>) -> u64 {
    let length = phase.until_us.saturating_sub(phase.from_us);
    let trips = rtt_us.unwrap_or(0).saturating_mul(RAMP_TRIPS);
    RAMP_US.max(trips).min(length / 2)
}

/// Returns the probes before the first load; empty without a leading idle phase.
fn first_idle(observation: &Observation) -> &[Probe] {
    match observation.phases.first() {
        Some(phase) if phase.step.is_none() => between(observation, phase.from_us, phase.until_us),
        _ => &[],
    }
}

/// Returns the probes sent in that span; probes are in order of sending.
fn between(observation: &Observation, from_us: u64, until_us: u64) -> &[Probe] {
    let probes = &observation.probes;
    let first = probes.partition_point(|p| p.echo.at_us < from_us);
    let end = probes.partition_point(|p| p.echo.at_us < until_us);
    probes.get(first..end).unwrap_or(&[])
}

/// The relative drift of the two clocks, as seen in each direction.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Drift {
    forward: f64,
    reverse: f64,
}

impl Drift {
    fn of(stretches: &[Stretch]) -> Drift {
        let idle = || stretches.iter().filter(|s| s.phase.step.is_none());
        let one = |pick: fn(&Probe) -> Option<i64>| {
            let mut lows: Vec<(f64, f64)> = idle().filter_map(|s| lowest(s.kept, pick)).collect();
            if let (1, Some(only)) = (lows.len(), idle().find(|s| !s.kept.is_empty())) {
                let (early, late) = only.kept.split_at(only.kept.len() / 2);
                lows = [early, late]
                    .into_iter()
                    .filter_map(|half| lowest(half, pick))
                    .collect();
            }
            slope(&lows)
        };
        Drift {
            forward: one(|p| p.forward_ns),
            reverse: one(|p| p.reverse_ns),
        }
    }

    /// Returns one-way delays without the drift; the offset remains.
    pub fn forward_ns(self, probes: &[Probe]) -> Vec<f64> {
        straight(probes, |p| p.forward_ns, self.forward)
    }

    pub fn reverse_ns(self, probes: &[Probe]) -> Vec<f64> {
        straight(probes, |p| p.reverse_ns, self.reverse)
    }
}

fn straight(probes: &[Probe], pick: fn(&Probe) -> Option<i64>, drift: f64) -> Vec<f64> {
    let one = |p: &Probe| Some(pick(p)? as f64 - drift * p.echo.at_us as f64 * 1e3);
    probes.iter().filter_map(one).collect()
}

/// Returns time and value of the minimum, in nanoseconds.
fn lowest(probes: &[Probe], pick: fn(&Probe) -> Option<i64>) -> Option<(f64, f64)> {
    let seen = || {
        probes
            .iter()
            .filter_map(|p| Some((p.echo.at_us as f64 * 1e3, pick(p)? as f64)))
    };
    if seen().count() < LEAST_ON_LINE {
        return None;
    }
    seen().min_by(|a, b| a.1.total_cmp(&b.1))
}

/// Returns the median slope between any two points (Theil 1950, Sen 1968).
fn slope(points: &[(f64, f64)]) -> f64 {
    let pairs = points.iter().enumerate().flat_map(|(i, a)| {
        let later = points.iter().skip(i + 1).filter(move |b| b.0 > a.0);
        later.map(move |b| (b.1 - a.1) / (b.0 - a.0))
    });
    let found = median(pairs).unwrap_or(0.0);
    if found.abs() > MOST_DRIFT { 0.0 } else { found }
}
