//! Live updates as server-sent events
//! (<https://html.spec.whatwg.org/multipage/server-sent-events.html>).
//!
//! A listener that lags behind gets a `resync` event; one that stops reading is disconnected. The
//! number of listeners is limited and shared by source.

use super::ApiState;
use super::access_control::PeerAddress;
use super::api_error::ApiError;
use super::connection_table::OpenConnection;
use super::http_server::wait_for_stop;
use crate::agent::shared_state::LiveUpdate;
use axum::Extension;
use axum::extract::State;
use axum::response::IntoResponse;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::{StreamExt, stream};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};

/// The maximum number of listeners.
pub const MAX_LISTENERS: usize = 64;
/// The interval of keep-alive comments, which detect a broken connection.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// The time after which a page connects again.
const RECONNECT_DELAY: Duration = Duration::from_secs(2);

/// Live updates: `run` (a `RunRow`), `event` (an `Event`), `planned` (a `PlannedRow`), each as
/// JSON. `resync`: updates were lost, read everything again. Sends a comment every 15 s.
#[utoipa::path(get, path = "/api/v1/live", tag = "news",
    responses((status = 200, description = "Server-sent events, until either end closes", content_type = "text/event-stream", body = String)))]
pub async fn live(
    State(shared): State<Arc<ApiState>>,
    Extension(PeerAddress(peer)): Extension<PeerAddress>,
) -> Result<impl IntoResponse, ApiError> {
    let place = shared.listeners.add_within_share(peer.ip(), MAX_LISTENERS);
    let place = place.ok_or_else(|| {
        ApiError::unavailable(
            "too_many_listeners",
            format!("{MAX_LISTENERS} clients are listening already"),
        )
        .hint("close unused pages")
    })?;
    let listener = UpdateListener {
        updates: shared.state.updates.subscribe(),
        stop: shared.stop.clone(),
        place,
    };
    let hello = Event::default().retry(RECONNECT_DELAY).comment("hello");
    let events = stream::iter([Ok(hello)]).chain(stream::unfold(listener, async |mut it| {
        let event = it.next_event().await?;
        Some((event, it))
    }));
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE_INTERVAL)))
}

/// A client that listens. Dropping it frees the listener's slot; a client that stops reading is
/// dropped with its connection.
struct UpdateListener {
    updates: broadcast::Receiver<LiveUpdate>,
    stop: watch::Receiver<bool>,
    place: Arc<OpenConnection>,
}

impl UpdateListener {
    /// Returns the next update, or `None` if the agent stops.
    async fn next_event(&mut self) -> Option<Result<Event, axum::Error>> {
        let update = tokio::select! {
            update = self.updates.recv() => update,
            () = wait_for_stop(&mut self.stop) => return None,
            // Another source needs the place.
            () = self.place.closer.notified() => return None,
        };
        Some(match update {
            Ok(LiveUpdate::Run(row)) => Event::default().event("run").json_data(&*row),
            Ok(LiveUpdate::Event(event)) => Event::default().event("event").json_data(&*event),
            Ok(LiveUpdate::Planned(row)) => Event::default().event("planned").json_data(&*row),
            Err(RecvError::Lagged(_)) => Ok(Event::default().event("resync").data("{}")),
            Err(RecvError::Closed) => return None,
        })
    }
}
