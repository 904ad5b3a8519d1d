//! The analysis worker: detects lasting changes in new values, diagnoses causes, and requests
//! measurements that decide between them.
//!
//! A thread with its own archive connection, so that neither the event loop nor the archive writer
//! waits for it.
//!
//! - [`mod@detector_series`]: the values that the detector reads
//! - [`event_evidence`]: the evidence in the archive around an event
//! - [`other_paths`]: paths that changed at the same time, and paths that did not
//! - [`route_changes`]: the rate of route changes of a pair
//! - [`tuning_evidence`]: evidence from a search for better settings

mod detector_series;
mod event_evidence;
mod other_paths;
mod route_changes;
mod tuning_evidence;

use super::agent_log::AgentLog;
use super::clocks;
use super::run_tasks::StoredRun;
use super::shared_state::SharedState;
use crate::watch::watch_file::{DetectSection, WatchFile};
use event_evidence::EventEvidence;
use longhaul_history::change_detection::DetectionOptions;
use longhaul_history::change_detection::event_tracking::EventTracker;
use longhaul_history::event::{
    EventExplanation, FollowUpMeasurement, explain_event, format_operator_report, plan_follow_ups,
};
use longhaul_model::report::v1::event::{ChangeEvent, EventState};
use longhaul_model::report::v1::quantity::{PathQuantity, QuantityScale};
use longhaul_model::report::v1::series::HostPair;
use longhaul_store::history_store::{EventFilter, TimeRange, is_event_open};
use longhaul_store::{Archive, StoreError};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use tokio::sync::mpsc;

/// The maximum number of queued tasks, enough for a thousand paths per minute.
const MAX_QUEUED_TASKS: usize = 4096;
const MAX_QUEUED_RESULTS: usize = 1024;
/// The maximum number of earlier events that are read for a pair.
const MAX_EARLIER_EVENTS: u32 = 500;
/// The maximum number of explanations of an open event per state.
const MAX_EXPLANATIONS: u32 = 6;
/// The maximum number of events whose explanations are counted.
const MAX_TRACKED_EVENTS: usize = 10_000;

/// An event that the analysis has found or explained.
#[derive(Debug)]
pub struct AnalysisResult {
    pub event: Arc<ChangeEvent>,
    /// The event is new, or its state or first cause has changed.
    pub is_news: bool,
    /// The case text for the network operator.
    pub case: String,
    /// Measurements that would explain an open event.
    pub wanted: Vec<FollowUpMeasurement>,
}

enum AnalysisTask {
    Analyze {
        run: StoredRun,
        /// The id of the event that the run was requested for.
        follows_up: Option<String>,
    },
    /// The id of an event whose notification is pending.
    Renotify(String),
}

/// The handle of the analysis thread.
#[derive(Debug, Clone)]
pub struct AnalysisWorker {
    tasks: SyncSender<AnalysisTask>,
}

impl AnalysisWorker {
    pub fn start(
        archive: Archive,
        state: Arc<SharedState>,
        log: AgentLog,
    ) -> io::Result<(AnalysisWorker, mpsc::Receiver<AnalysisResult>)> {
        let (tasks, taken) = sync_channel(MAX_QUEUED_TASKS);
        let (out, heard) = mpsc::channel(MAX_QUEUED_RESULTS);
        let worker =
            AnalysisThread { archive, state, log, results: out, explanations: HashMap::new() };
        thread::Builder::new().name("events".to_owned()).spawn(move || worker.run(&taken))?;
        Ok((AnalysisWorker { tasks }, heard))
    }

    /// Submits a stored run, and the id of the event that it was requested for. Returns false if
    /// the queue is full.
    pub fn submit_run(&self, run: StoredRun, follows_up: Option<String>) -> bool {
        self.tasks.try_send(AnalysisTask::Analyze { run, follows_up }).is_ok()
    }

    /// Requests the notification of an event again.
    pub fn renotify(&self, event_id: String) {
        let _ = self.tasks.try_send(AnalysisTask::Renotify(event_id));
    }
}

/// The state of the analysis thread.
struct AnalysisThread {
    archive: Archive,
    state: Arc<SharedState>,
    log: AgentLog,
    results: mpsc::Sender<AnalysisResult>,
    /// The number of explanations per event.
    explanations: HashMap<String, u32>,
}

impl AnalysisThread {
    fn run(mut self, tasks: &Receiver<AnalysisTask>) {
        while let Ok(task) = tasks.recv() {
            match task {
                AnalysisTask::Renotify(id) => {
                    let event = self.archive.event(&id).ok().flatten();
                    if let Some(Err(error)) = event.map(|event| self.explain(event, true)) {
                        let text = format!("cannot send the notification of event {id}: {error}");
                        self.log.warn(&text);
                    }
                }
                AnalysisTask::Analyze { run, follows_up } => {
                    if let Err(error) = self.analyze_run(&run, follows_up) {
                        let id = &run.entry.id;
                        self.log.warn(&format!("cannot check run {id} for changes: {error}"));
                    }
                }
            }
        }
    }

    fn analyze_run(
        &mut self,
        run: &StoredRun,
        follows_up: Option<String>,
    ) -> Result<(), StoreError> {
        let file = self.state.file();
        let followed = file.detect.quantities.as_deref();
        let mut news = Vec::new();
        for (pair, quantity) in &run.updated_series {
            if followed.is_none_or(|some| some.contains(quantity)) {
                self.detect_changes(pair, *quantity, &mut news)?;
            }
        }
        if let Some(id) = follows_up
            && let Some(mut event) = self.archive.event(&id)?
        {
            event.follow_ups.push(run.entry.id.clone());
            self.explain(event, false)?;
            news.push(id);
        }
        self.explain_open_events(&run.pairs, &news)
    }

    /// Runs the detector on one series. Adds the ids of explained events to `announced_ids`.
    fn detect_changes(
        &mut self,
        pair: &HostPair,
        quantity: PathQuantity,
        news: &mut Vec<String>,
    ) -> Result<(), StoreError> {
        let options = build_detector_options(&self.state.file().detect, quantity);
        let now_us = clocks::read_wall_us();
        let points =
            detector_series::read_detector_points(&self.archive, pair, quantity, &options, now_us)?;
        let begin_us = points.first().map_or(now_us, |point| point.at_us);
        let filter = EventFilter {
            range: TimeRange { begin_us, end_us: i64::MAX },
            pair: Some(pair.clone()),
            state: None,
            limit: MAX_EARLIER_EVENTS,
        };
        let earlier = self.archive.events(&filter)?;
        let watcher = EventTracker { pair: pair.clone(), quantity, options };
        let followed = watcher.update(&points, &earlier, now_us);
        for event in followed.events {
            if followed.announced_ids.contains(&event.id) {
                news.push(event.id.clone());
                self.explanations.remove(&event.id);
                self.explain(event, true)?;
            } else if earlier.iter().any(|old| old.between_us == event.between_us) {
                self.archive.put_event(&event)?;
            } else {
                // The change point has moved, so the evidence differs.
                news.push(event.id.clone());
                self.explain(event, false)?;
            }
        }
        Ok(())
    }

    /// Explains open events again, because new runs of their pairs may bring evidence.
    fn explain_open_events(
        &mut self,
        pairs: &[HostPair],
        done: &[String],
    ) -> Result<(), StoreError> {
        for pair in pairs {
            let filter = EventFilter {
                range: TimeRange::ALL,
                pair: Some(pair.clone()),
                state: Some(EventState::Confirmed),
                limit: MAX_EARLIER_EVENTS,
            };
            for event in self.archive.events(&filter)? {
                let tried = self.explanations.get(&event.id).copied().unwrap_or(0);
                let asks = is_event_open(&event) && tried < MAX_EXPLANATIONS;
                if asks && !done.contains(&event.id) {
                    self.explain(event, false)?;
                }
            }
        }
        Ok(())
    }

    /// Diagnoses causes, stores the event, and requests measurements that decide between causes.
    fn explain(&mut self, mut event: ChangeEvent, is_news: bool) -> Result<(), StoreError> {
        if self.explanations.len() >= MAX_TRACKED_EVENTS {
            self.explanations.clear();
        }
        *self.explanations.entry(event.id.clone()).or_insert(0) += 1;
        let file = self.state.file();
        let time_factor = file.detect.time_factor.unwrap_or(1);
        let mut gathered = EventEvidence::collect(&self.archive, &event, &file)?;
        gathered.base_rate = route_changes::count_route_changes(&self.archive, &file, &event.pair)?;
        let evidence = gathered.as_evidence(&event, time_factor);
        let mut explained = explain_event(&event, &evidence);
        tuning_evidence::add_tuning_cause(&event, &gathered.reports, &mut explained);
        let case = format_operator_report(&event, &explained, &evidence);
        let wanted = plan_follow_ups(&event, &explained, &evidence);
        let found = first_cause_changed(&event, &explained);
        event.causes = explained.causes;
        event.unchanged = explained.unchanged;
        event.scope = explained.scope;
        self.archive.put_event(&event)?;
        let is_open = is_event_open(&event) && event.state == EventState::Confirmed;
        // Sending fails only after the event loop has ended.
        let _ = self.results.blocking_send(AnalysisResult {
            event: Arc::new(event),
            is_news: is_news || found,
            case,
            wanted: if is_open { wanted } else { Vec::new() },
        });
        Ok(())
    }
}

/// Builds the text from the stored causes of the event and the evidence around it.
pub fn build_case_text(
    archive: &Archive,
    event: &ChangeEvent,
    file: &WatchFile,
) -> Result<String, StoreError> {
    let gathered = EventEvidence::collect(archive, event, file)?;
    let explained = EventExplanation {
        causes: event.causes.clone(),
        unchanged: event.unchanged.clone(),
        scope: event.scope.clone(),
        ..EventExplanation::default()
    };
    let time_factor = file.detect.time_factor.unwrap_or(1);
    Ok(format_operator_report(event, &explained, &gathered.as_evidence(event, time_factor)))
}

/// Returns whether the most likely cause has changed.
fn first_cause_changed(before: &ChangeEvent, now: &EventExplanation) -> bool {
    let first = |causes: &[longhaul_model::report::v1::ReportFinding]| {
        causes.first().map(|finding| finding.cause.clone())
    };
    !now.causes.is_empty() && first(&before.causes) != first(&now.causes)
}

fn build_detector_options(detect: &DetectSection, quantity: PathQuantity) -> DetectionOptions {
    let plain = DetectionOptions::default();
    let least =
        detect.least_change.filter(|_| quantity.scale() == QuantityScale::Ratio).map(f64::ln_1p);
    DetectionOptions {
        season: detect.season.unwrap_or(plain.season),
        least,
        ..plain.with_time_factor(detect.time_factor.unwrap_or(1))
    }
}
