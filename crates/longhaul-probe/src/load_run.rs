//! Latency under load: loads one after another, with RTT probes during and between them, on one
//! time axis.
//!
//! The probes run in their own session and thread and never pause. Every load and its competitor is
//! an ordinary run in another thread. All times of the observation are relative to the first probe,
//! on this host's clock.
//!
//! - [`bulk_plan`]: the plans of the runs; [`load_flow`]: the bytes of a run on the time axis
//! - [`load_phases`]: the sequence of idle phases and loads

mod bulk_plan;
mod load_flow;
mod load_phases;

use crate::plan_limits::{self, LimitError, check_range, limit_error};
use crate::probe_error::ProbeError;
use crate::probing::{EchoSeriesPlan, ProbeClient};
use crate::throughput::{self, TargetHost};
use load_phases::PhaseRunner;
use longhaul_model::report::v1::load::{LoadObservation, LoadPlan, LoadProbe};
use longhaul_model::report::v1::path::RoundTripSeries;
use longhaul_model::report::v1::{ReportCaveat, RunParty, plan};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// The maximum number of loads.
pub const MAX_STEPS: usize = 64;
/// The maximum number of probes: each is a line of the report.
pub const MAX_PROBES: u64 = 100_000;
/// Min and max interval between probes.
pub const PROBE_INTERVAL_US: (u64, u64) = (1000, 1_000_000);
/// The allowance for a load's set-up and end when the probes are planned.
const SETUP_TIME: Duration = Duration::from_secs(240);

/// The result of a run.
#[derive(Debug)]
pub struct LoadOutcome {
    /// The caller fills in the flows' `limited_by` and `run_id`.
    pub observation: LoadObservation,
    pub initiator: RunParty,
    pub responder: RunParty,
    pub started_at: SystemTime,
    pub duration: Duration,
    pub caveats: Vec<ReportCaveat>,
    /// The bulk runs of the phases.
    pub runs: Vec<PhaseRun>,
    /// The run was stopped before its end.
    pub stopped: bool,
}

/// One bulk run of a phase.
#[derive(Debug)]
pub struct PhaseRun {
    /// Index of the observation's phase.
    pub phase: usize,
    /// Set for the competitor's run, not for the load's.
    pub competitor: bool,
    pub plan: plan::ThroughputPlan,
    pub outcome: throughput::ThroughputOutcome,
}

/// The progress of a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LoadRunProgress {
    /// Time since the first probe.
    pub elapsed: Duration,
    /// Index of the plan's step; `None` when idle.
    pub step: Option<u32>,
    pub probes: usize,
    /// Median of the latest answered probes.
    pub rtt: Option<Duration>,
    /// Payload of the load and of the competitor so far; the sender's count if this end sends.
    pub load_bytes: Option<u64>,
    pub competitor_bytes: Option<u64>,
}

/// Runs the whole plan and blocks until it ends; every wait has a deadline.
///
/// # Errors
/// The probe session failed, or nothing could be measured. A failed load is an error of its phase.
pub fn run(
    target: &TargetHost,
    plan: &LoadPlan,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&LoadRunProgress),
) -> Result<LoadOutcome, ProbeError> {
    check_load_plan(plan)?;
    let (started_at, epoch) = (SystemTime::now(), Instant::now());
    let mut prober = ProbeClient::connect(target)?;
    let (initiator, responder) = prober.parties();
    let (initiator, responder) = (initiator.clone(), responder.clone());
    let idle_rtt_us = prober.idle_rtt().map(|rtt| rtt.as_micros() as u64);
    let probes = SharedProbes::default();
    let series = echo_series(plan);
    let (course, echoed) = thread::scope(|scope| {
        let began = Instant::now();
        let echoes = scope.spawn(|| {
            let echoed = prober.run_echoes(&series, &probes.over, &mut |probe| probes.add(*probe));
            probes.ended.store(true, Relaxed);
            echoed
        });
        let mut course = PhaseRunner {
            target,
            plan,
            began,
            probes: &probes,
            stop,
            watch,
            phases: Vec::new(),
            runs: Vec::new(),
            reported_at: None,
        };
        course.run();
        probes.over.store(true, Relaxed);
        ((course.phases, course.runs), echoes.join())
    });
    let echoed = echoed.map_err(|_| ProbeError::local("the probe thread panicked", None))??;
    prober.close();
    let (phases, runs) = course;
    let caveats = odd_answers_caveat(&echoed).into_iter().collect();
    Ok(LoadOutcome {
        observation: LoadObservation {
            clock: echoed.clock,
            idle_rtt_us,
            probes: probes.in_order(),
            phases,
        },
        initiator,
        responder,
        started_at,
        duration: epoch.elapsed(),
        caveats,
        runs,
        stopped: stop.load(Relaxed),
    })
}

fn echo_series(plan: &LoadPlan) -> EchoSeriesPlan {
    let steps = plan.steps.len() as u32;
    let idle = Duration::from_micros(plan.idle_us) * (steps + 1);
    let load = (Duration::from_micros(plan.load_us) + SETUP_TIME) * steps;
    EchoSeriesPlan {
        interval: Duration::from_micros(plan.probe_interval_us),
        packet_bytes: plan.probe_bytes,
        max_time: idle + load,
    }
}

fn odd_answers_caveat(echoed: &RoundTripSeries) -> Option<ReportCaveat> {
    let odd = u64::from(echoed.duplicates) + u64::from(echoed.discarded);
    (odd > 0).then(|| {
        let text = format!(
            "{} duplicate answers to probes, {} answers that match no probe",
            echoed.duplicates, echoed.discarded
        );
        ReportCaveat::new("odd_answers", text)
    })
}

/// Checks a plan against the limits of every run.
///
/// # Errors
/// Names the value, what was requested and what is allowed.
pub fn check_load_plan(plan: &LoadPlan) -> Result<(), LimitError> {
    check_range("loads", Some(plan.steps.len()), 1, MAX_STEPS)?;
    let ((least, most), spacing) = (PROBE_INTERVAL_US, plan.probe_interval_us);
    check_range("probe_interval_us", Some(spacing), least, most)?;
    let steps = plan.steps.len() as u64;
    let idle = plan.idle_us.saturating_mul(steps + 1);
    let probes = plan.load_us.saturating_mul(steps).saturating_add(idle) / spacing;
    if probes > MAX_PROBES {
        return Err(limit_error(
            "total probes",
            probes,
            format!("at most {MAX_PROBES}; use fewer or shorter loads, or a longer probe interval"),
        ));
    }
    plan.steps.iter().try_for_each(|step| {
        plan_limits::check_plan(&bulk_plan::load_plan(plan, step), plan_limits::MAX_STREAMS)
    })
}

/// The probes so far, shared with the thread that sends them.
#[derive(Debug, Default)]
struct SharedProbes {
    list: Mutex<Vec<LoadProbe>>,
    /// Set to end the probing.
    over: AtomicBool,
    /// Set when the probing has ended.
    ended: AtomicBool,
}

impl SharedProbes {
    fn add(&self, probe: LoadProbe) {
        let mut list = self.list.lock();
        if (list.len() as u64) < 2 * MAX_PROBES {
            list.push(probe);
        } else {
            self.over.store(true, Relaxed);
        }
    }

    /// Returns the number of probes, and the median of the latest RTTs.
    fn latest(&self) -> (usize, Option<Duration>) {
        const LATEST: usize = 15;
        let list = self.list.lock();
        let mut trips: Vec<u64> =
            list.iter().rev().filter_map(|probe| probe.echo.rtt_ns).take(LATEST).collect();
        trips.sort_unstable();
        let middle = trips.get(trips.len() / 2).copied();
        (list.len(), middle.map(Duration::from_nanos))
    }

    fn in_order(self) -> Vec<LoadProbe> {
        let mut list = self.list.into_inner();
        list.sort_by_key(|probe| probe.echo.at_us);
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_model::report::v1::load::LoadStep;

    fn plan(steps: usize, probe_interval_us: u64) -> LoadPlan {
        let step = LoadStep {
            streams: 1,
            window_bytes: None,
            congestion_control: None,
            rate_bps: None,
            dscp: None,
            scavenger: false,
            competitor: false,
            baseline: false,
        };
        LoadPlan {
            forward: true,
            steps: vec![step; steps],
            probe_interval_us,
            probe_bytes: 64,
            idle_us: 1_000_000,
            load_us: 5_000_000,
        }
    }

    #[test]
    fn plans_that_would_fill_an_archive_are_refused_with_the_reason() {
        assert_eq!(check_load_plan(&plan(3, 10_000)), Ok(()));
        for (steps, spacing, option) in [
            (0, 10_000, "loads"),
            (65, 10_000, "loads"),
            (1, 999, "probe_interval_us"),
            (60, 1000, "total probes"),
        ] {
            let told = check_load_plan(&plan(steps, spacing)).expect_err(option);
            assert_eq!(told.option, option);
        }
        let mut wide = plan(1, 10_000);
        wide.steps[0].streams = 1000;
        assert_eq!(check_load_plan(&wide).expect_err("streams").option, "streams");
    }
}
