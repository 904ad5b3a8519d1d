//! Guided search for the best setting: each probe's limiter determines the next setting.
//!
//! A grid measures every combination, mostly in vain, because the hosts can tell which setting is
//! the limit. [`Search`] requests one probe, receives its result ([`Trial`]), and changes only the
//! setting that the limiter names, until no gain is expected or the budget would be exceeded.
//!
//! Read in this order: [`trial`] (the result of a probe), [`search`] (the state machine), [`moves`]
//! (steps up), [`polish`] (refinement after the last step), [`tally`], [`windows`], [`allowed`].

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

/// Cells of the grid that a guided search avoids: eleven windows by eleven numbers of streams, as
/// SLAC scanned them.
pub const GRID_CELLS_SPARED: u32 = 121;

/// The knowledge before the first probe.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Start {
    /// The setting in use now, or the one that an earlier scan of this path recommended.
    pub present: Option<Setting>,
    /// `present` comes from an earlier scan of this path: the search starts there.
    pub remembered: bool,
    /// Measured by a connect.
    pub idle_rtt: Option<Duration>,
}

/// The budget used by the scan so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spent {
    pub probes: u32,
    /// Payload.
    pub bytes: u64,
    /// Wall time since the scan began.
    pub time: Duration,
}

/// The next action.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    Probe(Probe),
    Done(Stop),
}

/// The next measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct Probe {
    pub setting: Setting,
    /// The minimum payload time, so that the run lasts well beyond its ramp.
    pub time: Duration,
    /// The reason for this probe: a sentence for the user, with the numbers that led to it.
    pub why: String,
}

/// The reason why the search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stop {
    /// No untried setting is expected to be faster.
    Settled,
    /// One more probe would exceed the budget's probes, time or bytes.
    Probes,
    Time,
    Bytes,
    /// An application is the limit; no network setting helps.
    Application,
    /// A policer or a shaper limits the rate.
    Policed,
    Shaped,
}

impl Stop {
    /// Returns the word of `Analysis::stopped_by`.
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

/// Returns the name of a limiter for people.
fn words(limiter: Limiter) -> String {
    match limiter {
        Limiter::CpuSender => String::from("sender's processor"),
        Limiter::CpuReceiver => String::from("receiver's processor"),
        other => other.word().replace('_', " "),
    }
}
