//! Which setting to try next? A search that asks what limited the probe before.
//!
//! A grid measures every combination; most of it is wasted, because the hosts can tell which knob
//! binds. [`Search`] asks for one probe, is told what it gave ([`Trial`]), and moves only the knob
//! that the limiter names, until nothing more can be gained or the budget would be passed.
//!
//! Read in this order: [`trial`] (what a probe says), [`search`] (the state machine), [`moves`] (up),
//! [`polish`] (when nothing higher is in sight), [`tally`], [`windows`], [`allowed`].

pub mod allowed;
pub mod curve;
pub mod moves;
pub mod polish;
pub mod search;
pub mod tally;
#[cfg(test)]
mod tests;
pub mod trial;
pub mod windows;

pub use search::Search;
pub use trial::{HostLimits, Trial};

use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::scan::Setting;
use std::time::Duration;

/// Cells of the grid that a guided search spares: eleven windows by eleven numbers of streams, as
/// SLAC scanned them.
pub const GRID_CELLS_SPARED: u32 = 121;

/// What is known before the first probe.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Start {
    /// The setting in use now, or the one that an earlier scan of this path recommended.
    pub present: Option<Setting>,
    /// `present` comes from an earlier scan of this path: the search starts there.
    pub remembered: bool,
    /// From the time of a connect.
    pub idle_rtt: Option<Duration>,
}

/// What the scan has used up so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spent {
    pub probes: u32,
    /// Payload.
    pub bytes: u64,
    /// Wall time since the scan began.
    pub time: Duration,
}

/// What to do now.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    Probe(Probe),
    Done(Stop),
}

/// The next measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct Probe {
    pub setting: Setting,
    /// For which payload should flow, at least, so that the ramp is left well behind.
    pub time: Duration,
    /// Why this one: a sentence for the user, with the numbers that led to it.
    pub why: String,
}

/// Why the search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stop {
    /// Nothing that may be tried promises more.
    Settled,
    /// One more probe would pass the budget's probes, time or bytes.
    Probes,
    Time,
    Bytes,
    /// An application is the limit; no setting of the network helps.
    Application,
    /// A policer or a shaper sets the rate.
    Policed,
    Shaped,
}

impl Stop {
    /// The word of `Analysis::stopped_by`.
    pub const fn word(self) -> &'static str {
        match self {
            Stop::Settled => "settled",
            Stop::Probes => "probes",
            Stop::Time => "time",
            Stop::Bytes => "bytes",
            Stop::Application => "application",
            Stop::Policed => "policed",
            Stop::Shaped => "shaped",
        }
    }
}

/// The limiter's word, as one reads it.
fn words(limiter: Limiter) -> String {
    match limiter {
        Limiter::CpuSender => String::from("sender's processor"),
        Limiter::CpuReceiver => String::from("receiver's processor"),
        other => other.word().replace('_', " "),
    }
}
