//! The HTTP server: limits connections and their times.
//!
//! Clients that send headers or read responses too slowly are disconnected. Clients beyond the
//! connection limit wait in the kernel's accept queue.

mod patience;

use super::tls::{self, Greeting};
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use patience::Patient;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

/// The maximum number of connections.
const CONNECTIONS: usize = 256;
/// The timeout for the headers of a request, and for the next request on an open connection.
const HEADERS: Duration = Duration::from_secs(15);
/// The maximum size of the headers of a request.
const HEADER_BYTES: usize = 32 << 10;
/// The time for requests in progress at shutdown.
const FAREWELL: Duration = Duration::from_secs(5);
/// The delay after a failed accept, for example without a free file descriptor.
const BREATH: Duration = Duration::from_millis(200);

/// Serves connections until `stop` is true or dropped, and then finishes requests in progress.
pub async fn serve(
    (listener, greeting): (TcpListener, Greeting),
    router: Router,
    mut stop: watch::Receiver<bool>,
) -> io::Result<()> {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let place = tokio::select! {
            place = Arc::clone(&places).acquire_owned() => place.map_err(io::Error::other)?,
            () = stopped(&mut stop) => break,
        };
        let taken = tokio::select! {
            taken = listener.accept() => taken,
            () = stopped(&mut stop) => break,
        };
        match taken {
            Ok((stream, _peer)) => {
                let (router, stop) = (router.clone(), stop.clone());
                let greeting = greeting.now();
                tokio::spawn(async move {
                    match greeting {
                        None => converse(stream, router, stop).await,
                        // Clients without TLS get no response.
                        Some(tls) => {
                            if let Ok(stream) = tls::handshake(tls, stream).await {
                                converse(stream, router, stop).await;
                            }
                        }
                    }
                    drop(place);
                });
            }
            Err(_) => tokio::time::sleep(BREATH).await,
        }
    }
    drop(listener);
    // Remaining connections are closed when the runtime ends.
    let all = places.acquire_many(CONNECTIONS as u32);
    let _ = tokio::time::timeout(FAREWELL, all).await;
    Ok(())
}

/// Returns when `stop` is true or its sender is dropped.
pub async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// Serves one connection, plain or over TLS.
pub async fn converse<S>(stream: S, router: Router, mut stop: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS)
        .max_buf_size(HEADER_BYTES)
        .serve_connection(
            TokioIo::new(Patient::new(stream)),
            TowerToHyperService::new(router),
        );
    let mut connection = std::pin::pin!(connection);
    // Disconnects are not worth a log line.
    tokio::select! {
        _ended = connection.as_mut() => {}
        () = stopped(&mut stop) => {
            connection.as_mut().graceful_shutdown();
            let _ = tokio::time::timeout(FAREWELL, connection).await;
        }
    }
}
