//! Runs: finished, planned, asked for.

use super::mesh::Pair;
use longhaul_model::report::v1;
use longhaul_store::Entry;
use longhaul_store::filed::Filed;
use longhaul_store::watched;
use serde::{Deserialize, Serialize};
use utoipa::openapi::schema::AdditionalProperties;
use utoipa::openapi::{ObjectBuilder, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// The kinds of report v1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Throughput,
    Scan,
    Host,
    Predict,
    Path,
    Available,
    Load,
    Imported,
    Copy,
}

impl From<v1::Kind> for Kind {
    fn from(kind: v1::Kind) -> Self {
        match kind {
            v1::Kind::Throughput => Kind::Throughput,
            v1::Kind::Scan => Kind::Scan,
            v1::Kind::Host => Kind::Host,
            v1::Kind::Predict => Kind::Predict,
            v1::Kind::Path => Kind::Path,
            v1::Kind::Available => Kind::Available,
            v1::Kind::Load => Kind::Load,
            v1::Kind::Imported => Kind::Imported,
            v1::Kind::Copy => Kind::Copy,
        }
    }
}

/// One run in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct RunRow {
    pub id: String,
    /// UTC, RFC 3339.
    pub started_at: String,
    /// Of an archive that a later longhaul wrote, perhaps another word.
    #[schema(value_type = Kind)]
    pub kind: String,
    pub initiator_host: String,
    pub responder_host: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streams: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goodput_bps: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<String>,
    /// Probes of this run that are runs of their own; absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts: Option<u32>,
    /// The pair that was asked for, where one was, or that the news is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pair: Option<Pair>,
}

impl RunRow {
    pub fn of_entry(entry: Entry, pair: Option<Pair>) -> RunRow {
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

    pub fn of_report(report: &v1::AnyReport, pair: Option<Pair>) -> RunRow {
        let run = watched::run_of(report).clone();
        let derived = report.derived();
        RunRow {
            id: run.id,
            started_at: run.started_at,
            kind: kind_of(report).word().to_owned(),
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

fn kind_of(report: &v1::AnyReport) -> v1::Kind {
    match report {
        v1::AnyReport::Throughput(report) => report.kind,
        v1::AnyReport::Scan(report) => report.kind,
        v1::AnyReport::Host(report) => report.kind,
        v1::AnyReport::Predict(report) => report.kind,
        v1::AnyReport::Path(report) => report.kind,
        v1::AnyReport::Available(report) => report.kind,
        v1::AnyReport::Load(report) => report.kind,
        v1::AnyReport::Imported(report) => report.kind,
        v1::AnyReport::Copy(report) => report.kind,
    }
}

/// What became of a planned run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Done { run_id: String },
    Missed { reason: String },
}

/// A run that came due, or was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct PlannedRow {
    pub id: String,
    pub due_us: i64,
    /// What the agent's file calls it.
    pub measurement: String,
    /// Absent for what concerns one host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pair: Option<Pair>,
    /// Absent: not yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
}

impl From<watched::PlannedRow> for PlannedRow {
    fn from(row: watched::PlannedRow) -> Self {
        let outcome = |outcome| match outcome {
            watched::Outcome::Done { run_id } => Outcome::Done { run_id },
            watched::Outcome::Missed { reason } => Outcome::Missed { reason },
        };
        PlannedRow {
            id: row.planned.id,
            due_us: row.planned.due_us,
            measurement: row.planned.measurement,
            pair: row.planned.pair.map(Pair::from),
            outcome: row.outcome.map(outcome),
        }
    }
}

/// Runs that were not made, by reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct MissedFor {
    pub reason: String,
    pub runs: u64,
}

/// How many runs were due in the range, of all pairs, and what became of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct PlannedCounts {
    /// The sum of the other three.
    pub planned: u64,
    pub done: u64,
    pub missed: u64,
    pub waiting: u64,
    /// The missed ones, the most frequent reason first.
    pub reasons: Vec<MissedFor>,
}

impl From<watched::PlannedCounts> for PlannedCounts {
    fn from(counts: watched::PlannedCounts) -> Self {
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

/// Counts of a range, and the newest runs of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct PlannedRuns {
    pub counts: PlannedCounts,
    /// By the time when they were due, the newest first.
    pub rows: Vec<PlannedRow>,
    /// True: there are more of them than were asked for, or than are looked through at once.
    pub more: bool,
}

/// A run that the agent's file knows, and that can be asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Job {
    /// What the file calls it.
    pub measure: String,
    pub from: String,
    pub to: String,
    /// `path`, `available`, `throughput`, `tune`, `load`, `host`.
    pub kind: String,
    /// It fills the path, so it waits until interface, hosts and links are free.
    pub heavy: bool,
    /// The longest that a run takes.
    pub lasts_us: i64,
    /// The most that a run sends.
    pub bytes: u64,
}

/// A run that is wanted now.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RunOrder {
    /// What the agent's file calls the measurement.
    #[schema(min_length = 1, max_length = 255)]
    pub measure: String,
    /// Who sends; of measurements that look both ways, the agent.
    #[schema(min_length = 1, max_length = 255)]
    pub from: String,
    #[schema(min_length = 1, max_length = 255)]
    pub to: String,
}

/// The run that was put into the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct RunTaken {
    /// Under which it is among the planned runs.
    pub planned_id: String,
}

/// A report of report v1, as it was stored: declares the shape, and is never made.
pub enum Report {}

impl PartialSchema for Report {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .description(Some(
                "A report of report v1; its fields are those of docs/report-v1.md.",
            ))
            .additional_properties(Some(AdditionalProperties::<Schema>::FreeForm(true)))
            .into()
    }
}

impl ToSchema for Report {}

/// How a planned run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    Waiting,
    Done,
    Missed,
}

impl Standing {
    pub const WORDS: [(&'static str, Standing); 3] = [
        ("waiting", Standing::Waiting),
        ("done", Standing::Done),
        ("missed", Standing::Missed),
    ];

    pub fn of(outcome: Option<&watched::Outcome>) -> Standing {
        match outcome {
            None => Standing::Waiting,
            Some(watched::Outcome::Done { .. }) => Standing::Done,
            Some(watched::Outcome::Missed { .. }) => Standing::Missed,
        }
    }
}
