//! When is a chunk of bytes on the wire? The transmitter of a link: a rate, or a token bucket.
//!
//! Integer arithmetic: the remainder of every division is carried to the next chunk while the
//! wire is busy, so over any busy time bytes and rate agree to the nanosecond.
//!
//! Shaper: bytes leave at `peak` as long as tokens are there, and tokens come at `sustained`. What
//! has left after a time t is never more than `burst + sustained * t`; a burst from a full bucket
//! therefore carries `burst / (1 - sustained / peak)` bytes at `peak`.

use super::Nanos;
use super::bucket::Bucket;
use crate::spec::LinkSpec;
use longhaul_model::units::Rate;
use std::time::Duration;

/// One bit per second in nanoseconds per byte.
const NANOS_PER_BYTE_AT_ONE_BPS: u64 = 8_000_000_000;

/// Longest time for which segments leave together. Shorter: more work; longer: burstier than a
/// network card with interrupt moderation.
const QUANTUM: Duration = Duration::from_micros(50);

/// Work for the transmitter: wire bytes, and when its first and last segment have arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub from: Nanos,
    pub until: Nanos,
    pub bytes: u64,
    pub first_bytes: u64,
    pub last_bytes: u64,
    /// When the segment before the last, of `first_bytes`, has arrived.
    pub before_last: Option<Nanos>,
}

/// When the work is on the wire.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub start: Nanos,
    /// The first segment is out.
    pub first: Nanos,
    /// The last segment is out.
    pub finish: Nanos,
}

#[derive(Clone, Debug)]
pub(super) struct Transmitter {
    rate_bps: u64,
    free: Nanos,
    /// What the last division left over, in bit-nanoseconds per second.
    remainder: u64,
    tokens: Option<Bucket>,
    quantum_bytes: u64,
}

impl Transmitter {
    /// `None`: this link sends as fast as it gets.
    pub fn new(spec: &LinkSpec, now: Nanos) -> Option<Transmitter> {
        let rate = spec.rate.map(Rate::as_bps);
        let peak = spec.shaper.map(|shaper| shaper.peak.as_bps());
        let rate_bps = rate.into_iter().chain(peak).min()?.max(1);
        let tokens = spec.shaper.map(|shaper| {
            Bucket::new(
                shaper.sustained.as_bps(),
                shaper.burst.0.saturating_mul(8),
                now,
            )
        });
        let slowest = spec
            .shaper
            .map_or(rate_bps, |shaper| shaper.sustained.as_bps().min(rate_bps));
        let quantum_bytes = Rate::bits_per_second(slowest).bytes_in(QUANTUM);
        Some(Transmitter {
            rate_bps,
            free: now,
            remainder: 0,
            tokens,
            quantum_bytes,
        })
    }

    pub fn rate_bps(&self) -> u64 {
        self.rate_bps
    }

    pub fn is_shaped(&self) -> bool {
        self.tokens.is_some()
    }

    pub fn time_for(&self, bytes: u64) -> Nanos {
        bytes.saturating_mul(NANOS_PER_BYTE_AT_ONE_BPS) / self.rate_bps
    }

    pub fn bytes_in(&self, time: Nanos) -> u64 {
        let bits = u128::from(time) * u128::from(self.rate_bps);
        (bits / u128::from(NANOS_PER_BYTE_AT_ONE_BPS)) as u64
    }

    /// Bytes of `load` that are on the wire by the time its last segment has arrived, on an
    /// otherwise idle wire.
    pub fn sent_while_arriving(&self, load: &Load) -> u64 {
        self.bytes_in(load.until.saturating_sub(self.free.max(load.from)))
    }

    /// Puts `load` on the wire after everything before it.
    pub fn serve(&mut self, load: &Load) -> Slot {
        if load.from > self.free {
            self.free = load.from;
            self.remainder = 0;
        }
        let start = self.free;
        let work = load
            .bytes
            .saturating_mul(NANOS_PER_BYTE_AT_ONE_BPS)
            .saturating_add(self.remainder);
        self.free = start.saturating_add(work / self.rate_bps);
        self.remainder = work % self.rate_bps;
        let mut first = start.saturating_add(self.time_for(load.first_bytes));
        // The last segment cannot be out before it has come in.
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
        Slot {
            start,
            first: first.min(self.free),
            finish: self.free,
        }
    }

    fn hold_until(&mut self, time: Nanos) {
        if time > self.free {
            self.free = time;
            self.remainder = 0;
        }
    }

    /// Bytes that take `QUANTUM` at the slowest rate this transmitter has.
    pub fn quantum_bytes(&self) -> u64 {
        self.quantum_bytes
    }

    /// Keeps the tokens of an equal shaper that this transmitter replaces.
    pub fn keep_tokens(&mut self, old: &Transmitter) {
        self.tokens.clone_from(&old.tokens);
    }

    /// Goes on in the middle of `slot` of another transmitter. Of its `bytes`, those not yet on
    /// the wire are sent at this rate; returns the rest of the slot and those bytes.
    pub fn take_over(&mut self, slot: &Slot, bytes: u64, now: Nanos) -> (Slot, u64) {
        let total = slot.finish.saturating_sub(slot.start).max(1);
        let left = slot.finish.saturating_sub(now).min(total);
        let scaled = |part: Nanos, whole: Nanos, of: u64| {
            (u128::from(of) * u128::from(part) / u128::from(whole.max(1))) as u64
        };
        let rest = scaled(left, total, bytes);
        self.free = now;
        let tail = self.serve(&Load {
            from: now,
            until: now,
            bytes: rest,
            first_bytes: rest,
            last_bytes: 0,
            before_last: None,
        });
        let first = if slot.first <= now {
            slot.first
        } else {
            now + scaled(slot.first - now, left, tail.finish - now)
        };
        (
            Slot {
                start: now,
                first: first.min(tail.finish),
                finish: tail.finish,
            },
            rest,
        )
    }
}
