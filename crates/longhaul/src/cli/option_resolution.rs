//! Turns options into a plan and a target. First the parts that need only the command line, then
//! those that need the host: clock, environment, files.

use super::args::{LocalArgs, PeerArgs, TestArgs, TokenArgs};
use crate::cli::header_analysis;
use crate::command_failure::{CommandFailure, USAGE};
use longhaul_model::report::v1::plan::{ReceiveMode, RunTransport, StopCondition, ThroughputPlan};
use longhaul_model::units::format_duration;
use longhaul_probe::host_endpoint::{HostEndpoint, ScopedAddress};
use longhaul_probe::latency::control_cipher::TwampKey;
use longhaul_probe::latency::test_packet::PacketKey;
use longhaul_probe::plan_limits;
use longhaul_probe::secure::AuthToken;
use longhaul_probe::throughput::{IpFamily, LocalBind, TargetHost};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

/// The environment variable of the token.
const TOKEN_VARIABLE: &str = "LONGHAUL_TOKEN";
/// The maximum size of a token file. A token is a short line, so a longer file is the wrong one.
const MAX_TOKEN_FILE_BYTES: u64 = 4096;
/// Beyond this, a file with the keys of many clients is cut off.
const MAX_KEY_FILE_BYTES: u64 = 1 << 20;
/// The default timeout of each step of connecting.
const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The default rate of a UDP run: iperf's, which harms no path.
pub const DEFAULT_UDP_RATE_BPS: u64 = 1_000_000;

/// The value of `--time` for a run that lasts until it is stopped.
pub const UNTIL_STOPPED: u64 = 0;

/// Builds the plan from the options, without I/O.
pub fn plan_throughput(args: &TestArgs) -> Result<ThroughputPlan, CommandFailure> {
    let default = ThroughputPlan::default();
    let plan = ThroughputPlan {
        direction: args.direction.direction(),
        transport: test_transport(args),
        streams: args.streams.unwrap_or(default.streams),
        stop: stop_condition(args, default.stop),
        until_stopped: args.time == Some(UNTIL_STOPPED),
        precision_permille: args.until,
        warm_up_us: args.omit,
        send_buffer_bytes: args.send_buffer.or(args.socket.window),
        receive_buffer_bytes: args.receive_buffer.or(args.socket.window),
        write_bytes: args.length,
        read_bytes: args.read_length,
        congestion_control: args.socket.congestion_control.clone(),
        pacing_bps: args.pacing,
        write_rate_bps: if args.udp { None } else { args.bitrate.filter(|bps| *bps > 0) },
        read_rate_bps: args.read_rate,
        mss_bytes: args.mss,
        dscp: args.stream.code_point(),
        scavenger: args.scavenger,
        dont_fragment: args.dont_fragment,
        no_delay: args.no_delay,
        mode: if args.wire { ReceiveMode::Wire } else { ReceiveMode::Delivered },
        zero_copy: args.stream.zerocopy,
        affinity: args.stream.affinity.clone(),
        interval_us: args.sample_interval.unwrap_or(default.interval_us),
        start_at_us: None,
        capture: args.capture.plan(),
    };
    check_throughput_plan(&plan)?;
    Ok(plan)
}

fn test_transport(args: &TestArgs) -> RunTransport {
    if args.udp {
        let unlimited = |bps| if bps == 0 { plan_limits::MAX_RATE_BPS } else { bps };
        RunTransport::Udp { rate_bps: args.bitrate.map_or(DEFAULT_UDP_RATE_BPS, unlimited) }
    } else {
        RunTransport::Tcp
    }
}

fn stop_condition(args: &TestArgs, default: StopCondition) -> StopCondition {
    match (args.time, args.bytes, args.blocks) {
        (Some(UNTIL_STOPPED), _, _) => StopCondition::TimeUs(plan_limits::MAX_RUN_US),
        (Some(us), _, _) => StopCondition::TimeUs(us),
        (_, Some(bytes), _) => StopCondition::Bytes(bytes),
        (_, _, Some(blocks)) => StopCondition::Blocks(blocks),
        (None, None, None) => default,
    }
}

/// Checks combinations of values.
fn check_throughput_plan(plan: &ThroughputPlan) -> Result<(), CommandFailure> {
    let usage = |text: String| Err(CommandFailure::new(USAGE, text));
    if let (Some(warm_up), StopCondition::TimeUs(time)) = (plan.warm_up_us, plan.stop)
        && warm_up >= time
    {
        let show = |us| format_duration(Duration::from_micros(us));
        return usage(format!(
            "invalid value '{}' for '--omit <TIME>': must be less than the {} of the run",
            show(warm_up),
            show(time)
        ));
    }
    let (least, most) = plan_limits::DATAGRAM_BYTES;
    if let (RunTransport::Udp { .. }, Some(bytes)) = (plan.transport, plan.write_bytes)
        && !(least..=most).contains(&bytes)
    {
        return usage(format!(
            "invalid value '{bytes}' for '--length <SIZE>': must be {least} to {most} bytes \
             with --udp"
        ));
    }
    plan_limits::check_plan(plan, plan_limits::MAX_STREAMS)
        .map_err(|e| CommandFailure::from_error(USAGE, &e))
}

/// Returns the server of the command.
pub fn peer_target(peer: &PeerArgs) -> Result<TargetHost, CommandFailure> {
    build_target(&peer.host, peer.port, &peer.local, &peer.token)
}

/// Returns the port from the option or the host.
fn choose_port(host: &HostEndpoint, option: Option<u16>) -> Result<u16, CommandFailure> {
    match (host.port, option) {
        (Some(typed), Some(option)) if typed != option => {
            let text = format!("two different ports: `{host}` and `--port {option}`");
            Err(CommandFailure::new(USAGE, text).hint(Some("give the port once")))
        }
        (_, option) => Ok(host.port_or(option)),
    }
}

/// Returns the interface that an IPv6 address names. The probes of paths know it only by
/// `--bind-dev`.
fn scope_device(host: &HostEndpoint) -> Option<String> {
    let scope = ScopedAddress::parse(&host.host)?.scope?;
    scope.parse::<u32>().is_err().then(|| scope.to_owned())
}

/// Returns a server and its connection options.
pub fn build_target(
    host: &HostEndpoint,
    port: Option<u16>,
    local: &LocalArgs,
    token: &TokenArgs,
) -> Result<TargetHost, CommandFailure> {
    Ok(TargetHost {
        host: host.host.clone(),
        port: choose_port(host, port)?,
        family: match (local.ipv4, local.ipv6) {
            (true, _) => Some(IpFamily::V4),
            (_, true) => Some(IpFamily::V6),
            _ => None,
        },
        chosen: None,
        bind: LocalBind {
            address: local.bind,
            port: None,
            device: local.bind_dev.clone().or_else(|| scope_device(host)),
            flow_label: None,
        },
        token: resolve_token(token)?.map(|token| token.as_str().to_owned()),
        header_analysis: Some(header_analysis::analyse_headers),
        connect_timeout: local.connect_timeout.unwrap_or(DEFAULT_CONNECT_TIMEOUT),
        data_port: None,
        flow_label: None,
    })
}

/// Returns the token from the option, the file or the environment, in this order.
pub fn resolve_token(args: &TokenArgs) -> Result<Option<AuthToken>, CommandFailure> {
    let (text, origin) = if let Some(text) = &args.token {
        (text.clone(), "--token".to_owned())
    } else if let Some(path) = &args.token_file {
        (read_first_line("token", path)?, path.display().to_string())
    } else if let Some(text) = std::env::var_os(TOKEN_VARIABLE) {
        (text.to_string_lossy().into_owned(), TOKEN_VARIABLE.to_owned())
    } else {
        return Ok(None);
    };
    let token = AuthToken::new(&text).ok_or_else(|| {
        CommandFailure::new(USAGE, format!("cannot use the token in {origin}: it is empty"))
    });
    token.map(Some)
}

/// Returns the key of authenticated packets of STAMP in a file.
pub fn read_packet_key(path: &Path) -> Result<PacketKey, CommandFailure> {
    PacketKey::parse(&read_first_line("key", path)?).map_err(|why| refuse_key(path, why))
}

/// Returns the keys of TWAMP in a file.
pub fn read_twamp_keys(path: &Path) -> Result<Vec<TwampKey>, CommandFailure> {
    TwampKey::parse_lines(&read_text("key", path, MAX_KEY_FILE_BYTES)?)
        .map_err(|why| refuse_key(path, &why))
}

fn refuse_key(path: &Path, why: &str) -> CommandFailure {
    CommandFailure::new(USAGE, format!("cannot use the key in {}: it {why}", path.display()))
}

fn read_first_line(what: &str, path: &Path) -> Result<String, CommandFailure> {
    let text = read_text(what, path, MAX_TOKEN_FILE_BYTES)?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

fn read_text(what: &str, path: &Path, most: u64) -> Result<String, CommandFailure> {
    let mut text = String::new();
    File::open(path).and_then(|file| file.take(most).read_to_string(&mut text)).map_err(
        |source| {
            let text = format!("cannot read the {what} file {}", path.display());
            CommandFailure::new(USAGE, text).cause(&source)
        },
    )?;
    Ok(text)
}
