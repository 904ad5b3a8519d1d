//! Aggregates the probes of each setting to a goodput with its error.
//!
//! Source: pooled standard errors; Cottrell's rule of the smallest setting that reaches the top,
//! with 3 % for "reaches". Units: bit/s, ratios. Error: the standard error given with each mean.
//! Wrong when: the path changes between two probes; then the difference is the path's.

use super::ProbeTrial;
use super::expected_goodput::{SettingMeasurement, estimate_expected_bps};
use crate::stats::quantile::median;
use crate::stats::sample_mode::find_mode;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::scan::TransferSetting;

/// A setting is as good as the best if it reaches this share of it.
pub const AS_GOOD_RATIO: f64 = 0.97;
/// Normal quantile of a 95 % interval.
pub const NORMAL_QUANTILE: f64 = 1.96;
/// The minimum error assumed for a probe: the path always varies.
pub const MIN_ERROR_RATIO: f64 = 0.01;
/// The error assumed for a probe without an interval.
pub const USUAL_ERROR_RATIO: f64 = 0.05;

/// All probes of one setting.
#[derive(Debug, Clone)]
pub struct SettingAggregate<'t> {
    pub setting: &'t TransferSetting,
    /// Probes with a result, in the order of time; never empty.
    pub trials: Vec<&'t ProbeTrial>,
    /// Best estimate: by the curve through similar settings if there is one, else the median.
    pub expected_bps: f64,
}

impl<'t> SettingAggregate<'t> {
    fn measured(&self) -> SettingMeasurement<'t> {
        SettingMeasurement {
            setting: self.setting,
            goodput_bps: self.goodput_bps(),
            error_ratio: self.error_ratio(),
            limiter: self.limiter(),
        }
    }

    /// Returns the median over the probes.
    pub fn goodput_bps(&self) -> f64 {
        let rates = self.trials.iter().filter_map(|t| t.goodput_bps);
        median(rates.map(|bps| bps as f64)).unwrap_or(0.0)
    }

    /// Returns the standard error of the goodput, as a ratio of it.
    pub fn error_ratio(&self) -> f64 {
        let each = self.trials.iter().map(|t| compute_error_ratio(t));
        let squares: f64 = each.map(|e| e * e).sum();
        squares.sqrt() / self.trials.len() as f64
    }

    /// Returns the most frequent limiter; of equals, the latest.
    pub fn limiter(&self) -> Limiter {
        let named: Vec<Limiter> = self.trials.iter().map(|t| t.limiter).collect();
        find_mode(&named).unwrap_or(Limiter::Unknown)
    }

    pub fn latest(&self) -> &ProbeTrial {
        self.trials[self.trials.len() - 1]
    }

    pub fn loaded_s(&self) -> Option<f64> {
        median(self.trials.iter().filter_map(|t| Some(t.loaded_rtt?.as_secs_f64())))
    }
}

fn compute_error_ratio(trial: &ProbeTrial) -> f64 {
    let centre = trial.goodput_bps.unwrap_or(0).max(1) as f64;
    trial.interval_bps.map_or(USUAL_ERROR_RATIO, |[low, high]| {
        let half = high.saturating_sub(low) as f64 / 2.0;
        (half / NORMAL_QUANTILE / centre).max(MIN_ERROR_RATIO)
    })
}

/// Returns one tally for each setting with a result, in the order of their first probes.
pub fn aggregate_trials(trials: &[ProbeTrial]) -> Vec<SettingAggregate<'_>> {
    let mut all: Vec<SettingAggregate> = Vec::new();
    for trial in trials.iter().filter(|t| t.goodput_bps.is_some()) {
        match all.iter_mut().find(|t| *t.setting == trial.setting) {
            Some(tally) => tally.trials.push(trial),
            None => all.push(SettingAggregate {
                setting: &trial.setting,
                trials: vec![trial],
                expected_bps: 0.0,
            }),
        }
    }
    let measured: Vec<SettingMeasurement> = all.iter().map(SettingAggregate::measured).collect();
    let expected = estimate_expected_bps(&measured);
    for (tally, bps) in all.iter_mut().zip(expected) {
        tally.expected_bps = bps;
    }
    all
}

/// Orders settings: by streams, then by what is left to the kernel, then by window.
pub fn order_by_size(setting: &TransferSetting) -> impl Ord + use<> {
    (
        setting.streams,
        setting.pacing_bps.is_some(),
        setting.congestion_control.clone(),
        setting.window_bytes,
    )
}

pub fn find_best<'a, 't>(tallies: &'a [SettingAggregate<'t>]) -> Option<&'a SettingAggregate<'t>> {
    tallies.iter().max_by(|a, b| a.expected_bps.total_cmp(&b.expected_bps))
}

/// Returns the smallest setting that is as good as the best.
pub fn choose_smallest<'a, 't>(
    tallies: &'a [SettingAggregate<'t>],
) -> Option<&'a SettingAggregate<'t>> {
    let enough = find_best(tallies)?.expected_bps * AS_GOOD_RATIO;
    let good = tallies.iter().filter(|t| t.expected_bps >= enough);
    good.min_by_key(|t| order_by_size(t.setting))
}

/// Returns the gain of `other` over `this`, and its standard error, both as ratios.
pub fn compute_gain(this: &SettingAggregate, other: &SettingAggregate) -> (f64, f64) {
    let ratio = other.expected_bps / this.expected_bps.max(1.0);
    let error = this.error_ratio().hypot(other.error_ratio()) * ratio;
    (ratio - 1.0, error)
}
