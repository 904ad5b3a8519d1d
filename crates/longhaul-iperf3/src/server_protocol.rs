//! The server's protocol as a state machine, without sockets or clocks: inputs in, actions out.
//!
//! ```text
//! Parameters ─► Admitting ─► Opening ─► Running ─► Draining ─► Results ─► Collecting ─► Farewell
//! ```
//!
//! Every step that waits for something has a deadline, after which the client gets an iperf3 error
//! code and the test ends.

use super::iperf3_messages::{
    FrameSplitter, Iperf3Error, MAX_CLIENT_RESULT_BYTES, MAX_PARAMETER_BYTES,
    MAX_SERVER_RESULT_BYTES, RequestedTest, ServerRefusal, TestParameters, TestResults, TestState,
    decode_body, encode_message,
};
use longhaul_model::report::v1::plan::StopCondition;
use std::time::Duration;

/// The timeout for the parameters, after the control connection is open.
pub const PARAMETERS_TIMEOUT: Duration = Duration::from_secs(10);
/// The timeout for each data connection; a client opens them one after the other.
pub const STREAM_TIMEOUT: Duration = Duration::from_secs(15);
/// The maximum time beyond the requested duration until the client ends the test.
pub const OVERTIME: Duration = Duration::from_secs(20);
/// The timeout without payload on any stream.
pub const SILENCE_TIMEOUT: Duration = Duration::from_secs(120);
/// The timeout for data in flight after the client has ended the test.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(3);
/// The timeout for the client's results.
pub const RESULTS_TIMEOUT: Duration = Duration::from_secs(30);
/// The timeout for the client's last message, which changes nothing.
pub const DONE_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum number of buffered bytes.
const MAX_BUFFERED_BYTES: usize = MAX_CLIENT_RESULT_BYTES + 4096;

/// An error code for the client, and the reason for the log.
pub type TestFault = (Iperf3Error, String);

/// The step of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerStep {
    /// Waiting for the client's parameters.
    Parameters,
    /// Waiting for the driver's decision on admission.
    Admitting,
    /// Waiting for data connections.
    Opening,
    Running,
    /// The client has ended the test; data in flight may still arrive.
    Draining,
    /// Waiting for the client's results.
    Results,
    /// Waiting for our own results.
    Collecting,
    /// Waiting for the client's last message.
    Farewell,
    Closed,
}

/// An input of the state machine.
#[derive(Debug)]
pub enum ServerInput<'a> {
    /// The cookie has arrived.
    Start,
    Bytes(&'a [u8]),
    /// The control connection ended, with the reason.
    Gone(String),
    /// The test is admitted.
    Admitted,
    /// There is no capacity: the client prints that the server is busy.
    Busy(String),
    /// One more data connection has arrived.
    StreamJoined,
    /// All data connections are open.
    StreamsOpen,
    /// The payload of all streams so far.
    Moved(u64),
    /// No more data is in flight.
    Drained,
    /// This end's results.
    Ready(Box<TestResults>),
    /// The test cannot continue at this end.
    Failed(Iperf3Error, String),
    /// This end stops the test; the client still prints its results so far.
    Terminate(String),
    /// Time has passed.
    Tick,
}

/// An action for the driver.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerAction {
    Send(Vec<u8>),
    /// Decide on admission; answer `Admitted`, `Busy` or `Failed`.
    Admit(Box<(TestParameters, RequestedTest)>),
    /// Start the flow of payload.
    Run,
    /// The client has ended the test; answer `Drained`.
    Stop,
    /// The client's results have arrived; answer `Ready`.
    Collect,
    Close(ServerTestEnd),
}

/// The end of a test.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServerTestEnd {
    #[error("finished")]
    Finished,
    /// The client ended the test early.
    #[error("ended by the client")]
    ClientTerminated,
    /// The client was sent this error.
    #[error("refused: {refusal}: {1}", refusal = ServerRefusal::from(*.0))]
    Refused(Iperf3Error, String),
    #[error("refused as busy: {0}")]
    Busy(String),
    #[error("ended by this server: {0}")]
    Terminated(String),
    /// The connection to the client was lost.
    #[error("lost while {step}: {1}", step = .0.describe())]
    Gone(ServerStep, String),
}

impl ServerStep {
    fn describe(self) -> &'static str {
        match self {
            ServerStep::Parameters | ServerStep::Admitting => "waiting for its parameters",
            ServerStep::Opening => "waiting for its streams",
            ServerStep::Running => "running",
            ServerStep::Draining => "waiting for the last bytes",
            ServerStep::Results | ServerStep::Collecting => "exchanging results",
            ServerStep::Farewell | ServerStep::Closed => "waiting for its last message",
        }
    }
}

/// The server's part of one test.
#[derive(Debug)]
pub struct ServerProtocol {
    step: ServerStep,
    deadline: Option<Duration>,
    /// The deadline of the whole test, set when payload starts.
    end: Option<Duration>,
    max_duration: Duration,
    most_bytes: Option<u64>,
    moved: u64,
    /// The time limit of the test, including the omitted time.
    planned: Option<Duration>,
    bodies: FrameSplitter,
    buffer: Vec<u8>,
    actions: Vec<ServerAction>,
}

impl ServerProtocol {
    /// Creates the state machine. A test may take at most `longest` and move at most `most_bytes`.
    pub fn new(longest: Duration, most_bytes: Option<u64>) -> ServerProtocol {
        ServerProtocol {
            step: ServerStep::Parameters,
            deadline: None,
            end: None,
            max_duration: longest,
            most_bytes,
            moved: 0,
            planned: None,
            bodies: FrameSplitter::new(MAX_PARAMETER_BYTES),
            buffer: Vec::new(),
            actions: Vec::new(),
        }
    }

    pub fn step(&self) -> ServerStep {
        self.step
    }

    /// Returns the time by which a tick is due.
    pub fn next_deadline(&self) -> Option<Duration> {
        let open = self.step != ServerStep::Closed;
        self.deadline.into_iter().chain(self.end).min().filter(|_| open)
    }

    /// Handles an input at `now`; returns the actions in order.
    pub fn handle(&mut self, now: Duration, input: ServerInput<'_>) -> Vec<ServerAction> {
        if self.step != ServerStep::Closed {
            self.take(now, input);
            self.read(now);
        }
        std::mem::take(&mut self.actions)
    }

    fn take(&mut self, now: Duration, input: ServerInput<'_>) {
        match (self.step, input) {
            (ServerStep::Parameters, ServerInput::Start) => {
                self.send_state(TestState::ParameterExchange);
                self.deadline = Some(now + PARAMETERS_TIMEOUT);
            }
            (_, ServerInput::Bytes(bytes)) => self.buffer_bytes(bytes),
            (ServerStep::Farewell, ServerInput::Gone(_)) => self.close(ServerTestEnd::Finished),
            (step, ServerInput::Gone(why)) => self.close(ServerTestEnd::Gone(step, why)),
            (ServerStep::Admitting, ServerInput::Admitted) => {
                self.send_state(TestState::CreateStreams);
                self.enter(ServerStep::Opening, now + STREAM_TIMEOUT);
            }
            (_, ServerInput::Busy(why)) => {
                self.send_state(TestState::AccessDenied);
                self.close(ServerTestEnd::Busy(why));
            }
            (ServerStep::Opening, ServerInput::StreamJoined) => {
                self.deadline = Some(now + STREAM_TIMEOUT);
            }
            (ServerStep::Opening, ServerInput::StreamsOpen) => self.run(now),
            (ServerStep::Running | ServerStep::Draining, ServerInput::Moved(bytes)) => {
                self.on_moved(now, bytes);
            }
            (ServerStep::Draining, ServerInput::Drained) => self.ask_results(now),
            (ServerStep::Collecting, ServerInput::Ready(results)) => {
                self.send_results(now, &results);
            }
            (_, ServerInput::Failed(trouble, why)) => self.refuse(trouble, why),
            (_, ServerInput::Terminate(why)) => self.terminate(why),
            (_, ServerInput::Tick) => self.tick(now),
            _ => {}
        }
    }

    fn enter(&mut self, step: ServerStep, deadline: Duration) {
        self.step = step;
        self.deadline = Some(deadline);
    }

    fn send_state(&mut self, state: TestState) {
        self.actions.push(ServerAction::Send(vec![state.byte()]));
    }

    fn close(&mut self, closed: ServerTestEnd) {
        self.step = ServerStep::Closed;
        self.buffer = Vec::new();
        self.actions.push(ServerAction::Close(closed));
    }

    fn refuse(&mut self, trouble: Iperf3Error, why: String) {
        let mut bytes = vec![TestState::ServerError.byte()];
        bytes.extend(ServerRefusal::from(trouble).encode());
        self.actions.push(ServerAction::Send(bytes));
        self.close(ServerTestEnd::Refused(trouble, why));
    }

    fn terminate(&mut self, why: String) {
        self.send_state(TestState::ServerTerminate);
        self.close(ServerTestEnd::Terminated(why));
    }

    fn run(&mut self, now: Duration) {
        let asked = self.planned.unwrap_or(self.max_duration);
        self.end = Some(now + asked.min(self.max_duration) + OVERTIME);
        self.actions.push(ServerAction::Run);
        self.actions.push(ServerAction::Send(vec![
            TestState::TestStart.byte(),
            TestState::TestRunning.byte(),
        ]));
        self.enter(ServerStep::Running, now + SILENCE_TIMEOUT);
    }

    fn on_moved(&mut self, now: Duration, bytes: u64) {
        if bytes > self.moved && self.step == ServerStep::Running {
            self.deadline = Some(now + SILENCE_TIMEOUT);
        }
        self.moved = bytes;
        if self.most_bytes.is_some_and(|most| bytes > most) {
            self.terminate("more bytes than this server allows".to_owned());
        }
    }

    fn ask_results(&mut self, now: Duration) {
        self.send_state(TestState::ExchangeResults);
        self.bodies = FrameSplitter::new(MAX_CLIENT_RESULT_BYTES);
        self.end = None;
        self.enter(ServerStep::Results, now + RESULTS_TIMEOUT);
    }

    fn send_results(&mut self, now: Duration, results: &TestResults) {
        match encode_message(results, MAX_SERVER_RESULT_BYTES) {
            Ok(mut bytes) => {
                bytes.push(TestState::DisplayResults.byte());
                self.actions.push(ServerAction::Send(bytes));
                self.enter(ServerStep::Farewell, now + DONE_TIMEOUT);
            }
            Err(error) => self.refuse(Iperf3Error::Results, error.to_string()),
        }
    }

    fn tick(&mut self, now: Duration) {
        if self.end.is_some_and(|end| now >= end) {
            self.terminate("its time limit is reached".to_owned());
        } else if self.deadline.is_some_and(|deadline| now >= deadline) {
            self.on_deadline(now);
        }
    }

    fn on_deadline(&mut self, now: Duration) {
        let why = "nothing arrived in time".to_owned();
        match self.step {
            ServerStep::Parameters | ServerStep::Admitting => {
                self.refuse(Iperf3Error::Parameters, why);
            }
            ServerStep::Opening => self.refuse(Iperf3Error::Stream, why),
            ServerStep::Running => self.refuse(Iperf3Error::Silence, why),
            ServerStep::Draining => self.ask_results(now),
            ServerStep::Results | ServerStep::Collecting => self.refuse(Iperf3Error::Results, why),
            ServerStep::Farewell | ServerStep::Closed => self.close(ServerTestEnd::Finished),
        }
    }

    fn buffer_bytes(&mut self, bytes: &[u8]) {
        if self.buffer.len() + bytes.len() > MAX_BUFFERED_BYTES {
            self.refuse(Iperf3Error::Message, "more data than expected".to_owned());
        } else {
            self.buffer.extend_from_slice(bytes);
        }
    }

    /// Reads the buffered bytes, as far as the current step allows.
    fn read(&mut self, now: Duration) {
        while !self.buffer.is_empty() {
            let held = std::mem::take(&mut self.buffer);
            let mut rest = held.as_slice();
            let more = match self.step {
                ServerStep::Parameters | ServerStep::Results => self.read_body(&mut rest),
                ServerStep::Opening
                | ServerStep::Running
                | ServerStep::Draining
                | ServerStep::Farewell => {
                    self.read_state(now, &mut rest);
                    true
                }
                ServerStep::Admitting | ServerStep::Collecting => false,
                ServerStep::Closed => return,
            };
            if self.step != ServerStep::Closed {
                self.buffer = rest.to_vec();
            }
            if !more {
                return;
            }
        }
    }

    /// Reads one state byte from the client.
    fn read_state(&mut self, now: Duration, bytes: &mut &[u8]) {
        let Some((&byte, rest)) = bytes.split_first() else {
            return;
        };
        *bytes = rest;
        match (self.step, TestState::from_byte(byte)) {
            (ServerStep::Running, Some(TestState::TestEnd)) => {
                self.actions.push(ServerAction::Stop);
                self.enter(ServerStep::Draining, now + DRAIN_TIMEOUT);
            }
            (ServerStep::Farewell, Some(TestState::Done)) => self.close(ServerTestEnd::Finished),
            (_, Some(TestState::ClientTerminate)) => self.close(ServerTestEnd::ClientTerminated),
            (_, state) => {
                let why = format!("unexpected byte {byte} ({state:?})");
                self.refuse(Iperf3Error::Message, why);
            }
        }
    }

    /// Reads parameters or results; false if more bytes or a decision are needed.
    fn read_body(&mut self, bytes: &mut &[u8]) -> bool {
        let trouble = match self.step {
            ServerStep::Parameters => Iperf3Error::Parameters,
            _ => Iperf3Error::Results,
        };
        match self.bodies.next(bytes) {
            Ok(None) => return false,
            Ok(Some(body)) if self.step == ServerStep::Parameters => self.read_parameters(&body),
            Ok(Some(body)) => match decode_body::<TestResults>(&body) {
                Ok(_) => {
                    self.step = ServerStep::Collecting;
                    self.actions.push(ServerAction::Collect);
                }
                Err(error) => self.refuse(trouble, error.to_string()),
            },
            Err(error) => self.refuse(trouble, error.to_string()),
        }
        false
    }

    fn read_parameters(&mut self, body: &[u8]) {
        let asked: TestParameters = match decode_body(body) {
            Ok(asked) => asked,
            Err(error) => return self.refuse(Iperf3Error::Parameters, error.to_string()),
        };
        match RequestedTest::validate(&asked) {
            Ok(test) => {
                self.planned = match test.plan.stop {
                    StopCondition::TimeUs(time) => Some(Duration::from_micros(time)),
                    StopCondition::Bytes(_) | StopCondition::Blocks(_) => None,
                };
                self.step = ServerStep::Admitting;
                self.actions.push(ServerAction::Admit(Box::new((asked, test))));
            }
            Err(trouble) => self.refuse(trouble, "out of range".to_owned()),
        }
    }
}
