//! The client's protocol as a state machine, without sockets or clocks: inputs in, actions out.
//!
//! ```text
//! Greeting ─► Asking ─► Opening ─► Starting ─► Running ─► Ending ─► Exchanging ─► Leaving
//! ```
//!
//! Every step that waits for something has a deadline. Whatever the server sends, the test ends.

use super::ClientTestEnd;
use crate::iperf3_messages::{
    FrameSplitter, MAX_CLIENT_RESULT_BYTES, MAX_PARAMETER_BYTES, REFUSAL_BYTES, ServerRefusal,
    TestCookie, TestParameters, TestResults, TestState, decode_body, encode_message,
};
use longhaul_probe::session::INTERRUPT_TIMEOUT;
use std::time::Duration;

/// The timeout for each answer of the server after its first byte.
pub const STEP_TIMEOUT: Duration = Duration::from_secs(30);
/// The timeout without payload on any stream.
pub const SILENCE_TIMEOUT: Duration = Duration::from_secs(60);
/// The timeout for the server's results: it may still be reading data in flight.
pub const RESULTS_TIMEOUT: Duration = Duration::from_secs(60);

/// The maximum size of the server's results, whose output this client never asks for: 256 streams of
/// about 250 bytes, and a large margin.
const MAX_RESULT_BYTES: usize = 1 << 20;

/// The step of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClientStep {
    /// The cookie has been sent; the client waits for the server's first byte.
    Greeting,
    /// The parameters have been sent.
    Asking,
    /// Data connections are being opened; then the client waits for the server's start.
    Opening,
    Starting,
    Running,
    /// The server has been told that the test has ended.
    Ending,
    /// Our results have been sent; the client waits for the server's.
    Exchanging,
    /// The client waits for the server's last message, which changes nothing.
    Leaving,
    Closed,
}

impl ClientStep {
    /// Returns a phrase for the sentence "lost the peer while …".
    pub fn describe(self) -> &'static str {
        match self {
            ClientStep::Greeting => "greeting",
            ClientStep::Asking => "requesting the test",
            ClientStep::Opening => "opening the data streams",
            ClientStep::Starting => "preparing the transfer",
            ClientStep::Running => "transferring payload",
            ClientStep::Ending => "waiting for the last bytes",
            ClientStep::Exchanging => "exchanging results",
            ClientStep::Leaving | ClientStep::Closed => "ending the session",
        }
    }
}

/// An input of the state machine.
#[derive(Debug)]
pub enum ClientInput<'a> {
    /// The control connection is open.
    Start,
    Bytes(&'a [u8]),
    /// The control connection ended, with the reason.
    Cut(String),
    /// All data connections are open.
    StreamsOpen,
    /// The payload so far; `over`: everything requested has been sent or received.
    Moved {
        bytes: u64,
        over: bool,
    },
    /// This end's results.
    Collected(Box<TestResults>),
    /// This end cannot continue, with the reason.
    Failed(String),
    /// The user ends the test early.
    Interrupted,
    Tick,
}

/// An action for the driver.
#[derive(Debug, PartialEq)]
pub enum ClientAction {
    Send(Vec<u8>),
    /// Open the data connections; answer [`ClientInput::StreamsOpen`].
    OpenStreams,
    /// Prepare the engines.
    Ready,
    /// Start the flow of payload.
    Go,
    /// Take this end's results; answer [`ClientInput::Collected`].
    Collect,
    Close(ClientTestEnd),
}

/// The client of one test.
#[derive(Debug)]
pub struct ClientProtocol {
    cookie: TestCookie,
    parameters: TestParameters,
    step: ClientStep,
    deadline: Duration,
    /// The end of an interrupted test, whatever the server does.
    ends_by: Option<Duration>,
    moved_bytes: u64,
    /// The bytes of a refusal received so far, after its state byte.
    refusal: Option<Vec<u8>>,
    bodies: FrameSplitter,
    body_begun: bool,
    results: Option<TestResults>,
    actions: Vec<ClientAction>,
}

impl ClientProtocol {
    /// Creates a client; `greeting` is the timeout for the server's first byte.
    pub fn new(
        cookie: TestCookie,
        parameters: TestParameters,
        greeting: Duration,
    ) -> ClientProtocol {
        ClientProtocol {
            cookie,
            parameters,
            step: ClientStep::Greeting,
            deadline: greeting,
            ends_by: None,
            moved_bytes: 0,
            refusal: None,
            bodies: FrameSplitter::new(MAX_RESULT_BYTES),
            body_begun: false,
            results: None,
            actions: Vec::new(),
        }
    }

    pub fn step(&self) -> ClientStep {
        self.step
    }

    /// Returns the time by which [`ClientProtocol::handle`] must be called; `None` if closed.
    pub fn next_deadline(&self) -> Option<Duration> {
        let deadline = self.ends_by.map_or(self.deadline, |at| at.min(self.deadline));
        (self.step != ClientStep::Closed).then_some(deadline)
    }

    /// Takes the server's results after the test.
    pub fn take_results(&mut self) -> Option<TestResults> {
        self.results.take()
    }

    /// Handles an input at `now`, counted from the start; returns the actions in order.
    pub fn handle(&mut self, now: Duration, input: ClientInput<'_>) -> Vec<ClientAction> {
        if self.step != ClientStep::Closed {
            self.take(now, input);
        }
        if self.next_deadline().is_some_and(|deadline| now >= deadline) {
            self.on_deadline();
        }
        std::mem::take(&mut self.actions)
    }

    fn take(&mut self, now: Duration, input: ClientInput<'_>) {
        match input {
            ClientInput::Start => self.actions.push(ClientAction::Send(self.cookie.0.to_vec())),
            ClientInput::Bytes(bytes) => self.receive(now, bytes),
            ClientInput::Cut(_) if self.step == ClientStep::Leaving => {
                self.close(ClientTestEnd::Finished);
            }
            ClientInput::Cut(why) => self.close(ClientTestEnd::Cut { step: self.step, why }),
            ClientInput::StreamsOpen => self.deadline = now + STEP_TIMEOUT,
            ClientInput::Moved { bytes, over } => self.on_moved(now, bytes, over),
            ClientInput::Collected(results) => self.send_results(now, &results),
            ClientInput::Failed(why) => self.abort(ClientTestEnd::Failed(why)),
            ClientInput::Interrupted if self.step < ClientStep::Running => {
                self.abort(ClientTestEnd::Interrupted { step: self.step });
            }
            ClientInput::Interrupted => self.ends_by = Some(now + INTERRUPT_TIMEOUT),
            ClientInput::Tick => {}
        }
    }

    fn enter(&mut self, now: Duration, step: ClientStep, time: Duration) {
        self.step = step;
        self.deadline = now + time;
    }

    fn on_moved(&mut self, now: Duration, bytes: u64, over: bool) {
        if self.step != ClientStep::Running {
            return;
        }
        if bytes > self.moved_bytes {
            self.moved_bytes = bytes;
            self.deadline = now + SILENCE_TIMEOUT;
        }
        if over {
            self.send_state(TestState::TestEnd);
            self.enter(now, ClientStep::Ending, RESULTS_TIMEOUT);
        }
    }

    fn send_results(&mut self, now: Duration, results: &TestResults) {
        match encode_message(results, MAX_CLIENT_RESULT_BYTES) {
            Ok(frame) => {
                self.actions.push(ClientAction::Send(frame));
                self.deadline = now + RESULTS_TIMEOUT;
            }
            Err(error) => self.abort(ClientTestEnd::Failed(error.to_string())),
        }
    }

    fn receive(&mut self, now: Duration, mut bytes: &[u8]) {
        while self.step != ClientStep::Closed {
            if self.refusal.is_some() {
                self.receive_refusal(&mut bytes);
                return;
            }
            let Some(&first) = bytes.first() else {
                return;
            };
            // The first byte of a permitted length, which is no state.
            let is_length = first == 0;
            if self.step == ClientStep::Exchanging && (self.body_begun || is_length) {
                self.receive_results(now, &mut bytes);
            } else {
                bytes = &bytes[1..];
                self.receive_state(now, first);
            }
        }
    }

    fn receive_refusal(&mut self, bytes: &mut &[u8]) {
        let held = self.refusal.get_or_insert_default();
        let wanted = (REFUSAL_BYTES - held.len()).min(bytes.len());
        held.extend_from_slice(&bytes[..wanted]);
        *bytes = &bytes[wanted..];
        if let Ok(whole) = <[u8; REFUSAL_BYTES]>::try_from(held.as_slice()) {
            let step = self.step;
            self.close(ClientTestEnd::Refused { step, refusal: ServerRefusal::decode(whole) });
        }
    }

    fn receive_results(&mut self, now: Duration, bytes: &mut &[u8]) {
        self.body_begun = true;
        let heard = self.bodies.next(bytes);
        let read = heard.and_then(|body| body.map(|body| decode_body(&body)).transpose());
        match read {
            Ok(Some(results)) => {
                self.results = Some(results);
                self.enter(now, ClientStep::Leaving, STEP_TIMEOUT);
            }
            Ok(None) => {}
            Err(error) => self.violation(error.to_string()),
        }
    }

    fn receive_state(&mut self, now: Duration, byte: u8) {
        let Some(state) = TestState::from_byte(byte) else {
            return self.violation(format!("it sent {byte}, which is not an iperf3 state"));
        };
        match (self.step, state) {
            (ClientStep::Greeting, TestState::ParameterExchange) => self.send_parameters(now),
            (ClientStep::Asking, TestState::CreateStreams) => {
                self.enter(now, ClientStep::Opening, STEP_TIMEOUT);
                self.actions.push(ClientAction::OpenStreams);
            }
            (ClientStep::Opening, TestState::TestStart) => {
                self.enter(now, ClientStep::Starting, STEP_TIMEOUT);
                self.actions.push(ClientAction::Ready);
            }
            (ClientStep::Starting, TestState::TestRunning) => {
                self.enter(now, ClientStep::Running, SILENCE_TIMEOUT);
                self.actions.push(ClientAction::Go);
            }
            // A server that has sent everything may end the test itself.
            (ClientStep::Running | ClientStep::Ending, TestState::ExchangeResults) => {
                self.enter(now, ClientStep::Exchanging, RESULTS_TIMEOUT);
                self.actions.push(ClientAction::Collect);
            }
            (ClientStep::Leaving, TestState::DisplayResults) => {
                self.send_state(TestState::Done);
                self.close(ClientTestEnd::Finished);
            }
            (ClientStep::Greeting, TestState::AccessDenied) => self.close(ClientTestEnd::Busy),
            (step, TestState::AccessDenied) => self.close(ClientTestEnd::Denied { step }),
            (step, TestState::ServerTerminate) => self.close(ClientTestEnd::Terminated { step }),
            (_, TestState::ServerError) => self.refusal = Some(Vec::new()),
            (step, state) => {
                self.violation(format!("it sent {state:?} while {}", step.describe()));
            }
        }
    }

    fn send_parameters(&mut self, now: Duration) {
        match encode_message(&self.parameters, MAX_PARAMETER_BYTES) {
            Ok(frame) => {
                self.actions.push(ClientAction::Send(frame));
                self.enter(now, ClientStep::Asking, STEP_TIMEOUT);
            }
            Err(error) => self.abort(ClientTestEnd::Failed(error.to_string())),
        }
    }

    fn send_state(&mut self, state: TestState) {
        self.actions.push(ClientAction::Send(vec![state.byte()]));
    }

    fn violation(&mut self, what: String) {
        let step = self.step;
        self.abort(ClientTestEnd::Violation { step, what });
    }

    /// The server's results are sufficient: a missing last message is not an error.
    fn on_deadline(&mut self) {
        if self.step == ClientStep::Leaving {
            return self.close(ClientTestEnd::Finished);
        }
        let step = self.step;
        self.abort(ClientTestEnd::TimedOut { step });
    }

    /// Ends the test from this end, so that the server can serve others.
    fn abort(&mut self, closed: ClientTestEnd) {
        self.send_state(TestState::ClientTerminate);
        self.close(closed);
    }

    fn close(&mut self, closed: ClientTestEnd) {
        self.step = ClientStep::Closed;
        self.actions.push(ClientAction::Close(closed));
    }
}
