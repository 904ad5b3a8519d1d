//! The capacity of the path and its available bandwidth.
//!
//! The train schedule selects the next trains from the results so far; the conclusion analyses a
//! finished run. Neither uses a clock or a socket. Read in this order: readings (the usable part of
//! a train), the methods (capacity, empty queue, rate sweep), their fusion, the estimate.
//!
//! Source: docs/methods/available-bandwidth.md names them. Units: bit/s of IP packets.
//! Error: given with each figure, as an interval. Wrong when: the flags of the estimate say so.

mod available_findings;
mod bucket_detection;
mod capacity;
mod direction_estimate;
mod empty_queue;
mod fusion;
mod probe_schedule;
mod rate_sweep;
#[cfg(test)]
mod tests;
mod timing_resolution;
mod train_evidence;
mod train_reading;

use crate::RunConclusion;
use longhaul_model::report::v1::ReportCaveat;
use longhaul_model::report::v1::available::{
    AvailableAnalysis, AvailableEstimate, AvailableObservation, AvailablePlan, DirectionProbing,
};

pub use probe_schedule::{ModeBudget, PriorPathFacts, ProbeSchedule, budget_of_mode};

/// Analyses a run.
pub fn conclude_available(
    plan: &AvailablePlan,
    observation: &AvailableObservation,
) -> RunConclusion<AvailableAnalysis> {
    let mut conclusion = RunConclusion {
        analysis: AvailableAnalysis { version: crate::VERSION, ..AvailableAnalysis::default() },
        ..RunConclusion::default()
    };
    let sides = [(&observation.forward, "forward"), (&observation.reverse, "reverse")];
    let [forward, reverse] = sides.map(|(probing, word)| {
        let probing = probing.as_ref()?;
        Some(conclude_direction(plan, probing, observation.loopback, word, &mut conclusion))
    });
    if observation.loopback {
        let text = "both ends are the same host with no link between them: the rates are those of the host";
        conclusion.caveats.push(ReportCaveat::new("loopback", text));
    }
    conclusion.analysis.forward = forward;
    conclusion.analysis.reverse = reverse;
    conclusion
}

fn conclude_direction(
    plan: &AvailablePlan,
    probing: &DirectionProbing,
    loopback: bool,
    word: &str,
    conclusion: &mut RunConclusion<AvailableAnalysis>,
) -> AvailableEstimate {
    let direction = direction_estimate::estimate_direction(plan, probing, loopback);
    conclusion.findings.extend(available_findings::list_findings(&direction, word));
    conclusion.caveats.extend(available_findings::list_caveats(&direction, plan, word));
    direction.estimate
}
