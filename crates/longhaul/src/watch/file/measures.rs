//! `[[measure]]`: what is measured, how often, and the maximum cost of a run.

use super::hosts::HostSet;
use super::problem::advise;
use super::sections::Agent;
use super::table::Table;
use longhaul_analysis::available::budget;
use longhaul_model::report::v1::available;
use longhaul_model::units::Rate;
use longhaul_probe::limits;
use std::time::Duration;

/// The time to connect, to negotiate and to transfer the result.
const AROUND: Duration = Duration::from_secs(5);
/// The maximum duration of a path run without its round trips: both routes, with timeouts.
const PATH_LOOK: Duration = Duration::from_secs(40);
/// The bytes of a path run: probes of 64 bytes to 64 hops in both directions, and the path MTU
/// search.
const PATH_BYTES: u64 = 128_000;
/// The maximum duration of an audit, which reads this host and sends nothing.
const AUDIT: Duration = Duration::from_secs(10);
/// The time for connections between two probes of a search.
const BETWEEN_PROBES: Duration = Duration::from_secs(2);
/// Idle time before and after a load.
const IDLE: Duration = Duration::from_secs(6);
/// The maximum duration of a search for a token bucket.
pub const SHAPER_LOOK: Duration = Duration::from_secs(20);
const EVERY: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(366 * 86_400);

const COMMON_KEYS: &[&str] = &[
    "name",
    "kind",
    "every",
    "jitter",
    "groups",
    "directions",
    "bytes_per_day",
];
const KINDS: &[(&str, &[&str])] = &[
    ("path", &["count", "protocol"]),
    ("available", &["mode"]),
    (
        "throughput",
        &["time", "streams", "window", "congestion_control", "rate"],
    ),
    ("tune", &["time", "probes", "congestion_control"]),
    ("load", &["time", "streams", "rate", "scavenger"]),
    ("host", &[]),
];

/// The kind of a measurement, with its options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    Path {
        count: u32,
        protocol: &'static str,
    },
    Available {
        mode: Mode,
    },
    Throughput {
        time: Duration,
        streams: Option<u32>,
        window_bytes: Option<u64>,
        congestion_control: Option<String>,
        rate: Option<Rate>,
    },
    Tune {
        /// Duration of one probe.
        time: Duration,
        probes: u32,
        congestion_control: Option<String>,
    },
    Load {
        time: Duration,
        streams: u32,
        rate: Option<Rate>,
        scavenger: bool,
    },
    /// An audit of the agent's own host.
    Host,
    /// Available bandwidth with a long search for a token bucket, in one direction. Only events
    /// request it; a file cannot.
    Shaper,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Light,
    Quick,
    Careful,
}

impl Mode {
    fn of_report(self) -> available::Mode {
        match self {
            Mode::Light => available::Mode::Light,
            Mode::Quick => available::Mode::Quick,
            Mode::Careful => available::Mode::Careful,
        }
    }
}

/// Directions to measure. Forward is from the agent that starts the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Directions {
    Both,
    Forward,
    Reverse,
}

impl Work {
    pub fn word(&self) -> &'static str {
        match self {
            Work::Path { .. } => "path",
            Work::Available { .. } => "available",
            Work::Throughput { .. } => "throughput",
            Work::Tune { .. } => "tune",
            Work::Load { .. } => "load",
            Work::Host => "host",
            Work::Shaper => "available_shaper",
        }
    }

    /// Returns whether a run fills the path and thus must run alone.
    pub fn is_heavy(&self) -> bool {
        match self {
            Work::Throughput { .. } | Work::Tune { .. } | Work::Load { .. } | Work::Shaper => true,
            Work::Available { mode } => *mode == Mode::Careful,
            Work::Path { .. } | Work::Host => false,
        }
    }

    /// Returns whether one run measures both directions.
    pub fn covers_both_ways(&self) -> bool {
        matches!(self, Work::Path { .. } | Work::Available { .. })
    }

    /// Returns the maximum duration of a run.
    pub fn lasts(&self) -> Duration {
        AROUND
            + match self {
                Work::Path { count, .. } => PATH_LOOK + Duration::from_millis(100) * *count,
                Work::Available { mode } => {
                    let most = budget(mode.of_report()).most_time_us;
                    Duration::from_micros(most) * 2
                }
                Work::Throughput { time, .. } => *time,
                Work::Tune { time, probes, .. } => (*time + BETWEEN_PROBES) * *probes,
                Work::Load {
                    time, scavenger, ..
                } => (*time + IDLE) * if *scavenger { 2 } else { 1 },
                Work::Host => AUDIT,
                Work::Shaper => {
                    let trains = budget(available::Mode::Careful).most_time_us;
                    SHAPER_LOOK + Duration::from_micros(trains)
                }
            }
    }

    /// Returns the minimum duration of a run, and thus the minimum interval. A light run that takes
    /// longer now and then only delays the next one.
    pub fn takes(&self) -> Duration {
        match self {
            Work::Path { count, .. } => Duration::from_millis(100) * *count,
            Work::Available { mode } if *mode != Mode::Careful => Duration::from_secs(1),
            Work::Host => Duration::from_secs(1),
            heavy => heavy.lasts(),
        }
    }

    /// Returns the maximum number of bytes that a run sends on a path of this rate.
    pub fn bytes(&self, path: Rate) -> u64 {
        let slower = |asked: Option<Rate>| asked.map_or(path, |asked| asked.min(path));
        match self {
            Work::Path { .. } => PATH_BYTES,
            Work::Available { mode } => budget(mode.of_report()).most_bytes * 2,
            Work::Throughput { time, rate, .. } => slower(*rate).bytes_in(*time),
            Work::Tune { time, probes, .. } => {
                path.bytes_in(*time).saturating_mul(u64::from(*probes))
            }
            Work::Load {
                time,
                rate,
                scavenger,
                ..
            } => slower(*rate).bytes_in(*time) * if *scavenger { 2 } else { 1 },
            Work::Host => 0,
            Work::Shaper => path.bytes_in(SHAPER_LOOK),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Measure {
    pub name: String,
    pub work: Work,
    pub every: Duration,
    pub jitter: Duration,
    /// Indices of the sets to measure.
    pub sets: Vec<usize>,
    pub directions: Directions,
    pub bytes_per_day: Option<u64>,
    pub line: usize,
    pub every_line: usize,
    pub budget_line: usize,
}

pub(super) fn measures(top: &Table<'_>, sets: &[HostSet], agent: Option<&Agent>) -> Vec<Measure> {
    let mut every_key = COMMON_KEYS.to_vec();
    for key in KINDS.iter().flat_map(|(_, own)| own.iter()) {
        if !every_key.contains(key) {
            every_key.push(key);
        }
    }
    let mut measures: Vec<Measure> = Vec::new();
    let mut names: Vec<(String, usize)> = Vec::new();
    for table in top.tables("measure", &every_key) {
        let named = table.must_have("name", "series and budgets are called by it");
        let name = table.name("name").filter(|_| named);
        if let Some(name) = &name {
            if let Some((_, line)) = names.iter().find(|(known, _)| known == name) {
                let why = format!("is the name of the measurement of line {line} too");
                table.refuse("name", &why, "give each its own name");
            }
            names.push((name.clone(), table.line("name")));
        }
        measures.extend(measure(&table, name, sets, agent));
    }
    measures
}

/// Returns `None` if a required value is invalid; the problem has been reported.
fn measure(
    table: &Table<'_>,
    name: Option<String>,
    sets: &[HostSet],
    agent: Option<&Agent>,
) -> Option<Measure> {
    let has_kind = table.must_have("kind", "path, available, throughput, tune, load or host");
    let work = if has_kind { work(table) } else { None };
    let has_every = table.must_have("every", "say how often, such as \"30 min\"");
    let every = table.duration("every", EVERY).filter(|_| has_every);
    let jitter = jitter(table, every, agent);
    let measured = named_sets(table, sets);
    let directions = directions(table, work.as_ref());
    let bytes_per_day = table.bytes("bytes_per_day", 1_000..=1 << 60);
    Some(Measure {
        name: name?,
        work: work?,
        every: every?,
        jitter,
        sets: measured?,
        directions,
        bytes_per_day,
        line: table.node.line,
        every_line: table.line("every"),
        budget_line: table.line("bytes_per_day"),
    })
}

fn jitter(table: &Table<'_>, every: Option<Duration>, agent: Option<&Agent>) -> Duration {
    let own = table.duration("jitter", Duration::ZERO..=Duration::from_secs(86_400));
    let Some(every) = every else {
        return Duration::ZERO;
    };
    // The agent's jitter applies to all measurements, so short intervals reduce it.
    let usual = agent
        .map_or(Duration::ZERO, |agent| agent.jitter)
        .min(every / 4);
    if own.is_some_and(|own| own > every / 2) {
        let advice = format!("at most half of every, {}", super::table::span(every / 2));
        table.refuse("jitter", "would mix one interval with the next", advice);
    }
    own.map_or(usual, |own| own.min(every / 2))
}

fn directions(table: &Table<'_>, work: Option<&Work>) -> Directions {
    let words = [
        ("both", Directions::Both),
        ("forward", Directions::Forward),
        ("reverse", Directions::Reverse),
    ];
    let asked = table.word("directions", &words);
    let both_ways = work.filter(|work| work.covers_both_ways() || **work == Work::Host);
    if let (Some(work), Some(Directions::Forward | Directions::Reverse)) = (both_ways, asked) {
        let why = format!("does not fit kind `{}`", work.word());
        table.refuse("directions", &why, "leave it out: one run sees to it all");
    }
    asked.unwrap_or(Directions::Both)
}

/// Returns the sets in `groups`, or all sets if the key is absent.
fn named_sets(table: &Table<'_>, sets: &[HostSet]) -> Option<Vec<usize>> {
    if table.get("groups").is_none() {
        return Some((0..sets.len()).collect());
    }
    let mut found = Vec::new();
    for (name, line) in table.texts("groups")? {
        match sets.iter().position(|set| set.name == name) {
            Some(index) if !found.contains(&index) => found.push(index),
            Some(_) => {}
            None => {
                let advice = match advise(&name, sets.iter().map(|set| set.name.as_str())) {
                    advice if advice.is_empty() => {
                        "declare it as [[group]], [[mesh]] or [[target]]".to_owned()
                    }
                    advice => advice,
                };
                let what = format!("there is no group {}", super::problem::shown(&name));
                table.found.add(line, table.key("groups"), what, advice);
            }
        }
    }
    Some(found)
}

fn work(table: &Table<'_>) -> Option<Work> {
    let words: Vec<(&str, &str)> = KINDS.iter().map(|(word, _)| (*word, *word)).collect();
    let kind = table.word("kind", &words)?;
    let (_, own) = KINDS.iter().find(|(word, _)| *word == kind)?;
    for (key, value) in table.node.entries().unwrap_or_default() {
        let key = key.as_str();
        let elsewhere = KINDS.iter().any(|(_, keys)| keys.contains(&key));
        if elsewhere && !own.contains(&key) {
            let what = format!("does not fit kind `{kind}`");
            let advice = match own.len() {
                0 => format!("`{kind}` has no options"),
                _ => format!("options of `{kind}`: {}", own.join(", ")),
            };
            table.found.add(value.line, table.key(key), what, advice);
        }
    }
    Some(match kind {
        "path" => path(table),
        "available" => available(table),
        "throughput" => throughput(table),
        "tune" => tune(table),
        "load" => load(table),
        _ => Work::Host,
    })
}

fn path(table: &Table<'_>) -> Work {
    let words = [("icmp", "icmp"), ("udp", "udp"), ("tcp", "tcp")];
    Work::Path {
        count: table.integer("count", 1..=1000).unwrap_or(10) as u32,
        protocol: table.word("protocol", &words).unwrap_or("icmp"),
    }
}

fn available(table: &Table<'_>) -> Work {
    let words = [
        ("light", Mode::Light),
        ("quick", Mode::Quick),
        ("careful", Mode::Careful),
    ];
    Work::Available {
        mode: table.word("mode", &words).unwrap_or(Mode::Light),
    }
}

fn throughput(table: &Table<'_>) -> Work {
    Work::Throughput {
        time: time(table, 10),
        streams: streams(table),
        window_bytes: table.bytes("window", 1..=limits::MOST_BUFFER_BYTES),
        congestion_control: congestion_control(table),
        rate: table.rate("rate"),
    }
}

fn tune(table: &Table<'_>) -> Work {
    Work::Tune {
        time: time(table, 5),
        probes: table.integer("probes", 2..=100).unwrap_or(10) as u32,
        congestion_control: congestion_control(table),
    }
}

fn load(table: &Table<'_>) -> Work {
    Work::Load {
        time: time(table, 10),
        streams: streams(table).unwrap_or(1),
        rate: table.rate("rate"),
        scavenger: table.boolean("scavenger").unwrap_or(false),
    }
}

fn time(table: &Table<'_>, usual_s: u64) -> Duration {
    let range = Duration::from_secs(1)..=Duration::from_secs(3600);
    table
        .duration("time", range)
        .unwrap_or(Duration::from_secs(usual_s))
}

fn streams(table: &Table<'_>) -> Option<u32> {
    let most = u64::from(limits::MOST_STREAMS);
    table.integer("streams", 1..=most).map(|n| n as u32)
}

fn congestion_control(table: &Table<'_>) -> Option<String> {
    table.parsed("congestion_control", |text| {
        let fine = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if text.is_empty() || text.len() > 15 || !text.chars().all(fine) {
            return Err("a name such as cubic or bbr".to_owned());
        }
        Ok(text.to_owned())
    })
}
