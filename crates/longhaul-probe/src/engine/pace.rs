//! Going no faster than a rate, by sleeping between calls.
//!
//! A schedule, not a bucket: each call is due when the bytes before it would have passed at the
//! rate. A thread that comes late may catch up, but only by `credit`; what is lost beyond that
//! (blocked by the peer, or without a core) is not made up in a burst.

use super::counters::RunClock;
use super::stop::StopRule;
use longhaul_model::units::Rate;
use std::time::Duration;

/// Sleeps are cut so that a stop is seen in time.
const SLICE: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(super) struct Pace {
    rate: Rate,
    credit_ns: u64,
    due_ns: u64,
}

impl Pace {
    pub fn new(rate: Rate, credit: Duration, now_ns: u64) -> Pace {
        Pace {
            rate,
            credit_ns: credit.as_nanos() as u64,
            due_ns: now_ns,
        }
    }

    /// Waits until the next call is due; false when the run is over first.
    pub fn wait(&mut self, clock: RunClock, stop: &StopRule) -> bool {
        loop {
            let now = clock.now_ns();
            if stop.over(now) {
                return false;
            }
            let Some(early) = self.due_ns.checked_sub(now).filter(|&early| early > 0) else {
                self.due_ns = self.due_ns.max(now.saturating_sub(self.credit_ns));
                return true;
            };
            let until_stop = stop.deadline_ns().saturating_sub(now);
            let sleep = Duration::from_nanos(early.min(until_stop)).min(SLICE);
            std::thread::sleep(sleep);
        }
    }

    /// `bytes` have gone.
    pub fn passed(&mut self, bytes: usize) {
        let time = self.rate.time_for(bytes as u64).unwrap_or(Duration::MAX);
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.due_ns = self.due_ns.saturating_add(nanos);
    }
}

/// Bytes that pass in about ten milliseconds, within bounds: small enough to flow evenly, large
/// enough that the calls cost nothing.
pub(super) fn quantum(rate: Rate, least: usize, most: usize) -> usize {
    let bytes = rate.bytes_in(Duration::from_millis(10));
    usize::try_from(bytes)
        .unwrap_or(most)
        .clamp(least.min(most), most)
}
