//! Draws all conclusions from one run of loads and probes.
//!
//! Source: the files named in [`super`]. Units: as named by the fields. Error: intervals given.
//! Wrong when: the path changed within the run; the idle phases between the loads then differ.
//!
//! # Scavenger verdict
//!
//! Determines if the scavenger yields, and how much it still gets.
//!
//! It yields if the competitor keeps at least nine tenths of its baseline rate. The comparison is
//! with a plain load of the same run, if any. The used share is the scavenger's rate divided by
//! what the competitor left of the maximum that the path carried in any step.
//!
//! Source: the criterion of SLAC's scavenger tests (the best-effort flow is hardly slower). Units:
//! shares. Error: that of the shares kept. Wrong when: the competitor does not fill the path.

use super::flow_rates::{self, MeanRate};
use super::load_findings;
use super::phase_probes::{self, PhaseProbes, RunPhases};
use super::responsiveness::conclude_responsiveness;
use crate::stats::median;
use crate::{RunConclusion, VERSION};
use longhaul_model::report::v1::load::{
    LoadAnalysis, LoadFlow, LoadObservation, LoadPhase, LoadPlan, LoadProbe, LoadStep,
    LoadStepResult, ScavengerResult,
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
    if let Some(responsiveness) = &observation.responsiveness {
        return conclude_responsiveness(plan, responsiveness);
    }
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
        scavenger: judge_scavenger(plan, &steps),
        steps,
        ..LoadAnalysis::default()
    };
    let findings = load_findings::list_load_findings(plan, observation, &analysis);
    let caveats = load_findings::list_load_caveats(plan, observation, &analysis);
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
        let rise = phase_probes::measure_rtt_rise(self.idle, stretch, drift);
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

/// The minimum share of its baseline rate that a competitor must keep.
pub const MIN_KEPT_RATIO: f64 = 0.9;
/// The minimum share left over for which the used share is computed.
const MIN_LEFT_RATIO: f64 = 0.02;

pub fn judge_scavenger(plan: &LoadPlan, tried: &[LoadStepResult]) -> Option<ScavengerResult> {
    let loads: Vec<(&LoadStepResult, &LoadStep)> = tried
        .iter()
        .filter_map(|t| Some((t, plan.steps.get(t.step as usize)?)))
        .filter(|(_, step)| !step.baseline)
        .collect();
    let beside = |scavenger: bool, streams: Option<u32>| {
        let fits = move |s: &LoadStep| s.scavenger == scavenger && s.competitor;
        loads.iter().find(|(t, s)| {
            let like = streams.is_none_or(|n| n == s.streams);
            fits(s) && t.competitor_kept_ratio.is_some() && like
        })
    };
    let (yielding, like) = beside(true, None)?;
    let kept = yielding.competitor_kept_ratio?;
    let plain = beside(false, Some(like.streams)).map(|(tried, _)| *tried);
    let alone = |scavenger: bool| {
        let fits =
            |s: &LoadStep| s.scavenger == scavenger && !s.competitor && s.streams == like.streams;
        let mut fitting = loads.iter().filter(|(_, s)| fits(s));
        fitting.find_map(|(t, _)| t.goodput_bps)
    };
    let bps = |rate: Option<u64>| rate.unwrap_or(0) as f64;
    let most = tried.iter().map(|t| bps(t.goodput_bps) + bps(t.competitor_bps)).fold(0.0, f64::max);
    let left = most - bps(yielding.competitor_bps);
    let used = bps(yielding.goodput_bps) / left;
    let alone_ratio = alone(true).zip(alone(false)).map(|(s, p)| s as f64 / p as f64);
    let plain_kept = plain.and_then(|t| t.competitor_kept_ratio);
    Some(ScavengerResult {
        plain_step: plain.map(|t| t.step),
        yielding_step: yielding.step,
        competitor_kept_plain_ratio: plain_kept,
        competitor_kept_yielding_ratio: kept,
        competitor_kept_yielding_interval_ratio: yielding.competitor_kept_interval_ratio,
        used_ratio: (left > MIN_LEFT_RATIO * most).then(|| used.clamp(0.0, 1.0)),
        alone_ratio,
        yields: kept >= MIN_KEPT_RATIO,
        text: format_scavenger_text(kept, plain_kept, alone_ratio),
    })
}

fn format_scavenger_text(kept: f64, plain: Option<f64>, alone: Option<f64>) -> String {
    let percent = |ratio: f64| format!("{:.0} %", ratio * 100.0);
    let beside_plain = plain.map(|k| format!(", under a normal load {}", percent(k)));
    let alone = alone.map(|ratio| {
        let share = percent(ratio);
        format!("; alone, the scavenger gets {share} of the rate of a normal load")
    });
    format!(
        "Under the scavenger another flow keeps {} of the rate it has alone{}{}",
        percent(kept),
        beside_plain.unwrap_or_default(),
        alone.unwrap_or_default()
    )
}
