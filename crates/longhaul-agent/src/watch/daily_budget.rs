//! Daily byte budgets: one per measurement, and one for all of them.
//!
//! A run reserves the most it can send before it starts. When it ends, the bytes sent replace the
//! reservation.

use super::DAY_US;
use super::watch_file::WatchFile;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

#[derive(Debug, Clone, Default)]
pub struct DailyBudget {
    /// Days since 1970, UTC.
    day: i64,
    all: ByteBudget,
    measures: HashMap<Arc<str>, ByteBudget>,
}

#[derive(Debug, Clone, Default)]
struct ByteBudget {
    max_bytes: Option<u64>,
    used_bytes: u64,
}

impl ByteBudget {
    fn allows(&self, bytes: u64) -> bool {
        self.max_bytes.is_none_or(|most| self.used_bytes.saturating_add(bytes) <= most)
    }
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
    pub fn usage(&self) -> BudgetUsage {
        let own = self.measures.iter();
        BudgetUsage {
            day: self.day,
            all: self.all.used_bytes,
            measures: own.map(|(name, budget)| (name.to_string(), budget.used_bytes)).collect(),
        }
    }

    /// Restores stored use; it is discarded when a later day begins.
    pub fn restore(&mut self, spent: &BudgetUsage) {
        self.day = spent.day;
        self.all.used_bytes = spent.all;
        for (name, bytes) in &spent.measures {
            if let Some(own) = self.measures.get_mut(name.as_str()) {
                own.used_bytes = *bytes;
            }
        }
    }

    /// Applies the budgets of a file; use of the current day is kept.
    pub fn apply_file(&mut self, file: &WatchFile) {
        self.all.max_bytes = file.agent.bytes_per_day;
        let mut measures = HashMap::with_capacity(file.measures.len());
        for measure in &file.measures {
            let name: Arc<str> = measure.name.as_str().into();
            let spent = self.measures.get(&name).map_or(0, |budget| budget.used_bytes);
            let most = measure.bytes_per_day;
            measures.insert(name, ByteBudget { max_bytes: most, used_bytes: spent });
        }
        self.measures = measures;
    }

    /// Starts a new day if one has begun. A clock that is set back does not start a day again.
    pub fn advance_to(&mut self, now_us: i64) {
        let day = now_us.div_euclid(DAY_US);
        if day > self.day {
            self.day = day;
            self.all.used_bytes = 0;
            self.measures.values_mut().for_each(|it| it.used_bytes = 0);
        }
    }

    /// Reserves `bytes`, or returns `None` if they exceed the budget of the day.
    pub fn reserve(&mut self, measure: &str, bytes: u64) -> Option<BudgetReservation> {
        let own_has = self.measures.get(measure).is_none_or(|own| own.allows(bytes));
        if !own_has || !self.all.allows(bytes) {
            return None;
        }
        self.all.used_bytes = self.all.used_bytes.saturating_add(bytes);
        if let Some(own) = self.measures.get_mut(measure) {
            own.used_bytes = own.used_bytes.saturating_add(bytes);
        }
        let day = self.day;
        Some(BudgetReservation { bytes, day })
    }

    /// Replaces a reservation by the bytes sent.
    pub fn settle(&mut self, measure: &str, reserved: BudgetReservation, sent: u64) {
        if reserved.day != self.day {
            return;
        }
        let own = self.measures.get_mut(measure);
        for budget in std::iter::once(&mut self.all).chain(own) {
            budget.used_bytes =
                budget.used_bytes.saturating_sub(reserved.bytes).saturating_add(sent);
        }
    }

    /// Returns the bytes used and reserved today.
    pub fn used_bytes(&self) -> u64 {
        self.all.used_bytes
    }
}
