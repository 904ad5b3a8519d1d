//! Measures the rise of the RTT to a hop under load, and its noise without load.
//!
//! Source: our design: floor f = minimum idle RTT; g = second lowest loaded RTT, from 2 s of load
//! until 0.5 s before its end, so that a single fast packet does not hide a queue; rise = g − f;
//! noise = 90th minus 10th percentile of the idle RTTs. Units: ns. Error: about the noise over the
//! idle answers.
//! Wrong when: the queue drains in between, as under a single stream that halves its window.

use crate::stats::quantile::{quantile, sorted};
use crate::stats::rank_sum;
use longhaul_model::report::v1::path::{Echo, HopWatch, WatchedHop};

/// Time that a load needs to fill a queue; at most a quarter of the loaded time is left out.
const FILLING_US: u64 = 2_000_000;
/// Streams end at different times, and the queue is empty before its last packet is read. At most a
/// sixteenth of the loaded time is left out.
const ENDING_US: u64 = 500_000;
/// Time that a queue needs to drain.
const DRAINING_US: u64 = 1_000_000;
/// The minimum number of answers in each phase.
const LEAST_ANSWERS: usize = 3;
/// The minimum share of answered probes of a usable hop.
const LEAST_ANSWERED_RATIO: f64 = 0.3;
/// A rise below this share of the reference rise counts as none.
pub const QUIET_RATIO: f64 = 0.3;
/// A rise above this share of the reference rise counts as the same.
pub const RISEN_RATIO: f64 = 0.6;
/// The minimum rise that counts as a queue.
pub const LEAST_RISE_NS: i64 = 3_000_000;
const NOISE_TIMES: f64 = 3.0;
pub const LEAST_P: f64 = 0.01;

/// Values of probes, by the phase in which they were sent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Phases {
    pub idle: Vec<f64>,
    pub loaded: Vec<f64>,
    asked_idle: usize,
    asked_loaded: usize,
}

/// The phases of the probing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "the postfix is the unit")]
pub struct Clock {
    load_from_us: u64,
    filled_us: u64,
    ending_us: u64,
    load_until_us: u64,
}

impl Clock {
    pub fn of(watch: &HopWatch) -> Clock {
        let loaded = watch.load_until_us.saturating_sub(watch.load_from_us);
        Clock {
            load_from_us: watch.load_from_us,
            filled_us: watch
                .load_from_us
                .saturating_add(FILLING_US.min(loaded / 4)),
            ending_us: watch
                .load_until_us
                .saturating_sub(ENDING_US.min(loaded / 16)),
            load_until_us: watch.load_until_us,
        }
    }

    /// Returns `Some(true)` for loaded, `Some(false)` for idle, `None` for transitions.
    pub fn loaded(&self, at_us: u64) -> Option<bool> {
        if at_us < self.load_from_us || at_us >= self.load_until_us.saturating_add(DRAINING_US) {
            Some(false)
        } else if (self.filled_us..self.ending_us).contains(&at_us) {
            Some(true)
        } else {
            None
        }
    }
}

impl Phases {
    /// Sorts probes by their send time; each has a value if it was answered.
    pub fn of(clock: Clock, probes: impl Iterator<Item = (u64, Option<f64>)>) -> Phases {
        let mut phases = Phases::default();
        for (at_us, value) in probes {
            match clock.loaded(at_us) {
                Some(true) => {
                    phases.asked_loaded += 1;
                    phases.loaded.extend(value);
                }
                Some(false) => {
                    phases.asked_idle += 1;
                    phases.idle.extend(value);
                }
                None => {}
            }
        }
        phases.idle = sorted(phases.idle);
        phases.loaded = sorted(phases.loaded);
        phases
    }

    /// Returns true if both phases have enough answers.
    fn usable(&self) -> bool {
        let enough = |answers: &[f64], asked: usize| {
            answers.len() >= LEAST_ANSWERS
                && answers.len() as f64 >= asked as f64 * LEAST_ANSWERED_RATIO
        };
        enough(&self.idle, self.asked_idle) && enough(&self.loaded, self.asked_loaded)
    }
}

/// The rise of one hop from idle to loaded.
#[derive(Debug, Clone, PartialEq)]
pub struct Grown {
    pub ttl: u8,
    pub address: Option<String>,
    /// g − f; negative if loaded round trips were shorter.
    pub rise_ns: i64,
    /// Median loaded minus median idle.
    pub median_ns: i64,
    pub noise_ns: i64,
    /// P-value of the hypothesis that loaded RTTs are no longer than idle ones (rank sum).
    pub p: f64,
    /// Answers under load.
    pub loaded: usize,
}

impl Grown {
    /// Returns `None` if too few probes were answered.
    pub fn of(ttl: u8, address: Option<String>, phases: &Phases) -> Option<Grown> {
        if !phases.usable() {
            return None;
        }
        let (idle, loaded) = (&phases.idle, &phases.loaded);
        let at = |values: &[f64], share| quantile(values, share);
        let noise = at(idle, 0.9)? - at(idle, 0.1)?;
        Some(Grown {
            ttl,
            address,
            rise_ns: (loaded.get(1)? - idle.first()?).round() as i64,
            median_ns: (at(loaded, 0.5)? - at(idle, 0.5)?).round() as i64,
            noise_ns: noise.round() as i64,
            p: rank_sum::one_sided(idle, loaded),
            loaded: loaded.len(),
        })
    }

    /// Returns true for a rise beyond noise and chance, and large compared with the destination's.
    pub fn stands_out(&self, far_ns: i64) -> bool {
        let least = (LEAST_RISE_NS as f64).max(0.25 * far_ns as f64);
        self.rise_ns as f64 >= least && self.beyond_noise() && self.p < LEAST_P
    }

    /// Returns true if the rise exceeds the variation without load.
    pub fn beyond_noise(&self) -> bool {
        self.rise_ns as f64 >= NOISE_TIMES * self.noise_ns as f64
    }

    /// Returns true if this hop is without the queue, by its floor and by its median.
    pub fn quiet_beside(&self, risen: &Grown) -> bool {
        let below = |own: i64, other: i64| (own as f64) < QUIET_RATIO * other as f64;
        below(self.rise_ns, risen.rise_ns) && below(self.median_ns, risen.median_ns)
    }

    /// Returns true if this hop has the same queue, by its floor or by its median. Probes of two
    /// hops at slightly different times see a varying queue at different depths, and the second
    /// lowest of a few is often the minimum of the queue.
    pub fn risen_beside(&self, risen: &Grown) -> bool {
        let reaches = |own: i64, other: i64| own as f64 >= RISEN_RATIO * other as f64;
        reaches(self.rise_ns, risen.rise_ns) || reaches(self.median_ns, risen.median_ns)
    }
}

/// Returns all usable hops, nearest first; the destination last if it is among them.
pub fn hops(watch: &HopWatch) -> Vec<Grown> {
    let clock = Clock::of(watch);
    let mut found: Vec<Grown> = watch
        .hops
        .iter()
        .filter_map(|hop| Grown::of(hop.ttl, hop.address.clone(), &phases(clock, hop)))
        .collect();
    found.sort_by_key(|rise| rise.ttl);
    found
}

fn phases(clock: Clock, hop: &WatchedHop) -> Phases {
    let value = |echo: &Echo| (echo.at_us, echo.rtt_ns.map(|ns| ns as f64));
    Phases::of(clock, hop.echoes.iter().map(value))
}
