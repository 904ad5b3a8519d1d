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
    AllowedSettings, ProbeTrial, RememberedSetting, SearchProbe, SearchSpent, SearchStart,
    SearchStep, SearchStop, aggregate_trials, choose_smallest, next_setting, probe_trial,
};
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::scan::{ScanPlan, TransferSetting};
use longhaul_model::units::count_of;
use std::time::Duration;

/// The minimum and maximum payload time of a probe.
const MIN_TIME: Duration = Duration::from_secs(10);
const MAX_TIME: Duration = Duration::from_secs(60);
/// The minimum duration of a probe in round trips.
const MIN_ROUND_TRIPS: u32 = 20;
/// The minimum duration of a probe as a multiple of slow start.
const SLOW_START_FACTOR: f64 = 3.0;
/// Bytes of the initial window of Linux: ten segments.
const INITIAL_WINDOW: f64 = 14_600.0;
/// A probe that only ramped is repeated with this multiple of its duration.
const REPEAT_FACTOR: u32 = 3;
/// Overhead of a probe: round trips of set-up and results, and the rest.
const SET_UP_TRIPS: u32 = 10;
const SET_UP: Duration = Duration::from_secs(1);
/// A remembered setting is still valid if it gives this share of its earlier rate.
const HOLDS_RATIO: f64 = 0.9;

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
            let time = self.probe_time(&setting);
            match self.exceeded_budget(spent, time) {
                Some(stop) => Err(stop),
                None => Ok(SearchProbe { setting, time, why }),
            }
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
            .or_else(|| self.after_ramp())
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

    /// Repeats the last probe once for longer, if it ended before its rate could settle.
    fn after_ramp(&self) -> Option<NextSetting> {
        let last = self.trials.last()?;
        let ramped = last.limiter == Limiter::Ramp && self.count(&last.setting) < 2;
        ramped.then(|| NextSetting {
            setting: last.setting.clone(),
            why: format!(
                "the rate of {} was still rising when the probe ended; repeating it for longer",
                count_of(u64::from(last.setting.streams), "stream")
            ),
        })
    }

    fn count(&self, setting: &TransferSetting) -> usize {
        self.trials.iter().filter(|t| t.setting == *setting).count()
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
    fn probe_time(&self, setting: &TransferSetting) -> Duration {
        let trip = self.idle_rtt().unwrap_or_default();
        let sought = 8.0 * self.best_bps() * trip.as_secs_f64() / 8.0;
        let trips = (sought / INITIAL_WINDOW).max(2.0).log2();
        let fill = trip.mul_f64(SLOW_START_FACTOR * trips);
        let time = MIN_TIME.max(trip * MIN_ROUND_TRIPS).max(fill);
        let ramped =
            self.trials.iter().any(|t| t.setting == *setting && t.limiter == Limiter::Ramp);
        let time = if ramped { time * REPEAT_FACTOR } else { time };
        time.min(MAX_TIME)
    }

    /// Returns the budget that the next probe would exceed, if any.
    fn exceeded_budget(&self, spent: SearchSpent, time: Duration) -> Option<SearchStop> {
        let budget = &self.plan.budget;
        let set_up = SET_UP + self.idle_rtt().unwrap_or_default() * SET_UP_TRIPS;
        let bytes = (self.best_bps() * time.as_secs_f64() / 8.0) as u64;
        if spent.probes >= budget.probes {
            Some(SearchStop::Probes)
        } else if spent.time + time + set_up > Duration::from_micros(budget.time_us) {
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
