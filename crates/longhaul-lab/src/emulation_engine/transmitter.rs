//! The transmitter of a link, with a fixed rate or a token bucket: schedules bytes on the wire.
//!
//! Integer arithmetic: the remainder of every division is carried to the next chunk while the wire
//! is busy, so over any busy time bytes and rate agree to the nanosecond.
//!
//! Shaper: bytes leave at `peak` while there are tokens, and tokens arrive at `sustained`. After a
//! time t at most `burst + sustained * t` has left; a burst from a full bucket therefore carries
//! `burst / (1 - sustained / peak)` bytes at `peak`.

use super::Nanos;
use super::exact_token_bucket::ExactTokenBucket;
use crate::path_spec::LinkSpec;
use longhaul_model::units::Rate;
use std::time::Duration;

/// One bit per second, in nanoseconds per byte.
const NANOS_PER_BYTE_AT_ONE_BPS: u64 = 8_000_000_000;

/// The maximum time for which segments leave together. A shorter one costs more work; a longer one
/// is burstier than a network card with interrupt moderation.
const QUANTUM: Duration = Duration::from_micros(50);

/// Work for the transmitter: wire bytes, and the arrival times of its first and last segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct TransmitLoad {
    pub from: Nanos,
    pub until: Nanos,
    pub bytes: u64,
    pub first_bytes: u64,
    pub last_bytes: u64,
    /// The arrival time of the segment before the last, which has `first_bytes`.
    pub before_last: Option<Nanos>,
}

impl TransmitLoad {
    /// Returns one packet that has arrived at `at`.
    pub fn single(at: Nanos, bytes: u64) -> TransmitLoad {
        let (from, until) = (at, at);
        TransmitLoad {
            from,
            until,
            bytes,
            first_bytes: bytes,
            last_bytes: bytes,
            before_last: None,
        }
    }
}

/// The time at which the work is on the wire.
#[derive(Clone, Copy, Debug)]
pub(super) struct TransmitSlot {
    pub start: Nanos,
    /// The time at which the first segment has been sent.
    pub first: Nanos,
    /// The time at which the last segment has been sent.
    pub finish: Nanos,
}

#[derive(Clone, Debug)]
pub(super) struct LinkTransmitter {
    pub rate_bps: u64,
    free: Nanos,
    /// The remainder of the last division, in bit-nanoseconds per second.
    remainder: u64,
    /// The tokens of a shaper.
    pub tokens: Option<ExactTokenBucket>,
    /// The bytes that take `QUANTUM` at the slowest rate of this transmitter.
    pub quantum_bytes: u64,
}

impl LinkTransmitter {
    /// Returns `None` if the link has no rate limit.
    pub fn new(spec: &LinkSpec, now: Nanos) -> Option<LinkTransmitter> {
        let rate = spec.rate.map(Rate::as_bps);
        let peak = spec.shaper.map(|shaper| shaper.peak.as_bps());
        let rate_bps = rate.into_iter().chain(peak).min()?.max(1);
        let tokens = spec.shaper.map(|shaper| {
            ExactTokenBucket::new(shaper.sustained.as_bps(), shaper.burst.0.saturating_mul(8), now)
        });
        let slowest =
            spec.shaper.map_or(rate_bps, |shaper| shaper.sustained.as_bps().min(rate_bps));
        let quantum_bytes = Rate::bits_per_second(slowest).bytes_in(QUANTUM);
        Some(LinkTransmitter { rate_bps, free: now, remainder: 0, tokens, quantum_bytes })
    }

    pub fn time_for(&self, bytes: u64) -> Nanos {
        bytes.saturating_mul(NANOS_PER_BYTE_AT_ONE_BPS) / self.rate_bps
    }

    pub fn bytes_in(&self, time: Nanos) -> u64 {
        let bits = u128::from(time) * u128::from(self.rate_bps);
        (bits / u128::from(NANOS_PER_BYTE_AT_ONE_BPS)) as u64
    }

    /// Returns the bytes of `load` that an otherwise idle wire has sent by the time its last
    /// segment has arrived.
    pub fn sent_while_arriving(&self, load: &TransmitLoad) -> u64 {
        self.bytes_in(load.until.saturating_sub(self.free.max(load.from)))
    }

    /// Schedules `load` on the wire after everything before it.
    pub fn schedule(&mut self, load: &TransmitLoad) -> TransmitSlot {
        if load.from > self.free {
            self.free = load.from;
            self.remainder = 0;
        }
        let start = self.free;
        let work =
            load.bytes.saturating_mul(NANOS_PER_BYTE_AT_ONE_BPS).saturating_add(self.remainder);
        self.free = start.saturating_add(work / self.rate_bps);
        self.remainder = work % self.rate_bps;
        let mut first = start.saturating_add(self.time_for(load.first_bytes));
        // The last segment cannot be sent before it has arrived.
        let last = self.time_for(load.last_bytes);
        self.hold_until(load.until.saturating_add(last));
        if let Some(before_last) = load.before_last {
            let full = self.time_for(load.first_bytes);
            self.hold_until(before_last.saturating_add(full).saturating_add(last));
        }
        if let Some(tokens) = &mut self.tokens {
            let there = tokens.spend(load.bytes.saturating_mul(8), start, self.free);
            if there > self.free {
                let share = u128::from(there - start) * u128::from(load.first_bytes);
                first = start + (share / u128::from(load.bytes.max(1))) as u64;
                self.hold_until(there);
            }
        }
        TransmitSlot { start, first: first.min(self.free), finish: self.free }
    }

    fn hold_until(&mut self, time: Nanos) {
        if time > self.free {
            self.free = time;
            self.remainder = 0;
        }
    }

    /// Continues in the middle of `slot` of another transmitter. The unsent part of its `bytes` is
    /// sent at this rate; returns the rest of the slot and those bytes.
    pub fn resume_slot(
        &mut self,
        slot: &TransmitSlot,
        bytes: u64,
        now: Nanos,
    ) -> (TransmitSlot, u64) {
        let total = slot.finish.saturating_sub(slot.start).max(1);
        let left = slot.finish.saturating_sub(now).min(total);
        let scaled = |part: Nanos, whole: Nanos, of: u64| {
            (u128::from(of) * u128::from(part) / u128::from(whole.max(1))) as u64
        };
        let rest = scaled(left, total, bytes);
        self.free = now;
        let tail =
            self.schedule(&TransmitLoad { last_bytes: 0, ..TransmitLoad::single(now, rest) });
        let first = if slot.first <= now {
            slot.first
        } else {
            now + scaled(slot.first - now, left, tail.finish - now)
        };
        (TransmitSlot { start: now, first: first.min(tail.finish), finish: tail.finish }, rest)
    }
}
