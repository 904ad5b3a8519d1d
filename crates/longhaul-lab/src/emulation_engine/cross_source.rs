//! Cross traffic of a link.
//!
//! Cross packets exist only as bytes: they wait in the link's queue, are sent and are dropped like
//! real ones, but are not delivered. Rates are wire rates, overhead included. `Tcp` is a window
//! process: one packet more per round trip, half after a drop, at most `rate`; it starts at `rate`,
//! like a flow that was there before.

use super::Nanos;
use super::seeded_random::SeededRandom;
use crate::path_spec::{CrossPattern, LinkSpec};

/// The mean length of the on and the off times of `OnOff`.
const ON_OFF_MEAN_NANOS: f64 = 100e6;
/// The minimum window in packets.
const MIN_WINDOW: f64 = 2.0;

enum CrossPatternState {
    Cbr,
    Poisson,
    OnOff { on_until: Nanos },
    Tcp { window: f64, recovering_until: Nanos },
}

/// The properties of its link and path that a source needs.
#[derive(Clone, Copy)]
pub(super) struct CrossContext {
    /// The largest IP packet on the link.
    pub mtu: u32,
    /// The round-trip time of the path without queues.
    pub rtt: Nanos,
}

impl CrossContext {
    /// Returns the wire bytes of one packet; only bulk transfers fill a jumbo frame.
    fn packet_bytes(&self, pattern: CrossPattern, overhead: u32) -> u64 {
        let largest = if pattern == CrossPattern::Tcp { self.mtu } else { self.mtu.min(1500) };
        u64::from(largest) + u64::from(overhead)
    }
}

pub(super) struct CrossSource {
    pattern: CrossPatternState,
    /// The wire bytes of one packet.
    pub packet_bytes: u64,
    rtt: Nanos,
    /// The time between packets at `rate`, in nanoseconds.
    gap: f64,
    /// The time at which the next packet arrives.
    pub next: Nanos,
    /// The remainder of rounding to whole nanoseconds.
    fraction: f64,
    random: SeededRandom,
}

impl CrossSource {
    /// Returns `None` if the link has no cross traffic.
    pub fn new(
        spec: &LinkSpec,
        context: CrossContext,
        random: SeededRandom,
        now: Nanos,
    ) -> Option<Self> {
        let mut random = random;
        let cross = spec.cross.filter(|cross| cross.rate.as_bps() > 0)?;
        let packet_bytes = context.packet_bytes(cross.pattern, spec.overhead);
        let gap = packet_bytes as f64 * 8e9 / cross.rate.as_bps() as f64;
        let pattern = match cross.pattern {
            CrossPattern::Cbr => CrossPatternState::Cbr,
            CrossPattern::Poisson => CrossPatternState::Poisson,
            CrossPattern::OnOff => CrossPatternState::OnOff { on_until: now },
            CrossPattern::Tcp => {
                CrossPatternState::Tcp { window: context.rtt as f64 / gap, recovering_until: now }
            }
        };
        let phase = (gap * random.uniform()) as Nanos;
        let next = now.saturating_add(phase);
        let rtt = context.rtt;
        Some(CrossSource { pattern, packet_bytes, rtt, gap, next, fraction: 0.0, random })
    }

    /// Schedules the packet after the one at `next`, which found `wait` of work in
    /// the queue, or was dropped (`None`).
    pub fn advance(&mut self, wait: Option<Nanos>) {
        let gap = match &mut self.pattern {
            CrossPatternState::Cbr => self.gap,
            CrossPatternState::Poisson => self.gap * self.random.exponential(),
            CrossPatternState::OnOff { on_until } => {
                let mut gap = self.gap / 2.0;
                if self.next as f64 + gap >= *on_until as f64 {
                    let off = ON_OFF_MEAN_NANOS * self.random.exponential();
                    let on = ON_OFF_MEAN_NANOS * self.random.exponential();
                    gap = (*on_until as f64 - self.next as f64).max(gap) + off;
                    *on_until = self.next + (gap + on) as Nanos;
                }
                gap
            }
            CrossPatternState::Tcp { window, recovering_until } => {
                let rtt = (self.rtt + wait.unwrap_or(0)) as f64;
                match wait {
                    Some(_) => *window = (*window + 1.0 / *window).min(rtt / self.gap),
                    None if self.next >= *recovering_until => {
                        *window /= 2.0;
                        *recovering_until = self.next + rtt as Nanos;
                    }
                    None => {}
                }
                *window = window.max(MIN_WINDOW);
                (rtt / *window).max(self.gap)
            }
        };
        let exact = gap + self.fraction;
        // At least one nanosecond: a source with an absurd rate would otherwise stop virtual time.
        let whole = exact.floor().max(1.0);
        self.fraction = (exact - whole).max(0.0);
        self.next = self.next.saturating_add(whole as Nanos);
    }
}
