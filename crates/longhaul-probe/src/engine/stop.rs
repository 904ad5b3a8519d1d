//! The stop rule of a sender: time, bytes or blocks. Bytes and blocks are exact and count over all
//! streams of the direction.

use longhaul_model::report::v1::plan::Stop;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// The stop rule that all streams of one end share.
#[derive(Debug)]
pub(super) struct StopRule {
    asked: Stop,
    /// The bytes or blocks that are left; unused for a time limit.
    left: AtomicU64,
    /// The deadline on the run's own clock; `u64::MAX` before `go` and without a time limit.
    deadline_ns: AtomicU64,
    stopped: AtomicBool,
}

impl StopRule {
    pub fn new(asked: Stop) -> StopRule {
        let left = match asked {
            Stop::TimeUs(_) => u64::MAX,
            Stop::Bytes(left) | Stop::Blocks(left) => left,
        };
        StopRule {
            asked,
            left: AtomicU64::new(left),
            deadline_ns: AtomicU64::new(u64::MAX),
            stopped: AtomicBool::new(false),
        }
    }

    /// Starts the time limit at `now_ns`.
    pub fn begin(&self, now_ns: u64) {
        if let Stop::TimeUs(micros) = self.asked {
            let deadline = now_ns.saturating_add(micros.saturating_mul(1000));
            self.deadline_ns.store(deadline, Relaxed);
        }
    }

    /// Stops all streams now.
    pub fn stop(&self) {
        self.stopped.store(true, Relaxed);
    }

    pub fn stopped(&self) -> bool {
        self.stopped.load(Relaxed)
    }

    pub fn over(&self, now_ns: u64) -> bool {
        now_ns >= self.deadline_ns.load(Relaxed) || self.stopped()
    }

    pub fn deadline_ns(&self) -> u64 {
        self.deadline_ns.load(Relaxed)
    }

    /// Returns whether the sender ends by itself and its last bytes must arrive.
    pub fn drains(&self) -> bool {
        !matches!(self.asked, Stop::TimeUs(_))
    }

    /// Returns whether a time-limited sender has used (nearly) all its time. A reset is then its
    /// normal end, since it discards unsent data.
    pub fn is_spent(&self, elapsed_ns: u64) -> bool {
        match self.asked {
            Stop::TimeUs(micros) => elapsed_ns >= micros.saturating_mul(950),
            Stop::Bytes(_) | Stop::Blocks(_) => false,
        }
    }

    /// Takes up to `blocks` blocks of `block_bytes`, in bytes; returns 0 if nothing is left.
    pub fn claim(&self, block_bytes: usize, blocks: usize) -> usize {
        let most = block_bytes * blocks;
        match self.asked {
            Stop::TimeUs(_) => most,
            Stop::Bytes(_) => self.take(most as u64) as usize,
            Stop::Blocks(_) => self.take(blocks as u64) as usize * block_bytes,
        }
    }

    fn take(&self, most: u64) -> u64 {
        let mut left = self.left.load(Relaxed);
        loop {
            let taken = most.min(left);
            match self
                .left
                .compare_exchange_weak(left, left - taken, Relaxed, Relaxed)
            {
                Ok(_) => return taken,
                Err(now) => left = now,
            }
        }
    }

    /// Returns the unsent bytes of a failed stream to the others.
    pub fn give_back(&self, bytes: usize) {
        if let Stop::Bytes(_) = self.asked {
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
            (Stop::Bytes(0), 0),
            (Stop::Bytes(1), 1),
            (Stop::Bytes(100_000), 100_000),
            (Stop::Blocks(17), 17 * 4096),
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
        let rule = StopRule::new(Stop::TimeUs(5));
        assert!(!rule.over(1 << 60));
        rule.begin(1000);
        assert!(!rule.over(5999));
        assert!(rule.over(6000));
    }
}
