//! An exact token bucket: the level is kept in billionths of a token, so no refill is ever rounded.

use super::Nanos;

const SCALE: u128 = 1_000_000_000;

#[derive(Clone, Debug)]
pub(super) struct ExactTokenBucket {
    per_second: u64,
    capacity: u128,
    level: u128,
    at: Nanos,
}

impl ExactTokenBucket {
    /// Creates a bucket that is full at `at` and is refilled with `per_second` tokens up to
    /// `burst`.
    pub fn new(per_second: u64, burst: u64, at: Nanos) -> ExactTokenBucket {
        let capacity = u128::from(burst) * SCALE;
        ExactTokenBucket { per_second, capacity, level: capacity, at }
    }

    pub fn refill(&mut self, now: Nanos) {
        if now > self.at {
            self.level += u128::from(now - self.at) * u128::from(self.per_second);
            self.level = self.level.min(self.capacity);
            self.at = now;
        }
    }

    /// Takes `tokens` if they are available at `now`.
    pub fn take(&mut self, tokens: u64, now: Nanos) -> bool {
        self.refill(now);
        let wanted = u128::from(tokens) * SCALE;
        let enough = self.level >= wanted;
        if enough {
            self.level -= wanted;
        }
        enough
    }

    /// Spends `tokens` from `start` on, as early as the refill allows and not before `earliest`;
    /// returns the time at which the last of them was available.
    pub fn spend(&mut self, tokens: u64, start: Nanos, earliest: Nanos) -> Nanos {
        self.refill(start);
        let wanted = u128::from(tokens) * SCALE;
        let missing = wanted.saturating_sub(self.level);
        let wait = missing.div_ceil(u128::from(self.per_second.max(1)));
        let there = start.saturating_add(u64::try_from(wait).unwrap_or(u64::MAX));
        let done = there.max(earliest);
        self.level += u128::from(done - start) * u128::from(self.per_second);
        // Tokens that arrive while others are being spent do not overflow before they are needed.
        self.level = (self.level.saturating_sub(wanted)).min(self.capacity);
        self.at = self.at.max(done);
        done
    }
}
