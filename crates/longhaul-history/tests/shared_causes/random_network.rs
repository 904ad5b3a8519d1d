//! Random networks: routers in a tree with some cross links, hosts at random routers, and the routes
//! of a mesh as traces show them.

use longhaul_model::report::v1::{HostPair, ScopeElement, ScopeElementKind};
use longhaul_model::splitmix::SplitMix64;
use std::collections::{BTreeMap, BTreeSet};

/// The share of routes without a trace, and of hops that do not answer.
const UNTRACED: f64 = 0.1;
const SILENT: f64 = 0.15;
/// The number of paths that must pass an element that fails.
const MIN_PATHS: usize = 3;

/// A measured pair with its route.
pub struct RoutedPair {
    pub pair: HostPair,
    route: BTreeSet<String>,
    /// The part of the route that its trace shows.
    pub traced: BTreeSet<String>,
}

impl RoutedPair {
    pub fn passes(&self, element: &ScopeElement) -> bool {
        let HostPair { from, to } = &self.pair;
        let name = &element.name;
        match element.kind {
            ScopeElementKind::Hop => self.route.contains(name),
            ScopeElementKind::Sender => from == name,
            ScopeElementKind::Receiver => to == name,
            ScopeElementKind::Host => from == name || to == name,
        }
    }
}

pub struct RandomNetwork {
    pub pairs: Vec<RoutedPair>,
}

impl RandomNetwork {
    /// Draws a network. Up to ten hosts measure all pairs, others a part that falls with their number.
    pub fn draw(hosts: usize, random: &mut SplitMix64) -> RandomNetwork {
        let routers = hosts / 2 + 2;
        let next = draw_next_hops(routers, random);
        let homes: Vec<usize> = (0..hosts).map(|_| random.below(routers)).collect();
        let measured = (10.0 / hosts as f64).min(1.0);
        let mut pairs = Vec::new();
        for a in 0..hosts {
            for b in a + 1..hosts {
                if random.unit() >= measured {
                    continue;
                }
                for (from, to) in [(a, b), (b, a)] {
                    let pair = HostPair { from: format!("n{from}"), to: format!("n{to}") };
                    let route = list_hops(&next, from, homes[from], homes[to]);
                    let is_traced = random.unit() >= UNTRACED;
                    let answers = |_: &&String| is_traced && random.unit() >= SILENT;
                    let traced = route.iter().filter(answers).cloned().collect();
                    pairs.push(RoutedPair { pair, route, traced });
                }
            }
        }
        RandomNetwork { pairs }
    }

    /// Draws an element that enough paths pass, and some do not; `None` if there is none.
    pub fn draw_element(
        &self,
        kind: ScopeElementKind,
        random: &mut SplitMix64,
    ) -> Option<ScopeElement> {
        let mut paths: BTreeMap<String, BTreeSet<[&str; 2]>> = BTreeMap::new();
        let mut all = BTreeSet::new();
        for routed in &self.pairs {
            let HostPair { from, to } = &routed.pair;
            let mut hosts = [from.as_str(), to.as_str()];
            hosts.sort_unstable();
            all.insert(hosts);
            let names: Vec<&String> = match kind {
                ScopeElementKind::Hop => routed.route.iter().collect(),
                ScopeElementKind::Sender => vec![from],
                ScopeElementKind::Receiver => vec![to],
                ScopeElementKind::Host => vec![from, to],
            };
            for name in names {
                paths.entry(name.clone()).or_default().insert(hosts);
            }
        }
        let fits = |of: &BTreeSet<[&str; 2]>| of.len() >= MIN_PATHS && 2 * of.len() <= all.len();
        let names: Vec<String> =
            paths.into_iter().filter(|(_, of)| fits(of)).map(|(name, _)| name).collect();
        (!names.is_empty())
            .then(|| ScopeElement { kind, name: names[random.below(names.len())].clone() })
    }
}

/// Returns the next router for each router and destination.
fn draw_next_hops(routers: usize, random: &mut SplitMix64) -> Vec<Vec<usize>> {
    let mut cost = vec![vec![f64::INFINITY; routers]; routers];
    let mut next: Vec<Vec<usize>> = vec![(0..routers).collect(); routers];
    let mut link = |a: usize, b: usize, random: &mut SplitMix64| {
        let length = random.between(1.0, 3.0);
        (cost[a][b], cost[b][a]) = (length, length);
    };
    for router in 1..routers {
        link(router, random.below(router), random);
    }
    for _ in 0..routers / 2 {
        let (a, b) = (random.below(routers), random.below(routers));
        if a != b {
            link(a, b, random);
        }
    }
    // Floyd 1962.
    for via in 0..routers {
        for a in 0..routers {
            for b in 0..routers {
                if a != b && cost[a][via] + cost[via][b] < cost[a][b] {
                    cost[a][b] = cost[a][via] + cost[via][b];
                    next[a][b] = next[a][via];
                }
            }
        }
    }
    next
}

/// Returns the addresses of the routers on the way: each has one for every link into it.
fn list_hops(next: &[Vec<usize>], host: usize, begin: usize, end: usize) -> BTreeSet<String> {
    let mut hops = BTreeSet::from([format!("r{begin}-n{host}")]);
    let mut at = begin;
    while at != end {
        let to = next[at][end];
        hops.insert(format!("r{to}-r{at}"));
        at = to;
    }
    hops
}
