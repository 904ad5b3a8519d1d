//! The client's handling of messages.

use super::clock_offset::{ClockReading, MAX_EXCHANGES, PING_INTERVAL};
use super::{
    EngineStart, HEARTBEAT_INTERVAL, PeerResult, RoleState, Session, SessionAction, SessionEnd,
    SessionEvent, SessionPurpose, SessionRole, SessionState,
};
use crate::plan_limits::MAX_CAPTURE_BYTES;
use crate::secure::verify_proof;
use crate::wire::{
    CapturePart, ClockPing, ClockPong, ControlMessage, DirectionResult, PrepareMessage,
    ProbeBounds, RunProposal, StreamResult, WelcomeMessage,
};
use longhaul_model::report::v1::plan::{RunDirection, ThroughputPlan};
use std::collections::BTreeSet;
use std::time::Duration;

/// The maximum RTT at which two ends under one kernel count as one host: with an emulated path
/// between network namespaces it is longer.
const SAME_HOST_RTT: Duration = Duration::from_millis(1);

/// The client's request and what it has learnt.
#[derive(Debug, Clone)]
pub struct ClientState {
    purpose: SessionPurpose,
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

impl ClientState {
    /// A run of `plan`; payload starts at `start_at` of the session's clock, or at once.
    pub fn new(plan: ThroughputPlan, start_at: Option<Duration>) -> Self {
        ClientState::with_purpose(SessionPurpose::Run(Box::new(plan)), start_at)
    }

    /// Probes within `bounds`, or within what the server grants.
    pub fn probing(bounds: ProbeBounds) -> Self {
        ClientState::with_purpose(SessionPurpose::Probe(bounds), None)
    }

    fn with_purpose(aim: SessionPurpose, start_at: Option<Duration>) -> Self {
        ClientState {
            purpose: aim,
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
    pub(super) fn plan(&self) -> Option<&ThroughputPlan> {
        match &self.purpose {
            SessionPurpose::Run(plan) => Some(plan),
            SessionPurpose::Probe(_) => None,
        }
    }

    fn directions(&self) -> &'static [bool] {
        match self.plan().map(|plan| plan.direction) {
            Some(RunDirection::Forward) => &[true],
            Some(RunDirection::Reverse) => &[false],
            Some(RunDirection::Both) => &[true, false],
            None => &[],
        }
    }

    fn streams(&self) -> u32 {
        self.plan().map_or(0, |plan| plan.streams)
    }

    /// Records a part of the server's capture; false if it is unrequested, too large or too late.
    fn accept_capture(&mut self, part: &CapturePart) -> bool {
        self.captured_bytes += part.bytes.0.len() as u64;
        let asked = self.plan().and_then(|plan| plan.capture);
        asked.is_some_and(|capture| capture.far)
            && self.streams.is_empty()
            && self.captured_bytes <= MAX_CAPTURE_BYTES
    }

    /// Records a stream's result; false if it is unrequested or a duplicate.
    fn accept_stream(&mut self, result: &StreamResult) -> bool {
        result.index < self.streams()
            && self.directions().contains(&result.forward)
            && !self.ends.contains(&result.forward)
            && self.streams.insert((result.forward, result.index))
    }

    /// Records the end of a direction's results; false if streams are missing or it is a duplicate.
    fn accept_end(&mut self, result: &DirectionResult) -> bool {
        let told = self.streams.iter().filter(|(forward, _)| *forward == result.forward);
        self.directions().contains(&result.forward)
            && told.count() == self.streams() as usize
            && self.ends.insert(result.forward)
    }

    fn is_complete(&self) -> bool {
        self.ends.len() == self.directions().len()
    }
}

impl Session {
    fn client_state(&mut self) -> Option<&mut ClientState> {
        match &mut self.role_state {
            RoleState::Client(initiative) => Some(initiative),
            RoleState::Server(_) => None,
        }
    }

    /// Returns the offset of the two clocks, once measured.
    pub fn clock(&self) -> Option<ClockReading> {
        match &self.role_state {
            RoleState::Client(initiative) => initiative.clock,
            RoleState::Server(_) => None,
        }
    }

    pub(super) fn client_receives(&mut self, now: Duration, message: ControlMessage) {
        match message {
            ControlMessage::Welcome(welcome) => self.on_welcome(welcome),
            ControlMessage::Accept(accept) => {
                self.start_bounded_time(now);
                self.actions.push(SessionAction::OpenStreams(accept));
            }
            ControlMessage::Opened => self.ping_when_due(now),
            ControlMessage::Pong(pong) => self.on_pong(now, pong),
            ControlMessage::Prepared => {
                self.transfer.peer_prepared = true;
                self.start_when_due(now);
            }
            ControlMessage::Interval(interval) => {
                self.actions.push(SessionAction::PeerInterval(interval));
                self.on_flow_message(now, &message);
            }
            ControlMessage::Sent | ControlMessage::Drained => self.on_flow_message(now, &message),
            ControlMessage::Answer(answer) => self.actions.push(SessionAction::Answer(answer)),
            ControlMessage::Capture(part) => self.on_capture(part),
            ControlMessage::Stream(result) => self.on_stream_result(result),
            ControlMessage::End(result) => self.on_end_result(result),
            _ => {}
        }
    }

    fn on_welcome(&mut self, welcome: WelcomeMessage) {
        if let Some(token) = &self.setup.token {
            let proof = welcome.token_proof.as_deref().unwrap_or_default();
            if !verify_proof(token, SessionRole::Server, &self.setup.exporter, proof) {
                return self.close(SessionEnd::PeerUnproven);
            }
        }
        self.peer = Some(welcome.party);
        self.peer_boot_proof = welcome.boot_proof;
        let aim = self.client_state().map(|initiative| initiative.purpose.clone());
        let plan = match aim {
            Some(SessionPurpose::Run(plan)) => self.drop_unsupported(*plan),
            Some(SessionPurpose::Probe(bounds)) => {
                return self.propose_probes(bounds, welcome.limits);
            }
            None => return,
        };
        let propose = RunProposal {
            plan,
            party: self.setup.party.clone(),
            boot_proof: self.setup.boot_proof.clone(),
        };
        self.send(ControlMessage::Propose(Box::new(propose)));
    }

    /// Removes from the plan what the server's version does not support.
    fn drop_unsupported(&self, plan: ThroughputPlan) -> ThroughputPlan {
        let capture = plan.capture.filter(|_| self.supports_captures());
        ThroughputPlan { capture, ..plan }
    }

    pub(super) fn next_ping(&self) -> Option<Duration> {
        let RoleState::Client(initiative) = &self.role_state else {
            return None;
        };
        let more = initiative.pinged.len() < MAX_EXCHANGES as usize;
        let last = initiative.pinged.last().copied();
        more.then(|| last.map_or(Duration::ZERO, |last| last + PING_INTERVAL))
    }

    pub(super) fn ping_when_due(&mut self, now: Duration) {
        if self.next_ping().is_none_or(|at| now < at) {
            return;
        }
        let Some(initiative) = self.client_state() else {
            return;
        };
        let number = initiative.pinged.len() as u32;
        initiative.pinged.push(now);
        self.send(ControlMessage::Ping(ClockPing { number }));
    }

    fn on_pong(&mut self, now: Duration, pong: ClockPong) {
        let Some(initiative) = self.client_state() else {
            return;
        };
        // Pongs must arrive in order and once; otherwise the peer could choose the sample.
        let sent = initiative.pinged.get(pong.number as usize).copied();
        let Some(sent) = sent.filter(|_| pong.number == initiative.answered) else {
            return self.violation(format!("unexpected `pong` number {}", pong.number));
        };
        initiative.answered += 1;
        let clock = ClockReading::from_exchange(sent, pong.at_us, now).better_of(initiative.clock);
        initiative.clock = Some(clock);
        if initiative.answered < MAX_EXCHANGES {
            return;
        }
        if self.is_probing() {
            self.record_path(clock);
            self.on_timed_to_ask(now);
        } else if self.step(SessionEvent::Timed) {
            self.prepare(now, clock);
        }
    }

    fn record_path(&mut self, clock: ClockReading) {
        let (ours, theirs) = (&self.setup.boot_proof, &self.peer_boot_proof);
        let near = self.setup.same_address || clock.rtt < SAME_HOST_RTT;
        self.same_host = ours.is_some() && ours == theirs && near;
        self.idle_rtt = Some(clock.rtt);
    }

    fn prepare(&mut self, now: Duration, clock: ClockReading) {
        self.record_path(clock);
        self.last_received = now;
        self.transfer.next_heartbeat = now + HEARTBEAT_INTERVAL;
        let start_at = self.client_state().and_then(|initiative| initiative.start_at);
        self.transfer.wait = start_at.map_or(Duration::ZERO, |at| at.saturating_sub(now));
        self.deadline = self.deadline_of_step(now);
        self.send(ControlMessage::Prepare(PrepareMessage {
            origin_us: clock.to_server_us(now),
            idle_rtt_us: clock.rtt.as_micros() as u64,
            same_host: self.same_host,
            wait_us: start_at.map(|_| self.transfer.wait.as_micros() as u64),
        }));
        self.actions
            .push(SessionAction::StartEngine(EngineStart { origin: now, idle_rtt: clock.rtt }));
    }

    /// Returns the time at which payload may start; `None` while an engine is not ready.
    pub(super) fn start_time(&self) -> Option<Duration> {
        let RoleState::Client(initiative) = &self.role_state else {
            return None;
        };
        let ready = self.transfer.peer_prepared && self.transfer.engine_ready;
        ready.then(|| initiative.start_at.unwrap_or_default())
    }

    pub(super) fn start_when_due(&mut self, now: Duration) {
        let due = self.start_time().is_some_and(|at| now >= at);
        if due && self.step(SessionEvent::StartTime) {
            self.send(ControlMessage::Go);
            self.start_running(now);
        }
    }

    fn on_capture(&mut self, part: CapturePart) {
        if self.client_state().is_some_and(|initiative| initiative.accept_capture(&part)) {
            let piece = PeerResult::Capture(part.bytes.0);
            self.actions.push(SessionAction::Result(piece));
        } else {
            self.violation("a capture that was not requested, or is too large".to_owned());
        }
    }

    fn on_stream_result(&mut self, result: Box<StreamResult>) {
        if self.client_state().is_some_and(|initiative| initiative.accept_stream(&result)) {
            self.actions.push(SessionAction::Result(PeerResult::Stream(result)));
        } else {
            self.violation(format!("result of stream {}, which was not requested", result.index));
        }
    }

    fn on_end_result(&mut self, result: Box<DirectionResult>) {
        if !self.client_state().is_some_and(|initiative| initiative.accept_end(&result)) {
            return self.violation("results ended with streams missing".to_owned());
        }
        self.actions.push(SessionAction::Result(PeerResult::End(result)));
        if self.client_state().is_some_and(|initiative| initiative.is_complete())
            && self.state == SessionState::Exchanging
        {
            self.close(SessionEnd::Finished);
        }
    }
}
