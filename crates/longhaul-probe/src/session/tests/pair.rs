//! Two sessions, a path with a delay between them, engines of straw, and a clock that jumps.

use crate::secure::AuthToken;
use crate::session::{
    Session, SessionAction, SessionEnd, SessionInput, SessionPurpose, SessionRole, SessionSetup,
    SessionState, TransferProgress,
};
use crate::wire::{
    AnonymousLimits, ControlMessage, DirectionResult, HelloMessage, IntervalCounters, ProbeBounds,
    ProtocolVersions, SessionNonce, SessionReply, SessionRequest, StreamResult,
};
use longhaul_model::report::v1::RunParty;
use longhaul_model::report::v1::observation::{EndObservation, StreamEnd};
use longhaul_model::report::v1::plan::{RunDirection, StopCondition, ThroughputPlan};
use std::collections::VecDeque;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Initiator = 0,
    Responder = 1,
}

/// What happens to what a side sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The connection ends, for both.
    Cut,
    /// Nothing that this side sends arrives any more; nothing tells so.
    Silence,
    /// Bytes that are no message.
    Garbage,
    /// Messages that this side sends while payload flows arrive at this time at the earliest.
    Delay(Duration),
}

/// One end with its engine of straw: writes until its time is over, reads until the peer's end.
struct Machine {
    session: Session,
    went_at: Option<Duration>,
    /// Its senders end then, before their planned end.
    sends_until: Option<Duration>,
    stopped: bool,
    closed: Option<SessionEnd>,
    sent: usize,
    inbox: VecDeque<(Duration, SessionInput)>,
}

pub struct Pair {
    plan: ThroughputPlan,
    now: Duration,
    one_way: Duration,
    machines: [Machine; 2],
    fault: Option<(usize, Side, Fault)>,
    injection: Option<(usize, Side, ControlMessage)>,
    broke: bool,
    /// The time at which the client's user ends the run.
    interrupt_at: Option<Duration>,
    drains: bool,
    spoken: [ProtocolVersions; 2],
    /// What an initiator of probes still wants, and what it was answered.
    asks: VecDeque<SessionRequest>,
    answers: Vec<SessionReply>,
    /// How long the responder works on each.
    work: Duration,
}

fn setup(exporter: u8, token: Option<&str>) -> SessionSetup {
    SessionSetup {
        token: token.and_then(AuthToken::new),
        exporter: [exporter; 32],
        party: RunParty::default(),
        boot_proof: Some("boot".to_owned()),
        same_address: false,
    }
}

fn machine(session: Session) -> Machine {
    Machine {
        session,
        went_at: None,
        sends_until: None,
        stopped: false,
        closed: None,
        sent: 0,
        inbox: VecDeque::new(),
    }
}

fn initiator(plan: &ThroughputPlan, token: Option<&str>) -> Machine {
    let purpose = SessionPurpose::Run(Box::new(plan.clone()));
    machine(Session::client(setup(1, token), purpose))
}

fn responder(strangers: Option<AnonymousLimits>, exporter: u8, token: Option<&str>) -> Machine {
    machine(Session::server(setup(exporter, token), strangers, 128))
}

impl Pair {
    pub fn new(plan: ThroughputPlan, one_way_ms: u64) -> Pair {
        let strangers = Some(AnonymousLimits::default());
        Pair {
            now: Duration::ZERO,
            one_way: Duration::from_millis(one_way_ms),
            machines: [initiator(&plan, None), responder(strangers, 1, None)],
            plan,
            fault: None,
            injection: None,
            broke: false,
            interrupt_at: None,
            drains: true,
            spoken: [ProtocolVersions::OURS; 2],
            asks: VecDeque::new(),
            answers: Vec::new(),
            work: Duration::from_millis(300),
        }
    }

    /// A session of probes in the place of a run.
    pub fn probing(bounds: ProbeBounds, asks: Vec<SessionRequest>, one_way_ms: u64) -> Pair {
        let mut pair = Pair::new(ThroughputPlan::default(), one_way_ms);
        let purpose = SessionPurpose::Probe(bounds);
        pair.machines[0] = machine(Session::client(setup(1, None), purpose));
        pair.asks = asks.into();
        pair
    }

    pub fn work_for(&mut self, work: Duration) {
        self.work = work;
    }

    pub fn answers(&self) -> &[SessionReply] {
        &self.answers
    }

    pub fn with_tokens(
        &mut self,
        ours: Option<&str>,
        theirs: Option<&str>,
        strangers: Option<AnonymousLimits>,
    ) {
        self.machines = [initiator(&self.plan, ours), responder(strangers, 1, theirs)];
    }

    /// Two TLS connections instead of one: the ends have different exporters.
    pub fn in_the_middle(&mut self) {
        let strangers = Some(AnonymousLimits::default());
        self.machines[1] = responder(strangers, 2, Some("secret"));
    }

    pub fn break_after(&mut self, messages: usize, side: Side, fault: Fault) {
        self.fault = Some((messages, side, fault));
    }

    /// The extra message was sent: its side spoke at that place.
    pub fn injected(&self) -> bool {
        self.injection.is_none()
    }

    pub fn inject_after(&mut self, messages: usize, side: Side, message: ControlMessage) {
        self.injection = Some((messages, side, message));
    }

    pub fn speak(&mut self, side: Side, versions: ProtocolVersions) {
        self.spoken[side as usize] = versions;
    }

    pub fn version(&self, side: Side) -> Option<u16> {
        self.machines[side as usize].session.version()
    }

    pub fn never_drain(&mut self) {
        self.drains = false;
    }

    pub fn interrupt_at(&mut self, at: Duration) {
        self.interrupt_at = Some(at);
    }

    pub fn broke(&self) -> bool {
        self.broke
    }

    pub fn now(&self) -> Duration {
        self.now
    }

    pub fn went_at(&self) -> Option<Duration> {
        self.machines[0].went_at
    }

    pub fn results(&self) -> usize {
        let results = &self.machines[0].session.client.results;
        let directions = results.directions.values();
        let told = directions.map(|it| it.streams.len() + usize::from(it.end.is_some()));
        told.sum::<usize>() + usize::from(!results.capture.is_empty())
    }

    pub fn messages_of(&self, side: Side) -> usize {
        self.machines[side as usize].sent
    }

    /// All results had come when the fault struck.
    pub fn said_all(&self) -> bool {
        self.results() > 0 || (self.asks.is_empty() && !self.answers.is_empty())
    }

    pub fn closed(&self) -> [Option<SessionEnd>; 2] {
        self.machines.each_ref().map(|machine| machine.closed.clone())
    }

    pub fn session(&mut self, side: Side) -> &mut Session {
        &mut self.machines[side as usize].session
    }

    /// Lets time jump from one event to the next until both are closed, or `bound` is reached.
    pub fn drive(&mut self, bound: Duration) {
        for side in [0, 1] {
            self.feed(side, SessionInput::Start);
        }
        while self.now < bound && self.machines.iter().any(|m| m.closed.is_none()) {
            let Some(next) = self.next_event() else {
                return;
            };
            self.now = next.max(self.now);
            for side in [0, 1] {
                while let Some(input) = self.arrived(side) {
                    self.feed(side, input);
                }
                self.feed(side, SessionInput::Tick);
                self.watch_engine(side);
            }
            if self.interrupt_at.is_some_and(|at| self.now >= at) {
                self.interrupt_at = None;
                self.feed(0, SessionInput::Interrupted);
            }
            self.wish();
        }
    }

    /// The initiator of probes asks when it may.
    fn wish(&mut self) {
        let probing = self.machines[0].session.bounds().is_some();
        if !probing || self.machines[0].session.state() != SessionState::Asking {
            return;
        }
        let next = match self.asks.pop_front() {
            Some(ask) => SessionInput::Ask(Box::new(ask)),
            None => SessionInput::NoMoreRequests,
        };
        self.feed(0, next);
    }

    fn next_event(&self) -> Option<Duration> {
        let deadlines = self.machines.iter().filter_map(|m| m.session.next_deadline());
        let arrivals = self.machines.iter().filter_map(|m| Some(m.inbox.front()?.0));
        let running = self.machines.iter().any(|m| m.went_at.is_some() && m.closed.is_none());
        let poll = running.then(|| self.now + Duration::from_millis(20));
        deadlines.chain(arrivals).chain(poll).chain(self.interrupt_at).min()
    }

    fn arrived(&mut self, side: usize) -> Option<SessionInput> {
        let inbox = &mut self.machines[side].inbox;
        let due = inbox.front().is_some_and(|(at, _)| *at <= self.now);
        due.then(|| inbox.pop_front().map(|(_, input)| input)).flatten()
    }

    fn feed(&mut self, side: usize, input: SessionInput) {
        let actions = self.machines[side].session.handle(self.now, input);
        for action in actions {
            self.act(side, action);
        }
    }

    fn act(&mut self, side: usize, action: SessionAction) {
        match action {
            SessionAction::Send(message) => self.transmit(side, message),
            SessionAction::Admit(_) => {
                let nonce = SessionNonce([3; 16]);
                self.feed(side, SessionInput::Admitted(nonce));
            }
            SessionAction::OpenStreams(_) => {
                // Connect and preamble: one and a half round trips until the responder has all.
                let at = self.now + self.one_way * 3;
                self.feed(0, SessionInput::StreamsOpen);
                self.post(1, at, SessionInput::StreamsOpen);
            }
            SessionAction::StartEngine(_) => {
                let same_host = self.machines[side].session.same_host();
                assert_eq!(same_host, self.one_way.is_zero());
                self.feed(side, SessionInput::EngineReady);
            }
            SessionAction::Go => self.machines[side].went_at = Some(self.now),
            SessionAction::StopEngine => self.machines[side].stopped = true,
            SessionAction::StopSending => self.machines[side].sends_until = Some(self.now),
            SessionAction::Collect if side == 1 => {
                let results = self.far_results();
                self.feed(side, SessionInput::Results(results));
            }
            SessionAction::Collect | SessionAction::PeerInterval(_) => {}
            SessionAction::Ask(ask) => {
                let answer = match *ask {
                    SessionRequest::Arm(_) => SessionReply::Armed,
                    _ => SessionReply::Failed("made of straw".to_owned()),
                };
                self.post(1, self.now + self.work, SessionInput::Answer(Box::new(answer)));
            }
            SessionAction::Answer(answer) => self.answers.push(*answer),
            SessionAction::Close(closed) => {
                self.machines[side].closed = Some(closed);
                // Hanging up reaches the peer after what was said before.
                let at = self.now + self.one_way;
                if !matches!(self.fault, Some((_, by, Fault::Silence)) if by as usize == side) {
                    self.post(1 - side, at, SessionInput::Cut("closed".to_owned()));
                }
            }
        }
    }

    fn post(&mut self, side: usize, at: Duration, input: SessionInput) {
        let inbox = &mut self.machines[side].inbox;
        let place = inbox.iter().take_while(|(other, _)| *other <= at).count();
        inbox.insert(place, (at, input));
    }

    fn transmit(&mut self, side: usize, message: ControlMessage) {
        let mut at = self.now + self.one_way;
        let number = self.machines[side].sent;
        self.machines[side].sent += 1;
        if let Some((_, by, Fault::Delay(until))) = self.fault {
            let flows = by as usize == side && self.machines[side].went_at.is_some();
            at = if flows { at.max(until) } else { at };
        } else if let Some((after, by, fault)) = self.fault
            && by as usize == side
            && number >= after
        {
            let first = !std::mem::replace(&mut self.broke, true);
            match fault {
                Fault::Cut if first => {
                    self.post(1 - side, at, SessionInput::Cut("cut".to_owned()));
                    self.post(side, self.now, SessionInput::Cut("cut".to_owned()));
                }
                Fault::Garbage if first => {
                    self.post(1 - side, at, SessionInput::Garbage("not a message".to_owned()));
                }
                _ => {}
            }
            return;
        }
        if let Some((after, by, extra)) = self.injection.clone()
            && by as usize == side
            && number == after
        {
            self.injection = None;
            self.post(1 - side, at, SessionInput::Message(extra));
        }
        let message = self.in_version(side, message);
        self.post(1 - side, at, SessionInput::Message(message));
    }

    fn in_version(&self, side: usize, message: ControlMessage) -> ControlMessage {
        match message {
            ControlMessage::Hello(hello) => {
                ControlMessage::Hello(HelloMessage { versions: self.spoken[side], ..hello })
            }
            other => other,
        }
    }

    fn watch_engine(&mut self, side: usize) {
        let Some(went) = self.machines[side].went_at else {
            return;
        };
        let length = match self.plan.stop {
            StopCondition::TimeUs(us) => Duration::from_micros(us),
            StopCondition::Bytes(_) | StopCondition::Blocks(_) => Duration::from_secs(3),
        };
        let stopped = self.machines[side].stopped;
        let ran = self.now.saturating_sub(went);
        let ends = |side: usize| {
            let early = self.machines[side].sends_until;
            early.map_or(length, |at| at.saturating_sub(went).min(length))
        };
        let sent = stopped || ran >= ends(side);
        let drained = stopped || (self.drains && ran >= ends(1 - side) + self.one_way);
        let bytes = ran.min(length).as_micros() as u64;
        self.feed(
            side,
            SessionInput::Progress(TransferProgress {
                interval: IntervalCounters {
                    elapsed_us: ran.as_micros() as u64,
                    sent_bytes: Some(bytes),
                    received_bytes: Some(bytes),
                },
                sent,
                drained,
            }),
        );
        assert!(self.machines[side].session.state() != SessionState::Greeting);
    }

    fn far_results(&self) -> Vec<ControlMessage> {
        let directions: &[bool] = match self.plan.direction {
            RunDirection::Forward => &[true],
            RunDirection::Reverse => &[false],
            RunDirection::Both => &[true, false],
        };
        let mut results = Vec::new();
        for &forward in directions {
            for index in 0..self.plan.streams {
                let end = StreamEnd::default();
                let result = StreamResult { forward, index, end };
                results.push(ControlMessage::Stream(Box::new(result)));
            }
            let (end, caveats) = (EndObservation::default(), Vec::new());
            let result = DirectionResult { forward, end, caveats };
            results.push(ControlMessage::End(Box::new(result)));
        }
        assert_eq!(self.machines[1].session.role(), SessionRole::Server);
        results
    }
}
