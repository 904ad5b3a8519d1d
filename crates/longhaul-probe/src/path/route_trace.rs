//! Traceroute: probes of one flow whose TTL expires at one hop after another.
//!
//! [`RouteTracer`] chooses the next TTL from given times and decides when to give up. [`HopProber`] owns
//! the sockets and matches answers to probes. [`trace_route`] connects the two. If a confidence is
//! requested, [`super::multipath_discovery`] then searches the other next hops of load balancers.
//!
//! Without raw sockets, UDP works for all users, and ICMP if `net.ipv4.ping_group_range` permits
//! it; then neither rewriting on the path nor alternatives can be found. Answers of routers that
//! quote only a UDP header can then only be matched with one outstanding probe, so probes are sent
//! one by one after the first such answer.

mod hop_prober;
mod route_tracer;

pub use hop_prober::{HopEcho, HopProber};

use super::multipath_discovery::MultipathDiscovery;
use super::path_error::PathError;
use super::probe_reply::ReplyKind;
use super::probe_target::ProbeTarget;
use longhaul_model::report::v1::path::{self, HopReply, ObservedRoute};
use route_tracer::RouteTracer;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Interval at which `stop` is checked.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Minimum interval between two calls of the watcher.
const MIN_WATCH_INTERVAL: Duration = Duration::from_millis(50);

/// Parameters of a trace.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceRequest {
    pub target: ProbeTarget,
    pub trace: path::TracePlan,
    /// Time limit of the whole trace, including alternatives.
    pub max_time: Duration,
}

/// The next action of a state machine, in time since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TraceStep {
    Send {
        ttl: u8,
        /// Flow number; 0 is the trace's own.
        flow: u16,
    },
    /// Wait for an answer, at most until this time.
    Wait(Duration),
    Done,
}

/// Traces the route. `watch` receives the growing route at most twenty times a second. Takes at
/// most `max_time`, and ends within 100 ms of `stop`.
///
/// The returned route has no host names and starts at time 0.
///
/// # Errors
/// A missing privilege or route to the destination, or a failing socket. Silence is no error.
pub fn trace_route(
    asked: &TraceRequest,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&ObservedRoute),
) -> Result<ObservedRoute, PathError> {
    let begin = Instant::now();
    let mut run =
        TraceRun { prober: HopProber::new(asked)?, asked, stop, begin, last_notified: None };
    let mut tracer = RouteTracer::new(&asked.trace, asked.target.destination, asked.max_time);
    run.trace_hops(&mut tracer, watch)?;
    let mut route = run.route(&tracer);
    if let Some(confidence) = asked.trace.confidence_ratio
        && run.prober.socket.varies_flows()
    {
        let known: Vec<Option<IpAddr>> = tracer.hop_addresses();
        let mut alternatives =
            MultipathDiscovery::new(confidence, asked.target.destination, &known, asked.max_time);
        run.find_alternatives(&mut alternatives)?;
        add_alternatives(&mut route, &alternatives);
    }
    route.probes_sent = run.prober.sent;
    route.discarded = run.prober.discarded;
    route.duration_us = begin.elapsed().as_micros() as u64;
    watch(&route);
    Ok(route)
}

/// A trace in progress.
struct TraceRun<'a> {
    prober: HopProber,
    asked: &'a TraceRequest,
    stop: &'a AtomicBool,
    begin: Instant,
    last_notified: Option<Instant>,
}

impl TraceRun<'_> {
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Returns the next answer before `until`; returns early enough to notice a stop.
    fn poll_answer(&mut self, until: Duration) -> Result<Option<HopEcho>, PathError> {
        let until = (self.begin + until).min(Instant::now() + STOP_POLL_INTERVAL);
        self.prober.poll(until)
    }

    fn trace_hops(
        &mut self,
        tracer: &mut RouteTracer,
        watch: &mut dyn FnMut(&ObservedRoute),
    ) -> Result<(), PathError> {
        while !self.is_stopped() {
            match tracer.next_step(self.begin.elapsed()) {
                TraceStep::Done => break,
                TraceStep::Send { ttl, .. } => {
                    let number = self.prober.send(ttl)?;
                    tracer.record_sent(number, ttl, self.begin.elapsed());
                }
                TraceStep::Wait(until) => {
                    if let Some(echo) = self.poll_answer(until)? {
                        tracer.record_answer(&echo);
                        self.notify_watcher(tracer, watch);
                    }
                    if self.prober.ambiguous > 0 {
                        tracer.limit_to_one_probe();
                    }
                }
            }
        }
        Ok(())
    }

    fn find_alternatives(
        &mut self,
        alternatives: &mut MultipathDiscovery,
    ) -> Result<(), PathError> {
        while !self.is_stopped() {
            match alternatives.next_step(self.begin.elapsed()) {
                TraceStep::Done => break,
                TraceStep::Send { ttl, flow } => {
                    let number = self.prober.send_flow(flow, ttl)?;
                    alternatives.record_sent(number, ttl, flow, self.begin.elapsed());
                }
                TraceStep::Wait(until) => {
                    if let Some(echo) = self.poll_answer(until)? {
                        alternatives.record_reply(echo.number, echo.address, echo.rtt);
                    }
                }
            }
        }
        Ok(())
    }

    fn notify_watcher(&mut self, tracer: &RouteTracer, watch: &mut dyn FnMut(&ObservedRoute)) {
        if self.last_notified.is_none_or(|at| at.elapsed() >= MIN_WATCH_INTERVAL) {
            self.last_notified = Some(Instant::now());
            watch(&self.route(tracer));
        }
    }

    fn route(&self, tracer: &RouteTracer) -> ObservedRoute {
        let flow = &self.prober.socket.flow;
        let seen = tracer.snapshot();
        ObservedRoute {
            from: flow.source.to_string(),
            to: flow.destination.to_string(),
            protocol: self.asked.target.protocol,
            flow: flow.describe(),
            at_us: 0,
            duration_us: self.begin.elapsed().as_micros() as u64,
            hops: seen.hops,
            reached: seen.reached,
            ended_by: seen.ended_by.to_owned(),
            links: Vec::new(),
            confidence_ratio: None,
            probes_sent: self.prober.sent,
            discarded: self.prober.discarded,
        }
    }
}

/// Adds the results of other flows to the hops of the trace's own flow.
fn add_alternatives(route: &mut ObservedRoute, found: &MultipathDiscovery) {
    let known: Vec<HopReply> = route.hops.iter().flat_map(|hop| hop.answers.clone()).collect();
    for (ttl, address) in found.addresses() {
        let Some(hop) = route.hops.get_mut(usize::from(ttl) - 1) else {
            continue;
        };
        let address = address.to_string();
        if hop.answers.iter().all(|answer| answer.address != address) {
            // The destination may have fewer hops on another route.
            let same = known.iter().find(|answer| answer.address == address);
            let exceeded = || ReplyKind::TimeExceeded.as_str().to_owned();
            hop.answers.push(HopReply {
                kind: same.map_or_else(exceeded, |answer| answer.kind.clone()),
                address,
                ..HopReply::default()
            });
        }
    }
    route.links = found.links();
    route.confidence_ratio = Some(found.confidence_ratio());
}

/// Probes and answers of one hop.
#[derive(Debug, Clone, Default)]
struct HopRecord {
    /// By address; the trace's own flow first.
    pub answers: Vec<(IpAddr, HopReply)>,
    /// One entry for each probe with a known outcome.
    pub outcomes: Vec<ProbeFate>,
    pub sent: u32,
    pub last_sent: Duration,
}

impl HopRecord {
    /// Adds an answer to those of its address.
    pub fn record_answer(&mut self, echo: &HopEcho) {
        let same = |known: &&mut (IpAddr, HopReply)| known.0 == echo.address;
        match self.answers.iter_mut().find(same) {
            None => self.answers.push((echo.address, echo.reply.clone())),
            Some((_, known)) => {
                known.rtts_ns.extend(&echo.reply.rtts_ns);
                for what in &echo.reply.rewritten {
                    if !known.rewritten.contains(what) {
                        known.rewritten.push(what.clone());
                    }
                }
            }
        }
    }
}

/// Interval within which a router that answers once a second ignores further probes.
const LIMIT_PERIOD: Duration = Duration::from_millis(1000);
/// Maximum length of a detected router cycle.
const MAX_CYCLE: usize = 8;
/// Number of passes through a cycle that count as a loop.
const ROUNDS: usize = 3;

/// Outcome of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ProbeFate {
    pub at: Duration,
    pub answered: bool,
}

/// Returns for each hop whether its silence looks like rate limiting, not like loss.
///
/// A hop is rate limited if it left a probe unanswered that was sent within a second of an answered
/// one, and some later hop answered all of its probes: those passed this hop.
///
/// Wrong when: only the return path from this hop loses packets; a few probes cannot reveal that.
fn find_rate_limited_hops(hops: &[&[ProbeFate]]) -> Vec<bool> {
    let mut passed_behind = false;
    let mut limited = vec![false; hops.len()];
    for (fates, limited) in hops.iter().zip(&mut limited).rev() {
        *limited = passed_behind && skips_probes(fates);
        passed_behind |= fates.len() > 1 && fates.iter().all(|fate| fate.answered);
    }
    limited
}

fn skips_probes(fates: &[ProbeFate]) -> bool {
    let refused = fates.iter().filter(|fate| !fate.answered);
    refused.into_iter().any(|refused| {
        fates.iter().any(|fate| fate.answered && fate.at.abs_diff(refused.at) <= LIMIT_PERIOD)
    })
}

/// Returns whether the route ends in the third pass of a cycle of two to eight routers. One router
/// at several consecutive hops is no cycle: balancers and NATs cause that.
///
/// Ignores trailing hops that have not answered yet.
fn is_loop(path: &[Option<IpAddr>]) -> bool {
    let answered = path.iter().rposition(Option::is_some);
    let path = &path[..answered.map_or(0, |last| last + 1)];
    (2..=MAX_CYCLE).any(|cycle| {
        let Some(from) = path.len().checked_sub(cycle * ROUNDS) else {
            return false;
        };
        let tail = &path[from..];
        let first = &tail[..cycle];
        first.iter().all(Option::is_some)
            && first.iter().any(|address| *address != first[0])
            && tail.chunks(cycle).all(|round| round == first)
    })
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod hop_silence_tests {
    use super::*;

    fn path(letters: &str) -> Vec<Option<IpAddr>> {
        let address = |letter: u8| (letter != b'*').then(|| IpAddr::from([10, 0, 0, letter]));
        letters.bytes().map(address).collect()
    }

    #[test]
    fn a_cycle_is_a_loop_and_a_stutter_is_none() {
        for looping in ["abcbcbc", "abcdbcdbcd", "abcbcbc****"] {
            assert!(is_loop(&path(looping)), "{looping}");
        }
        for fine in ["", "abcdef", "aabbcc", "abbbbbbbbb", "abcbc", "ab*b*b*", "abcbcbcd"] {
            assert!(!is_loop(&path(fine)), "{fine}");
        }
    }

    fn fates(answers: &[(u64, bool)]) -> Vec<ProbeFate> {
        let fate = |(ms, answered): &(u64, bool)| ProbeFate {
            at: Duration::from_millis(*ms),
            answered: *answered,
        };
        answers.iter().map(fate).collect()
    }

    #[test]
    fn a_limit_is_told_from_loss_by_what_passed_the_hop() {
        let limited = fates(&[(0, true), (500, false), (1000, false)]);
        let whole = fates(&[(0, true), (500, true), (1000, true)]);
        let late = fates(&[(0, true), (1500, false), (3000, true)]);
        let refilled = fates(&[(0, false), (500, false), (1000, true)]);
        let silent = fates(&[(0, false), (500, false), (1000, false)]);
        assert_eq!(
            find_rate_limited_hops(&[&limited, &late, &silent, &refilled, &whole]),
            [true, false, false, true, false]
        );
        // No later hop answered all probes: it may be loss.
        assert_eq!(find_rate_limited_hops(&[&whole, &limited, &limited]), [false; 3]);
    }
}
