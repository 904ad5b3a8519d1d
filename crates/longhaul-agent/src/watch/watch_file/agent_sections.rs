//! `[agent]`, `[detect]` and `[retain]`.

use super::host_tables::{SharedLink, WatchHost};
use super::{WatchFile, WatchFileReader};
use longhaul_config::{config_values, quote_value, suggest_known};
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::units::Rate;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

const DEFAULT_PAGE_PORT: u16 = 5280;
/// The assumed rate of an interface without `rate`.
pub const DEFAULT_RATE: Rate = Rate::bits_per_second(1_000_000_000);
/// The maximum rate of an interface, link or run.
const MAX_RATE_BPS: u64 = 100_000_000_000_000;
pub(super) const MAX_DAY_BYTES: u64 = 1 << 60;
pub(super) const DAY_S: u64 = 86_400;
/// The maximum retention in seconds, a century.
pub(super) const MAX_RETAIN_S: u64 = 36_600 * DAY_S;

/// Reads the rate of an interface, link or run.
pub(super) fn interface_rate<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Rate>, D::Error> {
    config_values::rate::<_, _, 1000, MAX_RATE_BPS>(from)
}

/// Reads an address with or without a port, which is `PORT` by default.
pub(super) fn listen_address<'de, D: Deserializer<'de>, const PORT: u16>(
    from: D,
) -> Result<SocketAddr, D::Error> {
    let text: String = config_values::line(from)?;
    let of_ip = |ip: IpAddr| SocketAddr::from((ip, PORT));
    text.parse().or_else(|_| text.parse().map(of_ip)).map_err(|_| {
        D::Error::custom("is invalid; write an address and a port, such as \"127.0.0.1:5280\"")
    })
}

/// The treatment of runs that came due while the agent was not running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CatchUpPolicy {
    /// The latest run of each job is made late.
    #[default]
    Latest,
    None,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AgentSection {
    #[serde(deserialize_with = "config_values::name")]
    pub name: String,
    /// Index of the agent's host.
    #[serde(skip)]
    pub host: usize,
    pub archive: Option<PathBuf>,
    /// Listen address of page and API.
    #[serde(deserialize_with = "listen_address::<_, DEFAULT_PAGE_PORT>")]
    pub listen: SocketAddr,
    #[serde(deserialize_with = "config_values::name")]
    interface: Option<String>,
    #[serde(deserialize_with = "config_values::texts")]
    links: Vec<String>,
    #[serde(deserialize_with = "interface_rate")]
    rate: Option<Rate>,
    #[serde(deserialize_with = "config_values::bytes::<_, _, u64, 1000, MAX_DAY_BYTES>")]
    pub bytes_per_day: Option<u64>,
    pub catch_up: CatchUpPolicy,
    /// The maximum random delay of a run.
    #[serde(deserialize_with = "config_values::duration::<_, _, 0, DAY_S>")]
    pub jitter: Duration,
    /// The maximum number of concurrent light runs.
    #[serde(deserialize_with = "config_values::whole::<_, _, u32, 1, 256>")]
    pub light_at_once: u32,
    #[serde(deserialize_with = "config_values::line")]
    city: Option<String>,
    #[serde(deserialize_with = "config_values::degrees::<_, 90>")]
    latitude: Option<f64>,
    #[serde(deserialize_with = "config_values::degrees::<_, 180>")]
    longitude: Option<f64>,
}

impl Default for AgentSection {
    fn default() -> Self {
        AgentSection {
            name: String::new(),
            host: 0,
            archive: None,
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, DEFAULT_PAGE_PORT)),
            interface: None,
            links: Vec::new(),
            rate: None,
            bytes_per_day: None,
            catch_up: CatchUpPolicy::Latest,
            jitter: Duration::from_secs(60),
            light_at_once: 8,
            city: None,
            latitude: None,
            longitude: None,
        }
    }
}

/// Options of event detection; absent: the default of the detector.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DetectSection {
    pub quantities: Option<Vec<PathQuantity>>,
    /// The minimum change of an event, as a ratio from 0 to 1.
    #[serde(deserialize_with = "config_values::share::<_, _, 1, 990>")]
    pub least_change: Option<f64>,
    /// True: the detector considers the hour of the day.
    pub season: Option<bool>,
    /// True: events may request measurements that decide between causes.
    pub follow_ups: Option<bool>,
    /// The speed-up factor of time in tests and demonstrations, which replay days in minutes. It
    /// is not a key of the file.
    #[serde(skip)]
    pub time_factor: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetainSection {
    /// The retention of reports and single values.
    #[serde(deserialize_with = "config_values::duration::<_, _, DAY_S, MAX_RETAIN_S>")]
    pub runs: Duration,
    /// The retention of hourly values; absent: forever.
    #[serde(deserialize_with = "config_values::duration::<_, _, DAY_S, MAX_RETAIN_S>")]
    pub hourly: Option<Duration>,
}

impl Default for RetainSection {
    fn default() -> Self {
        RetainSection { runs: Duration::from_secs(400 * DAY_S), hourly: None }
    }
}

impl WatchFileReader<'_, '_> {
    /// Completes `[agent]`; adds its host if the file does not declare it. `named` overrides the
    /// name of the file.
    pub(super) fn complete_agent(&self, file: &mut WatchFile, named: Option<&str>) {
        let WatchFile { agent, hosts, links, .. } = file;
        if let Some(name) = named {
            name.clone_into(&mut agent.name);
            if hosts.iter().all(|host| host.name != name) {
                let what = format!("unknown host {} in --agent", quote_value(name));
                let known = hosts.iter().map(|host| host.name.as_str());
                self.document.add("agent", what, suggest_known(name, known));
            }
        } else if !self.document.has("agent") {
            self.document.add("agent", "missing", "write [agent] and name = \"this-host\"");
        } else if agent.name.is_empty() && !self.document.has("agent.name") {
            let advice =
                "name this host here, or use --agent NAME if several agents share the file";
            self.document.add("agent.name", "missing", advice);
        }
        agent.host = self.resolve_own_host(agent, hosts, links);
    }

    /// Returns the index of the agent's host, and applies the keys of `[agent]` to it.
    fn resolve_own_host(
        &self,
        keys: &AgentSection,
        hosts: &mut Vec<WatchHost>,
        links: &[SharedLink],
    ) -> usize {
        let index = hosts.iter().position(|host| host.name == keys.name);
        let index = index.unwrap_or_else(|| {
            hosts.push(WatchHost::of_name(&keys.name));
            hosts.len() - 1
        });
        let host = &mut hosts[index];
        for link in self.find_links(&keys.links, "agent", links) {
            if !host.links.contains(&link) {
                host.links.push(link);
            }
        }
        host.interface = keys.interface.clone().or(host.interface.take());
        host.rate = keys.rate.or(host.rate);
        host.city = keys.city.clone().or(host.city.take());
        self.check_position("agent", keys.latitude, keys.longitude);
        if keys.latitude.is_some() {
            (host.latitude, host.longitude) = (keys.latitude, keys.longitude);
        }
        index
    }
}
