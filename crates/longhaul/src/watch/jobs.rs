//! The recurring runs of one agent: one job for each measurement, path and direction.

use super::draw::{draw, up_to, word};
use super::file::sections::RATE_ASSUMED;
use super::file::{Directions, Form, Measure, WatchFile, Work};
use super::needs::{Need, Parts};
use super::rounds::{Rounds, initiator};
use super::{SECOND_US, rounds};
use longhaul_model::units::Rate;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Slack after a run in its turn, so that it may start late or retry once after a refusal.
const SLACK_US: i64 = 4 * SECOND_US;
/// The part of the slack that stays unused, because the clocks of agents differ.
const GUARD_US: i64 = 2 * SECOND_US;

/// A measurement of one path in one direction. Forward is from the agent.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    pub measure: Arc<str>,
    /// The sender; the agent if a run covers both directions.
    pub from: Arc<str>,
    pub to: Arc<str>,
}

/// Periodic turns of a pair. A run may start while the gate is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gate {
    pub cycle_us: i64,
    /// Opening time since 1970, modulo the cycle.
    pub opens_us: i64,
    pub open_us: i64,
}

impl Gate {
    pub fn is_open(&self, now_us: i64) -> bool {
        (now_us - self.opens_us).rem_euclid(self.cycle_us) <= self.open_us
    }

    /// Returns the first opening at or after `at_us`.
    pub fn opening(&self, at_us: i64) -> i64 {
        at_us + (self.opens_us - at_us).rem_euclid(self.cycle_us)
    }
}

#[derive(Debug, Clone)]
pub struct Job {
    pub key: Key,
    pub measure: Arc<Measure>,
    /// The other host; `None` for an audit.
    pub far: Option<Arc<str>>,
    pub heavy: bool,
    /// Resources that a run locks exclusively.
    pub needs: Vec<Need>,
    /// Resources that a light run shares with other light runs, but not with heavy ones.
    pub beside: Vec<Need>,
    /// The maximum duration of a run.
    pub lasts_us: i64,
    /// The maximum number of bytes that a run sends.
    pub bytes: u64,
    pub every_us: i64,
    pub jitter_us: i64,
    /// Start of interval 0 since 1970.
    base_us: i64,
    pub gate: Option<Gate>,
    chance: u64,
}

impl Job {
    /// Returns whether the target sends.
    pub fn is_back(&self) -> bool {
        self.far.as_ref() == Some(&self.key.from)
    }

    /// Returns the due time of the run in interval `number`.
    pub fn due_us(&self, number: i64) -> i64 {
        let begin = number * self.every_us + self.base_us;
        let chance = up_to(self.jitter_us, self.chance, &[number as u64]);
        match &self.gate {
            Some(gate) => gate.opening(begin) + chance.min(gate.open_us / 2),
            None => begin + chance,
        }
    }

    /// Returns the first interval whose run is due after `now_us`.
    pub fn first_after(&self, now_us: i64) -> i64 {
        let mut number = self.around(now_us) - 2;
        while self.due_us(number) <= now_us {
            number += 1;
        }
        number
    }

    /// Returns the last interval whose run is due at or before `now_us`.
    pub fn latest_at(&self, now_us: i64) -> i64 {
        self.first_after(now_us) - 1
    }

    fn around(&self, now_us: i64) -> i64 {
        (now_us - self.base_us).div_euclid(self.every_us)
    }
}

/// Turns of the heavy runs of a mesh.
#[derive(Debug, Clone)]
pub struct Turns {
    pub rounds: Arc<Rounds>,
    /// Time for one direction within a turn.
    pub half_us: i64,
    pub turn_us: i64,
}

impl Turns {
    /// Returns `None` if no other agent shares the file, or no measurement is heavy.
    pub fn of(file: &WatchFile) -> Option<Turns> {
        let agents = rounds::agents(file);
        let heavy = || file.measures.iter().filter(|it| it.work.is_heavy());
        if agents.len() < 2 || heavy().next().is_none() {
            return None;
        }
        let mut sets: Vec<usize> = heavy().flat_map(|it| it.sets.iter().copied()).collect();
        sets.sort_unstable();
        sets.dedup();
        let pairs = rounds::pairs(file, &sets, &agents);
        let rounds = Arc::new(rounds::arrange(&pairs, &Parts::new(file)));
        let longest = heavy().map(|it| it.work.lasts()).max()?;
        let half_us = micros(longest) + SLACK_US;
        let halves = heavy().map(|it| runs_each(it) as i64).max()?;
        Some(Turns {
            rounds,
            half_us,
            turn_us: half_us * halves,
        })
    }

    /// Returns the duration of a cycle, after which each pair has its next turn.
    pub fn cycle_us(&self) -> i64 {
        self.turn_us * i64::from(self.rounds.count.max(1))
    }

    fn gate(&self, hosts: (usize, usize), second: bool, lasts_us: i64) -> Option<Gate> {
        let round = i64::from(self.rounds.of(hosts.0, hosts.1)?);
        Some(Gate {
            cycle_us: self.cycle_us(),
            opens_us: round * self.turn_us + if second { self.half_us } else { 0 },
            open_us: (self.half_us - lasts_us - GUARD_US).max(0),
        })
    }
}

/// Returns the number of runs per path and interval.
pub fn runs_each(measure: &Measure) -> u32 {
    let one_way = measure.directions != Directions::Both || measure.work == Work::Host;
    let alone = measure.work.covers_both_ways() || one_way;
    if alone { 1 } else { 2 }
}

pub fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX / 4)
}

/// Returns the lowest declared rate on the path between two hosts.
pub fn path_rate(file: &WatchFile, one: usize, other: usize) -> Rate {
    let hosts = [&file.hosts[one], &file.hosts[other]];
    let links = hosts
        .iter()
        .flat_map(|host| host.links.iter())
        .filter_map(|link| file.links[*link].rate);
    let own = hosts.iter().filter_map(|host| host.rate);
    links.chain(own).min().unwrap_or(RATE_ASSUMED)
}

/// Returns the jobs of the file's agent in a stable order.
pub fn jobs(file: &WatchFile, turns: Option<&Turns>, seed: u64) -> Vec<Job> {
    let parts = Parts::new(file);
    let mut jobs = Vec::new();
    for (index, measure) in file.measures.iter().enumerate() {
        let measure = Arc::new(measure.clone());
        let begin = jobs.len();
        if measure.work == Work::Host {
            jobs.push(job(file, (&measure, None, false), &parts));
        }
        for far in far_hosts(file, &measure) {
            let second = measure.directions == Directions::Both && runs_each(&measure) == 2;
            let first_is_back = measure.directions == Directions::Reverse;
            jobs.push(job(file, (&measure, Some(far), first_is_back), &parts));
            if second {
                jobs.push(job(file, (&measure, Some(far), true), &parts));
            }
        }
        spread(&mut jobs[begin..], index as i64, file, turns, seed);
    }
    jobs
}

/// Returns the hosts that the agent measures, without duplicates.
pub fn far_hosts(file: &WatchFile, measure: &Measure) -> Vec<usize> {
    let own = file.agent.host;
    let mut far = Vec::new();
    if measure.work == Work::Host {
        return far;
    }
    for set in measure.sets.iter().map(|set| &file.sets[*set]) {
        let others = set.hosts.iter().copied().filter(|host| *host != own);
        match set.form {
            Form::Mesh if set.hosts.contains(&own) => {
                far.extend(others.filter(|host| initiator(own, *host) == own));
            }
            // Only hosts of a mesh measure it.
            Form::Mesh => {}
            Form::Group | Form::Target => far.extend(others),
        }
    }
    let mut seen = vec![false; file.hosts.len()];
    far.retain(|host| !std::mem::replace(&mut seen[*host], true));
    far
}

/// Returns a job that the file does not contain, such as a measurement that an event requests. It
/// uses the same locks as all others and, in a mesh, the turn of its pair.
pub fn once(
    file: &WatchFile,
    turns: Option<&Turns>,
    measure: Measure,
    (far, back): (usize, bool),
) -> Job {
    let mut once = job(
        file,
        (&Arc::new(measure), Some(far), back),
        &Parts::new(file),
    );
    if let Some(turns) = turns.filter(|_| once.heavy) {
        once.gate = turns.gate((file.agent.host, far), back, once.lasts_us);
    }
    once
}

fn job(
    file: &WatchFile,
    (measure, far, back): (&Arc<Measure>, Option<usize>, bool),
    parts: &Parts,
) -> Job {
    let own = file.agent.host;
    let name = |host: usize| -> Arc<str> { file.hosts[host].name.as_str().into() };
    let (near, other) = (name(own), name(far.unwrap_or(own)));
    let (from, to) = if back { (other, near) } else { (near, other) };
    let key = Key {
        measure: measure.name.as_str().into(),
        from,
        to,
    };
    let heavy = measure.work.is_heavy();
    let label = format!("{} {} > {}", key.measure, key.from, key.to);
    let mut needs = vec![Need::Job(label.into())];
    let mut beside = Vec::new();
    if let Some(far) = far {
        let numbers = parts.of_pair(own, far);
        let shared = if heavy { &mut needs } else { &mut beside };
        shared.extend(numbers.iter().map(|number| parts.need(*number).clone()));
    }
    let rate = path_rate(file, own, far.unwrap_or(own));
    Job {
        far: far.map(name),
        heavy,
        needs,
        beside,
        lasts_us: micros(measure.work.lasts()),
        bytes: measure.work.bytes(rate),
        every_us: micros(measure.every),
        jitter_us: micros(measure.jitter),
        base_us: 0,
        gate: None,
        chance: 0,
        measure: Arc::clone(measure),
        key,
    }
}

/// Spreads the jobs of one measurement over its interval, and assigns turns to heavy jobs of a
/// mesh.
fn spread(jobs: &mut [Job], index: i64, file: &WatchFile, turns: Option<&Turns>, seed: u64) {
    let number = jobs.len() as i64;
    let hosts = file.hosts.iter().enumerate();
    let places: HashMap<&str, usize> = hosts.map(|(at, host)| (host.name.as_str(), at)).collect();
    let own = file.agent.host;
    let agent = word(&file.agent.name);
    for (place, job) in jobs.iter_mut().enumerate() {
        let words = [
            agent,
            word(&job.key.measure),
            word(&job.key.from),
            word(&job.key.to),
        ];
        job.chance = draw(seed, &words);
        let far = job.far.as_deref().and_then(|far| places.get(far).copied());
        let back = *job.key.from != *file.agent.name && job.measure.directions == Directions::Both;
        job.gate = turns
            .filter(|_| job.heavy)
            .zip(far)
            .and_then(|(turns, far)| turns.gate((own, far), back, job.lasts_us));
        job.base_us = if let Some(gate) = &job.gate {
            // Measurements that share turns use different cycles.
            index * gate.cycle_us
        } else {
            let begin = draw(word(&job.key.measure), &[agent]) % job.every_us as u64;
            let share = i128::from(job.every_us) * place as i128 / i128::from(number);
            (begin as i64 + share as i64) % job.every_us
        };
    }
}
