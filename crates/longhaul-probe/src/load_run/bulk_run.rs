//! A bulk run in its own thread, which can be abandoned when the user interrupts.

use crate::probe_error::ProbeError;
use crate::throughput::{self, TargetHost, ThroughputOutcome, ThroughputProgress};
use longhaul_model::report::v1::load::{LoadPlan, LoadStep};
use longhaul_model::report::v1::plan::{self, RunDirection, StopCondition};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};

/// The minimum interval between samples; closer ones add nothing.
const INTERVAL_US: u64 = 100_000;
/// The number of samples of a run, which is archived with the load report.
const SAMPLES: u64 = 300;

/// Returns the plan for the load of a step.
pub(super) fn load_plan(plan: &LoadPlan, step: &LoadStep) -> plan::ThroughputPlan {
    let each = |bps: u64| bps / u64::from(step.streams.max(1));
    plan::ThroughputPlan {
        streams: step.streams,
        send_buffer_bytes: step.window_bytes,
        receive_buffer_bytes: step.window_bytes,
        congestion_control: step.congestion_control.clone(),
        pacing_bps: step.rate_bps.map(each),
        dscp: step.dscp,
        scavenger: step.scavenger,
        ..competitor_plan(plan)
    }
}

/// Returns the plan of a plain stream, without settings that the kernel can choose.
pub(super) fn competitor_plan(plan: &LoadPlan) -> plan::ThroughputPlan {
    let (least, most) = crate::plan_limits::INTERVAL_US;
    plan::ThroughputPlan {
        direction: if plan.forward { RunDirection::Forward } else { RunDirection::Reverse },
        stop: StopCondition::TimeUs(plan.load_us),
        interval_us: (plan.load_us / SAMPLES).max(INTERVAL_US).clamp(least, most),
        ..plan::ThroughputPlan::default()
    }
}

/// A bulk run that is in progress.
pub(super) struct LoadBulkRun {
    plan: plan::ThroughputPlan,
    moved: Arc<AtomicU64>,
    thread: JoinHandle<Result<ThroughputOutcome, ProbeError>>,
}

impl LoadBulkRun {
    pub fn start(
        target: &TargetHost,
        plan: plan::ThroughputPlan,
    ) -> Result<LoadBulkRun, ProbeError> {
        let moved = Arc::new(AtomicU64::new(0));
        let (own_target, own_plan, own_moved) = (target.clone(), plan.clone(), Arc::clone(&moved));
        let thread = thread::Builder::new()
            .name("load".to_owned())
            .spawn(move || {
                let mut watch =
                    |progress: &ThroughputProgress| own_moved.store(count_bytes(progress), Relaxed);
                throughput::run(&own_target, &own_plan, &mut watch)
            })
            .map_err(|source| ProbeError::local("cannot start a thread for the load", source))?;
        Ok(LoadBulkRun { plan, moved, thread })
    }

    /// Returns the payload so far, as counted at this end.
    pub fn moved_bytes(&self) -> u64 {
        self.moved.load(Relaxed)
    }

    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Returns the result. A run that has not ended is abandoned and ends with the program.
    pub fn finish(self) -> (plan::ThroughputPlan, Result<ThroughputOutcome, ProbeError>) {
        let ended = if self.is_finished() { self.thread.join().ok() } else { None };
        (self.plan, ended.unwrap_or_else(|| Err(interrupted_error())))
    }
}

fn interrupted_error() -> ProbeError {
    ProbeError::local("the load was interrupted before its end", None)
}

fn count_bytes(progress: &ThroughputProgress) -> u64 {
    let flows = [&progress.forward, &progress.reverse];
    let counted = flows.into_iter().flatten().map(|flow| {
        let sent = flow.sent_bytes.unwrap_or(0);
        flow.received_bytes.unwrap_or(0).max(sent)
    });
    counted.max().unwrap_or(0)
}
