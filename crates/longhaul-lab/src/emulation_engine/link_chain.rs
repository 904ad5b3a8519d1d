//! A chain is one direction of one route: the order of its links, and which links need no event.
//!
//! Link `i` of a chain leads to node `i`; the last node is the host at the other end, all others
//! are routers. Plain links, which only delay a packet, are not stations: a unit crosses a run of
//! them in one event, which is why 43 hops cost no more than 9. The node at which its TTL expires
//! is known when it enters.
//!
//! A link with a rate has no queue if an earlier one on the chain paces all traffic at that rate or
//! a lower one. It then adds only the serialisation time of each packet. The error is less than one
//! packet's time on the pacing link where a small packet follows close behind a large one.

use super::emulated_link::to_virtual_nanos;
use super::ground_truth::PacketTally;
use super::pooled_packet::{PacketUnit, SegmentSizes};
use super::{LabHost, Nanos};
use crate::path_spec::{LinkSpec, OptionRewrite};

pub(super) struct LinkChain {
    pub route: usize,
    pub from: LabHost,
    pub links: usize,
    /// For each link, and for the end at `links`: the first station at or after it.
    pub next_station: Vec<u32>,
    /// The transit time of all plain links before each link.
    pub transit_times: Vec<TransitTime>,
    /// The links as described, for the ground truth; a station knows its own.
    pub specs: Vec<LinkSpec>,
    pub plain_counts: Vec<PlainLinkCounts>,
    /// For each link, the TCP option rewrites of the routers before it; empty if no router
    /// rewrites.
    pub rewrites: Vec<OptionRewrite>,
}

/// The transit time of a run of plain links.
#[derive(Clone, Copy, Default)]
pub(super) struct TransitTime {
    /// Delays, and the wire overhead.
    fixed: Nanos,
    /// Nanoseconds times 2^24 for each byte of IP.
    per_byte: u64,
}

const PER_BYTE_SHIFT: u32 = 24;

impl TransitTime {
    /// Adds one more link, with a delay and perhaps a rate.
    pub fn with_link(self, link: &LinkSpec) -> TransitTime {
        let delay = self.fixed.saturating_add(to_virtual_nanos(link.delay));
        let Some(rate) = link.rate else {
            return TransitTime { fixed: delay, ..self };
        };
        let per_byte = (8_000_000_000u64 << PER_BYTE_SHIFT) / rate.as_bps().max(1);
        let overhead = (u128::from(per_byte) * u128::from(link.overhead)) >> PER_BYTE_SHIFT;
        TransitTime {
            fixed: delay.saturating_add(overhead as Nanos),
            per_byte: self.per_byte.saturating_add(per_byte),
        }
    }

    /// Returns the unit after the links that `self` has and `before` has not.
    fn cross(self, before: TransitTime, unit: PacketUnit, shape: &SegmentSizes) -> PacketUnit {
        let per_byte = u128::from(self.per_byte - before.per_byte);
        let time = |bytes: u64| {
            let wire = (per_byte * u128::from(bytes)) >> PER_BYTE_SHIFT;
            (self.fixed - before.fixed).saturating_add(wire as Nanos)
        };
        let mut until = unit.until.saturating_add(time(shape.last_bytes(&unit)));
        if let Some(before_last) = unit.second_last_arrival(shape) {
            until = until.max(before_last.saturating_add(time(u64::from(shape.full))));
        }
        let from = unit.from.saturating_add(time(shape.first_bytes(&unit)));
        PacketUnit { from: from.min(until), until, ..unit }
    }
}

/// Traffic counters of the plain links: what entered a run of them at this link, and what left it.
#[derive(Clone, Copy, Default)]
pub(super) struct PlainLinkCounts {
    pub began: PacketTally,
    pub ended: PacketTally,
    /// Packets whose TTL expired at the router behind this link.
    pub expired: u64,
}

impl LinkChain {
    /// Returns the index (from 0, in the order of the route's hops) of the router behind a link, or
    /// `None` behind the last link, where the host is.
    pub fn router_behind(&self, link: usize) -> Option<usize> {
        (link + 1 < self.links).then(|| self.link_to(link))
    }

    /// Returns the link that leads to a router, the inverse of
    /// [`router_behind`](Self::router_behind). Packets that the router makes enter by the next one.
    pub fn link_to(&self, router: usize) -> usize {
        match self.from {
            LabHost::Near => router,
            LabHost::Far => self.links - 2 - router,
        }
    }

    /// Returns the link behind which a packet stops that enters at `entry` with `ttl`: at `wanted`,
    /// or earlier if its TTL expires; `links` means the host.
    pub fn find_stop(&self, entry: usize, ttl: u8, wanted: Option<usize>) -> usize {
        let expires = entry + usize::from(ttl.max(1)) - 1;
        let expires = if expires + 1 < self.links { expires } else { self.links };
        wanted.map_or(expires, |wanted| wanted.min(expires))
    }

    /// Returns the unit after the plain links from `from` up to, but not including, `to`.
    pub fn cross(
        &mut self,
        from: usize,
        to: usize,
        unit: PacketUnit,
        shape: &SegmentSizes,
    ) -> PacketUnit {
        if from >= to {
            return unit;
        }
        self.count(from, to, u64::from(unit.count), shape.bytes(&unit));
        self.transit_times[to].cross(self.transit_times[from], unit, shape)
    }

    /// Counts traffic that crosses the plain links from `from` up to, but not including, `to`.
    fn count(&mut self, from: usize, to: usize, packets: u64, bytes: u64) {
        self.plain_counts[from].began.add(packets, bytes);
        self.plain_counts[to - 1].ended.add(packets, bytes);
    }

    /// Returns the traffic of the plain link `emulated_link`.
    pub fn plain_traffic(&self, link: usize) -> PacketTally {
        let mut traffic = PacketTally::default();
        for passed in &self.plain_counts[..=link] {
            traffic.add(passed.began.packets, passed.began.bytes);
        }
        for passed in &self.plain_counts[..link] {
            traffic.packets -= passed.ended.packets;
            traffic.bytes -= passed.ended.bytes;
        }
        traffic
    }
}
