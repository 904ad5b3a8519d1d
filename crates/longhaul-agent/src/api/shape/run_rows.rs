//! Finished, planned and requested runs.

use longhaul_store::history_store::{PlannedRun, PlannedRunCounts};
use serde::{Deserialize, Serialize};
use utoipa::openapi::schema::AdditionalProperties;
use utoipa::openapi::{ObjectBuilder, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// Counts of a range, and its newest runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct PlannedRuns {
    pub counts: PlannedRunCounts,
    /// By due time, newest first.
    pub rows: Vec<PlannedRun>,
    /// True: there are more rows than requested, or than one request scans.
    pub more: bool,
}

/// A run of the watch file that can be requested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Job)]
pub struct RequestableRun {
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
