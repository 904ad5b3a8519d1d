//! Reads a path file: TOML in, a checked [`PathSpec`] out, or errors that name line and key.
//!
//! Source: the text of the file and the `--set key=value` edits of the command line. An edit
//! changes the document before it is read, so it passes the same checks as the file. Quantities
//! carry their units in the file (`"86 ms"`, `"6.25 Gbit/s"`, `"128 MB"`).
//!
//! # Timed events
//!
//! Timed events: a change of route, or of one link.
//!
//! A change of a link lists only what changes. Everything else stays as the file and earlier events
//! set it, so every event is read on top of all earlier ones at the same link.
//!
//! # Set edits
//!
//! Applies `--set key=value` edits to the document before it is read.
//!
//! A key is a dotted path: `mtu`, `hops.3.rate` (hops count from 1, as in a traceroute),
//! `hops.last.queue`, `hops.all.loss`, `hops.r04chi.delay` (a name or a unique prefix of one),
//! `far.sysctl.net.ipv4.tcp_rmem`. Missing values are created; the reader of the document decides
//! whether they are allowed.

mod hop_keys;

const EVENTS_MAX: usize = 10_000;

/// An event as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EventKeys {
    #[serde(deserialize_with = "config_values::duration::<_, _, 0, WEEK_S>")]
    at: Duration,
    #[serde(default, deserialize_with = "config_values::line")]
    route: Option<String>,
    /// Number from 1, `last`, or name.
    #[serde(default, deserialize_with = "config_values::scalar")]
    hop: Option<String>,
    #[serde(default)]
    direction: LinkDirection,
    set: Option<LinkKeys>,
}

#[derive(Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum LinkDirection {
    #[default]
    Both,
    Forward,
    Reverse,
}

/// Reads events in the order of time.
struct EventReader<'a> {
    document: &'a ConfigDocument<'a>,
    routes: BTreeMap<&'a str, &'a [HopKeys]>,
    /// The keys of the links that earlier events changed.
    changed: HashMap<LinkPlace, LinkKeys>,
}

impl<'a> EventReader<'a> {
    fn new(document: &'a ConfigDocument<'a>, routes: BTreeMap<&'a str, &'a [HopKeys]>) -> Self {
        EventReader { document, routes, changed: HashMap::new() }
    }

    fn read_events(&mut self, listed: &[EventKeys]) -> Vec<EventSpec> {
        if listed.len() > EVENTS_MAX {
            let what = format!("{} events", listed.len());
            self.document.add("events", what, format!("allowed: at most {EVENTS_MAX}"));
            return Vec::new();
        }
        let mut timed: Vec<(usize, &EventKeys)> = listed.iter().enumerate().collect();
        timed.sort_by_key(|(_, event)| event.at);
        let mut events = Vec::with_capacity(timed.len());
        for (index, event) in timed {
            let changes = self.read_changes(&format!("events.{index}"), event);
            events.extend(changes.into_iter().map(|change| EventSpec { at: event.at, change }));
        }
        events
    }

    fn read_changes(&mut self, at: &str, event: &EventKeys) -> Vec<ChangeSpec> {
        let route = event.route.clone().unwrap_or_else(|| "main".to_owned());
        let Some(hops) = self.routes.get(route.as_str()) else {
            let names: Vec<&str> = self.routes.keys().copied().collect();
            let advice = format!("allowed: {}", names.join(", "));
            self.document.reject(&format!("{at}.route"), "is not a route", advice);
            return Vec::new();
        };
        match (&event.hop, &event.set) {
            (None, None) if event.route.is_some() => vec![ChangeSpec::Route(route)],
            (Some(hop), Some(set)) => {
                let Some(hop) = find_hop(hop, hops) else {
                    let count = hops.len();
                    let advice = format!("allowed: 1 to {count}, `last`, or the name of a hop");
                    let why = "is not a hop of this route";
                    self.document.reject(&format!("{at}.hop"), why, advice);
                    return Vec::new();
                };
                [(true, LinkDirection::Reverse), (false, LinkDirection::Forward)]
                    .into_iter()
                    .filter(|(_, other)| event.direction != *other)
                    .map(|(forward, _)| {
                        let route = route.clone();
                        self.change_link(LinkPlace { route, hop, forward }, set, at)
                    })
                    .collect()
            }
            _ => {
                let advice = "allowed: `route` alone (changes to it), or `hop` with `set` (and \
                              `direction`; `route` then selects the route of the hop)";
                self.document.add(at, "not an event", advice);
                Vec::new()
            }
        }
    }

    fn change_link(&mut self, place: LinkPlace, set: &LinkKeys, at: &str) -> ChangeSpec {
        let hop = &self.routes[place.route.as_str()][place.hop];
        let link = hop.link(place.forward);
        let before = self.changed.get(&place).unwrap_or(&link);
        let now = set.over(before);
        let to = build_link(at, "set", &now, self.document);
        self.changed.insert(place.clone(), now);
        ChangeSpec::Link { place, to: Box::new(to) }
    }
}

/// Returns the index of the hop with this number (from 1) or name.
fn find_hop(text: &str, hops: &[HopKeys]) -> Option<usize> {
    let by_number = match text.parse::<usize>() {
        Ok(number) => number.checked_sub(1).filter(|index| *index < hops.len()),
        Err(_) if text == "last" => hops.len().checked_sub(1),
        Err(_) => None,
    };
    by_number.or_else(|| hops.iter().position(|hop| hop.name.as_deref() == Some(text)))
}

/// The maximum depth of a key: `routes.NAME.3.forward.policer.rate` has six parts.
const DEPTH_MAX: usize = 16;

/// # Errors
/// The edit has no key, or names a hop or event that does not exist.
fn apply_set<'t>(document: &mut ConfigDocument<'t>, set: &'t str) -> Result<(), String> {
    let Some((key, text)) = set.split_once('=') else {
        return Err("no `=` in it; allowed: key=value, such as hops.3.rate=1G".to_owned());
    };
    let (key, text) = (key.trim(), text.trim());
    if key.is_empty() || key.split('.').count() > DEPTH_MAX {
        return Err("not a key; allowed: a dotted path, such as hops.3.rate".to_owned());
    }
    // A TOML value, or else plain text (`1G`, `86 ms`).
    let value = match DeValue::parse(text) {
        Ok(value) if !value.get_ref().is_datetime() => value.into_inner(),
        _ => DeValue::String(text.into()),
    };
    document
        .edit(set, |root, origin| {
            let edit = ValueEdit { value: origin.mark(value), origin };
            edit.put(root, key)
        })
        .map_err(|why| format!("{key}: {why}"))
}

/// The new value of an edit.
struct ValueEdit<'t> {
    value: Spanned<DeValue<'t>>,
    origin: EditOrigin,
}

impl<'t> ValueEdit<'t> {
    fn put(&self, place: &mut Spanned<DeValue<'t>>, rest: &str) -> Result<(), String> {
        if rest.is_empty() {
            *place = self.value.clone();
            return Ok(());
        }
        if !matches!(place.get_ref(), DeValue::Array(_) | DeValue::Table(_)) {
            // `policer = "none"` is replaced by `policer.rate = …`.
            *place = self.origin.mark(DeValue::Table(DeTable::new()));
        }
        match place.get_mut() {
            DeValue::Array(list) => self.put_in_list(list, rest),
            DeValue::Table(table) => self.put_in_table(table, rest),
            _ => Ok(()),
        }
    }

    fn put_in_table(&self, table: &mut DeTable<'t>, key: &str) -> Result<(), String> {
        let (first, rest) = key.split_once('.').unwrap_or((key, ""));
        let empty = match first {
            "hops" | "events" => DeValue::Array(DeArray::new()),
            _ => DeValue::Table(DeTable::new()),
        };
        if !table.contains_key(first) {
            table.insert(self.origin.mark_key(first), self.origin.mark(empty));
        }
        let Some(place) = table.get_mut(first) else {
            return Ok(());
        };
        // Names of sysctls contain dots.
        if first == "sysctl" && !rest.is_empty() {
            let DeValue::Table(sysctls) = place.get_mut() else {
                return Err("not a table of sysctls".to_owned());
            };
            sysctls.insert(self.origin.mark_key(rest), self.value.clone());
            return Ok(());
        }
        self.put(place, rest)
    }

    fn put_in_list(&self, list: &mut DeArray<'t>, key: &str) -> Result<(), String> {
        if let Some(rest) = strip_label(key, "all") {
            return list.iter_mut().try_for_each(|place| self.put(place, rest));
        }
        let (index, rest) = find_element(list, key).ok_or_else(|| refuse_element(list, key))?;
        if index == list.len() {
            list.push(self.origin.mark(DeValue::Table(DeTable::new())));
        }
        let place = list.get_mut(index);
        place.map_or(Ok(()), |place| self.put(place, rest))
    }
}

fn list_names<'a>(list: &'a DeArray<'_>) -> impl Iterator<Item = Option<&'a str>> + Clone {
    list.iter().map(|it| it.get_ref().get("name")?.get_ref().as_str())
}

/// Returns the index of the element that `key` begins with, and the rest of the key.
fn find_element<'a>(list: &DeArray<'_>, key: &'a str) -> Option<(usize, &'a str)> {
    let (first, rest) = key.split_once('.').unwrap_or((key, ""));
    if first == "last" {
        return Some((list.len().checked_sub(1)?, rest));
    }
    if let Ok(number) = first.parse::<usize>() {
        // The index after the last element appends.
        let is_near = (1..=list.len() + 1).contains(&number);
        return is_near.then(|| (number - 1, rest));
    }
    let names = list_names(list);
    let whole = names
        .clone()
        .enumerate()
        .filter_map(|(index, name)| Some((index, strip_label(key, name?)?)));
    if let Some(found) = whole.max_by_key(|(_, rest)| std::cmp::Reverse(rest.len())) {
        return Some(found);
    }
    let mut begun =
        names.enumerate().filter(|(_, name)| name.is_some_and(|n| n.starts_with(first)));
    match (begun.next(), begun.next()) {
        (Some((index, _)), None) if !first.is_empty() => Some((index, rest)),
        _ => None,
    }
}

/// Returns the part of `key` after `label.`; names of hops may contain dots.
fn strip_label<'a>(key: &'a str, label: &str) -> Option<&'a str> {
    let rest = key.strip_prefix(label)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('.') }
}

fn refuse_element(list: &DeArray<'_>, key: &str) -> String {
    let names: Vec<&str> = list_names(list).flatten().collect();
    let label = key.split('.').next().unwrap_or_default();
    let mut allowed = format!("1 to {}, `last`, `all`", list.len());
    if !names.is_empty() {
        allowed = format!("{allowed}, or a name: {}", names.join(", "));
    }
    format!("there is no `{label}`; allowed: {allowed}")
}

#[cfg(test)]
mod tests;

use crate::path_spec::{
    ChangeSpec, EventSpec, HopSpec, HostSpec, LinkPlace, MachineSpec, PathSpec,
};
pub(crate) use hop_keys::MAX_RATE_BPS;
use hop_keys::{HopKeys, LinkKeys, build_hop, build_link};
use longhaul_config::config_document::EditOrigin;
use longhaul_config::{ConfigDocument, ConfigProblems, ConfigRules, config_values};
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

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
        if let Err(why) = apply_set(&mut document, set) {
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
