//! The event engine of `longhaul lab`: carries packets over an emulated path in virtual time.
//!
//! The engine has no clock and no sockets: packets go in with the time at which they were sent, and
//! come out with the time at which they are due at the other host. All arithmetic uses these
//! nominal times, never the time of the call, so rates and delays are exact even if the caller is
//! late, and the same seed and input give the same output.
//!
//! A caller alternates between [`EmulationEngine::advance`] until it returns `None`, reading packets into
//! [`EmulationEngine::reserve`]d space and [`EmulationEngine::accept`]ing them, and waiting for [`EmulationEngine::next_due`].
//!
//! Source of the design: a measured prototype; a super-packet stays one unit until something
//! happens to one of its segments. Units: nanoseconds; bytes of IP, or wire bytes where stated.
//! Wrong when: packets are accepted much later than they were sent; segments of one super-packet
//! arrive together if the caller sent them together, except behind slow links.
//!
//! # Flow hash
//!
//! Load balancing by flow over parallel routers.
//!
//! Source: the fields that routers hash for equal-cost multipath (RFC 2992): addresses, protocol,
//! and the ports of TCP and UDP; for ICMP, where routers use the first words of the header in the
//! same way, type, code, checksum and identifier. A tracer that keeps these constant stays on one
//! path. Wrong when: a router also hashes the IPv6 flow label, the TTL or the interface.
//!
//! # Interrupt batch
//!
//! Interrupt coalescing at a host.
//!
//! The first packet of a batch starts a timer; all packets that arrive before it expires are
//! delivered together. So the first has waited longest, and the last hardly at all. Source:
//! interrupt moderation of network cards (Prasad, Jain, Dovrolis 2004). Wrong when: a card also
//! counts packets, or adapts.

mod cross_source;
mod emulated_link;
mod emulated_router;
mod engine_setup;
mod event_queue;
mod exact_token_bucket;
pub mod ground_truth;
mod lab_addresses;
mod link_chain;
mod middlebox;
mod pooled_packet;
mod router_icmp;
mod seeded_random;
mod segment_headers;
mod transmitter;

/// Adds `bytes` as big-endian 16-bit words; an odd last byte is padded with zero.
fn add_words(start: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<2>();
    let sum = words.iter().fold(start, |sum, word| sum + u64::from(u16::from_be_bytes(*word)));
    rest.first().map_or(sum, |last| sum + (u64::from(*last) << 8))
}

fn fold_sum(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn compute_checksum(bytes: &[u8]) -> u16 {
    !fold_sum(add_words(0, bytes))
}

/// Sums the pseudo header; `addresses` are source and destination as in the IP header.
fn sum_pseudo_header(addresses: &[u8], protocol: u8, length: usize) -> u64 {
    add_words(u64::from(protocol) + length as u64, addresses)
}

/// Recomputes the checksum of an IPv4 header.
fn write_ipv4_checksum(header: &mut [u8]) {
    header[10..12].fill(0);
    let value = compute_checksum(header);
    header[10..12].copy_from_slice(&value.to_be_bytes());
}

/// FNV-1a.
const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

fn mix_bytes(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME))
}

fn mix_address(hash: u64, address: IpAddr) -> u64 {
    match address {
        IpAddr::V4(it) => mix_bytes(hash, &it.octets()),
        IpAddr::V6(it) => mix_bytes(hash, &it.octets()),
    }
}

/// Returns the way of the packet `ip`, from 0 to `ways` - 1; each `salt` spreads flows differently.
fn select_way(packet: &PooledPacket, ip: &[u8], salt: u64, ways: u8) -> u8 {
    if ways < 2 {
        return 0;
    }
    let hash = mix_bytes(BASIS, &salt.to_be_bytes());
    let hash = mix_address(mix_address(hash, packet.source), packet.destination);
    let hash = mix_bytes(hash, &[packet.protocol]);
    let hashed_bytes = match packet.protocol {
        _ if packet.fragment => 0,
        TCP | UDP => 4,
        ICMP | ICMP6 => 6,
        _ => 0,
    };
    let transport = ip.get(usize::from(packet.ip_header_bytes)..).unwrap_or_default();
    let mut hash = mix_bytes(hash, &transport[..hashed_bytes.min(transport.len())]);
    // The low bits of FNV are poorly mixed.
    hash ^= hash >> 29;
    hash = hash.wrapping_mul(0xBF58_476D_1CE4_E5B9);
    hash ^= hash >> 32;
    (hash % u64::from(ways)) as u8
}

struct InterruptBatch {
    period: Nanos,
    ends: Nanos,
    waiting: VecDeque<PacketUnit>,
}

impl InterruptBatch {
    /// Returns `None` if packets are delivered one by one.
    pub fn new(period: Duration) -> Option<Box<InterruptBatch>> {
        (!period.is_zero()).then(|| {
            Box::new(InterruptBatch {
                period: to_virtual_nanos(period),
                ends: 0,
                waiting: VecDeque::new(),
            })
        })
    }

    /// Adds a unit that has arrived.
    pub fn push(&mut self, unit: PacketUnit) {
        if self.waiting.is_empty() {
            self.ends = unit.until.saturating_add(self.period);
        }
        let wait = self.ends.saturating_sub(unit.until);
        self.waiting.push_back(unit.delayed(wait));
    }

    /// Removes the next unit of a batch that is due.
    pub fn pop(&mut self) -> Option<PacketUnit> {
        self.waiting.pop_front()
    }

    /// Returns the time at which the batch is due; `None` if it is empty.
    pub fn due(&self) -> Option<Nanos> {
        (!self.waiting.is_empty()).then_some(self.ends)
    }
}

#[cfg(test)]
mod tests;

pub use ground_truth::PathTruth;
pub use lab_addresses::{NodeAddress, assign_router_addresses, list_routes, router_address};

use crate::path_spec::LinkSpec;
use emulated_link::{DepartedUnit, EmulatedLink, LinkOutput, to_virtual_nanos};
use emulated_router::EmulatedRouter;
use event_queue::EventQueue;
use ground_truth::{EventTruth, PathTotals};
use link_chain::LinkChain;
use pooled_packet::{ICMP, ICMP6, PacketPool, PacketRejection, PacketUnit, PooledPacket, TCP, UDP};
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

/// Virtual time in nanoseconds; the caller chooses the origin.
pub type Nanos = u64;

/// One of the two ends of the path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LabHost {
    Near,
    Far,
}

impl LabHost {
    #[must_use]
    pub fn other(self) -> LabHost {
        match self {
            LabHost::Near => LabHost::Far,
            LabHost::Far => LabHost::Near,
        }
    }

    /// Returns the host name that its commands see.
    pub(crate) fn name(self) -> &'static str {
        match self {
            LabHost::Near => "near",
            LabHost::Far => "far",
        }
    }
}

/// A packet to write to a host's device: `header`, then `payload`, in one write.
#[derive(Debug)]
pub struct PacketDelivery<'a> {
    pub host: LabHost,
    /// The time at which the packet's last segment arrives.
    pub due: Nanos,
    /// `virtio_net_hdr`, the Ethernet header if there is one, and the rewritten headers.
    pub header: &'a [u8],
    pub payload: &'a [u8],
}

const ETHERNET_BYTES: usize = 14;
/// The source address of all frames: locally administered, never on a wire.
const PATH_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0xfe];

/// A node that receives units one after another: a link that does more than delay, or a host.
struct QueueStation {
    chain: u16,
    /// The link's index in its chain; the number of links for the host at the end.
    position: u16,
    inbox: VecDeque<PacketUnit>,
    /// The due time of the last unit in the inbox; it keeps units in order.
    last_due: Nanos,
    link: Option<Box<EmulatedLink>>,
    /// Set for a host that receives its packets in batches.
    batch: Option<Box<InterruptBatch>>,
}

#[derive(Clone, Copy)]
enum UnitDestination {
    Station(u32),
    /// The router behind a link of a chain: the packet's destination, or the node where its TTL
    /// expires.
    Router {
        chain: u16,
        link: u16,
    },
}

/// A timed event of the path, with its references resolved.
struct PlannedEvent {
    at: Nanos,
    /// The same time on the path's own time line.
    path_time: Duration,
    change: ResolvedChange,
    text: String,
}

enum ResolvedChange {
    Route(usize),
    Link { station: u32, to: Box<LinkSpec> },
}

/// One path between two hosts, in virtual time. See the [module](self) for how to drive it.
pub struct EmulationEngine {
    start: Nanos,
    /// The value of `start` on the path's own time line.
    begin_at: Duration,
    /// The name of each route, and those of its hops.
    node_names: Vec<(String, Vec<String>)>,
    /// Two per route: from near, from far.
    chains: Vec<LinkChain>,
    stations: Vec<QueueStation>,
    /// By route, then in the order of the hops.
    routers: Vec<Vec<EmulatedRouter>>,
    active_route: usize,
    event_queue: EventQueue,
    /// Units outside the order of an inbox, by due time and serial number: overtaken, made by a
    /// router, or on their way to one.
    detached_units: BTreeMap<(Nanos, u64), (UnitDestination, PacketUnit)>,
    serial: u64,
    planned_events: VecDeque<PlannedEvent>,
    past_events: Vec<EventTruth>,
    packets: PacketPool,
    departed: Vec<DepartedUnit>,
    /// The headers of the current delivery, or the message that a router is writing.
    scratch: Vec<u8>,
    /// The Ethernet addresses of the devices of host near and host far, if they have any.
    ethernet: Option<[[u8; 6]; 2]>,
    totals: PathTotals,
}

impl EmulationEngine {
    /// Puts an Ethernet header between virtio_net_hdr and IP; `addresses` are those of the devices of
    /// host near and host far.
    #[must_use]
    pub fn with_ethernet(mut self, addresses: [[u8; 6]; 2]) -> EmulationEngine {
        self.ethernet = Some(addresses);
        self
    }

    fn frame_bytes(&self) -> usize {
        if self.ethernet.is_some() { ETHERNET_BYTES } else { 0 }
    }

    /// Returns space for one packet as the device gives it, at least 66 KiB: 10 bytes of
    /// `virtio_net_hdr`, then the frame. Do not keep it across [`advance`](Self::advance).
    pub fn reserve(&mut self) -> &mut [u8] {
        self.packets.reserve()
    }

    /// Accepts a packet that `host` sent at `now` from the first `len` bytes of the last reserved
    /// space. Anything that is not a packet for this path is counted and dropped. Call
    /// [`advance`](Self::advance) for everything due before `now` first.
    pub fn accept(&mut self, host: LabHost, len: usize, now: Nanos) {
        let frame = self.packets.reserved(len);
        let len = frame.len();
        let parsed = pooled_packet::parse_frame(frame, self.frame_bytes());
        match parsed.and_then(|packet| self.resolve_destination(host, packet)) {
            Ok(_) if self.packets.is_full => self.totals.no_memory += 1,
            Ok(packet) => {
                let chain = packet.chain;
                let (count, bytes) = (packet.shape.segments, packet.ip_bytes());
                self.totals.accepted.add(u64::from(count), bytes);
                let id = self.packets.commit(len, packet);
                let unit = PacketUnit { packet: id, first: 0, count, from: now, until: now };
                self.forward_unit(chain, 0, unit, false);
            }
            Err(PacketRejection::Malformed) => self.totals.malformed += 1,
            Err(PacketRejection::Foreign) => self.totals.foreign += 1,
        }
    }

    /// Determines the packet's destination.
    fn resolve_destination(
        &self,
        host: LabHost,
        packet: pooled_packet::PooledPacket,
    ) -> Result<pooled_packet::PooledPacket, PacketRejection> {
        if packet.source != host.address().of_family(packet.source) {
            return Err(PacketRejection::Foreign);
        }
        let other = host.other().address().of_family(packet.source);
        let id = 2 * self.active_route + usize::from(host == LabHost::Far);
        let chain = &self.chains[id];
        let wanted = if packet.destination == other {
            None
        } else {
            let routers = &self.routers[self.active_route];
            let found = routers.iter().position(|it| it.has_address(packet.destination));
            Some(chain.link_to(found.ok_or(PacketRejection::Foreign)?))
        };
        let stop = chain.find_stop(0, packet.ttl, wanted) as u16;
        Ok(pooled_packet::PooledPacket { chain: id as u16, entry: 0, stop, ..packet })
    }

    /// Returns the time of the next event; `None` if there is none until another packet is
    /// accepted.
    pub fn next_due(&self) -> Option<Nanos> {
        let detached = self.detached_units.first_key_value().map(|((due, _), _)| *due);
        let planned = self.planned_events.front().map(|planned| planned.at);
        [self.event_queue.due(), detached, planned].into_iter().flatten().min()
    }

    /// Processes everything due by `now` until a packet must be written to a host; returns `None`
    /// when nothing more is due.
    pub fn advance(&mut self, now: Nanos) -> Option<PacketDelivery<'_>> {
        let (station, unit) = loop {
            let due = self.next_due().filter(|due| *due <= now)?;
            if let Some(arrived) = self.step(due) {
                break arrived;
            }
        };
        Some(self.deliver(station, unit))
    }

    /// Processes the next event and returns a unit if it has reached a host.
    fn step(&mut self, due: Nanos) -> Option<(u32, PacketUnit)> {
        if self.planned_events.front().is_some_and(|planned| planned.at == due) {
            self.apply_planned_event();
            return None;
        }
        if let Some(detached) = self.detached_units.first_entry().filter(|it| it.key().0 == due) {
            let (destination, unit) = detached.remove();
            return match destination {
                UnitDestination::Station(station) => self.arrive(station, unit),
                UnitDestination::Router { chain, link } => {
                    self.reach_router(chain, link, unit);
                    None
                }
            };
        }
        let (_, source) = self.event_queue.pop()?;
        let station = source / 2;
        if source % 2 == 1 {
            if let Some(batch) = &mut self.stations[station as usize].batch {
                let unit = batch.pop();
                self.event_queue.set(source, batch.due());
                return unit.map(|unit| (station, unit));
            }
            self.run_link(station, |link, outlet| link.process_due(due, outlet));
            return None;
        }
        let it = &mut self.stations[station as usize];
        let unit = it.inbox.pop_front()?;
        let next = it.inbox.front().map(|unit| unit.until);
        self.event_queue.set(source, next);
        self.arrive(station, unit)
    }

    fn arrive(&mut self, station: u32, unit: PacketUnit) -> Option<(u32, PacketUnit)> {
        let shape = self.packets.get(unit.packet).shape;
        let it = &mut self.stations[station as usize];
        let Some(link) = &mut it.link else {
            let Some(batch) = &mut it.batch else {
                return Some((station, unit));
            };
            batch.push(unit);
            self.event_queue.set(station * 2 + 1, batch.due());
            return None;
        };
        if let Some(refusal) = link.check_mtu(&shape, &mut self.totals.dropped, &unit) {
            self.refuse_unit(station, unit, refusal);
        } else {
            self.run_link(station, |link, outlet| link.arrive(unit, outlet));
        }
        None
    }

    /// Runs an action on a link and forwards what leaves it.
    fn run_link(&mut self, station: u32, act: impl FnOnce(&mut EmulatedLink, &mut LinkOutput)) {
        let it = &mut self.stations[station as usize];
        let Some(link) = &mut it.link else { return };
        let mut through = std::mem::take(&mut self.departed);
        let mut outlet = LinkOutput {
            packets: &mut self.packets,
            departed: &mut through,
            dropped: &mut self.totals.dropped,
        };
        act(link, &mut outlet);
        let (chain, next) = (it.chain, usize::from(it.position) + 1);
        self.event_queue.set(station * 2 + 1, link.due());
        for leaving in through.drain(..) {
            self.forward_unit(chain, next, leaving.unit, leaving.overtaken);
        }
        self.departed = through;
    }

    /// Moves a unit into link `at` of a chain: across all plain links at once, to the next node at
    /// which something happens to it.
    fn forward_unit(&mut self, chain_id: u16, at: usize, unit: PacketUnit, out_of_order: bool) {
        let chain = &mut self.chains[usize::from(chain_id)];
        let packet = self.packets.get(unit.packet);
        let station = chain.next_station[at];
        let it = &mut self.stations[station as usize];
        let (stop, position) = (usize::from(packet.stop), usize::from(it.position));
        let end = position.min(stop + 1);
        let unit = chain.cross(at, end, unit, &packet.shape);
        let place = if stop < position {
            UnitDestination::Router { chain: chain_id, link: packet.stop }
        } else {
            UnitDestination::Station(station)
        };
        if out_of_order || stop < position {
            self.serial += 1;
            self.detached_units.insert((unit.until, self.serial), (place, unit));
            return;
        }
        let held = it.last_due.saturating_sub(unit.until);
        let unit = unit.delayed(held);
        it.last_due = unit.until;
        it.inbox.push_back(unit);
        if it.inbox.len() == 1 {
            self.event_queue.set(station * 2, Some(unit.until));
        }
    }

    /// Applies the first planned event.
    fn apply_planned_event(&mut self) {
        let Some(planned) = self.planned_events.pop_front() else {
            return;
        };
        self.past_events.push(EventTruth { at: planned.path_time, text: planned.text });
        match planned.change {
            ResolvedChange::Route(route) => self.active_route = route,
            ResolvedChange::Link { station, to } => {
                self.run_link(station, |link, outlet| link.change(&to, planned.at, outlet));
            }
        }
    }

    fn deliver(&mut self, station: u32, unit: PacketUnit) -> PacketDelivery<'_> {
        let it = &self.stations[station as usize];
        let chain = &self.chains[usize::from(it.chain)];
        let host = chain.from.other();
        let packet = *self.packets.get(unit.packet);
        let count = u64::from(unit.count);
        self.totals.delivered.add(count, packet.shape.bytes(&unit));
        let routers = it.position.saturating_sub(packet.entry + 1);
        let l2 = self.frame_bytes();
        self.scratch.clear();
        segment_headers::push_vnet_header(&mut self.scratch, &packet, &unit, l2);
        if let Some(addresses) = &self.ethernet {
            let kind: u16 = if packet.source.is_ipv4() { 0x0800 } else { 0x86dd };
            self.scratch.extend_from_slice(&addresses[host as usize]);
            self.scratch.extend_from_slice(&PATH_MAC);
            self.scratch.extend_from_slice(&kind.to_be_bytes());
        }
        // The bytes stay in place until a later packet is read over them.
        self.packets.release(&unit);
        let ip = self.packets.bytes(unit.packet);
        let ttl = (u16::from(packet.ttl) - routers) as u8;
        let begin = self.scratch.len();
        segment_headers::push_headers(&mut self.scratch, &packet, ip, &unit, ttl);
        let mut payload = &ip[segment_headers::find_payload_range(&packet, &unit)];
        if let Some(change) = chain.rewrites.last().copied()
            && middlebox::is_rewritable(&packet, ip)
        {
            self.scratch.extend_from_slice(payload);
            payload = &[];
            let is_summed = packet.offload.flags & pooled_packet::NEEDS_CHECKSUM == 0;
            middlebox::rewrite_options(&mut self.scratch[begin..], &packet, change, is_summed);
        }
        PacketDelivery { host, due: unit.until, header: &self.scratch, payload }
    }
}
