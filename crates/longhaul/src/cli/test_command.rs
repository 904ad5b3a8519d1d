//! `longhaul test HOST`: measures throughput, then analyses, archives and shows the result.

use crate::cli::args::{
    DirectionArgs, OutputArgs, PeerArgs, SocketArgs, StreamArgs, TestCaptureArgs,
};
use crate::cli::early_end::EarlyEnd;
use crate::cli::expectation::{self, ThroughputExpectation};
use crate::cli::firefly_sender::MarkingArgs;
use crate::cli::iperf3_server::{self, Iperf3ServerArgs};
use crate::cli::progress_lines::ThroughputLines;
use crate::cli::value_parsers::{
    accept_count, accept_micros, accept_size, parse_blocks, parse_buffer_size, parse_host_name,
    parse_line_interval, parse_open_run_time, parse_port, parse_precision, parse_rate,
    parse_rate_or_unlimited, parse_run_bytes, parse_streams,
};
use crate::cli::{
    capture_command, command_output, interrupt, option_resolution, report_archiving, report_command,
};
use crate::command_failure::{self, CommandFailure, USAGE};
use clap::Args;
use jiff::Timestamp;
use longhaul_iperf3::client_run::{self, LoginCredentials};
use longhaul_model::report::v1::plan::{DEFAULT_PRECISION_PERMILLE, ThroughputPlan};
use longhaul_model::report::v1::{RunParty, ThroughputReport};
use longhaul_model::units::TextRateUnit;
use longhaul_probe::plan_limits;
use longhaul_probe::probe_error::ProbeError;
use longhaul_probe::supervise::StopFlag;
use longhaul_probe::throughput::{self, TargetHost, ThroughputOutcome, ThroughputProgress};
use longhaul_report::iperf3_report_json::{self, LiveDirection, RunEvent, RunEventStream};
use longhaul_report::throughput_text::build_throughput_document;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

const EXAMPLES: &str = include_str!("help/test-examples.txt").trim_ascii_end();

const DETAILS: &str = include_str!("help/test-details.txt").trim_ascii_end();

/// The form in which a run is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestFormat {
    /// Text, with all rates in this unit if there is one.
    Text(Option<TextRateUnit>),
    /// JSON like that of iperf3.
    Iperf3,
}

/// Parses the name of a form, or a letter of iperf3's `-f`.
fn parse_format(text: &str) -> Result<TestFormat, String> {
    match text {
        "text" => Ok(TestFormat::Text(None)),
        "iperf3" => Ok(TestFormat::Iperf3),
        letter => match TextRateUnit::from_letter(letter) {
            Some(unit) => Ok(TestFormat::Text(Some(unit))),
            None => {
                Err("expected text, iperf3, or the unit of rates: k, m, g, t, K, M, G, T".into())
            }
        },
    }
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Load")]
#[command(after_help = EXAMPLES, after_long_help = [EXAMPLES, DETAILS].join("\n\n"))]
pub struct TestArgs {
    /// Number of streams in each direction [default: 1]
    #[arg(short = 'P', long, alias = "parallel", value_name = "N", value_parser = parse_streams)]
    pub streams: Option<u32>,
    /// Time to send for; 0: until stopped
    #[arg(
        short, long, value_name = "TIME", value_parser = parse_open_run_time,
        conflicts_with_all = ["bytes", "blocks"],
    )]
    pub time: Option<u64>,
    /// End when the goodput is known to this half-width [default of test: 3%]
    ///
    /// Never in the ramp, before the congestion window went through its cycles, or while the path
    /// changes, and at most after --time, --bytes or 10 s. --time, --bytes and --blocks replace the
    /// default.
    #[arg(
        long, value_name = "PERCENT", value_parser = parse_precision,
        conflicts_with_all = ["udp", "blocks"], hide_short_help = true,
    )]
    pub until: Option<u32>,
    /// Number of bytes to send, all streams together
    #[arg(
        short = 'n', long, alias = "num", value_name = "SIZE", value_parser = parse_run_bytes,
        conflicts_with = "blocks",
    )]
    pub bytes: Option<u64>,
    /// Number of writes to send, all streams together
    #[arg(short = 'k', long, alias = "blockcount", value_name = "N", value_parser = parse_blocks, hide_short_help = true)]
    pub blocks: Option<u64>,
    #[command(flatten)]
    pub direction: DirectionArgs,
    /// Use UDP and measure loss and jitter
    #[arg(short, long, conflicts_with_all = ["congestion_control", "mss", "no_delay", "zerocopy"])]
    pub udp: bool,
    /// Total rate, 0 for unlimited [default for UDP: 1M]
    #[arg(short, long, alias = "bandwidth", value_name = "RATE", value_parser = parse_rate_or_unlimited)]
    pub bitrate: Option<u64>,
    /// Total rate at which the receiver reads [default: unlimited]
    #[arg(long, value_name = "RATE", value_parser = parse_rate, hide_short_help = true)]
    pub read_rate: Option<u64>,

    #[command(flatten)]
    pub socket: SocketArgs,
    /// Request this send buffer size (overrides --window)
    #[arg(long, hide_short_help = true, value_name = "SIZE", value_parser = parse_buffer_size, help_heading = "TCP and sockets")]
    pub send_buffer: Option<u64>,
    /// Request this receive buffer size (overrides --window)
    #[arg(long, hide_short_help = true, value_name = "SIZE", value_parser = parse_buffer_size, help_heading = "TCP and sockets")]
    pub receive_buffer: Option<u64>,
    /// Bytes per write or datagram [default: auto]
    #[arg(short, long, alias = "len", value_name = "SIZE", value_parser = accept_size(1..=plan_limits::MAX_CALL_BYTES), help_heading = "TCP and sockets")]
    pub length: Option<u64>,
    /// Bytes per read [default: automatic]
    #[arg(long, hide_short_help = true, value_name = "SIZE", value_parser = accept_size(1..=plan_limits::MAX_CALL_BYTES), help_heading = "TCP and sockets")]
    pub read_length: Option<u64>,
    /// Maximum rate at which the kernel paces each stream
    #[arg(
        long, value_name = "RATE", visible_alias = "fq-rate", value_parser = parse_rate,
        help_heading = "TCP and sockets", hide_short_help = true,
    )]
    pub pacing: Option<u64>,
    /// Maximum segment size in bytes
    #[arg(
        short = 'M', long, value_name = "BYTES", visible_alias = "set-mss",
        value_parser = accept_count::<u32>(plan_limits::MSS_BYTES.0..=plan_limits::MSS_BYTES.1), help_heading = "TCP and sockets", hide_short_help = true)]
    pub mss: Option<u32>,
    /// Yield to other traffic: keep queueing delay low, mark packets as lower effort (LE)
    #[arg(long, help_heading = "TCP and sockets", conflicts_with = "udp", hide_short_help = true)]
    pub scavenger: bool,
    /// Never fragment datagrams: those over the path MTU are lost
    #[arg(long, help_heading = "TCP and sockets", requires = "udp", hide_short_help = true)]
    pub dont_fragment: bool,
    /// Disable Nagle's algorithm (TCP_NODELAY)
    #[arg(short = 'N', long, help_heading = "TCP and sockets", hide_short_help = true)]
    pub no_delay: bool,

    #[command(flatten)]
    pub stream: StreamArgs,
    /// Discard the payload in the receiver's kernel
    #[arg(long, alias = "skip-rx-copy", help_heading = "Host", hide_short_help = true)]
    pub wire: bool,
    /// Local port of the first stream; each further one has the next port
    #[arg(long, value_name = "PORT", value_parser = parse_port, help_heading = "Host", hide_short_help = true)]
    pub cport: Option<u16>,

    /// Time between samples [default: 100 ms, or the RTT if longer]
    #[arg(long, hide_short_help = true, value_name = "TIME", value_parser = accept_micros(plan_limits::INTERVAL_US.0..=plan_limits::INTERVAL_US.1), help_heading = "Measurement")]
    pub sample_interval: Option<u64>,
    /// Omitted start of the run [default: detected ramp]
    #[arg(short = 'O', long, value_name = "TIME", value_parser = accept_micros(0..=plan_limits::MAX_RUN_US), help_heading = "Load")]
    pub omit: Option<u64>,
    /// Exit with 1 unless the condition holds
    ///
    /// May be repeated. Quantities: goodput, mean_goodput, rtt, rtt_max, retransmits, loss, jitter,
    /// limited_by.
    #[arg(long, value_name = "CONDITION", help_heading = "Output")]
    pub expect: Vec<ThroughputExpectation>,

    #[command(flatten)]
    pub server: Iperf3ServerArgs,

    #[command(flatten)]
    pub peer: PeerArgs,
    #[command(flatten)]
    pub marking: MarkingArgs,

    #[command(flatten)]
    pub capture: TestCaptureArgs,

    /// Time between printed lines, 0 for none
    ///
    /// Also the length of the intervals in iperf3's JSON. Without it there is a line per second on a
    /// terminal, and none elsewhere.
    #[arg(short, long, value_name = "TIME", value_parser = parse_line_interval, help_heading = "Output")]
    pub interval: Option<u64>,
    /// Text, iperf3 (JSON), or rates in k, m, g, K, M, G
    ///
    /// The small letters are bit/s with powers of 1000, the capitals bytes/s with powers of 1024;
    /// t and T exist too. Other JSON is not affected.
    #[arg(short, long, value_name = "FORMAT", value_parser = parse_format, help_heading = "Output")]
    pub format: Option<TestFormat>,
    /// Print iperf3's JSON while the run is in progress: one event per line
    #[arg(long, help_heading = "Output", hide_short_help = true)]
    pub json_stream: bool,
    /// Begin every line of text with this title
    #[arg(short = 'T', long, value_name = "TEXT", value_parser = parse_host_name, help_heading = "Output", hide_short_help = true)]
    pub title: Option<String>,
    /// Append all output to this file instead
    #[arg(long, value_name = "FILE", help_heading = "Output", hide_short_help = true)]
    pub logfile: Option<PathBuf>,
    /// Accepted, because the report always has the results of both ends
    #[arg(long, help_heading = "Output", hide_short_help = true)]
    pub get_server_output: bool,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// The default length of the intervals of iperf3's JSON, and between the lines on a terminal.
const DEFAULT_INTERVAL_US: u64 = 1_000_000;

impl TestArgs {
    pub fn prints_iperf3_json(&self) -> bool {
        self.format == Some(TestFormat::Iperf3)
    }

    /// Returns the arguments of `longhaul test`: TCP without another end has the default precision.
    pub fn with_default_end(&self) -> TestArgs {
        let has_end = self.time.is_some() || self.bytes.is_some() || self.blocks.is_some();
        let default = (!self.udp && !has_end).then_some(DEFAULT_PRECISION_PERMILLE);
        TestArgs { until: self.until.or(default), ..self.clone() }
    }

    fn json_interval_us(&self) -> u64 {
        self.interval.unwrap_or(DEFAULT_INTERVAL_US)
    }

    /// Returns the time between printed lines; `None` for no lines.
    fn line_interval(&self) -> Option<Duration> {
        let is_text = !self.prints_iperf3_json() && !self.json_stream;
        let default = std::io::stderr().is_terminal().then_some(DEFAULT_INTERVAL_US);
        let interval = self.interval.or(default).filter(|us| *us > 0);
        let interval = interval.filter(|_| is_text && self.output.shows_progress());
        interval.map(Duration::from_micros)
    }
}

pub fn run(args: &TestArgs) -> Result<ExitCode, CommandFailure> {
    check_output_form(args)?;
    if let Some(file) = &args.logfile {
        command_output::append_output_to(file)?;
    }
    if let Some(TestFormat::Text(Some(unit))) = args.format {
        unit.select();
    }
    if let Some(title) = args.title.as_ref().filter(|_| !args.output.form.json) {
        command_output::set_line_title(title);
    }
    let report =
        if args.json_stream { stream_throughput(args)? } else { measure_throughput(args)? };
    let document = build_throughput_document(&report);
    if args.json_stream || args.prints_iperf3_json() {
        report_command::write_report_files(&args.output.form, &report, &document)?;
    }
    if args.prints_iperf3_json() {
        let mut json = iperf3_report_json::to_iperf3_json(&report, args.json_interval_us());
        if let Some(title) = &args.title {
            json["title"] = title.as_str().into();
        }
        command_output::print_json(&json)?;
    } else if !args.json_stream {
        report_command::write_run(&args.output, &report, document)?;
    }
    command_failure::require_peer(&report.caveats)?;
    let missed = args.expect.iter().map(|it| (it.text.as_str(), it.describe_miss(&report)));
    Ok(expectation::report_misses(missed))
}

/// Checks that only one form of output is requested.
fn check_output_form(args: &TestArgs) -> Result<(), CommandFailure> {
    let form = &args.output.form;
    let forms = [
        (args.prints_iperf3_json(), "--format iperf3"),
        (args.json_stream, "--json-stream"),
        (form.json, "--json"),
        (form.markdown, "--markdown"),
    ];
    let mut chosen = forms.into_iter().filter(|(is_chosen, _)| *is_chosen);
    match (chosen.next(), chosen.next()) {
        (Some((_, one)), Some((_, other))) => {
            let text = format!("the option '{one}' cannot be used with '{other}'");
            Err(CommandFailure::new(USAGE, text))
        }
        _ => Ok(()),
    }
}

/// Measures and builds the report, and archives it unless `--no-save` is given.
pub fn measure_throughput(args: &TestArgs) -> Result<ThroughputReport, CommandFailure> {
    let mut live = ThroughputLines::new(args.line_interval(), args.interval.is_some());
    let report = measure_with_progress(args, &mut |now| live.show(now));
    live.finish();
    report
}

/// Measures as [`measure_throughput`] does, and prints the events of iperf3's `--json-stream`.
fn stream_throughput(args: &TestArgs) -> Result<ThroughputReport, CommandFailure> {
    let far = RunParty { host: args.peer.host_name().to_owned(), ..RunParty::default() };
    let run = report_archiving::create_run_info(
        Timestamp::now(),
        Duration::ZERO,
        throughput::initiator_party(None),
        far,
    );
    let plan = option_resolution::plan_throughput(args)?;
    let mut events = RunEventStream::new(run, plan, args.json_interval_us());
    let mut printed = Ok(());
    let measured = measure_with_progress(args, &mut |now| {
        let directions = [(true, &now.forward), (false, &now.reverse)];
        let directions: Vec<LiveDirection> = directions
            .into_iter()
            .filter_map(|(forward, flow)| {
                Some(LiveDirection { forward, own_ends: &flow.as_ref()?.own_ends })
            })
            .collect();
        if printed.is_ok() {
            printed = command_output::print_json_lines(&events.observe(&directions));
        }
    });
    printed?;
    match &measured {
        Ok(report) => command_output::print_json_lines(&events.finish(report))?,
        Err(fail) => {
            let event = RunEvent::new("error", fail.chain().into());
            command_output::print_json_lines(&[event])?;
        }
    }
    measured
}

fn measure_with_progress(
    args: &TestArgs,
    watch: &mut dyn FnMut(&ThroughputProgress),
) -> Result<ThroughputReport, CommandFailure> {
    let plan = option_resolution::plan_throughput(args)?;
    capture_command::capture_files::check_capture_paths(&args.capture)?;
    let target = TargetHost {
        data_port: args.cport,
        flow_label: args.marking.flow_label(),
        ..option_resolution::peer_target(&args.peer)?
    };
    let mut fireflies = args.marking.firefly_sender(!args.udp)?;
    let login = args.server.user.login()?;
    let mut early_end = EarlyEnd::new(&plan, None);
    let stop = if plan.until_stopped || early_end.is_some() {
        interrupt::install_end_flag()?
    } else {
        interrupt::install_stop_flag()?
    };
    let mut watch = |now: &ThroughputProgress| {
        if let Some(fireflies) = &mut fireflies {
            fireflies.observe_run(now);
        }
        watch(now);
    };
    let run = |sent: &ThroughputPlan, watch: &mut dyn FnMut(&ThroughputProgress)| {
        run_throughput(args, &target, login.as_ref(), sent, &stop, watch)
    };
    let outcome = match &mut early_end {
        Some(early_end) => early_end.run(&plan, &stop, &mut watch, run),
        None => run(&plan, &mut watch),
    };
    let is_interrupted = early_end.is_some_and(|it| !it.is_known) && stop.load(Ordering::Relaxed);
    if is_interrupted {
        interrupt::cut_short(&stop);
    }
    let mut outcome = outcome?;
    if let Some(mut fireflies) = fireflies {
        fireflies.observe_result(&outcome.observation);
        outcome.caveats.extend(fireflies.finish_run());
    }
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
    stop: &StopFlag,
    watch: &mut dyn FnMut(&ThroughputProgress),
) -> Result<ThroughputOutcome, CommandFailure> {
    if args.server.iperf3 {
        return Ok(client_run::run(target, plan, login, Duration::ZERO, stop, watch)?);
    }
    match throughput::run(target, plan, stop, watch) {
        Err(ProbeError::Iperf3There { .. }) if target.token.is_none() => {
            // The iperf3 server stays busy until it notices that our first connection is closed.
            let patience = target.connect_timeout;
            let mut outcome = client_run::run(target, plan, login, patience, stop, watch)?;
            outcome.caveats.push(iperf3_server::found_caveat());
            Ok(outcome)
        }
        other => Ok(other?),
    }
}
