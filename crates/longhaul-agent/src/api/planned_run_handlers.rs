//! Planned runs and their outcomes.

use super::ApiState;
use super::api_error::ApiError;
use super::query_params::{QueryParams, QueryRange};
use super::shape::PlannedRuns;
use axum::Json;
use axum::extract::State;
use longhaul_store::history_store::{PlannedRunFilter, PlannedRunState};
use std::sync::Arc;

const DEFAULT_LIMIT: u32 = 500;
const MAX_LIMIT: u32 = 10_000;

const STATES: [(&str, PlannedRunState); 3] = [
    ("waiting", PlannedRunState::Waiting),
    ("done", PlannedRunState::Done),
    ("missed", PlannedRunState::Missed),
];
/// Planned runs in a range: counts of all pairs, and the newest rows.
#[utoipa::path(get, path = "/api/v1/planned", tag = "runs",
    params(
        ("from" = Option<String>, Query, description = "Sender; with `to`: only rows of this pair", min_length = 1, max_length = 255),
        ("to" = Option<String>, Query, description = "Receiver; requires `from`", min_length = 1, max_length = 255),
        QueryRange,
        ("state" = Option<PlannedRunState>, Query, description = "Only rows in this state"),
        ("limit" = Option<u32>, Query, description = "Max number of rows; default 500", minimum = 1, maximum = 10_000),
    ),
    responses((status = 200, description = "Counts and rows", body = PlannedRuns)))]
pub async fn planned(
    State(shared): State<Arc<ApiState>>,
    mut params: QueryParams,
) -> Result<Json<PlannedRuns>, ApiError> {
    let mut filter = PlannedRunFilter {
        range: params.range()?,
        pair: params.pair()?,
        state: params.one_of("state", &STATES)?,
        limit: params.limit(DEFAULT_LIMIT, MAX_LIMIT)?,
    };
    params.reject_rest()?;
    let limit = filter.limit as usize;
    filter.limit += 1;
    let (counts, mut rows) = shared
        .archive
        .query(move |archive| {
            Ok((archive.planned_counts(filter.range)?, archive.latest_planned(&filter)?))
        })
        .await?;
    let more = rows.len() > limit;
    rows.truncate(limit);
    Ok(Json(PlannedRuns { counts, rows, more }))
}
