//! One direction of one route: which link comes next, and which links need no event.
//!
//! Link `i` of a chain leads to node `i`; the last node is the host at the other end, all others
//! are routers. Links that only delay are not stations: a unit crosses a run of them in one event,
//! which is why 43 hops cost no more than 9. Where its TTL ends is known when it enters.

use super::truth::Tally;
use super::{Host, Nanos};

pub(super) struct Chain {
    pub route: usize,
    pub from: Host,
    pub links: usize,
    /// For each link (and the end, at `links`): the first station at or after it.
    pub next_station: Vec<u32>,
    /// Delay of all plain links before each link.
    pub travel: Vec<Nanos>,
    pub passed: Vec<Passed>,
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

    /// Counts traffic that crosses the plain links from `from` up to, not including, `to`.
    pub fn count(&mut self, from: usize, to: usize, packets: u64, bytes: u64) {
        if from < to {
            self.passed[from].began.add(packets, bytes);
            self.passed[to - 1].ended.add(packets, bytes);
        }
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
