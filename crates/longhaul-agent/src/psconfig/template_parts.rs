//! The parts of a pSConfig template, as serde reads them. Members that longhaul does not need are
//! ignored.
//!
//! Source: perfsonar/psconfig, `doc/psconfig-schema.json` (5.2).

use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// A template with its names.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct PsconfigTemplate {
    pub addresses: BTreeMap<String, TemplateAddress>,
    #[serde(default)]
    pub address_classes: BTreeMap<String, AddressClass>,
    #[serde(default)]
    pub archives: BTreeMap<String, TemplateArchive>,
    pub groups: BTreeMap<String, AddressGroup>,
    #[serde(default)]
    pub hosts: BTreeMap<String, TemplateHost>,
    #[serde(default)]
    pub includes: Vec<String>,
    #[serde(default)]
    pub schedules: BTreeMap<String, TemplateSchedule>,
    pub tasks: BTreeMap<String, TemplateTask>,
    pub tests: BTreeMap<String, TemplateTest>,
}

/// An address, one of its labels, or the address that one remote address sees.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct TemplateAddress {
    pub address: Option<String>,
    pub host: Option<String>,
    pub labels: BTreeMap<String, TemplateAddress>,
    pub remote_addresses: BTreeMap<String, TemplateAddress>,
    pub lead_bind_address: Option<String>,
    pub pscheduler_address: Option<String>,
    pub tags: Vec<String>,
    pub disabled: bool,
    pub no_agent: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct TemplateHost {
    pub archives: Vec<String>,
    pub tags: Vec<String>,
    pub disabled: bool,
    pub no_agent: bool,
}

/// A destination of results.
#[derive(Debug, Deserialize)]
pub struct TemplateArchive {
    pub archiver: String,
    /// The settings of the archiver.
    #[serde(default)]
    pub data: Value,
    /// A program of jq that changes results.
    pub transform: Option<Value>,
}

/// A set of addresses that filters choose.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct AddressClass {
    pub data_source: ClassSource,
    pub match_filter: Option<AddressFilter>,
    pub exclude_filter: Option<AddressFilter>,
}

#[derive(Debug, Deserialize)]
pub struct ClassSource {
    #[serde(rename = "type")]
    pub kind: ClassSourceKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClassSourceKind {
    /// All addresses of the template.
    CurrentConfig,
    /// The addresses of the agent that reads it.
    RequestingAgent,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum AddressFilter {
    AddressClass { class: String },
    Host { no_agent: Option<bool>, tag: Option<String>, jq: Option<Value> },
    Jq {},
    IpVersion { ip_version: u8 },
    Netmask { netmask: String },
    And { filters: Vec<AddressFilter> },
    Or { filters: Vec<AddressFilter> },
    Not { filter: Box<AddressFilter> },
    Tag { tag: String },
}

/// The addresses of a task, and the pairs of them that are tested.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum AddressGroup {
    /// Every address tests every other one.
    Mesh {
        addresses: Vec<AddressSelector>,
        #[serde(flatten)]
        pairs: PairRules,
    },
    /// Addresses of one list test those of the other.
    Disjoint {
        #[serde(rename = "a-addresses")]
        a_addresses: Vec<AddressSelector>,
        #[serde(rename = "b-addresses")]
        b_addresses: Vec<AddressSelector>,
        #[serde(default)]
        unidirectional: bool,
        #[serde(flatten)]
        pairs: PairRules,
    },
    /// Tests with one address.
    List {
        addresses: Vec<AddressSelector>,
        #[serde(rename = "default-address-label")]
        default_address_label: Option<String>,
    },
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct PairRules {
    pub default_address_label: Option<String>,
    pub excludes_self: SelfExclusion,
    pub excludes: Vec<ExcludedPairs>,
}

/// Pairs with itself that are left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SelfExclusion {
    /// Addresses of one host.
    #[default]
    Host,
    Address,
    Disabled,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ExcludedPairs {
    pub local_address: AddressSelector,
    #[serde(default)]
    pub target_addresses: Vec<AddressSelector>,
}

/// One address by its name, or those of a class.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct AddressSelector {
    pub name: Option<String>,
    pub label: Option<String>,
    pub class: Option<String>,
    #[serde(default)]
    pub disabled: bool,
}

/// The schedule of a task. Durations are those of ISO 8601.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct TemplateSchedule {
    pub repeat: Option<String>,
    pub repeat_cron: Option<String>,
    pub slip: Option<String>,
    pub start: Option<Value>,
    pub until: Option<Value>,
    pub max_runs: Option<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct TemplateTask {
    pub group: String,
    pub test: String,
    pub schedule: Option<String>,
    #[serde(default)]
    pub scheduled_by: usize,
    #[serde(default)]
    pub disabled: bool,
    #[serde(default)]
    pub archives: Vec<String>,
    #[serde(default)]
    pub subtasks: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub struct TemplateTest {
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub spec: Value,
}
