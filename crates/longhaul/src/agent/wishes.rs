//! Follow-up measurements that an event requests: runs of a job in the watch file, or of a job made
//! for the event.
//!
//! They use the same budgets and locks as all other runs. Each kind is made once per event, and
//! only a few per hour.

use crate::watch::file::{Directions, Measure, Mode, WatchFile, Work};
use crate::watch::jobs::{self, Job, Turns};
use crate::watch::schedule::{Asked, Now, RunId, Schedule};
use longhaul_analysis::event::{Measurement, Wanted};
use longhaul_model::report::v1::event::Event;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// The maximum number of follow-ups per event.
const EACH_MAX: usize = 4;
/// The maximum number of follow-ups per hour for all events.
const HOUR_MAX: usize = 8;
const HOUR_US: i64 = 3_600_000_000;
/// The maximum number of remembered events.
const EVENTS_MAX: usize = 1000;
/// Duration of a tuning probe, and the number of probes.
const TUNE: (Duration, u32) = (Duration::from_secs(5), 10);
const ROUND_TRIPS: u32 = 10;

#[derive(Debug, Default)]
pub struct Wishes {
    /// The follow-ups made for each event.
    granted: HashMap<String, HashSet<Measurement>>,
    order: VecDeque<String>,
    /// Times of recent follow-ups on the steady clock.
    recent: VecDeque<i64>,
    /// The event of each follow-up run that has not ended.
    waiting: HashMap<RunId, String>,
}

impl Wishes {
    /// Requests the wanted measurements as far as limits allow. Returns a log line for each.
    pub fn ask(
        &mut self,
        event: &Event,
        wanted: &[Wanted],
        file: &WatchFile,
        (schedule, now): (&mut Schedule, Now),
    ) -> Vec<String> {
        let mut told = Vec::new();
        self.forget_old(now, file.detect.quicker.unwrap_or(1));
        if file.detect.follow_ups == Some(false) {
            return told;
        }
        for wish in wanted {
            if !self.may(&event.id, wish.measurement) {
                continue;
            }
            let Some(job) = job_for(wish.measurement, event, file, schedule) else {
                continue;
            };
            let Ok(Asked::Queued(id) | Asked::Waits(id)) = schedule.ask_once(&job, now) else {
                continue;
            };
            self.grant(&event.id, wish.measurement, now);
            self.waiting.insert(id, event.id.clone());
            told.push(format!(
                "{} {} > {} is measured for an event: {}",
                wish.measurement.word(),
                event.pair.from,
                event.pair.to,
                wish.reason
            ));
        }
        told
    }

    /// Removes an ended run. Returns the event that it was made for.
    pub fn ended(&mut self, planned_id: &str) -> Option<String> {
        self.waiting.remove(planned_id)
    }

    /// `quicker` is the value from the watch file; it shortens the hour.
    fn forget_old(&mut self, now: Now, quicker: u64) {
        let hour_us = HOUR_US / i64::try_from(quicker.max(1)).unwrap_or(HOUR_US);
        let old = |at_us: &i64| *at_us < now.steady_us - hour_us;
        while self.recent.front().is_some_and(old) {
            self.recent.pop_front();
        }
    }

    fn may(&self, event: &str, measurement: Measurement) -> bool {
        let had = self.granted.get(event);
        let again = had.is_some_and(|had| had.contains(&measurement) || had.len() >= EACH_MAX);
        !again && self.recent.len() < HOUR_MAX
    }

    fn grant(&mut self, event: &str, measurement: Measurement, now: Now) {
        if !self.granted.contains_key(event) {
            self.order.push_back(event.to_owned());
            if self.order.len() > EVENTS_MAX
                && let Some(oldest) = self.order.pop_front()
            {
                self.granted.remove(&oldest);
            }
        }
        self.granted
            .entry(event.to_owned())
            .or_default()
            .insert(measurement);
        self.recent.push_back(now.steady_us);
    }
}

/// Returns a job of the file that makes the measurement, or a new job. Returns `None` if the agent
/// is neither end of the pair.
fn job_for(
    measurement: Measurement,
    event: &Event,
    file: &WatchFile,
    schedule: &Schedule,
) -> Option<Arc<Job>> {
    let (from, to) = (&event.pair.from, &event.pair.to);
    let own = &file.agent.name;
    let back = to == own;
    if !back && from != own {
        return None;
    }
    let far = if back { from } else { to };
    let fits = |job: &&Arc<Job>| {
        let same_way = job.is_back() == back || job.measure.work.covers_both_ways();
        job.far.as_deref() == Some(far.as_str()) && same_way && does(&job.measure.work, measurement)
    };
    if let Some(job) = schedule.jobs().find(fits) {
        return Some(Arc::clone(job));
    }
    let far = file.hosts.iter().position(|host| host.name == *far)?;
    let measure = measure(measurement);
    let turns = Turns::of(file);
    let job = jobs::once(file, turns.as_ref(), measure, (far, back));
    Some(Arc::new(job))
}

fn does(work: &Work, measurement: Measurement) -> bool {
    match measurement {
        Measurement::PathBothWays => matches!(work, Work::Path { .. }),
        Measurement::Available => {
            // Light runs are made regularly and did not decide.
            matches!(work, Work::Available { mode } if *mode != Mode::Light)
        }
        Measurement::AvailableShaper => false,
        Measurement::Tune => matches!(work, Work::Tune { .. }),
    }
}

fn measure(measurement: Measurement) -> Measure {
    let (time, probes) = TUNE;
    let work = match measurement {
        Measurement::PathBothWays => Work::Path {
            count: ROUND_TRIPS,
            protocol: "icmp",
        },
        Measurement::Available => Work::Available { mode: Mode::Quick },
        Measurement::AvailableShaper => Work::Shaper,
        Measurement::Tune => Work::Tune {
            time,
            probes,
            congestion_control: None,
        },
    };
    Measure {
        name: format!("event-{}", measurement.word()),
        work,
        // The job runs only once.
        every: Duration::from_secs(86_400),
        jitter: Duration::ZERO,
        sets: Vec::new(),
        directions: Directions::Both,
        bytes_per_day: None,
        line: 0,
        every_line: 0,
        budget_line: 0,
    }
}
