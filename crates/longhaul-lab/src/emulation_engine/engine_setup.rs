//! Builds the engine's stations and chains from the description of a path.

use super::cross_source::CrossContext;
use super::emulated_link::{EmulatedLink, to_virtual_nanos};
use super::emulated_router::EmulatedRouter;
use super::event_queue::EventQueue;
use super::ground_truth::PathTotals;
use super::lab_addresses::{assign_router_addresses, list_routes};
use super::link_chain::{LinkChain, PlainLinkCounts, TransitTime};
use super::pooled_packet::PacketPool;
use super::seeded_random::SeededRandom;
use super::{
    EmulationEngine, InterruptBatch, LabHost, Nanos, PlannedEvent, QueueStation, ResolvedChange,
    middlebox,
};
use crate::path_spec;
use crate::path_spec::{ChangeSpec, HopSpec, LinkPlace, LinkSpec, OptionRewrite, PathSpec};
use longhaul_model::units::Rate;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// The minimum RTT of a TCP flow in cross traffic.
const MIN_CROSS_RTT: Nanos = 10_000_000;

impl EmulationEngine {
    /// Builds the path `path_spec` at time `start`, which is the path's own time `begin_at`.
    pub fn new(spec: &PathSpec, start: Nanos) -> EmulationEngine {
        let names: Vec<&str> = list_routes(spec).map(|(name, _)| name).collect();
        let mut laying = EngineBuilder { spec, start, chains: vec![], stations: vec![] };
        let mut routers = vec![];
        let mut node_names = vec![];
        for ((route, (name, hops)), addresses) in
            list_routes(spec).enumerate().zip(assign_router_addresses(spec))
        {
            laying.add_chain(route, name, LabHost::Near, hops);
            laying.add_chain(route, name, LabHost::Far, hops);
            let hop_names = hops.iter().map(|hop| hop.name.clone()).collect();
            node_names.push((name.to_owned(), hop_names));
            let numbered = hops.iter().zip(addresses).enumerate();
            let built = numbered.map(|(k, (hop, address))| {
                // Distinct from the random streams of links, whose numbers are below 2^32.
                let random = SeededRandom::new(spec.seed, (1 << 32) | (route << 16 | k) as u64);
                EmulatedRouter::new(hop, address, random, start)
            });
            routers.push(built.collect());
        }
        let planned = plan_events(spec, &names, &laying);
        let EngineBuilder { chains, stations, .. } = laying;
        let mut engine = EmulationEngine {
            start,
            begin_at: spec.begin_at,
            node_names,
            chains,
            event_queue: EventQueue::with_sources(stations.len() * 2),
            stations,
            routers,
            active_route: 0,
            detached_units: BTreeMap::new(),
            serial: 0,
            planned_events: planned,
            past_events: vec![],
            packets: PacketPool::new(),
            departed: vec![],
            scratch: Vec::with_capacity(256),
            ethernet: None,
            totals: PathTotals::default(),
        };
        for (index, station) in engine.stations.iter().enumerate() {
            let due = station.link.as_ref().and_then(|link| link.due());
            engine.event_queue.set(index as u32 * 2 + 1, due);
        }
        engine
    }
}

struct EngineBuilder<'a> {
    spec: &'a PathSpec,
    start: Nanos,
    chains: Vec<LinkChain>,
    stations: Vec<QueueStation>,
}

impl EngineBuilder<'_> {
    /// Adds the chain of one route from one host, and its stations.
    fn add_chain(&mut self, route: usize, name: &str, from: LabHost, hops: &[HopSpec]) {
        let chain = self.chains.len();
        let rtt = compute_cross_rtt(hops);
        let is_forward = from == LabHost::Near;
        let directed = list_directed_hops(hops, from).into_iter();
        let specs: Vec<LinkSpec> =
            directed.map(|hop| path_spec::link_in_direction(hop, is_forward).clone()).collect();
        let mut travel = vec![TransitTime::default()];
        let mut at_station = vec![];
        let mut pace = None;
        for (position, link) in specs.iter().enumerate() {
            let hop = if is_forward { position } else { hops.len() - 1 - position };
            let changes = self.is_changed(name, hop, is_forward);
            let is_station = changes || !self.is_plain(link) || !never_queues(link, pace);
            pace = if changes { None } else { find_pace_behind(link, pace) };
            let before = travel[position];
            travel.push(if is_station { before } else { before.with_link(link) });
            at_station.push(is_station);
            if is_station {
                let context = CrossContext { mtu: link.mtu.unwrap_or(self.spec.mtu), rtt };
                let random = SeededRandom::new(self.spec.seed, (chain << 16 | position) as u64);
                let link = EmulatedLink::new(link, context, random, self.start);
                self.add_station(chain, position, Some(Box::new(link)), None);
            }
        }
        let batch = InterruptBatch::new(self.spec.host(from.other()).batch);
        self.add_station(chain, hops.len(), None, batch);
        let mut next = self.stations.len() as u32 - 1;
        let mut next_station = vec![next; hops.len() + 1];
        for position in (0..hops.len()).rev() {
            next -= u32::from(at_station[position]);
            next_station[position] = next;
        }
        self.chains.push(LinkChain {
            route,
            from,
            links: hops.len(),
            next_station,
            transit_times: travel,
            specs,
            plain_counts: vec![PlainLinkCounts::default(); hops.len()],
            rewrites: collect_rewrites(hops, from),
        });
    }

    fn add_station(
        &mut self,
        chain: usize,
        position: usize,
        link: Option<Box<EmulatedLink>>,
        batch: Option<Box<InterruptBatch>>,
    ) {
        self.stations.push(QueueStation {
            chain: chain as u16,
            position: position as u16,
            inbox: VecDeque::new(),
            last_due: 0,
            link,
            batch,
        });
    }

    /// Reports whether an event changes this direction of this link.
    fn is_changed(&self, route: &str, hop: usize, forward: bool) -> bool {
        let place = LinkPlace { route: route.to_owned(), hop, forward };
        self.spec.events.iter().any(|event| {
            matches!(&event.change, ChangeSpec::Link { place: changed, .. } if *changed == place)
        })
    }

    /// Reports whether a link only delays packets if it has no queue.
    fn is_plain(&self, link: &LinkSpec) -> bool {
        link.jitter.is_zero()
            && link.loss <= 0.0
            && link.reorder.is_none()
            && link.policer.is_none()
            && link.shaper.is_none()
            && link.cross.is_none()
            && link.mtu.is_none_or(|mtu| mtu >= self.spec.mtu)
            && (link.rate.is_none()
                || link.queue.is_none_or(|queue| queue.0 >= u64::from(self.spec.mtu)))
    }
}

fn compute_cross_rtt(hops: &[HopSpec]) -> Nanos {
    let delays = hops.iter().flat_map(|hop| [hop.forward.delay, hop.reverse.delay]);
    to_virtual_nanos(delays.sum::<Duration>()).max(MIN_CROSS_RTT)
}

/// Returns the hops whose links packets from `from` cross, in that order.
fn list_directed_hops(hops: &[HopSpec], from: LabHost) -> Vec<&HopSpec> {
    match from {
        LabHost::Near => hops.iter().collect(),
        LabHost::Far => hops.iter().rev().collect(),
    }
}

/// Returns the TCP option rewrites of the routers before each link of a direction; empty if no
/// router rewrites.
fn collect_rewrites(hops: &[HopSpec], from: LabHost) -> Vec<OptionRewrite> {
    let none = OptionRewrite::default();
    let routers = list_directed_hops(&hops[..hops.len() - 1], from);
    if routers.iter().all(|hop| hop.rewrite == none) {
        return vec![];
    }
    let combined = routers.iter().scan(none, |before, hop| {
        *before = middlebox::combine_rewrites(*before, hop.rewrite);
        Some(*before)
    });
    std::iter::once(none).chain(combined).collect()
}

/// An upper bound of the traffic: it has crossed a wire of this rate and overhead.
#[derive(Clone, Copy)]
struct TrafficPace {
    rate: Rate,
    overhead: u32,
}

/// Reports whether traffic of this pace never queues at the link.
fn never_queues(link: &LinkSpec, pace: Option<TrafficPace>) -> bool {
    link.rate.is_none_or(|rate| {
        pace.is_some_and(|pace| rate >= pace.rate && link.overhead <= pace.overhead)
    })
}

/// Returns the pace behind a link. Jitter and reordering bunch packets, so there is none behind
/// them.
fn find_pace_behind(link: &LinkSpec, before: Option<TrafficPace>) -> Option<TrafficPace> {
    if !link.jitter.is_zero() || link.reorder.is_some() {
        return None;
    }
    let own = link.rate.into_iter().chain(link.shaper.map(|shaper| shaper.peak)).min();
    let own = own.map(|rate| TrafficPace { rate, overhead: link.overhead });
    match (before, own) {
        (Some(before), Some(own)) if own.rate >= before.rate && own.overhead <= before.overhead => {
            Some(before)
        }
        (_, Some(own)) => Some(own),
        (before, None) => before,
    }
}

/// Returns the events in time order. Events with an unresolved reference are left out, but
/// [`PathSpec`] promises that there are none.
fn plan_events(spec: &PathSpec, names: &[&str], builder: &EngineBuilder) -> VecDeque<PlannedEvent> {
    let mut all: Vec<PlannedEvent> = spec
        .events
        .iter()
        .filter_map(|event| {
            let (change, text) = resolve_change(&event.change, names, builder)?;
            // Events from before the path began are applied before its first packet.
            let after = event.at.saturating_sub(spec.begin_at);
            Some(PlannedEvent {
                at: builder.start.saturating_add(to_virtual_nanos(after)),
                path_time: event.at,
                change,
                text,
            })
        })
        .collect();
    all.sort_by_key(|planned| planned.at);
    all.into()
}

fn resolve_change(
    change: &ChangeSpec,
    names: &[&str],
    builder: &EngineBuilder,
) -> Option<(ResolvedChange, String)> {
    let numbered = |route: &str| names.iter().position(|name| *name == route);
    match change {
        ChangeSpec::Route(route) => {
            Some((ResolvedChange::Route(numbered(route)?), format!("route {route}")))
        }
        ChangeSpec::Link { place: LinkPlace { route, hop, forward }, to } => {
            let chain = 2 * numbered(route)? + usize::from(!forward);
            let links = builder.chains.get(chain)?.links;
            let position = if *forward { *hop } else { links.checked_sub(hop + 1)? };
            let station = builder.stations.iter().position(|station| {
                usize::from(station.chain) == chain && usize::from(station.position) == position
            })?;
            let direction = if *forward { "forward" } else { "reverse" };
            let text = format!("route {route}, link to hop {}, {direction}", hop + 1);
            let change = ResolvedChange::Link { station: station as u32, to: to.clone() };
            Some((change, text))
        }
    }
}
