//! Daily byte budgets: one per measurement, and one for all of them.
//!
//! A run reserves the most it can send before it starts. When it ends, the bytes sent replace the
//! reservation.

use super::DAY_US;
use super::file::WatchFile;
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Debug, Clone, Default)]
pub struct Budget {
    /// Days since 1970, UTC.
    day: i64,
    all: Purse,
    measures: HashMap<Arc<str>, Purse>,
}

#[derive(Debug, Clone, Default)]
struct Purse {
    most: Option<u64>,
    spent: u64,
}

impl Purse {
    fn has(&self, bytes: u64) -> bool {
        self.most
            .is_none_or(|most| self.spent.saturating_add(bytes) <= most)
    }
}

/// Bytes that a run has reserved, and the day of the reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reserved {
    bytes: u64,
    day: i64,
}

/// Bytes used in a day, stored across restarts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spent {
    /// Days since 1970, UTC.
    pub day: i64,
    pub all: u64,
    pub measures: Vec<(String, u64)>,
}

impl Budget {
    /// Returns the bytes used and reserved today, for storage.
    pub fn to_keep(&self) -> Spent {
        let own = self.measures.iter();
        let mut measures: Vec<(String, u64)> = own
            .map(|(name, purse)| (name.to_string(), purse.spent))
            .collect();
        measures.sort();
        Spent {
            day: self.day,
            all: self.all.spent,
            measures,
        }
    }

    /// Restores stored use; it is discarded when a later day begins.
    pub fn go_on(&mut self, spent: &Spent) {
        self.day = spent.day;
        self.all.spent = spent.all;
        for (name, bytes) in &spent.measures {
            if let Some(own) = self.measures.get_mut(name.as_str()) {
                own.spent = *bytes;
            }
        }
    }

    /// Applies the budgets of a file; use of the current day is kept.
    pub fn follow(&mut self, file: &WatchFile) {
        self.all.most = file.agent.bytes_per_day;
        let mut measures = HashMap::with_capacity(file.measures.len());
        for measure in &file.measures {
            let name: Arc<str> = measure.name.as_str().into();
            let spent = self.measures.get(&name).map_or(0, |purse| purse.spent);
            let most = measure.bytes_per_day;
            measures.insert(name, Purse { most, spent });
        }
        self.measures = measures;
    }

    /// Starts a new day if one has begun. A clock that is set back does not start a day again.
    pub fn at(&mut self, now_us: i64) {
        let day = now_us.div_euclid(DAY_US);
        if day > self.day {
            self.day = day;
            self.all.spent = 0;
            self.measures.values_mut().for_each(|it| it.spent = 0);
        }
    }

    /// Reserves `bytes`, or returns `None` if they exceed the budget of the day.
    pub fn reserve(&mut self, measure: &str, bytes: u64) -> Option<Reserved> {
        let own_has = self.measures.get(measure).is_none_or(|own| own.has(bytes));
        if !own_has || !self.all.has(bytes) {
            return None;
        }
        self.all.spent = self.all.spent.saturating_add(bytes);
        if let Some(own) = self.measures.get_mut(measure) {
            own.spent = own.spent.saturating_add(bytes);
        }
        let day = self.day;
        Some(Reserved { bytes, day })
    }

    /// Replaces a reservation by the bytes sent.
    pub fn settle(&mut self, measure: &str, reserved: Reserved, sent: u64) {
        if reserved.day != self.day {
            return;
        }
        let own = self.measures.get_mut(measure);
        for purse in std::iter::once(&mut self.all).chain(own) {
            purse.spent = purse
                .spent
                .saturating_sub(reserved.bytes)
                .saturating_add(sent);
        }
    }

    /// Returns the bytes used and reserved today.
    pub fn spent(&self) -> u64 {
        self.all.spent
    }
}
