//! The audit of a host: its settings, their effect on given paths, and the changes made.

use super::observation;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;
use std::collections::BTreeMap;

/// The requested audit.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditPlan {
    /// The paths that the audit considers.
    pub paths: Vec<AuditPath>,
    /// Absent: the interface of the default route, or towards the peer.
    pub interface: Option<String>,
    /// Apply the advice.
    pub apply: bool,
    /// The peer for measuring the effect.
    pub prove_with: Option<String>,
}

/// A path that the host should be able to fill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditPath {
    /// The peer, or "as asked".
    pub name: String,
    pub rtt_us: u64,
    pub rate_bps: u64,
    /// Origin of the figures: `asked`, or the ids of runs.
    pub origin: String,
}

/// The values read from the host. Readings have stable names, such as `net.ipv4.tcp_rmem`,
/// `interface.mtu`, `interface.ring.rx`, `interface.ring.rx_max`, `cpu.governor`; values are as the
/// kernel reports them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AuditObservation {
    pub host: observation::HostFacts,
    pub readings: BTreeMap<String, String>,
    /// Readings that failed, with the reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unread: BTreeMap<String, String>,
    /// The settings that a live socket actually got.
    pub effective: Vec<EffectiveSetting>,
    /// The changes in order, including reverted ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<SettingChange>,
    /// Interleaved runs before and after.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trials: Vec<ProofTrial>,
}

/// A setting that the kernel promises, tested on a live socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectiveSetting {
    /// `send_buffer`, `receive_buffer`, `receive_window`, `congestion_control`, `pacing`.
    pub what: String,
    pub asked: String,
    pub got: String,
    pub granted: bool,
}

/// A setting that was changed.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingChange {
    /// Name of the reading.
    pub name: String,
    /// The interface of the setting; absent for settings of the host.
    pub interface: Option<String>,
    /// The exact value before the change.
    pub before: String,
    /// The intended value.
    pub wanted: String,
    /// The value read back after writing; absent: it was not written.
    pub after: Option<String>,
    /// The reason why it was not written.
    pub error: Option<String>,
    /// True: restored to `before`.
    #[serde(default)]
    pub reverted: bool,
}

/// One run of the before/after measurement.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProofTrial {
    /// True: with the changes in force.
    pub changed: bool,
    /// True: this host sends.
    pub forward: bool,
    pub run_id: Option<String>,
    pub goodput_bps: Option<u64>,
    pub limited_by: Option<super::analysis::Limiter>,
    pub error: Option<String>,
}

/// Conclusions from the readings.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct AuditAnalysis {
    pub version: u32,
    /// One verdict per rule, the worst first.
    pub verdicts: Vec<AuditVerdict>,
    pub proof: Option<ChangeProof>,
}

#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditVerdict {
    /// The stable name of the rule.
    pub rule: String,
    pub grade: AuditGrade,
    /// The finding and its meaning for this host, with the numbers.
    pub text: String,
    /// The most demanding path.
    pub path: Option<String>,
    /// Maximum rate of one stream on that path with this setting.
    pub bound_bps: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remedies: Vec<AuditRemedy>,
    /// Reference for the rule.
    pub source: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditGrade {
    /// It limits a given path.
    Limits,
    /// It may cost throughput, or matters on other paths.
    Advice,
    Good,
    /// The reading failed.
    Unknown,
}

/// A way to fix the setting.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRemedy {
    /// The reading to change; absent: longhaul itself cannot change it.
    pub name: Option<String>,
    pub value: Option<String>,
    /// A command to paste, if there is one.
    pub command: Option<String>,
    pub text: String,
}

/// The effect of the changes, measured by interleaved runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChangeProof {
    pub directions: Vec<ChangeEffect>,
    /// True: the changes were kept because they helped.
    pub kept: bool,
    pub text: String,
}

#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChangeEffect {
    /// True: this host sends.
    pub forward: bool,
    pub before_bps: u64,
    pub after_bps: u64,
    /// 95 % confidence interval of after / before; absent with too few runs.
    pub gain_interval_ratio: Option<[f64; 2]>,
    pub limited_by_before: super::analysis::Limiter,
    pub limited_by_after: super::analysis::Limiter,
}

/// The changes made by `--apply`, kept in a separate file until `--revert` has restored them.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeJournal {
    pub schema: String,
    /// Id of the boot in which it was written: sysctls do not survive a reboot.
    pub boot_id: Option<String>,
    /// The network namespace in which it was written: most settings belong to it.
    pub net_namespace: Option<String>,
    /// UTC, RFC 3339.
    pub applied_at: String,
    pub changes: Vec<SettingChange>,
}
