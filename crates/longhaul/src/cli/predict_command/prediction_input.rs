//! Builds the input of a prediction from options, or from an archived scan overridden by options.

use crate::cli::args::{ArchiveArgs, PredictArgs};
use crate::cli::command_output;
use crate::cli::value_parsers::setting_lists;
use crate::command_failure::{ARCHIVE, CommandFailure, USAGE};
use longhaul_analysis::predict::scan_derivation::{HEADER_BYTES, MSS_BYTES};
use longhaul_analysis::predict::{MODELLED, check_plan, derive_plan_from_scan};
use longhaul_model::report::v1::predict::{
    PredictionHosts, PredictionObservation, PredictionPath, PredictionPlan,
};
use longhaul_model::report::v1::{AnyReport, ReportCaveat, RunParty, ScanReport, ThroughputReport};
use longhaul_store::Archive;

/// Half of Linux's default maximum receive buffer (tcp_rmem, 6 MiB).
const DEFAULT_AUTO_WINDOW_BYTES: u64 = 3 << 20;
const DEFAULT_TIME_US: u64 = 30_000_000;
/// The default windows and streams.
const DEFAULT_WINDOWS: &str = "auto,64K-64M";
const DEFAULT_STREAM_COUNTS: &str = "1-32";
/// The maximum number of runs searched for the latest scan.
const MAX_SEARCHED_RUNS: u32 = 10_000;

/// The input of a prediction.
pub struct PredictionInput {
    pub plan: PredictionPlan,
    pub observation: PredictionObservation,
    pub initiator: RunParty,
    pub responder: RunParty,
    pub caveats: Vec<ReportCaveat>,
}

pub fn resolve_prediction_input(args: &PredictArgs) -> Result<PredictionInput, CommandFailure> {
    let mut asked = match &args.scan {
        Some(wanted) => input_from_scan(wanted, args)?,
        None => input_from_options(args)?,
    };
    apply_options(&mut asked.plan, args);
    let plan = &asked.plan;
    setting_lists::check_grid_size(&[
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
    check_plan(plan)
        .map_err(|e| CommandFailure::new(USAGE, format!("cannot predict this: {e}")))?;
    Ok(asked)
}

/// Builds the input for a path without hosts.
fn input_from_options(args: &PredictArgs) -> Result<PredictionInput, CommandFailure> {
    let (Some(rtt_us), Some(capacity_bps)) = (args.rtt, args.rate) else {
        return Err(CommandFailure::new(
            USAGE,
            "cannot predict without --rtt and --rate, or --scan",
        ));
    };
    let bug = |told: String| CommandFailure::new(crate::command_failure::BUG, told);
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
        windows_bytes: setting_lists::parse_windows(DEFAULT_WINDOWS).map_err(bug)?.0,
        streams: setting_lists::parse_stream_counts(DEFAULT_STREAM_COUNTS).map_err(bug)?.0,
        congestion_controls: vec![String::from("cubic")],
        loss_ratios: vec![0.0],
        buffers_bytes: vec![pipe as u64],
        time_us: DEFAULT_TIME_US,
        scan_id: None,
    };
    let place = |host: &str| RunParty { host: host.to_owned(), ..RunParty::default() };
    Ok(PredictionInput {
        plan,
        observation: PredictionObservation::default(),
        initiator: place("sender"),
        responder: place("receiver"),
        caveats: Vec::new(),
    })
}

fn input_from_scan(wanted: &str, args: &PredictArgs) -> Result<PredictionInput, CommandFailure> {
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
    Ok(PredictionInput {
        caveats: scan_caveats(&plan, &observation),
        plan,
        observation,
        initiator: scan.run.initiator,
        responder: scan.run.responder,
    })
}

/// Returns the scan and the reports of its probes.
fn find_scan(
    wanted: &str,
    args: &ArchiveArgs,
) -> Result<(ScanReport, Vec<ThroughputReport>), CommandFailure> {
    let path = command_output::archive_path(args)?;
    let archive = Archive::open_existing(&path)?.ok_or_else(|| {
        CommandFailure::new(ARCHIVE, format!("cannot find the archive {}", path.display())).hint(
            Some("create one with `longhaul tune HOST`, or name another with `--archive FILE`"),
        )
    })?;
    let id = match wanted {
        "last" => find_last_scan(&archive)?,
        id => id.to_owned(),
    };
    let AnyReport::Scan(scan) = archive.find(&id)? else {
        return Err(CommandFailure::new(
            USAGE,
            format!("cannot predict run {id}: it is not a scan"),
        )
        .hint(Some("list the runs and their kinds with `longhaul report list`")));
    };
    let runs = archive.throughput_parts(&scan.run.id)?;
    Ok((*scan, runs))
}

fn find_last_scan(archive: &Archive) -> Result<String, CommandFailure> {
    let entries = archive.list(MAX_SEARCHED_RUNS)?;
    let newest = entries.into_iter().find(|entry| entry.kind == "scan");
    newest.map(|entry| entry.id).ok_or_else(|| {
        CommandFailure::new(ARCHIVE, "cannot find a scan in the archive")
            .hint(Some("make one with `longhaul tune HOST --grid`"))
    })
}

/// Applies options over the values of the scan or the defaults.
fn apply_options(plan: &mut PredictionPlan, args: &PredictArgs) {
    let path = &mut plan.path;
    if args.scan.is_some() && (args.rtt.is_some() || args.rate.is_some()) {
        path.origin.push_str(", and options");
    }
    path.rtt_us = args.rtt.unwrap_or(path.rtt_us);
    path.capacity_bps = args.rate.unwrap_or(path.capacity_bps);
    path.mss_bytes = args.mss.unwrap_or(path.mss_bytes);
    let hosts = &mut plan.hosts;
    hosts.auto_window_bytes = args.auto_window.or(hosts.auto_window_bytes);
    hosts.granted_most_bytes = args.granted.or(hosts.granted_most_bytes);
    hosts.processor_bps = args.processor.or(hosts.processor_bps);
    plan.time_us = args.time.unwrap_or(plan.time_us);
    if let Some(windows) = &args.windows {
        plan.windows_bytes.clone_from(&windows.0);
    }
    if let Some(streams) = &args.streams {
        plan.streams.clone_from(&streams.0);
    }
    if let Some(losses) = &args.loss {
        plan.loss_ratios.clone_from(&losses.0);
    }
    if let Some(buffers) = &args.buffer {
        plan.buffers_bytes.clone_from(&buffers.0);
    }
    if !args.congestion.is_empty() {
        plan.congestion_controls.clone_from(&args.congestion);
        plan.congestion_controls.dedup();
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
            "the maximum autotuned window is unknown and not limited here (set it with `--auto-window`)",
        ));
    }
    all
}
