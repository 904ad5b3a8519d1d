//! Ends a run when its goodput is known.

use longhaul_analysis::stop_rule::RunProgress;
use longhaul_model::report::v1::ReportCaveat;
use longhaul_model::report::v1::plan::{StopCondition, ThroughputPlan};
use longhaul_probe::supervise::StopFlag;
use longhaul_probe::throughput::{self, PayloadProgress, ThroughputOutcome, ThroughputProgress};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The end of a run whose plan requests a precision.
pub struct EarlyEnd {
    precision_ratio: f64,
    /// The time after which the run ends even if its goodput is not known, unless its rate still settles.
    usual_end: Option<Duration>,
    forward: RunProgress,
    reverse: RunProgress,
    /// The run was ended because its goodput is known, or known well enough at its usual end.
    pub is_known: bool,
}

impl EarlyEnd {
    /// Returns `None` if the plan requests no precision.
    pub fn new(plan: &ThroughputPlan, usual_end: Option<Duration>) -> Option<EarlyEnd> {
        let precision_ratio = f64::from(plan.precision_permille?) / 1000.0;
        let [forward, reverse] = [true, false].map(|sends| RunProgress::new(plan, sends));
        Some(EarlyEnd { precision_ratio, usual_end, forward, reverse, is_known: false })
    }

    /// Runs a test and sets `stop` when its goodput is known. The server gets a plan that lasts until
    /// it is stopped, or for the requested bytes. If something else set `stop`, the outcome says that it was interrupted.
    pub fn run<E>(
        &mut self,
        plan: &ThroughputPlan,
        stop: &StopFlag,
        watch: &mut dyn FnMut(&ThroughputProgress),
        run: impl FnOnce(
            &ThroughputPlan,
            &mut dyn FnMut(&ThroughputProgress),
        ) -> Result<ThroughputOutcome, E>,
    ) -> Result<ThroughputOutcome, E> {
        let until_stopped = matches!(plan.stop, StopCondition::TimeUs(_));
        let sent = ThroughputPlan { precision_permille: None, until_stopped, ..plan.clone() };
        let mut outcome = run(&sent, &mut |now| {
            watch(now);
            self.observe(now, stop);
        })?;
        if outcome.stop == plan.stop {
            outcome.caveats.retain(|caveat| caveat.code != ReportCaveat::TIME_GRANTED);
        }
        if self.is_known {
            outcome.caveats.retain(|caveat| caveat.code != ReportCaveat::INTERRUPTED);
        } else if until_stopped && stop.load(Ordering::Relaxed) {
            let caveats = throughput::early_end_caveats(plan, &outcome.observation, true, None);
            outcome.caveats.extend(caveats);
        }
        Ok(outcome)
    }

    /// Adds the readings of this moment, and stops the run if the goodput of each direction is known.
    fn observe(&mut self, now: &ThroughputProgress, stop: &StopFlag) {
        let is_late = self.usual_end.is_some_and(|end| now.elapsed >= end);
        let precision_ratio = self.precision_ratio;
        let is_done = |progress: &mut RunProgress, flow: &Option<PayloadProgress>| {
            let Some(flow) = flow else { return true };
            let idle_rtt_us = flow.idle_rtt.map(|rtt| rtt.as_micros() as u64);
            progress.add_reading(&flow.own_ends, idle_rtt_us);
            let is_known = progress.find_wait_reason(precision_ratio).is_none();
            is_known || is_late && !progress.is_settling()
        };
        let forward = is_done(&mut self.forward, &now.forward);
        let is_done = is_done(&mut self.reverse, &now.reverse) && forward;
        let has_flow = now.forward.is_some() || now.reverse.is_some();
        if has_flow && is_done && !stop.swap(true, Ordering::Relaxed) {
            self.is_known = true;
        }
    }
}
