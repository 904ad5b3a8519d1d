//! Connections by source.

use crate::measurement_server::source_prefix::SourcePrefix;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

/// Connections by network and host, in order of their numbers.
#[derive(Debug, Default)]
pub struct SourceShares {
    total: usize,
    networks: HashMap<IpAddr, NetworkShare>,
}

#[derive(Debug, Default)]
struct NetworkShare {
    numbers: BTreeSet<u64>,
    hosts: HashMap<IpAddr, BTreeSet<u64>>,
}

impl NetworkShare {
    fn largest_host(&self) -> Option<&BTreeSet<u64>> {
        self.hosts.values().max_by_key(|numbers| rank_share(numbers))
    }
}

/// Ranks a share by its size, and among equal ones by its oldest connection.
fn rank_share(numbers: &BTreeSet<u64>) -> (usize, Reverse<Option<u64>>) {
    (numbers.len(), Reverse(numbers.first().copied()))
}

impl SourceShares {
    pub fn insert(&mut self, source: SourcePrefix, number: u64) {
        let network = self.networks.entry(source.network).or_default();
        network.hosts.entry(source.host).or_default().insert(number);
        self.total += usize::from(network.numbers.insert(number));
    }

    /// Removes a connection, if it is here.
    pub fn remove(&mut self, source: SourcePrefix, number: u64) {
        let Some(network) = self.networks.get_mut(&source.network) else {
            return;
        };
        let Some(numbers) = network.hosts.get_mut(&source.host) else {
            return;
        };
        if !numbers.remove(&number) {
            return;
        }
        self.total -= 1;
        network.numbers.remove(&number);
        if numbers.is_empty() {
            network.hosts.remove(&source.host);
        }
        if network.numbers.is_empty() {
            self.networks.remove(&source.network);
        }
    }

    pub fn total(&self) -> usize {
        self.total
    }

    pub fn count_of_network(&self, network: IpAddr) -> usize {
        self.networks.get(&network).map_or(0, |share| share.numbers.len())
    }

    pub fn count_of_host(&self, source: SourcePrefix) -> usize {
        self.numbers_of(source).map_or(0, BTreeSet::len)
    }

    pub fn oldest_of(&self, source: SourcePrefix) -> Option<u64> {
        self.numbers_of(source)?.first().copied()
    }

    pub fn oldest_of_network(&self, network: IpAddr) -> Option<u64> {
        self.networks.get(&network)?.numbers.first().copied()
    }

    pub fn networks(&self) -> impl Iterator<Item = IpAddr> {
        self.networks.keys().copied()
    }

    /// Returns the hosts of a network that have a connection.
    pub fn hosts(&self, network: IpAddr) -> impl Iterator<Item = SourcePrefix> {
        let hosts = self.networks.get(&network).into_iter().flat_map(|share| share.hosts.keys());
        hosts.map(move |host| SourcePrefix { network, host: *host })
    }

    /// Returns the oldest connection of the largest host of the largest network.
    pub fn oldest_of_largest(&self) -> Option<u64> {
        let largest = self.networks.values().max_by_key(|share| rank_share(&share.numbers))?;
        largest.largest_host()?.first().copied()
    }

    /// Returns the oldest connection of the largest source, if that would still have as many as
    /// this source after it has given way to it.
    pub fn oldest_above_share_of(&self, source: SourcePrefix) -> Option<u64> {
        let (network, largest) =
            self.networks.iter().max_by_key(|(_, share)| rank_share(&share.numbers))?;
        let host = largest.largest_host()?;
        let is_larger = if *network == source.network {
            host.len() > self.count_of_host(source) + 1
        } else {
            largest.numbers.len() > self.count_of_network(source.network) + 1
        };
        is_larger.then(|| host.first().copied()).flatten()
    }

    fn numbers_of(&self, source: SourcePrefix) -> Option<&BTreeSet<u64>> {
        self.networks.get(&source.network)?.hosts.get(&source.host)
    }
}
