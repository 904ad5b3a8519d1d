//! The limits of plans: those of every run, and those for anonymous clients.
//!
//! Both ends use them: the client checks before it connects, and the server checks again, since it
//! does not trust its input. Every error names the value, what was requested, and what is allowed.

mod probing_limits;

pub use probing_limits::{
    ANONYMOUS_PROBE_BYTES, MAX_ASK_PACKETS, MAX_PROBE_BYTES, MAX_PROBING_US, MAX_TRACE_TIME,
    MAX_TRAIN_PACKETS, MAX_TRAINS, MAX_WATCH_SAMPLES, MAX_WATCHED_FLOWS, PACKET_BYTES,
    anonymous_bounds, check_bounds, check_request, check_trains, max_answer_time,
};

use crate::wire::AnonymousLimits;
use longhaul_model::report::v1::plan::{
    CoreAffinity, RunDirection, RunTransport, StopCondition, ThroughputPlan,
};
use longhaul_model::units::{Bytes, Rate, format_duration};
use longhaul_sys::{host, sched};
use std::fmt::Display;
use std::time::Duration;

pub use longhaul_model::report::v1::plan::MAX_STREAMS;
/// The maximum duration of a run.
pub const MAX_RUN_US: u64 = 86_400 * 1_000_000;
/// The maximum socket buffer: the kernel stores twice this in a signed 32-bit number.
pub const MAX_BUFFER_BYTES: u64 = 1 << 30;
/// The maximum size of a write or read.
pub const MAX_CALL_BYTES: u64 = 64 << 20;
/// Min and max payload of a UDP datagram: the engine's own header, and the limit of IPv4.
pub const DATAGRAM_BYTES: (u64, u64) = (24, 65_507);
/// Min and max MSS: TCP_MIN_MSS and MAX_TCP_WINDOW of Linux.
pub const MSS_BYTES: (u64, u64) = (88, 32_767);
/// Min and max interval between samples.
pub const INTERVAL_US: (u64, u64) = (10_000, 60_000_000);
/// The maximum rate that can be requested, 100 Tbit/s.
pub const MAX_RATE_BPS: u64 = 100_000_000_000_000;
/// The maximum number of packets in a capture.
pub const MAX_CAPTURE_PACKETS: u64 = 1_000_000;
/// Min and max snap length of a capture: less would cut the headers.
pub const SNAP_BYTES: (u32, u32) = (60, 65_535);
/// The maximum size of a capture file that a server sends and a client accepts.
pub const MAX_CAPTURE_BYTES: u64 = 16 << 20;
/// The maximum size of a capture file for an anonymous client.
pub const ANONYMOUS_CAPTURE_BYTES: u64 = 4 << 20;
/// The maximum length of an affinity list.
pub const MAX_CORES: u64 = 1024;

/// A requested value is outside its limits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{option} {asked} is not allowed; allowed: {allowed}")]
pub struct LimitError {
    /// The name of the value in the plan, as in the report.
    pub option: &'static str,
    pub asked: String,
    pub allowed: String,
}

pub(crate) fn limit_error(
    option: &'static str,
    asked: impl Display,
    allowed: impl Into<String>,
) -> LimitError {
    LimitError { option, asked: asked.to_string(), allowed: allowed.into() }
}

pub(crate) fn check_range<T: Copy + PartialOrd + Display>(
    option: &'static str,
    asked: Option<T>,
    least: T,
    most: T,
) -> Result<(), LimitError> {
    match asked {
        Some(value) if value < least || value > most => {
            Err(limit_error(option, value, format!("{least} to {most}")))
        }
        _ => Ok(()),
    }
}

/// Checks a plan against the limits of every run; `most_streams` is the server's own limit.
pub fn check_plan(plan: &ThroughputPlan, most_streams: u32) -> Result<(), LimitError> {
    check_range("streams", Some(plan.streams), 1, most_streams)?;
    check_stop(plan.stop)?;
    check_sizes(plan)?;
    check_rates(plan)?;
    check_affinity(&plan.affinity)?;
    check_range("dscp", plan.dscp, 0, 63)?;
    check_range("interval_us", Some(plan.interval_us), INTERVAL_US.0, INTERVAL_US.1)?;
    check_range("warm_up_us", plan.warm_up_us, 0, MAX_RUN_US)?;
    if let (Some(warm_up), StopCondition::TimeUs(time)) = (plan.warm_up_us, plan.stop)
        && warm_up >= time
    {
        return Err(limit_error(
            "warm_up_us",
            warm_up,
            format!("less than the duration of the run, {time}"),
        ));
    }
    if let Some(capture) = &plan.capture {
        let (least, most) = SNAP_BYTES;
        check_range("snap_bytes", capture.snap_bytes, least, most)?;
        let packets = Some(capture.packets);
        check_range("packets", packets, 1, MAX_CAPTURE_PACKETS)?;
    }
    if plan.scavenger && plan.transport != RunTransport::Tcp {
        return Err(limit_error("scavenger", "with UDP", "TCP only"));
    }
    if plan.dont_fragment && plan.transport == RunTransport::Tcp {
        return Err(limit_error("dont_fragment", "with TCP", "UDP only"));
    }
    check_name(plan.congestion_control.as_deref())
}

fn check_stop(stop: StopCondition) -> Result<(), LimitError> {
    match stop {
        StopCondition::TimeUs(time) => check_range("time_us", Some(time), 100_000, MAX_RUN_US),
        StopCondition::Bytes(bytes) => check_range("bytes", Some(bytes), 1, 1 << 60),
        StopCondition::Blocks(blocks) => check_range("blocks", Some(blocks), 1, 1 << 50),
    }
}

fn check_sizes(plan: &ThroughputPlan) -> Result<(), LimitError> {
    check_range("send_buffer_bytes", plan.send_buffer_bytes, 1, MAX_BUFFER_BYTES)?;
    check_range("receive_buffer_bytes", plan.receive_buffer_bytes, 1, MAX_BUFFER_BYTES)?;
    let (least, most) = match plan.transport {
        RunTransport::Tcp => (1, MAX_CALL_BYTES),
        RunTransport::Udp { .. } => DATAGRAM_BYTES,
    };
    check_range("write_bytes", plan.write_bytes, least, most)?;
    check_range("read_bytes", plan.read_bytes, 1, MAX_CALL_BYTES)?;
    check_range("mss_bytes", plan.mss_bytes.map(u64::from), MSS_BYTES.0, MSS_BYTES.1)
}

fn check_rates(plan: &ThroughputPlan) -> Result<(), LimitError> {
    if let RunTransport::Udp { rate_bps } = plan.transport {
        check_range("udp rate_bps", Some(rate_bps), 1000, MAX_RATE_BPS)?;
    }
    check_range("pacing_bps", plan.pacing_bps, 1000, MAX_RATE_BPS)?;
    check_range("write_rate_bps", plan.write_rate_bps, 1000, MAX_RATE_BPS)?;
    check_range("read_rate_bps", plan.read_rate_bps, 1000, MAX_RATE_BPS)
}

fn check_affinity(affinity: &CoreAffinity) -> Result<(), LimitError> {
    let CoreAffinity::Cores { initiator, responder } = affinity else {
        return Ok(());
    };
    check_range("cores of the client", Some(initiator.len() as u64), 0, MAX_CORES)?;
    check_range("cores of the server", Some(responder.len() as u64), 0, MAX_CORES)
}

/// Checks that this end has the cores that the plan gives to its threads.
///
/// # Errors
/// A core does not exist, or this process may not use it.
pub fn check_cores(affinity: &CoreAffinity, is_client: bool) -> Result<(), LimitError> {
    let CoreAffinity::Cores { initiator, responder } = affinity else {
        return Ok(());
    };
    let (option, cores) = if is_client {
        ("affinity: core of this host", initiator)
    } else {
        ("affinity: core of the server", responder)
    };
    // If the kernel does not say, the threads of the run will.
    let usable = |core: u16| sched::may_use_core(usize::from(core)).unwrap_or(true);
    match cores.iter().find(|core| !usable(**core)) {
        None => Ok(()),
        Some(core) => {
            let usable: Vec<String> = (0..MAX_CORES as u16)
                .filter(|core| usable(*core))
                .map(|it| it.to_string())
                .collect();
            Err(limit_error(option, core, usable.join(", ")))
        }
    }
}

/// Checks a name against the kernel's limit for congestion controls (TCP_CA_NAME_MAX).
fn check_name(name: Option<&str>) -> Result<(), LimitError> {
    let fine = |name: &str| {
        (1..=15).contains(&name.len())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
    };
    match name {
        Some(name) if !fine(name) => Err(limit_error(
            "congestion_control",
            format!("`{}`", name.escape_default().take(40).collect::<String>()),
            "1 to 15 letters, digits, _ or -",
        )),
        _ => Ok(()),
    }
}

/// Checks a plan that passed [`check_plan`] against the limits for anonymous clients.
pub fn check_anonymous(plan: &ThroughputPlan, limits: &AnonymousLimits) -> Result<(), LimitError> {
    const WITHOUT: &str = "without a token, at most";
    if plan.streams > limits.streams {
        let allowed = format!("{WITHOUT} {}", limits.streams);
        return Err(limit_error("streams", plan.streams, allowed));
    }
    match plan.stop {
        StopCondition::TimeUs(time) if time > limits.seconds.saturating_mul(1_000_000) => {
            let allowed = format!("{WITHOUT} {} s", limits.seconds);
            return Err(limit_error("time", format_duration(Duration::from_micros(time)), allowed));
        }
        StopCondition::Bytes(bytes) if limits.bytes.is_some_and(|most| bytes > most) => {
            let allowed = format!("{WITHOUT} {}", Bytes(limits.bytes.unwrap_or_default()));
            return Err(limit_error("bytes", Bytes(bytes), allowed));
        }
        StopCondition::Blocks(blocks) if limits.bytes.is_some() => {
            let allowed = "without a token, use `--time` or `--bytes` instead";
            return Err(limit_error("blocks", blocks, allowed));
        }
        _ => {}
    }
    check_anonymous_congestion_control(plan)?;
    check_anonymous_rate(plan, limits)
}

/// Allows what is loaded already: for root, the kernel would load a module by name.
fn check_anonymous_congestion_control(plan: &ThroughputPlan) -> Result<(), LimitError> {
    const SETTING: &str = "net.ipv4.tcp_available_congestion_control";
    let sends = plan.direction != RunDirection::Forward;
    let Some(name) = plan.congestion_control.as_deref().filter(|_| sends) else {
        return Ok(());
    };
    let Some(allowed) = host::read_setting(SETTING) else {
        return Ok(());
    };
    if allowed.split_whitespace().any(|it| it == name) {
        return Ok(());
    }
    let allowed = format!("without a token, one of {SETTING}: {allowed}");
    Err(limit_error("congestion_control", name, allowed))
}

fn check_anonymous_rate(plan: &ThroughputPlan, limits: &AnonymousLimits) -> Result<(), LimitError> {
    let Some(most) = limits.rate_bps else {
        return Ok(());
    };
    let paced = plan.pacing_bps.map(|each| each.saturating_mul(u64::from(plan.streams)));
    let asked = match plan.transport {
        RunTransport::Udp { rate_bps } => Some(rate_bps),
        RunTransport::Tcp => [paced, plan.write_rate_bps].into_iter().flatten().min(),
    };
    let allowed =
        format!("without a token, a requested rate of at most {}", Rate::bits_per_second(most));
    match asked {
        Some(rate) if rate <= most => Ok(()),
        Some(rate) => Err(limit_error("rate", Rate::bits_per_second(rate), allowed)),
        None => Err(limit_error("rate", "unlimited", allowed)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A function that changes a plan.
    type Change = fn(&mut ThroughputPlan);

    #[test]
    fn absurd_values_are_refused_by_name() {
        let cases: [(&str, Change); 16] = [
            ("streams", |p| p.streams = 0),
            ("streams", |p| p.streams = 1_000_000),
            ("time_us", |p| p.stop = StopCondition::TimeUs(0)),
            ("time_us", |p| p.stop = StopCondition::TimeUs(u64::MAX)),
            ("bytes", |p| p.stop = StopCondition::Bytes(0)),
            ("blocks", |p| p.stop = StopCondition::Blocks(0)),
            ("send_buffer_bytes", |p| {
                p.send_buffer_bytes = Some(u64::MAX);
            }),
            ("receive_buffer_bytes", |p| p.receive_buffer_bytes = Some(0)),
            ("write_bytes", |p| p.write_bytes = Some(0)),
            ("read_bytes", |p| p.read_bytes = Some(1 << 40)),
            ("mss_bytes", |p| p.mss_bytes = Some(1)),
            ("dscp", |p| p.dscp = Some(64)),
            ("interval_us", |p| p.interval_us = 0),
            ("warm_up_us", |p| p.warm_up_us = Some(10_000_000)),
            ("congestion_control", |p| {
                p.congestion_control = Some("no such\0name".into());
            }),
            ("udp rate_bps", |p| p.transport = RunTransport::Udp { rate_bps: 0 }),
        ];
        for (option, change) in cases {
            let mut plan = ThroughputPlan::default();
            change(&mut plan);
            let error = check_plan(&plan, MAX_STREAMS).expect_err(option);
            assert_eq!(error.option, option);
        }
        assert_eq!(check_plan(&ThroughputPlan::default(), MAX_STREAMS), Ok(()));
    }

    #[test]
    fn a_stranger_is_told_which_limit_was_passed() {
        let limits = AnonymousLimits {
            rate_bps: Some(1_000_000_000),
            bytes: Some(1 << 30),
            ..AnonymousLimits::default()
        };
        let cases: [(&str, Change); 6] = [
            ("streams", |p| p.streams = 17),
            ("time", |p| p.stop = StopCondition::TimeUs(31_000_000)),
            ("bytes", |p| p.stop = StopCondition::Bytes(2 << 30)),
            ("rate", |_| {}),
            ("rate", |p| p.write_rate_bps = Some(2_000_000_000)),
            ("rate", |p| {
                p.pacing_bps = Some(600_000_000);
                p.streams = 2;
            }),
        ];
        for (option, change) in cases {
            let mut plan = ThroughputPlan::default();
            change(&mut plan);
            let error = check_anonymous(&plan, &limits).expect_err(option);
            assert_eq!(error.option, option);
            assert!(error.to_string().contains("without a token"), "{error}");
        }
        let modest =
            ThroughputPlan { write_rate_bps: Some(1_000_000_000), ..ThroughputPlan::default() };
        assert_eq!(check_anonymous(&modest, &limits), Ok(()));
    }

    #[test]
    fn a_stranger_chooses_only_congestion_controls_that_are_loaded() {
        let limits = AnonymousLimits::default();
        let plan = |name: &str, direction| ThroughputPlan {
            congestion_control: Some(name.to_owned()),
            direction,
            ..ThroughputPlan::default()
        };
        let allowed = host::read_setting("net.ipv4.tcp_available_congestion_control");
        for name in allowed.unwrap_or_default().split_whitespace() {
            assert_eq!(check_anonymous(&plan(name, RunDirection::Reverse), &limits), Ok(()));
        }
        let module = plan("no_such_module", RunDirection::Both);
        let error = check_anonymous(&module, &limits).expect_err("this host would load it");
        assert_eq!(error.option, "congestion_control");
        // This host does not send.
        let forward = plan("no_such_module", RunDirection::Forward);
        assert_eq!(check_anonymous(&forward, &limits), Ok(()));
    }
}
