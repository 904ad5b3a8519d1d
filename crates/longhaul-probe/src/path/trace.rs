//! Traceroute: probes of one flow whose TTL expires at one hop after another.
//!
//! [`Tracer`] chooses the next TTL from given times and decides when to give up. [`HopProber`] owns
//! the sockets and matches answers to probes. [`trace`] connects the two. If a confidence is
//! requested, [`super::alternatives`] then searches the other next hops of load balancers.
//!
//! Without raw sockets, UDP works for all users, and ICMP if `net.ipv4.ping_group_range` permits
//! it; then neither rewriting on the path nor alternatives can be found. Answers of routers that
//! quote only a UDP header can then only be matched with one outstanding probe, so probes are sent
//! one by one after the first such answer.

mod answers;
mod judge;
mod outlet;
mod prober;
mod tracer;

pub use prober::{HopEcho, HopProber};

use super::alternatives::Alternatives;
use super::error::PathError;
use super::reply::Kind;
use longhaul_model::report::v1::path::{self, Answer, Protocol, Route};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tracer::Tracer;

/// Interval at which `stop` is checked.
const STOP_LOOK: Duration = Duration::from_millis(50);
/// Minimum interval between two calls of the watcher.
const WATCH_EVERY: Duration = Duration::from_millis(50);

/// Parameters of a trace.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceAsked {
    pub destination: IpAddr,
    /// Source address; `None`: chosen by the routing table.
    pub source: Option<IpAddr>,
    pub device: Option<String>,
    pub protocol: Protocol,
    /// Destination port; `None`: 33434 for UDP, 5201 for TCP.
    pub port: Option<u16>,
    pub trace: path::Trace,
    /// Time limit of the whole trace, including alternatives.
    pub most_time: Duration,
}

/// The next action of a state machine, in time since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
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
/// most `most_time`, and ends within 100 ms of `stop`.
///
/// The returned route has no host names and starts at time 0.
///
/// # Errors
/// A missing privilege or route to the destination, or a failing socket. Silence is no error.
pub fn trace(
    asked: &TraceAsked,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&Route),
) -> Result<Route, PathError> {
    let begin = Instant::now();
    let mut run = Run {
        prober: HopProber::new(asked)?,
        asked,
        stop,
        begin,
        watched: None,
    };
    let mut tracer = Tracer::new(&asked.trace, asked.destination, asked.most_time);
    run.hops(&mut tracer, watch)?;
    let mut route = run.route(&tracer);
    if let Some(confidence) = asked.trace.confidence_ratio
        && run.prober.varies_flows()
    {
        let known: Vec<Option<IpAddr>> = tracer.path();
        let mut alternatives =
            Alternatives::new(confidence, asked.destination, &known, asked.most_time);
        run.alternatives(&mut alternatives)?;
        add(&mut route, &alternatives);
    }
    route.probes_sent = run.prober.sent();
    route.discarded = run.prober.discarded();
    route.duration_us = begin.elapsed().as_micros() as u64;
    watch(&route);
    Ok(route)
}

/// A trace in progress.
struct Run<'a> {
    prober: HopProber,
    asked: &'a TraceAsked,
    stop: &'a AtomicBool,
    begin: Instant,
    watched: Option<Instant>,
}

impl Run<'_> {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Returns the next answer before `until`; returns early enough to notice a stop.
    fn answer(&mut self, until: Duration) -> Result<Option<HopEcho>, PathError> {
        let until = (self.begin + until).min(Instant::now() + STOP_LOOK);
        self.prober.poll(until)
    }

    fn hops(
        &mut self,
        tracer: &mut Tracer,
        watch: &mut dyn FnMut(&Route),
    ) -> Result<(), PathError> {
        while !self.stopped() {
            match tracer.next(self.begin.elapsed()) {
                Step::Done => break,
                Step::Send { ttl, .. } => {
                    let number = self.prober.send(ttl)?;
                    tracer.sent(number, ttl, self.begin.elapsed());
                }
                Step::Wait(until) => {
                    if let Some(echo) = self.answer(until)? {
                        tracer.heard(&echo);
                        self.show(tracer, watch);
                    }
                    if self.prober.unplaced() > 0 {
                        tracer.one_at_a_time();
                    }
                }
            }
        }
        Ok(())
    }

    fn alternatives(&mut self, alternatives: &mut Alternatives) -> Result<(), PathError> {
        while !self.stopped() {
            match alternatives.next(self.begin.elapsed()) {
                Step::Done => break,
                Step::Send { ttl, flow } => {
                    let number = self.prober.send_flow(flow, ttl)?;
                    alternatives.sent(number, ttl, flow, self.begin.elapsed());
                }
                Step::Wait(until) => {
                    if let Some(echo) = self.answer(until)? {
                        alternatives.heard(echo.number, echo.address, echo.rtt);
                    }
                }
            }
        }
        Ok(())
    }

    fn show(&mut self, tracer: &Tracer, watch: &mut dyn FnMut(&Route)) {
        if self.watched.is_none_or(|at| at.elapsed() >= WATCH_EVERY) {
            self.watched = Some(Instant::now());
            watch(&self.route(tracer));
        }
    }

    fn route(&self, tracer: &Tracer) -> Route {
        let flow = self.prober.flow();
        let seen = tracer.seen();
        Route {
            from: flow.source.to_string(),
            to: flow.destination.to_string(),
            protocol: self.asked.protocol,
            flow: flow.words(),
            at_us: 0,
            duration_us: self.begin.elapsed().as_micros() as u64,
            hops: seen.hops,
            reached: seen.reached,
            ended_by: seen.ended_by.to_owned(),
            links: Vec::new(),
            confidence_ratio: None,
            probes_sent: self.prober.sent(),
            discarded: self.prober.discarded(),
        }
    }
}

/// Adds the results of other flows to the hops of the trace's own flow.
fn add(route: &mut Route, found: &Alternatives) {
    let known: Vec<Answer> = route
        .hops
        .iter()
        .flat_map(|hop| hop.answers.clone())
        .collect();
    for (ttl, address) in found.addresses() {
        let Some(hop) = route.hops.get_mut(usize::from(ttl) - 1) else {
            continue;
        };
        let address = address.to_string();
        if hop.answers.iter().all(|answer| answer.address != address) {
            // The destination may have fewer hops on another route.
            let same = known.iter().find(|answer| answer.address == address);
            let exceeded = || Kind::TimeExceeded.word().to_owned();
            hop.answers.push(Answer {
                kind: same.map_or_else(exceeded, |answer| answer.kind.clone()),
                address,
                name: None,
                autonomous_system: None,
                place: None,
                rtts_ns: Vec::new(),
                reply_ttl: None,
                quoted_ttl: None,
                mpls: Vec::new(),
                rewritten: Vec::new(),
            });
        }
    }
    route.links = found.links();
    route.confidence_ratio = Some(found.confidence_ratio());
}

#[cfg(test)]
mod tests;
