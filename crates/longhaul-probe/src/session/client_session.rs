//! The client's handling of messages.

use super::{
    ClockReading, MAX_EXCHANGES, PING_INTERVAL, Session, SessionAction, SessionEnd, SessionEvent,
    SessionPurpose, SessionRole, SessionState, sends_payload,
};
use crate::engine::MAX_TOTAL_SAMPLES;
use crate::plan_limits::MAX_CAPTURE_BYTES;
use crate::probe_error::TokenFailure;
use crate::secure::verify_proof;
use crate::wire::{
    AnonymousLimits, Base64Bytes, ControlMessage, DirectionResult, PrepareMessage, RunProposal,
    StreamResult, WelcomeMessage,
};
use longhaul_model::report::v1::observation::StreamEnd;
use longhaul_model::report::v1::plan::{StopCondition, ThroughputPlan};
use std::collections::BTreeMap;
use std::time::Duration;

/// The maximum RTT at which two ends under one kernel count as one host: with an emulated path
/// between network namespaces it is longer.
const SAME_HOST_RTT: Duration = Duration::from_millis(1);

/// The data that only the client has.
#[derive(Debug, Default)]
pub(super) struct ClientState {
    pinged: Vec<Duration>,
    answered: u32,
    clock: Option<ClockReading>,
    pub(super) results: ServerResults,
}

/// The server's results, as received.
#[derive(Debug, Clone, Default)]
pub struct ServerResults {
    /// Its capture file; empty if there is none.
    pub capture: Vec<u8>,
    /// By direction: true if the client sends.
    pub directions: BTreeMap<bool, ServerDirection>,
}

/// The server's results of one direction.
#[derive(Debug, Clone, Default)]
pub struct ServerDirection {
    pub streams: Vec<StreamEnd>,
    pub end: Option<DirectionResult>,
}

impl Session {
    fn streams(&self) -> usize {
        self.plan().map_or(0, |plan| plan.streams as usize)
    }

    fn expects_direction(&self, forward: bool) -> bool {
        let sender = if forward { SessionRole::Client } else { SessionRole::Server };
        self.plan().is_some_and(|plan| sends_payload(sender, plan))
    }

    /// Adds a part of the server's capture; false if it is unrequested, too large or too late.
    fn add_capture(&mut self, part: Base64Bytes) -> bool {
        let asked = self.plan().and_then(|plan| plan.capture);
        let results = &mut self.client.results;
        results.capture.extend(part.0);
        asked.is_some_and(|capture| capture.far)
            && results.directions.is_empty()
            && results.capture.len() as u64 <= MAX_CAPTURE_BYTES
    }

    /// Adds a stream's result; false if it is unrequested, not the next one, or the samples are more
    /// than an engine keeps.
    fn add_stream(&mut self, result: StreamResult) -> bool {
        let wanted = self.expects_direction(result.forward);
        let streams = self.streams();
        let direction = self.client.results.directions.entry(result.forward).or_default();
        let index = direction.streams.len();
        direction.streams.push(result.end);
        let samples: usize = direction.streams.iter().map(|stream| stream.samples.len()).sum();
        wanted
            && index < streams
            && index == result.index as usize
            && direction.end.is_none()
            && samples <= MAX_TOTAL_SAMPLES
    }

    /// Adds the end of a direction's results; false if streams are missing or it is a duplicate.
    fn add_end(&mut self, result: DirectionResult) -> bool {
        let streams = self.streams();
        let direction = self.client.results.directions.entry(result.forward).or_default();
        direction.streams.len() == streams && direction.end.replace(result).is_none()
    }

    fn is_complete(&self) -> bool {
        let has_end = |forward| {
            let direction = self.client.results.directions.get(&forward);
            direction.is_some_and(|direction| direction.end.is_some())
        };
        [true, false].into_iter().all(|way| !self.expects_direction(way) || has_end(way))
    }

    /// Returns the offset of the two clocks, once measured.
    pub fn clock(&self) -> Option<ClockReading> {
        self.client.clock
    }

    pub(super) fn client_receives(&mut self, now: Duration, message: ControlMessage) {
        match message {
            ControlMessage::Welcome(welcome) => self.on_welcome(welcome),
            ControlMessage::Accept { nonce } => {
                self.start_bounded_time(now);
                self.actions.push(SessionAction::OpenStreams(nonce));
            }
            ControlMessage::Opened => self.ping_when_due(now),
            ControlMessage::Pong { number, at_us } => self.on_pong(now, number, at_us),
            ControlMessage::Prepared => {
                self.transfer.peer_prepared = true;
                self.start_when_ready(now);
            }
            ControlMessage::Interval(interval) => {
                self.actions.push(SessionAction::PeerInterval(interval));
                self.on_flow_message(now, &message);
            }
            ControlMessage::Sent | ControlMessage::Drained => self.on_flow_message(now, &message),
            ControlMessage::Answer(answer) => self.actions.push(SessionAction::Answer(answer)),
            ControlMessage::Capture { .. } | ControlMessage::Stream(_) | ControlMessage::End(_) => {
                self.on_result(message);
            }
            _ => {}
        }
    }

    fn on_welcome(&mut self, welcome: WelcomeMessage) {
        if let Some(token) = &self.setup.token {
            let proof = welcome.token_proof.as_deref().unwrap_or_default();
            if !verify_proof(token, SessionRole::Server, &self.setup.exporter, proof) {
                return self.close(SessionEnd::Token(TokenFailure::Unproven));
            }
        }
        self.peer = Some(welcome.party);
        self.peer_boot_proof = welcome.boot_proof;
        let plan = match self.purpose.clone() {
            Some(SessionPurpose::Run(plan)) => self.limit_open_run(*plan, welcome.limits),
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

    /// Limits a run that lasts until it is stopped to what the server allows anonymous clients.
    fn limit_open_run(
        &mut self,
        mut plan: ThroughputPlan,
        limits: Option<AnonymousLimits>,
    ) -> ThroughputPlan {
        if let (true, StopCondition::TimeUs(time), Some(limits)) =
            (plan.until_stopped, plan.stop, limits)
        {
            plan.stop = StopCondition::TimeUs(time.min(limits.seconds.saturating_mul(1_000_000)));
            self.purpose = Some(SessionPurpose::Run(Box::new(plan.clone())));
        }
        plan
    }

    pub(super) fn next_ping(&self) -> Option<Duration> {
        let pinged = &self.client.pinged;
        let more = self.role == SessionRole::Client && pinged.len() < MAX_EXCHANGES as usize;
        let last = pinged.last().copied();
        more.then(|| last.map_or(Duration::ZERO, |last| last + PING_INTERVAL))
    }

    pub(super) fn ping_when_due(&mut self, now: Duration) {
        if self.next_ping().is_none_or(|at| now < at) {
            return;
        }
        let number = self.client.pinged.len() as u32;
        self.client.pinged.push(now);
        self.send(ControlMessage::Ping { number });
    }

    fn on_pong(&mut self, now: Duration, number: u32, at_us: u64) {
        // Pongs must arrive in order and once; otherwise the peer could choose the sample.
        let client = &mut self.client;
        let sent = client.pinged.get(number as usize).copied();
        let Some(sent) = sent.filter(|_| number == client.answered) else {
            return self.violation(format!("unexpected `pong` number {number}"));
        };
        client.answered += 1;
        let clock = ClockReading::from_exchange(sent, at_us, now).better_of(client.clock);
        client.clock = Some(clock);
        if client.answered < MAX_EXCHANGES {
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
        let near = self.setup.same_address || clock.rtt < SAME_HOST_RTT;
        self.same_host = near && self.same_boot() == Some(true);
        self.idle_rtt = Some(clock.rtt);
    }

    fn prepare(&mut self, now: Duration, clock: ClockReading) {
        self.record_path(clock);
        self.start_heartbeats(now);
        self.send(ControlMessage::Prepare(PrepareMessage {
            origin_us: clock.to_server_us(now),
            idle_rtt_us: clock.rtt.as_micros() as u64,
            same_host: self.same_host,
        }));
        let start = self.engine_start(now, clock.rtt);
        self.actions.push(start);
    }

    /// Starts the payload once both engines are ready.
    pub(super) fn start_when_ready(&mut self, now: Duration) {
        let ready = self.transfer.peer_prepared && self.transfer.engine_ready;
        if ready && self.step(SessionEvent::StartTime) {
            self.send(ControlMessage::Go);
            self.start_running(now);
        }
    }

    /// Adds a result of the server; ends the session if it was the last one, or is not permitted.
    fn on_result(&mut self, message: ControlMessage) {
        let (what, accepted) = match message {
            ControlMessage::Capture { bytes } => ("a capture", self.add_capture(bytes)),
            ControlMessage::Stream(result) => ("a stream", self.add_stream(*result)),
            ControlMessage::End(result) => ("an end", self.add_end(*result)),
            _ => return,
        };
        if !accepted {
            let rule = "was not requested, is too large, or is out of order";
            self.violation(format!("{what} of the results {rule}"));
        } else if self.is_complete() && self.state == SessionState::Exchanging {
            self.close(SessionEnd::Finished);
        }
    }

    /// Takes the server's results out of the session.
    pub fn take_results(&mut self) -> ServerResults {
        std::mem::take(&mut self.client.results)
    }
}
