//! Descriptions of loads and their effects.

use super::nanos;
use crate::render::figures::{count_of, duration, percent, rate};
use longhaul_model::report::v1::load::{Step, StepResult};
use longhaul_model::units::Bytes;

/// Describes a load: `4 streams at 20 Mbit/s, yielding`; usually at most 30 columns.
pub fn step(step: &Step) -> String {
    if step.baseline {
        return "competitor alone".to_owned();
    }
    let mut text = count_of(u64::from(step.streams), "stream");
    if let Some(bps) = step.rate_bps {
        text.push_str(" at ");
        text.push_str(&rate(bps));
    }
    if step.scavenger {
        text += ", yielding";
    }
    if step.competitor {
        text += " + other";
    }
    text
}

/// Describes the effect for the second line: RTT increase, queue, recovery and competitor.
pub fn detail(result: &StepResult) -> String {
    let mut parts = Vec::new();
    if let Some(rise) = result.rise_ns {
        let interval = result
            .rise_interval_ns
            .map_or_else(String::new, |[low, high]| {
                format!(" ({} to {})", nanos(low), nanos(high))
            });
        let grew = match result.grew.as_deref() {
            Some("both") => " both ways".to_owned(),
            Some(way) => format!(" {way}"),
            None => String::new(),
        };
        parts.push(format!("RTT +{}{interval}{grew}", nanos(rise)));
    }
    if let (Some(delay), Some(bytes)) = (result.queue_delay_ns, result.queue_bytes) {
        parts.push(format!("queue up to {}, {}", nanos(delay), Bytes(bytes)));
    }
    if let Some(trips) = result.round_trips_per_minute {
        parts.push(format!("{trips} round trips/min"));
    }
    if let Some(back) = result.recovery_us {
        parts.push(format!("back after {}", duration(back)));
    }
    if let (Some(kept), Some(bps)) = (result.competitor_kept_ratio, result.competitor_bps) {
        let interval = result
            .competitor_kept_interval_ratio
            .map_or_else(String::new, |[low, high]| {
                format!(" ({} to {})", percent(low), percent(high))
            });
        parts.push(format!(
            "competitor keeps {}{interval}, {}",
            percent(kept),
            rate(bps)
        ));
    }
    parts.join("; ")
}
