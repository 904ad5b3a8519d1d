//! Resources that a heavy run locks: both hosts, their interfaces, and the declared links between
//! them.

use super::watch_file::WatchFile;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// A resource that one heavy run uses at a time.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PathResource {
    Host(Arc<str>),
    Interface(Arc<str>),
    Link(Arc<str>),
    /// A measurement of a path does not run concurrently with itself.
    Job(Arc<str>),
}

impl fmt::Display for PathResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathResource::Host(name) => write!(f, "host {name}"),
            PathResource::Interface(name) => write!(f, "interface {name}"),
            PathResource::Link(name) => write!(f, "link {name}"),
            PathResource::Job(name) => write!(f, "measurement {name}"),
        }
    }
}

/// The numbered resources of all hosts of a file.
#[derive(Debug, Clone)]
pub struct ResourceTable {
    names: Vec<PathResource>,
    of_host: Vec<Vec<u32>>,
}

impl ResourceTable {
    pub fn new(file: &WatchFile) -> Self {
        let mut parts =
            ResourceTable { names: Vec::new(), of_host: Vec::with_capacity(file.hosts.len()) };
        let mut numbers = HashMap::new();
        for host in &file.hosts {
            let mut needs = vec![PathResource::Host(host.name.as_str().into())];
            needs.extend(
                host.interface.iter().map(|name| PathResource::Interface(name.as_str().into())),
            );
            let links = host.links.iter().map(|link| &file.links[*link]);
            needs.extend(links.map(|link| PathResource::Link(link.name.as_str().into())));
            let of_host = needs.into_iter().map(|need| {
                *numbers.entry(need.clone()).or_insert_with(|| {
                    parts.names.push(need);
                    parts.names.len() as u32 - 1
                })
            });
            let of_host = of_host.collect();
            parts.of_host.push(of_host);
        }
        parts
    }

    pub fn count(&self) -> usize {
        self.names.len()
    }

    pub fn resource(&self, number: u32) -> &PathResource {
        &self.names[number as usize]
    }

    /// Returns the numbers of the resources between two hosts, without duplicates.
    pub fn pair_resources(&self, one: usize, other: usize) -> Vec<u32> {
        let mut needs = self.of_host[one].clone();
        for number in &self.of_host[other] {
            if !needs.contains(number) {
                needs.push(*number);
            }
        }
        needs
    }
}
