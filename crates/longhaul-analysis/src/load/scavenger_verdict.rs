//! Determines if the scavenger yields, and how much it still gets.
//!
//! It yields if the competitor keeps at least nine tenths of its baseline rate. The comparison is
//! with a plain load of the same run, if any. The used share is the scavenger's rate divided by
//! what the competitor left of the maximum that the path carried in any step.
//!
//! Source: the criterion of SLAC's scavenger tests (the best-effort flow is hardly slower). Units:
//! shares. Error: that of the shares kept. Wrong when: the competitor does not fill the path.

use longhaul_model::report::v1::load::{LoadPlan, LoadStep, LoadStepResult, ScavengerResult};

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
