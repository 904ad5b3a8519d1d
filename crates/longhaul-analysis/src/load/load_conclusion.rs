//! Draws all conclusions from one run of loads and probes.
//!
//! Source: the files named in [`super`]. Units: as named by the fields. Error: intervals given.
//! Wrong when: the path changed within the run; the idle phases between the loads then differ.

use super::flow_rates::MeanRate;
use super::phase_probes::{PhaseProbes, RunPhases};
use super::{flow_rates, load_caveats, load_findings, phase_probes, rtt_rise, scavenger_verdict};
use crate::stats::quantile::median;
use crate::{RunConclusion, VERSION};
use longhaul_model::report::v1::load::{
    LoadAnalysis, LoadFlow, LoadObservation, LoadPhase, LoadPlan, LoadProbe, LoadStepResult,
};

/// Headers of a full packet: IPv4 and TCP with timestamps.
const HEADER_BYTES: f64 = 52.0;
/// The MSS assumed if the flow does not report one.
const USUAL_MSS: f64 = 1448.0;

/// Draws all conclusions from one run. Never fails: what cannot be determined stays absent, and the
/// caveats say so.
pub fn conclude_load(
    plan: &LoadPlan,
    observation: &LoadObservation,
) -> RunConclusion<LoadAnalysis> {
    let stretches = RunPhases::of(observation);
    let idle = stretches.idle();
    let idle_rtt = median(super::phase_probes::list_round_trips(&idle));
    let rtt_us = idle_rtt.map_or(observation.idle_rtt_us.unwrap_or(0), |ns| (ns / 1e3) as u64);
    let context = LoadContext {
        plan,
        observation,
        stretches: &stretches,
        idle: &idle,
        rtt_us,
        alone: flow_rates::compute_baseline_rate(plan, observation, rtt_us),
    };
    let steps: Vec<LoadStepResult> =
        (0..stretches.all.len()).filter_map(|place| context.step(place)).collect();
    let analysis = LoadAnalysis {
        version: VERSION,
        idle: phase_probes::summarize_delays(&idle, stretches.drift),
        scavenger: scavenger_verdict::judge_scavenger(plan, &steps),
        steps,
    };
    let findings = load_findings::list_load_findings(plan, observation, &analysis);
    let caveats = load_caveats::list_load_caveats(plan, observation, &analysis);
    RunConclusion { analysis, findings, caveats }
}

/// The context of every step.
struct LoadContext<'a> {
    plan: &'a LoadPlan,
    observation: &'a LoadObservation,
    stretches: &'a RunPhases<'a>,
    idle: &'a [LoadProbe],
    rtt_us: u64,
    alone: Option<MeanRate>,
}

impl LoadContext<'_> {
    /// Returns the result of the phase with that index; `None` if it is idle.
    fn step(&self, place: usize) -> Option<LoadStepResult> {
        let stretch = &self.stretches.all[place];
        let phase = stretch.phase;
        let step = phase.step?;
        let asked = self.plan.steps.get(step as usize)?;
        let drift = self.stretches.drift;
        let goodput = self.mean(phase.load.as_ref());
        let competitor = self.mean(phase.competitor.as_ref());
        let beside = competitor.filter(|_| asked.competitor && !asked.baseline);
        let kept = beside
            .zip(self.alone)
            .map(|(beside, alone)| flow_rates::compute_kept_share(beside, alone));
        let rise = rtt_rise::measure_rtt_rise(self.idle, stretch, drift);
        let bps = |mean: Option<MeanRate>| mean.map(|m| m.bps.round() as u64);
        let whole = |ns: f64| ns.round() as u64;
        let carried = compute_wire_rate_bps(phase, goodput, competitor);
        Some(LoadStepResult {
            step,
            delays: phase_probes::summarize_delays(stretch.kept, drift),
            goodput_bps: bps(goodput),
            round_trips_per_minute: phase_probes::compute_responsiveness(stretch.kept),
            rise_ns: rise.as_ref().map(|r| whole(r.ns)),
            rise_interval_ns: rise.as_ref().and_then(|r| r.interval_ns.map(|i| i.map(whole))),
            queue_delay_ns: rise.as_ref().map(|r| whole(r.queue_delay_ns)),
            grew: rise.as_ref().and_then(|r| r.direction).map(str::to_owned),
            queue_bytes: rise
                .zip(carried)
                .map(|(rise, bps)| whole(rise.queue_delay_ns / 1e9 * bps / 8.0)),
            recovery_us: self.recovery_us(place),
            competitor_bps: bps(competitor),
            competitor_kept_ratio: kept.map(|k| k.ratio),
            competitor_kept_interval_ratio: kept.and_then(|k| k.interval),
        })
    }

    fn mean(&self, flow: Option<&LoadFlow>) -> Option<MeanRate> {
        flow_rates::compute_mean_rate(flow?, self.rtt_us)
    }

    /// Returns the time from the end of the load to the first probe that is back at the idle level.
    fn recovery_us(&self, place: usize) -> Option<u64> {
        let ended = self.stretches.all[place].phase.until_us;
        let first: &PhaseProbes = self.stretches.all.first()?;
        let level =
            phase_probes::IdleRttLevel::of(first.kept).filter(|_| first.phase.step.is_none())?;
        let after = self.stretches.all.get(place + 1)?;
        let back = after.phase.step.is_none().then(|| {
            let probes = &self.observation.probes;
            let from = probes.partition_point(|p| p.echo.at_us < ended);
            let until = probes.partition_point(|p| p.echo.at_us < after.phase.until_us);
            phase_probes::find_recovery(probes.get(from..until)?, level)
        });
        Some(back??.saturating_sub(ended))
    }
}

/// Returns the rate of the traffic we sent, as IP packets.
fn compute_wire_rate_bps(
    phase: &LoadPhase,
    goodput: Option<MeanRate>,
    competitor: Option<MeanRate>,
) -> Option<f64> {
    let with_headers = |flow: &Option<LoadFlow>, mean: Option<MeanRate>| {
        let mss = flow.as_ref()?.mss_bytes.map_or(USUAL_MSS, f64::from).max(1.0);
        Some(mean?.bps * (mss + HEADER_BYTES) / mss)
    };
    let load = with_headers(&phase.load, goodput);
    let other = with_headers(&phase.competitor, competitor);
    let sum = load.unwrap_or(0.0) + other.unwrap_or(0.0);
    (sum > 0.0).then_some(sum)
}
