//! Cross traffic in the queue of a link.
//!
//! It creates no events: cross packets since the last update are processed in time order when the
//! next real packet arrives or leaves.

use super::{CrossSource, CrossTruth, Link, Nanos, Outlet, Serving, Waiting};

impl Link {
    /// Processes the cross traffic that has arrived by `now`.
    pub(super) fn catch_up(&mut self, now: Nanos, outlet: &mut Outlet) {
        while let Some(at) = self
            .cross
            .as_ref()
            .map(CrossSource::next)
            .filter(|at| *at <= now)
        {
            self.finish_virtual(at, outlet);
            self.cross_arrives(at, outlet);
        }
        self.finish_virtual(now, outlet);
        self.caught_up = self.caught_up.max(now);
    }

    fn cross_arrives(&mut self, at: Nanos, outlet: &mut Outlet) {
        let backlog = self.backlog_at(at);
        let room = self.queue_limit().saturating_sub(backlog);
        let Some(source) = &mut self.cross else {
            return;
        };
        let wire_bytes = source.packet_bytes();
        let fits = backlog == 0 || wire_bytes <= room;
        let wait = self
            .transmitter
            .as_ref()
            .map_or(0, |transmitter| transmitter.time_for(backlog));
        source.advance(fits.then_some(wait));
        let truth = self.cross_mut();
        truth.offered_bytes += wire_bytes;
        if !fits {
            truth.dropped_bytes += wire_bytes;
        } else if self.transmitter.is_some() {
            self.append(
                Waiting {
                    unit: None,
                    wire_bytes,
                    arrived: at,
                },
                outlet,
            );
        } else {
            self.cross_mut().carried_bytes += wire_bytes;
        }
    }

    pub(super) fn cross_mut(&mut self) -> &mut CrossTruth {
        self.cross_truth.get_or_insert_default()
    }

    /// Completes cross packets that are sent by `now`; real packets wait for their own event.
    fn finish_virtual(&mut self, now: Nanos, outlet: &mut Outlet) {
        let is_out = |serving: &Serving| serving.what.unit.is_none() && serving.slot.finish <= now;
        while self.serving.as_ref().is_some_and(is_out) {
            self.finish(outlet);
        }
    }
}
