//! Accepts connections and recognises their protocol by the first bytes.
//!
//! `0x16` begins a TLS handshake: control. `LHD1` begins the preamble of a data stream. Text that
//! could be a cookie is iperf3.

use super::event::ServeEvent;
use super::hooks::ResponderHooks;
use super::iperf3;
use super::pending::PendingPlace;
use super::{Port, Service, WAKE, datagram};
use crate::drive::Drive;
use crate::iperf3::wire::Cookie;
use crate::secure::{Channel, Handshake, boot_proof};
use crate::session::{Admission, GREETING_TIME, Part, Session, Setup};
use crate::throughput::DEAD_PEER;
use crate::wire::{DATA_STREAM, PREAMBLE_BYTES, Preamble};
use longhaul_sys::{listen, poll, sockopt};
use std::io::{self, Read};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

/// The first byte of a TLS record with a handshake (RFC 8446, section 5.1).
const TLS_HANDSHAKE: u8 = 0x16;
/// The pause after an error of `accept`: usually descriptors have run out, and some will be closed.
const BREATH: Duration = Duration::from_millis(50);
/// The interval at which the first bytes are checked again.
const LOOK: Duration = Duration::from_millis(2);

/// A new connection of unknown protocol.
pub(super) struct Arrival<'a> {
    pub stream: TcpStream,
    pub peer: SocketAddr,
    /// Counts accepted connections.
    pub number: u64,
    pub place: PendingPlace<'a>,
}

/// Accepts connections and UDP hellos until the server stops. One thread does both, because on a
/// small host every thread that wakes up preempts a stream.
pub(super) fn listen<'scope>(
    service: &'scope Service<'_>,
    port: &'scope Port,
    scope: &'scope Scope<'scope, '_>,
) {
    let both = [port.listener.as_fd(), port.datagrams.as_fd()];
    while !service.stopping() {
        match poll::readable(both, Some(WAKE)) {
            Ok([connection, hello]) => {
                if connection {
                    accept(service, port, scope);
                }
                if hello {
                    datagram::greet(service, port);
                }
            }
            Err(error) => {
                trouble(service, "wait for connections", &error);
                thread::sleep(BREATH);
            }
        }
    }
}

fn accept<'scope>(
    service: &'scope Service<'_>,
    port: &'scope Port,
    scope: &'scope Scope<'scope, '_>,
) {
    match port.listener.accept() {
        Ok((stream, peer)) => {
            if let Err(error) = receive(service, port, scope, (stream, peer)) {
                trouble(service, "take a connection", &error);
            }
        }
        Err(error) if is_quiet(&error) => {}
        Err(error) => {
            trouble(service, "accept", &error);
            thread::sleep(BREATH);
        }
    }
}

fn is_quiet(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, Interrupted, TimedOut, WouldBlock};
    matches!(
        error.kind(),
        WouldBlock | TimedOut | Interrupted | ConnectionAborted
    )
}

fn trouble(service: &Service<'_>, tried: &'static str, error: &io::Error) {
    let why = error.to_string();
    (service.log)(ServeEvent::Trouble { tried, why });
}

fn receive<'scope>(
    service: &'scope Service<'_>,
    port: &'scope Port,
    scope: &'scope Scope<'scope, '_>,
    (stream, peer): (TcpStream, SocketAddr),
) -> io::Result<()> {
    let place = service.pending.enter(&stream)?;
    let arrival = Arrival {
        stream,
        peer,
        number: service.book.number(),
        place,
    };
    thread::Builder::new()
        .name("session".to_owned())
        .spawn_scoped(scope, move || welcome(service, port, arrival))?;
    Ok(())
}

/// The protocol of a connection.
enum Kind {
    Control,
    Data,
    Iperf3,
    Unknown,
}

fn welcome(service: &Service<'_>, port: &Port, arrival: Arrival<'_>) {
    let peer = arrival.peer;
    let deadline = Instant::now() + GREETING_TIME;
    let dismissed = |why: String| (service.log)(ServeEvent::Dismissed { peer, why });
    match first_bytes(&arrival.stream, deadline) {
        Ok(Kind::Control) => {
            if let Err(why) = control(service, port, arrival) {
                dismissed(why);
            }
        }
        Ok(Kind::Data) => {
            if let Err(why) = data(service, arrival.stream, deadline) {
                (service.log)(ServeEvent::StreamRefused { peer, why });
            }
        }
        Ok(Kind::Iperf3) => iperf3::welcome(service, port, arrival, deadline),
        Ok(Kind::Unknown) => dismissed("its first bytes are of no protocol known here".to_owned()),
        Err(error) => dismissed(format!("its first bytes did not come: {error}")),
    }
}

/// Peeks at the first bytes and leaves them in the socket.
fn first_bytes(stream: &TcpStream, deadline: Instant) -> io::Result<Kind> {
    let mut bytes = [0; DATA_STREAM.len()];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let seen = match stream.peek(&mut bytes)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => &bytes[..count],
        };
        if seen[0] == TLS_HANDSHAKE {
            return Ok(Kind::Control);
        }
        if !DATA_STREAM.starts_with(seen) {
            return Ok(if Cookie::may_begin_with(seen) {
                Kind::Iperf3
            } else {
                Kind::Unknown
            });
        }
        if seen.len() == DATA_STREAM.len() {
            return Ok(Kind::Data);
        }
        // There are fewer bytes than the magic number, and peeking does not wait for more.
        thread::sleep(LOOK);
    }
}

fn data(service: &Service<'_>, stream: TcpStream, deadline: Instant) -> Result<(), &'static str> {
    let mut bytes = [0; PREAMBLE_BYTES];
    read_until(&stream, &mut bytes, deadline).map_err(|_| "its preamble did not come in time")?;
    let preamble = Preamble::decode(&bytes, DATA_STREAM).ok_or("its preamble makes no sense")?;
    stream
        .set_read_timeout(None)
        .map_err(|_| "its socket is gone")?;
    service.registry.claim(preamble, stream)
}

/// Fills `bytes` by one deadline, which a peer cannot extend by sending single bytes.
pub(super) fn read_until(
    mut stream: &TcpStream,
    bytes: &mut [u8],
    deadline: Instant,
) -> io::Result<()> {
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
fn control(service: &Service<'_>, port: &Port, arrival: Arrival<'_>) -> Result<(), String> {
    let Arrival {
        stream,
        peer,
        place,
        ..
    } = arrival;
    let unusable = |error: io::Error| format!("its socket cannot be used: {error}");
    sockopt::set_no_delay(&stream, true).map_err(unusable)?;
    listen::notice_dead_peer(&stream, DEAD_PEER).map_err(unusable)?;
    let local = stream.local_addr().map_err(unusable)?;
    let control = stream.try_clone().map_err(unusable)?;
    let deadline = Instant::now() + GREETING_TIME;
    let channel = Channel::open(stream, Handshake::Responder(service.identity), deadline)
        .map_err(|error| error.to_string())?;
    let setup = Setup {
        token: service.token.clone(),
        exporter: *channel.exporter(),
        party: crate::own_party(),
        boot_proof: boot_proof(channel.exporter()),
        one_address: local.ip() == peer.ip(),
    };
    let admission = Admission::new(service.options.anonymous, service.options.max_streams);
    let session = Session::new(setup, Part::Responder(Box::new(admission)));
    let epoch = Instant::now();
    let mut hooks = ResponderHooks::new((service, port), (local, peer), epoch, place, control);
    let (closed, _) = Drive::new(channel, session, epoch).run(&mut hooks);
    let bytes = hooks.moved_bytes();
    // The slot is released first: a peer may use it as soon as it sees the session closed.
    drop(hooks);
    (service.log)(ServeEvent::SessionClosed {
        peer,
        reason: closed.to_string(),
        elapsed: epoch.elapsed(),
        bytes,
    });
    Ok(())
}
