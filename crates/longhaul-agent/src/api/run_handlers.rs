//! Handlers for runs: lists archived runs, returns a report, lists the available jobs, and requests a
//! run.
//!
//! A requested run goes through the agent's only queue, with the same budgets and locks.

use super::ApiState;
use super::access_control::RequestUser;
use super::api_error::ApiError;
use super::document_format::DocumentFormat;
use super::query_params::{self, QueryParams, QueryRange};
use super::shape::{RequestableRun, RunOrder, RunTaken, StoredReport};
use crate::agent::shared_state::JobRequest;
use crate::watch::measure_jobs::{self, JobKey};
use crate::watch::run_schedule::{RequestedRun as Answer, RunRequestError};
use crate::watch::watch_file::WatchFile;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::{Extension, Json};
use longhaul_model::report::v1::{ReportKind, RunEnvironment};
use longhaul_model::units::Rate;
use longhaul_report::build_document;
use longhaul_store::history_store::{MAX_NAME_BYTES, RunFilter};
use longhaul_store::{RunEntry, StoreError};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// The timeout for the agent's answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Jobs that `POST /api/v1/runs` accepts.
#[utoipa::path(get, path = "/api/v1/jobs", tag = "runs",
    params(
        ("from" = Option<String>, Query, description = "Sender; with `to`: only jobs of this pair", min_length = 1, max_length = 255),
        ("to" = Option<String>, Query, description = "Receiver; requires `from`", min_length = 1, max_length = 255),
    ),
    responses((status = 200, description = "Runs that can be requested", body = Vec<RequestableRun>)))]
pub async fn jobs(
    State(shared): State<Arc<ApiState>>,
    mut params: QueryParams,
) -> Result<Json<Vec<RequestableRun>>, ApiError> {
    let pair = params.pair()?;
    params.reject_rest()?;
    let file = shared.state.file();
    let known = tokio::task::spawn_blocking(move || list_jobs(&file))
        .await
        .map_err(|_| ApiError::internal("listing the runs"))?;
    let of_pair = |job: &RequestableRun| {
        let pair = pair.as_ref();
        pair.is_none_or(|pair| pair.from == job.from && pair.to == job.to)
    };
    Ok(Json(known.into_iter().filter(of_pair).collect()))
}

pub(super) fn list_jobs(file: &WatchFile) -> Vec<RequestableRun> {
    let place = |name: &str| file.hosts.iter().position(|host| host.name == name);
    let rate = |key: &JobKey| {
        let (from, to) = (place(&key.from)?, place(&key.to)?);
        measure_jobs::find_declared_rate(file, from, to).map(Rate::as_bps)
    };
    let job = |job: measure_jobs::MeasureJob| RequestableRun {
        rate_bps: rate(&job.key),
        measure: job.key.measure.to_string(),
        from: job.key.from.to_string(),
        to: job.key.to.to_string(),
        kind: job.measure.kind.word().to_owned(),
        heavy: job.heavy,
        lasts_us: job.max_duration_us,
        every_us: job.every_us,
        bytes: job.max_bytes,
    };
    measure_jobs::build_jobs(file, None, 0).into_iter().map(job).collect()
}

/// Requests a run now. It waits in the queue like any other run, until the resources it needs are
/// free and the daily budget allows it. `planned_id` appears among the planned runs until the run
/// is done or missed.
#[utoipa::path(post, path = "/api/v1/runs", tag = "runs",
    request_body = RunOrder,
    responses(
        (status = 202, description = "The run is in the queue", body = RunTaken),
        (status = 409, description = "A run of this kind for this pair is already queued", body = super::shape::ErrorBody),
    ))]
pub async fn order(
    State(shared): State<Arc<ApiState>>,
    Extension(user): Extension<RequestUser>,
    headers: HeaderMap,
    params: QueryParams,
    body: Result<Json<RunOrder>, JsonRejection>,
) -> Result<(StatusCode, Json<RunTaken>), ApiError> {
    shared.authorize_change(&user, &headers)?;
    params.reject_rest()?;
    let Json(order) = body.map_err(|rejection| {
        let form = "{\"measure\": \"…\", \"from\": \"…\", \"to\": \"…\"}";
        ApiError::from_rejection(&rejection, form)
    })?;
    let name = |what: &str, text| query_params::validate_name(what, text, MAX_NAME_BYTES);
    let key = JobKey {
        measure: name("measure", order.measure)?.into(),
        from: name("from", order.from)?.into(),
        to: name("to", order.to)?.into(),
    };
    let answer = tokio::time::timeout(ANSWER_TIMEOUT, send_request(&shared, key)).await;
    let busy = || {
        ApiError::unavailable("agent_busy", "the agent did not accept the request within 5 s")
            .hint("try again; see the agent's log for what it is doing")
    };
    match answer.map_err(|_| busy())?? {
        Ok(Answer::Queued(id)) => {
            let planned_id = id.to_string();
            Ok((StatusCode::ACCEPTED, Json(RunTaken { planned_id })))
        }
        Ok(Answer::AlreadyQueued(id)) => {
            let text = format!("this run is already queued as {id}");
            Err(ApiError::new(StatusCode::CONFLICT, "waits_already", text)
                .hint("wait: it starts as soon as its hosts and links are free"))
        }
        Err(error) => Err(convert_request_error(error)),
    }
}

async fn send_request(
    shared: &ApiState,
    key: JobKey,
) -> Result<Result<Answer, RunRequestError>, ApiError> {
    let gone = || {
        ApiError::unavailable("agent_away", "the agent accepts no requests: it is stopping")
            .hint("try again after its restart")
    };
    let (answer, answered) = oneshot::channel();
    let orders = &shared.state.requests;
    orders.send(JobRequest { key, answer }).await.map_err(|_| gone())?;
    answered.await.map_err(|_| gone())
}

fn convert_request_error(error: RunRequestError) -> ApiError {
    let text = error.to_string();
    match error {
        RunRequestError::Unknown => {
            ApiError::not_found(text).hint("list the runs that can be requested with /api/v1/jobs")
        }
        RunRequestError::Full => {
            ApiError::unavailable("queue_full", text).hint("try again when some of them have ended")
        }
        RunRequestError::Stopping => {
            ApiError::unavailable("agent_away", text).hint("try again after its restart")
        }
    }
}

const DEFAULT_LIMIT: u32 = 100;
const MAX_LIMIT: u32 = 5000;

/// Runs, newest first.
#[utoipa::path(get, path = "/api/v1/runs", tag = "runs",
    params(
        ("from" = Option<String>, Query, description = "Sender; with `to`: only runs of the watch file for this pair", min_length = 1, max_length = 255),
        ("to" = Option<String>, Query, description = "Receiver; requires `from`", min_length = 1, max_length = 255),
        QueryRange,
        ("kind" = Option<ReportKind>, Query, description = "Only runs of this kind"),
        ("host" = Option<String>, Query, description = "Only runs whose client or server has this in its name, in any case", min_length = 1, max_length = 255),
        ("id" = Option<String>, Query, description = "Only runs whose id begins so", min_length = 1, max_length = 128),
        ("after" = Option<String>, Query, description = "Only runs that follow the run with this id in the list, for the next page", min_length = 1, max_length = 128),
        ("environment" = Option<String>, Query, description = "Besides the runs of the watch file: those in this network, `network` (the default), `loopback`, `lab`, `lab:NAME`, or `all`", min_length = 1, max_length = 255),
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
        host: params.name("host")?,
        id: params.id("id")?,
        after: params.id("after")?,
        environment: select_environment(params.name("environment")?),
        with_parts: true,
        limit: params.limit(DEFAULT_LIMIT, MAX_LIMIT)?,
    };
    params.reject_rest()?;
    let pair = filter.pair.clone();
    let entries = shared.archive.query(move |archive| archive.runs(&filter)).await?;
    let row = |entry| RunEntry { pair: pair.clone(), ..entry };
    Ok(Json(entries.into_iter().map(row).collect()))
}

/// Returns the environment to select in the archive; `None` for all.
fn select_environment(word: Option<String>) -> Option<String> {
    Some(word.unwrap_or_else(|| RunEnvironment::Network.to_string())).filter(|it| it != "all")
}

/// The report of a run, in the format of report v1 (docs/report-v1.md), or as people read it.
#[utoipa::path(get, path = "/api/v1/runs/{id}", tag = "runs",
    params(
        ("id" = String, Path, description = "Run id", min_length = 1, max_length = 128),
        ("format" = Option<String>, Query, description = "`json` (the default), `text` (as a terminal shows it) or `html` (a file to send)"),
    ),
    responses((status = 200, description = "The report", content(
        (StoredReport = "application/json"), (String = "text/plain"), (String = "text/html")))))]
pub async fn run(
    State(shared): State<Arc<ApiState>>,
    Path(id): Path<String>,
    mut params: QueryParams,
) -> Result<Response, ApiError> {
    let format = DocumentFormat::take(&mut params)?.unwrap_or(DocumentFormat::Json);
    params.reject_rest()?;
    let id = query_params::validate_id("run id", id)?;
    let text = shared
        .archive
        .query(move |archive| {
            let report = archive.report(&id)?;
            let text = report.map(|report| match format {
                DocumentFormat::Json => serde_json::to_string(&report),
                DocumentFormat::Text => Ok(build_document(&report).unstyled_text()),
                DocumentFormat::Html => Ok(build_document(&report).html()),
            });
            text.transpose().map_err(|source| StoreError::Report { id, source })
        })
        .await?;
    let text = text.ok_or_else(|| {
        ApiError::not_found("the archive has no run with this id").hint(
            "list the runs with /api/v1/runs; this one may have expired, or be of another agent",
        )
    })?;
    Ok(format.answer(text))
}
