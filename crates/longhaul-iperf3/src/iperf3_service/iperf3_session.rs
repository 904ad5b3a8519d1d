//! One test of an iperf3 client on its control connection: moves bytes between the connection and
//! the state machine, and carries out its actions.

mod test_admission;
mod test_ending;

use super::iperf3_streams::{AwaitedStreams, RunningStreams};
use super::test_registry::TestRegistry;
use crate::AuthorizedUsers;
use crate::iperf3_messages::{RequestedTest, TestCookie, TestParameters};
use crate::server_protocol::{
    ServerAction, ServerInput, ServerProtocol, ServerStep, ServerTestEnd,
};
use longhaul_probe::engine::is_socket_timeout;
use longhaul_probe::measurement_server::{
    AnonymousLimits, NewConnection, PendingSlot, ServeEvent, ServerContext, SessionSlot,
};
use longhaul_probe::plan_limits::MAX_RUN_US;
use longhaul_probe::session_driver::TRANSFER_POLL;
use longhaul_probe::throughput::DEAD_PEER_TIMEOUT;
use longhaul_sys::{listening_socket, tcp_info};
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
    stream: TcpStream,
    /// The address that the client connected to.
    local: SocketAddr,
    peer: SocketAddr,
    epoch: Instant,
    idle_rtt: Duration,
    server: ServerProtocol,
    pending: Option<PendingSlot<'a>>,
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
            pending: Some(arrival.pending),
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
        match heard.and_then(|()| self.stream.read(bytes)) {
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
                if let Err(error) = self.stream.write_all(&bytes) {
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
    stream.set_nodelay(true)?;
    listening_socket::set_dead_peer_timeout(stream, DEAD_PEER_TIMEOUT)?;
    stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
    stream.local_addr()
}
