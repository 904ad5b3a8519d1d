//! `[[host]]`, `[[link]]`, and the sets of hosts to measure: `[[group]]`, `[[mesh]]`, `[[target]]`.

use super::agent_sections::SecretFiles;
use super::section_table::WatchTable;
use super::watch_file_problem::suggest_known;
use longhaul_model::units::Rate;
use std::collections::HashMap;
use std::path::PathBuf;

/// The default port of `longhaul serve`.
const DEFAULT_PORT: u64 = 5201;

const HOST_KEYS: &[&str] = &[
    "name",
    "address",
    "port",
    "token_file",
    "groups",
    "links",
    "interface",
    "rate",
    "city",
    "latitude",
    "longitude",
];
const LINK_KEYS: &[&str] = &["name", "rate", "title"];
const SET_KEYS: &[&str] = &["name", "title", "hosts"];
const TARGET_KEYS: &[&str] = &["host", "title"];

/// A host that can be measured.
#[derive(Debug, Clone, PartialEq)]
pub struct WatchHost {
    pub name: String,
    pub address: String,
    pub port: u16,
    pub token_file: Option<PathBuf>,
    /// Sets that this host joins, with line numbers.
    pub groups: Vec<(String, usize)>,
    /// Indices of declared links on all paths to this host.
    pub links: Vec<usize>,
    /// Hosts with the same interface name share it.
    pub interface: Option<String>,
    /// Rate of the interface.
    pub rate: Option<Rate>,
    pub location: HostLocation,
    pub line: usize,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct HostLocation {
    pub city: Option<String>,
    /// Degrees north and east.
    pub position: Option<(f64, f64)>,
}

/// A link that several paths share. It carries one heavy run at a time.
#[derive(Debug, Clone, PartialEq)]
pub struct SharedLink {
    pub name: String,
    pub rate: Option<Rate>,
    pub title: Option<String>,
}

/// The kind of a set, which determines the measured pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostSetKind {
    /// Every agent measures each host of the set.
    Group,
    /// Every host of the set runs an agent, and one of the two hosts measures each pair.
    Mesh,
    /// A group with one host.
    Target,
}

#[derive(Debug, Clone, PartialEq)]
pub struct HostSet {
    pub name: String,
    pub title: Option<String>,
    pub kind: HostSetKind,
    /// Indices of hosts, without duplicates.
    pub hosts: Vec<usize>,
    pub line: usize,
}

pub(super) fn read_links(top: &WatchTable<'_>) -> Vec<SharedLink> {
    let mut links: Vec<SharedLink> = Vec::new();
    for table in top.tables("link", LINK_KEYS) {
        if !table.require("name", "give every link a name") {
            continue;
        }
        let Some(name) = table.name("name") else {
            continue;
        };
        if links.iter().any(|link| link.name == name) {
            table.reject_value("name", "is repeated", "give each link its own name");
            continue;
        }
        links.push(SharedLink {
            rate: table.rate("rate"),
            title: table.text("title"),
            name,
        });
    }
    links
}

pub(super) fn read_hosts(
    top: &WatchTable<'_>,
    links: &[SharedLink],
    secrets: &SecretFiles<'_>,
) -> Vec<WatchHost> {
    let mut hosts: Vec<WatchHost> = Vec::new();
    let mut lines: HashMap<String, usize> = HashMap::new();
    for table in top.tables("host", HOST_KEYS) {
        if !table.require("name", "give every host a name") {
            continue;
        }
        let Some(name) = table.name("name") else {
            continue;
        };
        if let Some(line) = lines.insert(name.clone(), table.line("name")) {
            let why = format!("is already the name of the host in line {line}");
            table.reject_value("name", &why, "give each host its own name");
            continue;
        }
        hosts.push(read_host(&table, name, links, secrets));
    }
    hosts
}

fn read_host(
    table: &WatchTable<'_>,
    name: String,
    links: &[SharedLink],
    secrets: &SecretFiles<'_>,
) -> WatchHost {
    let address = read_address(table, "address").unwrap_or_else(|| name.clone());
    WatchHost {
        address,
        port: table.integer("port", 1..=65_535).unwrap_or(DEFAULT_PORT) as u16,
        token_file: secrets.read_path(table, "token_file"),
        groups: table.text_list("groups").unwrap_or_default(),
        links: read_link_indices(table, links),
        interface: table.name("interface"),
        rate: table.rate("rate"),
        location: read_location(table),
        line: table.node.line,
        name,
    }
}

/// Reads a host name or an address; checks only its characters.
fn read_address(table: &WatchTable<'_>, key: &str) -> Option<String> {
    let text = table.text(key)?;
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(&text);
    let fine = |c: char| c.is_alphanumeric() || "-_.:%".contains(c);
    if !bare.is_empty() && bare.len() <= 253 && !bare.starts_with('-') && bare.chars().all(fine) {
        return Some(bare.to_owned());
    }
    let advice = "write a name or an address without port; set the port with the key `port`";
    table.reject_value(key, "is not a host name or address", advice);
    None
}

/// Returns the indices of the links in `read_links`.
pub(super) fn read_link_indices(table: &WatchTable<'_>, links: &[SharedLink]) -> Vec<usize> {
    let mut found = Vec::new();
    for (name, line) in table.text_list("links").unwrap_or_default() {
        match links.iter().position(|link| link.name == name) {
            Some(index) if !found.contains(&index) => found.push(index),
            Some(_) => {}
            None => {
                let known = links.iter().map(|link| link.name.as_str());
                let advice = format!("{}; declare it as [[link]]", suggest_known(&name, known));
                let what = format!(
                    "unknown link {}",
                    super::watch_file_problem::quote_value(&name)
                );
                let advice = advice.trim_start_matches("; ").to_owned();
                table.problems.add(line, table.key("links"), what, advice);
            }
        }
    }
    found
}

pub(super) fn read_location(table: &WatchTable<'_>) -> HostLocation {
    let latitude = table.number("latitude", -90.0..=90.0);
    let longitude = table.number("longitude", -180.0..=180.0);
    for (here, there) in [("latitude", "longitude"), ("longitude", "latitude")] {
        if table.get(here).is_some() && table.get(there).is_none() {
            table.add_problem(here, format!("{there} is missing"), "set both or neither");
        }
    }
    HostLocation {
        city: table.text("city"),
        position: latitude.zip(longitude),
    }
}

pub(super) fn read_host_sets(top: &WatchTable<'_>, hosts: &[WatchHost]) -> Vec<HostSet> {
    let mut sets = Vec::new();
    for (kind, form) in [("group", HostSetKind::Group), ("mesh", HostSetKind::Mesh)] {
        for table in top.tables(kind, SET_KEYS) {
            if !table.require("name", "give every group and mesh a name") {
                continue;
            }
            let Some(name) = table.name("name") else {
                continue;
            };
            let listed = table.text_list("hosts").unwrap_or_default();
            let members = resolve_members(&table, "hosts", &listed, hosts);
            add_host_set(
                &mut sets,
                &table,
                build_host_set(&table, (name, form), members),
            );
        }
    }
    for table in top.tables("target", TARGET_KEYS) {
        if !table.require("host", "name one host") {
            continue;
        }
        let Some(name) = table.name("host") else {
            continue;
        };
        let members = resolve_members(&table, "host", &[(name.clone(), table.line("host"))], hosts);
        add_host_set(
            &mut sets,
            &table,
            build_host_set(&table, (name, HostSetKind::Target), members),
        );
    }
    join_named_groups(top, &mut sets, hosts);
    for set in sets.iter().filter(|set| set.kind == HostSetKind::Mesh) {
        if set.hosts.len() < 2 {
            let key = format!("mesh.{}.hosts", set.name);
            let what = "the mesh has fewer than two hosts";
            top.problems
                .add(set.line, key, what, "list two or more, or make it a group");
        }
    }
    sets
}

fn build_host_set(
    table: &WatchTable<'_>,
    (name, form): (String, HostSetKind),
    hosts: Vec<usize>,
) -> HostSet {
    HostSet {
        name,
        title: table.text("title"),
        kind: form,
        hosts,
        line: table.node.line,
    }
}

fn add_host_set(sets: &mut Vec<HostSet>, table: &WatchTable<'_>, set: HostSet) {
    if let Some(first) = sets.iter().find(|known| known.name == set.name) {
        let key = if set.kind == HostSetKind::Target {
            "host"
        } else {
            "name"
        };
        let why = format!("is already declared in line {}", first.line);
        table.reject_value(key, &why, "give each group, mesh and target its own name");
        return;
    }
    sets.push(set);
}

fn resolve_members(
    table: &WatchTable<'_>,
    key: &str,
    listed: &[(String, usize)],
    hosts: &[WatchHost],
) -> Vec<usize> {
    let mut members = Vec::with_capacity(listed.len());
    let by_name: HashMap<&str, usize> = hosts
        .iter()
        .enumerate()
        .map(|(index, host)| (host.name.as_str(), index))
        .collect();
    let mut seen = vec![false; hosts.len()];
    for (name, line) in listed {
        let shown = super::watch_file_problem::quote_value(name);
        match by_name.get(name.as_str()) {
            Some(index) if seen[*index] => {
                let what = format!("{shown} is repeated");
                table
                    .problems
                    .add(*line, table.key(key), what, "list it once");
            }
            Some(index) => {
                seen[*index] = true;
                members.push(*index);
            }
            None => {
                let known = hosts.iter().map(|host| host.name.as_str());
                let advice = match suggest_known(name, known) {
                    advice if advice.is_empty() => "declare it as [[host]]".to_owned(),
                    advice => advice,
                };
                let what = format!("unknown host {shown}");
                table.problems.add(*line, table.key(key), what, advice);
            }
        }
    }
    members
}

/// Adds hosts to the sets that their `groups` name.
fn join_named_groups(top: &WatchTable<'_>, sets: &mut [HostSet], hosts: &[WatchHost]) {
    for (index, host) in hosts.iter().enumerate() {
        for (name, line) in &host.groups {
            let place = sets
                .iter_mut()
                .find(|set| set.name == *name && set.kind != HostSetKind::Target);
            match place {
                Some(set) if set.hosts.contains(&index) => {}
                Some(set) => set.hosts.push(index),
                None => {
                    let known = sets.iter().filter(|set| set.kind != HostSetKind::Target);
                    let advice = match suggest_known(name, known.map(|set| set.name.as_str())) {
                        advice if advice.is_empty() => {
                            "declare it as [[group]] or [[mesh]]".to_owned()
                        }
                        advice => advice,
                    };
                    let what = format!(
                        "unknown group {}",
                        super::watch_file_problem::quote_value(name)
                    );
                    let key = format!("host.{}.groups", host.name);
                    top.problems.add(*line, key, what, advice);
                }
            }
        }
    }
}
