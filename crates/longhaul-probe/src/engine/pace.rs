//! Rate limiting by sleeping between calls.
//!
//! This is a schedule, not a token bucket: each call is due when the bytes before it would have
//! passed at the rate. A late thread may catch up by at most `credit`; time lost beyond that
//! (blocked by the peer, or without a core) is not made up in a burst.

use super::stop_rule::StopRule;
use super::stream_counters::RunClock;
use longhaul_model::units::Rate;
use std::time::Duration;

/// The longest sleep, so that a stop is noticed in time.
const SLICE: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(super) struct RatePacer {
    rate: Rate,
    credit_ns: u64,
    due_ns: u64,
}

impl RatePacer {
    pub fn new(rate: Rate, credit: Duration, now_ns: u64) -> RatePacer {
        RatePacer { rate, credit_ns: credit.as_nanos() as u64, due_ns: now_ns }
    }

    /// Waits until the next call is due; false if the run ends first.
    pub fn wait(&mut self, clock: RunClock, stop: &StopRule) -> bool {
        loop {
            let now = clock.now_ns();
            if stop.is_over(now) {
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

    /// Records that `bytes` were sent or received.
    pub fn advance(&mut self, bytes: usize) {
        let time = self.rate.time_for(bytes as u64).unwrap_or(Duration::MAX);
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.due_ns = self.due_ns.saturating_add(nanos);
    }
}

/// Returns the bytes that pass in about 10 ms, within the limits: small enough for an even flow,
/// large enough for a negligible cost of calls.
pub(super) fn paced_call_bytes(rate: Rate, least: usize, most: usize) -> usize {
    let bytes = rate.bytes_in(Duration::from_millis(10));
    usize::try_from(bytes).unwrap_or(most).clamp(least.min(most), most)
}
