//! The server: answers runs on one TCP port and the UDP port of the same number.
//!
//! Every session has its own thread, so that no peer waits for another. Connections without a proof
//! are limited in number and time, with shares for each source (0087). The defaults are safe: anonymous
//! clients get what [`AnonymousLimits`] allows, and UDP is sent only to an address that has shown
//! the session's nonce.
//!
//! # UDP hello
//!
//! UDP on the server's port: only datagrams that belong to a session are answered.
//!
//! The client's hello must carry the nonce that it received over TLS, and come from the address of
//! the control connection. Only then does this host send UDP there, beginning with the answer,
//! which is no longer than the hello. Other datagrams are offered to the handlers.

mod accept;
mod admission_table;
mod event_limiter;
mod first_bytes;
mod heavy_run_lock;
mod serve_event;
mod server_hooks;
mod session_slots;
mod source_prefix;
mod stream_registry;

pub use crate::wire::AnonymousLimits;
pub use accept::{AdmissionPlace, NewConnection};
pub use admission_table::source_shares::SourceShares;
pub use heavy_run_lock::{HeavyRunLock, HeavyRunUsers, ServedRun};
pub use serve_event::ServeEvent;
pub use server_hooks::describe_plan;
pub use session_slots::SessionSlot;
pub use source_prefix::SourcePrefix;
pub use stream_registry::{ExpectedStreams, SessionEntry, StreamClaim};

use crate::header_capture::HeaderAnalysis;
use crate::plan_limits::MAX_STREAMS;
use crate::probe_error::ServeError;
use crate::secure::{AuthToken, TlsIdentity};
use crate::session::SessionInput;
use crate::wire::{
    DATAGRAM_ACKNOWLEDGED, DATAGRAM_HELLO, PREAMBLE_BYTES, SessionRequest, StreamPreamble,
};
use accept::{ConnectionAcceptor, ReleasedPlaces};
use event_limiter::EventLimiter;
use longhaul_sys::listening_socket::{self, ListenSocketConfig};
use mio::Poll;
use parking_lot::Mutex;
use session_slots::SessionSlots;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{fmt, io, thread};
use stream_registry::StreamRegistry;

/// The maximum delay until a stop is noticed.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(250);

/// The options of the server.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// Listen addresses; empty for every address of this host, in both families.
    pub addresses: Vec<IpAddr>,
    /// The port; 0 for any free one, see [`MeasurementServer::addresses`].
    pub port: u16,
    /// Listen on this interface only.
    pub device: Option<String>,
    pub token: Option<String>,
    /// The limits of a client without the token; `None` rejects it. If the server has no token,
    /// every client is anonymous.
    pub anonymous: Option<AnonymousLimits>,
    /// The maximum number of sessions of all peers.
    pub max_sessions: u32,
    /// The maximum number of streams of a session in each direction.
    pub max_streams: u32,
    /// Peers may request a capture of their own streams.
    pub captures: bool,
    /// The analysis of the headers of packets that this end sends, which are captured for it if peers may
    /// request captures.
    pub header_analysis: Option<HeaderAnalysis>,
    /// Further protocols on the same port.
    pub handlers: Vec<Arc<dyn ProtocolHandler>>,
    /// The command line of this program without secrets; sent to every peer of a run.
    pub command: Option<String>,
    /// Refuses bulk runs while this host measures by itself.
    pub heavy_runs: Option<HeavyRunLock>,
}

impl Default for ServeOptions {
    /// Allows anonymous clients within the anonymous limits, on the default port.
    fn default() -> Self {
        ServeOptions {
            addresses: Vec::new(),
            port: crate::DEFAULT_PORT,
            device: None,
            token: None,
            anonymous: Some(AnonymousLimits::default()),
            max_sessions: 32,
            max_streams: MAX_STREAMS,
            captures: true,
            header_analysis: None,
            handlers: Vec::new(),
            command: None,
            heavy_runs: None,
        }
    }
}

/// A server that is listening.
#[derive(Debug)]
pub struct MeasurementServer {
    options: ServeOptions,
    token: Option<AuthToken>,
    identity: TlsIdentity,
    ports: Vec<ListeningPort>,
}

/// One address: a listener and its UDP socket.
#[derive(Debug)]
struct ListeningPort {
    address: SocketAddr,
    listener: TcpListener,
    datagrams: UdpSocket,
}

/// The state that all threads of the server share.
pub struct ServerContext<'a> {
    /// The options that the server was started with.
    pub options: &'a ServeOptions,
    token: Option<AuthToken>,
    identity: &'a TlsIdentity,
    log: &'a (dyn Fn(ServeEvent) + Send + Sync),
    limiter: Mutex<EventLimiter>,
    /// The zero of the server's clock.
    epoch: Instant,
    stop: &'a AtomicBool,
    released: ReleasedPlaces,
    registry: StreamRegistry,
    slots: SessionSlots,
    /// Probe sessions have their own slots: they are light, and run during bulk runs.
    probe_slots: SessionSlots,
}

impl ServerContext<'_> {
    /// Returns whether the server is shutting down.
    pub fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Logs an event, or counts it if there are too many.
    pub fn log(&self, event: ServeEvent) {
        let logged = self.limiter.lock().add_event(self.epoch.elapsed(), event);
        logged.into_iter().for_each(self.log);
    }

    /// Logs the number of events that were only counted.
    fn log_omitted_events(&self) {
        let counts = self.limiter.lock().take_counts(self.epoch.elapsed());
        counts.into_iter().for_each(self.log);
    }

    /// Takes a slot for a bulk run of a client at this address. `anonymous` is the maximum number
    /// of runs of clients without the token; `None` for a client with it. The error names the limit.
    pub fn take_slot(
        &self,
        peer: IpAddr,
        anonymous: Option<u32>,
    ) -> Result<SessionSlot<'_>, String> {
        self.slots.take(peer, anonymous)
    }

    /// Registers the streams that a session expects; the nonce is chosen at random.
    pub fn expect_streams(&self, expected: ExpectedStreams) -> Result<SessionEntry<'_>, String> {
        self.registry.register(expected)
    }
}

impl MeasurementServer {
    /// Opens the listeners and generates the certificate.
    ///
    /// # Errors
    /// The token is empty, the port is in use, or a listener cannot be opened.
    pub fn bind(options: ServeOptions) -> Result<MeasurementServer, ServeError> {
        let token = options.token.as_deref().and_then(AuthToken::new);
        if token.is_none() && options.token.is_some() {
            return Err(ServeError::EmptyToken);
        }
        let identity = TlsIdentity::generate()?;
        let ports = open_ports(&options)?;
        Ok(MeasurementServer { options, token, identity, ports })
    }

    /// Returns the listening addresses.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.ports.iter().map(|port| port.address).collect()
    }

    /// Answers until `stop` is set, and returns within about a second of it, including sessions.
    ///
    /// `log` is called from many threads.
    ///
    /// # Errors
    /// The kernel provides no event queue. A failed session does not end the server.
    pub fn run(
        self,
        log: impl Fn(ServeEvent) + Send + Sync,
        stop: &AtomicBool,
    ) -> Result<(), ServeError> {
        let poll = Poll::new().map_err(ServeError::EventQueue)?;
        let service = ServerContext {
            options: &self.options,
            token: self.token.clone(),
            identity: &self.identity,
            log: &log,
            limiter: Mutex::default(),
            epoch: Instant::now(),
            stop,
            released: ReleasedPlaces::new(&poll).map_err(ServeError::EventQueue)?,
            registry: StreamRegistry::default(),
            slots: SessionSlots::new(self.options.max_sessions, self.options.heavy_runs.clone()),
            probe_slots: SessionSlots::new(self.options.max_sessions, None),
        };
        if self.token.as_ref().is_some_and(AuthToken::is_guessable) {
            service.log(ServeEvent::TokenGuessable);
        }
        self.addresses()
            .into_iter()
            .for_each(|address| service.log(ServeEvent::Listening(address)));
        thread::scope(|scope| {
            let acceptor = ConnectionAcceptor::new(&service, &self.ports, scope, poll);
            // Sessions end when the server does, also by an error.
            let ended = acceptor.run().map_err(ServeError::EventQueue);
            ended.inspect_err(|_| stop.store(true, Ordering::Relaxed))
        })
    }
}

fn open_ports(options: &ServeOptions) -> Result<Vec<ListeningPort>, ServeError> {
    if !options.addresses.is_empty() {
        let open = |address: &IpAddr| open_port(options, *address, false);
        return options.addresses.iter().map(open).collect();
    }
    let any = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    match open_port(options, any, true) {
        // The kernel has no IPv6.
        Err(ServeError::Listen { source, .. })
            if matches!(
                source.kind(),
                io::ErrorKind::Unsupported | io::ErrorKind::AddrNotAvailable
            ) || source.raw_os_error() == Some(EAFNOSUPPORT) =>
        {
            Ok(vec![open_port(options, IpAddr::V4(Ipv4Addr::UNSPECIFIED), false)?])
        }
        other => Ok(vec![other?]),
    }
}

/// EAFNOSUPPORT on Linux, for which std has no stable kind.
const EAFNOSUPPORT: i32 = 97;

fn open_port(
    options: &ServeOptions,
    address: IpAddr,
    both_families: bool,
) -> Result<ListeningPort, ServeError> {
    let mut place = ListenSocketConfig {
        address: SocketAddr::new(address, options.port),
        both_families,
        device: options.device.as_deref(),
    };
    let failed = |protocol, address| move |source| ServeError::Listen { protocol, address, source };
    let listener = listening_socket::listen_tcp(&place).map_err(failed("TCP", place.address))?;
    place.address = listener.local_addr().map_err(failed("TCP", place.address))?;
    let datagrams =
        listening_socket::bind_shared_udp(&place).map_err(failed("UDP", place.address))?;
    datagrams.set_nonblocking(true).map_err(failed("UDP", place.address))?;
    Ok(ListeningPort { address: place.address, listener, datagrams })
}

/// A protocol that is served on the measurement server's port.
///
/// The server recognises its own connections and datagrams first, then asks each handler. A
/// handler implements the methods for what its protocol uses.
pub trait ProtocolHandler: fmt::Debug + Send + Sync {
    /// Recognizes a connection by its first bytes, at least four and at most 4096, or by those and its
    /// peer. Must not block.
    fn recognize_connection(&self, _first_bytes: &[u8], _peer: IpAddr) -> ConnectionKind {
        ConnectionKind::Unknown
    }

    /// Adds a stream to its session; its first bytes have arrived. Must not block.
    fn add_stream(&self, _server: &ServerContext<'_>, _stream: NewStream) {}

    /// Handles a connection until it is closed, on a thread of its own. Nothing has been read from
    /// it. It must end soon after [`ServerContext::is_stopping`].
    fn handle_connection<'a>(
        &'a self,
        _server: &'a ServerContext<'a>,
        _connection: NewConnection<'a>,
    ) {
    }

    /// Handles a datagram; returns whether it is one of this protocol. Must not block.
    fn handle_datagram(&self, _from: SocketAddr, _bytes: &[u8]) -> bool {
        false
    }

    /// Returns a handler of this protocol's requests within one probe session.
    fn open_session<'a>(
        &'a self,
        _server: &'a ServerContext<'a>,
        _peer: SessionPeer,
    ) -> Option<Box<dyn RequestHandler + 'a>> {
        None
    }
}

/// The kind of a connection, as a protocol recognizes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionKind {
    /// Not a connection of this protocol.
    Unknown,
    /// More bytes will tell.
    Incomplete,
    /// A stream of a session in progress.
    Stream,
    /// A new session.
    Session,
}

/// A stream of a session in progress.
#[derive(Debug)]
pub struct NewStream {
    pub stream: TcpStream,
    pub peer: SocketAddr,
    /// Counts accepted connections.
    pub number: u64,
}

/// The client of an admitted probe session.
#[derive(Debug, Clone, Copy)]
pub struct SessionPeer {
    pub address: SocketAddr,
    /// The limits of a client without the token; `None` for a client with it.
    pub anonymous: Option<AnonymousLimits>,
}

/// A handler of requests within one probe session. Its methods must not block.
pub trait RequestHandler {
    /// Returns whether the request is one of this protocol.
    fn accepts_request(&self, request: &SessionRequest) -> bool;

    /// Starts a request; returns the answer if it is available at once.
    fn start_request(&mut self, request: SessionRequest) -> Option<SessionInput>;

    /// Returns the answer to a started request, if it is available.
    fn poll(&mut self) -> Option<SessionInput>;

    /// Returns whether an answer is pending.
    fn is_pending(&self) -> bool;

    /// Returns the payload that this end has moved.
    fn moved_bytes(&self) -> u64;
}

/// Reads one datagram, which may be a hello; returns whether there may be more.
fn receive_hello(service: &ServerContext<'_>, port: &ListeningPort) -> bool {
    // One byte more than a hello, to recognise longer datagrams.
    let mut bytes = [0; PREAMBLE_BYTES + 1];
    // An error of another kind is that of an earlier datagram.
    let (count, from) = match port.datagrams.recv_from(&mut bytes) {
        Ok(received) => received,
        Err(error) => return error.kind() != io::ErrorKind::WouldBlock,
    };
    let bytes = &bytes[..count];
    let Some(preamble) = StreamPreamble::decode(bytes, DATAGRAM_HELLO) else {
        let mut handlers = service.options.handlers.iter();
        handlers.any(|handler| handler.handle_datagram(from, bytes));
        return true;
    };
    if let Err(why) = service.registry.claim(StreamClaim::Datagram(preamble, from)) {
        service.log(ServeEvent::StreamRefused { peer: from, why });
    }
    true
}

/// Opens a flow's own socket: the same port, connected to its peer.
pub fn open_flow(
    local: SocketAddr,
    device: Option<&str>,
    peer: SocketAddr,
) -> io::Result<UdpSocket> {
    let place = ListenSocketConfig {
        // The address that the client uses, so that answers come from it.
        address: crate::canonical_address(local),
        both_families: false,
        device,
    };
    let socket = listening_socket::bind_shared_udp(&place)?;
    socket.connect(crate::canonical_address(peer))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Tells the client that the flow is open. If the answer is lost, the client repeats its hello.
fn acknowledge_hello(socket: &UdpSocket, preamble: &StreamPreamble) {
    let _ = socket.send(&preamble.encode(DATAGRAM_ACKNOWLEDGED));
}

/// Answers hellos that were repeated because the answer was lost.
fn answer_repeated_hellos(socket: &UdpSocket, preamble: &StreamPreamble) {
    let mut bytes = [0; PREAMBLE_BYTES + 1];
    while let Ok(count) = socket.recv(&mut bytes) {
        if StreamPreamble::decode(&bytes[..count], DATAGRAM_HELLO) == Some(*preamble) {
            acknowledge_hello(socket, preamble);
        }
    }
}
