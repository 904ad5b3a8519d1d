//! `longhaul tune HOST`: runs probe after probe, then analyses, archives and shows the scan.
//!
//! The limiters of the probes so far determine the next probe of a guided search; a grid measures
//! every cell in shuffled order, without the cells that are done.
//!
//! - [`scan_history`]: earlier scans of the path in the archive
//! - [`active_scan`]: the scan in progress, and its progress on stderr
//! - [`probe_attempt`]: one probe

mod active_scan;
pub mod probe_attempt;
pub mod scan_history;

use crate::cli::args::{DirectionArgs, OutputArgs, PeerArgs, StreamArgs};
use crate::cli::firefly_sender::MarkingArgs;
use crate::cli::iperf3_server::Iperf3ServerArgs;
use crate::cli::report_archiving::{self, saturating_micros};
use crate::cli::value_parsers::{
    StreamCounts, WindowList, accept_count, accept_file, check_grid_size, parse_congestion_control,
    parse_run_bytes, parse_run_time, parse_stream_counts, parse_windows,
};
use crate::cli::{command_output, interrupt, option_resolution, report_command};
use crate::command_failure::{CommandFailure, INTERRUPTED, PEER, USAGE};
use active_scan::{ActiveScan, TunedServer, add_spent};
use clap::Args;
use jiff::Timestamp;
use longhaul_analysis::scan::{conclude_scan, order_cells};
use longhaul_analysis::tune::{
    ProbeTime, ProbeTrial, RememberedSetting, SearchProbe, SearchSpent, SearchStart, SearchStep,
    SearchStop, SettingSearch, setting_search,
};
use longhaul_model::report::v1::plan::{self, RunDirection, StopCondition};
use longhaul_model::report::v1::scan::{ScanBudget, ScanCell, ScanPlan, SearchMode, SettingChoice};
use longhaul_model::report::v1::{Report, ReportCaveat, RunInfo, ScanReport};
use longhaul_probe::plan_limits;
use longhaul_probe::supervise::StopFlag;
use longhaul_probe::throughput::{self, TargetHost};
use longhaul_report::number_format::count_of;
use longhaul_report::plot;
use longhaul_report::scan_text::{build_scan_document, render_scan_csv};
use longhaul_report::throughput_text::build_throughput_document;
use scan_history::TunedPath;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

const EXAMPLES: &str = include_str!("help/tune-examples.txt").trim_ascii_end();

const DETAILS: &str = include_str!("help/tune-details.txt").trim_ascii_end();

#[derive(Debug, Args)]
#[command(next_help_heading = "Search")]
#[command(after_help = EXAMPLES, after_long_help = [EXAMPLES, DETAILS].join("\n\n"))]
pub struct TuneArgs {
    #[command(flatten)]
    pub direction: DirectionArgs,
    /// Duration of a probe [default: until known]
    #[arg(short, long, value_name = "TIME", value_parser = parse_run_time)]
    pub time: Option<u64>,
    /// Max. probes [default: 10 per direction]
    #[arg(long, value_name = "N", value_parser = accept_count::<u32>(1..=1000), conflicts_with = "grid")]
    pub budget_probes: Option<u32>,
    /// Max. time [default: 5 min per direction]
    ///
    /// Unless it is given, a direction usually ends within 20 s, or 45 s on paths of more than 110 ms;
    /// only a search whose last probe was much faster than all before goes on.
    #[arg(long, value_name = "TIME", value_parser = parse_run_time, conflicts_with = "grid")]
    pub budget_time: Option<u64>,
    /// Max. payload [default: unlimited]
    #[arg(long, value_name = "SIZE", value_parser = parse_run_bytes, conflicts_with = "grid")]
    pub budget_bytes: Option<u64>,
    /// Windows to try, as sizes and ranges
    ///
    /// `auto` is autotuned by the kernel. Any may be tried by default; a grid has
    /// auto,64K,256K,1M,4M,16M.
    #[arg(short, long, value_name = "LIST", value_parser = parse_windows)]
    pub windows: Option<WindowList>,
    /// Numbers of streams to try [grid: 1-32]
    #[arg(short = 'P', long, alias = "parallel", value_name = "LIST", value_parser = parse_stream_counts)]
    pub streams: Option<StreamCounts>,
    /// Congestion controls to try: cubic,bbr
    ///
    /// `default` is the default of the sender.
    #[arg(
        short = 'C', long, value_name = "LIST", alias = "congestion",
        value_delimiter = ',', value_parser = parse_congestion_control,
    )]
    pub congestion_control: Vec<String>,
    /// Do not resume an interrupted scan
    #[arg(long)]
    pub fresh: bool,

    /// Measure every cell of windows x streams
    #[arg(long, help_heading = "Grid")]
    pub grid: bool,
    /// Number of measurements per cell
    #[arg(
        long, value_name = "N", value_parser = accept_count::<u32>(1..=100), default_value_t = 1,
        help_heading = "Grid", requires = "grid",
    )]
    pub repeats: u32,
    #[command(flatten)]
    pub stream: StreamArgs,
    #[command(flatten)]
    pub server: Iperf3ServerArgs,
    #[command(flatten)]
    pub peer: PeerArgs,
    #[command(flatten)]
    pub marking: MarkingArgs,

    #[command(flatten)]
    pub files: ScanFilesArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Files that a scan can be written to.
#[derive(Debug, Clone, Default, Args)]
pub struct ScanFilesArgs {
    /// Write the probes of a scan as CSV
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub csv: Option<PathBuf>,
    /// Plot the scan, load or prediction to an .svg file
    #[arg(long, value_name = "FILE", value_parser = accept_file(&["svg"]), help_heading = "Output")]
    pub plot: Option<PathBuf>,
}

pub fn run(args: &TuneArgs) -> Result<ExitCode, CommandFailure> {
    let plan = plan_scan(args)?;
    let target = TargetHost {
        flow_label: args.marking.flow_label(),
        ..option_resolution::peer_target(&args.peer)?
    };
    let fireflies = args.marking.firefly_sender(true)?;
    let stop = interrupt::install_stop_flag()?;
    let server = identify_tuned_server(args, &target, &stop)?;
    let path = server.path();
    let mut course = ActiveScan::begin(args, plan, server, fireflies, stop);
    let ended = match course.plan.search {
        SearchMode::Guided => search_all_directions(&mut course, &path),
        SearchMode::Grid => scan_grid(&mut course),
    };
    course.progress.line.clear();
    finish_scan(course, ended)
}

/// Finds out which protocol the server speaks, and the idle RTT.
fn identify_tuned_server(
    args: &TuneArgs,
    target: &TargetHost,
    stop: &StopFlag,
) -> Result<TunedServer, CommandFailure> {
    let own_target = target.clone();
    let found =
        throughput::connect_unless_stopped(stop, move || throughput::identify_server(&own_target))?;
    let server = args.server.choose_protocol(&found)?;
    // An iperf3 server takes each connection for a test.
    let idle_rtt = if let Some(rtt) = found.handshake_rtt.filter(|_| server.is_iperf3) {
        rtt
    } else {
        let own_target = found.target.clone();
        throughput::connect_unless_stopped(stop, move || {
            throughput::measure_connect_rtt(&own_target)
        })?
    };
    Ok(TunedServer {
        target: found.target,
        bulk_run: server.bulk_run,
        idle_rtt,
        caveats: server.caveats,
    })
}

/// Shows a scan, and archives it if it is complete. The probes of an interrupted one are archived,
/// and the same command resumes it.
fn finish_scan(
    mut course: ActiveScan<'_>,
    ended: Result<&'static str, CommandFailure>,
) -> Result<ExitCode, CommandFailure> {
    let (stopped_by, fail) = match ended {
        Ok(stopped_by) => (stopped_by, None),
        Err(fail) if fail.code == INTERRUPTED => ("interrupted", Some(fail)),
        Err(fail) => ("far_end_gone", Some(fail)),
    };
    if course.runs.is_empty() {
        if let Some(partial) = &course.partial_run {
            let output = &course.args.output;
            report_command::write_run(output, partial, build_throughput_document(partial))?;
        }
        let none = || CommandFailure::new(PEER, "no probe has a result");
        return Err(fail.or(course.last_failure.take()).unwrap_or_else(none));
    }
    let (args, archiving) = (course.args, course.archiving);
    let probes = count_of(course.runs.len() as u64, "finished probe");
    let mut report = build_scan_report(course, stopped_by);
    if archiving && fail.is_none() {
        report_archiving::archive_report(&args.output, &mut report);
    }
    report_command::write_run(&args.output, &report, build_scan_document(&report))?;
    write_scan_files(&args.files, &report)?;
    let Some(fail) = fail else {
        return Ok(ExitCode::SUCCESS);
    };
    Err(fail.hint(Some(if archiving {
        format!("run the same command again to resume the scan ({probes} archived)")
    } else {
        "run the same command again for a new scan; nothing was archived".to_owned()
    })))
}

fn build_scan_report(course: ActiveScan<'_>, stopped_by: &str) -> ScanReport {
    let ActiveScan {
        plan,
        entry: begun,
        started_at: began,
        mut observation,
        runs,
        mut caveats,
        ..
    } = course;
    observation.cells.sort_by_key(|cell| cell.index);
    let conclusion = conclude_scan(&plan, &observation, &runs, stopped_by);
    caveats.extend(conclusion.caveats);
    let one_end = |caveat: &&ReportCaveat| caveat.code == "iperf3_far_end";
    caveats.extend(runs.iter().flat_map(|run| run.caveats.iter().filter(one_end).cloned()));
    let first = &runs[0].run;
    let run = report_archiving::create_run_info(
        began,
        Timestamp::now().duration_since(began).unsigned_abs(),
        first.initiator.clone(),
        first.responder.clone(),
    );
    let run = RunInfo { id: begun.id, ..run };
    Report::new(run, plan, observation, conclusion.analysis)
        .with_notes(conclusion.findings, caveats)
}

/// Searches each requested direction, and returns the reason for the end of the scan.
fn search_all_directions(
    course: &mut ActiveScan<'_>,
    path: &TunedPath,
) -> Result<&'static str, CommandFailure> {
    let ways: &[bool] = match course.plan.direction {
        RunDirection::Forward => &[true],
        RunDirection::Reverse => &[false],
        RunDirection::Both => &[true, false],
    };
    let mut stopped = SearchStop::Settled;
    for (place, &forward) in ways.iter().enumerate() {
        let stop = search_direction(course, forward, ways.len() - place, path)?;
        // The first reason other than settled is the reason of the whole scan.
        if stopped == SearchStop::Settled {
            stopped = stop;
        }
    }
    Ok(stopped.word())
}

/// Searches one direction with its share of the remaining budget.
fn search_direction(
    course: &mut ActiveScan<'_>,
    forward: bool,
    ways_left: usize,
    path: &TunedPath,
) -> Result<SearchStop, CommandFailure> {
    let plan = direction_budget(&course.plan, course.budget_spent(!forward), ways_left);
    let remembered = scan_history::recall_setting(course.args, forward, path);
    let remembered = remembered.map(|SettingChoice { setting, goodput_bps, .. }| {
        RememberedSetting { setting, goodput_bps }
    });
    let start = SearchStart {
        remembered,
        idle_rtt: Some(path.idle_rtt),
        usual_time: usual_search_time(course.args, path.idle_rtt),
    };
    let mut search = SettingSearch::new(&plan, start);
    replay_probes(course, &mut search, forward);
    loop {
        let probe = match search.next(course.budget_spent(forward)) {
            SearchStep::Probe(probe) => probe,
            SearchStep::Done(stop) => return Ok(stop),
        };
        let time = probe_time(course, &probe);
        let wanted = ScanCell {
            index: course.next_index(),
            setting: probe.setting.clone(),
            forward,
            why: Some(probe.why),
            ..ScanCell::default()
        };
        let trial = match course.measure_cell(wanted, time)? {
            Some(report) => ProbeTrial::of(probe.setting, report),
            None => ProbeTrial::failed(probe.setting),
        };
        search.record(trial);
    }
}

/// Returns the budget of a direction if `ways_left` directions share the rest.
fn direction_budget(plan: &ScanPlan, elsewhere: SearchSpent, ways_left: usize) -> ScanPlan {
    let ways = ways_left.max(1) as u64;
    let time_us = saturating_micros(elsewhere.time);
    let budget = plan.budget;
    let left = u64::from(budget.probes.saturating_sub(elsewhere.probes));
    ScanPlan {
        budget: ScanBudget {
            probes: u32::try_from(left.div_ceil(ways)).unwrap_or(u32::MAX),
            time_us: budget.time_us.saturating_sub(time_us) / ways,
            bytes: budget.bytes.map(|bytes| bytes.saturating_sub(elsewhere.bytes) / ways),
        },
        ..plan.clone()
    }
}

/// Returns the time of a probe: that of the search, or the one given by `--time`.
fn probe_time(course: &ActiveScan<'_>, probe: &SearchProbe) -> ProbeTime {
    course.args.time.map_or(probe.time, |us| ProbeTime::fixed(Duration::from_micros(us)))
}

/// Replays the earlier probes to the search. The search is asked for each next probe, as it was
/// then, so that each cell gets its reason back.
fn replay_probes(course: &mut ActiveScan<'_>, search: &mut SettingSearch, forward: bool) {
    let mut spent = SearchSpent::default();
    for run in course.runs.iter().filter(|run| run.observation.forward == forward) {
        let own = |cell: &&mut ScanCell| cell.run_id.as_ref() == Some(&run.run.id);
        let Some(cell) = course.observation.cells.iter_mut().find(own) else {
            continue;
        };
        if let SearchStep::Probe(probe) = search.next(spent)
            && probe.setting == cell.setting
        {
            cell.why = Some(probe.why);
        }
        add_spent(&mut spent, cell);
        search.record(ProbeTrial::of(cell.setting.clone(), run));
    }
}

/// Measures every slot without a result.
fn scan_grid(course: &mut ActiveScan<'_>) -> Result<&'static str, CommandFailure> {
    let slots = order_cells(&course.plan);
    // Cells finished before the scan was resumed do not know whether they are sentinels.
    let mut done = BTreeSet::new();
    for cell in &mut course.observation.cells {
        if let Some(slot) = slots.get(cell.index as usize) {
            cell.sentinel = slot.sentinel;
            done.insert(cell.index);
        }
    }
    let time = ProbeTime::fixed(Duration::from_micros(probe_time_us(&course.plan)));
    for slot in slots.into_iter().filter(|slot| !done.contains(&slot.index)) {
        let wanted = ScanCell {
            index: slot.index,
            setting: slot.setting,
            forward: slot.forward,
            sentinel: slot.sentinel,
            ..ScanCell::default()
        };
        course.measure_cell(wanted, time)?;
    }
    Ok("grid_done")
}

/// The default budget of a guided search in one direction.
const DEFAULT_BUDGET_PROBES: u32 = 10;
const DEFAULT_BUDGET_TIME_US: u64 = 300 * 1_000_000;
/// The maximum payload time of a probe of a grid whose goodput is not known earlier.
const GRID_PROBE_TIME_US: u64 = 10_000_000;
/// The time of a probe besides its payload, roughly.
pub const PROBE_OVERHEAD_US: u64 = 1_500_000;
/// The number of samples per probe, few because a scan has many reports.
const SAMPLES_PER_PROBE: u64 = 60;
const MIN_INTERVAL_US: u64 = 100_000;
/// The windows and streams of a grid without lists.
const GRID_WINDOWS: [Option<u64>; 6] =
    [None, Some(64 << 10), Some(256 << 10), Some(1 << 20), Some(4 << 20), Some(16 << 20)];
const GRID_STREAMS: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// The seed of the random order of a grid.
const SEED: u64 = 1;
/// The word for the sender's default congestion control.
const DEFAULT_CONTROL: &str = "default";

/// Builds the plan from the options.
fn plan_scan(args: &TuneArgs) -> Result<ScanPlan, CommandFailure> {
    let direction = args.direction.direction();
    let ways = if direction == RunDirection::Both { 2 } else { 1 };
    let budget = ScanBudget {
        probes: args.budget_probes.unwrap_or(DEFAULT_BUDGET_PROBES * ways),
        time_us: args.budget_time.unwrap_or(DEFAULT_BUDGET_TIME_US * u64::from(ways)),
        bytes: args.budget_bytes,
    };
    // A guided search may try any window and number of streams.
    let (windows, streams): (&[_], &[_]) =
        if args.grid { (&GRID_WINDOWS, &GRID_STREAMS) } else { (&[], &[]) };
    let mut plan = ScanPlan {
        search: if args.grid { SearchMode::Grid } else { SearchMode::Guided },
        direction,
        windows_bytes: args.windows.clone().unwrap_or(windows.to_vec()),
        streams: args.streams.clone().unwrap_or(streams.to_vec()),
        congestion_controls: scan_controls(args),
        repeats: args.repeats,
        seed: SEED,
        present: None,
        budget,
        probe: probe_defaults(args),
    };
    check_scan_plan(&plan)?;
    if args.grid {
        plan.budget.probes = u32::try_from(order_cells(&plan).len()).unwrap_or(u32::MAX);
        plan.budget.time_us = plan_limits::MAX_RUN_US * u64::from(plan_limits::MAX_STREAMS);
    }
    Ok(plan)
}

/// Returns the usual time of the search of one direction, unless times are requested.
fn usual_search_time(args: &TuneArgs, idle_rtt: Duration) -> Option<Duration> {
    let is_requested = args.grid || args.time.is_some() || args.budget_time.is_some();
    (!is_requested).then(|| setting_search::find_usual_time(idle_rtt))
}

fn scan_controls(args: &TuneArgs) -> Vec<Option<String>> {
    let mut controls: Vec<Option<String>> = Vec::new();
    for name in &args.congestion_control {
        let control = (name != DEFAULT_CONTROL).then(|| name.clone());
        if !controls.contains(&control) {
            controls.push(control);
        }
    }
    controls
}

/// Returns the settings that all probes share.
fn probe_defaults(args: &TuneArgs) -> plan::ThroughputPlan {
    let usual_us =
        if args.grid { GRID_PROBE_TIME_US } else { saturating_micros(setting_search::MIN_TIME) };
    let time_us = args.time.unwrap_or(usual_us);
    plan::ThroughputPlan {
        stop: StopCondition::TimeUs(time_us),
        interval_us: sample_interval_us(time_us),
        affinity: args.stream.affinity.clone(),
        zero_copy: args.stream.zerocopy,
        dscp: args.stream.code_point(),
        ..plan::ThroughputPlan::default()
    }
}

/// Returns the sample interval of a probe of this duration.
pub fn sample_interval_us(time_us: u64) -> u64 {
    let (least, most) = plan_limits::INTERVAL_US;
    (time_us / SAMPLES_PER_PROBE).clamp(MIN_INTERVAL_US.max(least), most)
}

/// Returns the payload time of the plan's probes.
pub fn probe_time_us(plan: &ScanPlan) -> u64 {
    match plan.probe.stop {
        StopCondition::TimeUs(us) => us,
        StopCondition::Bytes(_) | StopCondition::Blocks(_) => GRID_PROBE_TIME_US,
    }
}

/// Checks combinations of values.
fn check_scan_plan(plan: &ScanPlan) -> Result<(), CommandFailure> {
    let usage = |text: &str| Err(CommandFailure::new(USAGE, text));
    plan_limits::check_plan(&plan.probe, plan_limits::MAX_STREAMS)
        .and_then(|()| plan_limits::check_cores(&plan.probe.affinity, true))
        .map_err(|e| CommandFailure::from_error(USAGE, &e))?;
    if plan.search == SearchMode::Grid {
        let lengths = [
            plan.windows_bytes.len(),
            plan.streams.len(),
            plan.congestion_controls.len().max(1),
            plan.repeats as usize,
        ];
        if let Err(why) = check_grid_size(&lengths) {
            return usage(&format!("the grid is too large: {why}"));
        }
    } else if plan.budget.time_us < probe_time_us(plan).saturating_add(PROBE_OVERHEAD_US) {
        return usage(
            "invalid value for '--budget-time <TIME>': shorter than one probe; increase it, \
             or shorten the probes with `--time`",
        );
    }
    Ok(())
}

/// Writes every requested file.
pub fn write_scan_files(files: &ScanFilesArgs, scan: &ScanReport) -> Result<(), CommandFailure> {
    if let Some(path) = &files.csv {
        let hint = "write it elsewhere with `longhaul report show last --csv FILE`";
        command_output::write_file(path, &render_scan_csv(scan), hint)?;
    }
    if let Some(path) = &files.plot {
        plot::write_figure(path, &plot::draw_heat_map(scan))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> ScanPlan {
        let text = r#"{"search": "guided", "direction": "both", "windows_bytes": [],
            "streams": [], "congestion_controls": [], "repeats": 1, "seed": 1,
            "budget": {"probes": 15, "time_us": 600, "bytes": 1000}}"#;
        let mut value: serde_json::Value = serde_json::from_str(text).expect("JSON");
        let probe = longhaul_model::report::v1::plan::ThroughputPlan::default();
        value["probe"] = serde_json::to_value(probe).expect("a plan");
        serde_json::from_value(value).expect("a plan")
    }

    #[test]
    fn two_directions_share_the_budget_and_the_second_gets_what_is_left() {
        let first = direction_budget(&plan(), SearchSpent::default(), 2).budget;
        assert_eq!((first.probes, first.time_us, first.bytes), (8, 300, Some(500)));
        let spent = SearchSpent { probes: 5, bytes: 900, time: Duration::from_micros(100) };
        let second = direction_budget(&plan(), spent, 1).budget;
        assert_eq!((second.probes, second.time_us, second.bytes), (10, 500, Some(100)));
    }

    #[test]
    fn samples_stay_few_however_long_a_probe_is() {
        for (time_us, want) in [
            (1_000_000, 100_000),
            (10_000_000, 166_666),
            (60_000_000, 1_000_000),
            (86_400_000_000, 60_000_000),
        ] {
            assert_eq!(sample_interval_us(time_us), want, "{time_us}");
        }
    }
}
