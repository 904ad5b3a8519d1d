//! The state table of the protocol: the permitted events and the state that each leads to.

use crate::wire::ControlMessage;

/// The role of an end of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SessionRole {
    /// The client: connected, has the plan, prints the result.
    Client,
    /// The server: listened.
    Server,
}

/// The state of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SessionState {
    /// Waiting for the peer's `hello`.
    Greeting,
    /// The tokens are proved.
    Proving,
    /// The plan is proposed, and accepted or refused.
    Negotiating,
    /// The data streams open, all at once.
    Opening,
    /// RTT and clock offset are measured on the idle path.
    Timing,
    /// The engines of both ends become ready.
    Ready,
    /// Payload flows.
    Running,
    /// Everything is written; data in flight arrives.
    Draining,
    /// The server sends its results.
    Exchanging,
    /// Probes: the client may send the next request.
    Asking,
    /// Probes: the server carries out a request.
    Working,
    Closed,
}

/// An event: a message of the peer (named as in [`ControlMessage::name`]), or a local one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SessionEvent {
    Hello,
    Proof,
    Welcome,
    Propose,
    Probe,
    Accept,
    Opened,
    Ping,
    Pong,
    Prepare,
    Prepared,
    Go,
    Interval,
    Sent,
    Drained,
    Capture,
    Stream,
    End,
    Ask,
    Answer,
    /// Local: the run was admitted.
    Admitted,
    /// Local: all data streams are open.
    StreamsOpen,
    /// Local: enough round trips have been timed.
    Timed,
    /// Local: enough round trips have been timed in a probe session.
    TimedToAsk,
    /// Local: a request was sent.
    Asked,
    /// Local: a request was completed, successfully or not.
    Done,
    /// Local: the engine is ready.
    EngineReady,
    /// Local: both engines are ready and the start time has come.
    StartTime,
    /// Local: every sender of both ends has written everything.
    AllSent,
    /// Local: every receiver of both ends has read everything, or its grace period is over.
    AllDrained,
    /// `bye`, a lost connection, a deadline, a violation, a failure: the session ends.
    Ending,
}

/// Returns the next state; `None` if the event is not permitted, which ends the session.
#[expect(
    clippy::match_same_arms,
    reason = "one line for each legal step, in the order of a session"
)]
pub fn next_state(
    role: SessionRole,
    state: SessionState,
    event: SessionEvent,
) -> Option<SessionState> {
    use SessionEvent::{
        Accept, Admitted, AllDrained, AllSent, Answer, Ask, Asked, Capture, Done, Drained, End,
        Ending, EngineReady, Go, Hello, Interval, Opened, Ping, Pong, Prepare, Prepared, Probe,
        Proof, Propose, Sent, StartTime, Stream, StreamsOpen, Timed, TimedToAsk, Welcome,
    };
    use SessionRole::{Client as I, Server as R};
    use SessionState::{
        Asking, Closed, Draining, Exchanging, Greeting, Negotiating, Opening, Proving, Ready,
        Running, Timing, Working,
    };
    Some(match (role, state, event) {
        (_, Closed, _) => return None,
        (_, _, Ending) => Closed,

        (_, Greeting, Hello) => Proving,
        (R, Proving, Proof) => Negotiating,
        (I, Proving, Welcome) => Negotiating,
        (R, Negotiating, Propose | Probe) => Negotiating,
        (R, Negotiating, Admitted) => Opening,
        (I, Negotiating, Accept) => Opening,
        (I, Opening, StreamsOpen) => Opening,
        (R, Opening, StreamsOpen) => Timing,
        (I, Opening, Opened) => Timing,
        (R, Timing, Ping) => Timing,
        (I, Timing, Pong) => Timing,
        (R, Timing, Prepare) => Ready,
        (I, Timing, Timed) => Ready,
        (I, Ready, Prepared) => Ready,
        (_, Ready, EngineReady | Interval) => Ready,
        (R, Ready, Go) => Running,
        (I, Ready, StartTime) => Running,
        (_, Running, Sent | Interval) => Running,
        (_, Running, AllSent) => Draining,
        (_, Draining, Drained | Interval) => Draining,
        (_, Draining, AllDrained) => Exchanging,
        (_, Exchanging, Interval) => Exchanging,
        (I, Exchanging, Capture | Stream | End) => Exchanging,

        (R, Timing, Go) => Asking,
        (I, Timing, TimedToAsk) => Asking,
        (R, Asking, Ask) => Working,
        (I, Asking, Asked) => Working,
        (R, Working, Done) => Asking,
        (I, Working, Answer) => Asking,
        (_, Asking, Interval) => Asking,
        (_, Working, Interval) => Working,
        _ => return None,
    })
}

impl SessionEvent {
    /// Returns the event of a message; `None` for `bye`, which always ends the session.
    pub fn from_message(message: &ControlMessage) -> Option<SessionEvent> {
        Some(match message {
            ControlMessage::Hello(_) => SessionEvent::Hello,
            ControlMessage::Proof(_) => SessionEvent::Proof,
            ControlMessage::Welcome(_) => SessionEvent::Welcome,
            ControlMessage::Propose(_) => SessionEvent::Propose,
            ControlMessage::Probe(_) => SessionEvent::Probe,
            ControlMessage::Accept(_) => SessionEvent::Accept,
            ControlMessage::Opened => SessionEvent::Opened,
            ControlMessage::Ping(_) => SessionEvent::Ping,
            ControlMessage::Pong(_) => SessionEvent::Pong,
            ControlMessage::Prepare(_) => SessionEvent::Prepare,
            ControlMessage::Prepared => SessionEvent::Prepared,
            ControlMessage::Go => SessionEvent::Go,
            ControlMessage::Interval(_) => SessionEvent::Interval,
            ControlMessage::Sent => SessionEvent::Sent,
            ControlMessage::Drained => SessionEvent::Drained,
            ControlMessage::Capture(_) => SessionEvent::Capture,
            ControlMessage::Stream(_) => SessionEvent::Stream,
            ControlMessage::End(_) => SessionEvent::End,
            ControlMessage::Ask(_) => SessionEvent::Ask,
            ControlMessage::Answer(_) => SessionEvent::Answer,
            ControlMessage::Bye(_) => return None,
        })
    }
}

impl SessionState {
    /// Returns a phrase for the sentence "lost the peer while …".
    pub fn describe(self) -> &'static str {
        match self {
            SessionState::Greeting => "greeting",
            SessionState::Proving => "verifying the token",
            SessionState::Negotiating => "negotiating the plan",
            SessionState::Opening => "opening the data streams",
            SessionState::Timing => "measuring the idle RTT",
            SessionState::Ready => "preparing the transfer",
            SessionState::Running => "transferring payload",
            SessionState::Draining => "waiting for the last bytes",
            SessionState::Exchanging => "exchanging results",
            SessionState::Asking => "waiting between two requests",
            SessionState::Working => "executing a request",
            SessionState::Closed => "closed",
        }
    }
}
