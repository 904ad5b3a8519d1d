//! Rounds of a mesh: in each round, every host, interface and declared link has at most one pair.
//!
//! All agents derive the same rounds from the same file, without communication
//! (docs/decisions/0016). A full mesh of n hosts takes the n - 1 rounds of the circle method (n for
//! odd n), which is the minimum. Pairs that share further resources get the first round in which
//! all of these are free.

use super::path_resources::ResourceTable;
use super::watch_file::{HostSetKind, WatchFile};

/// The round of each pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeshRounds {
    /// The number of rounds in a cycle.
    pub count: u32,
    /// A lower bound of `count`: the maximum number of pairs that need one resource.
    pub min_count: u32,
    /// Pair (see [`encode_pair`]) and round, sorted.
    turns: Vec<(u64, u32)>,
}

impl MeshRounds {
    /// Returns the round of a pair of hosts, if it has one.
    pub fn round_of(&self, one: usize, other: usize) -> Option<u32> {
        let key = encode_pair(one, other);
        let at = self.turns.binary_search_by_key(&key, |(pair, _)| *pair).ok()?;
        Some(self.turns[at].1)
    }

    /// Returns every pair with its round.
    #[cfg(test)]
    pub fn pair_rounds(&self) -> impl Iterator<Item = ((usize, usize), u32)> {
        let hosts = |key: u64| ((key >> 32) as usize, (key & 0xffff_ffff) as usize);
        self.turns.iter().map(move |(key, turn)| (hosts(*key), *turn))
    }
}

fn encode_pair(one: usize, other: usize) -> u64 {
    (one.min(other) as u64) << 32 | one.max(other) as u64
}

/// Returns which of two mesh hosts starts their runs; each host starts half of its pairs.
pub fn choose_initiator(one: usize, other: usize) -> usize {
    if (one + other).is_multiple_of(2) { one.min(other) } else { one.max(other) }
}

/// Returns the hosts that run an agent with this file; only the own host without a mesh.
pub fn list_agents(file: &WatchFile) -> Vec<usize> {
    let mut agents: Vec<usize> = file
        .sets
        .iter()
        .filter(|set| set.kind == HostSetKind::Mesh)
        .flat_map(|set| set.hosts.iter().copied())
        .collect();
    agents.sort_unstable();
    agents.dedup();
    if agents.binary_search(&file.agent.host).is_err() {
        return vec![file.agent.host];
    }
    agents
}

/// Returns the measured pairs of these sets without duplicates; full meshes in circle-method order.
pub fn list_pairs(file: &WatchFile, sets: &[usize], agents: &[usize]) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    for set in sets.iter().map(|set| &file.sets[*set]) {
        match set.kind {
            HostSetKind::Mesh => add_circle_pairs(&set.hosts, &mut pairs),
            HostSetKind::Group | HostSetKind::Target => {
                for host in &set.hosts {
                    let far = agents.iter().filter(|agent| *agent != host);
                    pairs.extend(far.map(|agent| (*agent, *host)));
                }
            }
        }
    }
    let mut seen = std::collections::HashSet::with_capacity(pairs.len());
    pairs.retain(|(one, other)| seen.insert(encode_pair(*one, *other)));
    pairs
}

/// Adds all pairs of `hosts` round by round (circle method): one stays fixed, the others rotate.
fn add_circle_pairs(hosts: &[usize], into: &mut Vec<(usize, usize)>) {
    let mut hosts = hosts.to_vec();
    hosts.sort_unstable();
    let even = hosts.len().next_multiple_of(2);
    let around = even.saturating_sub(1);
    for round in 0..around {
        for step in 0..even / 2 {
            let one = (round + step) % around;
            let other = if step == 0 { around } else { (round + around - step) % around };
            // With an odd number the last position is empty.
            if let (Some(one), Some(other)) = (hosts.get(one), hosts.get(other)) {
                into.push((*one, *other));
            }
        }
    }
}

/// Assigns each pair the first round in which all of its resources are free.
pub fn assign_rounds(pairs: &[(usize, usize)], parts: &ResourceTable) -> MeshRounds {
    // For each resource, whether it is used in a round, and the first round in which it is free.
    let mut taken: Vec<Vec<bool>> = vec![Vec::new(); parts.count()];
    let mut first_free = vec![0; parts.count()];
    let mut turns = Vec::with_capacity(pairs.len());
    let mut count = 0;
    for (one, other) in pairs {
        let needs = parts.pair_resources(*one, *other);
        let is_taken = |need: usize, round: usize| taken[need].get(round) == Some(&true);
        let mut round = needs.iter().map(|need| first_free[*need]).max().unwrap_or(0);
        while needs.iter().any(|need| is_taken(*need, round)) {
            round += 1;
        }
        for need in needs {
            let rounds = &mut taken[need];
            rounds.resize(rounds.len().max(round + 1), false);
            rounds[round] = true;
            while rounds.get(first_free[need]) == Some(&true) {
                first_free[need] += 1;
            }
        }
        count = count.max(round as u32 + 1);
        turns.push((encode_pair(*one, *other), round as u32));
    }
    turns.sort_unstable();
    let uses = taken.iter().map(|rounds| rounds.iter().filter(|it| **it).count());
    MeshRounds { count, min_count: uses.max().unwrap_or(0) as u32, turns }
}
