//! Exponential retry backoff up to five minutes, with jitter so that agents do not retry in
//! lockstep.

use crate::watch::hash_random::draw_number;
use std::time::Duration;

const FIRST_DELAY: Duration = Duration::from_secs(1);
const MAX_DELAY: Duration = Duration::from_secs(300);

#[derive(Debug)]
pub struct RetryBackoff {
    seed: u64,
    failures: u32,
}

impl RetryBackoff {
    pub fn new(seed: u64) -> Self {
        RetryBackoff { seed, failures: 0 }
    }

    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Records a failure. Returns the next delay: between half and all of the full delay.
    pub fn next_delay(&mut self) -> Duration {
        let full = FIRST_DELAY.saturating_mul(1 << self.failures.min(16)).min(MAX_DELAY);
        self.failures = self.failures.saturating_add(1);
        let half_ms = (full.as_millis() / 2) as u64;
        let chance_ms = draw_number(self.seed, &[u64::from(self.failures)]) % (half_ms + 1);
        Duration::from_millis(half_ms + chance_ms)
    }

    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_minutes_and_begin_anew_after_success() {
        let mut backoff = RetryBackoff::new(7);
        let waits: Vec<Duration> = (0..40).map(|_| backoff.next_delay()).collect();
        assert!(waits[0] >= FIRST_DELAY / 2 && waits[0] <= FIRST_DELAY);
        for (number, wait) in waits.iter().enumerate().skip(9) {
            assert!(*wait >= MAX_DELAY / 2 && *wait <= MAX_DELAY, "{number}: {wait:?}");
        }
        backoff.reset();
        assert!(backoff.next_delay() <= FIRST_DELAY);
    }

    #[test]
    fn agents_that_lose_their_collector_together_do_not_return_together() {
        let waits = |seed| {
            let mut backoff = RetryBackoff::new(seed);
            (0..9).map(|_| backoff.next_delay()).collect::<Vec<_>>()
        };
        assert_ne!(waits(1), waits(2));
    }
}
