//! Finds the levels of a run's rate: spans in which the path offered a constant rate.
//!
//! The arrivals of segments are split where two constants fit best, and each part again, as long as
//! the parts are well apart: the step is large, the values of the two parts hardly overlap, and
//! neither part drifts by more than half of the step. A change of the path needs a full path at the
//! lower level: a queue in the RTTs. Without a queue, a step of the rate is the sender's.
//!
//! Source: binary segmentation (Scott and Knott 1974); the thresholds are from drawn networks with
//! queueing disciplines of Linux 6.12 (docs/benchmarks.md). Units: bit/s of segments, microseconds.
//! Error: a change is found to one slot, at least 50 ms or one RTT.
//! Wrong when: the rate changes more often than once in [`LevelTuning::MIN_SLOTS`] slots.

use super::run_reading::{QUEUED_RATIO, RunView};
use super::shaper_fit::{
    RateSlot, find_breakpoint, join_bins, measure_half_step, measure_step_z, median_rate,
};
use crate::stats::{mad_scale, quantile, sort_finite};
use crate::throughput::arrival_timeline::RunArrivals;

/// The parameters of the search for levels.
struct LevelTuning;

impl LevelTuning {
    /// The minimum number of slots of a level.
    const MIN_SLOTS: usize = 8;
    /// The minimum ratio of two neighbouring levels.
    const MIN_STEP_RATIO: f64 = 1.2;
    /// The maximum number of splits within each other.
    const MAX_DEPTH: usize = 3;
    /// The minimum distance of two levels, in standard errors.
    const MIN_Z: f64 = 6.0;
    /// This share of the values of either part may lie on the other's side.
    const OVERLAP: f64 = 0.15;
    /// The maximum drift of a level from which the rate climbs, as a share of the step.
    const STILL_RATIO: f64 = 0.25;
    /// The minimum number of segments in a slot: fewer make its rate a matter of chance.
    const SLOT_SEGMENTS: f64 = 25.0;
    /// The maximum scatter of a level that a full path keeps, and its minimum number of round trips.
    const CONSTANT_RATIO: f64 = 0.02;
    const CONSTANT_TRIPS: u64 = 40;
    /// The ramp ends when the rate first reaches this share of the median that follows.
    const RAMP_RATIO: f64 = 0.8;
}

/// A span in which the rate was level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateLevel {
    pub from_us: u64,
    pub to_us: u64,
    pub bps: f64,
    /// The scatter of the rate, as a share of the level.
    pub scatter_ratio: f64,
}

/// Returns the levels of the rate after the ramp, in order; one if the rate did not change, none if
/// the run is too short. `slot_us` is the minimum length of a slot.
pub fn find_rate_levels(arrivals: &RunArrivals, slot_us: u64) -> Vec<RateLevel> {
    let slots = join_bins(arrivals, slot_us);
    let rates: Vec<f64> = slots.iter().map(|slot| slot.rate_bps).collect();
    let Some(start) = find_ramp_end(&rates) else {
        return Vec::new();
    };
    let mut levels = Vec::new();
    split_levels(&slots[start..], LevelTuning::MAX_DEPTH, &mut levels);
    levels
}

/// Returns the length of a slot that holds enough segments for a rate, from the time of one.
pub fn choose_slot_us(segment_us: f64, idle_rtt_us: u64) -> u64 {
    idle_rtt_us.max((LevelTuning::SLOT_SEGMENTS * segment_us).min(1e7) as u64)
}

fn find_ramp_end(rates: &[f64]) -> Option<usize> {
    let following = |from: usize| median_rate(&rates[from..from + LevelTuning::MIN_SLOTS]);
    let last = rates.len().checked_sub(LevelTuning::MIN_SLOTS)?;
    (0..=last).find(|at| rates[*at] >= LevelTuning::RAMP_RATIO * following(*at))
}

fn split_levels(slots: &[RateSlot], depth: usize, levels: &mut Vec<RateLevel>) {
    let rates: Vec<f64> = slots.iter().map(|slot| slot.rate_bps).collect();
    match find_split(&rates, depth) {
        Some(knee) => {
            split_levels(&slots[..knee], depth - 1, levels);
            split_levels(&slots[knee..], depth - 1, levels);
        }
        None => levels.extend(summarize_level(slots, &rates)),
    }
}

/// Returns the point at which the rates split into two parts that are well apart, if there is one: each
/// part is level, or splits again, or the second one climbs from a level.
fn find_split(rates: &[f64], depth: usize) -> Option<usize> {
    if depth == 0 {
        return None;
    }
    let knee = find_breakpoint(rates, LevelTuning::MIN_SLOTS, LevelTuning::MIN_SLOTS)?;
    let (before, after) = rates.split_at(knee);
    let step = (median_rate(before) - median_rate(after)).abs();
    let is_whole = |part: &[f64]| {
        measure_half_step(part) < 0.5 * step || find_split(part, depth - 1).is_some()
    };
    // TCP needs many round trips to fill what became free.
    let is_climb = median_rate(after) > median_rate(before)
        && measure_half_step(before) < LevelTuning::STILL_RATIO * step;
    (are_levels_apart(before, after) && is_whole(before) && (is_climb || is_whole(after)))
        .then_some(knee)
}

fn summarize_level(slots: &[RateSlot], rates: &[f64]) -> Option<RateLevel> {
    let (first, last) = (slots.first()?, slots.last()?);
    let bps = median_rate(rates);
    Some(RateLevel {
        from_us: first.from_us,
        to_us: last.from_us + (last.seconds * 1e6) as u64,
        bps,
        scatter_ratio: mad_scale(rates).unwrap_or(0.0) / bps.max(1.0),
    })
}

fn are_levels_apart(before: &[f64], after: &[f64]) -> bool {
    let levels = [median_rate(before), median_rate(after)];
    let (low, high) = (levels[0].min(levels[1]), levels[0].max(levels[1]));
    if low <= 0.0 || high < LevelTuning::MIN_STEP_RATIO * low {
        return false;
    }
    let (lower, higher) = if levels[0] < levels[1] { (before, after) } else { (after, before) };
    let middle = high.midpoint(low);
    let at = |part: &[f64], share| quantile(&sort_finite(part.iter().copied()), share);
    measure_step_z(before, after) > LevelTuning::MIN_Z
        && at(higher, LevelTuning::OVERLAP).is_some_and(|rate| rate > middle)
        && at(lower, 1.0 - LevelTuning::OVERLAP).is_some_and(|rate| rate < middle)
}

/// Returns true if the path was full at the lower of two levels: then its free rate differs, because it
/// carried the higher one. BBR and short queues leave no queue in the RTTs, but before a rise nothing
/// but a full path keeps the rate so constant for so long.
pub fn is_path_full_at_lower(run: &RunView, one: &RateLevel, other: &RateLevel) -> bool {
    let low = if one.bps < other.bps { one } else { other };
    let trips = (low.to_us - low.from_us) / run.idle_rtt_us.unwrap_or(u64::MAX).max(1);
    if one.bps < other.bps
        && low.scatter_ratio < LevelTuning::CONSTANT_RATIO
        && trips >= LevelTuning::CONSTANT_TRIPS
    {
        return true;
    }
    let within = |at_us: u64| (low.from_us..=low.to_us).contains(&at_us);
    let intervals = run.streams.iter().flatten().filter(|interval| within(interval.to_us));
    run.measure_queued_ratio(intervals) >= QUEUED_RATIO
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels_of(rates: &[f64]) -> Vec<f64> {
        let arrivals = RunArrivals::from_rates(rates, 100_000);
        find_rate_levels(&arrivals, 100_000).iter().map(|level| level.bps).collect()
    }

    fn wobble(level: f64, count: usize) -> impl Iterator<Item = f64> {
        (0..count).map(move |i| level * (1.0 + 0.02 * ((i * 7 % 5) as f64 - 2.0) / 2.0))
    }

    #[test]
    fn each_lasting_step_begins_a_level() {
        let rates: Vec<f64> =
            wobble(1e8, 30).chain(wobble(4e7, 30)).chain(wobble(8e7, 40)).collect();
        let levels = levels_of(&rates);
        assert_eq!(levels.len(), 3, "{levels:?}");
        for (level, truth) in levels.iter().zip([1e8, 4e7, 8e7]) {
            assert!((level / truth - 1.0).abs() < 0.02, "{level} is not {truth}");
        }
    }

    #[test]
    fn a_climb_from_a_level_is_another_level() {
        let climb = (0..35).map(|i| 6e7 + 1.3e6 * f64::from(i));
        let rates: Vec<f64> = wobble(3.7e7, 60).chain(climb).collect();
        assert_eq!(levels_of(&rates).len(), 2);
    }

    #[test]
    fn a_ramp_a_slope_and_a_sawtooth_have_one_level() {
        let ramp: Vec<f64> =
            (0..8).map(|i| 1e8 / 2f64.powi(8 - i)).chain(wobble(1e8, 60)).collect();
        let slope: Vec<f64> = (0..80).map(|i| 1e8 - 5e5 * f64::from(i)).collect();
        let rise: Vec<f64> = (0..80).map(|i| 6e7 + 5e5 * f64::from(i)).collect();
        let sawtooth: Vec<f64> = (0..80).map(|i| 7e7 + 3e6 * f64::from(i % 10)).collect();
        for rates in [ramp, slope, rise, sawtooth] {
            assert_eq!(levels_of(&rates).len(), 1, "{rates:?}");
        }
        assert!(levels_of(&[1e8; 4]).is_empty());
    }
}
