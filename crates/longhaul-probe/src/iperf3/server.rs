//! The server's part of a test, without sockets or clocks: inputs and time in, actions out.
//!
//! ```text
//! Parameters ─► Admitting ─► Opening ─► Running ─► Draining ─► Results ─► Collecting ─► Farewell
//! ```
//!
//! Every step in which something is awaited has a deadline; at the end of each the client is told,
//! by the number it understands, and the test is over.

use super::wire::{
    Bodies, Limit, MOST_CLIENT_RESULT_BYTES, MOST_PARAMETER_BYTES, MOST_SERVER_RESULT_BYTES,
    Parameters, Refusal, Results, State, Test, Trouble, decode, encode,
};
use std::time::Duration;

/// For the parameters, once the control connection stands.
pub const PARAMETERS_TIME: Duration = Duration::from_secs(10);
/// For each data connection; a client opens them one after the other.
pub const STREAM_TIME: Duration = Duration::from_secs(15);
/// Beyond the time that was asked, until the client says that it is over.
pub const OVERTIME: Duration = Duration::from_secs(20);
/// Without a byte of payload on any stream.
pub const SILENCE: Duration = Duration::from_secs(120);
/// For what is under way when the client says that it is over.
pub const DRAIN_TIME: Duration = Duration::from_secs(3);
/// For the client's results.
pub const RESULTS_TIME: Duration = Duration::from_secs(30);
/// For the client's last word, which changes nothing.
pub const FAREWELL_TIME: Duration = Duration::from_secs(10);
/// Bytes that may wait until they can be read.
const MOST_HELD_BYTES: usize = MOST_CLIENT_RESULT_BYTES + 4096;

/// A trouble for the client, and why for the log.
pub type Fault = (Trouble, String);

/// Where a test stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The client's parameters are awaited.
    Parameters,
    /// Its driver decides whether there is room.
    Admitting,
    /// Data connections are awaited.
    Opening,
    Running,
    /// The client has said that it is over; what is under way may still come.
    Draining,
    /// The client's results are awaited.
    Results,
    /// Our own are put together.
    Collecting,
    /// The client's last word is awaited.
    Farewell,
    Closed,
}

/// What happened.
#[derive(Debug)]
pub enum Input<'a> {
    /// The cookie has come.
    Start,
    Bytes(&'a [u8]),
    /// The control connection is gone; why.
    Gone(String),
    /// There is room for the test.
    Admitted,
    /// There is none: the client prints that the server is busy.
    Busy(String),
    /// One more data connection.
    StreamJoined,
    /// All of them.
    StreamsOpen,
    /// Payload moved so far, all streams together.
    Moved(u64),
    /// Nothing is under way any more.
    Drained,
    /// Our own results.
    Ready(Box<Results>),
    /// The test cannot go on at this end.
    Failed(Trouble, String),
    /// This end wants no more of it; the client still prints what it has.
    Terminate(String),
    /// Time has passed.
    Tick,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    Send(Vec<u8>),
    /// Is there room for this? Answered by `Admitted`, `Busy` or `Failed`.
    Admit(Box<(Parameters, Test)>),
    /// Payload flows from now on.
    Run,
    /// The client has sent, or taken, all it wants. Answered by `Drained`.
    Stop,
    /// The client's results are these; answered by `Ready`.
    Collect(Box<Results>),
    Close(Closed),
}

/// How a test ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Closed {
    Finished,
    /// By the client's own wish, before its time.
    ClientTerminated,
    /// What the client was told.
    Refused(Trouble, String),
    Busy(String),
    Terminated(String),
    /// The client is gone.
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
    /// Of the whole test, from the start of payload on.
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
    /// No test may last longer than `longest`, nor move more than `most_bytes`.
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

    /// How long no payload may come, instead of [`SILENCE`].
    #[must_use]
    pub fn with_silence(self, silence: Duration) -> Server {
        Server { silence, ..self }
    }

    pub fn step(&self) -> Step {
        self.step
    }

    /// When a tick is due at the latest.
    pub fn next_deadline(&self) -> Option<Duration> {
        let open = self.step != Step::Closed;
        self.deadline
            .into_iter()
            .chain(self.end)
            .min()
            .filter(|_| open)
    }

    /// Takes what happened at `now`, and says what is to be done, in order.
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

    /// Reads what is held, as far as this step can read.
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

    /// One state byte of the client.
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

    /// Parameters or results; false: more bytes are needed, or a decision.
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
