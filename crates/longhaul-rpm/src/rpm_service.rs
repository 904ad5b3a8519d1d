//! Clients of the test on a measurement server's port.
//!
//! A ClientHello that offers HTTP/2 and does not name the server `longhaul` is one of this protocol,
//! as are those without HTTP/2 of a host whose test is in progress. The first connection of a host gets
//! a place, then with its first request a slot and a thread, which serves all connections of that host
//! until they have ended. The clients have no token, so the limits of anonymous clients apply, to all
//! connections of a test together.

use crate::http_connection::{CONNECTION_WINDOW_BYTES, HTTP2, STREAM_WINDOW_BYTES};
use crate::load_body::LoadBody;
use crate::metered_socket::{MeteredSocket, SocketMeter, TrafficBudget};
use crate::rpm_config::{LARGE_PATH, RpmConfig, SMALL_PATH, UPLOAD_PATH, WELL_KNOWN_PATH};
use http_body_util::{BodyExt, Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use longhaul_probe::measurement_server::{
    AnonymousLimits, ConnectionKind, NewConnection, NewStream, ProtocolHandler, ServeEvent,
    ServerContext,
};
use longhaul_probe::secure::{SERVER_NAME, TlsIdentity, read_hello_names};
use parking_lot::Mutex;
use rustls::ServerConfig;
use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::{IpAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Builder;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{interval, timeout, timeout_at};
use tokio_rustls::TlsAcceptor;

/// The maximum number of connections of a test, those of probes included.
const MAX_CONNECTIONS: usize = 256;
/// The maximum number of connections that wait for the thread of their test.
const MAX_ARRIVALS: usize = 64;
/// The time without a connection after which a test is over: clients pause between directions.
const LINGER_TIME: Duration = Duration::from_secs(5);
/// The maximum time of the handshake of a further connection.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(250);
/// The time for the answer to a client that is refused.
const REFUSAL_TIME: Duration = Duration::from_secs(1);
const MAX_STREAMS: u32 = 128;
const MAX_HEADER_BYTES: u32 = 1 << 13;

/// Some clients measure the idle path with it.
const HTTP1: &[u8] = b"http/1.1";

type AnswerBody = Either<Full<Bytes>, LoadBody>;

/// Serves clients of the test on the port of a measurement server.
pub struct RpmHandler {
    tls: TlsAcceptor,
    /// The threads of tests in progress, by the address of the client.
    tests: Mutex<HashMap<IpAddr, mpsc::Sender<TcpStream>>>,
}

impl fmt::Debug for RpmHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RpmHandler")
    }
}

/// The answer to the first request of a client; `None` until it is decided.
type AdmissionAnswer = Option<Result<(), String>>;

/// The state that the connections of a test share.
#[derive(Clone)]
struct TestContext {
    tls: TlsAcceptor,
    budget: Arc<TrafficBudget>,
    admission: watch::Receiver<AdmissionAnswer>,
    /// Is told of each request.
    requested: mpsc::Sender<()>,
}

/// A test that is in the table of its handler until this is dropped.
struct RpmTestEntry<'a> {
    handler: &'a RpmHandler,
    client: IpAddr,
}

impl Drop for RpmTestEntry<'_> {
    fn drop(&mut self) {
        self.handler.tests.lock().remove(&self.client);
    }
}

impl RpmHandler {
    /// Creates a handler with this certificate.
    pub fn new(identity: &TlsIdentity) -> RpmHandler {
        let mut config = ServerConfig::clone(&identity.server_config());
        config.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
        RpmHandler { tls: TlsAcceptor::from(Arc::new(config)), tests: Mutex::default() }
    }

    fn serve_test<'a>(
        &'a self,
        server: &'a ServerContext<'a>,
        connection: NewConnection<'a>,
    ) -> Result<(), String> {
        let refused = "clients of responsiveness have no token, which this server wants";
        let anonymous = server.options.anonymous.ok_or(refused)?;
        let unusable = |error: io::Error| format!("cannot use its socket: {error}");
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| format!("cannot start its test: {error}"))?;
        let first = connection.stream.try_clone().map_err(unusable)?;
        let served = runtime.block_on(self.serve_client(server, connection, first, anonymous));
        runtime.shutdown_background();
        served
    }

    /// Serves the first connection of a client, and after its first request all others.
    async fn serve_client<'a>(
        &'a self,
        server: &'a ServerContext<'a>,
        connection: NewConnection<'a>,
        first: TcpStream,
        anonymous: AnonymousLimits,
    ) -> Result<(), String> {
        let NewConnection { peer, deadline, place, .. } = connection;
        let (answer, admission) = watch::channel(None);
        let (requested, mut requests) = mpsc::channel(1);
        let started = Instant::now();
        let budget = Arc::new(TrafficBudget {
            started,
            bytes: anonymous.bytes,
            rate_bps: anonymous.rate_bps,
            moved_bytes: AtomicU64::new(0),
        });
        let tls = self.tls.clone();
        let context = TestContext { tls, budget: Arc::clone(&budget), admission, requested };
        let mut connections = JoinSet::new();
        connections.spawn(serve_connection(context.clone(), first));
        let request = tokio::select! {
            request = timeout_at(deadline.into(), requests.recv()) => request,
            Some(ended) = connections.join_next() => {
                return Err(ended.map_err(|error| error.to_string())?);
            }
        };
        request.map_err(|_| "its first request took too long")?;
        let slot = server.take_slot(peer.ip(), Some(anonymous.concurrent));
        if let Err(why) = &slot {
            answer.send_replace(Some(Err(why.clone())));
            let _ = timeout(REFUSAL_TIME, connections.join_next()).await;
        }
        let _slot = slot?;
        drop(place);
        let (sender, arrivals) = mpsc::channel(MAX_ARRIVALS);
        self.tests.lock().insert(peer.ip(), sender);
        let entry = RpmTestEntry { handler: self, client: peer.ip() };
        answer.send_replace(Some(Ok(())));
        server.log(ServeEvent::SessionOpened {
            peer,
            host: "client of responsiveness".to_owned(),
            anonymous: true,
            what: "responsiveness".to_owned(),
        });
        // A download and an upload have the time of a run each.
        let most = Duration::from_secs(anonymous.seconds) * 2;
        let reason = serve_arrivals(server, &context, connections, arrivals, started + most).await;
        drop(entry);
        let bytes = budget.moved_bytes.load(Ordering::Relaxed);
        let elapsed = started.elapsed();
        let reason = reason.to_owned();
        server.log(ServeEvent::SessionClosed { peer, reason, elapsed, bytes, opened: true });
        Ok(())
    }
}

/// Serves all connections of a test; returns the reason why it is over.
async fn serve_arrivals(
    server: &ServerContext<'_>,
    context: &TestContext,
    mut connections: JoinSet<String>,
    mut arrivals: mpsc::Receiver<TcpStream>,
    end: Instant,
) -> &'static str {
    let mut looks = interval(STOP_POLL_INTERVAL);
    let mut busy_at = Instant::now();
    loop {
        tokio::select! {
            Some(stream) = arrivals.recv() => {
                if connections.len() < MAX_CONNECTIONS {
                    connections.spawn(serve_connection(context.clone(), stream));
                }
            }
            Some(_) = connections.join_next() => busy_at = Instant::now(),
            _ = looks.tick() => {
                if server.is_stopping() {
                    return "the server stops";
                }
                if Instant::now() >= end {
                    return "its time is over";
                }
                if connections.is_empty() && busy_at.elapsed() >= LINGER_TIME {
                    return "the test is over";
                }
            }
        }
    }
}

/// Serves a connection until it ends; returns the reason.
async fn serve_connection(context: TestContext, stream: TcpStream) -> String {
    let ended = async {
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        stream.set_nonblocking(true).map_err(|error| error.to_string())?;
        let socket = tokio::net::TcpStream::from_std(stream).map_err(|error| error.to_string())?;
        let meter = Arc::new(SocketMeter::default());
        let budget = Some(Arc::clone(&context.budget));
        let socket = MeteredSocket::new(socket, Arc::clone(&meter), budget);
        let handshake = timeout(HANDSHAKE_TIME, context.tls.accept(socket)).await;
        let tls = handshake.map_err(|_| "its TLS handshake took too long")?;
        let tls = tls.map_err(|error| format!("no TLS: {error}"))?;
        let answer = |request| answer_request(request, context.clone(), Arc::clone(&meter));
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(HANDSHAKE_TIME);
        builder
            .http2()
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_concurrent_streams(MAX_STREAMS)
            .max_header_list_size(MAX_HEADER_BYTES);
        let served = builder.serve_connection(TokioIo::new(tls), service_fn(answer)).await;
        served.map_err(|error| format!("no HTTP: {error}"))
    };
    let ended: Result<(), String> = ended.await;
    ended.err().unwrap_or_else(|| "it closed its connection".to_owned())
}

async fn answer_request(
    request: Request<Incoming>,
    mut context: TestContext,
    meter: Arc<SocketMeter>,
) -> Result<Response<AnswerBody>, Infallible> {
    // A full queue means that the server knows already.
    let _ = context.requested.try_send(());
    let admitted = context.admission.wait_for(Option::is_some).await.map(|it| (*it).clone());
    let refusal = match admitted {
        Ok(Some(Err(why))) => why,
        Ok(_) => return Ok(answer_admitted(request, meter).await),
        Err(_) => "the test is over".to_owned(),
    };
    Ok(build_answer(StatusCode::SERVICE_UNAVAILABLE, "text/plain", refusal))
}

async fn answer_admitted(
    mut request: Request<Incoming>,
    meter: Arc<SocketMeter>,
) -> Response<AnswerBody> {
    const DATA: &str = "application/octet-stream";
    let is_get = request.method() == Method::GET;
    match request.uri().path() {
        WELL_KNOWN_PATH if is_get => {
            let authority = read_authority(&request).unwrap_or_default();
            let config = RpmConfig::publish(&authority);
            build_answer(StatusCode::OK, "application/json", config)
        }
        SMALL_PATH if is_get => build_answer(StatusCode::OK, DATA, "0".to_owned()),
        LARGE_PATH if is_get => {
            let mut response = Response::new(Either::Right(LoadBody::new(meter)));
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(DATA));
            response
        }
        UPLOAD_PATH if !is_get => {
            while let Some(Ok(_)) = request.body_mut().frame().await {}
            build_answer(StatusCode::OK, DATA, String::new())
        }
        _ => build_answer(StatusCode::NOT_FOUND, "text/plain", "no such object".to_owned()),
    }
}

/// Returns the name by which the client calls this server.
fn read_authority(request: &Request<Incoming>) -> Option<String> {
    let authority = request.uri().authority().map(ToString::to_string);
    authority.or_else(|| Some(request.headers().get(HOST)?.to_str().ok()?.to_owned()))
}

fn build_answer(status: StatusCode, kind: &'static str, text: String) -> Response<AnswerBody> {
    let mut response = Response::new(Either::Left(Full::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

impl ProtocolHandler for RpmHandler {
    /// Recognizes a ClientHello of a host whose test is in progress, or one that offers HTTP/2, as the
    /// first one must.
    fn recognize_connection(&self, first_bytes: &[u8], peer: IpAddr) -> ConnectionKind {
        let names = read_hello_names(first_bytes).filter(|names| names.server != SERVER_NAME);
        let Some(names) = names else { return ConnectionKind::Unknown };
        if self.tests.lock().contains_key(&peer) {
            ConnectionKind::Stream
        } else if names.protocols.iter().any(|name| name == HTTP2) {
            ConnectionKind::Session
        } else {
            ConnectionKind::Unknown
        }
    }

    fn add_stream(&self, server: &ServerContext<'_>, new: NewStream) {
        let NewStream { stream, peer, .. } = new;
        let arrivals = self.tests.lock().get(&peer.ip()).cloned();
        if arrivals.is_none_or(|arrivals| arrivals.try_send(stream).is_err()) {
            let why = "its test is over, or too many of its connections wait";
            server.log(ServeEvent::StreamRefused { peer, why });
        }
    }

    fn handle_connection<'a>(
        &'a self,
        server: &'a ServerContext<'a>,
        connection: NewConnection<'a>,
    ) {
        let peer = connection.peer;
        if let Err(why) = self.serve_test(server, connection) {
            server.log(ServeEvent::Dismissed { peer, why });
        }
    }
}
