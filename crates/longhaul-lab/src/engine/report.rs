//! Collects the ground truth from the engine's counters.

use super::chain::Chain;
use super::truth::{HopTruth, LinkTruth, RouteTruth, RouterTruth, Truth};
use super::{Engine, Nanos};
use std::time::Duration;

impl Engine {
    /// Returns the state of the path at `now`, to which the engine should have been advanced.
    pub fn truth(&self, now: Nanos) -> Truth {
        let routes = (0..self.route_names.len()).map(|route| RouteTruth {
            name: self.route_names[route].clone(),
            active: route == self.active_route,
            hops: self.hops(route, now),
        });
        Truth {
            begin_at: self.begin_at,
            at: self.begin_at + Duration::from_nanos(now.saturating_sub(self.start)),
            routes: routes.collect(),
            events: self.happened.clone(),
            totals: self.totals,
            memory_bytes: self.packets.memory_bytes(),
        }
    }

    fn hops(&self, route: usize, now: Nanos) -> Vec<HopTruth> {
        let names = self.hop_names[route].iter().enumerate();
        let hop = |(index, name): (usize, &String)| {
            let back = self.hop_names[route].len() - 1 - index;
            let router = self.routers[route].get(index);
            HopTruth {
                name: name.clone(),
                forward: self.link_truth(2 * route, index, now),
                reverse: self.link_truth(2 * route + 1, back, now),
                router: router.map_or_else(RouterTruth::default, |router| router.truth),
            }
        };
        names.map(hop).collect()
    }

    fn link_truth(&self, chain: usize, link: usize, now: Nanos) -> LinkTruth {
        let chain = &self.chains[chain];
        let station = &self.stations[chain.next_station[link] as usize];
        let mut truth = match &station.link {
            Some(it) if usize::from(station.position) == link => it.truth(now),
            _ => plain_truth(chain, link),
        };
        truth.drops.ttl = chain.passed[link].expired;
        truth
    }

    /// Limits the packet pool to `blocks` MiB.
    #[cfg(test)]
    pub(super) fn with_memory_blocks(mut self, blocks: usize) -> Engine {
        self.packets = super::pool::Packets::with_blocks(blocks);
        self
    }

    /// Returns the number of packets of hosts and routers that are still in flight.
    pub fn packets_held(&self) -> usize {
        self.packets.live()
    }
}

fn plain_truth(chain: &Chain, link: usize) -> LinkTruth {
    let traffic = chain.plain_traffic(link);
    let spec = &chain.specs[link];
    LinkTruth {
        entered: traffic,
        left: traffic,
        queue_limit_bytes: spec.queue.map(|limit| limit.0),
        delay: spec.delay,
        capacity: spec.rate,
        overhead_bytes: spec.overhead,
        ..LinkTruth::default()
    }
}
