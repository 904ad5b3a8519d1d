//! The HTTP server: limits connections and their times.
//!
//! Clients that send headers too slowly, or stop reading, are disconnected. Beyond the limit of
//! connections, one of the source that has most gives way ([`super::connection_table`]).

use super::access_control::PeerAddress;
use super::api_tls::{self, TlsAcceptorCache};
use super::connection_table::{ConnectionTable, OpenConnection};
use axum::Router;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use longhaul_probe::supervise;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

/// The maximum number of connections.
const MAX_CONNECTIONS: usize = 256;
/// The timeout for the headers of a request, and for the next request on an open connection.
const HEADER_TIMEOUT: Duration = Duration::from_secs(15);
/// The maximum time until the client accepts further bytes.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum size of the headers of a request.
const MAX_HEADER_BYTES: usize = 32 << 10;
/// The time for requests in progress at shutdown.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);
/// The interval at which open connections are counted at shutdown.
const SHUTDOWN_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The delay after a failed accept, for example without a free file descriptor.
const ACCEPT_RETRY: Duration = Duration::from_millis(200);

/// Serves connections until `stop` is true or dropped, and then finishes requests in progress.
pub async fn serve_connections(
    listener: TcpListener,
    tls_config: TlsAcceptorCache,
    router: Router,
    mut stop: watch::Receiver<bool>,
) -> io::Result<()> {
    let table = Arc::new(ConnectionTable::default());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = wait_for_stop(&mut stop) => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                // Without the option, a client that reads nothing keeps its place for longer.
                let _ = supervise::set_dead_peer_timeout(&stream, STALL_TIMEOUT);
                let open = table.add(peer.ip(), MAX_CONNECTIONS);
                let (router, stop) = (router.clone(), stop.clone());
                let tls_config = tls_config.current_acceptor();
                tokio::spawn(async move {
                    let closer = Arc::clone(&open.closer);
                    tokio::select! {
                        () = serve_accepted(stream, peer, tls_config, open, router, stop) => {}
                        () = closer.notified() => {}
                    }
                });
            }
            Err(_) => tokio::time::sleep(ACCEPT_RETRY).await,
        }
    }
    drop(listener);
    // Remaining connections are closed when the runtime ends.
    let _ = tokio::time::timeout(SHUTDOWN_GRACE, async {
        while table.total() > 0 {
            tokio::time::sleep(SHUTDOWN_POLL_INTERVAL).await;
        }
    })
    .await;
    Ok(())
}

/// Serves one connection, plain or over TLS. Clients without TLS get no response then.
async fn serve_accepted(
    stream: TcpStream,
    peer: SocketAddr,
    tls_config: Option<TlsAcceptor>,
    open: Arc<OpenConnection>,
    router: Router,
    stop: watch::Receiver<bool>,
) {
    match tls_config {
        None => serve_connection(stream, peer, open, router, stop).await,
        Some(tls) => {
            if let Ok(stream) = api_tls::accept_tls(tls, stream).await {
                serve_connection(stream, peer, open, router, stop).await;
            }
        }
    }
}

/// Returns when `stop` is true or its sender is dropped.
pub async fn wait_for_stop(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// Serves the requests of one connection.
pub async fn serve_connection<S>(
    stream: S,
    peer: SocketAddr,
    open: Arc<OpenConnection>,
    router: Router,
    mut stop: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(PeerAddress(peer));
        let response = router.call(request);
        let open = Arc::clone(&open);
        async move {
            open.set_busy(true);
            let response = response.await;
            open.set_busy(false);
            response
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_HEADER_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    // Disconnects are not worth a log line.
    tokio::select! {
        _ended = connection.as_mut() => {}
        () = wait_for_stop(&mut stop) => {
            connection.as_mut().graceful_shutdown();
            let _ = tokio::time::timeout(SHUTDOWN_GRACE, connection).await;
        }
    }
}
