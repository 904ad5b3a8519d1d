//! The search as a state machine: derives the next measurement from all previous ones.
//!
//! It holds no state except its trials and derives the next step from them alone, so a resumed
//! search continues as if it had never been interrupted.
//!
//! Source: docs/methods/tune.md. Units: as the fields say. Error: the choice reaches 95 % of the
//! optimum on more than nine paths of ten (`accuracy::tuning`).
//! Wrong when: the path changes during the search; then its trials are not of one path.

use super::allowed::Allowed;
use super::moves::{self, Move, View};
use super::tally::{self, chosen, tallies};
use super::{Probe, Spent, Start, Step, Stop, Trial, polish, windows};
use crate::throughput::words::streams;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::scan::{Plan, Setting};
use std::time::Duration;

/// The minimum and maximum payload time of a probe.
const LEAST_TIME: Duration = Duration::from_secs(10);
const MOST_TIME: Duration = Duration::from_secs(60);
/// The minimum duration of a probe in round trips.
const LEAST_TRIPS: u32 = 20;
/// The minimum duration of a probe as a multiple of slow start.
const FILLS: f64 = 3.0;
/// Bytes of the initial window of Linux: ten segments.
const INITIAL_WINDOW: f64 = 14_600.0;
/// A probe that only ramped is repeated with this multiple of its duration.
const LONGER: u32 = 3;
/// Overhead of a probe: round trips of set-up and results, and the rest.
const SET_UP_TRIPS: u32 = 10;
const SET_UP: Duration = Duration::from_secs(1);
/// A remembered setting is still valid if it gives this share of its earlier rate.
const HOLDS_RATIO: f64 = 0.9;

/// Plain data: knows its plan and its trials, and derives the next step from them alone.
#[derive(Debug, Clone)]
pub struct Search {
    plan: Plan,
    start: Start,
    expected_bps: Option<u64>,
    trials: Vec<Trial>,
}

enum Want {
    Probe(Move),
    Stop(Stop),
}

impl Search {
    pub fn new(plan: &Plan, start: Start) -> Search {
        Search {
            plan: plan.clone(),
            start,
            expected_bps: None,
            trials: Vec::new(),
        }
    }

    /// Sets the rate that the remembered setting gave when it was found.
    #[must_use]
    pub fn expecting(self, goodput_bps: u64) -> Search {
        Search {
            expected_bps: Some(goodput_bps),
            ..self
        }
    }

    /// Returns the next measurement, or the reason to stop. Pure: repeated calls give the same.
    pub fn next(&self, spent: Spent) -> Step {
        match self.want() {
            Want::Stop(stop) => Step::Done(stop),
            Want::Probe(next) => {
                let time = self.probe_time(&next.setting);
                match self.passed(spent, time) {
                    Some(stop) => Step::Done(stop),
                    None => Step::Probe(Probe {
                        setting: next.setting,
                        time,
                        why: next.why,
                    }),
                }
            }
        }
    }

    /// Records a probe that ended, even if it failed.
    pub fn record(&mut self, trial: Trial) {
        self.trials.push(trial);
    }

    pub fn trials(&self) -> &[Trial] {
        &self.trials
    }

    /// Returns the smallest setting within 3 % of the best so far.
    pub fn choice(&self) -> Option<&Setting> {
        let tallies = tallies(&self.trials);
        chosen(&tallies).map(|t| t.setting)
    }

    fn want(&self) -> Want {
        let allowed = Allowed::by(&self.plan);
        if let Some(opening) = self.opening(&allowed) {
            return Want::Probe(opening);
        }
        let view = View {
            allowed: &allowed,
            trials: &self.trials,
            tallies: tallies(&self.trials),
            windows: windows::seen(&self.trials),
        };
        let Some(choice) = chosen(&view.tallies) else {
            return Want::Stop(Stop::Settled);
        };
        if self.still_holds() {
            return Want::Stop(Stop::Settled);
        }
        let beyond = moves::narrower_window(&view)
            .or_else(|| self.after_ramp())
            .or_else(|| moves::climb(&view, choice));
        if let Some(next) = beyond {
            return Want::Probe(next);
        }
        match held_by(&view, choice) {
            Stop::Settled => polish::polish(&view).map_or(Want::Stop(Stop::Settled), Want::Probe),
            stop => Want::Stop(stop),
        }
    }

    /// Returns the default or the present setting if it is permitted and untried; a first probe
    /// that failed is repeated once.
    fn opening(&self, allowed: &Allowed) -> Option<Move> {
        let default = allowed.first().map(|setting| Move {
            why: if setting == Setting::default() {
                String::from("the default: one stream, everything left to the kernels")
            } else {
                String::from("the least of what may be tried")
            },
            setting,
        });
        let present = self.start.present.clone();
        let present = present.filter(|s| allowed.permits(s)).map(|setting| Move {
            why: String::from(if self.start.remembered {
                "what an earlier scan of this path recommended"
            } else {
                "the setting in use now"
            }),
            setting,
        });
        let mut openings = [default, present];
        if self.start.remembered {
            openings.reverse();
        }
        let untried = |m: &Move| {
            let tries = self.trials.iter().filter(|t| t.setting == m.setting);
            let failed = tries.clone().all(|t| t.goodput_bps.is_none());
            failed && tries.count() < 2
        };
        openings.into_iter().flatten().find(untried)
    }

    /// Returns true if nothing has changed since the earlier scan; two probes suffice for that.
    fn still_holds(&self) -> bool {
        let Some(setting) = self
            .start
            .present
            .as_ref()
            .filter(|_| self.start.remembered)
        else {
            return false;
        };
        let mut probes = self.trials.iter().filter(|t| t.setting == *setting);
        let Some(trial) = probes.next() else {
            return false;
        };
        let (Some(now), only_opened) = (trial.goodput_bps, self.trials.len() <= 2) else {
            return false;
        };
        let most = self.trials.iter().filter_map(|t| t.goodput_bps).max();
        let best = now as f64 >= tally::AS_GOOD_RATIO * most.unwrap_or(0) as f64;
        let fine = matches!(
            trial.limiter,
            Limiter::PathCapacity | Limiter::Pacing | Limiter::Policer | Limiter::Shaper
        );
        let high = trial.interval_bps.map_or(now, |i| i[1]) as f64;
        let as_then = self.expected_bps.map(|then| {
            // Much faster than before, and not limited by the path: the rest may be possible too.
            let same = now as f64 <= then as f64 / HOLDS_RATIO || fine;
            same && high >= HOLDS_RATIO * then as f64
        });
        only_opened && best && as_then.unwrap_or(fine)
    }

    /// Repeats the last probe once for longer, if it ended before its rate could settle.
    fn after_ramp(&self) -> Option<Move> {
        let last = self.trials.last()?;
        let ramped = last.limiter == Limiter::Ramp && self.count(&last.setting) < 2;
        ramped.then(|| Move {
            setting: last.setting.clone(),
            why: format!(
                "the rate of {} still climbed when the probe ended; the same for longer",
                streams(last.setting.streams)
            ),
        })
    }

    fn count(&self, setting: &Setting) -> usize {
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
    fn probe_time(&self, setting: &Setting) -> Duration {
        let trip = self.idle_rtt().unwrap_or_default();
        let sought = 8.0 * self.best_bps() * trip.as_secs_f64() / 8.0;
        let trips = (sought / INITIAL_WINDOW).max(2.0).log2();
        let fill = trip.mul_f64(FILLS * trips);
        let time = LEAST_TIME.max(trip * LEAST_TRIPS).max(fill);
        let ramped = self
            .trials
            .iter()
            .any(|t| t.setting == *setting && t.limiter == Limiter::Ramp);
        let time = if ramped { time * LONGER } else { time };
        time.min(MOST_TIME)
    }

    /// Returns the budget that the next probe would exceed, if any.
    fn passed(&self, spent: Spent, time: Duration) -> Option<Stop> {
        let budget = &self.plan.budget;
        let set_up = SET_UP + self.idle_rtt().unwrap_or_default() * SET_UP_TRIPS;
        let bytes = (self.best_bps() * time.as_secs_f64() / 8.0) as u64;
        if spent.probes >= budget.probes {
            Some(Stop::Probes)
        } else if spent.time + time + set_up > Duration::from_micros(budget.time_us) {
            Some(Stop::Time)
        } else if budget
            .bytes
            .is_some_and(|most| spent.bytes.saturating_add(bytes) > most)
        {
            Some(Stop::Bytes)
        } else {
            None
        }
    }
}

/// Returns the limit that no network setting changes and that more streams did not exceed.
fn held_by(view: &View, choice: &tally::Tally) -> Stop {
    let verdict = choice.limiter();
    let paced = choice.setting.pacing_bps.is_some();
    let shaped = view.trials.iter().any(|t| t.limiter == Limiter::Shaper);
    match verdict {
        Limiter::Application => Stop::Application,
        Limiter::Shaper => Stop::Shaped,
        Limiter::Policer => Stop::Policed,
        _ if paced && shaped => Stop::Shaped,
        _ if paced => Stop::Policed,
        _ => Stop::Settled,
    }
}
