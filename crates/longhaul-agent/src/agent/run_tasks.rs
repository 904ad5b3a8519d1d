//! Executes each run in its own task: waits until its plan is stored, makes the run, stores the
//! result.

use super::archive_writer::ArchiveWriter;
use super::finished_run::{FinishedRun, RunOwner, count_sent_bytes};
use super::job_status::{FailureReason, RunFailure};
use super::process_runner;
use super::process_runner::{ProcessRunner, SpoolFiles};
use crate::watch::measure_jobs::MeasureJob;
use crate::watch::run_schedule::{AttemptOutcome, MissedReason, ScheduledRun};
use crate::watch::watch_file::WatchFile;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::{AnyReport, HostPair};
use longhaul_store::RunEntry;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// A finished run, sent to the event loop.
#[derive(Debug)]
pub struct RunFinished {
    pub owner: RunOwner,
    /// `None` if the run was started by an earlier process.
    pub start: Option<ScheduledRun>,
    pub outcome: RunOutcome,
}

#[derive(Debug)]
pub enum RunOutcome {
    /// The report is in the archive.
    Stored(Box<AnyReport>, StoredRun),
    /// The archive does not accept the report now, so it stays in the spool; contains the reason.
    Spooled(Box<AnyReport>, String),
    /// The server is busy.
    Refused(String),
    /// There is no report.
    Failed(RunFailure),
    /// The disk is full; the process was not started.
    DiskFull,
    /// The agent stopped and terminated the process.
    Stopped,
}

/// A run whose report is in the archive.
#[derive(Debug, Clone)]
pub struct StoredRun {
    /// Its row in the list of runs.
    pub entry: Arc<RunEntry>,
    pub pairs: Vec<HostPair>,
    /// Series with a new value.
    pub updated_series: Vec<(HostPair, PathQuantity)>,
    /// True if an earlier process had already stored the run.
    pub was_stored_before: bool,
}

impl RunOutcome {
    /// Returns the outcome for the schedule.
    pub fn schedule_outcome(&self, job: &MeasureJob) -> AttemptOutcome {
        let sent = |report: &AnyReport| AttemptOutcome::Done {
            sent_bytes: count_sent_bytes(report).unwrap_or(job.max_bytes),
        };
        match self {
            RunOutcome::Stored(report, _) | RunOutcome::Spooled(report, _) => sent(report),
            RunOutcome::Refused(_) => AttemptOutcome::Refused,
            // The number of sent bytes is unknown.
            RunOutcome::Failed(_) => AttemptOutcome::Failed { sent_bytes: 0 },
            RunOutcome::DiskFull => AttemptOutcome::NotStarted(MissedReason::DiskFull),
            RunOutcome::Stopped => AttemptOutcome::NotStarted(MissedReason::Stopping),
        }
    }
}

/// Resources that all runs share.
#[derive(Debug, Clone)]
pub struct RunLauncher {
    pub runner: ProcessRunner,
    pub writer: ArchiveWriter,
    pub archive: PathBuf,
    /// The folder that relative paths in the file refer to.
    pub folder: PathBuf,
    pub finished_runs: mpsc::Sender<RunFinished>,
}

impl RunLauncher {
    /// Makes the run in a new task, which sends the result to the event loop.
    pub fn start(&self, start: ScheduledRun, file: &Arc<WatchFile>) {
        let (launcher, file) = (self.clone(), Arc::clone(file));
        tokio::spawn(async move {
            let owner = RunOwner::of(&start.id, &start.job, &file.agent.name);
            let outcome = launcher.execute(&start, &owner, &file).await;
            let start = Some(start);
            // Sending fails only after the event loop has ended.
            let _ = launcher.finished_runs.send(RunFinished { owner, start, outcome }).await;
        });
    }

    async fn execute(&self, run: &ScheduledRun, owner: &RunOwner, file: &WatchFile) -> RunOutcome {
        // The plan is on disk before the run starts, or will be before its result.
        self.writer.flush().await;
        if self.writer.disk_is_full() {
            return RunOutcome::DiskFull;
        }
        let Some(command) =
            process_runner::build_run_command(&run.job, file, &self.folder, &self.archive)
        else {
            let text = "the watch file no longer has the peer";
            return RunOutcome::Failed(RunFailure::new(FailureReason::Usage, text));
        };
        let lasts = Duration::from_micros(run.job.max_duration_us.unsigned_abs());
        match self.runner.clone().run(command, owner, lasts).await {
            Ok(finished) => self.store_run(finished, owner).await,
            Err(outcome) => outcome,
        }
    }

    /// Stores a finished run, and then deletes its spool files. A run that ended early has failed,
    /// although its partial report is stored.
    pub async fn store_run(&self, mut finished: FinishedRun, owner: &RunOwner) -> RunOutcome {
        let early_end = finished.take_early_end();
        let FinishedRun { report, watched } = finished;
        let entry = Arc::new(RunEntry::from_run(&watched));
        let pairs = watched.pairs.clone();
        let readings = watched.readings.iter();
        let mut updated_series: Vec<(HostPair, PathQuantity)> =
            readings.map(|it| (it.pair.clone(), it.quantity)).collect();
        updated_series.sort();
        updated_series.dedup();
        match self.writer.store_run(watched).await {
            Some(Ok(stored)) => {
                SpoolFiles::new(&self.runner.spool, &owner.planned_id).remove();
                if let Some(failure) = early_end {
                    return RunOutcome::Failed(failure);
                }
                let was_stored_before = stored.new + stored.newly_watched == 0;
                let run = StoredRun { entry, pairs, updated_series, was_stored_before };
                RunOutcome::Stored(Box::new(report), run)
            }
            Some(Err(longhaul_store::StoreError::Refused { what, why })) => {
                SpoolFiles::new(&self.runner.spool, &owner.planned_id).remove();
                let text = format!("the archive rejected {what}: {why}");
                RunOutcome::Failed(RunFailure::new(FailureReason::Report, text))
            }
            Some(Err(error)) => RunOutcome::Spooled(Box::new(report), error.to_string()),
            None => {
                RunOutcome::Spooled(Box::new(report), "the archive writer has ended".to_owned())
            }
        }
    }
}
