//! Propagation from the wire's near end to its far end: loss, delay, jitter, reordering.

use super::{
    DepartedUnit, EmulatedLink, LinkOutput, Nanos, PacketUnit, SegmentSizes, to_virtual_nanos,
};

impl EmulatedLink {
    /// Drops lost segments of a unit that leaves the wire and propagates the others.
    pub(super) fn leave(
        &mut self,
        mut unit: PacketUnit,
        shape: &SegmentSizes,
        outlet: &mut LinkOutput,
    ) {
        while unit.count > 0 {
            let marked = self
                .loss
                .as_mut()
                .and_then(|marks| marks.next_within(unit.count, &mut self.random));
            let Some(passing) = marked else { break };
            if let Some(front) = outlet.packets.cut(&mut unit, passing) {
                self.propagate(front, shape, outlet);
            }
            if let Some(lost) = outlet.packets.cut(&mut unit, 1) {
                self.discard(&lost, shape, |drops| &mut drops.loss, outlet);
            }
        }
        self.propagate(unit, shape, outlet);
    }

    /// Applies delay and jitter, and delays some segments further.
    fn propagate(&mut self, mut unit: PacketUnit, shape: &SegmentSizes, outlet: &mut LinkOutput) {
        let Some(reorder) = self.spec.reorder else {
            return self.depart(unit, None, shape, outlet);
        };
        while unit.count > 0 {
            let marked = self
                .reorder
                .as_mut()
                .and_then(|marks| marks.next_within(unit.count, &mut self.random));
            let Some(passing) = marked else { break };
            if let Some(front) = outlet.packets.cut(&mut unit, passing) {
                self.depart(front, None, shape, outlet);
            }
            if let Some(late) = outlet.packets.cut(&mut unit, 1) {
                self.depart(late, Some(to_virtual_nanos(reorder.late_by)), shape, outlet);
            }
        }
        self.depart(unit, None, shape, outlet);
    }

    fn depart(
        &mut self,
        unit: PacketUnit,
        late_by: Option<Nanos>,
        shape: &SegmentSizes,
        outlet: &mut LinkOutput,
    ) {
        if unit.count == 0 {
            return outlet.packets.release(&unit);
        }
        self.counted.left.add(u64::from(unit.count), shape.bytes(&unit));
        let mut delay = self.delay;
        if !self.spec.jitter.is_zero() {
            let shift = self.random.bell() * to_virtual_nanos(self.spec.jitter) as f64;
            delay = delay.saturating_add_signed(shift as i64);
        }
        let unit = unit.delayed(delay.saturating_add(late_by.unwrap_or(0)));
        outlet.departed.push(DepartedUnit { unit, overtaken: late_by.is_some() });
    }
}
