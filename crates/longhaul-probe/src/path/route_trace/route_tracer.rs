//! State machine of a trace: chooses the next TTL and decides when the trace is complete. No socket
//! and no clock.
//!
//! Discovery proceeds outwards, one probe per hop, with at most [`WINDOW`] recent outstanding
//! probes. Then each hop gets its further probes, [`HOP_GAP`] apart, because routers limit their
//! answers. One probe goes to the destination first: its quoted TTL gives the number of hops, so
//! that few probes overshoot the destination, whose answers are limited as well. The trace ends
//! with
//!
//! - `reached`: the destination answered,
//! - `unreachable`: a router reported the destination unreachable,
//! - `loop`: the same routers repeat ([`super::is_loop`]),
//! - `silent`: [`SILENT_GAP`] consecutive hops and the destination did not answer,
//! - `max_hops`, `time`: the requested number of hops, or time, was used up.
//!
//! Bounds: at most `max_hops` × `probes` + 1 probes; at most the given time; silent hops occupy
//! the window no longer than [`RouteTracer::reply_timeout`].

use super::hop_prober::HopEcho;
use super::{HopRecord, ProbeFate, STOP_POLL_INTERVAL, TraceStep};
use crate::path::probe_reply::ReplyKind;
use longhaul_model::report::v1::path::{ObservedHop, TracePlan};
use std::net::IpAddr;
use std::time::Duration;

/// The maximum number of recent outstanding probes.
const WINDOW: usize = 16;
/// The same limit until the destination is known to answer, and where overshooting costs answers.
const INITIAL_WINDOW: usize = 3;
/// Interval between any two probes.
const SEND_GAP: Duration = Duration::from_millis(4);
/// Interval between two probes to one hop.
const HOP_GAP: Duration = Duration::from_millis(500);
/// Interval at a destination that answers with errors: Linux permits one per second.
const ERROR_GAP: Duration = Duration::from_millis(1000);
/// Consecutive silent hops after which no further hop is expected.
pub(super) const SILENT_GAP: usize = 12;
/// Time that a silent hop occupies the window before any round trip is known.
const INITIAL_REPLY_TIMEOUT: Duration = Duration::from_millis(500);
const MIN_REPLY_TIMEOUT: Duration = Duration::from_millis(100);
const MAX_PROBES_PER_HOP: u32 = 100;

/// A probe whose answer may still arrive.
#[derive(Debug, Clone, Copy)]
struct PendingHopProbe {
    number: u16,
    ttl: u8,
    at: Duration,
    /// Sent to the destination, not to a hop.
    to_destination: bool,
}

/// Current result of a trace.
pub(super) struct TraceSnapshot {
    pub hops: Vec<ObservedHop>,
    pub reached: bool,
    pub ended_by: &'static str,
}

/// A trace as plain data.
pub(super) struct RouteTracer {
    destination: IpAddr,
    max_hops: u8,
    probes: u32,
    timeout: Duration,
    max_time: Duration,
    pending: Vec<PendingHopProbe>,
    hops: Vec<HopRecord>,
    last_sent: Option<Duration>,
    max_rtt: Option<Duration>,
    destination_probed: bool,
    /// The destination's answer to the probe sent to it first.
    destination_answer: Option<HopEcho>,
    /// Smallest TTL at which the destination answered.
    destination_ttl: Option<u8>,
    /// Smallest TTL at which a router reported the destination unreachable.
    unreachable_ttl: Option<u8>,
    looping: bool,
    out_of_time: bool,
    one_at_a_time: bool,
}

impl RouteTracer {
    pub fn new(asked: &TracePlan, destination: IpAddr, most_time: Duration) -> RouteTracer {
        RouteTracer {
            destination,
            max_hops: asked.most_hops.max(1),
            probes: asked.probes.clamp(1, MAX_PROBES_PER_HOP),
            timeout: Duration::from_micros(asked.timeout_us).min(most_time),
            max_time: most_time,
            pending: Vec::new(),
            hops: Vec::new(),
            last_sent: None,
            max_rtt: None,
            destination_probed: false,
            destination_answer: None,
            destination_ttl: None,
            unreachable_ttl: None,
            looping: false,
            out_of_time: false,
            one_at_a_time: false,
        }
    }

    /// Limits the trace to one outstanding probe from now on.
    pub fn limit_to_one_probe(&mut self) {
        self.one_at_a_time = true;
    }

    /// Returns the action due at `now`.
    pub fn next_step(&mut self, now: Duration) -> TraceStep {
        if now >= self.max_time {
            self.out_of_time = true;
            return TraceStep::Done;
        }
        self.expire_probes(now);
        let ttl = match self.last_sent {
            Some(last) if now < last + SEND_GAP => return TraceStep::Wait(last + SEND_GAP),
            _ => self.due_ttl(now),
        };
        match ttl {
            Some(ttl) => TraceStep::Send { ttl, flow: 0 },
            None if self.is_over() => TraceStep::Done,
            None => TraceStep::Wait(self.next_wake(now)),
        }
    }

    /// Records that the requested probe was sent.
    pub fn record_sent(&mut self, number: u16, ttl: u8, now: Duration) {
        let far = !self.destination_probed;
        self.destination_probed = true;
        self.last_sent = Some(now);
        self.pending.push(PendingHopProbe { number, ttl, at: now, to_destination: far });
        if !far {
            let index = usize::from(ttl) - 1;
            if self.hops.len() <= index {
                self.hops.resize_with(index + 1, HopRecord::default);
            }
            self.hops[index].sent += 1;
            self.hops[index].last_sent = now;
        }
    }

    /// Records an answer; ignores it if the probe is no longer outstanding.
    pub fn record_answer(&mut self, echo: &HopEcho) {
        let Some(at) = self.pending.iter().position(|f| f.number == echo.number) else {
            return;
        };
        let probe = self.pending.swap_remove(at);
        self.max_rtt = self.max_rtt.max(Some(echo.rtt));
        let final_answer = echo.address == self.destination && echo.kind != ReplyKind::TimeExceeded;
        if probe.to_destination {
            self.destination_answer = Some(echo.clone()).filter(|_| final_answer);
            return;
        }
        let hop = &mut self.hops[usize::from(probe.ttl) - 1];
        hop.outcomes.push(ProbeFate { at: probe.at, answered: true });
        hop.record_answer(echo);
        if final_answer {
            self.destination_ttl =
                Some(self.destination_ttl.map_or(probe.ttl, |end| end.min(probe.ttl)));
        } else if is_unreachable_error(echo.kind) {
            self.unreachable_ttl =
                Some(self.unreachable_ttl.map_or(probe.ttl, |at| at.min(probe.ttl)));
        } else {
            self.looping = super::is_loop(&self.hop_addresses());
        }
    }

    /// Returns the address of each hop on the trace's own flow.
    pub fn hop_addresses(&self) -> Vec<Option<IpAddr>> {
        let first = |hop: &HopRecord| hop.answers.first().map(|(address, _)| *address);
        self.hops[..self.route_length()].iter().map(first).collect()
    }

    /// Returns the number of hops of the route, without those past the destination.
    fn route_length(&self) -> usize {
        let most = self.destination_ttl.or(self.unreachable_ttl).unwrap_or(self.max_hops);
        self.hops.len().min(usize::from(most))
    }

    pub fn snapshot(&self) -> TraceSnapshot {
        let hops = &self.hops[..self.route_length()];
        let fates: Vec<&[ProbeFate]> = hops.iter().map(|hop| &hop.outcomes[..]).collect();
        let limited = super::find_rate_limited_hops(&fates);
        let mut hops: Vec<ObservedHop> = hops
            .iter()
            .zip(limited)
            .zip(1..)
            .map(|((hop, rate_limited), ttl)| ObservedHop {
                ttl,
                sent: hop.sent,
                answers: hop.answers.iter().map(|(_, answer)| answer.clone()).collect(),
                rate_limited,
            })
            .collect();
        self.add_destination_answer(&mut hops);
        TraceSnapshot {
            hops,
            reached: self.destination_ttl.is_some() || self.destination_answer.is_some(),
            ended_by: self.ended_by(),
        }
    }

    /// Uses the destination's answer to the first probe if the last hop's own probes were lost.
    fn add_destination_answer(&self, hops: &mut [ObservedHop]) {
        let (None, Some(far), Some(distance)) =
            (self.destination_ttl, &self.destination_answer, self.distance())
        else {
            return;
        };
        if let Some(hop) = hops.get_mut(usize::from(distance) - 1)
            && hop.answers.is_empty()
        {
            hop.answers.push(far.reply.clone());
        }
    }

    fn ended_by(&self) -> &'static str {
        if self.destination_ttl.is_some() || self.destination_answer.is_some() {
            "reached"
        } else if self.looping {
            "loop"
        } else if self.unreachable_ttl.is_some() {
            "unreachable"
        } else if self.out_of_time {
            "time"
        } else if self.is_silent() {
            "silent"
        } else {
            "most_hops"
        }
    }

    /// Returns the number of hops to the destination, from the TTL quoted for the first probe.
    fn distance(&self) -> Option<u8> {
        let left = self.destination_answer.as_ref()?.reply.quoted_ttl?;
        let distance = self.max_hops.checked_sub(left)?.checked_add(1)?;
        (1..=self.max_hops).contains(&distance).then_some(distance)
    }

    /// Returns how long an unanswered probe occupies the window.
    fn reply_timeout(&self) -> Duration {
        match self.max_rtt {
            None => INITIAL_REPLY_TIMEOUT,
            Some(rtt) => (rtt * 2 + MIN_REPLY_TIMEOUT / 2).max(MIN_REPLY_TIMEOUT),
        }
        .min(self.timeout)
    }

    fn expire_probes(&mut self, now: Duration) {
        let timeout = self.timeout;
        let hops = &mut self.hops;
        self.pending.retain(|probe| {
            let waits = now < probe.at + timeout;
            if !waits && !probe.to_destination {
                hops[usize::from(probe.ttl) - 1]
                    .outcomes
                    .push(ProbeFate { at: probe.at, answered: false });
            }
            waits
        });
    }

    /// Returns the TTL to probe now.
    fn due_ttl(&self, now: Duration) -> Option<u8> {
        if !self.destination_probed {
            return Some(self.max_hops);
        }
        if self.one_at_a_time && !self.pending.is_empty() {
            return None;
        }
        let patience = self.reply_timeout();
        let busy = self.pending.iter().filter(|probe| now < probe.at + patience);
        if busy.count() >= self.window(now) {
            return None;
        }
        self.next_undiscovered_ttl().or_else(|| self.next_repeated_ttl(now))
    }

    fn window(&self, now: Duration) -> usize {
        let waits_for_far =
            |probe: &PendingHopProbe| probe.to_destination && now < probe.at + self.reply_timeout();
        let careful = match &self.destination_answer {
            None => self.pending.iter().any(waits_for_far),
            // Its distance is unknown, and it answers only a few probes.
            Some(far) => {
                self.destination_ttl.is_none()
                    && far.reply.quoted_ttl.is_none()
                    && far.kind.is_error()
            }
        };
        if careful { INITIAL_WINDOW } else { WINDOW }
    }

    /// Returns the last TTL that is worth a probe.
    fn last_useful_ttl(&self) -> u8 {
        let mut limit = self.max_hops;
        for known in [self.destination_ttl, self.unreachable_ttl].into_iter().flatten() {
            limit = limit.min(known);
        }
        // Probe beyond the expected distance only if the destination is not there.
        match self.distance() {
            Some(distance) if self.destination_ttl.is_none() && !self.is_settled(distance) => {
                limit.min(distance)
            }
            _ => limit,
        }
    }

    fn is_settled(&self, ttl: u8) -> bool {
        let hop = self.hops.get(usize::from(ttl) - 1);
        hop.is_some_and(|hop| !hop.outcomes.is_empty())
    }

    fn next_undiscovered_ttl(&self) -> Option<u8> {
        let next = self.hops.len() + 1;
        let gap_is_full = self.destination_answer.is_none() && self.silent_tail() >= SILENT_GAP;
        let open = !self.looping && !gap_is_full && next <= usize::from(self.last_useful_ttl());
        open.then_some(next as u8)
    }

    /// Counts the trailing hops that were probed and have not answered yet.
    fn silent_tail(&self) -> usize {
        let quiet = |hop: &&HopRecord| hop.answers.is_empty();
        self.hops.iter().rev().take_while(quiet).count()
    }

    fn is_silent(&self) -> bool {
        self.destination_answer.is_none() && self.silent_tail() >= SILENT_GAP
    }

    /// Returns the nearest of the least probed hops, if its interval has passed.
    fn next_repeated_ttl(&self, now: Duration) -> Option<u8> {
        let hops = self.repeated_hops();
        hops.filter(|(_, hop, ready)| hop.sent < self.probes && now >= *ready)
            .min_by_key(|(ttl, hop, _)| (hop.sent, *ttl))
            .map(|(ttl, _, _)| ttl)
    }

    /// Returns the hops that get further probes, with the earliest times.
    fn repeated_hops(&self) -> impl Iterator<Item = (u8, &HopRecord, Duration)> {
        let hops = self.hops[..self.route_length()].iter().zip(1_u8..);
        hops.map(|(hop, ttl)| {
            let errors = hop.answers.iter().any(|(address, answer)| {
                *address == self.destination && answer.kind == ReplyKind::PortUnreachable.as_str()
            });
            let gap = if errors { ERROR_GAP } else { HOP_GAP };
            (ttl, hop, hop.last_sent + gap)
        })
    }

    fn is_over(&self) -> bool {
        self.pending.is_empty()
            && self.next_undiscovered_ttl().is_none()
            && self.repeated_hops().all(|(_, hop, _)| hop.sent >= self.probes)
    }

    /// Returns the next time at which the state can change without an answer.
    fn next_wake(&self, now: Duration) -> Duration {
        let patience = self.reply_timeout();
        let of_probes = self.pending.iter().flat_map(|probe| {
            let times = [probe.at + patience, probe.at + self.timeout];
            times.into_iter().filter(|time| *time > now)
        });
        let of_hops = self
            .repeated_hops()
            .filter(|(_, hop, ready)| hop.sent < self.probes && *ready > now)
            .map(|(_, _, ready)| ready);
        let first = of_probes.chain(of_hops).min();
        first.unwrap_or(now + STOP_POLL_INTERVAL).min(self.max_time)
    }
}

/// Returns whether this answer reports the destination unreachable.
fn is_unreachable_error(kind: ReplyKind) -> bool {
    !matches!(kind, ReplyKind::TimeExceeded | ReplyKind::TooBig { .. })
}

#[cfg(test)]
mod tests;
