//! The WebSocket connection of a subtest, in both roles, with or without TLS.
//!
//! Every read and write of the socket waits [`IO_WAIT`] at most, so that all loops notice their
//! deadlines.

use crate::ndt7_messages::SubtestKind;
use rustls::{ClientConnection, ServerConfig, ServerConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tungstenite::client::ClientRequestBuilder;
use tungstenite::handshake::HandshakeRole;
use tungstenite::handshake::server::{ErrorResponse, Request, Response, ServerHandshake};
use tungstenite::http::{HeaderValue, StatusCode};
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{HandshakeError, WebSocket};

/// The name of the protocol within WebSocket.
pub const SUBPROTOCOL: &str = "net.measurementlab.ndt.v7";
const SUBPROTOCOL_HEADER: &str = "Sec-WebSocket-Protocol";
/// The longest wait of one read or write.
pub const IO_WAIT: Duration = Duration::from_millis(100);
/// The maximum size of a message, which the protocol prescribes.
pub const MAX_MESSAGE_BYTES: usize = 1 << 24;
/// The maximum size of the query of a request.
pub const MAX_QUERY_BYTES: usize = 4096;

/// A stream under a WebSocket.
pub trait SocketStream: Read + Write + Send {}

impl<T: Read + Write + Send> SocketStream for T {}

/// A connection after its handshake.
pub struct Ndt7Connection {
    pub socket: WebSocket<Box<dyn SocketStream>>,
    /// The same socket, for its options and counters.
    pub tcp: TcpStream,
}

fn websocket_config() -> WebSocketConfig {
    WebSocketConfig::default()
        .max_message_size(Some(MAX_MESSAGE_BYTES))
        .max_frame_size(Some(MAX_MESSAGE_BYTES))
}

fn limit_waits(tcp: &TcpStream) -> io::Result<()> {
    tcp.set_read_timeout(Some(IO_WAIT))?;
    tcp.set_write_timeout(Some(IO_WAIT))
}

/// Opens the client's end of a subtest on a TCP connection.
///
/// # Errors
/// A text says which handshake failed and why, also if the deadline passes.
pub fn open_client(
    tcp: TcpStream,
    tls: Option<ClientConnection>,
    request: ClientRequestBuilder,
    deadline: Instant,
) -> Result<Ndt7Connection, String> {
    let failed = |error: io::Error| error.to_string();
    limit_waits(&tcp).map_err(failed)?;
    let own = tcp.try_clone().map_err(failed)?;
    let stream: Box<dyn SocketStream> = match tls {
        Some(tls) => Box::new(StreamOwned::new(tls, tcp)),
        None => Box::new(tcp),
    };
    let begun = tungstenite::client::client_with_config(request, stream, Some(websocket_config()));
    let (socket, _) = finish_handshake(begun, deadline)?;
    Ok(Ndt7Connection { socket, tcp: own })
}

/// Opens the server's end. `admit` is called with the subtest of a correct request, and refuses it
/// with a reason.
///
/// # Errors
/// Like [`open_client`].
pub fn open_server(
    tcp: TcpStream,
    tls: Option<&Arc<ServerConfig>>,
    admit: &mut dyn FnMut(SubtestKind) -> Result<(), String>,
    deadline: Instant,
) -> Result<Ndt7Connection, String> {
    let failed = |error: io::Error| error.to_string();
    limit_waits(&tcp).map_err(failed)?;
    let own = tcp.try_clone().map_err(failed)?;
    let stream: Box<dyn SocketStream> = match tls {
        Some(config) => {
            let tls = ServerConnection::new(Arc::clone(config)).map_err(|it| it.to_string())?;
            Box::new(StreamOwned::new(tls, tcp))
        }
        None => Box::new(tcp),
    };
    #[expect(clippy::result_large_err, reason = "the signature is that of the library")]
    let answer = |request: &Request, response: Response| answer_request(request, response, admit);
    let begun = ServerHandshake::start(stream, answer, Some(websocket_config())).handshake();
    Ok(Ndt7Connection { socket: finish_handshake(begun, deadline)?, tcp: own })
}

fn finish_handshake<R: HandshakeRole>(
    mut outcome: Result<R::FinalResult, HandshakeError<R>>,
    deadline: Instant,
) -> Result<R::FinalResult, String> {
    loop {
        outcome = match outcome {
            Ok(connection) => return Ok(connection),
            Err(HandshakeError::Failure(error)) => return Err(error.to_string()),
            Err(HandshakeError::Interrupted(_)) if Instant::now() >= deadline => {
                return Err("the handshake took too long".to_owned());
            }
            Err(HandshakeError::Interrupted(half)) => half.handshake(),
        }
    }
}

#[expect(clippy::result_large_err, reason = "the signature is that of the library")]
fn answer_request(
    request: &Request,
    mut response: Response,
    admit: &mut dyn FnMut(SubtestKind) -> Result<(), String>,
) -> Result<Response, ErrorResponse> {
    let kind = check_request(request).map_err(|why| refuse(StatusCode::BAD_REQUEST, why))?;
    admit(kind).map_err(|why| refuse(StatusCode::SERVICE_UNAVAILABLE, &why))?;
    response.headers_mut().insert(SUBPROTOCOL_HEADER, HeaderValue::from_static(SUBPROTOCOL));
    Ok(response)
}

fn refuse(status: StatusCode, why: &str) -> ErrorResponse {
    let mut response = ErrorResponse::new(Some(why.to_owned()));
    *response.status_mut() = status;
    response
}

fn check_request(request: &Request) -> Result<SubtestKind, &'static str> {
    let path = request.uri().path();
    let kind = SubtestKind::ALL.into_iter().find(|kind| kind.url_path() == path);
    let offered = request.headers().get_all(SUBPROTOCOL_HEADER);
    let mut offered = offered.iter().filter_map(|it| it.to_str().ok()).flat_map(|it| it.split(','));
    if !offered.any(|name| name.trim() == SUBPROTOCOL) {
        return Err("the subprotocol is not net.measurementlab.ndt.v7");
    }
    if request.uri().query().is_some_and(|query| query.len() > MAX_QUERY_BYTES) {
        return Err("the query is longer than 4096 bytes");
    }
    kind.ok_or("the path is neither /ndt/v7/download nor /ndt/v7/upload")
}
