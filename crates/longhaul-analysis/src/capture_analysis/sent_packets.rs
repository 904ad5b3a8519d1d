//! The packets of one direction that were sent and lost, and their round trips, for the search for a
//! policer.
//!
//! A packet counts as lost if a byte of it is sent again. RTTs are taken from packets that were sent once
//! and whose acknowledgement was not delayed by a retransmit.
//!
//! A packet that the interface split later counts as its segments.
//!
//! Source: Flach et al., SIGCOMM 2016. Units: us, bytes of IP. Error: the segments of a packet have one
//! time. Wrong when: the capture lost packets.

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
    /// The capture began within the connection.
    pub is_partial: bool,
}

/// A packet that was sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct SentPacket {
    pub at_us: u64,
    /// The position of its first byte.
    pub from: u64,
    pub payload_bytes: u32,
    pub header_bytes: u32,
    /// True: it has new data.
    pub is_fresh: bool,
}

impl SentPackets {
    /// Adds a packet as segments of at most `mss_bytes`, while `budget` lasts.
    pub fn add_packet(&mut self, packet: SentPacket, mss_bytes: u32, budget: &mut usize) {
        let mut begin = 0;
        while begin < packet.payload_bytes
            && *budget > 0
            && self.packets.len() < MAX_DIRECTION_PACKETS
        {
            let payload_bytes = mss_bytes.max(1).min(packet.payload_bytes - begin);
            let from = packet.from + u64::from(begin);
            self.add_segment(SentPacket { from, payload_bytes, ..packet });
            begin += payload_bytes;
            *budget -= 1;
        }
    }

    fn add_segment(&mut self, segment: SentPacket) {
        let SentPacket { at_us, from, payload_bytes, header_bytes, is_fresh } = segment;
        let index = self.packets.len();
        let bytes = payload_bytes.saturating_add(header_bytes);
        self.packets.push(ReplayPacket { at_us, bytes, lost: false });
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

    /// Adds the RTT of a packet that was acknowledged now; `is_prompt`: with another one.
    pub fn add_round_trip(&mut self, at_us: u64, rtt_us: u64, is_prompt: bool) {
        if self.packets.len() < MAX_DIRECTION_PACKETS {
            let sent_us = at_us.saturating_sub(rtt_us);
            self.round_trips.push(PacketRtt { sent_us, rtt_us, is_prompt });
        }
    }

    /// Adds the packets of another flow that shares the path.
    pub fn merge(&mut self, other: SentPackets) {
        self.packets.extend(other.packets);
        self.round_trips.extend(other.round_trips);
        self.packets.sort_by_key(|packet| packet.at_us);
        self.round_trips.sort_by_key(|it| it.sent_us);
        self.packets.truncate(MAX_DIRECTION_PACKETS);
        self.is_partial |= other.is_partial;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_packet_that_the_interface_split_only_the_repeated_segments_were_lost() {
        let (mut sent, mut budget) = (SentPackets::default(), 5);
        let packet = |from, payload_bytes, is_fresh| SentPacket {
            at_us: from,
            from,
            payload_bytes,
            header_bytes: 52,
            is_fresh,
        };
        sent.add_packet(packet(0, 2500, true), 1000, &mut budget);
        sent.add_packet(packet(1000, 1000, false), 1000, &mut budget);
        let seen = sent.packets.iter().map(|it| (it.bytes, it.lost));
        let expected = [(1052, false), (1052, true), (552, false), (1052, false)];
        assert_eq!(seen.collect::<Vec<_>>(), expected);
        sent.add_packet(packet(2500, u32::MAX, true), 1, &mut budget);
        assert_eq!((sent.packets.len(), budget), (5, 0), "no more than the budget");
    }
}
