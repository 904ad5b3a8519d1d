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
//!
//! # Capture RTT
//!
//! RTTs of a direction, measured at the capture point.
//!
//! From a packet to the first acknowledgement of its end. Retransmitted packets are excluded, since it
//! is unknown which copy was acknowledged (Karn).
//!
//! Source: Karn and Partridge 1987. Units: us in the report, ns here.
//! Error: delayed acknowledgements are included, up to 40 ms on Linux; the median uses at most 4096
//! evenly spread samples.
//! Wrong when: the capture is from the receiver: then only that host's response time is measured.
//!
//! # TCP handshake
//!
//! The options that both ends of a TCP connection offered, those in force, and the times.
//!
//! An option is in force if both ends offered it: shifts and timestamps (RFC 7323), selective
//! acknowledgements (RFC 2018); ECN if the opener set both flags and the listener one (RFC 3168).
//!
//! Source: those. Units: bytes, us. Error: none; a middlebox may change the options, so the
//! captures of the two ends may differ, which is useful evidence.
//! Wrong when: the capture began after the handshake (then it has none).
//!
//! # Sequence coverage
//!
//! Tracks the bytes seen of a TCP direction, by sequence number.
//!
//! Sequence numbers wrap around; they are extended to 64 bits relative to the first one, each as
//! close as possible to the highest seen. Real paths have few holes: beyond a limit the oldest is
//! dropped, as if its bytes had been seen.
//!
//! Source: RFC 9293, section 3.4. Units: bytes. Error: none within 2 GiB of the highest byte.
//! Wrong when: more holes are open at once than the limit of 1024.
//!
//! ## Variety of payloads
//!
//! Checks that payload differs from packet to packet, as rule 6 of the Land Speed Record requires.
//!
//! Compares the first bytes of each new payload. Packets with fewer captured bytes are skipped: a
//! short payload always differs from a long one.
//!
//! Source: rule 6 as the submissions quote it. Units: packets. Error: none for what is compared.
//! Wrong when: payloads differ only after their first bytes, or there are more than 65536 distinct
//! heads (then only the first packets are compared).

/// The maximum number of unacknowledged packets that are tracked.
const MAX_PENDING_PACKETS: usize = 8192;
const MAX_RTT_SAMPLES: usize = 4096;

/// RTT samples, thinned evenly.
#[derive(Debug, Clone, Default)]
struct RttSamples {
    count: u64,
    least_ns: u64,
    most_ns: u64,
    kept: Vec<u64>,
    /// Every `stride`-th sample is kept.
    stride: u64,
}

impl RttSamples {
    fn add(&mut self, sample_ns: u64) {
        if self.count == 0 {
            (self.least_ns, self.stride) = (sample_ns, 1);
        }
        self.least_ns = self.least_ns.min(sample_ns);
        self.most_ns = self.most_ns.max(sample_ns);
        if self.count.is_multiple_of(self.stride) {
            self.kept.push(sample_ns);
        }
        self.count += 1;
        if self.kept.len() >= MAX_RTT_SAMPLES {
            let mut number = 0;
            self.kept.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.stride *= 2;
        }
    }

    pub fn least_us(&self) -> Option<u64> {
        (self.count > 0).then_some(self.least_ns / 1000)
    }

    pub fn finish(mut self) -> Option<CapturedRtt> {
        self.kept.sort_unstable();
        let median_ns = *self.kept.get(self.kept.len() / 2)?;
        Some(CapturedRtt {
            samples: self.count,
            least_us: self.least_ns / 1000,
            median_us: median_ns / 1000,
            most_us: self.most_ns / 1000,
        })
    }
}

/// RTTs from acknowledgements.
#[derive(Debug, Clone, Default)]
struct AckRtt {
    /// End and send time of unacknowledged packets, in order of their ends.
    waiting: VecDeque<(u64, u64)>,
    pub samples: RttSamples,
}

impl AckRtt {
    pub fn sent(&mut self, end: u64, at_ns: u64) {
        if self.waiting.len() >= MAX_PENDING_PACKETS {
            self.waiting.pop_front();
        }
        self.waiting.push_back((end, at_ns));
    }

    /// Discards pending packets after a retransmit or reordering: they are ambiguous.
    pub fn discard_pending(&mut self) {
        self.waiting.clear();
    }

    /// Returns the RTT of the last packet that this acknowledges.
    pub fn acknowledged(&mut self, place: u64, at_ns: u64) -> Option<u64> {
        let mut last = None;
        while let Some((_, sent_ns)) = self.waiting.front().filter(|(end, _)| *end <= place) {
            last = Some(*sent_ns);
            self.waiting.pop_front();
        }
        let sample_ns = at_ns.saturating_sub(last?);
        self.samples.add(sample_ns);
        Some(sample_ns)
    }
}

/// Compares timestamps, which wrap around.
fn is_later_timestamp(one: u32, other: u32) -> bool {
    one.wrapping_sub(other).cast_signed() > 0
}

/// A TCP handshake as observed.
#[derive(Debug, Clone, Default)]
struct ObservedHandshake {
    opener: Option<(HandshakeOffer, u64)>,
    listener: Option<(HandshakeOffer, u64)>,
    /// Set if the SYN or the SYN/ACK was retransmitted: its time is then ambiguous.
    opener_again: bool,
    listener_again: bool,
    acknowledged_ns: Option<u64>,
}

impl ObservedHandshake {
    /// Adds a packet of the connection.
    pub fn add_segment(&mut self, segment: &TcpHeader, from_opener: bool, at_ns: u64) {
        let syn = segment.flags.has(TcpFlags::SYN);
        match (from_opener, syn) {
            (true, true) if self.opener.is_some() => self.opener_again = true,
            (true, true) => {
                let ecn = segment.flags.has(TcpFlags::ECE | TcpFlags::CWR);
                self.opener = Some((read_offer(segment, ecn), at_ns));
            }
            (false, true) if self.listener.is_some() => self.listener_again = true,
            (false, true) => {
                let ecn = segment.flags.has(TcpFlags::ECE) && !segment.flags.has(TcpFlags::CWR);
                self.listener = Some((read_offer(segment, ecn), at_ns));
            }
            (true, false) if self.listener.is_some() && segment.flags.has(TcpFlags::ACK) => {
                self.acknowledged_ns.get_or_insert(at_ns);
            }
            _ => {}
        }
    }

    /// Returns the window shifts of opener and listener; `None` if the handshake was not seen.
    pub fn shifts(&self) -> Option<(u8, u8)> {
        let (opener, listener) = (self.opener.as_ref()?.0, self.listener.as_ref()?.0);
        Some(match (opener.window_shift, listener.window_shift) {
            (Some(opener), Some(listener)) => (opener, listener),
            _ => (0, 0),
        })
    }

    /// Returns the payload of a full segment.
    pub fn segment_bytes(&self) -> Option<u64> {
        let (opener, listener) = (self.opener.as_ref()?.0, self.listener.as_ref()?.0);
        let mss = opener.mss_bytes?.min(listener.mss_bytes?);
        let options = if opener.timestamps && listener.timestamps { TIMESTAMP_BYTES } else { 0 };
        u64::from(mss).checked_sub(options).filter(|bytes| *bytes > 0)
    }

    /// Returns the RTTs between the capture and both ends, in us; `None` after a retransmit.
    pub fn half_trips_us(&self) -> Option<(u64, u64)> {
        self.round_trip_ns()?;
        let (asked, answered, ended) =
            (self.opener.as_ref()?.1, self.listener.as_ref()?.1, self.acknowledged_ns?);
        Some((ended.saturating_sub(answered) / 1000, answered.saturating_sub(asked) / 1000))
    }

    /// Returns the time from the opener's first packet to the end of the handshake: one RTT at any
    /// capture point. `None` after a retransmit.
    pub fn round_trip_ns(&self) -> Option<u64> {
        let began = self.opener.as_ref().filter(|_| !self.opener_again)?.1;
        let ended = self.acknowledged_ns.filter(|_| !self.listener_again)?;
        Some(ended.saturating_sub(began))
    }

    pub fn finish(self) -> Option<TcpHandshake> {
        let (opener, asked_ns) = self.opener?;
        let listener = self.listener.map(|(offer, _)| offer);
        let since = |from: u64, to: u64| to.saturating_sub(from) / 1000;
        let answered_ns = self.listener.map(|(_, at_ns)| at_ns);
        Some(TcpHandshake {
            opener,
            listener,
            agreed: listener.map(|listener| NegotiatedOptions {
                window_scaling: opener.window_shift.is_some() && listener.window_shift.is_some(),
                sack: opener.sack && listener.sack,
                timestamps: opener.timestamps && listener.timestamps,
                ecn: opener.ecn && listener.ecn,
            }),
            answered_us: answered_ns
                .filter(|_| !self.opener_again)
                .map(|at_ns| since(asked_ns, at_ns)),
            acknowledged_us: answered_ns
                .zip(self.acknowledged_ns)
                .filter(|_| !self.listener_again)
                .map(|(from, to)| since(from, to)),
        })
    }
}

fn read_offer(segment: &TcpHeader, ecn: bool) -> HandshakeOffer {
    let options = &segment.options;
    HandshakeOffer {
        mss_bytes: options.mss_bytes.map(u32::from),
        window_shift: options.window_shift,
        sack: options.sack_permitted,
        timestamps: options.timestamps.is_some(),
        ecn,
        window_bytes: u32::from(segment.window),
    }
}

const MAX_HOLES: usize = 1024;

/// Missing bytes, and the packet that revealed them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SequenceHole {
    from: u64,
    to: u64,
    /// The time and the TCP timestamp of the packet that showed a later byte.
    pub at_ns: u64,
    pub stamp: Option<u32>,
}

/// The contribution of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct SegmentCoverage {
    /// Bytes above the highest seen so far.
    pub fresh: u64,
    /// Bytes that fill holes, and the first of these holes.
    pub filled: u64,
    pub hole: Option<SequenceHole>,
    /// Bytes seen before.
    pub again: u64,
    /// The extended sequence number after its last byte.
    pub to: u64,
}

/// The bytes seen of one direction.
#[derive(Debug, Clone, Default)]
struct SequenceCoverage {
    /// The sequence number that maps to `START`.
    origin: Option<u32>,
    highest: u64,
    holes: VecDeque<SequenceHole>,
}

/// The position of the first byte, which leaves room for earlier ones.
const START: u64 = 1 << 40;

impl SequenceCoverage {
    /// Maps the first sequence number to `START`; the bytes before it are a hole.
    pub fn begin(&mut self, sequence: u32, at_ns: u64, stamp: Option<u32>) {
        if self.origin.is_none() {
            (self.origin, self.highest) = (Some(sequence), START);
            self.open_hole(SequenceHole { from: 0, to: START, at_ns, stamp });
        }
    }

    /// Returns whether the first sequence number is known and differs from this one.
    pub fn begins_elsewhere(&self, sequence: u32) -> bool {
        self.origin.is_some_and(|origin| origin != sequence)
    }

    /// Returns the extended position of a sequence number.
    fn position(&self, sequence: u32) -> u64 {
        let origin = self.origin.unwrap_or(sequence);
        let of_highest = origin.wrapping_add(self.highest.wrapping_sub(START) as u32);
        let step = sequence.wrapping_sub(of_highest).cast_signed();
        self.highest.saturating_add_signed(i64::from(step))
    }

    /// Returns the position of an acknowledged number; `None` before the first packet.
    pub fn known_position(&self, sequence: u32) -> Option<u64> {
        self.origin?;
        Some(self.position(sequence))
    }

    /// Returns the end of the highest byte seen.
    pub fn highest(&self) -> Option<u64> {
        self.origin.map(|_| self.highest)
    }

    /// Adds a packet with `length` bytes of sequence space.
    pub fn add_segment(
        &mut self,
        sequence: u32,
        length: u64,
        at_ns: u64,
        stamp: Option<u32>,
    ) -> SegmentCoverage {
        self.begin(sequence, at_ns, stamp);
        let from = self.position(sequence);
        let to = from + length;
        let mut brought = SegmentCoverage {
            fresh: to.saturating_sub(from.max(self.highest)),
            to,
            ..SegmentCoverage::default()
        };
        if from > self.highest {
            self.open_hole(SequenceHole { from: self.highest, to: from, at_ns, stamp });
        }
        if from < self.highest {
            self.fill_holes(from, to, &mut brought);
        }
        brought.again = length - brought.fresh - brought.filled;
        self.highest = self.highest.max(to);
        brought
    }

    fn open_hole(&mut self, hole: SequenceHole) {
        if self.holes.len() >= MAX_HOLES {
            self.holes.pop_front();
        }
        self.holes.push_back(hole);
    }

    fn fill_holes(&mut self, from: u64, to: u64, brought: &mut SegmentCoverage) {
        if self.holes.is_empty() {
            return;
        }
        let mut left = VecDeque::with_capacity(self.holes.len());
        for hole in self.holes.drain(..) {
            let (start, end) = (hole.from.max(from), hole.to.min(to));
            if start >= end {
                left.push_back(hole);
                continue;
            }
            brought.filled += end - start;
            brought.hole.get_or_insert(hole);
            let before = SequenceHole { to: start, ..hole };
            let behind = SequenceHole { from: end, ..hole };
            left.extend([before, behind].into_iter().filter(|it| it.from < it.to));
        }
        left.truncate(MAX_HOLES);
        self.holes = left;
    }

    /// Returns true if bytes at or above `place` are missing.
    pub fn has_hole_above(&self, place: u64) -> bool {
        self.holes.back().is_some_and(|hole| hole.to > place)
    }

    /// Returns the number of bytes below `place` that were never seen, from the first packet on.
    pub fn unseen_below(&self, place: u64) -> u64 {
        let inside = |hole: &SequenceHole| hole.to.min(place).saturating_sub(hole.from);
        let holes: u64 = self.holes.iter().filter(|hole| hole.to > START).map(inside).sum();
        let beyond = self.highest().map_or(0, |highest| place.saturating_sub(highest));
        holes + beyond
    }
}

/// The length of the head that the decoder hashes; shorter payloads are skipped.
const COMPARED_BYTES: u32 = 64;
const MAX_KNOWN_HEADS: usize = 1 << 16;

#[derive(Debug, Clone, Default)]
struct PayloadHeads {
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

mod end_sampler;
mod packet_policer;
mod send_bursts;
mod sent_packets;
#[cfg(test)]
mod tests;
mod tracked_direction;

use longhaul_model::decoded_packet::{DecodedPacket, PacketTransport, TcpFlags, TcpHeader};
use longhaul_model::report::v1::capture::{
    CapturedFlow, CapturedPolicer, CapturedRtt, HandshakeOffer, NegotiatedOptions, PayloadVariety,
    TcpHandshake,
};
use longhaul_model::report::v1::flows::flow_grouping::FlowSeries;
use packet_policer::find_policer_by_packets;
use sent_packets::{MAX_REPLAY_PACKETS, SentPackets};
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use tracked_direction::TrackedFlow;

/// The maximum number of flows analysed at once. Beyond it, the older small flows are finished.
pub const MAX_CAPTURE_FLOWS: usize = 512;
/// The maximum number of flows finished early. Beyond it, small flows are left out.
const MAX_ENDED_FLOWS: usize = 4096;
/// A flow of less payload is small.
const SMALL_FLOW_BYTES: u64 = 16 * 1024;
/// The bytes of the timestamps in each header.
const TIMESTAMP_BYTES: u64 = 12;

/// Both endpoints in sorted order, and whether the protocol is UDP.
type CaptureFlowKey = (SocketAddr, SocketAddr, bool);

fn flow_key(one: SocketAddr, other: SocketAddr, udp: bool) -> CaptureFlowKey {
    (one.min(other), one.max(other), udp)
}

/// Follows the flows of a capture.
#[derive(Debug, Default)]
pub struct CaptureAnalyser {
    places: HashMap<CaptureFlowKey, usize>,
    flows: Vec<TrackedFlow>,
    ended: Vec<CapturedFlow>,
    first_ns: Option<u64>,
    left_out: u64,
    payloads: PayloadHeads,
    /// Packets that were kept for the search for policers.
    kept_packets: usize,
}

/// The result of the analysis.
#[derive(Debug, Clone, Default)]
pub struct CaptureFlows {
    /// In order of their first packet.
    pub flows: Vec<CapturedFlow>,
    pub left_out_packets: u64,
    /// Absent if too little payload was captured.
    pub payload: Option<PayloadVariety>,
    /// The samples of the TCP flows, each at the end where it was captured.
    pub series: Vec<FlowSeries>,
}

impl CaptureAnalyser {
    pub fn add_packet(&mut self, packet: &DecodedPacket) {
        let first_ns = *self.first_ns.get_or_insert(packet.at_ns);
        let udp = packet.transport == PacketTransport::Udp;
        let key = flow_key(packet.from, packet.to, udp);
        let known = self.places.get(&key).copied();
        let place = match known.filter(|place| !self.flows[*place].is_followed_by(packet)) {
            Some(place) => place,
            None if self.has_room() => {
                self.flows.push(TrackedFlow::new(packet, first_ns));
                self.places.insert(key, self.flows.len() - 1);
                self.flows.len() - 1
            }
            None => {
                self.left_out += 1;
                return;
            }
        };
        let mut budget = MAX_REPLAY_PACKETS - self.kept_packets;
        let fresh = self.flows[place].add_packet(packet, &mut budget);
        self.kept_packets = MAX_REPLAY_PACKETS - budget;
        if fresh {
            self.payloads.add_packet(packet);
        }
    }

    /// Looks for a policer on each path, with the packets of all its flows.
    fn find_policers(&mut self) -> HashMap<(IpAddr, IpAddr), CapturedPolicer> {
        let mut paths: HashMap<(IpAddr, IpAddr), SentPackets> = HashMap::new();
        for flow in &mut self.flows {
            if let Some(sent) = flow.take_sent_packets() {
                paths.entry(flow.data_path()).or_default().merge(sent);
            }
        }
        let found = paths.into_iter().filter_map(|(path, sent)| {
            Some((
                path,
                find_policer_by_packets(&sent.packets, &sent.round_trips, sent.is_partial)?,
            ))
        });
        found.collect()
    }

    /// Makes room for a flow, if there is none, by finishing the older half of the small flows.
    fn has_room(&mut self) -> bool {
        if self.flows.len() < MAX_CAPTURE_FLOWS {
            return true;
        }
        let is_small = |flow: &TrackedFlow| flow.extent().0 < SMALL_FLOW_BYTES;
        let mut times: Vec<u64> =
            self.flows.iter().filter(|flow| is_small(flow)).map(|flow| flow.extent().1).collect();
        times.sort_unstable();
        let Some(until) = times.get(times.len() / 2) else { return false };
        let has_ended = |flow: &mut TrackedFlow| is_small(flow) && flow.extent().1 <= *until;
        for flow in self.flows.extract_if(.., has_ended) {
            if self.ended.len() < MAX_ENDED_FLOWS {
                self.ended.push(flow.finish(None).0);
            } else {
                self.left_out += flow.packets();
            }
        }
        self.places = self.flows.iter().map(TrackedFlow::key).zip(0..).collect();
        true
    }

    pub fn finish(mut self) -> CaptureFlows {
        let policers = self.find_policers();
        let finished = self.flows.into_iter().map(|flow| {
            let policer = policers.get(&flow.data_path()).copied();
            flow.finish(policer)
        });
        let (mut flows, series): (Vec<_>, Vec<_>) = finished.unzip();
        flows.append(&mut self.ended);
        flows.sort_by_key(|flow| flow.started_us);
        CaptureFlows {
            flows,
            left_out_packets: self.left_out,
            payload: self.payloads.finish(),
            series: series.into_iter().flatten().collect(),
        }
    }
}

#[cfg(test)]
mod sequence_coverage_tests {
    use super::*;

    #[test]
    fn holes_open_fill_and_what_was_there_is_seen_again() {
        let mut covered = SequenceCoverage::default();
        let near_wrap = u32::MAX - 149;
        let mut take = |step: u32, length| {
            let it = covered.add_segment(near_wrap.wrapping_add(step), length, 0, None);
            (it.fresh, it.filled, it.again)
        };
        assert_eq!(take(0, 100), (100, 0, 0));
        assert_eq!(take(300, 100), (100, 0, 0), "over a hole, and around the end of numbers");
        assert_eq!(take(150, 50), (0, 50, 0), "into the middle of it");
        assert_eq!(take(50, 100), (0, 50, 50), "half of it is new");
        assert_eq!(take(0, 400), (0, 100, 300));
        assert_eq!(take(390, 20), (10, 0, 10));
        let highest = covered.highest().expect("seen");
        assert_eq!(covered.unseen_below(highest + 5), 5);
    }

    #[test]
    fn holes_are_bounded() {
        let mut covered = SequenceCoverage::default();
        for number in 0..100_000_u32 {
            covered.add_segment(number.wrapping_mul(20), 10, 0, None);
        }
        assert!(covered.holes.len() <= MAX_HOLES);
    }
}
