//! Moves bytes between a session and its control connection, and lets the hooks of one role do
//! what the session wants. Short and dumb: every rule is in [`crate::session`].

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

/// How often the engine is looked at while payload can only flow: a thread that wakes takes the
/// core of a stream's thread, or of the far end's.
pub(crate) const CALM_POLL: Duration = Duration::from_millis(250);
/// The same when it may be over, and of the listener while streams open.
const ENGINE_POLL: Duration = Duration::from_millis(10);
const STREAMS_POLL: Duration = Duration::from_millis(2);
/// How often the hooks are asked in other states (is this program being stopped?).
const IDLE_POLL: Duration = Duration::from_millis(200);
/// What is left to say when a session closes may take this long.
const FAREWELL: Duration = Duration::from_secs(1);

/// What one role does outside the protocol.
pub(crate) trait Hooks {
    /// Does what the session wants; an answer goes back into it.
    fn act(&mut self, action: Action) -> Result<Option<Input>, EngineError>;

    /// Looks whether something happened here.
    fn poll(&mut self, session: &Session, now: Duration) -> Option<Input>;

    /// Something may happen here at any time, so that `poll` wants to be called every few
    /// milliseconds in a session that works or opens its streams.
    fn expects(&self) -> bool {
        true
    }
}

/// One session under way.
pub(crate) struct Drive {
    channel: Channel,
    session: Session,
    decoder: Decoder,
    epoch: Instant,
    closed: Option<Closed>,
    /// Inputs that came out of actions, in order.
    inputs: VecDeque<Input>,
}

impl Drive {
    /// `epoch` is zero of the session's clock.
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

    /// Until the session is closed. Returns why, and the session for what it has learnt.
    pub fn run(mut self, hooks: &mut dyn Hooks) -> (Closed, Session) {
        self.feed(hooks, Input::Start);
        while self.closed.is_none() {
            let until = self.wake_at(hooks);
            self.turn(hooks, until);
        }
        self.hang_up()
    }

    /// Listens until something comes, or `until`; then lets the hooks and the deadlines speak.
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

    /// Why the session is over, if it is.
    pub fn closed(&self) -> Option<&Closed> {
        self.closed.as_ref()
    }

    /// Says what is left to say, and leaves.
    pub fn hang_up(self) -> (Closed, Session) {
        self.channel.close(Instant::now() + FAREWELL);
        let gone = Closed::Cut {
            step: self.session.state(),
            why: "hung up".to_owned(),
        };
        (self.closed.unwrap_or(gone), self.session)
    }

    /// When the hooks or the session want to be looked at again.
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
            // Results are large, come from the responder only, and only when asked for.
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

    /// Feeds an input and all that follows from it, before anything else is heard.
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
