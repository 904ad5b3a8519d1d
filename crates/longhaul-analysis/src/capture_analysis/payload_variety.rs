//! Checks that payload differs from packet to packet, as rule 6 of the Land Speed Record requires.
//!
//! Compares the first bytes of each new payload. Packets with fewer captured bytes are skipped: a
//! short payload always differs from a long one.
//!
//! Source: rule 6 as the submissions quote it. Units: packets. Error: none for what is compared.
//! Wrong when: payloads differ only after their first bytes, or there are more than 65536 distinct
//! heads (then only the first packets are compared).

use longhaul_model::decoded_packet::DecodedPacket;
use longhaul_model::report::v1::capture::PayloadVariety;
use std::collections::HashMap;

/// The length of the head that the decoder hashes; shorter payloads are skipped.
const COMPARED_BYTES: u32 = 64;
const MAX_KNOWN_HEADS: usize = 1 << 16;

#[derive(Debug, Clone, Default)]
pub(super) struct PayloadHeads {
    packets: u64,
    heads: HashMap<u64, u64>,
}

impl PayloadHeads {
    pub fn add_packet(&mut self, packet: &DecodedPacket) {
        let Some(head) = packet.payload.filter(|head| head.bytes >= COMPARED_BYTES) else {
            return;
        };
        if self.heads.len() < MAX_KNOWN_HEADS {
            self.packets += 1;
            *self.heads.entry(head.digest).or_default() += 1;
        }
    }

    pub fn finish(self) -> Option<PayloadVariety> {
        let most_repeated_packets = self.heads.values().copied().max()?;
        // A single packet has nothing to be compared with.
        (self.packets > 1).then_some(PayloadVariety {
            packets: self.packets,
            compared_bytes: COMPARED_BYTES,
            distinct_packets: self.heads.len() as u64,
            most_repeated_packets,
        })
    }
}
