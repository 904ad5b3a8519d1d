//! The interface between an agent and its archive, independent of the database.
//!
//! Times are microseconds since 1970-01-01T00:00:00Z by the clock of the measuring host, in any
//! order. Names of hosts, measurements and reasons come from the agent's file. Values are in the
//! unit of their [`PathQuantity`]. All input is checked against [`ingest_limits`]; one item beyond a limit
//! rejects its whole batch before anything is written.
//!
//! Every write is idempotent, so a sender without an answer repeats it. After `Ok` the data
//! survives a crash of the process and a power failure. After an error nothing was written, with
//! the exceptions that [`HistoryStore::retain`] names.

pub mod ingest_limits;
pub mod time_buckets;

use crate::archive::RunEntry;
use crate::archived_report;
use crate::store_error::StoreError;
use longhaul_model::report::v1::event::{ChangeEvent, EventState};
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::series::{HostPair, QuantitySeries, SeriesPoint};
use longhaul_model::report::v1::{AnyReport, ListColumns, ReportKind, RunInfo};
use std::time::Duration;

/// An archive that is written on a schedule and read at the same time.
///
/// Each value is one connection: the agent has one for writing, and every reader opens its own.
pub trait HistoryStore: Send {
    /// Stores finished runs with their values, all or none. A run that is already watched is not
    /// changed. A run that was stored by another command becomes watched: its report stays, and its
    /// pairs, values and planned run are added.
    fn append_runs(&mut self, runs: &[IncomingRun]) -> Result<IngestResult, StoreError>;

    /// Stores planned runs and returns the number of new ones. A known id is not changed.
    fn add_planned(&mut self, planned: &[PlannedRun]) -> Result<u64, StoreError>;

    /// Stores the outcome of a planned run. A done run stays done; a missed one becomes done if its
    /// result arrives later; of two reasons the first one is kept.
    ///
    /// Returns [`StoreError::NoSuchPlanned`] if no run is planned under this id.
    fn record_outcome(
        &mut self,
        planned_id: &str,
        outcome: &PlannedOutcome,
    ) -> Result<(), StoreError>;

    /// Stores a delivery of another agent. Any part of it may have been delivered before.
    ///
    /// A database without transactions stores the parts one after the other; after an error the
    /// sender repeats the delivery, which completes it.
    fn receive(&mut self, delivery: &AgentDelivery) -> Result<IngestResult, StoreError> {
        let planned = delivery.planned.iter().map(|row| row.planned.clone());
        self.add_planned(&planned.collect::<Vec<_>>())?;
        let landed = self.append_runs(&delivery.runs)?;
        for row in &delivery.planned {
            if let Some(outcome) = &row.outcome {
                self.record_outcome(&row.planned.id, outcome)?;
            }
        }
        for event in &delivery.events {
            self.put_event(event)?;
        }
        Ok(landed)
    }

    /// Returns planned runs, sorted by due time, earliest first.
    fn planned(&self, filter: &PlannedRunFilter) -> Result<Vec<PlannedEntry>, StoreError>;

    /// Returns the number of runs due in a range, by outcome. The counts add up to the total.
    fn planned_counts(&self, range: TimeRange) -> Result<PlannedRunCounts, StoreError>;

    /// Returns the values of one quantity of one pair, in time order; nothing for an unknown pair.
    ///
    /// Returns at most `at_most` points and buckets together; `at_most` is clamped to 2 and
    /// [`ingest_limits::MAX_SERIES_POINTS`]. Single values are returned if they are few enough and still stored;
    /// hourly buckets where only those are stored; otherwise buckets of equal length with the exact
    /// `min` and `max`. The median of a bucket is exact up to an hour; above that it is the median
    /// of the hourly medians, weighted by their samples.
    fn series(
        &self,
        pair: &HostPair,
        quantity: PathQuantity,
        range: TimeRange,
        at_most: u32,
    ) -> Result<QuantitySeries, StoreError>;

    /// Returns the latest value of every known pair, sorted by name.
    fn grid(&self, quantity: PathQuantity) -> Result<Vec<GridPair>, StoreError>;

    /// Returns every pair that has values or planned runs, sorted by name.
    fn pairs(&self) -> Result<Vec<HostPair>, StoreError>;

    /// Returns the report with exactly this id.
    fn report(&self, run_id: &str) -> Result<Option<AnyReport>, StoreError>;

    /// Returns runs, newest first.
    fn runs(&self, filter: &RunFilter) -> Result<Vec<RunEntry>, StoreError>;

    /// Stores an event and replaces an earlier one with the same id.
    fn put_event(&mut self, event: &ChangeEvent) -> Result<(), StoreError>;

    /// Returns the event with exactly this id.
    fn event(&self, id: &str) -> Result<Option<ChangeEvent>, StoreError>;

    /// Returns events, the latest change first.
    fn events(&self, filter: &EventFilter) -> Result<Vec<ChangeEvent>, StoreError>;

    /// Deletes data older than `keep`. Single values are deleted after their hour has been
    /// aggregated into the hourly series, which is kept for `hours`. Events are kept, and so are
    /// runs that are not watched, such as one that a person started.
    ///
    /// Works in steps, each of them consistent, so that others can write in between. The next call
    /// completes what an error interrupted.
    fn retain(
        &mut self,
        now_us: i64,
        keep: &RetentionPolicy,
    ) -> Result<RetentionResult, StoreError>;

    /// Returns the kind and size of the archive.
    fn about(&self) -> Result<StoreInfo, StoreError>;
}

/// A time span, including its start and excluding its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeRange {
    pub begin_us: i64,
    pub end_us: i64,
}

impl TimeRange {
    pub const ALL: TimeRange = TimeRange { begin_us: i64::MIN, end_us: i64::MAX };

    pub fn contains(self, at_us: i64) -> bool {
        (self.begin_us..self.end_us).contains(&at_us)
    }
}

/// One value of a run for a series.
#[derive(Debug, Clone, PartialEq)]
pub struct SeriesReading {
    pub pair: HostPair,
    pub quantity: PathQuantity,
    /// If two runs give a value to the same series at the same microsecond, one of the values is
    /// kept.
    pub point: SeriesPoint,
}

/// A finished run to be stored.
#[derive(Debug, Clone, PartialEq)]
pub struct IncomingRun {
    pub run: RunInfo,
    pub kind: ReportKind,
    pub list_columns: ListColumns,
    /// Start of the run.
    pub at_us: i64,
    /// As JSON on one line.
    pub report: String,
    /// The measured pairs, including those without a value.
    pub pairs: Vec<HostPair>,
    pub readings: Vec<SeriesReading>,
    /// The planned run that this run completes, if it was planned here.
    pub planned_id: Option<String>,
    /// Name of the host that started it; absent: the agent that owns this archive.
    pub near: Option<String>,
}

impl IncomingRun {
    /// Converts a report, without values for series.
    pub fn from_report(report: &AnyReport, at_us: i64) -> Result<IncomingRun, StoreError> {
        let text = serde_json::to_string(report)
            .map_err(|source| StoreError::Report { id: report.run().id.clone(), source })?;
        Ok(IncomingRun::from_parts(report, text, at_us))
    }

    fn from_parts(report: &AnyReport, text: String, at_us: i64) -> IncomingRun {
        IncomingRun {
            run: report.run().clone(),
            kind: report.kind(),
            list_columns: report.list_columns(),
            at_us,
            report: text,
            pairs: Vec::new(),
            readings: Vec::new(),
            planned_id: None,
            near: None,
        }
    }

    /// Converts the JSON of a report, which is stored unchanged.
    pub fn from_json(text: String, at_us: i64) -> Result<IncomingRun, StoreError> {
        IncomingRun::parse_json(text, at_us).map(|(run, _)| run)
    }

    /// Converts the JSON of a report, and returns the parsed report as well.
    pub fn parse_json(text: String, at_us: i64) -> Result<(IncomingRun, AnyReport), StoreError> {
        let report = archived_report::parse_report("of the batch", &text)?;
        let run = IncomingRun::from_parts(&report, text, at_us);
        Ok((run, report))
    }
}

/// The result of storing a batch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IngestResult {
    /// Runs that were not stored before.
    pub new: u64,
    /// Runs that were stored but not watched, with the same content: they are watched now, and
    /// their values are new.
    pub newly_watched: u64,
    /// Runs that were stored and watched, with the same content.
    pub already_stored: u64,
    /// Ids that another report has taken. The stored report stays; the rest of the batch is stored.
    pub differing: Vec<String>,
    /// Values of new and joined runs whose hour was already closed: the report is stored, the
    /// series is not changed.
    pub late_values: u64,
}

/// The items that one agent sends to another archive.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AgentDelivery {
    pub runs: Vec<IncomingRun>,
    pub planned: Vec<PlannedEntry>,
    /// In their latest state.
    pub events: Vec<ChangeEvent>,
}

/// A run that is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedRun {
    pub id: String,
    pub due_us: i64,
    /// Name of the measurement in the agent's file.
    pub measurement: String,
    /// None for a measurement of a single host.
    pub pair: Option<HostPair>,
}

/// The outcome of a planned run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlannedOutcome {
    Done {
        run_id: String,
    },
    /// The reason is one of a small set of words, so that it can be counted.
    Missed {
        reason: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedEntry {
    pub planned: PlannedRun,
    /// None: still waiting.
    pub outcome: Option<PlannedOutcome>,
}

/// A filter for planned runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedRunFilter {
    pub range: TimeRange,
    pub pair: Option<HostPair>,
    /// Only runs without an outcome.
    pub waiting: bool,
    pub limit: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlannedRunCounts {
    pub done: u64,
    pub missed: u64,
    /// Runs without an outcome.
    pub waiting: u64,
    /// Missed runs by reason, the most frequent first; the sum is `missed`.
    pub reasons: Vec<(String, u64)>,
}

impl PlannedRunCounts {
    pub fn planned(&self) -> u64 {
        self.done + self.missed + self.waiting
    }
}

/// A pair in the grid.
#[derive(Debug, Clone, PartialEq)]
pub struct GridPair {
    pub pair: HostPair,
    /// By the start time of the run, not by its arrival.
    pub newest: Option<SeriesPoint>,
    /// Median of the hourly medians of the seven days before the latest hour, which is excluded.
    /// May lag behind the values by some batches.
    pub weekly_median: Option<f64>,
    /// Events of this quantity that are suspected or confirmed, and not recovered.
    pub open_events: u32,
}

/// A filter for runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFilter {
    /// By the start time of the run, with a resolution of one second.
    pub range: TimeRange,
    /// Only watched runs of this pair.
    pub pair: Option<HostPair>,
    pub kind: Option<ReportKind>,
    pub limit: u32,
}

/// A filter for events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventFilter {
    /// Events whose change may be in this range.
    pub range: TimeRange,
    pub pair: Option<HostPair>,
    pub state: Option<EventState>,
    pub limit: u32,
}

/// The retention times; `Duration::MAX` keeps data forever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionPolicy {
    /// Single values, rounded up to the hour.
    pub values: Duration,
    /// Closed hours; at least as long as `values`.
    pub hours: Duration,
    /// Reports of watched runs.
    pub reports: Duration,
    /// Planned runs and their outcomes.
    pub planned: Duration,
}

impl RetentionPolicy {
    pub const FOR_EVER: RetentionPolicy = RetentionPolicy {
        values: Duration::MAX,
        hours: Duration::MAX,
        reports: Duration::MAX,
        planned: Duration::MAX,
    };

    /// Returns the time before which data is expired.
    pub fn cutoff_us(now_us: i64, keep: Duration) -> i64 {
        let keep_us = i64::try_from(keep.as_micros()).unwrap_or(i64::MAX);
        now_us.saturating_sub(keep_us).max(0)
    }
}

/// The data that retention deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RetentionResult {
    pub values: u64,
    /// Hours that were closed: only their bucket is kept.
    pub closed_hours: u64,
    /// Closed hours that were deleted.
    pub hours: u64,
    pub reports: u64,
    pub planned: u64,
    /// Expired reports that are kept because they still wait in the outbox.
    pub kept_to_send: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreInfo {
    /// The name of the database.
    pub kind: &'static str,
    /// Size on disk, if known.
    pub bytes: Option<u64>,
}

/// Returns true if an event is suspected or confirmed, and not recovered.
pub fn is_event_open(event: &ChangeEvent) -> bool {
    matches!(event.state, EventState::Suspected | EventState::Confirmed)
        && event.recovered_by.is_none()
}
