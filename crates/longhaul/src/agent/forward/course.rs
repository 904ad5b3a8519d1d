//! The send loop: takes a batch from the outbox, sends it, and records the acknowledged items.

use super::backoff::Backoff;
use super::collector::Way;
use super::wire::Answer;
use super::{Spool, Trouble, chain, database};
use crate::agent::desk::Desk;
use crate::agent::fleet;
use crate::agent::now::wall_us;
use crate::agent::voice::Voice;
use crate::watch::draw;
use crate::watch::file::WatchFile;
use longhaul_store::sqlite::outbox::{Backlog, Outgoing, Refusal};
use longhaul_store::{Archive, StoreError, Watched};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The maximum number of items in a batch.
const ITEMS: u32 = 500;
/// The maximum size of a batch, unless a single item is larger.
const BATCH_BYTES: u64 = 4 << 20;
/// The poll interval of an empty outbox, so that batches fill a little.
const EMPTY: Duration = Duration::from_secs(1);
/// The poll interval while the file names no destination.
const NOWHERE: Duration = Duration::from_secs(5);
/// The interval between two counts of the backlog.
const COUNT: Duration = Duration::from_secs(10);

/// The receiver of batches.
enum Destination {
    Collector(Way),
    Database(Arc<Mutex<Box<dyn Watched>>>),
}

/// A destination and the watch file that it was created from.
struct Held {
    file: Arc<WatchFile>,
    destination: Result<Option<Destination>, String>,
}

pub struct Course {
    desk: Arc<Desk>,
    path: PathBuf,
    archive: Option<Arc<Mutex<Archive>>>,
    voice: Voice,
    spool: Spool,
    held: Option<Held>,
    backoff: Backoff,
    /// The maximum number of items in the next batch.
    items: u32,
    /// The last error that was logged.
    told: Option<String>,
    counted: Option<Instant>,
}

impl Course {
    pub fn new(desk: Arc<Desk>, path: PathBuf, voice: Voice, spool: Spool) -> Course {
        let seed = draw::word(&desk.file().agent.name) ^ desk.started_us as u64;
        Course {
            desk,
            path,
            archive: None,
            voice,
            spool,
            held: None,
            backoff: Backoff::new(seed),
            items: ITEMS,
            told: None,
            counted: None,
        }
    }

    /// Sends batches until it is cancelled.
    pub async fn work(mut self) {
        loop {
            let wait = match self.step().await {
                Ok(wait) => wait,
                Err(why) => self.failed(why),
            };
            self.count().await;
            tokio::time::sleep(wait).await;
        }
    }

    /// Sends one batch. Returns the delay before the next one.
    async fn step(&mut self) -> Result<Duration, String> {
        let file = self.look_at_the_file().await;
        if !self.has_destination()? {
            return Ok(NOWHERE);
        }
        let items = self.items;
        let outgoing = self
            .on_archive(move |archive| archive.to_send(items, BATCH_BYTES))
            .await?;
        let Some(outgoing) = outgoing else {
            return Ok(EMPTY);
        };
        let up_to = outgoing.up_to;
        let Some(refused) = self.refused(&file.agent.name, outgoing).await? else {
            return Ok(Duration::ZERO);
        };
        self.tell_refused(&refused);
        self.on_archive(move |archive| archive.acknowledged(up_to, &refused))
            .await?;
        self.items = (self.items * 2).min(ITEMS);
        Ok(Duration::ZERO)
    }

    /// Returns the rejected items of a delivered batch, or `None` if the batch must be split and
    /// sent again at once.
    async fn refused(
        &mut self,
        agent: &str,
        outgoing: Outgoing,
    ) -> Result<Option<Vec<Refusal>>, String> {
        let count = outgoing.items.len();
        let first = outgoing.items.first().map(|it| it.place);
        match self.deliver(agent, outgoing).await {
            Ok(answer) => {
                self.worked();
                Ok(Some(answer.refused))
            }
            Err(Trouble::Later(why)) => Err(why),
            Err(Trouble::Refused(why)) => match first {
                // A batch of one item: this item is the rejected one.
                Some(place) if count == 1 => Ok(Some(vec![Refusal { place, why }])),
                _ => {
                    self.items = (count as u32 / 2).max(1);
                    Ok(None)
                }
            },
        }
    }

    /// Returns the current watch file; reopens the destination if the file has changed.
    async fn look_at_the_file(&mut self) -> Arc<WatchFile> {
        let file = self.desk.file();
        let known = self.held.as_ref();
        let fails = known.is_some_and(|held| held.destination.is_err());
        // An unreadable token file, for example, may have been fixed in the meantime.
        if fails || known.is_none_or(|held| !Arc::ptr_eq(&held.file, &file)) {
            let (named, folder) = (Arc::clone(&file), self.desk.folder.clone());
            let made = tokio::task::spawn_blocking(move || destination(&named, &folder)).await;
            self.held = Some(Held {
                file: Arc::clone(&file),
                destination: made.unwrap_or_else(|error| Err(error.to_string())),
            });
            self.counted = None;
        }
        file
    }

    fn has_destination(&self) -> Result<bool, String> {
        match self.held.as_ref().map(|held| &held.destination) {
            Some(Ok(destination)) => Ok(destination.is_some()),
            Some(Err(why)) => Err(why.clone()),
            None => Ok(false),
        }
    }

    async fn deliver(&self, agent: &str, outgoing: Outgoing) -> Result<Answer, Trouble> {
        if outgoing.items.is_empty() {
            return Ok(Answer::default());
        }
        let items = Arc::new(outgoing.items);
        match self.held.as_ref().map(|held| &held.destination) {
            Some(Ok(Some(Destination::Collector(way)))) => {
                way.deliver(agent, wall_us(), items).await
            }
            Some(Ok(Some(Destination::Database(database)))) => {
                let (agent, database) = (agent.to_owned(), Arc::clone(database));
                let stored = tokio::task::spawn_blocking(move || {
                    let mut database = database.lock().unwrap_or_else(PoisonError::into_inner);
                    database::deliver(database.as_mut(), &agent, &items)
                });
                let gone = |error: tokio::task::JoinError| Trouble::Later(error.to_string());
                stored.await.map_err(gone)?
            }
            _ => Err(Trouble::Later("there is no destination".to_owned())),
        }
    }

    /// Runs `work` on a thread for blocking work.
    async fn on_archive<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Archive) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, String> {
        let archive = if let Some(archive) = &self.archive {
            Arc::clone(archive)
        } else {
            let path = self.path.clone();
            let opened = tokio::task::spawn_blocking(move || opened(&path)).await;
            let opened = opened.map_err(|error| error.to_string())??;
            Arc::clone(self.archive.insert(Arc::new(Mutex::new(opened))))
        };
        let done = tokio::task::spawn_blocking(move || {
            let mut archive = archive.lock().unwrap_or_else(PoisonError::into_inner);
            work(&mut archive).map_err(|error| chain(&error))
        });
        done.await.map_err(|error| error.to_string())?
    }

    /// Counts the backlog if the last count is old enough.
    async fn count(&mut self) {
        if self.counted.is_some_and(|at| at.elapsed() < COUNT) {
            return;
        }
        self.counted = Some(Instant::now());
        if !matches!(self.has_destination(), Ok(true) | Err(_)) {
            self.figures(None);
            return;
        }
        let retain_us = self.desk.file().retain.runs.as_micros();
        let before_us = wall_us().saturating_sub(i64::try_from(retain_us).unwrap_or(i64::MAX));
        if let Ok(backlog) = self.on_archive(move |it| it.backlog(before_us)).await {
            self.figures(Some(backlog));
        }
    }

    fn figures(&self, backlog: Option<Backlog>) {
        let file = self.desk.file();
        let of_collector = file.collector.as_ref().map(|it| it.spool_bytes);
        let bound = of_collector.or(file.database.as_ref().map(|it| it.spool_bytes));
        let held = backlog.map_or(0, |it| it.held_bytes);
        let full = bound.is_some_and(|bound| held > bound);
        if self.spool.set(full) {
            self.voice.trouble(if full {
                "more waits to be sent than spool_bytes allows beyond [retain]: no run starts"
            } else {
                "what waits to be sent fits into spool_bytes again: runs start again"
            });
        }
        let mut figures = self
            .desk
            .figures
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        figures.to_send = backlog.map(|it| it.items);
        figures.set_aside = backlog.map(|it| it.set_aside);
    }

    fn tell_refused(&self, refused: &[Refusal]) {
        if let Some(first) = refused.first() {
            let count = refused.len();
            self.voice.trouble(&format!(
                "{count} of what was sent {} not taken and stays here; the first because: {}",
                if count == 1 { "was" } else { "were" },
                first.why
            ));
        }
    }

    fn whereto(&self) -> String {
        match self.held.as_ref().map(|held| &held.destination) {
            Some(Ok(Some(Destination::Collector(way)))) => format!("the collector {}", way.host()),
            Some(Ok(Some(Destination::Database(_)))) => "the database".to_owned(),
            _ if self.desk.file().database.is_some() => "the database".to_owned(),
            _ => "the collector".to_owned(),
        }
    }

    /// Logs an error unless it equals the last one. Returns the retry delay.
    fn failed(&mut self, why: String) -> Duration {
        if self.told.as_ref() != Some(&why) {
            let whereto = self.whereto();
            self.voice.trouble(&format!(
                "cannot send to {whereto}: {why}; what is measured waits in the archive"
            ));
            self.told = Some(why);
        }
        self.backoff.failed()
    }

    fn worked(&mut self) {
        if self.backoff.failures() > 0 {
            self.voice
                .note(&format!("{} takes what was measured again", self.whereto()));
        }
        self.backoff.worked();
        self.told = None;
    }
}

/// Opens the destination that the file names, or returns `None` if it names none.
fn destination(file: &WatchFile, folder: &std::path::Path) -> Result<Option<Destination>, String> {
    if let Some(section) = &file.database {
        let database = fleet::open(section, folder).map_err(|error| chain(&error))?;
        let database = Arc::new(Mutex::new(database));
        return Ok(Some(Destination::Database(database)));
    }
    let Some(section) = &file.collector else {
        return Ok(None);
    };
    Way::to(section, folder).map(|way| Some(Destination::Collector(way)))
}

/// Opens the archive and puts items that were rejected before back into the outbox: the receiver
/// may accept them now.
fn opened(path: &std::path::Path) -> Result<Archive, String> {
    let open = || -> Result<Archive, StoreError> {
        let mut archive = Archive::open(path)?;
        archive.send_refused_again()?;
        Ok(archive)
    };
    open().map_err(|error| chain(&error))
}
