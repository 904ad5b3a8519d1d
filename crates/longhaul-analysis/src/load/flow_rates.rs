//! Computes goodput, and the share of its baseline rate that a competitor keeps under load.
//!
//! Rates come from the receiver's counts at even steps of 200 ms, from the end of the ramp: one
//! second after the flow's first byte, or ten round trips, at most half its time. A competitor's
//! rate under load is compared with its baseline rates in the same run, before and after, over the
//! same part of its duration: ramps then cancel, and a path that changes shows as two different
//! baselines.
//!
//! Source: receiver's counts; error of a ratio by propagation (first order) of the two errors of
//! correlated means ([`crate::stats::mean_interval`]). Units: bit/s; shares.
//! Error: the interval given. Wrong when: the competitor was not limited by the path alone.

use crate::stats::mean_and_deviation;
use crate::stats::mean_interval::mean_half_width;
use crate::throughput::arrival_timeline::interpolate_count;
use longhaul_model::report::v1::load::{LoadFlow, LoadObservation, LoadPhase, LoadPlan, LoadPoint};

const STEP_US: u64 = 200_000;
const RAMP_US: u64 = 1_000_000;
const RAMP_TRIPS: u64 = 10;

/// A mean rate and the half-width of its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeanRate {
    pub bps: f64,
    pub half_bps: Option<f64>,
}

/// The share kept and its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KeptShare {
    pub ratio: f64,
    pub interval: Option<[f64; 2]>,
}

/// Returns the mean rate after the ramp; `None` if nothing arrived.
pub fn compute_mean_rate(flow: &LoadFlow, rtt_us: u64) -> Option<MeanRate> {
    let rates = list_steady_rates(flow, rtt_us);
    if rates.is_empty() {
        return compute_overall_rate(flow);
    }
    let bps = rates.iter().sum::<f64>() / rates.len() as f64;
    let half_bps = mean_half_width(&rates);
    (bps > 0.0).then_some(MeanRate { bps, half_bps })
}

/// Returns the mean rate of a flow that is too short or too sparse for steps.
fn compute_overall_rate(flow: &LoadFlow) -> Option<MeanRate> {
    let seconds = flow.elapsed_us as f64 / 1e6;
    let bps = flow.bytes as f64 * 8.0 / seconds;
    (seconds > 0.0 && bps > 0.0).then_some(MeanRate { bps, half_bps: None })
}

fn list_steady_rates(flow: &LoadFlow, rtt_us: u64) -> Vec<f64> {
    let (Some(first), Some(last)) = (flow.series.first(), flow.series.last()) else {
        return Vec::new();
    };
    let length = last.at_us.saturating_sub(first.at_us);
    let ramp = RAMP_US.max(rtt_us.saturating_mul(RAMP_TRIPS)).min(length / 2);
    list_rates(&flow.series, first.at_us + ramp, last.at_us)
}

/// Returns the rates in whole steps of the span.
pub fn list_rates(series: &[LoadPoint], from_us: u64, until_us: u64) -> Vec<f64> {
    let steps = until_us.saturating_sub(from_us) / STEP_US;
    let count = |point: &LoadPoint| (point.at_us, point.bytes);
    let at = |step: u64| interpolate_count(series, count, from_us + step * STEP_US);
    let rate = |step| (at(step + 1) - at(step)) * 8e6 / STEP_US as f64;
    (0..steps).map(rate).collect()
}

/// Returns the competitor's rate without load: the mean over the baselines of the run.
pub fn compute_baseline_rate(
    plan: &LoadPlan,
    observation: &LoadObservation,
    rtt_us: u64,
) -> Option<MeanRate> {
    let baselines = observation.phases.iter().filter(|p| is_baseline(plan, p));
    let flows = baselines.filter_map(|p| p.competitor.as_ref());
    let means: Vec<MeanRate> = flows.filter_map(|flow| compute_mean_rate(flow, rtt_us)).collect();
    let values: Vec<f64> = means.iter().map(|m| m.bps).collect();
    let count = values.len() as f64;
    let (bps, spread) = match values.as_slice() {
        [] => return None,
        [only] => (*only, 0.0),
        _ => {
            let (bps, deviation) = mean_and_deviation(&values)?;
            (bps, deviation / count.sqrt())
        }
    };
    let within: Option<f64> = means.iter().map(|m| m.half_bps).sum::<Option<f64>>();
    let half_bps = within.map(|sum| (sum / count / count.sqrt()).hypot(2.0 * spread));
    Some(MeanRate { bps, half_bps })
}

fn is_baseline(plan: &LoadPlan, phase: &LoadPhase) -> bool {
    let step = phase.step.and_then(|i| plan.steps.get(i as usize));
    step.is_some_and(|step| step.baseline)
}

pub fn compute_kept_share(beside: MeanRate, alone: MeanRate) -> KeptShare {
    let ratio = beside.bps / alone.bps;
    let half = beside.half_bps.zip(alone.half_bps).map(|(b, a)| {
        let relative = (b / beside.bps).hypot(a / alone.bps);
        ratio * relative
    });
    KeptShare { ratio, interval: half.map(|half| [(ratio - half).max(0.0), ratio + half]) }
}
