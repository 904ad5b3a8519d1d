//! The JSON types of the API: the published rows around report v1.
//!
//! The conventions are those of the report: an absent field was not measured and is never null;
//! times are microseconds since 1970-01-01T00:00:00Z; `_bps` is bit/s, `_ratio` 0 to 1. Besides
//! report v1, these are the only types whose derives are a public interface (docs/decisions/0018).

use longhaul_history::event::OperatorReportKind;
use longhaul_model::report::v1::flows::DailyTransfers;
use longhaul_model::report::v1::path::{ObservedHop, RouteDifference};
use longhaul_model::report::v1::{ChangeEvent, HostPair};
use longhaul_store::history_store::{
    EventHandling, MeasurementFailure, MissedRunCount, NoteAction, PlannedRun, PlannedRunCounts,
};
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;
use utoipa::openapi::schema::AdditionalProperties;
use utoipa::openapi::{ObjectBuilder, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// An error response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ErrorBody {
    pub error: ErrorText,
}

#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ErrorText {
    /// A stable code.
    pub code: String,
    /// The failed operation and the reason.
    pub text: String,
    /// A hint for the user.
    pub hint: Option<String>,
}

/// The transfers of each day.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct DailyTransferList {
    /// The latest day first, and of each day the most bytes first.
    pub rows: Vec<DailyTransfers>,
    /// False: the range has more transfers; the oldest were left out.
    pub is_complete: bool,
}

/// A stretch of time in which all traces have the same route.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct RouteRow {
    /// Start of the first run with this route.
    pub at_us: i64,
    /// Start of the last run with this route.
    pub until_us: i64,
    /// The number of traces that were read; not all are read for a long range.
    pub traces: u32,
    /// The number of this route among those of its pair.
    pub number: u32,
    /// The first run with this route.
    pub run_id: String,
    pub hops: Vec<RouteHop>,
    /// The difference from the previous route; absent for the first one.
    pub change: Option<RouteDifference>,
}

/// One hop; a silent hop has no address.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct RouteHop {
    pub ttl: u8,
    pub address: Option<String>,
    pub name: Option<String>,
    /// Minimum RTT of the answers, us.
    pub rtt_us: Option<f64>,
}

impl From<&ObservedHop> for RouteHop {
    fn from(hop: &ObservedHop) -> Self {
        let answer = hop.answers.first();
        let least = answer.and_then(|answer| answer.rtts_ns.iter().min());
        RouteHop {
            ttl: hop.ttl,
            address: answer.map(|answer| answer.address.clone()),
            name: answer.and_then(|answer| answer.name.clone()),
            rtt_us: least.map(|ns| *ns as f64 / 1e3),
        }
    }
}

// Without a doc comment, which would be a part of docs/openapi.json.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = About)]
pub struct ServiceDescription {
    /// Version of the program.
    pub longhaul: String,
    /// UTC, RFC 3339.
    pub started_at: String,
    pub archive: ArchiveAbout,
    pub agent: AgentAbout,
}

#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ArchiveAbout {
    /// The name of the database.
    pub kind: String,
    /// Size on disk, if known.
    pub bytes: Option<u64>,
}

#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct AgentAbout {
    /// The agent's own host.
    pub name: String,
    /// The number of hosts that the agent measures.
    pub targets: u64,
    /// Runs due since midnight, UTC.
    pub planned_today: u64,
    /// Of those: runs that were made and gave no result.
    pub failed_today: u64,
    /// Of those: runs that were not made for an unusual reason, such as `target_failing`,
    /// `disk_full` or `budget`. Not counted are `locked`, `asleep`, `agent_off`, `agent_stopped` and
    /// `stopping`.
    pub missed_today: u64,
    /// Runs without a result by reason, the most frequent first: failed, missed and unusual or not.
    pub missed_today_by_reason: Vec<MissedRunCount>,
    /// The time before the start of the agent in which it was not running, if runs came due in it.
    pub off: Option<AgentOffTime>,
    /// The requesting client may start runs (`POST /api/v1/runs`).
    pub takes_orders: bool,
    /// The name of the requesting user, if a proxy or the token gives one.
    pub user: Option<String>,
}

/// A time in which no agent was running.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct AgentOffTime {
    pub from_us: i64,
    pub until_us: i64,
}

/// A host of the watch file, or one with an audit in the archive.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub struct HostRow {
    pub host: String,
    /// Its newest audit.
    pub audit_run_id: Option<String>,
    pub audit_at_us: Option<i64>,
    /// The number of settings that limit a path, according to the audit.
    pub limits: Option<u32>,
    /// The number of settings that could be better.
    pub advice: Option<u32>,
    /// City.
    pub place: Option<String>,
    /// Groups and meshes of the watch file that the host belongs to. The agent belongs to its groups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Degrees north.
    pub latitude: Option<f64>,
    /// Degrees east.
    pub longitude: Option<f64>,
}

/// Counts of a range, and its newest runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct PlannedRuns {
    pub counts: PlannedRunCounts,
    /// By due time, newest first.
    pub rows: Vec<PlannedRun>,
    /// True: there are more rows than requested, or than one request scans.
    pub more: bool,
}

/// An event with the effect of the notes of people on it.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct EventRow {
    #[serde(flatten)]
    pub event: ChangeEvent,
    pub handling: EventHandling,
}

/// A part of a case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct CasePart {
    /// `title`, `section`, `paragraph`, `item`, or `row` (of a table in columns of fixed width).
    pub kind: String,
    pub text: String,
}

impl From<(OperatorReportKind, String)> for CasePart {
    fn from((kind, text): (OperatorReportKind, String)) -> Self {
        let kind = match kind {
            OperatorReportKind::Title => "title",
            OperatorReportKind::Section => "section",
            OperatorReportKind::Paragraph => "paragraph",
            OperatorReportKind::Item => "item",
            OperatorReportKind::Row => "row",
        };
        CasePart { kind: kind.to_owned(), text }
    }
}

/// A new note on an event.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewEventNote {
    pub action: NoteAction,
    /// Name of the author; only used if neither a proxy nor the token gives one.
    #[schema(max_length = 255)]
    pub who: Option<String>,
    /// A comment, or the reason of the action.
    #[schema(max_length = 4000)]
    pub text: Option<String>,
    /// End of a silence.
    pub until_us: Option<i64>,
}

/// A measurement of a pair, the time of its last result, and its failures since.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = MeasurementState)]
pub struct MeasurementRow {
    /// Name of the measurement in the watch file.
    pub measurement: String,
    /// Absent if it concerns one host.
    pub pair: Option<HostPair>,
    /// `path`, `latency`, `available`, `throughput`, `tune`, `load`, `host`, `flows`; of another agent, the kind of its last
    /// report; absent if neither is known.
    pub kind: Option<String>,
    /// Due time of the last run with a result; absent: none yet.
    pub done_us: Option<i64>,
    pub run_id: Option<String>,
    /// A result older than this is stale: three intervals of the measurement, or a day if the
    /// interval is unknown.
    pub stale_after_us: i64,
    /// Absent if the last run that ended had a result.
    pub failure: Option<MeasurementFailure>,
}

/// A run of the watch file that can be requested.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Job)]
pub struct RequestableRun {
    /// Name of the measurement in the watch file.
    pub measure: String,
    pub from: String,
    pub to: String,
    /// `path`, `latency`, `available`, `throughput`, `tune`, `load`, `host`, `flows`.
    pub kind: String,
    /// The run fills the path, so it waits until hosts, interfaces and links are free.
    pub heavy: bool,
    /// The maximum duration of a run.
    pub lasts_us: i64,
    /// The interval of the measurement.
    pub every_us: i64,
    /// The maximum number of bytes that a run sends.
    pub bytes: u64,
    /// The lowest rate that the watch file gives for the links and hosts of the path.
    pub rate_bps: Option<u64>,
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
