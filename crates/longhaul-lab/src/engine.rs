//! The event engine of `longhaul lab`: carries packets over an emulated path in virtual time.
//!
//! The engine has no clock and no sockets: packets go in with the time at which they were sent, and
//! come out with the time at which they are due at the other host. All arithmetic uses these
//! nominal times, never the time of the call, so rates and delays are exact even if the caller is
//! late, and the same seed and input give the same output.
//!
//! A caller alternates between [`Engine::advance`] until it returns `None`, reading packets into
//! [`Engine::reserve`]d space and [`Engine::accept`]ing them, and waiting for [`Engine::next_due`].
//!
//! Source of the design: a measured prototype; a super-packet stays one unit until something
//! happens to one of its segments. Units: nanoseconds; bytes of IP, or wire bytes where stated.
//! Wrong when: packets are accepted much later than they were sent; segments of one super-packet
//! arrive together if the caller sent them together, except behind slow links.

mod address;
mod agenda;
mod batch;
mod bucket;
mod chain;
mod checksum;
mod cross;
mod flow;
mod hostile;
mod icmp;
mod lay;
mod link;
mod middlebox;
pub mod packet;
mod pool;
mod random;
mod report;
mod rewrite;
mod router;
mod transmitter;
pub mod truth;
mod unit;

#[cfg(test)]
mod tests;

pub use address::{
    ADDRESSES, Addresses, RouterAddress, router_addresses, router_v4, router_v6, routes,
};
pub use truth::Truth;

use crate::spec::LinkSpec;
use agenda::Agenda;
use batch::Batch;
use chain::Chain;
use link::{Leaving, Link, Outlet};
use packet::Reject;
use pool::Packets;
use router::Router;
use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;
use truth::{EventTruth, Totals};
use unit::Unit;

/// Virtual time in nanoseconds; the caller chooses the origin.
pub type Nanos = u64;

/// One of the two ends of the path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Host {
    Near,
    Far,
}

impl Host {
    #[must_use]
    pub fn other(self) -> Host {
        match self {
            Host::Near => Host::Far,
            Host::Far => Host::Near,
        }
    }
}

/// A packet to write to a host's device: `header`, then `payload`, in one write.
#[derive(Debug)]
pub struct Delivery<'a> {
    pub host: Host,
    /// The time at which the packet's last segment arrives.
    pub due: Nanos,
    /// `virtio_net_hdr`, the Ethernet header if there is one, and the rewritten headers.
    pub header: &'a [u8],
    pub payload: &'a [u8],
}

/// Ethernet framing on the devices of both hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ethernet {
    pub near: [u8; 6],
    pub far: [u8; 6],
}

const ETHERNET_BYTES: usize = 14;
/// The source address of all frames: locally administered, never on a wire.
const PATH_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0xfe];

/// A node that receives units one after another: a link that does more than delay, or a host.
struct Station {
    chain: u16,
    /// The link's index in its chain; the number of links for the host at the end.
    position: u16,
    inbox: VecDeque<Unit>,
    /// The due time of the last unit in the inbox; it keeps units in order.
    last_due: Nanos,
    link: Option<Box<Link>>,
    /// Set for a host that receives its packets in batches.
    batch: Option<Box<Batch>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Station(u32),
    /// The router behind a link of a chain: the packet's destination, or the node where its TTL
    /// expires.
    Router {
        chain: u16,
        link: u16,
    },
}

/// A unit outside the order of an inbox: overtaken, made by a router, or on its way to one.
#[derive(PartialEq, Eq)]
struct Stray {
    due: Nanos,
    serial: u64,
    place: Place,
    unit: Unit,
}

impl Ord for Stray {
    fn cmp(&self, other: &Self) -> Ordering {
        // Reversed, so that the heap yields the earliest first.
        (other.due, other.serial).cmp(&(self.due, self.serial))
    }
}

impl PartialOrd for Stray {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A timed event of the path, with its references resolved.
struct Planned {
    at: Nanos,
    /// The same time on the path's own time line.
    said_at: Duration,
    change: PlannedChange,
    text: String,
}

enum PlannedChange {
    Route(usize),
    Link { station: u32, to: Box<LinkSpec> },
}

/// One path between two hosts, in virtual time. See the [module](self) for how to drive it.
pub struct Engine {
    start: Nanos,
    /// The value of `start` on the path's own time line.
    begin_at: Duration,
    route_names: Vec<String>,
    hop_names: Vec<Vec<String>>,
    /// Two per route: from near, from far.
    chains: Vec<Chain>,
    stations: Vec<Station>,
    /// By route, then in the order of the hops.
    routers: Vec<Vec<Router>>,
    active_route: usize,
    agenda: Agenda,
    strays: BinaryHeap<Stray>,
    serial: u64,
    planned: VecDeque<Planned>,
    happened: Vec<EventTruth>,
    packets: Packets,
    through: Vec<Leaving>,
    /// The headers of the current delivery, or the message that a router is writing.
    scratch: Vec<u8>,
    ethernet: Option<Ethernet>,
    totals: Totals,
}

impl Engine {
    /// Puts an Ethernet header between virtio_net_hdr and IP; deliveries go to these addresses.
    #[must_use]
    pub fn with_ethernet(mut self, ethernet: Ethernet) -> Engine {
        self.ethernet = Some(ethernet);
        self
    }

    fn frame_bytes(&self) -> usize {
        if self.ethernet.is_some() {
            ETHERNET_BYTES
        } else {
            0
        }
    }

    /// Returns space for one packet as the device gives it, at least 66 KiB: 10 bytes of
    /// `virtio_net_hdr`, then the frame. Do not keep it across [`advance`](Self::advance).
    pub fn reserve(&mut self) -> &mut [u8] {
        self.packets.reserve()
    }

    /// Accepts a packet that `host` sent at `now` from the first `len` bytes of the last reserved
    /// space. Anything that is not a packet for this path is counted and dropped. Call
    /// [`advance`](Self::advance) for everything due before `now` first.
    pub fn accept(&mut self, host: Host, len: usize, now: Nanos) {
        let frame = self.packets.reserved(len);
        let len = frame.len();
        let parsed = packet::parse(frame, self.frame_bytes());
        match parsed.and_then(|packet| self.admit(host, packet)) {
            Ok(_) if self.packets.is_full() => self.totals.no_memory += 1,
            Ok(packet) => {
                let chain = packet.chain;
                let (count, bytes) = (packet.shape.segments, packet.ip_bytes());
                self.totals.accepted.add(u64::from(count), bytes);
                let id = self.packets.commit(len, packet);
                let unit = Unit {
                    packet: id,
                    first: 0,
                    count,
                    from: now,
                    until: now,
                };
                self.proceed(chain, 0, unit, false);
            }
            Err(Reject::Malformed) => self.totals.malformed += 1,
            Err(Reject::Foreign) => self.totals.foreign += 1,
        }
    }

    /// Determines the packet's destination.
    fn admit(&self, host: Host, packet: packet::Packet) -> Result<packet::Packet, Reject> {
        let (own, other) = match packet.source {
            IpAddr::V4(_) => (IpAddr::V4(ADDRESSES.near_v4), IpAddr::V4(ADDRESSES.far_v4)),
            IpAddr::V6(_) => (IpAddr::V6(ADDRESSES.near_v6), IpAddr::V6(ADDRESSES.far_v6)),
        };
        let (own, other) = if host == Host::Near {
            (own, other)
        } else {
            (other, own)
        };
        if packet.source != own {
            return Err(Reject::Foreign);
        }
        let id = 2 * self.active_route + usize::from(host == Host::Far);
        let chain = &self.chains[id];
        let wanted = if packet.destination == other {
            None
        } else {
            let routers = &self.routers[self.active_route];
            let found = routers
                .iter()
                .position(|it| it.has_address(packet.destination));
            Some(chain.link_to(found.ok_or(Reject::Foreign)?))
        };
        let stop = chain.stop(0, packet.ttl, wanted) as u16;
        Ok(packet::Packet {
            chain: id as u16,
            entry: 0,
            stop,
            ..packet
        })
    }

    /// Returns the time of the next event; `None` if there is none until another packet is
    /// accepted.
    pub fn next_due(&self) -> Option<Nanos> {
        let stray = self.strays.peek().map(|stray| stray.due);
        let planned = self.planned.front().map(|planned| planned.at);
        [self.agenda.due(), stray, planned]
            .into_iter()
            .flatten()
            .min()
    }

    /// Processes everything due by `now` until a packet must be written to a host; returns `None`
    /// when nothing more is due.
    pub fn advance(&mut self, now: Nanos) -> Option<Delivery<'_>> {
        let (station, unit) = loop {
            let due = self.next_due().filter(|due| *due <= now)?;
            if let Some(arrived) = self.step(due) {
                break arrived;
            }
        };
        Some(self.deliver(station, unit))
    }

    /// Processes the next event and returns a unit if it has reached a host.
    fn step(&mut self, due: Nanos) -> Option<(u32, Unit)> {
        if self
            .planned
            .front()
            .is_some_and(|planned| planned.at == due)
        {
            self.happen();
            return None;
        }
        if self.strays.peek().is_some_and(|stray| stray.due == due) {
            let stray = self.strays.pop()?;
            return match stray.place {
                Place::Station(station) => self.arrive(station, stray.unit),
                Place::Router { chain, link } => {
                    self.reach_router(chain, link, stray.unit);
                    None
                }
            };
        }
        let (_, source) = self.agenda.pop()?;
        let station = source / 2;
        if source % 2 == 1 {
            if let Some(batch) = &mut self.stations[station as usize].batch {
                let unit = batch.give_up();
                self.agenda.set(source, batch.due());
                return unit.map(|unit| (station, unit));
            }
            self.work(station, |link, outlet| link.work(due, outlet));
            return None;
        }
        let it = &mut self.stations[station as usize];
        let unit = it.inbox.pop_front()?;
        let next = it.inbox.front().map(|unit| unit.until);
        self.agenda.set(source, next);
        self.arrive(station, unit)
    }

    fn arrive(&mut self, station: u32, unit: Unit) -> Option<(u32, Unit)> {
        let shape = self.packets.get(unit.packet).shape;
        let it = &mut self.stations[station as usize];
        let Some(link) = &mut it.link else {
            let Some(batch) = &mut it.batch else {
                return Some((station, unit));
            };
            batch.take_in(unit);
            self.agenda.set(station * 2 + 1, batch.due());
            return None;
        };
        if let Some(refusal) = link.refuses(&shape, &mut self.totals.dropped, &unit) {
            self.refuse(station, unit, refusal);
        } else {
            self.work(station, |link, outlet| link.arrive(unit, outlet));
        }
        None
    }

    /// Runs an action on a link and forwards what leaves it.
    fn work(&mut self, station: u32, act: impl FnOnce(&mut Link, &mut Outlet)) {
        let it = &mut self.stations[station as usize];
        let Some(link) = &mut it.link else { return };
        let mut through = std::mem::take(&mut self.through);
        let mut outlet = Outlet {
            packets: &mut self.packets,
            through: &mut through,
            dropped: &mut self.totals.dropped,
        };
        act(link, &mut outlet);
        let (chain, next) = (it.chain, usize::from(it.position) + 1);
        self.agenda.set(station * 2 + 1, link.due());
        for leaving in through.drain(..) {
            self.proceed(chain, next, leaving.unit, leaving.overtaken);
        }
        self.through = through;
    }

    /// Moves a unit into link `at` of a chain: across all plain links at once, to the next node at
    /// which something happens to it.
    fn proceed(&mut self, chain_id: u16, at: usize, unit: Unit, out_of_order: bool) {
        let chain = &mut self.chains[usize::from(chain_id)];
        let packet = self.packets.get(unit.packet);
        let station = chain.next_station[at];
        let it = &mut self.stations[station as usize];
        let (stop, position) = (usize::from(packet.stop), usize::from(it.position));
        let end = position.min(stop + 1);
        let unit = chain.cross(at, end, unit, &packet.shape);
        let place = if stop < position {
            Place::Router {
                chain: chain_id,
                link: packet.stop,
            }
        } else {
            Place::Station(station)
        };
        if out_of_order || stop < position {
            self.serial += 1;
            self.strays.push(Stray {
                due: unit.until,
                serial: self.serial,
                place,
                unit,
            });
            return;
        }
        let held = it.last_due.saturating_sub(unit.until);
        let unit = unit.later(held);
        it.last_due = unit.until;
        it.inbox.push_back(unit);
        if it.inbox.len() == 1 {
            self.agenda.set(station * 2, Some(unit.until));
        }
    }

    /// Applies the first planned event.
    fn happen(&mut self) {
        let Some(planned) = self.planned.pop_front() else {
            return;
        };
        self.happened.push(EventTruth {
            at: planned.said_at,
            text: planned.text,
        });
        match planned.change {
            PlannedChange::Route(route) => self.active_route = route,
            PlannedChange::Link { station, to } => {
                self.work(station, |link, outlet| link.change(&to, planned.at, outlet));
            }
        }
    }

    fn deliver(&mut self, station: u32, unit: Unit) -> Delivery<'_> {
        let it = &self.stations[station as usize];
        let chain = &self.chains[usize::from(it.chain)];
        let host = chain.from.other();
        let packet = *self.packets.get(unit.packet);
        let count = u64::from(unit.count);
        self.totals.delivered.add(count, packet.shape.bytes(&unit));
        let routers = it.position.saturating_sub(packet.entry + 1);
        let l2 = self.frame_bytes();
        self.scratch.clear();
        rewrite::push_vnet(&mut self.scratch, &packet, &unit, l2);
        if let Some(ethernet) = &self.ethernet {
            let to = if host == Host::Near {
                ethernet.near
            } else {
                ethernet.far
            };
            let kind: u16 = if packet.source.is_ipv4() {
                0x0800
            } else {
                0x86dd
            };
            self.scratch.extend_from_slice(&to);
            self.scratch.extend_from_slice(&PATH_MAC);
            self.scratch.extend_from_slice(&kind.to_be_bytes());
        }
        // The bytes stay in place until a later packet is read over them.
        self.packets.release(&unit);
        let ip = self.packets.bytes(unit.packet);
        let ttl = (u16::from(packet.ttl) - routers) as u8;
        let begin = self.scratch.len();
        rewrite::push_headers(&mut self.scratch, &packet, ip, &unit, ttl);
        let mut payload = &ip[rewrite::payload_range(&packet, &unit)];
        if let Some(change) = chain.rewrites.last().copied()
            && middlebox::concerns(&packet, ip)
        {
            self.scratch.extend_from_slice(payload);
            payload = &[];
            let is_summed = packet.offload.flags & packet::NEEDS_CHECKSUM == 0;
            middlebox::rewrite(&mut self.scratch[begin..], &packet, change, is_summed);
        }
        Delivery {
            host,
            due: unit.until,
            header: &self.scratch,
            payload,
        }
    }
}
