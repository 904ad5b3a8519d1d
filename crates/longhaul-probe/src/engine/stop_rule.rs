//! The stop rule of a sender: time, bytes or blocks. Bytes and blocks are exact and count over all
//! streams of the direction.

use longhaul_model::report::v1::plan::StopCondition;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// The stop rule that all streams of one end share.
#[derive(Debug)]
pub(super) struct StopRule {
    requested: StopCondition,
    /// The bytes or blocks that are left; unused for a time limit.
    left: AtomicU64,
    /// The deadline on the run's own clock; `u64::MAX` before `go` and without a time limit.
    deadline_ns: AtomicU64,
    stopped: AtomicBool,
}

impl StopRule {
    pub fn new(asked: StopCondition) -> StopRule {
        let left = match asked {
            StopCondition::TimeUs(_) => u64::MAX,
            StopCondition::Bytes(left) | StopCondition::Blocks(left) => left,
        };
        StopRule {
            requested: asked,
            left: AtomicU64::new(left),
            deadline_ns: AtomicU64::new(u64::MAX),
            stopped: AtomicBool::new(false),
        }
    }

    /// Starts the time limit at `now_ns`.
    pub fn begin(&self, now_ns: u64) {
        if let StopCondition::TimeUs(micros) = self.requested {
            let deadline = now_ns.saturating_add(micros.saturating_mul(1000));
            self.deadline_ns.store(deadline, Relaxed);
        }
    }

    /// Stops all streams now.
    pub fn stop(&self) {
        self.stopped.store(true, Relaxed);
    }

    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Relaxed)
    }

    pub fn is_over(&self, now_ns: u64) -> bool {
        now_ns >= self.deadline_ns.load(Relaxed) || self.is_stopped()
    }

    pub fn deadline_ns(&self) -> u64 {
        self.deadline_ns.load(Relaxed)
    }

    /// Returns whether the sender ends by itself and its last bytes must arrive.
    pub fn must_drain(&self) -> bool {
        !matches!(self.requested, StopCondition::TimeUs(_))
    }

    /// Returns whether a time-limited sender has used (nearly) all its time. A reset is then its
    /// normal end, since it discards unsent data.
    pub fn is_spent(&self, elapsed_ns: u64) -> bool {
        match self.requested {
            StopCondition::TimeUs(micros) => elapsed_ns >= micros.saturating_mul(950),
            StopCondition::Bytes(_) | StopCondition::Blocks(_) => false,
        }
    }

    /// Takes up to `blocks` blocks of `block_bytes`, in bytes; returns 0 if nothing is left.
    pub fn claim(&self, block_bytes: usize, blocks: usize) -> usize {
        let most = block_bytes * blocks;
        match self.requested {
            StopCondition::TimeUs(_) => most,
            StopCondition::Bytes(_) => self.take(most as u64) as usize,
            StopCondition::Blocks(_) => self.take(blocks as u64) as usize * block_bytes,
        }
    }

    fn take(&self, most: u64) -> u64 {
        let mut left = self.left.load(Relaxed);
        loop {
            let taken = most.min(left);
            match self.left.compare_exchange_weak(left, left - taken, Relaxed, Relaxed) {
                Ok(_) => return taken,
                Err(now) => left = now,
            }
        }
    }

    /// Returns the unsent bytes of a failed stream to the others.
    pub fn give_back(&self, bytes: usize) {
        if let StopCondition::Bytes(_) = self.requested {
            self.left.fetch_add(bytes as u64, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_add_up_to_exactly_what_was_asked() {
        for (asked, total) in [
            (StopCondition::Bytes(0), 0),
            (StopCondition::Bytes(1), 1),
            (StopCondition::Bytes(100_000), 100_000),
            (StopCondition::Blocks(17), 17 * 4096),
        ] {
            let rule = StopRule::new(asked);
            let claim = || {
                let mut sum = 0;
                loop {
                    match rule.claim(4096, 1) {
                        0 => return sum,
                        bytes => sum += bytes,
                    }
                }
            };
            let sum: usize = std::thread::scope(|scope| {
                let streams: Vec<_> = (0..4).map(|_| scope.spawn(claim)).collect();
                let sums = streams.into_iter().map(std::thread::ScopedJoinHandle::join);
                sums.map(|sum| sum.expect("a stream")).sum()
            });
            assert_eq!(sum, total, "{asked:?}");
        }
    }

    #[test]
    fn a_time_begins_with_go_and_not_before() {
        let rule = StopRule::new(StopCondition::TimeUs(5));
        assert!(!rule.is_over(1 << 60));
        rule.begin(1000);
        assert!(!rule.is_over(5999));
        assert!(rule.is_over(6000));
    }
}
