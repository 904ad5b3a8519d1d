//! Combines the two directions of a flow, and determines its opener.
//!
//! Source: RFC 9293. Units: us. Error: none.
//! Wrong when: neither end's first packet was captured; then the first sender counts as the opener.

use super::tcp_handshake;
use super::tracked_direction::TrackedDirection;
use longhaul_model::decoded_packet::{DecodedPacket, PacketTransport, TcpFlags};
use longhaul_model::report::v1::capture::CapturedFlow;
use std::net::SocketAddr;

/// A tracked flow.
#[derive(Debug, Clone)]
pub(super) struct TrackedFlow {
    opener: SocketAddr,
    listener: SocketAddr,
    udp: bool,
    capture_began_ns: u64,
    began_ns: u64,
    last_ns: u64,
    handshake: tcp_handshake::ObservedHandshake,
    forward: TrackedDirection,
    reverse: TrackedDirection,
}

impl TrackedFlow {
    /// Starts a flow with its first packet, without counting it yet.
    pub fn new(packet: &DecodedPacket, capture_began_ns: u64) -> TrackedFlow {
        // If the SYN was not captured, the SYN/ACK is the first packet.
        let answer = match &packet.transport {
            PacketTransport::Tcp(segment) => segment.flags.has(TcpFlags::SYN | TcpFlags::ACK),
            PacketTransport::Udp => false,
        };
        let (opener, listener) =
            if answer { (packet.to, packet.from) } else { (packet.from, packet.to) };
        TrackedFlow {
            opener,
            listener,
            udp: packet.transport == PacketTransport::Udp,
            capture_began_ns,
            began_ns: packet.at_ns,
            last_ns: packet.at_ns,
            handshake: tcp_handshake::ObservedHandshake::default(),
            forward: TrackedDirection::default(),
            reverse: TrackedDirection::default(),
        }
    }

    /// Adds a packet; returns whether its payload is new.
    pub fn add_packet(&mut self, packet: &DecodedPacket) -> bool {
        self.last_ns = self.last_ns.max(packet.at_ns);
        let from_opener = packet.from == self.opener;
        let (own, other) = if from_opener {
            (&mut self.forward, &mut self.reverse)
        } else {
            (&mut self.reverse, &mut self.forward)
        };
        own.count(packet);
        let PacketTransport::Tcp(segment) = &packet.transport else {
            return true;
        };
        self.handshake.add_segment(segment, from_opener, packet.at_ns);
        other.add_peer_segment(packet, segment);
        own.add_own_segment(packet, segment, self.handshake.round_trip_ns())
    }

    pub fn finish(self) -> CapturedFlow {
        let shifts = self.handshake.shifts();
        CapturedFlow {
            protocol: if self.udp { "udp" } else { "tcp" }.to_owned(),
            opener: self.opener.to_string(),
            listener: self.listener.to_string(),
            started_us: self.began_ns.saturating_sub(self.capture_began_ns) / 1000,
            duration_us: self.last_ns.saturating_sub(self.began_ns) / 1000,
            handshake: self.handshake.finish(),
            forward: self.forward.finish(shifts.map(|(opener, _)| opener)),
            reverse: self.reverse.finish(shifts.map(|(_, listener)| listener)),
        }
    }
}
