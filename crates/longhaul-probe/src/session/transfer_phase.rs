//! The rules from the start of payload to its last byte, the same for both ends.
//!
//! A run limited by time ends when the senders' time is over. Data in flight then gets a grace
//! period, since a deep socket buffer on a slow path would otherwise hold the run for minutes. A
//! run limited by bytes drains completely, as long as bytes keep arriving. A run that the client
//! ends early is from then on a run limited by time whose time is over.

use super::{
    BACKOFF_TIMEOUT, HEARTBEAT_INTERVAL, INTERRUPT_TIMEOUT, STEP_TIMEOUT, Session, SessionAction,
    SessionEnd, SessionEvent, SessionRole, SessionState, TransferProgress,
};
use crate::wire::{ControlMessage, IntervalCounters};
use longhaul_model::report::v1::plan::{RunDirection, RunTransport, StopCondition, ThroughputPlan};
use std::time::Duration;

/// The delay after which the engine of a run limited by time is stopped from outside.
const OVERTIME: Duration = Duration::from_secs(2);
/// The timeout without progress for bytes that must arrive (or 20 round trips, if longer); after it
/// the run has failed.
const STALL_TIMEOUT: Duration = Duration::from_secs(10);

/// The progress of the run at this end and at the peer.
#[derive(Debug, Default)]
pub(super) struct TransferState {
    /// The engines of the peer and of this end are ready.
    pub(super) peer_prepared: bool,
    pub(super) engine_ready: bool,
    running_since: Option<Duration>,
    /// The last time at which this end saw that payload reached an end.
    pub(super) moved_at: Option<Duration>,
    pub(super) next_heartbeat: Duration,
    interval: IntervalCounters,
    peer_interval: Option<IntervalCounters>,
    sent: bool,
    peer_sent: bool,
    drained: bool,
    peer_drained: bool,
    grace_ends: Option<Duration>,
    stopped: bool,
    /// The client has ended the run early.
    interrupted: bool,
    /// Client: the end of an interrupted run, whatever the server does.
    pub(super) ends_by: Option<Duration>,
}

/// Returns whether the end with this role sends payload under this plan.
pub(crate) fn sends_payload(role: SessionRole, plan: &ThroughputPlan) -> bool {
    match plan.direction {
        RunDirection::Both => true,
        RunDirection::Forward => role == SessionRole::Client,
        RunDirection::Reverse => role == SessionRole::Server,
    }
}

fn peer_role(role: SessionRole) -> SessionRole {
    match role {
        SessionRole::Client => SessionRole::Server,
        SessionRole::Server => SessionRole::Client,
    }
}

impl Session {
    /// Starts the payload.
    pub(super) fn start_running(&mut self, now: Duration) {
        self.start_heartbeats(now);
        self.transfer.running_since = Some(now);
        let (sends, peer_sends) = self.senders();
        self.transfer.sent = !sends;
        self.transfer.peer_sent = !peer_sends;
        self.deadline = Some(if self.detects_stalls() {
            self.stall_deadline(now)
        } else {
            now + self.longest_run()
        });
        self.actions.push(SessionAction::Go);
    }

    fn senders(&self) -> (bool, bool) {
        let sends_as = |role| self.plan().is_some_and(|plan| sends_payload(role, plan));
        (sends_as(self.role), sends_as(peer_role(self.role)))
    }

    /// Returns the maximum time in `Running`.
    fn longest_run(&self) -> Duration {
        match self.planned_time() {
            Some(time) => time + OVERTIME + self.silence_timeout() + BACKOFF_TIMEOUT.min(time),
            None => self.max_unlimited_run(),
        }
    }

    pub(super) fn planned_time(&self) -> Option<Duration> {
        match self.plan()?.stop {
            StopCondition::TimeUs(time) => Some(Duration::from_micros(time)),
            StopCondition::Bytes(_) | StopCondition::Blocks(_) => None,
        }
    }

    /// Returns the end of the time in which payload only flows, if nothing else happens.
    pub fn flows_until(&self) -> Option<Duration> {
        let planned = self.transfer.running_since? + self.planned_time()?;
        (!self.transfer.interrupted).then_some(planned)
    }

    /// Client: ends the run early, and in order if payload flows.
    pub(super) fn interrupt_run(&mut self, now: Duration) {
        use SessionState::{Closed, Draining, Exchanging, Running};
        match self.state {
            Running | Draining => {
                self.send(ControlMessage::Stop);
                self.stop_sending(now);
            }
            Exchanging | Closed => {}
            step => {
                let what = "the client was interrupted".to_owned();
                return self.close(SessionEnd::OwnFailure { step, what });
            }
        }
        let timeout = INTERRUPT_TIMEOUT.max(self.idle_rtt.unwrap_or_default() * 20);
        self.transfer.ends_by = Some(now + timeout);
    }

    /// Ends the time of this end's senders now.
    pub(super) fn stop_sending(&mut self, now: Duration) {
        self.transfer.interrupted = true;
        self.actions.push(SessionAction::StopSending);
        match self.state {
            SessionState::Draining => self.start_draining(now),
            _ => self.deadline = Some(now + STEP_TIMEOUT),
        }
    }

    /// Returns whether the run waits for all data in flight.
    fn drains_fully(&self) -> bool {
        self.planned_time().is_none() && !self.transfer.interrupted && self.uses_tcp()
    }

    /// Returns the time that the peer's next message can take after the payload: as long again as the
    /// peer was silent while payload moved, because the intervals of retransmissions double (RFC 6298,
    /// section 5.5).
    pub(super) fn backoff_time(&self) -> Duration {
        let Some(moved_at) = self.transfer.moved_at else {
            return Duration::ZERO;
        };
        let flows = self.state == SessionState::Running
            && self.flows_until().is_none_or(|until| moved_at < until);
        let silence = moved_at.saturating_sub(self.last_received).min(BACKOFF_TIMEOUT);
        if flows { Duration::ZERO } else { silence }
    }

    fn uses_tcp(&self) -> bool {
        self.plan().is_some_and(|plan| plan.transport == RunTransport::Tcp)
    }

    /// Returns whether bytes must move continuously, because no rate limit is set.
    fn detects_stalls(&self) -> bool {
        let unpaced = |plan: &ThroughputPlan| {
            let rates = [plan.write_rate_bps, plan.read_rate_bps, plan.pacing_bps];
            rates.iter().all(Option::is_none)
        };
        self.drains_fully() && self.plan().is_some_and(unpaced)
    }

    fn stall_timeout(&self) -> Duration {
        STALL_TIMEOUT.max(self.idle_rtt.unwrap_or_default() * 20)
    }

    fn grace_period(&self) -> Duration {
        Duration::from_secs(1).max(self.idle_rtt.unwrap_or_default() * 4)
    }

    /// Handles the counters of this end's engine.
    pub(super) fn on_progress(&mut self, now: Duration, progress: TransferProgress) {
        if !matches!(self.state, SessionState::Running | SessionState::Draining) {
            return;
        }
        let sent = progress.interval.sent_bytes != self.transfer.interval.sent_bytes;
        let received = progress.interval.received_bytes != self.transfer.interval.received_bytes;
        self.transfer.interval = progress.interval;
        if sent || received {
            self.extend_deadline(now);
        }
        // Datagrams are sent even if nobody is there.
        if received || (sent && self.uses_tcp()) {
            self.transfer.moved_at = Some(now);
        }
        if progress.sent && !self.transfer.sent && self.senders().0 {
            self.transfer.sent = true;
            self.send(ControlMessage::Sent);
        }
        self.transfer.drained |= progress.drained;
        self.advance(now);
    }

    /// Extends the deadline of a run limited by bytes after progress, up to its maximum duration.
    fn extend_deadline(&mut self, now: Duration) {
        let drains = self.state == SessionState::Draining && self.drains_fully();
        if drains || (self.state == SessionState::Running && self.detects_stalls()) {
            self.deadline = Some(self.stall_deadline(now));
        }
    }

    fn stall_deadline(&self, now: Duration) -> Duration {
        let started = self.transfer.running_since.unwrap_or_default();
        (now + self.stall_timeout()).min(started + self.longest_run())
    }

    pub(super) fn on_flow_message(&mut self, now: Duration, message: &ControlMessage) {
        match message {
            ControlMessage::Sent => self.transfer.peer_sent = true,
            ControlMessage::Drained => self.transfer.peer_drained = true,
            ControlMessage::Interval(interval) => {
                let before = self.transfer.peer_interval.replace(*interval);
                let bytes = |i: IntervalCounters| (i.sent_bytes, i.received_bytes);
                if before.map(bytes) != Some(bytes(*interval)) {
                    self.extend_deadline(now);
                }
            }
            _ => {}
        }
        self.advance(now);
    }

    /// Takes the steps that have become possible.
    fn advance(&mut self, now: Duration) {
        if self.state == SessionState::Running
            && self.transfer.sent
            && self.transfer.peer_sent
            && self.step(SessionEvent::AllSent)
        {
            self.start_draining(now);
        }
        if self.state != SessionState::Draining {
            return;
        }
        let (_, receives) = self.senders();
        if receives && self.transfer.drained && !self.transfer.stopped {
            self.send_drained();
        }
        let here = !receives || self.transfer.stopped;
        let there = !self.senders().0 || self.transfer.peer_drained;
        if here && there && self.step(SessionEvent::AllDrained) {
            self.deadline = self.deadline_of_step(now);
            self.actions.push(SessionAction::Collect);
        }
    }

    fn start_draining(&mut self, now: Duration) {
        if self.drains_fully() {
            self.deadline = Some(self.stall_deadline(now));
        } else {
            self.transfer.grace_ends = Some(now + self.grace_period());
            let step = STEP_TIMEOUT + self.backoff_time();
            self.deadline = Some(now + self.grace_period() + step);
        }
    }

    fn send_drained(&mut self) {
        self.transfer.stopped = true;
        self.send(ControlMessage::Drained);
    }

    /// Returns the next heartbeat, overtime or end of the grace period.
    pub(super) fn next_timer(&self) -> Option<Duration> {
        match self.state {
            SessionState::Timing => self.next_ping(),
            SessionState::Ready
            | SessionState::Exchanging
            | SessionState::Asking
            | SessionState::Working => Some(self.transfer.next_heartbeat),
            SessionState::Running => {
                let overtime = self.overtime_deadline().filter(|_| !self.transfer.sent);
                [overtime, Some(self.transfer.next_heartbeat)].into_iter().flatten().min()
            }
            SessionState::Draining => {
                let grace = self.transfer.grace_ends.filter(|_| !self.transfer.stopped);
                [grace, Some(self.transfer.next_heartbeat)].into_iter().flatten().min()
            }
            _ => None,
        }
    }

    /// Returns the time by which this end's sender should have stopped by itself.
    fn overtime_deadline(&self) -> Option<Duration> {
        Some(self.transfer.running_since? + self.planned_time()? + OVERTIME)
    }

    pub(super) fn run_timers(&mut self, now: Duration) {
        let late = |at: Option<Duration>| at.is_some_and(|at| now >= at);
        match self.state {
            SessionState::Timing => self.ping_when_due(now),
            SessionState::Running if late(self.overtime_deadline()) && !self.transfer.sent => {
                self.transfer.sent = true;
                self.actions.push(SessionAction::StopEngine);
                self.send(ControlMessage::Sent);
                self.advance(now);
            }
            SessionState::Draining if late(self.transfer.grace_ends) && !self.transfer.stopped => {
                self.actions.push(SessionAction::StopEngine);
                if self.senders().1 {
                    self.send_drained();
                }
                self.transfer.stopped = true;
                self.advance(now);
            }
            _ => {}
        }
        self.send_heartbeat(now);
    }

    fn send_heartbeat(&mut self, now: Duration) {
        if self.sends_heartbeats() && now >= self.transfer.next_heartbeat {
            self.transfer.next_heartbeat = now + HEARTBEAT_INTERVAL;
            self.send(ControlMessage::Interval(self.transfer.interval));
        }
    }
}
