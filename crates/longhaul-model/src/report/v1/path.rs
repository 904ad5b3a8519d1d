//! A path: RTTs, route, path MTU, the fate of TCP options, and the place where a queue grows under
//! load.

use super::observation::TcpOptions;
use crate::serde_name;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

/// The requested measurement.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathPlan {
    /// The protocol of the trace.
    pub protocol: ProbeProtocol,
    /// Destination port of UDP and TCP probes.
    pub port: Option<u16>,
    /// RTT probes to the peer.
    pub round_trips: RoundTripPlan,
    /// Absent: the route is not traced.
    pub trace: Option<TracePlan>,
    /// The peer, a longhaul, traces and probes the reverse path.
    pub reverse: bool,
    /// Search the path MTU, also with larger packets than the route allows.
    pub mtu: bool,
    /// Check which TCP options survive the path.
    pub options: bool,
    /// Absent: hops are not measured under load.
    pub load: Option<HopLoadPlan>,
}

impl PathPlan {
    /// Returns the plan of a measurement by another program: no probes are sent.
    pub fn without_probes(protocol: ProbeProtocol) -> PathPlan {
        PathPlan {
            protocol,
            port: None,
            round_trips: RoundTripPlan {
                protocol,
                probes: 0,
                interval_us: 0,
                packet_bytes: 0,
                timeout_us: 0,
            },
            trace: None,
            reverse: false,
            mtu: false,
            options: false,
            load: None,
        }
    }
}

/// The protocol of probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeProtocol {
    Icmp,
    Udp,
    Tcp,
}

impl ProbeProtocol {
    pub fn word(self) -> &'static str {
        serde_name::name_variant(&self)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoundTripPlan {
    /// The preferred protocol; if the peer does not answer it, another one is used and recorded.
    pub protocol: ProbeProtocol,
    pub probes: u32,
    pub interval_us: u64,
    /// Size of the whole IP packet.
    pub packet_bytes: u32,
    /// Timeout for the last answer.
    pub timeout_us: u64,
}

#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TracePlan {
    pub most_hops: u8,
    /// Probes per hop, all of one flow.
    pub probes: u32,
    /// Timeout after which an answer is ignored.
    pub timeout_us: u64,
    /// Requested probability of finding all next hops of a load balancer; absent: only one flow.
    pub confidence_ratio: Option<f64>,
}

/// The load for measuring hops under load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HopLoadPlan {
    /// Length of each phase: idle, loaded, idle.
    pub phase_us: u64,
    pub streams: u32,
    /// True: this end sends the load.
    pub forward: bool,
}

/// The measured path.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PathObservation {
    pub address: String,
    pub source: Option<String>,
    pub round_trips: Option<RoundTripSeries>,
    /// RTTs that the peer measured towards this host.
    pub round_trips_reverse: Option<RoundTripSeries>,
    pub route: Option<ObservedRoute>,
    /// The route from the peer to this host, traced by the peer.
    pub route_reverse: Option<ObservedRoute>,
    pub mtu: Option<MtuSearch>,
    pub options: Option<PathTcpOptions>,
    pub hop_load: Option<HopWatch>,
    /// Parts that could not be measured, with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<MissingPart>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingPart {
    /// `route`, `round_trips`, `mtu`, `options`, `reverse`, `load`, `names`, …
    pub what: String,
    /// The attempt, the reason of the failure, and a remedy.
    pub why: String,
}

/// RTT probes to one address.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoundTripSeries {
    pub protocol: ProbeProtocol,
    /// Origin of the timestamps: `kernel` (send and receive), `kernel_receive`, `user`.
    pub clock: String,
    pub packet_bytes: u32,
    pub sent: u32,
    /// In the order of sending; absent `rtt_ns`: no answer.
    pub echoes: Vec<ProbeEcho>,
    /// Duplicate answers.
    pub duplicates: u32,
    /// Answers that arrived after the answer to a later probe.
    pub reordered: u32,
    /// Discarded answers: forged, malformed or too late.
    #[serde(default)]
    pub discarded: u32,
}

#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeEcho {
    /// Send time since the start of the series.
    pub at_us: u64,
    pub rtt_ns: Option<u64>,
    /// TTL of the answer on arrival.
    pub ttl: Option<u8>,
}

/// The hops of one trace.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ObservedRoute {
    pub from: String,
    pub to: String,
    pub protocol: ProbeProtocol,
    /// The constant fields of the flow: source and destination port, or ICMP identifier and
    /// checksum.
    pub flow: String,
    /// Start of the trace since the start of the run, and its duration.
    pub at_us: u64,
    pub duration_us: u64,
    /// By TTL from 1, without gaps; a silent hop has no answers.
    pub hops: Vec<ObservedHop>,
    /// True: the destination answered.
    pub reached: bool,
    /// The reason why the trace ended: `reached`, `most_hops`, `silent`, `unreachable`, `loop`,
    /// `time`.
    pub ended_by: String,
    /// Links between addresses of adjacent hops, over all probed flows; empty: only one flow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<HopLink>,
    /// Achieved probability that all alternatives were found; absent: not requested.
    pub confidence_ratio: Option<f64>,
    pub probes_sent: u32,
    /// Answers that match no probe.
    #[serde(default)]
    pub discarded: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ObservedHop {
    pub ttl: u8,
    /// Probes of the traced flow.
    pub sent: u32,
    /// Addresses that answered, the one of the traced flow first.
    pub answers: Vec<HopReply>,
    /// Missing answers that look like rate limiting of ICMP replies, not like loss.
    #[serde(default)]
    pub rate_limited: bool,
}

/// The answers of one address at one TTL.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct HopReply {
    pub address: String,
    /// Reverse DNS name, if it was looked up.
    pub name: Option<String>,
    pub autonomous_system: Option<u32>,
    /// City and country, if imported data or a rule gives them.
    pub place: Option<String>,
    /// RTTs of the traced flow; empty: only another flow reached this address.
    pub rtts_ns: Vec<u64>,
    /// TTL in the IP header of the answer on arrival.
    pub reply_ttl: Option<u8>,
    /// Remaining TTL of the probe, as quoted: above 1 behind a tunnel that hides hops.
    pub quoted_ttl: Option<u8>,
    /// `time_exceeded`, `echo_reply`, `port_unreachable`, `host_unreachable`,
    /// `net_unreachable`, `prohibited`, `syn_ack`, `reset`, …
    pub kind: String,
    /// MPLS label stack of the answer (RFC 4950), outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mpls: Vec<MplsLabel>,
    /// Fields that the quoted packet shows as rewritten: `source_address`, `source_port`, `dscp`,
    /// `tcp_option_…`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rewritten: Vec<String>,
}

/// An MPLS label stack entry (RFC 3032).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MplsLabel {
    pub label: u32,
    pub traffic_class: u8,
    pub ttl: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HopLink {
    /// TTL of the nearer hop.
    pub ttl: u8,
    pub from: String,
    pub to: String,
    /// Flows that use this link.
    pub flows: u32,
}

/// The search for the path MTU with IP packets that must not be fragmented.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MtuSearch {
    /// MTU of the interface.
    pub local_bytes: u32,
    pub probes: Vec<MtuProbe>,
}

#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MtuProbe {
    pub packet_bytes: u32,
    /// Packets sent with this size, and packets that the peer answered.
    pub sent: u32,
    pub arrived: u32,
    /// The router that reported the packet as too big, and the MTU it gave.
    pub refused_by: Option<String>,
    pub refused_mtu_bytes: Option<u32>,
}

/// TCP options, as received by each end.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PathTcpOptions {
    /// Options in force at this end.
    pub here: Option<TcpOptions>,
    pub there: Option<TcpOptions>,
    pub mss_here_bytes: Option<u32>,
    pub mss_there_bytes: Option<u32>,
    /// Options that each host would offer with its settings.
    pub offered_here: Option<TcpOptions>,
    pub offered_there: Option<TcpOptions>,
}

/// RTTs to each hop before, during and after our own load.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HopWatch {
    /// Start and end of the load since the start of the measurement.
    pub load_from_us: u64,
    pub load_until_us: u64,
    pub forward: bool,
    /// Payload of the load that arrived, and its run in the archive.
    pub load_bytes: Option<u64>,
    pub run_id: Option<String>,
    pub hops: Vec<WatchedHop>,
    /// One-way delay changes to the peer and back, if the peer runs longhaul.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ends: Vec<EndDelay>,
    /// Maximum queue length in bytes of this host's own interface under load.
    pub own_backlog_bytes: Option<u64>,
}

#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchedHop {
    pub ttl: u8,
    pub address: Option<String>,
    pub echoes: Vec<ProbeEcho>,
}

/// One probe of the peer that carries four timestamps.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndDelay {
    pub at_us: u64,
    /// Receive time at the peer minus send time here, and likewise for the reverse direction; both
    /// include the unknown clock offset.
    pub forward_ns: Option<i64>,
    pub reverse_ns: Option<i64>,
}

/// Conclusions about the path.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PathAnalysis {
    pub version: u32,
    pub rtt: Option<PathRtt>,
    pub rtt_reverse: Option<PathRtt>,
    /// Conclusions about each hop, by TTL.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hops: Vec<HopDelay>,
    pub path_mtu: Option<PathMtu>,
    pub narrow_link: Option<NarrowLink>,
    /// The number of this route among the routes of this path in the archive.
    pub route_number: Option<u32>,
    /// Difference from the previous route in the archive.
    pub route_change: Option<RouteDifference>,
    /// Comparison of forward and reverse route by router and autonomous system, if both are known.
    pub symmetry: Option<RouteSymmetry>,
}

/// RTT statistics of the answered probes.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PathRtt {
    pub sent: u32,
    pub answered: u32,
    pub min_ns: u64,
    pub avg_ns: u64,
    pub max_ns: u64,
    pub stddev_ns: u64,
    pub median_ns: u64,
    /// 95th percentile; absent in reports of earlier versions.
    pub p95_ns: Option<u64>,
    pub loss_ratio: f64,
    /// 95 % confidence interval of the loss (Wilson).
    pub loss_interval_ratio: [f64; 2],
    pub duplicates: u32,
    pub reordered: u32,
}

#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HopDelay {
    pub ttl: u8,
    pub rtt_min_ns: Option<u64>,
    /// Minimum RTT that the link before this hop adds; absent if unknown: a hop that answers more
    /// slowly than a later one gives no information about the link.
    pub link_ns: Option<u64>,
    /// `answers`, `silent`, `rate_limited`, `slow_answers`, `stutter`, `tunnel`.
    pub state: String,
}

#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathMtu {
    /// Size of the largest IP packet that arrived.
    pub bytes: u32,
    /// Size of the smallest packet that never arrived.
    pub refused_bytes: Option<u32>,
    /// Larger packets are dropped without an ICMP message.
    pub black_hole: bool,
}

/// The place where the queue grew under load.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct NarrowLink {
    /// `link` (one), `span` (between two hops that are not neighbours), `own_host`, `return_path`,
    /// `none` (no queue grew), `cannot_tell`.
    pub verdict: String,
    /// TTL of the last hop without the queue and of the first hop with it; 0 is this host.
    pub after_ttl: Option<u8>,
    pub before_ttl: Option<u8>,
    /// The increase of the RTT there.
    pub rise_ns: Option<u64>,
    /// Capacity of the path, from an estimate of available bandwidth or a bulk run, if one exists;
    /// never that of a link in the middle alone.
    pub capacity_bps: Option<u64>,
    pub capacity_interval_bps: Option<[u64; 2]>,
    pub confidence_ratio: f64,
    pub text: String,
}

/// The difference between two routes, in the terms of SLAC's tables.
#[skip_serializing_none]
#[cfg_attr(
    feature = "schema",
    derive(utoipa::ToSchema),
    schema(
        as = RouteChange,
        description = "The difference of a route from the previous one, in the format of report v1."
    )
)]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RouteDifference {
    /// `same`, `silent_hop`, `stutter`, `last_octet`, `same_as`, `one_hop`, `several_hops`,
    /// `end_not_reached`.
    // The most severe difference.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub kind: RouteChangeKind,
    // Number and run of the other route.
    pub other_number: Option<u32>,
    pub other_run: Option<String>,
    // Hops that differ, as TTL ranges of this route and of the other; an empty range means no
    // hops.
    pub ranges: Vec<ChangedHops>,
    // Minimum RTT to the peer, this route minus the other.
    pub rtt_step_ns: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RouteChangeKind {
    Same,
    /// The same as far as hops answered: some hops are silent in one of the two.
    SilentHop,
    Stutter,
    LastOctet,
    SameAs,
    OneHop,
    SeveralHops,
    EndNotReached,
}

#[skip_serializing_none]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = HopRange))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedHops {
    /// First and last TTL in this route; absent: no hops of this route correspond.
    #[cfg_attr(feature = "schema", schema(min_items = 2, max_items = 2))]
    pub here: Option<[u8; 2]>,
    #[cfg_attr(feature = "schema", schema(min_items = 2, max_items = 2))]
    pub other: Option<[u8; 2]>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RouteSymmetry {
    /// Share of common autonomous systems (or, without those, of common /24 and /64 networks).
    pub shared_ratio: f64,
    pub forward_hops: u32,
    pub reverse_hops: u32,
    pub text: String,
}
