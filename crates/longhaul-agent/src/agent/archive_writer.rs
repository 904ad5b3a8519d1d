//! The archive writer: a thread with its own connection.
//!
//! Writes plans and outcomes in order and retries until the archive accepts them. A full disk costs
//! no finished result: reports wait in the spool, where their space is allocated before a run, and
//! no run starts until the archive accepts writes again.

use super::agent_log::AgentLog;
use super::clocks;
use super::shared_state::SharedState;
use super::transfer_limit::{MAX_TRANSFERS, limit_transfers};
use crate::watch::watch_file::RetainSection;
use longhaul_store::history_store::{
    IncomingRun, IngestResult, PlannedOutcome, PlannedRun, RetentionPolicy, RetentionResult,
};
use longhaul_store::{Archive, StoreError};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::sync::oneshot;

/// The maximum number of notes that wait for disk space, enough for days.
const MAX_WAITING_UPDATES: usize = 100_000;
/// The delay after a failed write.
const WRITE_RETRY: Duration = Duration::from_secs(1);
const IDLE_WAIT: Duration = Duration::from_secs(3600);

/// A change of a planned run.
#[derive(Debug, Clone)]
pub enum PlanUpdate {
    Planned(PlannedRun),
    Ended(String, PlannedOutcome),
}

enum WriteTask {
    WriteUpdates(Vec<PlanUpdate>),
    StoreRun(Box<IncomingRun>, oneshot::Sender<Result<IngestResult, StoreError>>),
    /// Answered once all earlier notes are written or have failed for now.
    Flush(oneshot::Sender<()>),
    Stop,
}

/// The handle of the writer thread.
#[derive(Debug, Clone)]
pub struct ArchiveWriter {
    tasks: Sender<WriteTask>,
    disk_full: Arc<AtomicBool>,
}

impl ArchiveWriter {
    pub fn start(
        archive: Archive,
        log: AgentLog,
    ) -> std::io::Result<(ArchiveWriter, JoinHandle<()>)> {
        let (tasks, taken) = channel();
        let writer = ArchiveWriter { tasks, disk_full: Arc::default() };
        let thread_state = WriterThread {
            archive,
            log,
            updates: VecDeque::new(),
            disk_full: Arc::clone(&writer.disk_full),
            transfers_left_out: false,
        };
        let thread = thread::Builder::new()
            .name("archive".to_owned())
            .spawn(move || thread_state.run(&taken))?;
        Ok((writer, thread))
    }

    /// Queues notes in order.
    pub fn queue_updates(&self, notes: Vec<PlanUpdate>) {
        let _ = self.tasks.send(WriteTask::WriteUpdates(notes));
    }

    /// Stores a finished run. Returns `None` if the thread has ended.
    pub async fn store_run(&self, run: IncomingRun) -> Option<Result<IngestResult, StoreError>> {
        let (answer, told) = oneshot::channel();
        self.tasks.send(WriteTask::StoreRun(Box::new(run), answer)).ok()?;
        told.await.ok()
    }

    /// Waits until the earlier notes are written or have failed.
    pub async fn flush(&self) {
        let (answer, told) = oneshot::channel();
        if self.tasks.send(WriteTask::Flush(answer)).is_ok() {
            let _ = told.await;
        }
    }

    /// Returns true if the disk is full, so that no run may start.
    pub fn disk_is_full(&self) -> bool {
        self.disk_full.load(Ordering::Relaxed)
    }

    pub fn stop(&self) {
        let _ = self.tasks.send(WriteTask::Stop);
    }
}

/// The state of the writer thread.
struct WriterThread {
    archive: Archive,
    log: AgentLog,
    /// Notes that are not in the archive yet.
    updates: VecDeque<PlanUpdate>,
    disk_full: Arc<AtomicBool>,
    /// The last run had transfers that got no series.
    transfers_left_out: bool,
}

impl WriterThread {
    fn run(mut self, tasks: &Receiver<WriteTask>) {
        let mut wait = IDLE_WAIT;
        loop {
            let mut task = tasks.recv_timeout(wait);
            if let Ok(WriteTask::WriteUpdates(notes)) = &mut task {
                self.updates.extend(notes.drain(..));
                if self.updates.len() > MAX_WAITING_UPDATES {
                    self.log.warn(
                        "the archive has accepted nothing for too long; planned runs are not recorded",
                    );
                    self.updates.truncate(MAX_WAITING_UPDATES);
                }
            }
            let written = self.write_updates();
            match task {
                Ok(WriteTask::StoreRun(run, answer)) => {
                    let landed = written.and_then(|()| self.store_run(*run));
                    let _ = answer.send(landed);
                }
                Ok(WriteTask::Flush(answer)) => {
                    let _ = answer.send(());
                }
                Ok(WriteTask::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(WriteTask::WriteUpdates(_)) | Err(RecvTimeoutError::Timeout) => {}
            }
            wait = if self.updates.is_empty() { IDLE_WAIT } else { WRITE_RETRY };
        }
    }

    fn store_run(&mut self, mut run: IncomingRun) -> Result<IngestResult, StoreError> {
        let left_out = limit_transfers(&self.archive, &mut run)?;
        if left_out > 0 && !self.transfers_left_out {
            self.log.warn(&format!(
                "this host has the maximum of {MAX_TRANSFERS} transfers with series: {left_out} of \
                 run {} got none; `what` of the measurement selects fewer",
                run.run.id
            ));
        }
        self.transfers_left_out = left_out > 0;
        let runs = [run];
        self.write(|archive| archive.append_runs(&runs))
    }

    /// Writes the notes, oldest first, until all are written or a write fails.
    fn write_updates(&mut self) -> Result<(), StoreError> {
        loop {
            let (count, done) = match self.updates.front().cloned() {
                None => return Ok(()),
                Some(PlanUpdate::Planned(_)) => {
                    let planned = self.leading_plans();
                    (planned.len(), self.write(|archive| archive.add_planned(&planned).map(drop)))
                }
                Some(PlanUpdate::Ended(id, outcome)) => {
                    (1, self.write(|archive| archive.record_outcome(&id, &outcome)))
                }
            };
            match done {
                Ok(()) => {}
                // The archive will never accept these.
                Err(error @ (StoreError::Refused { .. } | StoreError::NoSuchPlanned { .. })) => {
                    self.log.warn(&error.to_string());
                }
                Err(error) => return Err(error),
            }
            self.updates.drain(..count);
        }
    }

    /// Returns the plans before the first outcome, to be stored in one write.
    fn leading_plans(&self) -> Vec<PlannedRun> {
        let plans = self.updates.iter().map_while(|note| match note {
            PlanUpdate::Planned(planned) => Some(planned.clone()),
            PlanUpdate::Ended(..) => None,
        });
        plans.take(10_000).collect()
    }

    /// Writes, and records whether the disk has space.
    fn write<T>(
        &mut self,
        write: impl FnOnce(&mut Archive) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let written = write(&mut self.archive);
        match &written {
            Err(error @ StoreError::Full { .. })
                if !self.disk_full.swap(true, Ordering::Relaxed) =>
            {
                self.log.warn(&format!("{error}; no run starts until disk space is freed"));
            }
            Ok(_) if self.disk_full.swap(false, Ordering::Relaxed) => {
                self.log.info("disk space is available again; runs resume");
            }
            _ => {}
        }
        written
    }
}

const DAY: Duration = Duration::from_secs(86_400);

/// Deletes on its own connection, in steps that let other writers in between.
pub async fn run_retention(state: Arc<SharedState>, log: AgentLog) {
    loop {
        let once = Arc::clone(&state);
        let worked = tokio::task::spawn_blocking(move || {
            #[cfg(feature = "clickhouse")]
            delete_expired_shared(&once)?;
            delete_expired_own(&once)
        });
        match worked.await {
            Ok(Ok(removed)) => log_removed(removed, log),
            Ok(Err(error)) => {
                log.warn(&format!("cannot delete expired data: {error}; retrying in a day"));
            }
            // The runtime is shutting down.
            Err(_) => return,
        }
        tokio::time::sleep(DAY).await;
    }
}

fn delete_expired_own(state: &SharedState) -> Result<RetentionResult, StoreError> {
    let RetainSection { runs, hourly } = state.file().retain;
    let keep = RetentionPolicy { runs, hours: hourly.unwrap_or(Duration::MAX) };
    (state.open_archive)()?.retain(clocks::read_wall_us(), &keep)
}

/// Deletes expired data in the shared database if the file requests it of this agent.
#[cfg(feature = "clickhouse")]
fn delete_expired_shared(state: &SharedState) -> Result<(), StoreError> {
    let file = state.file();
    let section = file.database.as_ref();
    let Some((section, runs)) = section.and_then(|it| Some((it, it.retain?))) else {
        return Ok(());
    };
    let before_us = RetentionPolicy::cutoff_us(clocks::read_wall_us(), runs);
    super::shared_database::open_database(section, &state.folder)?.delete_before(before_us)
}

fn log_removed(removed: RetentionResult, log: AgentLog) {
    let RetentionResult { values, reports, planned, hours } = removed;
    if values + reports + planned + hours > 0 {
        log.info(&format!(
            "deleted expired data: {reports} reports, {values} single values, {planned} planned runs, \
             {hours} hourly values"
        ));
    }
}
