//! The state table of the protocol: the permitted events and the state that each leads to.

use crate::wire::Message;

/// The role of an end of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// The client: connected, has the plan, prints the result.
    Initiator,
    /// The server: listened.
    Responder,
}

/// The state of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
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

/// An event: a message of the peer (named as in [`Message::name`]), or a local one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
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
pub fn next(role: Role, state: State, event: Event) -> Option<State> {
    use Event::{
        Accept, Admitted, AllDrained, AllSent, Answer, Ask, Asked, Capture, Done, Drained, End,
        Ending, EngineReady, Go, Hello, Interval, Opened, Ping, Pong, Prepare, Prepared, Probe,
        Proof, Propose, Sent, StartTime, Stream, StreamsOpen, Timed, TimedToAsk, Welcome,
    };
    use Role::{Initiator as I, Responder as R};
    use State::{
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

impl Event {
    /// All events, in the order of the table.
    pub const ALL: [Event; 31] = [
        Event::Hello,
        Event::Proof,
        Event::Welcome,
        Event::Propose,
        Event::Probe,
        Event::Admitted,
        Event::Accept,
        Event::StreamsOpen,
        Event::Opened,
        Event::Ping,
        Event::Pong,
        Event::Timed,
        Event::TimedToAsk,
        Event::Prepare,
        Event::EngineReady,
        Event::Prepared,
        Event::StartTime,
        Event::Go,
        Event::Interval,
        Event::Sent,
        Event::AllSent,
        Event::Drained,
        Event::AllDrained,
        Event::Capture,
        Event::Stream,
        Event::End,
        Event::Ask,
        Event::Asked,
        Event::Done,
        Event::Answer,
        Event::Ending,
    ];

    /// Returns the event of a message; `None` for `bye`, which always ends the session.
    pub fn of(message: &Message) -> Option<Event> {
        Some(match message {
            Message::Hello(_) => Event::Hello,
            Message::Proof(_) => Event::Proof,
            Message::Welcome(_) => Event::Welcome,
            Message::Propose(_) => Event::Propose,
            Message::Probe(_) => Event::Probe,
            Message::Accept(_) => Event::Accept,
            Message::Opened => Event::Opened,
            Message::Ping(_) => Event::Ping,
            Message::Pong(_) => Event::Pong,
            Message::Prepare(_) => Event::Prepare,
            Message::Prepared => Event::Prepared,
            Message::Go => Event::Go,
            Message::Interval(_) => Event::Interval,
            Message::Sent => Event::Sent,
            Message::Drained => Event::Drained,
            Message::Capture(_) => Event::Capture,
            Message::Stream(_) => Event::Stream,
            Message::End(_) => Event::End,
            Message::Ask(_) => Event::Ask,
            Message::Answer(_) => Event::Answer,
            Message::Bye(_) => return None,
        })
    }
}

impl State {
    /// All states, in order.
    pub const ALL: [State; 12] = [
        State::Greeting,
        State::Proving,
        State::Negotiating,
        State::Opening,
        State::Timing,
        State::Ready,
        State::Running,
        State::Draining,
        State::Exchanging,
        State::Asking,
        State::Working,
        State::Closed,
    ];

    /// Returns a phrase for the sentence "lost the peer while …".
    pub fn doing(self) -> &'static str {
        match self {
            State::Greeting => "greeting",
            State::Proving => "proving the token",
            State::Negotiating => "negotiating the plan",
            State::Opening => "opening the data streams",
            State::Timing => "timing the idle path",
            State::Ready => "getting the engines ready",
            State::Running => "payload was flowing",
            State::Draining => "the last bytes were arriving",
            State::Exchanging => "exchanging results",
            State::Asking => "between two requests",
            State::Working => "carrying out a request",
            State::Closed => "closed",
        }
    }
}
