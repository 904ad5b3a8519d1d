//! The capacity of the path and its available bandwidth.
//!
//! The train schedule selects the next trains from the results so far; the conclusion analyses a
//! finished run. Neither uses a clock or a socket. Read in this order: readings (the usable part of
//! a train), the methods (capacity, empty queue, rate sweep), their fusion, the estimate.
//!
//! Source: docs/methods/available-bandwidth.md names them. Units: bit/s of IP packets.
//! Error: given with each figure, as an interval. Wrong when: the flags of the estimate say so.

mod bucket;
mod capacity;
mod course;
mod estimate;
mod evidence;
mod fallback;
mod findings;
mod fusion;
mod idle;
mod reading;
mod resolution;
mod sweep;
#[cfg(test)]
mod tests;
pub(crate) mod track;

pub use course::{Budget, Course, Facts, budget};

use crate::throughput::words::percent;
use estimate::Direction;
use longhaul_model::report::v1::available::{
    Analysis, Estimate, Fallback, Observation, Plan, Probing,
};
use longhaul_model::report::v1::{Available, Caveat, Finding};
use track::Step;

/// The maximum age of earlier runs whose capacity is used.
const KNOWN_FOR_MIN: f64 = 24.0 * 60.0;
/// The assumed time since the last run, which the current run does not know.
const USUAL_GAP_MIN: f64 = 1.0;
/// The maximum number of earlier runs used for tracking.
const MOST_HISTORY: usize = 240;

/// The analysis, findings and caveats of a finished run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Conclusion {
    pub analysis: Analysis,
    pub findings: Vec<Finding>,
    pub caveats: Vec<Caveat>,
}

/// Analyses a run. `history` holds earlier runs on the same path, newest first.
pub fn conclude(plan: &Plan, observation: &Observation, history: &[Available]) -> Conclusion {
    let mut conclusion = Conclusion {
        analysis: Analysis {
            version: crate::VERSION,
            ..Analysis::default()
        },
        ..Conclusion::default()
    };
    let sides: [(&Option<Probing>, Pick, &str); 2] = [
        (&observation.forward, |a| a.forward.as_ref(), "forward"),
        (&observation.reverse, |a| a.reverse.as_ref(), "reverse"),
    ];
    let [forward, reverse] = sides.map(|(probing, pick, word)| {
        Some(one_way(
            plan,
            (probing.as_ref()?, observation.loopback),
            history,
            pick,
            word,
            &mut conclusion,
        ))
    });
    if observation.loopback {
        let text = "both ends are one host, with no link between them: rates are those of the host";
        conclusion.caveats.push(Caveat::new("loopback", text));
    }
    conclusion.analysis.forward = forward;
    conclusion.analysis.reverse = reverse;
    conclusion
}

/// Selects one direction of an earlier run.
type Pick = fn(&Analysis) -> Option<&Estimate>;

fn one_way(
    plan: &Plan,
    (probing, loopback): (&Probing, bool),
    history: &[Available],
    pick: Pick,
    word: &str,
    conclusion: &mut Conclusion,
) -> Estimate {
    if let Some(fallback) = plan.uncooperative {
        conclusion.caveats.push(Caveat::new(
            "uncooperative",
            format!("{word}: by one end alone; a share and a bound, no available bandwidth"),
        ));
        if let Some(share) =
            fallback::idle_share(probing).filter(|_| fallback == Fallback::IcmpEcho)
        {
            let text = format!(
                "{word}: the worse direction is idle at least {} of the time",
                percent(share)
            );
            conclusion.caveats.push(Caveat::new("echo_idle", text));
        }
        return fallback::by_tcp(probing, fallback);
    }
    let mut direction = estimate::estimate(plan, probing, known_bps(history, pick), loopback);
    follow(&mut direction, history, pick);
    conclusion
        .findings
        .extend(findings::findings(&direction, word));
    conclusion
        .caveats
        .extend(findings::caveats(&direction, plan, word));
    direction.estimate
}

fn recent(history: &[Available], pick: Pick) -> impl Iterator<Item = (f64, &Estimate)> {
    let one = move |run: &'_ Available| track::minutes(&run.run.started_at);
    history
        .iter()
        .take(MOST_HISTORY)
        .filter_map(move |run| Some((one(run)?, pick(&run.analysis)?)))
}

/// Returns the capacity with the narrowest interval among the runs of the last day.
fn known_bps(history: &[Available], pick: Pick) -> Option<f64> {
    let newest = recent(history, pick).next()?.0;
    recent(history, pick)
        .filter(|(at, _)| newest - at < KNOWN_FOR_MIN)
        .filter_map(|(_, e)| {
            let [low, high] = e.capacity_interval_bps?;
            Some((high.saturating_sub(low), e.capacity_bps?))
        })
        .min()
        .map(|(_, bps)| bps as f64)
}

/// Sets the available bandwidth tracked over this run and earlier ones.
fn follow(direction: &mut Direction, history: &[Available], pick: Pick) {
    let mut steps = Vec::new();
    let mut before: Option<f64> = None;
    let mut earlier: Vec<(f64, &Estimate)> = recent(history, pick).collect();
    earlier.reverse();
    for (at, estimate) in earlier {
        let gap_min = before.map_or(0.0, |b| at - b);
        if let Some(step) = step(estimate, gap_min) {
            steps.push(step);
            before = Some(at);
        }
    }
    let Some(present) = step(&direction.estimate, USUAL_GAP_MIN) else {
        return;
    };
    steps.push(present);
    if let Some(level) = track::track(&steps) {
        direction.estimate.tracked_bps = Some(level.value.max(0.0) as u64);
        direction.estimate.tracked_interval_bps =
            Some(level.interval.map(|bps| bps.max(0.0) as u64));
    }
}

fn step(estimate: &Estimate, gap_min: f64) -> Option<Step> {
    let [low, high] = estimate.available_interval_bps?;
    Some(Step {
        gap_min,
        available_bps: estimate.available_bps? as f64,
        deviation_bps: high.saturating_sub(low) as f64 / 3.92,
        capacity_bps: estimate.capacity_bps? as f64,
    })
}
