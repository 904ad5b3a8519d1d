//! The analysis worker: detects lasting changes in new values, diagnoses causes, and requests
//! measurements that decide between them.
//!
//! A thread with its own archive connection, so that neither the event loop nor the archive writer
//! waits for it.
//!
//! - [`event_evidence`]: the evidence in the archive around an event
//! - [`other_paths`]: paths that changed at the same time, and paths that did not
//! - [`shared_events`]: at a collector, results of other agents and events of several paths

mod event_evidence;
mod other_paths;
#[cfg(test)]
mod shared_event_tests;
mod shared_events;
#[cfg(test)]
mod transfer_event_tests;

use super::agent_log::AgentLog;
use super::clocks;
use super::received_results::WaitingEvent;
use super::run_tasks::StoredRun;
use super::shared_state::SharedState;
use crate::path_traces::{self, parse_time_us};
use crate::watch::watch_file::{DetectSection, WatchFile};
use event_evidence::{DatedReport, EventEvidence};
use longhaul_history::change_detection::event_tracking::EventTracker;
use longhaul_history::change_detection::{self, DetectionOptions, build_samples};
use longhaul_history::event::{
    EventExplanation, FollowUpMeasurement, OperatorReport, RouteChangeBaseRate,
    build_operator_report, explain_event, plan_follow_ups,
};
use longhaul_model::report::v1::flows::TransferIdentity;
use longhaul_model::report::v1::quantity::{PathQuantity, QuantityScale};
use longhaul_model::report::v1::scan::{SettingChoice, TransferSetting};
use longhaul_model::report::v1::{
    AnyReport, ChangeEvent, EventState, FindingAdvice, HostPair, QuantitySeries, ReportFinding,
    SeriesPoint,
};
use longhaul_model::units::Bytes;
use longhaul_report::number_format::{count_of, format_rate};
use longhaul_store::history_store::{self, EventFilter, TimeRange, is_event_open};
use longhaul_store::{Archive, StoreError};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;
use std::{io, thread};
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
    /// A person has silenced the event, or it is a part of another one: it is not notified.
    pub is_silenced: bool,
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
        self.resume_grouping();
        let mut wait = Duration::ZERO;
        loop {
            match tasks.recv_timeout(wait) {
                Ok(task) => self.handle_task(task),
                Err(RecvTimeoutError::Timeout) => wait = self.check_received_results(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn handle_task(&mut self, task: AnalysisTask) {
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

    fn analyze_run(
        &mut self,
        run: &StoredRun,
        follows_up: Option<String>,
    ) -> Result<(), StoreError> {
        let file = self.state.file();
        let followed = file.detect.quantities.as_deref().unwrap_or(&PathQuantity::DETECTED);
        let mut news = Vec::new();
        for (pair, quantity) in &run.updated_series {
            if followed.contains(quantity) {
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

    /// Runs the detector on a series of another agent. Events that this agent has found or explained
    /// itself keep their causes: it knows more of its host.
    fn detect_received_changes(
        &mut self,
        pair: &HostPair,
        quantity: PathQuantity,
    ) -> Result<(), StoreError> {
        let file = self.state.file();
        let followed = file.detect.quantities.as_deref().unwrap_or(&PathQuantity::DETECTED);
        if !followed.contains(&quantity) {
            return Ok(());
        }
        self.detect_changes(pair, quantity, &mut Vec::new())
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
        let points = read_detector_points(&self.archive, pair, quantity, &options, now_us)?;
        let begin_us = points.first().map_or(now_us, |point| point.at_us);
        let filter = EventFilter {
            range: TimeRange { begin_us, end_us: i64::MAX },
            pair: Some(pair.clone()),
            ..EventFilter::newest(MAX_EARLIER_EVENTS)
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
                pair: Some(pair.clone()),
                state: Some(EventState::Confirmed),
                ..EventFilter::newest(MAX_EARLIER_EVENTS)
            };
            let mut events = self.archive.events(&filter)?;
            events.retain(|event| event.shared.is_none());
            for event in events {
                let tried = self.explanations.get(&event.id).copied().unwrap_or(0);
                let asks = is_event_open(&event) && tried < MAX_EXPLANATIONS;
                if asks && !done.contains(&event.id) {
                    self.explain(event, false)?;
                }
            }
        }
        Ok(())
    }

    /// Returns true if another agent has diagnosed the event, or its members, already.
    fn is_diagnosed_elsewhere(&self, event: &ChangeEvent) -> bool {
        let file = self.state.file();
        let own = &file.agent.name;
        let transfer = TransferIdentity::of_pair(&event.pair);
        let is_own = event.pair.from == *own
            || event.pair.to == *own
            || transfer.is_some_and(|it| it.host == own);
        event.shared.is_some() || !is_own && !event.causes.is_empty()
    }

    /// Diagnoses causes, stores the event, and requests measurements that decide between causes. A
    /// collector reports news once it has grouped events.
    fn explain(&mut self, event: ChangeEvent, is_news: bool) -> Result<(), StoreError> {
        let mut result = if self.is_diagnosed_elsewhere(&event) {
            self.archive.put_event(&event)?;
            self.build_result(event)?
        } else {
            self.diagnose(event)?
        };
        result.is_news |= is_news;
        if result.is_news && self.state.file().api.is_collector() && result.event.shared.is_none() {
            let id = result.event.id.clone();
            self.state.received.add_events([WaitingEvent { id, is_news: true }]);
            result.is_news = false;
        }
        // Sending fails only after the event loop has ended.
        let _ = self.results.blocking_send(result);
        Ok(())
    }

    /// Diagnoses causes and stores the event. The result is news if another cause is the first.
    fn diagnose(&mut self, mut event: ChangeEvent) -> Result<AnalysisResult, StoreError> {
        if self.explanations.len() >= MAX_TRACKED_EVENTS {
            self.explanations.clear();
        }
        *self.explanations.entry(event.id.clone()).or_insert(0) += 1;
        let file = self.state.file();
        let time_factor = file.detect.time_factor.unwrap_or(1);
        let mut gathered = EventEvidence::collect(&self.archive, &event, &file)?;
        gathered.base_rate = count_route_changes(&self.archive, &file, &event.pair)?;
        let evidence = gathered.as_evidence(&event, time_factor);
        let mut explained = explain_event(&event, &evidence);
        add_tuning_cause(&event, &gathered.reports, &mut explained);
        let case = build_operator_report(&event, &explained, &evidence).to_text();
        let wanted = plan_follow_ups(&event, &explained, &evidence);
        let is_news = first_cause_changed(&event, &explained);
        event.causes = explained.causes;
        event.unchanged = explained.unchanged;
        event.scope = explained.scope;
        self.archive.put_event(&event)?;
        let is_open = is_event_open(&event) && event.state == EventState::Confirmed;
        Ok(AnalysisResult {
            is_news,
            case,
            is_silenced: self.is_silenced(&event)?,
            wanted: if is_open { wanted } else { Vec::new() },
            event: Arc::new(event),
        })
    }

    /// Returns the result for an event that is diagnosed already.
    fn build_result(&self, event: ChangeEvent) -> Result<AnalysisResult, StoreError> {
        Ok(AnalysisResult {
            is_news: false,
            case: build_case(&self.archive, &event, &self.state.file())?.to_text(),
            is_silenced: self.is_silenced(&event)?,
            wanted: Vec::new(),
            event: Arc::new(event),
        })
    }

    /// Returns true if no notification of the event is sent: a person has silenced it, or it is a part
    /// of an event of several paths.
    fn is_silenced(&self, event: &ChangeEvent) -> Result<bool, StoreError> {
        let handling = self.archive.event_handling(&event.id)?;
        Ok(event.part_of.is_some() || handling.is_silenced(clocks::read_wall_us()))
    }
}

/// Builds the text for the operator from the stored causes of the event and the evidence around it.
pub fn build_case(
    archive: &Archive,
    event: &ChangeEvent,
    file: &WatchFile,
) -> Result<OperatorReport, StoreError> {
    let gathered = EventEvidence::collect(archive, event, file)?;
    let explained = EventExplanation {
        causes: event.causes.clone(),
        unchanged: event.unchanged.clone(),
        scope: event.scope.clone(),
        ..EventExplanation::default()
    };
    let time_factor = file.detect.time_factor.unwrap_or(1);
    Ok(build_operator_report(event, &explained, &gathered.as_evidence(event, time_factor)))
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

/// The ranges that are tried, in slots: a little more than a week, two months, more than a year.
const RANGES_SLOTS: [i64; 3] = [1_100, 10_000, 60_000];
/// The number of samples that is enough for the detector.
const ENOUGH_SAMPLES: usize = change_detection::MAX_SERIES_SAMPLES * 9 / 10;

/// Returns the values of the shortest range with enough samples, or of the longest range.
fn read_detector_points(
    archive: &Archive,
    pair: &HostPair,
    quantity: PathQuantity,
    options: &DetectionOptions,
    now_us: i64,
) -> Result<Vec<SeriesPoint>, StoreError> {
    let slot_us = i64::try_from(options.slot_us).unwrap_or(i64::MAX);
    let mut points = Vec::new();
    for slots in RANGES_SLOTS {
        let begin_us = now_us.saturating_sub(slots.saturating_mul(slot_us));
        let range = TimeRange { begin_us, end_us: i64::MAX };
        let found = archive.series(pair, quantity, range, history_store::MAX_SERIES_POINTS)?;
        points = flatten_series(found);
        if build_samples(&points, options.slot_us).len() >= ENOUGH_SAMPLES {
            break;
        }
    }
    Ok(points)
}

/// Uses the medians of the buckets if the archive has aggregated the values.
fn flatten_series(series: QuantitySeries) -> Vec<SeriesPoint> {
    let middle = |bucket: &longhaul_model::report::v1::SeriesBucket| SeriesPoint {
        at_us: bucket.at_us + i64::try_from(bucket.duration_us / 2).unwrap_or(0),
        value: bucket.median,
    };
    let mut points: Vec<SeriesPoint> = series.buckets.iter().map(middle).collect();
    points.extend(series.points);
    points
}

const MONTH_US: i64 = 30 * 86_400_000_000;
/// A throughput change within this time of a route change counts as its effect.
const EFFECT_WINDOW_US: i64 = 3_600_000_000;
const EVENTS_MAX: u32 = 500;

/// Returns `None` if the traces of the last month show no change.
fn count_route_changes(
    archive: &Archive,
    file: &WatchFile,
    pair: &HostPair,
) -> Result<Option<RouteChangeBaseRate>, StoreError> {
    let range = TimeRange { begin_us: clocks::read_wall_us() - MONTH_US, end_us: i64::MAX };
    let traces = path_traces::read_traces(archive, file, pair, range)?;
    let changes = traces.windows(2).filter(|two| {
        let [before, after] = [0, 1].map(|index| two[index].observation.route.as_ref());
        before.zip(after).is_some_and(|(before, after)| path_traces::is_other_route(after, before))
    });
    let times: Vec<i64> = changes.filter_map(|two| parse_time_us(&two[1].run.started_at)).collect();
    if times.is_empty() {
        return Ok(None);
    }
    let mut events = archive.events(&EventFilter {
        range,
        pair: Some(pair.clone()),
        ..EventFilter::newest(EVENTS_MAX)
    })?;
    events.retain(|event| {
        let sure = matches!(event.state, EventState::Confirmed | EventState::Recovered);
        sure && event.quantity == PathQuantity::Goodput
    });
    let felt = times.iter().filter(|at| {
        let near = |[begin, end]: [i64; 2]| {
            **at > begin - EFFECT_WINDOW_US && **at < end + EFFECT_WINDOW_US
        };
        events.iter().any(|event| near(event.between_us))
    });
    Ok(Some(RouteChangeBaseRate {
        with_effect: felt.count() as u32,
        route_changes: times.len() as u32,
    }))
}

/// The minimum ratio of the found setting's goodput to that of the runs since the event.
const MIN_GAIN: f64 = 1.1;
/// The confidence of a cause that a measured better setting confirms.
const CONFIRMED_CONFIDENCE_RATIO: f64 = 0.95;

/// Adds the newest search since the event to the causes.
fn add_tuning_cause(
    event: &ChangeEvent,
    reports: &[DatedReport],
    explained: &mut EventExplanation,
) {
    let better =
        |choice: &&SettingChoice| choice.goodput_bps as f64 > event.after.median * MIN_GAIN;
    let scans = reports.iter().filter(|it| matches!(it.report, AnyReport::Scan(_)));
    let newest = scans.max_by_key(|it| it.at_us);
    let found = newest.and_then(find_recommendation).filter(better);
    let Some(found) = found.filter(|_| event.quantity == PathQuantity::Goodput) else {
        return;
    };
    let text = format!(
        "a scan after the event found {}, which reached {} instead of {}",
        describe_setting(&found.setting),
        format_rate(found.goodput_bps),
        format_rate(event.after.median as u64)
    );
    let advice = FindingAdvice {
        place: "initiator".to_owned(),
        text: format!("Use {}.", describe_setting(&found.setting)),
        command: None,
        expected_bps: Some(found.goodput_bps),
    };
    let causes = &mut explained.causes;
    if causes.is_empty() {
        causes.push(build_finding(event));
    }
    // With another cause, a better setting may have existed before the event too.
    let Some(finding) = causes.iter_mut().find(|it| it.cause == "retune") else {
        return;
    };
    finding.confidence_ratio = CONFIRMED_CONFIDENCE_RATIO;
    finding.supports.insert(0, text);
    finding.advice.insert(0, advice);
    causes.sort_by(|a, b| b.confidence_ratio.total_cmp(&a.confidence_ratio));
}

/// Returns the recommended setting in the direction of the event.
fn find_recommendation(dated: &DatedReport) -> Option<&SettingChoice> {
    let AnyReport::Scan(scan) = &dated.report else {
        return None;
    };
    let mut directions = scan.analysis.directions.iter();
    let same = directions.find(|it| it.forward == dated.forward)?;
    same.recommended.as_ref()
}

fn build_finding(event: &ChangeEvent) -> ReportFinding {
    ReportFinding {
        cause: "retune".to_owned(),
        summary: format!(
            "The setting no longer fits the path: another one is faster than the {} of the runs",
            format_rate(event.after.median as u64)
        ),
        confidence_ratio: CONFIRMED_CONFIDENCE_RATIO,
        supports: Vec::new(),
        contradicts: Vec::new(),
        advice: Vec::new(),
    }
}

fn describe_setting(setting: &TransferSetting) -> String {
    let window = setting.window_bytes.map_or_else(
        || "autotuned windows".to_owned(),
        |bytes| format!("windows of {}", Bytes(bytes)),
    );
    let control = setting.congestion_control.as_ref();
    let control = control.map_or_else(String::new, |name| format!(", {name}"));
    format!("{} with {window}{control}", count_of(u64::from(setting.streams), "stream"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_model::report::v1::HostPair;
    use longhaul_model::report::v1::{EventState, QuantityLevel};

    const SCAN: &str = include_str!("../../../../fixtures/reports/scan-guided.json");

    fn event(after: f64) -> ChangeEvent {
        let level = |median| QuantityLevel { median, deviation: 0.0, samples: 10 };
        ChangeEvent {
            id: "goodput-1".to_owned(),
            pair: HostPair { from: "a".to_owned(), to: "b".to_owned() },
            quantity: PathQuantity::Goodput,
            state: EventState::Confirmed,
            between_us: [0, 10],
            before: level(2.0 * after),
            after: level(after),
            change_ratio: Some(0.5),
            score: 2.0,
            autocorrelation: 0.0,
            announced_at_us: 10,
            recovered_by: None,
            causes: Vec::new(),
            unchanged: Vec::new(),
            scope: None,
            follow_ups: Vec::new(),
            shared: None,
            part_of: None,
        }
    }

    fn scan() -> DatedReport {
        let scan = serde_json::from_str(SCAN).expect("a report");
        DatedReport { at_us: 20, forward: true, report: AnyReport::Scan(Box::new(scan)) }
    }

    #[test]
    fn a_setting_that_gives_more_is_the_first_cause_with_its_proof() {
        let found = find_recommendation(&scan()).expect("a choice").goodput_bps;
        let mut explained = EventExplanation::default();
        add_tuning_cause(&event(found as f64 / 2.0), &[scan()], &mut explained);
        let first = &explained.causes[0];
        assert_eq!(first.cause, "retune");
        assert_eq!(first.advice[0].expected_bps, Some(found));
        assert!(first.supports[0].contains("stream"), "{first:?}");
    }

    #[test]
    fn beside_another_cause_a_better_setting_is_no_cause() {
        let found = find_recommendation(&scan()).expect("a choice").goodput_bps;
        let mut explained = EventExplanation::default();
        explained.causes.push(ReportFinding {
            cause: "shaper_appeared".to_owned(),
            ..build_finding(&event(1.0))
        });
        let before = explained.clone();
        add_tuning_cause(&event(found as f64 / 2.0), &[scan()], &mut explained);
        assert_eq!(explained, before);
    }

    #[test]
    fn a_setting_that_gives_no_more_proves_nothing() {
        let found = find_recommendation(&scan()).expect("a choice").goodput_bps;
        let mut explained = EventExplanation::default();
        add_tuning_cause(&event(found as f64), &[scan()], &mut explained);
        assert_eq!(explained, EventExplanation::default());
    }
}
