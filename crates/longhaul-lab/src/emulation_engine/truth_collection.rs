//! Collects the ground truth from the engine's counters.

use super::ground_truth::{HopTruth, LinkTruth, PathTruth, RouteTruth, RouterTruth};
use super::link_chain::LinkChain;
use super::{EmulationEngine, Nanos};
use std::time::Duration;

impl EmulationEngine {
    /// Returns the state of the path at `now`, to which the engine should have been advanced.
    pub fn truth(&self, now: Nanos) -> PathTruth {
        let named = self.node_names.iter().enumerate();
        let routes = named.map(|(route, (name, hops))| RouteTruth {
            name: name.clone(),
            active: route == self.active_route,
            hops: self.hop_truths(route, hops, now),
        });
        PathTruth {
            begin_at: self.begin_at,
            at: self.begin_at + Duration::from_nanos(now.saturating_sub(self.start)),
            routes: routes.collect(),
            events: self.past_events.clone(),
            totals: self.totals,
            memory_bytes: self.packets.memory_bytes(),
        }
    }

    fn hop_truths(&self, route: usize, hops: &[String], now: Nanos) -> Vec<HopTruth> {
        let hop = |(index, name): (usize, &String)| {
            let back = hops.len() - 1 - index;
            let router = self.routers[route].get(index);
            HopTruth {
                name: name.clone(),
                forward: self.link_truth(2 * route, index, now),
                reverse: self.link_truth(2 * route + 1, back, now),
                router: router.map_or_else(RouterTruth::default, |router| router.truth),
            }
        };
        hops.iter().enumerate().map(hop).collect()
    }

    fn link_truth(&self, chain: usize, link: usize, now: Nanos) -> LinkTruth {
        let chain = &self.chains[chain];
        let station = &self.stations[chain.next_station[link] as usize];
        let mut truth = match &station.link {
            Some(it) if usize::from(station.position) == link => it.truth(now),
            _ => build_plain_truth(chain, link),
        };
        truth.drops.ttl = chain.plain_counts[link].expired;
        truth
    }

    /// Limits the bytes of the packets in flight.
    #[cfg(test)]
    pub(super) fn with_memory_limit(mut self, bytes: u64) -> EmulationEngine {
        self.packets = super::packet_pool::PacketPool::with_limit(bytes);
        self
    }

    /// Returns the number of packets of hosts and routers that are still in flight.
    #[cfg(test)]
    pub fn packets_held(&self) -> usize {
        self.packets.in_flight_packets()
    }
}

fn build_plain_truth(chain: &LinkChain, link: usize) -> LinkTruth {
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
