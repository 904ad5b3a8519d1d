//! Finished runs: the list, and each stored report.

use super::ApiState;
use super::api_error::ApiError;
use super::query_params::{self, QueryParams, QueryRange};
use super::shape::run_rows::{self, Report, RunRow};
use super::shape::series_rows::Pair;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use longhaul_model::report::v1::ReportKind;
use longhaul_store::StoreError;
use longhaul_store::archived_report::ArchivedReport;
use longhaul_store::history_store::RunFilter;
use std::sync::Arc;

const DEFAULT_LIMIT: u32 = 100;
const MAX_LIMIT: u32 = 5000;
const KINDS: [ReportKind; 9] = [
    ReportKind::Throughput,
    ReportKind::Scan,
    ReportKind::Host,
    ReportKind::Predict,
    ReportKind::Path,
    ReportKind::Available,
    ReportKind::Load,
    ReportKind::Imported,
    ReportKind::Copy,
];

/// Runs, newest first.
#[utoipa::path(get, path = "/api/v1/runs", tag = "runs",
    params(
        ("from" = Option<String>, Query, description = "Sender; with to: watched runs of this pair alone", min_length = 1, max_length = 255),
        ("to" = Option<String>, Query, description = "Receiver; with from", min_length = 1, max_length = 255),
        QueryRange,
        ("kind" = Option<run_rows::Kind>, Query, description = "Those of one kind alone"),
        ("limit" = Option<u32>, Query, description = "At most; usually 100", minimum = 1, maximum = 5000),
    ),
    responses((status = 200, description = "Runs that began in the range", body = Vec<RunRow>)))]
pub async fn runs(
    State(shared): State<Arc<ApiState>>,
    mut params: QueryParams,
) -> Result<Json<Vec<RunRow>>, ApiError> {
    let filter = RunFilter {
        range: params.range()?,
        pair: params.pair()?,
        kind: params.one_of("kind", &KINDS.map(|kind| (kind.word(), kind)))?,
        limit: params.limit(DEFAULT_LIMIT, MAX_LIMIT)?,
    };
    params.reject_rest()?;
    let pair = filter.pair.clone().map(Pair::from);
    let entries = shared
        .archive
        .query(move |archive| archive.runs(&filter))
        .await?;
    let row = |entry| RunRow::of_entry(entry, pair.clone());
    Ok(Json(entries.into_iter().map(row).collect()))
}

/// The report of a run, in the format of report v1 (docs/report-v1.md).
#[utoipa::path(get, path = "/api/v1/runs/{id}", tag = "runs",
    params(("id" = String, Path, description = "Its id", min_length = 1, max_length = 128)),
    responses((status = 200, description = "The report", body = Report)))]
pub async fn run(
    State(shared): State<Arc<ApiState>>,
    Path(id): Path<String>,
    params: QueryParams,
) -> Result<impl IntoResponse, ApiError> {
    params.reject_rest()?;
    let id = query_params::validate_id("the id of a run", id)?;
    let text = shared
        .archive
        .query(move |archive| {
            let report = archive.report(&id)?;
            let text = report.map(|report| report.to_json());
            text.transpose()
                .map_err(|source| StoreError::Report { id, source })
        })
        .await?;
    let text = text.ok_or_else(|| {
        ApiError::not_found("no run of this id is in the archive")
            .hint("it may have been removed by the archive's retention, or is of another agent")
    })?;
    Ok(([(CONTENT_TYPE, "application/json")], text))
}
