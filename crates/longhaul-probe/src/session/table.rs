//! The protocol on one screen: which event is legal in which state, and where it leads.

use crate::wire::Message;

/// Which end of the session this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Connected, has the plan, prints the result.
    Initiator,
    /// Listened.
    Responder,
}

/// Where a session stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Waiting for the peer's `hello`.
    Greeting,
    /// Tokens are proved.
    Proving,
    /// The plan is put forward and accepted or refused.
    Negotiating,
    /// Data streams open, all at once.
    Opening,
    /// Round trip and clocks are read on the idle path.
    Timing,
    /// Engines stand ready on both sides.
    Ready,
    /// Payload flows.
    Running,
    /// All is written; what is on the way arrives.
    Draining,
    /// The responder hands over what it saw.
    Exchanging,
    /// Probes: the initiator may ask the next thing.
    Asking,
    /// Probes: the responder does what was asked.
    Working,
    Closed,
}

/// What can happen: a message of the peer (named as in [`Message::name`]), or something here.
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
    /// Here: capacity was found for the run.
    Admitted,
    /// Here: all data streams stand.
    StreamsOpen,
    /// Here: enough round trips were timed.
    Timed,
    /// Here: the same, and probes are to be asked for.
    TimedToAsk,
    /// Here: something was asked.
    Asked,
    /// Here: what was asked is done, well or not.
    Done,
    /// Here: the engine is ready.
    EngineReady,
    /// Here: both engines are ready and the start time has come.
    StartTime,
    /// Here: every sender of both ends has written all.
    AllSent,
    /// Here: every receiver of both ends has read all, or its grace is over.
    AllDrained,
    /// `bye`, a cut, a deadline, a violation, a failure: the session is over.
    Ending,
}

/// The protocol. `None`: illegal, the session ends as a violation.
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
    /// All of them, in the order of the table.
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

    /// The event that a message is. `None` for `bye`, which always ends.
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
    /// All of them, in order.
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

    /// For a sentence: "lost the peer while …".
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
