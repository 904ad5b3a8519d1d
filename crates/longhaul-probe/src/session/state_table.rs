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

/// An event: a message of the peer, or a local one.
#[derive(Debug, Clone, Copy)]
pub enum SessionEvent<'a> {
    Message(&'a ControlMessage),
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
    /// Local: both engines are ready.
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
    event: SessionEvent<'_>,
) -> Option<SessionState> {
    use ControlMessage as M;
    use SessionEvent::{
        Admitted, AllDrained, AllSent, Asked, Done, Ending, EngineReady, Message, StartTime,
        StreamsOpen, Timed, TimedToAsk,
    };
    use SessionRole::{Client as I, Server as R};
    use SessionState::{
        Asking, Closed, Draining, Exchanging, Greeting, Negotiating, Opening, Proving, Ready,
        Running, Timing, Working,
    };
    Some(match (role, state, event) {
        (_, Closed, _) => return None,
        (_, _, Ending) => Closed,

        (_, Greeting, Message(M::Hello(_))) => Proving,
        (R, Proving, Message(M::Proof(_))) => Negotiating,
        (I, Proving, Message(M::Welcome(_))) => Negotiating,
        (R, Negotiating, Message(M::Propose(_) | M::Probe(_))) => Negotiating,
        (R, Negotiating, Admitted) => Opening,
        (I, Negotiating, Message(M::Accept { .. })) => Opening,
        (I, Opening, StreamsOpen) => Opening,
        (R, Opening, StreamsOpen) => Timing,
        (I, Opening, Message(M::Opened)) => Timing,
        (R, Timing, Message(M::Ping { .. })) => Timing,
        (I, Timing, Message(M::Pong { .. })) => Timing,
        (R, Timing, Message(M::Prepare(_))) => Ready,
        (I, Timing, Timed) => Ready,
        (I, Ready, Message(M::Prepared)) => Ready,
        (_, Ready, EngineReady | Message(M::Interval(_))) => Ready,
        (R, Ready, Message(M::Go)) => Running,
        (I, Ready, StartTime) => Running,
        (_, Running, Message(M::Sent | M::Interval(_))) => Running,
        (R, Running, Message(M::Stop)) => Running,
        (_, Running, AllSent) => Draining,
        (_, Draining, Message(M::Drained | M::Interval(_))) => Draining,
        (R, Draining, Message(M::Stop)) => Draining,
        (_, Draining, AllDrained) => Exchanging,
        (_, Exchanging, Message(M::Interval(_))) => Exchanging,
        (R, Exchanging, Message(M::Stop)) => Exchanging,
        (I, Exchanging, Message(M::Capture { .. } | M::Stream(_) | M::End(_))) => Exchanging,

        (R, Timing, Message(M::Go)) => Asking,
        (I, Timing, TimedToAsk) => Asking,
        (R, Asking, Message(M::Ask(_))) => Working,
        (I, Asking, Asked) => Working,
        (R, Working, Done) => Asking,
        (I, Working, Message(M::Answer(_))) => Asking,
        (_, Asking, Message(M::Interval(_))) => Asking,
        (_, Working, Message(M::Interval(_))) => Working,
        _ => return None,
    })
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
