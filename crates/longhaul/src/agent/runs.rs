//! Executes each run in its own task: waits until its plan is stored, makes the run, stores the
//! result.

use super::command;
use super::forward::Spool;
use super::landing::{Finished, Owner, sent_bytes};
use super::runner::{Ended, Runner, Spooled};
use super::scribe::Scribe;
use crate::watch::file::WatchFile;
use crate::watch::jobs::Job;
use crate::watch::schedule::{Outcome, Reason, Start};
use longhaul_model::report::v1::AnyReport;
use longhaul_model::report::v1::quantity::Quantity;
use longhaul_model::report::v1::series::Pair;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// A finished run, sent to the event loop.
#[derive(Debug)]
pub struct Ran {
    pub owner: Owner,
    /// `None` if the run was started by an earlier process.
    pub start: Option<Start>,
    pub came: Came,
}

#[derive(Debug)]
pub enum Came {
    /// The report is in the archive.
    Landed(Box<Landed>),
    /// The archive does not accept the report now, so it stays in the spool; contains the reason.
    Spooled(Box<AnyReport>, String),
    Refused(String),
    Failed(String),
    DiskFull,
    /// The outbox exceeds its limit.
    SpoolFull,
    Stopped,
}

#[derive(Debug)]
pub struct Landed {
    pub report: AnyReport,
    pub run_id: String,
    pub pairs: Vec<Pair>,
    /// Series with a new value.
    pub touched: Vec<(Pair, Quantity)>,
    /// True if an earlier process had already stored the run.
    pub known: bool,
}

impl Came {
    /// Returns the outcome for the schedule.
    pub fn outcome(&self, job: &Job) -> Outcome {
        let sent = |report: &AnyReport| Outcome::Done {
            sent_bytes: sent_bytes(report).unwrap_or(job.bytes),
        };
        match self {
            Came::Landed(landed) => sent(&landed.report),
            Came::Spooled(report, _) => sent(report),
            Came::Refused(_) => Outcome::Refused,
            // The number of sent bytes is unknown.
            Came::Failed(_) => Outcome::Failed { sent_bytes: 0 },
            Came::DiskFull => Outcome::NotStarted(Reason::DiskFull),
            Came::SpoolFull => Outcome::NotStarted(Reason::SpoolFull),
            Came::Stopped => Outcome::NotStarted(Reason::Stopping),
        }
    }
}

/// Resources that all runs share.
#[derive(Debug, Clone)]
pub struct Makers {
    pub runner: Runner,
    pub scribe: Scribe,
    /// Limits the outbox.
    pub waiting: Spool,
    pub archive: PathBuf,
    /// The folder that relative paths in the file refer to.
    pub folder: PathBuf,
    pub ran: mpsc::Sender<Ran>,
}

impl Makers {
    /// Makes the run in a new task, which sends the result to the event loop.
    pub fn start(&self, start: Start, file: &Arc<WatchFile>) {
        let (makers, file) = (self.clone(), Arc::clone(file));
        tokio::spawn(async move {
            let owner = Owner::of(&start.id, &start.job, &file.agent.name);
            let came = makers.make(&start, &owner, &file).await;
            let start = Some(start);
            // Sending fails only after the event loop has ended.
            let _ = makers.ran.send(Ran { owner, start, came }).await;
        });
    }

    async fn make(&self, start: &Start, owner: &Owner, file: &WatchFile) -> Came {
        // The plan is on disk before the run starts, or will be before its result.
        self.scribe.reached().await;
        if self.scribe.disk_is_full() {
            return Came::DiskFull;
        }
        if self.waiting.is_full() {
            return Came::SpoolFull;
        }
        let Some(command) = command::command(&start.job, file, &self.folder, &self.archive) else {
            return Came::Failed("the file no longer has the far end".to_owned());
        };
        let lasts = Duration::from_micros(start.job.lasts_us.unsigned_abs());
        match self.runner.clone().run(command, owner, lasts).await {
            Ended::Finished(finished) => self.land(*finished, owner).await,
            Ended::Refused(why) => Came::Refused(why),
            Ended::Failed(why) => Came::Failed(why),
            Ended::DiskFull => Came::DiskFull,
            Ended::Stopped => Came::Stopped,
        }
    }

    /// Stores a finished run, and then deletes its spool files.
    pub async fn land(&self, finished: Finished, owner: &Owner) -> Came {
        let Finished { report, watched } = finished;
        let run_id = watched.run.id.clone();
        let pairs = watched.pairs.clone();
        let readings = watched.readings.iter();
        let mut touched: Vec<(Pair, Quantity)> =
            readings.map(|it| (it.pair.clone(), it.quantity)).collect();
        touched.sort();
        touched.dedup();
        match self.scribe.land(watched).await {
            Some(Ok(stored)) => {
                Spooled::new(&self.runner.spool, &owner.planned_id).remove();
                Came::Landed(Box::new(Landed {
                    report,
                    run_id,
                    pairs,
                    touched,
                    known: stored.new + stored.joined == 0,
                }))
            }
            Some(Err(longhaul_store::StoreError::Refused { what, why })) => {
                Spooled::new(&self.runner.spool, &owner.planned_id).remove();
                Came::Failed(format!("the archive does not take {what}: {why}"))
            }
            Some(Err(error)) => Came::Spooled(Box::new(report), error.to_string()),
            None => Came::Spooled(Box::new(report), "the archive is far behind".to_owned()),
        }
    }
}
