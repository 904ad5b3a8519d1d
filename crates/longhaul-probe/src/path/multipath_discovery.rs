//! Finds all next hops of per-flow load balancers: the multipath detection algorithm of Augustin,
//! Friedman and Teixeira (E2EMON 2007), as a state machine without I/O.
//!
//! For every router found, flows that pass it are sent one hop further until their number would
//! have revealed one more next hop if it existed: n(k), with k found. Flows whose path to the
//! router is not known are first probed at the router's own hop. The path of every flow is stored,
//! so that it counts for all routers on it.
//!
//! n(k) is computed, not tabulated: of K = k + 1 next hops that get flows evenly, n flows leave at
//! least one undiscovered with the probability of [`miss_ratio`]. The requested confidence is for
//! the whole route; it is divided among the balancers found. Balancers with uneven shares need more
//! flows than this uses, and are the error of the method.
//!
//! Bounds: [`MAX_FLOWS`] flows, [`ATTEMPTS`] probes for each flow and hop, [`WINDOW`] outstanding
//! probes, and the given time. Reaching a bound lowers the achieved confidence.

use super::route_trace::TraceStep;
use longhaul_model::report::v1::path::HopLink;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

/// The maximum number of flows, including the trace's own.
pub const MAX_FLOWS: u16 = 255;
/// Probes of one flow to one hop before it counts as silent.
const ATTEMPTS: u8 = 3;
/// The maximum number of outstanding probes.
const WINDOW: usize = 12;
/// Interval between two probes to one hop; doubled up to the maximum when it stops answering.
const MIN_GAP: Duration = Duration::from_millis(20);
const MAX_GAP: Duration = Duration::from_millis(1000);
/// A probe is lost after this time, or after three times the longest round trip.
const MIN_REPLY_TIMEOUT: Duration = Duration::from_millis(300);
const INITIAL_REPLY_TIMEOUT: Duration = Duration::from_millis(1000);
/// Upper bound of the number of flows at a stopping point.
const MAX_FLOWS_NEEDED: u32 = 4096;

/// Consecutive unanswered flows after which a hop is no longer probed.
const MAX_SILENT_FLOWS: u32 = 6;

/// Position of a flow at one hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FlowPosition {
    /// Not known yet, after this many unanswered probes.
    Unknown(u8),
    Silent,
    At(IpAddr),
}

#[derive(Debug, Clone, Copy)]
struct OutstandingFlowProbe {
    number: u16,
    ttl: u8,
    flow: u16,
    at: Duration,
}

/// The known next hops of a router.
struct RouterCoverage {
    /// The hop after the router, from 0.
    hop: usize,
    /// The router; `None` for this host.
    place: Option<FlowPosition>,
    flows: u32,
    next_hops: usize,
}

/// Rate limit of probes to one hop.
#[derive(Debug, Clone, Copy)]
struct HopPacing {
    gap: Duration,
    last: Option<Duration>,
    /// Consecutive unanswered flows since the last answer.
    silent: u32,
}

/// A search for alternative next hops, as plain data.
pub struct MultipathDiscovery {
    confidence: f64,
    destination: IpAddr,
    max_time: Duration,
    /// By hop (from 0) and flow.
    positions: Vec<Vec<FlowPosition>>,
    outstanding: Vec<OutstandingFlowProbe>,
    pacing: Vec<HopPacing>,
    max_rtt: Option<Duration>,
}

impl MultipathDiscovery {
    /// Starts with `known`, the address of each hop of flow 0. Limits the confidence to 0.5 to
    /// 0.999.
    pub fn new(
        confidence: f64,
        destination: IpAddr,
        known: &[Option<IpAddr>],
        most_time: Duration,
    ) -> MultipathDiscovery {
        let places = |address: &Option<IpAddr>| {
            let mut places = vec![FlowPosition::Unknown(0); usize::from(MAX_FLOWS)];
            places[0] = address.map_or(FlowPosition::Silent, FlowPosition::At);
            places
        };
        let pace = HopPacing { gap: MIN_GAP, last: None, silent: 0 };
        MultipathDiscovery {
            confidence: confidence.clamp(0.5, 0.999),
            destination,
            max_time: most_time,
            positions: known.iter().map(places).collect(),
            outstanding: Vec::new(),
            pacing: vec![pace; known.len()],
            max_rtt: None,
        }
    }

    /// Returns the action due at `now`.
    pub(super) fn next_step(&mut self, now: Duration) -> TraceStep {
        if now >= self.max_time {
            return TraceStep::Done;
        }
        self.expire_probes(now);
        let wanted = self.needed_probes();
        if self.outstanding.len() < WINDOW {
            let ready = wanted.iter().find(|(ttl, _)| now >= self.next_allowed(*ttl));
            if let Some((ttl, flow)) = ready {
                return TraceStep::Send { ttl: *ttl, flow: *flow };
            }
        }
        let of_hops = wanted.iter().map(|(ttl, _)| self.next_allowed(*ttl));
        let of_probes = self.outstanding.iter().map(|probe| probe.at + self.reply_timeout());
        match of_hops.filter(|at| *at > now).chain(of_probes).min() {
            Some(at) => TraceStep::Wait(at.min(self.max_time)),
            None => TraceStep::Done,
        }
    }

    pub(super) fn record_sent(&mut self, number: u16, ttl: u8, flow: u16, now: Duration) {
        self.pacing[usize::from(ttl) - 1].last = Some(now);
        self.outstanding.push(OutstandingFlowProbe { number, ttl, flow, at: now });
    }

    /// Records the answer to probe `number`; ignores it if the probe is no longer outstanding.
    pub(super) fn record_reply(&mut self, number: u16, address: IpAddr, rtt: Duration) {
        let Some(at) = self.outstanding.iter().position(|f| f.number == number) else {
            return;
        };
        let probe = self.outstanding.swap_remove(at);
        self.max_rtt = self.max_rtt.max(Some(rtt));
        let hop = usize::from(probe.ttl) - 1;
        self.pacing[hop].silent = 0;
        self.positions[hop][usize::from(probe.flow)] = FlowPosition::At(address);
    }

    fn reply_timeout(&self) -> Duration {
        self.max_rtt.map_or(INITIAL_REPLY_TIMEOUT, |rtt| (rtt * 3).max(MIN_REPLY_TIMEOUT))
    }

    fn next_allowed(&self, ttl: u8) -> Duration {
        let pace = self.pacing[usize::from(ttl) - 1];
        pace.last.map_or(Duration::ZERO, |last| last + pace.gap)
    }

    fn expire_probes(&mut self, now: Duration) {
        let patience = self.reply_timeout();
        let (lost, flying) = self.outstanding.iter().partition(|probe| now >= probe.at + patience);
        self.outstanding = flying;
        for OutstandingFlowProbe { ttl, flow, .. } in lost {
            let hop = usize::from(ttl) - 1;
            // The hop has answered before, so the probes may exceed its rate limit.
            let pace = &mut self.pacing[hop];
            pace.gap = (pace.gap * 2).min(MAX_GAP);
            let place = &mut self.positions[hop][usize::from(flow)];
            match place {
                FlowPosition::Unknown(lost) if *lost + 1 < ATTEMPTS => *lost += 1,
                _ => {
                    *place = FlowPosition::Silent;
                    pace.silent += 1;
                }
            }
        }
    }

    /// Returns whether a hop (from 0) did not answer the trace; no flow is sent to it.
    fn is_silent(&self, hop: usize) -> bool {
        self.positions[hop][0] == FlowPosition::Silent
    }

    /// Returns the position of a flow at a hop (from 0) once it is settled.
    fn settled_position(&self, hop: usize, flow: u16) -> Option<FlowPosition> {
        if self.is_silent(hop) {
            return Some(FlowPosition::Silent);
        }
        let place = self.positions[hop][usize::from(flow)];
        Some(place).filter(|place| !matches!(place, FlowPosition::Unknown(_)))
    }

    fn is_outstanding(&self, ttl: u8, flow: u16) -> bool {
        let same = |probe: &OutstandingFlowProbe| (probe.ttl, probe.flow) == (ttl, flow);
        self.outstanding.iter().any(same)
    }

    /// Returns the probes that routers still need, nearest first: at most one for each router.
    fn needed_probes(&self) -> Vec<(u8, u16)> {
        let covered = self.router_coverage();
        let balancers = covered.iter().filter(|router| router.next_hops > 1).count();
        // The failure probability of each balancer that keeps the total confidence.
        let share = 1.0 - self.confidence.powf(1.0 / balancers.max(1) as f64);
        let responsive = covered.into_iter().filter(|router| !self.is_unresponsive(router.hop));
        let probe = |router: RouterCoverage| {
            let flows = router.flows + self.outstanding_flows(router.hop, router.place);
            let lacking = flows_needed(router.next_hops.max(1), share).checked_sub(flows)?;
            self.probe_for(router.hop, router.place, lacking).filter(|_| lacking > 0)
        };
        responsive.filter_map(probe).collect()
    }

    /// Returns whether a hop has stopped answering and is no longer probed.
    fn is_unresponsive(&self, hop: usize) -> bool {
        self.pacing[hop].silent >= MAX_SILENT_FLOWS
    }

    /// Counts the outstanding flows from `router` to this hop.
    fn outstanding_flows(&self, hop: usize, router: Option<FlowPosition>) -> u32 {
        let here = |probe: &&OutstandingFlowProbe| {
            usize::from(probe.ttl) == hop + 1 && self.flow_passes(hop, router, probe.flow)
        };
        self.outstanding.iter().filter(here).count() as u32
    }

    /// Returns the origins of flows to this hop: routers of the previous hop, or this host.
    fn routers_before(&self, hop: usize) -> Vec<Option<FlowPosition>> {
        let Some(before) = hop.checked_sub(1) else {
            return vec![None];
        };
        if self.is_silent(before) {
            return vec![Some(FlowPosition::Silent)];
        }
        let mut routers = Vec::new();
        for place in &self.positions[before] {
            let goes_on = match place {
                FlowPosition::At(address) => *address != self.destination,
                FlowPosition::Silent | FlowPosition::Unknown(_) => false,
            };
            if goes_on && !routers.contains(&Some(*place)) {
                routers.push(Some(*place));
            }
        }
        routers
    }

    fn flow_passes(&self, hop: usize, router: Option<FlowPosition>, flow: u16) -> bool {
        match hop.checked_sub(1) {
            None => true,
            Some(before) => self.settled_position(before, flow) == router,
        }
    }

    /// Returns the next useful probe for a router: a flow that passes it, one hop further; or a new
    /// flow to its own hop, to see whether it passes, unless as many as are lacking are already
    /// outstanding there.
    fn probe_for(
        &self,
        hop: usize,
        router: Option<FlowPosition>,
        lacking: u32,
    ) -> Option<(u8, u16)> {
        let ttl = hop as u8 + 1;
        let open = |flow: &u16| {
            self.settled_position(hop, *flow).is_none() && !self.is_outstanding(ttl, *flow)
        };
        let mut flows = 0..MAX_FLOWS;
        if let Some(flow) = flows.find(|flow| open(flow) && self.flow_passes(hop, router, *flow)) {
            return Some((ttl, flow));
        }
        let usable = |before: &usize| !self.is_silent(*before) && !self.is_unresponsive(*before);
        let before = hop.checked_sub(1).filter(usable)?;
        let coming = self.outstanding.iter().filter(|probe| probe.ttl == ttl - 1);
        if coming.count() >= lacking as usize {
            return None;
        }
        let unknown = |flow: &u16| {
            self.settled_position(before, *flow).is_none() && !self.is_outstanding(ttl - 1, *flow)
        };
        (0..MAX_FLOWS).find(unknown).map(|flow| (ttl - 1, flow))
    }

    /// Returns every router, with the flows that the hop after it answered and the next hops found.
    fn router_coverage(&self) -> Vec<RouterCoverage> {
        let hops = (0..self.positions.len()).filter(|hop| !self.is_silent(*hop));
        let routers = hops.flat_map(|hop| {
            let places = self.routers_before(hop).into_iter();
            places.map(move |place| {
                let mut found = BTreeSet::new();
                let mut flows = 0;
                for (next, flow) in self.positions[hop].iter().zip(0..) {
                    if let FlowPosition::At(address) = next
                        && self.flow_passes(hop, place, flow)
                    {
                        flows += 1;
                        found.insert(*address);
                    }
                }
                RouterCoverage { hop, place, flows, next_hops: found.len() }
            })
        });
        routers.collect()
    }

    /// Returns the addresses of every hop, by TTL.
    pub(super) fn addresses(&self) -> BTreeSet<(u8, IpAddr)> {
        let hops = self.positions.iter().zip(1_u8..);
        hops.flat_map(|(places, ttl)| {
            places.iter().filter_map(move |place| match place {
                FlowPosition::At(address) => Some((ttl, *address)),
                FlowPosition::Silent | FlowPosition::Unknown(_) => None,
            })
        })
        .collect()
    }

    /// Returns the links between answering neighbours, with their flow counts.
    pub(super) fn links(&self) -> Vec<HopLink> {
        let mut counted: BTreeMap<(u8, IpAddr, IpAddr), u32> = BTreeMap::new();
        for (pair, ttl) in self.positions.windows(2).zip(1_u8..) {
            for places in pair[0].iter().zip(&pair[1]) {
                if let (FlowPosition::At(from), FlowPosition::At(to)) = places
                    && *from != self.destination
                {
                    *counted.entry((ttl, *from, *to)).or_default() += 1;
                }
            }
        }
        let link = |((ttl, from, to), flows): ((u8, IpAddr, IpAddr), u32)| HopLink {
            ttl,
            from: from.to_string(),
            to: to.to_string(),
            flows,
        };
        counted.into_iter().map(link).collect()
    }

    /// Returns the probability that the flows revealed every next hop of every even balancer: the
    /// product over the balancers found; without one, that of the least probed router.
    pub(super) fn confidence_ratio(&self) -> f64 {
        let mut whole = 1.0;
        let mut least: f64 = 1.0;
        for RouterCoverage { flows, next_hops, .. } in self.router_coverage() {
            let seen = 1.0 - miss_ratio(next_hops.max(1) + 1, flows);
            if next_hops > 1 {
                whole *= seen;
            }
            least = least.min(seen);
        }
        least.min(whole)
    }
}

/// Returns the probability that `flows` flows leave at least one of `next_hops` next hops
/// undiscovered, when each flow takes each with equal chance (inclusion-exclusion).
fn miss_ratio(next_hops: usize, flows: u32) -> f64 {
    let all = next_hops as f64;
    let mut ways = 1.0;
    let mut missed = 0.0;
    for left_out in 1..next_hops {
        let out = left_out as f64;
        ways *= (all - out + 1.0) / out;
        let term = ways * (1.0 - out / all).powi(flows as i32);
        missed += if left_out % 2 == 1 { term } else { -term };
    }
    missed.clamp(0.0, 1.0)
}

/// Returns the stopping point: the flows after which one more next hop than the `seen` ones would
/// have been found, except with probability `failure`.
fn flows_needed(seen: usize, failure: f64) -> u32 {
    // Each flow reveals at most one next hop.
    let from = seen as u32 + 1;
    let enough = |flows: &u32| miss_ratio(seen + 1, *flows) <= failure;
    (from..MAX_FLOWS_NEEDED).find(enough).unwrap_or(MAX_FLOWS_NEEDED)
}

#[cfg(test)]
mod tests;
