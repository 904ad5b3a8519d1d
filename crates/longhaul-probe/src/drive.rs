//! Moves bytes between a session and its control connection, and lets the hooks of one role carry
//! out the session's actions. All rules are in [`crate::session`].

mod engines;
mod results;

pub(crate) use engines::{Collected, EngineSetup, Engines, Sockets};
pub(crate) use results::{capture_messages, result_messages};

use crate::engine::EngineError;
use crate::secure::{Channel, Heard};
use crate::session::{Action, Closed, Input, Role, Session, State};
use crate::wire::{Decoder, MOST_FRAME_BYTES, MOST_RESULT_BYTES, Message, encode};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The poll interval of the engine while payload flows: a thread that wakes up preempts a stream's
/// thread, at this end or at the peer's.
pub(crate) const CALM_POLL: Duration = Duration::from_millis(250);
/// The poll interval of the engine when the transfer may be over.
const ENGINE_POLL: Duration = Duration::from_millis(10);
const STREAMS_POLL: Duration = Duration::from_millis(2);
/// The interval at which the hooks are polled in other states (is the program being stopped?).
const IDLE_POLL: Duration = Duration::from_millis(200);
/// The time limit for pending messages when a session closes.
const FAREWELL: Duration = Duration::from_secs(1);

/// The actions of one role outside the protocol.
pub(crate) trait Hooks {
    /// Performs an action of the session; the returned input is fed back to it.
    fn act(&mut self, action: Action) -> Result<Option<Input>, EngineError>;

    /// Checks for local events.
    fn poll(&mut self, session: &Session, now: Duration) -> Option<Input>;

    /// Returns whether local events may occur at any time. Then `poll` is called every few
    /// milliseconds while the session works or opens its streams.
    fn expects(&self) -> bool {
        true
    }
}

/// A session that is in progress.
pub(crate) struct Drive {
    channel: Channel,
    session: Session,
    decoder: Decoder,
    epoch: Instant,
    closed: Option<Closed>,
    /// Inputs that resulted from actions, in order.
    inputs: VecDeque<Input>,
}

impl Drive {
    /// Creates a driver; `epoch` is the zero of the session's clock.
    pub fn new(channel: Channel, session: Session, epoch: Instant) -> Self {
        Drive {
            channel,
            session,
            decoder: Decoder::new(MOST_FRAME_BYTES),
            epoch,
            closed: None,
            inputs: VecDeque::new(),
        }
    }

    /// Runs until the session closes. Returns the reason, and the session.
    pub fn run(mut self, hooks: &mut dyn Hooks) -> (Closed, Session) {
        self.feed(hooks, Input::Start);
        while self.closed.is_none() {
            let until = self.wake_at(hooks);
            self.turn(hooks, until);
        }
        self.hang_up()
    }

    /// Waits for input until `until`, then polls the hooks and checks the deadlines.
    pub fn turn(&mut self, hooks: &mut dyn Hooks, until: Instant) {
        self.listen(hooks, until);
        let now = self.epoch.elapsed();
        if let Some(input) = hooks.poll(&self.session, now) {
            self.feed(hooks, input);
        }
        self.feed(hooks, Input::Tick);
    }

    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The reason why the session ended, if it has.
    pub fn closed(&self) -> Option<&Closed> {
        self.closed.as_ref()
    }

    /// Sends the pending messages and closes the connection.
    pub fn hang_up(self) -> (Closed, Session) {
        self.channel.close(Instant::now() + FAREWELL);
        let gone = Closed::Cut {
            step: self.session.state(),
            why: "hung up".to_owned(),
        };
        (self.closed.unwrap_or(gone), self.session)
    }

    /// Returns the time at which the hooks or the session must be polled again.
    pub fn wake_at(&self, hooks: &dyn Hooks) -> Instant {
        let poll = match self.session.state() {
            State::Opening | State::Working if hooks.expects() => STREAMS_POLL,
            State::Running => self.calm_for().clamp(ENGINE_POLL, CALM_POLL),
            State::Draining => ENGINE_POLL,
            _ => IDLE_POLL,
        };
        let poll = Instant::now() + poll;
        let deadline = self.session.next_deadline().map(|at| self.epoch + at);
        deadline.map_or(poll, |deadline| deadline.min(poll))
    }

    fn calm_for(&self) -> Duration {
        let until = self.session.flows_until();
        until.map_or(Duration::ZERO, |until| {
            until.saturating_sub(self.epoch.elapsed())
        })
    }

    fn listen(&mut self, hooks: &mut dyn Hooks, until: Instant) {
        match self.channel.turn(until) {
            Heard::Nothing => {}
            Heard::Cut(why) => self.feed(hooks, Input::Cut(why)),
            Heard::Bytes(bytes) => {
                let bytes = bytes.to_vec();
                self.decode(hooks, &bytes);
            }
        }
    }

    fn decode(&mut self, hooks: &mut dyn Hooks, mut bytes: &[u8]) {
        self.feed(hooks, Input::Heard);
        while !bytes.is_empty() && self.closed.is_none() {
            // Result messages are large; only the server sends them, and only on request.
            let telling = matches!(self.session.state(), State::Exchanging | State::Working);
            let results = self.session.role() == Role::Initiator && telling;
            self.decoder.set_limit(if results {
                MOST_RESULT_BYTES
            } else {
                MOST_FRAME_BYTES
            });
            match self.decoder.next(&mut bytes) {
                Ok(Some(message)) => self.feed(hooks, Input::Message(message)),
                Ok(None) => return,
                Err(error) => self.feed(hooks, Input::Garbage(error.to_string())),
            }
        }
    }

    /// Feeds an input and all inputs that result from it, before more is received.
    pub fn feed(&mut self, hooks: &mut dyn Hooks, input: Input) {
        self.inputs.push_back(input);
        while let Some(input) = self.inputs.pop_front() {
            let now = self.epoch.elapsed();
            for action in self.session.handle(now, input) {
                self.act(hooks, action);
            }
        }
    }

    fn act(&mut self, hooks: &mut dyn Hooks, action: Action) {
        match action {
            Action::Send(message) => self.send(&message),
            Action::Close(closed) => self.closed = Some(closed),
            other => match hooks.act(other) {
                Ok(answer) => self.inputs.extend(answer),
                Err(error) => self.inputs.push_back(Input::Failed(error.to_string())),
            },
        }
    }

    fn send(&mut self, message: &Message) {
        let limit = match message {
            Message::Capture(_) | Message::Stream(_) | Message::End(_) | Message::Answer(_) => {
                MOST_RESULT_BYTES
            }
            _ => MOST_FRAME_BYTES,
        };
        match encode(message, limit) {
            Ok(frame) => self.channel.queue(&frame),
            Err(error) => {
                let what = format!("cannot send `{}`: {error}", message.name());
                self.inputs.push_back(Input::Failed(what));
            }
        }
    }
}
