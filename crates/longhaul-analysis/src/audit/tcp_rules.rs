//! Checks the TCP features that long paths need.
//!
//! Source: see each rule. Units: bytes, bit/s.
//! Error: a feature that is on here may be refused by the peer or removed by a middlebox.
//! Wrong when: programs set these options themselves.

use super::AuditRule;
use super::audit_case::AuditCase;
use super::host_readings::ReadingResult;
use super::rule_judgement::{
    RuleJudgement, judge_advice, judge_good, judge_limits, remedy_by_sysctl,
};
use longhaul_model::units::{Bytes, Rate};

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
    AuditRule {
        name: "receive_moderation",
        title: "autotuning of receive buffers",
        source: "Linux ip-sysctl, tcp_moderate_rcvbuf (2025)",
        needs: &[MODERATE, "net.ipv4.tcp_rmem"],
        by_path: true,
        applies: true,
        judge: judge_receive_moderation,
    },
    AuditRule {
        name: "window_scaling",
        title: "windows beyond 64 KiB",
        source: "RFC 7323 (2014)",
        needs: &[SCALING],
        by_path: true,
        applies: true,
        judge: judge_window_scaling,
    },
    AuditRule {
        name: "timestamps",
        title: "RTT measured on every segment",
        source: "RFC 7323 (2014); ESnet fasterdata (2010s)",
        needs: &[TIMESTAMPS],
        by_path: false,
        applies: true,
        judge: judge_timestamps,
    },
    AuditRule {
        name: "selective_acknowledgement",
        title: "several losses repaired in one round trip",
        source: "RFC 2018 (1996); ESnet fasterdata (2010s)",
        needs: &[SACK],
        by_path: true,
        applies: true,
        judge: judge_selective_acknowledgement,
    },
    AuditRule {
        name: "duplicate_acknowledgement",
        title: "spurious retransmissions detected and undone",
        source: "RFC 2883 (2000)",
        needs: &[DSACK],
        by_path: false,
        applies: true,
        judge: |case| {
            judge_switch(
                case,
                DSACK,
                "the window is not restored after a spurious \
                                                 retransmission",
            )
        },
    },
    AuditRule {
        name: "loss_by_time",
        title: "time-based loss detection (RACK)",
        source: "RFC 8985, RACK (2021)",
        needs: &[RECOVERY],
        by_path: false,
        applies: true,
        judge: judge_loss_by_time,
    },
    AuditRule {
        name: "idle_restart",
        title: "no new slow start after an idle period",
        source: "Linux ip-sysctl, tcp_slow_start_after_idle (2025); RFC 2861 (2000)",
        needs: &[AFTER_IDLE],
        by_path: true,
        applies: true,
        judge: judge_idle_restart,
    },
    AuditRule {
        name: "saved_metrics",
        title: "no metrics cached from earlier connections",
        source: "ESnet fasterdata-tuning (2025)",
        needs: &[NO_METRICS],
        by_path: false,
        applies: true,
        judge: judge_saved_metrics,
    },
];

fn judge_switch(case: &AuditCase, name: &str, otherwise: &str) -> ReadingResult<RuleJudgement> {
    Ok(match case.readings.number(name)? {
        0 => judge_advice(format!("{name} is off: {otherwise}")).remedy(remedy_by_sysctl(
            name,
            "1",
            "Turn it on",
        )),
        _ => judge_good(format!("{name} is on")),
    })
}

fn judge_receive_moderation(case: &AuditCase) -> ReadingResult<RuleJudgement> {
    if case.readings.number(MODERATE)? != 0 {
        return Ok(judge_good(format!("{MODERATE} is on")));
    }
    let [_, usual, _] = case.readings.triple("net.ipv4.tcp_rmem")?;
    let carried = case.max_rate_bps(usual / 2);
    let text = format!(
        "{MODERATE} is off: receive buffers stay at {}{}; {}",
        Bytes(usual),
        format_max_rate(carried),
        case.describe_need()
    );
    let remedy = remedy_by_sysctl(MODERATE, "1", "Turn on autotuning of receive buffers");
    Ok(if usual / 2 < case.in_flight_bytes() {
        judge_limits(text).bound(carried).remedy(remedy)
    } else {
        judge_advice(text).remedy(remedy)
    })
}

fn format_max_rate(carried: Option<u64>) -> String {
    carried.map_or_else(String::new, |bps| {
        format!(", at most {} per stream", Rate::bits_per_second(bps))
    })
}

fn judge_window_scaling(case: &AuditCase) -> ReadingResult<RuleJudgement> {
    let remedy =
        remedy_by_sysctl(SCALING, "1", "Turn on window scaling; it affects new connections");
    if case.readings.number(SCALING)? != 0 {
        return Ok(judge_good(format!("{SCALING} is on")));
    }
    let carried = case.max_rate_bps(UNSCALED_WINDOW);
    let text = format!(
        "{SCALING} is off: no window exceeds 64 KiB{}; {}",
        format_max_rate(carried),
        case.describe_need()
    );
    Ok(if UNSCALED_WINDOW < case.in_flight_bytes() {
        judge_limits(text).bound(carried).remedy(remedy)
    } else {
        judge_advice(text).remedy(remedy)
    })
}

fn judge_timestamps(case: &AuditCase) -> ReadingResult<RuleJudgement> {
    Ok(match case.readings.number(TIMESTAMPS)? {
        0 => judge_advice(format!(
            "{TIMESTAMPS} is off: the RTT is measured only once per window, and wrapped sequence \
             numbers (every 3.4 s at 10 Gbit/s) cannot be distinguished"
        ))
        .remedy(remedy_by_sysctl(TIMESTAMPS, "1", "Turn it on")),
        _ => judge_good(format!("{TIMESTAMPS} is on")),
    })
}

fn judge_selective_acknowledgement(case: &AuditCase) -> ReadingResult<RuleJudgement> {
    if case.readings.number(SACK)? != 0 {
        return Ok(judge_good(format!("{SACK} is on")));
    }
    let text = format!(
        "{SACK} is off: of several segments lost in a window, only one is repaired per round trip of {}",
        case.rtt()
    );
    Ok(judge_advice(text).remedy(remedy_by_sysctl(SACK, "1", "Turn it on")))
}

fn judge_loss_by_time(case: &AuditCase) -> ReadingResult<RuleJudgement> {
    let present = case.readings.number(RECOVERY)?;
    if present & 1 == 1 {
        return Ok(judge_good(format!("{RECOVERY} is {present}: RACK is on")));
    }
    let text = format!("{RECOVERY} is {present}: a lost retransmission waits for a timeout");
    let wanted = (present | 1).to_string();
    Ok(judge_advice(text).remedy(remedy_by_sysctl(RECOVERY, wanted, "Turn on RACK")))
}

fn judge_idle_restart(case: &AuditCase) -> ReadingResult<RuleJudgement> {
    let present = case.readings.number(AFTER_IDLE)?;
    if present == 0 {
        return Ok(judge_good(format!("{AFTER_IDLE} is off")));
    }
    let what = format!(
        "{AFTER_IDLE} is on: after an idle period a stream restarts from ten \
                        segments"
    );
    if case.in_flight_bytes() < LONG_FAT {
        return Ok(judge_good(format!("{what}, which costs little here")));
    }
    let text = format!("{what}, which costs many round trips of {}", case.rtt());
    Ok(judge_advice(text).remedy(remedy_by_sysctl(
        AFTER_IDLE,
        "0",
        "Keep the window across idle periods",
    )))
}

fn judge_saved_metrics(case: &AuditCase) -> ReadingResult<RuleJudgement> {
    if case.readings.number(NO_METRICS)? != 0 {
        return Ok(judge_good(format!(
            "{NO_METRICS} is on: connections start without cached metrics"
        )));
    }
    let text = format!(
        "{NO_METRICS} is off: a connection that saw loss passes its low slow-start threshold on \
         to the next connections to that host"
    );
    Ok(judge_advice(text).remedy(remedy_by_sysctl(
        NO_METRICS,
        "1",
        "Let connections start without cached metrics",
    )))
}
