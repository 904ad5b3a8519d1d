//! Latency under load: loads one after another, with RTT probes during and between them, on one
//! time axis.
//!
//! The probes run in their own session and thread and never pause. Every load and its competitor is
//! an ordinary run in another thread. All times of the observation are relative to the first probe,
//! on this host's clock.
//!
//! - [`load_phases`]: the sequence of idle phases and loads
//! - [`one_end_probes`]: loads by the protocol of another server, with probes that its kernel answers

mod load_phases;
mod one_end_probes;

use crate::plan_limits::{self, LimitError, check_range, limit_error};
use crate::probe_error::{ProbeError, describe_error_chain};
use crate::probing::{EchoSeriesPlan, ProbeClient};
use crate::supervise::StopFlag;
use crate::throughput::{self, BulkRun, TargetHost, ThroughputOutcome, payload_span};
use load_phases::PhaseRunner;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::load::{
    LoadFlow, LoadObservation, LoadPlan, LoadPoint, LoadProbe, LoadStep,
};
use longhaul_model::report::v1::observation::{StreamEnd, ThroughputObservation};
use longhaul_model::report::v1::path::RoundTripSeries;
use longhaul_model::report::v1::plan::{self, RunDirection, StopCondition};
use longhaul_model::report::v1::{ReportCaveat, RunParty};
pub use one_end_probes::run_from_one_end;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
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
/// After `stop`, or when the probe session is lost, the outcome is what was measured until then.
///
/// # Errors
/// The probe session failed, or nothing could be measured. A failed load is an error of its phase.
pub fn run(
    target: &TargetHost,
    plan: &LoadPlan,
    stop: &StopFlag,
    watch: &mut dyn FnMut(&LoadRunProgress),
) -> Result<LoadOutcome, ProbeError> {
    check_load_plan(plan)?;
    let started_at = SystemTime::now();
    let mut prober = ProbeClient::connect(target, stop)?;
    let (initiator, responder) = prober.parties();
    let parties = LoadParties { initiator: initiator.clone(), responder: responder.clone() };
    let idle_rtt = prober.idle_rtt();
    let session = LoadSession {
        target: &prober.target().clone(),
        bulk_run: Arc::new(throughput::run),
        plan,
        stop,
        started_at,
    };
    let series = echo_series(plan);
    let outcome = session.run(parties, idle_rtt, watch, |probes| {
        prober.run_echoes(&series, &probes.over, &mut |probe| probes.add(*probe))
    })?;
    prober.close();
    Ok(outcome)
}

/// The two ends of a run.
struct LoadParties {
    initiator: RunParty,
    responder: RunParty,
}

/// The loads of a plan, whoever answers the probes.
struct LoadSession<'a> {
    target: &'a TargetHost,
    bulk_run: Arc<BulkRun>,
    plan: &'a LoadPlan,
    stop: &'a AtomicBool,
    started_at: SystemTime,
}

impl LoadSession<'_> {
    /// Runs the loads, with `send_probes` in a thread of its own.
    fn run(
        self,
        parties: LoadParties,
        idle_rtt: Option<Duration>,
        watch: &mut dyn FnMut(&LoadRunProgress),
        send_probes: impl FnOnce(&SharedProbes) -> Result<RoundTripSeries, ProbeError> + Send,
    ) -> Result<LoadOutcome, ProbeError> {
        let probes = SharedProbes::default();
        let began = Instant::now();
        let mut course = PhaseRunner {
            target: self.target,
            bulk_run: self.bulk_run,
            plan: self.plan,
            began,
            probes: &probes,
            stop: self.stop,
            watch,
            phases: Vec::new(),
            runs: Vec::new(),
            reported_at: None,
        };
        let echoed = thread::scope(|scope| {
            let echoes = scope.spawn(|| {
                let echoed = send_probes(&probes);
                probes.ended.store(true, Relaxed);
                echoed
            });
            course.run();
            probes.over.store(true, Relaxed);
            echoes.join()
        });
        let (phases, runs) = (course.phases, course.runs);
        let echoed = echoed.map_err(|_| ProbeError::local("the probe thread panicked", None))?;
        let probes = probes.in_order();
        let (clock, caveats) = match echoed {
            Ok(echoed) => {
                let caveats = odd_answers_caveat(&echoed).into_iter().collect();
                (echoed.clock, caveats)
            }
            Err(error) if probes.is_empty() => return Err(error),
            Err(error) => {
                let text = format!("the probes ended early: {}", describe_error_chain(&error));
                ("user".to_owned(), vec![ReportCaveat::new(ReportCaveat::PEER_LOST, text)])
            }
        };
        Ok(LoadOutcome {
            observation: LoadObservation {
                clock,
                idle_rtt_us: idle_rtt.map(|rtt| rtt.as_micros() as u64),
                probes,
                phases,
                responsiveness: None,
            },
            initiator: parties.initiator,
            responder: parties.responder,
            started_at: self.started_at,
            duration: began.elapsed(),
            caveats,
            runs,
            stopped: self.stop.load(Relaxed),
        })
    }
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
        plan_limits::check_plan(&load_plan(plan, step), plan_limits::MAX_STREAMS)
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

/// The minimum interval between samples; closer ones add nothing.
const INTERVAL_US: u64 = 100_000;
/// The number of samples of a run, which is archived with the load report.
const SAMPLES: u64 = 300;

/// Returns the plan for the load of a step.
fn load_plan(plan: &LoadPlan, step: &LoadStep) -> plan::ThroughputPlan {
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
fn competitor_plan(plan: &LoadPlan) -> plan::ThroughputPlan {
    let (least, most) = crate::plan_limits::INTERVAL_US;
    plan::ThroughputPlan {
        direction: if plan.forward { RunDirection::Forward } else { RunDirection::Reverse },
        stop: StopCondition::TimeUs(plan.load_us),
        interval_us: (plan.load_us / SAMPLES).max(INTERVAL_US).clamp(least, most),
        ..plan::ThroughputPlan::default()
    }
}

/// Times of the first and last payload at the receiver on the axis, in microseconds.
type PayloadSpan = (u64, u64);

/// Returns the receiver's counts; the caller determines what limited the run.
fn convert_flow(outcome: &ThroughputOutcome, axis: Instant) -> (LoadFlow, Option<PayloadSpan>) {
    let observation = &outcome.observation;
    let to_axis = |at_us| convert_time(at_us, outcome.origin, axis);
    let receivers: Vec<&StreamEnd> =
        observation.streams.iter().map(|s| &s.receiver).filter(|end| end.bytes > 0).collect();
    let span = payload_span(receivers.iter().copied());
    let span = span.map(|(first, last)| (to_axis(first), to_axis(last)));
    let flow = LoadFlow {
        run_id: None,
        bytes: receivers.iter().map(|end| end.bytes).sum(),
        elapsed_us: observation.elapsed_us,
        limited_by: Limiter::Unknown,
        series: sum_series(choose_counted_ends(observation, &receivers).as_slice(), to_axis),
        retransmits: count_retransmits(observation),
        mss_bytes: observation.streams.first().and_then(|s| s.sender.mss_bytes),
    };
    (flow, span)
}

/// Returns the receivers, or the senders if the receivers have no samples, as those of iperf3.
fn choose_counted_ends<'a>(
    observation: &'a ThroughputObservation,
    receivers: &[&'a StreamEnd],
) -> Vec<&'a StreamEnd> {
    if receivers.iter().any(|end| !end.samples.is_empty()) {
        return receivers.to_vec();
    }
    observation.streams.iter().map(|stream| &stream.sender).filter(|end| end.bytes > 0).collect()
}

fn count_retransmits(observation: &ThroughputObservation) -> Option<u64> {
    let last = |end: &StreamEnd| {
        let mut readings = end.samples.iter().rev().filter_map(|s| s.tcp.as_ref());
        readings.next().map(|tcp| tcp.retransmitted_segments)
    };
    observation.streams.iter().map(|s| last(&s.sender)).sum()
}

/// Converts a time of a run, which is relative to `origin`, to the axis of the probes.
fn convert_time(at_us: u64, origin: Instant, axis: Instant) -> u64 {
    let since = (origin + Duration::from_micros(at_us)).saturating_duration_since(axis);
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Sums all streams at the sample times of the stream that has the most.
fn sum_series(receivers: &[&StreamEnd], to_axis: impl Fn(u64) -> u64) -> Vec<LoadPoint> {
    let Some(finest) = receivers.iter().max_by_key(|end| end.samples.len()) else {
        return Vec::new();
    };
    let (begins, ends) = payload_span(receivers.iter().copied()).unwrap_or_default();
    let inside = finest.samples.iter().map(|sample| sample.at_us);
    let mut times: Vec<u64> = inside.filter(|at| (begins..ends).contains(at)).collect();
    times.extend([begins, ends]);
    times.sort_unstable();
    times.dedup();
    let total = |at: u64| receivers.iter().map(|end| interpolate_bytes(end, at)).sum::<f64>();
    let points = times
        .into_iter()
        .map(|at| LoadPoint { at_us: to_axis(at), bytes: total(at).round() as u64 });
    points.collect()
}

/// Interpolates linearly between samples; returns all bytes from the end on.
fn interpolate_bytes(end: &StreamEnd, at_us: u64) -> f64 {
    let stopped = end.started_us.saturating_add(end.duration_us);
    if at_us >= stopped {
        return end.bytes as f64;
    }
    let after = end.samples.partition_point(|s| s.at_us <= at_us);
    let low = after.checked_sub(1).map_or((end.started_us, 0), |i| {
        let at_us = end.samples[i].at_us.max(end.started_us);
        (at_us, end.samples[i].bytes)
    });
    let next = end.samples.get(after).map(|s| (s.at_us, s.bytes));
    let high = next.filter(|n| n.0 < stopped).unwrap_or((stopped, end.bytes));
    if high.0 <= low.0 || at_us <= low.0 {
        return low.1 as f64;
    }
    let part = (at_us - low.0) as f64 / (high.0 - low.0) as f64;
    low.1 as f64 + (high.1 as f64 - low.1 as f64) * part
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
            responsiveness: None,
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

#[cfg(test)]
mod load_flow_tests {
    use super::*;
    use longhaul_model::report::v1::observation::StreamSample;

    fn end(started_us: u64, duration_us: u64, samples: &[(u64, u64)]) -> StreamEnd {
        StreamEnd {
            started_us,
            duration_us,
            bytes: samples.last().map_or(0, |s| s.1),
            samples: samples
                .iter()
                .map(|&(at_us, bytes)| StreamSample { at_us, bytes, ..StreamSample::default() })
                .collect(),
            ..StreamEnd::default()
        }
    }

    #[test]
    fn counts_of_streams_are_added_on_the_axis_and_never_fall() {
        let one = end(100, 300, &[(50, 0), (200, 1000), (300, 2000), (450, 3000)]);
        let two = end(200, 200, &[(200, 0), (400, 500)]);
        let series = sum_series(&[&one, &two], |at_us| at_us + 1000);
        assert_eq!(series.first().map(|p| (p.at_us, p.bytes)), Some((1100, 0)));
        assert_eq!(series.last().map(|p| (p.at_us, p.bytes)), Some((1400, 3500)));
        assert!(series.windows(2).all(|w| w[0].bytes <= w[1].bytes && w[0].at_us < w[1].at_us));
    }

    #[test]
    fn a_run_that_began_before_the_axis_does_not_run_backwards() {
        let origin = Instant::now();
        let axis = origin + Duration::from_micros(500);
        assert_eq!([100, 700].map(|at_us| convert_time(at_us, origin, axis)), [0, 200]);
    }
}
