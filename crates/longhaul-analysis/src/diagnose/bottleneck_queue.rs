//! A queue so deep that it delays all other traffic on the path.
//!
//! We would see: an RTT under load far above the idle one. Refuted by: an idle RTT that was itself
//! measured under load. Needs: idle RTT, RTT under load. To do: active queue management at the
//! narrow link, or pacing below the capacity.
//!
//! Source: RFC 6349 (buffer delay). Units: microseconds.
//! Wrong when: the far host, not the path, answers late.
//!
//! # Shallow buffers
//!
//! A queue at the narrow link too short to absorb a burst.
//!
//! We would see: the path full, and losses although the RTT has hardly risen.
//! Refuted by: a rise of more than a fifth before the losses. Needs: RTT, retransmits.
//! To do: pace, so that bursts do not hit the queue at line rate.
//!
//! Units: microseconds. Wrong when: random loss occurs on a path that is full anyway.
//!
//! # A full path
//!
//! A full path: nothing to fix.
//!
//! We would see: a standing queue or a rate independent of the window, in most of the run, and a
//! goodput near its own best level. Refuted by: any limiter of the hosts, or a low steady rate.
//! Needs: RTT, arrivals. To do: nothing.
//!
//! Units: bit/s. Wrong when: other traffic shares the path; then this is only the free part of it.

use super::{DiagnosisCase, build_finding, format_whole_percent, to_rate};
use crate::limit::interval_state::IntervalState;
use crate::limit::limiter_verdict::PRIMARY_RATIO;
use longhaul_model::report::v1::ReportFinding;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::plan::RunTransport;
use longhaul_model::units::{Bytes, format_duration};
use std::time::Duration;

/// The minimum added delay: noticeable to users; it must also exceed the path's own RTT.
const MIN_ADDED_US: u64 = 30_000;
/// The pacing rate as a ratio of the capacity that leaves the queue empty.
const PACE_RATIO: f64 = 0.95;

pub fn diagnose_deep_queue(case: &DiagnosisCase) -> Option<ReportFinding> {
    let loaded = case.analysis.rtt_us?.mean;
    let idle = case.scene.idle_rtt_us?;
    let added = loaded.saturating_sub(idle);
    if added <= MIN_ADDED_US.max(idle) {
        return None;
    }
    let delay = format_duration(Duration::from_micros(added));
    let queue = case.goodput().bytes_in(Duration::from_micros(added));
    let summary = format!(
        "Bufferbloat: under load, queueing adds {delay} to the RTT ({} idle), about {} of data",
        case.rtt_text(),
        Bytes(queue),
    );
    let mut found = build_finding(case, "deep_queue", summary);
    found.confidence_ratio = 0.9;
    found.support(format!(
        "mean RTT under load: {}",
        format_duration(Duration::from_micros(loaded))
    ));
    let each = (case.goodput_bps() as f64 * PACE_RATIO) as u64 / case.streams();
    found.advise("path", "Active queue management (fq_codel, cake) at the bottleneck link keeps the rate and removes the delay");
    let advice = found.advise("sender", format!("Or pace each stream to {}", to_rate(each)));
    advice.command = Some(case.repeat_command("--pacing", each));
    advice.expected_bps = Some(each.saturating_mul(case.streams()));
    Some(found)
}

/// The maximum delay of a shallow queue as a ratio of the idle RTT.
const SHALLOW_RATIO: f64 = 0.2;
const MIN_LOST_SEGMENTS: u64 = 5;

pub fn diagnose_shallow_buffer(case: &DiagnosisCase) -> Option<ReportFinding> {
    let idle = case.scene.idle_rtt_us?;
    let trips = case.scene.judged_intervals().filter_map(|i| i.rtt_us);
    let highest = trips.max()?.saturating_sub(idle);
    let lost = case.scene.retransmitted_segments;
    let shallow = (highest as f64) < SHALLOW_RATIO * idle as f64;
    if lost < MIN_LOST_SEGMENTS || !shallow {
        return None;
    }
    let queue = case.goodput().bytes_in(Duration::from_micros(highest));
    let delay = format_duration(Duration::from_micros(highest));
    let summary = format!(
        "Shallow buffer at the bottleneck: {lost} segments lost with at most {delay} ({}) queued, well below the BDP of {}",
        Bytes(queue),
        Bytes(case.goodput().bytes_in(Duration::from_micros(idle))),
    );
    let mut found = build_finding(case, "shallow_buffer", summary);
    found.confidence_ratio = 0.6;
    let text =
        "Pace the streams (fq qdisc, or `--pacing`), so that bursts do not overrun the queue";
    found.advise("sender", text);
    Some(found)
}

fn describe_full_datagram_path(case: &DiagnosisCase) -> ReportFinding {
    let lost = case.analysis.totals.loss_ratio.unwrap_or(0.0);
    let summary = format!(
        "More was sent than the path carries: {} arrive at a constant rate, and {} of the datagrams are lost",
        case.goodput(),
        format_whole_percent(lost),
    );
    let mut found = build_finding(case, "overload", summary);
    let rate = (case.goodput_bps() as f64 * PACE_RATIO) as u64;
    let text = "Send no more than the path carries";
    found.advise("initiator", text).command = Some(case.repeat_command("-b", rate));
    found
}

/// The minimum ratio of the goodput to the level that was reached.
const NEAR_RATIO: f64 = 0.85;

pub fn diagnose_full_path(case: &DiagnosisCase) -> Option<ReportFinding> {
    if case.scene.plan.transport != RunTransport::Tcp {
        return Some(describe_full_datagram_path(case));
    }
    let share = case.verdict.shares.limiter(Limiter::PathCapacity);
    let near = case.goodput_bps() as f64 >= NEAR_RATIO * case.scene.level_bps;
    let bucket = case.scene.policer.is_some() || case.scene.bucket.is_some();
    if share < PRIMARY_RATIO || !near || bucket {
        return None;
    }
    // A full path with a deep queue is not healthy.
    if diagnose_deep_queue(case).is_some() {
        return None;
    }
    let summary =
        format!("The path is full at {}; nothing to fix at the hosts", to_rate(case.goodput_bps()));
    let mut found = build_finding(case, "healthy", summary);
    found.support(super::describe_state_share(case, IntervalState::PathFull));
    let sawtooth = case.verdict.shares.state(IntervalState::Sawtooth);
    if sawtooth > 0.0 {
        found.support(format!(
            "growing back after losses in a full queue for {} of the bytes",
            format_whole_percent(sawtooth)
        ));
    }
    Some(found)
}
