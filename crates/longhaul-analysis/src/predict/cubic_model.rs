//! CUBIC's window, as Linux grows and cuts it.
//!
//! In addition to RFC 9438: growth of at least 5 % per round trip before the first loss, of at most
//! half per round trip, and of one segment per hundred round trips above the curve. Slow start ends
//! early (HyStart): when acknowledgements arrive back to back for half a round trip, or when the
//! RTT has grown.
//!
//! Source: RFC 9438; Linux, net/ipv4/tcp_cubic.c; Ha, Rhee 2011 for HyStart. Units: segments, s.
//! Error: see docs/methods/prediction.md. Wrong when: a kernel was built with other constants.

/// Growth of the curve, segments/s³.
const GROWTH: f64 = 0.4;
/// The factor of the window after a loss.
const DECREASE_FACTOR: f64 = 0.7;
/// Growth of a Reno stream with the same factor, segments per round trip.
const RENO_GROWTH: f64 = 3.0 * (1.0 - DECREASE_FACTOR) / (1.0 + DECREASE_FACTOR);
/// Fast convergence: the factor of the peak if a loss came before the last peak was reached again.
const FAST_CONVERGENCE_FACTOR: f64 = f64::midpoint(1.0, DECREASE_FACTOR);
/// Growth per round trip before any loss, and the maximum at any time.
const FIRST_GROWTH: f64 = 1.05;
const MAX_GROWTH: f64 = 1.5;
/// Growth per round trip above the curve, segments.
const PLATEAU_GROWTH: f64 = 0.01;
/// HyStart: minimum window, maximum spacing of acknowledgements in a train, growth of the RTT.
const HYSTART_MIN_WINDOW: f64 = 16.0;
const TRAIN_SPACING_S: f64 = 0.002;
const DELAY_S: (f64, f64) = (0.004, 0.016);

#[derive(Debug, Clone, Default)]
pub struct CubicModel {
    /// The window before the last loss; 0 if there was none yet.
    peak: f64,
    epoch: Option<CubicEpoch>,
}

#[derive(Debug, Clone)]
struct CubicEpoch {
    began_s: f64,
    /// Time from the beginning to the origin of the curve.
    to_origin_s: f64,
    origin: f64,
    friendly: f64,
}

impl CubicModel {
    /// Returns the window after a loss.
    pub fn cut(&mut self, window: f64) -> f64 {
        self.peak = if window < self.peak { window * FAST_CONVERGENCE_FACTOR } else { window };
        self.epoch = None;
        (window * DECREASE_FACTOR).max(2.0)
    }

    /// Returns the window after `rounds` round trips of `round_s` without loss.
    pub fn grow(&mut self, window: f64, now_s: f64, round_s: f64, rounds: f64) -> f64 {
        let peak = self.peak;
        let epoch = self.epoch.get_or_insert_with(|| CubicEpoch {
            began_s: now_s,
            to_origin_s: ((peak - window).max(0.0) / GROWTH).cbrt(),
            origin: peak.max(window),
            friendly: window,
        });
        epoch.friendly += RENO_GROWTH * rounds;
        let at_s = now_s + round_s * rounds - epoch.began_s - epoch.to_origin_s;
        let curve = epoch.origin + GROWTH * at_s.powi(3);
        let mut next = if curve > window {
            curve.min(window * MAX_GROWTH.powf(rounds))
        } else {
            window + PLATEAU_GROWTH * rounds
        };
        if peak == 0.0 {
            next = next.max(window * FIRST_GROWTH.powf(rounds));
        }
        next.max(epoch.friendly)
    }
}

/// The input of HyStart: seconds, segments, and the number of streams that share the path.
#[derive(Debug, Clone, Copy)]
pub struct AckTrain {
    pub rtt_s: f64,
    pub queue_s: f64,
    /// Duration of all streams' segments at the narrow link.
    pub length_s: f64,
    pub segment_s: f64,
    pub streams: f64,
}

/// Returns true if slow start ends here.
pub fn ends_slow_start(window: f64, train: AckTrain) -> bool {
    let delay_s = (train.rtt_s / 8.0).clamp(DELAY_S.0, DELAY_S.1);
    // One acknowledgement covers two segments, and those of the streams alternate.
    let spacing_s = 2.0 * train.segment_s * train.streams;
    let long = train.length_s > train.rtt_s / 2.0 && spacing_s <= TRAIN_SPACING_S;
    window >= HYSTART_MIN_WINDOW && (train.queue_s > delay_s || long)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_comes_back_to_its_peak_after_k_seconds() {
        let mut cubic = CubicModel::default();
        let mut window = cubic.cut(1000.0);
        assert!((window - 700.0).abs() < 1e-9);
        let k = (300.0f64 / 0.4).cbrt();
        let mut now = 0.0;
        while now < k {
            window = cubic.grow(window, now, 0.1, 1.0);
            now += 0.1;
        }
        assert!((window / 1000.0 - 1.0).abs() < 0.01, "{window}");
    }

    #[test]
    fn on_short_paths_it_grows_as_reno_does() {
        let mut cubic = CubicModel::default();
        let mut window = cubic.cut(100.0);
        for round in 0..50 {
            window = cubic.grow(window, f64::from(round) * 1e-4, 1e-4, 1.0);
        }
        assert!((window - (70.0 + 50.0 * RENO_GROWTH)).abs() < 0.1, "{window}");
    }
}
