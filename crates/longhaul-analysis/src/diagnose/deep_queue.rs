//! Does the path keep so much in its queue that everything else on it waits?
//!
//! We would see: round trips under load far above idle ones. Refuted by: an idle RTT that was itself
//! taken under load. Needs: idle RTT, RTT under load. To do: a managed queue at the narrow link, or
//! pace below the capacity.
//!
//! Source: RFC 6349 (buffer delay). Units: microseconds.
//! Wrong when: the far host, not the path, answers late.

use super::{Advice, Case, advice, again, bytes, finding, rate};
use longhaul_model::report::v1::Finding;
use longhaul_model::units::format_duration;
use std::time::Duration;

/// Added delay that people notice, and that is more than the path's own.
const LEAST_ADDED_US: u64 = 30_000;
/// Pacing to this share of the capacity leaves the queue empty.
const PACE_RATIO: f64 = 0.95;

pub fn diagnose(case: &Case) -> Option<Finding> {
    let loaded = case.analysis.rtt_us?.mean;
    let idle = case.scene.idle_rtt_us?;
    let added = loaded.saturating_sub(idle);
    if added <= LEAST_ADDED_US.max(idle) {
        return None;
    }
    let delay = format_duration(Duration::from_micros(added));
    let queue = case.goodput().bytes_in(Duration::from_micros(added));
    let summary = format!(
        "Under load a deep queue adds {delay} to every round trip ({} idle): about {} wait in it",
        case.rtt_text(),
        bytes(queue),
    );
    let mut found = finding(case, "deep_queue", summary);
    found.confidence_ratio = 0.9;
    found.supports.push(format!(
        "round trips under load average {}",
        format_duration(Duration::from_micros(loaded))
    ));
    let each = (case.goodput_bps() as f64 * PACE_RATIO) as u64 / case.streams();
    found.advice.push(advice("path", String::from("A managed queue (fq_codel, cake) at the narrow link keeps the rate and drops the delay")));
    found.advice.push(Advice {
        command: Some(again(&format!("--pacing {each}"))),
        expected_bps: Some(each.saturating_mul(case.streams())),
        ..advice("sender", format!("Or pace each stream to {}", rate(each)))
    });
    Some(found)
}
