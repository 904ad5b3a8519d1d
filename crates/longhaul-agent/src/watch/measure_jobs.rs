//! The recurring runs of one agent: one job for each measurement, path and direction.

use super::hash_random::{draw_number, draw_up_to, hash_text};
use super::mesh_rounds::{MeshRounds, choose_initiator};
use super::path_resources::{PathResource, ResourceTable};
use super::watch_file::agent_sections::DEFAULT_RATE;
use super::watch_file::{HostSetKind, MeasureConfig, MeasureDirections, MeasureKind, WatchFile};
use super::{SECOND_US, mesh_rounds};
use longhaul_model::units::Rate;
use longhaul_report::summary_lines::format_measurement;
use std::collections::HashSet;
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
    /// The other host; `None` if a run concerns the agent's own host only.
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
        let longest = heavy().map(MeasureConfig::max_duration).max()?;
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
        own: usize,
        far: usize,
        second: bool,
        lasts_us: i64,
    ) -> Option<StartWindow> {
        let round = i64::from(self.rounds.round_of(own, far)?);
        Some(StartWindow {
            cycle_us: self.cycle_us(),
            opens_us: round * self.turn_us + if second { self.half_us } else { 0 },
            length_us: (self.half_us - lasts_us - GUARD_US).max(0),
        })
    }
}

/// Returns the number of runs per path and interval.
pub fn count_runs_per_path(measure: &MeasureConfig) -> u32 {
    let one_way = measure.directions != MeasureDirections::Both || measure.kind.is_local();
    let alone = measure.kind.covers_both_ways() || one_way;
    if alone { 1 } else { 2 }
}

pub fn to_micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX / 4)
}

/// Returns the lowest declared rate on the path between two hosts, or the default rate.
pub fn find_path_rate(file: &WatchFile, one: usize, other: usize) -> Rate {
    find_declared_rate(file, one, other).unwrap_or(DEFAULT_RATE)
}

/// Returns the lowest declared rate on the path between two hosts.
pub fn find_declared_rate(file: &WatchFile, one: usize, other: usize) -> Option<Rate> {
    let hosts = [&file.hosts[one], &file.hosts[other]];
    let links =
        hosts.iter().flat_map(|host| host.links.iter()).filter_map(|link| file.links[*link].rate);
    let own = hosts.iter().filter_map(|host| host.rate);
    links.chain(own).min()
}

/// Returns the jobs of the file's agent in a stable order. Those of one measurement are spread over
/// its interval.
pub fn build_jobs(file: &WatchFile, turns: Option<&MeshTurns>, seed: u64) -> Vec<MeasureJob> {
    let builder = JobBuilder { file, turns, seed, parts: ResourceTable::new(file) };
    let agent = hash_text(&file.agent.name);
    let mut jobs = Vec::new();
    for (index, measure) in file.measures.iter().enumerate() {
        let measure = Arc::new(measure.clone());
        let begin = jobs.len();
        if measure.kind.is_local() {
            jobs.push(builder.build_job(&measure, None, false));
        }
        let is_reverse = measure.directions == MeasureDirections::Reverse;
        for far in list_target_hosts(file, &measure) {
            if !is_reverse {
                jobs.push(builder.build_job(&measure, Some(far), false));
            }
            if is_reverse || count_runs_per_path(&measure) == 2 {
                jobs.push(builder.build_job(&measure, Some(far), true));
            }
        }
        let number = (jobs.len() - begin) as i128;
        for (place, job) in jobs[begin..].iter_mut().enumerate() {
            job.offset_us = if let Some(gate) = &job.window {
                // Measurements that share turns use different cycles.
                index as i64 * gate.cycle_us
            } else {
                let first = draw_number(hash_text(&measure.name), &[agent]) % job.every_us as u64;
                let share = i128::from(job.every_us) * place as i128 / number;
                (first as i64 + share as i64) % job.every_us
            };
        }
    }
    jobs
}

/// Returns the hosts that the agent measures, without duplicates.
pub fn list_target_hosts(file: &WatchFile, measure: &MeasureConfig) -> Vec<usize> {
    let own = file.agent.host;
    let mut far = Vec::new();
    if measure.kind.is_local() {
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

/// Returns the number of hosts that the agent measures.
pub fn count_target_hosts(file: &WatchFile) -> usize {
    let far = file.measures.iter().flat_map(|measure| list_target_hosts(file, measure));
    far.collect::<HashSet<usize>>().len()
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
    let builder = JobBuilder { file, turns, seed: 0, parts: ResourceTable::new(file) };
    builder.build_job(&Arc::new(measure), Some(far), back)
}

/// Builds the jobs of a watch file.
struct JobBuilder<'a> {
    file: &'a WatchFile,
    turns: Option<&'a MeshTurns>,
    /// The seed of the jitter.
    seed: u64,
    parts: ResourceTable,
}

impl JobBuilder<'_> {
    fn build_job(
        &self,
        measure: &Arc<MeasureConfig>,
        far: Option<usize>,
        back: bool,
    ) -> MeasureJob {
        let own = self.file.agent.host;
        let name = |host: usize| -> Arc<str> { self.file.hosts[host].name.as_str().into() };
        let (near, other) = (name(own), name(far.unwrap_or(own)));
        let (from, to) = if back { (other, near) } else { (near, other) };
        let key = JobKey { measure: measure.name.as_str().into(), from, to };
        let label = format!("measurement {} {} > {}", key.measure, key.from, key.to);
        let mut exclusive: Vec<PathResource> = vec![label.into()];
        let mut shared = Vec::new();
        let heavy = measure.is_heavy();
        let max_duration_us = to_micros(measure.max_duration());
        let mut window = None;
        if measure.kind == MeasureKind::Flows {
            // The agent's own heavy runs would be among the transfers.
            let numbers = self.parts.pair_resources(own, own);
            shared.extend(numbers.iter().map(|number| self.parts.resource(*number).clone()));
        }
        if let Some(far) = far {
            let numbers = self.parts.pair_resources(own, far);
            let needs = if heavy { &mut exclusive } else { &mut shared };
            needs.extend(numbers.iter().map(|number| self.parts.resource(*number).clone()));
            let is_second = back && measure.directions == MeasureDirections::Both;
            window = self
                .turns
                .filter(|_| heavy)
                .and_then(|turns| turns.start_window(own, far, is_second, max_duration_us));
        }
        let rate = find_path_rate(self.file, own, far.unwrap_or(own));
        let words = [&*self.file.agent.name, &*key.measure, &*key.from, &*key.to].map(hash_text);
        MeasureJob {
            target: far.map(name),
            heavy,
            exclusive,
            shared,
            max_duration_us,
            max_bytes: measure.max_bytes(rate),
            every_us: to_micros(measure.every),
            jitter_us: to_micros(measure.jitter),
            offset_us: 0,
            window,
            jitter_seed: draw_number(self.seed, &words),
            measure: Arc::clone(measure),
            key,
        }
    }
}
