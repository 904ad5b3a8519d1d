//! How does a path's description become stations and chains?

use super::address::{RouterAddress, router_addresses, routes};
use super::agenda::Agenda;
use super::chain::{Chain, Passed};
use super::cross::Surroundings;
use super::link::{Link, nanos};
use super::pool::Packets;
use super::random::Random;
use super::router::Router;
use super::truth::Totals;
use super::{Engine, Host, Nanos, Planned, PlannedChange, Station};
use crate::spec::{Change, HopSpec, LinkSpec, PathSpec};
use std::collections::{BinaryHeap, HashSet, VecDeque};
use std::time::Duration;

/// A TCP of other people never has a shorter round trip than this.
const LEAST_CROSS_RTT: Nanos = 10_000_000;

/// One direction of one link: route, hop, whether forward.
type LinkKey = (usize, usize, bool);

impl Engine {
    /// Lays the path `spec` at time `start`, from which its events are counted.
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
            routers.push(route_routers(hops, &addresses, start));
        }
        let planned = planned(spec, &names, &laying);
        let Laying {
            chains, stations, ..
        } = laying;
        let mut engine = Engine {
            start,
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
        let rtt = self.rtt(hops);
        let mut travel: Vec<Nanos> = vec![0];
        let mut at_station = vec![];
        for position in 0..hops.len() {
            let (hop, link) = match from {
                Host::Near => (position, &hops[position].forward),
                Host::Far => {
                    let hop = hops.len() - 1 - position;
                    (hop, &hops[hop].reverse)
                }
            };
            let key = (route, hop, from == Host::Near);
            let is_station = !self.is_plain(link) || self.changing.contains(&key);
            let delay = if is_station { 0 } else { nanos(link.delay) };
            travel.push(travel[position].saturating_add(delay));
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
        let mut next = self.stations.len() as u32 - 1;
        let mut next_station = vec![next; hops.len() + 1];
        for position in (0..hops.len()).rev() {
            next -= u32::from(at_station[position]);
            next_station[position] = next;
        }
        let passed = vec![Passed::default(); hops.len()];
        self.chains.push(Chain {
            route,
            from,
            links: hops.len(),
            next_station,
            travel,
            passed,
        });
    }

    fn add_station(&mut self, chain: usize, position: usize, link: Option<Box<Link>>) {
        self.stations.push(Station {
            chain: chain as u16,
            position: position as u16,
            inbox: VecDeque::new(),
            last_due: 0,
            link,
        });
    }

    fn rtt(&self, hops: &[HopSpec]) -> Nanos {
        let delays = hops
            .iter()
            .flat_map(|hop| [hop.forward.delay, hop.reverse.delay]);
        nanos(delays.sum::<Duration>()).max(LEAST_CROSS_RTT)
    }

    /// A link that only delays.
    fn is_plain(&self, link: &LinkSpec) -> bool {
        link.rate.is_none()
            && link.jitter.is_zero()
            && link.loss <= 0.0
            && link.reorder.is_none()
            && link.policer.is_none()
            && link.shaper.is_none()
            && link.cross.is_none()
            && link.mtu.is_none_or(|mtu| mtu >= self.spec.mtu)
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

fn route_routers(hops: &[HopSpec], addresses: &[RouterAddress], start: Nanos) -> Vec<Router> {
    hops.iter()
        .zip(addresses)
        .map(|(hop, address)| Router::new(hop, *address, start))
        .collect()
}

/// The events in the order of time; one that refers to nothing is left out ([`PathSpec`] promises
/// that there is none).
fn planned(spec: &PathSpec, names: &[&str], laid: &Laying) -> VecDeque<Planned> {
    let mut all: Vec<Planned> = spec
        .events
        .iter()
        .filter_map(|event| {
            let (change, text) = planned_change(&event.change, names, laid)?;
            Some(Planned {
                at: laid.start.saturating_add(nanos(event.at)),
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
