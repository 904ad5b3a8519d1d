//! State machine of the MTU search: chooses packet sizes and interprets answers, refusals and
//! silence. Follows RFC 8899: arrivals are proof, routers' reports are hints. No socket and no
//! clock.
//!
//! Sizes are those of whole IP packets that must not be fragmented. A small size comes first and
//! shows whether the destination answers, how fast, and the loss rate. Then come the interface's
//! MTU, the MTU of a refusing router and one byte more, then bisection of the remaining range. A
//! size has failed when it was refused, or when so many of its packets were lost that loss alone
//! explains it once in a thousand times. The size at which the search would end is then retried
//! once.
//!
//! Bounds: [`MtuSearchLimits::max_time`] and [`MAX_TRIES`].

use longhaul_model::report::v1::path::{MtuProbe, MtuSearch};
use std::collections::BTreeMap;
use std::time::Duration;

/// The maximum number of packets of one search.
pub const MAX_TRIES: u32 = 250;
/// The first, small size: what IPv4 hosts must accept, and the minimum MTU of IPv6 (RFC 8200).
const BASE_BYTES: [u32; 2] = [576, 1280];
/// The smallest MTU that a router's report may contain (RFC 791, RFC 8201).
const MIN_MTU_BYTES: [u32; 2] = [68, 1280];
/// Packets of the first size, which measure round trip and loss.
const BASE_TRIES: u32 = 5;
/// The minimum and maximum number of tries of any size before silence counts.
const TRIES: (u32, u32) = (3, 12);
/// Probability that loss alone takes all tries of a size.
const CHANCE_LOSS_PROBABILITY: f64 = 0.001;
/// Margin added to some round trips before an answer is given up.
const SLACK: Duration = Duration::from_millis(100);
/// Number of round trips that an answer may take.
const ROUND_TRIPS: u32 = 3;

/// Limits of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MtuSearchLimits {
    pub is_ipv6: bool,
    /// MTU of the outgoing interface.
    pub local_bytes: u32,
    /// Minimum interval between two packets.
    pub gap: Duration,
    /// Timeout of an answer while the round trip is unknown; the upper limit afterwards.
    pub timeout: Duration,
    /// Time limit of the whole search.
    pub max_time: Duration,
}

impl MtuSearchLimits {
    fn base_bytes(&self) -> u32 {
        BASE_BYTES[usize::from(self.is_ipv6)].min(self.local_bytes)
    }

    fn min_mtu_bytes(&self) -> u32 {
        MIN_MTU_BYTES[usize::from(self.is_ipv6)]
    }
}

/// The next action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MtuSearchStep {
    /// Send a packet of this size with this number.
    Send {
        number: u32,
        packet_bytes: u32,
    },
    /// Only receive until this time.
    Wait {
        until: Duration,
    },
    Done(MtuSearchOutcome),
}

/// Outcome of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MtuSearchOutcome {
    /// The largest size that passes is known to the byte.
    Found,
    /// Not even small packets are answered.
    NoAnswer,
    /// Out of time or tries; the MTU lies between sizes that passed and failed.
    Exhausted,
}

/// A router's report that a packet was too big.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TooBigReport {
    pub by: String,
    /// MTU of the next link; old routers do not report it.
    pub mtu_bytes: Option<u32>,
}

#[derive(Debug, Clone, Default)]
struct SizeRecord {
    sent: u32,
    arrived: u32,
    refusal: Option<TooBigReport>,
    unsendable: bool,
    /// Number of tries before silence counts.
    planned_tries: u32,
    /// Time from which silence counts.
    silent_after: Duration,
    retried: bool,
}

#[derive(Debug, Clone, Copy)]
struct SizeAttempt {
    packet_bytes: u32,
    sent: Duration,
    answered: bool,
}

/// A search in progress.
#[derive(Debug, Clone)]
pub struct MtuSearchState {
    limits: MtuSearchLimits,
    sizes: BTreeMap<u32, SizeRecord>,
    tries: Vec<SizeAttempt>,
    current: Option<u32>,
    hints: Vec<u32>,
    max_rtt: Option<Duration>,
    next_send: Duration,
}

impl MtuSearchState {
    pub fn new(limits: MtuSearchLimits) -> MtuSearchState {
        MtuSearchState {
            limits,
            sizes: BTreeMap::new(),
            tries: Vec::new(),
            current: None,
            hints: Vec::new(),
            max_rtt: None,
            next_send: Duration::ZERO,
        }
    }

    /// Returns the action due at `now`.
    pub fn step(&mut self, now: Duration) -> MtuSearchStep {
        if now >= self.limits.max_time || self.tries.len() >= MAX_TRIES as usize {
            return MtuSearchStep::Done(MtuSearchOutcome::Exhausted);
        }
        if self.current.is_none_or(|size| self.is_settled(size, now)) {
            self.current = self.next_size();
            let Some(size) = self.current else {
                return MtuSearchStep::Done(self.outcome());
            };
            self.start_size(size);
        }
        let Some((packet_bytes, size)) =
            self.current.and_then(|bytes| self.sizes.get(&bytes).map(|size| (bytes, size)))
        else {
            return MtuSearchStep::Done(self.outcome());
        };
        let more = size.sent < size.planned_tries && size.refusal.is_none();
        let until = match (more, now < self.next_send) {
            (true, false) => return self.send(packet_bytes, now),
            (true, true) => self.next_send,
            (false, _) => size.silent_after,
        };
        MtuSearchStep::Wait { until: until.min(self.limits.max_time) }
    }

    fn send(&mut self, packet_bytes: u32, now: Duration) -> MtuSearchStep {
        let number = self.tries.len() as u32;
        self.tries.push(SizeAttempt { packet_bytes, sent: now, answered: false });
        self.next_send = now + self.limits.gap;
        let patience = now + self.reply_timeout();
        let size = self.sizes.entry(packet_bytes).or_default();
        size.sent += 1;
        size.silent_after = patience;
        MtuSearchStep::Send { number, packet_bytes }
    }

    /// Records that the destination answered the packet of this number.
    pub fn record_answer(&mut self, number: u32, now: Duration) {
        let Some(attempt) = self.tries.get_mut(number as usize) else {
            return;
        };
        if std::mem::replace(&mut attempt.answered, true) {
            return;
        }
        let took = now.saturating_sub(attempt.sent);
        self.max_rtt = self.max_rtt.max(Some(took));
        if let Some(size) = self.sizes.get_mut(&attempt.packet_bytes) {
            size.arrived += 1;
        }
    }

    /// Records a report that this packet was too big. Ignores absurd MTUs: at least the size that
    /// was sent, below the minimum MTU, or below a size that has arrived.
    pub fn record_refusal(&mut self, number: u32, refusal: TooBigReport) {
        let Some(&SizeAttempt { packet_bytes, .. }) = self.tries.get(number as usize) else {
            return;
        };
        // Routers older than RFC 1191 report 0.
        let told = refusal.mtu_bytes.filter(|&mtu| mtu != 0);
        let absurd = told.is_some_and(|mtu| {
            mtu >= packet_bytes
                || mtu < self.limits.min_mtu_bytes()
                || mtu < self.largest_passed().unwrap_or(0)
        });
        if absurd {
            return;
        }
        self.hints.extend(told.filter(|mtu| !self.hints.contains(mtu)));
        let refusal = TooBigReport { mtu_bytes: told, ..refusal };
        if let Some(size) = self.sizes.get_mut(&packet_bytes) {
            let larger = size.refusal.as_ref().is_none_or(|old| old.mtu_bytes < told);
            if larger {
                size.refusal = Some(refusal);
            }
        }
    }

    /// Records that this host cannot send packets of this size.
    pub fn record_unsendable(&mut self, number: u32) {
        let size = self.tries.get(number as usize).map(|attempt| attempt.packet_bytes);
        if let Some(size) = size.and_then(|size| self.sizes.get_mut(&size)) {
            size.unsendable = true;
        }
    }

    /// Returns the largest size that arrived.
    pub fn largest_passed(&self) -> Option<u32> {
        let arrived = self.sizes.iter().rev().find(|(_, size)| size.arrived > 0);
        arrived.map(|(&bytes, _)| bytes)
    }

    /// Returns the smallest size above `largest_passed` that was tried and never arrived.
    pub fn smallest_failed(&self) -> Option<u32> {
        let from = self.largest_passed().map_or(0, |low| low + 1);
        self.sizes.range(from..).next().map(|(&bytes, _)| bytes)
    }

    /// Returns everything tried so far.
    pub fn result(&self) -> MtuSearch {
        let probe = |(&packet_bytes, size): (&u32, &SizeRecord)| MtuProbe {
            packet_bytes,
            sent: size.sent,
            arrived: size.arrived,
            refused_by: size.refusal.as_ref().map(|refusal| refusal.by.clone()),
            refused_mtu_bytes: size.refusal.as_ref().and_then(|refusal| refusal.mtu_bytes),
        };
        MtuSearch {
            local_bytes: self.limits.local_bytes,
            probes: self.sizes.iter().map(probe).collect(),
        }
    }

    fn outcome(&self) -> MtuSearchOutcome {
        match self.largest_passed() {
            Some(_) => MtuSearchOutcome::Found,
            None => MtuSearchOutcome::NoAnswer,
        }
    }

    fn is_settled(&self, packet_bytes: u32, now: Duration) -> bool {
        let Some(size) = self.sizes.get(&packet_bytes) else {
            return false;
        };
        // A refusal may be forged, so the refused packet gets time to arrive.
        let waited = now >= size.silent_after;
        let silent = waited && (size.sent >= size.planned_tries || size.refusal.is_some());
        if packet_bytes == self.limits.base_bytes() && !size.unsendable {
            return silent || (size.sent >= size.planned_tries && size.arrived == size.sent);
        }
        silent || size.arrived > 0 || size.unsendable
    }

    fn start_size(&mut self, packet_bytes: u32) {
        let more =
            if packet_bytes == self.limits.base_bytes() { BASE_TRIES } else { self.tries_wanted() };
        let size = self.sizes.entry(packet_bytes).or_default();
        size.retried = size.sent > 0;
        size.planned_tries = size.sent + more;
    }

    /// Returns the next size; `None` if there is nothing left to try.
    fn next_size(&self) -> Option<u32> {
        let (base, local) = (self.limits.base_bytes(), self.limits.local_bytes);
        let tried = |bytes: &u32| self.sizes.contains_key(bytes);
        if !tried(&base) {
            return Some(base);
        }
        let hinted = |low: u32, high: u32| {
            let inside = self.hints.iter().copied().filter(|&hint| hint > low && hint < high);
            inside.filter(|hint| !tried(hint)).max()
        };
        let Some(low) = self.largest_passed() else {
            return hinted(0, base);
        };
        if low < local && !tried(&local) {
            return Some(local);
        }
        let high = self.smallest_failed()?;
        // Verify the router's MTU, or find out that it is too low.
        let above = Some(low + 1).filter(|above| self.hints.contains(&low) && *above < high);
        let middle = Some(low + (high - low) / 2).filter(|&middle| middle > low);
        hinted(low, high).or(above).or(middle).or_else(|| self.needs_retry(high).then_some(high))
    }

    /// Returns whether packets of this size were lost silently and never retried.
    fn needs_retry(&self, high: u32) -> bool {
        self.sizes
            .get(&high)
            .is_some_and(|size| !size.retried && !size.unsendable && size.refusal.is_none())
    }

    /// Returns the number of tries that loss alone takes once in a thousand times.
    fn tries_wanted(&self) -> u32 {
        let low = self.largest_passed().unwrap_or(0);
        let passed = self.sizes.range(..=low);
        let (sent, arrived) = passed
            .fold((0, 0), |(sent, arrived), (_, size)| (sent + size.sent, arrived + size.arrived));
        let lost = f64::from(sent - arrived.min(sent)) + 0.5;
        let tries = CHANCE_LOSS_PROBABILITY.ln() / (lost / f64::from(sent + 1)).ln();
        (tries.ceil().max(0.0) as u32).clamp(TRIES.0, TRIES.1)
    }

    fn reply_timeout(&self) -> Duration {
        let known = self.max_rtt.map(|slowest| slowest * ROUND_TRIPS + SLACK);
        known.map_or(self.limits.timeout, |time| time.min(self.limits.timeout))
    }
}

#[cfg(test)]
mod tests;
