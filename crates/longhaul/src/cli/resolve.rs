//! Turns options into a plan and a target. First the parts that need only the command line, then
//! those that need the host: clock, environment, files.

use super::args::{LocalArgs, TestArgs, TokenArgs};
use crate::fail::{Fail, USAGE};
use jiff::Timestamp;
use longhaul_model::report::v1::plan::{Direction, Mode, Plan, Stop, Transport};
use longhaul_model::units::format_duration;
use longhaul_probe::limits;
use longhaul_probe::secure::Token;
use longhaul_probe::throughput::{Family, LocalBind, Target};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

/// The environment variable of the token.
const TOKEN_VARIABLE: &str = "LONGHAUL_TOKEN";
/// The maximum size of a token file. A token is a short line, so a longer file is the wrong one.
const TOKEN_FILE_BYTES_MAX: u64 = 4096;
/// The default rate of a UDP run: iperf's, which harms no path.
const UDP_RATE_BPS: u64 = 1_000_000;

/// Builds the plan from the options, without I/O and without `--start-at`.
pub fn plan(args: &TestArgs) -> Result<Plan, Fail> {
    let default = Plan::default();
    let plan = Plan {
        direction: direction(args),
        transport: transport(args),
        streams: args.streams.unwrap_or(default.streams),
        stop: stop(args, default.stop),
        warm_up_us: args.omit,
        send_buffer_bytes: args.send_buffer.or(args.window),
        receive_buffer_bytes: args.receive_buffer.or(args.window),
        write_bytes: args.length,
        read_bytes: args.read_length,
        congestion_control: args.congestion_control.clone(),
        pacing_bps: args.pacing,
        write_rate_bps: if args.udp { None } else { args.bitrate },
        read_rate_bps: args.read_rate,
        mss_bytes: args.mss,
        dscp: args.dscp,
        scavenger: args.scavenger,
        no_delay: args.no_delay,
        mode: if args.wire {
            Mode::Wire
        } else {
            Mode::Delivered
        },
        zero_copy: args.zerocopy,
        affinity: args.affinity.clone(),
        interval_us: args.interval.unwrap_or(default.interval_us),
        start_at_us: None,
        capture: args.capture.plan(),
    };
    check(&plan)?;
    Ok(plan)
}

fn direction(args: &TestArgs) -> Direction {
    match (args.reverse, args.bidir) {
        (_, true) => Direction::Both,
        (true, false) => Direction::Reverse,
        (false, false) => Direction::Forward,
    }
}

fn transport(args: &TestArgs) -> Transport {
    if args.udp {
        Transport::Udp {
            rate_bps: args.bitrate.unwrap_or(UDP_RATE_BPS),
        }
    } else {
        Transport::Tcp
    }
}

fn stop(args: &TestArgs, default: Stop) -> Stop {
    match (args.time, args.bytes, args.blocks) {
        (Some(us), _, _) => Stop::TimeUs(us),
        (_, Some(bytes), _) => Stop::Bytes(bytes),
        (_, _, Some(blocks)) => Stop::Blocks(blocks),
        (None, None, None) => default,
    }
}

/// Checks combinations of values.
fn check(plan: &Plan) -> Result<(), Fail> {
    let usage = |text: String| Err(Fail::new(USAGE, text));
    if let (Some(warm_up), Stop::TimeUs(time)) = (plan.warm_up_us, plan.stop)
        && warm_up >= time
    {
        let show = |us| format_duration(Duration::from_micros(us));
        return usage(format!(
            "invalid value '{}' for '--omit <TIME>': allowed is less than the {} of the run",
            show(warm_up),
            show(time)
        ));
    }
    let (least, most) = limits::DATAGRAM_BYTES;
    if let (Transport::Udp { .. }, Some(bytes)) = (plan.transport, plan.write_bytes)
        && !(least..=most).contains(&bytes)
    {
        return usage(format!(
            "invalid value '{bytes}' for '--length <SIZE>': allowed are {least} to {most} bytes \
             with --udp"
        ));
    }
    limits::check_plan(plan, limits::MOST_STREAMS).map_err(|e| Fail::from_error(USAGE, &e))
}

/// Returns the agreed start in microseconds since 1970, relative to `now`.
pub fn start_at_us(args: &TestArgs, now: Timestamp) -> Result<Option<u64>, Fail> {
    let Some(asked) = args.start_at else {
        return Ok(None);
    };
    let most = limits::LONGEST_WAIT;
    let wait = |moment: Timestamp| moment.duration_since(now).unsigned_abs();
    match asked.after(now) {
        Some(moment) if moment > now && wait(moment) <= most => {
            Ok(u64::try_from(moment.as_microsecond()).ok())
        }
        _ => Err(Fail::new(
            USAGE,
            format!(
                "invalid value for '--start-at <WHEN>': allowed is a time within {} from now, \
                 {now:.0}",
                format_duration(most)
            ),
        )),
    }
}

/// Returns a server and its connection options. `timeout` applies to each step of connecting.
pub fn target(
    (host, port): (&str, u16),
    local: &LocalArgs,
    token: &TokenArgs,
    timeout: Duration,
) -> Result<Target, Fail> {
    Ok(Target {
        host: host.to_owned(),
        port,
        family: match (local.ipv4, local.ipv6) {
            (true, _) => Family::V4,
            (_, true) => Family::V6,
            _ => Family::Any,
        },
        bind: LocalBind {
            address: local.bind,
            device: local.bind_dev.clone(),
        },
        token: self::token(token)?.map(|token| token.as_str().to_owned()),
        connect_timeout: timeout,
    })
}

/// Returns the token from the option, the file or the environment, in this order.
pub fn token(args: &TokenArgs) -> Result<Option<Token>, Fail> {
    let (text, origin) = if let Some(text) = &args.token {
        (text.clone(), "--token".to_owned())
    } else if let Some(path) = &args.token_file {
        (first_line(path)?, path.display().to_string())
    } else if let Some(text) = std::env::var_os(TOKEN_VARIABLE) {
        (
            text.to_string_lossy().into_owned(),
            TOKEN_VARIABLE.to_owned(),
        )
    } else {
        return Ok(None);
    };
    match Token::new(&text) {
        Some(token) => Ok(Some(token)),
        None => Err(Fail::new(USAGE, format!("the token in {origin} is empty"))),
    }
}

fn first_line(path: &Path) -> Result<String, Fail> {
    let unreadable = |source: std::io::Error| {
        let mut fail = Fail::new(
            USAGE,
            format!("cannot read the token file {}", path.display()),
        );
        fail.causes.push(source.to_string());
        fail
    };
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(TOKEN_FILE_BYTES_MAX).read_to_string(&mut text))
        .map_err(unreadable)?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}
