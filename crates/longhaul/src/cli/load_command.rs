//! `longhaul load HOST`: runs loads and probes, then analyses, archives and shows the result.

use crate::cli::args::{OutputArgs, PeerArgs, SocketArgs};
use crate::cli::iperf3_server::Iperf3ServerArgs;
use crate::cli::progress_lines::{StatusLine, print_statement};
use crate::cli::report_archiving::{self, timestamp_of};
use crate::cli::value_parsers::{self, accept_file, accept_micros, parse_run_time};
use crate::cli::value_parsers::{StreamCounts, parse_stream_counts};
use crate::cli::{interrupt, option_resolution, report_command, rpm_test};
use crate::command_failure::{self, CommandFailure, PEER, USAGE};
use clap::Args;
use longhaul_analysis::load::conclude_load;
use longhaul_model::report::v1::load::{LoadPlan, LoadStep};
use longhaul_model::report::v1::{LoadReport, ParentRun, Report, ReportCaveat};
use longhaul_model::units::{Rate, format_duration};
use longhaul_probe::load_run::{self, LoadOutcome, LoadRunProgress};
use longhaul_probe::probe_error::ProbeError;
use longhaul_probe::supervise::StopFlag;
use longhaul_probe::throughput::TargetHost;
use longhaul_report::load_text::{self, build_load_document};
use longhaul_report::number_format::{count_of, format_micros, or_absent};
use longhaul_report::plot;
use longhaul_rpm::rpm_config::WELL_KNOWN_PATH;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

const EXAMPLES: &str = include_str!("help/load-examples.txt").trim_ascii_end();

const DETAILS: &str = include_str!("help/load-details.txt").trim_ascii_end();

#[derive(Debug, Args)]
#[command(next_help_heading = "Load")]
#[command(after_help = EXAMPLES, after_long_help = [EXAMPLES, DETAILS].join("\n\n"))]
pub struct LoadArgs {
    /// Reverse: the server sends the load
    #[arg(short = 'R', long)]
    pub reverse: bool,
    /// Numbers of streams: a list such as 1,4,16, or ranges
    #[arg(short = 'P', long, alias = "parallel", value_name = "LIST", default_value = "1", value_parser = parse_stream_counts)]
    pub streams: StreamCounts,
    /// Total rates of a load: a list; max is unlimited
    #[arg(
        short = 'b', long, aliases = ["bitrate", "bandwidth"], value_name = "LIST", default_value = "max",
        value_parser = parse_rates,
    )]
    pub rate: RateList,
    /// Duration of each load [default: 10s]
    ///
    /// With --rpm the maximum time of each direction, 20s by default.
    #[arg(short, long, value_name = "TIME", value_parser = parse_run_time)]
    pub time: Option<u64>,
    /// Idle time before and between loads
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = accept_micros(IDLE_US))]
    pub idle: u64,
    /// Repeat every load with a sender that yields
    #[arg(long)]
    pub scavenger: bool,
    /// Measure the effect on another, plain stream
    #[arg(long)]
    pub competitor: bool,
    /// Time between RTT probes
    #[arg(long, value_name = "TIME", default_value = "10ms", hide_short_help = true, value_parser = accept_micros(load_run::PROBE_INTERVAL_US.0..=load_run::PROBE_INTERVAL_US.1))]
    pub probe_interval: u64,
    /// Measure responsiveness (RPM) of HTTP/2 instead
    ///
    /// As draft-ietf-ippm-responsiveness does. The server is `longhaul serve --rpm`, or one with its configuration at PATH.
    #[arg(
        long, value_name = "PATH", num_args = 0..=1, require_equals = true, value_parser = parse_url_path,
        default_missing_value = WELL_KNOWN_PATH,
        conflicts_with_all = ["reverse", "streams", "rate", "scavenger", "competitor", "probe_interval", "window", "congestion_control", "iperf3", "plot"],
    )]
    pub rpm: Option<String>,
    #[command(flatten)]
    pub socket: SocketArgs,

    #[command(flatten)]
    pub server: Iperf3ServerArgs,
    #[command(flatten)]
    pub peer: PeerArgs,

    /// Plot throughput, RTT and loss over time to an .svg file
    #[arg(long, value_name = "FILE", value_parser = accept_file(&["svg"]), help_heading = "Output")]
    pub plot: Option<PathBuf>,
    #[command(flatten)]
    pub output: OutputArgs,
}

pub fn run(args: &LoadArgs) -> Result<ExitCode, CommandFailure> {
    if let Some(path) = &args.rpm {
        return rpm_test::run_rpm_test(args, path);
    }
    let plan = plan_loads(args)?;
    let target = option_resolution::peer_target(&args.peer)?;
    let stop = interrupt::install_stop_flag()?;
    print_statement(&args.output, &describe_budget(&plan));
    let mut line = StatusLine::new(args.output.shows_progress());
    let (mut step, mut begun) = (None, Duration::ZERO);
    let outcome = run_loads(args, &target, &plan, &stop, &mut |now| {
        if step != now.step {
            (step, begun) = (now.step, now.elapsed);
        }
        line.update(&format_load_progress(&plan, now, now.elapsed.saturating_sub(begun)));
    })?;
    line.clear();
    let stopped = outcome.stopped;
    let report = archive_load_report(args, plan, outcome);
    report_command::write_run(&args.output, &report, build_load_document(&report))?;
    if let Some(path) = &args.plot {
        plot::write_figure(path, &plot::draw_load_chart(&report))?;
    }
    if !stopped {
        command_failure::require_peer(&report.caveats)?;
        require_any_load(&report)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs the loads by the server's protocol.
fn run_loads(
    args: &LoadArgs,
    target: &TargetHost,
    plan: &LoadPlan,
    stop: &StopFlag,
    watch: &mut dyn FnMut(&LoadRunProgress),
) -> Result<LoadOutcome, CommandFailure> {
    if !args.server.iperf3 {
        match load_run::run(target, plan, stop, watch) {
            Err(ProbeError::Iperf3There { .. }) if target.token.is_none() => {}
            ended => return Ok(ended?),
        }
    }
    if args.competitor {
        return Err(CommandFailure::new(USAGE, "an iperf3 server runs one test at a time")
            .hint(Some("omit --competitor")));
    }
    let server = args.server.use_iperf3(target)?;
    let mut outcome = load_run::run_from_one_end(target, server.bulk_run, plan, stop, watch)?;
    outcome.caveats.extend(server.caveats);
    Ok(outcome)
}

/// Fails if no load completed: the server or the path is then at fault.
fn require_any_load(report: &LoadReport) -> Result<(), CommandFailure> {
    let mut phases = report.observation.phases.iter();
    if phases.any(|phase| phase.load.is_some() || phase.competitor.is_some()) {
        return Ok(());
    }
    let mut fail = CommandFailure::new(PEER, "no load has a result")
        .hint(Some("check the server with `longhaul test`"));
    let errors = report.observation.phases.iter();
    fail.causes = errors.filter_map(|phase| phase.error.clone()).take(2).collect();
    Err(fail)
}

/// The size of a probe with its IP header: small beside any load, with room for timestamps.
const PROBE_BYTES: u32 = 100;
const DEFAULT_TIME_US: u64 = 10_000_000;
const IDLE_US: RangeInclusive<u64> = 500_000..=600_000_000;
/// The maximum length of the path of a URL.
const MAX_PATH_BYTES: usize = 1024;
/// The word for an unlimited rate.
const UNLIMITED: &str = "max";

/// A list of rates; `None` is unlimited.
pub type RateList = Vec<Option<u64>>;

/// Builds the plan from the options.
fn plan_loads(args: &LoadArgs) -> Result<LoadPlan, CommandFailure> {
    let plan = LoadPlan {
        forward: !args.reverse,
        steps: plan_load_steps(args),
        probe_interval_us: args.probe_interval,
        probe_bytes: PROBE_BYTES,
        idle_us: args.idle,
        load_us: args.time.unwrap_or(DEFAULT_TIME_US),
        responsiveness: None,
    };
    load_run::check_load_plan(&plan).map_err(|e| CommandFailure::from_error(USAGE, &e))?;
    Ok(plan)
}

/// Returns a step for each number of streams at each rate: first plain, then scavenger. The
/// competitor runs beside each load, and alone before the first and after the last one.
fn plan_load_steps(args: &LoadArgs) -> Vec<LoadStep> {
    let settings = || {
        let rates = args.rate.iter();
        rates.flat_map(|rate| args.streams.iter().map(|streams| (*streams, *rate)))
    };
    let load = |(streams, rate_bps): (u32, Option<u64>), scavenger: bool| LoadStep {
        streams,
        window_bytes: args.socket.window,
        congestion_control: args.socket.congestion_control.clone(),
        rate_bps,
        dscp: None,
        scavenger,
        competitor: false,
        baseline: false,
    };
    let pairs = |setting| {
        let kinds: &[bool] = if args.scavenger { &[false, true] } else { &[false] };
        kinds.iter().map(move |scavenger| load(setting, *scavenger))
    };
    let loads: Vec<LoadStep> = settings().flat_map(pairs).collect();
    if !args.competitor {
        return loads;
    }
    let baseline = LoadStep { competitor: true, baseline: true, ..load((1, None), false) };
    let baseline = LoadStep { window_bytes: None, congestion_control: None, ..baseline };
    let beside = loads.iter().map(|step| LoadStep { competitor: true, ..step.clone() });
    let mut steps: Vec<LoadStep> =
        std::iter::once(baseline.clone()).chain(beside).chain([baseline]).collect();
    if args.scavenger {
        // These measure the cost of yielding without a competitor.
        steps.extend(loads);
    }
    steps
}

/// Parses `20M,40M,max`.
fn parse_rates(text: &str) -> Result<RateList, String> {
    let one = |part: &str| match part.trim() {
        UNLIMITED | "0" => Ok(None),
        rate => value_parsers::parse_rate(rate).map(Some),
    };
    let mut rates = text.split(',').map(one).collect::<Result<Vec<Option<u64>>, String>>()?;
    // Unlimited comes last.
    rates.sort_by_key(|rate| rate.unwrap_or(u64::MAX));
    rates.dedup();
    Ok(rates)
}

/// Parses the path of a URL: from its first slash on, without white space.
fn parse_url_path(text: &str) -> Result<String, String> {
    let is_path = text.starts_with('/') && text.len() <= MAX_PATH_BYTES;
    if is_path && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(text.to_owned())
    } else {
        Err(format!("not the path of a URL, such as `{WELL_KNOWN_PATH}`"))
    }
}

/// Builds the report, and archives it and its runs unless `--no-save` is given.
pub fn archive_load_report(args: &LoadArgs, plan: LoadPlan, outcome: LoadOutcome) -> LoadReport {
    let run = report_archiving::create_run_info(
        timestamp_of(outcome.started_at),
        outcome.duration,
        outcome.initiator,
        outcome.responder,
    );
    let mut observation = outcome.observation;
    let mut caveats = outcome.caveats;
    for (index, part) in (0u32..).zip(outcome.runs) {
        let part_of = ParentRun { id: run.id.clone(), index };
        let mut report =
            report_archiving::build_throughput_report(part.plan, part.outcome, Some(part_of));
        report_archiving::archive_report(&args.output, &mut report);
        let phase = observation.phases.get_mut(part.phase);
        let flow = phase.and_then(|phase| {
            if part.competitor { phase.competitor.as_mut() } else { phase.load.as_mut() }
        });
        if let Some(flow) = flow {
            flow.limited_by = report.analysis.limited_by;
            flow.run_id = (!args.output.no_save).then(|| report.run.id.clone());
        }
    }
    if outcome.stopped {
        let text = "interrupted before the end of the loads";
        caveats.push(ReportCaveat::new(ReportCaveat::INTERRUPTED, text));
    }
    let conclusion = conclude_load(&plan, &observation);
    caveats.extend(conclusion.caveats);
    let mut report = Report::new(run, plan, observation, conclusion.analysis)
        .with_notes(conclusion.findings, caveats);
    report_archiving::archive_report(&args.output, &mut report);
    report
}

/// The time to set up a load and to exchange results, on a path of 100 ms.
const SETUP_TIME_US: u64 = 2_000_000;

/// Describes the loads and their total time.
fn describe_budget(plan: &LoadPlan) -> String {
    let steps = plan.steps.len() as u64;
    let whole = plan.idle_us * (steps + 1) + (plan.load_us + SETUP_TIME_US) * steps;
    format!(
        "{} of {}, with probes every {}: about {} in total",
        count_of(steps, "load"),
        format_micros(plan.load_us),
        format_micros(plan.probe_interval_us),
        format_micros(whole / 1_000_000 * 1_000_000)
    )
}

/// Formats the progress, with the mean rates of the current load, which has run for `time`.
fn format_load_progress(plan: &LoadPlan, now: &LoadRunProgress, time: Duration) -> String {
    let step = now.step.and_then(|i| plan.steps.get(i as usize));
    let what = step.map_or_else(|| "idle".to_owned(), load_text::describe_step);
    let rate = |bytes: Option<u64>| Rate::over(bytes?, time).map(|rate| rate.to_string());
    format!(
        "{:>6.1} s  {what}, RTT {}  {}  {}",
        now.elapsed.as_secs_f64(),
        or_absent(now.rtt, format_duration),
        rate(now.load_bytes).unwrap_or_default(),
        rate(now.competitor_bytes).unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::{CliArgs, CliCommand};
    use clap::Parser;

    fn asked(options: &[&str]) -> LoadPlan {
        let line = ["longhaul", "load", "far"].iter().chain(options);
        match CliArgs::try_parse_from(line).expect("options").command {
            CliCommand::Load(args) => plan_loads(&args).expect("a plan"),
            _ => panic!("another command"),
        }
    }

    fn kinds(plan: &LoadPlan) -> Vec<(u32, Option<u64>, &'static str)> {
        let kind = |step: &LoadStep| match (step.baseline, step.scavenger, step.competitor) {
            (true, _, _) => "alone",
            (_, true, true) => "yields beside",
            (_, true, false) => "yields",
            (_, false, true) => "beside",
            (_, false, false) => "plain",
        };
        let steps = plan.steps.iter();
        steps.map(|s| (s.streams, s.rate_bps, kind(s))).collect()
    }

    #[test]
    fn lists_give_every_combination() {
        let plan = asked(&["-P", "1,4", "-b", "max,20M"]);
        assert_eq!(
            kinds(&plan),
            [
                (1, Some(20_000_000), "plain"),
                (4, Some(20_000_000), "plain"),
                (1, None, "plain"),
                (4, None, "plain"),
            ]
        );
        assert!(plan.forward && plan.idle_us == 3_000_000 && plan.load_us == 10_000_000);
    }

    #[test]
    fn a_competitor_is_measured_alone_before_and_after() {
        let names = |options: &[&str]| {
            let plan = asked(options);
            kinds(&plan).into_iter().map(|k| k.2).collect::<Vec<_>>()
        };
        assert_eq!(names(&["--competitor"]), ["alone", "beside", "alone"]);
        assert_eq!(names(&["--scavenger"]), ["plain", "yields"]);
        assert_eq!(
            names(&["--competitor", "--scavenger"]),
            ["alone", "beside", "yields beside", "alone", "plain", "yields"]
        );
        assert!(!asked(&["-R"]).forward);
    }

    #[test]
    fn rates_are_refused_with_what_would_be_right() {
        assert_eq!(parse_rates("max,1M,1M"), Ok(vec![Some(1_000_000), None]));
        for text in ["", "fast", "1M,,2M", "10"] {
            assert!(parse_rates(text).is_err(), "{text}");
        }
    }
}
