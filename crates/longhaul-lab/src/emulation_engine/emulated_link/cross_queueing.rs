//! Cross traffic in the queue of a link.
//!
//! It creates no events: cross packets since the last update are processed in time order when the
//! next real packet arrives or leaves.

use super::{CrossTruth, EmulatedLink, EntryOnWire, LinkOutput, Nanos, QueueEntry};

impl EmulatedLink {
    /// Processes the cross traffic that has arrived by `now`.
    pub(super) fn process_cross_traffic(&mut self, now: Nanos, outlet: &mut LinkOutput) {
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

    pub(super) fn cross_truth_mut(&mut self) -> &mut CrossTruth {
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
