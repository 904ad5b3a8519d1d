//! Captures: what is asked of them, what became of them, and what a file of packets says.

use serde::{Deserialize, Serialize};

/// The value of [`Reading::schema`].
pub const SCHEMA: &str = "longhaul.capture/1";

/// What is captured of a run: packets of its own streams, at this end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CapturePlan {
    /// Of each packet, from its IP header on; absent: the headers alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snap_bytes: Option<u32>,
    /// At most so many packets.
    pub packets: u64,
    /// The last ones; otherwise the first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub last: bool,
    /// The far end captures as well.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub far: bool,
}

/// What became of the capture at one end.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Capture {
    /// Name of the file without its folder; absent: no file was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// In the file.
    pub packets: u64,
    /// Of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_bytes: Option<u64>,
    /// Of each packet at most; absent: the headers alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snap_bytes: Option<u32>,
    /// What was let through, in the language of pcap-filter(7).
    pub filter: String,
    /// Interfaces on which packets were seen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<String>,
    /// Dropped by the kernel for want of room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped_packets: Option<u64>,
    /// Seen, and left out because the limit was reached. Nobody counted after the first packets
    /// were enough, so this is absent then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out_packets: Option<u64>,
    /// The limit was reached: the run has more packets than the file.
    #[serde(default)]
    pub limited: bool,
    /// CPU time of the thread that captured, and how long it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_us: Option<u64>,
}

/// What a file of packets says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    pub schema: String,
    /// `pcapng` or `pcap`.
    pub format: String,
    /// What the file says of itself: program and comments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub comments: Vec<String>,
    pub interfaces: Vec<CapturedOn>,
    /// All that are whole in the file.
    pub packets: u64,
    /// Of these, no TCP or UDP over IP, or not decodable.
    pub other_packets: u64,
    /// Of the first packet; UTC, RFC 3339, and how long to the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    pub duration_us: u64,
    /// Where the file is damaged and why; what is before that is in this reading.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damage: Option<String>,
    pub flows: Vec<Flow>,
    /// Packets of flows beyond the most that are followed.
    pub left_out_packets: u64,
    /// Absent: too little payload was captured to tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Variety>,
}

/// An interface that a file names.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CapturedOn {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Number of the link type, as in the file.
    pub link_type_number: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snap_bytes: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// Counted by whoever captured: seen, and dropped for want of room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received_packets: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped_packets: Option<u64>,
}

/// One flow, both ways.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// `tcp` or `udp`.
    pub protocol: String,
    /// Who opened it; without a handshake, who sent the first packet of it.
    pub opener: String,
    pub listener: String,
    /// From the first packet of the capture to the first of the flow, and from there to its last.
    pub started_us: u64,
    pub duration_us: u64,
    /// Absent: the capture does not show its beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handshake: Option<Handshake>,
    /// Client to listener.
    pub forward: Way,
    pub reverse: Way,
}

/// How a TCP connection began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Handshake {
    pub opener: Offer,
    /// Absent: the answer was not captured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listener: Option<Offer>,
    /// Holds for the connection: both offered it. Absent without an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agreed: Option<Agreed>,
    /// From the first packet to its answer, where the capture was taken: the round trip at the
    /// opener, the time of the listener's kernel at the listener. Absent where one was sent again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_us: Option<u64>,
    /// From the answer to the opener's acknowledgement: the round trip at the listener.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledged_us: Option<u64>,
}

/// What one end offered in its first packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Offer {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mss_bytes: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_shift: Option<u8>,
    pub sack: bool,
    pub timestamps: bool,
    pub ecn: bool,
    pub window_bytes: u32,
}

/// What both ends agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Agreed {
    pub window_scaling: bool,
    pub sack: bool,
    pub timestamps: bool,
    pub ecn: bool,
}

/// What was seen of one direction of a flow.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Way {
    pub packets: u64,
    /// From the IP header on.
    pub wire_bytes: u64,
    pub payload_packets: u64,
    pub payload_bytes: u64,
    /// Largest payload of one packet; beyond the MSS where the interface cuts or joins segments.
    pub largest_payload_bytes: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpWay>,
    /// Packets marked "congestion experienced".
    pub marked_packets: u64,
}

/// What was seen of one direction of a TCP connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TcpWay {
    /// Payload by sequence numbers, each byte once.
    pub unique_bytes: u64,
    /// Payload bytes that are in the capture twice, or came later than a round trip.
    pub retransmitted_packets: u64,
    pub retransmitted_bytes: u64,
    /// Packets overtaken by later ones.
    pub reordered_packets: u64,
    /// Acknowledgements that the peer sent again without anything new.
    pub duplicate_ack_packets: u64,
    /// Bytes that the peer acknowledged and the capture does not have.
    pub unseen_bytes: u64,
    /// From a packet of this direction to its acknowledgement, at the place of capture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt: Option<RoundTrip>,
    /// The same by timestamps: from a value to its first echo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp_rtt: Option<RoundTrip>,
    /// Largest and smallest window that this direction's sender advertised, shift applied.
    /// Absent: the shift is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub largest_window_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smallest_window_bytes: Option<u64>,
    /// Times that a window of zero was advertised.
    pub zero_window_packets: u64,
    /// Most bytes sent and not yet acknowledged, at the place of capture.
    pub most_in_flight_bytes: u64,
    pub fin: bool,
    pub rst: bool,
}

/// Round trips.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RoundTrip {
    pub samples: u64,
    pub least_us: u64,
    pub median_us: u64,
    pub most_us: u64,
}

/// Does the payload differ from packet to packet?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variety {
    /// Packets whose first bytes were compared.
    pub packets: u64,
    /// So many of their first bytes.
    pub compared_bytes: u32,
    pub distinct_packets: u64,
    /// Packets that begin with the most frequent bytes.
    pub most_repeated_packets: u64,
}
