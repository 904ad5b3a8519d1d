//! The search as a state machine: what to measure next, given all that was measured.

use super::{Probe, Spent, Start, Step, Stop, Trial};
use longhaul_model::report::v1::scan::{Plan, Setting};
use std::time::Duration;

/// Least payload time of a probe.
const LEAST_TIME: Duration = Duration::from_secs(10);

/// Plain data: it knows its plan and its trials, and derives the next step from them alone.
#[derive(Debug, Clone)]
pub struct Search {
    plan: Plan,
    start: Start,
    trials: Vec<Trial>,
}

impl Search {
    pub fn new(plan: &Plan, start: Start) -> Search {
        Search {
            plan: plan.clone(),
            start,
            trials: Vec::new(),
        }
    }

    /// What to measure next, or why nothing more. Pure: asked twice it answers the same.
    pub fn next(&self, spent: Spent) -> Step {
        if spent.probes >= self.plan.budget.probes {
            return Step::Done(Stop::Probes);
        }
        if !self.trials.is_empty() {
            return Step::Done(Stop::Settled);
        }
        let setting = self.start.present.clone();
        Step::Probe(Probe {
            setting: setting.unwrap_or_else(Setting::default),
            time: LEAST_TIME,
            why: String::from("default setting: one stream, everything left to the kernels"),
        })
    }

    /// A probe that was asked for has ended; one that failed is recorded too.
    pub fn record(&mut self, trial: Trial) {
        self.trials.push(trial);
    }
}
