//! BBR version 1: a rate learned from deliveries and probed up and down, a window of twice the BDP.
//!
//! Source: Cardwell, Cheng, Gunn, Yeganeh, Jacobson 2016; Linux, net/ipv4/tcp_bbr.c (gains,
//! lengths). Units: segments, seconds. Error: see docs/methods/prediction.md.
//! Wrong when: losses exceed 15 % or acknowledgements come in clumps.

/// Gain of the startup phase: 2/ln 2.
const CLIMB: f64 = 2.885;
/// Startup ends when the rate has not grown by a quarter for three round trips.
const GREW: f64 = 1.25;
const STILL_ROUNDS: f64 = 3.0;
/// Gains of the cycle, one for each round trip.
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Window in units of rate × RTT.
const WINDOW: f64 = 2.0;
/// Round trips over which the maximum rate is kept.
const KEPT: usize = 10;
/// The minimum RTT is probed again after this long, with four segments, for this long.
const PROBE_EVERY_S: f64 = 10.0;
const PROBE_S: f64 = 0.2;
const PROBE_WINDOW: f64 = 4.0;

#[derive(Debug, Clone)]
pub struct Bbr {
    rates: [f64; KEPT],
    at: usize,
    best: f64,
    still: f64,
    phase: Phase,
    probed_s: f64,
}

#[derive(Debug, Clone)]
enum Phase {
    Climb,
    Drain,
    Cruise { step: usize },
    Probe { until_s: f64, window: f64 },
}

/// The state of a stream in one round: outstanding and delivered segments.
#[derive(Debug, Clone, Copy)]
pub struct Round {
    pub now_s: f64,
    pub rtt_s: f64,
    pub round_s: f64,
    pub rounds: f64,
    pub delivered_per_s: f64,
}

impl Bbr {
    /// Creates the model; `number` staggers the streams' cycles, as chance does.
    pub fn new(number: usize) -> Bbr {
        Bbr {
            rates: [0.0; KEPT],
            at: number,
            best: 0.0,
            still: 0.0,
            phase: Phase::Climb,
            probed_s: 0.0,
        }
    }

    /// Returns the outstanding segments of the next round.
    pub fn next(&mut self, window: f64, round: Round) -> f64 {
        if let Phase::Probe { until_s, window } = self.phase {
            if round.now_s < until_s {
                return PROBE_WINDOW;
            }
            self.probed_s = round.now_s;
            self.phase = Phase::Cruise { step: 2 };
            return window;
        }
        // The delivery rate of four segments says nothing about the path and is not learned.
        self.learn(round.delivered_per_s);
        let rate = self.rates.iter().copied().fold(0.0, f64::max);
        let path = rate * round.rtt_s;
        self.turn(rate, window, path, round);
        let sent = self.gain(round.rounds) * rate;
        let next = window + (sent - round.delivered_per_s) * round.round_s * round.rounds.min(1.0);
        next.clamp(PROBE_WINDOW, (WINDOW * path).max(PROBE_WINDOW))
    }

    fn learn(&mut self, delivered_per_s: f64) {
        self.at = (self.at + 1) % KEPT;
        self.rates[self.at] = delivered_per_s;
    }

    fn gain(&self, rounds: f64) -> f64 {
        match self.phase {
            Phase::Climb => CLIMB,
            Phase::Drain => 1.0 / CLIMB,
            // A step of several round trips sees the mean of the cycle.
            Phase::Cruise { step } if rounds < 2.0 => CYCLE[step],
            Phase::Cruise { .. } | Phase::Probe { .. } => 1.0,
        }
    }

    fn turn(&mut self, rate: f64, window: f64, path: f64, round: Round) {
        match self.phase {
            Phase::Climb => {
                if rate > self.best * GREW {
                    (self.best, self.still) = (rate, 0.0);
                } else {
                    self.still += round.rounds;
                }
                if self.still >= STILL_ROUNDS {
                    self.phase = Phase::Drain;
                }
            }
            Phase::Drain if window <= path => self.phase = Phase::Cruise { step: self.at % 8 },
            Phase::Cruise { .. } if round.now_s - self.probed_s >= PROBE_EVERY_S => {
                let until_s = round.now_s + PROBE_S.max(round.round_s);
                self.phase = Phase::Probe { until_s, window };
            }
            Phase::Cruise { step } => {
                self.phase = Phase::Cruise {
                    step: (step + 1) % 8,
                }
            }
            Phase::Drain | Phase::Probe { .. } => {}
        }
    }
}
