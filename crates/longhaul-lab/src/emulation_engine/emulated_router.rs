//! Packets that end at a router, and the router's responses.
//!
//! # Forged ICMP
//!
//! Malformed and forged ICMP errors, for testing programs that parse them.
//!
//! The IP header and the ICMP checksum stay valid, so that kernels deliver the message; what it
//! says about the quoted packet is wrong, in a different way each time.

use super::emulated_link::{MtuRefusal, to_virtual_nanos};
use super::exact_token_bucket::ExactTokenBucket;
use super::ground_truth::RouterTruth;
use super::lab_addresses::NodeAddress;
use super::pooled_packet::{self, ICMP, ICMP6, PacketUnit, PooledPacket, TCP, UDP, VNET_BYTES};
use super::router_icmp::{self, IcmpErrorCause, IcmpErrorKind};
use super::seeded_random::SeededRandom;
use super::{EmulationEngine, Nanos};
use crate::path_spec::{HopSpec, IcmpValidity};
use std::net::IpAddr;

pub(super) struct EmulatedRouter {
    address: NodeAddress,
    /// The number of parallel routers.
    parallel_routers: u8,
    /// Makes flows spread differently at each router.
    salt: u64,
    silent: bool,
    icmp_validity: IcmpValidity,
    labels: Vec<u32>,
    icmp_limit: Option<ExactTokenBucket>,
    delay: Nanos,
    random: SeededRandom,
    pub truth: RouterTruth,
}

impl EmulatedRouter {
    pub fn new(
        hop: &HopSpec,
        address: NodeAddress,
        mut random: SeededRandom,
        start: Nanos,
    ) -> EmulatedRouter {
        let limit = hop.icmp_limit.map(|per_second| {
            ExactTokenBucket::new(u64::from(per_second), u64::from((per_second / 10).max(1)), start)
        });
        let delay = to_virtual_nanos(hop.icmp_delay);
        EmulatedRouter {
            address,
            parallel_routers: hop.balance.max(1),
            salt: random.uniform().to_bits(),
            silent: hop.silent,
            icmp_validity: hop.icmp,
            labels: hop.mpls.clone(),
            icmp_limit: limit,
            delay,
            random,
            truth: RouterTruth::default(),
        }
    }

    pub fn has_address(&self, address: IpAddr) -> bool {
        let addresses =
            (0..self.parallel_routers).map(|way| self.address.parallel(way).of_family(address));
        addresses.into_iter().any(|own| own == address)
    }

    /// Returns the address of the parallel router that forwards the packet.
    fn address_for(&self, packet: &PooledPacket, ip: &[u8]) -> IpAddr {
        let way = super::select_way(packet, ip, self.salt, self.parallel_routers);
        self.address.parallel(way).of_family(packet.source)
    }

    /// Reports whether the router sends a message at `now`.
    fn may_send(&mut self, now: Nanos) -> bool {
        if self.silent {
            return false;
        }
        let allowed = self.icmp_limit.as_mut().is_none_or(|limit| limit.take(1, now));
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
struct RouterVisit {
    /// The chain of the packet that is answered.
    chain: u16,
    router: usize,
    now: Nanos,
}

impl EmulationEngine {
    /// Handles a unit that has reached the router behind `emulated_link`: its destination, or where its TTL
    /// expires.
    pub(super) fn reach_router(&mut self, chain_id: u16, link: u16, unit: PacketUnit) {
        let chain = &mut self.chains[usize::from(chain_id)];
        let packet = *self.packets.get(unit.packet);
        let (count, bytes) = (u64::from(unit.count), packet.shape.bytes(&unit));
        if let Some(router) = chain.router_behind(usize::from(link)) {
            let visit = RouterVisit { chain: chain_id, router, now: unit.until };
            if self.routers[chain.route][router].has_address(packet.destination) {
                self.totals.consumed.add(count, bytes);
                self.answer_packet(visit, &packet, unit);
            } else {
                chain.plain_counts[usize::from(link)].expired += count;
                self.totals.dropped.add(count, bytes);
                self.send_icmp_error(visit, &packet, unit, IcmpErrorKind::TimeExceeded);
            }
        }
        self.packets.release(&unit);
    }

    /// Refuses a unit that is too large for the link of `station`. The error comes from the node
    /// before the link, or from the one behind it if the node before is the sender itself.
    pub(super) fn refuse_unit(&mut self, station: u32, unit: PacketUnit, refusal: MtuRefusal) {
        let it = &self.stations[station as usize];
        let (chain_id, position) = (it.chain, usize::from(it.position));
        let chain = &self.chains[usize::from(chain_id)];
        let packet = *self.packets.get(unit.packet);
        let router = chain.router_behind(position.saturating_sub(1));
        if let Some(router) = router.filter(|_| refusal.is_told) {
            let visit = RouterVisit { chain: chain_id, router, now: unit.until };
            self.send_icmp_error(visit, &packet, unit, IcmpErrorKind::TooBig { mtu: refusal.mtu });
        }
        self.packets.release(&unit);
    }

    /// Answers a packet to the router's own address.
    fn answer_packet(&mut self, visit: RouterVisit, packet: &PooledPacket, unit: PacketUnit) {
        let ip = self.packets.bytes(unit.packet);
        if router_icmp::is_echo_request(packet, ip) {
            router_icmp::write_echo_reply(&mut self.scratch, packet, ip);
            return self.send_router_message(visit);
        }
        match packet.protocol {
            ICMP | ICMP6 => {}
            TCP | UDP => self.send_icmp_error(visit, packet, unit, IcmpErrorKind::PortUnreachable),
            _ => self.send_icmp_error(visit, packet, unit, IcmpErrorKind::ProtocolUnreachable),
        }
    }

    /// Sends an ICMP error about `packet_unit` to its sender.
    fn send_icmp_error(
        &mut self,
        visit: RouterVisit,
        packet: &PooledPacket,
        unit: PacketUnit,
        message: IcmpErrorKind,
    ) {
        let ip = self.packets.bytes(unit.packet);
        if !router_icmp::may_be_answered(packet, ip) {
            return;
        }
        let chain = &self.chains[usize::from(visit.chain)];
        let reached = chain.link_to(visit.router);
        let passed = reached.saturating_sub(usize::from(packet.entry)).min(255) as u8;
        let ttl = packet.ttl.max(1).saturating_sub(passed);
        let router = &mut self.routers[chain.route][visit.router];
        let from = router.address_for(packet, ip);
        let cause = IcmpErrorCause {
            packet,
            ip,
            unit,
            ttl,
            rewritten: chain.rewrites.get(reached).copied(),
            labels: &router.labels,
        };
        router_icmp::write_icmp_error(&mut self.scratch, &cause, from, message);
        falsify_message(&mut self.scratch, router.icmp_validity, from, &mut router.random);
        self.send_router_message(visit);
    }

    /// Sends the message in the scratch space back along the route, if the router may.
    fn send_router_message(&mut self, visit: RouterVisit) {
        let route = self.chains[usize::from(visit.chain)].route;
        let router = &mut self.routers[route][visit.router];
        if !router.may_send(visit.now) {
            return;
        }
        let at = visit.now.saturating_add(router.delay);
        let back = visit.chain ^ 1;
        let chain = &self.chains[usize::from(back)];
        let entry = chain.link_to(visit.router) + 1;
        let len = VNET_BYTES + self.scratch.len();
        let space = self.packets.reserve();
        space[..VNET_BYTES].fill(0);
        space[VNET_BYTES..len].copy_from_slice(&self.scratch);
        let Ok(packet) = pooled_packet::parse_frame(&space[..len], 0) else {
            return;
        };
        if self.packets.is_full {
            return;
        }
        let stop = chain.find_stop(entry, packet.ttl, None) as u16;
        let packet = PooledPacket { chain: back, entry: entry as u16, stop, ..packet };
        self.totals.generated.add(1, packet.ip_bytes());
        let id = self.packets.commit(len, packet);
        let unit = PacketUnit { packet: id, first: 0, count: 1, from: at, until: at };
        self.forward_unit(back, entry, unit, true);
    }
}

/// The value that forged bytes are XORed with.
const FORGED: u8 = 0x5a;
/// The length of an IPv4 header without options, as quoted.
const V4: usize = 20;
const V6: usize = 40;

/// Turns the valid message in `out` into what a router with these `manners` sends.
pub(super) fn falsify_message(
    out: &mut Vec<u8>,
    manners: IcmpValidity,
    from: IpAddr,
    random: &mut SeededRandom,
) {
    let message = if from.is_ipv4() { V4 } else { V6 };
    match manners {
        IcmpValidity::Honest => return,
        IcmpValidity::Garbage => corrupt_message(out, message, random),
        IcmpValidity::Forged => forge_quote(&mut out[message + 8..], random),
    }
    router_icmp::finish_icmp_packet(out, message, from);
}

fn draw_below(random: &mut SeededRandom, count: u8) -> u8 {
    (random.uniform() * f64::from(count)) as u8
}

fn corrupt_message(out: &mut Vec<u8>, message: usize, random: &mut SeededRandom) {
    let quote = message + 8;
    match draw_below(random, 7) {
        0 => out.truncate(quote),
        1 => out.truncate(quote + V4 / 2),
        // A header of 60 bytes, mostly missing.
        2 => {
            out[quote] |= 0x0f;
            out.truncate(quote + V4 + 8);
        }
        // Neither IPv4 nor IPv6.
        3 => out[quote] = 0x95,
        // Extensions that begin after the end of the message.
        4 => out[message + 4..message + 6].fill(0xff),
        // Extensions with an object longer than the message.
        5 => {
            out.resize(quote + 128, 0);
            out[message + 5] = 32;
            out.extend_from_slice(&[0x20, 0, 0, 0, 0xff, 0xff, 1, 1, 0, 0]);
        }
        _ => out[quote..].fill_with(|| draw_below(random, 255)),
    }
}

/// Changes `quote`, an IP packet that was sent, into one that was not.
fn forge_quote(quote: &mut [u8], random: &mut SeededRandom) {
    let is_v4 = quote.first().is_some_and(|byte| byte >> 4 == 4);
    let (transport, destination) = if is_v4 { (V4, V4 - 1) } else { (V6, V6 - 1) };
    let words = match draw_below(random, 3) {
        // Another destination address.
        0 => destination..destination + 1,
        // Other ports; in ICMP another type.
        1 => transport..transport + 4,
        // Another sequence number; in ICMP another identifier.
        _ => transport + 4..transport + 8,
    };
    for byte in quote.iter_mut().take(words.end).skip(words.start) {
        *byte ^= FORGED;
    }
    if is_v4 && quote.len() >= V4 {
        super::write_ipv4_checksum(&mut quote[..V4]);
    }
}
