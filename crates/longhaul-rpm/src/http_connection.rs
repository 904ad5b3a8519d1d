//! A connection of the client, with the times of its handshakes, and requests on it.

use crate::load_body::LoadBody;
use crate::metered_socket::{MeteredSocket, SocketMeter};
use http_body_util::{BodyExt, Either, Empty, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http2::{self, SendRequest};
use hyper::header::{ACCEPT_ENCODING, CONTENT_TYPE, USER_AGENT};
use hyper::{Method, Request, Response, Uri};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use longhaul_model::report::v1::plan::ThroughputPlan;
use longhaul_model::sanitize::sanitize_line;
use longhaul_probe::engine::{TransferRole, open_tcp_socket};
use longhaul_probe::secure::client_config;
use longhaul_probe::throughput::LocalBind;
use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::{AbortHandle, spawn_blocking};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

/// The application protocol in a ClientHello.
pub const HTTP2: &[u8] = b"h2";
/// The flow-control windows of HTTP/2, which must not limit a long path. All data are read at once.
pub const STREAM_WINDOW_BYTES: u32 = 1 << 24;
pub const CONNECTION_WINDOW_BYTES: u32 = 1 << 25;
/// The maximum number of characters of an error that a server sends.
const MAX_ERROR_CHARS: usize = 200;
/// The maximum length of the response to an upload.
const MAX_ANSWER_BYTES: usize = 1 << 16;
/// The pause before a transfer that has ended is repeated.
const REPEAT_PAUSE: Duration = Duration::from_millis(10);

type RequestBody = Either<Empty<Bytes>, LoadBody>;
type RequestSender = SendRequest<RequestBody>;

/// The server and how to connect to it.
#[derive(Clone)]
pub struct HttpEndpoint {
    pub address: SocketAddr,
    bind: LocalBind,
    tls: TlsConnector,
    server_name: ServerName<'static>,
    time_limit: Duration,
}

/// A connection of HTTP/2 over TLS. It is closed when it is dropped.
pub struct HttpConnection {
    sender: RequestSender,
    /// The same socket, for its counters.
    pub tcp: TcpStream,
    meter: Arc<SocketMeter>,
    pub tcp_time: Duration,
    pub tls_time: Duration,
    driver: AbortHandle,
}

impl Drop for HttpConnection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl HttpEndpoint {
    /// Describes a server by its address, and by its name for TLS. Its certificate is not verified:
    /// the data are random.
    ///
    /// # Errors
    /// The name is neither one of DNS nor an address.
    pub fn new(
        address: SocketAddr,
        host: &str,
        bind: LocalBind,
        time_limit: Duration,
    ) -> Result<HttpEndpoint, String> {
        let name = host.split('%').next().unwrap_or_default().to_owned();
        let server_name = ServerName::try_from(name).map_err(to_text)?;
        let config = client_config(None).map_err(to_text)?;
        let mut config = ClientConfig::clone(&config);
        config.alpn_protocols = vec![HTTP2.to_vec()];
        // A resumed session would be a shorter handshake.
        config.resumption = Resumption::disabled();
        let tls = TlsConnector::from(Arc::new(config));
        Ok(HttpEndpoint { address, bind, tls, server_name, time_limit })
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// A text says which handshake failed, also if the time has passed.
    pub async fn open(&self) -> Result<HttpConnection, String> {
        let plan = ThroughputPlan::default();
        let socket = open_tcp_socket(&plan, TransferRole::Sender, self.address, &self.bind);
        let socket = socket.map_err(to_text)?;
        let limit = self.time_limit;
        // The thread takes the time without waiting for other tasks.
        let connect = move || {
            let began = Instant::now();
            socket.connect(limit).map(|stream| (stream, began.elapsed()))
        };
        let connected = spawn_blocking(connect).await.map_err(to_text)?;
        let (stream, tcp_time) = connected.map_err(|error| format!("no connection: {error}"))?;
        self.secure(stream, tcp_time).await
    }

    /// Performs the handshakes of TLS and HTTP/2 on a connection of TCP.
    ///
    /// # Errors
    /// As [`HttpEndpoint::open`].
    pub async fn secure(
        &self,
        stream: TcpStream,
        tcp_time: Duration,
    ) -> Result<HttpConnection, String> {
        let handshakes = self.perform_handshakes(stream, tcp_time);
        let late = |_| "its handshakes took too long".to_owned();
        timeout(self.time_limit, handshakes).await.map_err(late)?
    }

    async fn perform_handshakes(
        &self,
        stream: TcpStream,
        tcp_time: Duration,
    ) -> Result<HttpConnection, String> {
        stream.set_nodelay(true).map_err(to_text)?;
        stream.set_nonblocking(true).map_err(to_text)?;
        let tcp = stream.try_clone().map_err(to_text)?;
        let meter = Arc::new(SocketMeter::default());
        let socket = tokio::net::TcpStream::from_std(stream).map_err(to_text)?;
        let socket = MeteredSocket::new(socket, Arc::clone(&meter), None);
        let began = Instant::now();
        let tls = self.tls.connect(self.server_name.clone(), socket).await;
        let tls = tls.map_err(|error| format!("no TLS: {error}"))?;
        let tls_time = began.elapsed();
        if tls.get_ref().1.alpn_protocol() != Some(HTTP2) {
            return Err("it does not speak HTTP/2".to_owned());
        }
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_header_list_size(1 << 14)
            .handshake(TokioIo::new(tls))
            .await
            .map_err(|error| format!("no HTTP/2: {error}"))?;
        let driver = tokio::spawn(connection).abort_handle();
        Ok(HttpConnection { sender, tcp, meter, tcp_time, tls_time, driver })
    }
}

impl HttpConnection {
    /// Requests an object of at most `most_bytes`, within `time_limit`; returns it with the time that
    /// this took. The connection is used at the same time by others.
    pub fn get(
        &self,
        uri: &Uri,
        most_bytes: usize,
        time_limit: Duration,
    ) -> impl Future<Output = Result<(Bytes, Duration), String>> + use<> {
        let request = build_request(Method::GET, uri, Either::Left(Empty::new()));
        let sender = self.sender.clone();
        async move {
            let transfer = async {
                let began = Instant::now();
                let response = send_request(sender, request?).await?;
                let body = Limited::new(response.into_body(), most_bytes).collect().await;
                Ok((body.map_err(to_text)?.to_bytes(), began.elapsed()))
            };
            timeout(time_limit, transfer).await.map_err(|_| "no answer in time".to_owned())?
        }
    }

    /// Downloads an object again and again, and adds its bytes to `received`; returns the error that
    /// ends this.
    pub fn download(
        &self,
        uri: &Uri,
        received: Arc<AtomicU64>,
    ) -> impl Future<Output = String> + use<> {
        let sender = self.sender.clone();
        let uri = uri.clone();
        async move {
            loop {
                let request = build_request(Method::GET, &uri, Either::Left(Empty::new()));
                let received = |bytes: usize| {
                    received.fetch_add(bytes as u64, Ordering::Relaxed);
                };
                if let Err(why) = download_once(sender.clone(), request, received).await {
                    return why;
                }
                sleep(REPEAT_PAUSE).await;
            }
        }
    }

    /// Uploads random data, again whenever the server ends the request; returns the error that ends
    /// this.
    pub fn upload(&self, uri: &Uri) -> impl Future<Output = String> + use<> {
        let sender = self.sender.clone();
        let meter = Arc::clone(&self.meter);
        let uri = uri.clone();
        async move {
            loop {
                let body = Either::Right(LoadBody::new(Arc::clone(&meter)));
                let request = build_request(Method::POST, &uri, body);
                let answer = async {
                    let response = send_request(sender.clone(), request?).await?;
                    let body = Limited::new(response.into_body(), MAX_ANSWER_BYTES);
                    body.collect().await.map_err(to_text)
                };
                if let Err(why) = answer.await {
                    return why;
                }
                sleep(REPEAT_PAUSE).await;
            }
        }
    }
}

async fn download_once(
    sender: RequestSender,
    request: Result<Request<RequestBody>, String>,
    received: impl Fn(usize),
) -> Result<(), String> {
    let mut body = send_request(sender, request?).await?.into_body();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(to_text)?;
        received(frame.data_ref().map_or(0, Bytes::len));
    }
    Ok(())
}

fn build_request(
    method: Method,
    uri: &Uri,
    body: RequestBody,
) -> Result<Request<RequestBody>, String> {
    let is_upload = method == Method::POST;
    let request = Request::builder().method(method).uri(uri);
    let request = request.header(USER_AGENT, concat!("longhaul/", env!("CARGO_PKG_VERSION")));
    let request = if is_upload {
        request.header(CONTENT_TYPE, "application/octet-stream")
    } else {
        request.header(ACCEPT_ENCODING, "identity")
    };
    request.body(body).map_err(to_text)
}

/// Sends a request and returns the response of a success.
async fn send_request(
    mut sender: RequestSender,
    request: Request<RequestBody>,
) -> Result<Response<Incoming>, String> {
    sender.ready().await.map_err(to_text)?;
    let path = request.uri().path().to_owned();
    let response = sender.send_request(request).await.map_err(to_text)?;
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let body = Limited::new(response.into_body(), MAX_ERROR_CHARS).collect().await;
    let text = body.map(|body| String::from_utf8_lossy(&body.to_bytes()).into_owned());
    let text = text.map(|text| format!("{path}: {status}: {text}"));
    let text = text.unwrap_or_else(|_| format!("{path}: {status}"));
    Err(sanitize_line(&text, MAX_ERROR_CHARS))
}

/// Formats an error with its causes.
fn to_text(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> String {
    let error = error.into();
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}
