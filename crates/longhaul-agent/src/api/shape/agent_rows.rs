//! The agent and its hosts.

use serde::Serialize;
use serde_with_macros::skip_serializing_none;
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

#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ArchiveAbout {
    /// The name of the database.
    pub kind: String,
    /// Size on disk, if known.
    pub bytes: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct AgentAbout {
    /// The agent's own host.
    pub name: String,
    /// The number of hosts that the agent measures.
    pub targets: u64,
    /// Runs due since midnight, UTC.
    pub planned_today: u64,
    pub missed_today: u64,
    /// The requesting client may start runs (`POST /api/v1/runs`).
    pub takes_orders: bool,
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
    /// Degrees north.
    pub latitude: Option<f64>,
    /// Degrees east.
    pub longitude: Option<f64>,
}
