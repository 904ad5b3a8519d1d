//! Exponential retry backoff up to five minutes, with jitter so that agents do not retry in
//! lockstep.

use crate::watch::draw::draw;
use std::time::Duration;

const FIRST: Duration = Duration::from_secs(1);
const MOST: Duration = Duration::from_secs(300);

#[derive(Debug)]
pub struct Backoff {
    seed: u64,
    failures: u32,
}

impl Backoff {
    pub fn new(seed: u64) -> Self {
        Backoff { seed, failures: 0 }
    }

    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Records a failure. Returns the next delay: between half and all of the full delay.
    pub fn failed(&mut self) -> Duration {
        let full = FIRST.saturating_mul(1 << self.failures.min(16)).min(MOST);
        self.failures = self.failures.saturating_add(1);
        let half_ms = (full.as_millis() / 2) as u64;
        let chance_ms = draw(self.seed, &[u64::from(self.failures)]) % (half_ms + 1);
        Duration::from_millis(half_ms + chance_ms)
    }

    pub fn worked(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_minutes_and_begin_anew_after_success() {
        let mut backoff = Backoff::new(7);
        let waits: Vec<Duration> = (0..40).map(|_| backoff.failed()).collect();
        assert!(waits[0] >= FIRST / 2 && waits[0] <= FIRST);
        for (number, wait) in waits.iter().enumerate().skip(9) {
            assert!(*wait >= MOST / 2 && *wait <= MOST, "{number}: {wait:?}");
        }
        backoff.worked();
        assert!(backoff.failed() <= FIRST);
    }

    #[test]
    fn agents_that_lose_their_collector_together_do_not_return_together() {
        let waits = |seed| {
            let mut backoff = Backoff::new(seed);
            (0..9).map(|_| backoff.failed()).collect::<Vec<_>>()
        };
        assert_ne!(waits(1), waits(2));
    }
}
