//! Checks the TCP features that long paths need.
//!
//! Source: see each rule. Units: bytes, bit/s.
//! Error: a feature that is on here may be refused by the peer or removed by a middlebox.
//! Wrong when: programs set these options themselves.
//!
//! # Congestion control
//!
//! Checks that the congestion control recovers in reasonable time on this path.
//!
//! Source: RFC 9438 (2023), section 5: Reno needs a window's worth of round trips after a loss.
//! Units: segments, round trips. Error: segments are assumed to be 1448 bytes.
//! Wrong when: programs choose their own congestion control.

use super::{
    AuditCase, AuditRule, ReadingResult, RuleJudgement, judge_advice, judge_good, judge_limits,
    judge_unless, remedy_by_hand, remedy_by_sysctl,
};
use longhaul_model::report::v1::host::AuditRemedy;
use longhaul_model::units::{Bytes, Rate, format_duration};
use std::time::Duration;

const MODERATE: &str = "net.ipv4.tcp_moderate_rcvbuf";
const SCALING: &str = "net.ipv4.tcp_window_scaling";
const TIMESTAMPS: &str = "net.ipv4.tcp_timestamps";
const SACK: &str = "net.ipv4.tcp_sack";
const DSACK: &str = "net.ipv4.tcp_dsack";
const RECOVERY: &str = "net.ipv4.tcp_recovery";
const AFTER_IDLE: &str = "net.ipv4.tcp_slow_start_after_idle";
const NO_METRICS: &str = "net.ipv4.tcp_no_metrics_save";
/// The maximum window without window scaling.
const UNSCALED_WINDOW: u64 = 65_535;
/// With less than this in flight, lost segments are repaired soon with any setting.
const LONG_FAT: u64 = 1 << 20;

pub const RULES: &[AuditRule] = &[
    AuditRule::of_path("receive_moderation", judge_receive_moderation)
        .title("autotuning of receive buffers")
        .source("Linux ip-sysctl, tcp_moderate_rcvbuf (2025)"),
    AuditRule::of_path("window_scaling", judge_window_scaling)
        .title("windows beyond 64 KiB")
        .source("RFC 7323 (2014)"),
    AuditRule::of_host("timestamps", judge_timestamps)
        .title("RTT measured on every segment")
        .source("RFC 7323 (2014); ESnet fasterdata (2010s)"),
    AuditRule::of_path("selective_acknowledgement", judge_selective_acknowledgement)
        .title("several losses repaired in one round trip")
        .source("RFC 2018 (1996); ESnet fasterdata (2010s)"),
    AuditRule::of_host("duplicate_acknowledgement", judge_duplicate_acknowledgement)
        .title("spurious retransmissions detected and undone")
        .source("RFC 2883 (2000)"),
    AuditRule::of_host("loss_by_time", judge_loss_by_time)
        .title("time-based loss detection (RACK)")
        .source("RFC 8985, RACK (2021)"),
    AuditRule::of_path("idle_restart", judge_idle_restart)
        .title("no new slow start after an idle period")
        .source("Linux ip-sysctl, tcp_slow_start_after_idle (2025); RFC 2861 (2000)"),
    AuditRule::of_host("saved_metrics", judge_saved_metrics)
        .title("no metrics cached from earlier connections")
        .source("ESnet fasterdata-tuning (2025)"),
];

fn judge_switch(case: &AuditCase, name: &str, trouble: &str) -> ReadingResult<RuleJudgement> {
    let on = case.readings.number(name)? != 0;
    let what = format!("{name} is {}", if on { "on" } else { "off" });
    Ok(judge_unless(on, &what, trouble, remedy_by_sysctl(name, "1", "Turn it on")))
}

fn judge_receive_moderation(case: &AuditCase) -> ReadingResult<RuleJudgement> {
    if case.readings.number(MODERATE)? != 0 {
        return Ok(judge_good(format!("{MODERATE} is on")));
    }
    let [_, usual, _] = case.readings.triple("net.ipv4.tcp_rmem")?;
    let remedy = remedy_by_sysctl(MODERATE, "1", "Turn on autotuning of receive buffers");
    let limit = format!("receive buffers stay at {}", Bytes(usual));
    judge_window_switch(case, MODERATE, &limit, usual / 2, remedy)
}

fn judge_duplicate_acknowledgement(case: &AuditCase) -> ReadingResult<RuleJudgement> {
    judge_switch(case, DSACK, ": the window is not restored after a spurious retransmission")
}

/// Judges a switch without which no window exceeds a limit.
fn judge_window_switch(
    case: &AuditCase,
    name: &str,
    limit: &str,
    window: u64,
    remedy: AuditRemedy,
) -> ReadingResult<RuleJudgement> {
    if case.readings.number(name)? != 0 {
        return Ok(judge_good(format!("{name} is on")));
    }
    let carried = case.max_rate_bps(window);
    let rate = carried.map_or_else(String::new, |bps| {
        format!(", at most {} per stream", Rate::bits_per_second(bps))
    });
    let text = format!("{name} is off: {limit}{rate}; {}", case.describe_need());
    let judged = if window < case.in_flight_bytes() {
        judge_limits(text).bound(carried)
    } else {
        judge_advice(text)
    };
    Ok(judged.remedy(remedy))
}

fn judge_window_scaling(case: &AuditCase) -> ReadingResult<RuleJudgement> {
    let remedy =
        remedy_by_sysctl(SCALING, "1", "Turn on window scaling; it affects new connections");
    judge_window_switch(case, SCALING, "no window exceeds 64 KiB", UNSCALED_WINDOW, remedy)
}

fn judge_timestamps(case: &AuditCase) -> ReadingResult<RuleJudgement> {
    let trouble = ": the RTT is measured only once per window, and wrapped sequence numbers (every \
                   3.4 s at 10 Gbit/s) cannot be distinguished";
    judge_switch(case, TIMESTAMPS, trouble)
}

fn judge_selective_acknowledgement(case: &AuditCase) -> ReadingResult<RuleJudgement> {
    let trouble = format!(
        ": of several segments lost in a window, only one is repaired per round trip of {}",
        case.rtt()
    );
    judge_switch(case, SACK, &trouble)
}

fn judge_loss_by_time(case: &AuditCase) -> ReadingResult<RuleJudgement> {
    let present = case.readings.number(RECOVERY)?;
    let what = format!("{RECOVERY} is {present}: ");
    if present & 1 == 1 {
        return Ok(judge_good(format!("{what}RACK is on")));
    }
    let remedy = remedy_by_sysctl(RECOVERY, (present | 1).to_string(), "Turn on RACK");
    Ok(judge_advice(format!("{what}a lost retransmission waits for a timeout")).remedy(remedy))
}

fn judge_idle_restart(case: &AuditCase) -> ReadingResult<RuleJudgement> {
    if case.readings.number(AFTER_IDLE)? == 0 {
        return Ok(judge_good(format!("{AFTER_IDLE} is off")));
    }
    let what =
        format!("{AFTER_IDLE} is on: after an idle period a stream restarts from ten segments");
    if case.in_flight_bytes() < LONG_FAT {
        return Ok(judge_good(format!("{what}, which costs little here")));
    }
    let text = format!("{what}, which costs many round trips of {}", case.rtt());
    let remedy = remedy_by_sysctl(AFTER_IDLE, "0", "Keep the window across idle periods");
    Ok(judge_advice(text).remedy(remedy))
}

fn judge_saved_metrics(case: &AuditCase) -> ReadingResult<RuleJudgement> {
    if case.readings.number(NO_METRICS)? != 0 {
        let text = format!("{NO_METRICS} is on: connections start without cached metrics");
        return Ok(judge_good(text));
    }
    let text = format!(
        "{NO_METRICS} is off: a connection that saw loss passes its low slow-start threshold on \
         to the next connections to that host"
    );
    let remedy = remedy_by_sysctl(NO_METRICS, "1", "Let connections start without cached metrics");
    Ok(judge_advice(text).remedy(remedy))
}

const CONTROL: &str = "net.ipv4.tcp_congestion_control";
const AVAILABLE: &str = "net.ipv4.tcp_available_congestion_control";
/// Congestion controls for long fat paths: the window grows with time or follows the measured rate.
const FIT: [&str; 9] =
    ["cubic", "bbr", "bbr1", "bbr2", "bbr3", "htcp", "scalable", "illinois", "bic"];
const SEGMENT_BYTES: u64 = 1448;
/// A halved window of this many segments recovers within seconds on any path.
const FEW_SEGMENTS: u64 = 100;

pub const CONGESTION_RULES: &[AuditRule] =
    &[AuditRule::of_path("congestion_control", judge_congestion_control)
        .title("congestion control suited to long fat paths")
        .source("RFC 9438 (2023); Cardwell et al., BBR (2016)")];

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
