//! One link of the path: policer, shaper, queue, serialisation, loss, delay.
//!
//! A link is driven by two calls: [`EmulatedLink::arrive`] when a unit has fully arrived, and
//! [`EmulatedLink::process_due`] at the time returned by [`EmulatedLink::due`]. Units leave with the times at which they
//! reach the other end of the link. Only the chunk on the wire has a departure time, so a change of
//! rate rescales that chunk only.
//!
//! Units: wire bytes, that is IP bytes plus `overhead` per segment.
//!
//! # Cross queueing
//!
//! Cross traffic in the queue of a link.
//!
//! It creates no events: cross packets since the last update are processed in time order when the
//! next real packet arrives or leaves.
//!
//! # Link change
//!
//! Changes to a link in the middle of traffic.
//!
//! Queued packets have no departure time yet and simply leave at the new rate. Of the chunk on the
//! wire, the unsent bytes are sent at the new rate. Packets that have left keep their times.

mod propagation;

use super::Nanos;
use super::cross_source::{CrossContext, CrossSource};
use super::exact_token_bucket::ExactTokenBucket;
use super::ground_truth::{CrossTruth, DropCounts, LinkTruth, PacketTally};
use super::pooled_packet::{PacketPool, PacketUnit, SegmentSizes};
use super::seeded_random::{RandomMarks, SeededRandom};
use super::transmitter::{LinkTransmitter, TransmitLoad, TransmitSlot};
use crate::path_spec::LinkSpec;
use longhaul_model::units::Rate;
use std::collections::VecDeque;

/// The maximum time between two updates of a link with cross traffic, so that no real packet has to
/// wait while an hour of cross traffic is caught up.
const CROSS_HEARTBEAT: Nanos = 10_000_000;

/// The capacity of a queue without a configured limit, in wire bytes: every queue is bounded.
const LARGEST_QUEUE: u64 = 1 << 30;

/// A unit that has reached the end of the link.
#[derive(Clone, Copy, Debug)]
pub(super) struct DepartedUnit {
    pub unit: PacketUnit,
    /// The unit was delayed on purpose; others may overtake it.
    pub overtaken: bool,
}

/// The output of a link, and the packets that it may need to cut.
pub(super) struct LinkOutput<'a> {
    pub packets: &'a mut PacketPool,
    pub departed: &'a mut Vec<DepartedUnit>,
    /// Packets lost on any link.
    pub dropped: &'a mut PacketTally,
}

/// An entry of the queue: segments of a packet, or one packet of cross traffic.
#[derive(Clone, Copy)]
struct QueueEntry {
    unit: Option<PacketUnit>,
    wire_bytes: u64,
    arrived: Nanos,
}

struct EntryOnWire {
    slot: TransmitSlot,
    entry: QueueEntry,
    /// The bytes of `what` that `slot` covers: all of them unless the rate has changed since.
    bytes: u64,
}

pub(super) struct EmulatedLink {
    spec: LinkSpec,
    cross_context: CrossContext,
    overhead: u64,
    delay: Nanos,
    policer: Option<ExactTokenBucket>,
    transmitter: Option<LinkTransmitter>,
    loss: Option<RandomMarks>,
    reorder: Option<RandomMarks>,
    cross: Option<CrossSource>,
    random: SeededRandom,
    waiting: VecDeque<QueueEntry>,
    on_wire: Option<EntryOnWire>,
    /// Units queued or being sent.
    units: usize,
    /// Wire bytes queued or being sent.
    backlog: u64,
    updated_at: Nanos,
    /// The counters; everything else in it is filled in when the truth is read.
    counted: LinkTruth,
}

pub(super) fn to_virtual_nanos(duration: std::time::Duration) -> Nanos {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl EmulatedLink {
    pub fn new(
        spec: &LinkSpec,
        context: CrossContext,
        random: SeededRandom,
        now: Nanos,
    ) -> EmulatedLink {
        let mut link = EmulatedLink {
            spec: LinkSpec::default(),
            cross_context: context,
            overhead: 0,
            delay: 0,
            policer: None,
            transmitter: None,
            loss: None,
            reorder: None,
            cross: None,
            random,
            waiting: VecDeque::new(),
            on_wire: None,
            units: 0,
            backlog: 0,
            updated_at: now,
            counted: LinkTruth::default(),
        };
        link.apply_spec(spec, now);
        link
    }

    /// Checks whether packets of this shape fit the link, and if not, whether the sender is told.
    pub fn check_mtu(
        &mut self,
        shape: &SegmentSizes,
        dropped: &mut PacketTally,
        unit: &PacketUnit,
    ) -> Option<MtuRefusal> {
        let mtu = self.spec.mtu.filter(|mtu| shape.full > *mtu)?;
        let (packets, bytes) = (u64::from(unit.count), shape.bytes(unit));
        self.counted.entered.add(packets, bytes);
        self.counted.drops.mtu += packets;
        dropped.add(packets, bytes);
        Some(MtuRefusal { mtu, is_told: !self.spec.mtu_black_hole })
    }

    pub fn arrive(&mut self, mut unit: PacketUnit, outlet: &mut LinkOutput) {
        self.process_cross_traffic(unit.until, outlet);
        let shape = outlet.packets.get(unit.packet).shape;
        self.counted.entered.add(u64::from(unit.count), shape.bytes(&unit));
        let Some(policer) = &mut self.policer else {
            return self.enqueue(unit, &shape, outlet);
        };
        let bits = 8 * (shape.bytes(&unit) + self.overhead * u64::from(unit.count));
        if policer.take(bits, unit.from) {
            return self.enqueue(unit, &shape, outlet);
        }
        while unit.count > 0
            && let Some(segment) = outlet.packets.cut(&mut unit, 1)
        {
            let bits = 8 * (shape.bytes(&segment) + self.overhead);
            if self.policer.as_mut().is_none_or(|policer| policer.take(bits, segment.until)) {
                self.enqueue(segment, &shape, outlet);
            } else {
                self.discard(&segment, &shape, |drops| &mut drops.policer, outlet);
            }
        }
        outlet.packets.release(&unit);
    }

    fn enqueue(&mut self, mut unit: PacketUnit, shape: &SegmentSizes, outlet: &mut LinkOutput) {
        if self.transmitter.is_none() {
            return self.leave(unit, shape, outlet);
        }
        let fit = self.count_fitting(&unit, shape);
        if fit < unit.count {
            let front = outlet.packets.cut(&mut unit, fit);
            let is_shaped = self.transmitter.as_ref().is_some_and(|it| it.tokens.is_some());
            self.discard(
                &unit,
                shape,
                |drops| if is_shaped { &mut drops.shaper } else { &mut drops.queue },
                outlet,
            );
            match front {
                Some(front) => unit = front,
                None => return,
            }
        }
        let wire_bytes = shape.bytes(&unit) + self.overhead * u64::from(unit.count);
        self.units += 1;
        self.append(QueueEntry { unit: Some(unit), wire_bytes, arrived: unit.until }, outlet);
    }

    /// Appends an admitted entry to the queue.
    fn append(&mut self, what: QueueEntry, outlet: &mut LinkOutput) {
        self.backlog += what.wire_bytes;
        self.waiting.push_back(what);
        if self.on_wire.is_none() {
            self.start(outlet);
        }
        let backlog = self.backlog_at(what.arrived);
        self.counted.queue_peak_bytes = self.counted.queue_peak_bytes.max(backlog);
    }

    /// Returns how many of the unit's segments fit into the queue. A segment that finds the wire
    /// idle needs no room.
    fn count_fitting(&self, unit: &PacketUnit, shape: &SegmentSizes) -> u16 {
        let Some(transmitter) = &self.transmitter else {
            return unit.count;
        };
        let limit = self.queue_limit();
        let backlog = self.backlog_at(unit.until);
        if backlog > 0 {
            return shape.count_fitting(unit, limit.saturating_sub(backlog), self.overhead);
        }
        let load = self.load(unit, shape);
        let room = limit.saturating_add(transmitter.sent_while_arriving(&load));
        shape.count_fitting(unit, room, self.overhead).max(1)
    }

    fn queue_limit(&self) -> u64 {
        self.spec.queue.map_or(LARGEST_QUEUE, |limit| limit.0)
    }

    fn backlog_at(&self, now: Nanos) -> u64 {
        let sent = self.on_wire.as_ref().map_or(0, |serving| {
            let total = serving.slot.finish - serving.slot.start;
            let done = now.saturating_sub(serving.slot.start).min(total);
            (u128::from(serving.bytes) * u128::from(done) / u128::from(total.max(1))) as u64
        });
        self.backlog - sent
    }

    fn load(&self, unit: &PacketUnit, shape: &SegmentSizes) -> TransmitLoad {
        TransmitLoad {
            from: unit.from,
            until: unit.until,
            bytes: shape.bytes(unit) + self.overhead * u64::from(unit.count),
            first_bytes: shape.first_bytes(unit) + self.overhead,
            last_bytes: shape.last_bytes(unit) + self.overhead,
            before_last: unit.second_last_arrival(shape),
        }
    }

    /// Starts to send the head of the queue, or as much of it as may leave together.
    fn start(&mut self, outlet: &mut LinkOutput) {
        let Some(mut what) = self.waiting.pop_front() else {
            return;
        };
        let load = match &mut what.unit {
            None => TransmitLoad::single(what.arrived, what.wire_bytes),
            Some(unit) => {
                let shape = outlet.packets.get(unit.packet).shape;
                let most = self.chunk_segments(unit.count, &shape);
                if unit.count > most {
                    let mut rest = *unit;
                    let front = outlet.packets.cut(&mut rest, most).unwrap_or(rest);
                    *unit = front;
                    let load = self.load(&front, &shape);
                    let wire_bytes = what.wire_bytes - load.bytes;
                    self.units += 1;
                    self.waiting.push_front(QueueEntry { unit: Some(rest), wire_bytes, ..what });
                    what.wire_bytes = load.bytes;
                    load
                } else {
                    self.load(unit, &shape)
                }
            }
        };
        let Some(transmitter) = &mut self.transmitter else {
            return;
        };
        self.on_wire =
            Some(EntryOnWire { slot: transmitter.schedule(&load), bytes: load.bytes, entry: what });
    }

    /// Returns how many of `count` segments leave together: at most a quantum, and all chunks of
    /// about the same size, so that a faster link does not cut small pieces off them again.
    fn chunk_segments(&self, count: u16, shape: &SegmentSizes) -> u16 {
        let each = u64::from(shape.full) + self.overhead;
        let quantum = self.transmitter.as_ref().map_or(0, |it| it.quantum_bytes);
        let most = (quantum / each.max(1)).max(1);
        let chunks = u64::from(count).div_ceil(most).max(1);
        u64::from(count).div_ceil(chunks) as u16
    }

    /// Completes the chunk on the wire and starts the next.
    fn finish(&mut self, outlet: &mut LinkOutput) {
        let Some(serving) = self.on_wire.take() else {
            return;
        };
        self.backlog -= serving.bytes;
        self.start(outlet);
        match serving.entry.unit {
            None => self.cross_truth_mut().carried_bytes += serving.entry.wire_bytes,
            Some(unit) => {
                self.units -= 1;
                let shape = outlet.packets.get(unit.packet).shape;
                let on_wire =
                    PacketUnit { from: serving.slot.first, until: serving.slot.finish, ..unit };
                self.leave(on_wire, &shape, outlet);
            }
        }
    }

    fn discard(
        &mut self,
        unit: &PacketUnit,
        shape: &SegmentSizes,
        counter: impl FnOnce(&mut DropCounts) -> &mut u64,
        outlet: &mut LinkOutput,
    ) {
        let packets = u64::from(unit.count);
        *counter(&mut self.counted.drops) += packets;
        outlet.dropped.add(packets, shape.bytes(unit));
        outlet.packets.release(unit);
    }

    /// Returns the time of the link's next action; `None` if there is none before the next arrival.
    pub fn due(&self) -> Option<Nanos> {
        match &self.on_wire {
            Some(serving) if self.units > 0 => Some(serving.slot.finish),
            _ if self.cross.is_some() => Some(self.updated_at.saturating_add(CROSS_HEARTBEAT)),
            _ => None,
        }
    }

    /// Processes everything due by `now`.
    pub fn process_due(&mut self, now: Nanos, outlet: &mut LinkOutput) {
        self.process_cross_traffic(now, outlet);
        while self.on_wire.as_ref().is_some_and(|serving| serving.slot.finish <= now) {
            self.finish(outlet);
        }
    }

    pub fn truth(&self, now: Nanos) -> LinkTruth {
        LinkTruth {
            queue_bytes: self.backlog_at(now),
            queue_limit_bytes: self.spec.queue.map(|limit| limit.0),
            delay: self.spec.delay,
            capacity: self.transmitter.as_ref().map(|it| Rate::bits_per_second(it.rate_bps)),
            sustained: self.spec.shaper.map(|shaper| shaper.sustained),
            overhead_bytes: self.spec.overhead,
            ..self.counted
        }
    }
}

/// The refusal of a packet that is larger than the link's MTU.
#[derive(Clone, Copy, Debug)]
pub(super) struct MtuRefusal {
    pub mtu: u32,
    pub is_told: bool,
}

impl EmulatedLink {
    /// Processes the cross traffic that has arrived by `now`.
    fn process_cross_traffic(&mut self, now: Nanos, outlet: &mut LinkOutput) {
        while let Some(at) = self.cross.as_ref().map(|it| it.next).filter(|at| *at <= now) {
            self.finish_cross_packets(at, outlet);
            self.add_cross_packet(at, outlet);
        }
        self.finish_cross_packets(now, outlet);
        self.updated_at = self.updated_at.max(now);
    }

    fn add_cross_packet(&mut self, at: Nanos, outlet: &mut LinkOutput) {
        let backlog = self.backlog_at(at);
        let room = self.queue_limit().saturating_sub(backlog);
        let Some(source) = &mut self.cross else {
            return;
        };
        let wire_bytes = source.packet_bytes;
        let fits = backlog == 0 || wire_bytes <= room;
        let wait = self.transmitter.as_ref().map_or(0, |transmitter| transmitter.time_for(backlog));
        source.advance(fits.then_some(wait));
        let truth = self.cross_truth_mut();
        truth.offered_bytes += wire_bytes;
        if !fits {
            truth.dropped_bytes += wire_bytes;
        } else if self.transmitter.is_some() {
            self.append(QueueEntry { unit: None, wire_bytes, arrived: at }, outlet);
        } else {
            self.cross_truth_mut().carried_bytes += wire_bytes;
        }
    }

    fn cross_truth_mut(&mut self) -> &mut CrossTruth {
        self.counted.cross.get_or_insert_default()
    }

    /// Completes cross packets that are sent by `now`; real packets wait for their own event.
    fn finish_cross_packets(&mut self, now: Nanos, outlet: &mut LinkOutput) {
        let is_out =
            |serving: &EntryOnWire| serving.entry.unit.is_none() && serving.slot.finish <= now;
        while self.on_wire.as_ref().is_some_and(is_out) {
            self.finish(outlet);
        }
    }
}

impl EmulatedLink {
    /// Replaces all parameters of this link at `now`.
    pub fn change(&mut self, spec: &LinkSpec, now: Nanos, outlet: &mut LinkOutput) {
        self.process_cross_traffic(now, outlet);
        self.apply_spec(spec, now);
        match (&mut self.transmitter, &mut self.on_wire) {
            (Some(transmitter), Some(serving)) => {
                let (slot, rest) = transmitter.resume_slot(&serving.slot, serving.bytes, now);
                self.backlog -= serving.bytes - rest;
                serving.slot = slot;
                serving.bytes = rest;
            }
            (None, _) => self.flush(now, outlet),
            (Some(_), None) => {}
        }
    }

    /// Takes over the parameters; unchanged parts keep their state (tokens, cross traffic).
    fn apply_spec(&mut self, spec: &LinkSpec, now: Nanos) {
        let old = std::mem::replace(&mut self.spec, spec.clone());
        self.overhead = u64::from(spec.overhead);
        self.delay = to_virtual_nanos(spec.delay);
        if spec.policer != old.policer {
            self.policer = spec.policer.map(|it| {
                ExactTokenBucket::new(it.rate.as_bps(), it.burst.0.saturating_mul(8), now)
            });
        }
        let mut transmitter = LinkTransmitter::new(spec, now);
        if let (Some(new), Some(last)) = (&mut transmitter, &self.transmitter)
            && spec.shaper == old.shaper
        {
            new.tokens.clone_from(&last.tokens);
        }
        self.transmitter = transmitter;
        self.loss = RandomMarks::new(spec.loss, &mut self.random);
        self.reorder = spec.reorder.and_then(|it| RandomMarks::new(it.share, &mut self.random));
        if spec.cross != old.cross {
            let random = self.random.branch();
            let context = self.cross_context;
            self.cross = CrossSource::new(spec, context, random, now);
            if self.cross.is_some() {
                self.counted.cross.get_or_insert_default();
            }
        }
    }

    /// Empties the queue at once: the link no longer has a rate.
    fn flush(&mut self, now: Nanos, outlet: &mut LinkOutput) {
        let on_wire = self.on_wire.take().map(|serving| serving.entry);
        let waiting = std::mem::take(&mut self.waiting);
        self.backlog = 0;
        self.units = 0;
        for what in on_wire.into_iter().chain(waiting) {
            match what.unit {
                None => self.cross_truth_mut().carried_bytes += what.wire_bytes,
                Some(unit) => {
                    let shape = outlet.packets.get(unit.packet).shape;
                    self.leave(PacketUnit { from: now, until: now, ..unit }, &shape, outlet);
                }
            }
        }
    }
}
