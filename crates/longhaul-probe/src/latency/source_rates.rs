//! The rates of sources that have proved nothing, in tables of a fixed size.

use crate::measurement_server::SourcePrefix;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::time::Duration;

/// The number of rates; sources whose hash is the same share one.
const RATE_SLOTS: usize = 4096;

/// A rate with a burst of one second.
#[derive(Debug, Clone, Copy, Default)]
struct EventRate {
    /// Tokens spent, and when.
    spent: f64,
    at: Duration,
}

impl EventRate {
    /// Takes a token of `per_second`, if there is one.
    fn take(&mut self, per_second: f64, now: Duration) -> bool {
        let passed = now.saturating_sub(self.at).as_secs_f64();
        self.spent = (self.spent - passed * per_second).max(0.0);
        self.at = now;
        let granted = self.spent + 1.0 <= per_second;
        if granted {
            self.spent += 1.0;
        }
        granted
    }
}

/// The rates of each source, and of all together.
#[derive(Debug)]
pub(super) struct SourceRates {
    source_per_second: f64,
    total_per_second: f64,
    hasher: RandomState,
    sources: Vec<EventRate>,
    total: EventRate,
}

impl SourceRates {
    /// Creates rates with these maxima, which are also the bursts.
    pub fn new(source_per_second: f64, total_per_second: f64) -> SourceRates {
        SourceRates {
            source_per_second,
            total_per_second,
            hasher: RandomState::new(),
            sources: vec![EventRate::default(); RATE_SLOTS],
            total: EventRate::default(),
        }
    }

    /// Counts an event of this source; returns whether it is within the rates.
    pub fn take(&mut self, source: IpAddr, now: Duration) -> bool {
        let host = SourcePrefix::from(source).host;
        let slot = self.hasher.hash_one(host) as usize % RATE_SLOTS;
        // A source beyond its rate takes nothing from the others.
        self.sources[slot].take(self.source_per_second, now)
            && self.total.take(self.total_per_second, now)
    }
}
