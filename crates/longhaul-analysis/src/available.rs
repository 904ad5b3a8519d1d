//! How fast is the path at most, and how much of it is free?
//!
//! [`Course`] says which trains to send next, from what came back so far; [`conclude`] reads the
//! trains of a finished run. Neither knows a clock or a socket. Read in this order: `reading` (what
//! of a train can be believed), `capacity`, `idle`, `sweep` (three methods), `fusion`, `estimate`.
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

/// Of earlier runs, those that may say what the capacity is.
const KNOWN_FOR_MIN: f64 = 24.0 * 60.0;
/// Taken for the time since the last run, which the present one does not tell.
const USUAL_GAP_MIN: f64 = 1.0;
/// Earlier runs that the tracking looks at.
const MOST_HISTORY: usize = 240;

/// What a finished run means.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Conclusion {
    pub analysis: Analysis,
    pub findings: Vec<Finding>,
    pub caveats: Vec<Caveat>,
}

/// `history`: earlier runs on the same path, newest first.
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

/// One direction of an earlier run.
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

/// The capacity of the run that knew it best, of the last day.
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

/// The level that this run and those before it speak for together.
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
