//! Tracks one direction of a flow.
//!
//! A byte that is in the capture twice was retransmitted. A byte that fills a hole was
//! retransmitted if its packet's timestamp is later than that of the packet that revealed the hole
//! or, if they are equal, if it came at least half an RTT later; otherwise it was reordered.
//!
//! Source: RFC 3522 (its use of timestamps), 9293. Units: bytes, packets, us.
//! Error: without usable timestamps, half an RTT decides.
//! Wrong when: the capture itself lost packets that were retransmitted later.
//!
//! # Flows
//!
//! Combines the two directions of a flow, and determines its opener.
//!
//! Source: RFC 9293. Units: us. Error: none.
//! Wrong when: neither end's first packet was captured; then the first sender counts as the opener.

use super::{AckRtt, SegmentCoverage, SequenceCoverage, is_later_timestamp};
use longhaul_model::decoded_packet::{DecodedPacket, PacketTransport, TcpFlags, TcpHeader};
use longhaul_model::report::v1::capture::{CapturedFlow, FlowDirection, TcpFlowDirection};
use std::net::SocketAddr;

/// One direction of a flow.
#[derive(Debug, Clone, Default)]
pub(super) struct TrackedDirection {
    pub way: FlowDirection,
    tcp: TcpFlowDirection,
    is_tcp: bool,
    covered: SequenceCoverage,
    by_ack: AckRtt,
    /// The position that the peer acknowledged last, and that packet's number and window.
    acknowledged: Option<u64>,
    last_ack: Option<(u32, u16)>,
    /// Minimum and maximum window before scaling, after the handshake. The handshake's own window
    /// is unscaled and kept separately.
    windows: Option<(u16, u16)>,
    first_window: Option<u16>,
}

impl TrackedDirection {
    /// Counts a packet of this direction.
    pub fn count(&mut self, packet: &DecodedPacket) {
        let way = &mut self.way;
        way.packets += 1;
        way.wire_bytes += u64::from(packet.wire_bytes);
        way.payload_bytes += u64::from(packet.payload_bytes);
        way.payload_packets += u64::from(packet.payload_bytes > 0);
        way.largest_payload_bytes = way.largest_payload_bytes.max(packet.payload_bytes);
        way.marked_packets += u64::from(packet.ecn == 3);
    }

    /// Adds a packet; returns whether all its data is new. `round_trip_ns` is that of the
    /// handshake.
    pub fn add_own_segment(
        &mut self,
        packet: &DecodedPacket,
        segment: &TcpHeader,
        round_trip_ns: Option<u64>,
    ) -> bool {
        self.is_tcp = true;
        let flags = segment.flags;
        self.tcp.fin |= flags.has(TcpFlags::FIN);
        self.tcp.rst |= flags.has(TcpFlags::RST);
        self.track_window(segment);
        let stamp = segment.options.timestamps.map(|(own, _)| own);
        // SYN and FIN occupy one sequence number each.
        let extra = u64::from(flags.has(TcpFlags::SYN)) + u64::from(flags.has(TcpFlags::FIN));
        let length = u64::from(packet.payload_bytes) + extra;
        if length == 0 {
            // A bare acknowledgement shows the position of the direction before its first byte.
            self.covered.position(segment.sequence);
            return false;
        }
        let brought = self.covered.add_segment(segment.sequence, length, packet.at_ns, stamp);
        self.tcp.unique_bytes += (brought.fresh + brought.filled).saturating_sub(extra);
        self.classify_segment(&brought, packet, stamp, round_trip_ns);
        if let (Some(acknowledged), Some(highest)) = (self.acknowledged, self.covered.highest()) {
            let in_flight = highest.saturating_sub(acknowledged);
            self.tcp.most_in_flight_bytes = self.tcp.most_in_flight_bytes.max(in_flight);
        }
        brought.again == 0
    }

    /// Counts the packet as new, retransmitted or reordered.
    fn classify_segment(
        &mut self,
        brought: &SegmentCoverage,
        packet: &DecodedPacket,
        stamp: Option<u32>,
        round_trip_ns: Option<u64>,
    ) {
        let mut again = brought.again;
        if let Some(hole) = brought.hole {
            let later = match (stamp, hole.stamp) {
                (Some(own), Some(then)) if own != then => is_later_timestamp(own, then),
                _ => {
                    let waited = packet.at_ns.saturating_sub(hole.at_ns);
                    round_trip_ns.is_none_or(|round_trip| waited > round_trip / 2)
                }
            };
            if later {
                again += brought.filled;
            } else {
                self.tcp.reordered_packets += 1;
            }
        }
        if again > 0 {
            self.tcp.retransmitted_packets += 1;
            self.tcp.retransmitted_bytes += again;
        }
        if brought.again > 0 || brought.filled > 0 {
            self.by_ack.discard_pending();
        } else {
            self.by_ack.sent(brought.to, packet.at_ns);
        }
    }

    /// Adds a packet of the other direction, which acknowledges this one.
    pub fn add_peer_segment(&mut self, packet: &DecodedPacket, segment: &TcpHeader) {
        if !segment.flags.has(TcpFlags::ACK) || segment.flags.has(TcpFlags::RST) {
            return;
        }
        let Some(place) = self.covered.known_position(segment.acknowledged) else {
            return;
        };
        let look = (segment.acknowledged, segment.window);
        let bare = packet.payload_bytes == 0 && !segment.flags.has(TcpFlags::SYN);
        let waits = self.covered.highest().is_some_and(|highest| highest > place);
        if bare && waits && self.last_ack == Some(look) {
            self.tcp.duplicate_ack_packets += 1;
        }
        self.last_ack = Some(look);
        if self.acknowledged.is_none_or(|last| place > last) {
            // Bytes below the first acknowledgement were sent before the capture began.
            if let Some(last) = self.acknowledged {
                let unseen = self.covered.unseen_below(place);
                let before = self.covered.unseen_below(last);
                self.tcp.unseen_bytes += unseen.saturating_sub(before);
            }
            self.acknowledged = Some(place);
            self.by_ack.acknowledged(place, packet.at_ns);
        }
    }

    fn track_window(&mut self, segment: &TcpHeader) {
        let window = segment.window;
        if segment.flags.has(TcpFlags::SYN) {
            self.first_window = Some(window);
        } else if !segment.flags.has(TcpFlags::RST) {
            let (least, most) = self.windows.unwrap_or((window, window));
            self.windows = Some((least.min(window), most.max(window)));
            self.tcp.zero_window_packets += u64::from(window == 0);
        }
    }

    /// Returns the results; `shift` is the window scale of this direction's sender, if known.
    pub fn finish(self, shift: Option<u8>) -> FlowDirection {
        let scaled = |window: u16, shift: u8| u64::from(window) << shift.min(14);
        let windows = shift.zip(self.windows);
        let first = self.first_window.map(u64::from);
        let tcp = TcpFlowDirection {
            rtt: self.by_ack.samples.finish(),
            largest_window_bytes: windows
                .map(|(shift, (_, most))| scaled(most, shift))
                .max(first.filter(|_| shift.is_some())),
            smallest_window_bytes: windows.map(|(shift, (least, _))| scaled(least, shift)),
            ..self.tcp
        };
        FlowDirection { tcp: self.is_tcp.then_some(tcp), ..self.way }
    }
}

/// A tracked flow.
#[derive(Debug, Clone)]
pub(super) struct TrackedFlow {
    opener: SocketAddr,
    listener: SocketAddr,
    udp: bool,
    capture_began_ns: u64,
    began_ns: u64,
    last_ns: u64,
    handshake: super::ObservedHandshake,
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
            handshake: super::ObservedHandshake::default(),
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
