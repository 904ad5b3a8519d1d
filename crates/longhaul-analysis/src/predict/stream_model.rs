//! One stream of the round model: its window, its losses, and its reaction to them.
//!
//! Source: RFC 5681 and RFC 9438; Linux, tcp_input.c (a window grows only while it is used; in slow
//! start to twice the outstanding bytes). Units: segments, seconds.
//! Error: see docs/methods/prediction.md.
//! Wrong when: the losses of one round trip take more than one to repair.

use super::{AckTrain, BbrModel, CubicModel, ends_slow_start};
use longhaul_model::splitmix::SplitMix64;

/// The initial window (RFC 6928).
const FIRST_WINDOW: f64 = 10.0;
/// The minimum retransmission timeout of Linux, which is added to the RTT (TCP_RTO_MIN).
const TIMEOUT_S: f64 = 0.2;
/// Fewer segments give too few acknowledgements to detect a loss: the stream waits for a timeout.
const MIN_RECOVERY_WINDOW: f64 = 4.0;
/// In slow start, a window above this multiple of the outstanding segments is unused.
const UNUSED_RATIO: f64 = 2.0;

#[derive(Debug, Clone)]
enum CongestionModel {
    Reno,
    Cubic(CubicModel),
    Bbr(BbrModel),
}

/// Represents `weight` identical streams.
pub struct StreamModel {
    pub weight: f64,
    /// Congestion window of one stream.
    window: f64,
    /// The maximum that the hosts allow to be outstanding.
    pub max_window: f64,
    threshold: f64,
    congestion: CongestionModel,
    /// A round without growth, after a loss.
    is_recovering: bool,
    silent_until_s: f64,
    rng: SplitMix64,
    /// Segments until the next random loss.
    until_loss: f64,
    /// Growth of the window per round trip, as of the last one.
    pub growth: f64,
}

/// The state of a round as seen by a stream.
#[derive(Debug, Clone, Copy)]
pub struct StreamRound {
    pub now_s: f64,
    pub round_s: f64,
    pub rounds: f64,
    pub delivered_per_s: f64,
    pub train: AckTrain,
}

impl StreamModel {
    pub fn new(
        congestion_control: &str,
        number: usize,
        weight: f64,
        most: f64,
        seed: u64,
    ) -> StreamModel {
        let law = match congestion_control {
            "bbr" => CongestionModel::Bbr(BbrModel::new(number)),
            "reno" => CongestionModel::Reno,
            _ => CongestionModel::Cubic(CubicModel::default()),
        };
        StreamModel {
            weight,
            window: FIRST_WINDOW.min(most),
            max_window: most,
            threshold: f64::INFINITY,
            congestion: law,
            is_recovering: false,
            silent_until_s: 0.0,
            rng: SplitMix64::new(seed ^ (number as u64) << 32),
            until_loss: f64::INFINITY,
            growth: 0.0,
        }
    }

    /// Draws the distance to the first random loss.
    pub fn expect_loss(&mut self, ratio: f64) {
        if ratio > 0.0 {
            let chance = self.rng.between(0.0, 1.0);
            self.until_loss = -(1.0 - chance).max(1e-12).ln() / ratio;
        }
    }

    /// Returns the outstanding segments of one stream.
    pub fn outstanding(&self, now_s: f64) -> f64 {
        if now_s < self.silent_until_s {
            return 0.0;
        }
        self.window.min(self.max_window)
    }

    /// Unpaced slow start sends twice as fast as it is acknowledged: half of the window is queued.
    pub fn burst(&self, now_s: f64) -> f64 {
        let climbs = self.window < self.threshold.min(self.max_window);
        match self.congestion {
            CongestionModel::Bbr(_) => 0.0,
            _ if climbs => self.outstanding(now_s) / 2.0,
            _ => 0.0,
        }
    }

    /// Returns true if a random loss falls into the next `segments`.
    pub fn is_lost_at_random(&mut self, segments: f64, ratio: f64) -> bool {
        self.until_loss -= segments;
        let struck = self.until_loss <= 0.0;
        if struck {
            self.expect_loss(ratio);
        }
        struck
    }

    /// Returns true if this stream is among those hit when a full queue drops `lost` segments.
    pub fn is_hit_by_drops(&mut self, lost: f64) -> bool {
        self.rng.between(0.0, 1.0) < 1.0 - (-lost).exp()
    }

    /// Ends a round; `lost` is true if any of its segments was lost.
    pub fn end_round(&mut self, lost: bool, seen: StreamRound) {
        let before = self.window;
        if let CongestionModel::Bbr(bbr) = &mut self.congestion {
            self.window = bbr.next(self.window.min(self.max_window), seen);
        } else if seen.now_s < self.silent_until_s {
            return;
        } else if lost && !self.is_recovering {
            self.cut(seen);
        } else if self.is_recovering {
            self.is_recovering = false;
        } else {
            self.grow(seen);
        }
        self.growth = ((self.window.min(self.max_window) - before) / seen.rounds.max(1.0)).max(0.0);
    }

    fn cut(&mut self, seen: StreamRound) {
        self.threshold = match &mut self.congestion {
            CongestionModel::Cubic(cubic) => cubic.cut(self.window),
            _ => (self.window / 2.0).max(2.0),
        };
        if self.window < MIN_RECOVERY_WINDOW {
            self.silent_until_s = seen.now_s + TIMEOUT_S + seen.round_s;
            self.window = 1.0;
            return;
        }
        self.window = self.threshold;
        self.is_recovering = seen.rounds <= 1.0;
    }

    fn grow(&mut self, seen: StreamRound) {
        if self.window < self.threshold {
            let most = (UNUSED_RATIO * self.max_window).min(self.threshold);
            let cubic = matches!(self.congestion, CongestionModel::Cubic(_));
            if cubic && ends_slow_start(self.window, seen.train) {
                // HyStart detects the train after half a round trip; the window grew by that part.
                let part = seen.train.rtt_s / 2.0 / seen.train.length_s.max(seen.train.rtt_s / 2.0);
                self.window = (self.window * (1.0 + part)).min(most);
                self.threshold = self.window;
                return;
            }
            self.window = (self.window * 2f64.powf(seen.rounds)).min(most);
            return;
        }
        // A window that is not used does not grow.
        if self.window >= self.max_window {
            return;
        }
        let next = match &mut self.congestion {
            CongestionModel::Cubic(cubic) => {
                cubic.grow(self.window, seen.now_s, seen.round_s, seen.rounds)
            }
            _ => self.window + seen.rounds,
        };
        self.window = next.min(self.max_window + 1.0);
    }
}
