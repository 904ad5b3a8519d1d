//! Connections: so many at once, each held to its times.
//!
//! Whoever sends headers slowly, or takes an answer slowly, is cut off; whoever comes when all
//! places are taken waits in the kernel's queue.

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

/// Connections at once.
const CONNECTIONS: usize = 256;
/// For all headers of a request, and for the next one on an open connection.
const HEADERS: Duration = Duration::from_secs(15);
/// Bytes of the headers of one request.
const HEADER_BYTES: usize = 32 << 10;
/// At the end, what is being answered has this long.
const FAREWELL: Duration = Duration::from_secs(5);
/// After a connection could not be taken, as when no file descriptor is left.
const BREATH: Duration = Duration::from_millis(200);

/// Answers connections until `stop` says true or is gone, and then what is being answered.
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
                        // Whoever speaks no TLS is not answered.
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
    // Whoever is not done then is cut off by the end of the run-time.
    let all = places.acquire_many(CONNECTIONS as u32);
    let _ = tokio::time::timeout(FAREWELL, all).await;
    Ok(())
}

/// Returns when it says true, or when nobody is left to say it.
pub async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// One connection, plain or over TLS, to its end.
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
    // A peer that breaks off, or is cut off, is nothing to tell anybody of.
    tokio::select! {
        _ended = connection.as_mut() => {}
        () = stopped(&mut stop) => {
            connection.as_mut().graceful_shutdown();
            let _ = tokio::time::timeout(FAREWELL, connection).await;
        }
    }
}
