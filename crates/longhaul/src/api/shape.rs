//! What the API says and takes, as JSON: the published rows around report v1.
//!
//! Conventions are those of the report: an absent field was not measured and is never null; times
//! are microseconds since 1970-01-01T00:00:00Z; `_bps` is bit/s, `_ratio` 0 to 1. These types are
//! the only ones of the program, besides report v1, whose derives are a promise to strangers
//! (docs/decisions/0018).
//!
//! - [`mesh`]: pairs, grid, series, routes
//! - [`event`]: lasting changes and their causes
//! - [`run`]: runs, planned runs, orders
//! - [`agent`]: what the agent is, its hosts

pub mod agent;
pub mod event;
pub mod mesh;
pub mod run;

use serde::Serialize;
use utoipa::ToSchema;

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ErrorBody {
    pub error: ErrorText,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ErrorText {
    /// A stable word.
    pub code: String,
    /// What was tried and why it failed.
    pub text: String,
    /// What to do next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}
