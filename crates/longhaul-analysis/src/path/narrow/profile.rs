//! By how much did the round trip to a hop grow under load, and how much does it vary without?
//!
//! Source: our design: floor f = least idle round trip; g = second least loaded one, from 2 s of
//! load on until 0.5 s before its end, so that one lucky packet does not hide a queue; rise = g − f;
//! noise = the 90th less the 10th percentile of the idle ones. Units: ns. Error: of the rise, the
//! noise divided by the number of idle answers, about.
//! Wrong when: the queue drains in between, as it does under a single stream that halves its window.

use crate::stats::quantile::{quantile, sorted};
use crate::stats::rank_sum;
use longhaul_model::report::v1::path::{Echo, HopWatch, WatchedHop};

/// Load needs this long to fill a queue; at most a quarter of the loaded time is left out.
const FILLING_US: u64 = 2_000_000;
/// Streams end apart, and the queue is empty before its last packet is read. At most a sixteenth of
/// the loaded time is left out.
const ENDING_US: u64 = 500_000;
/// A queue needs this long to drain.
const DRAINING_US: u64 = 1_000_000;
/// Fewer answers than this in a phase say nothing.
const LEAST_ANSWERS: usize = 3;
/// Nothing is said of a hop that answers fewer probes than this.
const LEAST_ANSWERED_RATIO: f64 = 0.3;
/// Rises below this share of what they are compared with are none.
pub const QUIET_RATIO: f64 = 0.3;
/// Rises above it are the same rise.
pub const RISEN_RATIO: f64 = 0.6;
/// A smaller rise is no queue worth naming.
pub const LEAST_RISE_NS: i64 = 3_000_000;
const NOISE_TIMES: f64 = 3.0;
pub const LEAST_P: f64 = 0.01;

/// Times of probes sorted by what went on when they were sent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Phases {
    pub idle: Vec<f64>,
    pub loaded: Vec<f64>,
    asked_idle: usize,
    asked_loaded: usize,
}

/// Which stretch of the watch is which.
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

    /// `Some(true)`: loaded; `None`: in between.
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
    /// Of probes sent at a time, each with its value if it was answered.
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

    /// Enough answers in both.
    fn usable(&self) -> bool {
        let enough = |answers: &[f64], asked: usize| {
            answers.len() >= LEAST_ANSWERS
                && answers.len() as f64 >= asked as f64 * LEAST_ANSWERED_RATIO
        };
        enough(&self.idle, self.asked_idle) && enough(&self.loaded, self.asked_loaded)
    }
}

/// One hop, idle against loaded.
#[derive(Debug, Clone, PartialEq)]
pub struct Grown {
    pub ttl: u8,
    pub address: Option<String>,
    /// g − f; below 0 where loaded round trips were shorter.
    pub rise_ns: i64,
    /// Median loaded less median idle.
    pub median_ns: i64,
    pub noise_ns: i64,
    /// That loaded round trips are no longer than idle ones (rank sum).
    pub p: f64,
    /// Answers under load.
    pub loaded: usize,
}

impl Grown {
    /// `None` where too little was answered.
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

    /// A queue beyond noise and chance, that counts beside what the far end shows.
    pub fn stands_out(&self, far_ns: i64) -> bool {
        let least = (LEAST_RISE_NS as f64).max(0.25 * far_ns as f64);
        self.rise_ns as f64 >= least && self.beyond_noise() && self.p < LEAST_P
    }

    /// More than what it varies by without load.
    pub fn beyond_noise(&self) -> bool {
        self.rise_ns as f64 >= NOISE_TIMES * self.noise_ns as f64
    }

    /// Without the queue, by its floor and by its median.
    pub fn quiet_beside(&self, risen: &Grown) -> bool {
        let below = |own: i64, other: i64| (own as f64) < QUIET_RATIO * other as f64;
        below(self.rise_ns, risen.rise_ns) && below(self.median_ns, risen.median_ns)
    }

    /// With the same queue, by its floor or by its median: probes of two hops that miss each other by
    /// a moment see a queue that breathes at other depths, and of few of them the second least is often
    /// its emptiest.
    pub fn risen_beside(&self, risen: &Grown) -> bool {
        let reaches = |own: i64, other: i64| own as f64 >= RISEN_RATIO * other as f64;
        reaches(self.rise_ns, risen.rise_ns) || reaches(self.median_ns, risen.median_ns)
    }
}

/// All hops of which something can be said, nearest first, the far end last if it is among them.
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
