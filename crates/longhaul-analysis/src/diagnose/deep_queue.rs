//! A queue so deep that it delays all other traffic on the path.
//!
//! We would see: an RTT under load far above the idle one. Refuted by: an idle RTT that was itself
//! measured under load. Needs: idle RTT, RTT under load. To do: active queue management at the
//! narrow link, or pacing below the capacity.
//!
//! Source: RFC 6349 (buffer delay). Units: microseconds.
//! Wrong when: the far host, not the path, answers late.

use super::{DiagnosisCase, FindingAdvice, build_finding, repeat_command, to_rate};
use longhaul_model::report::v1::ReportFinding;
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
    found.advice.push(FindingAdvice {
        command: Some(repeat_command(&format!("--pacing {each}"))),
        expected_bps: Some(each.saturating_mul(case.streams())),
        ..FindingAdvice::new("sender", format!("Or pace each stream to {}", to_rate(each)))
    });
    Some(found)
}
