//! `longhaul latency HOST`: measures latency by STAMP or TWAMP, then analyses, archives and
//! shows it.

use crate::cli::args::{LocalArgs, NO_HEADING, OutputArgs, TokenArgs};
use crate::cli::progress_lines::StatusLine;
use crate::cli::report_archiving::{self, timestamp_of};
use crate::cli::value_parsers::{accept_count, accept_micros, parse_dscp, parse_port};
use crate::cli::{interrupt, option_resolution, report_command};
use crate::command_failure::{CommandFailure, PEER, USAGE};
use clap::Args;
use longhaul_analysis::latency::conclude_latency;
use longhaul_model::report::v1::latency::{LatencyPlan, LatencyProtocol};
use longhaul_model::report::v1::{LatencyReport, Report, ReportCaveat, RunEnvironment};
use longhaul_model::units::format_duration;
use longhaul_probe::host_endpoint::HostEndpoint;
use longhaul_probe::latency::STAMP_PORT;
use longhaul_probe::latency::session_sender::{self, LatencyOutcome, LatencyProgress, SessionKey};
use longhaul_probe::latency::test_packet::{MAX_PACKET_BYTES, accepts_packet_bytes, packet_bytes};
use longhaul_report::latency_text::build_latency_document;
use longhaul_report::number_format::or_absent;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXAMPLES: &str = include_str!("help/latency-examples.txt").trim_ascii_end();

const DETAILS: &str = include_str!("help/latency-details.txt").trim_ascii_end();

#[derive(Debug, Args)]
#[command(next_help_heading = "Packets")]
#[command(after_help = EXAMPLES, after_long_help = [EXAMPLES, DETAILS].join("\n\n"))]
pub struct LatencyArgs {
    // Not a doc comment: in one, the brackets would be a link.
    #[arg(
        value_name = "HOST",
        help = "Name or address of the reflector, or HOST:PORT, [IPV6]:PORT",
        help_heading = NO_HEADING
    )]
    pub host: HostEndpoint,
    /// UDP port of the reflector, which a TWAMP server may change [default: 862]
    #[arg(short, long, value_name = "PORT", value_parser = parse_port, help_heading = "Host")]
    pub port: Option<u16>,
    /// Use STAMP (the default)
    #[arg(long, group = "protocol")]
    pub stamp: bool,
    /// Use TWAMP Light
    #[arg(long, group = "protocol")]
    pub twamp_light: bool,
    /// Use TWAMP: ask the server on this TCP port for a session [default port: 862]
    #[arg(
        long, group = "protocol", value_name = "PORT", value_parser = parse_port, num_args = 0..=1,
        require_equals = true, default_missing_value = "862")]
    pub twamp_control: Option<u16>,
    /// Number of packets
    #[arg(
        short, long, value_name = "N", default_value_t = 100,
        value_parser = accept_count::<u32>(1..=session_sender::MAX_PACKETS as u64))]
    pub count: u32,
    /// Time between packets
    #[arg(short, long, value_name = "TIME", default_value = "100ms", value_parser = accept_micros(1_000..=60_000_000))]
    pub interval: u64,
    /// UDP payload of a packet in bytes [default: 44, with a key 112]
    #[arg(short, long, value_name = "BYTES", value_parser = accept_count::<u32>(44..=MAX_PACKET_BYTES as u64))]
    pub size: Option<u32>,
    /// Time to wait for the answer to the last packet
    #[arg(
        long, value_name = "TIME", default_value = "2s", value_parser = accept_micros(10_000..=30_000_000),
        hide_short_help = true)]
    pub timeout: u64,
    /// DSCP of the packets: 0 to 63, or a name such as EF, AF11, CS1, LE
    #[arg(long, value_name = "DSCP", value_parser = parse_dscp)]
    pub dscp: Option<u8>,
    /// File with the key of authenticated STAMP or TWAMP
    ///
    /// Its first line is the key, for TWAMP a KeyID, a space and the passphrase. 0x begins a hexadecimal key.
    #[arg(long, value_name = "FILE", conflicts_with = "twamp_light")]
    pub key_file: Option<PathBuf>,
    /// The reflector counts the packets of a session (otherwise its numbers tell)
    #[arg(long, hide_short_help = true)]
    pub stateful: bool,

    #[command(flatten)]
    pub local: LocalArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// A report, and the reason why the command fails in spite of it.
pub struct LatencyRunResult {
    pub report: LatencyReport,
    pub failure: Option<CommandFailure>,
}

pub fn run(args: &LatencyArgs) -> Result<ExitCode, CommandFailure> {
    let LatencyRunResult { report, failure } = measure_latency(args)?;
    report_command::write_run(&args.output, &report, build_latency_document(&report))?;
    failure.map_or(Ok(ExitCode::SUCCESS), Err)
}

/// Measures latency and archives the report, unless `--no-save` is given.
pub fn measure_latency(args: &LatencyArgs) -> Result<LatencyRunResult, CommandFailure> {
    let key = args.key_file.as_deref().map(|file| read_session_key(args, file)).transpose()?;
    let port = args.port.or_else(|| args.host.port.is_none().then_some(STAMP_PORT));
    let no_token = TokenArgs { token: None, token_file: None };
    let target = option_resolution::build_target(&args.host, port, &args.local, &no_token)?;
    let mut plan = plan_session(args, target.port)?;
    let stop = interrupt::install_stop_flag()?;
    let mut line = StatusLine::new(args.output.shows_progress());
    let outcome = session_sender::run(&target, &plan, key, &stop, &mut |progress| {
        line.update(&format_progress(&plan, progress));
    })?;
    line.clear();
    plan.port = outcome.port;
    let unreachable_by = outcome.unreachable_by;
    let report = archive_latency_report(args, plan, outcome);
    let is_success = report.analysis.answered_packets > 0 || interrupt::was_cut_short();
    let failure = (!is_success).then(|| no_answer_failure(&report, unreachable_by));
    Ok(LatencyRunResult { report, failure })
}

/// Returns the key in a file, for the protocol of the session.
fn read_session_key(args: &LatencyArgs, file: &Path) -> Result<SessionKey, CommandFailure> {
    if args.twamp_control.is_none() {
        return option_resolution::read_packet_key(file).map(SessionKey::Stamp);
    }
    let mut keys = option_resolution::read_twamp_keys(file)?;
    // There is at least one.
    Ok(SessionKey::Twamp(keys.swap_remove(0)))
}

/// Builds the plan from the options.
fn plan_session(args: &LatencyArgs, port: u16) -> Result<LatencyPlan, CommandFailure> {
    let authenticated = args.key_file.is_some();
    let base = packet_bytes(authenticated);
    let payload_bytes = args.size.unwrap_or(base as u32);
    if !accepts_packet_bytes(payload_bytes as usize, authenticated) {
        let text = format!("a packet of {payload_bytes} bytes has no room for its fields");
        let advice = format!("use `--size {base}`, or at least {}", base + 4);
        return Err(CommandFailure::new(USAGE, text).hint(Some(advice)));
    }
    Ok(LatencyPlan {
        protocol: match args.twamp_control {
            Some(_) => LatencyProtocol::Twamp,
            None if args.twamp_light => LatencyProtocol::TwampLight,
            None => LatencyProtocol::Stamp,
        },
        port,
        control_port: args.twamp_control,
        packets: args.count,
        interval_us: args.interval,
        payload_bytes,
        timeout_us: args.timeout,
        dscp: args.dscp,
        authenticated,
        stateful: args.stateful,
    })
}

/// Builds the report, and archives it unless `--no-save` is given.
fn archive_latency_report(
    args: &LatencyArgs,
    plan: LatencyPlan,
    outcome: LatencyOutcome,
) -> LatencyReport {
    let run = report_archiving::create_run_info(
        timestamp_of(outcome.started_at),
        outcome.duration,
        outcome.initiator,
        outcome.responder,
    );
    let mut observation = outcome.observation;
    // Both ends of a lab are on this machine.
    observation.shared_clock =
        matches!(run.environment, Some(RunEnvironment::Loopback | RunEnvironment::Lab(_)));
    let mut conclusion = conclude_latency(&plan, &observation);
    if interrupt::was_cut_short() {
        let text = "interrupted before the end of the measurement";
        conclusion.caveats.push(ReportCaveat::new(ReportCaveat::INTERRUPTED, text));
    }
    let mut report = Report::new(run, plan, observation, conclusion.analysis)
        .with_notes(conclusion.findings, conclusion.caveats);
    report_archiving::archive_report(&args.output, &mut report);
    report
}

fn format_progress(plan: &LatencyPlan, progress: &LatencyProgress) -> String {
    let LatencyProgress { sent, answered, rtt } = progress;
    let rtt = or_absent(*rtt, format_duration);
    format!("{sent} of {} packets, {answered} answered, RTT {rtt}", plan.packets)
}

fn no_answer_failure(report: &LatencyReport, unreachable_by: Option<IpAddr>) -> CommandFailure {
    let place = format!("{}, port {}", report.observation.address, report.plan.port);
    let failure = CommandFailure::new(PEER, format!("no answer from {place}"));
    if let Some(by) = unreachable_by {
        return failure
            .cause(&format!("{by} reports that it cannot be reached"))
            .hint(Some("start `longhaul serve --stamp` there, or use the reflector's `--port`"));
    }
    let advice = if report.plan.authenticated {
        "check that the reflector has the same key"
    } else if report.observation.discarded > 0 {
        "check the protocol: answers came that are none to these packets"
    } else {
        "check the port, and that no firewall drops UDP to it; an authenticated reflector answers \
         only with its key (`--key-file`)"
    };
    failure.hint(Some(advice))
}
