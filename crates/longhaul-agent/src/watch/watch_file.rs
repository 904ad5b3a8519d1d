//! Parses `watch.toml` into a checked [`WatchFile`], or returns all problems of the file.
//!
//! The tables are read with serde (docs/decisions/0038) and then checked; each problem names the
//! line, the key, what is wrong and what would be right. Documented in docs/watch-file.md.
//!
//! - [`host_tables`], [`measure_tables`], [`agent_sections`], [`service_sections`]: the tables of
//!   the file
//! - [`watch_file_checks`]: checks across tables

pub mod agent_sections;
pub mod host_tables;
pub mod measure_tables;
pub mod service_sections;
#[cfg(test)]
mod tests;
pub mod watch_file_checks;

pub use agent_sections::{AgentSection, CatchUpPolicy, DetectSection, RetainSection};
pub use host_tables::{HostSet, HostSetKind, SharedLink, WatchHost};
pub use measure_tables::{MeasureConfig, MeasureDirections, MeasureKind};
pub use service_sections::{
    ApiSection, BUILD_WITH_CLICKHOUSE, CollectorSection, DatabaseSection, NotifySection,
    SenderConfig, WebhookConfig,
};

use host_tables::TargetKeys;
use longhaul_config::{ConfigDocument, ConfigProblems, ConfigRules};
use measure_tables::MeasureKeys;
use serde::Deserialize;
use std::path::Path;

/// The maximum size of a watch file in bytes.
pub const FILE_BYTES_MAX: u64 = 4 << 20;
/// The maximum number of tables in a list.
const MAX_TABLES: usize = 10_000;

const RULES: ConfigRules = ConfigRules {
    labels: &["name", "host"],
    required: &[
        ("agent", "write [agent] and name = \"this-host\""),
        ("link.name", "give every link a name"),
        ("host.name", "give every host a name"),
        ("group.name", "give every group and mesh a name"),
        ("mesh.name", "give every group and mesh a name"),
        ("target.host", "name one host"),
        ("measure.name", "give every measurement a name"),
        ("measure.kind", "write path, available, throughput, tune, load or host"),
        ("measure.every", "write the interval, such as \"30 min\""),
        ("webhook.url", "write the URL of the webhook, such as \"https://…\""),
        ("collector.url", "write the URL of the collector, such as \"https://…\""),
        ("database.url", "write the URL of ClickHouse, such as \"https://db.example.net:8443\""),
        ("agent.name", "write the name from [agent] of the agent's own watch file"),
        ("agent.token_file", "name the file with the token that the agent sends"),
    ],
};

/// A watch file as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileKeys {
    agent: AgentSection,
    #[serde(default)]
    host: Vec<WatchHost>,
    #[serde(default)]
    link: Vec<SharedLink>,
    #[serde(default)]
    group: Vec<HostSet>,
    #[serde(default)]
    mesh: Vec<HostSet>,
    #[serde(default)]
    target: Vec<TargetKeys>,
    #[serde(default)]
    measure: Vec<MeasureKeys>,
    #[serde(default)]
    detect: DetectSection,
    #[serde(default)]
    notify: NotifySection,
    collector: Option<CollectorSection>,
    database: Option<DatabaseSection>,
    #[serde(default)]
    retain: RetainSection,
    #[serde(default)]
    api: ApiSection,
}

/// A checked watch file, for one agent.
#[derive(Debug, Clone)]
pub struct WatchFile {
    pub agent: AgentSection,
    /// All hosts, including the agent's own.
    pub hosts: Vec<WatchHost>,
    pub links: Vec<SharedLink>,
    /// Groups, meshes and single targets.
    pub sets: Vec<HostSet>,
    pub measures: Vec<MeasureConfig>,
    pub detect: DetectSection,
    pub notify: NotifySection,
    pub collector: Option<CollectorSection>,
    pub database: Option<DatabaseSection>,
    pub retain: RetainSection,
    pub api: ApiSection,
}

impl WatchFile {
    /// Returns the host of this agent.
    pub fn own_host(&self) -> &WatchHost {
        &self.hosts[self.agent.host]
    }
}

/// The state of a secret file, determined without exposing its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretFileState {
    Private,
    Unreadable(String),
    Empty,
    /// Readable by others than owner and group; contains the mode.
    Open(u32),
}

/// Properties of the environment that affect how a watch file is read.
pub struct WatchFileContext<'a> {
    /// The agent's name; overrides that of the file.
    pub agent: Option<&'a str>,
    /// Checks a secret file. The callee resolves relative paths.
    pub check_secret: &'a dyn Fn(&Path) -> SecretFileState,
}

/// Checks the tables of a document.
struct WatchFileReader<'a, 't> {
    document: &'a ConfigDocument<'t>,
    check_secret: &'a dyn Fn(&Path) -> SecretFileState,
}

/// Parses the text of a watch file. Problems call the file `file`.
///
/// # Errors
/// All problems, each with line, key, what is wrong, and what would be right.
pub fn parse_watch_file(
    file: &str,
    text: &str,
    here: &WatchFileContext<'_>,
) -> Result<WatchFile, ConfigProblems> {
    let mut document = ConfigDocument::parse(file, text, RULES)?;
    let keys = document.read::<FileKeys>();
    let reader = WatchFileReader { document: &document, check_secret: here.check_secret };
    let file = keys.and_then(|keys| reader.build_file(keys, here.agent));
    document.into_result(file).map(|(file, _)| file)
}

impl WatchFileReader<'_, '_> {
    /// Builds the file, even if there are problems, to find more of them.
    fn build_file(&self, mut keys: FileKeys, named: Option<&str>) -> Option<WatchFile> {
        for (key, count) in [
            ("host", keys.host.len()),
            ("link", keys.link.len()),
            ("group", keys.group.len()),
            ("mesh", keys.mesh.len()),
            ("target", keys.target.len()),
            ("measure", keys.measure.len()),
        ] {
            if count > MAX_TABLES {
                let what = format!("more than {MAX_TABLES} entries");
                self.document.add(key, what, "split the file");
                return None;
            }
        }
        self.check_links(&keys.link);
        self.complete_hosts(&mut keys.host, &keys.link);
        let mut hosts = keys.host;
        let declared = hosts.len();
        let agent = self.complete_agent(keys.agent, named, &mut hosts, &keys.link);
        let mut sets = self.build_host_sets(keys.group, keys.mesh, keys.target, &hosts);
        self.join_named_groups(&hosts[..declared], &mut sets);
        let listen = agent.as_ref().map(|agent| agent.listen);
        self.check_api(&keys.api, listen);
        self.check_notify(&keys.notify);
        keys.collector.iter().for_each(|it| self.check_collector(it));
        keys.database.iter().for_each(|it| self.check_database(it));
        let retain = keys.retain;
        if retain.hourly.is_some_and(|hourly| hourly < retain.runs) {
            let advice = "keep hourly values at least as long as runs";
            self.document.reject("retain.hourly", "is shorter than runs", advice);
        }
        let agent = agent?;
        let file = WatchFile {
            measures: measure_tables::build_measures(&keys.measure, &sets, &agent, self.document),
            agent,
            hosts,
            links: keys.link,
            sets,
            detect: keys.detect,
            notify: keys.notify,
            collector: keys.collector,
            database: keys.database,
            retain,
            api: keys.api,
        };
        watch_file_checks::check_watch_file(&file, self.document);
        Some(file)
    }
}
