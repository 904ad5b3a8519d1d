//! Which TTL is probed next, and when there is nothing left to learn: no socket and no clock.
//!
//! Discovery goes outwards, one probe a hop, with at most [`WINDOW`] probes that may still be
//! answered soon; then each hop gets its further probes, [`HOP_GAP`] apart, because routers limit
//! how often they answer. One probe goes to the far end at once: its quote tells how many hops
//! there are, so that few probes run past the end, where answers are limited as well. It ends
//!
//! - `reached`: the far end answered,
//! - `unreachable`: a router said that there is no way on,
//! - `loop`: routers come again and again ([`judge::is_loop`]),
//! - `silent`: [`SILENT_GAP`] hops in a row said nothing, nor did the far end,
//! - `most_hops`, `time`: as many hops, or as long, as was asked.
//!
//! Bounds: at most `most_hops` × `probes` + 1 probes; never longer than the time given; silent
//! hops cost a place in the window for no longer than [`Tracer::patience`].

use super::answers::{Known, answer};
use super::judge::{self, Fate};
use super::prober::HopEcho;
use super::{STOP_LOOK, Step};
use crate::path::reply::Kind;
use longhaul_model::report::v1::path::{Hop, Trace};
use std::net::IpAddr;
use std::time::Duration;

/// Probes under way that may still be answered soon.
const WINDOW: usize = 16;
/// The same until it is known whether the far end answers, and where probes past it cost answers.
const WINDOW_AT_FIRST: usize = 3;
/// Between any two probes.
const SEND_GAP: Duration = Duration::from_millis(4);
/// Between two probes to one hop.
const HOP_GAP: Duration = Duration::from_millis(500);
/// The same at the far end where it answers by errors: Linux permits one a second.
const ERROR_GAP: Duration = Duration::from_millis(1000);
/// Hops in a row without an answer, after which nobody is expected behind them.
pub(super) const SILENT_GAP: usize = 12;
/// A silent hop's place in the window before any round trip is known.
const PATIENCE_AT_FIRST: Duration = Duration::from_millis(500);
const LEAST_PATIENCE: Duration = Duration::from_millis(100);
const MOST_PROBES_PER_HOP: u32 = 100;

/// A probe whose answer may still come.
#[derive(Debug, Clone, Copy)]
struct Flying {
    number: u16,
    ttl: u8,
    at: Duration,
    /// To the far end, beside the hops.
    far: bool,
}

/// What a trace has seen so far.
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
    /// The far end's answer to the probe beside the hops.
    far: Option<HopEcho>,
    /// Least TTL that the far end answered at.
    end: Option<u8>,
    /// Least TTL at which a router said that there is no way on.
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

    /// From now on a probe is sent only when no other waits for its answer.
    pub fn one_at_a_time(&mut self) {
        self.one_at_a_time = true;
    }

    /// What to do at `now`.
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

    /// The probe asked for was sent.
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

    /// An answer came. One to a probe that is no longer waited for changes nothing.
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

    /// The address of each hop, as the flow has it.
    pub fn path(&self) -> Vec<Option<IpAddr>> {
        let first = |hop: &Known| hop.answers.first().map(|(address, _)| *address);
        self.hops[..self.length()].iter().map(first).collect()
    }

    /// Hops that belong to the route: not those that the far end answered for as well.
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

    /// Where the last hop's own probes were lost, the far end's answer beside them stands in.
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

    /// Hops to the far end, as the quote of the probe to it tells.
    fn distance(&self) -> Option<u8> {
        let left = self.far.as_ref()?.quoted_ttl?;
        let distance = self.most_hops.checked_sub(left)?.checked_add(1)?;
        (1..=self.most_hops).contains(&distance).then_some(distance)
    }

    /// How long a probe without an answer holds its place in the window.
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

    /// The TTL whose time it is.
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
            // It is not known how far it is, and it answers a few times only.
            Some(far) => self.end.is_none() && far.quoted_ttl.is_none() && far.kind.is_error(),
        };
        if careful { WINDOW_AT_FIRST } else { WINDOW }
    }

    /// Last TTL that is worth a probe.
    fn limit(&self) -> u8 {
        let mut limit = self.most_hops;
        for known in [self.end, self.barred].into_iter().flatten() {
            limit = limit.min(known);
        }
        // Beyond where the far end should be only when it turns out not to be there.
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

    /// Hops at the end of those probed that have not answered, yet.
    fn quiet_tail(&self) -> usize {
        let quiet = |hop: &&Known| hop.answers.is_empty();
        self.hops.iter().rev().take_while(quiet).count()
    }

    fn is_silent(&self) -> bool {
        self.far.is_none() && self.quiet_tail() >= SILENT_GAP
    }

    /// The hop that has had the fewest probes, the nearest of them, once it may have another.
    fn again(&self, now: Duration) -> Option<u8> {
        let hops = self.repeated();
        hops.filter(|(_, hop, ready)| hop.sent < self.probes && now >= *ready)
            .min_by_key(|(ttl, hop, _)| (hop.sent, *ttl))
            .map(|(ttl, _, _)| ttl)
    }

    /// Hops that get further probes, and when.
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

    /// When something can change without an answer.
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

/// A router's word that there is no way on.
fn bars(kind: Kind) -> bool {
    !matches!(kind, Kind::TimeExceeded | Kind::TooBig { .. })
}

#[cfg(test)]
mod tests;
