//! A scan in progress: runs probe after probe, shows each and archives it before anything else.

use crate::cli::args::TuneArgs;
use crate::cli::command_output;
use crate::cli::firefly_sender::FireflySender;
use crate::cli::progress_lines::{StatusLine, print_statement, rate_since};
use crate::cli::report_archiving::{self, saturating_micros};
use crate::cli::tune_command::probe_attempt::{self, ProbeEnding};
use crate::cli::tune_command::scan_history::{self, TunedPath};
use crate::cli::tune_command::{
    PROBE_OVERHEAD_US, probe_time_us, sample_interval_us, usual_search_time,
};
use crate::command_failure::{CommandFailure, INTERRUPTED, PEER};
use jiff::Timestamp;
use longhaul_analysis::scan::{build_cell, build_probe_plan};
use longhaul_analysis::throughput::limiter_label;
use longhaul_analysis::tune::{ProbeTime, SearchSpent};
use longhaul_model::report::v1::plan::{self, DEFAULT_PRECISION_PERMILLE, StopCondition};
use longhaul_model::report::v1::scan::{
    ScanCell, ScanObservation, ScanPlan, SearchMode, TransferSetting,
};
use longhaul_model::report::v1::{ParentRun, ReportCaveat, ThroughputReport};
use longhaul_model::units::Bytes;
use longhaul_probe::supervise::StopFlag;
use longhaul_probe::throughput::{BulkRun, TargetHost, ThroughputProgress};
use longhaul_report::number_format::{ABSENT, count_of, format_micros, format_rate, or_absent};
use longhaul_report::scan_text::setting_format::{format_setting, format_span};
use longhaul_report::style::{FAINT, paint};
use longhaul_report::text_page::{WIDTH, wrap_text};
use longhaul_store::UnfinishedScan;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The number of attempts of a probe whose connection is lost.
const ATTEMPTS: u32 = 2;
/// The number of consecutive lost probes after which the server counts as gone.
const MAX_CUT_OFFS: u32 = 3;

/// The server of a scan.
pub struct TunedServer {
    /// With the address of all probes.
    pub target: TargetHost,
    pub bulk_run: Arc<BulkRun>,
    pub idle_rtt: Duration,
    pub caveats: Vec<ReportCaveat>,
}

impl TunedServer {
    pub fn path(&self) -> TunedPath {
        TunedPath { address: self.target.chosen_ip(), idle_rtt: self.idle_rtt }
    }
}

/// A scan in progress.
pub struct ActiveScan<'a> {
    pub args: &'a TuneArgs,
    pub plan: ScanPlan,
    pub target: TargetHost,
    bulk_run: Arc<BulkRun>,
    pub entry: UnfinishedScan,
    pub started_at: Timestamp,
    pub observation: ScanObservation,
    /// The reports of successful cells, in the same order.
    pub runs: Vec<ThroughputReport>,
    pub caveats: Vec<ReportCaveat>,
    pub progress: ScanProgress<'a>,
    stop: StopFlag,
    fireflies: Option<FireflySender>,
    /// The latest run that ended early.
    pub partial_run: Option<ThroughputReport>,
    cut_off_probes: u32,
    /// The failure of the latest failed probe.
    pub last_failure: Option<CommandFailure>,
    /// Whether probes and result are archived.
    pub archiving: bool,
}

impl<'a> ActiveScan<'a> {
    /// Starts a new scan, or resumes the one that the same command left unfinished.
    pub fn begin(
        args: &'a TuneArgs,
        plan: ScanPlan,
        server: TunedServer,
        fireflies: Option<FireflySender>,
        stop: StopFlag,
    ) -> ActiveScan<'a> {
        let (history, caveats) = scan_history::begin_or_resume(args, &plan, &server.path());
        let mut told = ScanProgress::new(args);
        command_output::print_caveats(&caveats);
        told.print_statement(&describe_budget(&plan, usual_search_time(args, server.idle_rtt)));
        let mut course = ActiveScan {
            args,
            plan,
            target: server.target,
            bulk_run: server.bulk_run,
            started_at: history.started_at,
            entry: history.entry,
            observation: ScanObservation::default(),
            runs: Vec::new(),
            archiving: !args.output.no_save && caveats.is_empty(),
            caveats: caveats.into_iter().chain(server.caveats).collect(),
            progress: told,
            stop,
            fireflies,
            partial_run: None,
            cut_off_probes: 0,
            last_failure: None,
        };
        // Probes finished before the scan was resumed.
        for run in history.parts {
            if let Some(part) = run.run.part_of.as_ref() {
                course.observation.cells.push(rebuild_cell(history.started_at, part.index, &run));
                course.runs.push(run);
            }
        }
        let cells = course.observation.cells.len();
        course.progress.print_resumed(&course.entry.id, cells, &course.plan);
        course
    }

    /// Returns the budget spent in one direction.
    pub fn budget_spent(&self, forward: bool) -> SearchSpent {
        let mut spent = SearchSpent::default();
        for cell in self.observation.cells.iter().filter(|cell| cell.forward == forward) {
            add_spent(&mut spent, cell);
        }
        spent
    }

    /// Returns the index after the last cell.
    pub fn next_index(&self) -> u32 {
        let indexes = self.observation.cells.iter().map(|cell| cell.index);
        indexes.max().map_or(0, |index| index + 1)
    }

    /// Runs one probe and adds its cell. A setting that is refused gives a failed cell.
    pub fn measure_cell(
        &mut self,
        wanted: ScanCell,
        time: ProbeTime,
    ) -> Result<Option<&ThroughputReport>, CommandFailure> {
        self.fail_if_interrupted()?;
        let wanted =
            ScanCell { at_us: micros_between(self.started_at, Timestamp::now()), ..wanted };
        let begun = Instant::now();
        self.progress.begin_probe(&wanted);
        for _ in 0..ATTEMPTS {
            let plan = self.probe_plan(&wanted, time.longest);
            let (told, fireflies) = (&mut self.progress, &mut self.fireflies);
            let mut ending = probe_attempt::run_probe(
                &self.target,
                &plan,
                &*self.bulk_run,
                &self.stop,
                Some(time.usual),
                &mut |progress| {
                    if let Some(fireflies) = fireflies {
                        fireflies.observe_run(progress);
                    }
                    told.update_probe(&wanted, time.usual, progress);
                },
            );
            self.finish_fireflies(&mut ending);
            match ending {
                ProbeEnding::Measured(outcome) => {
                    let part = ParentRun { id: self.entry.id.clone(), index: wanted.index };
                    let report =
                        report_archiving::build_throughput_report(plan, *outcome, Some(part));
                    self.add_result(wanted, report);
                    return Ok(self.runs.last());
                }
                ProbeEnding::CutShort(outcome, fail) => {
                    let part = ParentRun { id: self.entry.id.clone(), index: wanted.index };
                    let report =
                        report_archiving::build_throughput_report(plan, *outcome, Some(part));
                    self.keep_partial_run(report);
                    self.wait_for_server(fail)?;
                }
                ProbeEnding::SettingRefused(fail) => {
                    self.cut_off_probes = 0;
                    self.add_failed_cell(wanted, begun, fail.chain());
                    self.last_failure = Some(fail);
                    return Ok(None);
                }
                ProbeEnding::ConnectionLost(fail) => self.wait_for_server(fail)?,
                ProbeEnding::WrongServer(fail) => return Err(fail),
                ProbeEnding::Interrupted(_) => return Err(interrupted_failure()),
            }
        }
        let why = self.last_failure.as_ref().map_or_else(String::new, |fail| fail.message.clone());
        self.add_failed_cell(wanted, begun, why);
        Ok(None)
    }

    /// Reports that the connections of a probe have ended, and what their mark lacks.
    fn finish_fireflies(&mut self, ending: &mut ProbeEnding) {
        let Some(fireflies) = &mut self.fireflies else { return };
        if let ProbeEnding::Measured(outcome) = ending {
            fireflies.observe_result(&outcome.observation);
            outcome.caveats.extend(fireflies.finish_run());
        } else {
            fireflies.finish_run();
        }
    }

    fn fail_if_interrupted(&self) -> Result<(), CommandFailure> {
        if self.stop.load(Ordering::Relaxed) { Err(interrupted_failure()) } else { Ok(()) }
    }

    /// Returns the plan of a probe. If no time is requested, it ends when its goodput is known.
    fn probe_plan(&self, wanted: &ScanCell, time: Duration) -> plan::ThroughputPlan {
        let until_known = self.args.time.is_none();
        let time_us = saturating_micros(time);
        plan::ThroughputPlan {
            stop: StopCondition::TimeUs(time_us),
            interval_us: sample_interval_us(time_us),
            precision_permille: until_known.then_some(DEFAULT_PRECISION_PERMILLE),
            ..build_probe_plan(&self.plan.probe, &wanted.setting, wanted.forward)
        }
    }

    fn add_result(&mut self, wanted: ScanCell, mut report: ThroughputReport) {
        if self.archiving {
            report_archiving::archive_report(&self.args.output, &mut report);
        }
        let lost = |caveat: &&ReportCaveat| caveat.code == "not_archived";
        if let Some(caveat) = report.caveats.iter().find(lost) {
            self.archiving = false;
            self.caveats.push(caveat.clone());
        }
        self.cut_off_probes = 0;
        let ScanCell { index, setting, forward, sentinel, at_us, why, .. } = wanted;
        let cell = build_cell(index, setting, forward, sentinel, at_us, &report);
        self.add_cell(ScanCell { why, ..cell });
        self.runs.push(report);
    }

    fn add_failed_cell(&mut self, wanted: ScanCell, begun: Instant, why: String) {
        let duration_us = saturating_micros(begun.elapsed());
        self.add_cell(ScanCell { duration_us, error: Some(why), ..wanted });
    }

    fn add_cell(&mut self, cell: ScanCell) {
        self.progress.end_probe(&cell);
        self.observation.cells.push(cell);
    }

    /// Archives a run that ended early. It has no cell: the scan measures the setting again.
    fn keep_partial_run(&mut self, mut report: ThroughputReport) {
        if self.archiving {
            report_archiving::archive_report(&self.args.output, &mut report);
        }
        self.partial_run = Some(report);
    }

    /// Waits until the server accepts connections again.
    fn wait_for_server(&mut self, fail: CommandFailure) -> Result<(), CommandFailure> {
        self.fail_if_interrupted()?;
        self.cut_off_probes += 1;
        self.progress.print_statement(&format!("{}; waiting for the server", fail.message));
        let back = self.cut_off_probes < MAX_CUT_OFFS
            && probe_attempt::wait_until_reachable(&self.target, &self.stop);
        self.fail_if_interrupted()?;
        if !back {
            return Err(CommandFailure { code: PEER, ..fail });
        }
        self.last_failure = Some(fail);
        Ok(())
    }
}

fn interrupted_failure() -> CommandFailure {
    CommandFailure::new(INTERRUPTED, "the scan was interrupted")
}

/// Builds the cell of an earlier probe from its report.
fn rebuild_cell(scan_started_at: Timestamp, index: u32, run: &ThroughputReport) -> ScanCell {
    let setting = TransferSetting {
        window_bytes: run.plan.send_buffer_bytes,
        streams: run.plan.streams,
        congestion_control: run.plan.congestion_control.clone(),
        pacing_bps: run.plan.pacing_bps,
    };
    let at = run.run.started_at.parse::<Timestamp>();
    let at_us = at.map_or(0, |at| micros_between(scan_started_at, at));
    build_cell(index, setting, run.observation.forward, false, at_us, run)
}

/// Adds the cost of a cell.
pub fn add_spent(spent: &mut SearchSpent, cell: &ScanCell) {
    spent.probes += 1;
    spent.bytes += cell.receiver_bytes.unwrap_or(0);
    spent.time += Duration::from_micros(cell.duration_us);
}

fn micros_between(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.duration_since(from).as_micros()).unwrap_or(0)
}

/// Prints the progress of a scan.
pub struct ScanProgress<'a> {
    args: &'a TuneArgs,
    pub line: StatusLine,
}

impl ScanProgress<'_> {
    pub fn new(args: &TuneArgs) -> ScanProgress<'_> {
        ScanProgress { args, line: StatusLine::new(args.output.shows_progress()) }
    }

    fn print_statement(&mut self, text: &str) {
        self.line.clear();
        print_statement(&self.args.output, text);
    }

    /// Prints that the probes of an earlier process are reused.
    pub fn print_resumed(&mut self, id: &str, cells: usize, plan: &ScanPlan) {
        if cells > 0 {
            let probes = plan.budget.probes;
            let of = if self.args.grid { format!(" of {probes}") } else { String::new() };
            self.print_statement(&format!(
                "resuming scan {id}: {cells}{of} probes are done; --fresh starts a new scan"
            ));
        }
    }

    /// Starts the line of a probe.
    pub fn begin_probe(&mut self, wanted: &ScanCell) {
        if let Some(why) = &wanted.why {
            let text = format!("probe {}: {why}", wanted.index + 1);
            self.line.print(&paint(FAINT, wrap_text(&text, WIDTH).join("\n")));
        }
        let label = self.format_label(wanted);
        self.line.draw(&format!("{label}connecting"));
    }

    /// Updates the line of the current probe.
    pub fn update_probe(
        &mut self,
        wanted: &ScanCell,
        time: Duration,
        progress: &ThroughputProgress,
    ) {
        let flow = if wanted.forward { &progress.forward } else { &progress.reverse };
        let Some(flow) = flow else {
            return;
        };
        let goodput = or_absent(rate_since(None, flow), |rate| rate.to_string());
        let (elapsed, time) = (progress.elapsed.as_secs_f64(), time.as_secs_f64());
        let label = self.format_label(wanted);
        self.line.update(&format!("{label}{elapsed:>4.1} of {time:.0} s  {goodput:>14}"));
    }

    /// Completes the line of a probe.
    pub fn end_probe(&mut self, cell: &ScanCell) {
        let label = self.format_label(cell);
        let what = match &cell.error {
            Some(error) => format!("failed: {error}"),
            None => format!(
                "{:>14}  {}, RTT {}",
                or_absent(cell.goodput_bps, format_rate),
                cell.limited_by.map_or(ABSENT, limiter_label),
                or_absent(cell.loaded_rtt_us, format_micros)
            ),
        };
        self.line.print(&format!("{label}{what}"));
    }

    fn format_label(&self, cell: &ScanCell) -> String {
        let way = match (self.args.direction.bidir, cell.forward) {
            (false, _) => "",
            (true, true) => " fwd",
            (true, false) => " rev",
        };
        format!("{:>4}{way}  {:<18} ", cell.index + 1, format_setting(&cell.setting))
    }
}

fn describe_budget(plan: &ScanPlan, usual_time: Option<Duration>) -> String {
    let probes = u64::from(plan.budget.probes);
    if plan.search == SearchMode::Guided {
        let payload = match plan.budget.bytes {
            Some(bytes) => format!("at most {} of payload", Bytes(bytes)),
            None => "unlimited payload (limit it with --budget-bytes)".to_owned(),
        };
        let usually = usual_time.map_or_else(String::new, |each| {
            format!(", usually {} per direction", format_span(saturating_micros(each)))
        });
        return format!(
            "budget: up to {}{usually}, at most {}, {payload}",
            count_of(probes, "probe"),
            format_span(plan.budget.time_us)
        );
    }
    let each = probe_time_us(plan);
    format!(
        "grid: {} of at most {}, at most {} in total",
        count_of(probes, "probe"),
        format_span(each),
        format_span(probes * (each + PROBE_OVERHEAD_US))
    )
}
