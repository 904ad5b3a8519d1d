//! `[[host]]`, `[[link]]`, and the sets of hosts to measure: `[[group]]`, `[[mesh]]`, `[[target]]`.

use super::WatchFileReader;
use super::agent_sections::interface_rate;
use longhaul_config::{ConfigDocument, config_values, quote_value, suggest_known};
use longhaul_model::units::Rate;
use longhaul_probe::host_endpoint::HostEndpoint;
use serde::Deserialize;
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

/// The default port of `longhaul serve`.
pub(super) const DEFAULT_PORT: u16 = 5201;

/// A host that can be measured.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WatchHost {
    #[serde(deserialize_with = "config_values::name")]
    pub name: String,
    /// The name, if the file has no address.
    #[serde(default, deserialize_with = "config_values::line")]
    pub address: String,
    #[serde(
        default = "default_port",
        deserialize_with = "config_values::whole::<_, _, u16, 1, 65_535>"
    )]
    pub port: u16,
    pub token_file: Option<PathBuf>,
    #[serde(default, deserialize_with = "config_values::texts")]
    groups: Vec<String>,
    #[serde(default, rename = "links", deserialize_with = "config_values::texts")]
    link_names: Vec<String>,
    /// Indices of declared links on all paths to this host.
    #[serde(skip)]
    pub links: Vec<usize>,
    /// Hosts with the same interface name share it.
    #[serde(default, deserialize_with = "config_values::name")]
    pub interface: Option<String>,
    /// Rate of the interface.
    #[serde(default, deserialize_with = "interface_rate")]
    pub rate: Option<Rate>,
    #[serde(default, deserialize_with = "config_values::line")]
    pub city: Option<String>,
    #[serde(default, deserialize_with = "config_values::degrees::<_, 90>")]
    pub latitude: Option<f64>,
    #[serde(default, deserialize_with = "config_values::degrees::<_, 180>")]
    pub longitude: Option<f64>,
}

impl WatchHost {
    /// Returns a host of which only the name is known.
    pub(super) fn of_name(name: &str) -> WatchHost {
        WatchHost {
            name: name.to_owned(),
            address: name.to_owned(),
            port: DEFAULT_PORT,
            ..WatchHost::default()
        }
    }
}

fn default_port() -> u16 {
    DEFAULT_PORT
}

/// A single target as written.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TargetKeys {
    #[serde(deserialize_with = "config_values::name")]
    host: String,
    #[serde(default, deserialize_with = "config_values::line")]
    title: Option<String>,
}

/// A link that several paths share. It carries one heavy run at a time.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedLink {
    #[serde(deserialize_with = "config_values::name")]
    pub name: String,
    #[serde(default, deserialize_with = "interface_rate")]
    pub rate: Option<Rate>,
    #[serde(default, deserialize_with = "config_values::line")]
    pub title: Option<String>,
}

/// The kind of a set, which determines the measured pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HostSetKind {
    /// Every agent measures each host of the set.
    #[default]
    Group,
    /// Every host of the set runs an agent, and one of the two hosts measures each pair.
    Mesh,
    /// A group with one host.
    Target,
}

/// A group or mesh, or a single target.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostSet {
    #[serde(deserialize_with = "config_values::name")]
    pub name: String,
    #[serde(default, deserialize_with = "config_values::line")]
    pub title: Option<String>,
    #[serde(default, rename = "hosts", deserialize_with = "config_values::texts")]
    host_names: Vec<String>,
    #[serde(skip)]
    pub kind: HostSetKind,
    /// Indices of hosts, without duplicates.
    #[serde(skip)]
    pub hosts: Vec<usize>,
    /// Its place in the file, for problems: `mesh.0`.
    #[serde(skip)]
    pub(super) at: String,
}

/// Returns a suggestion from the known names, or the advice to declare the name.
fn suggest_or_declare<'a>(
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
    tables: &str,
) -> String {
    let advice = suggest_known(name, known);
    if advice.is_empty() { format!("declare it as {tables}") } else { advice }
}

/// Returns the indices of the named entries without duplicates. Reports names that no entry has;
/// `tables` declares entries.
pub(super) fn resolve_names(
    document: &ConfigDocument<'_>,
    names: &[String],
    at: &str,
    what: &str,
    tables: &str,
    known: &[&str],
) -> Vec<usize> {
    let mut found = Vec::new();
    for (number, name) in names.iter().enumerate() {
        match known.iter().position(|known| known == name) {
            Some(index) if !found.contains(&index) => found.push(index),
            Some(_) => {}
            None => {
                let advice = suggest_or_declare(name, known.iter().copied(), tables);
                let what = format!("unknown {what} {}", quote_value(name));
                document.add(&format!("{at}.{number}"), what, advice);
            }
        }
    }
    found
}

/// Reports tables of a list that have the name of an earlier one; `what` they are.
pub(super) fn refuse_repeated_names<'a>(
    document: &ConfigDocument<'_>,
    list: &str,
    what: &str,
    names: impl Iterator<Item = &'a String>,
) {
    let mut known: HashMap<&String, usize> = HashMap::new();
    for (index, name) in names.enumerate() {
        if let Some(first) = known.insert(name, index) {
            let place = document.describe_place(&format!("{list}.{first}.name"));
            let why = format!("is already the name of the {what} in {place}");
            let advice = format!("give each {what} its own name");
            document.reject(&format!("{list}.{index}.name"), &why, advice);
        }
    }
}

impl WatchFileReader<'_, '_> {
    /// Checks the hosts, and resolves the names of their links.
    pub(super) fn complete_hosts(&self, hosts: &mut [WatchHost], links: &[SharedLink]) {
        refuse_repeated_names(self.document, "host", "host", hosts.iter().map(|it| &it.name));
        for (index, host) in hosts.iter_mut().enumerate() {
            let at = format!("host.{index}");
            self.check_secret(&format!("{at}.token_file"), host.token_file.as_deref());
            self.resolve_address(host, &at);
            host.links = self.find_links(&host.link_names, &at, links);
            self.check_position(&at, host.latitude, host.longitude);
        }
    }

    /// Separates the address of a host from its port. An absent address is the name.
    fn resolve_address(&self, host: &mut WatchHost, at: &str) {
        if host.address.is_empty() {
            host.address.clone_from(&host.name);
            return;
        }
        let (address_at, port_at) = (format!("{at}.address"), format!("{at}.port"));
        match host.address.parse::<HostEndpoint>() {
            Ok(endpoint) => {
                let port = endpoint.port.unwrap_or(host.port);
                if port != host.port && self.document.has(&port_at) {
                    let why = format!("has port {port}, but the key `port` is {}", host.port);
                    self.document.reject(&address_at, &why, "give the port once");
                }
                (host.address, host.port) = (endpoint.host, port);
            }
            Err(error) => {
                let advice = "write a name or an address, with a port if wanted: \"far:5201\"";
                self.document.reject(&address_at, &format!("is invalid: {error}"), advice);
            }
        }
    }

    /// Returns the indices of links.
    pub(super) fn find_links(
        &self,
        names: &[String],
        at: &str,
        links: &[SharedLink],
    ) -> Vec<usize> {
        let known: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
        resolve_names(self.document, names, &format!("{at}.links"), "link", "[[link]]", &known)
    }

    pub(super) fn check_position(&self, at: &str, latitude: Option<f64>, longitude: Option<f64>) {
        if latitude.is_some() == longitude.is_some() {
            return;
        }
        for (here, there) in [("latitude", "longitude"), ("longitude", "latitude")] {
            let [here_at, there_at] = [here, there].map(|key| format!("{at}.{key}"));
            if self.document.has(&here_at) && !self.document.has(&there_at) {
                let what = format!("{there} is missing");
                self.document.add(&here_at, what, "set both or neither");
            }
        }
    }

    pub(super) fn build_host_sets(
        &self,
        groups: Vec<HostSet>,
        meshes: Vec<HostSet>,
        targets: Vec<TargetKeys>,
        hosts: &[WatchHost],
    ) -> Vec<HostSet> {
        let by_name: HashMap<&str, usize> =
            hosts.iter().enumerate().map(|(index, host)| (host.name.as_str(), index)).collect();
        let targets = targets.into_iter().map(|TargetKeys { host, title }| HostSet {
            host_names: vec![host.clone()],
            name: host,
            title,
            ..HostSet::default()
        });
        let mut sets = Vec::new();
        for (word, key, kind, listed) in [
            ("group", "hosts", HostSetKind::Group, groups),
            ("mesh", "hosts", HostSetKind::Mesh, meshes),
            ("target", "host", HostSetKind::Target, targets.collect()),
        ] {
            for (index, set) in listed.into_iter().enumerate() {
                let at = format!("{word}.{index}");
                let hosts = self.find_members(&set.host_names, &format!("{at}.{key}"), &by_name);
                sets.push(HostSet { kind, hosts, at, ..set });
            }
        }
        self.refuse_repeated_sets(&sets);
        sets
    }

    fn refuse_repeated_sets(&self, sets: &[HostSet]) {
        let mut known: HashMap<&str, &HostSet> = HashMap::new();
        for set in sets {
            let Some(first) = known.get(set.name.as_str()) else {
                known.insert(&set.name, set);
                continue;
            };
            let is_target = set.kind == HostSetKind::Target;
            let key = if is_target { "host" } else { "name" };
            let place = self.document.describe_place(&first.at);
            let why = format!("is already declared in {place}");
            let advice = "give each group, mesh and target its own name";
            self.document.reject(&format!("{}.{key}", set.at), &why, advice);
        }
    }

    fn find_members(&self, names: &[String], at: &str, hosts: &HashMap<&str, usize>) -> Vec<usize> {
        let mut seen = HashSet::new();
        let mut members = Vec::with_capacity(names.len());
        for (number, name) in names.iter().enumerate() {
            let place = format!("{at}.{number}");
            match hosts.get(name.as_str()) {
                Some(index) if seen.insert(*index) => members.push(*index),
                Some(_) => {
                    let what = format!("{} is repeated", quote_value(name));
                    self.document.add(&place, what, "list it once");
                }
                None => {
                    let mut known: Vec<&str> = hosts.keys().copied().collect();
                    known.sort_unstable();
                    let advice = suggest_or_declare(name, known, "[[host]]");
                    let what = format!("unknown host {}", quote_value(name));
                    self.document.add(&place, what, advice);
                }
            }
        }
        members
    }

    /// Adds hosts to the sets that their `groups` name, and checks that every mesh has pairs.
    pub(super) fn join_named_groups(&self, hosts: &[WatchHost], sets: &mut [HostSet]) {
        // Targets come last.
        let groups = sets.iter().take_while(|set| set.kind != HostSetKind::Target);
        let names: Vec<String> = groups.map(|set| set.name.clone()).collect();
        let known: Vec<&str> = names.iter().map(String::as_str).collect();
        for (index, host) in hosts.iter().enumerate() {
            let at = format!("host.{index}.groups");
            let tables = "[[group]] or [[mesh]]";
            for set in resolve_names(self.document, &host.groups, &at, "group", tables, &known) {
                if !sets[set].hosts.contains(&index) {
                    sets[set].hosts.push(index);
                }
            }
        }
        for set in sets.iter().filter(|set| set.kind == HostSetKind::Mesh) {
            if set.hosts.len() < 2 {
                let what = "the mesh has fewer than two hosts";
                let advice = "list two or more, or make it a group";
                self.document.add(&format!("{}.hosts", set.at), what, advice);
            }
        }
    }
}
