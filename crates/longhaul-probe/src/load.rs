//! Latency under load: loads one after another, with RTT probes during and between them, on one
//! time axis.
//!
//! The probes run in their own session and thread and never pause. Every load and its competitor is
//! an ordinary run in another thread. All times of the observation are relative to the first probe,
//! on this host's clock.
//!
//! - [`mod@bulk`]: one run in its thread; [`flow`]: its bytes on the time axis
//! - [`course`]: the sequence of idle phases and loads

mod bulk;
mod course;
mod flow;

use crate::error::ProbeError;
use crate::limits::{self, LimitError};
use crate::probing::{EchoResult, EchoSeries, Prober};
use crate::throughput::{self, Target};
use course::Course;
use longhaul_model::report::v1::load::{Observation, Plan, Probe};
use longhaul_model::report::v1::{Caveat, Party, plan};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// The maximum number of loads.
pub const MOST_STEPS: usize = 64;
/// The maximum number of probes: each is a line of the report.
pub const MOST_PROBES: u64 = 100_000;
/// Min and max interval between probes.
pub const PROBE_INTERVAL_US: (u64, u64) = (1000, 1_000_000);
/// The allowance for a load's set-up and end when the probes are planned.
const AROUND_A_LOAD: Duration = Duration::from_secs(240);

/// The result of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The caller fills in the flows' `limited_by` and `run_id`.
    pub observation: Observation,
    pub initiator: Party,
    pub responder: Party,
    pub started_at: SystemTime,
    pub duration: Duration,
    pub caveats: Vec<Caveat>,
    /// The bulk runs of the phases.
    pub runs: Vec<Run>,
    /// The run was stopped before its end.
    pub stopped: bool,
}

/// One bulk run of a phase.
#[derive(Debug)]
pub struct Run {
    /// Index of the observation's phase.
    pub phase: usize,
    /// Set for the competitor's run, not for the load's.
    pub competitor: bool,
    pub plan: plan::Plan,
    pub outcome: throughput::Outcome,
}

/// The progress of a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Progress {
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
    target: &Target,
    plan: &Plan,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&Progress),
) -> Result<Outcome, ProbeError> {
    check(plan)?;
    let (started_at, epoch) = (SystemTime::now(), Instant::now());
    let mut prober = Prober::connect(target)?;
    let (initiator, responder) = prober.parties();
    let (initiator, responder) = (initiator.clone(), responder.clone());
    let idle_rtt_us = prober.idle_rtt().map(|rtt| rtt.as_micros() as u64);
    let probes = Probes::default();
    let series = series(plan);
    let (course, echoed) = thread::scope(|scope| {
        let began = Instant::now();
        let echoes = scope.spawn(|| {
            let echoed = prober.echo(&series, &probes.over, &mut |probe| probes.add(*probe));
            probes.ended.store(true, Relaxed);
            echoed
        });
        let mut course = Course::new(target, plan, (began, &probes));
        course.run(stop, watch);
        probes.over.store(true, Relaxed);
        (course.finish(), echoes.join())
    });
    let echoed: EchoResult = echoed.map_err(|_| ProbeError::Local {
        what: "the thread of the probes has a defect".to_owned(),
        source: None,
    })??;
    prober.close();
    let (phases, runs, mut caveats) = course;
    caveats.extend(trouble(&echoed));
    Ok(Outcome {
        observation: Observation {
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

fn series(plan: &Plan) -> EchoSeries {
    let steps = plan.steps.len() as u32;
    let idle = Duration::from_micros(plan.idle_us) * (steps + 1);
    let load = (Duration::from_micros(plan.load_us) + AROUND_A_LOAD) * steps;
    EchoSeries {
        interval: Duration::from_micros(plan.probe_interval_us),
        packet_bytes: plan.probe_bytes,
        dscp: None,
        most_time: idle + load,
    }
}

fn trouble(echoed: &EchoResult) -> Option<Caveat> {
    let odd = u64::from(echoed.duplicates) + u64::from(echoed.discarded);
    (odd > 0).then(|| {
        let text = format!(
            "{} answers to probes came twice, {} fit none",
            echoed.duplicates, echoed.discarded
        );
        Caveat::new("odd_answers", text)
    })
}

/// Checks a plan against the limits of every run.
///
/// # Errors
/// Names the value, what was requested and what is allowed.
pub fn check(plan: &Plan) -> Result<(), LimitError> {
    let refuse = |option, asked: String, allowed: String| LimitError {
        option,
        asked,
        allowed,
    };
    if plan.steps.is_empty() || plan.steps.len() > MOST_STEPS {
        let allowed = format!("1 to {MOST_STEPS}");
        return Err(refuse("loads", plan.steps.len().to_string(), allowed));
    }
    let (least, most) = PROBE_INTERVAL_US;
    let spacing = plan.probe_interval_us;
    if !(least..=most).contains(&spacing) {
        let allowed = format!("{least} to {most}");
        return Err(refuse("probe_interval_us", spacing.to_string(), allowed));
    }
    let steps = plan.steps.len() as u64;
    let idle = plan.idle_us.saturating_mul(steps + 1);
    let probes = plan.load_us.saturating_mul(steps).saturating_add(idle) / spacing;
    if probes > MOST_PROBES {
        return Err(refuse(
            "probes in all",
            probes.to_string(),
            format!("at most {MOST_PROBES}; ask for fewer or shorter loads, or wider spacing"),
        ));
    }
    plan.steps
        .iter()
        .try_for_each(|step| limits::check_plan(&bulk::load(plan, step), limits::MOST_STREAMS))
}

/// The probes so far, shared with the thread that sends them.
#[derive(Debug, Default)]
struct Probes {
    list: Mutex<Vec<Probe>>,
    /// Set to end the probing.
    over: AtomicBool,
    /// Set when the probing has ended.
    ended: AtomicBool,
}

impl Probes {
    fn lock(&self) -> MutexGuard<'_, Vec<Probe>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, probe: Probe) {
        let mut list = self.lock();
        if (list.len() as u64) < 2 * MOST_PROBES {
            list.push(probe);
        } else {
            self.over.store(true, Relaxed);
        }
    }

    /// Returns the number of probes, and the median of the latest RTTs.
    fn latest(&self) -> (usize, Option<Duration>) {
        const LATEST: usize = 15;
        let list = self.lock();
        let mut trips: Vec<u64> = list
            .iter()
            .rev()
            .filter_map(|probe| probe.echo.rtt_ns)
            .take(LATEST)
            .collect();
        trips.sort_unstable();
        let middle = trips.get(trips.len() / 2).copied();
        (list.len(), middle.map(Duration::from_nanos))
    }

    fn in_order(self) -> Vec<Probe> {
        let list = self.list.into_inner();
        let mut list = list.unwrap_or_else(PoisonError::into_inner);
        list.sort_by_key(|probe| probe.echo.at_us);
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_model::report::v1::load::Step;

    fn plan(steps: usize, probe_interval_us: u64) -> Plan {
        let step = Step {
            streams: 1,
            window_bytes: None,
            congestion_control: None,
            rate_bps: None,
            dscp: None,
            scavenger: false,
            competitor: false,
            baseline: false,
        };
        Plan {
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
        assert_eq!(check(&plan(3, 10_000)), Ok(()));
        for (steps, spacing, option) in [
            (0, 10_000, "loads"),
            (65, 10_000, "loads"),
            (1, 999, "probe_interval_us"),
            (60, 1000, "probes in all"),
        ] {
            let told = check(&plan(steps, spacing)).expect_err(option);
            assert_eq!(told.option, option);
        }
        let mut wide = plan(1, 10_000);
        wide.steps[0].streams = 1000;
        assert_eq!(check(&wide).expect_err("streams").option, "streams");
    }
}
