//! What really happened on the path: the numbers against which measurements are judged.
//!
//! Packets are counted by segments as they were on the wire; bytes are those of IP (add
//! `overhead` per packet for the wire). Times are those of the path's own time line, which the
//! engine enters at `begin_at`. Links without a queue (see the engine's `chain`) count a packet
//! when it enters the run of such links.

use longhaul_model::units::Rate;
use std::time::Duration;

/// Packets and the bytes of IP in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    pub packets: u64,
    pub bytes: u64,
}

impl Tally {
    pub(super) fn add(&mut self, packets: u64, bytes: u64) {
        self.packets += packets;
        self.bytes += bytes;
    }
}

/// Lost packets by cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Drops {
    /// No room in the queue.
    pub queue: u64,
    /// Random loss.
    pub loss: u64,
    pub policer: u64,
    /// No room in the queue of a link with a shaper.
    pub shaper: u64,
    /// TTL ended at the router behind this link.
    pub ttl: u64,
    /// Larger than the link's MTU.
    pub mtu: u64,
}

impl Drops {
    pub fn total(&self) -> u64 {
        self.queue + self.loss + self.policer + self.shaper + self.ttl + self.mtu
    }
}

/// Other people's traffic, bytes on the wire since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CrossTruth {
    pub offered_bytes: u64,
    pub carried_bytes: u64,
    pub dropped_bytes: u64,
}

/// One direction of one link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkTruth {
    pub entered: Tally,
    /// On the wire and not lost; what is in the queue is in neither `left` nor `drops`.
    pub left: Tally,
    pub drops: Drops,
    /// Wire bytes waiting or being sent now, cross traffic included.
    pub queue_bytes: u64,
    pub queue_peak_bytes: u64,
    pub queue_limit_bytes: Option<u64>,
    /// Propagation delay now.
    pub delay: Duration,
    /// Rate of the wire now; with a shaper, its peak.
    pub capacity: Option<Rate>,
    /// Rate of the shaper's tokens.
    pub sustained: Option<Rate>,
    pub overhead_bytes: u32,
    /// `None`: no cross traffic, now or earlier.
    pub cross: Option<CrossTruth>,
}

/// What a router said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RouterTruth {
    pub icmp_sent: u64,
    /// Not sent because of the router's own limit.
    pub icmp_withheld: u64,
}

/// A hop: the link that leads to it, both ways, and the node at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HopTruth {
    pub name: String,
    pub forward: LinkTruth,
    pub reverse: LinkTruth,
    pub router: RouterTruth,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteTruth {
    pub name: String,
    /// Packets sent now take this route.
    pub active: bool,
    pub hops: Vec<HopTruth>,
}

/// A timed event that has taken place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventTruth {
    pub at: Duration,
    pub text: String,
}

/// Packets (segments) over the whole path, both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Taken from the hosts.
    pub accepted: Tally,
    /// Made by routers.
    pub generated: Tally,
    /// Given to the hosts.
    pub delivered: Tally,
    /// Arrived at the router they were sent to.
    pub consumed: Tally,
    /// Lost on the way, for any cause in [`Drops`].
    pub dropped: Tally,
    /// From a host, but self-contradictory; not among `accepted`.
    pub malformed: u64,
    /// From a host, but not for anyone on this path; not among `accepted`.
    pub foreign: u64,
    /// From a host, but the path held 4 GiB of packets already; not among `accepted`.
    pub no_memory: u64,
}

impl Totals {
    pub fn in_flight_packets(&self) -> u64 {
        let gone = self.delivered.packets + self.consumed.packets + self.dropped.packets;
        (self.accepted.packets + self.generated.packets).saturating_sub(gone)
    }
}

/// The whole path at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Truth {
    /// When the path began; events before it are among `events`.
    pub begin_at: Duration,
    pub at: Duration,
    pub routes: Vec<RouteTruth>,
    pub events: Vec<EventTruth>,
    pub totals: Totals,
    /// Memory held for packets.
    pub memory_bytes: u64,
}
