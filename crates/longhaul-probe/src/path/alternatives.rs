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
//! Bounds: [`MOST_FLOWS`] flows, [`ATTEMPTS`] probes for each flow and hop, [`WINDOW`] outstanding
//! probes, and the given time. Reaching a bound lowers the achieved confidence.

use super::trace::Step;
use longhaul_model::report::v1::path::Link;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

/// The maximum number of flows, including the trace's own.
pub const MOST_FLOWS: u16 = 255;
/// Probes of one flow to one hop before it counts as silent.
const ATTEMPTS: u8 = 3;
/// The maximum number of outstanding probes.
const WINDOW: usize = 12;
/// Interval between two probes to one hop; doubled up to the maximum when it stops answering.
const LEAST_GAP: Duration = Duration::from_millis(20);
const MOST_GAP: Duration = Duration::from_millis(1000);
/// A probe is lost after this time, or after three times the longest round trip.
const LEAST_PATIENCE: Duration = Duration::from_millis(300);
const PATIENCE_AT_FIRST: Duration = Duration::from_millis(1000);
/// Upper bound of the number of flows at a stopping point.
const MOST_NEEDED: u32 = 4096;

/// Consecutive unanswered flows after which a hop is no longer probed.
const MOST_SILENT: u32 = 6;

/// Position of a flow at one hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Not known yet, after this many unanswered probes.
    Unknown(u8),
    Silent,
    At(IpAddr),
}

#[derive(Debug, Clone, Copy)]
struct Flying {
    number: u16,
    ttl: u8,
    flow: u16,
    at: Duration,
}

/// Rate limit of probes to one hop.
#[derive(Debug, Clone, Copy)]
struct Pace {
    gap: Duration,
    last: Option<Duration>,
    /// Consecutive unanswered flows since the last answer.
    silent: u32,
}

/// A search for alternative next hops, as plain data.
pub struct Alternatives {
    confidence: f64,
    destination: IpAddr,
    most_time: Duration,
    /// By hop (from 0) and flow.
    places: Vec<Vec<Place>>,
    /// Hops that did not answer the trace; no flow is sent to them.
    silent: Vec<bool>,
    flying: Vec<Flying>,
    paces: Vec<Pace>,
    slowest: Option<Duration>,
}

impl Alternatives {
    /// Starts with `known`, the address of each hop of flow 0. Limits the confidence to 0.5 to
    /// 0.999.
    pub fn new(
        confidence: f64,
        destination: IpAddr,
        known: &[Option<IpAddr>],
        most_time: Duration,
    ) -> Alternatives {
        let places = |address: &Option<IpAddr>| {
            let mut places = vec![Place::Unknown(0); usize::from(MOST_FLOWS)];
            places[0] = address.map_or(Place::Silent, Place::At);
            places
        };
        let pace = Pace {
            gap: LEAST_GAP,
            last: None,
            silent: 0,
        };
        Alternatives {
            confidence: confidence.clamp(0.5, 0.999),
            destination,
            most_time,
            places: known.iter().map(places).collect(),
            silent: known.iter().map(Option::is_none).collect(),
            flying: Vec::new(),
            paces: vec![pace; known.len()],
            slowest: None,
        }
    }

    /// Returns the action due at `now`.
    pub(super) fn next(&mut self, now: Duration) -> Step {
        if now >= self.most_time {
            return Step::Done;
        }
        self.expire(now);
        let wanted = self.wanted();
        if self.flying.len() < WINDOW {
            let ready = wanted.iter().find(|(ttl, _)| now >= self.ready(*ttl));
            if let Some((ttl, flow)) = ready {
                return Step::Send {
                    ttl: *ttl,
                    flow: *flow,
                };
            }
        }
        let of_hops = wanted.iter().map(|(ttl, _)| self.ready(*ttl));
        let of_probes = self.flying.iter().map(|probe| probe.at + self.patience());
        match of_hops.filter(|at| *at > now).chain(of_probes).min() {
            Some(at) => Step::Wait(at.min(self.most_time)),
            None => Step::Done,
        }
    }

    pub(super) fn sent(&mut self, number: u16, ttl: u8, flow: u16, now: Duration) {
        self.paces[usize::from(ttl) - 1].last = Some(now);
        self.flying.push(Flying {
            number,
            ttl,
            flow,
            at: now,
        });
    }

    /// Records the answer to probe `number`; ignores it if the probe is no longer outstanding.
    pub(super) fn heard(&mut self, number: u16, address: IpAddr, rtt: Duration) {
        let Some(at) = self.flying.iter().position(|f| f.number == number) else {
            return;
        };
        let probe = self.flying.swap_remove(at);
        self.slowest = self.slowest.max(Some(rtt));
        let hop = usize::from(probe.ttl) - 1;
        self.paces[hop].silent = 0;
        self.places[hop][usize::from(probe.flow)] = Place::At(address);
    }

    fn patience(&self) -> Duration {
        self.slowest
            .map_or(PATIENCE_AT_FIRST, |rtt| (rtt * 3).max(LEAST_PATIENCE))
    }

    fn ready(&self, ttl: u8) -> Duration {
        let pace = self.paces[usize::from(ttl) - 1];
        pace.last.map_or(Duration::ZERO, |last| last + pace.gap)
    }

    fn expire(&mut self, now: Duration) {
        let patience = self.patience();
        let (lost, flying) = self
            .flying
            .iter()
            .partition(|probe| now >= probe.at + patience);
        self.flying = flying;
        for Flying { ttl, flow, .. } in lost {
            let hop = usize::from(ttl) - 1;
            // The hop has answered before, so the probes may exceed its rate limit.
            let pace = &mut self.paces[hop];
            pace.gap = (pace.gap * 2).min(MOST_GAP);
            let place = &mut self.places[hop][usize::from(flow)];
            match place {
                Place::Unknown(lost) if *lost + 1 < ATTEMPTS => *lost += 1,
                _ => {
                    *place = Place::Silent;
                    pace.silent += 1;
                }
            }
        }
    }

    /// Returns the position of a flow at a hop (from 0) once it is settled.
    fn place(&self, hop: usize, flow: u16) -> Option<Place> {
        if self.silent[hop] {
            return Some(Place::Silent);
        }
        let place = self.places[hop][usize::from(flow)];
        Some(place).filter(|place| !matches!(place, Place::Unknown(_)))
    }

    fn is_flying(&self, ttl: u8, flow: u16) -> bool {
        let same = |probe: &Flying| (probe.ttl, probe.flow) == (ttl, flow);
        self.flying.iter().any(same)
    }

    /// Returns the probes that routers still need, nearest first: at most one for each router.
    fn wanted(&self) -> Vec<(u8, u16)> {
        let share = self.share();
        let mut wanted = Vec::new();
        for hop in 0..self.places.len() {
            if self.silent[hop] || self.is_tired(hop) {
                continue;
            }
            for router in self.routers_before(hop) {
                let (flows, next_hops) = self.tried(hop, router);
                let flows = flows + self.under_way(hop, router);
                let needed = needed(next_hops.max(1), share);
                if flows < needed {
                    wanted.extend(self.probe_for(hop, router, needed - flows));
                }
            }
        }
        wanted
    }

    /// Returns whether a hop has stopped answering and is no longer probed.
    fn is_tired(&self, hop: usize) -> bool {
        self.paces[hop].silent >= MOST_SILENT
    }

    /// Counts the outstanding flows from `router` to this hop.
    fn under_way(&self, hop: usize, router: Option<Place>) -> u32 {
        let here = |probe: &&Flying| {
            usize::from(probe.ttl) == hop + 1 && self.passes(hop, router, probe.flow)
        };
        self.flying.iter().filter(here).count() as u32
    }

    /// Returns the failure probability of each balancer that keeps the total confidence.
    fn share(&self) -> f64 {
        let balancers = self.nodes().filter(|(_, _, next)| *next > 1).count();
        1.0 - self.confidence.powf(1.0 / balancers.max(1) as f64)
    }

    /// Returns the origins of flows to this hop: routers of the previous hop, or this host.
    fn routers_before(&self, hop: usize) -> Vec<Option<Place>> {
        let Some(before) = hop.checked_sub(1) else {
            return vec![None];
        };
        if self.silent[before] {
            return vec![Some(Place::Silent)];
        }
        let mut routers = Vec::new();
        for place in &self.places[before] {
            let goes_on = match place {
                Place::At(address) => *address != self.destination,
                Place::Silent | Place::Unknown(_) => false,
            };
            if goes_on && !routers.contains(&Some(*place)) {
                routers.push(Some(*place));
            }
        }
        routers
    }

    fn passes(&self, hop: usize, router: Option<Place>, flow: u16) -> bool {
        match hop.checked_sub(1) {
            None => true,
            Some(before) => self.place(before, flow) == router,
        }
    }

    /// Returns the number of flows from `router` that this hop answered, and of the next hops
    /// found.
    fn tried(&self, hop: usize, router: Option<Place>) -> (u32, usize) {
        let mut found = BTreeSet::new();
        let mut flows = 0;
        for (place, flow) in self.places[hop].iter().zip(0..) {
            if let Place::At(address) = place
                && self.passes(hop, router, flow)
            {
                flows += 1;
                found.insert(*address);
            }
        }
        (flows, found.len())
    }

    /// Returns the next useful probe for a router: a flow that passes it, one hop further; or a new
    /// flow to its own hop, to see whether it passes, unless as many as are lacking are already
    /// outstanding there.
    fn probe_for(&self, hop: usize, router: Option<Place>, lacking: u32) -> Option<(u8, u16)> {
        let ttl = hop as u8 + 1;
        let open = |flow: &u16| self.place(hop, *flow).is_none() && !self.is_flying(ttl, *flow);
        let mut flows = 0..MOST_FLOWS;
        if let Some(flow) = flows.find(|flow| open(flow) && self.passes(hop, router, *flow)) {
            return Some((ttl, flow));
        }
        let usable = |before: &usize| !self.silent[*before] && !self.is_tired(*before);
        let before = hop.checked_sub(1).filter(usable)?;
        let coming = self.flying.iter().filter(|probe| probe.ttl == ttl - 1);
        if coming.count() >= lacking as usize {
            return None;
        }
        let unknown =
            |flow: &u16| self.place(before, *flow).is_none() && !self.is_flying(ttl - 1, *flow);
        (0..MOST_FLOWS).find(unknown).map(|flow| (ttl - 1, flow))
    }

    /// Iterates over every router with the flows and next hops found behind it.
    fn nodes(&self) -> impl Iterator<Item = (usize, u32, usize)> {
        let hops = (0..self.places.len()).filter(|hop| !self.silent[*hop]);
        hops.flat_map(move |hop| {
            let routers = self.routers_before(hop);
            routers.into_iter().map(move |router| {
                let (flows, next_hops) = self.tried(hop, router);
                (hop, flows, next_hops)
            })
        })
    }

    /// Returns the addresses of every hop, by TTL.
    pub(super) fn addresses(&self) -> BTreeSet<(u8, IpAddr)> {
        let hops = self.places.iter().zip(1_u8..);
        hops.flat_map(|(places, ttl)| {
            places.iter().filter_map(move |place| match place {
                Place::At(address) => Some((ttl, *address)),
                Place::Silent | Place::Unknown(_) => None,
            })
        })
        .collect()
    }

    /// Returns the links between answering neighbours, with their flow counts.
    pub(super) fn links(&self) -> Vec<Link> {
        let mut counted: BTreeMap<(u8, IpAddr, IpAddr), u32> = BTreeMap::new();
        for (pair, ttl) in self.places.windows(2).zip(1_u8..) {
            for places in pair[0].iter().zip(&pair[1]) {
                if let (Place::At(from), Place::At(to)) = places
                    && *from != self.destination
                {
                    *counted.entry((ttl, *from, *to)).or_default() += 1;
                }
            }
        }
        let link = |((ttl, from, to), flows): ((u8, IpAddr, IpAddr), u32)| Link {
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
        for (_, flows, next_hops) in self.nodes() {
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
fn needed(seen: usize, failure: f64) -> u32 {
    // Each flow reveals at most one next hop.
    let from = seen as u32 + 1;
    let enough = |flows: &u32| miss_ratio(seen + 1, *flows) <= failure;
    (from..MOST_NEEDED).find(enough).unwrap_or(MOST_NEEDED)
}

#[cfg(test)]
mod tests;
