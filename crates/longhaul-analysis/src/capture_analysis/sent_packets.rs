//! The packets of one direction that were sent and lost, and their round trips, for the search for a
//! policer.
//!
//! A packet counts as lost if a byte of it is sent again. RTTs are taken from packets that were sent once
//! and whose acknowledgement was not delayed by a retransmit.
//!
//! Source: Flach et al., SIGCOMM 2016. Units: us, bytes of IP. Error: of a packet that the interface split
//! later, the whole counts as lost. Wrong when: the capture lost packets.

use super::packet_policer::{PacketRtt, ReplayPacket};
use std::collections::HashMap;

/// The maximum number of packets of one direction, and of all directions together.
const MAX_DIRECTION_PACKETS: usize = 100_000;
pub(super) const MAX_REPLAY_PACKETS: usize = 1_000_000;

/// The packets of one direction, in the order of time; the first of them if there are many.
#[derive(Debug, Clone, Default)]
pub(super) struct SentPackets {
    pub packets: Vec<ReplayPacket>,
    pub round_trips: Vec<PacketRtt>,
    /// The first byte and the index of each packet with new data.
    fresh: Vec<(u64, usize)>,
    /// The index of the last packet that repeated a byte.
    repeated: HashMap<u64, usize>,
}

impl SentPackets {
    /// Adds a packet whose first byte is at `from`, unless there are too many.
    pub fn add_packet(&mut self, at_us: u64, from: u64, wire_bytes: u32, is_fresh: bool) {
        let index = self.packets.len();
        if index >= MAX_DIRECTION_PACKETS {
            return;
        }
        self.packets.push(ReplayPacket { at_us, bytes: wire_bytes, lost: false });
        if is_fresh {
            self.fresh.push((from, index));
            return;
        }
        let holder = self.fresh.partition_point(|it| it.0 <= from).checked_sub(1);
        let earlier = self.repeated.insert(from, index).or(holder.map(|at| self.fresh[at].1));
        if let Some(earlier) = earlier {
            self.packets[earlier].lost = true;
        }
    }

    pub fn add_round_trip(&mut self, at_us: u64, rtt_us: u64) {
        if self.packets.len() < MAX_DIRECTION_PACKETS {
            self.round_trips.push(PacketRtt { sent_us: at_us.saturating_sub(rtt_us), rtt_us });
        }
    }

    /// Adds the packets of another flow that shares the path.
    pub fn merge(&mut self, other: SentPackets) {
        self.packets.extend(other.packets);
        self.round_trips.extend(other.round_trips);
        self.packets.sort_by_key(|packet| packet.at_us);
        self.round_trips.sort_by_key(|it| it.sent_us);
        self.packets.truncate(MAX_DIRECTION_PACKETS);
    }
}
