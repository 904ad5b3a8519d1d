//! A queue at the narrow link too short to absorb a burst.
//!
//! We would see: the path full, and losses although the RTT has hardly risen.
//! Refuted by: a rise of more than a fifth before the losses. Needs: RTT, retransmits.
//! To do: pace, so that bursts do not hit the queue at line rate.
//!
//! Units: microseconds. Wrong when: random loss occurs on a path that is full anyway.

use super::{Case, advice, bytes, finding};
use longhaul_model::report::v1::Finding;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::units::format_duration;
use std::time::Duration;

/// The maximum delay of a shallow queue as a ratio of the idle RTT.
const SHALLOW_RATIO: f64 = 0.2;
const LEAST_LOST: u64 = 5;

pub fn diagnose(case: &Case) -> Option<Finding> {
    let idle = case.scene.idle_rtt_us?;
    let trips = case.scene.judged().filter_map(|i| i.rtt_us);
    let highest = trips.max()?.saturating_sub(idle);
    let lost = case.scene.retransmitted_segments();
    let shallow = (highest as f64) < SHALLOW_RATIO * idle as f64;
    if !case.is(Limiter::PathCapacity) || lost < LEAST_LOST || !shallow {
        return None;
    }
    let queue = case.goodput().bytes_in(Duration::from_micros(highest));
    let delay = format_duration(Duration::from_micros(highest));
    let summary = format!(
        "The narrow link's queue is shallow: it drops ({lost} segments) with at most {delay} or {} waiting, well below the {} in flight",
        bytes(queue),
        bytes(case.goodput().bytes_in(Duration::from_micros(idle))),
    );
    let mut found = finding(case, "shallow_buffer", summary);
    found.confidence_ratio = 0.6;
    found.advice.push(advice("sender", String::from("Pace (the fq queueing discipline, or `--pacing`), so that bursts do not overrun the queue")));
    Some(found)
}
