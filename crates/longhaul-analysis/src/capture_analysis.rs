//! Analyses a packet capture: negotiated options, retransmits, RTTs, windows, and whether the
//! payload differs from packet to packet.
//!
//! Packets arrive in time order; memory use is bounded for any input.
//!
//! Source: RFC 9293, 7323 (shifts, timestamps), 2018, 3168; Karn and Partridge 1987; Mathis et al.
//! RFC 4898 for the names. Units: bytes, us.
//! Error: as seen at the capture point; an RTT seen at the receiver is the response time of its
//! kernel.
//! Wrong when: the capture has holes (missing packets look lost), or interfaces segment and merge
//! packets, so that one packet of the capture is many on the wire.

mod capture_rtt;
mod sequence_coverage;
mod tcp_handshake;
#[cfg(test)]
mod tests;
mod tracked_direction;

use longhaul_model::decoded_packet::{DecodedPacket, PacketTransport};
use longhaul_model::report::v1::capture::{CapturedFlow, PayloadVariety};
use sequence_coverage::PayloadHeads;
use std::collections::HashMap;
use std::net::SocketAddr;
use tracked_direction::TrackedFlow;

/// The maximum number of flows analysed; packets of further flows are only counted.
pub const MAX_CAPTURE_FLOWS: usize = 512;

/// Both endpoints in sorted order, and whether the protocol is UDP.
type CaptureFlowKey = (SocketAddr, SocketAddr, bool);

/// Follows the flows of a capture.
#[derive(Debug, Default)]
pub struct CaptureAnalyser {
    places: HashMap<CaptureFlowKey, usize>,
    flows: Vec<TrackedFlow>,
    first_ns: Option<u64>,
    left_out: u64,
    payloads: PayloadHeads,
}

/// The result of the analysis.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CaptureFlows {
    /// In order of their first packet.
    pub flows: Vec<CapturedFlow>,
    pub left_out_packets: u64,
    /// Absent if too little payload was captured.
    pub payload: Option<PayloadVariety>,
}

impl CaptureAnalyser {
    pub fn add_packet(&mut self, packet: &DecodedPacket) {
        let first_ns = *self.first_ns.get_or_insert(packet.at_ns);
        let udp = packet.transport == PacketTransport::Udp;
        let key = (packet.from.min(packet.to), packet.from.max(packet.to), udp);
        let place = match self.places.get(&key) {
            Some(place) => *place,
            None if self.flows.len() < MAX_CAPTURE_FLOWS => {
                self.flows.push(TrackedFlow::new(packet, first_ns));
                self.places.insert(key, self.flows.len() - 1);
                self.flows.len() - 1
            }
            None => {
                self.left_out += 1;
                return;
            }
        };
        let fresh = self.flows[place].add_packet(packet);
        if fresh {
            self.payloads.add_packet(packet);
        }
    }

    pub fn finish(self) -> CaptureFlows {
        CaptureFlows {
            flows: self.flows.into_iter().map(TrackedFlow::finish).collect(),
            left_out_packets: self.left_out,
            payload: self.payloads.finish(),
        }
    }
}
