//! The archive writer: a thread with its own connection.
//!
//! Writes plans and outcomes in order and retries until the archive accepts them. A full disk costs
//! no finished result: reports wait in the spool, where their space is allocated before a run, and
//! no run starts until the archive accepts writes again.

use super::agent_log::AgentLog;
use longhaul_store::history_store::{IncomingRun, IngestResult, PlannedOutcome, PlannedRun};
use longhaul_store::{Archive, StoreError};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::sync::oneshot;

/// The maximum number of queued tasks; there are never more running runs.
const MAX_QUEUED_TASKS: usize = 1024;
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
    /// There are new notes.
    WriteUpdates,
    StoreRun(Box<IncomingRun>, oneshot::Sender<Result<IngestResult, StoreError>>),
    /// Answered once all earlier notes are written or have failed for now.
    Flush(oneshot::Sender<()>),
    Stop,
}

/// The handle of the writer thread.
#[derive(Debug, Clone)]
pub struct ArchiveWriter {
    tasks: SyncSender<WriteTask>,
    updates: Arc<Mutex<VecDeque<PlanUpdate>>>,
    disk_full: Arc<AtomicBool>,
}

impl ArchiveWriter {
    pub fn start(
        archive: Archive,
        log: AgentLog,
    ) -> std::io::Result<(ArchiveWriter, JoinHandle<()>)> {
        let (tasks, taken) = sync_channel(MAX_QUEUED_TASKS);
        let writer = ArchiveWriter { tasks, updates: Arc::default(), disk_full: Arc::default() };
        let thread_state = WriterThread {
            archive,
            log,
            updates: Arc::clone(&writer.updates),
            disk_full: Arc::clone(&writer.disk_full),
        };
        let thread = thread::Builder::new()
            .name("archive".to_owned())
            .spawn(move || thread_state.run(&taken))?;
        Ok((writer, thread))
    }

    /// Queues notes in order. Returns the number of dropped ones.
    pub fn queue_updates(&self, notes: impl IntoIterator<Item = PlanUpdate>) -> usize {
        let mut waiting = self.updates.lock();
        let mut lost = 0;
        for note in notes {
            if waiting.len() < MAX_WAITING_UPDATES {
                waiting.push_back(note);
            } else {
                lost += 1;
            }
        }
        drop(waiting);
        // If the queue is full, the thread finds the notes anyway.
        let _ = self.tasks.try_send(WriteTask::WriteUpdates);
        lost
    }

    /// Stores a finished run. Returns `None` if the queue is full or the thread has ended.
    pub async fn store_run(&self, run: IncomingRun) -> Option<Result<IngestResult, StoreError>> {
        let (answer, told) = oneshot::channel();
        self.tasks.try_send(WriteTask::StoreRun(Box::new(run), answer)).ok()?;
        told.await.ok()
    }

    /// Waits until the earlier notes are written or have failed.
    pub async fn flush(&self) {
        let (answer, told) = oneshot::channel();
        if self.tasks.try_send(WriteTask::Flush(answer)).is_ok() {
            let _ = told.await;
        }
    }

    /// Returns true if the disk is full, so that no run may start.
    pub fn disk_is_full(&self) -> bool {
        self.disk_full.load(Ordering::Relaxed)
    }

    pub fn stop(&self) {
        let _ = self.tasks.try_send(WriteTask::Stop);
    }
}

/// The state of the writer thread.
struct WriterThread {
    archive: Archive,
    log: AgentLog,
    updates: Arc<Mutex<VecDeque<PlanUpdate>>>,
    disk_full: Arc<AtomicBool>,
}

impl WriterThread {
    fn run(mut self, tasks: &Receiver<WriteTask>) {
        let mut wait = IDLE_WAIT;
        loop {
            let task = tasks.recv_timeout(wait);
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
                Ok(WriteTask::WriteUpdates) | Err(RecvTimeoutError::Timeout) => {}
            }
            wait = if self.updates.lock().is_empty() { IDLE_WAIT } else { WRITE_RETRY };
        }
    }

    fn store_run(&mut self, run: IncomingRun) -> Result<IngestResult, StoreError> {
        let runs = [run];
        self.write(|archive| archive.append_runs(&runs))
    }

    /// Writes the notes, oldest first, until all are written or a write fails.
    fn write_updates(&mut self) -> Result<(), StoreError> {
        loop {
            let first = self.updates.lock().front().cloned();
            let (count, done) = match first {
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
            self.updates.lock().drain(..count);
        }
    }

    /// Returns the plans before the first outcome, to be stored in one write.
    fn leading_plans(&self) -> Vec<PlannedRun> {
        let notes = self.updates.lock();
        let plans = notes.iter().map_while(|note| match note {
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
