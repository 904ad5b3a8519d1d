//! Descriptions of loads and their effects.

use super::format_nanos;
use crate::number_format::{
    count_of, format_interval, format_micros, format_percent, format_rate, join_parts,
};
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
    let grew = match result.grew.as_deref() {
        Some("both") => " in both directions".to_owned(),
        Some(way) => format!(" {way}"),
        None => String::new(),
    };
    let rise = |ns| {
        let interval = format_interval(result.rise_interval_ns, format_nanos);
        format!("RTT +{}{interval}{grew}", format_nanos(ns))
    };
    let queue = result.queue_delay_ns.zip(result.queue_bytes);
    let kept = |(ratio, bps): (f64, u64)| {
        let interval = format_interval(result.competitor_kept_interval_ratio, format_percent);
        format!("competitor keeps {}{interval}, {}", format_percent(ratio), format_rate(bps))
    };
    let parts = [
        result.rise_ns.map(rise),
        queue.map(|(ns, bytes)| format!("queue up to {}, {}", format_nanos(ns), Bytes(bytes))),
        result.round_trips_per_minute.map(|trips| format!("{trips} RPM")),
        result.recovery_us.map(|us| format!("queue drained in {}", format_micros(us))),
        result.competitor_kept_ratio.zip(result.competitor_bps).map(kept),
    ];
    join_parts("; ", parts)
}
