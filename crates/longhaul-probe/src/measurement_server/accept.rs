//! Accepts connections and recognises their protocol by the first bytes.
//!
//! `0x16` begins a TLS handshake: control. `LHD1` begins the preamble of a data stream. Others are
//! offered to the handlers.

use super::serve_event::ServeEvent;
use super::server_hooks::ServerHooks;
use super::stream_registry::StreamClaim;
use super::{ListeningPort, PendingSlot, STOP_POLL_INTERVAL, ServerContext};
use crate::secure::{ControlChannel, TlsHandshake, boot_proof};
use crate::session::{GREETING_TIMEOUT, Session, SessionSetup};
use crate::session_driver::SessionDriver;
use crate::throughput::DEAD_PEER_TIMEOUT;
use crate::wire::{DATA_STREAM, IntervalCounters, PREAMBLE_BYTES, StreamPreamble};
use longhaul_sys::{listening_socket, poll};
use std::io::{self, Read};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

/// The first byte of a TLS record with a handshake (RFC 8446, section 5.1).
const TLS_HANDSHAKE: u8 = 0x16;
/// The pause after an error of `accept_connection`: usually descriptors have run out, and some will be closed.
const ERROR_PAUSE: Duration = Duration::from_millis(50);
/// A timeout of zero would mean none.
const MIN_READ_TIMEOUT: Duration = Duration::from_millis(1);

/// A new connection of unknown protocol.
pub struct NewConnection<'a> {
    pub stream: TcpStream,
    pub peer: SocketAddr,
    /// The port that it was accepted on.
    pub port: u16,
    /// Counts accepted connections.
    pub number: u64,
    /// The time by which the first message must have arrived.
    pub deadline: Instant,
    /// To be kept until the peer is admitted or proves that it knows the token.
    pub pending: PendingSlot<'a>,
}

/// Accepts connections and UDP hellos until the server stops. One thread does both, because on a
/// small host every thread that wakes up preempts a stream.
pub(super) fn accept_connections<'scope>(
    service: &'scope ServerContext<'_>,
    port: &'scope ListeningPort,
    scope: &'scope Scope<'scope, '_>,
) {
    let both = [port.listener.as_fd(), port.datagrams.as_fd()];
    while !service.is_stopping() {
        service.log_omitted_events();
        match poll::wait_readable(both, Some(STOP_POLL_INTERVAL)) {
            Ok([connection, hello]) => {
                if connection {
                    accept_connection(service, port, scope);
                }
                if hello {
                    super::receive_hello(service, port);
                }
            }
            Err(error) => {
                log_error(service, "wait for connections", &error);
                thread::sleep(ERROR_PAUSE);
            }
        }
    }
}

fn accept_connection<'scope>(
    service: &'scope ServerContext<'_>,
    port: &'scope ListeningPort,
    scope: &'scope Scope<'scope, '_>,
) {
    match port.listener.accept() {
        Ok((stream, peer)) => {
            if let Err(error) = spawn_connection(service, port, scope, stream, peer) {
                log_error(service, "handle a connection", &error);
            }
        }
        Err(error) if is_transient_error(&error) => {}
        Err(error) => {
            log_error(service, "accept a connection", &error);
            thread::sleep(ERROR_PAUSE);
        }
    }
}

fn is_transient_error(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted | ConnectionAborted)
}

fn log_error(service: &ServerContext<'_>, tried: &'static str, error: &io::Error) {
    let why = error.to_string();
    service.log(ServeEvent::Trouble { tried, why });
}

fn spawn_connection<'scope>(
    service: &'scope ServerContext<'_>,
    port: &'scope ListeningPort,
    scope: &'scope Scope<'scope, '_>,
    stream: TcpStream,
    peer: SocketAddr,
) -> io::Result<()> {
    let place = service.pending.register(&stream)?;
    let arrival = NewConnection {
        stream,
        peer,
        port: port.address.port(),
        number: service.arrivals.fetch_add(1, Ordering::Relaxed),
        deadline: Instant::now() + GREETING_TIMEOUT,
        pending: place,
    };
    thread::Builder::new()
        .name("session".to_owned())
        .spawn_scoped(scope, move || dispatch_connection(service, arrival))?;
    Ok(())
}

fn dispatch_connection<'a>(service: &'a ServerContext<'a>, arrival: NewConnection<'a>) {
    let NewConnection { peer, deadline, .. } = arrival;
    let dismissed = |why: String| service.log(ServeEvent::Dismissed { peer, why });
    let mut bytes = [0; DATA_STREAM.len()];
    if let Err(error) = peek_first_bytes(&arrival.stream, &mut bytes, deadline) {
        return dismissed(format!("its first bytes did not arrive: {error}"));
    }
    let seen = bytes.as_slice();
    if seen[0] == TLS_HANDSHAKE {
        if let Err(why) = handle_control(service, arrival) {
            dismissed(why);
        }
    } else if seen == DATA_STREAM {
        if let Err(why) = handle_data_stream(service, arrival.stream, deadline) {
            service.log(ServeEvent::StreamRefused { peer, why });
        }
    } else {
        let mut handlers = service.options.handlers.iter();
        match handlers.find(|handler| handler.accepts_connection(seen)) {
            Some(handler) => handler.handle_connection(service, arrival),
            None => dismissed("it uses an unknown protocol".to_owned()),
        }
    }
}

/// Peeks at the first bytes and leaves them in the socket. Waits in the kernel for all of them.
fn peek_first_bytes(
    stream: &TcpStream,
    bytes: &mut [u8; DATA_STREAM.len()],
    deadline: Instant,
) -> io::Result<()> {
    let left = deadline.saturating_duration_since(Instant::now());
    stream.set_read_timeout(Some(left.max(MIN_READ_TIMEOUT)))?;
    match listening_socket::peek_bytes(stream, bytes)? {
        count if count == bytes.len() => Ok(()),
        _ if Instant::now() < deadline => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Err(io::ErrorKind::TimedOut.into()),
    }
}

fn handle_data_stream(
    service: &ServerContext<'_>,
    stream: TcpStream,
    deadline: Instant,
) -> Result<(), &'static str> {
    let mut bytes = [0; PREAMBLE_BYTES];
    read_until(&stream, &mut bytes, deadline).map_err(|_| "its preamble did not arrive in time")?;
    let preamble = StreamPreamble::decode(&bytes, DATA_STREAM).ok_or("its preamble is invalid")?;
    stream.set_read_timeout(None).map_err(|_| "its socket is closed")?;
    service.registry.claim(StreamClaim::Connection(preamble, stream))
}

/// Fills `bytes` by one deadline, which a peer cannot extend by sending single bytes.
pub fn read_until(mut stream: &TcpStream, bytes: &mut [u8], deadline: Instant) -> io::Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut bytes[filled..])? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => filled += count,
        }
    }
    Ok(())
}

/// Handles one control connection from the handshake to its close.
fn handle_control<'a>(
    service: &'a ServerContext<'a>,
    arrival: NewConnection<'a>,
) -> Result<(), String> {
    let NewConnection { stream, peer, port, deadline, pending, .. } = arrival;
    let unusable = |error: io::Error| format!("cannot use its socket: {error}");
    stream.set_nodelay(true).map_err(unusable)?;
    listening_socket::set_dead_peer_timeout(&stream, DEAD_PEER_TIMEOUT).map_err(unusable)?;
    // The interface of a link-local address stays in it.
    let mut local = stream.local_addr().map_err(unusable)?;
    local.set_port(port);
    let control = stream.try_clone().map_err(unusable)?;
    let channel = ControlChannel::open(stream, TlsHandshake::Server(service.identity), deadline)
        .map_err(|error| error.to_string())?;
    let setup = SessionSetup {
        token: service.token.clone(),
        exporter: *channel.exporter(),
        party: crate::local_party_info(),
        boot_proof: boot_proof(channel.exporter()),
        same_address: local.ip() == peer.ip(),
    };
    let options = service.options;
    let session = Session::server(setup, options.anonymous, options.max_streams);
    let epoch = Instant::now();
    let mut hooks = ServerHooks {
        service,
        local,
        peer,
        epoch,
        pending: Some(pending),
        run: None,
        handlers: Vec::new(),
        probes: None,
        control: Some(control),
        moved: IntervalCounters::default(),
        log_lines: Vec::new(),
    };
    let (closed, _) = SessionDriver::new(channel, session, epoch).run(&mut hooks);
    let bytes = hooks.moved_bytes();
    let opened = hooks.run.is_some() || hooks.probes.is_some();
    // The slot is released first: a peer may use it as soon as it sees the session closed.
    drop(hooks);
    service.log(ServeEvent::SessionClosed {
        peer,
        reason: closed.to_string(),
        elapsed: epoch.elapsed(),
        bytes,
        opened,
    });
    Ok(())
}
