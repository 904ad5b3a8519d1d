//! Round trips to each hop before, during and after a load: idle, load, idle.
//!
//! Sends one probe per hop and second, all of one flow. The server also reports the direction in
//! which delay grew. The load is a bulk run with its own session.
//!
//! Source: hop round trips against own load, after BFind (Akella, Seshan, Shaikh, 2003) with far
//! fewer probes. Bounds: twice the idle phase, the load with its setup, and [`MAX_OVERTIME`].

use super::path_measurement;
use super::route_trace::{HopEcho, HopProber, TraceRequest};
use crate::probe_error::ProbeError;
use crate::probing::{EchoSeriesPlan, ProbeClient};
use crate::session::SessionState;
use crate::supervise::StopFlag;
use crate::throughput::{
    self, BackgroundRun, TargetHost, ThroughputOutcome, ThroughputProgress, payload_span,
};
use longhaul_model::report::v1::path::{
    EndDelay, HopLoadPlan, HopWatch, ObservedRoute, ProbeEcho, WatchedHop,
};
use longhaul_model::report::v1::plan::{RunDirection, StopCondition, ThroughputPlan};
use longhaul_sys::host::qdisc;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Interval between two probes of a hop.
const HOP_INTERVAL: Duration = Duration::from_secs(1);
/// Interval at which waits check `stop` and the load.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Interval between readings of the local queue.
const BACKLOG_INTERVAL: Duration = Duration::from_millis(100);
/// Interval of the probes to the server, which does not limit its answers.
const END_INTERVAL: Duration = Duration::from_millis(100);
const END_PACKET_BYTES: u32 = 100;
/// Minimum and maximum length of a phase.
const PHASE_RANGE: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(300));
/// Time limit of the load's setup and result exchange beyond its phase.
const MAX_OVERTIME: Duration = Duration::from_secs(90);
/// Time to wait for answers to the last probes.
const LAST_ANSWERS_TIMEOUT: Duration = Duration::from_secs(1);
/// The maximum number of watched hops.
const MAX_HOPS: usize = 64;
/// Consecutive send failures that end the watch: a full queue under load is normal.
const MAX_SEND_FAILURES: u32 = 20;

/// Parameters of a hop watch.
pub(super) struct HopWatchRequest<'a> {
    pub target: &'a TargetHost,
    pub load: &'a HopLoadPlan,
    /// Parameters of the trace that found the route.
    pub trace: TraceRequest,
    pub route: &'a ObservedRoute,
    /// Outgoing interface.
    pub interface: Option<String>,
}

/// Result of a hop watch.
pub(super) struct HopWatchResult {
    pub watch: HopWatch,
    pub plan: ThroughputPlan,
    pub outcome: ThroughputOutcome,
}

/// Watches the hops of a route. Calls `tell` with the load's progress. A stop ends the load; the
/// result is then what was seen until then.
///
/// # Errors
/// The reason why there is no result, for the report.
pub(super) fn watch_hops(
    asked: &HopWatchRequest<'_>,
    stop: &StopFlag,
    tell: &mut dyn FnMut(Option<&ThroughputProgress>),
) -> Result<HopWatchResult, String> {
    let hops = answering_hops(asked.route);
    if hops.is_empty() {
        return Err("no hop of the route answers".to_owned());
    }
    let prober = HopProber::new(&asked.trace)
        .map_err(|error| path_measurement::describe_path_error(&error))?;
    // Without longhaul on the target there is no load to watch.
    let far =
        ProbeClient::connect(asked.target, stop).map_err(|error| describe_load_error(&error))?;
    let epoch = Instant::now();
    let ends_stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let ends = thread::Builder::new()
            .name("far-echoes".to_owned())
            .spawn_scoped(scope, || measure_server_delays(far, epoch, &ends_stop));
        let spread = |number: usize| HOP_INTERVAL * number as u32 / hops.len() as u32;
        let mut watching = RunningHopWatch {
            due: (0..hops.len()).map(spread).collect(),
            sent: HashMap::new(),
            failures: 0,
            backlog: None,
            backlog_due: Duration::ZERO,
            prober,
            hops,
            asked,
            epoch,
        };
        let watched = watching.run(stop, tell);
        ends_stop.store(true, Ordering::Relaxed);
        let ends = ends.ok().and_then(|ends| ends.join().ok()).unwrap_or_default();
        watched.map(|result| HopWatchResult { watch: HopWatch { ends, ..result.watch }, ..result })
    })
}

fn describe_load_error(error: &ProbeError) -> String {
    match error {
        ProbeError::Connect { .. } => path_measurement::describe_missing_server("load", error),
        _ => path_measurement::describe_server_error(error),
    }
}

/// Returns the hops that answered, including the destination.
fn answering_hops(route: &ObservedRoute) -> Vec<WatchedHop> {
    let answering = route.hops.iter().filter_map(|hop| {
        let own = hop.answers.first().filter(|answer| !answer.rtts_ns.is_empty())?;
        Some(WatchedHop { ttl: hop.ttl, address: Some(own.address.clone()), echoes: Vec::new() })
    });
    answering.take(MAX_HOPS).collect()
}

/// Sends echoes to the server until `stop`; times count from `epoch`.
fn measure_server_delays(mut far: ProbeClient, epoch: Instant, stop: &AtomicBool) -> Vec<EndDelay> {
    let series = EchoSeriesPlan {
        interval: END_INTERVAL,
        packet_bytes: END_PACKET_BYTES,
        max_time: PHASE_RANGE.1 * 3 + MAX_OVERTIME,
    };
    let mut ends = Vec::new();
    let shift_us = epoch.elapsed().as_micros() as u64;
    // If the session is lost under load, the results until then remain.
    let _ = far.run_echoes(&series, stop, &mut |probe| {
        ends.push(EndDelay {
            at_us: probe.echo.at_us + shift_us,
            forward_ns: probe.forward_ns,
            reverse_ns: probe.reverse_ns,
        });
    });
    far.close();
    ends.sort_by_key(|end| end.at_us);
    ends
}

/// Returns the plan of the load.
fn load_plan(asked: &HopLoadPlan, phase: Duration) -> ThroughputPlan {
    ThroughputPlan {
        direction: if asked.forward { RunDirection::Forward } else { RunDirection::Reverse },
        streams: asked.streams,
        stop: StopCondition::TimeUs(phase.as_micros() as u64),
        ..ThroughputPlan::default()
    }
}

/// Returns the times of the first payload at the senders and the last at the receivers, from the
/// run's samples. Progress reports the end only after messages that follow the last payload: by
/// then a queue has been empty for some round trips.
fn payload_times(outcome: &ThroughputOutcome, epoch: Instant) -> Option<(Duration, Duration)> {
    let zero = outcome.origin.checked_duration_since(epoch)?;
    let streams = &outcome.observation.streams;
    let (first, _) = payload_span(streams.iter().map(|stream| &stream.sender))?;
    let (_, last) = payload_span(streams.iter().map(|stream| &stream.receiver))?;
    let at = |us: u64| zero + Duration::from_micros(us);
    Some((at(first), at(last)))
}

/// A hop watch in progress.
struct RunningHopWatch<'a> {
    asked: &'a HopWatchRequest<'a>,
    prober: HopProber,
    hops: Vec<WatchedHop>,
    /// Time of each hop's next probe; the hops are spread over the interval.
    due: Vec<Duration>,
    /// Hop and echo index of each probe.
    sent: HashMap<u16, (usize, usize)>,
    failures: u32,
    backlog: Option<u64>,
    backlog_due: Duration,
    epoch: Instant,
}

impl RunningHopWatch<'_> {
    fn run(
        &mut self,
        stop: &AtomicBool,
        tell: &mut dyn FnMut(Option<&ThroughputProgress>),
    ) -> Result<HopWatchResult, String> {
        let asked = self.asked.load;
        let phase = Duration::from_micros(asked.phase_us).clamp(PHASE_RANGE.0, PHASE_RANGE.1);
        self.probe_until(phase, stop)?;
        if stop.load(Ordering::Relaxed) {
            return Err(path_measurement::STOPPED.to_owned());
        }
        let load = BackgroundRun::start(
            self.asked.target,
            load_plan(asked, phase),
            Arc::new(throughput::run),
        )
        .map_err(|error| describe_load_error(&error))?;
        let mut told = None;
        while !load.is_finished() && !stop.load(Ordering::Relaxed) {
            if self.epoch.elapsed() >= phase * 2 + MAX_OVERTIME {
                return Err("the load did not end in time".to_owned());
            }
            let progress = load.progress();
            if progress.as_ref().is_some_and(|progress| is_transferring(progress.state)) {
                self.read_backlog();
            }
            if progress != told {
                tell(progress.as_ref());
                told = progress;
            }
            self.send_or_poll()?;
        }
        let plan = load.plan.clone();
        let outcome = load.finish().map_err(|error| describe_load_error(&error))?;
        let (from, until) =
            payload_times(&outcome, self.epoch).ok_or("the load transferred nothing")?;
        self.probe_until(until + phase, stop)?;
        self.wait_for_last_answers(stop)?;
        let bytes = outcome.observation.streams.iter().map(|stream| stream.receiver.bytes).sum();
        let watch = HopWatch {
            load_from_us: from.as_micros() as u64,
            load_until_us: until.as_micros() as u64,
            forward: asked.forward,
            load_bytes: Some(bytes),
            run_id: None,
            hops: std::mem::take(&mut self.hops),
            ends: Vec::new(),
            own_backlog_bytes: self.backlog,
        };
        Ok(HopWatchResult { watch, plan, outcome })
    }

    fn probe_until(&mut self, end: Duration, stop: &AtomicBool) -> Result<(), String> {
        while self.epoch.elapsed() < end && !stop.load(Ordering::Relaxed) {
            self.send_or_poll()?;
        }
        Ok(())
    }

    /// Sends the probe that is due, or polls for answers until then.
    fn send_or_poll(&mut self) -> Result<(), String> {
        let now = self.epoch.elapsed();
        let due = self.due.iter().min().copied().unwrap_or(now + POLL_INTERVAL);
        match self.due.iter().position(|own| *own <= now && *own == due) {
            Some(number) => self.send(number, now),
            None => self.poll_answer(self.epoch + due.min(now + POLL_INTERVAL)),
        }
    }

    fn poll_answer(&mut self, until: Instant) -> Result<(), String> {
        match self.prober.poll(until) {
            Ok(echo) => {
                if let Some(echo) = echo {
                    self.record_answer(&echo);
                }
                Ok(())
            }
            Err(error) => Err(path_measurement::describe_path_error(&error)),
        }
    }

    fn send(&mut self, number: usize, now: Duration) -> Result<(), String> {
        self.due[number] = now + HOP_INTERVAL;
        let hop = &mut self.hops[number];
        match self.prober.send(hop.ttl) {
            Ok(key) => {
                self.sent.insert(key, (number, hop.echoes.len()));
                self.failures = 0;
            }
            Err(error) => {
                self.failures += 1;
                if self.failures >= MAX_SEND_FAILURES {
                    return Err(path_measurement::describe_path_error(&error));
                }
            }
        }
        hop.echoes.push(ProbeEcho { at_us: now.as_micros() as u64, rtt_ns: None, ttl: None });
        Ok(())
    }

    /// Records an answer; ignores it if another router than before sent it.
    fn record_answer(&mut self, answer: &HopEcho) {
        let Some(&(hop, echo)) = self.sent.get(&answer.number) else {
            return;
        };
        let Some(hop) = self.hops.get_mut(hop) else {
            return;
        };
        let address = hop.address.as_deref().and_then(|text| text.parse().ok());
        let same = address.is_none_or(|address: IpAddr| address == answer.address);
        if let Some(echo) = hop.echoes.get_mut(echo).filter(|_| same) {
            echo.rtt_ns = echo.rtt_ns.or(Some(answer.rtt.as_nanos() as u64));
            echo.ttl = echo.ttl.or(answer.reply.reply_ttl);
        }
    }

    fn wait_for_last_answers(&mut self, stop: &AtomicBool) -> Result<(), String> {
        let end = Instant::now() + LAST_ANSWERS_TIMEOUT;
        while Instant::now() < end && !stop.load(Ordering::Relaxed) {
            self.poll_answer(end.min(Instant::now() + POLL_INTERVAL))?;
        }
        Ok(())
    }

    fn read_backlog(&mut self) {
        let now = self.epoch.elapsed();
        let Some(interface) = self.asked.interface.as_ref().filter(|_| now >= self.backlog_due)
        else {
            return;
        };
        self.backlog_due = now + BACKLOG_INTERVAL;
        // Some interfaces do not report their backlog.
        self.backlog = self.backlog.max(qdisc::backlog_bytes(interface).ok().flatten());
    }
}

fn is_transferring(state: SessionState) -> bool {
    matches!(state, SessionState::Running | SessionState::Draining)
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_model::report::v1::path::{HopReply, ObservedHop, ProbeProtocol};

    fn hop(ttl: u8, address: Option<&str>, rtts_ns: Vec<u64>) -> ObservedHop {
        let answers = address.map(|address| HopReply {
            address: address.to_owned(),
            name: None,
            autonomous_system: None,
            place: None,
            rtts_ns,
            reply_ttl: None,
            quoted_ttl: None,
            kind: "time_exceeded".to_owned(),
            mpls: Vec::new(),
            rewritten: Vec::new(),
        });
        ObservedHop { ttl, sent: 3, answers: answers.into_iter().collect(), rate_limited: false }
    }

    #[test]
    fn hops_that_the_flow_did_not_see_are_not_watched() {
        let route = ObservedRoute {
            from: "192.0.2.1".to_owned(),
            to: "192.0.2.9".to_owned(),
            protocol: ProbeProtocol::Icmp,
            flow: String::new(),
            at_us: 0,
            duration_us: 0,
            hops: vec![
                hop(1, Some("192.0.2.2"), vec![1000]),
                hop(2, None, Vec::new()),
                hop(3, Some("192.0.2.7"), Vec::new()),
                hop(4, Some("192.0.2.9"), vec![9000]),
            ],
            reached: true,
            ended_by: "reached".to_owned(),
            links: Vec::new(),
            confidence_ratio: None,
            probes_sent: 12,
            discarded: 0,
        };
        let watched: Vec<u8> = answering_hops(&route).iter().map(|hop| hop.ttl).collect();
        assert_eq!(watched, [1, 4]);
    }
}
