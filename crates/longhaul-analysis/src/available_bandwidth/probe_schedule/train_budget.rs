//! The remaining byte and time budget.
//!
//! Source: the plan. Units: bytes of IP, µs from the first probe. Error: the duration of bursts is
//! estimated, then corrected. Wrong when: the sender lags; then later rounds are skipped.

use super::PriorPathFacts;
use longhaul_model::report::v1::available::{
    AvailableMode, AvailablePlan, ProbeTrain, TrainPlan, TrainSchedule,
};

/// The maximum cost of a mode, for each direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModeBudget {
    pub most_bytes: u64,
    pub most_time_us: u64,
}

/// Returns the budget of a mode. Light mode costs what abing costs; the others use less on slower
/// paths, within the limit on the average load.
pub const fn budget_of_mode(mode: AvailableMode) -> ModeBudget {
    match mode {
        AvailableMode::Light => ModeBudget { most_bytes: 58_000, most_time_us: 1_000_000 },
        AvailableMode::Quick => ModeBudget { most_bytes: 64_000_000, most_time_us: 3_000_000 },
        AvailableMode::Careful => ModeBudget { most_bytes: 256_000_000, most_time_us: 10_000_000 },
    }
}

/// The processing time of both ends between two rounds, without the RTT.
const ROUND_US: u64 = 15_000;
/// The share of the time that is kept in reserve because senders lag.
const SPARE_RATIO: f64 = 0.03;
/// The maximum average share of the path's rate that probes may use.
const MAX_AVERAGE_LOAD: f64 = 0.12;

#[derive(Debug, Clone, PartialEq)]
pub struct TrainBudget {
    pub bytes: u64,
    most_time_us: u64,
    /// Time since the first probe.
    spent_us: u64,
    between_us: u64,
    first_sent_ns: Option<u64>,
}

impl TrainBudget {
    pub fn new(plan: &AvailablePlan, facts: PriorPathFacts) -> TrainBudget {
        TrainBudget {
            bytes: plan.most_bytes,
            most_time_us: plan.most_time_us,
            spent_us: 0,
            between_us: 2 * facts.idle_rtt_us.unwrap_or(0) + ROUND_US,
            first_sent_ns: None,
        }
    }

    /// Adds time that is reserved for the long trains; earlier stages must not use it.
    pub fn add_time(&mut self, time_us: u64) {
        self.most_time_us = self.most_time_us.saturating_add(time_us);
    }

    /// Returns the time left for trains of this round.
    pub fn seconds(&self) -> f64 {
        let spare = (self.most_time_us as f64 * SPARE_RATIO) as u64;
        self.most_time_us.saturating_sub(self.spent_us + spare) as f64 / 1e6
    }

    /// Returns the bits left for trains without overloading a path of this rate.
    pub fn bits(&self, rate_bps: f64) -> f64 {
        let gentle = MAX_AVERAGE_LOAD * rate_bps * self.most_time_us as f64 / 1e6;
        (self.bytes as f64 * 8.0).min(gentle)
    }

    /// Returns the trains that fit into the budget, in their order, and deducts them.
    pub fn take_affordable(&mut self, asked: Vec<TrainPlan>) -> Vec<TrainPlan> {
        let most_us = (self.seconds() * 1e6) as u64;
        let mut planned_us = 0;
        let mut kept = Vec::with_capacity(asked.len());
        for train in asked {
            let bytes = u64::from(train.packets) * u64::from(train.packet_bytes);
            let us = train.pause_us + compute_sending_us(&train);
            if train.packets > 0 && bytes <= self.bytes && planned_us + us <= most_us {
                self.bytes -= bytes;
                planned_us += us;
                kept.push(train);
            }
        }
        self.spent_us += planned_us;
        kept
    }

    /// Updates the time used from the results of the round.
    pub fn record_elapsed(&mut self, trains: &[ProbeTrain]) {
        let first = trains.iter().map(|t| t.sent_at_ns).min();
        let last = trains
            .iter()
            .map(|t| t.sent_at_ns.saturating_add(t.sent_ns.last().copied().unwrap_or(0)))
            .max();
        let (Some(first), Some(last)) = (first, last) else {
            return;
        };
        let zero = *self.first_sent_ns.get_or_insert(first);
        let observed_us = last.saturating_sub(zero) / 1000;
        self.spent_us = self.spent_us.max(observed_us) + self.between_us;
    }
}

/// Returns the sending time of a train; bursts are assumed to leave at 1 Gbit/s.
fn compute_sending_us(train: &TrainPlan) -> u64 {
    let bits = f64::from(train.packets) * f64::from(train.packet_bytes) * 8.0;
    match train.schedule {
        TrainSchedule::BackToBack => (bits / super::train_planning::UNKNOWN_BPS * 1e4) as u64,
        TrainSchedule::RateBps(bps) => (bits / bps.max(1) as f64 * 1e6) as u64,
        // The sum of many gaps deviates from its mean.
        TrainSchedule::Poisson { mean_gap_ns, .. } => {
            let count = f64::from(train.packets);
            ((count + 2.0 * count.sqrt()) * mean_gap_ns as f64 / 1e3) as u64
        }
    }
}
