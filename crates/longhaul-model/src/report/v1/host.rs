//! A host: how it is set up, what that means for given paths, and what was changed.

use super::observation;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is asked of an audit.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The paths that the host is judged for.
    pub paths: Vec<Path>,
    /// Absent: the interface of the default route, or towards the peer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// Whether the advice was to be carried out.
    pub apply: bool,
    /// Whom the effect was to be measured with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prove_with: Option<String>,
}

/// A path that a host must be ready for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Path {
    /// The far end, or "as asked".
    pub name: String,
    pub rtt_us: u64,
    pub rate_bps: u64,
    /// Where the figures come from: `asked`, or the ids of runs.
    pub origin: String,
}

/// What was read. Readings have stable names, such as `net.ipv4.tcp_rmem`, `interface.mtu`,
/// `interface.ring.rx`, `interface.ring.rx_max`, `cpu.governor`; values are as the kernel gives
/// them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Observation {
    pub host: observation::Host,
    pub readings: BTreeMap<String, String>,
    /// What could not be read, and why.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unread: BTreeMap<String, String>,
    /// What a live socket really got.
    pub effective: Vec<Effective>,
    /// What was written, in order; those put back again included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
    /// Interleaved runs before and after.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trials: Vec<Trial>,
}

/// A promise of the kernel, tried on a live socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effective {
    /// `send_buffer`, `receive_buffer`, `receive_window`, `congestion_control`, `pacing`.
    pub what: String,
    pub asked: String,
    pub got: String,
    pub granted: bool,
}

/// A setting that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The reading's name.
    pub name: String,
    /// The interface that it was set on; absent for settings of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// Exactly as it stood.
    pub before: String,
    /// As it was to be.
    pub wanted: String,
    /// As it reads after writing; absent: it was not written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Why it was not written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Put back to `before`.
    #[serde(default)]
    pub reverted: bool,
}

/// One run of a proof.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    /// True: with the changes in force.
    pub changed: bool,
    /// True: this host sends.
    pub forward: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodput_bps: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<super::analysis::Limiter>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What the readings mean.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Analysis {
    pub version: u32,
    /// One for each rule, the worst first.
    pub verdicts: Vec<Verdict>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<Proof>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// A stable word of the rule.
    pub rule: String,
    pub grade: Grade,
    /// What was found and what it means here, with the numbers.
    pub text: String,
    /// Path that asks for it most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The most that this setting lets one stream carry on that path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_bps: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remedies: Vec<Remedy>,
    /// Where the rule comes from.
    pub source: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grade {
    /// It limits a given path.
    Limits,
    /// It may cost something, or matters for other paths.
    Advice,
    Good,
    /// Could not be read.
    Unknown,
}

/// How to mend it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remedy {
    /// The reading that changes; absent: nothing that longhaul itself would write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// A command that can be pasted, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    pub text: String,
}

/// What the changes brought, by interleaved runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    pub directions: Vec<Effect>,
    /// The changes were kept because they helped.
    pub kept: bool,
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// True: this host sends.
    pub forward: bool,
    pub before_bps: u64,
    pub after_bps: u64,
    /// 95 % interval of after / before; absent with too few runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gain_interval_ratio: Option<[f64; 2]>,
    pub limited_by_before: super::analysis::Limiter,
    pub limited_by_after: super::analysis::Limiter,
}

/// What `--apply` wrote, kept in a file of its own until `--revert` has put it back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    pub schema: String,
    /// Of the boot in which it was written: sysctls do not outlive it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// Of the network namespace in which it was written: most settings are its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub net_namespace: Option<String>,
    /// UTC, RFC 3339.
    pub applied_at: String,
    pub changes: Vec<Change>,
}
