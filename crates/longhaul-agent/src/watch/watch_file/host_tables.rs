//! `[[host]]`, `[[link]]`, and the sets of hosts to measure: `[[group]]`, `[[mesh]]`, `[[target]]`.

use super::WatchFileReader;
use super::agent_sections::interface_rate;
use longhaul_config::{config_values, quote_value, suggest_known};
use longhaul_model::units::Rate;
use serde::Deserialize;
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

/// The default port of `longhaul serve`.
pub(super) const DEFAULT_PORT: u16 = 5201;

/// A host as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HostKeys {
    #[serde(deserialize_with = "config_values::name")]
    name: String,
    #[serde(default, deserialize_with = "config_values::line")]
    address: Option<String>,
    #[serde(
        default = "default_port",
        deserialize_with = "config_values::whole::<_, _, u16, 1, 65_535>"
    )]
    port: u16,
    token_file: Option<PathBuf>,
    #[serde(default, deserialize_with = "config_values::texts")]
    groups: Vec<String>,
    #[serde(default, deserialize_with = "config_values::texts")]
    links: Vec<String>,
    #[serde(default, deserialize_with = "config_values::name")]
    interface: Option<String>,
    #[serde(default, deserialize_with = "interface_rate")]
    rate: Option<Rate>,
    #[serde(default, deserialize_with = "config_values::line")]
    city: Option<String>,
    #[serde(default, deserialize_with = "config_values::degrees::<_, 90>")]
    latitude: Option<f64>,
    #[serde(default, deserialize_with = "config_values::degrees::<_, 180>")]
    longitude: Option<f64>,
}

fn default_port() -> u16 {
    DEFAULT_PORT
}

/// A group or mesh as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HostSetKeys {
    #[serde(deserialize_with = "config_values::name")]
    name: String,
    #[serde(default, deserialize_with = "config_values::line")]
    title: Option<String>,
    #[serde(default, deserialize_with = "config_values::texts")]
    hosts: Vec<String>,
}

/// A single target as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TargetKeys {
    #[serde(deserialize_with = "config_values::name")]
    host: String,
    #[serde(default, deserialize_with = "config_values::line")]
    title: Option<String>,
}

/// A host that can be measured.
#[derive(Debug, Clone, PartialEq)]
pub struct WatchHost {
    pub name: String,
    pub address: String,
    pub port: u16,
    pub token_file: Option<PathBuf>,
    /// Indices of declared links on all paths to this host.
    pub links: Vec<usize>,
    /// Hosts with the same interface name share it.
    pub interface: Option<String>,
    /// Rate of the interface.
    pub rate: Option<Rate>,
    pub location: HostLocation,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct HostLocation {
    pub city: Option<String>,
    /// Degrees north and east.
    pub position: Option<(f64, f64)>,
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
    /// Its place in the file, for problems: `mesh.0`.
    pub(super) at: String,
}

impl WatchFileReader<'_, '_> {
    pub(super) fn check_links(&self, links: &[SharedLink]) {
        let mut names: HashMap<&str, usize> = HashMap::new();
        for (index, link) in links.iter().enumerate() {
            if names.insert(&link.name, index).is_some() {
                let at = format!("link.{index}.name");
                self.document.reject(&at, "is repeated", "give each link its own name");
            }
        }
    }

    pub(super) fn build_hosts(&self, hosts: &[HostKeys], links: &[SharedLink]) -> Vec<WatchHost> {
        let mut names: HashMap<&str, usize> = HashMap::new();
        let mut built = Vec::with_capacity(hosts.len());
        for (index, keys) in hosts.iter().enumerate() {
            let at = format!("host.{index}");
            if let Some(first) = names.insert(&keys.name, index) {
                let line = self.document.line(&format!("host.{first}.name"));
                let why = format!("is already the name of the host in line {line}");
                self.document.reject(&format!("{at}.name"), &why, "give each host its own name");
            }
            self.check_secret(&format!("{at}.token_file"), keys.token_file.as_deref());
            built.push(WatchHost {
                name: keys.name.clone(),
                address: self.check_address(keys, &at),
                port: keys.port,
                token_file: keys.token_file.clone(),
                links: self.find_links(&keys.links, &at, links),
                interface: keys.interface.clone(),
                rate: keys.rate,
                location: HostLocation {
                    city: keys.city.clone(),
                    position: self.check_position(&at, keys.latitude, keys.longitude),
                },
            });
        }
        built
    }

    /// Returns the host name or address; checks only its characters.
    fn check_address(&self, keys: &HostKeys, at: &str) -> String {
        let Some(text) = &keys.address else {
            return keys.name.clone();
        };
        let inner = text.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
        let bare = inner.unwrap_or(text);
        let is_legal = |c: char| c.is_alphanumeric() || "-_.:%".contains(c);
        if bare.is_empty()
            || bare.len() > 253
            || bare.starts_with('-')
            || !bare.chars().all(is_legal)
        {
            let why = "is not a host name or address";
            let advice =
                "write a name or an address without port; set the port with the key `port`";
            self.document.reject(&format!("{at}.address"), why, advice);
        }
        bare.to_owned()
    }

    /// Returns the indices of links.
    pub(super) fn find_links(
        &self,
        names: &[String],
        at: &str,
        links: &[SharedLink],
    ) -> Vec<usize> {
        let mut found = Vec::new();
        for (number, name) in names.iter().enumerate() {
            match links.iter().position(|link| link.name == *name) {
                Some(index) if !found.contains(&index) => found.push(index),
                Some(_) => {}
                None => {
                    let known = links.iter().map(|link| link.name.as_str());
                    let advice = format!("{}; declare it as [[link]]", suggest_known(name, known));
                    let advice = advice.trim_start_matches("; ");
                    let what = format!("unknown link {}", quote_value(name));
                    self.document.add(&format!("{at}.links.{number}"), what, advice);
                }
            }
        }
        found
    }

    pub(super) fn check_position(
        &self,
        at: &str,
        latitude: Option<f64>,
        longitude: Option<f64>,
    ) -> Option<(f64, f64)> {
        if latitude.is_some() == longitude.is_some() {
            return latitude.zip(longitude);
        }
        for (here, there) in [("latitude", "longitude"), ("longitude", "latitude")] {
            let [here_at, there_at] = [here, there].map(|key| format!("{at}.{key}"));
            if self.document.has(&here_at) && !self.document.has(&there_at) {
                let what = format!("{there} is missing");
                self.document.add(&here_at, what, "set both or neither");
            }
        }
        None
    }

    pub(super) fn build_host_sets(
        &self,
        groups: &[HostSetKeys],
        meshes: &[HostSetKeys],
        targets: &[TargetKeys],
        hosts: &[WatchHost],
    ) -> Vec<HostSet> {
        let by_name: HashMap<&str, usize> =
            hosts.iter().enumerate().map(|(index, host)| (host.name.as_str(), index)).collect();
        let mut sets = Vec::new();
        for (word, kind, listed) in
            [("group", HostSetKind::Group, groups), ("mesh", HostSetKind::Mesh, meshes)]
        {
            for (index, keys) in listed.iter().enumerate() {
                let at = format!("{word}.{index}");
                sets.push(HostSet {
                    name: keys.name.clone(),
                    title: keys.title.clone(),
                    kind,
                    hosts: self.find_members(&keys.hosts, &format!("{at}.hosts"), &by_name),
                    at,
                });
            }
        }
        for (index, keys) in targets.iter().enumerate() {
            let at = format!("target.{index}");
            let host = std::slice::from_ref(&keys.host);
            sets.push(HostSet {
                name: keys.host.clone(),
                title: keys.title.clone(),
                kind: HostSetKind::Target,
                hosts: self.find_members(host, &format!("{at}.host"), &by_name),
                at,
            });
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
            let line = self.document.line(&first.at);
            let why = format!("is already declared in line {line}");
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
                    let advice = match suggest_known(name, known) {
                        advice if advice.is_empty() => "declare it as [[host]]".to_owned(),
                        advice => advice,
                    };
                    let what = format!("unknown host {}", quote_value(name));
                    self.document.add(&place, what, advice);
                }
            }
        }
        members
    }

    /// Adds hosts to the sets that their `groups` name, and checks that every mesh has pairs.
    pub(super) fn join_named_groups(&self, hosts: &[HostKeys], sets: &mut [HostSet]) {
        for (index, host) in hosts.iter().enumerate() {
            for (number, name) in host.groups.iter().enumerate() {
                let place = sets
                    .iter_mut()
                    .find(|set| set.name == *name && set.kind != HostSetKind::Target);
                match place {
                    Some(set) if set.hosts.contains(&index) => {}
                    Some(set) => set.hosts.push(index),
                    None => {
                        let known = sets.iter().filter(|set| set.kind != HostSetKind::Target);
                        let known = known.map(|set| set.name.as_str());
                        let advice = match suggest_known(name, known) {
                            advice if advice.is_empty() => {
                                "declare it as [[group]] or [[mesh]]".to_owned()
                            }
                            advice => advice,
                        };
                        let what = format!("unknown group {}", quote_value(name));
                        let at = format!("host.{index}.groups.{number}");
                        self.document.add(&at, what, advice);
                    }
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
