//! Checks the buffer limits against the bandwidth-delay product of the path.
//!
//! A stream reaches at most window / RTT. Autotuning lets a buffer grow to the third number of
//! tcp_rmem and tcp_wmem. A program that requests a buffer size gets at most rmem_max or wmem_max
//! and no error: the trap of Daresbury, 2001.
//!
//! Source: see each rule. Units: bytes, bit/s.
//! Error: the window's share of the receive buffer is that of tcp_adv_win_scale, one half; since
//! Linux 6.6 the kernel measures it, and it may approach the whole buffer.
//! Wrong when: a host with a large MTU receives small segments; they need six to eleven times the
//! buffer (ESnet).

use super::{
    AuditCase, AuditRule, MAX_BUFFER_BYTES, ReadingResult, RuleJudgement, VERY_FAST_BPS,
    judge_advice, judge_good, judge_limits, judge_unless, remedy_by_hand, remedy_by_sysctl,
};
use crate::limit::window_range;
use longhaul_model::report::v1::host::AuditGrade;
use longhaul_model::units::{Bytes, Rate};

const RMEM: &str = "net.ipv4.tcp_rmem";
const WMEM: &str = "net.ipv4.tcp_wmem";
const RMEM_MAX: &str = "net.core.rmem_max";
const WMEM_MAX: &str = "net.core.wmem_max";
const OPTMEM: &str = "net.core.optmem_max";
const ESNET: &str = "Linux ip-sysctl (2025); ESnet fasterdata-tuning (2025)";
const SOCKET: &str =
    "Linux socket(7) (2024); ESnet fasterdata-tuning (2025); SLAC, Daresbury (2001)";

pub const RULES: &[AuditRule] = &[
    AuditRule::of_path("receive_autotuning", judge_receive_autotuning)
        .title("maximum autotuned receive buffer")
        .source(ESNET),
    AuditRule::of_path("send_autotuning", judge_send_autotuning)
        .title("maximum autotuned send buffer")
        .source(ESNET),
    AuditRule::of_path("receive_buffer_max", |case| {
        judge_requested_buffer(case, RMEM_MAX, "receive")
    })
    .title("maximum receive buffer that a program may request")
    .source(SOCKET),
    AuditRule::of_path("send_buffer_max", |case| judge_requested_buffer(case, WMEM_MAX, "send"))
        .title("maximum send buffer that a program may request")
        .source(SOCKET),
    // Memory for TCP is taken from everything else, so the user decides.
    AuditRule::of_path("tcp_memory", judge_tcp_memory)
        .title("memory limit of all TCP streams together")
        .source("Linux ip-sysctl, tcp_mem (2025)"),
    AuditRule::of_path("option_memory", judge_option_memory)
        .title("memory for notifications of zero-copy writes")
        .source("ESnet fasterdata-tuning, 100 Gbit/s (2025)"),
];

/// Returns the window that a receive buffer of this size gives, by tcp_adv_win_scale.
fn compute_window(case: &AuditCase, buffer: u64) -> u64 {
    let scale = case.readings.text("net.ipv4.tcp_adv_win_scale").ok();
    let window = match scale.and_then(|text| text.parse::<i32>().ok()) {
        Some(shift @ 1..=31) => buffer - (buffer >> shift),
        Some(shift @ -31..=0) => buffer >> -shift,
        _ => buffer / 2,
    };
    window.min(window_range::MAX_WINDOW)
}

fn judge_receive_autotuning(case: &AuditCase) -> ReadingResult<RuleJudgement> {
    let [least, usual, most] = case.readings.triple(RMEM)?;
    let window = compute_window(case, most);
    let what =
        format!("a receive buffer grows to at most {}, a window of {}", Bytes(most), Bytes(window));
    let value = |wanted| format!("{least} {usual} {wanted}");
    Ok(judge_buffer(case, RMEM, &what, [most, window], value))
}

fn judge_send_autotuning(case: &AuditCase) -> ReadingResult<RuleJudgement> {
    let [least, usual, most] = case.readings.triple(WMEM)?;
    let what = format!("a send buffer grows to at most {}", Bytes(most));
    let window = most.min(window_range::MAX_WINDOW);
    let value = |wanted| format!("{least} {usual} {wanted}");
    Ok(judge_buffer(case, WMEM, &what, [most, window], value))
}

fn judge_requested_buffer(
    case: &AuditCase,
    name: &str,
    which: &str,
) -> ReadingResult<RuleJudgement> {
    let most = case.readings.number(name)?;
    let what = format!(
        "a program that requests its own {which} buffer gets at most {}, without an error",
        Bytes(most)
    );
    let window = most.min(window_range::MAX_WINDOW);
    Ok(judge_buffer(case, name, &what, [most, window], |wanted| wanted.to_string()))
}

/// Judges the maximum of a buffer and the window that it gives. The remedy is a larger maximum, never
/// a smaller one, or else more streams.
fn judge_buffer(
    case: &AuditCase,
    name: &str,
    what: &str,
    [most, window]: [u64; 2],
    value: impl FnOnce(u64) -> String,
) -> RuleJudgement {
    let judged = judge_window(case, &format!("{name}: {what}"), most, window);
    if judged.grade == AuditGrade::Good {
        return judged;
    }
    let wanted = case.wanted_buffer();
    if most < wanted {
        let text = describe_buffer_size(case, wanted);
        return judged.remedy(remedy_by_sysctl(name, value(wanted), text));
    }
    let streams = case.in_flight_bytes().div_ceil(window_range::MAX_WINDOW).max(2);
    judged.remedy(remedy_by_hand(format!(
        "No setting gives one stream a larger window; use {streams} streams"
    )))
}

/// Judges a window by the bandwidth-delay product.
fn judge_window(case: &AuditCase, what: &str, buffer: u64, window: u64) -> RuleJudgement {
    let carried = case.max_rate_bps(window);
    let allowed = carried.map_or_else(String::new, |bps| {
        format!(", so one stream carries at most {} at {}", Rate::bits_per_second(bps), case.rtt())
    });
    let in_flight = case.in_flight_bytes();
    let judged = if window < in_flight {
        judge_limits(format!("{what}{allowed}; {}", case.describe_need()))
    } else if buffer < in_flight.saturating_mul(2).min(MAX_BUFFER_BYTES) {
        judge_advice(format!(
            "{what}{allowed}; {}, and queues and unsent data need more",
            case.describe_need()
        ))
    } else {
        judge_good(format!("{what}; {}", case.describe_need()))
    };
    judged.bound(carried)
}

fn describe_buffer_size(case: &AuditCase, wanted: u64) -> String {
    let memory = case.readings.number("memory.total").ok();
    let large = memory.filter(|total| wanted > total / 4).map(|total| {
        format!("; this host has {} of memory, enough for few such streams", Bytes(total))
    });
    format!(
        "Set {}: twice the BDP, rounded up to a power of two{}",
        Bytes(wanted),
        large.unwrap_or_default()
    )
}

/// One stream needs its buffer; above tcp_mem's pressure threshold the kernel stops buffer growth.
fn judge_tcp_memory(case: &AuditCase) -> ReadingResult<RuleJudgement> {
    case.readings.text("net.ipv4.tcp_mem")?;
    let Some([_, pressure, most]) = case.observation.host.tcp_mem_bytes else {
        return Err(String::from("net.ipv4.tcp_mem could not be converted to bytes"));
    };
    let in_flight = case.in_flight_bytes();
    let what = format!(
        "net.ipv4.tcp_mem: the buffers of all streams together stop growing at {} and are limited \
         to {}",
        Bytes(pressure),
        Bytes(most)
    );
    if pressure < in_flight {
        let text = format!("{what}; {}", case.describe_need());
        return Ok(judge_limits(text).bound(case.max_rate_bps(pressure)).remedy(remedy_by_hand(
            "Raise the three values of net.ipv4.tcp_mem (in pages) if the host has memory to spare",
        )));
    }
    if pressure < in_flight.saturating_mul(4) {
        let text =
            format!("{what}, which two or three such streams reach; {}", case.describe_need());
        return Ok(
            judge_advice(text).remedy(remedy_by_hand("Ignore this if you use only one stream"))
        );
    }
    Ok(judge_good(what))
}

fn judge_option_memory(case: &AuditCase) -> ReadingResult<RuleJudgement> {
    const WANTED: u64 = 1 << 20;
    let present = case.readings.number(OPTMEM)?;
    let is_good = present >= WANTED || !case.is_at_least(VERY_FAST_BPS);
    let what = format!("{OPTMEM} is {}", Bytes(present));
    let trouble = "; at this rate zero-copy writes exhaust it and fall back to copying";
    let remedy = remedy_by_sysctl(OPTMEM, WANTED.to_string(), "Set 1 MiB, as ESnet recommends");
    Ok(judge_unless(is_good, &what, trouble, remedy))
}
