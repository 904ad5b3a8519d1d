//! Changes to a link in the middle of traffic.
//!
//! Queued packets have no departure time yet and simply leave at the new rate. Of the chunk on the
//! wire, the unsent bytes are sent at the new rate. Packets that have left keep their times.

use super::{Link, Marks, Nanos, Outlet, Unit, nanos};
use crate::engine::bucket::Bucket;
use crate::engine::cross::CrossSource;
use crate::engine::transmitter::Transmitter;
use crate::spec::LinkSpec;

impl Link {
    /// Replaces all parameters of this link at `now`.
    pub fn change(&mut self, spec: &LinkSpec, now: Nanos, outlet: &mut Outlet) {
        self.catch_up(now, outlet);
        self.adopt(spec, now);
        match (&mut self.transmitter, &mut self.serving) {
            (Some(transmitter), Some(serving)) => {
                let (slot, rest) = transmitter.take_over(&serving.slot, serving.bytes, now);
                self.backlog -= serving.bytes - rest;
                serving.slot = slot;
                serving.bytes = rest;
            }
            (None, _) => self.flush(now, outlet),
            (Some(_), None) => {}
        }
    }

    /// Takes over the parameters; unchanged parts keep their state (tokens, cross traffic).
    pub(super) fn adopt(&mut self, spec: &LinkSpec, now: Nanos) {
        let old = std::mem::replace(&mut self.spec, spec.clone());
        self.overhead = u64::from(spec.overhead);
        self.delay = nanos(spec.delay);
        if spec.policer != old.policer {
            self.policer = spec
                .policer
                .map(|it| Bucket::new(it.rate.as_bps(), it.burst.0.saturating_mul(8), now));
        }
        let mut transmitter = Transmitter::new(spec, now);
        if let (Some(new), Some(last)) = (&mut transmitter, &self.transmitter)
            && spec.shaper == old.shaper
        {
            new.keep_tokens(last);
        }
        self.transmitter = transmitter;
        self.loss = Marks::new(spec.loss, &mut self.random);
        self.reorder = spec
            .reorder
            .and_then(|it| Marks::new(it.share, &mut self.random));
        if spec.cross != old.cross {
            let random = self.random.branch();
            let around = self.around;
            self.cross = CrossSource::new(spec, around, random, now);
            if self.cross.is_some() {
                self.cross_truth.get_or_insert_default();
            }
        }
    }

    /// Empties the queue at once: the link no longer has a rate.
    fn flush(&mut self, now: Nanos, outlet: &mut Outlet) {
        let on_wire = self.serving.take().map(|serving| serving.what);
        let waiting = std::mem::take(&mut self.waiting);
        self.backlog = 0;
        self.units = 0;
        for what in on_wire.into_iter().chain(waiting) {
            match what.unit {
                None => self.cross_mut().carried_bytes += what.wire_bytes,
                Some(unit) => {
                    let shape = outlet.packets.get(unit.packet).shape;
                    self.leave(
                        Unit {
                            from: now,
                            until: now,
                            ..unit
                        },
                        &shape,
                        outlet,
                    );
                }
            }
        }
    }
}
