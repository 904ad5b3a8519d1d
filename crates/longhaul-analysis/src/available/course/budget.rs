//! What may still be spent?
//!
//! Source: the plan. Units: bytes of IP, µs from the first probe. Error: time of bursts is estimated,
//! and put right by what came back. Wrong when: the sender lags; then later rounds are left out.

use super::Facts;
use longhaul_model::report::v1::available::{Mode, Plan, Schedule, Train, TrainPlan};

/// What a mode costs at most, each direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    pub most_bytes: u64,
    pub most_time_us: u64,
}

/// Light costs what abing costs. The others ask for less on slower paths: see [`Purse::bits`].
pub const fn budget(mode: Mode) -> Budget {
    match mode {
        Mode::Light => Budget {
            most_bytes: 58_000,
            most_time_us: 1_000_000,
        },
        Mode::Quick => Budget {
            most_bytes: 64_000_000,
            most_time_us: 3_000_000,
        },
        Mode::Careful => Budget {
            most_bytes: 256_000_000,
            most_time_us: 10_000_000,
        },
    }
}

/// Processing at both ends between two rounds, beside the round trip.
const ROUND_US: u64 = 15_000;
/// Part of the time that is never planned for: senders are late.
const SPARE_RATIO: f64 = 0.03;
/// Part of the path's rate that probes may take over the whole time.
const MOST_LOAD: f64 = 0.12;

#[derive(Debug, Clone, PartialEq)]
pub struct Purse {
    pub bytes: u64,
    most_time_us: u64,
    /// Since the first probe.
    spent_us: u64,
    between_us: u64,
    first_sent_ns: Option<u64>,
}

impl Purse {
    pub fn new(plan: &Plan, facts: Facts) -> Purse {
        Purse {
            bytes: plan.most_bytes,
            most_time_us: plan.most_time_us,
            spent_us: 0,
            between_us: 2 * facts.idle_rtt_us.unwrap_or(0) + ROUND_US,
            first_sent_ns: None,
        }
    }

    /// Time that is for a long look alone: what comes before shall not use it up.
    pub fn allow(&mut self, time_us: u64) {
        self.most_time_us = self.most_time_us.saturating_add(time_us);
    }

    /// Time that trains of this round may take.
    pub fn seconds(&self) -> f64 {
        let spare = (self.most_time_us as f64 * SPARE_RATIO) as u64;
        self.most_time_us.saturating_sub(self.spent_us + spare) as f64 / 1e6
    }

    /// Bits that trains may take, without pressing a path of this rate.
    pub fn bits(&self, rate_bps: f64) -> f64 {
        let gentle = MOST_LOAD * rate_bps * self.most_time_us as f64 / 1e6;
        (self.bytes as f64 * 8.0).min(gentle)
    }

    /// Those of the trains that are within the budget, in their order.
    pub fn pay(&mut self, asked: Vec<TrainPlan>) -> Vec<TrainPlan> {
        let most_us = (self.seconds() * 1e6) as u64;
        let mut planned_us = 0;
        let mut kept = Vec::with_capacity(asked.len());
        for train in asked {
            let bytes = u64::from(train.packets) * u64::from(train.packet_bytes);
            let us = train.pause_us + length_us(&train);
            if train.packets > 0 && bytes <= self.bytes && planned_us + us <= most_us {
                self.bytes -= bytes;
                planned_us += us;
                kept.push(train);
            }
        }
        self.spent_us += planned_us;
        kept
    }

    /// What the round really took.
    pub fn elapsed(&mut self, trains: &[Train]) {
        let first = trains.iter().map(|t| t.sent_at_ns).min();
        let last = trains
            .iter()
            .map(|t| {
                t.sent_at_ns
                    .saturating_add(t.sent_ns.last().copied().unwrap_or(0))
            })
            .max();
        let (Some(first), Some(last)) = (first, last) else {
            return;
        };
        let zero = *self.first_sent_ns.get_or_insert(first);
        let observed_us = last.saturating_sub(zero) / 1000;
        self.spent_us = self.spent_us.max(observed_us) + self.between_us;
    }
}

/// Sending time of a train; bursts are taken to leave at once.
fn length_us(train: &TrainPlan) -> u64 {
    let bits = f64::from(train.packets) * f64::from(train.packet_bytes) * 8.0;
    match train.schedule {
        Schedule::BackToBack => (bits / super::blocks::UNKNOWN_BPS * 1e4) as u64,
        Schedule::RateBps(bps) => (bits / bps.max(1) as f64 * 1e6) as u64,
        // The sum of many gaps strays from its mean.
        Schedule::Poisson { mean_gap_ns, .. } => {
            let count = f64::from(train.packets);
            ((count + 2.0 * count.sqrt()) * mean_gap_ns as f64 / 1e3) as u64
        }
    }
}
