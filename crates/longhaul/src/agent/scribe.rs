//! The one who writes into the archive: a thread with a connection of its own.
//!
//! What was planned and how it ended is written in its order, and again and again until the archive
//! takes it. A full disk costs no finished result: the ballast is given up, and until there is room
//! for a new one no run is started.

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

/// Runs that want to be stored at one time; more are never under way.
const TASKS_MAX: usize = 1024;
/// Notes that wait for a disk with room. Days of them fit.
const NOTES_MAX: usize = 100_000;
/// After a write that failed.
const AGAIN: Duration = Duration::from_secs(1);
/// Between two attempts to have ballast again.
const ROOM_AGAIN: Duration = Duration::from_secs(10);
const NOTHING_TO_DO: Duration = Duration::from_secs(3600);

/// What is noted of planned runs.
#[derive(Debug, Clone)]
pub enum Noted {
    Planned(Planned),
    Ended(String, Outcome),
}

enum Task {
    /// There are notes.
    Notes,
    Land(Box<WatchedRun>, oneshot::Sender<Result<Landed, StoreError>>),
    /// Answers when everything before it is written, or cannot be at the moment.
    Reached(oneshot::Sender<()>),
    End,
}

/// The way to the thread.
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

    /// Adds notes, in their order; how many had no place.
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
        // A thread that has so much to do sees the notes anyhow.
        let _ = self.tasks.try_send(Task::Notes);
        lost
    }

    /// Stores a finished run; `None` where the thread could not be asked.
    pub async fn land(&self, run: WatchedRun) -> Option<Result<Landed, StoreError>> {
        let (answer, told) = oneshot::channel();
        self.tasks
            .try_send(Task::Land(Box::new(run), answer))
            .ok()?;
        told.await.ok()
    }

    /// Waits until what was noted before has been written, or has failed to be.
    pub async fn reached(&self) {
        let (answer, told) = oneshot::channel();
        if self.tasks.try_send(Task::Reached(answer)).is_ok() {
            let _ = told.await;
        }
    }

    /// The disk has no room to spare: nothing new is to begin.
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

/// The thread's own side.
struct Hand {
    archive: Box<dyn Watched>,
    ballast: Ballast,
    voice: Voice,
    notes: Arc<Mutex<VecDeque<Noted>>>,
    full: Arc<AtomicBool>,
    /// When ballast was last asked for.
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

    /// Writes what waits, the earliest first, until all is written or the archive takes no more.
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
                // These will never be taken.
                Err(error @ (StoreError::Refused { .. } | StoreError::NoSuchPlanned { .. })) => {
                    self.voice.trouble(&error.to_string());
                }
                Err(error) => return Err(error),
            }
            lock(&self.notes).drain(..count);
        }
    }

    /// Plans that follow each other are written as one.
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

    /// A write that finds no room is made again in the room of the ballast.
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
