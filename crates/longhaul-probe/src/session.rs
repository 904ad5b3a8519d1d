//! One session: what may be said when, by whom, and until when. No socket, no clock.
//!
//! [`Session::handle`] takes what happened and the time, and returns what is to be done;
//! [`Session::next_deadline`] says when it wants to be called at the latest. The whole protocol is
//! the one `match` in [`next`]; everything else computes what goes into messages. The drivers
//! ([`crate::throughput`], [`crate::serve`]) only move bytes and start engines.
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

/// How long the peer may take for one step that costs a few round trips.
pub const STEP_TIME: Duration = Duration::from_secs(10);
/// How long a connection may stay unproved.
pub const GREETING_TIME: Duration = Duration::from_secs(5);
/// A sign of life is sent this often while payload flows.
pub const HEARTBEAT: Duration = Duration::from_secs(1);
/// No byte for this long (or 20 round trips, where that is longer) and the peer is lost.
pub const SILENCE: Duration = Duration::from_secs(15);
/// A refusal for want of a token comes this much later, so that guessing is slow.
pub const TOKEN_PENALTY: Duration = Duration::from_millis(500);
/// How long the exchange of results may take in all.
pub const EXCHANGE_TIME: Duration = Duration::from_secs(120);

/// How long a session may stay unproved, from its start: an unproved peer gains nothing by
/// talking. The initiator waits longer, so that it hears the verdict.
fn proving_time(role: Role) -> Duration {
    match role {
        Role::Initiator => STEP_TIME,
        Role::Responder => GREETING_TIME,
    }
}

/// What happened.
#[derive(Debug, Clone)]
pub enum Input {
    /// The control connection is up.
    Start,
    Message(Message),
    /// Bytes came that are no whole message yet.
    Heard,
    /// Responder: capacity for this run was found, under this name.
    Admitted(Accept),
    /// Responder: this run cannot be taken now; why.
    NotAdmitted(String),
    /// All data streams of the session are open, at this end.
    StreamsOpen,
    /// The engine stands ready.
    EngineReady,
    /// Counters of this end's engine.
    Progress(Progress),
    /// This end's results, in answer to [`Action::Collect`].
    Results(Vec<Message>),
    /// Initiator: the next probe.
    Ask(Box<Ask>),
    /// Responder: what came of [`Action::Ask`].
    Answer(Box<Answer>),
    /// Initiator: no more probes.
    Enough,
    /// The control connection ended; why.
    Cut(String),
    /// What came is no message.
    Garbage(String),
    /// This end cannot go on; why.
    Failed(String),
    /// Time passed.
    Tick,
}

/// What this end's engine says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    pub interval: Interval,
    /// This end's sender, where it has one, has written all.
    pub sent: bool,
    /// This end's receiver, where it has one, has read to the end.
    pub drained: bool,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    Send(Message),
    /// Responder: find capacity for this plan; answer [`Input::Admitted`] or
    /// [`Input::NotAdmitted`].
    Admit(Box<Wanted>),
    /// Initiator: open the data streams; answer [`Input::StreamsOpen`]. (The responder gets them
    /// from its listener and says so by itself.)
    OpenStreams(Accept),
    /// Get the engine ready; answer [`Input::EngineReady`].
    StartEngine(EngineStart),
    /// Let payload flow.
    Go,
    /// Stop senders and receivers now: time or grace is over.
    StopEngine,
    /// Take the engine's results. The responder answers [`Input::Results`] with its `stream` and
    /// `end` messages.
    Collect,
    /// Initiator: a result of the far end.
    Result(FarResult),
    /// Initiator: the far end's counters.
    FarInterval(Interval),
    /// Responder: do this; answer [`Input::Answer`], now or later.
    Ask(Box<Ask>),
    /// Initiator: what the far end did.
    Answer(Box<Answer>),
    /// Over; hang up after sending.
    Close(Closed),
}

/// What the initiator asks of the responder.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    pub aim: Aim,
    pub party: Party,
    pub anonymous: Option<AnonymousLimits>,
}

/// What a session is for.
#[derive(Debug, Clone, PartialEq)]
pub enum Aim {
    /// One bulk run.
    Run(Box<Plan>),
    /// Probes, within these bounds.
    Probe(Bounds),
}

/// What the engine needs to know of the path and the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineStart {
    /// Zero of the common time line, on this session's clock.
    pub origin: Duration,
    pub idle_rtt: Duration,
    pub same_host: bool,
}

/// A piece of the far end's results.
#[derive(Debug, Clone, PartialEq)]
pub enum FarResult {
    /// A piece of its capture file.
    Capture(Vec<u8>),
    Stream(Box<StreamResult>),
    End(Box<EndResult>),
}

/// What both roles know from the start.
#[derive(Debug, Clone)]
pub struct Setup {
    pub token: Option<Token>,
    /// Keying material of the control connection.
    pub exporter: Exporter,
    pub party: Party,
    pub boot_proof: Option<String>,
    /// Both ends of the control connection have one address: nothing lies between them.
    pub one_address: bool,
}

/// What only one of the roles knows.
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
    /// From the initiator's own plan, or as proposed; absent in a session of probes.
    plan: Option<Plan>,
    /// Of a session of probes.
    bounds: Option<Bounds>,
    /// When the time of a session of probes is over.
    ends_at: Option<Duration>,
    /// The newest that both speak, and what the peer speaks.
    version: u16,
    peer_versions: Versions,
    peer: Option<Party>,
    peer_boot_proof: Option<String>,
    deadline: Option<Duration>,
    heard_at: Duration,
    idle_rtt: Option<Duration>,
    same_host: bool,
    flow: running::Flow,
    /// Decided, but told later: guessing tokens shall be slow.
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

    /// What the peer calls itself, once it has said so.
    pub fn peer(&self) -> Option<&Party> {
        self.peer.as_ref()
    }

    /// The far end understands what is said of captures.
    pub fn knows_captures(&self) -> bool {
        self.version >= Versions::CAPTURES
    }

    /// Both ends can copy files.
    pub fn knows_files(&self) -> bool {
        self.version >= Versions::FILES
    }

    /// The versions that the peer speaks.
    pub fn peer_versions(&self) -> Versions {
        self.peer_versions
    }

    /// Both ends run under one kernel with nothing between them.
    pub fn same_host(&self) -> bool {
        self.same_host
    }

    /// Both ends run under one boot of one kernel, whatever lies between them; `None`: one of them
    /// did not say.
    pub fn same_boot(&self) -> Option<bool> {
        let (ours, theirs) = (&self.setup.boot_proof, &self.peer_boot_proof);
        Some(ours.as_ref()? == theirs.as_ref()?)
    }

    /// Takes one input; returns what is to be done, in order.
    pub fn handle(&mut self, now: Duration, input: Input) -> Vec<Action> {
        if matches!(input, Input::Message(_) | Input::Heard) {
            self.heard_at = now;
        }
        if self.state != State::Closed {
            match input {
                Input::Tick => {}
                // A verdict stands: nothing that comes now changes it.
                _ if self.refusal.is_some() && !matches!(input, Input::Cut(_)) => {}
                other => self.take(now, other),
            }
            self.keep_time(now);
        }
        std::mem::take(&mut self.actions)
    }

    /// When [`Session::handle`] must be called at the latest. `None`: closed.
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
            // In the same breath: one round trip less.
            let make = |token| prove(token, Role::Initiator, &self.setup.exporter);
            let token_proof = self.setup.token.as_ref().map(make);
            self.send(Message::Proof(Proof { token_proof }));
        }
    }

    fn on_message(&mut self, now: Duration, message: Message) {
        let Some(event) = Event::of(&message) else {
            return;
        };
        // The first message decides by version, before anything else in it is looked at.
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
        // Talk within a state does not prolong it.
        if self.state != before {
            self.deadline = self.deadline_of_step(now);
        }
        match self.role {
            Role::Initiator => self.initiator_hears(now, message),
            Role::Responder => self.responder_hears(now, message),
        }
    }

    /// One step of the table; false when it is not in it.
    fn step(&mut self, event: Event) -> bool {
        match next(self.role, self.state, event) {
            Some(state) => {
                self.state = state;
                true
            }
            None => false,
        }
    }

    /// Deadline of the state that was just entered.
    fn deadline_of_step(&self, now: Duration) -> Option<Duration> {
        match self.state {
            State::Greeting | State::Proving => Some(proving_time(self.role)),
            State::Negotiating | State::Opening | State::Timing => Some(now + STEP_TIME),
            State::Ready => Some(now + STEP_TIME + self.flow.wait()),
            // Moved on by what moves, or set by what is asked.
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

    /// States in which both ends give signs of life.
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

    /// Ends the session: tells the peer, where it can still hear, and the driver.
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
