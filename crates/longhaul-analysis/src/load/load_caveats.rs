//! Caveats of a run of loads and probes.
//!
//! Source: our own. Units: as in the text. Error: none, these are facts of the run.
//! Wrong when: never; each is read from the observation.

use super::load_findings::fills_path;
use longhaul_model::report::v1::ReportCaveat;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::load::{
    LoadAnalysis, LoadObservation, LoadPhase, LoadPlan, LoadStepResult,
};

/// With fewer probes in a step, quantiles are unreliable.
const FEW: u32 = 50;

pub fn list_load_caveats(
    plan: &LoadPlan,
    observation: &LoadObservation,
    analysis: &LoadAnalysis,
) -> Vec<ReportCaveat> {
    let mut caveats = Vec::new();
    if analysis.idle.is_none() {
        let text = "no probe was answered on the idle path: there is no baseline";
        caveats.push(ReportCaveat::new("no_idle", text));
    }
    if observation.clock == "user" {
        let text = "the probes were timestamped by the program, not by the kernel: a busy host adds to \
                    round trips";
        caveats.push(ReportCaveat::new("user_clock", text));
    }
    for phase in &observation.phases {
        caveats.extend(check_phase(plan, phase));
    }
    for result in &analysis.steps {
        caveats.extend(check_result(plan, observation, result));
    }
    let wants = plan.steps.iter().any(|s| s.competitor && !s.baseline);
    let has = analysis.steps.iter().any(|s| s.competitor_kept_ratio.is_some());
    if wants && !has {
        let text = "the competitor was not measured alone: its loss of throughput is unknown";
        caveats.push(ReportCaveat::new("no_baseline", text));
    }
    caveats
}

fn check_phase(plan: &LoadPlan, phase: &LoadPhase) -> Option<ReportCaveat> {
    let number = phase.step? + 1;
    if let Some(error) = &phase.error {
        let text = format!("load {number} ended early: {error}");
        return Some(ReportCaveat::new("load_failed", text));
    }
    let step = plan.steps.get(phase.step? as usize)?;
    let held = |limiter: Limiter| {
        !fills_path(limiter) && !matches!(limiter, Limiter::Loss | Limiter::Unknown)
    };
    if let Some(competitor) = phase.competitor.as_ref().filter(|_| step.baseline)
        && held(competitor.limited_by)
    {
        let name = crate::throughput::limiter_text::name_limiter(competitor.limited_by);
        let text = format!(
            "alone, the competitor was limited by {name}, not by the path: the share it keeps beside a \
             load is of little value"
        );
        return Some(ReportCaveat::new("competitor_held", text));
    }
    let free = step.rate_bps.is_none() && !step.scavenger && !step.baseline && !step.competitor;
    let limited_by = phase.load.as_ref()?.limited_by;
    (free && held(limited_by)).then(|| {
        let name = crate::throughput::limiter_text::name_limiter(limited_by);
        let text = format!(
            "load {number} was limited by {name}, not by the path: a stronger load may find a \
             deeper queue"
        );
        ReportCaveat::new("path_not_filled", text)
    })
}

/// Returns true if the interval is wider than half of its midpoint.
fn is_wide_interval([low, high]: [u64; 2]) -> bool {
    4 * high.saturating_sub(low) > low.saturating_add(high)
}

fn check_result(
    plan: &LoadPlan,
    observation: &LoadObservation,
    result: &LoadStepResult,
) -> Vec<ReportCaveat> {
    let number = result.step + 1;
    let mut caveats = Vec::new();
    let probes = result.delays.map_or(0, |d| d.probes);
    if probes < FEW {
        let text = format!("only {probes} probes were answered during load {number}");
        caveats.push(ReportCaveat::new("few_probes", text));
    }
    if result.rise_interval_ns.is_some_and(is_wide_interval) && result.grew.is_some() {
        let text = format!(
            "the RTT was still growing or varying slowly when load {number} ended: a longer \
             load gives a better result"
        );
        caveats.push(ReportCaveat::new("unsettled", text));
    }
    let last = observation.phases.last().and_then(|p| p.step) == Some(result.step);
    let asked = plan.idle_us > 0 && !last;
    if asked && result.recovery_us.is_none() && result.rise_ns.is_some() {
        let text =
            format!("the queue had not drained when the idle time after load {number} ended");
        caveats.push(ReportCaveat::new("no_recovery", text));
    }
    caveats
}
