//! Tracks one direction of a flow.
//!
//! A byte that is in the capture twice was retransmitted. A byte that fills a hole was
//! retransmitted if its packet's timestamp is later than that of the packet that revealed the hole
//! or, if they are equal, if it came at least half an RTT later; otherwise it was reordered. The
//! bytes before the first packet of the capture are such a hole.
//!
//! Source: RFC 3522 (its use of timestamps), 9293. Units: bytes, packets, us.
//! Error: without usable timestamps, half an RTT decides; without a handshake, 3 ms as in Wireshark.
//! Wrong when: the capture itself lost packets that were retransmitted later.
//!
//! # Flows
//!
//! Combines the two directions of a flow, and determines its opener.
//!
//! Source: RFC 9293. Units: us. Error: none.
//! Wrong when: neither end's first packet was captured; then the first sender counts as the opener.

use super::end_sampler::{EndSampler, EndView, smooth_rtt};
use super::sent_packets::{SentPacket, SentPackets};
use super::{AckRtt, START, SegmentCoverage, SequenceCoverage, is_later_timestamp};
use longhaul_model::decoded_packet::{DecodedPacket, PacketTransport, TcpFlags, TcpHeader};
use longhaul_model::report::v1::capture::{
    CapturePoint, CapturedFlow, CapturedPolicer, FlowDirection, TcpFlowDirection,
};
use longhaul_model::report::v1::flows::flow_grouping::{FlowSample, FlowSeries};
use longhaul_model::report::v1::observation::TcpOptions;
use std::net::{IpAddr, SocketAddr};

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
    /// The window advertised last, before scaling.
    window: Option<u16>,
    /// Packets that arrived above a hole.
    out_of_order: u64,
    echoed_marks: u64,
    /// The time of the last packet of the flow, in either direction.
    last_packet_ns: u64,
    smoothed_rtt_us: Option<u64>,
    hop_limit: Option<u8>,
    blocked: BlockedSegment,
    sent: SentPackets,
    /// The payload of most segments, and its lead over all others (a majority vote).
    usual_payload: (u32, u32),
}

/// The properties of a flow that its segments are classified by.
#[derive(Debug, Clone, Copy)]
pub(super) struct SegmentContext {
    /// The RTT of the handshake.
    pub round_trip_ns: Option<u64>,
    pub mss_bytes: u32,
}

/// The parameters of the analysis of a direction.
struct DirectionTuning;

impl DirectionTuning {
    /// The silence before a retransmit by timeout, besides a round trip (200 ms in Linux).
    const MIN_TIMEOUT_NS: u64 = 190_000_000;
    /// A packet that fills a hole so soon was reordered, if the RTT is unknown.
    const MAX_REORDERING_NS: u64 = 3_000_000;
    /// A segment that was repeated so often is blocked.
    const MIN_REPEATS: u32 = 3;
    /// An acknowledgement of more bytes that the capture did not see is a damaged packet, which the receiver
    /// ignores.
    const MAX_UNSEEN_BYTES: u64 = 1 << 20;
    /// Routes whose lengths differ by more hops hardly carry one connection.
    const MAX_HOP_DIFFERENCE: u8 = 2;
    /// The path reduces the MSS of the handshake to no less than this share.
    const REDUCED_MSS_RATIO: f64 = 0.85;
}

/// Finds segments that never arrive, although smaller ones do.
#[derive(Debug, Clone, Copy, Default)]
struct BlockedSegment {
    /// The largest payload that was acknowledged.
    largest_delivered: u32,
    /// The first larger segment that was not yet: its end, its payload, and its timeouts.
    candidate: Option<(u64, u32, u32)>,
}

impl BlockedSegment {
    fn add_sent(&mut self, end: u64, payload_bytes: u32, is_timeout: bool) {
        match &mut self.candidate {
            Some((place, _, repeats)) if *place == end => *repeats += u32::from(is_timeout),
            None if payload_bytes > self.largest_delivered => {
                self.candidate = Some((end, payload_bytes, 0));
            }
            _ => {}
        }
    }

    fn acknowledge(&mut self, place: u64) {
        if let Some((_, payload, _)) = self.candidate.take_if(|it| it.0 <= place) {
            self.largest_delivered = payload;
        }
    }

    /// Returns the payload of a segment that is blocked; a path that passes nothing blocks none.
    fn finish(self) -> Option<u32> {
        let (_, payload, repeats) = self.candidate?;
        (repeats >= DirectionTuning::MIN_REPEATS && self.largest_delivered > 0).then_some(payload)
    }
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

    /// Adds a packet; returns whether all its data is new. Packets are kept for the search for a policer
    /// while `budget` lasts.
    pub fn add_own_segment(
        &mut self,
        packet: &DecodedPacket,
        segment: &TcpHeader,
        context: SegmentContext,
        budget: &mut usize,
    ) -> bool {
        self.is_tcp = true;
        let flags = segment.flags;
        self.tcp.fin |= flags.has(TcpFlags::FIN);
        let is_echo = flags.has(TcpFlags::ECE) && !flags.has(TcpFlags::SYN);
        self.echoed_marks += u64::from(is_echo);
        self.check_reset(packet, flags);
        self.track_window(segment);
        let silence_ns = packet.at_ns.saturating_sub(self.last_packet_ns);
        self.last_packet_ns = self.last_packet_ns.max(packet.at_ns);
        self.vote_for_payload(packet.payload_bytes);
        let stamp = segment.options.timestamps.map(|(own, _)| own);
        // SYN and FIN occupy one sequence number each.
        let extra = u64::from(flags.has(TcpFlags::SYN)) + u64::from(flags.has(TcpFlags::FIN));
        let length = u64::from(packet.payload_bytes) + extra;
        if length == 0 && !flags.has(TcpFlags::RST) {
            // A bare acknowledgement shows the position of the direction before its first byte.
            self.covered.begin(segment.sequence, packet.at_ns, stamp);
        }
        // A SYN that does not begin the direction is foreign, or its answer was drawn anew.
        let is_foreign =
            flags.has(TcpFlags::SYN) && self.covered.begins_elsewhere(segment.sequence);
        if length == 0 || is_foreign {
            return false;
        }
        let brought = self.covered.add_segment(segment.sequence, length, packet.at_ns, stamp);
        self.tcp.unique_bytes += (brought.fresh + brought.filled).saturating_sub(extra);
        let is_repeated = self.classify_segment(&brought, packet, stamp, context.round_trip_ns);
        let sent = SentPacket {
            at_us: packet.at_ns / 1000,
            from: brought.to - length,
            payload_bytes: packet.payload_bytes,
            header_bytes: packet.wire_bytes.saturating_sub(packet.payload_bytes),
            is_fresh: brought.fresh > 0,
        };
        self.sent.add_packet(sent, context.mss_bytes, budget);
        let rtt_ns = self.smoothed_rtt_us.unwrap_or(0).saturating_mul(1000);
        let timeout_ns = rtt_ns.saturating_add(DirectionTuning::MIN_TIMEOUT_NS);
        let is_timeout = is_repeated && silence_ns >= timeout_ns;
        self.tcp.timeouts += u64::from(is_timeout);
        self.tcp.timeout_us += if is_timeout { silence_ns / 1000 } else { 0 };
        self.blocked.add_sent(brought.to, packet.payload_bytes, is_timeout);
        let acknowledged = self.acknowledged.unwrap_or(START).max(START);
        // At a receiver, a segment comes again without an acknowledgement if the host dropped it: a wrong
        // checksum, as after corruption on the path.
        let is_dropped = brought.again > 0 && brought.to > acknowledged;
        self.out_of_order += u64::from(is_dropped || self.covered.has_hole_above(acknowledged));
        self.tcp.most_in_flight_bytes = self.tcp.most_in_flight_bytes.max(self.in_flight());
        brought.again == 0
    }

    fn vote_for_payload(&mut self, payload_bytes: u32) {
        let (usual, lead) = &mut self.usual_payload;
        match payload_bytes {
            0 => {}
            it if it == *usual => *lead += 1,
            it if *lead == 0 => (*usual, *lead) = (it, 1),
            _ => *lead -= 1,
        }
    }

    /// Counts a reset that another device than the sender of the other packets may have made.
    fn check_reset(&mut self, packet: &DecodedPacket, flags: TcpFlags) {
        if !flags.has(TcpFlags::RST) {
            self.hop_limit = Some(packet.hop_limit);
            return;
        }
        self.tcp.rst = true;
        let is_foreign = self.hop_limit.is_some_and(|usual| {
            usual.abs_diff(packet.hop_limit) > DirectionTuning::MAX_HOP_DIFFERENCE
        });
        self.tcp.foreign_reset_packets += u64::from(is_foreign);
    }

    /// Returns the bytes sent and not yet acknowledged, at the capture point.
    pub fn in_flight(&self) -> u64 {
        let ends = self.covered.highest().zip(self.acknowledged);
        ends.map_or(0, |(highest, acknowledged)| highest.saturating_sub(acknowledged))
    }

    /// Returns the bytes that the peer acknowledged since the first packet.
    pub fn acked_bytes(&self) -> u64 {
        self.acknowledged.map_or(0, |place| place.saturating_sub(START))
    }

    pub fn counters(&self) -> &TcpFlowDirection {
        &self.tcp
    }

    /// Returns the number of packets that echo a mark "congestion experienced" (RFC 3168).
    pub fn echoed_marks(&self) -> u64 {
        self.echoed_marks
    }

    pub fn out_of_order(&self) -> u64 {
        self.out_of_order
    }

    pub fn smoothed_rtt_us(&self) -> u64 {
        self.smoothed_rtt_us.unwrap_or(0)
    }

    pub fn least_rtt_us(&self) -> Option<u64> {
        self.by_ack.samples.least_us()
    }

    /// Returns the payload of a full segment: that of most segments if it is nearly what the handshake
    /// allows, which a smaller MTU of the path reduces.
    fn segment_bytes(&self, offered: Option<u64>) -> u64 {
        let largest = u64::from(self.way.largest_payload_bytes);
        let offered =
            offered.unwrap_or(if (1..=MAX_MSS).contains(&largest) { largest } else { USUAL_MSS });
        let usual = u64::from(self.usual_payload.0);
        let is_near =
            usual < offered && usual as f64 >= DirectionTuning::REDUCED_MSS_RATIO * offered as f64;
        if is_near { usual } else { offered }
    }

    /// Returns the window that the sender of this direction advertised last.
    fn window_bytes(&self, shift: Option<u8>) -> Option<u64> {
        Some(u64::from(self.window?) << shift?.min(14))
    }

    /// Counts the packet as new, retransmitted or reordered. Returns true if it was retransmitted.
    fn classify_segment(
        &mut self,
        brought: &SegmentCoverage,
        packet: &DecodedPacket,
        stamp: Option<u32>,
        round_trip_ns: Option<u64>,
    ) -> bool {
        let mut again = brought.again;
        if let Some(hole) = brought.hole {
            let later = match (stamp, hole.stamp) {
                (Some(own), Some(then)) if own != then => is_later_timestamp(own, then),
                _ => {
                    let waited = packet.at_ns.saturating_sub(hole.at_ns);
                    let half_trip_ns = round_trip_ns.map(|round_trip| round_trip / 2);
                    waited > half_trip_ns.unwrap_or(DirectionTuning::MAX_REORDERING_NS)
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
        again > 0
    }

    /// Adds a packet of the other direction, which acknowledges this one.
    pub fn add_peer_segment(&mut self, packet: &DecodedPacket, segment: &TcpHeader) {
        self.last_packet_ns = self.last_packet_ns.max(packet.at_ns);
        if !segment.flags.has(TcpFlags::ACK) || segment.flags.has(TcpFlags::RST) {
            return;
        }
        let Some(place) = self.covered.known_position(segment.acknowledged) else {
            return;
        };
        let highest = self.covered.highest();
        if highest.is_some_and(|seen| place > seen + DirectionTuning::MAX_UNSEEN_BYTES) {
            return;
        }
        let is_below =
            |(_, edge): (u32, u32)| segment.acknowledged.wrapping_sub(edge).cast_signed() >= 0;
        self.tcp.duplicate_sack_packets +=
            u64::from(segment.options.first_sack.is_some_and(is_below));
        let look = (segment.acknowledged, segment.window);
        let bare = packet.payload_bytes == 0 && !segment.flags.has(TcpFlags::SYN);
        let waits = highest.is_some_and(|highest| highest > place);
        if bare && waits && self.last_ack == Some(look) {
            self.tcp.duplicate_ack_packets += 1;
        }
        self.last_ack = Some(look);
        let acknowledged = self.acknowledged.map_or(0, |last| place.saturating_sub(last));
        if self.acknowledged.is_none_or(|last| place > last) {
            // Bytes below the first acknowledgement were sent before the capture began.
            if let Some(last) = self.acknowledged {
                let unseen = self.covered.unseen_below(place);
                let before = self.covered.unseen_below(last);
                self.tcp.unseen_bytes += unseen.saturating_sub(before);
            }
            self.acknowledged = Some(place);
            self.blocked.acknowledge(place);
            if let Some(sample_ns) = self.by_ack.acknowledged(place, packet.at_ns) {
                let is_prompt = acknowledged > u64::from(self.usual_payload.0);
                self.sent.add_round_trip(packet.at_ns / 1000, sample_ns / 1000, is_prompt);
                self.smoothed_rtt_us = Some(smooth_rtt(self.smoothed_rtt_us, sample_ns / 1000));
            }
        }
    }

    fn track_window(&mut self, segment: &TcpHeader) {
        let window = segment.window;
        if segment.flags.has(TcpFlags::SYN) {
            self.first_window = Some(window);
        } else if !segment.flags.has(TcpFlags::RST) {
            self.window = Some(window);
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
            blocked_payload_bytes: self.blocked.finish(),
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
    ssh: bool,
    capture_began_ns: u64,
    began_ns: u64,
    last_ns: u64,
    handshake: super::ObservedHandshake,
    forward: TrackedDirection,
    reverse: TrackedDirection,
    opener_end: EndSampler,
    listener_end: EndSampler,
}

/// A capture that sees less than this share of the RTT between itself and one end was taken there.
const NEAR_RATIO: f64 = 0.15;
/// Shorter round trips are within one host.
const SAME_HOST_US: u64 = 200;
/// The payload of a segment if neither the handshake nor the packets tell.
const USUAL_MSS: u64 = 1448;
/// A larger payload was merged by the interface.
const MAX_MSS: u64 = 9000;

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
        let began_us = packet.at_ns.saturating_sub(capture_began_ns) / 1000;
        TrackedFlow {
            opener,
            listener,
            udp: packet.transport == PacketTransport::Udp,
            ssh: false,
            capture_began_ns,
            began_ns: packet.at_ns,
            last_ns: packet.at_ns,
            handshake: super::ObservedHandshake::default(),
            forward: TrackedDirection::default(),
            reverse: TrackedDirection::default(),
            opener_end: EndSampler::new(began_us),
            listener_end: EndSampler::new(began_us),
        }
    }

    /// Returns whether this packet opens another connection with the same ports, after this one ended.
    pub fn is_followed_by(&self, packet: &DecodedPacket) -> bool {
        let PacketTransport::Tcp(segment) = &packet.transport else { return false };
        let own = if packet.from == self.opener { &self.forward } else { &self.reverse };
        let ends = [&self.forward.tcp, &self.reverse.tcp];
        segment.flags.has(TcpFlags::SYN)
            && !segment.flags.has(TcpFlags::ACK)
            && ends.iter().any(|way| way.fin || way.rst)
            && own.covered.begins_elsewhere(segment.sequence)
    }

    /// Adds a packet; returns whether its payload is new.
    pub fn add_packet(&mut self, packet: &DecodedPacket, budget: &mut usize) -> bool {
        self.last_ns = self.last_ns.max(packet.at_ns);
        let from_opener = packet.from == self.opener;
        let PacketTransport::Tcp(segment) = &packet.transport else {
            if from_opener { &mut self.forward } else { &mut self.reverse }.count(packet);
            return true;
        };
        let at_us = self.last_ns.saturating_sub(self.capture_began_ns) / 1000;
        let (sender, receiver) = if from_opener {
            (&mut self.opener_end, &mut self.listener_end)
        } else {
            (&mut self.listener_end, &mut self.opener_end)
        };
        let (own, other) = if from_opener {
            (&mut self.forward, &mut self.reverse)
        } else {
            (&mut self.reverse, &mut self.forward)
        };
        let (own_view, other_view) = view_ends(own, other, &self.handshake, from_opener);
        sender.advance(at_us, own_view);
        receiver.advance(at_us, other_view);
        own.count(packet);
        self.ssh |= own.way.payload_packets == 1 && packet.payload.is_some_and(|head| head.is_ssh);
        self.handshake.add_segment(segment, from_opener, packet.at_ns);
        other.add_peer_segment(packet, segment);
        let highest = own.covered.highest();
        let context = SegmentContext {
            round_trip_ns: self.handshake.round_trip_ns(),
            mss_bytes: own.segment_bytes(self.handshake.segment_bytes()) as u32,
        };
        let is_new = own.add_own_segment(packet, segment, context, budget);
        let is_fresh = own.covered.highest() > highest;
        let (own_view, other_view) = view_ends(own, other, &self.handshake, from_opener);
        sender.add_sent(packet, segment, is_fresh, own_view);
        receiver.add_received(packet, segment, other_view);
        is_new
    }

    /// Returns the flow, on whose path this policer was found, and the samples of the end where it was
    /// captured.
    pub fn finish(
        mut self,
        policer: Option<CapturedPolicer>,
    ) -> (CapturedFlow, Option<FlowSeries>) {
        let shifts = self.handshake.shifts();
        let point = self.find_capture_point();
        let mut series = (!self.udp).then(|| self.take_series(point));
        let flow = CapturedFlow {
            protocol: if self.udp { "udp" } else { "tcp" }.to_owned(),
            ssh: self.ssh,
            opener: self.opener.to_string(),
            listener: self.listener.to_string(),
            started_us: self.began_ns.saturating_sub(self.capture_began_ns) / 1000,
            duration_us: self.last_ns.saturating_sub(self.began_ns) / 1000,
            capture_point: point,
            policer,
            handshake: self.handshake.finish(),
            forward: self.forward.finish(shifts.map(|(opener, _)| opener)),
            reverse: self.reverse.finish(shifts.map(|(_, listener)| listener)),
        };
        if let Some(series) = &mut series {
            series.options = describe_options(&flow, series.local == self.opener);
            series.captured = Some(flow.clone());
        }
        (flow, series)
    }

    /// Returns the place of the capture: the round trips to both ends tell, those of the data or those
    /// of the handshake.
    fn find_capture_point(&self) -> Option<CapturePoint> {
        if self.udp {
            return None;
        }
        let is_forward = self.sends_forward();
        let (way, receiver) = if is_forward {
            (&self.forward, &self.listener_end)
        } else {
            (&self.reverse, &self.opener_end)
        };
        let of_data = way.least_rtt_us().zip(receiver.least_echo_us()).map(|(far, near)| {
            // The first is the RTT to the receiver, the second that to the sender.
            if is_forward { (near, far) } else { (far, near) }
        });
        let (to_opener, to_listener) = of_data.or_else(|| self.handshake.half_trips_us())?;
        let whole = to_opener.saturating_add(to_listener);
        let is_near = |us: u64| us as f64 <= NEAR_RATIO * whole as f64;
        Some(if whole < SAME_HOST_US {
            if is_forward { CapturePoint::Opener } else { CapturePoint::Listener }
        } else if is_near(to_opener) {
            CapturePoint::Opener
        } else if is_near(to_listener) {
            CapturePoint::Listener
        } else {
            CapturePoint::Between
        })
    }

    fn sends_forward(&self) -> bool {
        self.forward.way.payload_bytes >= self.reverse.way.payload_bytes
    }

    /// Returns the samples of the end where the capture was taken, or else of the sender.
    fn take_series(&mut self, point: Option<CapturePoint>) -> FlowSeries {
        let is_opener = match point {
            Some(CapturePoint::Opener) => true,
            Some(CapturePoint::Listener) => false,
            _ => self.sends_forward(),
        };
        let (own, other) =
            if is_opener { (&self.forward, &self.reverse) } else { (&self.reverse, &self.forward) };
        let (view, _) = view_ends(own, other, &self.handshake, is_opener);
        let end = if is_opener { &mut self.opener_end } else { &mut self.listener_end };
        let at_us = self.last_ns.saturating_sub(self.capture_began_ns) / 1000;
        let samples = std::mem::replace(end, EndSampler::new(at_us)).finish(at_us, view);
        let (local, peer) =
            if is_opener { (self.opener, self.listener) } else { (self.listener, self.opener) };
        FlowSeries {
            max_pacing_bps: find_pacing_bps(&samples),
            ..FlowSeries::new(local, peer, samples)
        }
    }

    pub fn key(&self) -> super::CaptureFlowKey {
        super::flow_key(self.opener, self.listener, self.udp)
    }

    /// Takes the packets of the direction that carries the data, if they were captured at the sender.
    pub fn take_sent_packets(&mut self) -> Option<SentPackets> {
        let is_forward = self.sends_forward();
        let receiver = if is_forward { CapturePoint::Listener } else { CapturePoint::Opener };
        let way = if is_forward { &mut self.forward } else { &mut self.reverse };
        let mut sent = std::mem::take(&mut way.sent);
        sent.is_partial = self.handshake.opener.is_none();
        (!self.udp && self.find_capture_point() != Some(receiver)).then_some(sent)
    }

    /// Returns the sender of the data and its receiver.
    pub fn data_path(&self) -> (IpAddr, IpAddr) {
        let (opener, listener) = (self.opener.ip(), self.listener.ip());
        if self.sends_forward() { (opener, listener) } else { (listener, opener) }
    }

    /// Returns the bytes of payload, and the time of the last packet.
    pub fn extent(&self) -> (u64, u64) {
        (self.forward.way.payload_bytes + self.reverse.way.payload_bytes, self.last_ns)
    }

    pub fn packets(&self) -> u64 {
        self.forward.way.packets + self.reverse.way.packets
    }
}

/// Returns the median rate of a pacer that seems to limit half of the samples.
fn find_pacing_bps(samples: &[FlowSample]) -> Option<u64> {
    let paced = samples.iter().filter_map(|sample| sample.tcp.pacing_bps);
    let mut paced: Vec<u64> = paced.collect();
    paced.sort_unstable();
    paced.get(paced.len() / 2).copied().filter(|_| 2 * paced.len() > samples.len())
}

/// Returns the views of the sender of `own` and of its peer.
fn view_ends<'a>(
    own: &'a TrackedDirection,
    other: &'a TrackedDirection,
    handshake: &super::ObservedHandshake,
    own_is_opener: bool,
) -> (EndView<'a>, EndView<'a>) {
    let shifts = handshake.shifts();
    let own_shift = shifts.map(|it| if own_is_opener { it.0 } else { it.1 });
    let other_shift = shifts.map(|it| if own_is_opener { it.1 } else { it.0 });
    let (own_window, peer_window) = (own.window_bytes(own_shift), other.window_bytes(other_shift));
    let offered = handshake.segment_bytes();
    let mss_bytes = own.segment_bytes(offered);
    let view = EndView { sent: own, received: other, peer_window, own_window, mss_bytes };
    let peer_view = EndView {
        sent: other,
        received: own,
        peer_window: own_window,
        own_window: peer_window,
        mss_bytes: other.segment_bytes(offered),
    };
    (view, peer_view)
}

/// Returns the options in force at one end, if the handshake was captured.
fn describe_options(flow: &CapturedFlow, is_opener: bool) -> Option<TcpOptions> {
    let handshake = flow.handshake?;
    let agreed = handshake.agreed?;
    let shifts = (handshake.opener.window_shift, handshake.listener?.window_shift);
    let (own_shift, peer_shift) = if is_opener { shifts } else { (shifts.1, shifts.0) };
    Some(TcpOptions {
        timestamps: agreed.timestamps,
        sack: agreed.sack,
        window_scaling: agreed.window_scaling,
        ecn: agreed.ecn,
        send_window_shift: peer_shift,
        receive_window_shift: own_shift,
    })
}
