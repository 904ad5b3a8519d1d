//! Parses `watch.toml` into a checked [`WatchFile`], or returns all problems of the file.
//!
//! Parsed by hand like path files (docs/decisions/0006): each problem names the line, the key, what
//! is wrong and what would be right. Documented in docs/watch-file.md.
//!
//! - [`watch_toml`], [`section_table`], [`watch_file_problem`]: values with line numbers, typed access, problems
//! - [`host_tables`], [`measure_tables`], [`agent_sections`], [`api_access`], [`database_section`], [`notify_section`]: the tables of
//!   the file
//! - [`watch_file_checks`]: checks across tables

pub mod agent_sections;
pub mod api_access;
pub mod database_section;
pub mod host_tables;
pub mod measure_tables;
pub mod notify_section;
pub mod section_table;
#[cfg(test)]
mod tests;
pub mod watch_file_checks;
pub mod watch_file_problem;
pub mod watch_toml;

pub use agent_sections::{
    AgentSection, ApiSection, CatchUpPolicy, CollectorSection, DetectSection, RetainSection,
};
pub use api_access::{SenderConfig, TlsFiles};
pub use database_section::{BUILD_WITH_CLICKHOUSE, DatabaseSection};
pub use host_tables::{HostLocation, HostSet, HostSetKind, SharedLink, WatchHost};
pub use measure_tables::{AvailableEffort, MeasureConfig, MeasureDirections, MeasureKind};
pub use notify_section::{NotifySection, WebhookConfig};
pub use watch_file_problem::{WatchFileProblem, WatchFileProblems};

use section_table::WatchTable;
use std::path::Path;
use watch_file_problem::ProblemCollector;

/// The maximum size of a watch file in bytes.
pub const FILE_BYTES_MAX: u64 = 4 << 20;

const KEYS: &[&str] = &[
    "agent",
    "host",
    "link",
    "group",
    "mesh",
    "target",
    "measure",
    "detect",
    "notify",
    "collector",
    "database",
    "retain",
    "api",
];

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

/// Parses the text of a watch file. Problems call the file `file`.
///
/// # Errors
/// All problems, each with line, key, what is wrong, and what would be right.
pub fn parse_watch_file(
    file: &str,
    text: &str,
    here: &WatchFileContext<'_>,
) -> Result<WatchFile, WatchFileProblems> {
    let found = ProblemCollector::default();
    let read =
        watch_toml::parse_toml(text, &found).and_then(|root| read_tables(&root, here, &found));
    found.into_result(file, read)
}

fn read_tables(
    root: &watch_toml::WatchNode,
    here: &WatchFileContext<'_>,
    found: &ProblemCollector,
) -> Option<WatchFile> {
    let top = WatchTable::new(root, "", KEYS, found)?;
    let secrets = agent_sections::SecretFiles {
        check: here.check_secret,
    };
    let links = host_tables::read_links(&top);
    let mut hosts = host_tables::read_hosts(&top, &links, &secrets);
    let agent = agent_sections::read_agent(&top, here.agent, (&mut hosts, &links));
    let sets = host_tables::read_host_sets(&top, &hosts);
    let measures = measure_tables::read_measures(&top, &sets, agent.as_ref());
    let detect = agent_sections::read_detect(&top);
    let notify = notify_section::read_notify(&top, &secrets);
    let collector = agent_sections::read_collector(&top, &secrets);
    let database = database_section::read_database(&top, &secrets);
    let retain = agent_sections::read_retain(&top);
    let api = agent_sections::read_api(&top, agent.as_ref(), &secrets);
    let file = WatchFile {
        agent: agent?,
        hosts,
        links,
        sets,
        measures,
        detect,
        notify,
        collector,
        database,
        retain,
        api,
    };
    watch_file_checks::check_watch_file(&file, found);
    Some(file)
}
