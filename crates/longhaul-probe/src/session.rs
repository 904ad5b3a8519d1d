//! One session: the permitted messages, their order and their deadlines. No socket, no clock.
//!
//! [`Session::handle`] takes an input and the time, and returns actions; [`Session::next_deadline`]
//! is the time by which it must be called again. The whole protocol is the one `match` in [`next`];
//! everything else computes the content of messages. The drivers ([`crate::throughput`],
//! [`crate::serve`]) only move bytes and start engines.
//!
//! Times are offsets from the start of the session on this host's own clock.

mod asking;
mod clock;
mod close;
mod initiator;
mod responder;
mod running;
mod table;
#[cfg(test)]
mod tests;

pub use clock::ClockReading;
pub use close::Closed;
pub use initiator::Initiative;
pub use responder::Admission;
pub(crate) use running::sends;
pub use table::{Event, Role, State, next};

use crate::secure::{Exporter, Token, prove};
use crate::wire::{
    Accept, AnonymousLimits, Answer, Ask, Bounds, Bye, EndResult, Hello, Interval, Message, Proof,
    StreamResult, Versions,
};
use longhaul_model::report::v1::Party;
use longhaul_model::report::v1::plan::Plan;
use std::time::Duration;

/// The timeout for a step that costs the peer a few round trips.
pub const STEP_TIME: Duration = Duration::from_secs(10);
/// The maximum time that a connection may stay unproved.
pub const GREETING_TIME: Duration = Duration::from_secs(5);
/// The interval between heartbeats while payload flows.
pub const HEARTBEAT: Duration = Duration::from_secs(1);
/// The timeout without a byte from the peer (or 20 round trips, if longer).
pub const SILENCE: Duration = Duration::from_secs(15);
/// The delay of a refusal because of the token, which slows down guessing.
pub const TOKEN_PENALTY: Duration = Duration::from_millis(500);
/// The timeout for the whole exchange of results.
pub const EXCHANGE_TIME: Duration = Duration::from_secs(120);

/// Returns the maximum time without a proof, from the start of the session: an unproved peer cannot
/// extend it. The client waits longer, so that it receives the verdict.
fn proving_time(role: Role) -> Duration {
    match role {
        Role::Initiator => STEP_TIME,
        Role::Responder => GREETING_TIME,
    }
}

/// An input of the session.
#[derive(Debug, Clone)]
pub enum Input {
    /// The control connection is up.
    Start,
    Message(Message),
    /// Bytes arrived that are not a whole message yet.
    Heard,
    /// Server: the run is admitted with this nonce.
    Admitted(Accept),
    /// Server: the run cannot be admitted now, with the reason.
    NotAdmitted(String),
    /// All data streams of the session are open at this end.
    StreamsOpen,
    /// The engine is ready.
    EngineReady,
    /// The counters of this end's engine.
    Progress(Progress),
    /// This end's results, in answer to [`Action::Collect`].
    Results(Vec<Message>),
    /// Client: the next request of a probe session.
    Ask(Box<Ask>),
    /// Server: the answer to [`Action::Ask`].
    Answer(Box<Answer>),
    /// Client: there are no more requests.
    Enough,
    /// The control connection ended, with the reason.
    Cut(String),
    /// The received bytes are not a message.
    Garbage(String),
    /// This end cannot continue, with the reason.
    Failed(String),
    /// Time has passed.
    Tick,
}

/// The progress of this end's engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    pub interval: Interval,
    /// This end's sender, if there is one, has written everything.
    pub sent: bool,
    /// This end's receiver, if there is one, has read to the end.
    pub drained: bool,
}

/// An action for the driver.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    Send(Message),
    /// Server: find capacity for this request; answer [`Input::Admitted`] or
    /// [`Input::NotAdmitted`].
    Admit(Box<Wanted>),
    /// Client: open the data streams; answer [`Input::StreamsOpen`]. (The server receives them from
    /// its listener and sends that input by itself.)
    OpenStreams(Accept),
    /// Prepare the engine; answer [`Input::EngineReady`].
    StartEngine(EngineStart),
    /// Start the flow of payload.
    Go,
    /// Stop senders and receivers now: the time or grace period is over.
    StopEngine,
    /// Take the engine's results. The server answers [`Input::Results`] with its `stream` and `end`
    /// messages.
    Collect,
    /// Client: a result of the server.
    Result(FarResult),
    /// Client: the server's counters.
    FarInterval(Interval),
    /// Server: carry out this request; answer [`Input::Answer`], now or later.
    Ask(Box<Ask>),
    /// Client: the server's answer.
    Answer(Box<Answer>),
    /// Close the connection after sending.
    Close(Closed),
}

/// The client's request for admission.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    pub aim: Aim,
    pub party: Party,
    pub anonymous: Option<AnonymousLimits>,
}

/// The purpose of a session.
#[derive(Debug, Clone, PartialEq)]
pub enum Aim {
    /// One bulk run.
    Run(Box<Plan>),
    /// Probes within these bounds.
    Probe(Bounds),
}

/// The data that the engine needs about the path and the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineStart {
    /// The zero of the common time line, on this session's clock.
    pub origin: Duration,
    pub idle_rtt: Duration,
    pub same_host: bool,
}

/// A part of the server's results.
#[derive(Debug, Clone, PartialEq)]
pub enum FarResult {
    /// A part of its capture file.
    Capture(Vec<u8>),
    Stream(Box<StreamResult>),
    End(Box<EndResult>),
}

/// The data that both roles have from the start.
#[derive(Debug, Clone)]
pub struct Setup {
    pub token: Option<Token>,
    /// Keying material of the control connection.
    pub exporter: Exporter,
    pub party: Party,
    pub boot_proof: Option<String>,
    /// Both ends of the control connection have the same address: there is no path between them.
    pub one_address: bool,
}

/// The data of one role only.
#[derive(Debug, Clone)]
pub enum Part {
    Initiator(Box<Initiative>),
    Responder(Box<Admission>),
}

/// One end of a session.
#[derive(Debug)]
pub struct Session {
    role: Role,
    state: State,
    setup: Setup,
    part: Part,
    /// The client's own plan, or the proposed one; `None` in a probe session.
    plan: Option<Plan>,
    /// Set in a probe session.
    bounds: Option<Bounds>,
    /// The end of a probe session's time.
    ends_at: Option<Duration>,
    /// The newest version that both ends support, and the peer's versions.
    version: u16,
    peer_versions: Versions,
    peer: Option<Party>,
    peer_boot_proof: Option<String>,
    deadline: Option<Duration>,
    heard_at: Duration,
    idle_rtt: Option<Duration>,
    same_host: bool,
    flow: running::Flow,
    /// A refusal that is sent later, to slow down the guessing of tokens.
    refusal: Option<(Duration, Closed)>,
    actions: Vec<Action>,
}

impl Session {
    pub fn new(setup: Setup, part: Part) -> Self {
        let (role, plan) = match &part {
            Part::Initiator(initiative) => (Role::Initiator, initiative.plan().cloned()),
            Part::Responder(_) => (Role::Responder, None),
        };
        Session {
            role,
            state: State::Greeting,
            setup,
            part,
            plan,
            bounds: None,
            ends_at: None,
            version: Versions::OURS.least,
            peer_versions: Versions::OURS,
            peer: None,
            peer_boot_proof: None,
            deadline: Some(proving_time(role)),
            heard_at: Duration::ZERO,
            idle_rtt: None,
            same_host: false,
            flow: running::Flow::default(),
            refusal: None,
            actions: Vec::new(),
        }
    }

    pub fn role(&self) -> Role {
        self.role
    }

    pub fn state(&self) -> State {
        self.state
    }

    /// Returns the peer's description of itself, once received.
    pub fn peer(&self) -> Option<&Party> {
        self.peer.as_ref()
    }

    /// Returns whether the peer supports captures.
    pub fn knows_captures(&self) -> bool {
        self.version >= Versions::CAPTURES
    }

    /// Returns whether both ends support copying files.
    pub fn knows_files(&self) -> bool {
        self.version >= Versions::FILES
    }

    /// Returns the versions that the peer supports.
    pub fn peer_versions(&self) -> Versions {
        self.peer_versions
    }

    /// Returns whether both ends run under one kernel with no path between them.
    pub fn same_host(&self) -> bool {
        self.same_host
    }

    /// Returns whether both ends run under the same boot of one kernel, whatever is between them;
    /// `None` if one of them did not say.
    pub fn same_boot(&self) -> Option<bool> {
        let (ours, theirs) = (&self.setup.boot_proof, &self.peer_boot_proof);
        Some(ours.as_ref()? == theirs.as_ref()?)
    }

    /// Handles one input; returns the actions in order.
    pub fn handle(&mut self, now: Duration, input: Input) -> Vec<Action> {
        if matches!(input, Input::Message(_) | Input::Heard) {
            self.heard_at = now;
        }
        if self.state != State::Closed {
            match input {
                Input::Tick => {}
                // After a refusal, no other input changes the result.
                _ if self.refusal.is_some() && !matches!(input, Input::Cut(_)) => {}
                other => self.take(now, other),
            }
            self.keep_time(now);
        }
        std::mem::take(&mut self.actions)
    }

    /// Returns the time by which [`Session::handle`] must be called; `None` if closed.
    pub fn next_deadline(&self) -> Option<Duration> {
        if self.state == State::Closed {
            return None;
        }
        let refusal = self.refusal.as_ref().map(|(at, _)| *at);
        [
            self.deadline,
            refusal,
            self.silence_ends(),
            self.next_timer(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn take(&mut self, now: Duration, input: Input) {
        match input {
            Input::Start => self.greet(),
            Input::Message(Message::Bye(bye)) => self.on_bye(bye),
            Input::Message(message) => self.on_message(now, message),
            Input::Admitted(accept) => self.on_admitted(now, accept),
            Input::NotAdmitted(why) => self.close(Closed::WeRefused { what: why }),
            Input::StreamsOpen => self.on_streams_open(now),
            Input::EngineReady => self.on_engine_ready(now),
            Input::Progress(progress) => self.on_progress(now, progress),
            Input::Results(results) => self.on_results(results),
            Input::Ask(ask) => self.on_wish(now, *ask),
            Input::Answer(answer) => self.on_done(now, *answer),
            Input::Enough => self.on_enough(),
            Input::Cut(why) => self.close(Closed::Cut {
                step: self.state,
                why,
            }),
            Input::Garbage(what) => self.violation(what),
            Input::Failed(what) => self.close(Closed::OwnFailure {
                step: self.state,
                what,
            }),
            Input::Heard | Input::Tick => {}
        }
    }

    fn greet(&mut self) {
        self.send(Message::Hello(Hello {
            versions: Versions::OURS,
            longhaul: env!("CARGO_PKG_VERSION").to_owned(),
        }));
        if self.role == Role::Initiator {
            // Sent at once, which saves a round trip.
            let make = |token| prove(token, Role::Initiator, &self.setup.exporter);
            let token_proof = self.setup.token.as_ref().map(make);
            self.send(Message::Proof(Proof { token_proof }));
        }
    }

    fn on_message(&mut self, now: Duration, message: Message) {
        let Some(event) = Event::of(&message) else {
            return;
        };
        // The version is checked before any other field of the first message.
        if let (State::Greeting, Message::Hello(hello)) = (self.state, &message) {
            let theirs = hello.versions;
            let Some(version) = Versions::OURS.common(theirs) else {
                return self.close(Closed::VersionDiffers { theirs });
            };
            (self.version, self.peer_versions) = (version, theirs);
        }
        let before = self.state;
        if !self.suits(&message) || !self.step(event) {
            let what = format!("`{}` while {}", message.name(), self.state.doing());
            return self.violation(what);
        }
        // Messages within a state do not extend its deadline.
        if self.state != before {
            self.deadline = self.deadline_of_step(now);
        }
        match self.role {
            Role::Initiator => self.initiator_hears(now, message),
            Role::Responder => self.responder_hears(now, message),
        }
    }

    /// Takes one step of the state table; false if it is not permitted.
    fn step(&mut self, event: Event) -> bool {
        match next(self.role, self.state, event) {
            Some(state) => {
                self.state = state;
                true
            }
            None => false,
        }
    }

    /// Returns the deadline of the state that was just entered.
    fn deadline_of_step(&self, now: Duration) -> Option<Duration> {
        match self.state {
            State::Greeting | State::Proving => Some(proving_time(self.role)),
            State::Negotiating | State::Opening | State::Timing => Some(now + STEP_TIME),
            State::Ready => Some(now + STEP_TIME + self.flow.wait()),
            // Set by progress or by the request.
            State::Running | State::Draining | State::Working => self.deadline,
            State::Exchanging => Some(now + EXCHANGE_TIME),
            State::Asking => self.ends_at,
            State::Closed => None,
        }
    }

    fn silence(&self) -> Duration {
        SILENCE.max(self.idle_rtt.unwrap_or_default() * 20)
    }

    fn silence_ends(&self) -> Option<Duration> {
        self.beats().then(|| self.heard_at + self.silence())
    }

    /// Returns whether both ends send heartbeats in this state.
    fn beats(&self) -> bool {
        use State::{Asking, Draining, Exchanging, Ready, Running, Working};
        matches!(
            self.state,
            Ready | Running | Draining | Exchanging | Asking | Working
        )
    }

    fn keep_time(&mut self, now: Duration) {
        if self.state == State::Closed {
            return;
        }
        if let Some((at, _)) = &self.refusal {
            if now >= *at
                && let Some((_, closed)) = self.refusal.take()
            {
                self.close(closed);
            }
            return;
        }
        self.run_timers(now);
        let late = |deadline: Option<Duration>| deadline.is_some_and(|at| now >= at);
        let what = if late(self.silence_ends()) {
            "no sign of life"
        } else if self.is_past_its_time(now) {
            "the time agreed for probes is over"
        } else if late(self.deadline) {
            "this step did not end"
        } else {
            return;
        };
        self.close(Closed::TimedOut {
            step: self.state,
            what: what.to_owned(),
        });
    }

    fn send(&mut self, message: Message) {
        self.actions.push(Action::Send(message));
    }

    fn violation(&mut self, what: String) {
        self.close(Closed::PeerViolation {
            step: self.state,
            what,
        });
    }

    /// Ends the session: notifies the peer, if it can still receive, and the driver.
    fn close(&mut self, closed: Closed) {
        if self.state == State::Closed {
            return;
        }
        if let Some(bye) = closed.goodbye() {
            self.send(Message::Bye(bye));
        }
        self.step(Event::Ending);
        self.deadline = None;
        self.actions.push(Action::Close(closed));
    }

    fn on_bye(&mut self, bye: Bye) {
        let closed = Closed::told(self.role, self.state, bye);
        self.step(Event::Ending);
        self.actions.push(Action::Close(closed));
    }
}
