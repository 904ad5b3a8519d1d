//! The send loop: takes a batch from the outbox, sends it, and records the acknowledged items.

use super::backoff::RetryBackoff;
use super::batch_wire::BatchResponse;
use super::collector_client::CollectorClient;
use super::{DeliveryError, OutboxLimit, database_delivery, format_error_chain};
use crate::agent::agent_log::AgentLog;
use crate::agent::clocks::read_wall_us;
use crate::agent::shared_database::{self, ClickHouseSink};
use crate::agent::shared_state::SharedState;
use crate::watch::hash_random;
use crate::watch::watch_file::WatchFile;
use longhaul_store::sqlite::outbox::{OutboxBacklog, OutboxEntry, OutgoingBatch, RefusedEntry};
use longhaul_store::{Archive, StoreError};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::timeout;

/// The maximum number of items in a batch.
const MAX_BATCH_ITEMS: u32 = 500;
/// The maximum size of a batch, unless a single item is larger.
const MAX_BATCH_BYTES: u64 = 4 << 20;
/// The poll interval of an empty outbox, so that batches fill a little.
const EMPTY_POLL: Duration = Duration::from_secs(1);
/// The poll interval while the file names no destination.
const NO_DESTINATION_POLL: Duration = Duration::from_secs(5);
/// The interval between two counts of the backlog.
const BACKLOG_INTERVAL: Duration = Duration::from_secs(10);

/// The receiver of batches.
enum ExportDestination {
    Collector(CollectorClient),
    Database(ClickHouseSink),
}

pub struct BatchSender {
    state: Arc<SharedState>,
    path: PathBuf,
    archive: Option<Archive>,
    log: AgentLog,
    outbox_limit: OutboxLimit,
    stop: watch::Receiver<bool>,
    runtime: Handle,
    /// The destination, and the watch file that it was created from.
    destination: Result<Option<ExportDestination>, String>,
    resolved_file: Option<Arc<WatchFile>>,
    backoff: RetryBackoff,
    /// The maximum number of items in the next batch.
    max_items: u32,
    /// The last error that was logged.
    logged_error: Option<String>,
    counted_at: Option<Instant>,
}

impl BatchSender {
    pub fn new(
        state: Arc<SharedState>,
        path: PathBuf,
        log: AgentLog,
        spool: OutboxLimit,
        stop: watch::Receiver<bool>,
    ) -> BatchSender {
        let seed = hash_random::hash_text(&state.file().agent.name) ^ state.started_us as u64;
        BatchSender {
            state,
            path,
            archive: None,
            log,
            outbox_limit: spool,
            stop,
            runtime: Handle::current(),
            destination: Ok(None),
            resolved_file: None,
            backoff: RetryBackoff::new(seed),
            max_items: MAX_BATCH_ITEMS,
            logged_error: None,
            counted_at: None,
        }
    }

    /// Sends batches until `stop` is true. Blocks the thread.
    pub fn run(mut self) {
        loop {
            let wait = match self.send_next_batch() {
                Ok(wait) => wait,
                Err(_) if *self.stop.borrow() => return,
                Err(why) => self.record_failure(why),
            };
            self.count_backlog();
            let runtime = self.runtime.clone();
            let stopped = self.stop.wait_for(|stop| *stop);
            if runtime.block_on(async { timeout(wait, stopped).await.is_ok() }) {
                return;
            }
        }
    }

    /// Sends one batch. Returns the delay before the next one.
    fn send_next_batch(&mut self) -> Result<Duration, String> {
        let file = self.refresh_destination();
        if self.destination.as_ref().map_err(String::clone)?.is_none() {
            return Ok(NO_DESTINATION_POLL);
        }
        let items = self.max_items;
        let outgoing =
            self.with_archive(|archive| archive.next_outgoing(items, MAX_BATCH_BYTES))?;
        let Some(outgoing) = outgoing else {
            return Ok(EMPTY_POLL);
        };
        let Some(refused) = self.deliver_or_split(&file.agent.name, &outgoing)? else {
            return Ok(Duration::ZERO);
        };
        self.log_rejected(&refused);
        self.with_archive(|archive| archive.acknowledge(outgoing.up_to, &refused))?;
        self.max_items = (self.max_items * 2).min(MAX_BATCH_ITEMS);
        Ok(Duration::ZERO)
    }

    /// Returns the rejected items of a delivered batch, or `None` if the batch must be split and
    /// sent again at once.
    fn deliver_or_split(
        &mut self,
        agent: &str,
        outgoing: &OutgoingBatch,
    ) -> Result<Option<Vec<RefusedEntry>>, String> {
        let count = outgoing.items.len();
        let first = outgoing.items.first().map(|it| it.place);
        match self.deliver(agent, &outgoing.items) {
            Ok(answer) => {
                self.record_success();
                Ok(Some(answer.refused))
            }
            Err(DeliveryError::Temporary(why)) => Err(why),
            Err(DeliveryError::Rejected(why)) => match first {
                // A batch of one item: this item is the rejected one.
                Some(place) if count == 1 => Ok(Some(vec![RefusedEntry { place, why }])),
                _ => {
                    self.max_items = (count as u32 / 2).max(1);
                    Ok(None)
                }
            },
        }
    }

    /// Returns the current watch file; reopens the destination if the file has changed.
    fn refresh_destination(&mut self) -> Arc<WatchFile> {
        let file = self.state.file();
        let is_current = self.resolved_file.as_ref().is_some_and(|it| Arc::ptr_eq(it, &file));
        // An unreadable token file, for example, may have been fixed in the meantime.
        if !is_current || self.destination.is_err() {
            self.destination = open_destination(&file, &self.state.folder);
            self.resolved_file = Some(Arc::clone(&file));
            self.counted_at = None;
        }
        file
    }

    fn deliver(
        &mut self,
        agent: &str,
        items: &[OutboxEntry],
    ) -> Result<BatchResponse, DeliveryError> {
        if items.is_empty() {
            return Ok(BatchResponse::default());
        }
        match &mut self.destination {
            Ok(Some(ExportDestination::Collector(way))) => self.runtime.block_on(async {
                tokio::select! {
                    answer = way.send_batch(agent, read_wall_us(), items) => answer,
                    _ = self.stop.wait_for(|stop| *stop) => {
                        Err(DeliveryError::Temporary("the agent is stopping".to_owned()))
                    }
                }
            }),
            Ok(Some(ExportDestination::Database(database))) => {
                database_delivery::deliver_items(agent, items, |delivery| {
                    database.receive(delivery)
                })
            }
            _ => Err(DeliveryError::Temporary("no collector or database is configured".to_owned())),
        }
    }

    /// Opens the archive first if it is not open.
    fn with_archive<T>(
        &mut self,
        work: impl FnOnce(&mut Archive) -> Result<T, StoreError>,
    ) -> Result<T, String> {
        let archive = match &mut self.archive {
            Some(archive) => Ok(archive),
            none => open_outbox(&self.path).map(|opened| none.insert(opened)),
        };
        archive.and_then(work).map_err(|error| format_error_chain(&error))
    }

    /// Counts the backlog if the last count is old enough.
    fn count_backlog(&mut self) {
        if self.counted_at.is_some_and(|at| at.elapsed() < BACKLOG_INTERVAL) {
            return;
        }
        self.counted_at = Some(Instant::now());
        if matches!(self.destination, Ok(None)) {
            self.publish_backlog(None);
            return;
        }
        let retain_us = self.state.file().retain.runs.as_micros();
        let before_us = read_wall_us().saturating_sub(i64::try_from(retain_us).unwrap_or(i64::MAX));
        if let Ok(backlog) = self.with_archive(|it| it.backlog(before_us)) {
            self.publish_backlog(Some(backlog));
        }
    }

    fn publish_backlog(&self, backlog: Option<OutboxBacklog>) {
        let file = self.state.file();
        let of_collector = file.collector.as_ref().map(|it| it.spool_bytes);
        let bound = of_collector.or(file.database.as_ref().map(|it| it.spool_bytes));
        let held = backlog.map_or(0, |it| it.held_bytes);
        let full = bound.is_some_and(|bound| held > bound);
        if self.outbox_limit.set_full(full) {
            self.log.warn(if full {
                "unsent results beyond [retain] exceed spool_bytes: no run starts"
            } else {
                "unsent results are within spool_bytes again; runs resume"
            });
        }
        let mut figures = self.state.counters.write();
        figures.to_send = backlog.map(|it| it.items);
        figures.set_aside = backlog.map(|it| it.set_aside);
    }

    fn log_rejected(&self, refused: &[RefusedEntry]) {
        if let Some(first) = refused.first() {
            let count = refused.len();
            self.log.warn(&format!(
                "the receiver rejected {count} {}, kept in this archive; first reason: {}",
                if count == 1 { "item" } else { "items" },
                first.why
            ));
        }
    }

    fn destination_name(&self) -> String {
        match &self.destination {
            Ok(Some(ExportDestination::Collector(way))) => {
                format!("the collector {}", way.display_host())
            }
            _ if self.state.file().database.is_some() => "the database".to_owned(),
            _ => "the collector".to_owned(),
        }
    }

    /// Logs an error unless it equals the last one. Returns the retry delay.
    fn record_failure(&mut self, why: String) -> Duration {
        if self.logged_error.as_ref() != Some(&why) {
            let whereto = self.destination_name();
            self.log
                .warn(&format!("cannot send to {whereto}: {why}; results are kept in the archive"));
            self.logged_error = Some(why);
        }
        self.backoff.next_delay()
    }

    fn record_success(&mut self) {
        if self.backoff.failures() > 0 {
            self.log.info(&format!("{} accepts results again", self.destination_name()));
        }
        self.backoff.reset();
        self.logged_error = None;
    }
}

/// Opens the destination that the file names, or returns `None` if it names none.
fn open_destination(
    file: &WatchFile,
    folder: &std::path::Path,
) -> Result<Option<ExportDestination>, String> {
    if let Some(section) = &file.database {
        let database = shared_database::open_database(section, folder)
            .map_err(|error| format_error_chain(&error))?;
        return Ok(Some(ExportDestination::Database(database)));
    }
    let Some(section) = &file.collector else {
        return Ok(None);
    };
    CollectorClient::new(section, folder).map(|way| Some(ExportDestination::Collector(way)))
}

/// Opens the archive and puts items that were rejected before back into the outbox: the receiver
/// may accept them now.
fn open_outbox(path: &std::path::Path) -> Result<Archive, StoreError> {
    let mut archive = Archive::open(path)?;
    archive.requeue_rejected()?;
    Ok(archive)
}
