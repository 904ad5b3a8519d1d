//! Parses `watch.toml` into a checked [`WatchFile`], or returns all problems of the file.
//!
//! The tables are read with serde (docs/decisions/0038) and then checked; each problem names the
//! line, the key, what is wrong and what would be right. Documented in docs/watch-file.md.
//!
//! - [`host_tables`], [`measure_tables`], [`agent_sections`], [`serve_section`],
//!   [`fireflies_section`], [`service_sections`]: the tables of the file
//! - [`watch_file_checks`]: checks across tables

pub mod agent_sections;
pub mod fireflies_section;
pub mod host_tables;
pub mod measure_tables;
pub mod perfsonar_archive_section;
pub mod serve_section;
pub mod service_sections;
#[cfg(test)]
mod tests;
pub mod watch_file_checks;

pub use agent_sections::{AgentSection, CatchUpPolicy, DetectSection, RetainSection};
pub use fireflies_section::FirefliesSection;
pub use host_tables::{HostSet, HostSetKind, SharedLink, WatchHost};
pub use measure_tables::{MeasureConfig, MeasureDirections, MeasureKind};
pub use perfsonar_archive_section::{ArchiveMethod, PerfsonarArchiveSection};
pub use serve_section::ServeSection;
pub use service_sections::{
    ApiSection, BUILD_WITH_CLICKHOUSE, CollectorSection, DatabaseSection, NotifySection,
    OtlpSection, SenderConfig, WebhookConfig,
};

use host_tables::TargetKeys;
use longhaul_config::{ConfigDocument, ConfigProblems, ConfigRules, config_values};
use serde::Deserialize;
use std::mem;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The maximum size of a watch file in bytes.
pub const FILE_BYTES_MAX: u64 = 4 << 20;
/// The maximum number of tables in a list.
const MAX_TABLES: usize = 10_000;
/// The tables that an included file may have.
const INCLUDED_TABLES: [&str; 7] =
    ["host", "link", "group", "mesh", "target", "measure", "perfsonar_archive"];

const RULES: ConfigRules = ConfigRules {
    labels: &["name", "host"],
    required: &[
        ("link.name", "give every link a name"),
        ("host.name", "give every host a name"),
        ("group.name", "give every group and mesh a name"),
        ("mesh.name", "give every group and mesh a name"),
        ("target.host", "name one host"),
        ("measure.name", "give every measurement a name"),
        ("measure.kind", "write path, available, throughput, tune, load, host or flows"),
        ("measure.every", "write the interval, such as \"30 min\""),
        ("webhook.url", "write the URL of the webhook, such as \"https://…\""),
        ("otlp.url", "write the URL of the receiver, such as \"http://localhost:4318/v1/metrics\""),
        ("collector.url", "write the URL of the collector, such as \"https://…\""),
        (
            "perfsonar_archive.url",
            "write the URL of the archive, such as \"https://archive.example.net/logstash\"",
        ),
        ("database.url", "write the URL of ClickHouse, such as \"https://db.example.net:8443\""),
        ("agent.name", "write the name from [agent] of the agent's own watch file"),
        ("agent.token_file", "name the file with the token that the agent sends"),
    ],
};

/// A checked watch file, for one agent.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WatchFile {
    #[serde(default)]
    pub agent: AgentSection,
    /// Names of files and URLs with more tables. The last part of the name of a file may have a `*`.
    #[serde(default, deserialize_with = "config_values::texts")]
    pub include: Vec<String>,
    /// The included files when they were read.
    #[serde(skip)]
    pub included: IncludedVersions,
    /// Lines about what is not done, such as parts of included templates.
    #[serde(skip)]
    pub notes: Vec<String>,
    /// All hosts, including the agent's own.
    #[serde(default, rename = "host")]
    pub hosts: Vec<WatchHost>,
    #[serde(default, rename = "link")]
    pub links: Vec<SharedLink>,
    #[serde(default)]
    group: Vec<HostSet>,
    #[serde(default)]
    mesh: Vec<HostSet>,
    #[serde(default)]
    target: Vec<TargetKeys>,
    /// Groups, meshes and single targets.
    #[serde(skip)]
    pub sets: Vec<HostSet>,
    #[serde(default, rename = "measure")]
    pub measures: Vec<MeasureConfig>,
    #[serde(default)]
    pub detect: DetectSection,
    /// The server of the agent; absent: it answers no runs of others.
    pub serve: Option<ServeSection>,
    /// The receiver of fireflies; absent: none are received.
    pub fireflies: Option<FirefliesSection>,
    #[serde(default)]
    pub notify: NotifySection,
    /// The receiver of metrics by OTLP; absent: they are only in `/metrics`.
    pub otlp: Option<OtlpSection>,
    pub collector: Option<CollectorSection>,
    pub database: Option<DatabaseSection>,
    /// Archives with different URLs.
    #[serde(default, rename = "perfsonar_archive")]
    pub perfsonar_archives: Vec<PerfsonarArchiveSection>,
    #[serde(default)]
    pub retain: RetainSection,
    #[serde(default)]
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

/// The names, times and sizes of included files, from which a change is seen.
pub type IncludedVersions = Vec<(PathBuf, Option<SystemTime>, u64)>;

/// A file that the watch file includes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IncludedFile {
    /// The name in problems.
    pub name: String,
    /// TOML with tables of lists.
    pub text: String,
}

/// Checks the tables of a document.
struct WatchFileReader<'a, 't> {
    document: &'a ConfigDocument<'t>,
    check_secret: &'a dyn Fn(&Path) -> SecretFileState,
}

/// Parses the text of a watch file without included files. Problems call the file `file`.
///
/// # Errors
/// All problems, each with line, key, what is wrong, and what would be right.
pub fn parse_watch_file(
    file: &str,
    text: &str,
    here: &WatchFileContext<'_>,
) -> Result<WatchFile, ConfigProblems> {
    parse_included_files(file, text, &[], here)
}

/// Like [`parse_watch_file`], with the files that the file includes.
pub fn parse_included_files(
    file: &str,
    text: &str,
    included: &[IncludedFile],
    here: &WatchFileContext<'_>,
) -> Result<WatchFile, ConfigProblems> {
    let mut document = ConfigDocument::parse(file, text, RULES)?;
    for more in included {
        document.include(&more.name, &more.text, &INCLUDED_TABLES);
    }
    let file = document.read::<WatchFile>();
    let reader = WatchFileReader { document: &document, check_secret: here.check_secret };
    let file = file.and_then(|file| reader.complete_file(file, here.agent));
    document.into_result(file).map(|(file, _)| file)
}

/// Returns the wrong values of a file of which a part cannot be read, such as intervals that are
/// too short. Checks across tables need all of it.
pub fn list_value_problems(file: &str, text: &str) -> Option<ConfigProblems> {
    let mut document = ConfigDocument::parse_partial(file, text, RULES);
    if let Some(mut file) = document.read::<WatchFile>() {
        for (index, measure) in file.measures.iter_mut().enumerate() {
            measure.at = format!("measure.{index}");
            watch_file_checks::check_interval(measure, &document);
        }
    }
    document.into_result(Some(())).err()
}

impl WatchFileReader<'_, '_> {
    /// Completes the file, even if there are problems, to find more of them.
    fn complete_file(&self, mut file: WatchFile, named: Option<&str>) -> Option<WatchFile> {
        for (key, count) in [
            ("host", file.hosts.len()),
            ("link", file.links.len()),
            ("group", file.group.len()),
            ("mesh", file.mesh.len()),
            ("target", file.target.len()),
            ("measure", file.measures.len()),
            ("api.agent", file.api.senders.len()),
            ("perfsonar_archive", file.perfsonar_archives.len()),
        ] {
            if count > MAX_TABLES {
                let what = format!("more than {MAX_TABLES} entries");
                self.document.add(key, what, "split the file");
                return None;
            }
        }
        let links = file.links.iter().map(|it| &it.name);
        host_tables::refuse_repeated_names(self.document, "link", "link", links);
        self.complete_hosts(&mut file.hosts, &file.links);
        let declared = file.hosts.len();
        self.complete_agent(&mut file, named);
        let (groups, meshes) = (mem::take(&mut file.group), mem::take(&mut file.mesh));
        let targets = mem::take(&mut file.target);
        file.sets = self.build_host_sets(groups, meshes, targets, &file.hosts);
        self.join_named_groups(&file.hosts[..declared], &mut file.sets);
        self.check_api(&file.api, file.agent.listen);
        self.check_notify(&file.notify);
        if let Some(section) = &file.otlp {
            self.check_otlp(section);
        }
        file.collector.iter().for_each(|it| self.check_collector(it));
        file.database.iter().for_each(|it| self.check_database(it));
        self.check_perfsonar_archives(&mut file);
        if file.retain.hourly.is_some_and(|hourly| hourly < file.retain.runs) {
            let advice = "keep hourly values at least as long as runs";
            self.document.reject("retain.hourly", "is shorter than runs", advice);
        }
        self.complete_serve(&mut file);
        let WatchFile { measures, sets, agent, .. } = &mut file;
        measure_tables::complete_measures(measures, sets, agent, self.document);
        watch_file_checks::check_watch_file(&file, self.document);
        Some(file)
    }
}
