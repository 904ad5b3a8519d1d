//! Descriptions of loads and their effects.

use super::format_nanos;
use crate::number_format::{count_of, format_micros, format_percent, format_rate};
use longhaul_model::report::v1::load::{LoadStep, LoadStepResult};
use longhaul_model::units::Bytes;

/// Describes a load: `4 streams at 20 Mbit/s, yielding`; usually at most 30 columns.
pub fn describe_step(step: &LoadStep) -> String {
    if step.baseline {
        return "competitor alone".to_owned();
    }
    let mut text = count_of(u64::from(step.streams), "stream");
    if let Some(bps) = step.rate_bps {
        text.push_str(" at ");
        text.push_str(&format_rate(bps));
    }
    if step.scavenger {
        text += ", scavenger";
    }
    if step.competitor {
        text += " + other";
    }
    text
}

/// Describes the effect for the second line: RTT increase, queue, recovery and competitor.
pub fn describe_step_result(result: &LoadStepResult) -> String {
    let mut parts = Vec::new();
    if let Some(rise) = result.rise_ns {
        let interval = result.rise_interval_ns.map_or_else(String::new, |[low, high]| {
            format!(" ({} to {})", format_nanos(low), format_nanos(high))
        });
        let grew = match result.grew.as_deref() {
            Some("both") => " in both directions".to_owned(),
            Some(way) => format!(" {way}"),
            None => String::new(),
        };
        parts.push(format!("RTT +{}{interval}{grew}", format_nanos(rise)));
    }
    if let (Some(delay), Some(bytes)) = (result.queue_delay_ns, result.queue_bytes) {
        parts.push(format!("queue up to {}, {}", format_nanos(delay), Bytes(bytes)));
    }
    parts.extend(result.round_trips_per_minute.map(|trips| format!("{trips} RPM")));
    if let Some(back) = result.recovery_us {
        parts.push(format!("queue drained in {}", format_micros(back)));
    }
    if let (Some(kept), Some(bps)) = (result.competitor_kept_ratio, result.competitor_bps) {
        let interval =
            result.competitor_kept_interval_ratio.map_or_else(String::new, |[low, high]| {
                format!(" ({} to {})", format_percent(low), format_percent(high))
            });
        parts.push(format!(
            "competitor keeps {}{interval}, {}",
            format_percent(kept),
            format_rate(bps)
        ));
    }
    parts.join("; ")
}
