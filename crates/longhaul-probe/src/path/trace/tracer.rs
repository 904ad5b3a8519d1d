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
//! - `loop`: the same routers repeat ([`judge::is_loop`]),
//! - `silent`: [`SILENT_GAP`] consecutive hops and the destination did not answer,
//! - `most_hops`, `time`: the requested number of hops, or time, was used up.
//!
//! Bounds: at most `most_hops` × `probes` + 1 probes; at most the given time; silent hops occupy
//! the window no longer than [`Tracer::patience`].

use super::answers::{Known, answer};
use super::judge::{self, Fate};
use super::prober::HopEcho;
use super::{STOP_LOOK, Step};
use crate::path::reply::Kind;
use longhaul_model::report::v1::path::{Hop, Trace};
use std::net::IpAddr;
use std::time::Duration;

/// The maximum number of recent outstanding probes.
const WINDOW: usize = 16;
/// The same limit until the destination is known to answer, and where overshooting costs answers.
const WINDOW_AT_FIRST: usize = 3;
/// Interval between any two probes.
const SEND_GAP: Duration = Duration::from_millis(4);
/// Interval between two probes to one hop.
const HOP_GAP: Duration = Duration::from_millis(500);
/// Interval at a destination that answers with errors: Linux permits one per second.
const ERROR_GAP: Duration = Duration::from_millis(1000);
/// Consecutive silent hops after which no further hop is expected.
pub(super) const SILENT_GAP: usize = 12;
/// Time that a silent hop occupies the window before any round trip is known.
const PATIENCE_AT_FIRST: Duration = Duration::from_millis(500);
const LEAST_PATIENCE: Duration = Duration::from_millis(100);
const MOST_PROBES_PER_HOP: u32 = 100;

/// A probe whose answer may still arrive.
#[derive(Debug, Clone, Copy)]
struct Flying {
    number: u16,
    ttl: u8,
    at: Duration,
    /// Sent to the destination, not to a hop.
    far: bool,
}

/// Current result of a trace.
pub(super) struct Seen {
    pub hops: Vec<Hop>,
    pub reached: bool,
    pub ended_by: &'static str,
}

/// A trace as plain data.
pub(super) struct Tracer {
    destination: IpAddr,
    most_hops: u8,
    probes: u32,
    timeout: Duration,
    most_time: Duration,
    flying: Vec<Flying>,
    hops: Vec<Known>,
    last_sent: Option<Duration>,
    slowest: Option<Duration>,
    far_sent: bool,
    /// The destination's answer to the probe sent to it first.
    far: Option<HopEcho>,
    /// Smallest TTL at which the destination answered.
    end: Option<u8>,
    /// Smallest TTL at which a router reported the destination unreachable.
    barred: Option<u8>,
    looping: bool,
    out_of_time: bool,
    one_at_a_time: bool,
}

impl Tracer {
    pub fn new(asked: &Trace, destination: IpAddr, most_time: Duration) -> Tracer {
        Tracer {
            destination,
            most_hops: asked.most_hops.max(1),
            probes: asked.probes.clamp(1, MOST_PROBES_PER_HOP),
            timeout: Duration::from_micros(asked.timeout_us).min(most_time),
            most_time,
            flying: Vec::new(),
            hops: Vec::new(),
            last_sent: None,
            slowest: None,
            far_sent: false,
            far: None,
            end: None,
            barred: None,
            looping: false,
            out_of_time: false,
            one_at_a_time: false,
        }
    }

    /// Limits the trace to one outstanding probe from now on.
    pub fn one_at_a_time(&mut self) {
        self.one_at_a_time = true;
    }

    /// Returns the action due at `now`.
    pub fn next(&mut self, now: Duration) -> Step {
        if now >= self.most_time {
            self.out_of_time = true;
            return Step::Done;
        }
        self.expire(now);
        let ttl = match self.last_sent {
            Some(last) if now < last + SEND_GAP => return Step::Wait(last + SEND_GAP),
            _ => self.due(now),
        };
        match ttl {
            Some(ttl) => Step::Send { ttl, flow: 0 },
            None if self.is_over() => Step::Done,
            None => Step::Wait(self.wake(now)),
        }
    }

    /// Records that the requested probe was sent.
    pub fn sent(&mut self, number: u16, ttl: u8, now: Duration) {
        let far = !self.far_sent;
        self.far_sent = true;
        self.last_sent = Some(now);
        self.flying.push(Flying {
            number,
            ttl,
            at: now,
            far,
        });
        if !far {
            let index = usize::from(ttl) - 1;
            if self.hops.len() <= index {
                self.hops.resize_with(index + 1, Known::default);
            }
            self.hops[index].sent += 1;
            self.hops[index].last_sent = now;
        }
    }

    /// Records an answer; ignores it if the probe is no longer outstanding.
    pub fn heard(&mut self, echo: &HopEcho) {
        let Some(at) = self.flying.iter().position(|f| f.number == echo.number) else {
            return;
        };
        let probe = self.flying.swap_remove(at);
        self.slowest = self.slowest.max(Some(echo.rtt));
        let final_answer = echo.address == self.destination && echo.kind != Kind::TimeExceeded;
        if probe.far {
            self.far = Some(echo.clone()).filter(|_| final_answer);
            return;
        }
        let hop = &mut self.hops[usize::from(probe.ttl) - 1];
        hop.fates.push(Fate {
            at: probe.at,
            answered: true,
        });
        hop.note(echo);
        if final_answer {
            self.end = Some(self.end.map_or(probe.ttl, |end| end.min(probe.ttl)));
        } else if bars(echo.kind) {
            self.barred = Some(self.barred.map_or(probe.ttl, |at| at.min(probe.ttl)));
        } else {
            self.looping = judge::is_loop(&self.path());
        }
    }

    /// Returns the address of each hop on the trace's own flow.
    pub fn path(&self) -> Vec<Option<IpAddr>> {
        let first = |hop: &Known| hop.answers.first().map(|(address, _)| *address);
        self.hops[..self.length()].iter().map(first).collect()
    }

    /// Returns the number of hops of the route, without those past the destination.
    fn length(&self) -> usize {
        let most = self.end.or(self.barred).unwrap_or(self.most_hops);
        self.hops.len().min(usize::from(most))
    }

    pub fn seen(&self) -> Seen {
        let hops = &self.hops[..self.length()];
        let fates: Vec<&[Fate]> = hops.iter().map(|hop| &hop.fates[..]).collect();
        let limited = judge::rate_limited(&fates);
        let mut hops: Vec<Hop> = hops
            .iter()
            .zip(limited)
            .zip(1..)
            .map(|((hop, rate_limited), ttl)| Hop {
                ttl,
                sent: hop.sent,
                answers: hop
                    .answers
                    .iter()
                    .map(|(_, answer)| answer.clone())
                    .collect(),
                rate_limited,
            })
            .collect();
        self.add_far(&mut hops);
        Seen {
            hops,
            reached: self.end.is_some() || self.far.is_some(),
            ended_by: self.ended_by(),
        }
    }

    /// Uses the destination's answer to the first probe if the last hop's own probes were lost.
    fn add_far(&self, hops: &mut [Hop]) {
        let (None, Some(far), Some(distance)) = (self.end, &self.far, self.distance()) else {
            return;
        };
        if let Some(hop) = hops.get_mut(usize::from(distance) - 1)
            && hop.answers.is_empty()
        {
            hop.answers.push(answer(far));
        }
    }

    fn ended_by(&self) -> &'static str {
        if self.end.is_some() || self.far.is_some() {
            "reached"
        } else if self.looping {
            "loop"
        } else if self.barred.is_some() {
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
        let left = self.far.as_ref()?.quoted_ttl?;
        let distance = self.most_hops.checked_sub(left)?.checked_add(1)?;
        (1..=self.most_hops).contains(&distance).then_some(distance)
    }

    /// Returns how long an unanswered probe occupies the window.
    fn patience(&self) -> Duration {
        match self.slowest {
            None => PATIENCE_AT_FIRST,
            Some(rtt) => (rtt * 2 + LEAST_PATIENCE / 2).max(LEAST_PATIENCE),
        }
        .min(self.timeout)
    }

    fn expire(&mut self, now: Duration) {
        let timeout = self.timeout;
        let hops = &mut self.hops;
        self.flying.retain(|probe| {
            let waits = now < probe.at + timeout;
            if !waits && !probe.far {
                hops[usize::from(probe.ttl) - 1].fates.push(Fate {
                    at: probe.at,
                    answered: false,
                });
            }
            waits
        });
    }

    /// Returns the TTL to probe now.
    fn due(&self, now: Duration) -> Option<u8> {
        if !self.far_sent {
            return Some(self.most_hops);
        }
        if self.one_at_a_time && !self.flying.is_empty() {
            return None;
        }
        let patience = self.patience();
        let busy = self.flying.iter().filter(|probe| now < probe.at + patience);
        if busy.count() >= self.window(now) {
            return None;
        }
        self.undiscovered().or_else(|| self.again(now))
    }

    fn window(&self, now: Duration) -> usize {
        let waits_for_far = |probe: &Flying| probe.far && now < probe.at + self.patience();
        let careful = match &self.far {
            None => self.flying.iter().any(waits_for_far),
            // Its distance is unknown, and it answers only a few probes.
            Some(far) => self.end.is_none() && far.quoted_ttl.is_none() && far.kind.is_error(),
        };
        if careful { WINDOW_AT_FIRST } else { WINDOW }
    }

    /// Returns the last TTL that is worth a probe.
    fn limit(&self) -> u8 {
        let mut limit = self.most_hops;
        for known in [self.end, self.barred].into_iter().flatten() {
            limit = limit.min(known);
        }
        // Probe beyond the expected distance only if the destination is not there.
        match self.distance() {
            Some(distance) if self.end.is_none() && !self.is_settled(distance) => {
                limit.min(distance)
            }
            _ => limit,
        }
    }

    fn is_settled(&self, ttl: u8) -> bool {
        let hop = self.hops.get(usize::from(ttl) - 1);
        hop.is_some_and(|hop| !hop.fates.is_empty())
    }

    fn undiscovered(&self) -> Option<u8> {
        let next = self.hops.len() + 1;
        let gap_is_full = self.far.is_none() && self.quiet_tail() >= SILENT_GAP;
        let open = !self.looping && !gap_is_full && next <= usize::from(self.limit());
        open.then_some(next as u8)
    }

    /// Counts the trailing hops that were probed and have not answered yet.
    fn quiet_tail(&self) -> usize {
        let quiet = |hop: &&Known| hop.answers.is_empty();
        self.hops.iter().rev().take_while(quiet).count()
    }

    fn is_silent(&self) -> bool {
        self.far.is_none() && self.quiet_tail() >= SILENT_GAP
    }

    /// Returns the nearest of the least probed hops, if its interval has passed.
    fn again(&self, now: Duration) -> Option<u8> {
        let hops = self.repeated();
        hops.filter(|(_, hop, ready)| hop.sent < self.probes && now >= *ready)
            .min_by_key(|(ttl, hop, _)| (hop.sent, *ttl))
            .map(|(ttl, _, _)| ttl)
    }

    /// Returns the hops that get further probes, with the earliest times.
    fn repeated(&self) -> impl Iterator<Item = (u8, &Known, Duration)> {
        let hops = self.hops[..self.length()].iter().zip(1_u8..);
        hops.map(|(hop, ttl)| {
            let errors = hop.answers.iter().any(|(address, answer)| {
                *address == self.destination && answer.kind == Kind::PortUnreachable.word()
            });
            let gap = if errors { ERROR_GAP } else { HOP_GAP };
            (ttl, hop, hop.last_sent + gap)
        })
    }

    fn is_over(&self) -> bool {
        self.flying.is_empty()
            && self.undiscovered().is_none()
            && self.repeated().all(|(_, hop, _)| hop.sent >= self.probes)
    }

    /// Returns the next time at which the state can change without an answer.
    fn wake(&self, now: Duration) -> Duration {
        let patience = self.patience();
        let of_probes = self.flying.iter().flat_map(|probe| {
            let times = [probe.at + patience, probe.at + self.timeout];
            times.into_iter().filter(|time| *time > now)
        });
        let of_hops = self
            .repeated()
            .filter(|(_, hop, ready)| hop.sent < self.probes && *ready > now)
            .map(|(_, _, ready)| ready);
        let first = of_probes.chain(of_hops).min();
        first.unwrap_or(now + STOP_LOOK).min(self.most_time)
    }
}

/// Returns whether this answer reports the destination unreachable.
fn bars(kind: Kind) -> bool {
    !matches!(kind, Kind::TimeExceeded | Kind::TooBig { .. })
}

#[cfg(test)]
mod tests;
