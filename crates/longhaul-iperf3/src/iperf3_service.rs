//! iperf3 clients on the server's port: a connection with a known cookie joins its test, one with a
//! new cookie begins a test.

pub(crate) mod interval_tracker;
mod iperf3_limits;
mod iperf3_session;
pub(crate) mod iperf3_streams;
pub mod server_observer;
mod test_registry;

pub use iperf3_limits::{Iperf3Limits, RateLimit};
pub(super) use test_registry::TestRegistry;

use super::accept::{NewConnection, read_until};
use super::serve_event::ServeEvent;
use super::{ListeningPort, ServerContext};
use crate::iperf3::AuthorizedUsers;
use crate::iperf3::iperf3_messages::{COOKIE_BYTES, TestCookie, TestState};
use iperf3_session::Iperf3Session;
use server_observer::ServerTestObserver;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The options for iperf3 clients.
#[derive(Debug, Clone, Default)]
pub struct Iperf3Options {
    /// The authorised users; `None` treats every client as anonymous.
    pub users: Option<AuthorizedUsers>,
    /// Send the server output as JSON instead of text.
    pub json_output: bool,
    pub limits: Iperf3Limits,
    /// The core on which streams run; `None` for any.
    pub core: Option<u16>,
    pub observer: Option<ServerObserverConfig>,
}

/// An observer of every test.
#[derive(Debug, Clone)]
pub struct ServerObserverConfig {
    pub observer: Arc<dyn ServerTestObserver>,
    /// The length of an interval; `None` for one interval per test.
    pub interval: Option<Duration>,
}

/// Handles a connection whose first bytes could be a cookie.
pub(super) fn handle_connection(
    service: &ServerContext<'_>,
    port: &ListeningPort,
    arrival: NewConnection<'_>,
    deadline: Instant,
) {
    let peer = arrival.peer;
    let mut cookie = TestCookie([0; COOKIE_BYTES]);
    if let Err(error) = read_until(&arrival.stream, &mut cookie.0, deadline) {
        let why = format!("its cookie is incomplete: {error}");
        (service.log)(ServeEvent::Dismissed { peer, why });
        return;
    }
    let Some(options) = &service.options.iperf3 else {
        // The client prints that the server is busy, the closest message in its protocol.
        let _ = (&arrival.stream).write_all(&[TestState::AccessDenied.byte()]);
        (service.log)(ServeEvent::Iperf3Refused(peer));
        return;
    };
    match service
        .iperf3_tests
        .claim(&cookie, arrival.number, arrival.stream)
    {
        Ok(()) => {}
        Err(test_registry::ClaimError::Unknown(stream)) => {
            let arrival = NewConnection { stream, ..arrival };
            Iperf3Session::run((service, port), options, cookie, arrival);
        }
        Err(test_registry::ClaimError::Refused(mut stream, why)) => {
            let _ = stream.write_all(&[TestState::AccessDenied.byte()]);
            (service.log)(ServeEvent::StreamRefused { peer, why });
        }
    }
}
