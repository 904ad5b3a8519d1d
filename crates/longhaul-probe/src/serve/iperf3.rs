//! iperf3's clients on the service's port: a cookie that is known joins a data stream to its test,
//! one that is not begins a test.

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

/// How iperf3's clients are served.
#[derive(Debug, Clone, Default)]
pub struct Iperf3Options {
    /// Who is no stranger; absent: everybody is one.
    pub users: Option<Users>,
    /// The server's output as JSON instead of text.
    pub json_output: bool,
    pub limits: Iperf3Limits,
    /// The core on which streams run; absent: any.
    pub core: Option<u16>,
    pub following: Option<Following>,
}

/// Somebody who is told of every test.
#[derive(Debug, Clone)]
pub struct Following {
    pub by: Arc<dyn Follow>,
    /// How long an interval is; absent: one for the whole test.
    pub every: Option<Duration>,
}

/// One connection whose first bytes could be a cookie.
pub(super) fn welcome(service: &Service<'_>, port: &Port, arrival: Arrival<'_>, deadline: Instant) {
    let peer = arrival.peer;
    let mut cookie = Cookie([0; COOKIE_BYTES]);
    if let Err(error) = read_until(&arrival.stream, &mut cookie.0, deadline) {
        let why = format!("its cookie did not come whole: {error}");
        (service.log)(ServeEvent::Dismissed { peer, why });
        return;
    }
    let Some(options) = &service.options.iperf3 else {
        // It prints that the server is busy, which is the nearest that it knows.
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
