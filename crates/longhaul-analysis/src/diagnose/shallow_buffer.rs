//! A queue at the narrow link too short to absorb a burst.
//!
//! We would see: the path full, and losses although the RTT has hardly risen.
//! Refuted by: a rise of more than a fifth before the losses. Needs: RTT, retransmits.
//! To do: pace, so that bursts do not hit the queue at line rate.
//!
//! Units: microseconds. Wrong when: random loss occurs on a path that is full anyway.

use super::{DiagnosisCase, build_finding};
use longhaul_model::report::v1::ReportFinding;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::units::{Bytes, format_duration};
use std::time::Duration;

/// The maximum delay of a shallow queue as a ratio of the idle RTT.
const SHALLOW_RATIO: f64 = 0.2;
const MIN_LOST_SEGMENTS: u64 = 5;

pub fn diagnose_shallow_buffer(case: &DiagnosisCase) -> Option<ReportFinding> {
    let idle = case.scene.idle_rtt_us?;
    let trips = case.scene.judged_intervals().filter_map(|i| i.rtt_us);
    let highest = trips.max()?.saturating_sub(idle);
    let lost = case.scene.retransmitted_segments;
    let shallow = (highest as f64) < SHALLOW_RATIO * idle as f64;
    if !case.is_limited_by(Limiter::PathCapacity) || lost < MIN_LOST_SEGMENTS || !shallow {
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
    found.advise(
        "sender",
        "Pace the streams (fq qdisc, or `--pacing`), so that bursts do not overrun the queue",
    );
    Some(found)
}
