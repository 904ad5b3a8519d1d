//! Resources that a heavy run locks: both hosts, their interfaces, and the declared links between
//! them.
//!
//! # Resource locks
//!
//! Locks of resources: hosts, interfaces and links.
//!
//! A heavy run locks its resources exclusively. Light runs share theirs and never start during a
//! heavy run, because they would measure its load. A heavy run waits for light runs in progress,
//! unless it has a turn in a mesh, which would end first.

use super::measure_jobs::MeasureJob;
use super::watch_file::WatchFile;
use std::collections::{HashMap, HashSet};
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

#[derive(Debug, Clone, Default)]
pub struct ResourceLocks {
    exclusive: HashSet<PathResource>,
    /// The number of light runs that use a resource.
    shared: HashMap<PathResource, u32>,
    light: u32,
}

impl ResourceLocks {
    pub fn are_free(&self, job: &MeasureJob) -> bool {
        let held = |need: &PathResource| self.exclusive.contains(need);
        let shared = |need: &PathResource| job.window.is_none() && self.shared.contains_key(need);
        let needs = job.exclusive.iter();
        !job.shared.iter().any(held) && !needs.into_iter().any(|need| held(need) || shared(need))
    }

    /// Returns the number of running light runs.
    pub fn light_runs(&self) -> u32 {
        self.light
    }

    pub fn acquire(&mut self, job: &MeasureJob) {
        self.exclusive.extend(job.exclusive.iter().cloned());
        for need in &job.shared {
            *self.shared.entry(need.clone()).or_default() += 1;
        }
        self.light += u32::from(!job.heavy);
    }

    /// Reserves the resources of a waiting heavy run, so that younger runs do not take them.
    pub fn reserve(&mut self, job: &MeasureJob) {
        self.exclusive.extend(job.exclusive.iter().cloned());
    }

    pub fn release(&mut self, job: &MeasureJob) {
        for need in &job.exclusive {
            self.exclusive.remove(need);
        }
        for need in &job.shared {
            if let Some(number) = self.shared.get_mut(need) {
                *number -= 1;
                if *number == 0 {
                    self.shared.remove(need);
                }
            }
        }
        self.light -= u32::from(!job.heavy);
    }
}
