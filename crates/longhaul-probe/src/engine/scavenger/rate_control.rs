//! The scavenger's rate control, without input or output: readings in, a rate out.
//!
//! The control keeps a window of bytes, sent at *window / RTT*, so that a growing queue slows the
//! sender before any decision does. Once per round trip, the queueing delay (RTT minus the minimum
//! RTT of the last ten minutes) changes the window: below the target it grows, above it shrinks,
//! and from twice the target or after a loss it is halved. The growth is small enough that a delay
//! of one round trip does not make it oscillate: gain *T / 2 (base + T)* for target *T*.
//!
//! The target is a quarter of the minimum RTT, between 5 and 25 ms: less than the queues of
//! loss-based flows on such paths, more than timer noise. If a queue overflows before it reaches
//! the target, half the delay at the loss becomes the target.
//!
//! The minimum RTT is visible only while our own queue is empty: every ten seconds the window is
//! halved for two round trips.
//!
//! Source: RFC 6817 (LEDBAT: base history, target), draft-irtf-iccrg-ledbat-plus-plus (multiplicative
//! decrease, periodic slowdown, slow start that ends at a share of the target).
//! Units: seconds, bytes, bit/s. Error: the target is met to about the noise of smoothed RTTs.
//! Wrong when: other flows hold the queue from the first byte on and never leave it, so that it is
//! taken for the path; or when wireless links add more delay than the target.

use longhaul_model::units::Rate;
use std::collections::VecDeque;
use std::time::Duration;

/// The share of the minimum RTT that may be queued, and its bounds.
const TARGET_RATIO: f64 = 0.25;
const TARGET: (f64, f64) = (0.005, 0.025);
/// The minimum target after losses, above the noise.
const MIN_TARGET: f64 = 0.002;
/// The factor by which a lowered target recovers in every round without loss.
const TARGET_RECOVERY: f64 = 1.02;
/// The growth per round until a queue appears; ordinary slow start has 2.
const FAST_GROWTH: f64 = 1.5;
/// The share of the target at which fast growth ends.
const FAST_END_SHARE: f64 = 0.5;
/// The number of rounds almost without a queue after which fast growth resumes.
const QUIET_ROUNDS: u32 = 8;
const QUIET_SHARE: f64 = 0.25;
/// The interval between slowdowns: seconds, and the minimum in round trips.
const SLOWDOWN_INTERVAL: (f64, f64) = (10.0, 30.0);
/// The minimum time between decisions: timers and smoothed RTTs are no finer.
const MIN_ROUND: f64 = 0.010;
/// The number of minutes for which the minimum RTT is kept.
const HISTORY: usize = 10;
const MINUTE: f64 = 60.0;
/// The segments per stream and round trip that are always allowed.
const FLOOR_SEGMENTS: f64 = 2.0;
const FIRST_SEGMENTS: f64 = 10.0;

/// A reading of all streams at one time.
#[derive(Debug, Clone, Copy)]
pub struct ScavengerReading {
    /// Time since the start, on any clock.
    pub now: Duration,
    /// Smoothed RTT, mean of the streams.
    pub rtt: Duration,
    /// The minimum over the streams.
    pub rtt_min: Duration,
    pub acked_bytes: u64,
    pub retransmits: u64,
}

/// The minimum RTT of each of the last minutes.
#[derive(Debug, Default)]
struct BaseRtt {
    minutes: VecDeque<f64>,
    begun: f64,
}

impl BaseRtt {
    fn record(&mut self, now: f64, rtt: f64) {
        if self.minutes.is_empty() || now - self.begun >= MINUTE {
            self.begun = now;
            self.minutes.push_back(rtt);
            if self.minutes.len() > HISTORY {
                self.minutes.pop_front();
            }
        } else if let Some(least) = self.minutes.back_mut() {
            *least = least.min(rtt);
        }
    }

    fn min(&self) -> f64 {
        self.minutes.iter().copied().fold(f64::INFINITY, f64::min)
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum ScavengerPhase {
    /// Fast growth, similar to slow start.
    Fast,
    /// Around the target; counts the consecutive rounds almost without a queue.
    Steady { quiet: u32 },
    /// A slowdown to empty the queue, its end, and the window to return to.
    Slowdown { until: f64, window: f64 },
}

/// The measurements of one round trip.
struct ScavengerRound {
    now: f64,
    rtt: f64,
    /// Queueing delay divided by the target.
    excess: f64,
    /// Acknowledged bytes per second.
    carried: f64,
    lost: bool,
}

/// The rate control of one end, for all its streams together.
#[derive(Debug)]
pub struct ScavengerControl {
    segment_bytes: f64,
    streams: f64,
    base: BaseRtt,
    /// The window of all streams, in bytes.
    window: f64,
    /// The share of the full target that is left after losses.
    target_share: f64,
    phase: ScavengerPhase,
    round: Option<(f64, u64, u64)>,
    slowdown_due: f64,
}

impl ScavengerControl {
    /// Creates the control; `idle_rtt` counts as a sample because it precedes our own load.
    pub fn new(segment_bytes: u32, streams: usize, idle_rtt: Option<Duration>) -> ScavengerControl {
        let mut base = BaseRtt::default();
        if let Some(idle) = idle_rtt.filter(|rtt| !rtt.is_zero()) {
            base.record(0.0, idle.as_secs_f64());
        }
        let (segment_bytes, streams) = (f64::from(segment_bytes.max(1)), streams.max(1) as f64);
        ScavengerControl {
            segment_bytes,
            streams,
            base,
            window: FIRST_SEGMENTS * segment_bytes,
            target_share: 1.0,
            phase: ScavengerPhase::Fast,
            round: None,
            slowdown_due: SLOWDOWN_INTERVAL.0,
        }
    }

    /// Returns the rate of all streams until the next reading.
    pub fn step(&mut self, reading: &ScavengerReading) -> Rate {
        let now = reading.now.as_secs_f64();
        let rtt = reading.rtt.as_secs_f64().max(1e-6);
        let least = rtt.min(reading.rtt_min.as_secs_f64().max(1e-6));
        self.base.record(now, least);
        let (begun, acked, retransmits) =
            *self.round.get_or_insert((now, reading.acked_bytes, reading.retransmits));
        if now - begun >= rtt.max(MIN_ROUND) {
            let moved = reading.acked_bytes.saturating_sub(acked) as f64;
            let round = ScavengerRound {
                now,
                rtt,
                excess: (rtt - self.base.min()).max(0.0) / self.target(),
                carried: moved / (now - begun),
                lost: reading.retransmits > retransmits,
            };
            self.decide(&round);
            self.limit_window(&round);
            self.round = Some((now, reading.acked_bytes, reading.retransmits));
        }
        Rate::bits_per_second((self.window * 8.0 / rtt).min(1e15) as u64)
    }

    fn full_target(&self) -> f64 {
        let least = self.base.min();
        let base = if least.is_finite() { least } else { 0.0 };
        (base * TARGET_RATIO).clamp(TARGET.0, TARGET.1)
    }

    fn target(&self) -> f64 {
        (self.full_target() * self.target_share).max(MIN_TARGET)
    }

    /// Decides once per round.
    fn decide(&mut self, round: &ScavengerRound) {
        if let ScavengerPhase::Slowdown { until, window } = self.phase {
            if round.now >= until {
                self.window = window;
                self.phase = ScavengerPhase::Steady { quiet: 0 };
                let (seconds, trips) = SLOWDOWN_INTERVAL;
                self.slowdown_due = round.now + seconds.max(trips * round.rtt);
            }
            return;
        }
        if round.lost {
            return self.react_to_loss(round);
        }
        self.target_share = (self.target_share * TARGET_RECOVERY).min(1.0);
        match self.phase {
            ScavengerPhase::Fast if round.excess > FAST_END_SHARE => {
                // The path's capacity is now known; the overshoot drains first.
                let held = round.carried * (self.base.min() + self.target() / 2.0);
                self.slow_down(round, held.min(self.window / FAST_GROWTH));
            }
            ScavengerPhase::Fast => self.window *= FAST_GROWTH,
            _ if round.now >= self.slowdown_due => self.slow_down(round, self.window),
            ScavengerPhase::Steady { quiet } => self.adjust_window(round, quiet),
            ScavengerPhase::Slowdown { .. } => {}
        }
    }

    /// Lets our own queue drain, then returns to `window`.
    fn slow_down(&mut self, round: &ScavengerRound, window: f64) {
        let until = round.now + 2.0 * round.rtt;
        self.phase = ScavengerPhase::Slowdown { until, window };
        self.window = window / 2.0;
    }

    fn adjust_window(&mut self, round: &ScavengerRound, quiet: u32) {
        let target = self.target();
        let gain = target / (2.0 * (self.base.min() + target));
        self.window *= if round.excess < 2.0 { 1.0 + gain * (1.0 - round.excess) } else { 0.5 };
        let quiet = if round.excess < QUIET_SHARE { quiet + 1 } else { 0 };
        self.phase = if quiet >= QUIET_ROUNDS {
            ScavengerPhase::Fast
        } else {
            ScavengerPhase::Steady { quiet }
        };
    }

    /// Halves the window and lowers the target after a loss, from overflow or another cause.
    fn react_to_loss(&mut self, round: &ScavengerRound) {
        let delay = round.excess * self.target();
        let seen = (delay / 2.0).clamp(MIN_TARGET, self.full_target());
        self.target_share = self.target_share.min(seen / self.full_target());
        self.window /= 2.0;
        self.phase = ScavengerPhase::Steady { quiet: 0 };
    }

    /// Limits the window to twice what a round trip carried: beyond that, something else limits us.
    fn limit_window(&mut self, round: &ScavengerRound) {
        let first = FIRST_SEGMENTS * self.segment_bytes * self.streams;
        let floor = FLOOR_SEGMENTS * self.segment_bytes * self.streams;
        let most = 2.0 * round.carried * round.rtt + first;
        if !matches!(self.phase, ScavengerPhase::Slowdown { .. }) {
            self.window = self.window.min(most);
        }
        self.window = self.window.max(floor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: f64 = 0.005;
    const SEGMENT: u32 = 1448;

    /// A link with one queue as a fluid model; the sender sees changes one round trip later.
    struct Link {
        capacity: f64,
        base: f64,
        queue_most: f64,
        queue: f64,
    }

    struct Ran {
        /// Share of the capacity in the second half.
        used: f64,
        /// Highest queueing delay in the second half, seconds.
        delay: f64,
        /// The other flow's share of the capacity in the second half.
        other: f64,
    }

    /// `other`: a flow that fills a queue of any depth and cuts its window by 30 % at a loss.
    fn run(link: &mut Link, seconds: f64, other: bool) -> Ran {
        let mut control =
            ScavengerControl::new(SEGMENT, 1, Some(Duration::from_secs_f64(link.base)));
        let (mut acked, mut lost, mut smoothed) = (0.0f64, 0u64, link.base);
        let mut window = if other { link.capacity / 8.0 * link.base } else { 0.0 };
        let mut seen = VecDeque::new();
        let mut ran = Ran { used: 0.0, delay: 0.0, other: 0.0 };
        let mut now = 0.0;
        while now < seconds {
            now += TICK;
            let delay = link.queue * 8.0 / link.capacity;
            seen.push_back((now, delay));
            while seen.front().is_some_and(|(at, _)| now - at > link.base) {
                seen.pop_front();
            }
            let heard = link.base + seen.front().map_or(0.0, |s| s.1);
            smoothed += (heard - smoothed) * 0.5;
            let rtt = Duration::from_secs_f64(smoothed);
            let rate = control.step(&ScavengerReading {
                now: Duration::from_secs_f64(now),
                rtt,
                rtt_min: rtt,
                acked_bytes: acked as u64,
                retransmits: lost,
            });
            let mine = rate.as_bps() as f64 / 8.0 * TICK;
            let theirs = window / (link.base + delay) * TICK;
            let room = link.capacity / 8.0 * TICK;
            let before = link.queue;
            link.queue = (before + mine + theirs - room).max(0.0);
            let carried = (before + mine + theirs).min(room);
            let share = mine / (mine + theirs).max(1e-9);
            acked += carried * share;
            if link.queue > link.queue_most {
                link.queue = link.queue_most * 0.95;
                lost += 1;
                window *= 0.7;
            }
            window += if other { f64::from(SEGMENT) * 20.0 * TICK / link.base } else { 0.0 };
            if now > seconds / 2.0 {
                ran.used += carried * share / (room * seconds / TICK / 2.0);
                ran.other += carried * (1.0 - share) / (room * seconds / TICK / 2.0);
                ran.delay = ran.delay.max(delay);
            }
        }
        ran
    }

    fn link(mbit: f64, base_ms: f64, queue_ms: f64) -> Link {
        let capacity = mbit * 1e6;
        Link {
            capacity,
            base: base_ms / 1e3,
            queue_most: capacity / 8.0 * queue_ms / 1e3,
            queue: 0.0,
        }
    }

    #[test]
    fn alone_it_uses_the_path_and_keeps_the_queue_short() {
        for (mbit, base_ms) in [(10.0, 20.0), (50.0, 20.0), (50.0, 100.0), (1000.0, 170.0)] {
            let mut link = link(mbit, base_ms, 600.0);
            let ran = run(&mut link, 60.0, false);
            assert!(ran.used > 0.9, "{mbit} Mbit/s {base_ms} ms: {}", ran.used);
            assert!(ran.delay < 0.06, "{mbit} Mbit/s {base_ms} ms: {}", ran.delay);
        }
    }

    #[test]
    fn beside_a_flow_that_fills_the_queue_it_leaves_nearly_everything() {
        for (mbit, base_ms, queue_ms) in
            [(50.0, 20.0, 640.0), (50.0, 20.0, 40.0), (200.0, 80.0, 80.0)]
        {
            let ran = run(&mut link(mbit, base_ms, queue_ms), 60.0, true);
            let kept = ran.other / (ran.other + ran.used);
            assert!(kept > 0.9, "{mbit} {base_ms} {queue_ms}: {kept}");
        }
    }

    #[test]
    fn what_holds_it_back_elsewhere_does_not_let_the_window_run_away() {
        let mut control = ScavengerControl::new(SEGMENT, 1, Some(Duration::from_millis(20)));
        let mut last = Rate::bits_per_second(0);
        for step in 1..2000u64 {
            last = control.step(&ScavengerReading {
                now: Duration::from_millis(step * 10),
                rtt: Duration::from_millis(20),
                rtt_min: Duration::from_millis(20),
                // 8 Mbit/s arrive, whatever the ceiling.
                acked_bytes: step * 10_000,
                retransmits: 0,
            });
        }
        assert!(last.as_bps() < 25_000_000, "{last}");
    }

    #[test]
    fn nothing_that_a_kernel_says_stops_or_breaks_it() {
        let mut control = ScavengerControl::new(0, 0, None);
        for (now, rtt) in [(0, 0), (1, u64::MAX / 2), (0, 5), (u64::MAX / 4, 1)] {
            let rate = control.step(&ScavengerReading {
                now: Duration::from_micros(now),
                rtt: Duration::from_micros(rtt),
                rtt_min: Duration::ZERO,
                acked_bytes: 0,
                retransmits: u64::MAX,
            });
            assert!(rate.as_bps() < u64::MAX);
        }
    }
}
