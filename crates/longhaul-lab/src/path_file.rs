//! Reads a path file: TOML in, a checked [`PathSpec`] out, or errors that name line and key.
//!
//! Source: the text of the file and the `--set key=value` edits of the command line. An edit
//! changes the document before it is read, so it passes the same checks as the file. Quantities
//! carry their units in the file (`"86 ms"`, `"6.25 Gbit/s"`, `"128 MB"`).

mod hop_keys;
mod set_edits;
#[cfg(test)]
mod tests;
mod timed_events;

use crate::path_spec::{HopSpec, HostSpec, MachineSpec, PathSpec};
pub(crate) use hop_keys::MAX_RATE_BPS;
use hop_keys::{HopKeys, build_hop};
use longhaul_config::{ConfigDocument, ConfigProblems, ConfigRules, config_values};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;
use timed_events::{EventKeys, EventReader};

/// The maximum size of a path file in bytes.
pub const FILE_BYTES_MAX: u64 = 1 << 20;
/// The maximum number of hops: packets with the usual TTL of 64 expire in longer chains.
const HOPS_MAX: usize = 63;
/// The minimum MTU of IPv4, RFC 791.
const MTU_MIN: u64 = 68;
const MTU_MAX: u64 = 65_535;
/// The maximum batching time, longer than any network card waits.
const BATCH_MAX: Duration = Duration::from_millis(100);
const WEEK_S: u64 = 7 * 24 * 3600;
const RULES: ConfigRules = ConfigRules {
    labels: &[],
    required: &[
        ("hops", "write [[hops]] for each hop"),
        ("events.at", "write a time such as \"60 s\""),
    ],
};

/// A path file as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PathKeys {
    #[serde(default, deserialize_with = "config_values::line")]
    name: Option<String>,
    #[serde(
        default = "default_mtu",
        deserialize_with = "config_values::whole::<_, _, u32, MTU_MIN, MTU_MAX>"
    )]
    mtu: u32,
    #[serde(
        default = "default_seed",
        deserialize_with = "config_values::whole::<_, _, u64, 0, { u64::MAX }>"
    )]
    seed: u64,
    #[serde(default)]
    near: HostSpec,
    #[serde(default)]
    far: HostSpec,
    hops: Vec<HopKeys>,
    #[serde(default)]
    routes: BTreeMap<String, Vec<HopKeys>>,
    #[serde(default)]
    events: Vec<EventKeys>,
    #[serde(default, deserialize_with = "config_values::duration::<_, _, 0, WEEK_S>")]
    begin_at: Duration,
    #[serde(default)]
    machine: MachineSpec,
}

fn default_mtu() -> u32 {
    1500
}

fn default_seed() -> u64 {
    1
}

/// Parses the text of a path file. `file` is its name in errors, `key` the short name of the path.
///
/// # Errors
/// All errors: what is wrong, in which line (or which `--set`), at which key, and what is allowed.
pub fn parse_path_file(
    file: &str,
    key: &str,
    text: &str,
    sets: &[String],
) -> Result<PathSpec, ConfigProblems> {
    let mut document = ConfigDocument::parse(file, text, RULES)?;
    for set in sets {
        if let Err(why) = set_edits::apply_set(&mut document, set) {
            return Err(ConfigProblems::of_edit(file, set, why));
        }
    }
    let keys = document.read::<PathKeys>().filter(|_| document.is_valid());
    let path = keys.map(|keys| build_path(key, keys, &document));
    document.into_result(path).map(|(path, _)| path)
}

fn build_path(key: &str, keys: PathKeys, document: &ConfigDocument<'_>) -> PathSpec {
    for (host, spec) in [("near", &keys.near), ("far", &keys.far)] {
        if spec.batch > BATCH_MAX {
            document.reject(&format!("{host}.batch"), "is longer than the 100 ms allowed", "");
        }
    }
    let hops = build_route("hops", &keys.hops, document);
    let mut routes = BTreeMap::new();
    let mut route_keys = BTreeMap::from([("main", keys.hops.as_slice())]);
    for (name, listed) in &keys.routes {
        let at = format!("routes.{name}");
        if name == "main" {
            document.add(&at, "`main` is the route of `hops`", "choose another name");
        }
        routes.insert(name.clone(), build_route(&at, listed, document));
        route_keys.entry(name).or_insert(listed);
    }
    PathSpec {
        key: key.to_owned(),
        name: keys.name.unwrap_or_else(|| key.to_owned()),
        mtu: keys.mtu,
        seed: keys.seed,
        near: keys.near,
        far: keys.far,
        hops,
        routes,
        events: EventReader::new(document, route_keys).read_events(&keys.events),
        begin_at: keys.begin_at,
        machine: keys.machine,
    }
}

fn build_route(at: &str, listed: &[HopKeys], document: &ConfigDocument<'_>) -> Vec<HopSpec> {
    if listed.is_empty() || listed.len() > HOPS_MAX {
        let advice = format!("allowed: 1 to {HOPS_MAX}");
        document.add(at, format!("{} hops", listed.len()), advice);
    }
    let mut hops: Vec<HopSpec> = Vec::with_capacity(listed.len());
    for (index, keys) in listed.iter().enumerate() {
        let at = format!("{at}.{index}");
        let hop = build_hop(&at, index, keys, document);
        if hops.iter().any(|other| other.name == hop.name) {
            let what = format!("two hops have the name `{}`", hop.name);
            document.add(&format!("{at}.name"), what, "give each hop its own name");
        }
        if index + 1 == listed.len() {
            keys.refuse_router_keys(&at, document);
        }
        hops.push(hop);
    }
    hops
}
