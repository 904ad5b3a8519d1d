//! `[[measure]]`: what is measured, how often, and the maximum cost of a run.

use super::agent_sections::{AgentSection, MAX_DAY_BYTES, interface_rate};
use super::host_tables::{HostSet, suggest_or_declare};
use longhaul_analysis::available_bandwidth::budget_of_mode;
use longhaul_config::config_values::{self, format_long_duration};
use longhaul_config::{ConfigDocument, quote_value};
use longhaul_model::report::v1::available::AvailableMode;
use longhaul_model::report::v1::path::ProbeProtocol;
use longhaul_model::units::Rate;
use longhaul_probe::plan_limits::{self, MAX_BUFFER_BYTES};
use serde::Deserialize;
use std::collections::HashMap;
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
const MAX_STREAMS: u64 = plan_limits::MAX_STREAMS as u64;
/// The maximum interval in seconds, 366 days.
const MAX_EVERY_S: u64 = 366 * 86_400;

/// A measurement as written.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MeasureKeys {
    #[serde(deserialize_with = "config_values::name")]
    name: String,
    kind: KindWord,
    #[serde(deserialize_with = "config_values::duration::<_, _, 1, MAX_EVERY_S>")]
    every: Duration,
    #[serde(default, deserialize_with = "config_values::duration::<_, _, 0, 86_400>")]
    jitter: Option<Duration>,
    #[serde(default, deserialize_with = "config_values::texts")]
    groups: Option<Vec<String>>,
    directions: Option<MeasureDirections>,
    #[serde(default, deserialize_with = "config_values::bytes::<_, _, u64, 1000, MAX_DAY_BYTES>")]
    bytes_per_day: Option<u64>,
    #[serde(default, deserialize_with = "config_values::whole::<_, _, u32, 1, 1000>")]
    count: Option<u32>,
    protocol: Option<ProbeProtocol>,
    mode: Option<AvailableMode>,
    #[serde(default, deserialize_with = "config_values::duration::<_, _, 1, 3600>")]
    time: Option<Duration>,
    #[serde(default, deserialize_with = "config_values::whole::<_, _, u32, 1, MAX_STREAMS>")]
    streams: Option<u32>,
    #[serde(default, deserialize_with = "config_values::bytes::<_, _, u64, 1, MAX_BUFFER_BYTES>")]
    window: Option<u64>,
    #[serde(default, deserialize_with = "config_values::line")]
    congestion_control: Option<String>,
    #[serde(default, deserialize_with = "interface_rate")]
    rate: Option<Rate>,
    #[serde(default, deserialize_with = "config_values::whole::<_, _, u32, 2, 100>")]
    probes: Option<u32>,
    scavenger: Option<bool>,
}

/// The kinds of a file; each has its own options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum KindWord {
    Path,
    Available,
    Throughput,
    Tune,
    Load,
    Host,
}

/// The kind of a measurement, with its options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MeasureKind {
    Path {
        count: u32,
        protocol: ProbeProtocol,
    },
    Available {
        mode: AvailableMode,
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

/// Directions to measure. Forward is from the agent that starts the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
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
            MeasureKind::Available { mode } => *mode == AvailableMode::Careful,
            MeasureKind::Path { .. } | MeasureKind::Host => false,
        }
    }

    /// Returns whether one run measures both directions.
    pub fn covers_both_ways(&self) -> bool {
        matches!(self, MeasureKind::Path { .. } | MeasureKind::Available { .. })
    }

    /// Returns the maximum duration of a run.
    pub fn max_duration(&self) -> Duration {
        SESSION_OVERHEAD
            + match self {
                MeasureKind::Path { count, .. } => PATH_TIME + Duration::from_millis(100) * *count,
                MeasureKind::Available { mode } => {
                    let most = budget_of_mode(*mode).most_time_us;
                    Duration::from_micros(most) * 2
                }
                MeasureKind::Throughput { time, .. } => *time,
                MeasureKind::Tune { time, probes, .. } => (*time + BETWEEN_PROBES) * *probes,
                MeasureKind::Load { time, scavenger, .. } => {
                    (*time + LOAD_IDLE_TIME) * if *scavenger { 2 } else { 1 }
                }
                MeasureKind::Host => AUDIT_TIME,
                MeasureKind::Shaper => {
                    let trains = budget_of_mode(AvailableMode::Careful).most_time_us;
                    SHAPER_TIME + Duration::from_micros(trains)
                }
            }
    }

    /// Returns the minimum duration of a run, and thus the minimum interval. A light run that takes
    /// longer now and then only delays the next one.
    pub fn min_duration(&self) -> Duration {
        match self {
            MeasureKind::Path { count, .. } => Duration::from_millis(100) * *count,
            MeasureKind::Available { mode } if *mode != AvailableMode::Careful => {
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
            MeasureKind::Available { mode } => budget_of_mode(*mode).most_bytes * 2,
            MeasureKind::Throughput { time, rate, .. } => slower(*rate).bytes_in(*time),
            MeasureKind::Tune { time, probes, .. } => {
                path.bytes_in(*time).saturating_mul(u64::from(*probes))
            }
            MeasureKind::Load { time, rate, scavenger, .. } => {
                slower(*rate).bytes_in(*time) * if *scavenger { 2 } else { 1 }
            }
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
    /// Its place in the file, for problems: `measure.0`.
    pub at: String,
}

pub(super) fn build_measures(
    measures: &[MeasureKeys],
    sets: &[HostSet],
    agent: &AgentSection,
    document: &ConfigDocument<'_>,
) -> Vec<MeasureConfig> {
    let mut names: HashMap<&str, usize> = HashMap::new();
    let mut built = Vec::with_capacity(measures.len());
    for (index, keys) in measures.iter().enumerate() {
        let at = format!("measure.{index}");
        if let Some(first) = names.insert(&keys.name, index) {
            let line = document.line(&format!("measure.{first}.name"));
            let why = format!("is already the name of the measurement in line {line}");
            let advice = "give each measurement its own name";
            document.reject(&format!("{at}.name"), &why, advice);
        }
        let kind = build_kind(keys, &at, document);
        refuse_other_options(keys, kind.word(), &at, document);
        built.push(MeasureConfig {
            name: keys.name.clone(),
            every: keys.every,
            jitter: choose_jitter(keys, agent.jitter, &at, document),
            sets: find_sets(keys, sets, &at, document),
            directions: choose_directions(keys, &kind, &at, document),
            bytes_per_day: keys.bytes_per_day,
            kind,
            at,
        });
    }
    built
}

fn choose_jitter(
    keys: &MeasureKeys,
    usual: Duration,
    at: &str,
    document: &ConfigDocument<'_>,
) -> Duration {
    let most = keys.every / 2;
    if keys.jitter.is_some_and(|own| own > most) {
        let advice = format!("write at most half of `every`, {}", format_long_duration(most));
        document.reject(&format!("{at}.jitter"), "is too large", advice);
    }
    // The agent's jitter applies to all measurements, so short intervals reduce it.
    keys.jitter.map_or(usual.min(keys.every / 4), |own| own.min(most))
}

fn choose_directions(
    keys: &MeasureKeys,
    kind: &MeasureKind,
    at: &str,
    document: &ConfigDocument<'_>,
) -> MeasureDirections {
    let directions = keys.directions.unwrap_or(MeasureDirections::Both);
    let covers_all = kind.covers_both_ways() || *kind == MeasureKind::Host;
    if covers_all && directions != MeasureDirections::Both {
        let why = format!("does not apply to kind `{}`", kind.word());
        let advice = "remove it: one run covers everything";
        document.reject(&format!("{at}.directions"), &why, advice);
    }
    directions
}

/// Returns the indices of the sets in `groups`, or all sets if the key is absent.
fn find_sets(
    keys: &MeasureKeys,
    sets: &[HostSet],
    at: &str,
    document: &ConfigDocument<'_>,
) -> Vec<usize> {
    let Some(groups) = &keys.groups else {
        return (0..sets.len()).collect();
    };
    let mut found = Vec::new();
    for (number, name) in groups.iter().enumerate() {
        match sets.iter().position(|set| set.name == *name) {
            Some(index) if !found.contains(&index) => found.push(index),
            Some(_) => {}
            None => {
                let known = sets.iter().map(|set| set.name.as_str());
                let advice = suggest_or_declare(name, known, "[[group]], [[mesh]] or [[target]]");
                let what = format!("unknown group {}", quote_value(name));
                document.add(&format!("{at}.groups.{number}"), what, advice);
            }
        }
    }
    found
}

/// Reports options that the kind does not have.
fn refuse_other_options(keys: &MeasureKeys, kind: &str, at: &str, document: &ConfigDocument<'_>) {
    use KindWord::{Available, Load, Path, Throughput, Tune};
    let options: [(&str, bool, &[KindWord]); 10] = [
        ("count", keys.count.is_some(), &[Path]),
        ("protocol", keys.protocol.is_some(), &[Path]),
        ("mode", keys.mode.is_some(), &[Available]),
        ("time", keys.time.is_some(), &[Throughput, Tune, Load]),
        ("streams", keys.streams.is_some(), &[Throughput, Load]),
        ("window", keys.window.is_some(), &[Throughput]),
        ("probes", keys.probes.is_some(), &[Tune]),
        ("congestion_control", keys.congestion_control.is_some(), &[Throughput, Tune]),
        ("rate", keys.rate.is_some(), &[Throughput, Load]),
        ("scavenger", keys.scavenger.is_some(), &[Load]),
    ];
    let own = options.iter().filter(|(.., kinds)| kinds.contains(&keys.kind));
    let own: Vec<&str> = own.map(|(option, ..)| *option).collect();
    for (option, ..) in options.iter().filter(|(name, is_set, _)| *is_set && !own.contains(name)) {
        let advice = if own.is_empty() {
            format!("remove it: `{kind}` has no options")
        } else {
            format!("options of `{kind}`: {}", own.join(", "))
        };
        let what = format!("does not apply to kind `{kind}`");
        document.add(&format!("{at}.{option}"), what, advice);
    }
}

fn build_kind(keys: &MeasureKeys, at: &str, document: &ConfigDocument<'_>) -> MeasureKind {
    let time_or = |usual_s| keys.time.unwrap_or(Duration::from_secs(usual_s));
    let congestion_control = keys.congestion_control.clone();
    if let Some(name) = &congestion_control {
        let is_legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if name.len() > 15 || !name.chars().all(is_legal) {
            let advice = "write a name such as cubic or bbr";
            document.reject(&format!("{at}.congestion_control"), "is invalid", advice);
        }
    }
    match keys.kind {
        KindWord::Path => MeasureKind::Path {
            count: keys.count.unwrap_or(10),
            protocol: keys.protocol.unwrap_or(ProbeProtocol::Icmp),
        },
        KindWord::Available => {
            MeasureKind::Available { mode: keys.mode.unwrap_or(AvailableMode::Light) }
        }
        KindWord::Throughput => MeasureKind::Throughput {
            time: time_or(10),
            streams: keys.streams,
            window_bytes: keys.window,
            congestion_control,
            rate: keys.rate,
        },
        KindWord::Tune => MeasureKind::Tune {
            time: time_or(5),
            probes: keys.probes.unwrap_or(10),
            congestion_control,
        },
        KindWord::Load => MeasureKind::Load {
            time: time_or(10),
            streams: keys.streams.unwrap_or(1),
            rate: keys.rate,
            scavenger: keys.scavenger.unwrap_or(false),
        },
        KindWord::Host => MeasureKind::Host,
    }
}
