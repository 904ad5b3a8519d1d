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

mod covered;
mod flow;
mod handshake;
mod payload;
mod rtt;
#[cfg(test)]
mod tests;
mod way;

use flow::Both;
use longhaul_model::packet::{Packet, Transport};
use longhaul_model::report::v1::capture::{Flow, Variety};
use payload::Payloads;
use std::collections::HashMap;
use std::net::SocketAddr;

/// The maximum number of flows analysed; packets of further flows are only counted.
pub const MOST_FLOWS: usize = 512;

/// Both endpoints in sorted order, and whether the protocol is UDP.
type Key = (SocketAddr, SocketAddr, bool);

/// Follows the flows of a capture.
#[derive(Debug, Default)]
pub struct Analyser {
    places: HashMap<Key, usize>,
    flows: Vec<Both>,
    first_ns: Option<u64>,
    left_out: u64,
    payloads: Payloads,
}

/// The result of the analysis.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// In order of their first packet.
    pub flows: Vec<Flow>,
    pub left_out_packets: u64,
    /// Absent if too little payload was captured.
    pub payload: Option<Variety>,
}

impl Analyser {
    pub fn take(&mut self, packet: &Packet) {
        let first_ns = *self.first_ns.get_or_insert(packet.at_ns);
        let udp = packet.transport == Transport::Udp;
        let key = (packet.from.min(packet.to), packet.from.max(packet.to), udp);
        let place = match self.places.get(&key) {
            Some(place) => *place,
            None if self.flows.len() < MOST_FLOWS => {
                self.flows.push(Both::new(packet, first_ns));
                self.places.insert(key, self.flows.len() - 1);
                self.flows.len() - 1
            }
            None => {
                self.left_out += 1;
                return;
            }
        };
        let fresh = self.flows[place].take(packet);
        if fresh {
            self.payloads.take(packet);
        }
    }

    pub fn finish(self) -> Found {
        Found {
            flows: self.flows.into_iter().map(Both::finish).collect(),
            left_out_packets: self.left_out,
            payload: self.payloads.finish(),
        }
    }
}
