//! iperf3 clients on the server's port: a connection with a known cookie joins its test, one with a
//! new cookie begins a test.

mod book;
pub mod follow;
pub(crate) mod intervals;
mod limits;
mod session;
pub(crate) mod streams;

pub(super) use book::Book;
pub use limits::{Iperf3Limits, RateLimit};

use super::accept::{Arrival, read_until};
use super::event::ServeEvent;
use super::{Port, Service};
use crate::iperf3::Users;
use crate::iperf3::wire::{COOKIE_BYTES, Cookie, State};
use follow::Follow;
use session::Session;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The options for iperf3 clients.
#[derive(Debug, Clone, Default)]
pub struct Iperf3Options {
    /// The authorised users; `None` treats every client as anonymous.
    pub users: Option<Users>,
    /// Send the server output as JSON instead of text.
    pub json_output: bool,
    pub limits: Iperf3Limits,
    /// The core on which streams run; `None` for any.
    pub core: Option<u16>,
    pub following: Option<Following>,
}

/// An observer of every test.
#[derive(Debug, Clone)]
pub struct Following {
    pub by: Arc<dyn Follow>,
    /// The length of an interval; `None` for one interval per test.
    pub every: Option<Duration>,
}

/// Handles a connection whose first bytes could be a cookie.
pub(super) fn welcome(service: &Service<'_>, port: &Port, arrival: Arrival<'_>, deadline: Instant) {
    let peer = arrival.peer;
    let mut cookie = Cookie([0; COOKIE_BYTES]);
    if let Err(error) = read_until(&arrival.stream, &mut cookie.0, deadline) {
        let why = format!("its cookie did not come whole: {error}");
        (service.log)(ServeEvent::Dismissed { peer, why });
        return;
    }
    let Some(options) = &service.options.iperf3 else {
        // The client prints that the server is busy, the closest message in its protocol.
        let _ = (&arrival.stream).write_all(&[State::AccessDenied.byte()]);
        (service.log)(ServeEvent::Iperf3Refused(peer));
        return;
    };
    match service.book.claim(&cookie, arrival.number, arrival.stream) {
        Ok(()) => {}
        Err(book::Unclaimed::Unknown(stream)) => {
            let arrival = Arrival { stream, ..arrival };
            Session::run((service, port), options, cookie, arrival);
        }
        Err(book::Unclaimed::Refused(mut stream, why)) => {
            let _ = stream.write_all(&[State::AccessDenied.byte()]);
            (service.log)(ServeEvent::StreamRefused { peer, why });
        }
    }
}
