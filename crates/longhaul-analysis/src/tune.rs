//! Guided search for the best setting: each probe's limiter determines the next setting.
//!
//! A grid measures every combination, mostly in vain, because the hosts can tell which setting is
//! the limit. [`SettingSearch`] requests one probe, receives its result ([`ProbeTrial`]), and changes only the
//! setting that the limiter names, until no gain is expected or the budget would be exceeded.
//!
//! Read in this order: [`probe_trial`] (the result of a probe), [`setting_search`] (the state machine), [`next_setting`]
//! (steps up), [`choice_refinement`] (refinement after the last step), [`setting_aggregate`], [`allowed_settings`].

pub mod allowed_settings;
pub mod choice_refinement;
pub mod expected_goodput;
pub mod next_setting;
pub mod probe_trial;
pub mod setting_aggregate;
pub mod setting_search;
#[cfg(test)]
mod tests;

pub use probe_trial::{HostLimits, ProbeTrial};
pub use setting_search::SettingSearch;

use longhaul_model::report::v1::scan::TransferSetting;
use longhaul_model::serde_name;
use serde::Serialize;
use std::time::Duration;

/// The knowledge before the first probe.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SearchStart {
    /// The recommendation of an earlier scan of this path: the search starts there.
    pub remembered: Option<RememberedSetting>,
    /// Measured by a connect.
    pub idle_rtt: Option<Duration>,
}

/// A setting that an earlier scan recommended, and the rate that it gave then.
#[derive(Debug, Clone, PartialEq)]
pub struct RememberedSetting {
    pub setting: TransferSetting,
    pub goodput_bps: u64,
}

/// The budget used by the scan so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SearchSpent {
    pub probes: u32,
    /// Payload.
    pub bytes: u64,
    /// Wall time since the scan began.
    pub time: Duration,
}

/// The next action.
#[derive(Debug, Clone, PartialEq)]
pub enum SearchStep {
    Probe(SearchProbe),
    Done(SearchStop),
}

/// The next measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchProbe {
    pub setting: TransferSetting,
    /// The minimum payload time, so that the run lasts well beyond its ramp.
    pub time: Duration,
    /// The reason for this probe: a sentence for the user, with the numbers that led to it.
    pub why: String,
}

/// The reason why the search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchStop {
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

impl SearchStop {
    /// Returns the word of `Analysis::stopped_by`.
    pub fn word(self) -> &'static str {
        serde_name::name_variant(&self)
    }
}
