//! Runs the idle phases and loads in order, and records the interval of each.
//!
//! Setting up a run takes a few round trips without load, so the idle phase before it lasts until
//! its first payload arrives. After the last payload, the ends exchange their counts, which is idle
//! time again.

use super::{LoadRunProgress, PhaseRun, SharedProbes};
use crate::probe_error::describe_error_chain;
use crate::throughput::{BackgroundRun, BulkRun, PayloadProgress, TargetHost};
use longhaul_model::report::v1::load::{LoadPhase, LoadPlan, LoadStep};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The interval at which the user's stop is checked, and that of progress reports.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);
/// The maximum time of a run besides its payload; its own deadlines end it earlier.
const MAX_SETUP_TIME: Duration = Duration::from_secs(200);

pub(super) struct PhaseRunner<'a> {
    pub target: &'a TargetHost,
    pub bulk_run: Arc<BulkRun>,
    pub plan: &'a LoadPlan,
    pub began: Instant,
    pub probes: &'a SharedProbes,
    /// Set by the user to end the run.
    pub stop: &'a AtomicBool,
    pub watch: &'a mut dyn FnMut(&LoadRunProgress),
    pub phases: Vec<LoadPhase>,
    pub runs: Vec<PhaseRun>,
    pub reported_at: Option<Instant>,
}

/// A run of one step.
struct StepRun {
    competitor: bool,
    run: BackgroundRun,
}

impl PhaseRunner<'_> {
    /// Runs all steps, or until the user stops the run or the probes end.
    pub fn run(&mut self) {
        let plan = self.plan;
        self.idle();
        for (number, step) in (0u32..).zip(&plan.steps) {
            if self.is_over() {
                break;
            }
            self.step(number, step);
            self.idle();
        }
        self.close_idle(self.now_us());
    }

    fn is_over(&self) -> bool {
        self.stop.load(Relaxed) || self.probes.ended.load(Relaxed)
    }

    fn now_us(&self) -> u64 {
        self.began.elapsed().as_micros() as u64
    }

    /// Idles for at least the planned time.
    fn idle(&mut self) {
        if self.phases.last().is_none_or(|phase| phase.step.is_some()) {
            let from_us = self.phases.last().map_or(0, |phase| phase.until_us);
            self.phases.push(new_phase(from_us, None));
        }
        let until = Instant::now() + Duration::from_micros(self.plan.idle_us);
        while !self.is_over() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(POLL_INTERVAL));
            self.report_progress(None, &[]);
        }
    }

    fn close_idle(&mut self, until_us: u64) {
        if let Some(phase) = self.phases.last_mut().filter(|phase| phase.step.is_none()) {
            phase.until_us = until_us.max(phase.from_us);
        }
    }

    fn step(&mut self, number: u32, step: &LoadStep) {
        let began_us = self.now_us();
        let other =
            (step.competitor || step.baseline).then(|| (true, super::competitor_plan(self.plan)));
        let load = (!step.baseline).then(|| (false, super::load_plan(self.plan, step)));
        let (mut runs, mut errors) = (Vec::new(), Vec::new());
        for (competitor, plan) in other.into_iter().chain(load) {
            match BackgroundRun::start(self.target, plan, Arc::clone(&self.bulk_run)) {
                Ok(run) => runs.push(StepRun { competitor, run }),
                Err(error) => errors.push(describe_error_chain(&error)),
            }
        }
        let deadline = Instant::now() + Duration::from_micros(self.plan.load_us) + MAX_SETUP_TIME;
        let running = |runs: &[StepRun]| runs.iter().any(|step| !step.run.is_finished());
        while running(&runs) && !self.is_over() && Instant::now() < deadline {
            std::thread::sleep(POLL_INTERVAL);
            self.report_progress(Some(number), &runs);
        }
        self.record_phase(number, began_us, runs, errors);
    }

    /// Records a phase, with the flows of its runs on the time axis.
    fn record_phase(
        &mut self,
        number: u32,
        began_us: u64,
        runs: Vec<StepRun>,
        mut errors: Vec<String>,
    ) {
        let mut own = new_phase(began_us, Some(number));
        let place = self.phases.len();
        // Both end at the same time if they have not ended.
        for step in &runs {
            step.run.stop();
        }
        let mut spans = Vec::new();
        // The competitor was started first.
        for StepRun { competitor, run } in runs.into_iter().rev() {
            let whose = if competitor { "competitor: " } else { "" };
            let plan = run.plan.clone();
            match run.finish() {
                Ok(outcome) => {
                    let (flow, span) = super::convert_flow(&outcome, self.began);
                    spans.extend(span);
                    *(if competitor { &mut own.competitor } else { &mut own.load }) = Some(flow);
                    self.runs.push(PhaseRun { phase: place, competitor, plan, outcome });
                }
                Err(error) => errors.push(format!("{whose}{}", describe_error_chain(&error))),
            }
        }
        let first = spans.iter().map(|span| span.0).min();
        own.from_us = first.unwrap_or(began_us);
        let last = spans.iter().map(|span| span.1).max();
        own.until_us = last.unwrap_or_else(|| self.now_us()).max(own.from_us);
        own.error = (!errors.is_empty()).then(|| errors.join("; "));
        self.close_idle(own.from_us);
        self.phases.push(own);
    }

    fn report_progress(&mut self, step: Option<u32>, runs: &[StepRun]) {
        if self.reported_at.is_some_and(|told| told.elapsed() < PROGRESS_INTERVAL) {
            return;
        }
        self.reported_at = Some(Instant::now());
        let (probes, rtt) = self.probes.latest();
        let bytes = |competitor| {
            let step = runs.iter().find(|step| step.competitor == competitor)?;
            Some(moved_bytes(&step.run))
        };
        (self.watch)(&LoadRunProgress {
            elapsed: self.began.elapsed(),
            step,
            probes,
            rtt,
            load_bytes: bytes(false),
            competitor_bytes: bytes(true),
        });
    }
}

/// Returns the payload so far, as counted at this end.
fn moved_bytes(run: &BackgroundRun) -> u64 {
    let progress = run.progress();
    let flows = progress.iter().flat_map(|progress| [&progress.forward, &progress.reverse]);
    let bytes = |flow: &PayloadProgress| flow.sent_bytes.max(flow.received_bytes);
    flows.flatten().filter_map(bytes).max().unwrap_or(0)
}

fn new_phase(from_us: u64, step: Option<u32>) -> LoadPhase {
    LoadPhase { from_us, until_us: from_us, step, load: None, competitor: None, error: None }
}
