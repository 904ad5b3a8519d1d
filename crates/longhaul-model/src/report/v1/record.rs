//! A record: rate by distance, and everything that the two were made of.
//!
//! Distances are whole millimetres, so that they add up exactly; coordinates are degrees on WGS84.
//! docs/record.md explains every field.

use super::capture::Variety;
use super::{Caveat, Party};
use serde::{Deserialize, Serialize};

/// The value of [`Record::schema`].
pub const SCHEMA: &str = "longhaul.record/1";

/// What is claimed, what it rests on, and what follows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub schema: String,
    /// Version of the program that made it.
    pub longhaul: String,
    /// UTC, RFC 3339.
    pub made_at: String,
    pub about: About,
    pub observation: Observation,
    pub analysis: Analysis,
    pub caveats: Vec<Caveat>,
}

/// What people say of it; nothing is computed from this.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct About {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contact: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// What was measured, and where the data went.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Observation {
    /// Of the transfer, in the archive.
    pub throughput_run: String,
    /// Of the look at the path; absent: there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_run: Option<String>,
    pub started_at: String,
    pub initiator: Party,
    pub responder: Party,
    /// True: the initiator is the sender.
    pub forward: bool,
    /// `tcp` or `udp`.
    pub transport: String,
    /// 4 or 6; absent: the addresses do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip_version: Option<u8>,
    pub streams: u32,
    /// Payload that the receiver took, and the time from its first byte to its last.
    pub received_bytes: u64,
    pub elapsed_us: u64,
    /// Both ends are one machine, whatever lies between them.
    pub same_host: bool,
    /// As the run has it; absent: nothing shows whether they are one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_boot: Option<bool>,
    /// Payload in a capture of the transfer; absent: there is none, or it has headers alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Payload>,
    /// Least round trip of the idle path, and how it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_min_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_by: Option<String>,
    /// `legs_file`, `imported_data`, `hop_names` (or the last two together, with a `+`); absent: no
    /// distance is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distance_by: Option<String>,
    /// In the order of the data; a leg lies between two neighbours.
    pub stops: Vec<Stop>,
    /// Routers whose city is known by something else than the legs file.
    pub routers: Vec<Router>,
    /// Routers that answered, and whose city nothing says.
    pub unplaced_hops: u32,
}

/// How the payload differs from packet to packet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payload {
    /// Whose capture shows it: `initiator` or `responder`.
    pub captured_by: String,
    #[serde(flatten)]
    pub variety: Variety,
}

/// A city on the way, and the point that stands for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stop {
    pub city: String,
    pub latitude: f64,
    pub longitude: f64,
    /// `airport LAX`, `as given`, …
    pub point: String,
}

/// A router of the trace and its city.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Router {
    pub ttl: u8,
    pub address: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub city: String,
    pub latitude: f64,
    pub longitude: f64,
    /// `imported_data`, or `hop_name`, which is a guess.
    pub known_by: String,
}

/// What follows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Analysis {
    pub version: u32,
    /// `ipv4_single_stream`, `ipv4_multiple_streams`, `ipv6_single_stream`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// All bytes over the whole time, for people; the mark is not made from it.
    pub goodput_bps: u64,
    pub legs: Vec<Leg>,
    /// Sums of the legs, on the ellipsoid and on the sphere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distance_mm: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distance_sphere_mm: Option<u64>,
    /// Bits by metres over seconds, from the whole numbers above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark_bit_m_per_s: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub light: Option<Light>,
    /// Cities of routers that no leg begins or ends at.
    pub left_out: Vec<LeftOut>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<Beside>,
    /// Name and version of the rule set, and what is known of its contest.
    pub rules: String,
    pub standing: String,
    pub checks: Vec<RuleCheck>,
}

/// From stop to stop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leg {
    pub from: String,
    pub to: String,
    /// Geodesic on WGS84.
    pub length_mm: u64,
    /// Great circle on a sphere of 6371.0088 km.
    pub sphere_mm: u64,
}

/// The distance there and back in fibre, beside the round trip.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Light {
    pub least_rtt_ns: u64,
    /// Measured by least.
    pub stretch_ratio: f64,
    pub possible: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    pub ttl: u8,
    pub city: String,
    pub known_by: String,
    /// By how much the nearest leg grows when it goes by way of this city.
    pub detour_mm: u64,
}

/// The best mark of the class in the history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    pub name: String,
    pub mark_bit_m_per_s: f64,
    /// This mark by that one, less one.
    pub gain_ratio: f64,
    pub source: String,
    pub confidence: String,
}

/// One rule, and whether the measurement shows that it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleCheck {
    /// As its source numbers it; absent: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clause: Option<String>,
    pub rule: String,
    pub verdict: RuleVerdict,
    /// One sentence with the figures in it.
    pub text: String,
    pub source: String,
    pub confidence: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleVerdict {
    Holds,
    Fails,
    /// It was not measured.
    CannotTell,
    /// No measurement shows it: somebody must stand for it.
    Declare,
}

impl RuleVerdict {
    /// As people read it.
    pub const fn words(self) -> &'static str {
        match self {
            RuleVerdict::Holds => "holds",
            RuleVerdict::Fails => "fails",
            RuleVerdict::CannotTell => "cannot tell",
            RuleVerdict::Declare => "to declare",
        }
    }
}

/// Sets of rules in one file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleSets {
    pub sets: Vec<Rules>,
}

/// A set of rules, as data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    pub name: String,
    pub version: u32,
    pub title: String,
    /// What is known of the contest itself.
    pub standing: String,
    pub rules: Vec<Rule>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clause: Option<String>,
    pub text: String,
    /// Which measurement shows it.
    pub check: RuleKind,
    /// Least or most, in the unit that the check has: seconds, metres, hops, a ratio.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    pub source: String,
    pub confidence: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleKind {
    Class,
    Tcp,
    VariedPayload,
    DistanceByCities,
    LeastTime,
    LeastDistance,
    LeastHops,
    MostCreditedDistance,
    Gain,
    TwoHosts,
    /// By nothing that is measured.
    Declare,
}

/// Marks of the past.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct History {
    pub version: u32,
    pub marks: Vec<PastMark>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PastMark {
    /// As far as it is known: `2004-09-12`, `2006`.
    pub date: String,
    pub team: String,
    /// Empty: the class is not known.
    pub classes: Vec<String>,
    pub mark_bit_m_per_s: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distance: Option<String>,
    pub source: String,
    pub confidence: String,
}

/// The file that says where the data goes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LegsFile {
    #[serde(default)]
    pub about: About,
    pub stops: Vec<AskedStop>,
}

/// `"Chicago (ORD)"`, or a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum AskedStop {
    City(String),
    Place(Placed),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Placed {
    pub city: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub airport: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latitude: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longitude: Option<f64>,
    /// What the coordinates are of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub point: Option<String>,
}

/// The value of [`Manifest::schema`].
pub const MANIFEST_SCHEMA: &str = "longhaul.manifest/1";

/// Every file of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    pub schema: String,
    pub files: Vec<Listed>,
    /// Ed25519, hexadecimal; the signature of this manifest stands beside it. Absent: not signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_key: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listed {
    pub name: String,
    pub bytes: u64,
    /// Hexadecimal.
    pub sha256: String,
    /// What it holds.
    pub about: String,
}
