//! `[agent]`, `[detect]`, `[collector]`, `[retain]`, `[api]`, and checks of secret files.

use super::Secrecy;
use super::hosts::{Host, Link, named_links, place};
use super::problem::shown;
use super::receive::{self, Sender, Tls};
use super::table::Table;
use longhaul_model::report::v1::quantity::Quantity;
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

const PAGE_PORT: u16 = 5280;
/// The assumed rate of an interface without `rate`.
pub const RATE_ASSUMED: Rate = Rate::bits_per_second(1_000_000_000);
const JITTER: Duration = Duration::from_secs(60);
const LIGHT_AT_ONCE: u64 = 8;
const DAY: Duration = Duration::from_secs(86_400);
/// The lower bound is the smallest useful spool; the file system limits it anyway.
const SPOOL_BYTES: (u64, u64) = (1 << 20, 1 << 40);

/// The treatment of runs that came due while the agent was not running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CatchUp {
    /// The latest run of each job is made late.
    Latest,
    None,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    pub name: String,
    /// Index of the agent's host.
    pub host: usize,
    pub archive: Option<PathBuf>,
    /// Listen address of page and API.
    pub listen: SocketAddr,
    pub bytes_per_day: Option<u64>,
    pub catch_up: CatchUp,
    /// The maximum random delay of a run.
    pub jitter: Duration,
    /// The maximum number of concurrent light runs.
    pub light_at_once: u32,
    pub line: usize,
}

/// Options of event detection; absent: the default of the detector.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Detect {
    pub quantities: Option<Vec<Quantity>>,
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
pub struct Collector {
    pub url: String,
    pub token_file: Option<PathBuf>,
    /// CA certificates for the collector as PEM; absent: those of the system.
    pub ca_file: Option<PathBuf>,
    /// The maximum number of bytes kept for the collector beyond `[retain]`.
    pub spool_bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retain {
    /// The retention of reports and single values.
    pub runs: Duration,
    /// The retention of hourly values; absent: forever.
    pub hourly: Option<Duration>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Api {
    pub token_file: Option<PathBuf>,
    /// Present: page and API use TLS.
    pub tls: Option<Tls>,
    /// Agents that send their results here.
    pub senders: Vec<Sender>,
}

/// Checks secret files without exposing their content.
pub(super) struct Secrets<'a> {
    pub look: &'a dyn Fn(&Path) -> Secrecy,
}

impl Secrets<'_> {
    /// Returns the path that `key` names, after checking the file.
    pub fn file(&self, table: &Table<'_>, key: &str) -> Option<PathBuf> {
        let path = PathBuf::from(table.text(key)?);
        let name = shown(&path.to_string_lossy());
        match (self.look)(&path) {
            Secrecy::Kept => {}
            Secrecy::Unreadable(why) => table.wrong(
                key,
                format!("{name} cannot be read: {why}"),
                "write the token into it, readable for the agent's user",
            ),
            Secrecy::Empty => table.wrong(
                key,
                format!("{name} holds nothing"),
                "its first line is the token",
            ),
            Secrecy::Open(mode) => table.wrong(
                key,
                format!("{name} can be read by everybody (mode {mode:03o})"),
                format!("chmod 600 {}", path.display()),
            ),
        }
        Some(path)
    }
}

/// Reads `[agent]`; adds its host if the file does not declare it.
pub(super) fn agent(
    top: &Table<'_>,
    named: Option<&str>,
    (hosts, links): (&mut Vec<Host>, &[Link]),
) -> Option<Agent> {
    let Some(table) = top.table("agent", AGENT_KEYS) else {
        if top.get("agent").is_none() {
            let advice = "write [agent] and name = \"this-host\"";
            top.found.add(1, "agent", "missing", advice);
        }
        return None;
    };
    let own = table.name("name");
    if named.is_none() && table.get("name").is_none() {
        let advice = "name this host here, or give --agent NAME where many share the file";
        table.wrong("name", "missing", advice);
    }
    let listen = listen(&table);
    let archive = table.text("archive").map(PathBuf::from);
    let words = [("latest", CatchUp::Latest), ("none", CatchUp::None)];
    let agent = Agent {
        host: 0,
        archive,
        listen: listen.unwrap_or((IpAddr::V4(Ipv4Addr::LOCALHOST), PAGE_PORT).into()),
        bytes_per_day: table.bytes("bytes_per_day", 1_000..=1 << 60),
        catch_up: table.word("catch_up", &words).unwrap_or(CatchUp::Latest),
        jitter: table
            .duration("jitter", Duration::ZERO..=DAY)
            .unwrap_or(JITTER),
        light_at_once: table
            .integer("light_at_once", 1..=256)
            .unwrap_or(LIGHT_AT_ONCE) as u32,
        line: table.node.line,
        name: named.map(str::to_owned).or(own)?,
    };
    if named.is_some_and(|name| hosts.iter().all(|host| host.name != name)) {
        let what = format!(
            "there is no host {}, which --agent names",
            shown(&agent.name)
        );
        let known = hosts.iter().map(|host| host.name.as_str());
        let advice = super::problem::advise(&agent.name, known);
        table.found.add(table.node.line, "agent", what, advice);
    }
    let host = own_host(&table, &agent.name, hosts, links);
    Some(Agent { host, ..agent })
}

/// Returns the index of the agent's host, and applies the keys of `[agent]` to it.
fn own_host(table: &Table<'_>, name: &str, hosts: &mut Vec<Host>, links: &[Link]) -> usize {
    let index = hosts.iter().position(|host| host.name == name);
    let index = index.unwrap_or_else(|| {
        hosts.push(Host {
            name: name.to_owned(),
            address: name.to_owned(),
            port: 5201,
            token_file: None,
            groups: Vec::new(),
            links: Vec::new(),
            interface: None,
            rate: None,
            place: super::Place::default(),
            line: table.node.line,
        });
        hosts.len() - 1
    });
    let host = &mut hosts[index];
    for link in named_links(table, links) {
        if !host.links.contains(&link) {
            host.links.push(link);
        }
    }
    host.interface = table.name("interface").or(host.interface.take());
    host.rate = table.rate("rate").or(host.rate);
    let here = place(table);
    host.place.city = here.city.or(host.place.city.take());
    host.place.position = here.position.or(host.place.position);
    index
}

fn listen(table: &Table<'_>) -> Option<SocketAddr> {
    table.parsed("listen", |text| {
        let address = text
            .parse()
            .or_else(|_| text.parse().map(|ip: IpAddr| (ip, PAGE_PORT).into()));
        address.map_err(|_| "write an address and a port, such as \"127.0.0.1:5280\"".to_owned())
    })
}

pub(super) fn detect(top: &Table<'_>) -> Detect {
    let Some(table) = top.table("detect", DETECT_KEYS) else {
        return Detect::default();
    };
    let words = Quantity::ALL.map(Quantity::word);
    let mut quantities = Vec::new();
    let asked = table.texts("quantities");
    for (word, line) in asked.iter().flatten() {
        match Quantity::of_word(word) {
            Some(quantity) if !quantities.contains(&quantity) => quantities.push(quantity),
            Some(_) => {}
            None => {
                let what = format!("{} is not followed", shown(word));
                let advice = super::problem::advise(word, words);
                table
                    .found
                    .add(*line, table.key("quantities"), what, advice);
            }
        }
    }
    Detect {
        quantities: asked.map(|_| quantities),
        least_change: table.parsed("least_change", share),
        season: table.boolean("season"),
        follow_ups: table.boolean("follow_ups"),
        quicker: table.integer("quicker", 1..=100_000),
    }
}

/// Parses a ratio from 0.1 % to 99 %, written as `0.1` or `10 %`.
fn share(text: &str) -> Result<f64, String> {
    let value = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|it| it / 100.0),
        None => text.trim().parse::<f64>(),
    };
    value
        .ok()
        .filter(|value| (0.001..=0.99).contains(value))
        .ok_or_else(|| "a share from 0.1 % to 99 %, such as \"10 %\"".to_owned())
}

pub(super) fn collector(top: &Table<'_>, secrets: &Secrets<'_>) -> Option<Collector> {
    let table = top.table("collector", COLLECTOR_KEYS)?;
    let has_url = table.must_have("url", "where the collector listens, such as \"https://…\"");
    let url = table.parsed_unseen("url", |text| web_address(text, &["https"]));
    let (least, most) = SPOOL_BYTES;
    Some(Collector {
        url: url.filter(|_| has_url)?,
        token_file: secrets.file(&table, "token_file"),
        ca_file: table.text("ca_file").map(PathBuf::from),
        spool_bytes: table.bytes("spool_bytes", least..=most).unwrap_or(1 << 30),
    })
}

/// Checks a URL. User and password are rejected, because they would be secrets in the file.
pub(super) fn web_address(text: &str, schemes: &[&str]) -> Result<String, String> {
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

pub(super) fn retain(top: &Table<'_>) -> Retain {
    let usual = Retain {
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
        let advice = "hourly values outlive the runs that they are of";
        table.refuse("hourly", "is shorter than runs", advice);
    }
    Retain { runs, hourly }
}

pub(super) fn api(top: &Table<'_>, agent: Option<&Agent>, secrets: &Secrets<'_>) -> Api {
    let table = top.table("api", API_KEYS);
    let token_file = table
        .as_ref()
        .and_then(|table| secrets.file(table, "token_file"));
    let named = table
        .as_ref()
        .is_some_and(|it| it.get("token_file").is_some());
    if let Some(agent) = agent.filter(|agent| !agent.listen.ip().is_loopback() && !named) {
        let line = top
            .get("agent")
            .and_then(|table| table.get("listen"))
            .map_or(agent.line, |node| node.line);
        let what = format!("`{}` can be reached from other hosts", agent.listen);
        let advice = "name a token_file in [api], or listen on 127.0.0.1";
        top.found.add(line, "agent.listen", what, advice);
    }
    let tls = table
        .as_ref()
        .and_then(|table| receive::tls(table, secrets));
    let senders = table
        .as_ref()
        .map_or_else(Vec::new, |table| receive::senders(table, secrets));
    Api {
        token_file,
        tls,
        senders,
    }
}
