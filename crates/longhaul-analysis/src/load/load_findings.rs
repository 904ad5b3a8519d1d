//! Findings about the load steps, with evidence and advice.
//!
//! Source: RFC 6349 for deep queues; RFC 8622 and RFC 6817 for yielding. Units: as in the text.
//! Error: see each threshold. Wrong when: the remote host itself answers late.
//!
//! # Load caveats
//!
//! Caveats of a run of loads and probes.
//!
//! Source: our own. Units: as in the text. Error: none, these are facts of the run.
//! Wrong when: never; each is read from the observation.

use super::load_conclusion::MIN_KEPT_RATIO;
use super::phase_probes::is_significant_rise;
use crate::throughput::{name_limiter, to_rate};
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::load::{
    LoadAnalysis, LoadObservation, LoadPhase, LoadPlan, LoadStep, LoadStepResult, ProbeDelays,
    ScavengerResult,
};
use longhaul_model::report::v1::{ReportCaveat, ReportFinding};
use longhaul_model::units::{Bytes, count_of, format_duration};
use std::time::Duration;

/// The minimum added delay that people notice; it must also exceed the idle RTT.
const MIN_DEEP_QUEUE_NS: u64 = 30_000_000;
/// A flow is harmed if it keeps less than this fraction of its fair share.
const FAIR_MARGIN: f64 = 0.8;

pub fn list_load_findings(
    plan: &LoadPlan,
    observation: &LoadObservation,
    analysis: &LoadAnalysis,
) -> Vec<ReportFinding> {
    let Some(idle) = &analysis.idle else {
        return analysis.scavenger.iter().map(report_yielding).collect();
    };
    let plain: Vec<LoadStepCase> = analysis
        .steps
        .iter()
        .filter_map(|result| LoadStepCase::of(plan, observation, idle, result))
        .collect();
    let mut found: Vec<ReportFinding> = find_deep_queue(&plain).into_iter().collect();
    found.extend(find_no_queue(&plain));
    found.extend(find_loss(&plain));
    found.extend(find_harm(&plain));
    found.extend(analysis.scavenger.iter().map(report_yielding));
    found
}

/// One load step with the data of its findings.
struct LoadStepCase<'a> {
    step: &'a LoadStep,
    result: &'a LoadStepResult,
    idle: &'a ProbeDelays,
    limited_by: Option<Limiter>,
}

impl<'a> LoadStepCase<'a> {
    fn of(
        plan: &'a LoadPlan,
        observation: &'a LoadObservation,
        idle: &'a ProbeDelays,
        result: &'a LoadStepResult,
    ) -> Option<LoadStepCase<'a>> {
        let step = plan.steps.get(result.step as usize)?;
        let phase: Option<&LoadPhase> =
            observation.phases.iter().find(|p| p.step == Some(result.step));
        Some(LoadStepCase {
            step,
            result,
            idle,
            limited_by: phase.and_then(|p| p.load.as_ref()).map(|f| f.limited_by),
        })
    }

    fn load(&self) -> String {
        let load = count_of(u64::from(self.step.streams), "stream");
        let rate = self.step.rate_bps.map(|bps| format!(" at {}", to_rate(bps)));
        format!("{load}{}", rate.unwrap_or_default())
    }

    /// Returns true for a load at full speed that does not yield, other than a baseline.
    fn is_plain(&self) -> bool {
        !self.step.baseline && !self.step.scavenger
    }
}

fn find_deep_queue(cases: &[LoadStepCase]) -> Option<ReportFinding> {
    let case = cases
        .iter()
        .filter(|c| {
            c.is_plain() && c.result.rise_ns >= Some(MIN_DEEP_QUEUE_NS.max(c.idle.rtt_median_ns))
        })
        .max_by_key(|c| c.result.rise_ns)?;
    let (rise, idle) = (case.result.rise_ns?, case.idle.rtt_median_ns);
    let waits = case.result.queue_bytes.map(|bytes| format!("; up to {} queued", Bytes(bytes)));
    let summary = format!(
        "Bufferbloat: {} adds {} of queueing to the RTT ({} idle){}",
        case.load(),
        format_nanos(rise),
        format_nanos(idle),
        waits.unwrap_or_default()
    );
    let mut found = ReportFinding::new("deep_queue", 0.95, summary);
    if let Some(bounds) = case.result.rise_interval_ns {
        let [low, high] = bounds.map(format_nanos);
        found.support(format!("median RTT increase: {low} to {high} (95 %)"));
    }
    if let Some(grew) = &case.result.grew {
        found.support(format!("by one-way delays, the queue is {}", describe_direction(grew)));
    }
    if let Some(back) = case.result.recovery_us {
        let back = format_duration(Duration::from_micros(back));
        found.support(format!("queue drained {back} after the load ended"));
    }
    let text = "Active queue management (fq_codel, cake) at the bottleneck link keeps the rate and removes the delay";
    found.advise("path", text);
    if let Some(bps) = case.result.goodput_bps.map(|bps| bps / 20 * 19) {
        let rate = to_rate(bps);
        let text = format!("Or limit the load to {rate}, just below the rate that fills the queue");
        found.advise("sender", text).expected_bps = Some(bps);
    }
    let text = "Or send bulk data as a scavenger (`longhaul test --scavenger` shows its rate)";
    found.advise("sender", text);
    Some(found)
}

/// Reports loads that filled the path without an increase of the RTT.
fn find_no_queue(cases: &[LoadStepCase]) -> Option<ReportFinding> {
    let mut filled = cases.iter().filter(|c| {
        c.is_plain() && c.limited_by.is_some_and(|l| fills_path(l) || l == Limiter::Loss)
    });
    let rises = |c: &LoadStepCase| {
        let rise = c.result.rise_ns.unwrap_or(0);
        is_significant_rise(rise as f64, c.idle.rtt_median_ns as f64)
    };
    let case = filled.clone().next()?;
    if filled.any(rises) {
        return None;
    }
    let summary = format!(
        "Full load adds little delay: {} under {}, {} idle",
        format_nanos(case.result.delays?.rtt_median_ns),
        case.load(),
        format_nanos(case.idle.rtt_median_ns)
    );
    let mut found = ReportFinding::new("no_queue", 0.8, summary);
    found.support(format!("the load was limited by {}", name_limiter(case.limited_by?)));
    Some(found)
}

pub fn fills_path(limiter: Limiter) -> bool {
    matches!(limiter, Limiter::PathCapacity | Limiter::Shaper | Limiter::Policer)
}

fn find_loss(cases: &[LoadStepCase]) -> Option<ReportFinding> {
    let lossy = |c: &&LoadStepCase| {
        c.result.delays.is_some_and(|d| d.loss_interval_ratio[0] > c.idle.loss_interval_ratio[1])
    };
    let worst = cases.iter().filter(lossy).max_by(|a, b| {
        let share = |c: &LoadStepCase| c.result.delays.map_or(0.0, |d| d.loss_ratio);
        share(a).total_cmp(&share(b))
    })?;
    let delays = worst.result.delays?;
    let percent = |ratio: f64| format!("{:.2} %", ratio * 100.0);
    let summary = format!(
        "{} causes loss for other traffic: {} of the probes, {} on the idle path",
        worst.load(),
        percent(delays.loss_ratio),
        percent(worst.idle.loss_ratio)
    );
    let mut found = ReportFinding::new("loss_under_load", 0.9, summary);
    let [low, high] = delays.loss_interval_ratio.map(percent);
    let lost = (delays.loss_ratio * f64::from(delays.probes)).round();
    found.support(format!("{lost} of {} probes: {low} to {high} (95 %)", delays.probes));
    let text = "Use fewer streams, or limit the load to less than the capacity, so that the queue does not overflow";
    found.advise("sender", text);
    Some(found)
}

/// Reports a competitor that lost more than an even share explains.
fn find_harm(cases: &[LoadStepCase]) -> Option<ReportFinding> {
    let fair = |c: &LoadStepCase| 1.0 / f64::from(c.step.streams.saturating_add(1));
    let unfair = |c: &&LoadStepCase| {
        let high = c.result.competitor_kept_interval_ratio.map(|i| i[1]);
        let kept = high.or(c.result.competitor_kept_ratio);
        c.is_plain() && kept.is_some_and(|kept| kept < FAIR_MARGIN * fair(c))
    };
    let case = cases.iter().find(unfair)?;
    let summary = format!(
        "Under {} another flow keeps {:.0} % of the rate it has alone; a fair share would be {:.0} %",
        case.load(),
        case.result.competitor_kept_ratio? * 100.0,
        fair(case) * 100.0
    );
    let mut found = ReportFinding::new("harms_others", 0.8, summary);
    found.advise("sender", "Use fewer streams, or a scavenger");
    Some(found)
}

/// Reports the comparison of the scavenger.
fn report_yielding(scavenger: &ScavengerResult) -> ReportFinding {
    let yields = scavenger.competitor_kept_yielding_ratio >= MIN_KEPT_RATIO;
    let bounds = scavenger.competitor_kept_yielding_interval_ratio;
    let sure = bounds.is_some_and(|[low, high]| low >= MIN_KEPT_RATIO || high < MIN_KEPT_RATIO);
    let cause = if yields { "yields" } else { "does_not_yield" };
    let confidence = if sure { 0.95 } else { 0.6 };
    let mut found = ReportFinding::new(cause, confidence, scavenger.text.clone());
    if let Some([low, high]) = bounds {
        found.support(format!("share kept: {:.0} to {:.0} % (95 %)", low * 100.0, high * 100.0));
    }
    if !yields {
        let text = "The queue is shorter than the delay that a scavenger reacts to: limit the \
                    load to a rate instead";
        found.advise("sender", text);
    }
    found
}

fn describe_direction(grew: &str) -> &'static str {
    match grew {
        "forward" => "in the forward direction",
        "reverse" => "in the reverse direction",
        _ => "in both directions",
    }
}

fn format_nanos(ns: u64) -> String {
    format_duration(Duration::from_micros(ns / 1000))
}

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
    let number = phase.step?.saturating_add(1);
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
        let name = crate::throughput::name_limiter(competitor.limited_by);
        let text = format!(
            "alone, the competitor was limited by {name}, not by the path: the share it keeps beside a \
             load is of little value"
        );
        return Some(ReportCaveat::new("competitor_held", text));
    }
    let free = step.rate_bps.is_none() && !step.scavenger && !step.baseline && !step.competitor;
    let limited_by = phase.load.as_ref()?.limited_by;
    (free && held(limited_by)).then(|| {
        let name = crate::throughput::name_limiter(limited_by);
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
