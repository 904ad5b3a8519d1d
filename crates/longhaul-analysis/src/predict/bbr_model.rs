//! BBR version 1: a rate learned from deliveries and probed up and down, a window of twice the BDP.
//!
//! Source: Cardwell, Cheng, Gunn, Yeganeh, Jacobson 2016; Linux, net/ipv4/tcp_bbr.c (gains,
//! lengths). Units: segments, seconds. Error: see docs/methods/prediction.md.
//! Wrong when: losses exceed 15 % or acknowledgements come in clumps.

use super::stream_model::StreamRound;

/// Gain of the startup phase: 2/ln 2.
const STARTUP_GAIN: f64 = 2.885;
/// Startup ends when the rate has not grown by a quarter for three round trips.
const STARTUP_GROWTH: f64 = 1.25;
const STILL_ROUNDS: f64 = 3.0;
/// Gains of the cycle, one for each round trip.
const CYCLE_GAINS: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Window in units of rate × RTT.
const WINDOW_GAIN: f64 = 2.0;
/// Round trips over which the maximum rate is kept.
const RATE_WINDOW: usize = 10;
/// The minimum RTT is probed again after this long, with four segments, for this long.
const PROBE_EVERY_S: f64 = 10.0;
const PROBE_S: f64 = 0.2;
const PROBE_WINDOW: f64 = 4.0;

#[derive(Debug, Clone)]
pub struct BbrModel {
    rates: [f64; RATE_WINDOW],
    at: usize,
    best: f64,
    still: f64,
    phase: BbrPhase,
    probed_s: f64,
}

#[derive(Debug, Clone)]
enum BbrPhase {
    Startup,
    Drain,
    ProbeBandwidth { step: usize },
    ProbeRtt { until_s: f64, window: f64 },
}

impl BbrModel {
    /// Creates the model; `number` staggers the streams' cycles, as chance does.
    pub fn new(number: usize) -> BbrModel {
        BbrModel {
            rates: [0.0; RATE_WINDOW],
            at: number,
            best: 0.0,
            still: 0.0,
            phase: BbrPhase::Startup,
            probed_s: 0.0,
        }
    }

    /// Returns the outstanding segments of the next round.
    pub fn next(&mut self, window: f64, round: StreamRound) -> f64 {
        if let BbrPhase::ProbeRtt { until_s, window } = self.phase {
            if round.now_s < until_s {
                return PROBE_WINDOW;
            }
            self.probed_s = round.now_s;
            self.phase = BbrPhase::ProbeBandwidth { step: 2 };
            return window;
        }
        // The delivery rate of four segments says nothing about the path and is not learned.
        self.learn(round.delivered_per_s);
        let rate = self.rates.iter().copied().fold(0.0, f64::max);
        let path = rate * round.train.rtt_s;
        self.advance_phase(rate, window, path, round);
        let sent = self.gain(round.rounds) * rate;
        let next = window + (sent - round.delivered_per_s) * round.round_s * round.rounds.min(1.0);
        next.clamp(PROBE_WINDOW, (WINDOW_GAIN * path).max(PROBE_WINDOW))
    }

    fn learn(&mut self, delivered_per_s: f64) {
        self.at = (self.at + 1) % RATE_WINDOW;
        self.rates[self.at] = delivered_per_s;
    }

    fn gain(&self, rounds: f64) -> f64 {
        match self.phase {
            BbrPhase::Startup => STARTUP_GAIN,
            BbrPhase::Drain => 1.0 / STARTUP_GAIN,
            // A step of several round trips sees the mean of the cycle.
            BbrPhase::ProbeBandwidth { step } if rounds < 2.0 => CYCLE_GAINS[step],
            BbrPhase::ProbeBandwidth { .. } | BbrPhase::ProbeRtt { .. } => 1.0,
        }
    }

    fn advance_phase(&mut self, rate: f64, window: f64, path: f64, round: StreamRound) {
        match self.phase {
            BbrPhase::Startup => {
                if rate > self.best * STARTUP_GROWTH {
                    (self.best, self.still) = (rate, 0.0);
                } else {
                    self.still += round.rounds;
                }
                if self.still >= STILL_ROUNDS {
                    self.phase = BbrPhase::Drain;
                }
            }
            BbrPhase::Drain if window <= path => {
                self.phase = BbrPhase::ProbeBandwidth { step: self.at % 8 }
            }
            BbrPhase::ProbeBandwidth { .. } if round.now_s - self.probed_s >= PROBE_EVERY_S => {
                let until_s = round.now_s + PROBE_S.max(round.round_s);
                self.phase = BbrPhase::ProbeRtt { until_s, window };
            }
            BbrPhase::ProbeBandwidth { step } => {
                self.phase = BbrPhase::ProbeBandwidth { step: (step + 1) % 8 }
            }
            BbrPhase::Drain | BbrPhase::ProbeRtt { .. } => {}
        }
    }
}
