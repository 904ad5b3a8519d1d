//! Parses `watch.toml` into a checked [`WatchFile`], or returns all problems of the file.
//!
//! Parsed by hand like path files (docs/decisions/0006): each problem names the line, the key, what
//! is wrong and what would be right. Documented in docs/watch-file.md.
//!
//! - [`tree`], [`table`], [`problem`]: values with line numbers, typed access, problems
//! - [`hosts`], [`measures`], [`sections`], [`receive`], [`database`], [`notify`]: the tables of
//!   the file
//! - [`checks`]: checks across tables

pub mod checks;
pub mod database;
pub mod hosts;
pub mod measures;
pub mod notify;
pub mod problem;
pub mod receive;
pub mod sections;
pub mod table;
#[cfg(test)]
mod tests;
pub mod tree;

pub use database::{BUILD_WITH_CLICKHOUSE, Database};
pub use hosts::{Form, Host, HostSet, Link, Place};
pub use measures::{Directions, Measure, Mode, Work};
pub use notify::{Notify, Webhook};
pub use problem::{Problem, Problems};
pub use receive::{Sender, Tls};
pub use sections::{Agent, Api, CatchUp, Collector, Detect, Retain};

use problem::Found;
use std::path::Path;
use table::Table;

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
    pub agent: Agent,
    /// All hosts, including the agent's own.
    pub hosts: Vec<Host>,
    pub links: Vec<Link>,
    /// Groups, meshes and single targets.
    pub sets: Vec<HostSet>,
    pub measures: Vec<Measure>,
    pub detect: Detect,
    pub notify: Notify,
    pub collector: Option<Collector>,
    pub database: Option<Database>,
    pub retain: Retain,
    pub api: Api,
}

impl WatchFile {
    /// Returns the host of this agent.
    pub fn own(&self) -> &Host {
        &self.hosts[self.agent.host]
    }
}

/// The state of a secret file, determined without exposing its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Secrecy {
    Kept,
    Unreadable(String),
    Empty,
    /// Readable by others than owner and group; contains the mode.
    Open(u32),
}

/// Properties of the environment that affect how a watch file is read.
pub struct Surroundings<'a> {
    /// The agent's name; overrides that of the file.
    pub agent: Option<&'a str>,
    /// Checks a secret file. The callee resolves relative paths.
    pub look: &'a dyn Fn(&Path) -> Secrecy,
}

/// Parses the text of a watch file. Problems call the file `file`.
///
/// # Errors
/// All problems, each with line, key, what is wrong, and what would be right.
pub fn parse(file: &str, text: &str, here: &Surroundings<'_>) -> Result<WatchFile, Problems> {
    let found = Found::default();
    let read = tree::parse(text, &found).and_then(|root| read(&root, here, &found));
    found.settle(file, read)
}

fn read(root: &tree::Node, here: &Surroundings<'_>, found: &Found) -> Option<WatchFile> {
    let top = Table::new(root, "", KEYS, found)?;
    let secrets = sections::Secrets { look: here.look };
    let links = hosts::links(&top);
    let mut hosts = hosts::hosts(&top, &links, &secrets);
    let agent = sections::agent(&top, here.agent, (&mut hosts, &links));
    let sets = hosts::sets(&top, &hosts);
    let measures = measures::measures(&top, &sets, agent.as_ref());
    let detect = sections::detect(&top);
    let notify = notify::notify(&top, &secrets);
    let collector = sections::collector(&top, &secrets);
    let database = database::database(&top, &secrets);
    let retain = sections::retain(&top);
    let api = sections::api(&top, agent.as_ref(), &secrets);
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
    checks::check(&file, found);
    Some(file)
}
