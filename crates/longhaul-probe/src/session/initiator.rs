//! The client's handling of messages.

use super::clock::{ClockReading, EXCHANGES, SPACING};
use super::{
    Action, Aim, Closed, EngineStart, Event, FarResult, HEARTBEAT, Part, Role, Session, State,
};
use crate::limits::MOST_CAPTURE_BYTES;
use crate::secure::proves;
use crate::wire::{
    Bounds, CapturePart, EndResult, Message, Ping, Pong, Prepare, Propose, StreamResult, Welcome,
};
use longhaul_model::report::v1::plan::{Direction, Plan};
use std::collections::BTreeSet;
use std::time::Duration;

/// The maximum RTT at which two ends under one kernel count as one host: with an emulated path
/// between network namespaces it is longer.
const SAME_HOST_RTT: Duration = Duration::from_millis(1);

/// The client's request and what it has learnt.
#[derive(Debug, Clone)]
pub struct Initiative {
    aim: Aim,
    /// The agreed start, on this session's clock.
    start_at: Option<Duration>,
    pinged: Vec<Duration>,
    answered: u32,
    clock: Option<ClockReading>,
    /// Results received: streams by direction and index, ends by direction.
    streams: BTreeSet<(bool, u32)>,
    ends: BTreeSet<bool>,
    /// Bytes of the server's capture file so far.
    captured_bytes: u64,
}

impl Initiative {
    /// A run of `plan`; payload starts at `start_at` of the session's clock, or at once.
    pub fn new(plan: Plan, start_at: Option<Duration>) -> Self {
        Initiative::aiming(Aim::Run(Box::new(plan)), start_at)
    }

    /// Probes within `bounds`, or within what the server grants.
    pub fn probing(bounds: Bounds) -> Self {
        Initiative::aiming(Aim::Probe(bounds), None)
    }

    fn aiming(aim: Aim, start_at: Option<Duration>) -> Self {
        Initiative {
            aim,
            start_at,
            pinged: Vec::new(),
            answered: 0,
            clock: None,
            streams: BTreeSet::new(),
            ends: BTreeSet::new(),
            captured_bytes: 0,
        }
    }

    /// Returns the plan of a bulk run.
    pub(super) fn plan(&self) -> Option<&Plan> {
        match &self.aim {
            Aim::Run(plan) => Some(plan),
            Aim::Probe(_) => None,
        }
    }

    fn directions(&self) -> &'static [bool] {
        match self.plan().map(|plan| plan.direction) {
            Some(Direction::Forward) => &[true],
            Some(Direction::Reverse) => &[false],
            Some(Direction::Both) => &[true, false],
            None => &[],
        }
    }

    fn streams(&self) -> u32 {
        self.plan().map_or(0, |plan| plan.streams)
    }

    /// Records a part of the server's capture; false if it is unrequested, too large or too late.
    fn takes_capture(&mut self, part: &CapturePart) -> bool {
        self.captured_bytes += part.bytes.0.len() as u64;
        let asked = self.plan().and_then(|plan| plan.capture);
        asked.is_some_and(|capture| capture.far)
            && self.streams.is_empty()
            && self.captured_bytes <= MOST_CAPTURE_BYTES
    }

    /// Records a stream's result; false if it is unrequested or a duplicate.
    fn takes_stream(&mut self, result: &StreamResult) -> bool {
        result.index < self.streams()
            && self.directions().contains(&result.forward)
            && !self.ends.contains(&result.forward)
            && self.streams.insert((result.forward, result.index))
    }

    /// Records the end of a direction's results; false if streams are missing or it is a duplicate.
    fn takes_end(&mut self, result: &EndResult) -> bool {
        let told = self
            .streams
            .iter()
            .filter(|(forward, _)| *forward == result.forward);
        self.directions().contains(&result.forward)
            && told.count() == self.streams() as usize
            && self.ends.insert(result.forward)
    }

    fn is_complete(&self) -> bool {
        self.ends.len() == self.directions().len()
    }
}

impl Session {
    fn initiative(&mut self) -> Option<&mut Initiative> {
        match &mut self.part {
            Part::Initiator(initiative) => Some(initiative),
            Part::Responder(_) => None,
        }
    }

    /// Returns the offset of the two clocks, once measured.
    pub fn clock(&self) -> Option<ClockReading> {
        match &self.part {
            Part::Initiator(initiative) => initiative.clock,
            Part::Responder(_) => None,
        }
    }

    pub(super) fn initiator_hears(&mut self, now: Duration, message: Message) {
        match message {
            Message::Welcome(welcome) => self.on_welcome(welcome),
            Message::Accept(accept) => {
                self.start_bounded_time(now);
                self.actions.push(Action::OpenStreams(accept));
            }
            Message::Opened => self.ping_when_due(now),
            Message::Pong(pong) => self.on_pong(now, pong),
            Message::Prepared => {
                self.flow.peer_prepared = true;
                self.start_when_due(now);
            }
            Message::Interval(interval) => {
                self.actions.push(Action::FarInterval(interval));
                self.on_flow_message(now, &message);
            }
            Message::Sent | Message::Drained => self.on_flow_message(now, &message),
            Message::Answer(answer) => self.actions.push(Action::Answer(answer)),
            Message::Capture(part) => self.on_capture(part),
            Message::Stream(result) => self.on_stream_result(result),
            Message::End(result) => self.on_end_result(result),
            _ => {}
        }
    }

    fn on_welcome(&mut self, welcome: Welcome) {
        if let Some(token) = &self.setup.token {
            let proof = welcome.token_proof.as_deref().unwrap_or_default();
            if !proves(token, Role::Responder, &self.setup.exporter, proof) {
                return self.close(Closed::PeerUnproven);
            }
        }
        self.peer = Some(welcome.party);
        self.peer_boot_proof = welcome.boot_proof;
        let aim = self.initiative().map(|initiative| initiative.aim.clone());
        let plan = match aim {
            Some(Aim::Run(plan)) => self.understood(*plan),
            Some(Aim::Probe(bounds)) => return self.propose_probes(bounds, welcome.limits),
            None => return,
        };
        let propose = Propose {
            plan,
            party: self.setup.party.clone(),
            boot_proof: self.setup.boot_proof.clone(),
        };
        self.send(Message::Propose(Box::new(propose)));
    }

    /// Removes from the plan what the server's version does not support.
    fn understood(&self, plan: Plan) -> Plan {
        let capture = plan.capture.filter(|_| self.knows_captures());
        Plan { capture, ..plan }
    }

    pub(super) fn next_ping(&self) -> Option<Duration> {
        let Part::Initiator(initiative) = &self.part else {
            return None;
        };
        let more = initiative.pinged.len() < EXCHANGES as usize;
        let last = initiative.pinged.last().copied();
        more.then(|| last.map_or(Duration::ZERO, |last| last + SPACING))
    }

    pub(super) fn ping_when_due(&mut self, now: Duration) {
        if self.next_ping().is_none_or(|at| now < at) {
            return;
        }
        let Some(initiative) = self.initiative() else {
            return;
        };
        let number = initiative.pinged.len() as u32;
        initiative.pinged.push(now);
        self.send(Message::Ping(Ping { number }));
    }

    fn on_pong(&mut self, now: Duration, pong: Pong) {
        let Some(initiative) = self.initiative() else {
            return;
        };
        // Pongs must arrive in order and once; otherwise the peer could choose the sample.
        let sent = initiative.pinged.get(pong.number as usize).copied();
        let Some(sent) = sent.filter(|_| pong.number == initiative.answered) else {
            return self.violation(format!("`pong` number {}", pong.number));
        };
        initiative.answered += 1;
        let clock = ClockReading::of(sent, pong.at_us, now).better(initiative.clock);
        initiative.clock = Some(clock);
        if initiative.answered < EXCHANGES {
            return;
        }
        if self.is_probing() {
            self.learn_of_path(clock);
            self.on_timed_to_ask(now);
        } else if self.step(Event::Timed) {
            self.prepare(now, clock);
        }
    }

    fn learn_of_path(&mut self, clock: ClockReading) {
        let (ours, theirs) = (&self.setup.boot_proof, &self.peer_boot_proof);
        let near = self.setup.one_address || clock.rtt < SAME_HOST_RTT;
        self.same_host = ours.is_some() && ours == theirs && near;
        self.idle_rtt = Some(clock.rtt);
    }

    fn prepare(&mut self, now: Duration, clock: ClockReading) {
        self.learn_of_path(clock);
        self.heard_at = now;
        self.flow.next_heartbeat = now + HEARTBEAT;
        let start_at = self.initiative().and_then(|initiative| initiative.start_at);
        self.flow.wait = start_at.map_or(Duration::ZERO, |at| at.saturating_sub(now));
        self.deadline = self.deadline_of_step(now);
        self.send(Message::Prepare(Prepare {
            origin_us: clock.on_responder_us(now),
            idle_rtt_us: clock.rtt.as_micros() as u64,
            same_host: self.same_host,
            wait_us: start_at.map(|_| self.flow.wait.as_micros() as u64),
        }));
        self.actions.push(Action::StartEngine(EngineStart {
            origin: now,
            idle_rtt: clock.rtt,
            same_host: self.same_host,
        }));
    }

    /// Returns the time at which payload may start; `None` while an engine is not ready.
    pub(super) fn start_time(&self) -> Option<Duration> {
        let Part::Initiator(initiative) = &self.part else {
            return None;
        };
        let ready = self.flow.peer_prepared && self.flow.engine_ready;
        ready.then(|| initiative.start_at.unwrap_or_default())
    }

    pub(super) fn start_when_due(&mut self, now: Duration) {
        let due = self.start_time().is_some_and(|at| now >= at);
        if due && self.step(Event::StartTime) {
            self.send(Message::Go);
            self.start_running(now);
        }
    }

    fn on_capture(&mut self, part: CapturePart) {
        if self
            .initiative()
            .is_some_and(|initiative| initiative.takes_capture(&part))
        {
            let piece = FarResult::Capture(part.bytes.0);
            self.actions.push(Action::Result(piece));
        } else {
            self.violation("a capture that was not asked for, or is too large".to_owned());
        }
    }

    fn on_stream_result(&mut self, result: Box<StreamResult>) {
        if self
            .initiative()
            .is_some_and(|initiative| initiative.takes_stream(&result))
        {
            self.actions.push(Action::Result(FarResult::Stream(result)));
        } else {
            self.violation(format!("result of stream {} not asked for", result.index));
        }
    }

    fn on_end_result(&mut self, result: Box<EndResult>) {
        if !self
            .initiative()
            .is_some_and(|initiative| initiative.takes_end(&result))
        {
            return self.violation("results ended with streams missing".to_owned());
        }
        self.actions.push(Action::Result(FarResult::End(result)));
        if self
            .initiative()
            .is_some_and(|initiative| initiative.is_complete())
            && self.state == State::Exchanging
        {
            self.close(Closed::Finished);
        }
    }
}
