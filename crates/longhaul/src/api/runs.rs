//! Finished runs: the list, and each stored report.

use super::Shared;
use super::asked::{self, Asked, Span};
use super::fault::Fault;
use super::shape::mesh::Pair;
use super::shape::run::{self, Report, RunRow};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use longhaul_model::report::v1::Kind;
use longhaul_store::StoreError;
use longhaul_store::filed::Filed;
use longhaul_store::watched::RunFilter;
use std::sync::Arc;

const USUAL: u32 = 100;
const MOST: u32 = 5000;
const KINDS: [Kind; 9] = [
    Kind::Throughput,
    Kind::Scan,
    Kind::Host,
    Kind::Predict,
    Kind::Path,
    Kind::Available,
    Kind::Load,
    Kind::Imported,
    Kind::Copy,
];

/// Runs, newest first.
#[utoipa::path(get, path = "/api/v1/runs", tag = "runs",
    params(
        ("from" = Option<String>, Query, description = "Sender; with to: watched runs of this pair alone", min_length = 1, max_length = 255),
        ("to" = Option<String>, Query, description = "Receiver; with from", min_length = 1, max_length = 255),
        Span,
        ("kind" = Option<run::Kind>, Query, description = "Those of one kind alone"),
        ("limit" = Option<u32>, Query, description = "At most; usually 100", minimum = 1, maximum = 5000),
    ),
    responses((status = 200, description = "Runs that began in the range", body = Vec<RunRow>)))]
pub async fn runs(
    State(shared): State<Arc<Shared>>,
    mut asked: Asked,
) -> Result<Json<Vec<RunRow>>, Fault> {
    let filter = RunFilter {
        range: asked.range()?,
        pair: asked.pair()?,
        kind: asked.one_of("kind", &KINDS.map(|kind| (kind.word(), kind)))?,
        limit: asked.limit(USUAL, MOST)?,
    };
    asked.done()?;
    let pair = filter.pair.clone().map(Pair::from);
    let entries = shared
        .readers
        .ask(move |archive| archive.runs(&filter))
        .await?;
    let row = |entry| RunRow::of_entry(entry, pair.clone());
    Ok(Json(entries.into_iter().map(row).collect()))
}

/// The report of a run, in the format of report v1 (docs/report-v1.md).
#[utoipa::path(get, path = "/api/v1/runs/{id}", tag = "runs",
    params(("id" = String, Path, description = "Its id", min_length = 1, max_length = 128)),
    responses((status = 200, description = "The report", body = Report)))]
pub async fn run(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    asked: Asked,
) -> Result<impl IntoResponse, Fault> {
    asked.done()?;
    let id = asked::id("the id of a run", id)?;
    let text = shared
        .readers
        .ask(move |archive| {
            let report = archive.report(&id)?;
            let text = report.map(|report| report.text());
            text.transpose()
                .map_err(|source| StoreError::Report { id, source })
        })
        .await?;
    let text = text.ok_or_else(|| {
        Fault::nothing("no run of this id is in the archive")
            .hint("it may have been removed by the archive's retention, or is of another agent")
    })?;
    Ok(([(CONTENT_TYPE, "application/json")], text))
}
