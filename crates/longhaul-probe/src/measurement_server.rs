//! The server: answers runs on one TCP port and the UDP port of the same number.
//!
//! Every session has its own thread, so that no peer waits for another. Connections without a proof
//! are limited in number and time, and the oldest is closed first. The defaults are safe: anonymous
//! clients get what [`AnonymousLimits`] allows, and UDP is sent only to an address that has shown
//! the session's nonce.

mod accept;
mod pending_connections;
mod probe_session;
mod protocol_handler;
mod serve_event;
mod server_hooks;
mod session_slots;
mod stream_registry;
mod udp_hello;

pub use crate::wire::AnonymousLimits;
pub use accept::{NewConnection, read_until};
pub use pending_connections::PendingSlot;
pub use protocol_handler::{ProtocolHandler, RequestHandler, SessionPeer};
pub use serve_event::ServeEvent;
pub use server_hooks::describe_plan;
pub use session_slots::SessionSlot;
pub use stream_registry::{ExpectedStreams, SessionEntry, StreamClaim};
pub use udp_hello::open_flow;

use crate::plan_limits::MAX_STREAMS;
use crate::probe_error::ServeError;
use crate::secure::{AuthToken, TlsIdentity};
use longhaul_sys::listening_socket::{self, ListenSocketConfig};
use pending_connections::PendingConnections;
use session_slots::SessionSlots;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
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
    /// Further protocols on the same port.
    pub handlers: Vec<Arc<dyn ProtocolHandler>>,
    /// The command line of this program without secrets; sent to every peer of a run.
    pub command: Option<String>,
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
            handlers: Vec::new(),
            command: None,
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
    stop: &'a AtomicBool,
    pending: PendingConnections,
    registry: StreamRegistry,
    /// The number of accepted connections.
    arrivals: AtomicU64,
    slots: SessionSlots,
    /// Probe sessions have their own slots: they are light, and run during bulk runs.
    probe_slots: SessionSlots,
}

impl ServerContext<'_> {
    /// Returns whether the server is shutting down.
    pub fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Logs an event.
    pub fn log(&self, event: ServeEvent) {
        (self.log)(event);
    }

    /// Takes a slot for a bulk run. `anonymous` is the maximum number of runs of clients without
    /// the token; `None` for a client with it. The error names the limit.
    pub fn take_slot(&self, anonymous: Option<u32>) -> Result<SessionSlot<'_>, String> {
        self.slots.take(anonymous)
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
    /// A thread cannot be started. A failed session does not end the server.
    pub fn run(
        self,
        log: impl Fn(ServeEvent) + Send + Sync,
        stop: &AtomicBool,
    ) -> Result<(), ServeError> {
        let service = ServerContext {
            options: &self.options,
            token: self.token.clone(),
            identity: &self.identity,
            log: &log,
            stop,
            pending: PendingConnections::default(),
            registry: StreamRegistry::default(),
            arrivals: AtomicU64::new(0),
            slots: SessionSlots::new(self.options.max_sessions),
            probe_slots: SessionSlots::new(self.options.max_sessions),
        };
        if self.token.as_ref().is_some_and(AuthToken::is_guessable) {
            log(ServeEvent::TokenGuessable);
        }
        std::thread::scope(|scope| {
            let mut result = Ok(());
            for port in &self.ports {
                log(ServeEvent::Listening(port.address));
                let service = &service;
                let started = std::thread::Builder::new().name("listen".to_owned()).spawn_scoped(
                    scope,
                    move || {
                        accept::accept_connections(service, port, scope);
                    },
                );
                if let Err(source) = started {
                    stop.store(true, Ordering::Relaxed);
                    result = Err(ServeError::Thread(source));
                }
            }
            result
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
    let listener = listening_socket::listen_tcp(&place, STOP_POLL_INTERVAL)
        .map_err(failed("TCP", place.address))?;
    place.address = listener.local_addr().map_err(failed("TCP", place.address))?;
    let datagrams =
        listening_socket::bind_shared_udp(&place).map_err(failed("UDP", place.address))?;
    datagrams.set_read_timeout(Some(STOP_POLL_INTERVAL)).map_err(failed("UDP", place.address))?;
    Ok(ListeningPort { address: place.address, listener, datagrams })
}
