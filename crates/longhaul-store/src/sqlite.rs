//! The history store of an agent in one SQLite file, which `longhaul report` reads as well.
//!
//! Every write is one transaction and durable when it returns (`synchronous = FULL`); readers do
//! not wait for it. A batch writes only its own values. Readers aggregate hours from their values;
//! retention stores the aggregate of an hour when it deletes the values.
//!
//! - [`run_ingest`]: inserts runs and values
//! - [`history_queries`]: queries of series, grid and runs
//! - [`planned_table`]: planned runs, and the states of the measurements
//! - [`event_notes`]: notes of people on events
//! - [`retention`]: deletes expired data
//! - [`outbox`]: items that the collector has not acknowledged

mod event_notes;
mod history_queries;
pub mod outbox;
mod planned_table;
mod retention;
mod run_ingest;

pub(crate) use history_queries::{STARTED_IN_RANGE, filter_values, run_conditions, started_range};

/// The id that means "no pair".
const NO_PAIR: i64 = 0;

/// Returns the id of a pair and inserts the pair if it is new.
fn find_or_insert_pair(to: &Transaction<'_>, pair: &HostPair) -> rusqlite::Result<i64> {
    if let Some(id) = find_pair(to, pair)? {
        return Ok(id);
    }
    to.prepare_cached("INSERT INTO pair (sender, receiver) VALUES (?1, ?2)")?
        .insert([&pair.from, &pair.to])
}

/// Returns the id of a known pair.
fn find_pair(from: &Transaction<'_>, pair: &HostPair) -> rusqlite::Result<Option<i64>> {
    from.prepare_cached("SELECT id FROM pair WHERE sender = ?1 AND receiver = ?2")?
        .query_row([&pair.from, &pair.to], |row| row.get(0))
        .optional()
}

/// Returns the id of a known series.
fn find_series(
    from: &Transaction<'_>,
    pair: &HostPair,
    quantity: PathQuantity,
) -> rusqlite::Result<Option<i64>> {
    from.prepare_cached(
        "SELECT series.id FROM series JOIN pair ON pair.id = series.pair \
         WHERE sender = ?1 AND receiver = ?2 AND quantity = ?3",
    )?
    .query_row([&*pair.from, &*pair.to, quantity.word()], |row| row.get(0))
    .optional()
}

/// A series with what it says about its values.
#[derive(Debug, Clone, Copy)]
struct SeriesRow {
    id: i64,
    newest_us: Option<i64>,
    /// The hour since 1970 up to which the usual value was determined.
    usual_hour: Option<i64>,
}

/// Returns a series of a pair and inserts it if it is new.
fn find_or_insert_series(
    to: &Transaction<'_>,
    pair: i64,
    quantity: PathQuantity,
) -> rusqlite::Result<SeriesRow> {
    let find = "SELECT id, newest_at_us, usual_hour FROM series WHERE pair = ?1 AND quantity = ?2";
    let found = to.prepare_cached(find)?.query_row((pair, quantity.word()), |row| {
        Ok(SeriesRow { id: row.get(0)?, newest_us: row.get(1)?, usual_hour: row.get(2)? })
    });
    if let Some(row) = found.optional()? {
        return Ok(row);
    }
    let id = to
        .prepare_cached("INSERT INTO series (pair, quantity) VALUES (?1, ?2)")?
        .insert((pair, quantity.word()))?;
    Ok(SeriesRow { id, newest_us: None, usual_hour: None })
}

/// Stores a delivery; `texts` are the JSON of its events.
fn put_delivery(
    to: &Transaction<'_>,
    delivery: &AgentDelivery,
    texts: &[String],
) -> rusqlite::Result<IngestResult> {
    planned_table::insert_planned(to, &delivery.planned)?;
    let landed = run_ingest::ingest_runs(to, &delivery.runs)?;
    for (event, text) in delivery.events.iter().zip(texts) {
        put_event(to, event, text)?;
    }
    Ok(landed)
}

fn put_event(to: &Transaction<'_>, event: &ChangeEvent, text: &str) -> rusqlite::Result<()> {
    if self::read_event_json(to, &event.id)?.as_deref() == Some(text) {
        return Ok(());
    }
    outbox::put_event(to, event, text.len())?;
    let pair = find_or_insert_pair(to, &event.pair)?;
    to.prepare_cached("INSERT OR REPLACE INTO event VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?
        .execute(params![
            event.id,
            pair,
            event.quantity.word(),
            event.state.word(),
            match (history_store::is_event_open(event), &event.shared) {
                (false, _) => 0,
                (true, None) => 1,
                // An event of several paths is no other event of its first path.
                (true, Some(_)) => 2,
            },
            event.between_us[0],
            event.between_us[1],
            text
        ])
        .map(drop)
}

fn read_event_json(from: &Transaction<'_>, id: &str) -> rusqlite::Result<Option<String>> {
    from.prepare_cached("SELECT event FROM event WHERE id = ?1")?
        .query_row([id], |row| row.get(0))
        .optional()
}

impl Archive {
    /// Returns events, the latest change first.
    pub fn events(&self, filter: &EventFilter) -> Result<Vec<ChangeEvent>, StoreError> {
        let values = params![
            filter.range.begin_us,
            filter.range.end_us,
            filter.pair.as_ref().map(|pair| &pair.from),
            filter.pair.as_ref().map(|pair| &pair.to),
            filter.state.map(EventState::word),
            filter.limit
        ];
        let pair = filter
            .pair
            .as_ref()
            .map_or("", |_| "AND pair = (SELECT id FROM pair WHERE sender = ?3 AND receiver = ?4)");
        let open = if filter.is_open { "AND open > 0" } else { "" };
        let texts: Vec<String> = self.read("list the events", |from| {
            from.prepare_cached(&format!(
                "SELECT event FROM event WHERE end_us >= ?1 AND begin_us < ?2 {pair} {open} \
                 AND (?5 IS NULL OR state = ?5) ORDER BY end_us DESC, id DESC LIMIT ?6"
            ))?
            .query_map(values, |row| row.get(0))?
            .collect()
        })?;
        texts.iter().map(|text| parse_event(text)).collect()
    }
}

fn parse_event(text: &str) -> Result<ChangeEvent, StoreError> {
    serde_json::from_str(text)
        .map_err(|source| StoreError::Report { id: "of an event".to_owned(), source })
}

/// The number of hours before the latest one that define the usual value.
const USUAL_HOURS: i64 = 168;

/// The interval for updating the usual value, in hours.
const USUAL_INTERVAL_HOURS: i64 = 6;

/// The requested part of a series, which may be empty.
struct SeriesSlice<'a> {
    pub from: &'a Transaction<'a>,
    pub series: i64,
    pub range: TimeRange,
}

impl SeriesSlice<'_> {
    /// Returns the closed hours. A closed hour belongs to the part that contains its start.
    pub fn closed_hours(&self) -> rusqlite::Result<Vec<SeriesBucket>> {
        let TimeRange { begin_us, end_us } = self.range;
        self.from
            .prepare_cached(
                "SELECT hour, samples, min, median, max FROM hour \
                 WHERE series = ?1 AND hour >= ?2 AND hour < ?3 AND state = 2 ORDER BY hour",
            )?
            .query_map(
                (self.series, round_up_to_hour(begin_us), round_up_to_hour(end_us)),
                |row| {
                    Ok(SeriesBucket {
                        at_us: row.get::<_, i64>(0)? * HOUR_US,
                        duration_us: HOUR_US as u64,
                        samples: row.get(1)?,
                        min: row.get(2)?,
                        median: row.get(3)?,
                        max: row.get(4)?,
                    })
                },
            )?
            .collect()
    }

    /// Adds the buckets of the stored values to those of the closed hours, in time order.
    pub fn add_value_buckets(
        &self,
        mut closed: Vec<SeriesBucket>,
        span_us: i64,
    ) -> rusqlite::Result<Vec<SeriesBucket>> {
        let mut gather = BucketBuilder::new(span_us);
        self.for_each_point(|point| gather.push(point))?;
        closed.extend(gather.finish());
        closed.sort_by_key(|bucket| bucket.at_us);
        Ok(closed)
    }

    /// Passes on the stored values one by one, because there may be too many for memory.
    pub fn for_each_point(&self, mut take: impl FnMut(SeriesPoint)) -> rusqlite::Result<()> {
        let mut statement = self.from.prepare_cached(
            "SELECT at_us, value FROM value \
             WHERE series = ?1 AND at_us >= ?2 AND at_us < ?3 ORDER BY at_us",
        )?;
        let mut rows = statement.query((self.series, self.range.begin_us, self.range.end_us))?;
        while let Some(row) = rows.next()? {
            take(SeriesPoint { at_us: row.get(0)?, value: row.get(1)? });
        }
        Ok(())
    }
}

/// Returns the first hour that starts at or after this time.
fn round_up_to_hour(us: i64) -> i64 {
    us.saturating_add(HOUR_US - 1).div_euclid(HOUR_US)
}

/// Returns whether an hour since 1970 is closed.
fn is_hour_closed(to: &Transaction<'_>, series: i64, hour: i64) -> rusqlite::Result<bool> {
    to.prepare_cached("SELECT 1 FROM hour WHERE series = ?1 AND hour = ?2 AND state = 2")?
        .exists((series, hour))
}

/// Replaces the values of one hour by their bucket and returns their number.
fn close_hour(to: &Transaction<'_>, series: i64, hour: i64) -> rusqlite::Result<u64> {
    let range = TimeRange { begin_us: hour * HOUR_US, end_us: (hour + 1) * HOUR_US };
    let part = SeriesSlice { from: to, series, range };
    let mut close =
        to.prepare_cached("INSERT OR REPLACE INTO hour VALUES (?1, ?2, 2, ?3, ?4, ?5, ?6)")?;
    for it in part.add_value_buckets(Vec::new(), HOUR_US)? {
        close.execute((series, hour, it.samples, it.min, it.median, it.max))?;
    }
    let values = to
        .prepare_cached("DELETE FROM value WHERE series = ?1 AND at_us >= ?2 AND at_us < ?3")?
        .execute((series, range.begin_us, range.end_us))?;
    Ok(values as u64)
}

/// Updates the usual value of a series with a new value in this hour, if it is older than
/// [`USUAL_INTERVAL_HOURS`].
fn update_weekly_median(to: &Transaction<'_>, of: &SeriesRow, hour: i64) -> rusqlite::Result<()> {
    if of.usual_hour.is_some_and(|last| hour - last < USUAL_INTERVAL_HOURS) {
        return Ok(());
    }
    let range = TimeRange { begin_us: (hour - USUAL_HOURS) * HOUR_US, end_us: hour * HOUR_US };
    let part = SeriesSlice { from: to, series: of.id, range };
    let hours = part.add_value_buckets(part.closed_hours()?, HOUR_US)?;
    let mut medians: Vec<f64> = hours.iter().map(|bucket| bucket.median).collect();
    let usual = history_store::bucket_from_values(0, HOUR_US, &mut medians);
    // A series that begins with this hour has a usual value from the next one on.
    let known_hour = if usual.is_some() { hour } else { hour + 1 - USUAL_INTERVAL_HOURS };
    to.prepare_cached("UPDATE series SET usual = ?2, usual_hour = ?3 WHERE id = ?1")?
        .execute((of.id, usual.map(|it| it.median), known_hour))
        .map(drop)
}

#[cfg(test)]
mod tests;

use crate::archive::Archive;
use crate::archived_report;
use crate::history_store::{
    self, AgentDelivery, BucketBuilder, EventFilter, HOUR_US, IncomingRun, IngestResult,
    PlannedOutcome, PlannedRun, TimeRange,
};
use crate::store_error::StoreError;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::{
    AnyReport, ChangeEvent, EventState, HostPair, SeriesBucket, SeriesPoint,
};
use rusqlite::{OptionalExtension, Transaction, TransactionBehavior, params};

impl Archive {
    /// Stores finished runs with their values, all or none. A run that is already watched is not
    /// changed. A run that was stored by another command becomes watched: its report stays, and its
    /// pairs, values and planned run are added.
    pub fn append_runs(&mut self, runs: &[IncomingRun]) -> Result<IngestResult, StoreError> {
        history_store::check_runs(runs)?;
        self.write("store the runs", |to| run_ingest::ingest_runs(to, runs))
    }

    /// Stores planned runs and returns the number of new ones. Of a known id only the outcome is
    /// stored, as [`record_outcome`](Self::record_outcome) does.
    pub fn add_planned(&mut self, due: &[PlannedRun]) -> Result<u64, StoreError> {
        history_store::check_planned(due)?;
        self.write("store planned runs", |to| planned_table::insert_planned(to, due))
    }

    /// Stores the outcome of a planned run. A done run stays done; a missed one becomes done if its
    /// result arrives later; of two reasons the first one is kept.
    ///
    /// Returns [`StoreError::NoSuchPlanned`] if no run is planned under this id.
    pub fn record_outcome(
        &mut self,
        planned_id: &str,
        outcome: &PlannedOutcome,
    ) -> Result<(), StoreError> {
        history_store::check_outcome(outcome)?;
        let known = self.write("store the outcome of the planned run", |to| {
            planned_table::record_outcome(to, planned_id, outcome)
        })?;
        if known {
            return Ok(());
        }
        // The error repeats only the start of the id, which may be arbitrarily long.
        Err(StoreError::NoSuchPlanned {
            id: planned_id.chars().take(history_store::MAX_ID_BYTES).collect(),
        })
    }

    /// Stores a delivery of another agent. Any part of it may have been delivered before.
    pub fn receive(&mut self, delivery: &AgentDelivery) -> Result<IngestResult, StoreError> {
        self.receive_all(&[delivery]).map(|mut landed| landed.pop().unwrap_or_default())
    }

    /// Stores deliveries of other agents in one transaction, all or none.
    pub fn receive_all(
        &mut self,
        deliveries: &[&AgentDelivery],
    ) -> Result<Vec<IngestResult>, StoreError> {
        let texts = deliveries.iter().map(|it| it.validate()).collect::<Result<Vec<_>, _>>()?;
        self.write("store the batches of agents", |to| {
            let each = deliveries.iter().zip(&texts);
            each.map(|(delivery, texts)| put_delivery(to, delivery, texts)).collect()
        })
    }

    /// Returns the report with exactly this id.
    pub fn report(&self, run_id: &str) -> Result<Option<AnyReport>, StoreError> {
        let text = self.report_json(run_id)?;
        text.map(|text| archived_report::parse_report(run_id, &text)).transpose()
    }

    /// Stores an event and replaces an earlier one with the same id.
    pub fn put_event(&mut self, event: &ChangeEvent) -> Result<(), StoreError> {
        let text = serialize_event(event)?;
        self.write("store the event", |to| put_event(to, event, &text))
    }

    /// Returns the event with exactly this id.
    pub fn event(&self, id: &str) -> Result<Option<ChangeEvent>, StoreError> {
        let text = self.read("read the event", |from| read_event_json(from, id))?;
        text.map(|text| parse_event(&text)).transpose()
    }

    /// Returns the size of the archive on disk.
    pub fn disk_bytes(&self) -> Result<u64, StoreError> {
        self.read("read the header", |from| {
            from.query_row(
                "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size",
                [],
                |row| row.get(0),
            )
        })
    }
}

impl AgentDelivery {
    /// Checks all limits and returns the JSON of the events.
    pub fn validate(&self) -> Result<Vec<String>, StoreError> {
        history_store::check_runs(&self.runs)?;
        history_store::check_planned(&self.planned)?;
        self.events.iter().map(serialize_event).collect()
    }
}

/// Returns an event as JSON, within the limits.
fn serialize_event(event: &ChangeEvent) -> Result<String, StoreError> {
    let text = serde_json::to_string(event)
        .map_err(|source| StoreError::Report { id: event.id.clone(), source })?;
    history_store::check_event(event, &text)?;
    Ok(text)
}

impl Archive {
    /// Runs `work` in one transaction that takes the write lock immediately.
    pub(crate) fn write<T>(
        &mut self,
        doing: &'static str,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let sql = |e| StoreError::from_sqlite(doing, &self.path, e);
        let _turn = self.write_queue.lock();
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(sql)?;
        let done = work(&transaction).map_err(sql)?;
        transaction.commit().map_err(sql)?;
        Ok(done)
    }

    /// Runs `work` on a consistent snapshot.
    pub(crate) fn read<T>(
        &self,
        doing: &'static str,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let sql = |e| StoreError::from_sqlite(doing, &self.path, e);
        let snapshot = self.connection.unchecked_transaction().map_err(sql)?;
        work(&snapshot).map_err(sql)
    }
}
