//! The event loop of the agent.

use super::agent_log::AgentLog;
use super::analysis_worker::{AnalysisResult, AnalysisWorker};
use super::archive_writer::PlanUpdate;
use super::clocks::read_clock_times;
use super::follow_ups::FollowUpRequests;
use super::job_status::{self, FailureReason};
use super::notifier::EventNotifier;
use super::process_runner::SpoolFiles;
use super::run_tasks::{RunFinished, RunLauncher, RunOutcome, StoredRun};
use super::service_manager::ServiceManager;
use super::shared_state::{JobRequest, LiveUpdate, SharedState};
use super::{agent_folder, finished_run};
use crate::watch::daily_budget::BudgetUsage;
use crate::watch::measure_jobs::JobKey;
use crate::watch::run_schedule::{
    AttemptOutcome, FAILED_REASON, MissedReason, RunId, RunSchedule, ScheduleNote, ScheduledRun,
};
use longhaul_model::report::v1::HostPair;
use longhaul_model::sanitize::sanitize_line;
use longhaul_store::history_store::{self, PlannedOutcome, PlannedRun};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// The maximum sleep, because the clock may be set and the host may suspend.
const MAX_SLEEP: Duration = Duration::from_secs(30);

/// The state of the event loop.
pub struct EventLoop {
    pub schedule: RunSchedule,
    /// Stores the bytes sent today, because a daily budget must survive a restart.
    pub budget_path: PathBuf,
    pub saved_budget: BudgetUsage,
    pub state: Arc<SharedState>,
    pub launcher: RunLauncher,
    pub analysis: AnalysisWorker,
    pub follow_ups: FollowUpRequests,
    pub notifier: EventNotifier,
    pub service: ServiceManager,
    pub log: AgentLog,
    pub running: HashMap<RunId, RunningRun>,
    /// Errors of failed runs whose outcome is not recorded yet.
    pub failure_texts: HashMap<RunId, String>,
}

/// A run in progress.
pub struct RunningRun {
    pub title: String,
    started: Instant,
}

/// The channels from which the event loop receives.
pub struct LoopChannels {
    pub finished_runs: mpsc::Receiver<RunFinished>,
    pub analysis_results: mpsc::Receiver<AnalysisResult>,
    pub requests: mpsc::Receiver<JobRequest>,
}

impl EventLoop {
    /// Starts due runs and records the decisions of the schedule.
    pub fn start_due_runs(&mut self) {
        let starts = {
            let mut users = self.state.heavy_runs.users();
            self.schedule.set_host_in_use(users.served > 0);
            let starts = self.schedule.start_due(read_clock_times());
            users.own = self.schedule.has_heavy_run();
            starts
        };
        self.record_decisions();
        let file = self.state.file();
        for start in starts {
            let run = RunningRun { title: start.job.key.title(), started: Instant::now() };
            self.running.insert(Arc::clone(&start.id), run);
            self.launcher.start(start, &file);
        }
        self.service.ping_watchdog();
    }

    /// Passes the notes of the schedule to the archive and updates the counters for the page.
    pub fn record_decisions(&mut self) {
        let budget = self.schedule.budget_usage();
        if self.saved_budget != *budget {
            agent_folder::save_json(&self.budget_path, budget);
            self.saved_budget = budget.clone();
        }
        let notes = self.schedule.take_notes();
        if !notes.is_empty() {
            self.record_notes(notes);
        }
        let mut figures = self.state.counters.write();
        figures.runs = self.schedule.run_counts();
        figures.bytes_today = self.schedule.budget_usage().all;
        figures.loop_us = read_clock_times().wall_us;
        figures.disk_is_full = self.launcher.writer.disk_is_full();
    }

    /// Returns the time of the next wake-up.
    pub fn next_wakeup(&self) -> Instant {
        let now_us = read_clock_times().wall_us;
        let wait = self.schedule.next_at().map_or(MAX_SLEEP, |at_us| {
            Duration::from_micros(u64::try_from(at_us - now_us).unwrap_or(0))
        });
        Instant::now() + wait.min(MAX_SLEEP).min(self.service.max_sleep())
    }

    /// Waits for one event, or for the next wake-up, and handles it.
    pub async fn handle_next_event(&mut self, channels: &mut LoopChannels) {
        tokio::select! {
            () = sleep_until(self.next_wakeup()) => {}
            () = self.state.served_run_ended.notified() => {}
            ran = channels.finished_runs.recv() => {
                if let Some(ran) = ran {
                    self.handle_finished_run(&ran);
                }
            }
            heard = channels.analysis_results.recv() => {
                if let Some(heard) = heard {
                    self.handle_analysis_result(heard);
                }
            }
            order = channels.requests.recv() => {
                if let Some(JobRequest { key, answer }) = order {
                    let _ = answer.send(self.schedule.request_run(&key, read_clock_times()));
                }
            }
        }
    }

    /// Handles a finished run.
    pub fn handle_finished_run(&mut self, ran: &RunFinished) {
        let Some(start) = &ran.start else {
            self.handle_recovered_run(ran);
            return;
        };
        if let Some(run) = self.running.remove(&start.id) {
            self.state.observe_duration(&start.job.key.measure, run.started.elapsed());
        }
        self.record_job_status(&start.job.key, &ran.outcome);
        let outcome = ran.outcome.schedule_outcome(&start.job);
        let is_known = self.schedule.finish_run(&start.id, outcome, read_clock_times());
        let (key, id) = (&start.job.key, &*start.id);
        match &ran.outcome {
            RunOutcome::Stored(report, run) => {
                self.log.run_finished(key, id, report);
                self.handle_stored_run(run, id);
            }
            RunOutcome::Spooled(_, why) => {
                self.log.warn(&format!("cannot archive run {id}, which stays in the spool: {why}"));
                let files = SpoolFiles::new(&self.launcher.runner.spool, id);
                let left = vec![(files, ran.owner.clone())];
                tokio::spawn(finished_run::recover_spool(self.launcher.clone(), left));
            }
            RunOutcome::Refused(why) => self.log.run_refused(key, id, why),
            RunOutcome::Failed(failure) => {
                self.log.run_failed(key, id, failure);
                if is_known {
                    let text = sanitize_line(&failure.text, MAX_FAILURE_CHARS);
                    self.failure_texts.insert(Arc::clone(&start.id), text);
                }
                drop(self.follow_ups.take_event_of(id));
            }
            RunOutcome::DiskFull | RunOutcome::Stopped => {
                drop(self.follow_ups.take_event_of(id));
            }
        }
    }

    /// Records whether the run succeeded. Runs that were refused or not started say nothing about the
    /// path.
    fn record_job_status(&self, key: &JobKey, outcome: &RunOutcome) {
        let mut figures = self.state.counters.write();
        // Jobs that the file does not contain have no series.
        let Some(status) = figures.jobs.get_mut(key) else {
            return;
        };
        match outcome {
            RunOutcome::Stored(report, _) | RunOutcome::Spooled(report, _) => {
                if job_status::has_answer(report) {
                    status.record_success(read_clock_times().wall_us);
                } else {
                    status.record_failure(FailureReason::NoAnswer);
                }
            }
            RunOutcome::Failed(failure) => status.record_failure(failure.reason),
            RunOutcome::Refused(_) | RunOutcome::DiskFull | RunOutcome::Stopped => {}
        }
    }

    /// Handles a run of an earlier process, or one that waited in the spool.
    fn handle_recovered_run(&mut self, ran: &RunFinished) {
        let id = ran.owner.planned_id.clone();
        match &ran.outcome {
            RunOutcome::Stored(_, run) => {
                self.log.info(&format!("archived run {} from the spool", run.entry.id));
                if !run.was_stored_before {
                    self.handle_stored_run(run, &id);
                }
            }
            RunOutcome::Failed(failure) => {
                self.log.info(&format!("planned run {id}: {}", failure.text));
                let reason = MissedReason::AgentStopped.word().to_owned();
                let outcome = history_store::PlannedOutcome::Missed { reason, detail: None };
                self.launcher.writer.queue_updates(vec![PlanUpdate::Ended(id, outcome)]);
            }
            _ => {}
        }
    }

    /// Records the decisions of the schedule, with the errors of failed runs.
    fn record_notes(&mut self, notes: Vec<ScheduleNote>) {
        let mut noted = Vec::new();
        let mut missed: BTreeMap<(JobKey, MissedReason), usize> = BTreeMap::new();
        for note in notes {
            let (run, reason) = match note {
                ScheduleNote::Planned(run) => (run, None),
                ScheduleNote::Failed(run) => (run, Some(FAILED_REASON)),
                ScheduleNote::Missed(run, reason) => {
                    *missed.entry((run.job.key.clone(), reason)).or_insert(0) += 1;
                    (run, Some(reason.word()))
                }
                // Storing the result settles the planned run.
                ScheduleNote::Done(_) | ScheduleNote::Started(_) | ScheduleNote::Refused(_) => {
                    continue;
                }
            };
            let detail = self.failure_texts.remove(&run.id).filter(|text| !text.is_empty());
            let outcome =
                reason.map(|reason| PlannedOutcome::Missed { reason: reason.to_owned(), detail });
            let row = PlannedRun { outcome, ..build_planned_row(&run) };
            noted.push(match &row.outcome {
                None => PlanUpdate::Planned(row.clone()),
                Some(outcome) => PlanUpdate::Ended(row.id.clone(), outcome.clone()),
            });
            // Sending fails if there is no subscriber.
            let _ = self.state.updates.send(LiveUpdate::Planned(Arc::new(row)));
        }
        self.count_missed_runs(&missed);
        if !noted.is_empty() {
            self.launcher.writer.queue_updates(noted);
        }
    }

    /// Logs missed runs, and counts them. All those of the time when the agent was off have one line.
    fn count_missed_runs(&self, missed: &BTreeMap<(JobKey, MissedReason), usize>) {
        let mut off = 0;
        for ((key, reason), runs) in missed {
            let mut figures = self.state.counters.write();
            *figures.missed.entry(reason.word()).or_insert(0) += *runs as u64;
            drop(figures);
            if *reason == MissedReason::AgentOff {
                off += runs;
            } else {
                self.log.runs_missed(key, *runs, reason.word(), &reason.to_string());
            }
        }
        if let Some(range) = self.schedule.off_time().filter(|_| off > 0) {
            self.log.agent_was_off(range, off);
            self.state.counters.write().off_time = Some(range);
        }
    }

    fn handle_stored_run(&mut self, run: &StoredRun, planned_id: &str) {
        let _ = self.state.updates.send(LiveUpdate::Run(Arc::clone(&run.entry)));
        let follows_up = self.follow_ups.take_event_of(planned_id);
        if !self.analysis.submit_run(run.clone(), follows_up) {
            self.log.warn("change detection is overloaded: one run was not checked");
        }
    }

    /// Handles a result of the analysis.
    fn handle_analysis_result(&mut self, heard: AnalysisResult) {
        let AnalysisResult { event, is_news, case, wanted, is_silenced } = heard;
        let _ = self.state.updates.send(LiveUpdate::Event(Arc::clone(&event)));
        if is_news {
            self.log.event(&event);
            if is_silenced {
                self.notifier.skip_event(&event);
            } else {
                self.notifier.notify_event(&event, &case);
            }
        }
        let now = read_clock_times();
        let file = self.state.file();
        for text in self.follow_ups.request_runs(&event, &wanted, &file, &mut self.schedule, now) {
            self.log.info(&text);
        }
    }

    /// Marks runs that are still running at shutdown as not started.
    pub fn abandon_running_runs(&mut self) {
        let now = read_clock_times();
        for (id, _) in self.running.drain() {
            let outcome = AttemptOutcome::NotStarted(MissedReason::Stopping);
            self.schedule.finish_run(&id, outcome, now);
        }
        self.record_decisions();
    }
}

/// The maximum length of the recorded error of a run.
const MAX_FAILURE_CHARS: usize = 300;

fn build_planned_row(planned: &ScheduledRun) -> PlannedRun {
    let JobKey { measure, from, to } = &planned.job.key;
    // A run that concerns one host has no pair.
    let pair = (from != to).then(|| HostPair { from: from.to_string(), to: to.to_string() });
    PlannedRun {
        id: planned.id.to_string(),
        due_us: planned.due_us,
        measurement: measure.to_string(),
        pair,
        outcome: None,
    }
}
