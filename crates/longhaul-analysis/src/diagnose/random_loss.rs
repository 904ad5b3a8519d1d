//! Random loss on a path that is not full.
//!
//! We would see: retransmits while the RTT stays near its idle value, and a goodput near what this
//! loss allows. Refuted by: a queue before the losses, losses in clusters with a goodput far above
//! that bound (a policer), or drops counted by the hosts themselves.
//! Needs: retransmits, RTT. To do: look for the faulty link; meanwhile use a congestion control
//! that does not treat loss as congestion, or more streams.
//!
//! Source: Mathis 1997; RFC 9438. Units: bit/s. Error: our experiment gave 1.3 × the bound.
//! Wrong when: a queue too short to be seen overflows.

use super::{
    DiagnosisCase, FindingAdvice, build_finding, describe_state_share, format_whole_percent,
    repeat_command, to_rate,
};
use crate::limit::interval_state::IntervalState;
use longhaul_model::report::v1::ReportFinding;
use longhaul_model::report::v1::analysis::Limiter;

/// The range of goodput relative to the bound that supports random loss.
const NEAR_BOUND: std::ops::RangeInclusive<f64> = 0.3..=2.5;
/// The minimum share of a state that is reported.
const MIN_REPORTED_SHARE: f64 = 0.01;

pub fn diagnose_random_loss(case: &DiagnosisCase) -> Option<ReportFinding> {
    if !case.is_limited_by(Limiter::Loss) {
        return None;
    }
    let lost = case.scene.retransmitted_segments;
    let loss = case.scene.loss_ratio.or(case.analysis.totals.loss_ratio)?;
    let bound = case.analysis.bounds.iter().find(|b| b.limiter == Limiter::Loss);
    let allows =
        bound.map_or(String::new(), |b| format!("; the loss bound is {}", to_rate(b.rate_bps)));
    let summary = format!(
        "Random loss of {:.3} % ({lost} segments) without queueing: at {} RTT, TCP reaches {}{allows}",
        loss * 100.0,
        case.rtt_text(),
        case.goodput(),
    );
    let mut found = build_finding(case, "random_loss", summary);
    for state in [IntervalState::Loss, IntervalState::Recovering] {
        if case.verdict.shares.state(state) >= MIN_REPORTED_SHARE {
            found.support(describe_state_share(case, state));
        }
    }
    if let Some(bound) = bound {
        let ratio = case.goodput_bps() as f64 / bound.rate_bps.max(1) as f64;
        let text =
            format!("goodput is {} of the bound of random loss", format_whole_percent(ratio));
        if NEAR_BOUND.contains(&ratio) {
            found.support(text);
        } else {
            found.contradict(text);
        }
    }
    found.advice = list_loss_advice(case);
    Some(found)
}

fn list_loss_advice(case: &DiagnosisCase) -> Vec<FindingAdvice> {
    let mut all = vec![
        FindingAdvice::new(
            "path",
            "Check the error counters of every interface on the path: dirty fibre, weak optics, duplex mismatch or an overrun device",
        ),
        FindingAdvice {
            command: Some(String::from("ethtool -S <interface> | grep -iE 'err|drop|crc|miss'")),
            ..FindingAdvice::new("receiver", "Check the receiver's own interface first")
        },
    ];
    if !case.scene.bbr {
        all.push(FindingAdvice {
            command: Some(repeat_command("-C bbr")),
            ..FindingAdvice::new(
                "sender",
                "As a workaround, use BBR: it does not slow down for random loss",
            )
        });
    }
    all
}
