//! Planned runs and their outcomes.

use super::ApiState;
use super::api_error::ApiError;
use super::query_params::{QueryParams, QueryRange};
use super::shape::run_rows::{PlannedRow, PlannedRunState, PlannedRuns};
use crate::watch::SECOND_US;
use axum::Json;
use axum::extract::State;
use longhaul_model::report::v1::series::HostPair;
use longhaul_store::history_store::ingest_limits::TIME_END_US;
use longhaul_store::history_store::{self, PlannedRunFilter, TimeRange};
use longhaul_store::{HistoryStore, StoreError};
use std::sync::Arc;

const DEFAULT_LIMIT: u32 = 500;
const MAX_LIMIT: u32 = 10_000;
/// The maximum number of rows that one request scans.
const MAX_SCANNED_ROWS: usize = 100_000;
/// The newest rows are searched backwards; each step is twice as long as the previous one.
const FIRST_STEP_US: i64 = 3600 * SECOND_US;

/// The requested rows.
struct PlannedQuery {
    range: TimeRange,
    pair: Option<HostPair>,
    state: Option<PlannedRunState>,
    limit: usize,
}

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
    let wanted = PlannedQuery {
        range: params.range()?,
        pair: params.pair()?,
        state: params.one_of("state", &PlannedRunState::WORDS)?,
        limit: params.limit(DEFAULT_LIMIT, MAX_LIMIT)? as usize,
    };
    params.reject_rest()?;
    let (counts, (rows, more)) = shared
        .archive
        .query(move |archive| {
            let counts = archive.planned_counts(wanted.range)?;
            Ok((counts, read_newest_rows(archive, &wanted)?))
        })
        .await?;
    Ok(Json(PlannedRuns {
        counts: counts.into(),
        rows: rows.into_iter().map(PlannedRow::from).collect(),
        more,
    }))
}

/// Returns the newest matching rows, and whether there may be more. The archive returns the
/// earliest rows first, so it is queried in steps from the end of the range.
fn read_newest_rows(
    archive: &dyn HistoryStore,
    wanted: &PlannedQuery,
) -> Result<(Vec<history_store::PlannedEntry>, bool), StoreError> {
    let mut rows = Vec::new();
    let mut looked_through = 0;
    let mut step_us = FIRST_STEP_US;
    let mut end_us = limit_range_end(wanted.range);
    while end_us > wanted.range.begin_us {
        let begin_us = end_us.saturating_sub(step_us).max(wanted.range.begin_us);
        let stretch = archive.planned(&PlannedRunFilter {
            range: TimeRange { begin_us, end_us },
            pair: wanted.pair.clone(),
            waiting: wanted.state == Some(PlannedRunState::Waiting),
            limit: MAX_SCANNED_ROWS as u32,
        })?;
        looked_through += stretch.len();
        let fits = |row: &history_store::PlannedEntry| {
            let standing = PlannedRunState::of(row.outcome.as_ref());
            wanted.state.is_none_or(|wanted| wanted == standing)
        };
        rows.extend(stretch.into_iter().rev().filter(fits));
        if rows.len() > wanted.limit || looked_through >= MAX_SCANNED_ROWS {
            rows.truncate(wanted.limit);
            return Ok((rows, true));
        }
        end_us = begin_us;
        step_us = step_us.saturating_mul(2);
    }
    Ok((rows, false))
}

/// Limits the end of the range, because nothing is planned far ahead.
fn limit_range_end(range: TimeRange) -> i64 {
    let soon = super::about::read_now_us().saturating_add(FIRST_STEP_US);
    range.end_us.min(soon.clamp(0, TIME_END_US))
}
