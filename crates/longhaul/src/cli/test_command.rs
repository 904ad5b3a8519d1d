//! `longhaul test HOST`: measures throughput, then analyses, archives and shows the result.

use crate::cli::args::{
    DirectionArgs, OutputArgs, PeerArgs, SocketArgs, StreamArgs, TestCaptureArgs,
};
use crate::cli::expectation::{self, ThroughputExpectation};
use crate::cli::iperf3_server::{self, Iperf3ServerArgs};
use crate::cli::progress_lines::ThroughputLines;
use crate::cli::value_parsers::{
    accept_count, accept_micros, accept_size, parse_blocks, parse_buffer_size, parse_rate,
    parse_run_bytes, parse_run_time, parse_streams,
};
use crate::cli::{
    capture_command, command_output, option_resolution, report_archiving, report_command,
};
use crate::command_failure::CommandFailure;
use clap::{Args, ValueEnum};
use longhaul_iperf3::client_run::{self, LoginCredentials};
use longhaul_model::report::v1::ThroughputReport;
use longhaul_model::report::v1::plan::ThroughputPlan;
use longhaul_probe::plan_limits;
use longhaul_probe::probe_error::ProbeError;
use longhaul_probe::throughput::{self, TargetHost, ThroughputOutcome, ThroughputProgress};
use longhaul_report::iperf3_report_json;
use longhaul_report::throughput_text::build_throughput_document;
use std::process::ExitCode;
use std::time::Duration;

const EXAMPLES: &str = include_str!("help/test-examples.txt").trim_ascii_end();

const DETAILS: &str = include_str!("help/test-details.txt").trim_ascii_end();

/// In which shape a run is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TestFormat {
    Text,
    Iperf3,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Load")]
#[command(after_help = EXAMPLES, after_long_help = [EXAMPLES, DETAILS].join("\n\n"))]
pub struct TestArgs {
    /// Number of streams in each direction [default: 1]
    #[arg(short = 'P', long, value_name = "N", value_parser = parse_streams)]
    pub streams: Option<u32>,
    /// Time to send for [default: 10 s]
    #[arg(
        short, long, value_name = "TIME", value_parser = parse_run_time,
        conflicts_with_all = ["bytes", "blocks"],
    )]
    pub time: Option<u64>,
    /// Number of bytes to send, all streams together
    #[arg(
        short = 'n', long, value_name = "SIZE", value_parser = parse_run_bytes,
        conflicts_with = "blocks",
    )]
    pub bytes: Option<u64>,
    /// Number of writes to send (such as 16K), all streams together
    #[arg(short = 'k', long, value_name = "N", value_parser = parse_blocks)]
    pub blocks: Option<u64>,
    #[command(flatten)]
    pub direction: DirectionArgs,
    /// Use UDP and measure loss and jitter
    #[arg(short, long, conflicts_with_all = ["congestion_control", "mss", "no_delay", "zerocopy"])]
    pub udp: bool,
    /// Total rate at which the sender writes [default: unlimited for TCP, 1 Mbit/s for UDP]
    #[arg(short, long, value_name = "RATE", value_parser = parse_rate)]
    pub bitrate: Option<u64>,
    /// Total rate at which the receiver reads [default: unlimited]
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub read_rate: Option<u64>,

    #[command(flatten)]
    pub socket: SocketArgs,
    /// Request this send buffer size (overrides --window)
    #[arg(long, value_name = "SIZE", value_parser = parse_buffer_size, help_heading = "TCP and sockets")]
    pub send_buffer: Option<u64>,
    /// Request this receive buffer size (overrides --window)
    #[arg(long, value_name = "SIZE", value_parser = parse_buffer_size, help_heading = "TCP and sockets")]
    pub receive_buffer: Option<u64>,
    /// Bytes per write, or payload bytes per datagram [default: automatic]
    #[arg(short, long, value_name = "SIZE", value_parser = accept_size(1..=plan_limits::MAX_CALL_BYTES), help_heading = "TCP and sockets")]
    pub length: Option<u64>,
    /// Bytes per read [default: automatic]
    #[arg(long, value_name = "SIZE", value_parser = accept_size(1..=plan_limits::MAX_CALL_BYTES), help_heading = "TCP and sockets")]
    pub read_length: Option<u64>,
    /// Maximum rate at which the kernel paces each stream
    #[arg(
        long, value_name = "RATE", visible_alias = "fq-rate", value_parser = parse_rate,
        help_heading = "TCP and sockets",
    )]
    pub pacing: Option<u64>,
    /// Maximum segment size in bytes
    #[arg(
        short = 'M', long, value_name = "BYTES", visible_alias = "set-mss",
        value_parser = accept_count::<u32>(plan_limits::MSS_BYTES.0..=plan_limits::MSS_BYTES.1), help_heading = "TCP and sockets",
    )]
    pub mss: Option<u32>,
    /// Yield to other traffic: keep queueing delay low, mark packets as lower effort (LE)
    #[arg(long, help_heading = "TCP and sockets", conflicts_with = "udp")]
    pub scavenger: bool,
    /// Disable Nagle's algorithm (TCP_NODELAY)
    #[arg(short = 'N', long, help_heading = "TCP and sockets")]
    pub no_delay: bool,

    #[command(flatten)]
    pub stream: StreamArgs,
    /// Discard the payload in the receiver's kernel
    #[arg(long, help_heading = "Host")]
    pub wire: bool,

    /// Time between samples [default: 100 ms, or the RTT if longer]
    #[arg(short, long, value_name = "TIME", value_parser = accept_micros(plan_limits::INTERVAL_US.0..=plan_limits::INTERVAL_US.1), help_heading = "Measurement")]
    pub interval: Option<u64>,
    /// Omit this time at the start of the run [default: the detected ramp]
    #[arg(short = 'O', long, value_name = "TIME", value_parser = accept_micros(0..=plan_limits::MAX_RUN_US), help_heading = "Measurement")]
    pub omit: Option<u64>,
    /// Exit with 1 unless the condition holds; may be repeated. Quantities: goodput,
    /// mean_goodput, rtt, rtt_max, retransmits, loss, jitter, limited_by
    #[arg(long, value_name = "CONDITION", help_heading = "Measurement")]
    pub expect: Vec<ThroughputExpectation>,

    #[command(flatten)]
    pub server: Iperf3ServerArgs,

    #[command(flatten)]
    pub peer: PeerArgs,

    #[command(flatten)]
    pub capture: TestCaptureArgs,

    /// Output format: text, or JSON like that of iperf3
    #[arg(
        long,
        value_name = "FORMAT",
        value_enum,
        default_value = "text",
        help_heading = "Output",
        conflicts_with_all = ["json", "markdown"]
    )]
    pub format: TestFormat,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// The length of the intervals of iperf3's JSON.
pub const JSON_INTERVAL_US: u64 = 1_000_000;

pub fn run(args: &TestArgs) -> Result<ExitCode, CommandFailure> {
    run_with_intervals(args, JSON_INTERVAL_US)
}

/// Runs the command with intervals of this length in iperf3's JSON; 0 for a single one.
pub fn run_with_intervals(args: &TestArgs, interval_us: u64) -> Result<ExitCode, CommandFailure> {
    let report = measure_throughput(args)?;
    let document = build_throughput_document(&report);
    if args.format == TestFormat::Iperf3 {
        report_command::write_report_files(&args.output.form, &report, &document)?;
        command_output::print_json(&iperf3_report_json::to_iperf3_json(&report, interval_us))?;
    } else {
        report_command::write_report(&args.output.form, &report, &document)?;
    }
    let missed = args.expect.iter().map(|it| (it.text.as_str(), it.describe_miss(&report)));
    Ok(expectation::report_misses(missed))
}

/// Measures and builds the report, and archives it unless `--no-save` is given.
pub fn measure_throughput(args: &TestArgs) -> Result<ThroughputReport, CommandFailure> {
    let plan = option_resolution::plan_throughput(args)?;
    capture_command::capture_files::check_capture_paths(&args.capture)?;
    let target = option_resolution::peer_target(&args.peer)?;
    let login = args.server.user.login()?;
    let for_people = args.format == TestFormat::Text && args.output.shows_progress();
    let mut live = ThroughputLines::new(for_people);
    let mut outcome = run_throughput(args, &target, login.as_ref(), &plan, &mut |now| {
        live.show(now);
    })?;
    live.finish();
    let captures = std::mem::take(&mut outcome.captures);
    let mut report = report_archiving::build_throughput_report(plan, outcome, None);
    capture_command::capture_files::write_run_captures(&args.capture, captures, &mut report);
    report_archiving::archive_report(&args.output, &mut report);
    Ok(report)
}

/// Runs the test with the server's protocol. A server that speaks iperf3's ignores the token.
fn run_throughput(
    args: &TestArgs,
    target: &TargetHost,
    login: Option<&LoginCredentials>,
    plan: &ThroughputPlan,
    watch: &mut dyn FnMut(&ThroughputProgress),
) -> Result<ThroughputOutcome, CommandFailure> {
    if args.server.iperf3 {
        return Ok(client_run::run(target, plan, login, Duration::ZERO, watch)?);
    }
    match throughput::run(target, plan, watch) {
        Err(ProbeError::Iperf3There { .. }) if target.token.is_none() => {
            // The iperf3 server stays busy until it notices that our first connection is closed.
            let mut outcome = client_run::run(target, plan, login, target.connect_timeout, watch)?;
            outcome.caveats.push(iperf3_server::found_caveat());
            Ok(outcome)
        }
        other => Ok(other?),
    }
}
