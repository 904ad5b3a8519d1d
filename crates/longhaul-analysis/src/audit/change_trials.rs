//! Tests whether the changes helped, with alternating runs before and after.
//!
//! The comparison uses logarithms of the goodput: the difference of the means, with Student's
//! interval from the pooled variance. The changes helped a direction if the lower end of the
//! interval is a gain of 3 %, or if a buffer or a window no longer limits it and goodput did not
//! fall.
//!
//! Source: Student's two-sample test (1908), the predecessor of Welch's; order A B B A against
//! drift.
//! Units: bit/s, ratios. Error: with two runs of each kind the interval is 4.3 standard errors
//! wide.
//! Wrong when: the path itself changes between the runs by more than they scatter.

use crate::stats::mean_interval::student_t_975;
use crate::stats::{find_mode, mean_and_deviation};
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::host::{ChangeEffect, ChangeProof, ProofTrial};
use longhaul_model::units::Rate;

/// The minimum gain that a user would notice.
const MIN_GAIN_RATIO: f64 = 1.03;

/// Returns whether the setting affects transfers that this host sends (forward) or receives.
pub fn affects_direction(name: &str, forward: bool) -> bool {
    match name {
        "net.core.rmem_max"
        | "net.ipv4.tcp_rmem"
        | "net.ipv4.tcp_moderate_rcvbuf"
        | "net.core.netdev_max_backlog"
        | "net.core.netdev_budget"
        | "interface.ring.rx" => !forward,
        "net.core.wmem_max"
        | "net.core.optmem_max"
        | "net.core.default_qdisc"
        | "net.ipv4.tcp_wmem"
        | "net.ipv4.tcp_congestion_control"
        | "net.ipv4.tcp_slow_start_after_idle"
        | "net.ipv4.tcp_no_metrics_save"
        | "net.ipv4.tcp_mtu_probing"
        | "net.ipv4.tcp_recovery"
        | "interface.txqueuelen"
        | "interface.ring.tx" => forward,
        _ => true,
    }
}

/// Returns whether the measurement shows that the changes helped.
pub fn has_helped(effect: &ChangeEffect) -> bool {
    let gain = compute_gain_ratio(effect);
    let beyond_noise = effect.gain_interval_ratio.is_some_and(|[low, _]| low >= MIN_GAIN_RATIO);
    let freed = effect.limited_by_before.is_window() && !effect.limited_by_after.is_window();
    beyond_noise || (freed && gain >= 1.0)
}

fn compute_gain_ratio(effect: &ChangeEffect) -> f64 {
    effect.after_bps as f64 / (effect.before_bps.max(1)) as f64
}

/// Evaluates the trials; `None` without trials.
pub fn evaluate_trials(trials: &[ProofTrial]) -> Option<ChangeProof> {
    if trials.is_empty() {
        return None;
    }
    let directions: Vec<ChangeEffect> =
        [true, false].into_iter().filter_map(|forward| compute_effect(trials, forward)).collect();
    let kept = directions.iter().any(has_helped);
    let mut said: Vec<String> = directions.iter().map(describe_effect).collect();
    if directions.is_empty() {
        said.push(String::from("no direction was measured before and after"));
    }
    let failed = trials.iter().filter(|trial| trial.error.is_some()).count();
    if failed > 0 {
        said.push(format!("{failed} of {} runs failed", trials.len()));
    }
    Some(ChangeProof { directions, kept, text: said.join("; ") })
}

fn compute_effect(trials: &[ProofTrial], forward: bool) -> Option<ChangeEffect> {
    let of = |changed: bool| -> Vec<&ProofTrial> {
        let matching = |t: &&ProofTrial| t.forward == forward && t.changed == changed;
        let measured = |t: &&ProofTrial| t.goodput_bps.is_some_and(|bps| bps > 0);
        trials.iter().filter(matching).filter(measured).collect()
    };
    let (before, after) = (of(false), of(true));
    let (low, high) = (take_logarithms(&before), take_logarithms(&after));
    let (mean_before, mean_after) = (compute_mean(&low)?, compute_mean(&high)?);
    Some(ChangeEffect {
        forward,
        before_bps: mean_before.exp().round() as u64,
        after_bps: mean_after.exp().round() as u64,
        gain_interval_ratio: compute_gain_interval(&low, &high),
        limited_by_before: find_common_limiter(&before),
        limited_by_after: find_common_limiter(&after),
    })
}

fn take_logarithms(trials: &[&ProofTrial]) -> Vec<f64> {
    let rates = trials.iter().filter_map(|trial| trial.goodput_bps);
    rates.map(|bps| (bps as f64).ln()).collect()
}

fn compute_mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Returns the 95 % interval of after / before.
fn compute_gain_interval(before: &[f64], after: &[f64]) -> Option<[f64; 2]> {
    let (low, low_deviation) = mean_and_deviation(before)?;
    let (high, high_deviation) = mean_and_deviation(after)?;
    let (n, m) = (before.len() as f64, after.len() as f64);
    let freedom = n + m - 2.0;
    let squares = (n - 1.0) * low_deviation.powi(2) + (m - 1.0) * high_deviation.powi(2);
    let error = (squares / freedom * (1.0 / n + 1.0 / m)).sqrt();
    let half = student_t_975(freedom) * error;
    let bounds = [(high - low - half).exp(), (high - low + half).exp()];
    bounds.iter().all(|b| b.is_finite()).then_some(bounds)
}

fn find_common_limiter(trials: &[&ProofTrial]) -> Limiter {
    let named: Vec<Limiter> = trials.iter().filter_map(|t| t.limited_by).collect();
    find_mode(&named).unwrap_or(Limiter::Unknown)
}

fn describe_effect(effect: &ChangeEffect) -> String {
    let who = if effect.forward { "sending" } else { "receiving" };
    let interval = effect
        .gain_interval_ratio
        .map_or_else(String::new, |[low, high]| format!(" ({low:.2} to {high:.2})"));
    format!(
        "{who} went from {} to {}, × {:.2}{interval}: {}",
        Rate::bits_per_second(effect.before_bps),
        Rate::bits_per_second(effect.after_bps),
        compute_gain_ratio(effect),
        if has_helped(effect) { "the changes helped" } else { "the changes did not help" }
    )
}
