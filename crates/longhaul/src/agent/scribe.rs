//! The archive writer: a thread with its own connection.
//!
//! Writes plans and outcomes in order and retries until the archive accepts them. A full disk costs
//! no finished result: the ballast file is released, and no run starts until there is space for a
//! new one.

use super::folder::Ballast;
use super::voice::Voice;
use longhaul_store::watched::{Landed, Outcome, Planned, WatchedRun};
use longhaul_store::{StoreError, Watched};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// The maximum number of queued tasks; there are never more running runs.
const TASKS_MAX: usize = 1024;
/// The maximum number of notes that wait for disk space, enough for days.
const NOTES_MAX: usize = 100_000;
/// The delay after a failed write.
const AGAIN: Duration = Duration::from_secs(1);
/// The delay between attempts to create the ballast file again.
const ROOM_AGAIN: Duration = Duration::from_secs(10);
const NOTHING_TO_DO: Duration = Duration::from_secs(3600);

/// A change of a planned run.
#[derive(Debug, Clone)]
pub enum Noted {
    Planned(Planned),
    Ended(String, Outcome),
}

enum Task {
    /// There are new notes.
    Notes,
    Land(Box<WatchedRun>, oneshot::Sender<Result<Landed, StoreError>>),
    /// Answered once all earlier notes are written or have failed for now.
    Reached(oneshot::Sender<()>),
    End,
}

/// The handle of the writer thread.
#[derive(Debug, Clone)]
pub struct Scribe {
    tasks: SyncSender<Task>,
    notes: Arc<Mutex<VecDeque<Noted>>>,
    full: Arc<AtomicBool>,
}

impl Scribe {
    pub fn start(
        archive: Box<dyn Watched>,
        ballast: Ballast,
        voice: Voice,
    ) -> std::io::Result<(Scribe, JoinHandle<()>)> {
        let (tasks, taken) = sync_channel(TASKS_MAX);
        let full = !ballast.keep();
        let scribe = Scribe {
            tasks,
            notes: Arc::default(),
            full: Arc::new(AtomicBool::new(full)),
        };
        let hand = Hand {
            archive,
            ballast,
            voice,
            notes: Arc::clone(&scribe.notes),
            full: Arc::clone(&scribe.full),
            tried: Instant::now(),
        };
        let thread = thread::Builder::new()
            .name("archive".to_owned())
            .spawn(move || hand.work(&taken))?;
        Ok((scribe, thread))
    }

    /// Queues notes in order. Returns the number of dropped ones.
    pub fn note(&self, notes: impl IntoIterator<Item = Noted>) -> usize {
        let mut waiting = lock(&self.notes);
        let mut lost = 0;
        for note in notes {
            if waiting.len() < NOTES_MAX {
                waiting.push_back(note);
            } else {
                lost += 1;
            }
        }
        drop(waiting);
        // If the queue is full, the thread finds the notes anyway.
        let _ = self.tasks.try_send(Task::Notes);
        lost
    }

    /// Stores a finished run. Returns `None` if the queue is full or the thread has ended.
    pub async fn land(&self, run: WatchedRun) -> Option<Result<Landed, StoreError>> {
        let (answer, told) = oneshot::channel();
        self.tasks
            .try_send(Task::Land(Box::new(run), answer))
            .ok()?;
        told.await.ok()
    }

    /// Waits until the earlier notes are written or have failed.
    pub async fn reached(&self) {
        let (answer, told) = oneshot::channel();
        if self.tasks.try_send(Task::Reached(answer)).is_ok() {
            let _ = told.await;
        }
    }

    /// Returns true if the disk is full, so that no run may start.
    pub fn disk_is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    pub fn end(&self) {
        let _ = self.tasks.try_send(Task::End);
    }
}

fn lock(notes: &Mutex<VecDeque<Noted>>) -> MutexGuard<'_, VecDeque<Noted>> {
    notes.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The state of the writer thread.
struct Hand {
    archive: Box<dyn Watched>,
    ballast: Ballast,
    voice: Voice,
    notes: Arc<Mutex<VecDeque<Noted>>>,
    full: Arc<AtomicBool>,
    /// The time of the last attempt to create the ballast file.
    tried: Instant,
}

impl Hand {
    fn work(mut self, tasks: &Receiver<Task>) {
        let mut wait = NOTHING_TO_DO;
        loop {
            let task = tasks.recv_timeout(wait);
            let written = self.write_notes();
            match task {
                Ok(Task::Land(run, answer)) => {
                    let landed = written.and_then(|()| self.land(*run));
                    let _ = answer.send(landed);
                }
                Ok(Task::Reached(answer)) => {
                    let _ = answer.send(());
                }
                Ok(Task::End) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(Task::Notes) | Err(RecvTimeoutError::Timeout) => {}
            }
            self.look_for_room();
            wait = self.patience();
        }
    }

    fn patience(&self) -> Duration {
        if !lock(&self.notes).is_empty() {
            AGAIN
        } else if self.full.load(Ordering::Relaxed) {
            ROOM_AGAIN
        } else {
            NOTHING_TO_DO
        }
    }

    fn look_for_room(&mut self) {
        let full = self.full.load(Ordering::Relaxed);
        if !full || self.tried.elapsed() < ROOM_AGAIN {
            return;
        }
        self.tried = Instant::now();
        if self.ballast.keep() {
            self.full.store(false, Ordering::Relaxed);
            self.voice.note("the disk has room again: runs start again");
        }
    }

    fn land(&mut self, run: WatchedRun) -> Result<Landed, StoreError> {
        let runs = [run];
        self.attempt(|archive| archive.append_runs(&runs))
    }

    /// Writes the notes, oldest first, until all are written or a write fails.
    fn write_notes(&mut self) -> Result<(), StoreError> {
        loop {
            let Some(next) = self.next_notes() else {
                return Ok(());
            };
            let (count, done) = match next {
                Next::Planned(planned) => {
                    let done = self.attempt(|archive| archive.plan(&planned).map(drop));
                    (planned.len(), done)
                }
                Next::Ended(id, outcome) => {
                    (1, self.attempt(|archive| archive.settle(&id, &outcome)))
                }
            };
            match done {
                Ok(()) => {}
                // The archive will never accept these.
                Err(error @ (StoreError::Refused { .. } | StoreError::NoSuchPlanned { .. })) => {
                    self.voice.trouble(&error.to_string());
                }
                Err(error) => return Err(error),
            }
            lock(&self.notes).drain(..count);
        }
    }

    /// Combines consecutive plans into one write.
    fn next_notes(&self) -> Option<Next> {
        let notes = lock(&self.notes);
        let planned: Vec<Planned> = notes
            .iter()
            .map_while(|note| match note {
                Noted::Planned(planned) => Some(planned.clone()),
                Noted::Ended(..) => None,
            })
            .take(10_000)
            .collect();
        if !planned.is_empty() {
            return Some(Next::Planned(planned));
        }
        match notes.front()? {
            Noted::Ended(id, outcome) => Some(Next::Ended(id.clone(), outcome.clone())),
            Noted::Planned(_) => None,
        }
    }

    /// Writes; if the disk is full, releases the ballast file and tries again.
    fn attempt<T>(
        &mut self,
        mut write: impl FnMut(&mut dyn Watched) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let first = write(&mut *self.archive);
        let Err(error @ StoreError::Full { .. }) = first else {
            return first;
        };
        self.tried = Instant::now();
        let freed = self.ballast.free();
        if !self.full.swap(true, Ordering::Relaxed) {
            self.voice.trouble(&format!(
                "{error}; no run starts until there is room: free some of it"
            ));
        }
        if freed {
            write(&mut *self.archive)
        } else {
            Err(error)
        }
    }
}

enum Next {
    Planned(Vec<Planned>),
    Ended(String, Outcome),
}
