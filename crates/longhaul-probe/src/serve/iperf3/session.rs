//! One test of an iperf3 client on its control connection: moves bytes between it and the state
//! machine, and does what that wants.

use super::Iperf3Options;
use super::streams::{Awaited, Flowing};
use crate::iperf3::course::Reading;
use crate::iperf3::output::Story;
use crate::iperf3::results::results;
use crate::iperf3::server::{Action, Closed, Fault, Input, Server, Step};
use crate::iperf3::wire::{Cookie, Parameters, Results, Test, Transport, Trouble};
use crate::iperf3::{plan, stranger_trouble};
use crate::limits::{LONGEST_US, check_anonymous};
use crate::serve::accept::Arrival;
use crate::serve::event::ServeEvent;
use crate::serve::hooks::in_words;
use crate::serve::pending::PendingPlace;
use crate::serve::slots::Slot;
use crate::serve::{Port, Service};
use crate::throughput::DEAD_PEER;
use crate::told::one_line;
use longhaul_model::report::v1::plan::Plan;
use longhaul_sys::{listen, sockopt, tcp_info};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// How often the streams are looked at while they open and while payload flows.
const OPENING_POLL: Duration = Duration::from_millis(2);
const FLOWING_POLL: Duration = Duration::from_millis(10);
/// In other steps: is the service being stopped?
const IDLE_POLL: Duration = Duration::from_millis(100);
/// A client that does not take a few bytes in this time is gone.
const WRITE_TIME: Duration = Duration::from_secs(10);
/// So long the client may take to read our last words before the connection is given up.
const FAREWELL: Duration = Duration::from_millis(500);
const MOST_VERSION: usize = 16;

/// What was granted.
struct Granted<'a> {
    test: Test,
    plan: Plan,
    awaited: Option<Awaited<'a>>,
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
    moved: u64,
    closed: Option<Closed>,
}

impl<'a> Session<'a> {
    /// From the cookie to the end.
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
        let most = service
            .options
            .anonymous
            .filter(|_| options.users.is_none());
        let longest = most.map_or(Duration::from_micros(LONGEST_US), |most| {
            Duration::from_secs(most.seconds)
        });
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
            server: Server::new(longest, most.and_then(|most| most.bytes)),
            pending: Some(arrival.place),
            waiting: None,
            granted: None,
            flowing: None,
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

    /// Reads what the client says, at most until something else is due.
    fn listen(&mut self, bytes: &mut [u8]) {
        let poll = match self.server.step() {
            Step::Admitting | Step::Opening => OPENING_POLL,
            Step::Running | Step::Draining => FLOWING_POLL,
            _ => IDLE_POLL,
        };
        let due = self.server.next_deadline();
        let left = due.map_or(poll, |due| due.saturating_sub(self.epoch.elapsed()));
        let wait = left.clamp(Duration::from_millis(1), poll);
        let heard = self.stream.set_read_timeout(Some(wait));
        match heard.and_then(|()| self.stream.read(bytes)) {
            Ok(0) => self.feed(Input::Gone("it hung up".to_owned())),
            Ok(count) => self.feed(Input::Bytes(&bytes[..count])),
            Err(error) if is_quiet(&error) => {}
            Err(error) => self.feed(Input::Gone(error.to_string())),
        }
    }

    /// Looks whether something happened here.
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
        self.feed(Input::Moved(self.moved));
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

    fn admit(&mut self, asked: Box<(Parameters, Test)>) {
        let turn = match asked.1.transport {
            Transport::Tcp => None,
            Transport::Udp => {
                let turn = self
                    .service
                    .book
                    .turn(self.peer.ip(), asked.1.all_streams());
                let Some(turn) = turn else {
                    self.waiting = Some(asked);
                    return;
                };
                Some(turn)
            }
        };
        let (asked, test) = *asked;
        let plan = plan(&test);
        let anonymous = self.options.users.is_none();
        if let Err((trouble, why)) = self.check(&asked, &test, &plan) {
            return self.feed(Input::Failed(trouble, why));
        }
        let strangers = self.service.options.anonymous.filter(|_| anonymous);
        let slot = match self
            .service
            .slots
            .take(strangers.map(|most| most.concurrent))
        {
            Ok(slot) => slot,
            Err(why) => return self.feed(Input::Busy(why)),
        };
        let Some(entry) = self.service.book.enter(self.cookie, test.all_streams()) else {
            return self.feed(Input::Busy("its cookie is in use".to_owned()));
        };
        let version = asked.client_version.as_deref().unwrap_or("before 3.1");
        (self.service.log)(ServeEvent::SessionOpened {
            peer: self.peer,
            host: format!("iperf3 {}", one_line(version, MOST_VERSION)),
            anonymous,
            what: in_words(&plan),
        });
        let local = SocketAddr::new(self.local.ip(), self.port.address.port());
        let device = self.service.options.device.as_deref();
        self.granted = Some(Granted {
            awaited: Some(Awaited::new(entry, turn, local, device)),
            plan,
            test,
            _slot: slot,
        });
        self.pending = None;
        self.feed(Input::Admitted);
    }

    /// Is this client allowed to ask for this?
    fn check(&self, asked: &Parameters, test: &Test, plan: &Plan) -> Result<(), Fault> {
        if test.streams > self.service.options.max_streams {
            let most = self.service.options.max_streams;
            return Err((Trouble::Streams, format!("at most {most} streams")));
        }
        if let Some(users) = &self.options.users {
            return users.check(asked.authtoken.as_deref());
        }
        let Some(limits) = &self.service.options.anonymous else {
            let why = "strangers are turned away, and iperf3 knows no token";
            return Err((Trouble::Authentication, why.to_owned()));
        };
        check_anonymous(plan, limits).map_err(|error| (stranger_trouble(&error), error.to_string()))
    }

    fn start(&mut self) {
        let Some(granted) = &mut self.granted else {
            return;
        };
        let Some(awaited) = granted.awaited.take() else {
            return;
        };
        let asked = (&granted.test, &granted.plan);
        match Flowing::start(awaited, asked, self.epoch, self.idle_rtt) {
            Ok(flowing) => self.flowing = Some(flowing),
            Err((trouble, why)) => self.feed(Input::Failed(trouble, why)),
        }
    }

    fn results(&mut self) -> Results {
        let (Some(flowing), Some(granted)) = (self.flowing.take(), &self.granted) else {
            return Results::default();
        };
        let (collected, course) = flowing.collect();
        self.moved = course
            .readings
            .last()
            .map_or(self.moved, Reading::total_bytes);
        let mut told = results(&granted.test, &collected, &course);
        (self.service.log)(ServeEvent::ResultsReady {
            peer: self.peer,
            bytes: self.moved,
            streams: granted.test.all_streams() as u32,
            capture_bytes: None,
        });
        if granted.test.server_output {
            let story = Story {
                test: &granted.test,
                plan: &granted.plan,
                collected: &collected,
                course: &course,
                idle_rtt: Some(self.idle_rtt).filter(|rtt| !rtt.is_zero()),
            };
            if self.options.json_output {
                told.server_output_json = Some(story.json());
            } else {
                told.server_output_text = Some(story.text());
            }
        }
        told
    }

    /// Lets the client read our last words, and gives everything back.
    fn leave(mut self) {
        // The streams first: the next test may want their place.
        self.flowing = None;
        self.granted = None;
        let deadline = Instant::now() + FAREWELL;
        let mut bytes = [0; 1024];
        let mut open = self.stream.shutdown(Shutdown::Write).is_ok();
        while open && Instant::now() < deadline {
            let left = deadline.saturating_duration_since(Instant::now());
            let timed = self
                .stream
                .set_read_timeout(Some(left.max(Duration::from_millis(1))));
            open = timed.is_ok() && self.stream.read(&mut bytes).is_ok_and(|count| count > 0);
        }
        let reason = self
            .closed
            .map_or_else(String::new, |closed| closed.to_string());
        (self.service.log)(ServeEvent::SessionClosed {
            peer: self.peer,
            reason: one_line(&reason, 200),
            elapsed: self.epoch.elapsed(),
            bytes: self.moved,
        });
    }
}

fn is_quiet(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}
