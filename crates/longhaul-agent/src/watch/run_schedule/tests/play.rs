//! A schedule played on virtual time, with everything checked that must always hold.

use crate::watch::SECOND_US;
use crate::watch::hash_random::draw_number;
use crate::watch::measure_jobs::MeasureJob;
use crate::watch::path_resources::PathResource;
use crate::watch::run_schedule::{
    AttemptOutcome, ClockTimes, RunId, RunSchedule, ScheduleNote, ScheduledRun,
};
use crate::watch::watch_file::{SecretFileState, WatchFile, WatchFileContext, parse_watch_file};
use proptest::prelude::TestCaseError;
use proptest::{prop_assert, prop_assert_eq};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

/// A moment in 2026.
const BEGIN_US: i64 = 1_790_000_000 * SECOND_US;

#[derive(Debug, Clone)]
pub enum Action {
    /// So many decisions.
    Go(u32),
    /// Nobody looks for so long.
    Sleep(i64),
    /// The wall clock is set by so much.
    SetClock(i64),
    Reload(u64),
    Ask(usize),
    /// From now on so many of a hundred runs fail.
    Failing(u8),
    /// So many are refused.
    Busy(u8),
    /// So many hundredths of their longest time is what runs take.
    Lasting(u32),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Waiting,
    Running,
    Ended,
}

pub struct Play {
    pub schedule: RunSchedule,
    pub now: ClockTimes,
    states: HashMap<RunId, State>,
    ended: u64,
    /// Runs under way by the moment of their end, on the steady clock.
    under_way: BTreeMap<(i64, RunId), Arc<MeasureJob>>,
    pub starts: Vec<(Arc<MeasureJob>, i64)>,
    light_at_once: usize,
    seed: u64,
    drawn: u64,
    failing: u8,
    busy: u8,
    lasting: u32,
}

pub fn read(text: &str, agent: Option<&str>) -> Option<WatchFile> {
    let look = |_: &Path| SecretFileState::Private;
    let here = WatchFileContext { agent, check_secret: &look };
    parse_watch_file("w", text, &here).ok()
}

/// A file of chance that can be kept to.
pub fn file_of(seed: u64) -> WatchFile {
    // Where the intervals are too short for the rest, longer ones are tried.
    let tried = (0..8).find_map(|slower| read(&text_of(seed, 1 << (2 * slower)), Some("h0")));
    tried.expect("some interval is long enough")
}

fn text_of(seed: u64, slower: u64) -> String {
    let mut drawn = 0;
    let mut pick = |most: u64| {
        drawn += 1;
        draw_number(seed, &[drawn]) % most
    };
    let hosts = 2 + pick(5);
    let mut text = format!(
        "[agent]\nlight_at_once = {}\ncatch_up = \"{}\"\njitter = \"{} s\"\n",
        1 + pick(4),
        ["latest", "none"][pick(2) as usize],
        pick(90)
    );
    if pick(3) == 0 {
        let _ = writeln!(text, "bytes_per_day = \"{} GB\"", 2000 + pick(10_000));
    }
    text.push_str("[[link]]\nname = \"l0\"\n[[link]]\nname = \"l1\"\nrate = \"100 Mbit/s\"\n");
    for host in 0..hosts {
        let _ = writeln!(text, "[[host]]\nname = \"h{host}\"");
        match pick(4) {
            0 => text.push_str("links = [\"l0\"]\n"),
            1 => text.push_str("links = [\"l0\", \"l1\"]\n"),
            2 => text.push_str("interface = \"i0\"\n"),
            _ => {}
        }
    }
    let names: Vec<String> = (0..hosts).map(|host| format!("\"h{host}\"")).collect();
    let form = ["group", "mesh"][pick(2) as usize];
    let _ = writeln!(text, "[[{form}]]\nname = \"g\"\nhosts = [{}]", names.join(", "));
    for measure in 0..=pick(4) {
        let kinds = ["path", "latency", "available", "throughput", "tune", "load", "host", "flows"];
        let kind = kinds[pick(8) as usize];
        let every = (60 + pick(3600)) * slower;
        let _ = writeln!(
            text,
            "[[measure]]\nname = \"m{measure}\"\nkind = \"{kind}\"\nevery = \"{every} s\""
        );
    }
    text
}

impl Play {
    pub fn new(file: &WatchFile, seed: u64) -> Self {
        Play {
            schedule: RunSchedule::new(file, seed),
            now: ClockTimes { wall_us: BEGIN_US, steady_us: 0 },
            states: HashMap::new(),
            ended: 0,
            under_way: BTreeMap::new(),
            starts: Vec::new(),
            light_at_once: file.agent.light_at_once as usize,
            seed,
            drawn: 0,
            failing: 5,
            busy: 5,
            lasting: 70,
        }
    }

    pub fn planned(&self) -> u64 {
        self.schedule.run_counts().planned
    }

    pub fn ended(&self) -> u64 {
        self.ended
    }

    pub fn outcomes(&mut self, failing: u8, busy: u8, lasting: u32) {
        (self.failing, self.busy, self.lasting) = (failing, busy, lasting);
    }

    pub fn act(&mut self, action: &Action) -> Result<(), TestCaseError> {
        match action {
            Action::Go(steps) => (0..*steps).try_for_each(|_| self.step())?,
            Action::Sleep(us) => {
                self.now.wall_us += us;
                self.now.steady_us += us;
                self.decide()?;
            }
            Action::SetClock(us) => {
                self.now.wall_us += us;
                self.decide()?;
            }
            Action::Reload(seed) => {
                let file = file_of(*seed);
                let before = self.schedule.run_counts();
                self.light_at_once = self
                    .under_way
                    .values()
                    .filter(|job| !job.heavy)
                    .count()
                    .max(file.agent.light_at_once as usize);
                self.schedule.reload(&file, self.now);
                let after = self.schedule.run_counts();
                prop_assert_eq!(after.running, before.running, "a run was lost");
                self.check()?;
            }
            Action::Ask(which) => {
                let keys: Vec<_> = self.schedule.jobs().map(|job| job.key.clone()).collect();
                if let Some(key) = keys.get(which % keys.len().max(1)) {
                    prop_assert!(self.schedule.request_run(key, self.now).is_ok());
                }
                self.decide()?;
            }
            Action::Failing(share) => self.failing = *share,
            Action::Busy(share) => self.busy = *share,
            Action::Lasting(share) => self.lasting = *share,
        }
        Ok(())
    }

    /// Goes on to the next moment at which something happens.
    pub fn step(&mut self) -> Result<(), TestCaseError> {
        let Some(next) = self.schedule.next_at() else {
            return self.decide();
        };
        prop_assert!(next > self.now.wall_us, "time stands still");
        let ends = self.under_way.keys().next().map(|(at, _)| *at);
        let until = (next - self.now.wall_us)
            .min(ends.map_or(i64::MAX, |at| (at - self.now.steady_us).max(0)));
        self.now.wall_us += until;
        self.now.steady_us += until;
        self.decide()
    }

    /// Ends what ends now, and starts what starts.
    fn decide(&mut self) -> Result<(), TestCaseError> {
        while let Some((at, id)) = self.under_way.keys().next().cloned() {
            if at > self.now.steady_us {
                break;
            }
            self.under_way.remove(&(at, Arc::clone(&id)));
            let outcome = self.outcome();
            self.schedule.finish_run(&id, outcome, self.now);
            self.check()?;
        }
        for start in self.schedule.start_due(self.now) {
            self.begin(&start);
        }
        self.check()
    }

    fn begin(&mut self, start: &ScheduledRun) {
        self.drawn += 1;
        let share = 1 + draw_number(self.seed, &[self.drawn]) % u64::from(self.lasting.max(1));
        let lasts = start.job.max_duration_us * share as i64 / 100;
        let at = self.now.steady_us + lasts.max(1);
        self.under_way.insert((at, Arc::clone(&start.id)), Arc::clone(&start.job));
        self.starts.push((Arc::clone(&start.job), self.now.wall_us));
    }

    fn outcome(&mut self) -> AttemptOutcome {
        self.drawn += 1;
        let chance = (draw_number(self.seed, &[self.drawn]) % 100) as u8;
        if chance < self.failing {
            AttemptOutcome::Failed { sent_bytes: 1000 }
        } else if chance < self.failing.saturating_add(self.busy) {
            AttemptOutcome::Refused
        } else {
            AttemptOutcome::Done { sent_bytes: 1_000_000 }
        }
    }

    /// What the notes say fits what was known, and the sums hold.
    fn check(&mut self) -> Result<(), TestCaseError> {
        for note in self.schedule.take_notes() {
            let (id, from, to) = match note {
                ScheduleNote::Planned(planned) => {
                    let known = self.states.insert(planned.id, State::Waiting);
                    prop_assert_eq!(known, None, "an id was used twice");
                    continue;
                }
                ScheduleNote::Started(id) => (id, State::Waiting, State::Running),
                ScheduleNote::Done(id) | ScheduleNote::Failed(ScheduledRun { id, .. }) => {
                    // The schedule itself may have given up a run that lasts too long.
                    self.under_way.retain(|(_, known), _| *known != id);
                    (id, State::Running, State::Ended)
                }
                ScheduleNote::Missed(ScheduledRun { id, .. }, _) => {
                    let state = self.states.get(&id).copied();
                    prop_assert!(state.is_some_and(|it| it != State::Ended), "{id} {state:?}");
                    self.states.insert(id, State::Ended);
                    self.ended += 1;
                    continue;
                }
                ScheduleNote::Refused(id) => (id, State::Running, State::Waiting),
            };
            self.ended += u64::from(to == State::Ended);
            prop_assert_eq!(self.states.insert(id, to), Some(from));
        }
        self.sums_hold()?;
        self.nothing_is_shared()
    }

    fn sums_hold(&self) -> Result<(), TestCaseError> {
        let tally = self.schedule.run_counts();
        let ended = tally.done + tally.failed + tally.missed;
        prop_assert_eq!(tally.planned, ended + tally.waiting + tally.running);
        prop_assert_eq!(tally.planned, self.states.len() as u64);
        prop_assert_eq!(ended, self.ended);
        Ok(())
    }

    fn nothing_is_shared(&self) -> Result<(), TestCaseError> {
        let mut held: HashSet<&PathResource> = HashSet::new();
        for job in self.under_way.values() {
            for need in &job.exclusive {
                prop_assert!(held.insert(need), "{} is used twice", need);
            }
        }
        let turns = self.under_way.values().any(|job| job.window.is_some());
        for need in self.under_way.values().flat_map(|job| &job.shared) {
            prop_assert!(turns || !held.contains(need), "{} is loaded", need);
        }
        let light = self.under_way.values().filter(|job| !job.heavy).count();
        prop_assert!(light <= self.light_at_once);
        Ok(())
    }

    pub fn stop(&mut self) -> Result<(), TestCaseError> {
        self.schedule.stop(self.now);
        self.check()?;
        prop_assert_eq!(self.schedule.run_counts().waiting, 0);
        while !self.under_way.is_empty() {
            self.step()?;
        }
        let tally = self.schedule.run_counts();
        prop_assert_eq!(tally.planned, tally.done + tally.failed + tally.missed);
        Ok(())
    }
}
