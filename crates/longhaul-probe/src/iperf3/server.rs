//! The server's protocol as a state machine, without sockets or clocks: inputs in, actions out.
//!
//! ```text
//! Parameters ─► Admitting ─► Opening ─► Running ─► Draining ─► Results ─► Collecting ─► Farewell
//! ```
//!
//! Every step that waits for something has a deadline, after which the client gets an iperf3 error
//! code and the test ends.

use super::wire::{
    Bodies, Limit, MOST_CLIENT_RESULT_BYTES, MOST_PARAMETER_BYTES, MOST_SERVER_RESULT_BYTES,
    Parameters, Refusal, Results, State, Test, Trouble, decode, encode,
};
use std::time::Duration;

/// The timeout for the parameters, after the control connection is open.
pub const PARAMETERS_TIME: Duration = Duration::from_secs(10);
/// The timeout for each data connection; a client opens them one after the other.
pub const STREAM_TIME: Duration = Duration::from_secs(15);
/// The maximum time beyond the requested duration until the client ends the test.
pub const OVERTIME: Duration = Duration::from_secs(20);
/// The timeout without payload on any stream.
pub const SILENCE: Duration = Duration::from_secs(120);
/// The timeout for data in flight after the client has ended the test.
pub const DRAIN_TIME: Duration = Duration::from_secs(3);
/// The timeout for the client's results.
pub const RESULTS_TIME: Duration = Duration::from_secs(30);
/// The timeout for the client's last message, which changes nothing.
pub const FAREWELL_TIME: Duration = Duration::from_secs(10);
/// The maximum number of buffered bytes.
const MOST_HELD_BYTES: usize = MOST_CLIENT_RESULT_BYTES + 4096;

/// An error code for the client, and the reason for the log.
pub type Fault = (Trouble, String);

/// The step of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
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
pub enum Input<'a> {
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
    Ready(Box<Results>),
    /// The test cannot continue at this end.
    Failed(Trouble, String),
    /// This end stops the test; the client still prints its results so far.
    Terminate(String),
    /// Time has passed.
    Tick,
}

/// An action for the driver.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    Send(Vec<u8>),
    /// Decide on admission; answer `Admitted`, `Busy` or `Failed`.
    Admit(Box<(Parameters, Test)>),
    /// Start the flow of payload.
    Run,
    /// The client has ended the test; answer `Drained`.
    Stop,
    /// Take the client's results; answer `Ready`.
    Collect(Box<Results>),
    Close(Closed),
}

/// The end of a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Closed {
    Finished,
    /// The client ended the test early.
    ClientTerminated,
    /// The client was sent this error.
    Refused(Trouble, String),
    Busy(String),
    Terminated(String),
    /// The connection to the client was lost.
    Gone(Step, String),
}

impl std::fmt::Display for Closed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Closed::Finished => f.write_str("finished"),
            Closed::ClientTerminated => f.write_str("ended by the client"),
            Closed::Refused(trouble, why) => {
                write!(f, "refused: {}: {why}", Refusal::from(*trouble))
            }
            Closed::Busy(why) => write!(f, "told to come later: {why}"),
            Closed::Terminated(why) => write!(f, "ended here: {why}"),
            Closed::Gone(step, why) => write!(f, "lost while {}: {why}", step.words()),
        }
    }
}

impl Step {
    fn words(self) -> &'static str {
        match self {
            Step::Parameters | Step::Admitting => "its parameters were awaited",
            Step::Opening => "its streams were awaited",
            Step::Running => "running",
            Step::Draining => "the last bytes were awaited",
            Step::Results | Step::Collecting => "results were exchanged",
            Step::Farewell | Step::Closed => "its last word was awaited",
        }
    }
}

/// The server's part of one test.
#[derive(Debug)]
pub struct Server {
    step: Step,
    deadline: Option<Duration>,
    /// The deadline of the whole test, set when payload starts.
    end: Option<Duration>,
    longest: Duration,
    silence: Duration,
    most_bytes: Option<u64>,
    moved: u64,
    limit: Option<(Limit, u32)>,
    bodies: Bodies,
    held: Vec<u8>,
    actions: Vec<Action>,
}

impl Server {
    /// Creates the state machine. A test may take at most `longest` and move at most `most_bytes`.
    pub fn new(longest: Duration, most_bytes: Option<u64>) -> Server {
        Server {
            step: Step::Parameters,
            deadline: None,
            end: None,
            longest,
            silence: SILENCE,
            most_bytes,
            moved: 0,
            limit: None,
            bodies: Bodies::new(MOST_PARAMETER_BYTES),
            held: Vec::new(),
            actions: Vec::new(),
        }
    }

    /// Sets the timeout without payload, instead of [`SILENCE`].
    #[must_use]
    pub fn with_silence(self, silence: Duration) -> Server {
        Server { silence, ..self }
    }

    pub fn step(&self) -> Step {
        self.step
    }

    /// Returns the time by which a tick is due.
    pub fn next_deadline(&self) -> Option<Duration> {
        let open = self.step != Step::Closed;
        self.deadline
            .into_iter()
            .chain(self.end)
            .min()
            .filter(|_| open)
    }

    /// Handles an input at `now`; returns the actions in order.
    pub fn handle(&mut self, now: Duration, input: Input<'_>) -> Vec<Action> {
        if self.step != Step::Closed {
            self.take(now, input);
            self.read(now);
        }
        std::mem::take(&mut self.actions)
    }

    fn take(&mut self, now: Duration, input: Input<'_>) {
        match (self.step, input) {
            (Step::Parameters, Input::Start) => {
                self.say(State::ParameterExchange);
                self.deadline = Some(now + PARAMETERS_TIME);
            }
            (_, Input::Bytes(bytes)) => self.hold(bytes),
            (Step::Farewell, Input::Gone(_)) => self.close(Closed::Finished),
            (step, Input::Gone(why)) => self.close(Closed::Gone(step, why)),
            (Step::Admitting, Input::Admitted) => {
                self.say(State::CreateStreams);
                self.enter(Step::Opening, now + STREAM_TIME);
            }
            (_, Input::Busy(why)) => {
                self.say(State::AccessDenied);
                self.close(Closed::Busy(why));
            }
            (Step::Opening, Input::StreamJoined) => self.deadline = Some(now + STREAM_TIME),
            (Step::Opening, Input::StreamsOpen) => self.run(now),
            (Step::Running | Step::Draining, Input::Moved(bytes)) => self.progress(now, bytes),
            (Step::Draining, Input::Drained) => self.ask_results(now),
            (Step::Collecting, Input::Ready(results)) => self.answer(now, &results),
            (_, Input::Failed(trouble, why)) => self.refuse(trouble, why),
            (_, Input::Terminate(why)) => self.terminate(why),
            (_, Input::Tick) => self.tick(now),
            _ => {}
        }
    }

    fn enter(&mut self, step: Step, deadline: Duration) {
        self.step = step;
        self.deadline = Some(deadline);
    }

    fn say(&mut self, state: State) {
        self.actions.push(Action::Send(vec![state.byte()]));
    }

    fn close(&mut self, closed: Closed) {
        self.step = Step::Closed;
        self.held = Vec::new();
        self.actions.push(Action::Close(closed));
    }

    fn refuse(&mut self, trouble: Trouble, why: String) {
        let mut bytes = vec![State::ServerError.byte()];
        bytes.extend(Refusal::from(trouble).encode());
        self.actions.push(Action::Send(bytes));
        self.close(Closed::Refused(trouble, why));
    }

    fn terminate(&mut self, why: String) {
        self.say(State::ServerTerminate);
        self.close(Closed::Terminated(why));
    }

    fn run(&mut self, now: Duration) {
        let asked = match self.limit {
            Some((Limit::Seconds(seconds), omit)) => {
                Duration::from_secs(u64::from(seconds) + u64::from(omit))
            }
            _ => self.longest,
        };
        self.end = Some(now + asked.min(self.longest) + OVERTIME);
        self.actions.push(Action::Run);
        self.actions.push(Action::Send(vec![
            State::TestStart.byte(),
            State::TestRunning.byte(),
        ]));
        self.enter(Step::Running, now + self.silence);
    }

    fn progress(&mut self, now: Duration, bytes: u64) {
        if bytes > self.moved && self.step == Step::Running {
            self.deadline = Some(now + self.silence);
        }
        self.moved = bytes;
        if self.most_bytes.is_some_and(|most| bytes > most) {
            self.terminate("more bytes than are allowed here".to_owned());
        }
    }

    fn ask_results(&mut self, now: Duration) {
        self.say(State::ExchangeResults);
        self.bodies = Bodies::new(MOST_CLIENT_RESULT_BYTES);
        self.end = None;
        self.enter(Step::Results, now + RESULTS_TIME);
    }

    fn answer(&mut self, now: Duration, results: &Results) {
        match encode(results, MOST_SERVER_RESULT_BYTES) {
            Ok(mut bytes) => {
                bytes.push(State::DisplayResults.byte());
                self.actions.push(Action::Send(bytes));
                self.enter(Step::Farewell, now + FAREWELL_TIME);
            }
            Err(error) => self.refuse(Trouble::Results, error.to_string()),
        }
    }

    fn tick(&mut self, now: Duration) {
        if self.end.is_some_and(|end| now >= end) {
            self.terminate("it has had its time".to_owned());
        } else if self.deadline.is_some_and(|deadline| now >= deadline) {
            self.late(now);
        }
    }

    fn late(&mut self, now: Duration) {
        let why = "nothing came in time".to_owned();
        match self.step {
            Step::Parameters | Step::Admitting => self.refuse(Trouble::Parameters, why),
            Step::Opening => self.refuse(Trouble::Stream, why),
            Step::Running => self.refuse(Trouble::Silence, why),
            Step::Draining => self.ask_results(now),
            Step::Results | Step::Collecting => self.refuse(Trouble::Results, why),
            Step::Farewell | Step::Closed => self.close(Closed::Finished),
        }
    }

    fn hold(&mut self, bytes: &[u8]) {
        if self.held.len() + bytes.len() > MOST_HELD_BYTES {
            self.refuse(Trouble::Message, "more than it was asked for".to_owned());
        } else {
            self.held.extend_from_slice(bytes);
        }
    }

    /// Reads the buffered bytes, as far as the current step allows.
    fn read(&mut self, now: Duration) {
        while !self.held.is_empty() {
            let held = std::mem::take(&mut self.held);
            let mut rest = held.as_slice();
            let more = match self.step {
                Step::Parameters | Step::Results => self.body(&mut rest),
                Step::Opening | Step::Running | Step::Draining | Step::Farewell => {
                    self.word(now, &mut rest);
                    true
                }
                Step::Admitting | Step::Collecting => false,
                Step::Closed => return,
            };
            if self.step != Step::Closed {
                self.held = rest.to_vec();
            }
            if !more {
                return;
            }
        }
    }

    /// Reads one state byte from the client.
    fn word(&mut self, now: Duration, bytes: &mut &[u8]) {
        let Some((&byte, rest)) = bytes.split_first() else {
            return;
        };
        *bytes = rest;
        match (self.step, State::of(byte)) {
            (Step::Running, Some(State::TestEnd)) => {
                self.actions.push(Action::Stop);
                self.enter(Step::Draining, now + DRAIN_TIME);
            }
            (Step::Farewell, Some(State::Done)) => self.close(Closed::Finished),
            (_, Some(State::ClientTerminate)) => self.close(Closed::ClientTerminated),
            (_, state) => {
                let why = format!("byte {byte} ({state:?}) does not belong here");
                self.refuse(Trouble::Message, why);
            }
        }
    }

    /// Reads parameters or results; false if more bytes or a decision are needed.
    fn body(&mut self, bytes: &mut &[u8]) -> bool {
        let trouble = match self.step {
            Step::Parameters => Trouble::Parameters,
            _ => Trouble::Results,
        };
        match self.bodies.next(bytes) {
            Ok(None) => return false,
            Ok(Some(body)) if self.step == Step::Parameters => self.parameters(&body),
            Ok(Some(body)) => match decode(&body) {
                Ok(results) => {
                    self.step = Step::Collecting;
                    self.actions.push(Action::Collect(Box::new(results)));
                }
                Err(error) => self.refuse(trouble, error.to_string()),
            },
            Err(error) => self.refuse(trouble, error.to_string()),
        }
        false
    }

    fn parameters(&mut self, body: &[u8]) {
        let asked: Parameters = match decode(body) {
            Ok(asked) => asked,
            Err(error) => return self.refuse(Trouble::Parameters, error.to_string()),
        };
        match Test::of(&asked) {
            Ok(test) => {
                self.limit = Some((test.limit, test.omit_seconds));
                self.step = Step::Admitting;
                self.actions.push(Action::Admit(Box::new((asked, test))));
            }
            Err(trouble) => self.refuse(trouble, "out of range".to_owned()),
        }
    }
}
