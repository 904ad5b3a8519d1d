//! Checks that the congestion control recovers in reasonable time on this path.
//!
//! Source: RFC 9438 (2023), section 5: Reno needs a window's worth of round trips after a loss.
//! Units: segments, round trips. Error: segments are assumed to be 1448 bytes.
//! Wrong when: programs choose their own congestion control.

use super::AuditRule;
use super::audit_case::AuditCase;
use super::host_readings::ReadingResult;
use super::rule_judgement::{
    RuleJudgement, judge_advice, judge_good, remedy_by_hand, remedy_by_sysctl,
};
use longhaul_model::units::format_duration;
use std::time::Duration;

const CONTROL: &str = "net.ipv4.tcp_congestion_control";
const AVAILABLE: &str = "net.ipv4.tcp_available_congestion_control";
/// Congestion controls for long fat paths: the window grows with time or follows the measured rate.
const FIT: [&str; 9] =
    ["cubic", "bbr", "bbr1", "bbr2", "bbr3", "htcp", "scalable", "illinois", "bic"];
const SEGMENT_BYTES: u64 = 1448;
/// A halved window of this many segments recovers within seconds on any path.
const FEW_SEGMENTS: u64 = 100;

pub const RULES: &[AuditRule] =
    &[AuditRule::of_path("congestion_control", judge_congestion_control)
        .title("congestion control suited to long fat paths")
        .source("RFC 9438 (2023); Cardwell et al., BBR (2016)")
        .needs(&[CONTROL])];

fn judge_congestion_control(case: &AuditCase) -> ReadingResult<RuleJudgement> {
    let routed = case.readings.text("route.congestion_control").ok();
    let present = match routed {
        Some(name) => name,
        None => case.readings.text(CONTROL)?,
    };
    let by_route = if routed.is_some() { ", set by the route" } else { "" };
    if FIT.contains(&present) {
        return Ok(judge_good(format!("{present}{by_route}")));
    }
    let segments = case.in_flight_bytes() / SEGMENT_BYTES;
    if present != "reno" || segments < FEW_SEGMENTS {
        return Ok(judge_good(format!(
            "{present}{by_route}: sufficient for this path, or unknown to longhaul"
        )));
    }
    let rtts = segments / 2;
    let time = Duration::from_micros(case.path.rtt_us.saturating_mul(rtts));
    let text = format!(
        "{present}{by_route}: after one loss the window needs {rtts} round trips to recover, {} \
         on this path",
        format_duration(time)
    );
    let available = case.readings.text(AVAILABLE).unwrap_or_default();
    let cubic = available.split_whitespace().any(|name| name == "cubic");
    let remedy = if routed.is_none() && cubic {
        remedy_by_sysctl(CONTROL, "cubic", "Use cubic, the default of Linux")
    } else {
        remedy_by_hand("Use cubic or bbr")
    };
    Ok(judge_advice(text).remedy(remedy))
}
