//! A record: rate times distance, with all the evidence.
//!
//! Distances are whole millimetres, so sums are exact; coordinates are degrees on WGS84.
//! docs/record.md explains every field.

use longhaul_model::report::v1::capture::PayloadVariety;
use longhaul_model::report::v1::{ReportCaveat, RunParty};
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

/// The value of [`SpeedRecord::schema`].
pub const SCHEMA: &str = "longhaul.record/2";

/// The claimed result, its evidence and the conclusions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SpeedRecord {
    pub schema: String,
    /// Version of the program that made it.
    pub longhaul: String,
    /// UTC, RFC 3339.
    pub made_at: String,
    pub about: RecordAbout,
    pub observation: RecordObservation,
    pub analysis: RecordAnalysis,
    pub caveats: Vec<ReportCaveat>,
}

/// Formats a mark in the unit of the contest's later years, with as many digits as the claims have.
pub fn format_mark(bit_m_per_s: f64) -> String {
    let tera = bit_m_per_s / 1e12;
    if tera >= 1e5 { format!("{:.3} Pb·m/s", tera / 1e3) } else { format!("{tera:.3} Tb·m/s") }
}

pub fn format_kilometres(mm: u64) -> String {
    format!("{:.3} km", mm as f64 / 1e6)
}

/// Information from the participants; not used in any computation.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordAbout {
    pub name: Option<String>,
    pub team: Option<String>,
    pub contact: Option<String>,
    pub note: Option<String>,
}

/// The measurement, and the way of the data.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RecordObservation {
    /// Id of the throughput run in the archive.
    pub throughput_run: String,
    /// Id of the path run; absent: there is none.
    pub path_run: Option<String>,
    pub started_at: String,
    pub initiator: RunParty,
    pub responder: RunParty,
    /// True: the initiator is the sender.
    pub forward: bool,
    /// `tcp` or `udp`.
    pub transport: String,
    /// 4 or 6; absent: the addresses do not tell.
    pub ip_version: Option<u8>,
    pub streams: u32,
    /// Payload read by the receiver, and the time from its first byte to its last.
    pub received_bytes: u64,
    pub elapsed_us: u64,
    /// Both ends are the same machine, whatever is between them.
    pub same_host: bool,
    /// Copied from the run; absent: unknown.
    pub same_boot: Option<bool>,
    /// Payload in a capture of the transfer; absent: no capture, or only headers.
    pub payload: Option<CapturedPayload>,
    /// Minimum RTT of the idle path, and how it was measured.
    pub rtt_min_ns: Option<u64>,
    pub rtt_by: Option<String>,
    /// In the direction of the data; each leg connects two adjacent stops. Empty: no distance is known.
    pub stops: Vec<RecordStop>,
    /// Routers that answered; absent: the route was not traced.
    pub answered_hops: Option<u32>,
}

/// The variety of the payload from packet to packet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapturedPayload {
    /// The end whose capture shows it: `initiator` or `responder`.
    pub captured_by: String,
    #[serde(flatten)]
    pub variety: PayloadVariety,
}

/// A city on the way, and the point that represents it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordStop {
    pub city: String,
    pub latitude: f64,
    pub longitude: f64,
    /// `airport LAX`, `as given`, …
    pub point: String,
}

/// Conclusions about the record.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordAnalysis {
    pub version: u32,
    /// `ipv4_single_stream`, `ipv4_multiple_streams`, `ipv6_single_stream`, …
    pub class: Option<String>,
    /// All bytes over the whole time, for display; the mark is not computed from it.
    pub goodput_bps: u64,
    pub legs: Vec<RecordLeg>,
    /// Sum of the legs, on the ellipsoid and on the sphere.
    pub distance_mm: Option<u64>,
    pub distance_sphere_mm: Option<u64>,
    /// Bits times metres per second, computed from the integers above.
    pub mark_bit_m_per_s: Option<f64>,
    pub light: Option<FibreLimit>,
    pub beside: Option<BestKnownMark>,
    /// Name and version of the rule set, and the known status of its contest.
    pub rules: String,
    pub standing: String,
    pub checks: Vec<RuleCheck>,
}

/// The leg from one stop to the next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordLeg {
    pub from: String,
    pub to: String,
    /// Geodesic on WGS84.
    pub length_mm: u64,
    /// Great circle on a sphere of 6371.0088 km.
    pub sphere_mm: u64,
}

/// The minimum RTT by the speed of light in fibre, compared with the measured RTT.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FibreLimit {
    pub least_rtt_ns: u64,
    /// Measured RTT / minimum RTT.
    pub stretch_ratio: f64,
    pub possible: bool,
}

/// The best mark of the class in the history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BestKnownMark {
    pub name: String,
    pub mark_bit_m_per_s: f64,
    /// This mark / that mark - 1.
    pub gain_ratio: f64,
    pub source: String,
    pub confidence: String,
}

/// One rule, and whether the measurement shows that it holds.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleCheck {
    /// Number of the clause in the source; absent: unknown.
    pub clause: Option<String>,
    pub rule: String,
    pub verdict: RuleVerdict,
    /// One sentence that includes the figures.
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
    /// No measurement can show it: a person must declare it.
    Declare,
}

impl RuleVerdict {
    /// Returns the text shown to users.
    pub const fn label(self) -> &'static str {
        match self {
            RuleVerdict::Holds => "holds",
            RuleVerdict::Fails => "fails",
            RuleVerdict::CannotTell => "cannot tell",
            RuleVerdict::Declare => "to declare",
        }
    }
}

/// A file with several rule sets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleSetsFile {
    pub sets: Vec<RuleSet>,
}

/// A rule set as data.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleSet {
    pub name: String,
    pub version: u32,
    pub title: String,
    /// The known status of the contest.
    pub standing: String,
    pub rules: Vec<ContestRule>,
}

#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContestRule {
    pub clause: Option<String>,
    pub text: String,
    /// The check that applies.
    pub check: RuleKind,
    /// Minimum or maximum, in the unit of the check: seconds, metres, hops, a ratio.
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
    /// Not checked by a measurement.
    Declare,
}

/// Past marks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MarkHistory {
    pub version: u32,
    pub marks: Vec<PastMark>,
}

#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PastMark {
    /// As precise as known: `2004-09-12`, `2006`.
    pub date: String,
    pub team: String,
    /// Empty: the class is unknown.
    pub classes: Vec<String>,
    pub mark_bit_m_per_s: f64,
    pub rate: Option<String>,
    pub distance: Option<String>,
    pub source: String,
    pub confidence: String,
}

/// The file that describes the way of the data.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LegsFile {
    #[serde(default)]
    pub about: RecordAbout,
    pub stops: Vec<LegsFileStop>,
}

/// A city name such as `"Chicago (ORD)"`, or a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum LegsFileStop {
    City(String),
    Place(StopLocation),
}

#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StopLocation {
    pub city: String,
    pub airport: Option<String>,
    pub latitude: Option<f64>,
    pub longitude: Option<f64>,
    /// Description of the coordinates.
    pub point: Option<String>,
}

/// The value of [`BundleManifest::schema`].
pub const MANIFEST_SCHEMA: &str = "longhaul.manifest/1";

/// The list of all files of a bundle.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundleManifest {
    pub schema: String,
    pub files: Vec<ManifestEntry>,
    /// Ed25519 key in hexadecimal; the signature is a separate file beside this manifest. Absent:
    /// unsigned.
    pub public_key: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestEntry {
    pub name: String,
    pub bytes: u64,
    /// In hexadecimal.
    pub sha256: String,
    /// Description of the content.
    pub about: String,
}
