//! Round-trip and one-way latency by STAMP or TWAMP.
//!
//! Times of this host are since the first packet was due, by its monotonic clock. Those of the
//! reflector are by the reflector's wall clock, minus what this host's wall clock showed at that
//! moment. The difference of the two clocks is part of them.

use crate::serde_name;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

/// The protocol of the packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LatencyProtocol {
    /// RFC 8762 and RFC 8972.
    #[default]
    Stamp,
    /// RFC 5357, appendix I.
    TwampLight,
    /// RFC 5357: a session that the server was asked for.
    Twamp,
}

impl LatencyProtocol {
    pub fn word(self) -> &'static str {
        serde_name::name_variant(&self)
    }
}

/// The requested measurement.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LatencyPlan {
    pub protocol: LatencyProtocol,
    /// UDP port of the reflector.
    pub port: u16,
    /// TCP port of TWAMP-Control; absent: the session needs no server.
    pub control_port: Option<u16>,
    pub packets: u32,
    pub interval_us: u64,
    /// UDP payload of a packet.
    pub payload_bytes: u32,
    /// Time to wait for an answer after the last packet.
    pub timeout_us: u64,
    pub dscp: Option<u8>,
    /// The packets of both ends are signed.
    #[serde(default)]
    pub authenticated: bool,
    /// The reflector is known to count its packets; otherwise this is concluded from its numbers.
    #[serde(default)]
    pub stateful: bool,
}

#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LatencyObservation {
    /// Address of the reflector.
    pub address: String,
    /// Sources of this host's times: `kernel`, `kernel_receive`, `user`.
    pub timestamps: String,
    pub near_clock: WallClockState,
    /// As stated in the last answer; absent: no answer.
    pub far_clock: Option<WallClockState>,
    /// Both ends read the clock of the same machine.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared_clock: bool,
    /// The step by which this host's wall clock was set during the run; absent: not beyond its noise.
    pub clock_step_ns: Option<i64>,
    /// TTL of the first answered packet at the reflector. Senders begin with 255.
    pub forward_ttl: Option<u8>,
    /// TTL of its answer at this host.
    pub reverse_ttl: Option<u8>,
    /// All packets sent, in order.
    pub packets: Vec<LatencyPacket>,
    /// Datagrams that answered none of them, or were not authentic.
    pub discarded: u64,
}

/// The state of the wall clock of one end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WallClockState {
    /// It follows UTC by an external source.
    pub synchronized: bool,
    /// Maximum error, as its host states it.
    pub error_ns: u64,
}

/// A packet and its answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyPacket {
    pub sent_ns: u64,
    /// In order of arrival; more than one are duplicates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<LatencyAnswer>,
}

/// An answer of the reflector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyAnswer {
    /// The reflector's number of the answer: its own count, or the number of the packet.
    pub sequence_number: u32,
    /// By the reflector's clock.
    pub far_received_ns: i64,
    /// By the reflector's clock.
    pub far_sent_ns: i64,
    pub received_ns: u64,
}

#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LatencyAnalysis {
    pub version: u32,
    pub sent: u32,
    pub answered_packets: u32,
    /// Share of packets without an answer.
    pub loss_ratio: f64,
    /// Answers beyond the first of a packet.
    pub duplicates: u32,
    /// Answers that came after that of a later packet (RFC 4737).
    pub reordered: u32,
    /// Round trips, without the time in the reflector.
    pub rtt: Option<DelayPercentiles>,
    /// Median time in the reflector.
    pub reflector_ns: Option<u64>,
    /// True: the reflector counts its packets; absent: its numbers do not tell.
    pub stateful: Option<bool>,
    pub forward: Option<OneWayLatency>,
    pub reverse: Option<OneWayLatency>,
    pub clocks: Option<ClockComparison>,
    /// The reason why there are no one-way delays.
    pub one_way_refused: Option<String>,
}

/// Quantiles of delays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DelayPercentiles {
    pub min_ns: i64,
    pub p50_ns: i64,
    pub p90_ns: i64,
    pub p95_ns: i64,
    pub p99_ns: i64,
    pub max_ns: i64,
}

/// One direction.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct OneWayLatency {
    /// Only if the clocks allow it.
    pub delay: Option<DelayPercentiles>,
    /// Maximum error of `delay`: that of both clocks.
    pub delay_error_ns: Option<u64>,
    /// Delay above the minimum of the run (PDV of RFC 5481), without the skew of the clocks.
    pub variation: Option<DelayPercentiles>,
    /// Median change of the delay from a packet to the next one (absolute IPDV of RFC 5481).
    pub step_ns: Option<u64>,
    /// Counts up to the last answered packet; only if the reflector counts.
    pub counts: Option<OneWayCounts>,
}

/// Packets of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct OneWayCounts {
    pub sent: u32,
    pub lost: u32,
    pub loss_ratio: f64,
    pub duplicates: u32,
    pub reordered: u32,
}

/// The wall clock of the reflector compared with that of this host.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ClockComparison {
    /// Reflector minus this host, at the packet with the shortest round trip.
    pub offset_ns: i64,
    /// Half of that round trip: the offset is within it, however asymmetrical the path.
    pub offset_error_ns: u64,
    /// The rate by which the reflector's clock runs faster, in 10⁻⁶.
    pub skew_ppm: Option<f64>,
    pub skew_error_ppm: Option<f64>,
}
