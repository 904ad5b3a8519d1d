//! The recurring runs of one agent: one job for each measurement, path and direction.

use super::hash_random::{draw_number, draw_up_to, hash_text};
use super::mesh_rounds::{MeshRounds, choose_initiator};
use super::path_resources::{PathResource, ResourceTable};
use super::watch_file::agent_sections::DEFAULT_RATE;
use super::watch_file::{HostSetKind, MeasureConfig, MeasureDirections, MeasureKind, WatchFile};
use super::{SECOND_US, mesh_rounds};
use longhaul_model::units::Rate;
use longhaul_report::summary_lines::format_measurement;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Slack after a run in its turn, so that it may start late or retry once after a refusal.
const SLACK_US: i64 = 4 * SECOND_US;
/// The part of the slack that stays unused, because the clocks of agents differ.
const GUARD_US: i64 = 2 * SECOND_US;

/// A measurement of one path in one direction. Forward is from the agent.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobKey {
    pub measure: Arc<str>,
    /// The sender; the agent if a run covers both directions.
    pub from: Arc<str>,
    pub to: Arc<str>,
}

impl JobKey {
    /// Returns the name of the job in messages.
    pub fn title(&self) -> String {
        format_measurement(&self.measure, &self.from, &self.to)
    }
}

/// Periodic turns of a pair. A run may start while the gate is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartWindow {
    pub cycle_us: i64,
    /// Opening time since 1970, modulo the cycle.
    pub opens_us: i64,
    pub length_us: i64,
}

impl StartWindow {
    pub fn is_open(&self, now_us: i64) -> bool {
        (now_us - self.opens_us).rem_euclid(self.cycle_us) <= self.length_us
    }

    /// Returns the first opening at or after `at_us`.
    pub fn next_opening(&self, at_us: i64) -> i64 {
        at_us + (self.opens_us - at_us).rem_euclid(self.cycle_us)
    }
}

#[derive(Debug, Clone)]
pub struct MeasureJob {
    pub key: JobKey,
    pub measure: Arc<MeasureConfig>,
    /// The other host; `None` for an audit.
    pub target: Option<Arc<str>>,
    pub heavy: bool,
    /// Resources that a run locks exclusively.
    pub exclusive: Vec<PathResource>,
    /// Resources that a light run shares with other light runs, but not with heavy ones.
    pub shared: Vec<PathResource>,
    /// The maximum duration of a run.
    pub max_duration_us: i64,
    /// The maximum number of bytes that a run sends.
    pub max_bytes: u64,
    pub every_us: i64,
    pub jitter_us: i64,
    /// Start of interval 0 since 1970.
    offset_us: i64,
    pub window: Option<StartWindow>,
    jitter_seed: u64,
}

impl MeasureJob {
    /// Returns whether the target sends.
    pub fn is_reverse(&self) -> bool {
        self.target.as_ref() == Some(&self.key.from)
    }

    /// Returns the due time of the run in interval `number`.
    pub fn due_us(&self, number: i64) -> i64 {
        let begin = number * self.every_us + self.offset_us;
        let chance = draw_up_to(self.jitter_us, self.jitter_seed, &[number as u64]);
        match &self.window {
            Some(gate) => gate.next_opening(begin) + chance.min(gate.length_us / 2),
            None => begin + chance,
        }
    }

    /// Returns the first interval whose run is due after `now_us`.
    pub fn first_after(&self, now_us: i64) -> i64 {
        let mut number = self.interval_at(now_us) - 2;
        while self.due_us(number) <= now_us {
            number += 1;
        }
        number
    }

    /// Returns the last interval whose run is due at or before `now_us`.
    pub fn latest_at(&self, now_us: i64) -> i64 {
        self.first_after(now_us) - 1
    }

    fn interval_at(&self, now_us: i64) -> i64 {
        (now_us - self.offset_us).div_euclid(self.every_us)
    }
}

/// Turns of the heavy runs of a mesh.
#[derive(Debug, Clone)]
pub struct MeshTurns {
    pub rounds: Arc<MeshRounds>,
    /// Time for one direction within a turn.
    pub half_us: i64,
    pub turn_us: i64,
}

impl MeshTurns {
    /// Returns `None` if no other agent shares the file, or no measurement is heavy.
    pub fn from_file(file: &WatchFile) -> Option<MeshTurns> {
        let agents = mesh_rounds::list_agents(file);
        let heavy = || file.measures.iter().filter(|it| it.is_heavy());
        if agents.len() < 2 || heavy().next().is_none() {
            return None;
        }
        let mut sets: Vec<usize> = heavy().flat_map(|it| it.sets.iter().copied()).collect();
        sets.sort_unstable();
        sets.dedup();
        let pairs = mesh_rounds::list_pairs(file, &sets, &agents);
        let rounds = Arc::new(mesh_rounds::assign_rounds(&pairs, &ResourceTable::new(file)));
        let longest = heavy().map(|it| it.max_duration()).max()?;
        let half_us = to_micros(longest) + SLACK_US;
        let halves = heavy().map(|it| count_runs_per_path(it) as i64).max()?;
        Some(MeshTurns { rounds, half_us, turn_us: half_us * halves })
    }

    /// Returns the duration of a cycle, after which each pair has its next turn.
    pub fn cycle_us(&self) -> i64 {
        self.turn_us * i64::from(self.rounds.count.max(1))
    }

    fn start_window(
        &self,
        hosts: (usize, usize),
        second: bool,
        lasts_us: i64,
    ) -> Option<StartWindow> {
        let round = i64::from(self.rounds.round_of(hosts.0, hosts.1)?);
        Some(StartWindow {
            cycle_us: self.cycle_us(),
            opens_us: round * self.turn_us + if second { self.half_us } else { 0 },
            length_us: (self.half_us - lasts_us - GUARD_US).max(0),
        })
    }
}

/// Returns the number of runs per path and interval.
pub fn count_runs_per_path(measure: &MeasureConfig) -> u32 {
    let one_way =
        measure.directions != MeasureDirections::Both || measure.kind == MeasureKind::Host;
    let alone = measure.kind.covers_both_ways() || one_way;
    if alone { 1 } else { 2 }
}

pub fn to_micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX / 4)
}

/// Returns the lowest declared rate on the path between two hosts.
pub fn find_path_rate(file: &WatchFile, one: usize, other: usize) -> Rate {
    let hosts = [&file.hosts[one], &file.hosts[other]];
    let links =
        hosts.iter().flat_map(|host| host.links.iter()).filter_map(|link| file.links[*link].rate);
    let own = hosts.iter().filter_map(|host| host.rate);
    links.chain(own).min().unwrap_or(DEFAULT_RATE)
}

/// Returns the jobs of the file's agent in a stable order.
pub fn build_jobs(file: &WatchFile, turns: Option<&MeshTurns>, seed: u64) -> Vec<MeasureJob> {
    let parts = ResourceTable::new(file);
    let mut jobs = Vec::new();
    for (index, measure) in file.measures.iter().enumerate() {
        let measure = Arc::new(measure.clone());
        let begin = jobs.len();
        if measure.kind == MeasureKind::Host {
            jobs.push(build_job(file, &measure, None, false, &parts));
        }
        for far in list_target_hosts(file, &measure) {
            let second =
                measure.directions == MeasureDirections::Both && count_runs_per_path(&measure) == 2;
            let first_is_back = measure.directions == MeasureDirections::Reverse;
            jobs.push(build_job(file, &measure, Some(far), first_is_back, &parts));
            if second {
                jobs.push(build_job(file, &measure, Some(far), true, &parts));
            }
        }
        spread_jobs(&mut jobs[begin..], index as i64, file, turns, seed);
    }
    jobs
}

/// Returns the hosts that the agent measures, without duplicates.
pub fn list_target_hosts(file: &WatchFile, measure: &MeasureConfig) -> Vec<usize> {
    let own = file.agent.host;
    let mut far = Vec::new();
    if measure.kind == MeasureKind::Host {
        return far;
    }
    for set in measure.sets.iter().map(|set| &file.sets[*set]) {
        let others = set.hosts.iter().copied().filter(|host| *host != own);
        match set.kind {
            HostSetKind::Mesh if set.hosts.contains(&own) => {
                far.extend(others.filter(|host| choose_initiator(own, *host) == own));
            }
            // Only hosts of a mesh measure it.
            HostSetKind::Mesh => {}
            HostSetKind::Group | HostSetKind::Target => far.extend(others),
        }
    }
    let mut seen = vec![false; file.hosts.len()];
    far.retain(|host| !std::mem::replace(&mut seen[*host], true));
    far
}

/// Returns a job that the file does not contain, such as a measurement that an event requests. It
/// uses the same locks as all others and, in a mesh, the turn of its pair.
pub fn build_single_job(
    file: &WatchFile,
    turns: Option<&MeshTurns>,
    measure: MeasureConfig,
    far: usize,
    back: bool,
) -> MeasureJob {
    let mut once = build_job(file, &Arc::new(measure), Some(far), back, &ResourceTable::new(file));
    if let Some(turns) = turns.filter(|_| once.heavy) {
        once.window = turns.start_window((file.agent.host, far), back, once.max_duration_us);
    }
    once
}

fn build_job(
    file: &WatchFile,
    measure: &Arc<MeasureConfig>,
    far: Option<usize>,
    back: bool,
    parts: &ResourceTable,
) -> MeasureJob {
    let own = file.agent.host;
    let name = |host: usize| -> Arc<str> { file.hosts[host].name.as_str().into() };
    let (near, other) = (name(own), name(far.unwrap_or(own)));
    let (from, to) = if back { (other, near) } else { (near, other) };
    let key = JobKey { measure: measure.name.as_str().into(), from, to };
    let heavy = measure.is_heavy();
    let label = format!("measurement {} {} > {}", key.measure, key.from, key.to);
    let mut needs: Vec<PathResource> = vec![label.into()];
    let mut beside = Vec::new();
    if let Some(far) = far {
        let numbers = parts.pair_resources(own, far);
        let shared = if heavy { &mut needs } else { &mut beside };
        shared.extend(numbers.iter().map(|number| parts.resource(*number).clone()));
    }
    let rate = find_path_rate(file, own, far.unwrap_or(own));
    MeasureJob {
        target: far.map(name),
        heavy,
        exclusive: needs,
        shared: beside,
        max_duration_us: to_micros(measure.max_duration()),
        max_bytes: measure.max_bytes(rate),
        every_us: to_micros(measure.every),
        jitter_us: to_micros(measure.jitter),
        offset_us: 0,
        window: None,
        jitter_seed: 0,
        measure: Arc::clone(measure),
        key,
    }
}

/// Spreads the jobs of one measurement over its interval, and assigns turns to heavy jobs of a
/// mesh.
fn spread_jobs(
    jobs: &mut [MeasureJob],
    index: i64,
    file: &WatchFile,
    turns: Option<&MeshTurns>,
    seed: u64,
) {
    let number = jobs.len() as i64;
    let hosts = file.hosts.iter().enumerate();
    let places: HashMap<&str, usize> = hosts.map(|(at, host)| (host.name.as_str(), at)).collect();
    let own = file.agent.host;
    let agent = hash_text(&file.agent.name);
    for (place, job) in jobs.iter_mut().enumerate() {
        let words =
            [agent, hash_text(&job.key.measure), hash_text(&job.key.from), hash_text(&job.key.to)];
        job.jitter_seed = draw_number(seed, &words);
        let far = job.target.as_deref().and_then(|far| places.get(far).copied());
        let back =
            *job.key.from != *file.agent.name && job.measure.directions == MeasureDirections::Both;
        job.window = turns
            .filter(|_| job.heavy)
            .zip(far)
            .and_then(|(turns, far)| turns.start_window((own, far), back, job.max_duration_us));
        job.offset_us = if let Some(gate) = &job.window {
            // Measurements that share turns use different cycles.
            index * gate.cycle_us
        } else {
            let begin = draw_number(hash_text(&job.key.measure), &[agent]) % job.every_us as u64;
            let share = i128::from(job.every_us) * place as i128 / i128::from(number);
            (begin as i64 + share as i64) % job.every_us
        };
    }
}
