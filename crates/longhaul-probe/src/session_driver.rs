//! Moves bytes between a session and its control connection, and lets the hooks of one role carry
//! out the session's actions. All rules are in [`crate::session`].

mod engines;
mod split_messages;

pub use engines::{SessionEngines, SessionResults, SessionSockets};
pub(crate) use split_messages::{split_capture, split_results};

use crate::engine::EngineError;
use crate::secure::{ChannelEvent, ControlChannel};
use crate::session::{Session, SessionAction, SessionEnd, SessionInput, SessionRole, SessionState};
use crate::wire::{ControlMessage, FrameSplitter, MAX_FRAME_BYTES, MAX_RESULT_BYTES, encode_frame};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The poll interval of the engine while payload flows: a thread that wakes up preempts a stream's
/// thread, at this end or at the peer's.
pub const TRANSFER_POLL: Duration = Duration::from_millis(250);
/// The poll interval of the engine when the transfer may be over.
const ENGINE_POLL: Duration = Duration::from_millis(10);
const STREAMS_POLL: Duration = Duration::from_millis(2);
/// The interval at which the hooks are polled in other states (is the program being stopped?).
const IDLE_POLL: Duration = Duration::from_millis(200);
/// The time limit for pending messages when a session closes.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// The actions of one role outside the protocol.
pub(crate) trait SessionHooks {
    /// Performs an action of the session; the returned input is fed back to it.
    fn act(&mut self, action: SessionAction) -> Result<Option<SessionInput>, EngineError>;

    /// Checks for local events.
    fn poll(&mut self, session: &Session, now: Duration) -> Option<SessionInput>;

    /// Returns whether local events may occur at any time. Then `poll` is called every few
    /// milliseconds while the session works or opens its streams.
    fn expects_events(&self) -> bool {
        true
    }
}

/// A session that is in progress.
pub(crate) struct SessionDriver {
    channel: ControlChannel,
    session: Session,
    decoder: FrameSplitter,
    epoch: Instant,
    closed: Option<SessionEnd>,
    /// Inputs that resulted from actions, in order.
    inputs: VecDeque<SessionInput>,
}

impl SessionDriver {
    /// Creates a driver; `epoch` is the zero of the session's clock.
    pub fn new(channel: ControlChannel, session: Session, epoch: Instant) -> Self {
        SessionDriver {
            channel,
            session,
            decoder: FrameSplitter::new(MAX_FRAME_BYTES),
            epoch,
            closed: None,
            inputs: VecDeque::new(),
        }
    }

    /// Runs until the session closes. Returns the reason, and the session.
    pub fn run(mut self, hooks: &mut dyn SessionHooks) -> (SessionEnd, Session) {
        self.feed(hooks, SessionInput::Start);
        while self.closed.is_none() {
            let until = self.wake_at(hooks);
            self.poll_once(hooks, until);
        }
        self.close()
    }

    /// Waits for input until `until`, then polls the hooks and checks the deadlines.
    pub fn poll_once(&mut self, hooks: &mut dyn SessionHooks, until: Instant) {
        self.receive(hooks, until);
        let now = self.epoch.elapsed();
        if let Some(input) = hooks.poll(&self.session, now) {
            self.feed(hooks, input);
        }
        self.feed(hooks, SessionInput::Tick);
    }

    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The reason why the session ended, if it has.
    pub fn closed(&self) -> Option<&SessionEnd> {
        self.closed.as_ref()
    }

    /// Sends the pending messages and closes the connection.
    pub fn close(self) -> (SessionEnd, Session) {
        self.channel.close(Instant::now() + CLOSE_TIMEOUT);
        let gone =
            SessionEnd::Cut { step: self.session.state(), why: "connection closed".to_owned() };
        (self.closed.unwrap_or(gone), self.session)
    }

    /// Returns the time at which the hooks or the session must be polled again.
    pub fn wake_at(&self, hooks: &dyn SessionHooks) -> Instant {
        let poll = match self.session.state() {
            SessionState::Opening | SessionState::Working if hooks.expects_events() => STREAMS_POLL,
            SessionState::Running => self.flow_time_left().clamp(ENGINE_POLL, TRANSFER_POLL),
            SessionState::Draining => ENGINE_POLL,
            _ => IDLE_POLL,
        };
        let poll = Instant::now() + poll;
        let deadline = self.session.next_deadline().map(|at| self.epoch + at);
        deadline.map_or(poll, |deadline| deadline.min(poll))
    }

    fn flow_time_left(&self) -> Duration {
        let until = self.session.flows_until();
        until.map_or(Duration::ZERO, |until| until.saturating_sub(self.epoch.elapsed()))
    }

    fn receive(&mut self, hooks: &mut dyn SessionHooks, until: Instant) {
        match self.channel.poll(until) {
            ChannelEvent::Nothing => {}
            ChannelEvent::Cut(why) => self.feed(hooks, SessionInput::Cut(why)),
            ChannelEvent::Bytes(bytes) => {
                let bytes = bytes.to_vec();
                self.decode(hooks, &bytes);
            }
        }
    }

    fn decode(&mut self, hooks: &mut dyn SessionHooks, mut bytes: &[u8]) {
        self.feed(hooks, SessionInput::BytesReceived);
        while !bytes.is_empty() && self.closed.is_none() {
            // Result messages are large; only the server sends them, and only on request.
            let telling =
                matches!(self.session.state(), SessionState::Exchanging | SessionState::Working);
            let results = self.session.role() == SessionRole::Client && telling;
            self.decoder.set_limit(if results { MAX_RESULT_BYTES } else { MAX_FRAME_BYTES });
            match self.decoder.next_message(&mut bytes) {
                Ok(Some(message)) => self.feed(hooks, SessionInput::Message(message)),
                Ok(None) => return,
                Err(error) => self.feed(hooks, SessionInput::Garbage(error.to_string())),
            }
        }
    }

    /// Feeds an input and all inputs that result from it, before more is received.
    pub fn feed(&mut self, hooks: &mut dyn SessionHooks, input: SessionInput) {
        self.inputs.push_back(input);
        while let Some(input) = self.inputs.pop_front() {
            let now = self.epoch.elapsed();
            for action in self.session.handle(now, input) {
                self.act(hooks, action);
            }
        }
    }

    fn act(&mut self, hooks: &mut dyn SessionHooks, action: SessionAction) {
        match action {
            SessionAction::Send(message) => self.send(&message),
            SessionAction::Close(closed) => self.closed = Some(closed),
            other => match hooks.act(other) {
                Ok(answer) => self.inputs.extend(answer),
                Err(error) => self.inputs.push_back(SessionInput::Failed(error.to_string())),
            },
        }
    }

    fn send(&mut self, message: &ControlMessage) {
        let limit = match message {
            ControlMessage::Capture { .. }
            | ControlMessage::Stream(_)
            | ControlMessage::End(_)
            | ControlMessage::Answer(_) => MAX_RESULT_BYTES,
            _ => MAX_FRAME_BYTES,
        };
        match encode_frame(message, limit) {
            Ok(frame) => self.channel.queue(&frame),
            Err(error) => {
                let what = format!("cannot send `{}`: {error}", message.name());
                self.inputs.push_back(SessionInput::Failed(what));
            }
        }
    }
}
