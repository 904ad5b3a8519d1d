//! The daily season of a series: its dependence on the hour and the weekend.
//!
//! Subtracts a running median of one day, and takes the median of the rest for each slot of the
//! day, separately for weekdays and weekends, shrunk towards zero if values are few. Both agree around
//! midnight. The season is only subtracted if that lowers the scatter.
//! Source: our own (docs/methods/detection.md); running medians after Tukey 1977.
//! Units: of the scale of the quantity.
//! Error: a tenth of the noise, more with few weeks. Wrong when: the busy hours are not those of
//! UTC days (slots remain valid, but the weekend begins a few hours off), or holidays.

use super::{SeriesSample, median_spacing_us};
use longhaul_analysis::stats::median;

/// The minimum number of days for a season.
const MIN_DAYS: f64 = 6.9;
/// Slots of a day: one hour each; finer if values come faster, but at least ten minutes.
const HOURS: usize = 24;
const MAX_SLOTS: usize = 144;
/// The number of values at which half of a slot's median is subtracted.
const HALF_AT: f64 = 3.0;
/// The maximum scatter ratio: the season of some days must lower that of the others to this.
const MAX_SCATTER_RATIO: f64 = 0.99;
/// The part of the day on each side of midnight in which weekdays and weekends must agree.
const MIDNIGHT_PART: usize = 8;
const SATURDAY: i64 = 5;
/// 1970-01-01 was a Thursday.
const FIRST_WEEKDAY: i64 = 3;

/// The season of a series for each slot of a weekday and of a day of the weekend.
#[derive(Debug, Clone, PartialEq)]
pub struct DailySeason {
    day_us: i64,
    /// Slots of a weekday, then of a day of the weekend.
    profile: Vec<f64>,
}

impl DailySeason {
    /// Returns the value to subtract at this time, on the scale of the quantity.
    pub fn value_at(&self, at_us: i64) -> f64 {
        self.profile[slot_index(at_us, self.day_us, self.profile.len() / 2)]
    }
}

/// Returns the season of the samples, if there is one.
pub(super) fn find_season(
    samples: &[SeriesSample],
    scaled: &[f64],
    day_us: u64,
) -> Option<DailySeason> {
    let times: Vec<i64> = samples.iter().map(|it| it.first_us).collect();
    let spacing = median_spacing_us(times.iter().copied())?;
    let span = times[times.len() - 1].abs_diff(times[0]) as f64 + spacing;
    if span < MIN_DAYS * day_us as f64 {
        return None;
    }
    let rest = subtract_running_median(&times, scaled, day_us / 2);
    let slots = count_daily_slots(spacing, day_us as f64);
    let keys: Vec<usize> = times.iter().map(|at| slot_index(*at, day_us as i64, slots)).collect();
    let parity: Vec<bool> =
        times.iter().map(|at| at.div_euclid(day_us as i64).rem_euclid(2) == 0).collect();
    if compute_scatter(&subtract_other_days(&rest, &keys, &parity, slots))
        > MAX_SCATTER_RATIO * compute_scatter(&rest)
    {
        return None;
    }
    let values = rest.iter().copied().zip(keys.iter().copied());
    let mut profile = compute_profile(values, slots);
    join_at_midnight(&mut profile);
    Some(DailySeason { day_us: day_us as i64, profile })
}

/// Returns the residuals of the even days with the season of the odd ones, and vice versa: a
/// profile always fits the values that it was computed from.
fn subtract_other_days(rest: &[f64], keys: &[usize], parity: &[bool], slots: usize) -> Vec<f64> {
    let of = |even: bool| {
        let values = rest.iter().copied().zip(keys.iter().copied());
        let days = values.zip(parity).filter(|(_, day)| **day == even);
        compute_profile(days.map(|(value, _)| value), slots)
    };
    let (even, odd) = (of(true), of(false));
    let values = rest.iter().zip(keys).zip(parity);
    values
        .map(|((value, key), is_even)| value - if *is_even { odd[*key] } else { even[*key] })
        .collect()
}

/// Returns the sum of distances from the median; their median would miss an effect in few hours.
fn compute_scatter(values: &[f64]) -> f64 {
    let middle = median(values.iter().copied()).unwrap_or(0.0);
    values.iter().map(|v| (v - middle).abs()).sum()
}

fn count_daily_slots(spacing: f64, day_us: f64) -> usize {
    let fitting = (day_us / spacing.max(1.0)).round();
    if fitting > 1.5 * HOURS as f64 { (fitting as usize).min(MAX_SLOTS) } else { HOURS }
}

/// Returns the slot's index: weekdays first, then the weekend.
fn slot_index(at_us: i64, day_us: i64, slots: usize) -> usize {
    let day = at_us.div_euclid(day_us);
    let within = at_us.rem_euclid(day_us) as f64 / day_us as f64;
    let slot = ((within * slots as f64) as usize).min(slots - 1);
    let weekend = (day + FIRST_WEEKDAY).rem_euclid(7) >= SATURDAY;
    slot + if weekend { slots } else { 0 }
}

/// Computes the season from values and their slots.
fn compute_profile(values: impl Iterator<Item = (f64, usize)>, slots: usize) -> Vec<f64> {
    let mut of_slot = vec![Vec::new(); 2 * slots];
    for (value, key) in values {
        of_slot[key].push(value);
    }
    let reach = if slots > HOURS { slots / HOURS } else { 0 };
    let (weekday, weekend) = of_slot.split_at(slots);
    let mut profile = smooth_slot_medians(weekday, reach);
    profile.extend(smooth_slot_medians(weekend, reach));
    profile
}

/// Moves the weekend so that it continues the weekdays around midnight.
///
/// The running median of a busy day is below that of a quiet one. Without this, every weekend would
/// be a step.
fn join_at_midnight(profile: &mut [f64]) {
    let (weekday, weekend) = profile.split_at_mut(profile.len() / 2);
    let (count, near) = (weekday.len(), weekday.len() / MIDNIGHT_PART);
    let around = (0..near).chain(count - near..count);
    let jump = median(around.map(|slot| weekday[slot] - weekend[slot])).unwrap_or(0.0);
    for value in weekend {
        *value += jump;
    }
}

/// Returns the median of each slot with its neighbours; the last slot is adjacent to the first.
fn smooth_slot_medians(slots: &[Vec<f64>], reach: usize) -> Vec<f64> {
    let count = slots.len();
    let near = |i: usize| {
        let places = (0..=2 * reach).map(move |k| (i + count + k - reach) % count);
        places.flat_map(|place| slots[place].iter().copied())
    };
    (0..count)
        .map(|i| {
            let n = near(i).count() as f64;
            median(near(i)).map_or(0.0, |middle| middle * n / (n + HALF_AT))
        })
        .collect()
}

/// Returns each value minus the median of those at most `half_us` away.
fn subtract_running_median(times: &[i64], values: &[f64], half_us: u64) -> Vec<f64> {
    let mut window: Vec<f64> = Vec::new();
    let (mut first, mut next) = (0, 0);
    let mut rest = Vec::with_capacity(values.len());
    for (value, at) in values.iter().zip(times) {
        while next < times.len() && (times[next] <= *at || times[next].abs_diff(*at) <= half_us) {
            let place = window.partition_point(|v| *v < values[next]);
            window.insert(place, values[next]);
            next += 1;
        }
        while at.abs_diff(times[first]) > half_us {
            window.remove(window.partition_point(|v| *v < values[first]));
            first += 1;
        }
        let middle = f64::midpoint(window[(window.len() - 1) / 2], window[window.len() / 2]);
        rest.push(value - middle);
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_model::splitmix::SplitMix64;

    const HOUR: i64 = 3_600_000_000;
    const DAY: u64 = 86_400_000_000;

    fn hourly(hours: i64, value: impl Fn(i64) -> f64) -> (Vec<SeriesSample>, Vec<f64>) {
        let samples = (0..hours).map(|h| SeriesSample {
            first_us: h * HOUR,
            last_us: h * HOUR,
            value: value(h),
        });
        let samples: Vec<SeriesSample> = samples.collect();
        let values = samples.iter().map(|it| it.value).collect();
        (samples, values)
    }

    fn busy(h: i64) -> f64 {
        let weekend = (h / 24 + FIRST_WEEKDAY) % 7 >= SATURDAY;
        let afternoon = (12..18).contains(&(h % 24));
        let ripple = (h * 37 % 11) as f64 / 100.0;
        ripple - if afternoon && !weekend { 0.4 } else { 0.0 }
    }

    #[test]
    fn busy_afternoons_of_weekdays_are_taken_out() {
        let (samples, values) = hourly(24 * 28, busy);
        let season = find_season(&samples, &values, DAY).unwrap();
        let at = |day: i64, hour: i64| season.value_at((24 * day + hour) * HOUR);
        // Day 4 is a Monday, day 2 a Saturday.
        assert!(at(4, 14) < -0.3, "{}", at(4, 14));
        assert!(at(2, 14).abs() < 0.1);
        assert!(at(4, 4).abs() < 0.1);
    }

    #[test]
    fn a_weekend_is_no_step_between_busy_days() {
        // Most hours of weekdays are busy, so that their median is that of busy hours.
        let (samples, values) = hourly(24 * 28, |h| {
            let weekend = (h / 24 + FIRST_WEEKDAY) % 7 >= SATURDAY;
            let quiet = weekend || !(5..19).contains(&(h % 24));
            (h * 37 % 11) as f64 / 100.0 - if quiet { 0.0 } else { 0.4 }
        });
        let season = find_season(&samples, &values, DAY).unwrap();
        let level = |day: usize| {
            let hours = 24 * day..24 * (day + 1);
            median(hours.map(|h| values[h] - season.value_at(h as i64 * HOUR))).unwrap()
        };
        let (friday, saturday) = (level(8), level(9));
        assert!((friday - saturday).abs() < 0.1, "{friday} and {saturday}");
    }

    #[test]
    fn few_days_and_noise_alone_have_no_season() {
        let (samples, values) = hourly(24 * 5, busy);
        assert_eq!(find_season(&samples, &values, DAY), None);
        for days in [7, 28] {
            let mut rng = SplitMix64::new(3);
            let noise: Vec<f64> = (0..24 * days).map(|_| rng.normal()).collect();
            let (samples, values) = hourly(24 * days, |h| noise[h as usize]);
            assert_eq!(find_season(&samples, &values, DAY), None, "{days} days");
        }
    }
}
