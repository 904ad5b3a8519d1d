//! Turns of a mesh: in one round every host, interface and declared link has one pair at most.
//!
//! Every agent works out the same rounds from the same file, so that nobody needs to be asked
//! (docs/decisions/0016). A whole mesh of n hosts takes the n - 1 rounds of the circle method
//! (n where n is odd), which is the least there can be. What else shares something is given the
//! first round that is free for all of its needs.

use super::file::{Form, WatchFile};
use super::needs::Parts;

/// Which pair has its turn in which round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rounds {
    /// After so many rounds it begins again.
    pub count: u32,
    /// No order could do with fewer: some part is needed by so many pairs.
    pub least: u32,
    /// Pair (as [`key`] has it) and round, sorted.
    turns: Vec<(u64, u32)>,
}

impl Rounds {
    /// The round of a pair of hosts, if it has one.
    pub fn of(&self, one: usize, other: usize) -> Option<u32> {
        let key = key(one, other);
        let at = self
            .turns
            .binary_search_by_key(&key, |(pair, _)| *pair)
            .ok()?;
        Some(self.turns[at].1)
    }

    /// Every pair with its round.
    pub fn turns(&self) -> impl Iterator<Item = ((usize, usize), u32)> {
        let hosts = |key: u64| ((key >> 32) as usize, (key & 0xffff_ffff) as usize);
        self.turns
            .iter()
            .map(move |(key, turn)| (hosts(*key), *turn))
    }
}

fn key(one: usize, other: usize) -> u64 {
    (one.min(other) as u64) << 32 | one.max(other) as u64
}

/// Which of two hosts of a mesh begins their runs: half of the pairs of each, whoever asks.
pub fn initiator(one: usize, other: usize) -> usize {
    if (one + other).is_multiple_of(2) {
        one.min(other)
    } else {
        one.max(other)
    }
}

/// Hosts that run an agent with this file; the agent alone where there is no mesh.
pub fn agents(file: &WatchFile) -> Vec<usize> {
    let mut agents: Vec<usize> = file
        .sets
        .iter()
        .filter(|set| set.form == Form::Mesh)
        .flat_map(|set| set.hosts.iter().copied())
        .collect();
    agents.sort_unstable();
    agents.dedup();
    if agents.binary_search(&file.agent.host).is_err() {
        return vec![file.agent.host];
    }
    agents
}

/// Pairs that anybody measures of these sets, each once; whole meshes in the order of the circle.
pub fn pairs(file: &WatchFile, sets: &[usize], agents: &[usize]) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    for set in sets.iter().map(|set| &file.sets[*set]) {
        match set.form {
            Form::Mesh => circle(&set.hosts, &mut pairs),
            Form::Group | Form::Target => {
                for host in &set.hosts {
                    let far = agents.iter().filter(|agent| *agent != host);
                    pairs.extend(far.map(|agent| (*agent, *host)));
                }
            }
        }
    }
    let mut seen = std::collections::HashSet::with_capacity(pairs.len());
    pairs.retain(|(one, other)| seen.insert(key(*one, *other)));
    pairs
}

/// All pairs of `hosts`, round by round: one stays, the others go round it.
fn circle(hosts: &[usize], into: &mut Vec<(usize, usize)>) {
    let mut hosts = hosts.to_vec();
    hosts.sort_unstable();
    let even = hosts.len().next_multiple_of(2);
    let around = even - 1;
    for round in 0..around {
        for step in 0..even / 2 {
            let one = (round + step) % around;
            let other = if step == 0 {
                around
            } else {
                (round + around - step) % around
            };
            // The last seat is empty where the number is odd.
            if let (Some(one), Some(other)) = (hosts.get(one), hosts.get(other)) {
                into.push((*one, *other));
            }
        }
    }
}

/// Gives each pair the first round in which all of its needs are free.
pub fn arrange(pairs: &[(usize, usize)], parts: &Parts) -> Rounds {
    let mut taken: Vec<Taken> = vec![Taken::default(); parts.len()];
    let mut turns = Vec::with_capacity(pairs.len());
    let mut count = 0;
    for (one, other) in pairs {
        let needs = parts.of_pair(*one, *other);
        let begin = needs.iter().map(|need| taken[*need as usize].full).max();
        let mut word = begin.unwrap_or(0);
        let round = loop {
            let busy = needs
                .iter()
                .fold(0, |busy, need| busy | taken[*need as usize].word(word));
            if busy != u64::MAX {
                break word as u32 * 64 + busy.trailing_ones();
            }
            word += 1;
        };
        for need in &needs {
            taken[*need as usize].take(round);
        }
        count = count.max(round + 1);
        turns.push((key(*one, *other), round));
    }
    turns.sort_unstable();
    let least = taken.iter().map(|it| it.times).max().unwrap_or(0);
    Rounds {
        count,
        least,
        turns,
    }
}

/// The rounds in which a part is taken, as bits.
#[derive(Debug, Clone, Default)]
struct Taken {
    words: Vec<u64>,
    /// Words before this one have no free round.
    full: usize,
    times: u32,
}

impl Taken {
    fn word(&self, at: usize) -> u64 {
        self.words.get(at).copied().unwrap_or(0)
    }

    fn take(&mut self, round: u32) {
        let at = round as usize / 64;
        if self.words.len() <= at {
            self.words.resize(at + 1, 0);
        }
        self.words[at] |= 1 << (round % 64);
        self.times += 1;
        while self.word(self.full) == u64::MAX {
            self.full += 1;
        }
    }
}
