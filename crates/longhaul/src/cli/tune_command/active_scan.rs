//! A scan in progress: runs probe after probe, and archives each before anything else.

use super::probe_attempt::{self, ProbeEnding};
use super::scan_progress::{ScanProgress, print_caveat};
use super::{scan_history, scan_plan};
use crate::cli::args::TuneArgs;
use crate::cli::report_archiving;
use crate::command_failure::{CommandFailure, PEER};
use jiff::Timestamp;
use longhaul_analysis::scan::{build_cell, build_failed_cell, build_probe_plan};
use longhaul_analysis::tune::SearchSpent;
use longhaul_model::report::v1::plan::{self, StopCondition};
use longhaul_model::report::v1::scan::{ScanCell, ScanObservation, ScanPlan, TransferSetting};
use longhaul_model::report::v1::{ParentRun, ReportCaveat, ThroughputReport};
use longhaul_probe::probe_error::ProbeError;
use longhaul_probe::throughput::TargetHost;
use longhaul_store::UnfinishedScan;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The number of attempts of a probe whose connection is lost.
const ATTEMPTS: u32 = 2;
/// The number of consecutive lost probes after which the server counts as gone.
const MAX_CUT_OFFS: u32 = 3;

/// The next probe of a scan.
pub struct ProbeRequest {
    pub index: u32,
    pub setting: TransferSetting,
    pub forward: bool,
    pub sentinel: bool,
    pub why: Option<String>,
    pub time: Duration,
}

/// The reason why a scan cannot continue.
pub enum ScanHalt {
    /// The server is gone; with its last error.
    FarEndGone(CommandFailure),
    Interrupted,
}

/// A scan in progress.
pub struct ActiveScan<'a> {
    pub args: &'a TuneArgs,
    pub plan: ScanPlan,
    pub target: TargetHost,
    pub entry: UnfinishedScan,
    pub started_at: Timestamp,
    pub observation: ScanObservation,
    /// The reports of successful cells, in the same order.
    pub runs: Vec<ThroughputReport>,
    pub caveats: Vec<ReportCaveat>,
    pub progress: ScanProgress,
    stop: Arc<AtomicBool>,
    cut_off_probes: u32,
    /// The failure of the latest failed probe.
    pub last_failure: Option<CommandFailure>,
    archiving: bool,
}

impl<'a> ActiveScan<'a> {
    /// Starts a new scan, or resumes the one that the same command left unfinished.
    pub fn begin(
        args: &'a TuneArgs,
        plan: ScanPlan,
        target: TargetHost,
        idle_rtt: Duration,
        stop: Arc<AtomicBool>,
    ) -> ActiveScan<'a> {
        let (history, caveats) = scan_history::begin_or_resume(args, &plan, idle_rtt);
        let mut told = ScanProgress::new(args);
        for caveat in &caveats {
            print_caveat(&caveat.text);
        }
        told.print_budget(&plan);
        let mut course = ActiveScan {
            args,
            plan,
            target,
            started_at: history.started_at,
            entry: history.entry,
            observation: ScanObservation::default(),
            runs: Vec::new(),
            archiving: !args.output.no_save && caveats.is_empty(),
            caveats,
            progress: told,
            stop,
            cut_off_probes: 0,
            last_failure: None,
        };
        for run in history.parts {
            course.add_earlier_probe(run);
        }
        course.progress.print_resumed(
            &course.entry.id,
            course.observation.cells.len(),
            &course.plan,
        );
        course
    }

    /// Adds a probe finished before the scan was resumed.
    fn add_earlier_probe(&mut self, run: ThroughputReport) {
        let Some(part) = run.run.part_of.as_ref() else {
            return;
        };
        let found = self.build_cell(part.index, &run);
        self.observation.cells.push(found);
        self.runs.push(run);
    }

    fn build_cell(&self, index: u32, run: &ThroughputReport) -> ScanCell {
        let setting = TransferSetting {
            window_bytes: run.plan.send_buffer_bytes,
            streams: run.plan.streams,
            congestion_control: run.plan.congestion_control.clone(),
            pacing_bps: run.plan.pacing_bps,
        };
        let at_us = run
            .run
            .started_at
            .parse::<Timestamp>()
            .map_or(0, |moment| micros_between(self.started_at, moment));
        build_cell(index, setting, run.observation.forward, false, at_us, run)
    }

    /// Returns the budget spent in one direction, or in both.
    pub fn budget_spent(&self, forward: Option<bool>) -> SearchSpent {
        let mut spent = SearchSpent::default();
        let counted = |cell: &&ScanCell| forward.is_none_or(|forward| cell.forward == forward);
        for cell in self.observation.cells.iter().filter(counted) {
            spent.probes += 1;
            spent.bytes += cell.receiver_bytes.unwrap_or(0);
            spent.time += Duration::from_micros(cell.duration_us);
        }
        spent
    }

    /// Returns true if probes and result are archived.
    pub fn is_archiving(&self) -> bool {
        self.archiving
    }

    /// Returns the index after the last cell.
    pub fn next_index(&self) -> u32 {
        let indexes = self.observation.cells.iter().map(|cell| cell.index);
        indexes.max().map_or(0, |index| index + 1)
    }

    /// Runs one probe and adds its cell. A setting that is refused gives a failed cell.
    pub fn measure_cell(
        &mut self,
        wanted: &ProbeRequest,
    ) -> Result<Option<&ThroughputReport>, ScanHalt> {
        let at_us = micros_between(self.started_at, Timestamp::now());
        let begun = Instant::now();
        self.progress.begin_probe(wanted);
        for _ in 0..ATTEMPTS {
            let plan = self.probe_plan(wanted);
            let told = &mut self.progress;
            let ending =
                probe_attempt::run_probe(&self.target, &plan, &self.stop, &mut |progress| {
                    told.update_probe(wanted, progress);
                });
            match ending {
                ProbeEnding::Measured(outcome) => {
                    let report = report_archiving::build_throughput_report(
                        plan,
                        *outcome,
                        Some(self.part_of(wanted)),
                    );
                    self.add_result(wanted, at_us, report);
                    return Ok(self.runs.last());
                }
                ProbeEnding::SettingRefused(error) => {
                    self.cut_off_probes = 0;
                    self.note_failure(wanted, at_us, begun, error);
                    return Ok(None);
                }
                ProbeEnding::ConnectionLost(error) => self.wait_for_server(error)?,
                ProbeEnding::WrongServer(error) => return Err(ScanHalt::FarEndGone(error.into())),
                ProbeEnding::Interrupted => return Err(ScanHalt::Interrupted),
            }
        }
        self.note_cut_off(wanted, at_us, begun);
        Ok(None)
    }

    /// Returns true if the user interrupted the scan between two probes.
    pub fn is_interrupted(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn probe_plan(&self, wanted: &ProbeRequest) -> plan::ThroughputPlan {
        let time_us = u64::try_from(wanted.time.as_micros()).unwrap_or(u64::MAX);
        plan::ThroughputPlan {
            stop: StopCondition::TimeUs(time_us),
            interval_us: scan_plan::sample_interval_us(time_us),
            ..build_probe_plan(&self.plan, &wanted.setting, wanted.forward)
        }
    }

    fn part_of(&self, wanted: &ProbeRequest) -> ParentRun {
        ParentRun { id: self.entry.id.clone(), index: wanted.index }
    }

    fn add_result(&mut self, wanted: &ProbeRequest, at_us: u64, mut report: ThroughputReport) {
        if self.archiving {
            report_archiving::archive_report(&self.args.output, &mut report);
        }
        let lost = |caveat: &&ReportCaveat| caveat.code == "not_archived";
        if let Some(caveat) = report.caveats.iter().find(lost) {
            // The failure is reported once; later probes do not try the archive again.
            self.archiving = false;
            self.caveats.push(caveat.clone());
        }
        self.cut_off_probes = 0;
        let found = ScanCell {
            why: wanted.why.clone(),
            ..build_cell(
                wanted.index,
                wanted.setting.clone(),
                wanted.forward,
                wanted.sentinel,
                at_us,
                &report,
            )
        };
        self.progress.end_probe(&found);
        self.observation.cells.push(found);
        self.runs.push(report);
    }

    fn note_failure(
        &mut self,
        wanted: &ProbeRequest,
        at_us: u64,
        begun: Instant,
        error: ProbeError,
    ) {
        let fail = CommandFailure::from(error);
        let why = std::iter::once(fail.message.clone())
            .chain(fail.causes.iter().cloned())
            .collect::<Vec<_>>()
            .join(": ");
        self.last_failure = Some(fail);
        self.push_failed(wanted, at_us, begun, why);
    }

    fn note_cut_off(&mut self, wanted: &ProbeRequest, at_us: u64, begun: Instant) {
        let why = self.last_failure.as_ref().map_or_else(String::new, |fail| fail.message.clone());
        self.push_failed(wanted, at_us, begun, why);
    }

    fn push_failed(&mut self, wanted: &ProbeRequest, at_us: u64, begun: Instant, why: String) {
        let found = ScanCell {
            why: wanted.why.clone(),
            ..build_failed_cell(
                wanted.index,
                wanted.setting.clone(),
                wanted.forward,
                wanted.sentinel,
                at_us,
                u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX),
                why,
            )
        };
        self.progress.end_probe(&found);
        self.observation.cells.push(found);
    }

    /// Waits for the server after a lost connection, and fails if it does not answer.
    fn wait_for_server(&mut self, error: ProbeError) -> Result<(), ScanHalt> {
        let fail = CommandFailure::from(error);
        self.cut_off_probes += 1;
        self.progress.print_waiting(&fail.message);
        let back = self.cut_off_probes < MAX_CUT_OFFS
            && probe_attempt::wait_until_reachable(&self.target, &self.stop);
        if self.is_interrupted() {
            return Err(ScanHalt::Interrupted);
        }
        if !back {
            return Err(ScanHalt::FarEndGone(CommandFailure { code: PEER, ..fail }));
        }
        self.last_failure = Some(fail);
        Ok(())
    }
}

fn micros_between(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.duration_since(from).as_micros()).unwrap_or(0)
}
