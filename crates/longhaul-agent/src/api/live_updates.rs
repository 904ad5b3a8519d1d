//! Live updates as server-sent events
//! (<https://html.spec.whatwg.org/multipage/server-sent-events.html>).
//!
//! One task formats each update for all listeners. A listener that lags behind gets a `resync`
//! event; one that stops reading is disconnected. The number of listeners is limited.

use super::ApiState;
use super::api_error::ApiError;
use super::http_server::wait_for_stop;
use super::shape::run_rows::PlannedRow;
use crate::agent::shared_state::LiveUpdate;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use longhaul_store::RunEntry;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OwnedSemaphorePermit, broadcast, watch};

/// The maximum number of listeners.
pub const MAX_LISTENERS: usize = 64;
/// The maximum number of updates that a listener may lag behind.
pub const MAX_LAG: usize = 256;
/// The interval of keep-alive comments, which detect a broken connection.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

const HELLO: &str = "retry: 2000\n: hello\n\n";
const KEEP_ALIVE_TEXT: &str = ": still here\n\n";
const RESYNC: &str = "event: resync\ndata: {}\n\n";

/// Formats the agent's updates until `stop` is true.
pub async fn broadcast_updates(shared: Arc<ApiState>, mut stop: watch::Receiver<bool>) {
    let mut news = shared.state.updates.subscribe();
    loop {
        let next = tokio::select! {
            next = news.recv() => next,
            () = wait_for_stop(&mut stop) => return,
        };
        let text = match next {
            Err(RecvError::Closed) => return,
            Err(RecvError::Lagged(_)) => Some(Bytes::from_static(RESYNC.as_bytes())),
            // Without listeners nothing needs to be read.
            Ok(_) if shared.update_texts.receiver_count() == 0 => None,
            Ok(news) => format_update(&shared, news).await,
        };
        if let Some(text) = text {
            // Sending fails if there is no listener.
            let _ = shared.update_texts.send(text);
        }
    }
}

/// Formats an update, or returns `None` if its report is unreadable; the page polls as well.
async fn format_update(shared: &ApiState, news: LiveUpdate) -> Option<Bytes> {
    let (kind, row) = match news {
        LiveUpdate::Run { id, pairs } => {
            let read = shared.archive.query(move |archive| archive.report(&id)).await;
            let report = read.ok().flatten()?;
            let pair = pairs.into_iter().next();
            ("run", serde_json::to_string(&RunEntry::from_report(&report, pair)))
        }
        LiveUpdate::Event(event) => ("event", serde_json::to_string(&*event)),
        LiveUpdate::Planned(row) => {
            let row = PlannedRow::from(row.as_ref().clone());
            ("planned", serde_json::to_string(&row))
        }
    };
    // serde_json escapes line breaks, so the data is one line.
    Some(Bytes::from(format!("event: {kind}\ndata: {}\n\n", row.ok()?)))
}

/// Live updates: `run` (a `RunRow`), `event` (an `Event`), `planned` (a `PlannedRow`), each as
/// JSON. `resync`: updates were lost, read everything again. Sends a comment every 15 s.
#[utoipa::path(get, path = "/api/v1/live", tag = "news",
    responses((status = 200, description = "Server-sent events, until either end closes", content_type = "text/event-stream", body = String)))]
pub async fn live(State(shared): State<Arc<ApiState>>) -> Result<Response, ApiError> {
    let place = Arc::clone(&shared.listeners).try_acquire_owned();
    let place = place.map_err(|_| {
        ApiError::unavailable(
            "too_many_listeners",
            format!("{MAX_LISTENERS} clients are listening already"),
        )
        .hint("close unused pages")
    })?;
    let listener = UpdateListener {
        texts: shared.update_texts.subscribe(),
        stop: shared.stop.clone(),
        is_greeted: false,
        _place: place,
    };
    let body = Body::from_stream(stream::unfold(listener, UpdateListener::next_text));
    let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")];
    Ok((headers, body).into_response())
}

/// A client that listens. Dropping it frees the listener's slot; a client that stops reading is
/// dropped with its connection.
struct UpdateListener {
    texts: broadcast::Receiver<Bytes>,
    stop: watch::Receiver<bool>,
    is_greeted: bool,
    _place: OwnedSemaphorePermit,
}

impl UpdateListener {
    /// Returns the next text, or `None` if the agent stops.
    async fn next_text(mut self) -> Option<(Result<Bytes, Infallible>, UpdateListener)> {
        let text = if self.is_greeted {
            tokio::select! {
                text = self.texts.recv() => match text {
                    Ok(text) => text,
                    Err(RecvError::Lagged(_)) => Bytes::from_static(RESYNC.as_bytes()),
                    Err(RecvError::Closed) => return None,
                },
                () = tokio::time::sleep(KEEP_ALIVE_INTERVAL) => Bytes::from_static(KEEP_ALIVE_TEXT.as_bytes()),
                () = wait_for_stop(&mut self.stop) => return None,
            }
        } else {
            self.is_greeted = true;
            Bytes::from_static(HELLO.as_bytes())
        };
        Some((Ok(text), self))
    }
}
