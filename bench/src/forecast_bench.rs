//! Forecasts of finish times against simulated transfers.
//!
//! The paths are drawn here, without code of the forecaster: a rate for each step of time, made of a
//! level, its changes, busy hours, correlated noise and stalls. The truth is the sum over these rates.

use super::markdown_table::{MarkdownTable, format_number, median};
use crate::BenchOutcome;
use longhaul_history::finish_forecast::progress_forecaster::ProgressForecaster;
use longhaul_history::finish_forecast::{FinishForecast, forecast_from_series};
use longhaul_model::report::v1::SeriesPoint;
use longhaul_model::splitmix::SplitMix64;
use std::time::Duration;

/// A fixed seed, so that the effect of a change of a method is visible.
const SEED: u64 = 30;
/// The number of transfers of each kind of path.
const TRANSFERS: u64 = 200;
const MINUTE_S: f64 = 60.0;
const HOUR_S: f64 = 3600.0;
const DAY_S: f64 = 86_400.0;
/// 2026-11-02, a Monday, in seconds since 1970.
const MONDAY_S: f64 = 1_793_577_600.0;
/// The days of the archive before a transfer.
const ARCHIVE_DAYS: f64 = 28.0;
/// The shares of the bytes after which a running copy is forecast.
const MOMENTS: [f64; 6] = [0.02, 0.1, 0.25, 0.5, 0.75, 0.9];

/// The components of a simulated path.
const KINDS: [PathKind; 4] = [
    PathKind { name: "noise", has_busy_hours: false, has_changes: false },
    PathKind { name: "busy hours", has_busy_hours: true, has_changes: false },
    PathKind { name: "steps", has_busy_hours: false, has_changes: true },
    PathKind { name: "busy hours and steps", has_busy_hours: true, has_changes: true },
];

#[derive(Clone, Copy)]
struct PathKind {
    name: &'static str,
    has_busy_hours: bool,
    has_changes: bool,
}

/// Forecasts from the archive before the start, and those during copies.
pub fn run_all() -> BenchOutcome {
    let columns = "path | forecasts | coverage of the 90 % interval | finished later | \
         median error | median error of the simple rule | median width";
    let mut before = MarkdownTable::new("Finish times forecast from the archive", columns);
    let mut during = MarkdownTable::new("Time left forecast during copies", columns);
    let (mut all_before, mut all_during) = (ForecastTally::default(), Vec::new());
    all_during.resize_with(MOMENTS.len(), ForecastTally::default);
    for (kind, number) in KINDS.iter().zip(0..) {
        let mut tally = ForecastTally::default();
        let mut of_kind = ForecastTally::default();
        for case in 0..TRANSFERS {
            let rng = |part| SplitMix64::new(SEED << 40 | number << 20 | case << 1 | part);
            if let Some(judged) = judge_archive_forecast(*kind, &mut rng(0)) {
                tally.add(&judged);
                all_before.add(&judged);
            }
            for (place, judged) in judge_copy(*kind, &mut rng(1)) {
                of_kind.add(&judged);
                all_during[place].add(&judged);
            }
        }
        before.row(tally.cells(kind.name));
        during.row(of_kind.cells(kind.name));
    }
    before.row(all_before.cells("all"));
    for (tally, moment) in all_during.iter().zip(MOMENTS) {
        during.row(tally.cells(&format!("all, at {:.0} % of the bytes", 100.0 * moment)));
    }
    BenchOutcome::new(&[before, during], Vec::new())
}

/// A forecast with its truth and the answer of the simple rule: the bytes left over the mean rate so
/// far, in the archive or in the copy.
struct JudgedForecast {
    /// All as shares of the whole duration.
    interval: [f64; 2],
    finish: f64,
    simple: f64,
    truth: f64,
}

impl JudgedForecast {
    /// Judges a forecast of `left_s` by the whole duration.
    fn new(forecast: &FinishForecast, simple_s: f64, left_s: f64, duration_s: f64) -> Self {
        let share = |time: Duration| time.as_secs_f64() / duration_s;
        JudgedForecast {
            interval: forecast.interval().map(share),
            finish: share(forecast.median()),
            simple: simple_s / duration_s,
            truth: left_s / duration_s,
        }
    }
}

#[derive(Default)]
struct ForecastTally {
    held: usize,
    late: usize,
    errors: Vec<f64>,
    simple_errors: Vec<f64>,
    widths: Vec<f64>,
}

impl ForecastTally {
    fn add(&mut self, judged: &JudgedForecast) {
        let [low, high] = judged.interval;
        self.held += usize::from((low..=high).contains(&judged.truth));
        self.late += usize::from(judged.truth > high);
        self.errors.push((judged.finish - judged.truth).abs());
        self.simple_errors.push((judged.simple - judged.truth).abs());
        self.widths.push(high - low);
    }

    fn cells(&self, name: &str) -> Vec<String> {
        let count = self.errors.len();
        let percent = |ratio: Option<f64>| {
            format!("{} %", format_number(ratio.map(|ratio| 100.0 * ratio), 1))
        };
        let share = |cases: usize| percent((count > 0).then(|| cases as f64 / count as f64));
        vec![
            name.to_owned(),
            count.to_string(),
            share(self.held),
            share(self.late),
            percent(median(&self.errors)),
            percent(median(&self.simple_errors)),
            percent(median(&self.widths)),
        ]
    }
}

/// A path whose rate is known at all times.
struct TruePath {
    step_s: f64,
    rates_bps: Vec<f64>,
}

impl TruePath {
    /// Returns the seconds after `start_s` in which so many bits are transferred; `None` beyond the
    /// end of the path.
    fn transfer_time(&self, start_s: f64, mut bits: f64) -> Option<f64> {
        let first = (start_s / self.step_s) as usize;
        for (rate_bps, number) in self.rates_bps.get(first..)?.iter().zip(0u32..) {
            if bits <= rate_bps * self.step_s {
                return Some(f64::from(number) * self.step_s + bits / rate_bps);
            }
            bits -= rate_bps * self.step_s;
        }
        None
    }

    fn mean_bps(&self) -> f64 {
        self.rates_bps.iter().sum::<f64>() / self.rates_bps.len() as f64
    }
}

/// The properties of a path, as drawn.
struct PathDraw {
    noise_sigma: f64,
    noise_time_s: f64,
    /// The mean time between two changes of level.
    change_time_s: f64,
}

fn draw_path(
    kind: PathKind,
    draw: &PathDraw,
    [start_s, duration_s, step_s]: [f64; 3],
    rng: &mut SplitMix64,
) -> TruePath {
    let usual_bps = log_between(3e7, 3e10, rng);
    let busy = [rng.between(6.0, 12.0), rng.between(6.0, 10.0), rng.between(0.15, 0.6)];
    let stays = (-step_s / draw.noise_time_s).exp();
    let (mut noise, mut level) = (rng.normal(), 1.0);
    let steps = (duration_s / step_s) as u32;
    let rates = (0..steps).map(|number| {
        noise = stays * noise + (1.0 - stays * stays).sqrt() * rng.normal();
        if kind.has_changes && rng.unit() < step_s / draw.change_time_s {
            level = draw_new_level(level, rng);
        }
        let hours = if kind.has_busy_hours {
            busy_factor(start_s + f64::from(number) * step_s, busy)
        } else {
            1.0
        };
        usual_bps * level * hours * (draw.noise_sigma * noise).exp()
    });
    TruePath { step_s, rates_bps: rates.collect() }
}

/// Draws a level between 40 % and 130 % of the usual one that differs from the last by a tenth.
fn draw_new_level(last: f64, rng: &mut SplitMix64) -> f64 {
    loop {
        let next = rng.between(0.4, 1.3);
        if (next / last - 1.0).abs() > 0.1 {
            return next;
        }
    }
}

/// The factor of the load of working days: from an hour, for some hours, by a depth, with edges of
/// an hour.
fn busy_factor(at_s: f64, [from_hour, hours, depth]: [f64; 3]) -> f64 {
    let day = ((at_s - MONDAY_S) / DAY_S).floor().rem_euclid(7.0);
    let hour = (at_s - MONDAY_S).rem_euclid(DAY_S) / HOUR_S;
    let inside = (hour - from_hour).min(from_hour + hours - hour).clamp(0.0, 1.0);
    if day < 5.0 { 1.0 - depth * inside } else { 1.0 }
}

/// Forecasts a transfer of ten minutes to three days from four weeks of tests.
fn judge_archive_forecast(kind: PathKind, rng: &mut SplitMix64) -> Option<JudgedForecast> {
    let draw = PathDraw {
        noise_sigma: rng.between(0.02, 0.2),
        noise_time_s: log_between(5.0 * MINUTE_S, 3.0 * HOUR_S, rng),
        change_time_s: log_between(3.0 * DAY_S, 20.0 * DAY_S, rng),
    };
    let begin_s = MONDAY_S + rng.between(0.0, 7.0) * DAY_S;
    let end_s = begin_s + ARCHIVE_DAYS * DAY_S;
    let span = [begin_s, (ARCHIVE_DAYS + 20.0) * DAY_S, MINUTE_S];
    let path = draw_path(kind, &draw, span, rng);
    let spacing_s = [0.5, 1.0, 2.0][rng.below(3)] * HOUR_S;
    let tests = (ARCHIVE_DAYS * DAY_S / spacing_s) as u32 - 1;
    let points: Vec<SeriesPoint> = (0..tests)
        .map(|number| {
            let at_s = f64::from(number) * spacing_s + rng.between(0.0, spacing_s / 4.0);
            let rate_bps = path.rates_bps[(at_s / MINUTE_S) as usize];
            let value = rate_bps * (1.0 + 0.02 * rng.normal());
            SeriesPoint { at_us: ((begin_s + at_s) * 1e6) as i64, value }
        })
        .collect();
    let mean_bps = points.iter().map(|point| point.value).sum::<f64>() / points.len() as f64;
    let bits = mean_bps * log_between(10.0 * MINUTE_S, 3.0 * DAY_S, rng);
    let truth_s = path.transfer_time(ARCHIVE_DAYS * DAY_S, bits)?;
    let start_us = (end_s * 1e6) as i64;
    let (forecast, _) = forecast_from_series(&points, (bits / 8.0) as u64, start_us, None)?;
    Some(JudgedForecast::new(&forecast, bits / mean_bps, truth_s, truth_s))
}

/// Forecasts a copy of half a minute to four hours at several moments; returns the place of each.
fn judge_copy(kind: PathKind, rng: &mut SplitMix64) -> Vec<(usize, JudgedForecast)> {
    let usual_s = log_between(30.0, 4.0 * HOUR_S, rng);
    let draw = PathDraw {
        noise_sigma: rng.between(0.02, 0.25),
        noise_time_s: log_between(0.5, 30.0, rng),
        change_time_s: usual_s / rng.between(0.5, 3.0),
    };
    let start_s = MONDAY_S + rng.between(0.0, 7.0) * DAY_S;
    let mut path = draw_path(kind, &draw, [start_s, 4.0 * usual_s + 60.0, 1.0], rng);
    let ramp = rng.below(5);
    for (rate_bps, number) in path.rates_bps.iter_mut().zip(0..ramp) {
        *rate_bps *= 0.5f64.powi((ramp - number) as i32);
    }
    let bits = path.mean_bps() * usual_s;
    let Some(truth_s) = path.transfer_time(0.0, bits) else {
        return Vec::new();
    };
    let mut forecaster = ProgressForecaster::default();
    let (mut done_bits, mut judged, mut at_s) = (0.0, Vec::new(), 0.0);
    for rate_bps in &path.rates_bps {
        at_s += 1.0;
        done_bits += rate_bps;
        if done_bits >= bits {
            break;
        }
        let is_new =
            forecaster.add_progress(Duration::from_secs_f64(at_s), (done_bits / 8.0) as u64);
        let place = judged.len();
        if !is_new || done_bits < MOMENTS.get(place).map_or(f64::MAX, |share| share * bits) {
            continue;
        }
        let left_bits = bits - done_bits;
        if let Some(forecast) = forecaster.forecast_rest((left_bits / 8.0) as u64) {
            let simple_s = left_bits / (done_bits / at_s);
            judged.push(JudgedForecast::new(&forecast, simple_s, truth_s - at_s, truth_s));
        }
    }
    judged.into_iter().enumerate().collect()
}

/// Draws with a uniform logarithm.
fn log_between(low: f64, high: f64, rng: &mut SplitMix64) -> f64 {
    rng.between(low.ln(), high.ln()).exp()
}
