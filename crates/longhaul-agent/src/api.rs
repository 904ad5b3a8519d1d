//! The web page of `longhaul watch` and its HTTP API.
//!
//! Reads the archive through its own connections and the agent's counters through its desk. Writes
//! only requested runs, into the agent's queue, and batches of other agents, into the archive.
//! Documented in docs/api.md and docs/collector.md.
//!
//! - [`api_router`]: routes and common limits
//! - [`http_server`]: connections and timeouts; [`connection_table`]: shares of sources; [`api_tls`]: TLS; [`access_control`]: access control
//! - [`batch_intake`]: results of other agents
//! - [`archive_pool`]: archive connections; [`query_params`]: query parameters; [`api_error`]: errors
//! - [`about`], [`series_handlers`], [`route_handlers`], [`event_handlers`],
//!   [`planned_run_handlers`], [`host_handlers`], [`run_handlers`]: handlers by subject
//! - [`live_updates`]: server-sent events; [`metrics`]: Prometheus metrics; [`embedded_page`]: the page
//! - [`shape`], [`openapi`]: JSON types and their OpenAPI description

mod about;
mod access_control;
mod api_error;
mod api_router;
pub mod api_tls;
mod archive_pool;
mod batch_intake;
mod connection_table;
mod document_format;
mod embedded_page;
mod event_handlers;
mod host_handlers;
mod http_server;
mod live_updates;
mod metrics;
mod openapi;
mod planned_run_handlers;
mod query_params;
mod route_handlers;
mod run_handlers;
mod series_handlers;
mod shape;
#[cfg(test)]
mod tests;

use crate::agent::shared_state::SharedState;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// State shared by all handlers.
struct ApiState {
    state: Arc<SharedState>,
    archive: archive_pool::ArchivePool,
    own_address: SocketAddr,
    listeners: Arc<connection_table::ConnectionTable>,
    stop: watch::Receiver<bool>,
}

/// Serves `listener` until `stop` is true; requests in progress then have 5 s to finish.
pub async fn serve_api(
    state: Arc<SharedState>,
    listener: TcpListener,
    stop: watch::Receiver<bool>,
) -> io::Result<()> {
    let tls_config = api_tls::TlsAcceptorCache::new(Arc::clone(&state))?;
    let shared = Arc::new(ApiState {
        archive: archive_pool::ArchivePool::new(Arc::clone(&state.open_archive)),
        own_address: listener.local_addr()?,
        listeners: Arc::default(),
        stop: stop.clone(),
        state,
    });
    // It ends with the page.
    tokio::spawn(metrics::otlp_export::export_metrics(Arc::clone(&shared)));
    http_server::serve_connections(listener, tls_config, api_router::build_router(shared), stop)
        .await
}
