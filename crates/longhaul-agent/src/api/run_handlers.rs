//! Finished runs: the list, and each stored report.

use super::ApiState;
use super::api_error::ApiError;
use super::query_params::{self, QueryParams, QueryRange};
use super::shape::run_rows::StoredReport;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use longhaul_model::report::v1::ReportKind;
use longhaul_store::history_store::RunFilter;
use longhaul_store::{RunEntry, StoreError};
use std::sync::Arc;

const DEFAULT_LIMIT: u32 = 100;
const MAX_LIMIT: u32 = 5000;

/// Runs, newest first.
#[utoipa::path(get, path = "/api/v1/runs", tag = "runs",
    params(
        ("from" = Option<String>, Query, description = "Sender; with `to`: only runs of the watch file for this pair", min_length = 1, max_length = 255),
        ("to" = Option<String>, Query, description = "Receiver; requires `from`", min_length = 1, max_length = 255),
        QueryRange,
        ("kind" = Option<ReportKind>, Query, description = "Only runs of this kind"),
        ("limit" = Option<u32>, Query, description = "Max number of runs; default 100", minimum = 1, maximum = 5000),
    ),
    responses((status = 200, description = "Runs that began in the range", body = Vec<RunEntry>)))]
pub async fn runs(
    State(shared): State<Arc<ApiState>>,
    mut params: QueryParams,
) -> Result<Json<Vec<RunEntry>>, ApiError> {
    let kinds = ReportKind::ALL.iter().map(|kind| (kind.word(), *kind));
    let kinds: Vec<(&str, ReportKind)> = kinds.collect();
    let filter = RunFilter {
        range: params.range()?,
        pair: params.pair()?,
        kind: params.one_of("kind", &kinds)?,
        limit: params.limit(DEFAULT_LIMIT, MAX_LIMIT)?,
    };
    params.reject_rest()?;
    let pair = filter.pair.clone();
    let entries = shared.archive.query(move |archive| archive.runs(&filter)).await?;
    let row = |entry| RunEntry { pair: pair.clone(), ..entry };
    Ok(Json(entries.into_iter().map(row).collect()))
}

/// The report of a run, in the format of report v1 (docs/report-v1.md).
#[utoipa::path(get, path = "/api/v1/runs/{id}", tag = "runs",
    params(("id" = String, Path, description = "Run id", min_length = 1, max_length = 128)),
    responses((status = 200, description = "The report", body = StoredReport)))]
pub async fn run(
    State(shared): State<Arc<ApiState>>,
    Path(id): Path<String>,
    params: QueryParams,
) -> Result<impl IntoResponse, ApiError> {
    params.reject_rest()?;
    let id = query_params::validate_id("run id", id)?;
    let text = shared
        .archive
        .query(move |archive| {
            let report = archive.report(&id)?;
            let text = report.map(|report| serde_json::to_string(&report));
            text.transpose().map_err(|source| StoreError::Report { id, source })
        })
        .await?;
    let text = text.ok_or_else(|| {
        ApiError::not_found("the archive has no run with this id").hint(
            "list the runs with /api/v1/runs; this one may have expired, or be of another agent",
        )
    })?;
    Ok(([(CONTENT_TYPE, "application/json")], text))
}
