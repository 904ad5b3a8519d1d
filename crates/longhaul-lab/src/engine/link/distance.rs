//! Propagation from the wire's near end to its far end: loss, delay, jitter, reordering.

use super::{Cause, Leaving, Link, Nanos, Outlet, Shape, Unit, nanos};

impl Link {
    /// Drops lost segments of a unit that leaves the wire and propagates the others.
    pub(super) fn leave(&mut self, mut unit: Unit, shape: &Shape, outlet: &mut Outlet) {
        while unit.count > 0 {
            let marked = self
                .loss
                .as_mut()
                .and_then(|marks| marks.within(unit.count, &mut self.random));
            let Some(passing) = marked else { break };
            if let Some(front) = outlet.packets.cut(&mut unit, passing) {
                self.propagate(front, shape, outlet);
            }
            if let Some(lost) = outlet.packets.cut(&mut unit, 1) {
                self.discard(&lost, shape, Cause::Loss, outlet);
            }
        }
        self.propagate(unit, shape, outlet);
    }

    /// Applies delay and jitter, and delays some segments further.
    fn propagate(&mut self, mut unit: Unit, shape: &Shape, outlet: &mut Outlet) {
        let Some(reorder) = self.spec.reorder else {
            return self.pass(unit, None, shape, outlet);
        };
        while unit.count > 0 {
            let marked = self
                .reorder
                .as_mut()
                .and_then(|marks| marks.within(unit.count, &mut self.random));
            let Some(passing) = marked else { break };
            if let Some(front) = outlet.packets.cut(&mut unit, passing) {
                self.pass(front, None, shape, outlet);
            }
            if let Some(late) = outlet.packets.cut(&mut unit, 1) {
                self.pass(late, Some(nanos(reorder.late_by)), shape, outlet);
            }
        }
        self.pass(unit, None, shape, outlet);
    }

    fn pass(&mut self, unit: Unit, late_by: Option<Nanos>, shape: &Shape, outlet: &mut Outlet) {
        if unit.count == 0 {
            return outlet.packets.release(&unit);
        }
        self.left.add(u64::from(unit.count), shape.bytes(&unit));
        let mut delay = self.delay;
        if !self.spec.jitter.is_zero() {
            let shift = self.random.bell() * nanos(self.spec.jitter) as f64;
            delay = delay.saturating_add_signed(shift as i64);
        }
        let unit = unit.later(delay.saturating_add(late_by.unwrap_or(0)));
        outlet.through.push(Leaving {
            unit,
            overtaken: late_by.is_some(),
        });
    }
}
