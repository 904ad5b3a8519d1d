//! Follow-up measurements that an event requests: runs of a job in the watch file, or of a job made
//! for the event.
//!
//! They use the same budgets and locks as all other runs. Each kind is made once per event, and
//! only a few per hour.

use crate::watch::measure_jobs::{self, MeasureJob, MeshTurns};
use crate::watch::run_schedule::{ClockTimes, RequestedRun, RunId, RunSchedule};
use crate::watch::watch_file::{MeasureConfig, MeasureKind, WatchFile};
use longhaul_history::event::{FollowUpKind, FollowUpMeasurement};
use longhaul_model::report::v1::ChangeEvent;
use longhaul_model::report::v1::available::AvailableMode;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// The maximum number of follow-ups per hour for all events.
const MAX_PER_HOUR: usize = 8;
const HOUR_US: i64 = 3_600_000_000;
/// The maximum number of remembered follow-ups.
const MAX_REQUESTS: usize = 4000;

#[derive(Debug, Default)]
pub struct FollowUpRequests {
    /// The follow-ups made, each with its event.
    requested: HashSet<(String, FollowUpKind)>,
    /// Times of recent follow-ups on the steady clock.
    recent: Vec<i64>,
    /// The event of each follow-up run that has not ended.
    waiting: HashMap<RunId, String>,
}

impl FollowUpRequests {
    /// Requests the wanted measurements as far as limits allow. Returns a log line for each.
    pub fn request_runs(
        &mut self,
        event: &ChangeEvent,
        wanted: &[FollowUpMeasurement],
        file: &WatchFile,
        schedule: &mut RunSchedule,
        now: ClockTimes,
    ) -> Vec<String> {
        let mut told = Vec::new();
        // Tests shorten the hour.
        let hour_us = HOUR_US / file.detect.time_factor.unwrap_or(1).max(1) as i64;
        self.recent.retain(|at_us| *at_us >= now.steady_us - hour_us);
        if file.detect.follow_ups == Some(false) {
            return told;
        }
        for wish in wanted {
            let request = (event.id.clone(), wish.measurement);
            if self.requested.contains(&request) || self.recent.len() >= MAX_PER_HOUR {
                continue;
            }
            let Some(job) = find_or_build_job(wish.measurement, event, file, schedule) else {
                continue;
            };
            let Ok(RequestedRun::Queued(id) | RequestedRun::AlreadyQueued(id)) =
                schedule.request_job(&job, now)
            else {
                continue;
            };
            if self.requested.len() >= MAX_REQUESTS {
                self.requested.clear();
            }
            self.requested.insert(request);
            self.recent.push(now.steady_us);
            self.waiting.insert(id, event.id.clone());
            told.push(format!(
                "requested {} {} > {} to diagnose an event: {}",
                wish.measurement.word(),
                event.pair.from,
                event.pair.to,
                wish.reason
            ));
        }
        told
    }

    /// Removes an ended run. Returns the event that it was made for.
    pub fn take_event_of(&mut self, planned_id: &str) -> Option<String> {
        self.waiting.remove(planned_id)
    }
}

/// Returns a job of the file that makes the measurement, or a new job. Returns `None` if the agent
/// is neither end of the pair.
fn find_or_build_job(
    measurement: FollowUpKind,
    event: &ChangeEvent,
    file: &WatchFile,
    schedule: &RunSchedule,
) -> Option<Arc<MeasureJob>> {
    let (from, to) = (&event.pair.from, &event.pair.to);
    let own = &file.agent.name;
    let back = to == own;
    if !back && from != own {
        return None;
    }
    let far = if back { from } else { to };
    let fits = |job: &&Arc<MeasureJob>| {
        let same_way = job.is_reverse() == back || job.measure.kind.covers_both_ways();
        job.target.as_deref() == Some(far.as_str())
            && same_way
            && makes_measurement(&job.measure, measurement)
    };
    if let Some(job) = schedule.jobs().find(fits) {
        return Some(Arc::clone(job));
    }
    let far = file.hosts.iter().position(|host| host.name == *far)?;
    let measure = build_measure(measurement);
    let turns = MeshTurns::from_file(file);
    let job = measure_jobs::build_single_job(file, turns.as_ref(), measure, far, back);
    Some(Arc::new(job))
}

fn makes_measurement(work: &MeasureConfig, measurement: FollowUpKind) -> bool {
    match measurement {
        FollowUpKind::PathBothWays => work.kind == MeasureKind::Path,
        FollowUpKind::Available => {
            // Light runs are made regularly and did not decide.
            work.kind == MeasureKind::Available && work.mode() != AvailableMode::Light
        }
        FollowUpKind::AvailableShaper => false,
        FollowUpKind::Tune => work.kind == MeasureKind::Tune,
    }
}

fn build_measure(measurement: FollowUpKind) -> MeasureConfig {
    MeasureConfig {
        name: format!("event-{}", measurement.word()),
        kind: match measurement {
            FollowUpKind::PathBothWays => MeasureKind::Path,
            FollowUpKind::Available => MeasureKind::Available,
            FollowUpKind::AvailableShaper => MeasureKind::AvailableShaper,
            FollowUpKind::Tune => MeasureKind::Tune,
        },
        mode: Some(AvailableMode::Quick),
        // The job runs only once.
        every: Duration::from_secs(86_400),
        ..MeasureConfig::default()
    }
}
