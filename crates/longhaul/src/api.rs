//! The web page of `longhaul watch` and its HTTP API.
//!
//! Reads the archive through its own connections and the agent's counters through its desk. Writes
//! only requested runs, into the agent's queue, and batches of other agents, into the archive.
//! Documented in docs/api.md and docs/collector.md.
//!
//! - [`router`]: routes and common limits
//! - [`listen`]: connections and timeouts; [`tls`]: TLS; [`gate`]: access control
//! - [`batches`]: results of other agents
//! - [`readers`]: archive connections; [`asked`]: query parameters; [`fault`]: errors
//! - [`about`], [`mesh`], [`routes`], [`events`], [`runs`], [`planned`], [`hosts`], [`orders`]:
//!   handlers by subject
//! - [`live`]: server-sent events; [`metrics`]: Prometheus metrics; [`page`]: the page
//! - [`shape`], [`openapi`]: JSON types and their OpenAPI description

mod about;
mod asked;
mod batches;
mod events;
mod fault;
mod gate;
mod hosts;
mod listen;
mod live;
mod mesh;
mod metrics;
mod openapi;
mod orders;
mod page;
mod planned;
mod readers;
mod router;
mod routes;
mod runs;
mod shape;
#[cfg(test)]
mod tests;
pub mod tls;

use crate::agent::desk::Desk;
use crate::agent::fleet;
use axum::body::Bytes;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, broadcast, watch};

/// State shared by all handlers.
struct Shared {
    desk: Arc<Desk>,
    readers: readers::Readers,
    gate: gate::Gate,
    traces: routes::Memory,
    /// Updates as text, for all listeners.
    texts: broadcast::Sender<Bytes>,
    listeners: Arc<Semaphore>,
    stop: watch::Receiver<bool>,
}

impl Shared {
    fn new(desk: Arc<Desk>, own: SocketAddr, stop: watch::Receiver<bool>) -> Arc<Shared> {
        Arc::new(Shared {
            readers: readers::Readers::new(fleet::reader(&desk)),
            gate: gate::Gate::new(Arc::clone(&desk), own),
            traces: routes::Memory::default(),
            texts: broadcast::Sender::new(live::TEXTS),
            listeners: Arc::new(Semaphore::new(live::LISTENERS)),
            stop,
            desk,
        })
    }
}

/// Serves `listener` until `stop` is true; requests in progress then have 5 s to finish.
pub async fn serve(
    desk: Arc<Desk>,
    listener: TcpListener,
    stop: watch::Receiver<bool>,
) -> io::Result<()> {
    let greeting = tls::Greeting::new(Arc::clone(&desk))?;
    let shared = Shared::new(desk, listener.local_addr()?, stop.clone());
    let herald = tokio::spawn(live::herald(Arc::clone(&shared), stop.clone()));
    let ended = listen::serve((listener, greeting), router::router(shared), stop).await;
    herald.abort();
    ended
}
