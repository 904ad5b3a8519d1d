//! Finished, planned and requested runs.

use longhaul_model::report::v1::series::HostPair;
use longhaul_model::report::v1::{self, ReportKind};
use longhaul_store::RunEntry;
use longhaul_store::history_store;
use serde::{Deserialize, Serialize};
use utoipa::openapi::schema::AdditionalProperties;
use utoipa::openapi::{ObjectBuilder, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// One run in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct RunRow {
    pub id: String,
    /// UTC, RFC 3339.
    pub started_at: String,
    /// May be another word if a later version of longhaul wrote the archive.
    #[schema(value_type = ReportKind)]
    pub kind: String,
    pub initiator_host: String,
    pub responder_host: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streams: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goodput_bps: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<String>,
    /// The number of probes that are runs of their own; absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts: Option<u32>,
    /// The requested pair, or the pair of a live update.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pair: Option<HostPair>,
}

impl RunRow {
    pub fn of_entry(entry: RunEntry, pair: Option<HostPair>) -> RunRow {
        RunRow {
            id: entry.id,
            started_at: entry.started_at,
            kind: entry.kind,
            initiator_host: entry.initiator_host,
            responder_host: entry.responder_host,
            streams: entry.streams,
            goodput_bps: entry.goodput_bps,
            limited_by: entry.limited_by,
            parts: Some(entry.parts).filter(|parts| *parts > 0),
            pair,
        }
    }

    pub fn of_report(report: &v1::AnyReport, pair: Option<HostPair>) -> RunRow {
        let run = report.run().clone();
        let derived = report.list_columns();
        RunRow {
            id: run.id,
            started_at: run.started_at,
            kind: report.kind().word().to_owned(),
            initiator_host: run.initiator.host,
            responder_host: run.responder.host,
            streams: derived.streams,
            goodput_bps: derived.goodput_bps,
            limited_by: derived.limited_by.map(str::to_owned),
            parts: None,
            pair,
        }
    }
}

/// The outcome of a planned run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Done { run_id: String },
    Missed { reason: String },
}

/// A run that came due or was requested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct PlannedRow {
    pub id: String,
    pub due_us: i64,
    /// Name of the measurement in the watch file.
    pub measurement: String,
    /// Absent if the run concerns one host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pair: Option<HostPair>,
    /// Absent while the run has not ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
}

impl From<history_store::PlannedEntry> for PlannedRow {
    fn from(row: history_store::PlannedEntry) -> Self {
        let outcome = |outcome| match outcome {
            history_store::PlannedOutcome::Done { run_id } => Outcome::Done { run_id },
            history_store::PlannedOutcome::Missed { reason } => Outcome::Missed { reason },
        };
        PlannedRow {
            id: row.planned.id,
            due_us: row.planned.due_us,
            measurement: row.planned.measurement,
            pair: row.planned.pair,
            outcome: row.outcome.map(outcome),
        }
    }
}

/// The number of missed runs with one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct MissedFor {
    pub reason: String,
    pub runs: u64,
}

/// The number of runs due in the range, for all pairs, by outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct PlannedCounts {
    /// The sum of `done`, `missed` and `waiting`.
    pub planned: u64,
    pub done: u64,
    pub missed: u64,
    pub waiting: u64,
    /// Missed runs by reason, the most frequent first.
    pub reasons: Vec<MissedFor>,
}

impl From<history_store::PlannedRunCounts> for PlannedCounts {
    fn from(counts: history_store::PlannedRunCounts) -> Self {
        let missed = |(reason, runs)| MissedFor { reason, runs };
        PlannedCounts {
            planned: counts.planned(),
            done: counts.done,
            missed: counts.missed,
            waiting: counts.waiting,
            reasons: counts.reasons.into_iter().map(missed).collect(),
        }
    }
}

/// Counts of a range, and its newest runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct PlannedRuns {
    pub counts: PlannedCounts,
    /// By due time, newest first.
    pub rows: Vec<PlannedRow>,
    /// True: there are more rows than requested, or than one request scans.
    pub more: bool,
}

/// A run of the watch file that can be requested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Job {
    /// Name of the measurement in the watch file.
    pub measure: String,
    pub from: String,
    pub to: String,
    /// `path`, `available`, `throughput`, `tune`, `load`, `host`.
    pub kind: String,
    /// The run fills the path, so it waits until hosts, interfaces and links are free.
    pub heavy: bool,
    /// The maximum duration of a run.
    pub lasts_us: i64,
    /// The maximum number of bytes that a run sends.
    pub bytes: u64,
}

/// A requested run.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RunOrder {
    /// Name of the measurement in the watch file.
    #[schema(min_length = 1, max_length = 255)]
    pub measure: String,
    /// The sender; the agent if the measurement covers both directions.
    #[schema(min_length = 1, max_length = 255)]
    pub from: String,
    #[schema(min_length = 1, max_length = 255)]
    pub to: String,
}

/// A requested run that was queued.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct RunTaken {
    /// The id of the planned run.
    pub planned_id: String,
}

/// A stored report of report v1. Declares the schema only; never constructed.
pub enum StoredReport {}

impl PartialSchema for StoredReport {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .description(Some(
                "A report in the format of report v1; docs/report-v1.md describes its fields.",
            ))
            .additional_properties(Some(AdditionalProperties::<Schema>::FreeForm(true)))
            .into()
    }
}

impl ToSchema for StoredReport {
    fn name() -> std::borrow::Cow<'static, str> {
        "Report".into()
    }
}

/// The state of a planned run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlannedRunState {
    Waiting,
    Done,
    Missed,
}

impl PlannedRunState {
    pub const WORDS: [(&'static str, PlannedRunState); 3] = [
        ("waiting", PlannedRunState::Waiting),
        ("done", PlannedRunState::Done),
        ("missed", PlannedRunState::Missed),
    ];

    pub fn of(outcome: Option<&history_store::PlannedOutcome>) -> PlannedRunState {
        match outcome {
            None => PlannedRunState::Waiting,
            Some(history_store::PlannedOutcome::Done { .. }) => PlannedRunState::Done,
            Some(history_store::PlannedOutcome::Missed { .. }) => PlannedRunState::Missed,
        }
    }
}
