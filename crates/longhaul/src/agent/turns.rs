//! The event loop of the agent.

use super::book::Book;
use super::desk::{Desk, News, Order};
use super::inquiry::{Heard, Inquiry, Look};
use super::left;
use super::notify::Notifier;
use super::now::Clocks;
use super::runner::Spooled;
use super::runs::{Came, Landed, Makers, Ran};
use super::scribe::{Noted, Scribe};
use super::service::Service;
use super::spent::Keeper;
use super::voice::Voice;
use super::wishes::Wishes;
use crate::watch::schedule::{Outcome, Reason, RunId, Schedule};
use longhaul_store::watched;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::PoisonError;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// The maximum sleep, because the clock may be set and the host may suspend.
const SLEEP_MOST: Duration = Duration::from_secs(30);

/// The state of the event loop.
pub struct Agent {
    pub clocks: Clocks,
    pub schedule: Schedule,
    pub spent: Keeper,
    pub book: Book,
    pub desk: Arc<Desk>,
    pub scribe: Scribe,
    pub makers: Makers,
    pub inquiry: Inquiry,
    pub wishes: Wishes,
    pub notifier: Notifier,
    pub service: Service,
    pub voice: Voice,
    /// Names of running runs by id.
    pub under_way: HashMap<RunId, String>,
}

/// The channels from which the event loop receives.
pub struct Ears {
    pub ran: mpsc::Receiver<Ran>,
    pub heard: mpsc::Receiver<Heard>,
    pub orders: mpsc::Receiver<Order>,
}

impl Agent {
    /// Starts due runs and records the decisions of the schedule.
    pub fn turn(&mut self) {
        let starts = self.schedule.due(self.clocks.now());
        self.write_down();
        let file = self.desk.file();
        for start in starts {
            let key = &start.job.key;
            let name = crate::render::watch::lines::who(&key.measure, &key.from, &key.to);
            self.under_way.insert(Arc::clone(&start.id), name);
            self.makers.start(start, &file);
        }
        self.service.alive();
    }

    /// Passes the notes of the schedule to the archive and updates the counters for the page.
    pub fn write_down(&mut self) {
        self.spent.keep(self.schedule.spent());
        let notes = self.schedule.take_notes();
        if !notes.is_empty() {
            self.book
                .take(notes, (&self.desk, &self.scribe, self.voice));
        }
        let mut figures = self
            .desk
            .figures
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        figures.tally = self.schedule.tally();
        figures.bytes_today = self.schedule.bytes_today();
        if figures.missed.iter().map(|(_, runs)| runs).sum::<u64>()
            != self.book.missed.values().sum::<u64>()
        {
            let missed = self.book.missed.iter();
            figures.missed = missed
                .map(|(word, runs)| ((*word).to_owned(), *runs))
                .collect();
        }
        (figures.notified, figures.notices_failed) = self.notifier.counts();
    }

    /// Returns the time of the next wake-up.
    pub fn wakes_at(&self) -> Instant {
        let now_us = self.clocks.now().wall_us;
        let wait = self.schedule.next_at().map_or(SLEEP_MOST, |at_us| {
            Duration::from_micros(u64::try_from(at_us - now_us).unwrap_or(0))
        });
        Instant::now() + wait.min(SLEEP_MOST).min(self.service.pause())
    }

    /// Waits for one event, or for the next wake-up, and handles it.
    pub async fn hear(&mut self, ears: &mut Ears) {
        tokio::select! {
            () = sleep_until(self.wakes_at()) => {}
            ran = ears.ran.recv() => {
                if let Some(ran) = ran {
                    self.ran(&ran);
                }
            }
            heard = ears.heard.recv() => {
                if let Some(heard) = heard {
                    self.heard(heard);
                }
            }
            order = ears.orders.recv() => {
                if let Some(Order { key, answer }) = order {
                    let _ = answer.send(self.schedule.ask(&key, self.clocks.now()));
                }
            }
        }
    }

    /// Handles a finished run.
    pub fn ran(&mut self, ran: &Ran) {
        let Some(start) = &ran.start else {
            self.ran_earlier(ran);
            return;
        };
        self.under_way.remove(&start.id);
        let outcome = ran.came.outcome(&start.job);
        self.schedule
            .finished(&start.id, outcome, self.clocks.now());
        let (key, id) = (&start.job.key, &*start.id);
        match &ran.came {
            Came::Landed(landed) => {
                self.voice.ran(key, id, &landed.report);
                self.landed(landed, id);
            }
            Came::Spooled(_, why) => {
                self.voice
                    .trouble(&format!("run {id} waits in the spool: {why}"));
                let files = Spooled::new(&self.makers.runner.spool, id);
                let left = vec![(files, ran.owner.clone())];
                tokio::spawn(left::see_to(self.makers.clone(), left));
            }
            Came::Refused(why) => self.voice.refused(key, id, why),
            Came::Failed(why) => {
                self.voice.failed(key, id, why);
                drop(self.wishes.ended(id));
            }
            Came::DiskFull | Came::SpoolFull | Came::Stopped => drop(self.wishes.ended(id)),
        }
    }

    /// Handles a run of an earlier process, or one that waited in the spool.
    fn ran_earlier(&mut self, ran: &Ran) {
        let id = ran.owner.planned_id.clone();
        match &ran.came {
            Came::Landed(landed) => {
                let run = &landed.run_id;
                self.voice
                    .note(&format!("run {run} of the spool is in the archive now"));
                if !landed.known {
                    self.landed(landed, &id);
                }
            }
            Came::Failed(why) => {
                self.voice.note(&format!("planned run {id}: {why}"));
                let reason = Reason::AgentStopped.word().to_owned();
                let outcome = watched::Outcome::Missed { reason };
                self.scribe.note([Noted::Ended(id, outcome)]);
            }
            _ => {}
        }
    }

    fn landed(&mut self, landed: &Landed, planned_id: &str) {
        let news = News::Run {
            id: landed.run_id.clone(),
            pairs: landed.pairs.clone(),
        };
        let _ = self.desk.news.send(news);
        let look = Look {
            run_id: landed.run_id.clone(),
            pairs: landed.pairs.clone(),
            touched: landed.touched.clone(),
            follows_up: self.wishes.ended(planned_id),
        };
        if !self.inquiry.look(look) {
            self.voice
                .trouble("detection is far behind: a run was not looked at");
        }
    }

    /// Handles a result of the analysis.
    fn heard(&mut self, heard: Heard) {
        match heard {
            Heard::Event {
                event,
                is_news,
                case,
            } => {
                let _ = self.desk.news.send(News::Event(Arc::clone(&event)));
                if is_news {
                    self.voice.event(&event);
                    self.notifier.tell(&event, &case);
                }
            }
            Heard::Wanted { event, wanted } => {
                let now = self.clocks.now();
                let file = self.desk.file();
                let asked = self
                    .wishes
                    .ask(&event, &wanted, &file, (&mut self.schedule, now));
                for text in asked {
                    self.voice.note(&text);
                }
            }
            Heard::Trouble(text) => self.voice.trouble(&text),
        }
    }

    /// Marks runs that are still running at shutdown as not started.
    pub fn abandon(&mut self) {
        let now = self.clocks.now();
        for (id, _) in self.under_way.drain() {
            let outcome = Outcome::NotStarted(Reason::Stopping);
            self.schedule.finished(&id, outcome, now);
        }
        self.write_down();
    }
}
