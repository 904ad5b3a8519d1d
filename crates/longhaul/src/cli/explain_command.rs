//! `longhaul explain`: watches the flows of other programs, then analyses, archives and shows them.

use crate::cli::args::OutputArgs;
use crate::cli::progress_lines::StatusLine;
use crate::cli::report_archiving::{self, timestamp_of};
use crate::cli::value_parsers::{accept_count, accept_micros};
use crate::cli::{interrupt, report_command};
use crate::command_failure::{CommandFailure, HOST, USAGE};
use clap::Args;
use longhaul_analysis::flow_analysis::conclude_flows;
use longhaul_model::report::v1::flows::{FlowsObservation, FlowsPlan};
use longhaul_model::report::v1::{FlowsReport, Report, ReportCaveat, RunParty};
use longhaul_model::units::format_duration;
use longhaul_probe::flow_watch::{FlowSelector, watch_flows};
use longhaul_report::flow_text::build_flows_document;
use longhaul_report::number_format::count_of;
use std::fs::File;
use std::net::{IpAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
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
    /// Time for which the flows are watched
    #[arg(long = "for", visible_short_alias = 't', value_name = "TIME", default_value = "10s", value_parser = accept_micros(1_000_000..=3_600_000_000))]
    pub time: u64,
    /// Time between two looks
    #[arg(long, value_name = "TIME", value_parser = accept_micros(10_000..=10_000_000), hide_short_help = true)]
    pub interval: Option<u64>,
    /// Maximum number of flows that are watched at once
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = accept_count::<u32>(1..=1024), hide_short_help = true)]
    pub flows: u32,
    /// Network namespace: a name of `ip netns`, or the number of a process in it
    #[arg(long, value_name = "NAME|PID")]
    pub netns: Option<String>,

    #[command(flatten)]
    pub output: OutputArgs,
}

/// The maximum number of looks at one flow.
const MAX_LOOKS: u64 = 600;
const DEFAULT_INTERVAL_US: u64 = 100_000;

pub fn run(args: &ExplainArgs) -> Result<ExitCode, CommandFailure> {
    let selector = resolve_selector(&args.what)?;
    let namespace = args.netns.as_deref().map(open_namespace).transpose()?;
    let plan = FlowsPlan {
        selector: args.what.clone(),
        duration_us: args.time,
        interval_us: args.interval.unwrap_or(DEFAULT_INTERVAL_US).max(args.time / MAX_LOOKS),
        flows_max: args.flows,
        namespace: args.netns.clone(),
    };
    let stop = interrupt::install_stop_flag()?;
    let mut line = StatusLine::new(args.output.shows_progress());
    let started = SystemTime::now();
    let all = format_duration(Duration::from_micros(args.time));
    let watched = watch_flows(&plan, &selector, namespace, &stop, &mut |elapsed, flows| {
        let flows = count_of(flows as u64, "flow");
        line.update(&format!("watching {flows}: {} of {all}", format_duration(elapsed)));
    });
    line.clear();
    let observation = watched.map_err(|error| {
        CommandFailure::new(HOST, format!("cannot read the connections of this host: {error}"))
            .hint(Some("the kernel needs sock_diag (CONFIG_INET_DIAG), and --netns needs root"))
    })?;
    let report = archive_flows_report(args, plan, observation, started);
    report_command::write_run(&args.output, &report, build_flows_document(&report))?;
    Ok(ExitCode::SUCCESS)
}

fn archive_flows_report(
    args: &ExplainArgs,
    plan: FlowsPlan,
    observation: FlowsObservation,
    started: SystemTime,
) -> FlowsReport {
    let host = &observation.host;
    let initiator = RunParty {
        host: host.name.clone(),
        longhaul: Some(env!("CARGO_PKG_VERSION").to_owned()),
        kernel: Some(host.kernel.clone()),
        cores: Some(host.cores),
        ..RunParty::default()
    };
    let peer = observation.transfers.first().map(|busiest| busiest.peer.clone());
    let responder =
        RunParty { host: peer.clone().unwrap_or_default(), address: peer, ..RunParty::default() };
    let duration = Duration::from_micros(observation.elapsed_us);
    let run =
        report_archiving::create_run_info(timestamp_of(started), duration, initiator, responder);
    let concluded = conclude_flows(&observation);
    let mut caveats = concluded.caveats;
    if interrupt::was_cut_short() {
        let text = "interrupted before the end of the watch";
        caveats.push(ReportCaveat::new(ReportCaveat::INTERRUPTED, text));
    }
    let mut report = Report::new(run, plan, observation, concluded.analysis)
        .with_notes(concluded.findings, caveats);
    report_archiving::archive_report(&args.output, &mut report);
    report
}

/// Resolves the flows to watch: a number is a process if there is one, and otherwise a port; a word
/// is a program if one of that name runs, and otherwise the name of a host.
fn resolve_selector(what: &str) -> Result<FlowSelector, CommandFailure> {
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
    let resolved = (what, 0)
        .to_socket_addrs()
        .map_err(|_| no_flows(what, "no process has that name, and no host has it either"))?;
    Ok(FlowSelector::Peer(resolved.map(|address| address.ip()).collect()))
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
