//! The search as a state machine: derives the next measurement from all previous ones.
//!
//! It holds no state except its trials and derives the next step from them alone, so a resumed
//! search continues as if it had never been interrupted.
//!
//! Source: docs/methods/tune.md. Units: as the fields say. Error: the choice reaches 95 % of the
//! optimum on more than nine paths of ten (`accuracy::tuning`).
//! Wrong when: the path changes during the search; then its trials are not of one path.

use super::next_setting::{NextSetting, SearchView};
use super::{
    AllowedSettings, ProbeTime, ProbeTrial, RememberedSetting, SearchProbe, SearchSpent,
    SearchStart, SearchStep, SearchStop, aggregate_trials, choose_smallest, next_setting,
    probe_trial,
};
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::scan::{ScanPlan, TransferSetting};
use std::time::Duration;

/// The minimum and maximum payload time of a probe.
pub const MIN_TIME: Duration = Duration::from_secs(2);
const MAX_TIME: Duration = Duration::from_secs(60);
/// The minimum duration of a probe in round trips.
const MIN_ROUND_TRIPS: u32 = 20;
/// The minimum duration of a probe as a multiple of slow start.
const SLOW_START_FACTOR: f64 = 3.0;
/// The maximum duration of a probe whose rate still settles, as a multiple of its usual duration.
const SETTLING_FACTOR: u32 = 2;
/// Bytes of the initial window of Linux: ten segments.
const INITIAL_WINDOW: f64 = 14_600.0;
/// Overhead of a probe: round trips of set-up and results, and the rest.
const SET_UP_TRIPS: u32 = 13;
const SET_UP: Duration = Duration::from_secs(1);
/// The time in which what a long probe has queued drains.
const QUEUE_TIME: Duration = Duration::from_millis(500);
/// A probe that is faster than all before by this ratio may be followed by a faster one.
const CLIMBING_RATIO: f64 = 1.2;
/// The usual time of a search in one direction, by the RTT that the path does not exceed. The steps are
/// wide, so that a repeated command has the same plan and resumes.
const USUAL_BUDGETS: [(Duration, Duration); 3] = [
    (Duration::from_millis(110), Duration::from_secs(20)),
    (Duration::from_millis(220), Duration::from_secs(45)),
    (Duration::MAX, Duration::from_secs(120)),
];
/// A remembered setting is still valid if it gives this share of its earlier rate.
const HOLDS_RATIO: f64 = 0.9;

/// Returns the usual time of a search on a path of this RTT.
pub fn find_usual_time(idle_rtt: Duration) -> Duration {
    let budget = USUAL_BUDGETS.iter().find(|(longest, _)| idle_rtt <= *longest);
    budget.map_or(Duration::ZERO, |(_, time)| *time)
}

/// Plain data: knows its plan and its trials, and derives the next step from them alone.
#[derive(Debug, Clone)]
pub struct SettingSearch {
    plan: ScanPlan,
    start: SearchStart,
    trials: Vec<ProbeTrial>,
}

impl SettingSearch {
    pub fn new(plan: &ScanPlan, start: SearchStart) -> SettingSearch {
        SettingSearch { plan: plan.clone(), start, trials: Vec::new() }
    }

    /// Returns the next measurement, or the reason to stop. Pure: repeated calls give the same.
    pub fn next(&self, spent: SearchSpent) -> SearchStep {
        let probe = self.decide().and_then(|NextSetting { setting, why }| {
            let usual = self.probe_time();
            if let Some(stop) = self.exceeded_budget(spent, usual) {
                return Err(stop);
            }
            let left = self.budget_time().saturating_sub(spent.time);
            let longest = (usual * SETTLING_FACTOR)
                .min(left.saturating_sub(self.set_up()).saturating_sub(QUEUE_TIME));
            Ok(SearchProbe { setting, time: ProbeTime { usual, longest: longest.max(usual) }, why })
        });
        probe.map_or_else(SearchStep::Done, SearchStep::Probe)
    }

    /// Records a probe that ended, even if it failed.
    pub fn record(&mut self, trial: ProbeTrial) {
        self.trials.push(trial);
    }

    pub fn trials(&self) -> &[ProbeTrial] {
        &self.trials
    }

    fn decide(&self) -> Result<NextSetting, SearchStop> {
        let allowed = AllowedSettings::from_plan(&self.plan);
        if let Some(opening) = self.opening_probe(&allowed) {
            return Ok(opening);
        }
        let view = SearchView {
            allowed: &allowed,
            trials: &self.trials,
            tallies: aggregate_trials(&self.trials),
            windows: probe_trial::find_window_limits(&self.trials),
        };
        let Some(choice) = choose_smallest(&view.tallies) else {
            return Err(SearchStop::Settled);
        };
        if self.still_holds() {
            return Err(SearchStop::Settled);
        }
        let beyond = next_setting::try_narrower_window(&view)
            .or_else(|| next_setting::find_step_up(&view, choice));
        if let Some(next) = beyond {
            return Ok(next);
        }
        match find_stop_reason(&view, choice) {
            SearchStop::Settled => super::refine_choice(&view).ok_or(SearchStop::Settled),
            stop => Err(stop),
        }
    }

    /// Returns the remembered or the default setting if it is permitted and untried; a first probe
    /// that failed is repeated once.
    fn opening_probe(&self, allowed: &AllowedSettings) -> Option<NextSetting> {
        let default = allowed.first_setting().map(|setting| NextSetting {
            why: if setting == TransferSetting::default() {
                String::from("the default: one stream, autotuned windows")
            } else {
                String::from("the smallest allowed setting")
            },
            setting,
        });
        let remembered = self.start.remembered.as_ref().map(|found| &found.setting);
        let remembered = remembered.filter(|s| allowed.permits(s)).map(|setting| NextSetting {
            why: String::from("recommended by an earlier scan of this path"),
            setting: setting.clone(),
        });
        let untried = |m: &NextSetting| {
            let tries = self.trials.iter().filter(|t| t.setting == m.setting);
            let failed = tries.clone().all(|t| t.goodput_bps.is_none());
            failed && tries.count() < 2
        };
        [remembered, default].into_iter().flatten().find(untried)
    }

    /// Returns true if nothing has changed since the earlier scan; two probes suffice for that.
    fn still_holds(&self) -> bool {
        let Some(RememberedSetting { setting, goodput_bps: then }) = &self.start.remembered else {
            return false;
        };
        let mut probes = self.trials.iter().filter(|t| t.setting == *setting);
        let Some((trial, now)) = probes.next().and_then(|t| Some((t, t.goodput_bps?))) else {
            return false;
        };
        let only_opened = self.trials.len() <= 2;
        let best = now as f64 >= super::AS_GOOD_RATIO * self.best_bps();
        let fine = matches!(
            trial.limiter,
            Limiter::PathCapacity | Limiter::Pacing | Limiter::Policer | Limiter::Shaper
        );
        let high = trial.interval_bps.map_or(now, |i| i[1]) as f64;
        // Much faster than before, and not limited by the path: the rest may be possible too.
        let same = now as f64 <= *then as f64 / HOLDS_RATIO || fine;
        only_opened && best && same && high >= HOLDS_RATIO * *then as f64
    }

    fn idle_rtt(&self) -> Option<Duration> {
        let seen = self.trials.iter().filter_map(|t| t.idle_rtt).min();
        seen.or(self.start.idle_rtt)
    }

    fn best_bps(&self) -> f64 {
        let rates = self.trials.iter().filter_map(|t| t.goodput_bps);
        rates.max().unwrap_or(0) as f64
    }

    /// Returns a probe time well beyond the ramp, at eight times the best rate so far.
    fn probe_time(&self) -> Duration {
        let trip = self.idle_rtt().unwrap_or_default();
        let sought = 8.0 * self.best_bps() * trip.as_secs_f64() / 8.0;
        let trips = (sought / INITIAL_WINDOW).max(2.0).log2();
        let fill = trip.mul_f64(SLOW_START_FACTOR * trips);
        MIN_TIME.max(trip * MIN_ROUND_TRIPS).max(fill).min(MAX_TIME)
    }

    /// Returns the time of the budget, or the usual time unless the rate still climbs.
    fn budget_time(&self) -> Duration {
        let budget = Duration::from_micros(self.plan.budget.time_us);
        let usual = self.start.usual_time.filter(|_| !self.is_climbing());
        usual.map_or(budget, |usual| budget.min(usual))
    }

    /// Returns true if the latest probe was much faster than all before.
    fn is_climbing(&self) -> bool {
        let rates = self.trials.iter().map(|it| it.goodput_bps.unwrap_or(0) as f64);
        let rates: Vec<f64> = rates.collect();
        rates.split_last().is_some_and(|(last, earlier)| {
            let best = earlier.iter().copied().fold(0.0, f64::max);
            best > 0.0 && *last >= CLIMBING_RATIO * best
        })
    }

    fn set_up(&self) -> Duration {
        SET_UP + self.idle_rtt().unwrap_or_default() * SET_UP_TRIPS
    }

    /// Returns the budget that the next probe would exceed, if any.
    fn exceeded_budget(&self, spent: SearchSpent, time: Duration) -> Option<SearchStop> {
        let budget = &self.plan.budget;
        let set_up = self.set_up();
        let bytes = (self.best_bps() * time.as_secs_f64() / 8.0) as u64;
        if spent.probes >= budget.probes {
            Some(SearchStop::Probes)
        } else if spent.time + time + set_up > self.budget_time() {
            Some(SearchStop::Time)
        } else if budget.bytes.is_some_and(|most| spent.bytes.saturating_add(bytes) > most) {
            Some(SearchStop::Bytes)
        } else {
            None
        }
    }
}

/// Returns the limit that no network setting changes and that more streams did not exceed.
fn find_stop_reason(view: &SearchView, choice: &super::SettingAggregate) -> SearchStop {
    let verdict = choice.limiter();
    let paced = choice.setting.pacing_bps.is_some();
    let shaped = view.trials.iter().any(|t| t.limiter == Limiter::Shaper);
    match verdict {
        Limiter::Application => SearchStop::Application,
        Limiter::Shaper => SearchStop::Shaped,
        Limiter::Policer => SearchStop::Policed,
        _ if paced && shaped => SearchStop::Shaped,
        _ if paced => SearchStop::Policed,
        _ => SearchStop::Settled,
    }
}
