//! The data that an agent stores and queries.
//!
//! Times are microseconds since 1970-01-01T00:00:00Z by the clock of the measuring host, in any
//! order. Names of hosts, measurements and reasons come from the agent's file. Values are in the
//! unit of their [`PathQuantity`]. All input is checked against [`ingest_limits`]; one item beyond a limit
//! rejects its whole batch before anything is written.
//!
//! Every write is idempotent, so a sender without an answer repeats it. After `Ok` the data
//! survives a crash of the process and a power failure. After an error nothing was written, with
//! the exceptions that [`Archive::retain`](crate::Archive::retain) names.

pub mod ingest_limits;
pub mod time_buckets;

use crate::archived_report;
use crate::store_error::StoreError;
use longhaul_model::report::v1::event::{ChangeEvent, EventState};
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::series::{HostPair, SeriesPoint};
use longhaul_model::report::v1::{AnyReport, ListColumns, ReportKind, RunInfo};
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;
use std::time::Duration;

/// A time span, including its start and excluding its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeRange {
    pub begin_us: i64,
    pub end_us: i64,
}

impl TimeRange {
    pub const ALL: TimeRange = TimeRange { begin_us: i64::MIN, end_us: i64::MAX };
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
    pub planned: Vec<PlannedRun>,
    /// In their latest state.
    pub events: Vec<ChangeEvent>,
}

/// A run that came due or was requested.
#[skip_serializing_none]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = PlannedRow))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedRun {
    pub id: String,
    pub due_us: i64,
    /// Name of the measurement in the watch file.
    pub measurement: String,
    /// Absent if the run concerns one host.
    pub pair: Option<HostPair>,
    /// Absent while the run has not ended.
    pub outcome: Option<PlannedOutcome>,
}

/// The outcome of a planned run.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = Outcome))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlannedOutcome {
    Done { run_id: String },
    // The reason is one of a small set of words, so that it can be counted.
    Missed { reason: String },
}

/// The state of a planned run.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PlannedRunState {
    Waiting,
    Done,
    Missed,
}

/// A filter for planned runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedRunFilter {
    pub range: TimeRange,
    pub pair: Option<HostPair>,
    pub state: Option<PlannedRunState>,
    pub limit: u32,
}

/// The number of runs due in the range, for all pairs, by outcome.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = PlannedCounts))]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct PlannedRunCounts {
    /// The sum of `done`, `missed` and `waiting`.
    pub planned: u64,
    pub done: u64,
    pub missed: u64,
    pub waiting: u64,
    /// Missed runs by reason, the most frequent first.
    pub reasons: Vec<MissedRunCount>,
}

/// The number of missed runs with one reason.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = MissedFor))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MissedRunCount {
    pub reason: String,
    pub runs: u64,
}

/// A pair in the grid.
#[skip_serializing_none]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = GridCell))]
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GridPair {
    pub pair: HostPair,
    /// The newest value, in the unit of the quantity.
    pub value: Option<f64>,
    /// Start of the run with this value.
    pub at_us: Option<i64>,
    /// Median of the hourly medians of the last seven days.
    // The latest hour is excluded. May lag behind the values by some batches.
    #[serde(rename = "median_7d")]
    pub weekly_median: Option<f64>,
    /// Suspected or confirmed events of this quantity that have not recovered.
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
    /// Reports of watched runs, planned runs with an outcome, and single values, which are rounded
    /// up to the hour.
    pub runs: Duration,
    /// Closed hours; at least as long as `runs`.
    pub hours: Duration,
}

impl RetentionPolicy {
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
    /// Closed hours that were deleted.
    pub hours: u64,
    pub reports: u64,
    pub planned: u64,
}

/// Returns true if an event is suspected or confirmed, and not recovered.
pub fn is_event_open(event: &ChangeEvent) -> bool {
    matches!(event.state, EventState::Suspected | EventState::Confirmed)
        && event.recovered_by.is_none()
}
