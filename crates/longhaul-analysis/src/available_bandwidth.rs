//! The capacity of the path and its available bandwidth.
//!
//! The train schedule selects the next trains from the results so far; the conclusion analyses a
//! finished run. Neither uses a clock or a socket. Read in this order: readings (the usable part of
//! a train), the methods (capacity, empty queue, rate sweep), their fusion, the estimate.
//!
//! Source: docs/methods/available-bandwidth.md names them. Units: bit/s of IP packets.
//! Error: given with each figure, as an interval. Wrong when: the flags of the estimate say so.

mod available_findings;
pub mod available_tracking;
mod bucket_detection;
mod capacity;
mod direction_estimate;
mod empty_queue;
mod fusion;
mod one_ended_estimate;
mod probe_schedule;
mod rate_sweep;
#[cfg(test)]
mod tests;
mod timing_resolution;
mod train_evidence;
mod train_reading;

pub use probe_schedule::{ModeBudget, PriorPathFacts, ProbeSchedule, budget_of_mode};

use crate::throughput::limiter_text::format_whole_percent;
use available_tracking::TrackingStep;
use direction_estimate::EstimatedDirection;
use longhaul_model::report::v1::available::{
    AvailableAnalysis, AvailableEstimate, AvailableObservation, AvailablePlan, DirectionProbing,
    FallbackMethod,
};
use longhaul_model::report::v1::{AvailableReport, ReportCaveat, ReportFinding};

/// The maximum age of earlier runs whose capacity is used.
const KNOWN_FOR_MIN: f64 = 24.0 * 60.0;
/// The assumed time since the last run, which the current run does not know.
const USUAL_GAP_MIN: f64 = 1.0;
/// The maximum number of earlier runs used for tracking.
const MAX_HISTORY_RUNS: usize = 240;

/// The analysis, findings and caveats of a finished run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AvailableConclusion {
    pub analysis: AvailableAnalysis,
    pub findings: Vec<ReportFinding>,
    pub caveats: Vec<ReportCaveat>,
}

/// Analyses a run. `history` holds earlier runs on the same path, newest first.
pub fn conclude_available(
    plan: &AvailablePlan,
    observation: &AvailableObservation,
    history: &[AvailableReport],
) -> AvailableConclusion {
    let mut conclusion = AvailableConclusion {
        analysis: AvailableAnalysis { version: crate::VERSION, ..AvailableAnalysis::default() },
        ..AvailableConclusion::default()
    };
    let sides: [(&Option<DirectionProbing>, PickEstimate, &str); 2] = [
        (&observation.forward, |a| a.forward.as_ref(), "forward"),
        (&observation.reverse, |a| a.reverse.as_ref(), "reverse"),
    ];
    let [forward, reverse] = sides.map(|(probing, pick, word)| {
        Some(conclude_direction(
            plan,
            probing.as_ref()?,
            observation.loopback,
            history,
            pick,
            word,
            &mut conclusion,
        ))
    });
    if observation.loopback {
        let text = "both ends are the same host with no link between them: the rates are those of the host";
        conclusion.caveats.push(ReportCaveat::new("loopback", text));
    }
    conclusion.analysis.forward = forward;
    conclusion.analysis.reverse = reverse;
    conclusion
}

/// Selects one direction of an earlier run.
type PickEstimate = fn(&AvailableAnalysis) -> Option<&AvailableEstimate>;

fn conclude_direction(
    plan: &AvailablePlan,
    probing: &DirectionProbing,
    loopback: bool,
    history: &[AvailableReport],
    pick: PickEstimate,
    word: &str,
    conclusion: &mut AvailableConclusion,
) -> AvailableEstimate {
    if let Some(fallback) = plan.uncooperative {
        conclusion.caveats.push(ReportCaveat::new(
            "uncooperative",
            format!("{word}: measured from one end only: the throughput of one TCP connection or a bound, not available bandwidth"),
        ));
        if let Some(share) = one_ended_estimate::estimate_idle_share(probing)
            .filter(|_| fallback == FallbackMethod::IcmpEcho)
        {
            let text = format!(
                "{word}: the busier direction is idle at least {} of the time",
                format_whole_percent(share)
            );
            conclusion.caveats.push(ReportCaveat::new("echo_idle", text));
        }
        return one_ended_estimate::estimate_by_tcp(probing, fallback);
    }
    let mut direction = direction_estimate::estimate_direction(
        plan,
        probing,
        find_known_capacity(history, pick),
        loopback,
    );
    track_available(&mut direction, history, pick);
    conclusion.findings.extend(available_findings::list_findings(&direction, word));
    conclusion.caveats.extend(available_findings::list_caveats(&direction, plan, word));
    direction.estimate
}

fn list_recent_estimates(
    history: &[AvailableReport],
    pick: PickEstimate,
) -> impl Iterator<Item = (f64, &AvailableEstimate)> {
    let one =
        move |run: &'_ AvailableReport| available_tracking::parse_unix_minutes(&run.run.started_at);
    history
        .iter()
        .take(MAX_HISTORY_RUNS)
        .filter_map(move |run| Some((one(run)?, pick(&run.analysis)?)))
}

/// Returns the capacity with the narrowest interval among the runs of the last day.
fn find_known_capacity(history: &[AvailableReport], pick: PickEstimate) -> Option<f64> {
    let newest = list_recent_estimates(history, pick).next()?.0;
    list_recent_estimates(history, pick)
        .filter(|(at, _)| newest - at < KNOWN_FOR_MIN)
        .filter_map(|(_, e)| {
            let [low, high] = e.capacity_interval_bps?;
            Some((high.saturating_sub(low), e.capacity_bps?))
        })
        .min()
        .map(|(_, bps)| bps as f64)
}

/// Sets the available bandwidth tracked over this run and earlier ones.
fn track_available(
    direction: &mut EstimatedDirection,
    history: &[AvailableReport],
    pick: PickEstimate,
) {
    let mut steps = Vec::new();
    let mut before: Option<f64> = None;
    let mut earlier: Vec<(f64, &AvailableEstimate)> =
        list_recent_estimates(history, pick).collect();
    earlier.reverse();
    for (at, estimate) in earlier {
        let gap_min = before.map_or(0.0, |b| at - b);
        if let Some(step) = build_track_step(estimate, gap_min) {
            steps.push(step);
            before = Some(at);
        }
    }
    let Some(present) = build_track_step(&direction.estimate, USUAL_GAP_MIN) else {
        return;
    };
    steps.push(present);
    if let Some(level) = available_tracking::track_level(&steps) {
        direction.estimate.tracked_bps = Some(level.value.max(0.0) as u64);
        direction.estimate.tracked_interval_bps =
            Some(level.interval.map(|bps| bps.max(0.0) as u64));
    }
}

fn build_track_step(estimate: &AvailableEstimate, gap_min: f64) -> Option<TrackingStep> {
    let [low, high] = estimate.available_interval_bps?;
    Some(TrackingStep {
        gap_min,
        available_bps: estimate.available_bps? as f64,
        deviation_bps: high.saturating_sub(low) as f64 / 3.92,
        capacity_bps: estimate.capacity_bps? as f64,
    })
}
