//! The analysis worker: detects lasting changes in new values, diagnoses causes, and requests
//! measurements that decide between them.
//!
//! A thread with its own archive connection, so that neither the event loop nor the archive writer
//! waits for it.
//!
//! - [`mod@series`]: the values that the detector reads
//! - [`gathered`]: the evidence in the archive around an event
//! - [`letter`]: the case text for the network operator
//! - [`others`]: paths that changed at the same time, and paths that did not
//! - [`reroutes`]: the rate of route changes of a pair
//! - [`proved`]: evidence from a search for better settings

mod gathered;
mod letter;
mod others;
mod proved;
mod reroutes;
mod series;

use super::folder::Folder;
use super::now;
use crate::watch::file::{Detect, WatchFile};
use gathered::Gathered;
pub use letter::case_text_of;
use longhaul_analysis::detect::Options;
use longhaul_analysis::detect::watcher::Watcher;
use longhaul_analysis::event::{Explained, Wanted, case_text, explain, follow_up};
use longhaul_model::report::v1::event::{Event, State};
use longhaul_model::report::v1::quantity::{Quantity, Scale};
use longhaul_model::report::v1::series::Pair;
use longhaul_store::watched::{EventFilter, Range, is_open};
use longhaul_store::{StoreError, Watched};
use reroutes::Reroutes;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use tokio::sync::mpsc;

/// The maximum number of queued tasks, enough for a thousand paths per minute.
const LOOKS_MAX: usize = 4096;
const HEARD_MAX: usize = 1024;
/// The maximum number of earlier events that are read for a pair.
const EVENTS_MAX: u32 = 500;
/// The maximum number of explanations of an open event per state.
const TRIES: u32 = 6;
/// The maximum number of events whose explanations are counted.
const TRIED_MAX: usize = 10_000;

/// A run was stored.
#[derive(Debug)]
pub struct Look {
    pub run_id: String,
    pub pairs: Vec<Pair>,
    /// Series with a new value.
    pub touched: Vec<(Pair, Quantity)>,
    /// The event that the run was requested for.
    pub follows_up: Option<String>,
}

/// A result of the analysis.
#[derive(Debug)]
pub enum Heard {
    Event {
        event: Arc<Event>,
        /// The event is new, or its state or first cause has changed.
        is_news: bool,
        /// The case text for the network operator.
        case: Arc<str>,
    },
    Wanted {
        event: Arc<Event>,
        wanted: Vec<Wanted>,
    },
    Trouble(String),
}

enum Task {
    Look(Look),
    /// The id of an event whose notification is pending.
    Tell(String),
    File(Arc<WatchFile>),
}

/// The handle of the analysis thread.
#[derive(Debug, Clone)]
pub struct Inquiry {
    tasks: SyncSender<Task>,
}

impl Inquiry {
    pub fn start(
        archive: Box<dyn Watched>,
        file: Arc<WatchFile>,
        folder: &Folder,
    ) -> io::Result<(Inquiry, mpsc::Receiver<Heard>)> {
        let (tasks, taken) = sync_channel(LOOKS_MAX);
        let (out, heard) = mpsc::channel(HEARD_MAX);
        let inquirer = Inquirer {
            archive,
            file,
            out,
            tried: HashMap::new(),
            reroutes: Reroutes::read(folder.file("reroutes.json")),
        };
        thread::Builder::new()
            .name("events".to_owned())
            .spawn(move || inquirer.work(&taken))?;
        Ok((Inquiry { tasks }, heard))
    }

    /// Submits a stored run. Returns false if the queue is full.
    pub fn look(&self, look: Look) -> bool {
        self.tasks.try_send(Task::Look(look)).is_ok()
    }

    /// Requests the notification of an event again.
    pub fn tell(&self, event_id: String) {
        let _ = self.tasks.try_send(Task::Tell(event_id));
    }

    pub fn follow(&self, file: Arc<WatchFile>) {
        // A full queue is reported at the next run.
        let _ = self.tasks.try_send(Task::File(file));
    }
}

/// The state of the analysis thread.
struct Inquirer {
    archive: Box<dyn Watched>,
    file: Arc<WatchFile>,
    out: mpsc::Sender<Heard>,
    /// The number of explanations per event.
    tried: HashMap<String, u32>,
    reroutes: Reroutes,
}

impl Inquirer {
    fn work(mut self, tasks: &Receiver<Task>) {
        while let Ok(task) = tasks.recv() {
            match task {
                Task::File(file) => self.file = file,
                Task::Tell(id) => {
                    let event = self.archive.event(&id).ok().flatten();
                    if let Some(event) = event
                        && let Err(error) = self.explain(event, true)
                    {
                        self.say(Heard::Trouble(format!("event {id} is not told: {error}")));
                    }
                }
                Task::Look(look) => {
                    let run = look.run_id.clone();
                    if let Err(error) = self.look(&look) {
                        let text = format!("run {run} was not looked at for events: {error}");
                        self.say(Heard::Trouble(text));
                    }
                }
            }
        }
    }

    fn say(&self, heard: Heard) {
        // Sending fails only after the event loop has ended.
        let _ = self.out.blocking_send(heard);
    }

    fn look(&mut self, look: &Look) -> Result<(), StoreError> {
        self.reroutes.note(&*self.archive, look)?;
        let file = Arc::clone(&self.file);
        let followed = file.detect.quantities.as_deref();
        let mut news = Vec::new();
        for (pair, quantity) in &look.touched {
            if followed.is_none_or(|some| some.contains(quantity)) {
                self.follow(pair, *quantity, &mut news)?;
            }
        }
        if let Some(id) = &look.follows_up
            && let Some(mut event) = self.archive.event(id)?
        {
            event.follow_ups.push(look.run_id.clone());
            self.explain(event, false)?;
            news.push(id.clone());
        }
        self.look_for_causes(&look.pairs, &news)
    }

    /// Runs the detector on one series. Adds the ids of explained events to `news`.
    fn follow(
        &mut self,
        pair: &Pair,
        quantity: Quantity,
        news: &mut Vec<String>,
    ) -> Result<(), StoreError> {
        let options = options(&self.file.detect, quantity);
        let now_us = now::wall_us();
        let points = series::points(&*self.archive, (pair, quantity), &options, now_us)?;
        let begin_us = points.first().map_or(now_us, |point| point.at_us);
        let filter = EventFilter {
            range: Range {
                begin_us,
                end_us: i64::MAX,
            },
            pair: Some(pair.clone()),
            state: None,
            limit: EVENTS_MAX,
        };
        let earlier = self.archive.events(&filter)?;
        let watcher = Watcher {
            pair: pair.clone(),
            quantity,
            options,
        };
        let followed = watcher.follow(&points, &earlier, now_us);
        for event in followed.events {
            if followed.news.contains(&event.id) {
                news.push(event.id.clone());
                self.tried.remove(&event.id);
                self.explain(event, true)?;
            } else if earlier.iter().any(|old| old.between_us == event.between_us) {
                self.archive.put_event(&event)?;
            } else {
                // The change point has moved, so the evidence differs.
                news.push(event.id.clone());
                self.explain(event, false)?;
            }
        }
        Ok(())
    }

    /// Explains open events again, because new runs of their pairs may bring evidence.
    fn look_for_causes(&mut self, pairs: &[Pair], done: &[String]) -> Result<(), StoreError> {
        for pair in pairs {
            let filter = EventFilter {
                range: Range::ALL,
                pair: Some(pair.clone()),
                state: Some(State::Confirmed),
                limit: EVENTS_MAX,
            };
            for event in self.archive.events(&filter)? {
                let tried = self.tried.get(&event.id).copied().unwrap_or(0);
                let asks = is_open(&event) && tried < TRIES;
                if asks && !done.contains(&event.id) {
                    self.explain(event, false)?;
                }
            }
        }
        Ok(())
    }

    /// Diagnoses causes, stores the event, and requests measurements that decide between causes.
    fn explain(&mut self, mut event: Event, is_news: bool) -> Result<(), StoreError> {
        if self.tried.len() >= TRIED_MAX {
            self.tried.clear();
        }
        *self.tried.entry(event.id.clone()).or_insert(0) += 1;
        let quicker = self.file.detect.quicker.unwrap_or(1);
        let base_rate = self.reroutes.base_rate(&*self.archive, &event.pair)?;
        let mut gathered = Gathered::around(&*self.archive, &event, &self.file)?;
        gathered.base_rate = base_rate;
        let evidence = gathered.evidence(&event, quicker);
        let mut explained = explain(&event, &evidence);
        proved::add(&event, &gathered.scans, &mut explained);
        let case = case_text(&event, &explained, &evidence);
        let wanted = follow_up(&event, &explained, &evidence);
        let found = found_more(&event, &explained);
        event.causes = explained.causes;
        event.unchanged = explained.unchanged;
        event.scope = explained.scope;
        self.archive.put_event(&event)?;
        let (event, open) = (Arc::new(event.clone()), is_open(&event));
        self.say(Heard::Event {
            event: Arc::clone(&event),
            is_news: is_news || found,
            case: case.into(),
        });
        if open && event.state == State::Confirmed && !wanted.is_empty() {
            self.say(Heard::Wanted { event, wanted });
        }
        Ok(())
    }
}

/// Returns whether the most likely cause has changed.
fn found_more(before: &Event, now: &Explained) -> bool {
    let first = |causes: &[longhaul_model::report::v1::Finding]| {
        causes.first().map(|finding| finding.cause.clone())
    };
    !now.causes.is_empty() && first(&before.causes) != first(&now.causes)
}

fn options(detect: &Detect, quantity: Quantity) -> Options {
    let plain = Options::default();
    let least = detect
        .least_change
        .filter(|_| quantity.scale() == Scale::Ratio)
        .map(f64::ln_1p);
    Options {
        season: detect.season.unwrap_or(plain.season),
        least,
        ..plain.quicker(detect.quicker.unwrap_or(1))
    }
}
