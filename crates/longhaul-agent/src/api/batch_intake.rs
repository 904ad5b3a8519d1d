//! Receives results of other agents: POST /api/v1/batches.
//!
//! Each agent has its own token in `[[api.agent]]` and may send results in which it is one end.
//! Every item is checked against the limits of the archive. Rejected items are listed with the
//! reason; all others are stored in one transaction, with those of batches that wait at the same
//! time, before the response is sent. A repeated batch is harmless. docs/collector.md describes the protocol.

/// The maximum announced size of the body on the wire.
const MAX_ANNOUNCED_BYTES: u64 = 32 << 20;
/// The maximum decompressed size: the largest report of the archive, with its quotes escaped.
const MAX_BODY_BYTES: usize = 80 << 20;
/// The timeout for the body, long enough for slow links.
const BODY_TIMEOUT: Duration = Duration::from_secs(150);

fn reject_too_large() -> ApiError {
    let text = format!("a batch may have at most {MAX_ANNOUNCED_BYTES} bytes");
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", text).hint("send fewer items at once")
}

/// Reads the decompressed body of a request.
async fn read_body(request: Request) -> Result<Vec<u8>, ApiError> {
    let announced = request
        .headers()
        .get(header::CONTENT_LENGTH)
        .and_then(|it| it.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|bytes| bytes > MAX_ANNOUNCED_BYTES) {
        return Err(reject_too_large());
    }
    let arriving = to_bytes(request.into_body(), MAX_BODY_BYTES);
    match tokio::time::timeout(BODY_TIMEOUT, arriving).await {
        Ok(Ok(bytes)) => Ok(bytes.into()),
        Ok(Err(error)) => {
            let why = format_error_chain(&error);
            if why.contains("length limit") {
                return Err(reject_too_large());
            }
            Err(ApiError::bad_request(format!("cannot decompress the batch: {why}")))
        }
        Err(_late) => Err(ApiError::unavailable("too_slow", "the batch took too long to arrive")),
    }
}

/// The tokens of one watch file.
#[derive(Debug, Default)]
struct AgentTokens {
    by_digest: HashMap<SecretDigest, SenderConfig>,
    /// Agents with an unreadable token file.
    unreadable: Vec<String>,
}

/// The agent that sent a batch.
#[derive(Debug, Clone)]
pub struct BatchOrigin {
    name: String,
    /// May also send results of which it is neither end.
    relay: bool,
}

struct SenderAuth {
    state: Arc<SharedState>,
    cache: Mutex<Option<(Arc<WatchFile>, Arc<AgentTokens>)>>,
}

impl SenderAuth {
    pub fn new(state: Arc<SharedState>) -> SenderAuth {
        SenderAuth { state, cache: Mutex::new(None) }
    }

    /// Returns the agent that sent these headers.
    pub fn authenticate(&self, headers: &HeaderMap) -> Result<BatchOrigin, ApiError> {
        let tokens = self.current_tokens();
        let token = headers
            .get(AUTHORIZATION)
            .and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "))
            .map(str::trim);
        let stored = token.map_or(Ok(None), |token| self.state.tokens.find(token.as_bytes()));
        let stored = stored.map_err(|error| access_control::reject_token_store(&error))?;
        if let Some(stored) = stored.filter(|it| it.right == TokenRight::Agent) {
            return Ok(BatchOrigin { name: stored.name, relay: false });
        }
        if tokens.by_digest.is_empty()
            && tokens.unreadable.is_empty()
            && !self.state.file().api.is_collector()
        {
            let text = "this agent is not a collector: it accepts no results of other agents";
            return Err(ApiError::new(StatusCode::FORBIDDEN, "no_collector", text).hint(
                "let agents enrol with enrol_token_file in [api], or list them in [[api.agent]]",
            ));
        }
        let known = token.and_then(|token| tokens.by_digest.get(&hash_secret(token.as_bytes())));
        match known {
            Some(known) => Ok(BatchOrigin { name: known.name.clone(), relay: known.relay }),
            None if tokens.unreadable.is_empty() => {
                let text = "the batch has no token, or an unknown one";
                Err(ApiError::new(StatusCode::UNAUTHORIZED, "no_token", text).hint(
                    "set it in [[api.agent]] of the collector and in [collector] of the agent, or \
                     let the agent enrol with enrol_token_file",
                ))
            }
            None => {
                let names = tokens.unreadable.join(", ");
                let text = format!("cannot read the token files of these agents: {names}");
                Err(ApiError::unavailable("token_unreadable", text)
                    .hint("correct the files that [[api.agent]] names, then reload the collector"))
            }
        }
    }

    /// Returns the tokens of the current watch file, and reads them again after a reload.
    fn current_tokens(&self) -> Arc<AgentTokens> {
        let file = self.state.file();
        let mut held = self.cache.lock();
        match held.as_ref() {
            Some((known, tokens)) if Arc::ptr_eq(known, &file) && tokens.unreadable.is_empty() => {
                Arc::clone(tokens)
            }
            _ => {
                let tokens = Arc::new(read_tokens(&file, &self.state.folder));
                *held = Some((file, Arc::clone(&tokens)));
                tokens
            }
        }
    }
}

fn read_tokens(file: &WatchFile, folder: &Path) -> AgentTokens {
    let mut tokens = AgentTokens::default();
    for sender in &file.api.senders {
        match secret_file::read_secret(&folder.join(&sender.token_file)) {
            Ok(token) => {
                tokens.by_digest.entry(hash_secret(token.as_bytes())).or_insert(sender.clone());
            }
            Err(_) => tokens.unreadable.push(sender.name.clone()),
        }
    }
    tokens
}

/// The maximum time in the future. Beyond it the sender's clock was wrong, and the value would stay
/// the newest one for a long time.
const MAX_FUTURE_US: i64 = 600_000_000;

impl CheckedBatch {
    /// Accepts or rejects an item. Returns an error only if the archive fails.
    pub fn check_item(
        &mut self,
        came: BatchItem,
        sender: &BatchOrigin,
        now_us: i64,
        archive: &Archive,
    ) -> Result<(), StoreError> {
        let place = came.place;
        let checked = match came.item {
            Ok(OutboxItem::Run(came)) => {
                check_run(came, sender, now_us).map(|run| self.add_run(place, run))
            }
            Ok(OutboxItem::Planned(row)) => {
                check_planned(&row, sender).map(|()| self.delivery.planned.push(row))
            }
            Ok(OutboxItem::Event(event)) => match check_event(&event, sender, now_us) {
                Ok(()) => self.add_event(*event, sender, archive, now_us - MAX_NOTIFY_AGE_US)?,
                Err(why) => Err(why),
            },
            Err(why) => Err(why),
        };
        if let Err(why) = checked {
            self.reject(place, &why);
        }
        Ok(())
    }

    /// Ignores an event whose stored state is more certain, because the batch came late. An event that
    /// is stored with another id, because the collector or the agent at the other end found it, keeps
    /// the stored one. A new one that its agent announced before `oldest_us` is no news.
    fn add_event(
        &mut self,
        mut event: ChangeEvent,
        sender: &BatchOrigin,
        archive: &Archive,
        oldest_us: i64,
    ) -> Result<Result<(), String>, StoreError> {
        if !sender.relay {
            // Only collectors find events of several paths.
            event.shared = None;
            event.part_of = None;
        }
        let same = |it: &ChangeEvent| it.pair == event.pair && it.quantity == event.quantity;
        let held = match archive.event(&event.id)? {
            Some(held) if !same(&held) => {
                return Ok(
                    Err("its id belongs to an event of another pair or quantity".to_owned()),
                );
            }
            Some(held) => Some(held),
            None => find_same_change(&event, archive)?,
        };
        if let Some(held) = &held {
            if rank_state(held.state) > rank_state(event.state) {
                return Ok(Ok(()));
            }
            event.id.clone_from(&held.id);
            event.part_of = event.part_of.or_else(|| held.part_of.clone());
            if event.causes.is_empty() {
                // The collector may have found some.
                event.causes.clone_from(&held.causes);
            }
        }
        let is_news = held.as_ref().map_or(event.announced_at_us >= oldest_us, |_| true);
        if held.is_none_or(|held| held.state != event.state) {
            self.changed_events.push(WaitingEvent { id: event.id.clone(), is_news });
        }
        self.delivery.events.push(event);
        Ok(Ok(()))
    }
}

/// The maximum number of stored events among which the same change is looked for.
const MAX_SAME_EVENTS: u32 = 50;

/// Returns a stored event of the same pair, quantity, direction and time. A change is located to a few
/// values, so its interval is widened by its length.
fn find_same_change(
    event: &ChangeEvent,
    archive: &Archive,
) -> Result<Option<ChangeEvent>, StoreError> {
    let [begin, end] = event.between_us;
    let length = end.saturating_sub(begin);
    let is_rise = |it: &ChangeEvent| it.after.median > it.before.median;
    let filter = EventFilter {
        range: TimeRange {
            begin_us: begin.saturating_sub(length),
            end_us: end.saturating_add(length),
        },
        pair: Some(event.pair.clone()),
        ..EventFilter::newest(MAX_SAME_EVENTS)
    };
    let stored = archive.events(&filter)?.into_iter().find(|it| {
        it.quantity == event.quantity
            && it.shared.is_none()
            && event.shared.is_none()
            && is_rise(it) == is_rise(event)
    });
    Ok(stored)
}

const fn rank_state(state: EventState) -> u8 {
    match state {
        EventState::Suspected => 0,
        EventState::Confirmed | EventState::Withdrawn => 1,
        EventState::Recovered => 2,
    }
}

fn check_run(came: OutgoingRun, sender: &BatchOrigin, now_us: i64) -> Result<IncomingRun, String> {
    let near = match &came.near {
        Some(near) if sender.relay => near.clone(),
        Some(near) if *near != sender.name => {
            return Err(format!(
                "the run was started by {:?}, whose results this agent may not send",
                sanitize_reason(near)
            ));
        }
        _ => sender.name.clone(),
    };
    let run = run_from_report::build_run(came, &near)?;
    check_not_future(run.at_us, now_us)?;
    Ok(run)
}

fn check_planned(row: &PlannedRun, sender: &BatchOrigin) -> Result<(), String> {
    history_store::check_planned(std::slice::from_ref(row))
        .map_err(|error| format_error_chain(&error))?;
    if sender.relay {
        return Ok(());
    }
    if !run_schedule::is_id_of_agent(&row.id, &sender.name) {
        return Err("its id does not belong to this agent".to_owned());
    }
    row.pair.as_ref().map_or(Ok(()), |pair| check_pair_end(pair, sender))
}

fn check_event(event: &ChangeEvent, sender: &BatchOrigin, now_us: i64) -> Result<(), String> {
    let text = serde_json::to_string(event).map_err(|error| error.to_string())?;
    history_store::check_event(event, &text).map_err(|error| format_error_chain(&error))?;
    for at_us in event.between_us.into_iter().chain([event.announced_at_us]) {
        if at_us < 0 {
            return Err("one of its times is before 1970".to_owned());
        }
        check_not_future(at_us, now_us)?;
    }
    if sender.relay {
        return Ok(());
    }
    check_pair_end(&event.pair, sender)
}

fn check_pair_end(pair: &HostPair, sender: &BatchOrigin) -> Result<(), String> {
    run_from_report::check_end(pair, &sender.name)
}

fn check_not_future(at_us: i64, now_us: i64) -> Result<(), String> {
    let ahead_us = at_us.saturating_sub(now_us);
    if ahead_us > MAX_FUTURE_US {
        let seconds = ahead_us / 1_000_000;
        return Err(format!("its time is {seconds} s in the future: the sender's clock was wrong"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;

use super::access_control;
use super::api_error::ApiError;
use super::archive_pool::ArchivePool;
use crate::agent::MAX_NOTIFY_AGE_US;
use crate::agent::export::batch_wire::{
    self, BatchItem, BatchResponse, CheckedBatch, ResultBatch, sanitize_reason,
};
use crate::agent::export::{format_error_chain, read_wall_us, run_from_report};
use crate::agent::received_results::WaitingEvent;
use crate::agent::shared_state::{LiveUpdate, SharedState};
use crate::secret_file::{self, SecretDigest, hash_secret};
use crate::token_store::{TokenRight, TokenStoreError};
use crate::watch::run_schedule;
use crate::watch::watch_file::{SenderConfig, WatchFile};
use axum::body::to_bytes;
use axum::extract::rejection::JsonRejection;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::header::{self, AUTHORIZATION};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use longhaul_model::report::v1::{ChangeEvent, EventState, HostPair};
use longhaul_store::history_store::{
    self, AgentDelivery, EventFilter, IncomingRun, IngestResult, PlannedRun, TimeRange,
};
use longhaul_store::sqlite::outbox::{OutboxItem, OutgoingRun};
use longhaul_store::{Archive, RunEntry, StoreError};
use parking_lot::Mutex;
use serde::Deserialize;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit, mpsc, oneshot};
use tower_http::decompression::RequestDecompressionLayer;

/// The maximum size of a request to enrol.
const MAX_ENROL_BYTES: usize = 4 << 10;
/// The maximum number of batches that are read at once.
const MAX_CONCURRENT_READS: usize = 3;
/// The maximum size of all batches that wait to be stored, in KiB.
const MAX_WAITING_KIB: usize = 256 << 10;
/// The maximum number of batches in one transaction.
const MAX_GROUPED_BATCHES: usize = 64;
/// The maximum time that a batch waits for the ones before it. Its body is not read meanwhile.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(30);
/// The timeout of parsing a batch.
const PARSE_TIMEOUT: Duration = Duration::from_secs(60);
/// The maximum offset of the sender's clock.
const MAX_CLOCK_OFFSET_US: i64 = 600_000_000;

/// The receiver of batches.
struct BatchIntake {
    state: Arc<SharedState>,
    senders: SenderAuth,
    reads: Semaphore,
    waiting_kib: Semaphore,
    archive: ArchivePool,
    writer: mpsc::Sender<WaitingBatch>,
}

/// Returns the route of batches, which has its own limits, timeout and tokens.
pub fn build_batch_router(state: Arc<SharedState>) -> Router {
    let (writer, waiting) = mpsc::channel(MAX_GROUPED_BATCHES);
    let written = Arc::clone(&state);
    // It ends with the router.
    std::thread::spawn(move || run_batch_writer(&written, waiting));
    let open = Arc::clone(&state.open_archive);
    let intake = BatchIntake {
        senders: SenderAuth::new(Arc::clone(&state)),
        reads: Semaphore::new(MAX_CONCURRENT_READS),
        waiting_kib: Semaphore::new(MAX_WAITING_KIB),
        archive: ArchivePool::with_limits(open, MAX_CONCURRENT_READS, PARSE_TIMEOUT),
        writer,
        state,
    };
    // A body in another encoding is passed on, and is no batch.
    let decompression = RequestDecompressionLayer::new().pass_through_unaccepted(true);
    Router::new()
        .route("/api/v1/batches", post(receive_batch).layer(decompression))
        .route("/api/v1/enrol", post(enrol_agent).layer(DefaultBodyLimit::max(MAX_ENROL_BYTES)))
        .with_state(Arc::new(intake))
}

/// The request of an agent that enrols. It made its token itself.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EnrolRequest {
    agent: String,
    /// The SHA-256 of its token, hexadecimal.
    token_sha256: String,
}

/// Stores the token of an agent that has the enrolment token.
async fn enrol_agent(
    State(intake): State<Arc<BatchIntake>>,
    headers: HeaderMap,
    body: Result<Json<EnrolRequest>, JsonRejection>,
) -> Result<Json<serde_json::Value>, ApiError> {
    let state = &intake.state;
    let file = state.file();
    let Some(path) = &file.api.enrol_token_file else {
        let text = "this agent does not let agents enrol";
        return Err(ApiError::new(StatusCode::FORBIDDEN, "no_enrolment", text)
            .hint("set enrol_token_file in [api] of the collector"));
    };
    let secret = access_control::read_token_file(&state.folder, path, "enrol_token_file")?;
    access_control::check_bearer_token(&headers, &secret).map_err(|error| {
        error.hint("the enrolment token is in the file enrol_token_file of both watch files")
    })?;
    let Json(request) = body.map_err(|rejection| ApiError::bad_request(rejection.body_text()))?;
    let EnrolRequest { agent, token_sha256 } = request;
    if token_sha256.len() != 64 || !token_sha256.bytes().all(|it| it.is_ascii_hexdigit()) {
        return Err(ApiError::bad_request("token_sha256 is not a SHA-256 in hexadecimal"));
    }
    let taken = file.agent.name == agent || file.api.senders.iter().any(|it| it.name == agent);
    let stored = if taken {
        Err(TokenStoreError::NameTaken(agent))
    } else {
        state.tokens.enrol(&agent, &token_sha256)
    };
    stored.map_err(|error| match &error {
        TokenStoreError::NameTaken(_) => {
            ApiError::new(StatusCode::CONFLICT, "name_taken", error.to_string()).hint(
                "if the host was installed anew, run `longhaul watch token revoke NAME --forget` \
                 at the collector",
            )
        }
        TokenStoreError::Revoked(_) => {
            ApiError::new(StatusCode::FORBIDDEN, "revoked", error.to_string()).hint(
                "`longhaul watch token revoke NAME --forget` at the collector lets it enrol again",
            )
        }
        TokenStoreError::InvalidName(_) => ApiError::bad_request(error.to_string()),
        _ => access_control::reject_token_store(&error),
    })?;
    Ok(Json(serde_json::json!({ "enrolled": true })))
}

async fn receive_batch(
    State(intake): State<Arc<BatchIntake>>,
    request: Request,
) -> Result<Response, ApiError> {
    let sender = intake.senders.authenticate(request.headers())?;
    let reading = wait_for_permits(&intake.reads, 1).await?;
    let bytes = read_body(request).await?;
    let _waiting = wait_for_permits(&intake.waiting_kib, bytes.len() / 1024 + 1).await?;
    drop(reading);
    let now_us = read_wall_us();
    let checked =
        intake.archive.query(move |archive| match parse_acceptable(&bytes, &sender, now_us) {
            Ok(batch) => check_items(batch, &sender, now_us, archive).map(Ok),
            Err(rejection) => Ok(Err(rejection)),
        });
    let checked = checked.await??;
    let (answer, stored) = oneshot::channel();
    let defect = || ApiError::internal("storing the batch");
    intake.writer.send(WaitingBatch { checked, answer }).await.map_err(|_| defect())?;
    let answer = stored.await.map_err(|_| defect())??;
    let json = [(header::CONTENT_TYPE, "application/json")];
    Ok((StatusCode::OK, json, answer.to_json()).into_response())
}

/// Waits until the batches before leave room for this one.
async fn wait_for_permits(room: &Semaphore, count: usize) -> Result<SemaphorePermit<'_>, ApiError> {
    let permits = tokio::time::timeout(QUEUE_TIMEOUT, room.acquire_many(count as u32)).await;
    permits
        .ok()
        .and_then(Result::ok)
        .ok_or_else(|| ApiError::unavailable("busy", "other agents are sending; try again soon"))
}

/// Parses a batch, and checks its sender and its clock.
fn parse_acceptable(
    bytes: &[u8],
    sender: &BatchOrigin,
    now_us: i64,
) -> Result<ResultBatch, ApiError> {
    let batch = batch_wire::parse_batch(bytes)
        .map_err(|why| ApiError::bad_request(format!("cannot read the batch: {why}")))?;
    check_sender(&batch, sender)?;
    check_clocks(&batch, now_us)?;
    Ok(batch)
}

fn check_items(
    batch: ResultBatch,
    sender: &BatchOrigin,
    now_us: i64,
    archive: &Archive,
) -> Result<CheckedBatch, StoreError> {
    let mut checked = CheckedBatch::default();
    for came in batch.items {
        checked.check_item(came, sender, now_us, archive)?;
    }
    Ok(checked)
}

/// A batch that waits to be stored.
struct WaitingBatch {
    checked: CheckedBatch,
    answer: oneshot::Sender<Result<BatchResponse, ApiError>>,
}

/// Stores batches until there are no senders. Those that wait at the same time share a transaction,
/// because every transaction waits for the disk.
fn run_batch_writer(state: &SharedState, mut waiting: mpsc::Receiver<WaitingBatch>) {
    let mut archive = None;
    let mut group = Vec::new();
    while waiting.blocking_recv_many(&mut group, MAX_GROUPED_BATCHES) > 0 {
        let deliveries: Vec<&AgentDelivery> =
            group.iter().map(|it: &WaitingBatch| &it.checked.delivery).collect();
        let mut landed = receive_deliveries(state, &mut archive, &deliveries).map_or_else(
            |error| vec![Err(error)],
            |landed| landed.into_iter().map(Ok).collect::<Vec<_>>(),
        );
        if landed.len() < group.len() {
            // One of them may be the reason of the error.
            landed = deliveries
                .iter()
                .map(|alone| receive_deliveries(state, &mut archive, &[alone]))
                .map(|landed| landed.map(|mut it| it.pop().unwrap_or_default()))
                .collect();
        }
        for (batch, landed) in group.drain(..).zip(landed) {
            finish_batch(state, batch, landed);
        }
    }
}

/// Stores deliveries in one transaction. After an error the archive is opened again.
fn receive_deliveries(
    state: &SharedState,
    archive: &mut Option<Archive>,
    deliveries: &[&AgentDelivery],
) -> Result<Vec<IngestResult>, StoreError> {
    let mut open = archive.take().map_or_else(|| (state.open_archive)(), Ok)?;
    let landed = open.receive_all(deliveries)?;
    *archive = Some(open);
    Ok(landed)
}

/// Answers a batch. The sender may be gone.
fn finish_batch(
    state: &SharedState,
    batch: WaitingBatch,
    landed: Result<IngestResult, StoreError>,
) {
    let WaitingBatch { mut checked, answer } = batch;
    let response = landed.map_err(ApiError::from).map(|landed| {
        let is_new = landed.new + landed.newly_watched > 0;
        let is_news = is_new || !checked.delivery.events.is_empty();
        if is_news && state.updates.receiver_count() > 0 {
            publish_updates(state, &checked.delivery);
        }
        if is_new {
            let readings = checked.delivery.runs.iter().flat_map(|run| &run.readings);
            state.received.add_series(readings);
        }
        state.received.add_events(std::mem::take(&mut checked.changed_events));
        let runs = std::mem::take(&mut checked.delivery.runs);
        if state.file().database.is_some() && landed.new == runs.len() as u64 {
            state.stored_runs.add(runs);
        }
        checked.into_response(&landed)
    });
    let _ = answer.send(response);
}

/// Publishes the new items to the page.
fn publish_updates(state: &SharedState, delivery: &AgentDelivery) {
    for run in &delivery.runs {
        let _ = state.updates.send(LiveUpdate::Run(Arc::new(RunEntry::from_run(run))));
    }
    for row in &delivery.planned {
        let _ = state.updates.send(LiveUpdate::Planned(Arc::new(row.clone())));
    }
    for event in &delivery.events {
        let _ = state.updates.send(LiveUpdate::Event(Arc::new(event.clone())));
    }
}

fn check_sender(batch: &ResultBatch, sender: &BatchOrigin) -> Result<(), ApiError> {
    if batch.agent == sender.name {
        return Ok(());
    }
    let text = format!(
        "the token belongs to {:?}, but the batch to {:?}",
        sender.name,
        batch_wire::sanitize_reason(&batch.agent)
    );
    Err(ApiError::new(StatusCode::FORBIDDEN, "other_agent", text)
        .hint("give each agent its own name and token in [[api.agent]] of the collector"))
}

/// Clock errors do not reject the batch for good: it is accepted once the clock is right.
fn check_clocks(batch: &ResultBatch, now_us: i64) -> Result<(), ApiError> {
    let ahead_us = batch.sent_us.saturating_sub(now_us);
    if ahead_us.saturating_abs() <= MAX_CLOCK_OFFSET_US {
        return Ok(());
    }
    let seconds = ahead_us / 1_000_000;
    let text = format!("the clocks of agent and collector differ by {seconds} s");
    Err(ApiError::new(StatusCode::CONFLICT, "clock", text)
        .hint("synchronise both with NTP; the agent keeps its results until then"))
}
