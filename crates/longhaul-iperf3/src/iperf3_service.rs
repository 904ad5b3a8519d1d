//! iperf3 clients on the server's port: a connection with a known cookie joins its test, one with a
//! new cookie begins a test.

mod iperf3_session;
mod iperf3_streams;
mod test_registry;

use crate::AuthorizedUsers;
use crate::iperf3_messages::{COOKIE_BYTES, TestCookie, TestState, UdpGreeting};
use iperf3_session::Iperf3Session;
use longhaul_probe::measurement_server::{
    NewConnection, ProtocolHandler, ServeEvent, ServerContext, read_until,
};
use std::io::Write;
use std::net::SocketAddr;
use test_registry::TestRegistry;

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
    /// Returns whether the bytes could be those of a cookie.
    fn accepts_connection(&self, first_bytes: &[u8]) -> bool {
        TestCookie::may_begin_with(first_bytes)
    }

    fn handle_connection<'a>(
        &'a self,
        server: &'a ServerContext<'a>,
        connection: NewConnection<'a>,
    ) {
        let NewConnection { peer, deadline, .. } = connection;
        let mut cookie = TestCookie([0; COOKIE_BYTES]);
        if let Err(error) = read_until(&connection.stream, &mut cookie.0, deadline) {
            let why = format!("its cookie is incomplete: {error}");
            return server.log(ServeEvent::Dismissed { peer, why });
        }
        let Some(options) = &self.options else {
            // The client prints that the server is busy, the closest message in its protocol.
            let _ = (&connection.stream).write_all(&[TestState::AccessDenied.byte()]);
            return server.log(ServeEvent::ProtocolRefused {
                peer,
                protocol: "iperf3",
                option: "--no-iperf3",
            });
        };
        match self.tests.claim(&cookie, connection.number, connection.stream) {
            Ok(()) => {}
            Err(test_registry::ClaimError::Unknown(stream)) => {
                let connection = NewConnection { stream, ..connection };
                let users = options.users.as_ref();
                Iperf3Session::run(server, &self.tests, users, cookie, connection);
            }
            Err(test_registry::ClaimError::Refused(mut stream, why)) => {
                let _ = stream.write_all(&[TestState::AccessDenied.byte()]);
                server.log(ServeEvent::StreamRefused { peer, why });
            }
        }
    }

    /// Delivers the hello of a UDP stream. It names no session: only an expected address is
    /// answered.
    fn handle_datagram(&self, from: SocketAddr, bytes: &[u8]) -> bool {
        let greeting = UdpGreeting::from_hello(bytes);
        greeting.is_some_and(|greeting| self.tests.deliver_hello(from, greeting))
    }
}
