//! Measurements by other programs, parsed from their output.
//!
//! Every reading may be absent: a program prints what it chooses, and nothing is filled in. Printed
//! rates are kept beside the rate computed from bytes and time.

use super::flows::{ObservedTransfer, TransferAnalysis};
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

/// The origin of the text.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportPlan {
    /// `iperf3_json`, `ntttcp_text`, `ntttcp_xml`, `ping`, `pscheduler`, `traceroute`, `ndt7`, `flent`.
    pub format: String,
    /// File name without folder; absent: standard input.
    pub file: Option<String>,
    /// SHA-256 of the whole file, in hexadecimal.
    pub content_sha256: String,
    /// Index of the result in the file, from 0.
    pub index: u32,
    /// Origin of the time: `text` or `user`.
    pub time_from: String,
}

/// The parsed content of the text.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ImportedObservation {
    /// `iperf3`, `iperf`, `ntttcp`, `ping`, `pscheduler`, `traceroute`, `mtr`, `ndt7`, `flent`.
    pub tool: String,
    pub tool_version: Option<String>,
    /// As printed.
    pub command: Option<String>,
    /// The end that started, and the end that answered, as printed.
    pub near: Option<String>,
    pub far: Option<String>,
    pub far_address: Option<String>,
    /// `tcp`, `udp`, `sctp`, `icmp`.
    pub protocol: Option<String>,
    /// True: the near end is the sender. Absent: unknown.
    pub forward: Option<bool>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<ImportedStream>,
    /// Totals of all streams, as printed.
    pub sender: Option<ImportedTransfer>,
    pub receiver: Option<ImportedTransfer>,
    /// A total that the text does not attribute to an end.
    pub either: Option<ImportedTransfer>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<ImportedInterval>,
    /// Transfers with the TCP counters of one end, as in reports of kind `flows`; empty if the text
    /// has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transfers: Vec<ObservedTransfer>,
    pub pings: Option<ImportedPings>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hops: Vec<ImportedHop>,
    /// All other figures, as printed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub printed: Vec<PrintedFigure>,
    /// Sentences about what a run of longhaul would contain and the text does not.
    pub missing: Vec<String>,
}

/// One stream, as each end printed it.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ImportedStream {
    /// The stream's number in the text.
    pub name: String,
    pub sender: Option<ImportedTransfer>,
    pub receiver: Option<ImportedTransfer>,
    pub either: Option<ImportedTransfer>,
}

/// Bytes, time and rate of one transfer.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct ImportedTransfer {
    pub bytes: Option<u64>,
    /// Rounding error of the printed bytes, in either direction; absent: printed exactly.
    pub rounding_bytes: Option<u64>,
    pub duration_us: Option<u64>,
    /// The rate as printed.
    pub printed_bps: Option<u64>,
    /// Rounding error of the printed rate.
    pub rounding_bps: Option<u64>,
    pub retransmitted_packets: Option<u64>,
    /// UDP datagrams.
    pub datagrams: Option<u64>,
    pub lost_datagrams: Option<u64>,
    pub jitter_us: Option<u64>,
    /// Minimum and mean RTT of TCP.
    pub rtt_min_us: Option<u64>,
    pub rtt_mean_us: Option<u64>,
}

/// One interval of a run.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ImportedInterval {
    /// Name of the stream; absent: the sum of all streams.
    pub stream: Option<String>,
    pub started_us: u64,
    pub duration_us: u64,
    pub bytes: Option<u64>,
    pub printed_bps: Option<u64>,
    pub retransmitted_packets: Option<u64>,
    pub cwnd_bytes: Option<u64>,
    pub rtt_us: Option<u64>,
    pub rttvar_us: Option<u64>,
    /// The other program excludes this interval from the total.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub omitted: bool,
}

/// Echo replies and their RTTs.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ImportedPings {
    pub sent_packets: Option<u64>,
    pub received_packets: Option<u64>,
    /// RTTs printed as a number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rtts_us: Vec<u64>,
    /// Replies printed with an upper bound only, such as `<1 ms`.
    pub bounded_packets: Option<u64>,
    pub rtt_min_us: Option<u64>,
    pub rtt_mean_us: Option<u64>,
    pub rtt_max_us: Option<u64>,
}

/// One hop of a route.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ImportedHop {
    /// From 1.
    pub ttl_index: u32,
    pub host: Option<String>,
    /// Every address that answered at this TTL.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rtts_us: Vec<u64>,
    /// Replies printed with an upper bound only.
    pub bounded_packets: Option<u64>,
    pub unanswered_packets: Option<u64>,
    pub sent_packets: Option<u64>,
    pub loss_ratio: Option<f64>,
    pub rtt_min_us: Option<u64>,
    pub rtt_mean_us: Option<u64>,
    pub rtt_max_us: Option<u64>,
}

/// A figure without a field of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrintedFigure {
    pub name: String,
    pub text: String,
}

/// Conclusions from the text.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ImportedAnalysis {
    pub version: u32,
    /// The number of streams, if the text gives it.
    pub streams: Option<u32>,
    /// Computed from bytes and time if both were printed, otherwise the printed rate.
    pub goodput_bps: Option<u64>,
    /// The end that counted: `receiver`, `sender`, or `either`.
    pub counted_by: Option<String>,
    /// Sum of the printed rates of the streams.
    pub sum_of_streams_bps: Option<u64>,
    /// The printed bytes minus those computed from the printed rate and time, or minus those of the
    /// other end. Absent: no comparison is possible.
    pub gap_bytes: Option<i64>,
    pub rtt_min_us: Option<u64>,
    /// The limits of the transfers with TCP counters, in the order of the observation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transfers: Vec<TransferAnalysis>,
}
