//! The thread that accepts connections and reads the UDP hellos. It waits for events only, and never
//! for one peer.
//!
//! A connection that has said what it is becomes a data stream of its session at once, or gets a
//! place and a thread when [`AdmissionTable`] decides so.

use super::admission_table::{AdmissionLimits, AdmissionStep, AdmissionTable};
use super::first_bytes::{FirstBytes, MAX_FIRST_BYTES, SessionProtocol, recognize_first_bytes};
use super::serve_event::ServeEvent;
use super::server_hooks::ServerHooks;
use super::source_prefix::SourcePrefix;
use super::stream_registry::StreamClaim;
use super::{ListeningPort, NewStream, STOP_POLL_INTERVAL, ServerContext};
use crate::secure::{ControlChannel, TlsHandshake, boot_proof, has_ticket};
use crate::session::{GREETING_TIMEOUT, Session, SessionSetup};
use crate::session_driver::SessionDriver;
use crate::wire::{DATA_STREAM, IntervalCounters, PREAMBLE_BYTES, StreamPreamble};
use longhaul_sys::{listening_socket, tcp_info};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io::{self, Read};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Weak};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

/// The pause after an error of `accept`: usually descriptors have run out, and some will be closed.
const ERROR_PAUSE: Duration = Duration::from_millis(50);
/// The interval at which connections that have waited too long are closed.
const EXPIRY_INTERVAL: Duration = Duration::from_millis(100);
/// The maximum number of connections, and of datagrams, that are taken before others are looked at.
const MAX_TAKEN_AT_ONCE: usize = 64;
/// The maximum number of events in which the first bytes may arrive.
const MAX_PIECES: u32 = 64;
/// The token of the waker; those of listeners, sockets and connections follow.
const WAKER: Token = Token(0);

/// A new connection of one of the server's protocols. Nothing has been read from it.
pub struct NewConnection<'a> {
    pub stream: Arc<TcpStream>,
    pub peer: SocketAddr,
    /// The port that it was accepted on.
    pub port: u16,
    /// The time by which the next message must have arrived.
    pub deadline: Instant,
    /// To be kept until the peer is admitted.
    pub place: AdmissionPlace<'a>,
}

/// A connection's place among those that have proved nothing; released when dropped.
#[derive(Debug)]
pub struct AdmissionPlace<'a> {
    released: &'a ReleasedPlaces,
    number: u64,
}

/// The places that were released since the accepting thread last looked.
#[derive(Debug)]
pub(super) struct ReleasedPlaces {
    numbers: Mutex<Vec<u64>>,
    waker: Waker,
}

impl ReleasedPlaces {
    /// Creates the list; `poll` is woken when it grows.
    pub fn new(poll: &Poll) -> io::Result<ReleasedPlaces> {
        let waker = Waker::new(poll.registry(), WAKER)?;
        Ok(ReleasedPlaces { numbers: Mutex::default(), waker })
    }
}

impl Drop for AdmissionPlace<'_> {
    fn drop(&mut self) {
        self.released.numbers.lock().push(self.number);
        // An error only means that the place is free a little later.
        let _ = self.released.waker.wake();
    }
}

/// A connection without a place.
struct WaitingConnection<'a> {
    stream: TcpStream,
    peer: SocketAddr,
    port: u16,
    /// The number of events in which first bytes have arrived.
    pieces: u32,
    /// Set when the first bytes are complete.
    protocol: Option<SessionProtocol<'a>>,
}

/// The state of the accepting thread.
pub(super) struct ConnectionAcceptor<'scope, 'env> {
    service: &'scope ServerContext<'scope>,
    ports: &'scope [ListeningPort],
    scope: &'scope Scope<'scope, 'env>,
    poll: Poll,
    table: AdmissionTable,
    waiting: HashMap<u64, WaitingConnection<'scope>>,
    /// The connections with a place, to be shut down in favour of others.
    placed: HashMap<u64, Weak<TcpStream>>,
    arrivals: u64,
    /// After an error, no connection is accepted before this time.
    accepts_from: Instant,
    expires_at: Instant,
}

impl<'scope, 'env> ConnectionAcceptor<'scope, 'env> {
    pub fn new(
        service: &'scope ServerContext<'scope>,
        ports: &'scope [ListeningPort],
        scope: &'scope Scope<'scope, 'env>,
        poll: Poll,
    ) -> Self {
        let limits = AdmissionLimits::for_sessions(service.options.max_sessions);
        ConnectionAcceptor {
            service,
            ports,
            scope,
            poll,
            table: AdmissionTable::new(limits),
            waiting: HashMap::new(),
            placed: HashMap::new(),
            arrivals: 0,
            accepts_from: service.epoch,
            expires_at: service.epoch,
        }
    }

    /// Accepts connections and datagrams until the server stops.
    pub fn run(mut self) -> io::Result<()> {
        for (place, port) in self.ports.iter().enumerate() {
            self.watch(&port.listener, Token(1 + 2 * place))?;
            self.watch(&port.datagrams, Token(2 + 2 * place))?;
        }
        let mut events = Events::with_capacity(256);
        let mut timeout = STOP_POLL_INTERVAL;
        while !self.service.is_stopping() {
            match self.poll.poll(&mut events, Some(timeout)) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            for event in &events {
                let first = 1 + 2 * self.ports.len();
                if let Some(number) = event.token().0.checked_sub(first) {
                    self.look_at(number as u64, event.is_read_closed());
                }
            }
            let has_more = self.take_arrivals();
            self.take_released_places();
            let wait = self.take_steps();
            self.close_expired();
            timeout = if has_more { Duration::ZERO } else { wait };
        }
        Ok(())
    }

    fn watch(&self, socket: &impl AsRawFd, token: Token) -> io::Result<()> {
        self.poll.registry().register(&mut SourceFd(&socket.as_raw_fd()), token, Interest::READABLE)
    }

    fn unwatch(&self, stream: &TcpStream) {
        // An error only means that it is not watched.
        let _ = self.poll.registry().deregister(&mut SourceFd(&stream.as_raw_fd()));
    }

    /// Accepts what has arrived on all ports; returns whether there may be more.
    fn take_arrivals(&mut self) -> bool {
        let mut has_more = false;
        let ports = self.ports;
        for port in ports {
            if Instant::now() >= self.accepts_from {
                has_more |= (0..MAX_TAKEN_AT_ONCE).all(|_| self.accept_from(port));
            }
            let service = self.service;
            has_more |= (0..MAX_TAKEN_AT_ONCE).all(|_| super::receive_hello(service, port));
        }
        has_more
    }

    /// Accepts a connection; returns whether there may be more.
    fn accept_from(&mut self, port: &ListeningPort) -> bool {
        match port.listener.accept() {
            Ok((stream, peer)) => {
                if let Err(error) = self.add_connection(stream, peer, port.address.port()) {
                    self.log_error("watch a connection", &error);
                }
                true
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
            Err(error) if is_transient_error(&error) => true,
            Err(error) => {
                self.log_error("accept a connection", &error);
                self.accepts_from = Instant::now() + ERROR_PAUSE;
                false
            }
        }
    }

    fn add_connection(&mut self, stream: TcpStream, peer: SocketAddr, port: u16) -> io::Result<()> {
        let number = self.arrivals;
        self.watch(&stream, Token(1 + 2 * self.ports.len() + number as usize))?;
        self.arrivals += 1;
        let connection = WaitingConnection { stream, peer, port, pieces: 0, protocol: None };
        self.waiting.insert(number, connection);
        let source = SourcePrefix::from(peer.ip());
        let crowded_out = self.table.add_connection(self.service.epoch.elapsed(), number, source);
        self.close_crowded_out(crowded_out);
        Ok(())
    }

    fn close_crowded_out(&mut self, number: Option<u64>) {
        if let Some(number) = number {
            self.dismiss(number, "too many connections of its network wait".to_owned());
        }
    }

    /// Closes a connection without a place.
    fn dismiss(&mut self, number: u64, why: String) {
        self.table.remove(number);
        if let Some(WaitingConnection { stream, peer, .. }) = self.waiting.remove(&number) {
            listening_socket::reset_on_close(&stream);
            self.service.log(ServeEvent::Dismissed { peer, why });
        }
    }

    /// Looks at the first bytes of a connection.
    fn look_at(&mut self, number: u64, is_read_closed: bool) {
        let Some(connection) = self.waiting.get_mut(&number) else {
            return;
        };
        if connection.protocol.is_some() {
            return;
        }
        connection.pieces += 1;
        let missing = |error: io::Error| format!("its first bytes did not arrive: {error}");
        let mut bytes = [0; MAX_FIRST_BYTES];
        let count = match listening_socket::peek_bytes(&connection.stream, &mut bytes) {
            Ok(0) => return self.dismiss(number, missing(io::ErrorKind::UnexpectedEof.into())),
            Ok(count) => count,
            Err(error) if is_transient_error(&error) => return,
            Err(error) => return self.dismiss(number, missing(error)),
        };
        let bytes = &bytes[..count];
        let peer = connection.peer.ip();
        match recognize_first_bytes(&self.service.options.handlers, bytes, peer) {
            FirstBytes::Incomplete if is_read_closed => {
                self.dismiss(number, missing(io::ErrorKind::UnexpectedEof.into()));
            }
            FirstBytes::Incomplete if connection.pieces >= MAX_PIECES => {
                self.dismiss(number, "its first bytes arrive in too many pieces".to_owned());
            }
            FirstBytes::Incomplete => {}
            FirstBytes::Unknown(why) => self.dismiss(number, why.to_owned()),
            FirstBytes::Stream(Some(handler)) => {
                self.hand_over(number, |service, stream| handler.add_stream(service, stream));
            }
            FirstBytes::Stream(None) => self.hand_over(number, claim_stream),
            FirstBytes::Session(protocol) => {
                let token = self.service.token.as_ref();
                let is_control = matches!(protocol, SessionProtocol::Longhaul);
                let has_ticket = is_control && token.is_some_and(|it| has_ticket(it, bytes));
                self.set_ready(number, protocol, has_ticket);
            }
        }
    }

    /// Hands a data stream to its session.
    fn hand_over(&mut self, number: u64, take: impl FnOnce(&ServerContext<'_>, NewStream)) {
        self.table.remove(number);
        if let Some(WaitingConnection { stream, peer, .. }) = self.waiting.remove(&number) {
            self.unwatch(&stream);
            take(self.service, NewStream { stream, peer, number });
        }
    }

    fn set_ready(&mut self, number: u64, protocol: SessionProtocol<'scope>, has_ticket: bool) {
        let Some(connection) = self.waiting.get_mut(&number) else {
            return;
        };
        connection.protocol = Some(protocol);
        let info = tcp_info::read_tcp_info(&connection.stream);
        let rtt = info.map_or(Duration::ZERO, |info| info.rtt());
        let now = self.service.epoch.elapsed();
        let crowded_out = self.table.set_ready(now, number, has_ticket, rtt);
        self.close_crowded_out(crowded_out);
    }

    fn take_released_places(&mut self) {
        let released = std::mem::take(&mut *self.service.released.numbers.lock());
        for number in released {
            self.table.remove(number);
            self.placed.remove(&number);
        }
    }

    /// Begins sessions and shuts others down for them; returns the time until the next look.
    fn take_steps(&mut self) -> Duration {
        loop {
            match self.table.next_step(self.service.epoch.elapsed()) {
                AdmissionStep::Begin(number) => self.begin_session(number),
                AdmissionStep::ShutDown(number) => {
                    if let Some(stream) = self.placed.get(&number).and_then(Weak::upgrade) {
                        // The socket may already be closed.
                        let _ = stream.shutdown(Shutdown::Both);
                    }
                }
                AdmissionStep::Wait(time) => {
                    return time.unwrap_or(STOP_POLL_INTERVAL).min(STOP_POLL_INTERVAL);
                }
            }
        }
    }

    fn begin_session(&mut self, number: u64) {
        let place = AdmissionPlace { released: &self.service.released, number };
        let Some(WaitingConnection { stream, peer, port, protocol: Some(protocol), .. }) =
            self.waiting.remove(&number)
        else {
            return;
        };
        self.unwatch(&stream);
        let stream = Arc::new(stream);
        self.placed.insert(number, Arc::downgrade(&stream));
        let deadline = Instant::now() + GREETING_TIMEOUT;
        let connection = NewConnection { stream, peer, port, deadline, place };
        let service = self.service;
        let session = move || match protocol {
            SessionProtocol::Longhaul => handle_control(service, connection),
            SessionProtocol::Other(handler) => handler.handle_connection(service, connection),
        };
        let thread = thread::Builder::new().name("session".to_owned());
        if let Err(error) = thread.spawn_scoped(self.scope, session) {
            self.log_error("start a session", &error);
        }
    }

    fn close_expired(&mut self) {
        if Instant::now() < self.expires_at {
            return;
        }
        self.expires_at = Instant::now() + EXPIRY_INTERVAL;
        for number in self.table.take_expired(self.service.epoch.elapsed()) {
            let is_ready = self.waiting.get(&number).is_some_and(|it| it.protocol.is_some());
            let missing =
                if is_ready { "no place became free" } else { "its first bytes did not arrive" };
            self.dismiss(number, format!("{missing} in time"));
        }
        self.service.log_omitted_events();
    }

    fn log_error(&self, tried: &'static str, error: &io::Error) {
        self.service.log(ServeEvent::Trouble { tried, why: error.to_string() });
    }
}

fn is_transient_error(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
    matches!(error.kind(), WouldBlock | Interrupted | ConnectionAborted)
}

/// Delivers a data stream whose preamble has arrived.
fn claim_stream(service: &ServerContext<'_>, new: NewStream) {
    let NewStream { stream, peer, .. } = new;
    let mut bytes = [0; PREAMBLE_BYTES];
    let read = (&stream).read_exact(&mut bytes).ok();
    let preamble = read.and_then(|()| StreamPreamble::decode(&bytes, DATA_STREAM));
    let claimed = preamble
        .ok_or("its preamble is invalid")
        .and_then(|preamble| service.registry.claim(StreamClaim::Connection(preamble, stream)));
    if let Err(why) = claimed {
        service.log(ServeEvent::StreamRefused { peer, why });
    }
}

/// Handles one control connection from the handshake to its close.
fn handle_control<'a>(service: &'a ServerContext<'a>, connection: NewConnection<'a>) {
    let peer = connection.peer;
    if let Err(why) = serve_control(service, connection) {
        service.log(ServeEvent::Dismissed { peer, why });
    }
}

fn serve_control<'a>(
    service: &'a ServerContext<'a>,
    connection: NewConnection<'a>,
) -> Result<(), String> {
    let NewConnection { stream, peer, port, deadline, place } = connection;
    let unusable = |error: io::Error| format!("cannot use its socket: {error}");
    listening_socket::prepare_control_socket(&stream).map_err(unusable)?;
    // The interface of a link-local address stays in it.
    let mut local = stream.local_addr().map_err(unusable)?;
    local.set_port(port);
    let control = Arc::clone(&stream);
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
        place: Some(place),
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
