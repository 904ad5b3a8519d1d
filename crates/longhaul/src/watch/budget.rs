//! Bytes that may be sent in a day: by each measurement, and by all of them.
//!
//! A run sets aside the most it can send before it starts; what it did send counts when it ends.

use super::DAY_US;
use super::file::WatchFile;
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Debug, Clone, Default)]
pub struct Budget {
    /// Since 1970, in UTC.
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

/// What a run has set aside, and of which day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reserved {
    bytes: u64,
    day: i64,
}

/// What was sent in a day, for whoever goes on after a restart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spent {
    /// Since 1970, in UTC.
    pub day: i64,
    pub all: u64,
    pub measures: Vec<(String, u64)>,
}

impl Budget {
    /// Sent and set aside today, by measurement too.
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

    /// Goes on with what was spent before; of another day it means nothing.
    pub fn go_on(&mut self, spent: &Spent) {
        self.day = spent.day;
        self.all.spent = spent.all;
        for (name, bytes) in &spent.measures {
            if let Some(own) = self.measures.get_mut(name.as_str()) {
                own.spent = *bytes;
            }
        }
    }

    /// The budgets of a file; what was spent of the day stays spent.
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

    /// Begins a new day where one has come. A clock that is set back does not bring a day again.
    pub fn at(&mut self, now_us: i64) {
        let day = now_us.div_euclid(DAY_US);
        if day > self.day {
            self.day = day;
            self.all.spent = 0;
            self.measures.values_mut().for_each(|it| it.spent = 0);
        }
    }

    /// Sets `bytes` aside; `None` where the day has not so many left.
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

    /// What was sent takes the place of what was set aside.
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

    /// Sent and set aside today.
    pub fn spent(&self) -> u64 {
        self.all.spent
    }
}
