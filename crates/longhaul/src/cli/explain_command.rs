//! `longhaul explain`: watches the flows of other programs, then analyses, archives and shows them.
//!
//! - [`live_table`]: the state, the keys and the screen of `--watch`
//! - [`watch_screen`]: the watching thread and the terminal of `--watch`

mod live_table;
mod watch_screen;

use crate::cli::args::{LocalArgs, OutputArgs, TokenArgs};
use crate::cli::progress_lines::StatusLine;
use crate::cli::report_archiving::{self, timestamp_of};
use crate::cli::value_parsers::{accept_count, accept_micros};
use crate::cli::{
    command_output, header_analysis, import_command, interrupt, option_resolution, report_command,
};
use crate::command_failure::{CommandFailure, HOST, USAGE};
use clap::Args;
use jiff::Timestamp;
use longhaul_analysis::flow_analysis::{conclude_flows, conclude_transfers};
use longhaul_import::ss_snapshots::parse_ss_snapshots;
use longhaul_model::report::v1::flows::flow_grouping::{
    FlowSeries, find_small_flow_bytes, group_flows,
};
use longhaul_model::report::v1::flows::{FlowsObservation, FlowsPlan, ProcessIdentity};
use longhaul_model::report::v1::observation::HostFacts;
use longhaul_model::report::v1::{FlowsReport, Report, ReportCaveat, RunParty};
use longhaul_model::units::format_duration;
use longhaul_probe::flow_watch::far_end::{add_far_end, watch_far_end};
use longhaul_probe::flow_watch::{FlowSelector, FlowWatch};
use longhaul_probe::host_endpoint::HostEndpoint;
use longhaul_probe::supervise::StopFlag;
use longhaul_probe::throughput::{TargetHost, initiator_party};
use longhaul_report::document::ReportDocument;
use longhaul_report::flow_text::{build_flows_document, build_transfer_table};
use longhaul_report::number_format::count_of;
use std::fs::File;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, SystemTime};

const EXAMPLES: &str = include_str!("help/explain-examples.txt").trim_ascii_end();

const DETAILS: &str = include_str!("help/explain-details.txt").trim_ascii_end();

#[derive(Debug, Args)]
#[command(next_help_heading = "Flows")]
#[command(after_help = EXAMPLES, after_long_help = [EXAMPLES, DETAILS].join("\n\n"))]
pub struct ExplainArgs {
    /// A process, a :port, a peer, or all
    #[arg(value_name = "WHAT", default_value = "all", help_heading = "Arguments")]
    pub what: String,
    /// Time for which the flows are watched [default: 10s]
    ///
    /// Without it, the watch goes on for up to 40 s if the limit of the busiest transfer is in doubt
    /// because a congestion window still grows back from a loss. With --watch, the time of each window
    /// [default: 3s].
    #[arg(long = "for", visible_short_alias = 't', value_name = "TIME", value_parser = accept_micros(1_000_000..=3_600_000_000))]
    pub time: Option<u64>,
    /// Show a live table until q, with those that can be made faster first
    ///
    /// Keys: q, Esc or Ctrl-C ends, j and k or the arrows select, Enter shows evidence and remedies,
    /// s sorts by need, rate or retransmits. The last window is then shown and archived. If stdout is
    /// no terminal, each window is printed as a table, until Ctrl-C.
    #[arg(short, long)]
    pub watch: bool,
    /// Time between two samples, or between the snapshots of --from-ss [default: 100ms, 1s]
    #[arg(long, value_name = "TIME", value_parser = accept_micros(10_000..=3_600_000_000), hide_short_help = true)]
    pub interval: Option<u64>,
    /// Explain snapshots of `ss -tinmp` in this file, or - for standard input
    ///
    /// Two or more snapshots, one after the other, each with its header line:
    /// `for i in 1 2 3 4 5; do ss -tinmp; sleep 1; done`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["time", "netns", "watch"])]
    pub from_ss: Option<PathBuf>,
    /// Maximum number of flows that are watched at once
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = accept_count::<u32>(1..=1024), hide_short_help = true)]
    pub flows: u32,
    /// Take a name that no process and no host has for a program that does not run now
    #[arg(long, hide = true)]
    pub allow_none: bool,
    /// Network namespace: a name of `ip netns`, or the number of a process in it
    #[arg(long, value_name = "NAME")]
    pub netns: Option<String>,

    /// Also ask the longhaul server at the far end what it sees of these connections; needs its token
    #[arg(long, value_name = "HOST", conflicts_with_all = ["from_ss", "watch"], help_heading = "Host")]
    pub far_end: Option<HostEndpoint>,
    #[command(flatten)]
    pub token: TokenArgs,

    #[command(flatten)]
    pub output: OutputArgs,
}

/// The maximum number of samples of one flow.
const MAX_SAMPLES: u64 = 600;
const DEFAULT_TIME_US: u64 = 10_000_000;
/// Without a requested time, the watch goes on by these steps up to this time.
const EXTENSION_US: u64 = 5_000_000;
const MAX_DEFAULT_TIME_US: u64 = 40_000_000;
const EXTENSION_REASON: &str = "until its congestion windows have grown back";
/// The time of one window of the live table.
const WATCH_WINDOW_US: u64 = 3_000_000;
const DEFAULT_INTERVAL_US: u64 = 100_000;

const SNAPSHOT_INTERVAL_US: u64 = 1_000_000;

pub fn run(args: &ExplainArgs) -> Result<ExitCode, CommandFailure> {
    if let Some(file) = &args.from_ss {
        return explain_snapshots(args, file);
    }
    let selector = resolve_selector(&args.what, args.allow_none)?;
    let time_us = args.time.unwrap_or(if args.watch { WATCH_WINDOW_US } else { DEFAULT_TIME_US });
    let plan = FlowsPlan {
        selector: args.what.clone(),
        duration_us: time_us,
        interval_us: args.interval.unwrap_or(DEFAULT_INTERVAL_US).max(time_us / MAX_SAMPLES),
        flows_max: args.flows,
        namespace: args.netns.clone(),
    };
    let (observation, caveats) = if !args.watch {
        watch_once(args, &plan, &selector)?
    } else if watch_screen::is_screen() {
        (watch_screen::watch_on_screen(args, &plan, &selector)?, Vec::new())
    } else {
        (print_windows(args, &plan, &selector)?, Vec::new())
    };
    let elapsed = Duration::from_micros(observation.elapsed_us);
    let started = timestamp_of(SystemTime::now() - elapsed);
    let party = initiator_party(None);
    finish_report(&args.output, ExplainedFlows { plan, observation, started, caveats }, party)
}

/// Watches the flows here and, at the same time, those of the far end's server, if there is one. A far
/// end that cannot watch is a caveat.
fn watch_once(
    args: &ExplainArgs,
    plan: &FlowsPlan,
    selector: &FlowSelector,
) -> Result<(FlowsObservation, Vec<ReportCaveat>), CommandFailure> {
    let stop = interrupt::install_stop_flag()?;
    let far_end = args.far_end.as_ref().map(|host| far_end_target(args, host)).transpose()?;
    let (near, far) = thread::scope(|scope| {
        let far = far_end.as_ref();
        let far = far.map(|target| scope.spawn(|| watch_far_end(target, plan, &stop)));
        let near = watch_near_end(args, plan, selector, &stop);
        (near, far.map(thread::ScopedJoinHandle::join))
    });
    let (mut near, mut caveats) = (near?, Vec::new());
    match far {
        Some(Ok(Ok(observed))) => add_far_end(&mut near, observed),
        Some(Ok(Err(error))) => {
            let text = format!("the far end was not watched: {error}");
            caveats.push(ReportCaveat::new("far_end_missing", text));
        }
        // A panic has printed its message.
        Some(Err(_)) | None => {}
    }
    Ok((near, caveats))
}

fn far_end_target(args: &ExplainArgs, host: &HostEndpoint) -> Result<TargetHost, CommandFailure> {
    option_resolution::build_target(host, None, &LocalArgs::default(), &args.token)
}

fn watch_near_end(
    args: &ExplainArgs,
    plan: &FlowsPlan,
    selector: &FlowSelector,
    stop: &StopFlag,
) -> Result<FlowsObservation, CommandFailure> {
    let mut line = StatusLine::new(args.output.shows_progress());
    let planned = Duration::from_micros(plan.duration_us);
    let all = format_duration(planned);
    let watched = observe_flows(args, plan, selector, stop, &mut |elapsed, flows| {
        let flows = count_of(flows as u64, "flow");
        let until = if elapsed <= planned { &format!("of {all}") } else { EXTENSION_REASON };
        line.update(&format!("watching {flows}: {} {until}", format_duration(elapsed)));
    });
    line.clear();
    watched
}

/// Returns true if the limit of the busiest transfer is in doubt because its windows still grow back.
fn is_too_short(observation: &FlowsObservation) -> bool {
    let busiest = observation.transfers.first().map(std::slice::from_ref);
    let caveats = conclude_transfers(busiest.unwrap_or_default()).caveats;
    caveats.iter().any(|caveat| caveat.code == ReportCaveat::SHORT_WATCH)
}

/// Prints the table of window after window until a signal comes; returns the last whole one, or what was
/// seen of the first.
fn print_windows(
    args: &ExplainArgs,
    plan: &FlowsPlan,
    selector: &FlowSelector,
) -> Result<FlowsObservation, CommandFailure> {
    // Ctrl-C is the usual end of a live table.
    let stop = interrupt::install_end_flag()?;
    let mut last = None;
    loop {
        let window = observe_flows(args, plan, selector, &stop, &mut |_, _| {})?;
        if stop.load(Ordering::Relaxed) {
            return Ok(last.unwrap_or(window));
        }
        if args.output.shows_progress() {
            print_table(&window)?;
        }
        last = Some(window);
    }
}

fn observe_flows(
    args: &ExplainArgs,
    plan: &FlowsPlan,
    selector: &FlowSelector,
    stop: &StopFlag,
    progress: &mut dyn FnMut(Duration, usize),
) -> Result<FlowsObservation, CommandFailure> {
    let namespace = args.netns.as_deref().map(open_namespace).transpose()?;
    let has_fixed_time = args.time.is_some() || args.watch || args.far_end.is_some();
    let max_us = if has_fixed_time { plan.duration_us } else { MAX_DEFAULT_TIME_US };
    let watch_and_extend = || {
        let capture_namespace = namespace.as_ref().map(OwnedFd::try_clone).transpose()?;
        let mut watch = FlowWatch::start(plan, selector, namespace)?;
        if !args.watch {
            watch.capture_headers(capture_namespace);
        }
        let mut end_us = plan.duration_us;
        loop {
            watch.run_until(Duration::from_micros(end_us), stop, progress)?;
            let mut observation = watch.observe();
            end_us += EXTENSION_US;
            let may_go_on = end_us <= max_us && !stop.load(Ordering::Relaxed);
            if !may_go_on || !is_too_short(&observation) {
                if let Some(captured) = watch.finish_capture() {
                    header_analysis::add_header_capture(&mut observation, &captured);
                }
                return Ok(observation);
            }
        }
    };
    watch_and_extend().map_err(|error: io::Error| {
        CommandFailure::new(HOST, format!("cannot read the connections of this host: {error}"))
            .hint(Some("the kernel needs sock_diag (CONFIG_INET_DIAG), and --netns needs root"))
    })
}

/// Prints the transfers of a window: those that can be made faster first, then by rate.
fn print_table(window: &FlowsObservation) -> Result<(), CommandFailure> {
    let rows = live_table::conclude_window(window);
    let mut page = ReportDocument::default();
    let now = report_archiving::format_rfc3339(timestamp_of(SystemTime::now()));
    page.paragraph(format!("{}, {now}", count_of(rows.len() as u64, "transfer")));
    let rows: Vec<_> = rows.iter().map(|row| (&row.seen, &row.concluded)).collect();
    page.table(build_transfer_table(&rows));
    command_output::print_document(&page)
}

/// Explains the connections in the text of `ss`.
fn explain_snapshots(args: &ExplainArgs, file: &Path) -> Result<ExitCode, CommandFailure> {
    let name = file.display();
    let started = timestamp_of(SystemTime::now());
    let text = import_command::read_import_text(file)?;
    let interval_us = args.interval.unwrap_or(SNAPSHOT_INTERVAL_US);
    let parsed = parse_ss_snapshots(&text, interval_us).map_err(|error| {
        CommandFailure::new(USAGE, format!("cannot read {name}: {error}"))
            .hint(Some("see `longhaul explain --help`, option --from-ss"))
    })?;
    let elapsed_us = interval_us.saturating_mul(parsed.snapshots.saturating_sub(1));
    let plan = FlowsPlan {
        selector: args.what.clone(),
        duration_us: elapsed_us,
        interval_us,
        flows_max: args.flows,
        namespace: None,
    };
    let flows = parsed.flows.into_iter().filter(|flow| is_named(flow, &args.what));
    let flows: Vec<FlowSeries> = flows.collect();
    finish_series(&args.output, "ss", SeriesSource { plan, flows, started, caveats: Vec::new() })
}

/// Flows that were not watched on this host.
pub struct SeriesSource {
    pub plan: FlowsPlan,
    pub flows: Vec<FlowSeries>,
    pub started: Timestamp,
    pub caveats: Vec<ReportCaveat>,
}

/// Groups the flows of a source to transfers, and concludes, archives and shows these.
pub fn finish_series(
    output: &OutputArgs,
    name: &str,
    source: SeriesSource,
) -> Result<ExitCode, CommandFailure> {
    let SeriesSource { plan, flows, started, caveats } = source;
    let host = HostFacts { name: name.to_owned(), ..HostFacts::default() };
    let observation = FlowsObservation {
        elapsed_us: plan.duration_us,
        matching_flows: flows.len() as u64,
        small_flow_bytes: find_small_flow_bytes(&flows),
        transfers: group_flows(flows, &plan, &host),
        host,
    };
    let initiator = RunParty { host: name.to_owned(), ..RunParty::default() };
    finish_report(output, ExplainedFlows { plan, observation, started, caveats }, initiator)
}

/// Returns true if a flow of a snapshot has this process, port or peer.
pub fn is_named(flow: &FlowSeries, what: &str) -> bool {
    let ports = [flow.local.port(), flow.peer.port()];
    let port = what.strip_prefix(':').unwrap_or(what).parse::<u16>().ok();
    let is_process = |it: &ProcessIdentity| it.name == what || it.pid.to_string() == what;
    what == "all"
        || flow.process.as_ref().is_some_and(is_process)
        || port.is_some_and(|port| ports.contains(&port))
        || flow.peer.ip().to_string() == what
}

/// Observed flows that are to be explained.
struct ExplainedFlows {
    plan: FlowsPlan,
    observation: FlowsObservation,
    started: Timestamp,
    caveats: Vec<ReportCaveat>,
}

/// Concludes, archives and shows.
fn finish_report(
    output: &OutputArgs,
    flows: ExplainedFlows,
    initiator: RunParty,
) -> Result<ExitCode, CommandFailure> {
    let ExplainedFlows { plan, observation, started, mut caveats } = flows;
    let peer = observation.transfers.first().map(|busiest| busiest.peer.clone());
    let responder =
        RunParty { host: peer.clone().unwrap_or_default(), address: peer, ..RunParty::default() };
    let duration = Duration::from_micros(observation.elapsed_us);
    let run = report_archiving::create_run_info(started, duration, initiator, responder);
    let concluded = conclude_flows(&observation);
    caveats.extend(concluded.caveats);
    if interrupt::was_cut_short() {
        let text = "interrupted before the end of the watch";
        caveats.push(ReportCaveat::new(ReportCaveat::INTERRUPTED, text));
    }
    let mut report: FlowsReport = Report::new(run, plan, observation, concluded.analysis)
        .with_notes(concluded.findings, caveats);
    report_archiving::archive_report(output, &mut report);
    report_command::write_run(output, &report, build_flows_document(&report))?;
    Ok(ExitCode::SUCCESS)
}

/// Resolves the flows to watch: a number is a process if there is one, and otherwise a port; a word
/// is a program if one of that name runs, and otherwise the name of a host.
fn resolve_selector(what: &str, allow_none: bool) -> Result<FlowSelector, CommandFailure> {
    if what == "all" {
        return Ok(FlowSelector::All);
    }
    if let Some(port) = what.strip_prefix(':').and_then(|port| port.parse().ok()) {
        return Ok(FlowSelector::Port(port));
    }
    if let Ok(number) = what.parse::<u32>() {
        let is_process = Path::new("/proc").join(what).exists();
        return match u16::try_from(number) {
            _ if is_process => Ok(FlowSelector::Process(number)),
            Ok(port) => Ok(FlowSelector::Port(port)),
            Err(_) => Err(no_flows(what, "there is no process of that number")),
        };
    }
    if let Ok(address) = what.parse::<IpAddr>() {
        return Ok(FlowSelector::Peer(vec![address]));
    }
    if longhaul_probe::flow_watch::is_running(what) {
        return Ok(FlowSelector::Program(what.to_owned()));
    }
    match (what, 0).to_socket_addrs() {
        Ok(resolved) => Ok(FlowSelector::Peer(resolved.map(|address| address.ip()).collect())),
        Err(_) if allow_none => Ok(FlowSelector::Program(what.to_owned())),
        Err(_) => Err(no_flows(what, "no process has that name, and no host has it either")),
    }
}

fn no_flows(what: &str, why: &str) -> CommandFailure {
    CommandFailure::new(USAGE, format!("cannot explain {what}: {why}"))
        .hint(Some("`longhaul explain` without a name lists the busiest transfers"))
}

/// Opens a namespace of `ip netns`, or that of a process.
fn open_namespace(name: &str) -> Result<OwnedFd, CommandFailure> {
    let file: PathBuf = match name.parse::<u32>() {
        Ok(pid) => format!("/proc/{pid}/ns/net").into(),
        Err(_) => Path::new("/run/netns").join(name),
    };
    File::open(&file).map(OwnedFd::from).map_err(|error| {
        CommandFailure::new(HOST, format!("cannot open {}: {error}", file.display()))
            .hint(Some("the namespace of another user's process needs root"))
    })
}
