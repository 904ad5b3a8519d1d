//! The archive writer: a thread with its own connection.
//!
//! Writes plans and outcomes in order and retries until the archive accepts them. A full disk costs
//! no finished result: the ballast file is released, and no run starts until there is space for a
//! new one.

use super::agent_folder::BallastFile;
use super::agent_log::AgentLog;
use longhaul_store::history_store::{IncomingRun, IngestResult, PlannedOutcome, PlannedRun};
use longhaul_store::{Archive, StoreError};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// The maximum number of queued tasks; there are never more running runs.
const MAX_QUEUED_TASKS: usize = 1024;
/// The maximum number of notes that wait for disk space, enough for days.
const MAX_WAITING_UPDATES: usize = 100_000;
/// The delay after a failed write.
const WRITE_RETRY: Duration = Duration::from_secs(1);
/// The delay between attempts to create the ballast file again.
const BALLAST_RETRY: Duration = Duration::from_secs(10);
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
        ballast: BallastFile,
        log: AgentLog,
    ) -> std::io::Result<(ArchiveWriter, JoinHandle<()>)> {
        let (tasks, taken) = sync_channel(MAX_QUEUED_TASKS);
        let full = !ballast.ensure();
        let writer = ArchiveWriter {
            tasks,
            updates: Arc::default(),
            disk_full: Arc::new(AtomicBool::new(full)),
        };
        let thread_state = WriterThread {
            archive,
            ballast,
            log,
            updates: Arc::clone(&writer.updates),
            disk_full: Arc::clone(&writer.disk_full),
            ballast_tried_at: Instant::now(),
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
    ballast: BallastFile,
    log: AgentLog,
    updates: Arc<Mutex<VecDeque<PlanUpdate>>>,
    disk_full: Arc<AtomicBool>,
    /// The time of the last attempt to create the ballast file.
    ballast_tried_at: Instant,
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
            self.retry_ballast();
            wait = self.next_timeout();
        }
    }

    fn next_timeout(&self) -> Duration {
        if !self.updates.lock().is_empty() {
            WRITE_RETRY
        } else if self.disk_full.load(Ordering::Relaxed) {
            BALLAST_RETRY
        } else {
            IDLE_WAIT
        }
    }

    fn retry_ballast(&mut self) {
        let full = self.disk_full.load(Ordering::Relaxed);
        if !full || self.ballast_tried_at.elapsed() < BALLAST_RETRY {
            return;
        }
        self.ballast_tried_at = Instant::now();
        if self.ballast.ensure() {
            self.disk_full.store(false, Ordering::Relaxed);
            self.log.info("disk space is available again; runs resume");
        }
    }

    fn store_run(&mut self, run: IncomingRun) -> Result<IngestResult, StoreError> {
        let runs = [run];
        self.write_with_ballast(|archive| archive.append_runs(&runs))
    }

    /// Writes the notes, oldest first, until all are written or a write fails.
    fn write_updates(&mut self) -> Result<(), StoreError> {
        loop {
            let Some(next) = self.next_write() else {
                return Ok(());
            };
            let (count, done) = match next {
                PendingWrite::Planned(planned) => {
                    let done =
                        self.write_with_ballast(|archive| archive.add_planned(&planned).map(drop));
                    (planned.len(), done)
                }
                PendingWrite::Ended(id, outcome) => {
                    (1, self.write_with_ballast(|archive| archive.record_outcome(&id, &outcome)))
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

    /// Combines consecutive plans into one write.
    fn next_write(&self) -> Option<PendingWrite> {
        let notes = self.updates.lock();
        let planned: Vec<PlannedRun> = notes
            .iter()
            .map_while(|note| match note {
                PlanUpdate::Planned(planned) => Some(planned.clone()),
                PlanUpdate::Ended(..) => None,
            })
            .take(10_000)
            .collect();
        if !planned.is_empty() {
            return Some(PendingWrite::Planned(planned));
        }
        match notes.front()? {
            PlanUpdate::Ended(id, outcome) => {
                Some(PendingWrite::Ended(id.clone(), outcome.clone()))
            }
            PlanUpdate::Planned(_) => None,
        }
    }

    /// Writes; if the disk is full, releases the ballast file and tries again.
    fn write_with_ballast<T>(
        &mut self,
        mut write: impl FnMut(&mut Archive) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let first = write(&mut self.archive);
        let Err(error @ StoreError::Full { .. }) = first else {
            return first;
        };
        self.ballast_tried_at = Instant::now();
        let freed = self.ballast.release();
        if !self.disk_full.swap(true, Ordering::Relaxed) {
            self.log.warn(&format!("{error}; no run starts until disk space is freed"));
        }
        if freed { write(&mut self.archive) } else { Err(error) }
    }
}

enum PendingWrite {
    Planned(Vec<PlannedRun>),
    Ended(String, PlannedOutcome),
}
