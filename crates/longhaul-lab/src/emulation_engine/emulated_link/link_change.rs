//! Changes to a link in the middle of traffic.
//!
//! Queued packets have no departure time yet and simply leave at the new rate. Of the chunk on the
//! wire, the unsent bytes are sent at the new rate. Packets that have left keep their times.

use super::{EmulatedLink, LinkOutput, Nanos, PacketUnit, RandomMarks, to_virtual_nanos};
use crate::emulation_engine::cross_source::CrossSource;
use crate::emulation_engine::exact_token_bucket::ExactTokenBucket;
use crate::emulation_engine::transmitter::LinkTransmitter;
use crate::path_spec::LinkSpec;

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
    pub(super) fn apply_spec(&mut self, spec: &LinkSpec, now: Nanos) {
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
