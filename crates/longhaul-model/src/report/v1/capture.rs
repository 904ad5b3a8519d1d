//! Captures: the plan, the result of a run's capture, and the analysis of a capture file.

use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

/// The value of [`CaptureReading::schema`].
pub const SCHEMA: &str = "longhaul.capture/1";

/// The capture of a run: packets of the run's own streams, at this end.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CapturePlan {
    /// Bytes kept of each packet, from its IP header on; absent: only the headers.
    pub snap_bytes: Option<u32>,
    /// Maximum number of packets.
    pub packets: u64,
    /// Keep the last packets instead of the first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub last: bool,
    /// The peer captures as well.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub far: bool,
}

/// The result of the capture at one end.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CaptureResult {
    /// File name without folder; absent: no file was written.
    pub file: Option<String>,
    /// Packets in the file.
    pub packets: u64,
    /// Size of the file.
    pub file_bytes: Option<u64>,
    /// Maximum bytes kept of each packet; absent: only the headers.
    pub snap_bytes: Option<u32>,
    /// The capture filter, in the syntax of pcap-filter(7).
    pub filter: String,
    /// Interfaces that packets were seen on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<String>,
    /// Packets that the kernel dropped because its buffer was full.
    pub dropped_packets: Option<u64>,
    /// Packets seen and left out because the limit was reached. Absent when the first packets are
    /// kept, because counting stops at the limit.
    pub left_out_packets: Option<u64>,
    /// The limit was reached: the run has more packets than the file.
    #[serde(default)]
    pub limited: bool,
    /// CPU time and running time of the capturing thread.
    pub cpu_us: Option<u64>,
    pub duration_us: Option<u64>,
}

/// The analysis of a capture file.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CaptureReading {
    pub schema: String,
    /// `pcapng` or `pcap`.
    pub format: String,
    /// Program and comments that the file names.
    pub application: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub comments: Vec<String>,
    pub interfaces: Vec<CaptureInterface>,
    /// All complete packets in the file.
    pub packets: u64,
    /// Packets among these that are not TCP or UDP over IP, or cannot be decoded.
    pub other_packets: u64,
    /// Time of the first packet (UTC, RFC 3339), and the time from it to the last one.
    pub started_at: Option<String>,
    pub duration_us: u64,
    /// Position and kind of the damage; everything before it is analysed.
    pub damage: Option<String>,
    pub flows: Vec<CapturedFlow>,
    /// Packets of flows beyond the maximum number of flows.
    pub left_out_packets: u64,
    /// Absent: too little payload was captured.
    pub payload: Option<PayloadVariety>,
}

/// An interface named in a capture file.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CaptureInterface {
    pub name: Option<String>,
    /// Number of the link type in the file.
    pub link_type_number: u16,
    pub snap_bytes: Option<u32>,
    pub filter: Option<String>,
    /// Counters of the capturing program: packets received, and packets dropped because its buffer
    /// was full.
    pub received_packets: Option<u64>,
    pub dropped_packets: Option<u64>,
}

/// One flow, in both directions.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapturedFlow {
    /// `tcp` or `udp`.
    pub protocol: String,
    /// True: the payload of the connection begins as that of SSH.
    #[serde(default)]
    pub ssh: bool,
    /// The end that opened the connection; without a handshake, the sender of the first packet.
    pub opener: String,
    pub listener: String,
    /// Time from the first packet of the capture to the first of the flow, and from there to its
    /// last.
    pub started_us: u64,
    pub duration_us: u64,
    /// Absent: UDP, or the times of the packets do not tell.
    pub capture_point: Option<CapturePoint>,
    /// Absent: the start of the connection is not in the capture.
    pub handshake: Option<TcpHandshake>,
    /// The policer that explains which packets were lost; absent: none does.
    pub policer: Option<CapturedPolicer>,
    /// From the opener to the listener.
    pub forward: FlowDirection,
    pub reverse: FlowDirection,
}

/// The place of the capture on the path of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CapturePoint {
    /// At the end that opened the connection.
    Opener,
    Listener,
    Between,
}

/// A policer found from single packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapturedPolicer {
    /// Of IP packets.
    pub rate_bps: u64,
    /// The rate may be higher.
    #[serde(default)]
    pub is_lower_bound: bool,
    /// Absent: the bucket was never seen full.
    pub burst_bytes: Option<u64>,
}

/// The packet headers that a sender captured beside its counters.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HeaderCapture {
    /// In both directions; one that the interface splits later counts once.
    pub packets: u64,
    /// Packets that the kernel dropped because this program did not read them in time.
    pub dropped_packets: Option<u64>,
    pub retransmitted_packets: u64,
    /// The policer that explains which packets were lost; absent: none does.
    pub policer: Option<CapturedPolicer>,
}

/// The handshake of a TCP connection.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TcpHandshake {
    pub opener: HandshakeOffer,
    /// Absent: the answer was not captured.
    pub listener: Option<HandshakeOffer>,
    /// The options in force: both ends offered them. Absent without an answer.
    pub agreed: Option<NegotiatedOptions>,
    /// Time from the first packet to its answer, at the capture point: the RTT if captured at the
    /// opener, the processing time of the listener's kernel if captured at the listener. Absent if
    /// either was retransmitted.
    pub answered_us: Option<u64>,
    /// Time from the answer to the opener's acknowledgement: the RTT if captured at the listener.
    pub acknowledged_us: Option<u64>,
}

/// The options and the window that one end offered in its first packet.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HandshakeOffer {
    pub mss_bytes: Option<u32>,
    pub window_shift: Option<u8>,
    pub sack: bool,
    pub timestamps: bool,
    pub ecn: bool,
    pub window_bytes: u32,
}

/// The options that both ends offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NegotiatedOptions {
    pub window_scaling: bool,
    pub sack: bool,
    pub timestamps: bool,
    pub ecn: bool,
}

/// The packets of one direction of a flow.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FlowDirection {
    pub packets: u64,
    /// Length from the IP header on.
    pub wire_bytes: u64,
    pub payload_packets: u64,
    pub payload_bytes: u64,
    /// Largest payload of one packet; exceeds the MSS if the interface splits or merges segments.
    pub largest_payload_bytes: u32,
    pub tcp: Option<TcpFlowDirection>,
    /// Packets marked "congestion experienced".
    pub marked_packets: u64,
}

/// The TCP analysis of one direction of a flow.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TcpFlowDirection {
    /// Payload by sequence number, each byte counted once.
    pub unique_bytes: u64,
    /// Packets with payload that is in the capture twice, or that arrived more than one round trip
    /// late.
    pub retransmitted_packets: u64,
    pub retransmitted_bytes: u64,
    /// Packets overtaken by later ones.
    pub reordered_packets: u64,
    /// Acknowledgements that the peer repeated without new data.
    pub duplicate_ack_packets: u64,
    /// Bytes that the peer acknowledged but the capture does not contain.
    pub unseen_bytes: u64,
    /// RTT from a packet of this direction to its acknowledgement, at the capture point.
    pub rtt: Option<CapturedRtt>,
    /// Largest and smallest window advertised by the sender of this direction, scaling applied.
    /// Absent: the scale is unknown.
    pub largest_window_bytes: Option<u64>,
    pub smallest_window_bytes: Option<u64>,
    /// The number of zero windows advertised.
    pub zero_window_packets: u64,
    /// Maximum bytes sent and not yet acknowledged, at the capture point.
    pub most_in_flight_bytes: u64,
    pub fin: bool,
    pub rst: bool,
    /// Retransmits after a retransmission timeout, and the time that passed before them.
    #[serde(default)]
    pub timeouts: u64,
    #[serde(default)]
    pub timeout_us: u64,
    /// Acknowledgements of segments that had arrived before (DSACK, RFC 2883).
    #[serde(default)]
    pub duplicate_sack_packets: u64,
    /// Resets whose hop limit differs from that of the other packets of their sender.
    #[serde(default)]
    pub foreign_reset_packets: u64,
    /// The payload of a segment that was repeated after timeouts and never acknowledged, although
    /// smaller ones were.
    pub blocked_payload_bytes: Option<u32>,
}

/// Minimum, median and maximum RTT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CapturedRtt {
    pub samples: u64,
    pub least_us: u64,
    pub median_us: u64,
    pub most_us: u64,
}

/// The variety of the payload from packet to packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PayloadVariety {
    /// Packets whose first bytes were compared.
    pub packets: u64,
    /// The number of first bytes compared in each packet.
    pub compared_bytes: u32,
    pub distinct_packets: u64,
    /// Packets that start with the most frequent bytes.
    pub most_repeated_packets: u64,
}
