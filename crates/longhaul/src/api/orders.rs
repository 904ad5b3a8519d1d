//! Handlers for requested runs: lists the available jobs, and requests a run.
//!
//! A requested run goes through the agent's only queue, with the same budgets and locks.

use super::Shared;
use super::asked::{self, Asked};
use super::fault::Fault;
use super::shape::run::{Job, RunOrder, RunTaken};
use crate::agent::desk::Order;
use crate::watch::file::WatchFile;
use crate::watch::jobs::{self, Key};
use crate::watch::schedule::{AskError, Asked as Answer};
use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::{HeaderMap, StatusCode};
use longhaul_store::watched::limits::NAME_BYTES_MAX;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// The timeout for the agent's answer.
const DEADLINE: Duration = Duration::from_secs(5);

/// Jobs that `POST /api/v1/runs` accepts.
#[utoipa::path(get, path = "/api/v1/jobs", tag = "runs",
    params(
        ("from" = Option<String>, Query, description = "Sender; with to: those of this pair alone", min_length = 1, max_length = 255),
        ("to" = Option<String>, Query, description = "Receiver; with from", min_length = 1, max_length = 255),
    ),
    responses((status = 200, description = "Runs that can be asked for", body = Vec<Job>)))]
pub async fn jobs(
    State(shared): State<Arc<Shared>>,
    mut asked: Asked,
) -> Result<Json<Vec<Job>>, Fault> {
    let pair = asked.pair()?;
    asked.done()?;
    let file = shared.desk.file();
    let known = tokio::task::spawn_blocking(move || known(&file))
        .await
        .map_err(|_| Fault::defect("listing the runs"))?;
    let of_pair = |job: &Job| {
        let pair = pair.as_ref();
        pair.is_none_or(|pair| pair.from == job.from && pair.to == job.to)
    };
    Ok(Json(known.into_iter().filter(of_pair).collect()))
}

fn known(file: &WatchFile) -> Vec<Job> {
    let job = |job: jobs::Job| Job {
        measure: job.key.measure.to_string(),
        from: job.key.from.to_string(),
        to: job.key.to.to_string(),
        kind: job.measure.work.word().to_owned(),
        heavy: job.heavy,
        lasts_us: job.lasts_us,
        bytes: job.bytes,
    };
    jobs::jobs(file, None, 0).into_iter().map(job).collect()
}

/// Requests a run now. It waits in the queue like any other run, until the resources it needs are
/// free and the daily budget allows it. `planned_id` appears among the planned runs until the run
/// is done or missed.
#[utoipa::path(post, path = "/api/v1/runs", tag = "runs",
    request_body = RunOrder,
    responses(
        (status = 202, description = "It is in the queue", body = RunTaken),
        (status = 409, description = "A run of this kind of this pair waits already", body = super::shape::ErrorBody),
    ))]
pub async fn order(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    asked: Asked,
    body: Result<Json<RunOrder>, JsonRejection>,
) -> Result<(StatusCode, Json<RunTaken>), Fault> {
    shared.gate.may_order(&headers)?;
    asked.done()?;
    let Json(order) = body.map_err(|rejection| unreadable(&rejection))?;
    let name = |what: &str, text| asked::word(what, text, NAME_BYTES_MAX);
    let key = Key {
        measure: name("measure", order.measure)?.into(),
        from: name("from", order.from)?.into(),
        to: name("to", order.to)?.into(),
    };
    let answer = tokio::time::timeout(DEADLINE, ask(&shared, key)).await;
    let busy = || {
        Fault::busy("agent_busy", "the agent did not take the order within 5 s")
            .hint("try again; the agent's log says what it does")
    };
    match answer.map_err(|_| busy())?? {
        Ok(Answer::Queued(id)) => {
            let planned_id = id.to_string();
            Ok((StatusCode::ACCEPTED, Json(RunTaken { planned_id })))
        }
        Ok(Answer::Waits(id)) => {
            let text = format!("one that was asked for waits already, as {id}");
            Err(Fault::new(StatusCode::CONFLICT, "waits_already", text)
                .hint("it starts as soon as what it needs is free"))
        }
        Err(error) => Err(refused(error)),
    }
}

async fn ask(shared: &Shared, key: Key) -> Result<Result<Answer, AskError>, Fault> {
    let gone = || {
        Fault::busy("agent_away", "the agent takes no orders: it is stopping")
            .hint("try again when it runs again")
    };
    let (answer, answered) = oneshot::channel();
    let orders = &shared.desk.orders;
    orders
        .send(Order { key, answer })
        .await
        .map_err(|_| gone())?;
    answered.await.map_err(|_| gone())
}

fn refused(error: AskError) -> Fault {
    let text = error.to_string();
    match error {
        AskError::Unknown => {
            Fault::nothing(text).hint("/api/v1/jobs lists the runs that can be asked for")
        }
        AskError::Full => {
            Fault::busy("queue_full", text).hint("try again when some of them are done")
        }
        AskError::Stopping => Fault::busy("agent_away", text).hint("try again when it runs again"),
    }
}

fn unreadable(rejection: &JsonRejection) -> Fault {
    let status = match rejection.status() {
        StatusCode::UNPROCESSABLE_ENTITY => StatusCode::BAD_REQUEST,
        other => other,
    };
    Fault::new(status, "bad_request", rejection.body_text()).hint(
        "send application/json: {\"measure\": \"…\", \"from\": \"…\", \"to\": \"…\"}; \
         /api/v1/jobs lists what is known",
    )
}
