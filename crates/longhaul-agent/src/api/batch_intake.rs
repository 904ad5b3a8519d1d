//! Receives results of other agents: POST /api/v1/batches.
//!
//! Each agent has its own token in `[[api.agent]]` and may send results in which it is one end.
//! Every item is checked against the limits of the archive. Rejected items are listed with the
//! reason; all others are stored in one transaction before the response is sent. A repeated batch
//! is harmless. docs/collector.md describes the protocol.
//!
//! - [`sender_auth`]: authentication; [`batch_body`]: reading the body; [`batch_checks`]: checking the items

mod batch_body;
mod batch_checks;
mod sender_auth;
#[cfg(test)]
mod tests;

use super::api_error::ApiError;
use crate::agent::export::batch_wire::{self, BatchResponse, CheckedBatch, ResultBatch};
use crate::agent::export::read_wall_us;
use crate::agent::shared_state::{LiveUpdate, SharedState};
use crate::watch::watch_file::SenderConfig;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use longhaul_store::history_store::AgentDelivery;
use longhaul_store::{Archive, RunEntry, StoreError};
use sender_auth::SenderAuth;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tower_http::decompression::RequestDecompressionLayer;

/// The maximum number of batches in memory.
const MAX_CONCURRENT_BATCHES: usize = 3;
/// The maximum offset of the sender's clock.
const MAX_CLOCK_OFFSET_US: i64 = 600_000_000;

/// The receiver of batches.
struct BatchIntake {
    state: Arc<SharedState>,
    senders: SenderAuth,
    permits: Arc<Semaphore>,
}

/// Returns the route of batches, which has its own limits, timeout and tokens.
pub fn build_batch_router(state: Arc<SharedState>) -> Router {
    let intake = BatchIntake {
        senders: SenderAuth::new(Arc::clone(&state)),
        permits: Arc::new(Semaphore::new(MAX_CONCURRENT_BATCHES)),
        state,
    };
    // A body in another encoding is passed on, and is no batch.
    let decompression = RequestDecompressionLayer::new().pass_through_unaccepted(true);
    Router::new()
        .route("/api/v1/batches", post(receive_batch).layer(decompression))
        .with_state(Arc::new(intake))
}

async fn receive_batch(
    State(intake): State<Arc<BatchIntake>>,
    request: Request,
) -> Result<Response, ApiError> {
    let sender = intake.senders.authenticate(request.headers())?;
    let place = Arc::clone(&intake.permits)
        .try_acquire_owned()
        .map_err(|_| ApiError::unavailable("busy", "other agents are sending; try again soon"))?;
    let bytes = batch_body::read_body(request).await?;
    let stored = tokio::task::spawn_blocking(move || {
        let answer = intake.accept(&sender, &bytes);
        drop(place);
        answer
    });
    let answer = stored.await.map_err(|_| ApiError::internal("storing the batch"))??;
    let json = [(header::CONTENT_TYPE, "application/json")];
    Ok((StatusCode::OK, json, answer.to_json()).into_response())
}

impl BatchIntake {
    fn accept(&self, sender: &SenderConfig, bytes: &[u8]) -> Result<BatchResponse, ApiError> {
        let batch = batch_wire::parse_batch(bytes)
            .map_err(|why| ApiError::bad_request(format!("cannot read the batch: {why}")))?;
        let now_us = read_wall_us();
        check_sender(&batch, sender)?;
        check_clocks(&batch, now_us)?;
        let stored = (self.state.open_archive)()
            .and_then(|mut archive| self.store(&mut archive, sender, batch, now_us));
        stored.map_err(convert_store_error)
    }

    fn store(
        &self,
        archive: &mut Archive,
        sender: &SenderConfig,
        batch: ResultBatch,
        now_us: i64,
    ) -> Result<BatchResponse, StoreError> {
        let mut taken = CheckedBatch::default();
        for came in batch.items {
            taken.check_item(came, sender, now_us, archive)?;
        }
        let landed = archive.receive(&taken.delivery)?;
        if landed.new + landed.newly_watched > 0 || !taken.delivery.events.is_empty() {
            self.publish_updates(&taken.delivery);
        }
        Ok(taken.into_response(&landed))
    }

    /// Publishes the new items to the page; sending fails if there is no subscriber.
    fn publish_updates(&self, delivery: &AgentDelivery) {
        for run in &delivery.runs {
            let _ = self.state.updates.send(LiveUpdate::Run(Arc::new(RunEntry::from_run(run))));
        }
        for row in &delivery.planned {
            let _ = self.state.updates.send(LiveUpdate::Planned(Arc::new(row.clone())));
        }
        for event in &delivery.events {
            let _ = self.state.updates.send(LiveUpdate::Event(Arc::new(event.clone())));
        }
    }
}

fn check_sender(batch: &ResultBatch, sender: &SenderConfig) -> Result<(), ApiError> {
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

fn convert_store_error(error: StoreError) -> ApiError {
    let full = matches!(error, StoreError::Full { .. });
    let fault = ApiError::from(error);
    if full {
        return ApiError { status: StatusCode::INSUFFICIENT_STORAGE, code: "disk_full", ..fault };
    }
    fault
}
