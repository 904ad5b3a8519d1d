//! Builds the engine's stations and chains from the description of a path.

use super::address::{RouterAddress, router_addresses, routes};
use super::agenda::Agenda;
use super::batch::Batch;
use super::chain::{Chain, Passed, Travel};
use super::cross::Surroundings;
use super::link::{Link, nanos};
use super::middlebox;
use super::pool::Packets;
use super::random::Random;
use super::router::Router;
use super::truth::Totals;
use super::{Engine, Host, Nanos, Planned, PlannedChange, Station};
use crate::spec::{Change, HopSpec, LinkSpec, PathSpec, Rewrite};
use longhaul_model::units::Rate;
use std::collections::{BinaryHeap, HashSet, VecDeque};
use std::time::Duration;

/// The minimum RTT of a TCP flow in cross traffic.
const LEAST_CROSS_RTT: Nanos = 10_000_000;

/// Identifies one direction of one link: route, hop, whether forward.
type LinkKey = (usize, usize, bool);

impl Engine {
    /// Builds the path `spec` at time `start`, which is the path's own time `begin_at`.
    pub fn new(spec: &PathSpec, start: Nanos) -> Engine {
        let names: Vec<&str> = routes(spec).map(|(name, _)| name).collect();
        let changing = changing_links(spec, &names);
        let mut laying = Laying {
            spec,
            start,
            changing,
            chains: vec![],
            stations: vec![],
        };
        let mut hop_names = vec![];
        let mut routers = vec![];
        for ((route, (_, hops)), addresses) in routes(spec).enumerate().zip(router_addresses(spec))
        {
            laying.lay(route, Host::Near, hops);
            laying.lay(route, Host::Far, hops);
            hop_names.push(hops.iter().map(|hop| hop.name.clone()).collect());
            routers.push(route_routers(hops, &addresses, (route, spec.seed), start));
        }
        let planned = planned(spec, &names, &laying);
        let Laying {
            chains, stations, ..
        } = laying;
        let mut engine = Engine {
            start,
            begin_at: spec.begin_at,
            route_names: names.into_iter().map(str::to_owned).collect(),
            hop_names,
            chains,
            agenda: Agenda::with_sources(stations.len() * 2),
            stations,
            routers,
            active_route: 0,
            strays: BinaryHeap::new(),
            serial: 0,
            planned,
            happened: vec![],
            packets: Packets::new(),
            through: vec![],
            scratch: Vec::with_capacity(256),
            ethernet: None,
            totals: Totals::default(),
        };
        for (index, station) in engine.stations.iter().enumerate() {
            let due = station.link.as_ref().and_then(|link| link.due());
            engine.agenda.set(index as u32 * 2 + 1, due);
        }
        engine
    }
}

struct Laying<'a> {
    spec: &'a PathSpec,
    start: Nanos,
    changing: HashSet<LinkKey>,
    chains: Vec<Chain>,
    stations: Vec<Station>,
}

impl Laying<'_> {
    /// Adds the chain of one route from one host, and its stations.
    fn lay(&mut self, route: usize, from: Host, hops: &[HopSpec]) {
        let chain = self.chains.len();
        let rtt = rtt(hops);
        let specs = directed(hops, from);
        let mut travel = vec![Travel::default()];
        let mut at_station = vec![];
        let mut pace = None;
        for (position, link) in specs.iter().enumerate() {
            let hop = if from == Host::Near {
                position
            } else {
                hops.len() - 1 - position
            };
            let changes = self.changing.contains(&(route, hop, from == Host::Near));
            let is_station = changes || !self.is_plain(link) || !flows_freely(link, pace);
            pace = if changes {
                None
            } else {
                pace_after(link, pace)
            };
            let before = travel[position];
            travel.push(if is_station { before } else { before.and(link) });
            at_station.push(is_station);
            if is_station {
                let around = Surroundings {
                    mtu: link.mtu.unwrap_or(self.spec.mtu),
                    rtt,
                };
                let random = Random::new(self.spec.seed, (chain << 16 | position) as u64);
                let link = Link::new(link, around, random, self.start);
                self.add_station(chain, position, Some(Box::new(link)));
            }
        }
        self.add_station(chain, hops.len(), None);
        let host = match from {
            Host::Near => &self.spec.far,
            Host::Far => &self.spec.near,
        };
        if let Some(station) = self.stations.last_mut() {
            station.batch = Batch::new(host.batch);
        }
        let mut next = self.stations.len() as u32 - 1;
        let mut next_station = vec![next; hops.len() + 1];
        for position in (0..hops.len()).rev() {
            next -= u32::from(at_station[position]);
            next_station[position] = next;
        }
        let passed = vec![Passed::default(); hops.len()];
        let links = hops.len();
        self.chains.push(Chain {
            route,
            from,
            links,
            next_station,
            travel,
            specs,
            passed,
            rewrites: rewrites(hops, from),
        });
    }

    fn add_station(&mut self, chain: usize, position: usize, link: Option<Box<Link>>) {
        self.stations.push(Station {
            chain: chain as u16,
            position: position as u16,
            inbox: VecDeque::new(),
            last_due: 0,
            link,
            batch: None,
        });
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
                || link
                    .queue
                    .is_none_or(|queue| queue.0 >= u64::from(self.spec.mtu)))
    }
}

fn rtt(hops: &[HopSpec]) -> Nanos {
    let delays = hops
        .iter()
        .flat_map(|hop| [hop.forward.delay, hop.reverse.delay]);
    nanos(delays.sum::<Duration>()).max(LEAST_CROSS_RTT)
}

/// Returns the links in the order in which packets from `from` cross them.
fn directed(hops: &[HopSpec], from: Host) -> Vec<LinkSpec> {
    match from {
        Host::Near => hops.iter().map(|hop| hop.forward.clone()).collect(),
        Host::Far => hops.iter().rev().map(|hop| hop.reverse.clone()).collect(),
    }
}

/// Returns the TCP option rewrites of the routers before each link of a direction; empty if no
/// router rewrites.
fn rewrites(hops: &[HopSpec], from: Host) -> Vec<Rewrite> {
    let routers = &hops[..hops.len() - 1];
    if routers.iter().all(|hop| hop.rewrite.is_none()) {
        return vec![];
    }
    let met: Vec<Rewrite> = match from {
        Host::Near => routers.iter().map(|hop| hop.rewrite).collect(),
        Host::Far => routers.iter().rev().map(|hop| hop.rewrite).collect(),
    };
    let mut all = vec![Rewrite::default()];
    for rewrite in met {
        let before = all.last().copied().unwrap_or_default();
        all.push(middlebox::both(before, rewrite));
    }
    all
}

/// An upper bound of the traffic: it has crossed a wire of this rate and overhead.
#[derive(Clone, Copy)]
struct Pace {
    rate: Rate,
    overhead: u32,
}

/// Reports whether traffic of this pace never queues at the link.
fn flows_freely(link: &LinkSpec, pace: Option<Pace>) -> bool {
    link.rate.is_none_or(|rate| {
        pace.is_some_and(|pace| rate >= pace.rate && link.overhead <= pace.overhead)
    })
}

/// Returns the pace behind a link. Jitter and reordering bunch packets, so there is none behind
/// them.
fn pace_after(link: &LinkSpec, before: Option<Pace>) -> Option<Pace> {
    if !link.jitter.is_zero() || link.reorder.is_some() {
        return None;
    }
    let own = link
        .rate
        .into_iter()
        .chain(link.shaper.map(|shaper| shaper.peak))
        .min();
    let own = own.map(|rate| Pace {
        rate,
        overhead: link.overhead,
    });
    match (before, own) {
        (Some(before), Some(own)) if own.rate >= before.rate && own.overhead <= before.overhead => {
            Some(before)
        }
        (_, Some(own)) => Some(own),
        (before, None) => before,
    }
}

fn changing_links(spec: &PathSpec, names: &[&str]) -> HashSet<LinkKey> {
    let keys = spec.events.iter().filter_map(|event| match &event.change {
        Change::Route(_) => None,
        Change::Link {
            route,
            hop,
            forward,
            ..
        } => Some((names.iter().position(|name| name == route)?, *hop, *forward)),
    });
    keys.collect()
}

fn route_routers(
    hops: &[HopSpec],
    addresses: &[RouterAddress],
    (route, seed): (usize, u64),
    start: Nanos,
) -> Vec<Router> {
    let routers = hops.iter().zip(addresses).enumerate();
    routers
        .map(|(k, (hop, address))| {
            // Distinct from the random streams of links, whose numbers are below 2^32.
            let random = Random::new(seed, (1 << 32) | (route << 16 | k) as u64);
            Router::new(hop, *address, random, start)
        })
        .collect()
}

/// Returns the events in time order. Events with an unresolved reference are left out, but
/// [`PathSpec`] promises that there are none.
fn planned(spec: &PathSpec, names: &[&str], laid: &Laying) -> VecDeque<Planned> {
    let mut all: Vec<Planned> = spec
        .events
        .iter()
        .filter_map(|event| {
            let (change, text) = planned_change(&event.change, names, laid)?;
            // Events from before the path began are applied before its first packet.
            let after = event.at.saturating_sub(spec.begin_at);
            Some(Planned {
                at: laid.start.saturating_add(nanos(after)),
                said_at: event.at,
                change,
                text,
            })
        })
        .collect();
    all.sort_by_key(|planned| planned.at);
    all.into()
}

fn planned_change(
    change: &Change,
    names: &[&str],
    laid: &Laying,
) -> Option<(PlannedChange, String)> {
    let numbered = |route: &str| names.iter().position(|name| *name == route);
    match change {
        Change::Route(route) => Some((
            PlannedChange::Route(numbered(route)?),
            format!("route {route}"),
        )),
        Change::Link {
            route,
            hop,
            forward,
            to,
        } => {
            let chain = 2 * numbered(route)? + usize::from(!forward);
            let links = laid.chains.get(chain)?.links;
            let position = if *forward {
                *hop
            } else {
                links.checked_sub(hop + 1)?
            };
            let station = laid.stations.iter().position(|station| {
                usize::from(station.chain) == chain && usize::from(station.position) == position
            })?;
            let direction = if *forward { "forward" } else { "reverse" };
            let text = format!("route {route}, link to hop {}, {direction}", hop + 1);
            let change = PlannedChange::Link {
                station: station as u32,
                to: to.clone(),
            };
            Some((change, text))
        }
    }
}
