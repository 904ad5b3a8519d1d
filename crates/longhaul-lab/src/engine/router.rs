//! Packets that end at a router, and the router's responses.

use super::address::RouterAddress;
use super::bucket::Bucket;
use super::flow;
use super::hostile;
use super::icmp::{self, Message, Question};
use super::link::{Refusal, nanos};
use super::packet::{self, ICMP, ICMP6, Packet, TCP, UDP, VNET_BYTES};
use super::random::Random;
use super::truth::RouterTruth;
use super::unit::Unit;
use super::{Engine, Nanos};
use crate::spec::{HopSpec, Manners};
use std::net::IpAddr;

pub(super) struct Router {
    address: RouterAddress,
    /// The number of parallel routers.
    ways: u8,
    /// Makes flows spread differently at each router.
    salt: u64,
    silent: bool,
    manners: Manners,
    labels: Vec<u32>,
    limit: Option<Bucket>,
    delay: Nanos,
    random: Random,
    pub truth: RouterTruth,
}

impl Router {
    pub fn new(hop: &HopSpec, address: RouterAddress, mut random: Random, start: Nanos) -> Router {
        let limit = hop.icmp_limit.map(|per_second| {
            Bucket::new(
                u64::from(per_second),
                u64::from((per_second / 10).max(1)),
                start,
            )
        });
        let delay = nanos(hop.icmp_delay);
        Router {
            address,
            ways: hop.balance.max(1),
            salt: random.uniform().to_bits(),
            silent: hop.silent,
            manners: hop.icmp,
            labels: hop.mpls.clone(),
            limit,
            delay,
            random,
            truth: RouterTruth::default(),
        }
    }

    pub fn has_address(&self, address: IpAddr) -> bool {
        let beside = (0..self.ways).map(|way| self.address.beside(way).of_family(address));
        beside.into_iter().any(|own| own == address)
    }

    /// Returns the address of the parallel router that forwards the packet.
    fn address_for(&self, packet: &Packet, ip: &[u8]) -> IpAddr {
        let way = flow::way(packet, ip, self.salt, self.ways);
        self.address.beside(way).of_family(packet.source)
    }

    /// Reports whether the router sends a message at `now`.
    fn speaks(&mut self, now: Nanos) -> bool {
        if self.silent {
            return false;
        }
        let allowed = self.limit.as_mut().is_none_or(|limit| limit.take(1, now));
        if allowed {
            self.truth.icmp_sent += 1;
        } else {
            self.truth.icmp_withheld += 1;
        }
        allowed
    }
}

/// The router that responds, and the time.
#[derive(Clone, Copy)]
struct Scene {
    /// The chain of the packet that is answered.
    chain: u16,
    router: usize,
    now: Nanos,
}

impl Engine {
    /// Handles a unit that has reached the router behind `link`: its destination, or where its TTL
    /// expires.
    pub(super) fn reach_router(&mut self, chain_id: u16, link: u16, unit: Unit) {
        let chain = &mut self.chains[usize::from(chain_id)];
        let packet = *self.packets.get(unit.packet);
        let (count, bytes) = (u64::from(unit.count), packet.shape.bytes(&unit));
        if let Some(router) = chain.router_behind(usize::from(link)) {
            let scene = Scene {
                chain: chain_id,
                router,
                now: unit.until,
            };
            if self.routers[chain.route][router].has_address(packet.destination) {
                self.totals.consumed.add(count, bytes);
                self.answer_own(scene, &packet, unit);
            } else {
                chain.passed[usize::from(link)].expired += count;
                self.totals.dropped.add(count, bytes);
                self.report(scene, &packet, unit, Message::TimeExceeded);
            }
        }
        self.packets.release(&unit);
    }

    /// Refuses a unit that is too large for the link of `station`. The error comes from the node
    /// before the link, or from the one behind it if the node before is the sender itself.
    pub(super) fn refuse(&mut self, station: u32, unit: Unit, refusal: Refusal) {
        let it = &self.stations[station as usize];
        let (chain_id, position) = (it.chain, usize::from(it.position));
        let chain = &self.chains[usize::from(chain_id)];
        let packet = *self.packets.get(unit.packet);
        let router = chain.router_behind(position.saturating_sub(1));
        if let Some(router) = router.filter(|_| refusal.is_told) {
            let scene = Scene {
                chain: chain_id,
                router,
                now: unit.until,
            };
            self.report(scene, &packet, unit, Message::TooBig { mtu: refusal.mtu });
        }
        self.packets.release(&unit);
    }

    /// Answers a packet to the router's own address.
    fn answer_own(&mut self, scene: Scene, packet: &Packet, unit: Unit) {
        let ip = self.packets.bytes(unit.packet);
        if icmp::is_echo_request(packet, ip) {
            icmp::write_echo_reply(&mut self.scratch, packet, ip);
            return self.speak(scene);
        }
        match packet.protocol {
            ICMP | ICMP6 => {}
            TCP | UDP => self.report(scene, packet, unit, Message::PortUnreachable),
            _ => self.report(scene, packet, unit, Message::ProtocolUnreachable),
        }
    }

    /// Sends an ICMP error about `unit` to its sender.
    fn report(&mut self, scene: Scene, packet: &Packet, unit: Unit, message: Message) {
        let ip = self.packets.bytes(unit.packet);
        if !icmp::may_be_answered(packet, ip) {
            return;
        }
        let chain = &self.chains[usize::from(scene.chain)];
        let reached = chain.link_to(scene.router);
        let passed = reached.saturating_sub(usize::from(packet.entry)).min(255) as u8;
        let ttl = packet.ttl.max(1).saturating_sub(passed);
        let router = &mut self.routers[chain.route][scene.router];
        let from = router.address_for(packet, ip);
        let question = Question {
            packet,
            ip,
            unit,
            ttl,
            rewritten: chain.rewrites.get(reached).copied(),
            labels: &router.labels,
        };
        icmp::write_error(&mut self.scratch, &question, from, message);
        hostile::spoil(&mut self.scratch, router.manners, from, &mut router.random);
        self.speak(scene);
    }

    /// Sends the message in the scratch space back along the route, if the router may.
    fn speak(&mut self, scene: Scene) {
        let route = self.chains[usize::from(scene.chain)].route;
        let router = &mut self.routers[route][scene.router];
        if !router.speaks(scene.now) {
            return;
        }
        let at = scene.now.saturating_add(router.delay);
        let back = scene.chain ^ 1;
        let chain = &self.chains[usize::from(back)];
        let entry = chain.entry_from(scene.router);
        let len = VNET_BYTES + self.scratch.len();
        let space = self.packets.reserve();
        space[..VNET_BYTES].fill(0);
        space[VNET_BYTES..len].copy_from_slice(&self.scratch);
        let Ok(packet) = packet::parse(&space[..len], 0) else {
            return;
        };
        if self.packets.is_full() {
            return;
        }
        let stop = chain.stop(entry, packet.ttl, None) as u16;
        let packet = Packet {
            chain: back,
            entry: entry as u16,
            stop,
            ..packet
        };
        self.totals.generated.add(1, packet.ip_bytes());
        let id = self.packets.commit(len, packet);
        let unit = Unit {
            packet: id,
            first: 0,
            count: 1,
            from: at,
            until: at,
        };
        self.proceed(back, entry, unit, true);
    }
}
