//! `[[measure]]`: what is measured, how often, and the maximum cost of a run.

use super::agent_sections::AgentSection;
use super::host_tables::HostSet;
use super::section_table::WatchTable;
use super::watch_file_problem::suggest_known;
use longhaul_analysis::available_bandwidth::budget_of_mode;
use longhaul_model::report::v1::available;
use longhaul_model::units::Rate;
use longhaul_probe::plan_limits;
use std::time::Duration;

/// The time to connect, to negotiate and to transfer the result.
const SESSION_OVERHEAD: Duration = Duration::from_secs(5);
/// The maximum duration of a path run without its round trips: both routes, with timeouts.
const PATH_TIME: Duration = Duration::from_secs(40);
/// The bytes of a path run: probes of 64 bytes to 64 hops in both directions, and the path MTU
/// search.
const PATH_BYTES: u64 = 128_000;
/// The maximum duration of an audit, which reads this host and sends nothing.
const AUDIT_TIME: Duration = Duration::from_secs(10);
/// The time for connections between two probes of a search.
const BETWEEN_PROBES: Duration = Duration::from_secs(2);
/// Idle time before and after a load.
const LOAD_IDLE_TIME: Duration = Duration::from_secs(6);
/// The maximum duration of a search for a token bucket.
pub const SHAPER_TIME: Duration = Duration::from_secs(20);
const EVERY_RANGE: std::ops::RangeInclusive<Duration> =
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
pub enum MeasureKind {
    Path {
        count: u32,
        protocol: &'static str,
    },
    Available {
        mode: AvailableEffort,
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
pub enum AvailableEffort {
    Light,
    Quick,
    Careful,
}

impl AvailableEffort {
    fn to_report_mode(self) -> available::AvailableMode {
        match self {
            AvailableEffort::Light => available::AvailableMode::Light,
            AvailableEffort::Quick => available::AvailableMode::Quick,
            AvailableEffort::Careful => available::AvailableMode::Careful,
        }
    }
}

/// Directions to measure. Forward is from the agent that starts the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeasureDirections {
    Both,
    Forward,
    Reverse,
}

impl MeasureKind {
    pub fn word(&self) -> &'static str {
        match self {
            MeasureKind::Path { .. } => "path",
            MeasureKind::Available { .. } => "available",
            MeasureKind::Throughput { .. } => "throughput",
            MeasureKind::Tune { .. } => "tune",
            MeasureKind::Load { .. } => "load",
            MeasureKind::Host => "host",
            MeasureKind::Shaper => "available_shaper",
        }
    }

    /// Returns whether a run fills the path and thus must run alone.
    pub fn is_heavy(&self) -> bool {
        match self {
            MeasureKind::Throughput { .. }
            | MeasureKind::Tune { .. }
            | MeasureKind::Load { .. }
            | MeasureKind::Shaper => true,
            MeasureKind::Available { mode } => *mode == AvailableEffort::Careful,
            MeasureKind::Path { .. } | MeasureKind::Host => false,
        }
    }

    /// Returns whether one run measures both directions.
    pub fn covers_both_ways(&self) -> bool {
        matches!(
            self,
            MeasureKind::Path { .. } | MeasureKind::Available { .. }
        )
    }

    /// Returns the maximum duration of a run.
    pub fn max_duration(&self) -> Duration {
        SESSION_OVERHEAD
            + match self {
                MeasureKind::Path { count, .. } => PATH_TIME + Duration::from_millis(100) * *count,
                MeasureKind::Available { mode } => {
                    let most = budget_of_mode(mode.to_report_mode()).most_time_us;
                    Duration::from_micros(most) * 2
                }
                MeasureKind::Throughput { time, .. } => *time,
                MeasureKind::Tune { time, probes, .. } => (*time + BETWEEN_PROBES) * *probes,
                MeasureKind::Load {
                    time, scavenger, ..
                } => (*time + LOAD_IDLE_TIME) * if *scavenger { 2 } else { 1 },
                MeasureKind::Host => AUDIT_TIME,
                MeasureKind::Shaper => {
                    let trains = budget_of_mode(available::AvailableMode::Careful).most_time_us;
                    SHAPER_TIME + Duration::from_micros(trains)
                }
            }
    }

    /// Returns the minimum duration of a run, and thus the minimum interval. A light run that takes
    /// longer now and then only delays the next one.
    pub fn min_duration(&self) -> Duration {
        match self {
            MeasureKind::Path { count, .. } => Duration::from_millis(100) * *count,
            MeasureKind::Available { mode } if *mode != AvailableEffort::Careful => {
                Duration::from_secs(1)
            }
            MeasureKind::Host => Duration::from_secs(1),
            heavy => heavy.max_duration(),
        }
    }

    /// Returns the maximum number of bytes that a run sends on a path of this rate.
    pub fn max_bytes(&self, path: Rate) -> u64 {
        let slower = |asked: Option<Rate>| asked.map_or(path, |asked| asked.min(path));
        match self {
            MeasureKind::Path { .. } => PATH_BYTES,
            MeasureKind::Available { mode } => budget_of_mode(mode.to_report_mode()).most_bytes * 2,
            MeasureKind::Throughput { time, rate, .. } => slower(*rate).bytes_in(*time),
            MeasureKind::Tune { time, probes, .. } => {
                path.bytes_in(*time).saturating_mul(u64::from(*probes))
            }
            MeasureKind::Load {
                time,
                rate,
                scavenger,
                ..
            } => slower(*rate).bytes_in(*time) * if *scavenger { 2 } else { 1 },
            MeasureKind::Host => 0,
            MeasureKind::Shaper => path.bytes_in(SHAPER_TIME),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct MeasureConfig {
    pub name: String,
    pub kind: MeasureKind,
    pub every: Duration,
    pub jitter: Duration,
    /// Indices of the sets to measure.
    pub sets: Vec<usize>,
    pub directions: MeasureDirections,
    pub bytes_per_day: Option<u64>,
    pub line: usize,
    pub every_line: usize,
    pub budget_line: usize,
}

pub(super) fn read_measures(
    top: &WatchTable<'_>,
    sets: &[HostSet],
    agent: Option<&AgentSection>,
) -> Vec<MeasureConfig> {
    let mut every_key = COMMON_KEYS.to_vec();
    for key in KINDS.iter().flat_map(|(_, own)| own.iter()) {
        if !every_key.contains(key) {
            every_key.push(key);
        }
    }
    let mut measures: Vec<MeasureConfig> = Vec::new();
    let mut names: Vec<(String, usize)> = Vec::new();
    for table in top.tables("measure", &every_key) {
        let named = table.require("name", "give every measurement a name");
        let name = table.name("name").filter(|_| named);
        if let Some(name) = &name {
            if let Some((_, line)) = names.iter().find(|(known, _)| known == name) {
                let why = format!("is already the name of the measurement in line {line}");
                table.reject_value("name", &why, "give each measurement its own name");
            }
            names.push((name.clone(), table.line("name")));
        }
        measures.extend(read_measure(&table, name, sets, agent));
    }
    measures
}

/// Returns `None` if a required value is invalid; the problem has been reported.
fn read_measure(
    table: &WatchTable<'_>,
    name: Option<String>,
    sets: &[HostSet],
    agent: Option<&AgentSection>,
) -> Option<MeasureConfig> {
    let has_kind = table.require(
        "kind",
        "write path, available, throughput, tune, load or host",
    );
    let work = if has_kind { read_kind(table) } else { None };
    let has_every = table.require("every", "write the interval, such as \"30 min\"");
    let every = table.duration("every", EVERY_RANGE).filter(|_| has_every);
    let jitter = read_jitter(table, every, agent);
    let measured = read_set_indices(table, sets);
    let directions = read_directions(table, work.as_ref());
    let bytes_per_day = table.bytes("bytes_per_day", 1_000..=1 << 60);
    Some(MeasureConfig {
        name: name?,
        kind: work?,
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

fn read_jitter(
    table: &WatchTable<'_>,
    every: Option<Duration>,
    agent: Option<&AgentSection>,
) -> Duration {
    let own = table.duration("jitter", Duration::ZERO..=Duration::from_secs(86_400));
    let Some(every) = every else {
        return Duration::ZERO;
    };
    // The agent's jitter applies to all measurements, so short intervals reduce it.
    let usual = agent
        .map_or(Duration::ZERO, |agent| agent.jitter)
        .min(every / 4);
    if own.is_some_and(|own| own > every / 2) {
        let advice = format!(
            "write at most half of `every`, {}",
            super::section_table::format_long_duration(every / 2)
        );
        table.reject_value("jitter", "is too large", advice);
    }
    own.map_or(usual, |own| own.min(every / 2))
}

fn read_directions(table: &WatchTable<'_>, work: Option<&MeasureKind>) -> MeasureDirections {
    let words = [
        ("both", MeasureDirections::Both),
        ("forward", MeasureDirections::Forward),
        ("reverse", MeasureDirections::Reverse),
    ];
    let asked = table.one_of("directions", &words);
    let both_ways = work.filter(|work| work.covers_both_ways() || **work == MeasureKind::Host);
    if let (Some(work), Some(MeasureDirections::Forward | MeasureDirections::Reverse)) =
        (both_ways, asked)
    {
        let why = format!("does not apply to kind `{}`", work.word());
        table.reject_value("directions", &why, "remove it: one run covers everything");
    }
    asked.unwrap_or(MeasureDirections::Both)
}

/// Returns the sets in `groups`, or all sets if the key is absent.
fn read_set_indices(table: &WatchTable<'_>, sets: &[HostSet]) -> Option<Vec<usize>> {
    if table.get("groups").is_none() {
        return Some((0..sets.len()).collect());
    }
    let mut found = Vec::new();
    for (name, line) in table.text_list("groups")? {
        match sets.iter().position(|set| set.name == name) {
            Some(index) if !found.contains(&index) => found.push(index),
            Some(_) => {}
            None => {
                let advice = match suggest_known(&name, sets.iter().map(|set| set.name.as_str())) {
                    advice if advice.is_empty() => {
                        "declare it as [[group]], [[mesh]] or [[target]]".to_owned()
                    }
                    advice => advice,
                };
                let what = format!(
                    "unknown group {}",
                    super::watch_file_problem::quote_value(&name)
                );
                table.problems.add(line, table.key("groups"), what, advice);
            }
        }
    }
    Some(found)
}

fn read_kind(table: &WatchTable<'_>) -> Option<MeasureKind> {
    let words: Vec<(&str, &str)> = KINDS.iter().map(|(word, _)| (*word, *word)).collect();
    let kind = table.one_of("kind", &words)?;
    let (_, own) = KINDS.iter().find(|(word, _)| *word == kind)?;
    for (key, value) in table.node.entries().unwrap_or_default() {
        let key = key.as_str();
        let elsewhere = KINDS.iter().any(|(_, keys)| keys.contains(&key));
        if elsewhere && !own.contains(&key) {
            let what = format!("does not apply to kind `{kind}`");
            let advice = match own.len() {
                0 => format!("remove it: `{kind}` has no options"),
                _ => format!("options of `{kind}`: {}", own.join(", ")),
            };
            table.problems.add(value.line, table.key(key), what, advice);
        }
    }
    Some(match kind {
        "path" => read_path(table),
        "available" => read_available(table),
        "throughput" => read_throughput(table),
        "tune" => read_tune(table),
        "load" => read_load(table),
        _ => MeasureKind::Host,
    })
}

fn read_path(table: &WatchTable<'_>) -> MeasureKind {
    let words = [("icmp", "icmp"), ("udp", "udp"), ("tcp", "tcp")];
    MeasureKind::Path {
        count: table.integer("count", 1..=1000).unwrap_or(10) as u32,
        protocol: table.one_of("protocol", &words).unwrap_or("icmp"),
    }
}

fn read_available(table: &WatchTable<'_>) -> MeasureKind {
    let words = [
        ("light", AvailableEffort::Light),
        ("quick", AvailableEffort::Quick),
        ("careful", AvailableEffort::Careful),
    ];
    MeasureKind::Available {
        mode: table
            .one_of("mode", &words)
            .unwrap_or(AvailableEffort::Light),
    }
}

fn read_throughput(table: &WatchTable<'_>) -> MeasureKind {
    MeasureKind::Throughput {
        time: read_time(table, 10),
        streams: read_streams(table),
        window_bytes: table.bytes("window", 1..=plan_limits::MAX_BUFFER_BYTES),
        congestion_control: read_congestion_control(table),
        rate: table.rate("rate"),
    }
}

fn read_tune(table: &WatchTable<'_>) -> MeasureKind {
    MeasureKind::Tune {
        time: read_time(table, 5),
        probes: table.integer("probes", 2..=100).unwrap_or(10) as u32,
        congestion_control: read_congestion_control(table),
    }
}

fn read_load(table: &WatchTable<'_>) -> MeasureKind {
    MeasureKind::Load {
        time: read_time(table, 10),
        streams: read_streams(table).unwrap_or(1),
        rate: table.rate("rate"),
        scavenger: table.boolean("scavenger").unwrap_or(false),
    }
}

fn read_time(table: &WatchTable<'_>, usual_s: u64) -> Duration {
    let range = Duration::from_secs(1)..=Duration::from_secs(3600);
    table
        .duration("time", range)
        .unwrap_or(Duration::from_secs(usual_s))
}

fn read_streams(table: &WatchTable<'_>) -> Option<u32> {
    let most = u64::from(plan_limits::MAX_STREAMS);
    table.integer("streams", 1..=most).map(|n| n as u32)
}

fn read_congestion_control(table: &WatchTable<'_>) -> Option<String> {
    table.parse_with("congestion_control", |text| {
        let fine = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if text.is_empty() || text.len() > 15 || !text.chars().all(fine) {
            return Err("write a name such as cubic or bbr".to_owned());
        }
        Ok(text.to_owned())
    })
}
