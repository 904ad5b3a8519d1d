//! What the agent is, and the hosts that it knows.

use serde::Serialize;
use utoipa::ToSchema;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct About {
    /// Version of the program.
    pub longhaul: String,
    /// UTC, RFC 3339.
    pub started_at: String,
    pub archive: ArchiveAbout,
    pub agent: AgentAbout,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ArchiveAbout {
    /// The name of the database.
    pub kind: String,
    /// On disk, where that can be said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct AgentAbout {
    /// The agent's own host.
    pub name: String,
    /// Hosts that it measures.
    pub targets: u64,
    /// Runs that were due since midnight, UTC.
    pub planned_today: u64,
    pub missed_today: u64,
    /// Runs can be asked for (`POST /api/v1/runs`) by whoever asks this.
    pub takes_orders: bool,
}

/// A host of the agent's file, or one that an audit is of.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct HostRow {
    pub host: String,
    /// Its newest audit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audit_run_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audit_at_us: Option<i64>,
    /// Settings that limit a path, by that audit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<u32>,
    /// Settings that could be better.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<u32>,
    /// City.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// Degrees north.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latitude: Option<f64>,
    /// Degrees east.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longitude: Option<f64>,
}
