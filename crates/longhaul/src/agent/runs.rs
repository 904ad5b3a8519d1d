//! Runs under way, each a task of its own: planned in the archive first, then made, then stored.

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

/// What came of a run, for the loop.
#[derive(Debug)]
pub struct Ran {
    pub owner: Owner,
    /// None of a run that an earlier agent left.
    pub start: Option<Start>,
    pub came: Came,
}

#[derive(Debug)]
pub enum Came {
    /// It is in the archive.
    Landed(Box<Landed>),
    /// It is in the spool, for the archive does not take it now; this is why.
    Spooled(Box<AnyReport>, String),
    Refused(String),
    Failed(String),
    DiskFull,
    /// More waits to be sent on than the file allows.
    SpoolFull,
    Stopped,
}

#[derive(Debug)]
pub struct Landed {
    pub report: AnyReport,
    pub run_id: String,
    pub pairs: Vec<Pair>,
    /// Series that have a new value.
    pub touched: Vec<(Pair, Quantity)>,
    /// It was stored before, by an earlier agent.
    pub known: bool,
}

impl Came {
    /// What the schedule is told.
    pub fn outcome(&self, job: &Job) -> Outcome {
        let sent = |report: &AnyReport| Outcome::Done {
            sent_bytes: sent_bytes(report).unwrap_or(job.bytes),
        };
        match self {
            Came::Landed(landed) => sent(&landed.report),
            Came::Spooled(report, _) => sent(report),
            Came::Refused(_) => Outcome::Refused,
            // What it sent nobody knows.
            Came::Failed(_) => Outcome::Failed { sent_bytes: 0 },
            Came::DiskFull => Outcome::NotStarted(Reason::DiskFull),
            Came::SpoolFull => Outcome::NotStarted(Reason::SpoolFull),
            Came::Stopped => Outcome::NotStarted(Reason::Stopping),
        }
    }
}

/// What all runs share.
#[derive(Debug, Clone)]
pub struct Makers {
    pub runner: Runner,
    pub scribe: Scribe,
    /// Room for what waits to be sent on.
    pub waiting: Spool,
    pub archive: PathBuf,
    /// From which the file's relative names count.
    pub folder: PathBuf,
    pub ran: mpsc::Sender<Ran>,
}

impl Makers {
    /// Makes the run in a task of its own, which tells the loop what came of it.
    pub fn start(&self, start: Start, file: &Arc<WatchFile>) {
        let (makers, file) = (self.clone(), Arc::clone(file));
        tokio::spawn(async move {
            let owner = Owner::of(&start.id, &start.job, &file.agent.name);
            let came = makers.make(&start, &owner, &file).await;
            let start = Some(start);
            // The loop that has ended asks for nothing more.
            let _ = makers.ran.send(Ran { owner, start, came }).await;
        });
    }

    async fn make(&self, start: &Start, owner: &Owner, file: &WatchFile) -> Came {
        // Its plan is on the disk before it begins, or will be before its result.
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

    /// Stores a finished run; only then its files leave the spool.
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
