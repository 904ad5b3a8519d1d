//! `longhaul path HOST`: measures the path, resolves names, then analyses, archives and shows it.
//!
//! - [`hop_origins`]: names, AS numbers and places of hops
//! - [`mod@path_watch`]: the rounds and the live table of `--watch`

mod hop_origins;
mod path_watch;

use crate::cli::args::{OutputArgs, PeerArgs};
use crate::cli::progress_lines::StatusLine;
use crate::cli::report_archiving::{self, timestamp_of};
use crate::cli::value_parsers::{accept_count, accept_micros, parse_port, parse_streams};
use crate::cli::{command_output, interrupt, option_resolution, report_command};
use crate::command_failure::{CommandFailure, HOST, PEER, USAGE};
use clap::Args;
use hop_origins::HopOrigins;
use longhaul_analysis::path::{KnownRoute, PathCapacityEstimate, conclude_path};
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::path::{
    HopLoadPlan, PathObservation, PathPlan, ProbeEcho, ProbeProtocol, RoundTripPlan, TracePlan,
};
use longhaul_model::report::v1::{
    AvailableReport, ParentRun, PathReport, Report, ReportCaveat, RunInfo, ThroughputReport,
};
use longhaul_probe::path::{self, PathOutcome, PathPart, PathProgress};
use longhaul_probe::supervise::StopFlag;
use longhaul_probe::throughput::TargetHost;
use longhaul_report::number_format::or_absent;
use longhaul_report::path_text::{build_path_document, format_ms};
use longhaul_store::Archive;
use std::process::ExitCode;
use std::time::Duration;

const EXAMPLES: &str = include_str!("help/path-examples.txt").trim_ascii_end();

const DETAILS: &str = include_str!("help/path-details.txt").trim_ascii_end();

#[derive(Debug, Args)]
#[command(next_help_heading = "Route")]
#[command(after_help = EXAMPLES, after_long_help = [EXAMPLES, DETAILS].join("\n\n"))]
pub struct PathArgs {
    /// Use ICMP probes (the default)
    #[arg(short = 'I', long, help_heading = "Probes", group = "protocol")]
    pub icmp: bool,
    /// Use UDP probes
    #[arg(short, long, short_alias = 'U', help_heading = "Probes", group = "protocol")]
    pub udp: bool,
    /// Use TCP probes
    #[arg(short = 'T', long, help_heading = "Probes", group = "protocol")]
    pub tcp: bool,
    /// Destination port of UDP and TCP probes [default: 33434 for UDP, 5201 for TCP]
    #[arg(long, value_name = "PORT", value_parser = parse_port, help_heading = "Probes", conflicts_with = "icmp", hide_short_help = true)]
    pub to_port: Option<u16>,
    /// Number of RTT probes [default: 10]
    ///
    /// With --watch, the number of rounds [default: unlimited].
    #[arg(short, long, value_name = "N", value_parser = accept_count::<u32>(1..=100_000), help_heading = "Probes")]
    pub count: Option<u32>,
    /// Time between RTT probes, or rounds of --watch
    ///
    /// The default is 100 ms. With --watch it is 1 s, the minimum.
    #[arg(short, long, value_name = "TIME", value_parser = accept_micros(10_000..=60_000_000), help_heading = "Probes")]
    pub interval: Option<u64>,
    /// Packet size in bytes, with the IP header
    #[arg(
        short, long, value_name = "BYTES", default_value_t = 64, value_parser = accept_count::<u32>(64..=65_535),
        help_heading = "Probes", hide_short_help = true)]
    pub size: u32,
    /// Time to wait for an answer
    #[arg(
        long, value_name = "TIME", default_value = "2s", value_parser = accept_micros(10_000..=30_000_000),
        help_heading = "Probes", hide_short_help = true)]
    pub timeout: u64,

    /// Do not trace the route
    #[arg(long, conflicts_with_all = ["alternatives", "load", "watch"], hide_short_help = true)]
    pub no_route: bool,
    /// Maximum number of hops
    #[arg(
        short, long, value_name = "N", default_value_t = 64,
        value_parser = accept_count::<u8>(1..=255),
    )]
    pub max_hops: u8,
    /// Number of probes per hop
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = accept_count::<u32>(1..=20))]
    pub queries: u32,
    /// Find all next hops of load balancers with this confidence [default: 0.95]
    #[arg(
        long, value_name = "CONFIDENCE", num_args = 0..=1, require_equals = true,
        default_missing_value = "0.95", value_parser = parse_confidence, hide_short_help = true)]
    pub alternatives: Option<f64>,
    /// Do not measure from the server to this host
    #[arg(long)]
    pub no_reverse: bool,
    /// Do not resolve addresses to names
    #[arg(short = 'n', long, alias = "no-dns")]
    pub no_names: bool,
    /// Show AS numbers (the default, if there are databases)
    #[arg(short = 'z', long, hide_short_help = true)]
    pub aslookup: bool,
    /// Show both names and addresses (the default)
    #[arg(short = 'b', long, hide_short_help = true)]
    pub show_ips: bool,
    /// Show a live table of all hops
    #[arg(short, long, conflicts_with_all = ["load", "options", "alternatives", "mtu"])]
    pub watch: bool,
    /// Measure, then report (the default without --watch)
    #[arg(short, long, alias = "report-wide", hide_short_help = true, conflicts_with = "watch")]
    pub report: bool,

    /// Measure the path MTU (the default)
    #[arg(long, help_heading = "Path", overrides_with = "no_mtu", hide_short_help = true)]
    pub mtu: bool,
    /// Do not measure the path MTU
    #[arg(long, help_heading = "Path")]
    pub no_mtu: bool,
    /// Check whether TCP options are changed on the path (needs `longhaul serve`)
    #[arg(long, help_heading = "Path", hide_short_help = true)]
    pub options: bool,
    /// Find the narrow link: probe hops idle and under load
    ///
    /// Probes every hop idle, under load and idle, for TIME each [default: 8s].
    #[arg(
        long, value_name = "TIME", num_args = 0..=1, require_equals = true,
        default_missing_value = "8s", value_parser = accept_micros(3_000_000..=300_000_000), help_heading = "Path",
    )]
    pub load: Option<u64>,
    /// Number of streams of the load [default: 4]
    #[arg(short = 'P', long, value_name = "N", value_parser = parse_streams, requires = "load", help_heading = "Path", hide_short_help = true)]
    pub streams: Option<u32>,
    /// Reverse: the server sends the load
    #[arg(short = 'R', long, requires = "load", help_heading = "Path")]
    pub reverse: bool,

    #[command(flatten)]
    pub peer: PeerArgs,

    #[command(flatten)]
    pub output: OutputArgs,
}

pub fn run(args: &PathArgs) -> Result<ExitCode, CommandFailure> {
    let plan = plan_path(args)?;
    let target = path_target(args)?;
    // Ctrl-C is the usual end of a watch without a number of rounds.
    let open_ended = args.watch && args.count.is_none();
    let stop =
        if open_ended { interrupt::install_end_flag()? } else { interrupt::install_stop_flag()? };
    if args.watch {
        return path_watch::run(args, plan, target, &stop);
    }
    let report = run_path_measurement(args, plan, &target, &stop)?;
    show_path_report(args, &report)
}

/// Measures a path as part of another command: archives it without showing it.
pub fn measure_path(args: &PathArgs) -> Result<PathReport, CommandFailure> {
    let (plan, target) = (plan_path(args)?, path_target(args)?);
    run_path_measurement(args, plan, &target, &interrupt::install_stop_flag()?)
}

fn run_path_measurement(
    args: &PathArgs,
    plan: PathPlan,
    target: &TargetHost,
    stop: &StopFlag,
) -> Result<PathReport, CommandFailure> {
    let mut origins = HopOrigins::new(&args.output.archive, !args.no_names);
    let mut line = StatusLine::new(args.output.shows_progress());
    let outcome = path::run(target, &plan, None, stop, &mut |progress| {
        if let Some(route) = progress.route.or(progress.observation.route.as_ref()) {
            origins.request_names(route);
        }
        line.update(&format_path_progress(progress));
    });
    line.clear();
    Ok(archive_path_report(args, plan, outcome?, origins))
}

/// Builds the report, and archives it unless `--no-save` is given.
fn archive_path_report(
    args: &PathArgs,
    plan: PathPlan,
    mut outcome: PathOutcome,
    origins: HopOrigins,
) -> PathReport {
    let run = report_archiving::create_run_info(
        timestamp_of(outcome.started_at),
        outcome.duration,
        outcome.initiator,
        outcome.responder,
    );
    let mut caveats = origins.annotate_routes(&mut outcome.observation);
    if interrupt::was_cut_short() {
        let text = "interrupted before the end of the measurement";
        caveats.push(ReportCaveat::new(ReportCaveat::INTERRUPTED, text));
    }
    let mut own = outcome.load.take().map(|(plan, load)| {
        let part_of = ParentRun { id: run.id.clone(), index: 0 };
        report_archiving::build_throughput_report(plan, load, Some(part_of))
    });
    if let Some(load) = &mut own {
        report_archiving::archive_report(&args.output, load);
        if let Some(watch) = &mut outcome.observation.hop_load {
            watch.run_id = Some(load.run.id.clone());
        }
    }
    let (known, capacity) = load_path_history(args, &run, plan.load.as_ref(), own.as_ref());
    let conclusion = conclude_path(&plan, &outcome.observation, &known, capacity);
    caveats.extend(conclusion.caveats);
    let mut report = Report::new(run, plan, outcome.observation, conclusion.analysis)
        .with_notes(conclusion.findings, caveats);
    report_archiving::archive_report(&args.output, &mut report);
    report
}

/// Shows the report. Fails if nothing answered, unless the measurement was interrupted.
fn show_path_report(args: &PathArgs, report: &PathReport) -> Result<ExitCode, CommandFailure> {
    report_command::write_run(&args.output, report, build_path_document(report))?;
    if interrupt::was_cut_short() || has_any_answer(&report.observation) {
        return Ok(ExitCode::SUCCESS);
    }
    let who = format!("{} ({})", args.peer.host_name(), report.observation.address);
    Err(no_answer_failure(&who, &report.observation))
}

fn has_any_answer(seen: &PathObservation) -> bool {
    let echoes = [&seen.round_trips, &seen.round_trips_reverse];
    let mut echoes = echoes.into_iter().flatten().flat_map(|e| &e.echoes);
    let routes = [&seen.route, &seen.route_reverse];
    let mut hops = routes.into_iter().flatten().flat_map(|route| &route.hops);
    let mut probes = seen.mtu.iter().flat_map(|search| &search.probes);
    echoes.any(|echo| echo.rtt_ns.is_some())
        || hops.any(|hop| !hop.answers.is_empty())
        || probes.any(|probe| probe.arrived > 0)
        || seen.options.is_some()
        || seen.hop_load.is_some()
}

/// Returns the failure if nothing answered: a missing privilege, or no reply.
fn no_answer_failure(who: &str, seen: &PathObservation) -> CommandFailure {
    // Checks that only a longhaul server can do say nothing about this host's privileges.
    let own_parts = ["route", "round_trips", "mtu"];
    let own = seen.missing.iter().filter(|missing| own_parts.contains(&missing.what.as_str()));
    let own: Vec<&str> = own.map(|missing| missing.why.as_str()).collect();
    // Errors about a missing privilege contain the kernel's name for it.
    if !own.is_empty() && own.iter().all(|why| why.contains("CAP_NET_RAW")) {
        let fail = CommandFailure::new(HOST, format!("cannot probe {who} without privileges"));
        let fail = own.iter().fold(fail, |fail, why| fail.cause(*why));
        return fail.hint(Some("run as root, or use --udp, which needs no privileges"));
    }
    let fail = CommandFailure::new(PEER, format!("no answer from any hop on the path to {who}"));
    fail.hint(Some(
        "try --udp or --tcp, because filters differ; check the address and the routes of this host",
    ))
}

/// The default number of round trips, and the default time between two.
const DEFAULT_COUNT: u32 = 10;
const DEFAULT_INTERVAL_US: u64 = 100_000;
/// The minimum time of a watch round, to keep the load on routers low.
pub const MIN_ROUND_US: u64 = 1_000_000;
/// The default number of load streams, enough to fill a path with default buffers.
const DEFAULT_LOAD_STREAMS: u32 = 4;
/// The timeout of the connection that checks for a longhaul server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(4);

fn parse_confidence(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(value) if (0.5..=0.999).contains(&value) => Ok(value),
        _ => Err("must be 0.5 to 0.999".to_owned()),
    }
}

/// Builds the plan from the options.
fn plan_path(args: &PathArgs) -> Result<PathPlan, CommandFailure> {
    let protocol = choose_protocol(args);
    if args.to_port.is_some() && protocol == ProbeProtocol::Icmp {
        return Err(CommandFailure::new(USAGE, "--to-port needs --udp or --tcp")
            .hint(Some("use --port for the port of `longhaul serve`")));
    }
    if args.watch && args.interval.is_some_and(|us| us < MIN_ROUND_US) {
        return Err(CommandFailure::new(
            USAGE,
            "invalid value for '--interval <TIME>': must be at least 1 s with --watch",
        ));
    }
    Ok(PathPlan {
        protocol,
        port: args.to_port,
        round_trips: RoundTripPlan {
            protocol,
            probes: args.count.unwrap_or(DEFAULT_COUNT),
            interval_us: args.interval.unwrap_or(DEFAULT_INTERVAL_US),
            packet_bytes: args.size,
            timeout_us: args.timeout,
        },
        trace: (!args.no_route).then_some(TracePlan {
            most_hops: args.max_hops,
            probes: args.queries,
            timeout_us: args.timeout,
            confidence_ratio: args.alternatives,
        }),
        reverse: !args.no_reverse,
        mtu: !args.no_mtu,
        options: args.options,
        load: args.load.map(|phase_us| HopLoadPlan {
            phase_us,
            streams: args.streams.unwrap_or(DEFAULT_LOAD_STREAMS),
            forward: !args.reverse,
        }),
    })
}

fn choose_protocol(args: &PathArgs) -> ProbeProtocol {
    match (args.udp, args.tcp) {
        (true, _) => ProbeProtocol::Udp,
        (_, true) => ProbeProtocol::Tcp,
        _ => ProbeProtocol::Icmp,
    }
}

fn path_target(args: &PathArgs) -> Result<TargetHost, CommandFailure> {
    let target = option_resolution::peer_target(&args.peer)?;
    let connect_timeout = args.peer.local.connect_timeout.unwrap_or(CONNECT_TIMEOUT);
    Ok(TargetHost { connect_timeout, ..target })
}

/// The maximum number of earlier routes to compare with.
const MAX_ROUTES: u32 = 500;

/// Returns earlier routes of the path, and its capacity if it is known. If the archive cannot be
/// read, routes get no numbers.
fn load_path_history(
    args: &PathArgs,
    run: &RunInfo,
    load: Option<&HopLoadPlan>,
    load_run: Option<&ThroughputReport>,
) -> (Vec<KnownRoute>, Option<PathCapacityEstimate>) {
    let archive = command_output::open_archive(&args.output.archive).ok().flatten();
    let known = archive
        .as_ref()
        .and_then(|archive| report_archiving::earlier_runs(archive, run, MAX_ROUTES).ok())
        .unwrap_or_default();
    let known = known.iter().filter_map(KnownRoute::of).collect();
    let capacity = load.and_then(|load| {
        let estimated = archive.as_ref().and_then(|a| capacity_from_estimate(a, run, load));
        estimated.or_else(|| load_run.and_then(capacity_from_load))
    });
    (known, capacity)
}

/// Takes the capacity from the latest estimate of available bandwidth in the load's direction.
fn capacity_from_estimate(
    archive: &Archive,
    run: &RunInfo,
    load: &HopLoadPlan,
) -> Option<PathCapacityEstimate> {
    let latest: AvailableReport = report_archiving::earlier_runs(archive, run, 1).ok()?.pop()?;
    let analysis = latest.analysis;
    let estimate = if load.forward { analysis.forward? } else { analysis.reverse? };
    Some(PathCapacityEstimate {
        bps: estimate.capacity_bps?,
        interval_bps: estimate.capacity_interval_bps,
    })
}

/// Takes the capacity from the load itself, if the path limited it.
fn capacity_from_load(run: &ThroughputReport) -> Option<PathCapacityEstimate> {
    let by_the_path = run.analysis.limited_by == Limiter::PathCapacity;
    let bps = run.analysis.goodput_bps.filter(|_| by_the_path)?;
    Some(PathCapacityEstimate { bps, interval_bps: run.analysis.goodput_interval_bps })
}

fn format_path_progress(progress: &PathProgress<'_>) -> String {
    let what = match (progress.part, progress.route, progress.load) {
        (PathPart::Session, ..) => "looking for a longhaul server".to_owned(),
        (PathPart::RoundTrips, ..) => format_round_trips(progress.echoes),
        (PathPart::Route, Some(route), _) => format!("route: {} hops so far", route.hops.len()),
        (PathPart::Route, None, _) => "route".to_owned(),
        (PathPart::Mtu, ..) => "path MTU".to_owned(),
        (PathPart::Options, ..) => "TCP options".to_owned(),
        (PathPart::Reverse, ..) => "measurement from the server".to_owned(),
        (PathPart::Load, _, Some(load)) => {
            format!("hops under load for {:.0} s", load.elapsed.as_secs_f64())
        }
        (PathPart::Load, _, None) => "idle hops".to_owned(),
    };
    format!("{:>5.1} s  {what}", progress.elapsed.as_secs_f64())
}

fn format_round_trips(echoes: &[ProbeEcho]) -> String {
    let answered = echoes.iter().filter(|echo| echo.rtt_ns.is_some()).count();
    let last = echoes.iter().rev().find_map(|echo| echo.rtt_ns);
    let last = or_absent(last, |rtt| format!("{} ms", format_ms(rtt)));
    format!("RTT: {answered} answered, last {last}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::{CliArgs, CliCommand};
    use clap::Parser;

    fn asked(options: &[&str]) -> Result<PathPlan, CommandFailure> {
        let line = ["longhaul", "path", "far"].iter().chain(options);
        let CliCommand::Path(args) = CliArgs::parse_from(line).command else {
            panic!("another command");
        };
        plan_path(&args)
    }

    #[test]
    fn without_options_there_are_round_trips_a_route_the_far_view_and_the_mtu() {
        let plan = asked(&[]).expect("a plan");
        assert_eq!(plan.protocol, ProbeProtocol::Icmp);
        assert_eq!(plan.round_trips.probes, 10);
        assert!(plan.trace.is_some_and(|t| t.confidence_ratio.is_none()));
        assert!(plan.reverse && plan.mtu && !plan.options && plan.load.is_none());
    }

    #[test]
    fn options_with_optional_values_have_their_defaults() {
        let plan = asked(&["--alternatives", "--load", "-R", "--no-mtu"]).expect("a plan");
        assert_eq!(plan.trace.and_then(|trace| trace.confidence_ratio), Some(0.95));
        let load = plan.load.expect("a load");
        assert_eq!((load.phase_us, load.streams, load.forward), (8_000_000, 4, false));
        assert!(!plan.mtu);
        let plan = asked(&["--alternatives=0.99", "--load=4s", "-P", "8"]).expect("a plan");
        assert_eq!(plan.trace.and_then(|trace| trace.confidence_ratio), Some(0.99));
        assert_eq!(plan.load.map(|l| (l.phase_us, l.streams)), Some((4_000_000, 8)));
    }

    #[test]
    fn a_port_of_probes_needs_a_protocol_with_ports() {
        assert!(asked(&["--to-port", "80"]).is_err());
        let plan = asked(&["--to-port", "80", "--tcp"]).expect("a plan");
        assert_eq!((plan.protocol, plan.port), (ProbeProtocol::Tcp, Some(80)));
    }

    #[test]
    fn a_watch_is_not_faster_than_one_probe_a_second_and_hop() {
        assert!(asked(&["--watch", "-i", "500ms"]).is_err());
        assert!(asked(&["--watch", "-i", "2s"]).is_ok());
    }

    #[test]
    fn round_trips_are_counted_as_they_come() {
        let echo = |rtt_ns| ProbeEcho { at_us: 0, rtt_ns, ttl: None };
        let echoes = [echo(Some(1_500_000)), echo(None)];
        assert_eq!(format_round_trips(&echoes), "RTT: 1 answered, last 1.500 ms");
        assert_eq!(format_round_trips(&[]), "RTT: 0 answered, last -");
    }
}
