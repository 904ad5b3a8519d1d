//! Combines the two directions of a flow, and determines its opener.
//!
//! Source: RFC 9293. Units: us. Error: none.
//! Wrong when: neither end's first packet was captured; then the first sender counts as the opener.

use super::handshake;
use super::way::Course;
use longhaul_model::packet::{Flags, Packet, Transport};
use longhaul_model::report::v1::capture::Flow;
use std::net::SocketAddr;

/// A tracked flow.
#[derive(Debug, Clone)]
pub(super) struct Both {
    opener: SocketAddr,
    listener: SocketAddr,
    udp: bool,
    capture_began_ns: u64,
    began_ns: u64,
    last_ns: u64,
    handshake: handshake::Seen,
    forward: Course,
    reverse: Course,
}

impl Both {
    /// Starts a flow with its first packet, without counting it yet.
    pub fn new(packet: &Packet, capture_began_ns: u64) -> Both {
        // If the SYN was not captured, the SYN/ACK is the first packet.
        let answer = match &packet.transport {
            Transport::Tcp(segment) => segment.flags.has(Flags::SYN | Flags::ACK),
            Transport::Udp => false,
        };
        let (opener, listener) = if answer {
            (packet.to, packet.from)
        } else {
            (packet.from, packet.to)
        };
        Both {
            opener,
            listener,
            udp: packet.transport == Transport::Udp,
            capture_began_ns,
            began_ns: packet.at_ns,
            last_ns: packet.at_ns,
            handshake: handshake::Seen::default(),
            forward: Course::default(),
            reverse: Course::default(),
        }
    }

    /// Adds a packet; returns whether its payload is new.
    pub fn take(&mut self, packet: &Packet) -> bool {
        self.last_ns = self.last_ns.max(packet.at_ns);
        let from_opener = packet.from == self.opener;
        let (own, other) = if from_opener {
            (&mut self.forward, &mut self.reverse)
        } else {
            (&mut self.reverse, &mut self.forward)
        };
        own.count(packet);
        let Transport::Tcp(segment) = &packet.transport else {
            return true;
        };
        self.handshake.take(segment, from_opener, packet.at_ns);
        other.hears(packet, segment);
        own.sends(packet, segment, self.handshake.round_trip_ns())
    }

    pub fn finish(self) -> Flow {
        let shifts = self.handshake.shifts();
        Flow {
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
