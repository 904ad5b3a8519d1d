//! One direction of one route: which link comes next, and which links need no event.
//!
//! Link `i` of a chain leads to node `i`; the last node is the host at the other end, all others
//! are routers. Links at which nothing can happen to a packet but to take its time are not
//! stations: a unit crosses a run of them in one event, which is why 43 hops cost no more than 9.
//! Where its TTL ends is known when it enters.
//!
//! A link of a rate has no queue when an earlier one on the chain paces all traffic at that rate or
//! a lower one. It then adds the time of each packet's own bytes and nothing else. Wrong by less
//! than one packet's time on the pacing link where a small packet follows close behind a large one.

use super::link::nanos;
use super::truth::Tally;
use super::unit::{Shape, Unit};
use super::{Host, Nanos};
use crate::spec::{LinkSpec, Rewrite};

pub(super) struct Chain {
    pub route: usize,
    pub from: Host,
    pub links: usize,
    /// For each link (and the end, at `links`): the first station at or after it.
    pub next_station: Vec<u32>,
    /// What a packet needs for all plain links before each link.
    pub travel: Vec<Travel>,
    /// The links, to be described in the truth; a station knows its own.
    pub specs: Vec<LinkSpec>,
    pub passed: Vec<Passed>,
    /// For each link, what the routers before it make of TCP options; empty: none makes anything.
    pub rewrites: Vec<Rewrite>,
}

/// The time that a run of plain links takes.
#[derive(Clone, Copy, Default)]
pub(super) struct Travel {
    /// Delays, and the overhead of the wires.
    fixed: Nanos,
    /// For each byte of IP, in nanoseconds times 2^24.
    per_byte: u64,
}

const PER_BYTE_SHIFT: u32 = 24;

impl Travel {
    /// With one more link, of a delay and perhaps a rate.
    pub fn and(self, link: &LinkSpec) -> Travel {
        let delay = self.fixed.saturating_add(nanos(link.delay));
        let Some(rate) = link.rate else {
            return Travel {
                fixed: delay,
                ..self
            };
        };
        let per_byte = (8_000_000_000u64 << PER_BYTE_SHIFT) / rate.as_bps().max(1);
        let overhead = (u128::from(per_byte) * u128::from(link.overhead)) >> PER_BYTE_SHIFT;
        Travel {
            fixed: delay.saturating_add(overhead as Nanos),
            per_byte: self.per_byte.saturating_add(per_byte),
        }
    }

    /// The unit after the links that `self` has more than `before`.
    fn cross(self, before: Travel, unit: Unit, shape: &Shape) -> Unit {
        let per_byte = u128::from(self.per_byte - before.per_byte);
        let time = |bytes: u64| {
            let wire = (per_byte * u128::from(bytes)) >> PER_BYTE_SHIFT;
            (self.fixed - before.fixed).saturating_add(wire as Nanos)
        };
        let mut until = unit.until.saturating_add(time(shape.last_bytes(&unit)));
        if let Some(before_last) = unit.before_last(shape) {
            until = until.max(before_last.saturating_add(time(u64::from(shape.full))));
        }
        let from = unit.from.saturating_add(time(shape.first_bytes(&unit)));
        Unit {
            from: from.min(until),
            until,
            ..unit
        }
    }
}

/// Traffic of the plain links: what began and what ended a run at this link.
#[derive(Clone, Copy, Default)]
pub(super) struct Passed {
    pub began: Tally,
    pub ended: Tally,
    /// Packets whose TTL ended at the router behind this link.
    pub expired: u64,
}

impl Chain {
    /// Index (from 0, in the order of the route's hops) of the router behind a link; `None` behind
    /// the last, where the host is.
    pub fn router_behind(&self, link: usize) -> Option<usize> {
        match self.from {
            Host::Near => (link + 1 < self.links).then_some(link),
            Host::Far => (self.links - 1).checked_sub(link + 1),
        }
    }

    /// The link by which packets made by a router enter this chain.
    pub fn entry_from(&self, router: usize) -> usize {
        match self.from {
            Host::Near => router + 1,
            Host::Far => self.links - 1 - router,
        }
    }

    /// The link that leads to a router, the inverse of [`router_behind`](Self::router_behind).
    pub fn link_to(&self, router: usize) -> usize {
        match self.from {
            Host::Near => router,
            Host::Far => self.links - 2 - router,
        }
    }

    /// Where a packet that enters at `entry` with `ttl` ends if not at `wanted` before: the link
    /// behind which it stops, `links` for the host.
    pub fn stop(&self, entry: usize, ttl: u8, wanted: Option<usize>) -> usize {
        let expires = entry + usize::from(ttl.max(1)) - 1;
        let expires = if expires + 1 < self.links {
            expires
        } else {
            self.links
        };
        wanted.map_or(expires, |wanted| wanted.min(expires))
    }

    /// A unit after the plain links from `from` up to, not including, `to`.
    pub fn cross(&mut self, from: usize, to: usize, unit: Unit, shape: &Shape) -> Unit {
        if from >= to {
            return unit;
        }
        self.count(from, to, u64::from(unit.count), shape.bytes(&unit));
        self.travel[to].cross(self.travel[from], unit, shape)
    }

    /// Counts traffic that crosses the plain links from `from` up to, not including, `to`.
    fn count(&mut self, from: usize, to: usize, packets: u64, bytes: u64) {
        self.passed[from].began.add(packets, bytes);
        self.passed[to - 1].ended.add(packets, bytes);
    }

    /// Traffic of the plain link `link`.
    pub fn plain_traffic(&self, link: usize) -> Tally {
        let mut traffic = Tally::default();
        for passed in &self.passed[..=link] {
            traffic.add(passed.began.packets, passed.began.bytes);
        }
        for passed in &self.passed[..link] {
            traffic.packets -= passed.ended.packets;
            traffic.bytes -= passed.ended.bytes;
        }
        traffic
    }
}
