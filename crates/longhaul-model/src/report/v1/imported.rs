//! What other programs measured, read from what they printed.
//!
//! Every reading may be absent: a text holds what its program chose to print, and nothing is
//! filled in. Printed rates stand beside the one that was derived from bytes and time.

use serde::{Deserialize, Serialize};

/// Where the text came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// `iperf3_json`, `iperf_text`, `ntttcp_text`, `ntttcp_xml`, `ping`, `pscheduler`, `traceroute`.
    pub format: String,
    /// Name of the file without its folder; absent: standard input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// SHA-256 of the whole file, in hexadecimal digits.
    pub content_sha256: String,
    /// Which result of the file, from 0.
    pub index: u32,
    /// Who told the time: `text` or `user`.
    pub time_from: String,
}

/// What the text says.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Observation {
    /// `iperf3`, `iperf`, `ntttcp`, `ping`, `pscheduler`, `traceroute`, `mtr`.
    pub tool: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_version: Option<String>,
    /// As printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The end that began, and the one that answered, as printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub near: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub far: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub far_address: Option<String>,
    /// `tcp`, `udp`, `sctp`, `icmp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// True: the near end is the sender. Absent: it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward: Option<bool>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<Stream>,
    /// All streams together, as the text has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<Transfer>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receiver: Option<Transfer>,
    /// A total of which the text does not say whose count it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub either: Option<Transfer>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<Interval>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pings: Option<Pings>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hops: Vec<Hop>,
    /// Everything else that was printed, as printed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub printed: Vec<Printed>,
    /// What a run of longhaul would have and the text does not tell, in words.
    pub missing: Vec<String>,
}

/// One stream as each end printed it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Stream {
    /// As the text numbers it.
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<Transfer>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receiver: Option<Transfer>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub either: Option<Transfer>,
}

/// Bytes, time and rate of one transfer.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Transfer {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// What rounding in print may hide, either way; absent: printed to the byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounding_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_us: Option<u64>,
    /// The rate as printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub printed_bps: Option<u64>,
    /// What rounding in print may hide of the rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounding_bps: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retransmitted_packets: Option<u64>,
    /// Datagrams, of UDP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_datagrams: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter_us: Option<u64>,
    /// Least and mean round trip, of TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_min_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_mean_us: Option<u64>,
}

/// A stretch of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Interval {
    /// Name of the stream; absent: all together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<String>,
    pub started_us: u64,
    pub duration_us: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub printed_bps: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retransmitted_packets: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwnd_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rttvar_us: Option<u64>,
    /// Left out of the total by whoever measured.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub omitted: bool,
}

/// Echoes and their round trips.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Pings {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_packets: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received_packets: Option<u64>,
    /// Of those that were printed with a number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rtts_us: Vec<u64>,
    /// Answers of which only an upper bound was printed, as `<1 ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounded_packets: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_min_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_mean_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_max_us: Option<u64>,
}

/// One step of a route.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Hop {
    /// From 1.
    pub ttl_index: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Every address that answered at this step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rtts_us: Vec<u64>,
    /// Answers of which only an upper bound was printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounded_packets: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unanswered_packets: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_packets: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_ratio: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_min_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_mean_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_max_us: Option<u64>,
}

/// A figure without a field of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Printed {
    pub name: String,
    pub text: String,
}

/// What follows from the text.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Analysis {
    pub version: u32,
    /// How many streams, where the text tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams: Option<u32>,
    /// From bytes and time where both were printed, else the printed rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodput_bps: Option<u64>,
    /// `receiver`, `sender`, or `either`: whose count it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted_by: Option<String>,
    /// Sum of what was printed of the streams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sum_of_streams_bps: Option<u64>,
    /// The printed bytes less those that the printed rate and time make, or those of the other
    /// end; positive: more were printed. Absent: nothing to compare.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap_bytes: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_min_us: Option<u64>,
}
