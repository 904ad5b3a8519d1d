//! Guided search for the best setting: each probe's limiter determines the next setting.
//!
//! A grid measures every combination, mostly in vain, because the hosts can tell which setting is
//! the limit. [`SettingSearch`] requests one probe, receives its result ([`ProbeTrial`]), and changes only the
//! setting that the limiter names, until no gain is expected or the budget would be exceeded.
//!
//! Read in this order: [`probe_trial`] (the result of a probe), [`setting_search`] (the state machine),
//! [`next_setting`] (steps up, and refinement after the last step).
//!
//! # Expected goodput
//!
//! Estimates the goodput of each setting, by a curve over streams if one fits.
//!
//! Fits one curve of goodput over streams to all probes of a full path.
//!
//! `n` streams get `S · n / (n + k)`: in competition with `k` other flows by their number, and
//! alone with `k` = ⅓ by Altman's utilisation `1 - 1/(1 + 3n)`. Its inverse is a line in `1/n`,
//! fitted by least squares with each probe weighted by its precision. Each probe thus gains from
//! its neighbours, and the noise of a single one decides nothing.
//!
//! Source: Altman, Barman, Tuffin, Vojnovic 2006. Units: bit/s. Error: that of the fit; if a probe
//! is more than three standard errors off, there is no curve.
//! Wrong when: the streams are limited by something else than the path; such probes are left out.
//!
//! # Setting aggregate
//!
//! Aggregates the probes of each setting to a goodput with its error.
//!
//! Source: pooled standard errors; Cottrell's rule of the smallest setting that reaches the top,
//! with 2 % for "reaches". Units: bit/s, ratios. Error: the standard error given with each mean.
//! Wrong when: the path changes between two probes; then the difference is the path's.
//!
//! # Choice refinement
//!
//! Refines the choice when no step up is left: is it right, and would less be as good?
//!
//! Source: docs/methods/tune.md. Units: ratios of goodput. Error: settles if 5 % more is unlikely
//! (one standard error). Wrong when: the noise of the path exceeds the intervals of its probes.

pub mod next_setting;
pub mod probe_trial;
pub mod setting_search;

/// The maximum distance of a probe, in standard errors, that does not refute the curve.
const MAX_ERRORS: f64 = 3.0;
/// The minimum number of points: any two points fit a curve.
const MIN_POINTS: usize = 3;

/// The result of one setting.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SettingMeasurement<'s> {
    pub setting: &'s TransferSetting,
    pub goodput_bps: f64,
    /// Standard error, as a ratio.
    pub error_ratio: f64,
    pub limiter: Limiter,
}

/// `1 / goodput = inverse + slope / streams`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct InverseLine {
    inverse: f64,
    slope: f64,
}

impl InverseLine {
    fn at(&self, streams: u32) -> f64 {
        1.0 / (self.inverse + self.slope / f64::from(streams.max(1)))
    }
}

/// Returns the expected rate of each setting, by the curve through all that differ from it only in
/// streams (and in windows, which do not limit those that filled the path); the measured rate if
/// the path did not limit it, or there is no curve.
pub fn estimate_expected_bps(all: &[SettingMeasurement]) -> Vec<f64> {
    all.iter().map(|of| smooth_goodput_bps(all, of).unwrap_or(of.goodput_bps)).collect()
}

fn smooth_goodput_bps(all: &[SettingMeasurement], of: &SettingMeasurement) -> Option<f64> {
    let full = |m: &&SettingMeasurement| {
        m.limiter == Limiter::PathCapacity && differs_only_in_streams(m.setting, of.setting)
    };
    let points: Vec<&SettingMeasurement> = all.iter().filter(full).collect();
    if points.len() < MIN_POINTS || of.limiter != Limiter::PathCapacity {
        return None;
    }
    let line = fit_line(&points)?;
    let holds = points.iter().all(|m| {
        let off = line.at(m.setting.streams) / m.goodput_bps - 1.0;
        off.abs() <= MAX_ERRORS * m.error_ratio
    });
    holds.then(|| line.at(of.setting.streams))
}

fn differs_only_in_streams(a: &TransferSetting, b: &TransferSetting) -> bool {
    (&a.congestion_control, a.pacing_bps) == (&b.congestion_control, b.pacing_bps)
}

fn fit_line(points: &[&SettingMeasurement]) -> Option<InverseLine> {
    // Weight, 1/n and 1/goodput of each.
    let rows = points.iter().map(|t| {
        let bps = t.goodput_bps.max(1.0);
        let weight = (bps / t.error_ratio).powi(2);
        (weight, 1.0 / f64::from(t.setting.streams), 1.0 / bps)
    });
    let rows: Vec<(f64, f64, f64)> = rows.collect();
    let sum = |of: &dyn Fn(&(f64, f64, f64)) -> f64| rows.iter().map(of).sum::<f64>();
    let weights = sum(&|r| r.0);
    let (x, y) = (sum(&|r| r.0 * r.1) / weights, sum(&|r| r.0 * r.2) / weights);
    let spread = sum(&|r| r.0 * (r.1 - x).powi(2));
    let together = sum(&|r| r.0 * (r.1 - x) * (r.2 - y));
    // Apart from noise, more streams never get a smaller share of a path.
    let slope = (spread > 0.0).then(|| (together / spread).max(0.0))?;
    let inverse = y - slope * x;
    (inverse > 0.0).then_some(InverseLine { inverse, slope })
}

/// The maximum number of streams of one run.
pub const MAX_STREAMS: u32 = 128;

/// The permitted settings; an empty list permits all values.
#[derive(Debug, Clone)]
pub struct AllowedSettings {
    windows: Vec<Option<u64>>,
    streams: Vec<u32>,
    controls: Vec<Option<String>>,
}

impl AllowedSettings {
    pub fn from_plan(plan: &ScanPlan) -> AllowedSettings {
        let mut streams = plan.streams.clone();
        streams.sort_unstable();
        streams.dedup();
        AllowedSettings {
            windows: plan.windows_bytes.clone(),
            streams,
            controls: plan.congestion_controls.clone(),
        }
    }

    pub fn permits(&self, setting: &TransferSetting) -> bool {
        self.allows_streams(setting.streams)
            && self.allows_window(setting.window_bytes)
            && self.allows_control(setting.congestion_control.as_deref())
    }

    pub fn allows_window(&self, window: Option<u64>) -> bool {
        window.is_none_or(|w| (1..=window_range::MAX_WINDOW).contains(&w))
            && (self.windows.is_empty() || self.windows.contains(&window))
    }

    pub fn allows_control(&self, name: Option<&str>) -> bool {
        self.controls.is_empty() || self.controls.iter().any(|c| c.as_deref() == name)
    }

    /// Returns the congestion controls that the plan names.
    pub fn named_controls(&self) -> impl Iterator<Item = &str> {
        self.controls.iter().flatten().map(String::as_str)
    }

    fn allows_streams(&self, streams: u32) -> bool {
        (1..=MAX_STREAMS).contains(&streams)
            && (self.streams.is_empty() || self.streams.contains(&streams))
    }

    /// Returns the default setting if it is permitted, else the minimum of each list.
    pub fn first_setting(&self) -> Option<TransferSetting> {
        let window = if self.allows_window(None) {
            None
        } else {
            let usable = self.windows.iter().filter(|w| self.allows_window(**w));
            *usable.min()?
        };
        let control = if self.allows_control(None) { None } else { self.controls.first()?.clone() };
        Some(TransferSetting {
            window_bytes: window,
            streams: self.permitted_streams(1, MAX_STREAMS).next()?,
            congestion_control: control,
            pacing_bps: None,
        })
    }

    /// Returns the permitted numbers of streams from `least` to `most`, rising.
    fn permitted_streams(
        &self,
        least: u32,
        most: u32,
    ) -> impl DoubleEndedIterator<Item = u32> + '_ {
        (least.max(1)..=most.min(MAX_STREAMS)).filter(|n| self.allows_streams(*n))
    }

    /// Returns `wanted` streams or the nearest permitted number, above `above` and at most `most`.
    pub fn more_streams(&self, wanted: u32, above: u32, most: u32) -> Option<u32> {
        let top = wanted.min(most);
        let below = self.permitted_streams(above.saturating_add(1), top).next_back();
        below.or_else(|| self.permitted_streams(top.max(above.saturating_add(1)), most).next())
    }

    /// Returns `wanted` streams or the nearest permitted number, strictly between the two.
    pub fn streams_between(&self, wanted: u32, low: u32, high: u32) -> Option<u32> {
        self.permitted_streams(low.saturating_add(1), high.saturating_sub(1))
            .min_by_key(|n| n.abs_diff(wanted))
    }

    /// Returns the smallest permitted window from `wanted` to `most`, or else the largest.
    pub fn explicit_window(&self, wanted: u64, most: u64) -> Option<u64> {
        let most = most.min(window_range::MAX_WINDOW);
        if self.windows.is_empty() {
            return Some(wanted.min(most));
        }
        let listed = self.windows.iter().flatten().copied();
        let fitting = listed.filter(|w| (1..=most).contains(w));
        let enough = fitting.clone().filter(|w| *w >= wanted).min();
        enough.or_else(|| fitting.max())
    }
}

/// A setting is as good as the best if it reaches this share of it.
pub const AS_GOOD_RATIO: f64 = 0.98;
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

/// The number of probes after which the search is no longer refined.
const ENOUGH_PROBES: usize = 8;
/// The maximum number of probes of one setting.
const MAX_SAMPLES: usize = 2;
/// The choice is tested again while another setting may be better by more than this.
const DOUBT_RATIO: f64 = 0.05;
/// More streams whose rate is below this share of the choice's cast doubt on both.
const SLOWER_RATIO: f64 = 0.9;
/// Ratios of stream numbers between which other numbers are tried.
const MIN_GAP_RATIO: u32 = 3;
const MIN_JUMP_RATIO: u32 = 4;

/// Returns `None` if no further probe is worthwhile.
pub fn refine_choice(view: &SearchView) -> Option<NextSetting> {
    if view.trials.len() >= ENOUGH_PROBES {
        return None;
    }
    let choice = choose_smallest(&view.tallies)?;
    try_between_above(view, choice)
        .or_else(|| try_named_control(view, choice))
        .or_else(|| repeat_doubtful(view, choice))
        .or_else(|| try_fewer_streams(view, choice))
        .or_else(|| confirm_choice(view, choice))
}

/// A long step up gained nothing: the maximum may be in between.
fn try_between_above(view: &SearchView, choice: &SettingAggregate) -> Option<NextSetting> {
    let present = choice.setting.streams;
    let above = view
        .tallies
        .iter()
        .filter(|t| t.setting.streams > present && view.is_similar(choice.setting, t.setting));
    let above = above.min_by_key(|t| t.setting.streams)?;
    if above.setting.streams <= MIN_JUMP_RATIO * present || compute_gain(choice, above).0 < -0.15 {
        return None;
    }
    try_streams_between(view, choice.setting, present, above.setting.streams, None)
}

/// Tries a congestion control that the plan names and no probe has used.
fn try_named_control(view: &SearchView, choice: &SettingAggregate) -> Option<NextSetting> {
    let used = |name: &str| {
        view.trials.iter().any(|t| {
            t.setting.congestion_control.as_deref() == Some(name)
                || t.congestion_control.as_deref() == Some(name)
        })
    };
    let mut named = view.allowed.named_controls().filter(|name| !used(name));
    let setting = TransferSetting {
        congestion_control: Some(named.next()?.to_owned()),
        ..choice.setting.clone()
    };
    view.is_new(&setting).then(|| NextSetting {
        why: format!(
            "{} is also available: {} gave {} without it",
            setting.congestion_control.as_deref().unwrap_or("it"),
            count_of(u64::from(setting.streams), "stream"),
            convert_rate(choice.goodput_bps())
        ),
        setting,
    })
}

/// Another setting may be better, or the choice was lucky: repeats the less measured of the two.
fn repeat_doubtful(view: &SearchView, choice: &SettingAggregate) -> Option<NextSetting> {
    let risk = |other: &SettingAggregate| {
        let (more, error) = compute_gain(choice, other);
        more + error - DOUBT_RATIO
    };
    let others = view.tallies.iter().filter(|t| t.setting != choice.setting);
    let rival = others.max_by(|a, b| risk(a).total_cmp(&risk(b)))?;
    if risk(rival) <= 0.0 {
        return None;
    }
    let again = if rival.trials.len() <= choice.trials.len() { rival } else { choice };
    view.may_repeat(again.setting).then(|| NextSetting {
        setting: again.setting.clone(),
        why: format!(
            "{} and {} are within noise ({} and {}); repeating both",
            format_difference(choice.setting, rival.setting),
            format_difference(rival.setting, choice.setting),
            convert_rate(choice.goodput_bps()),
            convert_rate(rival.goodput_bps()),
        ),
    })
}

/// More streams were clearly slower than the choice: whether the end of slow start loses a packet may
/// have decided both. Repeats the choice.
fn confirm_choice(view: &SearchView, choice: &SettingAggregate) -> Option<NextSetting> {
    let is_slower = |other: &&SettingAggregate| {
        other.setting.streams > choice.setting.streams
            && other.setting.congestion_control == choice.setting.congestion_control
            && other.goodput_bps() < SLOWER_RATIO * choice.goodput_bps()
    };
    let slower = view.tallies.iter().find(is_slower)?;
    view.may_repeat(choice.setting).then(|| NextSetting {
        setting: choice.setting.clone(),
        why: format!(
            "{} were slower: {} after {}; repeating {}",
            count_of(u64::from(slower.setting.streams), "stream"),
            convert_rate(slower.goodput_bps()),
            convert_rate(choice.goodput_bps()),
            format_difference(choice.setting, slower.setting),
        ),
    })
}

/// Formats a setting by the first difference from another.
fn format_difference(setting: &TransferSetting, other: &TransferSetting) -> String {
    if setting.streams != other.streams {
        return count_of(u64::from(setting.streams), "stream");
    }
    if setting.window_bytes != other.window_bytes {
        let window = setting.window_bytes.map(|bytes| Bytes(bytes).to_string());
        return window.unwrap_or_else(|| String::from("autotuned window"));
    }
    let control = setting.congestion_control.as_deref();
    control.unwrap_or("the default congestion control").to_owned()
}

/// The number of streams was reached by a jump: tries fewer.
fn try_fewer_streams(view: &SearchView, choice: &SettingAggregate) -> Option<NextSetting> {
    let present = choice.setting.streams;
    let below = view
        .tallies
        .iter()
        .filter(|t| t.setting.streams < present && view.is_similar(t.setting, choice.setting));
    let below = below.max_by_key(|t| t.setting.streams)?;
    let low = below.setting.streams;
    if present < MIN_GAP_RATIO * low {
        return None;
    }
    // The rate of each stream while the path was not the limit.
    let each = below.goodput_bps() / f64::from(low);
    let top = find_best(&view.tallies)?.goodput_bps();
    let needed = (below.limiter() != Limiter::PathCapacity && each > 0.0)
        .then(|| (1.05 * top / each).ceil() as u32);
    try_streams_between(view, choice.setting, low, present, needed)
}

/// Tries the needed number of streams if it is in between, else the geometric mean.
fn try_streams_between(
    view: &SearchView,
    like: &TransferSetting,
    low: u32,
    high: u32,
    needed: Option<u32>,
) -> Option<NextSetting> {
    let centre = geometric_mean(low, high);
    let wanted = needed.filter(|n| (low + 1..high).contains(n)).unwrap_or(centre);
    let setting = TransferSetting {
        streams: view.allowed.streams_between(wanted, low, high)?,
        ..like.clone()
    };
    view.is_new(&setting).then(|| NextSetting {
        why: format!(
            "a value between {low} and {} may be as good or better; try {}",
            count_of(u64::from(high), "stream"),
            setting.streams
        ),
        setting,
    })
}

#[cfg(test)]
mod tests;

pub use probe_trial::{HostLimits, ProbeTrial};
pub use setting_search::SettingSearch;

use crate::limit::window_range;
use crate::stats::{find_mode, median};
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::scan::{ScanPlan, TransferSetting};
use longhaul_model::serde_name;
use longhaul_model::units::{Bytes, count_of};
use next_setting::{NextSetting, SearchView, convert_rate, geometric_mean};
use serde::Serialize;
use std::time::Duration;

/// The knowledge before the first probe.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SearchStart {
    /// The recommendation of an earlier scan of this path: the search starts there.
    pub remembered: Option<RememberedSetting>,
    /// Measured by a connect.
    pub idle_rtt: Option<Duration>,
    /// The time after which the search ends, unless its latest probe was much faster than all before.
    pub usual_time: Option<Duration>,
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
    pub time: ProbeTime,
    /// The reason for this probe: a sentence for the user, with the numbers that led to it.
    pub why: String,
}

/// The payload time of a probe whose goodput is not known before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeTime {
    /// Well beyond its ramp.
    pub usual: Duration,
    /// While its rate still settles.
    pub longest: Duration,
}

impl ProbeTime {
    /// Returns the time of a probe that lasts as long as its user says.
    pub fn fixed(time: Duration) -> ProbeTime {
        ProbeTime { usual: time, longest: time }
    }
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
