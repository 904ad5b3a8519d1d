//! The JSON types of the API: the published rows around report v1.
//!
//! The conventions are those of the report: an absent field was not measured and is never null;
//! times are microseconds since 1970-01-01T00:00:00Z; `_bps` is bit/s, `_ratio` 0 to 1. Besides
//! report v1, these are the only types whose derives are a public interface (docs/decisions/0018).
//!
//! - [`series_rows`]: grid, routes
//! - [`run_rows`]: runs, planned runs, requested runs
//! - [`agent_rows`]: the agent and its hosts

pub mod agent_rows;
pub mod run_rows;
pub mod series_rows;

use serde::Serialize;
use serde_with_macros::skip_serializing_none;
use utoipa::ToSchema;

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
