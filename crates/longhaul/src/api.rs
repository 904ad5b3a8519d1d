//! The page of the agent and the API behind it: what `longhaul watch` shows and is asked.
//!
//! Reads the archive by connections of its own and the agent's figures from its desk; writes
//! nothing, except orders for runs into the agent's queue, and what other agents send into the
//! archive. Documented in docs/api.md and docs/collector.md.
//!
//! - [`router`]: which address is answered by what, and what holds for all of them
//! - [`listen`]: connections and their times; [`tls`]: over TLS; [`gate`]: who may ask
//! - [`batches`]: what other agents send
//! - [`readers`]: connections to the archive; [`asked`]: parameters; [`fault`]: refusals
//! - [`about`], [`mesh`], [`routes`], [`events`], [`runs`], [`planned`], [`hosts`], [`orders`]:
//!   one file for each subject
//! - [`live`]: news as they come; [`metrics`]: for Prometheus; [`page`]: the page itself
//! - [`shape`], [`openapi`]: what goes out and comes in, and its description

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

/// What every request may need.
struct Shared {
    desk: Arc<Desk>,
    readers: readers::Readers,
    gate: gate::Gate,
    traces: routes::Memory,
    /// News as text, for all listeners.
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

/// Answers on `listener` until `stop` says true; what is being answered then has 5 s.
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
