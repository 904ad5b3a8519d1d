//! `[agent]`, `[detect]`, `[collector]`, `[retain]`, `[api]`, and checks of secret files.

use super::SecretFileState;
use super::api_access::{self, SenderConfig, TlsFiles};
use super::host_tables::{SharedLink, WatchHost, read_link_indices, read_location};
use super::section_table::WatchTable;
use super::watch_file_problem::quote_value;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::units::Rate;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

const AGENT_KEYS: &[&str] = &[
    "name",
    "archive",
    "listen",
    "interface",
    "links",
    "rate",
    "bytes_per_day",
    "catch_up",
    "jitter",
    "light_at_once",
    "city",
    "latitude",
    "longitude",
];
const DETECT_KEYS: &[&str] = &[
    "quantities",
    "least_change",
    "season",
    "follow_ups",
    "quicker",
];
const COLLECTOR_KEYS: &[&str] = &["url", "token_file", "ca_file", "spool_bytes"];
const RETAIN_KEYS: &[&str] = &["runs", "hourly"];
const API_KEYS: &[&str] = &["token_file", "certificate", "key", "agent"];

const DEFAULT_PAGE_PORT: u16 = 5280;
/// The assumed rate of an interface without `rate`.
pub const DEFAULT_RATE: Rate = Rate::bits_per_second(1_000_000_000);
const DEFAULT_JITTER: Duration = Duration::from_secs(60);
const DEFAULT_LIGHT_AT_ONCE: u64 = 8;
const DAY: Duration = Duration::from_secs(86_400);
/// The lower bound is the smallest useful spool; the file system limits it anyway.
const SPOOL_BYTES_RANGE: (u64, u64) = (1 << 20, 1 << 40);

/// The treatment of runs that came due while the agent was not running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CatchUpPolicy {
    /// The latest run of each job is made late.
    Latest,
    None,
}

#[derive(Debug, Clone, PartialEq)]
pub struct AgentSection {
    pub name: String,
    /// Index of the agent's host.
    pub host: usize,
    pub archive: Option<PathBuf>,
    /// Listen address of page and API.
    pub listen: SocketAddr,
    pub bytes_per_day: Option<u64>,
    pub catch_up: CatchUpPolicy,
    /// The maximum random delay of a run.
    pub jitter: Duration,
    /// The maximum number of concurrent light runs.
    pub light_at_once: u32,
    pub line: usize,
}

/// Options of event detection; absent: the default of the detector.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DetectSection {
    pub quantities: Option<Vec<PathQuantity>>,
    /// The minimum change of an event, as a ratio from 0 to 1.
    pub least_change: Option<f64>,
    /// True: the detector considers the hour of the day.
    pub season: Option<bool>,
    /// True: events may request measurements that decide between causes.
    pub follow_ups: Option<bool>,
    /// The speed-up factor of time, for replays; absent: real time.
    pub quicker: Option<u64>,
}

/// A collector that results are sent to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectorSection {
    pub url: String,
    pub token_file: Option<PathBuf>,
    /// CA certificates for the collector as PEM; absent: those of the system.
    pub ca_file: Option<PathBuf>,
    /// The maximum number of bytes kept for the collector beyond `[retain]`.
    pub spool_bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetainSection {
    /// The retention of reports and single values.
    pub runs: Duration,
    /// The retention of hourly values; absent: forever.
    pub hourly: Option<Duration>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApiSection {
    pub token_file: Option<PathBuf>,
    /// Present: page and API use TLS.
    pub tls: Option<TlsFiles>,
    /// Agents that send their results here.
    pub senders: Vec<SenderConfig>,
}

/// Checks secret files without exposing their content.
pub(super) struct SecretFiles<'a> {
    pub check: &'a dyn Fn(&Path) -> SecretFileState,
}

impl SecretFiles<'_> {
    /// Returns the path that `key` names, after checking the file.
    pub fn read_path(&self, table: &WatchTable<'_>, key: &str) -> Option<PathBuf> {
        let path = PathBuf::from(table.text(key)?);
        let name = quote_value(&path.to_string_lossy());
        match (self.check)(&path) {
            SecretFileState::Private => {}
            SecretFileState::Unreadable(why) => table.add_problem(
                key,
                format!("cannot read {name}: {why}"),
                "write the token into this file, readable by the agent's user",
            ),
            SecretFileState::Empty => table.add_problem(
                key,
                format!("{name} is empty"),
                "write the token into its first line",
            ),
            SecretFileState::Open(mode) => table.add_problem(
                key,
                format!("{name} can be read by other users (mode {mode:03o})"),
                format!("run `chmod 600 {}`", path.display()),
            ),
        }
        Some(path)
    }
}

/// Reads `[agent]`; adds its host if the file does not declare it.
pub(super) fn read_agent(
    top: &WatchTable<'_>,
    named: Option<&str>,
    (hosts, links): (&mut Vec<WatchHost>, &[SharedLink]),
) -> Option<AgentSection> {
    let Some(table) = top.table("agent", AGENT_KEYS) else {
        if top.get("agent").is_none() {
            let advice = "write [agent] and name = \"this-host\"";
            top.problems.add(1, "agent", "missing", advice);
        }
        return None;
    };
    let own = table.name("name");
    if named.is_none() && table.get("name").is_none() {
        let advice = "name this host here, or use --agent NAME if several agents share the file";
        table.add_problem("name", "missing", advice);
    }
    let listen = read_listen(&table);
    let archive = table.text("archive").map(PathBuf::from);
    let words = [
        ("latest", CatchUpPolicy::Latest),
        ("none", CatchUpPolicy::None),
    ];
    let agent = AgentSection {
        host: 0,
        archive,
        listen: listen.unwrap_or((IpAddr::V4(Ipv4Addr::LOCALHOST), DEFAULT_PAGE_PORT).into()),
        bytes_per_day: table.bytes("bytes_per_day", 1_000..=1 << 60),
        catch_up: table
            .one_of("catch_up", &words)
            .unwrap_or(CatchUpPolicy::Latest),
        jitter: table
            .duration("jitter", Duration::ZERO..=DAY)
            .unwrap_or(DEFAULT_JITTER),
        light_at_once: table
            .integer("light_at_once", 1..=256)
            .unwrap_or(DEFAULT_LIGHT_AT_ONCE) as u32,
        line: table.node.line,
        name: named.map(str::to_owned).or(own)?,
    };
    if named.is_some_and(|name| hosts.iter().all(|host| host.name != name)) {
        let what = format!("unknown host {} in --agent", quote_value(&agent.name));
        let known = hosts.iter().map(|host| host.name.as_str());
        let advice = super::watch_file_problem::suggest_known(&agent.name, known);
        table.problems.add(table.node.line, "agent", what, advice);
    }
    let host = resolve_own_host(&table, &agent.name, hosts, links);
    Some(AgentSection { host, ..agent })
}

/// Returns the index of the agent's host, and applies the keys of `[agent]` to it.
fn resolve_own_host(
    table: &WatchTable<'_>,
    name: &str,
    hosts: &mut Vec<WatchHost>,
    links: &[SharedLink],
) -> usize {
    let index = hosts.iter().position(|host| host.name == name);
    let index = index.unwrap_or_else(|| {
        hosts.push(WatchHost {
            name: name.to_owned(),
            address: name.to_owned(),
            port: 5201,
            token_file: None,
            groups: Vec::new(),
            links: Vec::new(),
            interface: None,
            rate: None,
            location: super::HostLocation::default(),
            line: table.node.line,
        });
        hosts.len() - 1
    });
    let host = &mut hosts[index];
    for link in read_link_indices(table, links) {
        if !host.links.contains(&link) {
            host.links.push(link);
        }
    }
    host.interface = table.name("interface").or(host.interface.take());
    host.rate = table.rate("rate").or(host.rate);
    let here = read_location(table);
    host.location.city = here.city.or(host.location.city.take());
    host.location.position = here.position.or(host.location.position);
    index
}

fn read_listen(table: &WatchTable<'_>) -> Option<SocketAddr> {
    table.parse_with("listen", |text| {
        let address = text.parse().or_else(|_| {
            text.parse()
                .map(|ip: IpAddr| (ip, DEFAULT_PAGE_PORT).into())
        });
        address.map_err(|_| "write an address and a port, such as \"127.0.0.1:5280\"".to_owned())
    })
}

pub(super) fn read_detect(top: &WatchTable<'_>) -> DetectSection {
    let Some(table) = top.table("detect", DETECT_KEYS) else {
        return DetectSection::default();
    };
    let words = PathQuantity::ALL.map(PathQuantity::word);
    let mut quantities = Vec::new();
    let asked = table.text_list("quantities");
    for (word, line) in asked.iter().flatten() {
        match PathQuantity::from_word(word) {
            Some(quantity) if !quantities.contains(&quantity) => quantities.push(quantity),
            Some(_) => {}
            None => {
                let what = format!("unknown quantity {}", quote_value(word));
                let advice = super::watch_file_problem::suggest_known(word, words);
                table
                    .problems
                    .add(*line, table.key("quantities"), what, advice);
            }
        }
    }
    DetectSection {
        quantities: asked.map(|_| quantities),
        least_change: table.parse_with("least_change", parse_share),
        season: table.boolean("season"),
        follow_ups: table.boolean("follow_ups"),
        quicker: table.integer("quicker", 1..=100_000),
    }
}

/// Parses a ratio from 0.1 % to 99 %, written as `0.1` or `10 %`.
fn parse_share(text: &str) -> Result<f64, String> {
    let value = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|it| it / 100.0),
        None => text.trim().parse::<f64>(),
    };
    value
        .ok()
        .filter(|value| (0.001..=0.99).contains(value))
        .ok_or_else(|| "write a share from 0.1 % to 99 %, such as \"10 %\"".to_owned())
}

pub(super) fn read_collector(
    top: &WatchTable<'_>,
    secrets: &SecretFiles<'_>,
) -> Option<CollectorSection> {
    let table = top.table("collector", COLLECTOR_KEYS)?;
    let has_url = table.require(
        "url",
        "write the URL of the collector, such as \"https://…\"",
    );
    let url = table.parse_secret("url", |text| check_url(text, &["https"]));
    let (least, most) = SPOOL_BYTES_RANGE;
    Some(CollectorSection {
        url: url.filter(|_| has_url)?,
        token_file: secrets.read_path(&table, "token_file"),
        ca_file: table.text("ca_file").map(PathBuf::from),
        spool_bytes: table.bytes("spool_bytes", least..=most).unwrap_or(1 << 30),
    })
}

/// Checks a URL. User and password are rejected, because they would be secrets in the file.
pub(super) fn check_url(text: &str, schemes: &[&str]) -> Result<String, String> {
    let right = || format!("write {}://HOST/…", schemes.join(":// or "));
    let (scheme, rest) = text.split_once("://").ok_or_else(right)?;
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if !schemes.contains(&scheme) || host.is_empty() || text.contains(char::is_whitespace) {
        return Err(right());
    }
    if host.contains('@') {
        return Err("put user and password into a token file".to_owned());
    }
    Ok(text.to_owned())
}

pub(super) fn read_retain(top: &WatchTable<'_>) -> RetainSection {
    let usual = RetainSection {
        runs: DAY * 400,
        hourly: None,
    };
    let Some(table) = top.table("retain", RETAIN_KEYS) else {
        return usual;
    };
    let runs = table.duration("runs", DAY..=DAY * 36_600);
    let hourly = table.duration("hourly", DAY..=DAY * 36_600);
    let runs = runs.unwrap_or(usual.runs);
    if hourly.is_some_and(|hourly| hourly < runs) {
        let advice = "keep hourly values at least as long as runs";
        table.reject_value("hourly", "is shorter than runs", advice);
    }
    RetainSection { runs, hourly }
}

pub(super) fn read_api(
    top: &WatchTable<'_>,
    agent: Option<&AgentSection>,
    secrets: &SecretFiles<'_>,
) -> ApiSection {
    let table = top.table("api", API_KEYS);
    let token_file = table
        .as_ref()
        .and_then(|table| secrets.read_path(table, "token_file"));
    let named = table
        .as_ref()
        .is_some_and(|it| it.get("token_file").is_some());
    if let Some(agent) = agent.filter(|agent| !agent.listen.ip().is_loopback() && !named) {
        let line = top
            .get("agent")
            .and_then(|table| table.get("listen"))
            .map_or(agent.line, |node| node.line);
        let what = format!("`{}` can be reached from other hosts", agent.listen);
        let advice = "set token_file in [api], or listen on 127.0.0.1";
        top.problems.add(line, "agent.listen", what, advice);
    }
    let tls = table
        .as_ref()
        .and_then(|table| api_access::read_tls(table, secrets));
    let senders = table
        .as_ref()
        .map_or_else(Vec::new, |table| api_access::read_senders(table, secrets));
    ApiSection {
        token_file,
        tls,
        senders,
    }
}
