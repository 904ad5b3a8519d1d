//! One test of an iperf3 client on its control connection: moves bytes between the connection and
//! the state machine, and carries out its actions.

use super::TestRegistry;
use super::iperf3_streams::{AwaitedStreams, RunningStreams};
use crate::AuthorizedUsers;
use crate::iperf3_messages::{Iperf3Error, RequestedTest, TestCookie, TestParameters, TestResults};
use crate::server_protocol::{
    ServerAction, ServerInput, ServerProtocol, ServerStep, ServerTestEnd, TestFault,
};
use crate::server_results::{build_server_results, format_server_output};
use longhaul_model::report::v1::plan::ThroughputPlan;
use longhaul_model::sanitize::sanitize_line;
use longhaul_probe::engine::is_socket_timeout;
use longhaul_probe::measurement_server::{
    AdmissionPlace, AnonymousLimits, NewConnection, ServeEvent, ServerContext, SessionSlot,
    describe_plan,
};
use longhaul_probe::plan_limits::{LimitError, MAX_RUN_US, check_anonymous};
use longhaul_probe::session_driver::TRANSFER_POLL;
use longhaul_sys::{listening_socket, tcp_info};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The poll intervals of the streams while they open, and while their bytes are counted for a limit
/// or the last ones are awaited.
const OPENING_POLL: Duration = Duration::from_millis(2);
const COUNTING_POLL: Duration = Duration::from_millis(10);
/// The poll interval in other steps (is the server being stopped?).
const IDLE_POLL: Duration = Duration::from_millis(100);
/// The timeout of a write to the client.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// An admitted test.
struct AdmittedTest<'a> {
    test: RequestedTest,
    awaited: Option<AwaitedStreams<'a>>,
    _slot: SessionSlot<'a>,
}

pub(super) struct Iperf3Session<'a> {
    service: &'a ServerContext<'a>,
    tests: &'a TestRegistry,
    users: Option<&'a AuthorizedUsers>,
    /// The limits of a client that names no user; `None` if there are none.
    limits: Option<AnonymousLimits>,
    cookie: TestCookie,
    stream: Arc<TcpStream>,
    /// The address that the client connected to.
    local: SocketAddr,
    peer: SocketAddr,
    epoch: Instant,
    idle_rtt: Duration,
    server: ServerProtocol,
    place: Option<AdmissionPlace<'a>>,
    /// A UDP test that waits for its turn.
    waiting: Option<Box<(TestParameters, RequestedTest)>>,
    granted: Option<AdmittedTest<'a>>,
    flowing: Option<RunningStreams<'a>>,
    moved: u64,
    closed: Option<ServerTestEnd>,
}

impl<'a> Iperf3Session<'a> {
    /// Runs the session, beginning after the cookie.
    pub fn run(
        service: &'a ServerContext<'a>,
        tests: &'a TestRegistry,
        users: Option<&'a AuthorizedUsers>,
        cookie: TestCookie,
        arrival: NewConnection<'a>,
    ) {
        let NewConnection { peer, stream, .. } = arrival;
        let local = match prepare_control(&stream) {
            Ok(local) => SocketAddr::new(local.ip(), arrival.port),
            Err(error) => {
                let why = format!("cannot use its socket: {error}");
                return service.log(ServeEvent::Dismissed { peer, why });
            }
        };
        let limits = service.options.anonymous.filter(|_| users.is_none());
        let longest = limits
            .map_or(Duration::from_micros(MAX_RUN_US), |most| Duration::from_secs(most.seconds));
        let session = Iperf3Session {
            service,
            tests,
            users,
            limits,
            cookie,
            local,
            peer,
            epoch: Instant::now(),
            idle_rtt: tcp_info::read_tcp_info(&stream).map_or(Duration::ZERO, |info| info.rtt()),
            stream,
            server: ServerProtocol::new(longest, limits.and_then(|most| most.bytes)),
            place: Some(arrival.place),
            waiting: None,
            granted: None,
            flowing: None,
            moved: 0,
            closed: None,
        };
        session.drive();
    }

    fn drive(mut self) {
        self.feed(ServerInput::Start);
        let mut bytes = [0; 4096];
        while self.closed.is_none() {
            self.receive(&mut bytes);
            self.poll();
            self.feed(ServerInput::Tick);
        }
        self.close();
    }

    /// Reads from the client until something else is due.
    fn receive(&mut self, bytes: &mut [u8]) {
        let poll = match self.server.step() {
            ServerStep::Admitting | ServerStep::Opening => OPENING_POLL,
            ServerStep::Running if self.limits.is_none_or(|most| most.bytes.is_none()) => {
                TRANSFER_POLL
            }
            ServerStep::Running | ServerStep::Draining => COUNTING_POLL,
            _ => IDLE_POLL,
        };
        let due = self.server.next_deadline();
        let left = due.map_or(poll, |due| due.saturating_sub(self.epoch.elapsed()));
        let noted = self.flowing.as_ref().and_then(RunningStreams::due_in);
        let left = noted.map_or(left, |noted| noted.min(left));
        let wait = left.clamp(Duration::from_millis(1), poll);
        let heard = self.stream.set_read_timeout(Some(wait));
        match heard.and_then(|()| (&*self.stream).read(bytes)) {
            Ok(0) => self.feed(ServerInput::Gone("it closed the connection".to_owned())),
            Ok(count) => self.feed(ServerInput::Bytes(&bytes[..count])),
            Err(error) if is_socket_timeout(&error) => {}
            Err(error) => self.feed(ServerInput::Gone(error.to_string())),
        }
    }

    /// Checks for local events.
    fn poll(&mut self) {
        if self.service.is_stopping() {
            self.feed(ServerInput::Terminate("the server is shutting down".to_owned()));
        }
        if let Some(asked) = self.waiting.take() {
            self.admit(asked);
        }
        match self.server.step() {
            ServerStep::Opening => self.poll_arrivals(),
            ServerStep::Running | ServerStep::Draining => self.poll_streams(),
            _ => {}
        }
    }

    fn poll_arrivals(&mut self) {
        let Some(granted) = &mut self.granted else {
            return;
        };
        let wanted = granted.test.all_streams();
        let Some(awaited) = &mut granted.awaited else {
            return;
        };
        let before = awaited.arrived.len();
        match awaited.poll(&granted.test.plan) {
            Err((trouble, why)) => self.feed(ServerInput::Failed(trouble, why)),
            Ok(count) if count >= wanted => self.feed(ServerInput::StreamsOpen),
            Ok(count) if count > before => self.feed(ServerInput::StreamJoined),
            Ok(_) => {}
        }
    }

    fn poll_streams(&mut self) {
        let Some(flowing) = &mut self.flowing else {
            return;
        };
        self.moved = flowing.poll();
        let quiet = flowing.is_quiet();
        self.feed(ServerInput::Moved(self.moved));
        if quiet && self.server.step() == ServerStep::Draining {
            self.feed(ServerInput::Drained);
        }
    }

    fn feed(&mut self, input: ServerInput<'_>) {
        let actions = self.server.handle(self.epoch.elapsed(), input);
        for action in actions {
            self.act(action);
        }
    }

    fn act(&mut self, action: ServerAction) {
        match action {
            ServerAction::Send(bytes) => {
                if let Err(error) = (&*self.stream).write_all(&bytes) {
                    self.feed(ServerInput::Gone(error.to_string()));
                }
            }
            ServerAction::Admit(asked) => self.admit(asked),
            ServerAction::Run => self.start(),
            ServerAction::Stop => {
                if let Some(flowing) = &mut self.flowing {
                    flowing.stop();
                }
            }
            ServerAction::Collect => {
                let results = self.results();
                self.feed(ServerInput::Ready(Box::new(results)));
            }
            ServerAction::Close(closed) => self.closed = Some(closed),
        }
    }

    fn start(&mut self) {
        if let Some(granted) = &mut self.granted
            && let Some(awaited) = granted.awaited.take()
        {
            match RunningStreams::start(awaited, &granted.test, self.idle_rtt) {
                Ok(flowing) => self.flowing = Some(flowing),
                Err((trouble, why)) => self.feed(ServerInput::Failed(trouble, why)),
            }
        }
    }
}

/// Sets the options of a control connection, and returns its own address.
fn prepare_control(stream: &TcpStream) -> io::Result<SocketAddr> {
    listening_socket::prepare_control_socket(stream)?;
    stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
    stream.local_addr()
}

/// The time that the client has to read our last message before the connection is closed.
const LINGER_TIMEOUT: Duration = Duration::from_millis(500);

impl Iperf3Session<'_> {
    /// Ends the streams and returns this end's results.
    fn results(&mut self) -> TestResults {
        let (Some(flowing), Some(granted)) = (self.flowing.take(), &self.granted) else {
            return TestResults::default();
        };
        let ended = flowing.collect();
        self.moved = ended.span.end.total_bytes();
        let test = &granted.test;
        let mut results = build_server_results(test, &ended.collected, &ended.span);
        self.service.log(ServeEvent::ResultsReady {
            peer: self.peer,
            bytes: self.moved,
            streams: test.all_streams() as u32,
            capture_bytes: None,
        });
        if test.server_output {
            let idle_rtt = Some(self.idle_rtt).filter(|rtt| !rtt.is_zero());
            let text = format_server_output(test, &ended.collected, &ended.span, idle_rtt);
            results.server_output_text = Some(text);
        }
        results
    }

    /// Lets the client read our last message, and releases all resources.
    fn close(mut self) {
        // The streams are closed first: the next test may need their slot.
        self.flowing = None;
        let opened = self.granted.take().is_some();
        let closed = self.closed.take();
        if !matches!(closed, Some(ServerTestEnd::Gone(..))) {
            self.linger();
        }
        let reason = closed.map_or_else(String::new, |closed| closed.to_string());
        self.service.log(ServeEvent::SessionClosed {
            peer: self.peer,
            reason: sanitize_line(&reason, 200),
            elapsed: self.epoch.elapsed(),
            bytes: self.moved,
            opened,
        });
    }

    fn linger(&mut self) {
        let deadline = Instant::now() + LINGER_TIMEOUT;
        let mut bytes = [0; 1024];
        let mut open = self.stream.shutdown(Shutdown::Write).is_ok();
        while open && Instant::now() < deadline {
            let left = deadline.saturating_duration_since(Instant::now());
            let timed = self.stream.set_read_timeout(Some(left.max(Duration::from_millis(1))));
            open = timed.is_ok() && (&*self.stream).read(&mut bytes).is_ok_and(|count| count > 0);
        }
    }
}

const MAX_VERSION: usize = 16;

impl Iperf3Session<'_> {
    /// Admits or rejects the test, or waits for its turn.
    fn admit(&mut self, asked: Box<(TestParameters, RequestedTest)>) {
        let mut turn = None;
        if asked.1.is_udp() {
            turn = self.tests.reserve_udp_turn(self.peer.ip(), asked.1.all_streams());
            if turn.is_none() {
                self.waiting = Some(asked);
                return;
            }
        }
        let (asked, test) = *asked;
        if let Err((trouble, why)) = self.check_permission(&asked, &test.plan) {
            return self.feed(ServerInput::Failed(trouble, why));
        }
        let most = self.limits.map(|most| most.concurrent);
        let slot = match self.service.take_slot(self.peer.ip(), most) {
            Ok(slot) => slot,
            Err(why) => return self.feed(ServerInput::Busy(why)),
        };
        let Some(entry) = self.tests.register(self.cookie, test.all_streams()) else {
            return self.feed(ServerInput::Busy("its cookie is already in use".to_owned()));
        };
        self.announce(&asked, &test.plan);
        let device = self.service.options.device.as_deref();
        self.granted = Some(AdmittedTest {
            awaited: Some(AwaitedStreams {
                entry,
                turn,
                local: self.local,
                device,
                arrived: Vec::new(),
            }),
            test,
            _slot: slot,
        });
        self.place = None;
        self.feed(ServerInput::Admitted);
    }

    fn announce(&self, asked: &TestParameters, plan: &ThroughputPlan) {
        let version = asked.client_version.as_deref().unwrap_or("before 3.1");
        self.service.log(ServeEvent::SessionOpened {
            peer: self.peer,
            host: format!("iperf3 {}", sanitize_line(version, MAX_VERSION)),
            anonymous: self.users.is_none(),
            what: describe_plan(plan),
        });
    }

    /// Checks whether this client may run this test.
    fn check_permission(
        &self,
        asked: &TestParameters,
        plan: &ThroughputPlan,
    ) -> Result<(), TestFault> {
        if plan.streams > self.service.options.max_streams {
            let most = self.service.options.max_streams;
            return Err((Iperf3Error::Streams, format!("at most {most} streams")));
        }
        if let Some(users) = self.users {
            users.check(asked.authtoken.as_deref())
        } else if let Some(strangers) = self.limits {
            let refused = |error| (map_anonymous_limit(&error), error.to_string());
            check_anonymous(plan, &strangers).map_err(refused)
        } else {
            let why = "anonymous clients are refused, and iperf3 does not support tokens";
            Err((Iperf3Error::Authentication, why.to_owned()))
        }
    }
}

/// Maps a violated limit for anonymous clients to an iperf3 error. iperf3 has none for bytes.
fn map_anonymous_limit(error: &LimitError) -> Iperf3Error {
    match error.option {
        "streams" => Iperf3Error::Streams,
        "rate" => Iperf3Error::TotalRate,
        "congestion_control" => Iperf3Error::Congestion,
        _ => Iperf3Error::Duration,
    }
}
