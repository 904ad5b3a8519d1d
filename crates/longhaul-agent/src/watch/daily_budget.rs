//! Daily byte budgets: one per measurement, and one for all of them.
//!
//! A run reserves the most it can send before it starts. When it ends, the bytes sent replace the
//! reservation.

use super::DAY_US;
use super::watch_file::WatchFile;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

#[derive(Debug, Clone, Default)]
pub struct DailyBudget {
    usage: BudgetUsage,
    max_bytes: Option<u64>,
    measure_limits: HashMap<String, u64>,
}

/// Bytes that a run has reserved, and the day of the reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetReservation {
    bytes: u64,
    day: i64,
}

/// Bytes used in a day, stored across restarts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetUsage {
    /// Days since 1970, UTC.
    pub day: i64,
    #[serde(rename = "bytes")]
    pub all: u64,
    pub measures: BTreeMap<String, u64>,
}

impl DailyBudget {
    /// Returns the bytes used and reserved today, for storage.
    pub fn usage(&self) -> &BudgetUsage {
        &self.usage
    }

    /// Restores stored use; it is discarded when a later day begins.
    pub fn restore(&mut self, spent: &BudgetUsage) {
        self.usage = spent.clone();
    }

    /// Applies the budgets of a file; use of the current day is kept.
    pub fn apply_file(&mut self, file: &WatchFile) {
        self.max_bytes = file.agent.bytes_per_day;
        let limits = file.measures.iter().map(|it| Some((it.name.clone(), it.bytes_per_day?)));
        self.measure_limits = limits.flatten().collect();
    }

    /// Starts a new day if one has begun. A clock that is set back does not start a day again.
    pub fn advance_to(&mut self, now_us: i64) {
        let day = now_us.div_euclid(DAY_US);
        if day > self.usage.day {
            self.usage = BudgetUsage { day, ..BudgetUsage::default() };
        }
    }

    /// Reserves `bytes`, or returns `None` if they exceed the budget of the day.
    pub fn reserve(&mut self, measure: &str, bytes: u64) -> Option<BudgetReservation> {
        let all = self.usage.all.saturating_add(bytes);
        let own = self.usage.measures.get(measure).copied().unwrap_or(0).saturating_add(bytes);
        let exceeds = |limit: Option<u64>, used: u64| limit.is_some_and(|most| used > most);
        let own_limit = self.measure_limits.get(measure).copied();
        if exceeds(self.max_bytes, all) || exceeds(own_limit, own) {
            return None;
        }
        let reserved = BudgetReservation { bytes, day: self.usage.day };
        self.replace_bytes(measure, 0, bytes);
        Some(reserved)
    }

    /// Replaces a reservation by the bytes sent.
    pub fn settle(&mut self, measure: &str, reserved: BudgetReservation, sent: u64) {
        if reserved.day == self.usage.day {
            self.replace_bytes(measure, reserved.bytes, sent);
        }
    }

    fn replace_bytes(&mut self, measure: &str, old: u64, new: u64) {
        let own = self.usage.measures.entry(measure.to_owned()).or_default();
        for used in [&mut self.usage.all, own] {
            *used = used.saturating_sub(old).saturating_add(new);
        }
    }
}
