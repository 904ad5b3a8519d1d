//! The far end: answers runs on one TCP port and the UDP port of the same number.
//!
//! Every session has a thread of its own, so that one peer never waits for another; whoever has
//! not yet proved anything is bounded in number and in time, and the oldest of them gives way.
//! Safe by default: strangers get what [`AnonymousLimits`] says, and UDP goes only to an address
//! that has shown the session's nonce.

mod accept;
mod datagram;
mod detach;
mod event;
mod files;
mod hooks;
pub(crate) mod iperf3;
mod journal;
mod pending;
mod probes;
mod registry;
mod slots;

pub use crate::transfer::FilesRoot;
pub use crate::wire::AnonymousLimits;
pub use detach::{Detached, detach};
pub use event::ServeEvent;
pub use iperf3::{Following, Iperf3Limits, Iperf3Options, RateLimit, follow};

use crate::error::ServeError;
use crate::limits::MOST_STREAMS;
use crate::secure::{TlsIdentity, Token};
use longhaul_sys::listen::{self, Place};
use pending::Pending;
use registry::Registry;
use slots::Slots;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long a stop may go unnoticed.
const WAKE: Duration = Duration::from_millis(250);

/// How to serve.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// Empty: every address of this host, both families.
    pub addresses: Vec<IpAddr>,
    /// 0: any free one; see [`Responder::addresses`].
    pub port: u16,
    /// Only this interface.
    pub device: Option<String>,
    pub token: Option<String>,
    /// What a peer without the token may ask; absent: nothing. Without a token of one's own
    /// everybody is a stranger.
    pub anonymous: Option<AnonymousLimits>,
    /// Sessions at one time, all peers together.
    pub max_sessions: u32,
    /// Streams of one session in each direction.
    pub max_streams: u32,
    /// Peers that ask for it get a capture of their own streams.
    pub captures: bool,
    /// Folders whose files peers may copy; none: no file is read or written for anybody.
    pub files: Vec<FilesRoot>,
    /// Absent: iperf3's clients are turned away.
    pub iperf3: Option<Iperf3Options>,
    /// How this program was called, without secrets; told to every peer of a run.
    pub command: Option<String>,
}

impl Default for ServeOptions {
    /// Everybody may measure within the anonymous limits, on the usual port.
    fn default() -> Self {
        ServeOptions {
            addresses: Vec::new(),
            port: crate::DEFAULT_PORT,
            device: None,
            token: None,
            anonymous: Some(AnonymousLimits::default()),
            max_sessions: 32,
            max_streams: MOST_STREAMS,
            captures: true,
            files: Vec::new(),
            iperf3: Some(Iperf3Options::default()),
            command: None,
        }
    }
}

/// Listens, and answers until `stop` is set.
///
/// `log` is called from many threads. Returns within about a second of `stop`, sessions included.
///
/// # Errors
/// The port is taken, or a listener cannot be made; a session never ends the service.
pub fn serve(
    options: ServeOptions,
    log: impl Fn(ServeEvent) + Send + Sync,
    stop: &AtomicBool,
) -> Result<(), ServeError> {
    Responder::bind(options)?.run(log, stop)
}

/// A far end that listens already.
#[derive(Debug)]
pub struct Responder {
    options: ServeOptions,
    token: Option<Token>,
    identity: TlsIdentity,
    ports: Vec<Port>,
}

/// One address: a listener and the UDP socket beside it.
#[derive(Debug)]
struct Port {
    address: SocketAddr,
    listener: TcpListener,
    datagrams: UdpSocket,
}

/// What all threads of the service share.
struct Service<'a> {
    options: &'a ServeOptions,
    token: Option<Token>,
    identity: &'a TlsIdentity,
    log: &'a (dyn Fn(ServeEvent) + Send + Sync),
    stop: &'a AtomicBool,
    pending: Pending,
    registry: Registry,
    /// The same for iperf3's.
    book: iperf3::Book,
    slots: Slots,
    /// Sessions of probes go beside bulk runs: they are light, and watch them.
    probe_slots: Slots,
}

impl Service<'_> {
    fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl Responder {
    /// Opens the listeners and makes the certificate.
    pub fn bind(options: ServeOptions) -> Result<Responder, ServeError> {
        let token = options.token.as_deref().and_then(Token::new);
        if token.is_none() && options.token.is_some() {
            return Err(ServeError::EmptyToken);
        }
        let identity = TlsIdentity::generate()?;
        let ports = open_ports(&options)?;
        Ok(Responder {
            options,
            token,
            identity,
            ports,
        })
    }

    /// Where it listens.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.ports.iter().map(|port| port.address).collect()
    }

    /// Answers until `stop` is set; see [`serve`].
    pub fn run(
        self,
        log: impl Fn(ServeEvent) + Send + Sync,
        stop: &AtomicBool,
    ) -> Result<(), ServeError> {
        let service = Service {
            options: &self.options,
            token: self.token.clone(),
            identity: &self.identity,
            log: &log,
            stop,
            pending: Pending::default(),
            registry: Registry::default(),
            book: iperf3::Book::default(),
            slots: Slots::new(self.options.max_sessions),
            probe_slots: Slots::new(self.options.max_sessions),
        };
        if self.token.as_ref().is_some_and(Token::is_guessable) {
            log(ServeEvent::TokenGuessable);
        }
        std::thread::scope(|scope| {
            let mut result = Ok(());
            for port in &self.ports {
                log(ServeEvent::Listening(port.address));
                let service = &service;
                let started = std::thread::Builder::new()
                    .name("listen".to_owned())
                    .spawn_scoped(scope, move || accept::listen(service, port, scope));
                if let Err(source) = started {
                    stop.store(true, Ordering::Relaxed);
                    result = Err(ServeError::Thread(source));
                }
            }
            result
        })
    }
}

fn open_ports(options: &ServeOptions) -> Result<Vec<Port>, ServeError> {
    if !options.addresses.is_empty() {
        let open = |address: &IpAddr| open_port(options, *address, false);
        return options.addresses.iter().map(open).collect();
    }
    let any = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    match open_port(options, any, true) {
        // A kernel without IPv6.
        Err(ServeError::Listen { source, .. })
            if matches!(
                source.kind(),
                io::ErrorKind::Unsupported | io::ErrorKind::AddrNotAvailable
            ) || source.raw_os_error() == Some(NO_SUCH_FAMILY) =>
        {
            Ok(vec![open_port(
                options,
                IpAddr::V4(Ipv4Addr::UNSPECIFIED),
                false,
            )?])
        }
        other => Ok(vec![other?]),
    }
}

/// EAFNOSUPPORT of Linux, for which the standard library has no stable kind.
const NO_SUCH_FAMILY: i32 = 97;

fn open_port(
    options: &ServeOptions,
    address: IpAddr,
    both_families: bool,
) -> Result<Port, ServeError> {
    let mut place = Place {
        address: SocketAddr::new(address, options.port),
        both_families,
        device: options.device.as_deref(),
    };
    let failed = |protocol, address| {
        move |source| ServeError::Listen {
            protocol,
            address,
            source,
        }
    };
    let listener = listen::tcp(&place, WAKE).map_err(failed("TCP", place.address))?;
    place.address = listener
        .local_addr()
        .map_err(failed("TCP", place.address))?;
    let datagrams = listen::udp(&place).map_err(failed("UDP", place.address))?;
    datagrams
        .set_read_timeout(Some(WAKE))
        .map_err(failed("UDP", place.address))?;
    Ok(Port {
        address: place.address,
        listener,
        datagrams,
    })
}
