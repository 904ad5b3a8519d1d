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
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use hyper::body::Frame;
use longhaul_store::RunEntry;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OwnedSemaphorePermit, broadcast, mpsc, watch};

/// The maximum number of listeners.
pub const MAX_LISTENERS: usize = 64;
/// The maximum number of updates that a listener may lag behind.
pub const MAX_LAG: usize = 256;
/// The maximum number of updates queued for one listener.
const MAX_QUEUED_TEXTS: usize = 16;
/// The interval of keep-alive comments, which detect a broken connection.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// The time after which a listener that stops reading is disconnected.
const LISTENER_TIMEOUT: Duration = Duration::from_secs(60);

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
    let (to, from) = mpsc::channel(MAX_QUEUED_TEXTS);
    tokio::spawn(send_updates(shared.update_texts.subscribe(), to, shared.stop.clone()));
    let body = EventStreamBody { from, _place: place };
    let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")];
    Ok((headers, Body::new(body)).into_response())
}

/// Sends updates to one listener until it disconnects or the agent stops.
async fn send_updates(
    mut texts: broadcast::Receiver<Bytes>,
    to: mpsc::Sender<Bytes>,
    mut stop: watch::Receiver<bool>,
) {
    let mut next = Bytes::from_static(HELLO.as_bytes());
    loop {
        let sent = tokio::time::timeout(LISTENER_TIMEOUT, to.send(next)).await;
        if !matches!(sent, Ok(Ok(()))) {
            return;
        }
        next = tokio::select! {
            text = texts.recv() => match text {
                Ok(text) => text,
                Err(RecvError::Lagged(_)) => Bytes::from_static(RESYNC.as_bytes()),
                Err(RecvError::Closed) => return,
            },
            () = tokio::time::sleep(KEEP_ALIVE_INTERVAL) => Bytes::from_static(KEEP_ALIVE_TEXT.as_bytes()),
            () = to.closed() => return,
            () = wait_for_stop(&mut stop) => return,
        };
    }
}

/// The response body of one listener. Dropping it frees the listener's slot.
struct EventStreamBody {
    from: mpsc::Receiver<Bytes>,
    _place: OwnedSemaphorePermit,
}

impl HttpBody for EventStreamBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = self.from.poll_recv(context);
        next.map(|text| text.map(|text| Ok(Frame::data(text))))
    }
}
