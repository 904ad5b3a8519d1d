//! `[[measure]]`: what is measured, how often, and the maximum cost of a run.

use super::agent_sections::{AgentSection, MAX_DAY_BYTES, interface_rate};
use super::host_tables::{self, HostSet};
use longhaul_analysis::available_bandwidth::budget_of_mode;
use longhaul_config::ConfigDocument;
use longhaul_config::config_values::{self, format_long_duration};
use longhaul_model::report::v1::available::AvailableMode;
use longhaul_model::report::v1::path::ProbeProtocol;
use longhaul_model::serde_name::name_variant;
use longhaul_model::units::Rate;
use longhaul_probe::plan_limits::{self, MAX_BUFFER_BYTES};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The time to connect, to negotiate and to transfer the result.
const SESSION_OVERHEAD: Duration = Duration::from_secs(5);
/// The maximum duration of a path run without its round trips: both routes, with timeouts.
const PATH_TIME: Duration = Duration::from_secs(40);
/// The bytes of a path run: probes of 64 bytes to 64 hops in both directions, and the path MTU
/// search.
const PATH_BYTES: u64 = 128_000;
/// The bytes of a packet of a latency run, with the headers of IPv6 and UDP and a key.
const LATENCY_PACKET_BYTES: u64 = 160;
/// The maximum duration of an audit, which reads this host and sends nothing.
const AUDIT_TIME: Duration = Duration::from_secs(10);
/// The default of the maximum number of flows that are watched at once: fewer than by hand, because
/// each sample is stored.
const DEFAULT_FLOWS: u32 = 16;
/// The time for connections between two probes of a search.
const BETWEEN_PROBES: Duration = Duration::from_secs(2);
/// Idle time before and after a load.
const LOAD_IDLE_TIME: Duration = Duration::from_secs(6);
/// The maximum duration of a search for a token bucket.
pub const SHAPER_TIME: Duration = Duration::from_secs(20);
const MAX_STREAMS: u64 = plan_limits::MAX_STREAMS as u64;
/// The maximum interval in seconds, 366 days.
const MAX_EVERY_S: u64 = 366 * 86_400;

/// The kind of a measurement; each has its own options.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MeasureKind {
    #[default]
    Path,
    /// Latency by STAMP or TWAMP.
    Latency,
    Available,
    Throughput,
    Tune,
    Load,
    /// An audit of the agent's own host.
    Host,
    /// The transfers of other programs on the agent's own host.
    Flows,
    /// Available bandwidth with a long search for a token bucket, in one direction. Only events
    /// request it; a file cannot.
    #[serde(skip_deserializing)]
    AvailableShaper,
}

impl MeasureKind {
    pub fn word(self) -> &'static str {
        name_variant(&self)
    }

    /// Returns whether one run measures both directions.
    pub fn covers_both_ways(self) -> bool {
        matches!(self, MeasureKind::Path | MeasureKind::Latency | MeasureKind::Available)
    }

    /// Returns whether a run concerns the agent's own host only.
    pub fn is_local(self) -> bool {
        matches!(self, MeasureKind::Host | MeasureKind::Flows)
    }
}

/// Directions to measure. Forward is from the agent that starts the run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MeasureDirections {
    #[default]
    Both,
    Forward,
    Reverse,
}

/// A measurement, with the options of all kinds.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasureConfig {
    #[serde(deserialize_with = "config_values::name")]
    pub name: String,
    pub kind: MeasureKind,
    #[serde(deserialize_with = "config_values::duration::<_, _, 1, MAX_EVERY_S>")]
    pub every: Duration,
    #[serde(
        default,
        rename = "jitter",
        deserialize_with = "config_values::duration::<_, _, 0, 86_400>"
    )]
    pub own_jitter: Option<Duration>,
    /// Its own jitter or that of the agent, within the interval.
    #[serde(skip)]
    pub jitter: Duration,
    #[serde(default, rename = "groups", deserialize_with = "config_values::texts")]
    pub group_names: Option<Vec<String>>,
    /// Indices of the sets to measure.
    #[serde(skip)]
    pub sets: Vec<usize>,
    #[serde(default)]
    pub directions: MeasureDirections,
    #[serde(default, deserialize_with = "config_values::bytes::<_, _, u64, 1000, MAX_DAY_BYTES>")]
    pub bytes_per_day: Option<u64>,
    #[serde(default, deserialize_with = "config_values::whole::<_, _, u32, 1, 1000>")]
    pub count: Option<u32>,
    pub protocol: Option<ProbeProtocol>,
    /// TWAMP Light instead of STAMP.
    pub twamp_light: Option<bool>,
    /// TCP port of the TWAMP server that is asked for a session.
    #[serde(default, deserialize_with = "config_values::whole::<_, _, u16, 1, 65_535>")]
    pub twamp_control: Option<u16>,
    /// UDP port of the reflector.
    #[serde(default, deserialize_with = "config_values::whole::<_, _, u16, 1, 65_535>")]
    pub reflector_port: Option<u16>,
    /// File with the key of authenticated STAMP, or with KeyID and passphrase of TWAMP.
    #[serde(default, deserialize_with = "config_values::line")]
    pub key_file: Option<String>,
    pub mode: Option<AvailableMode>,
    #[serde(default, deserialize_with = "config_values::duration::<_, _, 1, 3600>")]
    pub time: Option<Duration>,
    /// The half-width at which the goodput is known and a run ends, as a ratio of the goodput.
    #[serde(default, deserialize_with = "config_values::share::<_, _, 1, 500>")]
    pub until: Option<f64>,
    #[serde(default, deserialize_with = "config_values::whole::<_, _, u32, 1, MAX_STREAMS>")]
    pub streams: Option<u32>,
    #[serde(default, deserialize_with = "config_values::bytes::<_, _, u64, 1, MAX_BUFFER_BYTES>")]
    pub window: Option<u64>,
    #[serde(default, deserialize_with = "config_values::line")]
    pub congestion_control: Option<String>,
    #[serde(default, deserialize_with = "interface_rate")]
    pub rate: Option<Rate>,
    #[serde(default, deserialize_with = "config_values::whole::<_, _, u32, 2, 100>")]
    pub probes: Option<u32>,
    pub scavenger: Option<bool>,
    /// The transfers to watch: a program, a `:port`, or a peer.
    #[serde(default, deserialize_with = "config_values::line")]
    pub what: Option<String>,
    #[serde(default, deserialize_with = "config_values::whole::<_, _, u32, 1, 1024>")]
    pub flows: Option<u32>,
    /// Its place in the file, for problems: `measure.0`.
    #[serde(skip)]
    pub at: String,
}

impl MeasureConfig {
    /// Returns the number of round trips of a path run, or of packets of a latency run.
    pub fn count(&self) -> u32 {
        self.count.unwrap_or(if self.kind == MeasureKind::Latency { 100 } else { 10 })
    }

    pub fn protocol(&self) -> ProbeProtocol {
        self.protocol.unwrap_or(ProbeProtocol::Icmp)
    }

    pub fn mode(&self) -> AvailableMode {
        self.mode.unwrap_or(AvailableMode::Light)
    }

    /// Returns the duration of the payload; of a search for settings, that of one probe.
    pub fn time(&self) -> Duration {
        let usual_s = if self.kind == MeasureKind::Tune { 5 } else { 10 };
        self.time.unwrap_or(Duration::from_secs(usual_s))
    }

    pub fn probes(&self) -> u32 {
        self.probes.unwrap_or(10)
    }

    pub fn what(&self) -> &str {
        self.what.as_deref().unwrap_or("all")
    }

    pub fn flows(&self) -> u32 {
        self.flows.unwrap_or(DEFAULT_FLOWS)
    }

    /// Returns how often a load sends: alone, and beside a scavenger.
    fn phases(&self) -> u32 {
        if self.scavenger == Some(true) { 2 } else { 1 }
    }

    /// Returns whether a run fills the path and thus must run alone.
    pub fn is_heavy(&self) -> bool {
        match self.kind {
            MeasureKind::Throughput
            | MeasureKind::Tune
            | MeasureKind::Load
            | MeasureKind::AvailableShaper => true,
            MeasureKind::Available => self.mode() == AvailableMode::Careful,
            MeasureKind::Path | MeasureKind::Latency | MeasureKind::Host | MeasureKind::Flows => {
                false
            }
        }
    }

    /// Returns the maximum duration of a run.
    pub fn max_duration(&self) -> Duration {
        let search = |mode| Duration::from_micros(budget_of_mode(mode).most_time_us);
        SESSION_OVERHEAD
            + match self.kind {
                MeasureKind::Path => PATH_TIME + Duration::from_millis(100) * self.count(),
                MeasureKind::Latency => Duration::from_millis(100) * self.count(),
                MeasureKind::Available => search(self.mode()) * 2,
                MeasureKind::Throughput | MeasureKind::Flows => self.time(),
                MeasureKind::Tune => (self.time() + BETWEEN_PROBES) * self.probes(),
                MeasureKind::Load => (self.time() + LOAD_IDLE_TIME) * self.phases(),
                MeasureKind::Host => AUDIT_TIME,
                MeasureKind::AvailableShaper => SHAPER_TIME + search(AvailableMode::Careful),
            }
    }

    /// Returns the minimum duration of a run, and thus the minimum interval. A light run that takes
    /// longer now and then only delays the next one.
    pub fn min_duration(&self) -> Duration {
        match self.kind {
            MeasureKind::Path | MeasureKind::Latency => Duration::from_millis(100) * self.count(),
            MeasureKind::Flows => self.time(),
            _ if self.is_heavy() => self.max_duration(),
            _ => Duration::from_secs(1),
        }
    }

    /// Returns the maximum number of bytes that a run sends on a path of this rate.
    pub fn max_bytes(&self, path: Rate) -> u64 {
        let paced = self.rate.map_or(path, |asked| asked.min(path));
        match self.kind {
            MeasureKind::Path => PATH_BYTES,
            MeasureKind::Latency => u64::from(self.count()) * LATENCY_PACKET_BYTES,
            MeasureKind::Available => budget_of_mode(self.mode()).most_bytes * 2,
            MeasureKind::Throughput | MeasureKind::Load => {
                paced.bytes_in(self.time()) * u64::from(self.phases())
            }
            MeasureKind::Tune => {
                path.bytes_in(self.time()).saturating_mul(u64::from(self.probes()))
            }
            MeasureKind::Host | MeasureKind::Flows => 0,
            MeasureKind::AvailableShaper => path.bytes_in(SHAPER_TIME),
        }
    }
}

/// Checks the measurements and resolves the names of their groups.
pub(super) fn complete_measures(
    measures: &mut [MeasureConfig],
    sets: &[HostSet],
    agent: &AgentSection,
    document: &ConfigDocument<'_>,
) {
    let known: Vec<&str> = sets.iter().map(|set| set.name.as_str()).collect();
    let names = measures.iter().map(|it| &it.name);
    host_tables::refuse_repeated_names(document, "measure", "measurement", names);
    for (index, measure) in measures.iter_mut().enumerate() {
        measure.at = format!("measure.{index}");
        let reject = |key: &str, why: &str, advice: String| {
            document.reject(&format!("measure.{index}.{key}"), why, advice);
        };
        refuse_other_options(measure, document);
        let most = measure.every / 2;
        if measure.own_jitter.is_some_and(|own| own > most) {
            let advice = format!("write at most half of `every`, {}", format_long_duration(most));
            reject("jitter", "is too large", advice);
        }
        // The agent's jitter applies to all measurements, so short intervals reduce it.
        let usual = agent.jitter.min(measure.every / 4);
        measure.jitter = measure.own_jitter.map_or(usual, |own| own.min(most));
        let covers_all = measure.kind.covers_both_ways() || measure.kind.is_local();
        if covers_all && measure.directions != MeasureDirections::Both {
            let why = format!("does not apply to kind `{}`", measure.kind.word());
            reject("directions", &why, "remove it: one run covers everything".to_owned());
        }
        let is_legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let control = measure.congestion_control.as_ref();
        if control.is_some_and(|name| name.len() > 15 || !name.chars().all(is_legal)) {
            let advice = "write a name such as cubic or bbr".to_owned();
            reject("congestion_control", "is invalid", advice);
        }
        if measure.what().parse::<u32>().is_ok() {
            let advice = "write a program, `:443` for a port, or a peer".to_owned();
            reject("what", "is the number of a process, which does not last", advice);
        }
        if measure.twamp_light == Some(true) {
            let others = [
                ("key_file", measure.key_file.is_some()),
                ("twamp_control", measure.twamp_control.is_some()),
            ];
            for (option, _) in others.into_iter().filter(|(_, is_set)| *is_set) {
                let advice = "remove one of them".to_owned();
                reject(option, "does not go with `twamp_light`", advice);
            }
        }
        measure.sets = match &measure.group_names {
            None => (0..sets.len()).collect(),
            Some(groups) => {
                let at = format!("{}.groups", measure.at);
                let tables = "[[group]], [[mesh]] or [[target]]";
                host_tables::resolve_names(document, groups, &at, "group", tables, &known)
            }
        };
    }
}

/// Reports options that the kind does not have.
fn refuse_other_options(it: &MeasureConfig, document: &ConfigDocument<'_>) {
    use MeasureKind::{Available, Flows, Latency, Load, Path, Throughput, Tune};
    let options: [(&str, bool, &[MeasureKind]); 17] = [
        ("count", it.count.is_some(), &[Path, Latency]),
        ("reflector_port", it.reflector_port.is_some(), &[Latency]),
        ("twamp_light", it.twamp_light.is_some(), &[Latency]),
        ("twamp_control", it.twamp_control.is_some(), &[Latency]),
        ("key_file", it.key_file.is_some(), &[Latency]),
        ("protocol", it.protocol.is_some(), &[Path]),
        ("mode", it.mode.is_some(), &[Available]),
        ("time", it.time.is_some(), &[Throughput, Tune, Load, Flows]),
        ("until", it.until.is_some(), &[Throughput]),
        ("streams", it.streams.is_some(), &[Throughput, Load]),
        ("window", it.window.is_some(), &[Throughput]),
        ("probes", it.probes.is_some(), &[Tune]),
        ("congestion_control", it.congestion_control.is_some(), &[Throughput, Tune]),
        ("rate", it.rate.is_some(), &[Throughput, Load]),
        ("scavenger", it.scavenger.is_some(), &[Load]),
        ("what", it.what.is_some(), &[Flows]),
        ("flows", it.flows.is_some(), &[Flows]),
    ];
    let kind = it.kind.word();
    let own = options.iter().filter(|(.., kinds)| kinds.contains(&it.kind));
    let own: Vec<&str> = own.map(|(option, ..)| *option).collect();
    for (option, ..) in options.iter().filter(|(name, is_set, _)| *is_set && !own.contains(name)) {
        let advice = if own.is_empty() {
            format!("remove it: `{kind}` has no options")
        } else {
            format!("options of `{kind}`: {}", own.join(", "))
        };
        let what = format!("does not apply to kind `{kind}`");
        document.add(&format!("{}.{option}", it.at), what, advice);
    }
}
