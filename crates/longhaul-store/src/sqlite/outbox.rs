//! What another archive is to have: kept until it says that it has it.
//!
//! A connection that [`Archive::send_on`] has set so puts every run, planned run and event that it
//! writes into the outbox, in the same transaction. An item is there once, in its newest state. An
//! agent whose collector is away goes on storing, and retention takes nothing that waits. The
//! other side may get an item twice, and stores it once.

use super::{events, planned};
use crate::archive::Archive;
use crate::error::StoreError;
use crate::watched::{PlannedRow, WatchedRun};
use longhaul_model::report::v1::event::Event;
use longhaul_model::report::v1::series::Pair;
use rusqlite::{OptionalExtension, Transaction, params};

const RUN: i64 = 0;
const PLANNED: i64 = 1;
const EVENT: i64 = 2;

/// What a planned run weighs: its names, and the outcome that it will have.
const PLANNED_BYTES: usize = 256;

/// Whether what is written is noted here.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outbox {
    open: bool,
}

impl Outbox {
    pub fn run(self, to: &Transaction<'_>, run: &WatchedRun) -> rusqlite::Result<()> {
        let near = run.near.as_deref();
        self.put(to, (RUN, &run.run.id), run.at_us, run.report.len(), near)
    }

    pub fn planned(self, to: &Transaction<'_>, id: &str) -> rusqlite::Result<()> {
        if !self.open {
            return Ok(());
        }
        let due_us = to
            .prepare_cached("SELECT due_us FROM planned WHERE id = ?1")?
            .query_row([id], |row| row.get(0))?;
        self.put(to, (PLANNED, id), due_us, PLANNED_BYTES, None)
    }

    pub fn event(self, to: &Transaction<'_>, event: &Event, bytes: usize) -> rusqlite::Result<()> {
        self.put(to, (EVENT, &event.id), event.announced_at_us, bytes, None)
    }

    fn put(
        self,
        to: &Transaction<'_>,
        (kind, id): (i64, &str),
        at_us: i64,
        bytes: usize,
        near: Option<&str>,
    ) -> rusqlite::Result<()> {
        if !self.open {
            return Ok(());
        }
        to.prepare_cached("DELETE FROM set_aside WHERE kind = ?1 AND id = ?2")?
            .execute((kind, id))?;
        to.prepare_cached(
            "INSERT OR REPLACE INTO outbox (kind, id, at_us, bytes, near) \
             VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![kind, id, at_us, bytes, near])
        .map(drop)
    }
}

/// Something on its way to another archive.
#[derive(Debug, Clone, PartialEq)]
pub struct ToSend {
    /// Later ones are greater; an item that changes gets a new one.
    pub place: i64,
    pub item: Item,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    Run(SentRun),
    Planned(PlannedRow),
    Event(Box<Event>),
}

/// A run without its values: these follow from its report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentRun {
    pub id: String,
    pub at_us: i64,
    /// As JSON on one line.
    pub report: String,
    pub pairs: Vec<Pair>,
    /// Name of the host that began it; absent: the agent itself.
    pub near: Option<String>,
}

/// The next items, and how far they go.
#[derive(Debug, Clone, PartialEq)]
pub struct Outgoing {
    /// What to acknowledge when all of them have arrived.
    pub up_to: i64,
    pub items: Vec<ToSend>,
}

/// An item that the other side will not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub place: i64,
    pub why: String,
}

/// How much waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Backlog {
    pub items: u64,
    pub bytes: u64,
    /// Those that retention would have removed.
    pub held_bytes: u64,
    /// Items that the other side refused.
    pub set_aside: u64,
}

/// An item that the other side refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetAside {
    /// `run`, `planned`, `event`.
    pub kind: &'static str,
    pub id: String,
    pub why: String,
}

impl Archive {
    /// From here on, whatever this connection writes is also to be sent, or is not.
    pub fn send_on(&mut self, on: bool) {
        self.sends_on = on;
    }

    pub(super) fn outbox(&self) -> Outbox {
        Outbox {
            open: self.sends_on,
        }
    }

    /// What is not acknowledged, the earliest first: at most `limit` items, and no more when they
    /// weigh `bytes`. `None`: nothing waits.
    pub fn to_send(&self, limit: u32, bytes: u64) -> Result<Option<Outgoing>, StoreError> {
        self.read("read what is to be sent", |from| next(from, limit, bytes))
    }

    /// The other side has everything up to this place, but for what it refused: that is set aside
    /// with the reason, and stays in this archive.
    pub fn acknowledged(&mut self, up_to: i64, refused: &[Refusal]) -> Result<(), StoreError> {
        self.write("note what has arrived", |to| {
            let mut aside = to.prepare_cached(
                "INSERT OR REPLACE INTO set_aside (kind, id, at_us, bytes, near, why) \
                 SELECT kind, id, at_us, bytes, near, ?2 FROM outbox \
                 WHERE place = ?1 AND place <= ?3",
            )?;
            for refusal in refused {
                aside.execute((refusal.place, &refusal.why, up_to))?;
            }
            to.prepare_cached("DELETE FROM outbox WHERE place <= ?1")?
                .execute([up_to])
                .map(drop)
        })
    }

    /// Puts what was refused into the outbox once more; says how many items that are.
    pub fn send_refused_again(&mut self) -> Result<u64, StoreError> {
        self.write("send again what was refused", |to| {
            let again = to.execute(
                "INSERT OR IGNORE INTO outbox (kind, id, at_us, bytes, near) \
                 SELECT kind, id, at_us, bytes, near FROM set_aside ORDER BY at_us",
                [],
            )?;
            to.execute("DELETE FROM set_aside", [])?;
            Ok(again as u64)
        })
    }

    /// What was refused, at most `limit` items.
    pub fn refused(&self, limit: u32) -> Result<Vec<SetAside>, StoreError> {
        self.read("list what was refused", |from| {
            from.prepare_cached("SELECT kind, id, why FROM set_aside ORDER BY at_us LIMIT ?1")?
                .query_map([limit], |row| {
                    Ok(SetAside {
                        kind: word(row.get(0)?),
                        id: row.get(1)?,
                        why: row.get(2)?,
                    })
                })?
                .collect()
        })
    }

    /// How much waits; `before_us` is where retention begins.
    pub fn backlog(&self, before_us: i64) -> Result<Backlog, StoreError> {
        self.read("count what is to be sent", |from| {
            let set_aside =
                from.query_row("SELECT count(*) FROM set_aside", [], |row| row.get(0))?;
            from.prepare_cached(
                "SELECT count(*), coalesce(sum(bytes), 0), \
                 coalesce(sum(bytes) FILTER (WHERE at_us < ?1), 0) FROM outbox",
            )?
            .query_row([before_us], |row| {
                Ok(Backlog {
                    items: row.get(0)?,
                    bytes: row.get(1)?,
                    held_bytes: row.get(2)?,
                    set_aside,
                })
            })
        })
    }
}

fn word(kind: i64) -> &'static str {
    match kind {
        RUN => "run",
        PLANNED => "planned",
        _ => "event",
    }
}

/// A row of the outbox.
struct Row {
    place: i64,
    kind: i64,
    id: String,
    at_us: i64,
    bytes: u64,
    near: Option<String>,
}

fn next(from: &Transaction<'_>, limit: u32, bytes: u64) -> rusqlite::Result<Option<Outgoing>> {
    let mut statement = from.prepare_cached(
        "SELECT place, kind, id, at_us, bytes, near FROM outbox ORDER BY place LIMIT ?1",
    )?;
    let rows = statement.query_map([limit], |row| {
        Ok(Row {
            place: row.get(0)?,
            kind: row.get(1)?,
            id: row.get(2)?,
            at_us: row.get(3)?,
            bytes: row.get(4)?,
            near: row.get(5)?,
        })
    })?;
    let mut outgoing: Option<Outgoing> = None;
    let mut weight = 0;
    for row in rows {
        let row = row?;
        weight += row.bytes;
        if outgoing.is_some() && weight > bytes {
            break;
        }
        let place = row.place;
        let so_far = outgoing.get_or_insert_with(|| Outgoing {
            up_to: place,
            items: Vec::new(),
        });
        so_far.up_to = place;
        // What is gone from the archive by another hand cannot be sent any more.
        let item = item(from, row)?.map(|item| ToSend { place, item });
        so_far.items.extend(item);
    }
    Ok(outgoing)
}

fn item(from: &Transaction<'_>, row: Row) -> rusqlite::Result<Option<Item>> {
    Ok(match row.kind {
        RUN => run(from, row)?.map(Item::Run),
        PLANNED => planned::one(from, &row.id)?.map(Item::Planned),
        _ => events::text(from, &row.id)?
            .and_then(|text| events::parse(&text).ok())
            .map(|event| Item::Event(Box::new(event))),
    })
}

fn run(from: &Transaction<'_>, row: Row) -> rusqlite::Result<Option<SentRun>> {
    let report: Option<String> = from
        .prepare_cached("SELECT report FROM run WHERE id = ?1")?
        .query_row([&row.id], |row| row.get(0))
        .optional()?;
    let Some(report) = report else {
        return Ok(None);
    };
    // Along the key of the table: there is no index by run.
    let pairs = from
        .prepare_cached(
            "SELECT sender, receiver FROM pair JOIN watched_run ON watched_run.pair = pair.id \
             WHERE at_us = ?1 AND run = ?2 ORDER BY sender, receiver",
        )?
        .query_map((row.at_us, &row.id), |row| {
            Ok(Pair {
                from: row.get(0)?,
                to: row.get(1)?,
            })
        })?
        .collect::<rusqlite::Result<_>>()?;
    Ok(Some(SentRun {
        id: row.id,
        at_us: row.at_us,
        report,
        pairs,
        near: row.near,
    }))
}
