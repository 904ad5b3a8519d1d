//! The rules from the start of payload to its last byte, the same for both ends.
//!
//! A run limited by time ends when the senders' time is over. Data in flight then gets a grace
//! period, since a deep socket buffer on a slow path would otherwise hold the run for minutes. A
//! run limited by bytes drains completely, as long as bytes keep arriving.

use super::{Action, Event, HEARTBEAT, Progress, Role, STEP_TIME, Session, State};
use crate::wire::{Interval, Message};
use longhaul_model::report::v1::plan::{Direction, Plan, Stop, Transport};
use std::time::Duration;

/// The delay after which the engine of a run limited by time is stopped from outside.
const OVERTIME: Duration = Duration::from_secs(2);
/// The timeout without progress for bytes that must arrive (or 20 round trips, if longer); after it
/// the run has failed.
const STALL: Duration = Duration::from_secs(10);

/// The progress of the run at this end and at the peer.
#[derive(Debug, Default)]
pub(super) struct Flow {
    /// The time until the agreed start.
    pub(super) wait: Duration,
    /// The engines of the peer and of this end are ready.
    pub(super) peer_prepared: bool,
    pub(super) engine_ready: bool,
    running_since: Option<Duration>,
    pub(super) next_heartbeat: Duration,
    interval: Interval,
    peer_interval: Option<Interval>,
    sent: bool,
    peer_sent: bool,
    drained: bool,
    peer_drained: bool,
    grace_ends: Option<Duration>,
    stopped: bool,
}

impl Flow {
    pub(super) fn wait(&self) -> Duration {
        self.wait
    }
}

/// Returns whether the end with this role sends payload under this plan.
pub(crate) fn sends(role: Role, plan: &Plan) -> bool {
    match plan.direction {
        Direction::Both => true,
        Direction::Forward => role == Role::Initiator,
        Direction::Reverse => role == Role::Responder,
    }
}

fn peer_of(role: Role) -> Role {
    match role {
        Role::Initiator => Role::Responder,
        Role::Responder => Role::Initiator,
    }
}

impl Session {
    /// Starts the payload.
    pub(super) fn start_running(&mut self, now: Duration) {
        self.heard_at = now;
        self.flow.running_since = Some(now);
        self.flow.next_heartbeat = now + HEARTBEAT;
        let (sends, peer_sends) = self.senders();
        self.flow.sent = !sends;
        self.flow.peer_sent = !peer_sends;
        self.deadline = Some(if self.stalls_while_running() {
            self.stall_ends(now)
        } else {
            now + self.longest_run()
        });
        self.actions.push(Action::Go);
    }

    fn senders(&self) -> (bool, bool) {
        let sends_as = |role| self.plan.as_ref().is_some_and(|plan| sends(role, plan));
        (sends_as(self.role), sends_as(peer_of(self.role)))
    }

    /// Returns the maximum time in `Running`.
    fn longest_run(&self) -> Duration {
        match self.planned_time() {
            Some(time) => time + OVERTIME + self.silence(),
            None => self.longest_unlimited(),
        }
    }

    pub(super) fn planned_time(&self) -> Option<Duration> {
        match self.plan.as_ref()?.stop {
            Stop::TimeUs(time) => Some(Duration::from_micros(time)),
            Stop::Bytes(_) | Stop::Blocks(_) => None,
        }
    }

    /// Returns the end of the time in which payload only flows, if nothing else happens.
    pub fn flows_until(&self) -> Option<Duration> {
        Some(self.flow.running_since? + self.planned_time()?)
    }

    /// Returns whether the run waits for all data in flight.
    fn drains_fully(&self) -> bool {
        let tcp = |plan: &Plan| plan.transport == Transport::Tcp;
        self.planned_time().is_none() && self.plan.as_ref().is_some_and(tcp)
    }

    /// Returns whether bytes must move continuously, because no rate limit is set.
    fn stalls_while_running(&self) -> bool {
        let unpaced = |plan: &Plan| {
            let rates = [plan.write_rate_bps, plan.read_rate_bps, plan.pacing_bps];
            rates.iter().all(Option::is_none)
        };
        self.drains_fully() && self.plan.as_ref().is_some_and(unpaced)
    }

    fn stall(&self) -> Duration {
        STALL.max(self.idle_rtt.unwrap_or_default() * 20)
    }

    fn grace(&self) -> Duration {
        Duration::from_secs(1).max(self.idle_rtt.unwrap_or_default() * 4)
    }

    /// Handles the counters of this end's engine.
    pub(super) fn on_progress(&mut self, now: Duration, progress: Progress) {
        if !matches!(self.state, State::Running | State::Draining) {
            return;
        }
        let moved = progress.interval.sent_bytes != self.flow.interval.sent_bytes
            || progress.interval.received_bytes != self.flow.interval.received_bytes;
        self.flow.interval = progress.interval;
        if moved {
            self.moved(now);
        }
        if progress.sent && !self.flow.sent && self.senders().0 {
            self.flow.sent = true;
            self.send(Message::Sent);
        }
        self.flow.drained |= progress.drained;
        self.settle(now);
    }

    /// Extends the deadline of a run limited by bytes after progress, up to its maximum duration.
    fn moved(&mut self, now: Duration) {
        let drains = self.state == State::Draining && self.drains_fully();
        if drains || (self.state == State::Running && self.stalls_while_running()) {
            self.deadline = Some(self.stall_ends(now));
        }
    }

    fn stall_ends(&self, now: Duration) -> Duration {
        let started = self.flow.running_since.unwrap_or_default();
        (now + self.stall()).min(started + self.longest_run())
    }

    pub(super) fn on_flow_message(&mut self, now: Duration, message: &Message) {
        match message {
            Message::Sent => self.flow.peer_sent = true,
            Message::Drained => self.flow.peer_drained = true,
            Message::Interval(interval) => {
                let before = self.flow.peer_interval.replace(*interval);
                let bytes = |i: Interval| (i.sent_bytes, i.received_bytes);
                if before.map(bytes) != Some(bytes(*interval)) {
                    self.moved(now);
                }
            }
            _ => {}
        }
        self.settle(now);
    }

    /// Takes the steps that have become possible.
    fn settle(&mut self, now: Duration) {
        if self.state == State::Running
            && self.flow.sent
            && self.flow.peer_sent
            && self.step(Event::AllSent)
        {
            self.start_draining(now);
        }
        if self.state != State::Draining {
            return;
        }
        let (_, receives) = self.senders();
        if receives && self.flow.drained && !self.flow.stopped {
            self.tell_drained();
        }
        let here = !receives || self.flow.stopped;
        let there = !self.senders().0 || self.flow.peer_drained;
        if here && there && self.step(Event::AllDrained) {
            self.deadline = self.deadline_of_step(now);
            self.actions.push(Action::Collect);
        }
    }

    fn start_draining(&mut self, now: Duration) {
        if self.drains_fully() {
            self.deadline = Some(self.stall_ends(now));
        } else {
            self.flow.grace_ends = Some(now + self.grace());
            self.deadline = Some(now + self.grace() + STEP_TIME);
        }
    }

    fn tell_drained(&mut self) {
        self.flow.stopped = true;
        self.send(Message::Drained);
    }

    /// Returns the next heartbeat, overtime or end of the grace period.
    pub(super) fn next_timer(&self) -> Option<Duration> {
        match self.state {
            State::Timing => self.next_ping(),
            State::Ready => {
                let start = self.start_time();
                start.into_iter().chain([self.flow.next_heartbeat]).min()
            }
            State::Exchanging | State::Asking | State::Working => Some(self.flow.next_heartbeat),
            State::Running => {
                let overtime = self.overtime().filter(|_| !self.flow.sent);
                [overtime, Some(self.flow.next_heartbeat)]
                    .into_iter()
                    .flatten()
                    .min()
            }
            State::Draining => {
                let grace = self.flow.grace_ends.filter(|_| !self.flow.stopped);
                [grace, Some(self.flow.next_heartbeat)]
                    .into_iter()
                    .flatten()
                    .min()
            }
            _ => None,
        }
    }

    /// Returns the time by which this end's sender should have stopped by itself.
    fn overtime(&self) -> Option<Duration> {
        Some(self.flow.running_since? + self.planned_time()? + OVERTIME)
    }

    pub(super) fn run_timers(&mut self, now: Duration) {
        let late = |at: Option<Duration>| at.is_some_and(|at| now >= at);
        match self.state {
            State::Timing => self.ping_when_due(now),
            State::Ready => self.start_when_due(now),
            State::Running if late(self.overtime()) && !self.flow.sent => {
                self.flow.sent = true;
                self.actions.push(Action::StopEngine);
                self.send(Message::Sent);
                self.settle(now);
            }
            State::Draining if late(self.flow.grace_ends) && !self.flow.stopped => {
                self.actions.push(Action::StopEngine);
                if self.senders().1 {
                    self.tell_drained();
                }
                self.flow.stopped = true;
                self.settle(now);
            }
            _ => {}
        }
        self.beat(now);
    }

    fn beat(&mut self, now: Duration) {
        if self.beats() && now >= self.flow.next_heartbeat {
            self.flow.next_heartbeat = now + HEARTBEAT;
            self.send(Message::Interval(self.flow.interval));
        }
    }
}
