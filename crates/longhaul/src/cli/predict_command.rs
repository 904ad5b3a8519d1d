//! `longhaul predict`: predicts throughput over windows and streams, alone or beside a scan, or the
//! finish of a transfer.

mod finish_command;

use crate::cli::args::{ArchiveArgs, OutputArgs};
use crate::cli::record_command::wrong_kind_failure;
use crate::cli::value_parsers::{
    self, LossRatios, SizeList, StreamCounts, WindowList, accept_round_trip, parse_loss_ratios,
    parse_queue_sizes, parse_stream_counts, parse_windows,
};
use crate::cli::value_parsers::{accept_count, accept_file, parse_rate, parse_run_time};
use crate::cli::{command_output, report_archiving, report_command};
use crate::command_failure::{ARCHIVE, CommandFailure, USAGE};
use clap::{Args, Subcommand};
use finish_command::FinishArgs;
use jiff::Timestamp;
use longhaul_analysis::predict::scan_derivation::{HEADER_BYTES, MSS_BYTES};
use longhaul_analysis::predict::{MODELLED, check_plan, derive_plan_from_scan, predict_goodput};
use longhaul_model::report::v1::predict::{
    PredictionAnalysis, PredictionHosts, PredictionObservation, PredictionPath, PredictionPlan,
};
use longhaul_model::report::v1::{
    AnyReport, PredictionReport, Report, ReportCaveat, ReportKind, RunParty, ScanReport,
    ThroughputReport,
};
use longhaul_probe::plan_limits;
use longhaul_report::plot;
use longhaul_report::prediction_text::build_prediction_document;
use longhaul_store::PathSelector;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

#[derive(Debug, Args)]
#[command(
    next_help_heading = "Settings",
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
pub struct PredictArgs {
    #[command(subcommand)]
    pub command: Option<PredictCommand>,
    /// Idle RTT of the path
    #[arg(long, value_name = "TIME", value_parser = accept_round_trip(),
        required_unless_present = "scan", help_heading = "Path")]
    pub rtt: Option<u64>,
    /// IP rate of the narrow link
    #[arg(short = 'b', long, value_name = "RATE", value_parser = parse_rate,
        required_unless_present = "scan", help_heading = "Path")]
    pub rate: Option<u64>,
    /// Queue sizes of the narrow link [default: one BDP]
    #[arg(long, value_name = "SIZES", value_parser = parse_queue_sizes, help_heading = "Path")]
    pub buffer: Option<SizeList>,
    /// Probabilities of random segment loss [default: 0]
    #[arg(long, value_name = "RATIOS", value_parser = parse_loss_ratios, help_heading = "Path")]
    pub loss: Option<LossRatios>,
    /// Payload bytes per segment [default: 1448]
    #[arg(short = 'M', long, value_name = "BYTES", value_parser = accept_count::<u32>(plan_limits::MSS_BYTES.0..=plan_limits::MSS_BYTES.1), help_heading = "Path")]
    pub mss: Option<u32>,
    /// Use path, hosts and settings of this scan, and compare with it: a scan id, its first
    /// letters, or `last`. Other options override the values of the scan
    #[arg(long, value_name = "ID", help_heading = "Path")]
    pub scan: Option<String>,
    /// Use the reverse direction of the scan
    #[arg(short = 'R', long, requires = "scan", help_heading = "Path")]
    pub reverse: bool,
    /// Windows: sizes, ranges that double (64K-64M) or step (1M-4M/1M), auto
    /// [default: auto,64K-64M]
    #[arg(short = 'w', long, value_name = "SIZES", value_parser = parse_windows)]
    pub windows: Option<WindowList>,
    /// Streams: numbers, ranges that double (1-32) or step (4-32/4) [default: 1-32]
    #[arg(short = 'P', long, value_name = "NUMBERS", value_parser = parse_stream_counts)]
    pub streams: Option<StreamCounts>,
    /// Congestion controls: reno, cubic, bbr [default: cubic]
    #[arg(
        short = 'C', long = "congestion", value_name = "NAMES", value_delimiter = ',',
        value_parser = ["reno", "cubic", "bbr"], hide_possible_values = true,
    )]
    pub congestion: Vec<String>,
    /// Duration of the transfer, including its ramp [default: 30s, or the scan's]
    #[arg(short = 't', long, value_name = "TIME", value_parser = parse_run_time)]
    pub time: Option<u64>,
    /// Plot goodput over streams to an .svg file
    #[arg(long, value_name = "FILE", value_parser = accept_file(&["svg"]), help_heading = "Output")]
    pub plot: Option<PathBuf>,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Subcommand)]
pub enum PredictCommand {
    /// Forecast when a transfer will finish, from the archive
    Finish(Box<FinishArgs>),
}

pub fn run(args: &PredictArgs) -> Result<ExitCode, CommandFailure> {
    if let Some(PredictCommand::Finish(finish)) = &args.command {
        return finish_command::run(finish);
    }
    let began = Instant::now();
    let mut report = match &args.scan {
        Some(wanted) => begin_from_scan(wanted, args)?,
        None => begin_from_options(args)?,
    };
    apply_options(&mut report.plan, args);
    check_prediction(&report.plan)?;
    report.analysis = predict_goodput(&report.plan, &report.observation);
    report.run.duration_us = report_archiving::saturating_micros(began.elapsed());
    report_archiving::archive_report(&args.output, &mut report);
    if let Some(path) = &args.plot {
        plot::write_figure(path, &plot::draw_prediction(&report))?;
    }
    report_command::write_run(&args.output, &report, build_prediction_document(&report))?;
    Ok(ExitCode::SUCCESS)
}

/// Half of Linux's default maximum receive buffer (tcp_rmem, 6 MiB).
const DEFAULT_AUTO_WINDOW_BYTES: u64 = 3 << 20;
const DEFAULT_TIME_US: u64 = 30_000_000;

fn check_prediction(plan: &PredictionPlan) -> Result<(), CommandFailure> {
    value_parsers::check_grid_size(&[
        plan.windows_bytes.len(),
        plan.streams.len(),
        plan.congestion_controls.len(),
        plan.loss_ratios.len(),
        plan.buffers_bytes.len(),
    ])
    .map_err(|told| {
        CommandFailure::new(USAGE, format!("cannot predict this many cells: {told}"))
            .hint(Some("reduce the windows, streams, losses or buffers"))
    })?;
    check_plan(plan).map_err(|e| CommandFailure::new(USAGE, format!("cannot predict this: {e}")))
}

/// Creates a report whose cells are not predicted yet.
fn begin_report(
    plan: PredictionPlan,
    observation: PredictionObservation,
    [initiator, responder]: [RunParty; 2],
) -> PredictionReport {
    let (started, not_yet) = (Timestamp::now(), Duration::ZERO);
    let run = report_archiving::create_run_info(started, not_yet, initiator, responder);
    Report::new(run, plan, observation, PredictionAnalysis::default())
}

/// Begins the prediction of a path without hosts.
fn begin_from_options(args: &PredictArgs) -> Result<PredictionReport, CommandFailure> {
    let (Some(rtt_us), Some(capacity_bps)) = (args.rtt, args.rate) else {
        let text = "cannot predict without --rtt and --rate, or --scan";
        return Err(CommandFailure::new(USAGE, text));
    };
    let pipe = capacity_bps as f64 * rtt_us as f64 / 8e6;
    let plan = PredictionPlan {
        path: PredictionPath {
            capacity_bps,
            rtt_us,
            mss_bytes: MSS_BYTES,
            header_bytes: HEADER_BYTES,
            origin: String::from("asked"),
        },
        hosts: PredictionHosts {
            auto_window_bytes: Some(DEFAULT_AUTO_WINDOW_BYTES),
            ..PredictionHosts::default()
        },
        // auto, and 64 KiB to 64 MiB.
        windows_bytes: std::iter::once(None).chain((16..=26).map(|n| Some(1 << n))).collect(),
        streams: vec![1, 2, 4, 8, 16, 32],
        congestion_controls: vec![String::from("cubic")],
        loss_ratios: vec![0.0],
        buffers_bytes: vec![pipe as u64],
        time_us: DEFAULT_TIME_US,
        scan_id: None,
    };
    let place = |host: &str| RunParty { host: host.to_owned(), ..RunParty::default() };
    let parties = ["sender", "receiver"].map(place);
    Ok(begin_report(plan, PredictionObservation::default(), parties))
}

fn begin_from_scan(wanted: &str, args: &PredictArgs) -> Result<PredictionReport, CommandFailure> {
    let (scan, runs) = find_scan(wanted, &args.output.archive)?;
    let forward = !args.reverse;
    let (plan, observation) = derive_plan_from_scan(&scan, &runs, forward).map_err(|e| {
        let told = format!("cannot predict scan {}: {e}", scan.run.id);
        let way = if forward {
            "use `--reverse` for the cells in which the server sent"
        } else {
            "omit `--reverse` for the cells in which this host sent"
        };
        CommandFailure::new(USAGE, told).hint(Some(way))
    })?;
    let caveats = scan_caveats(&plan, &observation);
    let report = begin_report(plan, observation, [scan.run.initiator, scan.run.responder]);
    Ok(report.with_notes(Vec::new(), caveats))
}

/// Returns the scan and the reports of its probes.
fn find_scan(
    wanted: &str,
    args: &ArchiveArgs,
) -> Result<(ScanReport, Vec<ThroughputReport>), CommandFailure> {
    let archive = command_output::require_archive(args, "longhaul tune HOST")?;
    let scan = match wanted {
        "last" => archive
            .recent_reports::<ScanReport>(&PathSelector::default(), 1)?
            .pop()
            .ok_or_else(|| {
                CommandFailure::new(ARCHIVE, "cannot find a scan in the archive")
                    .hint(Some("make one with `longhaul tune HOST --grid`"))
            })?,
        id => {
            let AnyReport::Scan(scan) = archive.find(id)? else {
                return Err(wrong_kind_failure(id, ReportKind::Scan));
            };
            *scan
        }
    };
    let runs = archive.throughput_parts(&scan.run.id)?;
    Ok((scan, runs))
}

/// Applies options over the values of the scan or the defaults.
fn apply_options(plan: &mut PredictionPlan, args: &PredictArgs) {
    let path = &mut plan.path;
    if args.scan.is_some() && (args.rtt.is_some() || args.rate.is_some()) {
        path.origin.push_str(", and options");
    }
    replace_if_given(&mut path.rtt_us, args.rtt.as_ref());
    replace_if_given(&mut path.capacity_bps, args.rate.as_ref());
    replace_if_given(&mut path.mss_bytes, args.mss.as_ref());
    replace_if_given(&mut plan.time_us, args.time.as_ref());
    replace_if_given(&mut plan.windows_bytes, args.windows.as_ref());
    replace_if_given(&mut plan.streams, args.streams.as_ref());
    replace_if_given(&mut plan.loss_ratios, args.loss.as_ref());
    replace_if_given(&mut plan.buffers_bytes, args.buffer.as_ref());
    let controls = Some(&args.congestion).filter(|controls| !controls.is_empty());
    replace_if_given(&mut plan.congestion_controls, controls);
    plan.congestion_controls.dedup();
}

fn replace_if_given<T: Clone>(value: &mut T, given: Option<&T>) {
    if let Some(given) = given {
        value.clone_from(given);
    }
}

/// Returns caveats about what the scan could not determine.
fn scan_caveats(plan: &PredictionPlan, observation: &PredictionObservation) -> Vec<ReportCaveat> {
    let mut all = Vec::new();
    if plan.path.origin.contains("at least") {
        all.push(ReportCaveat::new(
            "capacity_unknown",
            "no cell of the scan filled the path; its capacity may be higher (set it with `--rate`)",
        ));
    }
    let known = |name: &str| MODELLED.contains(&name);
    let others = observation.measured.iter().filter(|m| {
        let name = m.setting.congestion_control.as_deref();
        !name.is_some_and(known) || m.setting.pacing_bps.is_some()
    });
    let left_out = others.count();
    if left_out > 0 {
        all.push(ReportCaveat::new(
            "not_modelled",
            format!("{left_out} of the probes were paced or used a congestion control without a model; they are left out"),
        ));
    }
    if plan.hosts.auto_window_bytes.is_none() && plan.windows_bytes.contains(&None) {
        all.push(ReportCaveat::new(
            "auto_window_unknown",
            "the maximum autotuned window is unknown and not limited here (give windows with `--windows`)",
        ));
    }
    all
}
