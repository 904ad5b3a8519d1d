//! A path: round trips, route, path MTU, what becomes of options on the way, and where a queue
//! grows under load.

use super::observation::TcpOptions;
use serde::{Deserialize, Serialize};

/// What is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// By which the route is traced.
    pub protocol: Protocol,
    /// Destination port of UDP and TCP probes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Round trips to the far end.
    pub round_trips: RoundTrips,
    /// Absent: the route is not traced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
    /// The far end, a longhaul, is asked for its view: route and round trips back.
    pub reverse: bool,
    /// The path MTU is looked for, with larger packets than the route admits to.
    pub mtu: bool,
    /// What becomes of TCP options on the way.
    pub options: bool,
    /// Absent: hops are not watched under load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<HopLoad>,
}

impl Plan {
    /// Of a look that somebody else took: nothing is sent.
    pub fn of_nothing(protocol: Protocol) -> Plan {
        Plan {
            protocol,
            port: None,
            round_trips: RoundTrips {
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

/// How probes travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    Icmp,
    Udp,
    Tcp,
}

impl Protocol {
    pub const fn word(self) -> &'static str {
        match self {
            Protocol::Icmp => "icmp",
            Protocol::Udp => "udp",
            Protocol::Tcp => "tcp",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoundTrips {
    /// The preferred one; what the far end answers to is used in its place, and said.
    pub protocol: Protocol,
    pub probes: u32,
    pub interval_us: u64,
    /// Of the whole IP packet.
    pub packet_bytes: u32,
    /// For the last answer.
    pub timeout_us: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    pub most_hops: u8,
    /// Probes for each hop, of one flow.
    pub probes: u32,
    /// After which an answer no longer counts.
    pub timeout_us: u64,
    /// Probability with which all next hops of a load balancer are to be found; absent: one flow
    /// only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence_ratio: Option<f64>,
}

/// Load against which hops are watched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HopLoad {
    /// Idle before, loaded, idle after: each this long.
    pub phase_us: u64,
    pub streams: u32,
    /// True: this end sends the load.
    pub forward: bool,
}

/// What was seen.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Observation {
    pub address: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trips: Option<Echoes>,
    /// As the far end measured them towards here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trips_reverse: Option<Echoes>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<Route>,
    /// From the far end to here, as the far end traced it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route_reverse: Option<Route>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<MtuSearch>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<Options>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hop_load: Option<HopWatch>,
    /// What could not be done, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Missing>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// `route`, `round_trips`, `mtu`, `options`, `reverse`, `load`, `names`, …
    pub what: String,
    /// What was tried, why it failed, what would mend it.
    pub why: String,
}

/// Round trips to one address.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Echoes {
    pub protocol: Protocol,
    /// Where the times were taken: `kernel` (both stamps), `kernel_receive`, `user`.
    pub clock: String,
    pub packet_bytes: u32,
    pub sent: u32,
    /// In order of sending; absent `rtt_ns`: no answer.
    pub echoes: Vec<Echo>,
    /// Answers that came twice.
    pub duplicates: u32,
    /// Answers overtaken by that to a later probe.
    pub reordered: u32,
    /// Answers that were thrown away: forged, garbled, too late.
    #[serde(default)]
    pub discarded: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Echo {
    /// Sent at, from the begin of the series.
    pub at_us: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_ns: Option<u64>,
    /// Of the answer, as it arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<u8>,
}

/// The hops seen at one time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Route {
    pub from: String,
    pub to: String,
    pub protocol: Protocol,
    /// What kept the flow one flow: source port, destination port, or ICMP identifier and checksum.
    pub flow: String,
    /// Traced at, from the begin of the run, and for how long.
    pub at_us: u64,
    pub duration_us: u64,
    /// By TTL, from 1, without a gap; a silent hop has no answers.
    pub hops: Vec<Hop>,
    /// The far end answered.
    pub reached: bool,
    /// Why the trace ended: `reached`, `most_hops`, `silent`, `unreachable`, `loop`, `time`.
    pub ended_by: String,
    /// Links between addresses of neighbouring hops, over all flows tried; empty: one flow only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<Link>,
    /// With which all alternatives were found, as reached; absent: not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence_ratio: Option<f64>,
    pub probes_sent: u32,
    /// Answers to probes that were never sent, or that do not fit one.
    #[serde(default)]
    pub discarded: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hop {
    pub ttl: u8,
    /// Probes of the one flow.
    pub sent: u32,
    /// Addresses that answered, the flow's own first.
    pub answers: Vec<Answer>,
    /// Silence that looks like a limit of answers per second, not like loss.
    #[serde(default)]
    pub rate_limited: bool,
}

/// What one address said at one TTL.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    pub address: String,
    /// From the reverse of the address, where that was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autonomous_system: Option<u32>,
    /// City, country, where imported data or a rule says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// Of the probes of the one flow; empty: found by another flow only.
    pub rtts_ns: Vec<u64>,
    /// Of the answer's IP header when it came here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_ttl: Option<u8>,
    /// TTL that the probe still had there, as quoted: above 1 behind a tunnel that hides hops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quoted_ttl: Option<u8>,
    /// `time_exceeded`, `echo_reply`, `port_unreachable`, `host_unreachable`,
    /// `net_unreachable`, `prohibited`, `syn_ack`, `reset`, …
    pub kind: String,
    /// MPLS label stack of the answer (RFC 4950), outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mpls: Vec<MplsLabel>,
    /// What the quoted packet shows to be rewritten on the way: `source_address`, `source_port`,
    /// `dscp`, `tcp_option_…`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rewritten: Vec<String>,
}

/// RFC 3032.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MplsLabel {
    pub label: u32,
    pub traffic_class: u8,
    pub ttl: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Of the nearer hop.
    pub ttl: u8,
    pub from: String,
    pub to: String,
    /// Flows that took it.
    pub flows: u32,
}

/// How the path MTU was looked for: IP packets that must not be cut.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MtuSearch {
    /// Of the interface.
    pub local_bytes: u32,
    pub probes: Vec<MtuProbe>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MtuProbe {
    pub packet_bytes: u32,
    /// Times that this size was sent, and answered by the far end.
    pub sent: u32,
    pub arrived: u32,
    /// Who said that it is too big, and what fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_mtu_bytes: Option<u32>,
}

/// TCP options, as each end got them from the other.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Options {
    /// In force at this end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub here: Option<TcpOptions>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub there: Option<TcpOptions>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mss_here_bytes: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mss_there_bytes: Option<u32>,
    /// What each host would offer by its settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered_here: Option<TcpOptions>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered_there: Option<TcpOptions>,
}

/// Round trips to each hop, before, under and after our own load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HopWatch {
    /// When load began and ended, from the begin of the watch.
    pub load_from_us: u64,
    pub load_until_us: u64,
    pub forward: bool,
    /// Payload of the load that arrived, and its run in the archive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    pub hops: Vec<WatchedHop>,
    /// One-way delay changes to the far end and back, where the far end is a longhaul.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ends: Vec<EndDelay>,
    /// Bytes in the queue of this host's own interface under load, most seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_backlog_bytes: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchedHop {
    pub ttl: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    pub echoes: Vec<Echo>,
}

/// One probe of the far end that carries four times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndDelay {
    pub at_us: u64,
    /// Receive time there minus send time here, with the clocks' unknown offset in it; likewise
    /// back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward_ns: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverse_ns: Option<i64>,
}

/// What it means.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Analysis {
    pub version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt: Option<Rtt>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_reverse: Option<Rtt>,
    /// By TTL: what is known of each hop.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hops: Vec<HopDelay>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_mtu: Option<PathMtu>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub narrow_link: Option<NarrowLink>,
    /// The small number of this route among those of this path in the archive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route_number: Option<u32>,
    /// Against the route before it in the archive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route_change: Option<RouteChange>,
    /// Routes there and back by router and autonomous system, where both are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub symmetry: Option<Symmetry>,
}

/// Of the answered probes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rtt {
    pub sent: u32,
    pub answered: u32,
    pub min_ns: u64,
    pub avg_ns: u64,
    pub max_ns: u64,
    pub stddev_ns: u64,
    pub median_ns: u64,
    pub loss_ratio: f64,
    /// 95 % interval of the loss (Wilson).
    pub loss_interval_ratio: [f64; 2],
    pub duplicates: u32,
    pub reordered: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HopDelay {
    pub ttl: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_min_ns: Option<u64>,
    /// Least that the link before this hop adds to the round trip; absent where it cannot be told:
    /// answers that take longer than those of a later hop say nothing of the link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_ns: Option<u64>,
    /// `answers`, `silent`, `rate_limited`, `slow_answers`, `stutter`, `tunnel`.
    pub state: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathMtu {
    /// Largest IP packet that arrived.
    pub bytes: u32,
    /// Smallest that did not, at every attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_bytes: Option<u32>,
    /// Larger packets vanish and nobody says so.
    pub black_hole: bool,
}

/// Where the queue grew under load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NarrowLink {
    /// `link` (one), `span` (between two hops that are not neighbours), `own_host`, `return_path`,
    /// `none` (no queue grew), `cannot_tell`.
    pub verdict: String,
    /// The last hop without the queue and the first with it, by TTL; 0 is this host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_ttl: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before_ttl: Option<u8>,
    /// By which round trips grew there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rise_ns: Option<u64>,
    /// Of the path, from an estimate of available bandwidth or a bulk run, where one stands by;
    /// never of a link in the middle by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_bps: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_interval_bps: Option<[u64; 2]>,
    pub confidence_ratio: f64,
    pub text: String,
}

/// One route against another, in the words of SLAC's tables.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RouteChange {
    /// The worst of what differs.
    pub kind: ChangeKind,
    /// Number and run of the other route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_number: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_run: Option<String>,
    /// Hops that differ, as ranges of TTL of this route and of the other; empty range: no hops.
    pub ranges: Vec<ChangedRange>,
    /// Least round trip to the far end, this minus the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_step_ns: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    Same,
    /// The same as far as answers tell: hops silent in one of the two.
    SilentHop,
    Stutter,
    LastOctet,
    SameAs,
    OneHop,
    SeveralHops,
    EndNotReached,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedRange {
    /// First and last TTL here; absent: nothing stands here for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub here: Option<[u8; 2]>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other: Option<[u8; 2]>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Symmetry {
    /// Share of autonomous systems (or, without those, of /24 and /64 neighbours) in common.
    pub shared_ratio: f64,
    pub forward_hops: u32,
    pub reverse_hops: u32,
    pub text: String,
}
