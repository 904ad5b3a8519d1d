//! Resources that a heavy run locks: both hosts, their interfaces, and the declared links between
//! them.

use super::watch_file::WatchFile;
use std::collections::HashMap;
use std::sync::Arc;

/// A resource that one heavy run uses at a time, such as `host x`, `interface y`, `link z`, or a
/// measurement of a path, which does not run concurrently with itself.
pub type PathResource = Arc<str>;

/// The numbered resources of all hosts of a file.
#[derive(Debug, Clone)]
pub struct ResourceTable {
    names: Vec<PathResource>,
    of_host: Vec<Vec<usize>>,
}

impl ResourceTable {
    pub fn new(file: &WatchFile) -> Self {
        let mut parts =
            ResourceTable { names: Vec::new(), of_host: Vec::with_capacity(file.hosts.len()) };
        let mut numbers = HashMap::new();
        for host in &file.hosts {
            let mut needs: Vec<PathResource> = vec![format!("host {}", host.name).into()];
            needs.extend(host.interface.iter().map(|name| format!("interface {name}").into()));
            let links = host.links.iter().map(|link| &file.links[*link]);
            needs.extend(links.map(|link| format!("link {}", link.name).into()));
            let of_host = needs.into_iter().map(|need| {
                *numbers.entry(need.clone()).or_insert_with(|| {
                    parts.names.push(need);
                    parts.names.len() - 1
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

    pub fn resource(&self, number: usize) -> &PathResource {
        &self.names[number]
    }

    /// Returns the numbers of the resources between two hosts, without duplicates.
    pub fn pair_resources(&self, one: usize, other: usize) -> Vec<usize> {
        let mut needs = self.of_host[one].clone();
        for number in &self.of_host[other] {
            if !needs.contains(number) {
                needs.push(*number);
            }
        }
        needs
    }
}
