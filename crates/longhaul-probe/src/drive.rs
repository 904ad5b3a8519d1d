//! Moves bytes between a session and its control connection, and lets the hooks of one role do
//! what the session wants. Short and dumb: every rule is in [`crate::session`].

mod engines;
mod results;

pub(crate) use engines::{Collected, EngineSetup, Engines, Sockets};
pub(crate) use results::result_messages;

use crate::engine::EngineError;
use crate::secure::{Channel, Heard};
use crate::session::{Action, Closed, Input, Role, Session, State};
use crate::wire::{Decoder, MOST_FRAME_BYTES, MOST_RESULT_BYTES, Message, encode};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How often the engine is looked at while payload flows, and the listener while streams open.
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

    /// Looks whether something happened here; called every few milliseconds.
    fn poll(&mut self, session: &Session, now: Duration) -> Option<Input>;
}

/// One session under way.
pub(crate) struct Drive<'a> {
    channel: Channel,
    session: Session,
    hooks: &'a mut dyn Hooks,
    decoder: Decoder,
    epoch: Instant,
    closed: Option<Closed>,
    /// Inputs that came out of actions, in order.
    inputs: VecDeque<Input>,
}

impl<'a> Drive<'a> {
    /// `epoch` is zero of the session's clock.
    pub fn new(
        channel: Channel,
        session: Session,
        epoch: Instant,
        hooks: &'a mut dyn Hooks,
    ) -> Self {
        Drive {
            channel,
            session,
            hooks,
            decoder: Decoder::new(MOST_FRAME_BYTES),
            epoch,
            closed: None,
            inputs: VecDeque::new(),
        }
    }

    /// Until the session is closed. Returns why, and the session for what it has learnt.
    pub fn run(mut self) -> (Closed, Session) {
        self.feed(Input::Start);
        loop {
            if let Some(closed) = self.closed.take() {
                self.channel.close(Instant::now() + FAREWELL);
                return (closed, self.session);
            }
            self.listen();
            let now = self.epoch.elapsed();
            if let Some(input) = self.hooks.poll(&self.session, now) {
                self.feed(input);
            }
            self.feed(Input::Tick);
        }
    }

    fn wake_at(&self) -> Instant {
        let poll = match self.session.state() {
            State::Opening => STREAMS_POLL,
            State::Running | State::Draining => ENGINE_POLL,
            _ => IDLE_POLL,
        };
        let poll = Instant::now() + poll;
        let deadline = self.session.next_deadline().map(|at| self.epoch + at);
        deadline.map_or(poll, |deadline| deadline.min(poll))
    }

    fn listen(&mut self) {
        let until = self.wake_at();
        match self.channel.turn(until) {
            Heard::Nothing => {}
            Heard::Cut(why) => self.feed(Input::Cut(why)),
            Heard::Bytes(bytes) => {
                let bytes = bytes.to_vec();
                self.decode(&bytes);
            }
        }
    }

    fn decode(&mut self, mut bytes: &[u8]) {
        self.feed(Input::Heard);
        while !bytes.is_empty() && self.closed.is_none() {
            // Results are large, come from the responder only, and only when asked for.
            let results =
                self.session.role() == Role::Initiator && self.session.state() == State::Exchanging;
            self.decoder.set_limit(if results {
                MOST_RESULT_BYTES
            } else {
                MOST_FRAME_BYTES
            });
            match self.decoder.next(&mut bytes) {
                Ok(Some(message)) => self.feed(Input::Message(message)),
                Ok(None) => return,
                Err(error) => self.feed(Input::Garbage(error.to_string())),
            }
        }
    }

    /// Feeds an input and all that follows from it, before anything else is heard.
    fn feed(&mut self, input: Input) {
        self.inputs.push_back(input);
        while let Some(input) = self.inputs.pop_front() {
            let now = self.epoch.elapsed();
            for action in self.session.handle(now, input) {
                self.act(action);
            }
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Send(message) => self.send(&message),
            Action::Close(closed) => self.closed = Some(closed),
            other => match self.hooks.act(other) {
                Ok(answer) => self.inputs.extend(answer),
                Err(error) => self.inputs.push_back(Input::Failed(error.to_string())),
            },
        }
    }

    fn send(&mut self, message: &Message) {
        let limit = match message {
            Message::Stream(_) | Message::End(_) => MOST_RESULT_BYTES,
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
