//! The outbox: items that another archive has not acknowledged yet.
//!
//! Once [`Archive::set_destinations`] has named destinations, every run, planned run and event is
//! recorded in the outbox for each of them, in the transaction that writes it. The outbox has each item
//! once for a destination, in its latest state. While a destination is unreachable the agent continues
//! to store, and retention keeps everything that waits. An item may be delivered twice; the receiver
//! stores it once.

use super::planned_table;
use crate::archive::Archive;
use crate::history_store::{IncomingRun, PlannedRun};
use crate::store_error::StoreError;
use longhaul_model::report::v1::{ChangeEvent, HostPair};
use rusqlite::{OptionalExtension, Transaction, params};
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;
use std::collections::BTreeSet;

const RUN: i64 = 0;
const PLANNED: i64 = 1;
const EVENT: i64 = 2;

/// The assumed size of a planned run: its names and a later outcome.
const PLANNED_BYTES: usize = 256;

/// The destination of an agent with a collector or a database.
pub const MAIN_DESTINATION: &str = "";

/// Records a run for all destinations.
pub(super) fn put_run(to: &Transaction<'_>, run: &IncomingRun) -> rusqlite::Result<()> {
    put_item(to, RUN, &run.run.id, run.at_us, run.report.len(), run.near.as_deref())
}

/// Records a planned run for all destinations.
pub(super) fn put_planned(to: &Transaction<'_>, id: &str, due_us: i64) -> rusqlite::Result<()> {
    put_item(to, PLANNED, id, due_us, PLANNED_BYTES, None)
}

/// Records an event for all destinations.
pub(super) fn put_event(
    to: &Transaction<'_>,
    event: &ChangeEvent,
    bytes: usize,
) -> rusqlite::Result<()> {
    put_item(to, EVENT, &event.id, event.announced_at_us, bytes, None)
}

fn put_item(
    to: &Transaction<'_>,
    kind: i64,
    id: &str,
    at_us: i64,
    bytes: usize,
    near: Option<&str>,
) -> rusqlite::Result<()> {
    to.prepare_cached("DELETE FROM set_aside WHERE kind = ?1 AND id = ?2")?.execute((kind, id))?;
    to.prepare_cached(
        "INSERT OR REPLACE INTO outbox (destination, kind, id, at_us, bytes, near) \
         SELECT name, ?1, ?2, ?3, ?4, ?5 FROM destination",
    )?
    .execute(params![kind, id, at_us, bytes, near])
    .map(drop)
}

/// An item to send, with its position.
#[derive(Debug, Clone, PartialEq)]
pub struct OutboxEntry {
    /// Increases over time; an item that changes gets a new position.
    pub place: i64,
    pub item: OutboxItem,
}

/// An item to send, or one that was received.
#[derive(Debug, Clone, PartialEq)]
pub enum OutboxItem {
    Run(OutgoingRun),
    Planned(PlannedRun),
    Event(Box<ChangeEvent>),
}

/// A run without its values, which follow from its report.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutgoingRun {
    pub pairs: Vec<HostPair>,
    /// Name of the host that started the run; absent: the sending agent.
    pub near: Option<String>,
    /// As JSON on one line.
    pub report: String,
}

/// The positions of items for one destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxRange {
    pub destination: String,
    /// The last position before the items.
    pub after: i64,
    pub up_to: i64,
}

/// The next items to send.
#[derive(Debug, Clone, PartialEq)]
pub struct OutgoingBatch {
    /// The range to acknowledge when all items have arrived.
    pub range: OutboxRange,
    pub items: Vec<OutboxEntry>,
    /// Runs that the sender held in memory, so that they were not read.
    pub held_runs: Vec<HeldRun>,
    /// True only if nothing waited behind it.
    pub is_last: bool,
}

impl OutgoingBatch {
    /// Returns the positions of its items and runs.
    pub fn places(&self) -> impl Iterator<Item = i64> {
        let held = self.held_runs.iter().map(|it| it.place);
        self.items.iter().map(|it| it.place).chain(held)
    }
}

/// A run that the sender held in memory, with its position.
#[derive(Debug, Clone, PartialEq)]
pub struct HeldRun {
    pub place: i64,
    pub run: IncomingRun,
}

/// An item that the receiver rejected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedEntry {
    pub place: i64,
    #[serde(default)]
    pub why: String,
}

/// The number of items in the outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OutboxBacklog {
    pub items: u64,
    /// Items that the receiver rejected.
    pub set_aside: u64,
}

impl Archive {
    /// Sets the destinations of the items that are written from now on. Items that wait for another one
    /// are not sent any more; returns their number.
    pub fn set_destinations(&mut self, names: &[&str]) -> Result<u64, StoreError> {
        let known: BTreeSet<String> = self.read("read the destinations", |from| {
            let mut statement = from.prepare("SELECT name FROM destination")?;
            statement.query_map([], |row| row.get(0))?.collect()
        })?;
        // A full disk keeps no agent from starting again.
        if known.iter().map(String::as_str).eq(names.iter().copied().collect::<BTreeSet<_>>()) {
            return Ok(0);
        }
        self.write("record the destinations", |to| {
            to.execute("DELETE FROM destination", [])?;
            for name in names {
                to.execute("INSERT OR IGNORE INTO destination VALUES (?1)", [name])?;
            }
            let others = "destination NOT IN (SELECT name FROM destination)";
            let aside = to.execute(&format!("DELETE FROM set_aside WHERE {others}"), [])?;
            let waiting = to.execute(&format!("DELETE FROM outbox WHERE {others}"), [])?;
            Ok((aside + waiting) as u64)
        })
    }

    /// Returns items that the destination has not acknowledged behind the position `after`, earliest
    /// first: at most `limit` items and about `bytes` bytes. `None` if nothing waits there.
    pub fn next_outgoing(
        &self,
        destination: &str,
        after: i64,
        limit: u32,
        bytes: u64,
    ) -> Result<Option<OutgoingBatch>, StoreError> {
        self.next_outgoing_with(destination, after, limit, bytes, |_| None)
    }

    /// Does the same as [`Archive::next_outgoing`], without reading those runs that `take_run`
    /// returns for their ids.
    pub fn next_outgoing_with(
        &self,
        destination: &str,
        after: i64,
        limit: u32,
        bytes: u64,
        mut take_run: impl FnMut(&str) -> Option<IncomingRun>,
    ) -> Result<Option<OutgoingBatch>, StoreError> {
        self.read("read the outbox", |from| {
            let mut statement = from.prepare_cached(
                "SELECT place, kind, id, bytes, near FROM outbox \
                 WHERE destination = ?1 AND place > ?2 ORDER BY place LIMIT ?3",
            )?;
            let mut rows = statement.query((destination, after, limit))?;
            let mut outgoing: Option<OutgoingBatch> = None;
            let (mut weight, mut count, mut has_more) = (0, 0, false);
            while let Some(row) = rows.next()? {
                weight += row.get::<_, u64>(3)?;
                if outgoing.is_some() && weight > bytes {
                    has_more = true;
                    break;
                }
                count += 1;
                let (place, id): (i64, String) = (row.get(0)?, row.get(2)?);
                let so_far = outgoing.get_or_insert_with(|| OutgoingBatch {
                    range: OutboxRange { destination: destination.to_owned(), after, up_to: place },
                    items: Vec::new(),
                    held_runs: Vec::new(),
                    is_last: false,
                });
                so_far.range.up_to = place;
                let kind: i64 = row.get(1)?;
                if let Some(run) = (kind == RUN).then(|| take_run(&id)).flatten() {
                    so_far.held_runs.push(HeldRun { place, run });
                    continue;
                }
                // An item that another process has deleted cannot be sent.
                let item = match kind {
                    RUN => read_run(from, &id, row.get(4)?)?.map(OutboxItem::Run),
                    PLANNED => planned_table::find_planned(from, &id)?.map(OutboxItem::Planned),
                    _ => super::read_event_json(from, &id)?
                        .and_then(|text| super::parse_event(&text).ok())
                        .map(|event| OutboxItem::Event(Box::new(event))),
                };
                so_far.items.extend(item.map(|item| OutboxEntry { place, item }));
            }
            if let Some(outgoing) = &mut outgoing {
                outgoing.is_last = !has_more && count < limit;
            }
            Ok(outgoing)
        })
    }

    /// Deletes the items of a range for its destination. Rejected items are moved aside with the reason
    /// and stay in this archive.
    pub fn acknowledge(
        &mut self,
        range: &OutboxRange,
        refused: &[RefusedEntry],
    ) -> Result<(), StoreError> {
        let OutboxRange { destination, after, up_to } = range;
        self.write("record what was acknowledged", |to| {
            let mut aside = to.prepare_cached(
                "INSERT OR REPLACE INTO set_aside (destination, kind, id, at_us, bytes, near, why) \
                 SELECT destination, kind, id, at_us, bytes, near, ?2 FROM outbox \
                 WHERE place = ?1 AND place <= ?3 AND destination = ?4",
            )?;
            for refusal in refused {
                aside.execute((refusal.place, &refusal.why, up_to, destination))?;
            }
            to.prepare_cached(
                "DELETE FROM outbox WHERE destination = ?1 AND place > ?2 AND place <= ?3",
            )?
            .execute((destination, after, up_to))
            .map(drop)
        })
    }

    /// Moves items that the destination rejected back into the outbox and returns their number.
    pub fn requeue_rejected(&mut self, destination: &str) -> Result<u64, StoreError> {
        self.write("queue the refused items again", |to| {
            let again = to.execute(
                "INSERT OR IGNORE INTO outbox (destination, kind, id, at_us, bytes, near) \
                 SELECT destination, kind, id, at_us, bytes, near FROM set_aside \
                 WHERE destination = ?1 ORDER BY at_us",
                [destination],
            )?;
            to.execute("DELETE FROM set_aside WHERE destination = ?1", [destination])?;
            Ok(again as u64)
        })
    }

    /// Returns the number of waiting items, of all destinations.
    pub fn backlog(&self) -> Result<OutboxBacklog, StoreError> {
        self.read("count the outbox", |from| {
            let count = "SELECT (SELECT count(*) FROM outbox), (SELECT count(*) FROM set_aside)";
            from.query_row(count, [], |row| {
                Ok(OutboxBacklog { items: row.get(0)?, set_aside: row.get(1)? })
            })
        })
    }
}

fn read_run(
    from: &Transaction<'_>,
    id: &str,
    near: Option<String>,
) -> rusqlite::Result<Option<OutgoingRun>> {
    let report: Option<String> = from
        .prepare_cached("SELECT report FROM run WHERE id = ?1")?
        .query_row([id], |row| row.get(0))
        .optional()?;
    let Some(report) = report else {
        return Ok(None);
    };
    let pairs = from
        .prepare_cached(
            "SELECT sender, receiver FROM watched_run JOIN pair ON pair.id = watched_run.pair \
             WHERE run = ?1 ORDER BY sender, receiver",
        )?
        .query_map([id], |row| Ok(HostPair { from: row.get(0)?, to: row.get(1)? }))?
        .collect::<rusqlite::Result<_>>()?;
    Ok(Some(OutgoingRun { pairs, near, report }))
}
