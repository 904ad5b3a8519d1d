//! The HTTP server: limits connections and their times.
//!
//! Clients that send headers too slowly, or stop reading, are disconnected. Clients beyond the
//! connection limit wait in the kernel's accept queue.

use super::access_control::PeerAddress;
use super::api_tls::{self, TlsAcceptorCache};
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
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

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
/// The delay after a failed accept, for example without a free file descriptor.
const ACCEPT_RETRY: Duration = Duration::from_millis(200);

/// Serves connections until `stop` is true or dropped, and then finishes requests in progress.
pub async fn serve_connections(
    listener: TcpListener,
    tls_config: TlsAcceptorCache,
    router: Router,
    mut stop: watch::Receiver<bool>,
) -> io::Result<()> {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let place = tokio::select! {
            place = Arc::clone(&places).acquire_owned() => place.map_err(io::Error::other)?,
            () = wait_for_stop(&mut stop) => break,
        };
        let taken = tokio::select! {
            taken = listener.accept() => taken,
            () = wait_for_stop(&mut stop) => break,
        };
        match taken {
            Ok((stream, peer)) => {
                // Without the option, a client that reads nothing keeps its place for longer.
                let _ = supervise::set_dead_peer_timeout(&stream, STALL_TIMEOUT);
                let (router, stop) = (router.clone(), stop.clone());
                let tls_config = tls_config.current_acceptor();
                tokio::spawn(async move {
                    match tls_config {
                        None => serve_connection(stream, peer, router, stop).await,
                        // Clients without TLS get no response.
                        Some(tls) => {
                            if let Ok(stream) = api_tls::accept_tls(tls, stream).await {
                                serve_connection(stream, peer, router, stop).await;
                            }
                        }
                    }
                    drop(place);
                });
            }
            Err(_) => tokio::time::sleep(ACCEPT_RETRY).await,
        }
    }
    drop(listener);
    // Remaining connections are closed when the runtime ends.
    let all = places.acquire_many(MAX_CONNECTIONS as u32);
    let _ = tokio::time::timeout(SHUTDOWN_GRACE, all).await;
    Ok(())
}

/// Returns when `stop` is true or its sender is dropped.
pub async fn wait_for_stop(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// Serves one connection, plain or over TLS.
pub async fn serve_connection<S>(
    stream: S,
    peer: SocketAddr,
    router: Router,
    mut stop: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |mut request| {
        request.extensions_mut().insert(PeerAddress(peer));
        router.call(request)
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
