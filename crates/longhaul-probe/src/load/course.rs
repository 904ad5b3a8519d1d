//! Runs the idle phases and loads in order, and records the interval of each.
//!
//! Setting up a run takes a few round trips without load, so the idle phase before it lasts until
//! its first payload arrives. After the last payload, the ends exchange their counts, which is idle
//! time again.

use super::bulk::{self, Bulk};
use super::flow;
use super::{Probes, Progress, Run};
use crate::error::ProbeError;
use crate::throughput::Target;
use longhaul_model::report::v1::Caveat;
use longhaul_model::report::v1::load::{Phase, Plan, Step};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The interval at which the user's stop is checked, and that of progress reports.
const LOOK: Duration = Duration::from_millis(20);
const WATCH: Duration = Duration::from_millis(200);
/// The maximum time of a run besides its payload; its own deadlines end it earlier.
const AROUND: Duration = Duration::from_secs(200);

pub(super) struct Course<'a> {
    target: &'a Target,
    plan: &'a Plan,
    began: Instant,
    probes: &'a Probes,
    phases: Vec<Phase>,
    runs: Vec<Run>,
    caveats: Vec<Caveat>,
    told: Option<Instant>,
}

/// The runs of one step.
struct Pair {
    load: Option<Bulk>,
    competitor: Option<Bulk>,
}

impl<'a> Course<'a> {
    pub fn new(
        target: &'a Target,
        plan: &'a Plan,
        (began, probes): (Instant, &'a Probes),
    ) -> Course<'a> {
        Course {
            target,
            plan,
            began,
            probes,
            phases: Vec::new(),
            runs: Vec::new(),
            caveats: Vec::new(),
            told: None,
        }
    }

    /// Runs all steps, or until `stop` is set or the probes end.
    pub fn run(&mut self, stop: &AtomicBool, watch: &mut dyn FnMut(&Progress)) {
        let plan = self.plan;
        self.idle(stop, watch);
        for (number, step) in (0u32..).zip(&plan.steps) {
            if self.over(stop) {
                break;
            }
            self.step(number, step, stop, watch);
            self.idle(stop, watch);
        }
        self.close_idle(self.now_us());
    }

    pub fn finish(self) -> (Vec<Phase>, Vec<Run>, Vec<Caveat>) {
        (self.phases, self.runs, self.caveats)
    }

    fn over(&self, stop: &AtomicBool) -> bool {
        stop.load(Relaxed) || self.probes.ended.load(Relaxed)
    }

    fn now_us(&self) -> u64 {
        self.began.elapsed().as_micros() as u64
    }

    /// Idles for at least the planned time.
    fn idle(&mut self, stop: &AtomicBool, watch: &mut dyn FnMut(&Progress)) {
        if self.phases.last().is_none_or(|phase| phase.step.is_some()) {
            let from_us = self.phases.last().map_or(0, |phase| phase.until_us);
            self.phases.push(phase(from_us, None));
        }
        let until = Instant::now() + Duration::from_micros(self.plan.idle_us);
        while !self.over(stop) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(LOOK));
            self.tell(None, None, watch);
        }
    }

    fn close_idle(&mut self, until_us: u64) {
        if let Some(phase) = self.phases.last_mut().filter(|phase| phase.step.is_none()) {
            phase.until_us = until_us.max(phase.from_us);
        }
    }

    fn step(
        &mut self,
        number: u32,
        step: &Step,
        stop: &AtomicBool,
        watch: &mut dyn FnMut(&Progress),
    ) {
        let began_us = self.now_us();
        let wants_other = step.competitor || step.baseline;
        let other = wants_other.then(|| Bulk::start(self.target, bulk::competitor(self.plan)));
        let load = bulk::load(self.plan, step);
        let load = (!step.baseline).then(|| Bulk::start(self.target, load));
        let mut errors = Vec::new();
        let mut pair = Pair {
            load: started(load, &mut errors),
            competitor: started(other, &mut errors),
        };
        let deadline = Instant::now() + Duration::from_micros(self.plan.load_us) + AROUND;
        while !pair.wait(LOOK) && !self.over(stop) && Instant::now() < deadline {
            self.tell(Some(number), Some(&pair), watch);
        }
        self.take(number, began_us, pair, errors);
    }

    /// Records a phase, with the flows of its runs on the time axis.
    fn take(&mut self, number: u32, began_us: u64, pair: Pair, mut errors: Vec<String>) {
        let mut own = phase(began_us, Some(number));
        let place = self.phases.len();
        let mut spans = Vec::new();
        for (bulk, competitor) in [(pair.load, false), (pair.competitor, true)] {
            let Some((plan, ended)) = bulk.map(Bulk::finish) else {
                continue;
            };
            let whose = if competitor { "the competitor: " } else { "" };
            match ended {
                Ok(outcome) => {
                    let (flow, span) = flow::flow(&outcome, self.began);
                    spans.extend(span);
                    *(if competitor {
                        &mut own.competitor
                    } else {
                        &mut own.load
                    }) = Some(flow);
                    self.runs.push(Run {
                        phase: place,
                        competitor,
                        plan,
                        outcome,
                    });
                }
                Err(error) => errors.push(format!("{whose}{}", whole(&error))),
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

    fn tell(&mut self, step: Option<u32>, pair: Option<&Pair>, watch: &mut dyn FnMut(&Progress)) {
        if self.told.is_some_and(|told| told.elapsed() < WATCH) {
            return;
        }
        self.told = Some(Instant::now());
        let (probes, rtt) = self.probes.latest();
        let bytes = |bulk: Option<&Bulk>| bulk.map(Bulk::moved_bytes);
        watch(&Progress {
            elapsed: self.began.elapsed(),
            step,
            probes,
            rtt,
            load_bytes: bytes(pair.and_then(|pair| pair.load.as_ref())),
            competitor_bytes: bytes(pair.and_then(|pair| pair.competitor.as_ref())),
        });
    }
}

impl Pair {
    /// Returns whether both runs have ended.
    fn wait(&mut self, time: Duration) -> bool {
        let load = self.load.as_mut().is_none_or(|bulk| bulk.wait(time));
        let other = self.competitor.as_mut();
        let rest = if load { time } else { Duration::ZERO };
        other.is_none_or(|bulk| bulk.wait(rest)) && load
    }
}

fn started(bulk: Option<Result<Bulk, ProbeError>>, errors: &mut Vec<String>) -> Option<Bulk> {
    bulk?.map_err(|error| errors.push(whole(&error))).ok()
}

/// Formats an error with its causes.
fn whole(error: &ProbeError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

fn phase(from_us: u64, step: Option<u32>) -> Phase {
    Phase {
        from_us,
        until_us: from_us,
        step,
        load: None,
        competitor: None,
        error: None,
    }
}
