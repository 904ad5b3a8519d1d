//! One test of an iperf3 client on its control connection: moves bytes between the connection and
//! the state machine, and carries out its actions.

mod admission;
mod ending;

use super::Iperf3Options;
use super::follow::FollowTest;
use super::limits::Metered;
use super::streams::{Awaited, Flowing};
use crate::drive::CALM_POLL;
use crate::iperf3::server::{Action, Closed, Input, Server, Step};
use crate::iperf3::wire::{Cookie, Parameters, Test};
use crate::limits::LONGEST_US;
use crate::serve::accept::Arrival;
use crate::serve::event::ServeEvent;
use crate::serve::pending::PendingPlace;
use crate::serve::slots::Slot;
use crate::serve::{AnonymousLimits, Port, Service};
use crate::throughput::DEAD_PEER;
use longhaul_model::report::v1::plan::Plan;
use longhaul_sys::{listen, sockopt, tcp_info};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// The poll intervals of the streams while they open, and while their bytes are counted for a limit
/// or the last ones are awaited.
const OPENING_POLL: Duration = Duration::from_millis(2);
const COUNTING_POLL: Duration = Duration::from_millis(10);
/// The poll interval in other steps (is the server being stopped?).
const IDLE_POLL: Duration = Duration::from_millis(100);
/// The timeout of a write to the client.
const WRITE_TIME: Duration = Duration::from_secs(10);

/// An admitted test.
struct Granted<'a> {
    test: Test,
    plan: Plan,
    awaited: Option<Awaited<'a>>,
    metered: Option<Metered<'a>>,
    _slot: Slot<'a>,
}

pub(super) struct Session<'a> {
    service: &'a Service<'a>,
    port: &'a Port,
    options: &'a Iperf3Options,
    cookie: Cookie,
    stream: TcpStream,
    local: SocketAddr,
    peer: SocketAddr,
    epoch: Instant,
    idle_rtt: Duration,
    server: Server,
    pending: Option<PendingPlace<'a>>,
    /// A UDP test that waits for its turn.
    waiting: Option<Box<(Parameters, Test)>>,
    granted: Option<Granted<'a>>,
    flowing: Option<Flowing<'a>>,
    follower: Option<Box<dyn FollowTest>>,
    moved: u64,
    closed: Option<Closed>,
}

impl<'a> Session<'a> {
    /// Runs the session, beginning after the cookie.
    pub fn run(
        (service, port): (&'a Service<'a>, &'a Port),
        options: &'a Iperf3Options,
        cookie: Cookie,
        arrival: Arrival<'a>,
    ) {
        let peer = arrival.peer;
        match Session::new((service, port), options, cookie, arrival) {
            Ok(session) => session.drive(),
            Err(error) => {
                let why = format!("its socket cannot be used: {error}");
                (service.log)(ServeEvent::Dismissed { peer, why });
            }
        }
    }

    fn new(
        (service, port): (&'a Service<'a>, &'a Port),
        options: &'a Iperf3Options,
        cookie: Cookie,
        arrival: Arrival<'a>,
    ) -> io::Result<Session<'a>> {
        let stream = arrival.stream;
        sockopt::set_no_delay(&stream, true)?;
        listen::notice_dead_peer(&stream, DEAD_PEER)?;
        stream.set_write_timeout(Some(WRITE_TIME))?;
        let most = strangers(service, options);
        let longest = match (options.limits.longest, most) {
            (Some(longest), _) => longest,
            (None, Some(most)) => Duration::from_secs(most.seconds),
            (None, None) => Duration::from_micros(LONGEST_US),
        };
        let mut server = Server::new(longest, most.and_then(|most| most.bytes));
        if let Some(silence) = options.limits.silence {
            server = server.with_silence(silence);
        }
        Ok(Session {
            service,
            port,
            options,
            cookie,
            local: stream.local_addr()?,
            peer: arrival.peer,
            epoch: Instant::now(),
            idle_rtt: tcp_info::read(&stream).map_or(Duration::ZERO, |info| info.rtt),
            stream,
            server,
            pending: Some(arrival.place),
            waiting: None,
            granted: None,
            flowing: None,
            follower: None,
            moved: 0,
            closed: None,
        })
    }

    fn drive(mut self) {
        self.feed(Input::Start);
        let mut bytes = [0; 4096];
        while self.closed.is_none() {
            self.listen(&mut bytes);
            self.poll();
            self.feed(Input::Tick);
        }
        self.leave();
    }

    /// Reads from the client until something else is due.
    fn listen(&mut self, bytes: &mut [u8]) {
        let poll = match self.server.step() {
            Step::Admitting | Step::Opening => OPENING_POLL,
            Step::Running if !self.counts() => CALM_POLL,
            Step::Running | Step::Draining => COUNTING_POLL,
            _ => IDLE_POLL,
        };
        let due = self.server.next_deadline();
        let left = due.map_or(poll, |due| due.saturating_sub(self.epoch.elapsed()));
        let noted = self.flowing.as_ref().and_then(Flowing::due_in);
        let left = noted.map_or(left, |noted| noted.min(left));
        let wait = left.clamp(Duration::from_millis(1), poll);
        let heard = self.stream.set_read_timeout(Some(wait));
        match heard.and_then(|()| self.stream.read(bytes)) {
            Ok(0) => self.feed(Input::Gone("it hung up".to_owned())),
            Ok(count) => self.feed(Input::Bytes(&bytes[..count])),
            Err(error) if is_quiet(&error) => {}
            Err(error) => self.feed(Input::Gone(error.to_string())),
        }
    }

    /// Returns whether the bytes or the rate of the client are limited.
    fn counts(&self) -> bool {
        let metered = |granted: &Granted<'_>| granted.metered.is_some();
        self.granted.as_ref().is_some_and(metered)
            || strangers(self.service, self.options).is_some_and(|most| most.bytes.is_some())
    }

    /// Checks for local events.
    fn poll(&mut self) {
        if self.service.stopping() {
            self.feed(Input::Terminate("the service is being stopped".to_owned()));
        }
        if let Some(asked) = self.waiting.take() {
            self.admit(asked);
        }
        match self.server.step() {
            Step::Opening => self.await_streams(),
            Step::Running | Step::Draining => self.look(),
            _ => {}
        }
    }

    fn await_streams(&mut self) {
        let Some(granted) = &mut self.granted else {
            return;
        };
        let wanted = granted.test.all_streams();
        let Some(awaited) = &mut granted.awaited else {
            return;
        };
        let before = awaited.arrived();
        match awaited.look(&granted.plan) {
            Err((trouble, why)) => self.feed(Input::Failed(trouble, why)),
            Ok(count) if count >= wanted => self.feed(Input::StreamsOpen),
            Ok(count) if count > before => self.feed(Input::StreamJoined),
            Ok(_) => {}
        }
    }

    fn look(&mut self) {
        let Some(flowing) = &mut self.flowing else {
            return;
        };
        self.moved = flowing.look();
        let quiet = flowing.is_quiet();
        if let (Some(interval), Some(follower)) = (flowing.interval(), &mut self.follower) {
            follower.interval(interval);
        }
        self.feed(Input::Moved(self.moved));
        let metered = self
            .granted
            .as_ref()
            .and_then(|granted| granted.metered.as_ref());
        if let Some(Err((trouble, why))) =
            metered.map(|metered| metered.note(Instant::now(), self.moved))
        {
            self.feed(Input::Failed(trouble, why));
        }
        if quiet && self.server.step() == Step::Draining {
            self.feed(Input::Drained);
        }
    }

    fn feed(&mut self, input: Input<'_>) {
        let actions = self.server.handle(self.epoch.elapsed(), input);
        for action in actions {
            self.act(action);
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Send(bytes) => {
                if let Err(error) = self.stream.write_all(&bytes) {
                    self.feed(Input::Gone(error.to_string()));
                }
            }
            Action::Admit(asked) => self.admit(asked),
            Action::Run => self.start(),
            Action::Stop => {
                if let Some(flowing) = &mut self.flowing {
                    flowing.stop();
                }
            }
            Action::Collect(_) => {
                let results = self.results();
                self.feed(Input::Ready(Box::new(results)));
            }
            Action::Close(closed) => self.closed = Some(closed),
        }
    }

    fn start(&mut self) {
        let Some(granted) = &mut self.granted else {
            return;
        };
        let Some(awaited) = granted.awaited.take() else {
            return;
        };
        let asked = (&granted.test, &granted.plan);
        let following = self.options.following.as_ref();
        match Flowing::start(awaited, asked, (self.epoch, self.idle_rtt), following) {
            Ok((flowing, started)) => {
                self.flowing = Some(flowing);
                if let Some(follower) = &mut self.follower {
                    follower.started(started);
                }
            }
            Err((trouble, why)) => self.feed(Input::Failed(trouble, why)),
        }
    }
}

/// Returns the limits of a client that names no user; `None` if there are none.
fn strangers(service: &Service<'_>, options: &Iperf3Options) -> Option<AnonymousLimits> {
    let stranger = options.users.is_none() && !options.limits.strangers_unlimited;
    service.options.anonymous.filter(|_| stranger)
}

fn is_quiet(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}
