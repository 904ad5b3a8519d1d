//! iperf3 clients on the server's port: a connection with a known cookie joins its test, one with a
//! new cookie begins a test.
//!
//! # Test registry
//!
//! The registry of iperf3 tests that expect data streams, by cookie or address.
//!
//! TCP streams name their test by its cookie. A UDP stream names nothing, so only its address
//! identifies it: for each address, one test at a time may open UDP streams, and others wait.

mod iperf3_session;
mod iperf3_streams;

use crate::AuthorizedUsers;
use crate::iperf3_messages::{COOKIE_BYTES, TestCookie, TestState, UdpGreeting};
use iperf3_session::Iperf3Session;
use longhaul_probe::measurement_server::{
    ConnectionKind, NewConnection, NewStream, ProtocolHandler, ServeEvent, ServerContext,
};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// The bytes that tell a cookie from other protocols: those of old versions have text only at
/// their start.
const COOKIE_START_BYTES: usize = 4;

/// The options for iperf3 clients.
#[derive(Debug, Default)]
pub struct Iperf3Options {
    /// The authorised users; `None` treats every client as anonymous.
    pub users: Option<AuthorizedUsers>,
}

/// Serves iperf3 clients on the port of a measurement server.
#[derive(Debug)]
pub struct Iperf3Handler {
    /// `None` rejects every client.
    options: Option<Iperf3Options>,
    tests: TestRegistry,
}

impl Iperf3Handler {
    /// Creates a handler; without options it rejects every client.
    pub fn new(options: Option<Iperf3Options>) -> Iperf3Handler {
        Iperf3Handler { options, tests: TestRegistry::default() }
    }
}

impl ProtocolHandler for Iperf3Handler {
    /// Recognizes a cookie: that of a test in progress, or a new one.
    fn recognize_connection(&self, first_bytes: &[u8], _peer: IpAddr) -> ConnectionKind {
        if !TestCookie::may_begin_with(&first_bytes[..first_bytes.len().min(COOKIE_START_BYTES)]) {
            return ConnectionKind::Unknown;
        }
        match first_bytes.first_chunk() {
            None => ConnectionKind::Incomplete,
            Some(cookie) if self.tests.has_test(&TestCookie(*cookie)) => ConnectionKind::Stream,
            Some(_) => ConnectionKind::Session,
        }
    }

    fn add_stream(&self, server: &ServerContext<'_>, new: NewStream) {
        let NewStream { mut stream, peer, number } = new;
        let mut cookie = TestCookie([0; COOKIE_BYTES]);
        let read = stream.read_exact(&mut cookie.0).map_err(|_| "its cookie is incomplete");
        if let Err(why) = read.and_then(|()| self.tests.claim(&cookie, number, stream)) {
            server.log(ServeEvent::StreamRefused { peer, why });
        }
    }

    fn handle_connection<'a>(
        &'a self,
        server: &'a ServerContext<'a>,
        connection: NewConnection<'a>,
    ) {
        let peer = connection.peer;
        let mut cookie = TestCookie([0; COOKIE_BYTES]);
        if let Err(error) = (&*connection.stream).read_exact(&mut cookie.0) {
            let why = format!("its cookie is incomplete: {error}");
            return server.log(ServeEvent::Dismissed { peer, why });
        }
        let Some(options) = &self.options else {
            // The client prints that the server is busy, the closest message in its protocol.
            let _ = (&*connection.stream).write_all(&[TestState::AccessDenied.byte()]);
            return server.log(ServeEvent::ProtocolRefused {
                peer,
                protocol: "iperf3",
                option: "--no-iperf3",
            });
        };
        let users = options.users.as_ref();
        Iperf3Session::run(server, &self.tests, users, cookie, connection);
    }

    /// Delivers the hello of a UDP stream. It names no session: only an expected address is
    /// answered.
    fn handle_datagram(&self, from: SocketAddr, bytes: &[u8]) -> bool {
        let greeting = UdpGreeting::from_hello(bytes);
        greeting.is_some_and(|greeting| self.tests.deliver_hello(from, greeting))
    }
}

/// A TCP connection and its number in order of arrival. Clients open them one after the other, but
/// their cookies may arrive in another order.
type JoinedStream = (u64, TcpStream);
/// The client's address of a UDP stream, and its greeting.
type UdpHello = (SocketAddr, UdpGreeting);

#[derive(Debug)]
struct ExpectedTest {
    joined: SyncSender<JoinedStream>,
    /// The number of streams that may still join.
    left: usize,
}

#[derive(Debug, Default)]
struct RegistryTables {
    tests: HashMap<TestCookie, ExpectedTest>,
    flows: HashMap<IpAddr, SyncSender<UdpHello>>,
}

/// The tests that expect streams.
#[derive(Debug, Default)]
struct TestRegistry {
    held: Mutex<RegistryTables>,
}

/// A test's registration; removed when dropped.
#[derive(Debug)]
struct TestEntry<'a> {
    book: &'a TestRegistry,
    cookie: TestCookie,
    pub joined: Receiver<JoinedStream>,
}

/// A test's turn to open UDP streams; released when dropped.
#[derive(Debug)]
struct UdpTurn<'a> {
    book: &'a TestRegistry,
    address: IpAddr,
    pub flows: Receiver<UdpHello>,
}

impl TestRegistry {
    /// Registers a test that expects up to `most` streams; `None` if its cookie is in use.
    fn register(&self, cookie: TestCookie, most: usize) -> Option<TestEntry<'_>> {
        let mut held = self.held.lock();
        if held.tests.contains_key(&cookie) {
            return None;
        }
        let (sender, joined) = sync_channel(most);
        let test = ExpectedTest { joined: sender, left: most };
        held.tests.insert(cookie, test);
        Some(TestEntry { book: self, cookie, joined })
    }

    fn has_test(&self, cookie: &TestCookie) -> bool {
        self.held.lock().tests.contains_key(cookie)
    }

    /// Delivers a data connection to its test. One too many is told so.
    fn claim(
        &self,
        cookie: &TestCookie,
        number: u64,
        mut stream: TcpStream,
    ) -> Result<(), &'static str> {
        let mut held = self.held.lock();
        let test = held.tests.get_mut(cookie).ok_or("its test is over")?;
        if test.left == 0 {
            let _ = stream.write_all(&[TestState::AccessDenied.byte()]);
            return Err("its test already has all its streams");
        }
        test.left -= 1;
        test.joined.try_send((number, stream)).map_err(|_| "its test is over")
    }

    /// Reserves the turn to open up to `most` UDP streams from `address`; `None` if it is taken.
    fn reserve_udp_turn(&self, address: IpAddr, most: usize) -> Option<UdpTurn<'_>> {
        let address = address.to_canonical();
        let mut held = self.held.lock();
        if held.flows.contains_key(&address) {
            return None;
        }
        let (sender, flows) = sync_channel(most);
        held.flows.insert(address, sender);
        Some(UdpTurn { book: self, address, flows })
    }

    /// Delivers a greeting to the test whose turn it is; false if there is none.
    pub fn deliver_hello(&self, from: SocketAddr, greeting: UdpGreeting) -> bool {
        let held = self.held.lock();
        let test = held.flows.get(&from.ip().to_canonical());
        test.is_some_and(|test| test.try_send((from, greeting)).is_ok())
    }
}

impl Drop for TestEntry<'_> {
    fn drop(&mut self) {
        self.book.held.lock().tests.remove(&self.cookie);
    }
}

impl Drop for UdpTurn<'_> {
    fn drop(&mut self) {
        self.book.held.lock().flows.remove(&self.address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_one_address_one_test_at_a_time_opens_udp_streams() {
        let book = TestRegistry::default();
        let address: SocketAddr = "[::ffff:192.0.2.1]:4000".parse().expect("an address");
        let plain: IpAddr = "192.0.2.1".parse().expect("an address");
        assert!(!book.deliver_hello(address, UdpGreeting::Text), "nobody expects it");
        let turn = book.reserve_udp_turn(plain, 1).expect("free");
        assert!(book.reserve_udp_turn(address.ip(), 1).is_none(), "taken");
        assert!(book.deliver_hello(address, UdpGreeting::Text));
        assert!(!book.deliver_hello(address, UdpGreeting::Text), "it has all it wants");
        assert_eq!(turn.flows.try_recv(), Ok((address, UdpGreeting::Text)));
        drop(turn);
        assert!(book.reserve_udp_turn(plain, 1).is_some(), "the next one's turn");
    }

    #[test]
    fn a_cookie_names_one_test_at_a_time() {
        let book = TestRegistry::default();
        let cookie = TestCookie([7; 37]);
        let entry = book.register(cookie, 1).expect("new");
        assert!(book.register(cookie, 1).is_none());
        drop(entry);
        assert!(book.register(cookie, 1).is_some());
    }
}
