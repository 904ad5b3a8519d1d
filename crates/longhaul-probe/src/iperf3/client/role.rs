//! The client's protocol as a state machine, without sockets or clocks: inputs in, actions out.
//!
//! ```text
//! Greeting ─► Asking ─► Opening ─► Starting ─► Running ─► Ending ─► Exchanging ─► Leaving
//! ```
//!
//! Every step that waits for something has a deadline. Whatever the server sends, the test ends.

use super::closed::Closed;
use crate::iperf3::wire::{
    Bodies, Cookie, MOST_CLIENT_RESULT_BYTES, MOST_PARAMETER_BYTES, MOST_SERVER_RESULT_BYTES,
    Parameters, REFUSAL_BYTES, Refusal, Results, State, decode, encode,
};
use std::time::Duration;

/// The timeout for each answer of the server after its first byte.
pub const STEP_TIME: Duration = Duration::from_secs(30);
/// The timeout without payload on any stream.
pub const SILENCE: Duration = Duration::from_secs(60);
/// The timeout for the server's results: it may still be reading data in flight.
pub const RESULTS_TIME: Duration = Duration::from_secs(60);

/// The step of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
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

impl Step {
    /// Returns a phrase for the sentence "lost the peer while …".
    pub fn doing(self) -> &'static str {
        match self {
            Step::Greeting => "greeting",
            Step::Asking => "asking for the test",
            Step::Opening => "opening the data streams",
            Step::Starting => "getting the engines ready",
            Step::Running => "payload was flowing",
            Step::Ending => "the last bytes were arriving",
            Step::Exchanging => "exchanging results",
            Step::Leaving | Step::Closed => "taking leave",
        }
    }
}

/// An input of the state machine.
#[derive(Debug)]
pub enum Input<'a> {
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
    Collected(Box<Results>),
    /// This end cannot continue, with the reason.
    Failed(String),
    Tick,
}

/// An action for the driver.
#[derive(Debug, PartialEq)]
pub enum Action {
    Send(Vec<u8>),
    /// Open the data connections; answer [`Input::StreamsOpen`].
    OpenStreams,
    /// Prepare the engines.
    Ready,
    /// Start the flow of payload.
    Go,
    /// Take this end's results; answer [`Input::Collected`].
    Collect,
    Close(Closed),
}

/// The client of one test.
#[derive(Debug)]
pub struct Client {
    cookie: Cookie,
    parameters: Parameters,
    step: Step,
    deadline: Duration,
    silence: Duration,
    moved_bytes: u64,
    /// The bytes of a refusal received so far, after its state byte.
    refusal: Option<Vec<u8>>,
    bodies: Bodies,
    body_begun: bool,
    results: Option<Results>,
    actions: Vec<Action>,
}

impl Client {
    /// Creates a client; `greeting` is the timeout for the server's first byte.
    pub fn new(cookie: Cookie, parameters: Parameters, greeting: Duration) -> Client {
        Client {
            cookie,
            parameters,
            step: Step::Greeting,
            deadline: greeting,
            silence: SILENCE,
            moved_bytes: 0,
            refusal: None,
            bodies: Bodies::new(MOST_SERVER_RESULT_BYTES),
            body_begun: false,
            results: None,
            actions: Vec::new(),
        }
    }

    /// Sets the timeout without payload, instead of [`SILENCE`].
    #[must_use]
    pub fn with_silence(mut self, silence: Duration) -> Client {
        self.silence = silence;
        self
    }

    pub fn step(&self) -> Step {
        self.step
    }

    /// Returns the time by which [`Client::handle`] must be called; `None` if closed.
    pub fn next_deadline(&self) -> Option<Duration> {
        (self.step != Step::Closed).then_some(self.deadline)
    }

    /// Takes the server's results after the test.
    pub fn take_results(&mut self) -> Option<Results> {
        self.results.take()
    }

    /// Handles an input at `now`, counted from the start; returns the actions in order.
    pub fn handle(&mut self, now: Duration, input: Input<'_>) -> Vec<Action> {
        if self.step != Step::Closed {
            self.take(now, input);
        }
        if self.step != Step::Closed && now >= self.deadline {
            self.late();
        }
        std::mem::take(&mut self.actions)
    }

    fn take(&mut self, now: Duration, input: Input<'_>) {
        match input {
            Input::Start => self.actions.push(Action::Send(self.cookie.0.to_vec())),
            Input::Bytes(bytes) => self.hear(now, bytes),
            Input::Cut(_) if self.step == Step::Leaving => self.close(Closed::Finished),
            Input::Cut(why) => self.close(Closed::Cut {
                step: self.step,
                why,
            }),
            Input::StreamsOpen => self.deadline = now + STEP_TIME,
            Input::Moved { bytes, over } => self.moved(now, bytes, over),
            Input::Collected(results) => self.tell(now, &results),
            Input::Failed(why) => self.abort(Closed::Failed(why)),
            Input::Tick => {}
        }
    }

    fn enter(&mut self, now: Duration, step: Step, time: Duration) {
        self.step = step;
        self.deadline = now + time;
    }

    fn moved(&mut self, now: Duration, bytes: u64, over: bool) {
        if self.step != Step::Running {
            return;
        }
        if bytes > self.moved_bytes {
            self.moved_bytes = bytes;
            self.deadline = now + self.silence;
        }
        if over {
            self.say(State::TestEnd);
            self.enter(now, Step::Ending, RESULTS_TIME);
        }
    }

    fn tell(&mut self, now: Duration, results: &Results) {
        match encode(results, MOST_CLIENT_RESULT_BYTES) {
            Ok(frame) => {
                self.actions.push(Action::Send(frame));
                self.deadline = now + RESULTS_TIME;
            }
            Err(error) => self.abort(Closed::Failed(error.to_string())),
        }
    }

    fn hear(&mut self, now: Duration, mut bytes: &[u8]) {
        while self.step != Step::Closed {
            if self.refusal.is_some() {
                self.hear_refusal(&mut bytes);
                return;
            }
            let Some(&first) = bytes.first() else {
                return;
            };
            // The first byte of a permitted length is less than any state that is possible here.
            let is_length = usize::from(first) <= MOST_SERVER_RESULT_BYTES >> 24;
            if self.step == Step::Exchanging && (self.body_begun || is_length) {
                self.hear_results(now, &mut bytes);
            } else {
                bytes = &bytes[1..];
                self.hear_state(now, first);
            }
        }
    }

    fn hear_refusal(&mut self, bytes: &mut &[u8]) {
        let held = self.refusal.get_or_insert_default();
        let wanted = (REFUSAL_BYTES - held.len()).min(bytes.len());
        held.extend_from_slice(&bytes[..wanted]);
        *bytes = &bytes[wanted..];
        if let Ok(whole) = <[u8; REFUSAL_BYTES]>::try_from(held.as_slice()) {
            let step = self.step;
            self.close(Closed::Refused {
                step,
                refusal: Refusal::decode(whole),
            });
        }
    }

    fn hear_results(&mut self, now: Duration, bytes: &mut &[u8]) {
        self.body_begun = true;
        let heard = self.bodies.next(bytes);
        let read = heard.and_then(|body| body.map(|body| decode(&body)).transpose());
        match read {
            Ok(Some(results)) => {
                self.results = Some(results);
                self.enter(now, Step::Leaving, STEP_TIME);
            }
            Ok(None) => {}
            Err(error) => self.violation(error.to_string()),
        }
    }

    fn hear_state(&mut self, now: Duration, byte: u8) {
        let Some(state) = State::of(byte) else {
            return self.violation(format!("it said {byte}, which is no state of iperf3"));
        };
        match (self.step, state) {
            (Step::Greeting, State::ParameterExchange) => self.ask(now),
            (Step::Asking, State::CreateStreams) => {
                self.enter(now, Step::Opening, STEP_TIME);
                self.actions.push(Action::OpenStreams);
            }
            (Step::Opening, State::TestStart) => {
                self.enter(now, Step::Starting, STEP_TIME);
                self.actions.push(Action::Ready);
            }
            (Step::Starting, State::TestRunning) => {
                self.enter(now, Step::Running, self.silence);
                self.actions.push(Action::Go);
            }
            // A server that has sent everything may end the test itself.
            (Step::Running | Step::Ending, State::ExchangeResults) => {
                self.enter(now, Step::Exchanging, RESULTS_TIME);
                self.actions.push(Action::Collect);
            }
            (Step::Leaving, State::DisplayResults) => {
                self.say(State::Done);
                self.close(Closed::Finished);
            }
            (Step::Greeting, State::AccessDenied) => self.close(Closed::Busy),
            (step, State::AccessDenied) => self.close(Closed::Denied { step }),
            (step, State::ServerTerminate) => self.close(Closed::Terminated { step }),
            (_, State::ServerError) => self.refusal = Some(Vec::new()),
            (step, state) => {
                self.violation(format!("it said {state:?} while {}", step.doing()));
            }
        }
    }

    fn ask(&mut self, now: Duration) {
        match encode(&self.parameters, MOST_PARAMETER_BYTES) {
            Ok(frame) => {
                self.actions.push(Action::Send(frame));
                self.enter(now, Step::Asking, STEP_TIME);
            }
            Err(error) => self.abort(Closed::Failed(error.to_string())),
        }
    }

    fn say(&mut self, state: State) {
        self.actions.push(Action::Send(vec![state.byte()]));
    }

    fn violation(&mut self, what: String) {
        let step = self.step;
        self.abort(Closed::Violation { step, what });
    }

    /// The server's results are sufficient: a missing last message is not an error.
    fn late(&mut self) {
        if self.step == Step::Leaving {
            return self.close(Closed::Finished);
        }
        let step = self.step;
        self.abort(Closed::TimedOut { step });
    }

    /// Ends the test from this end, so that the server can serve others.
    fn abort(&mut self, closed: Closed) {
        self.say(State::ClientTerminate);
        self.close(closed);
    }

    fn close(&mut self, closed: Closed) {
        self.step = Step::Closed;
        self.actions.push(Action::Close(closed));
    }
}
