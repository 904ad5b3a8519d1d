//! Does the payload differ from packet to packet, as rule 6 of the Land Speed Record asks?
//!
//! The first bytes of each payload that is new are compared. Packets with fewer captured bytes than
//! that are passed over: a short one differs from a long one without saying anything.
//!
//! Source: rule 6 as the submissions quote it. Units: packets. Error: none for what is compared.
//! Wrong when: payloads differ only behind their first bytes, or more than [`MOST_KNOWN`] heads are
//! distinct (then only the first packets are compared).

use longhaul_model::packet::Packet;
use longhaul_model::report::v1::capture::Variety;
use std::collections::HashMap;

/// A payload's head is as long as whoever decodes makes it; shorter ones say nothing.
const COMPARED_BYTES: u32 = 64;
const MOST_KNOWN: usize = 1 << 16;

#[derive(Debug, Clone, Default)]
pub(super) struct Payloads {
    packets: u64,
    heads: HashMap<u64, u64>,
}

impl Payloads {
    pub fn take(&mut self, packet: &Packet) {
        let Some(head) = packet.payload.filter(|head| head.bytes >= COMPARED_BYTES) else {
            return;
        };
        if self.heads.len() < MOST_KNOWN {
            self.packets += 1;
            *self.heads.entry(head.digest).or_default() += 1;
        }
    }

    pub fn finish(self) -> Option<Variety> {
        let most_repeated_packets = self.heads.values().copied().max()?;
        // One packet cannot be compared with another.
        (self.packets > 1).then_some(Variety {
            packets: self.packets,
            compared_bytes: COMPARED_BYTES,
            distinct_packets: self.heads.len() as u64,
            most_repeated_packets,
        })
    }
}
