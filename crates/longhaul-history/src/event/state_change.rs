//! Detects changes of state and rates how near in time they are to an event.
//!
//! A *turn* lies between the last reading of the old state and the first of the new one; a *step*
//! is the same for numbers, between the median of the last values before the event and that of the
//! first ones after it.
//!
//! Source: estimation by the rule s = w · exp(-|Δt| / τ) · consistency, with |Δt| the gap between
//! the two intervals. Units: us since 1970. Error: the time of a turn is only known to lie between
//! its two readings; the longer the time between them, the less it counts.
//! Wrong when: several turns lie between two readings.

use crate::change_detection::compute_level;
use std::ops::RangeInclusive;

/// The minimum time scale for two times to count as near.
const NEAR_US: f64 = 30.0 * 60.0 * 1e6;
/// The minimum factor for a turn whose time is uncertain by days, so it may be far from the event.
const MIN_SHARPNESS: f64 = 0.6;
/// Number of values on each side that form a level.
const LEVEL_VALUES: usize = 8;

/// A state at the time of a reading.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StateReading<T> {
    pub at_us: i64,
    pub value: T,
}

/// A change of state between two readings.
#[derive(Debug, Clone, PartialEq)]
pub struct StateChange<T> {
    pub between_us: [i64; 2],
    pub from: T,
    pub to: T,
    /// Most of the readings shortly before it did not show the new state yet, and most of those
    /// shortly after it did not show the old one again.
    pub lasted: bool,
}

/// Returns all turns of a series of readings in any order. The readings within `near_us` before and
/// after a turn decide if it lasted.
pub fn find_state_changes<T: Clone>(
    mut readings: Vec<StateReading<T>>,
    near_us: i64,
    same: impl Fn(&T, &T) -> bool,
) -> Vec<StateChange<T>> {
    readings.sort_by_key(|reading| reading.at_us);
    let mut found = Vec::new();
    for pair in readings.windows(2) {
        let [old, new] = pair else { continue };
        if same(&old.value, &new.value) {
            continue;
        }
        let rare = |times: RangeInclusive<i64>, state: &T| {
            let near = || readings.iter().filter(|r| times.contains(&r.at_us));
            near().filter(|r| same(&r.value, state)).count() * 2 < near().count()
        };
        let (begin, end) = (old.at_us.saturating_sub(near_us), new.at_us.saturating_add(near_us));
        let lasted = rare(new.at_us..=end, &old.value) && rare(begin..=old.at_us, &new.value);
        found.push(StateChange {
            between_us: [old.at_us, new.at_us],
            from: old.value.clone(),
            to: new.value.clone(),
            lasted,
        });
    }
    found
}

/// Returns the time scale of nearness: half an hour, or two sampling periods if that is longer.
/// Time that runs `time_factor` times faster shortens the half hour; 0 means real time.
pub fn compute_tau_us(period_us: i64, time_factor: u64) -> f64 {
    (NEAR_US / time_factor.max(1) as f64).max(period_us.max(0) as f64 * 2.0)
}

/// Rates how well the time of a change fits that of the event, 0 to 1: `exp(-|Δt| / τ)`, reduced if
/// the interval of the change is much longer than that of the event.
pub fn rate_timing(change_us: [i64; 2], event_us: [i64; 2], tau_us: f64) -> f64 {
    let [from, to] = change_us.map(|us| us as f64);
    let [begin, end] = event_us.map(|us| us as f64);
    let gap = (from - end).max(begin - to).max(0.0);
    (-gap / tau_us).exp() * compute_near_fraction([from, to], [begin, end], tau_us)
}

/// Returns the fraction of the change's interval that is near the event.
fn compute_near_fraction([from, to]: [f64; 2], [begin, end]: [f64; 2], tau_us: f64) -> f64 {
    let near = to.min(end + tau_us) - from.max(begin - tau_us);
    let whole = to - from;
    if whole <= 0.0 || near <= 0.0 {
        return 1.0;
    }
    (near / whole).clamp(MIN_SHARPNESS, 1.0)
}

/// A level before the event and one after it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LevelStep {
    pub before: f64,
    pub after: f64,
    /// Median absolute deviation from the level, the larger one of both sides.
    pub scatter: f64,
    pub between_us: [i64; 2],
}

impl LevelStep {
    pub fn ratio(&self) -> f64 {
        self.after / self.before
    }

    /// Returns both levels as text.
    pub fn format(&self, format_value: fn(f64) -> String) -> [String; 2] {
        [self.before, self.after].map(format_value)
    }

    /// Returns `fell` or `rose`.
    pub fn verb(&self) -> &'static str {
        if self.after < self.before { "fell" } else { "rose" }
    }

    /// Returns true if the levels differ by this ratio or more, and by over twice the scatter.
    pub fn differs_by(&self, ratio: f64) -> bool {
        let apart = (self.after - self.before).abs();
        self.ratio().ln().abs() >= ratio.ln() && apart > 2.0 * self.scatter
    }

    /// Returns true if the levels differ by less than this ratio. With scatter, neither may hold.
    pub fn is_within(&self, ratio: f64) -> bool {
        self.ratio().ln().abs() < ratio.ln()
    }
}

/// Returns the values around an event as one step; `None` without a positive level on each side.
pub fn find_level_step(
    mut readings: Vec<StateReading<f64>>,
    event_us: [i64; 2],
) -> Option<LevelStep> {
    readings.retain(|reading| reading.value.is_finite());
    readings.sort_by_key(|reading| reading.at_us);
    let before: Vec<_> = readings.iter().filter(|r| r.at_us <= event_us[0]).collect();
    let after: Vec<_> = readings.iter().filter(|r| r.at_us >= event_us[1]).collect();
    let before = &before[before.len().saturating_sub(LEVEL_VALUES)..];
    let after = &after[..after.len().min(LEVEL_VALUES)];
    let between_us = [before.last()?.at_us, after.first()?.at_us];
    let low = compute_level(before.iter().map(|r| r.value))?;
    let high = compute_level(after.iter().map(|r| r.value))?;
    (low.median > 0.0 && high.median > 0.0).then_some(LevelStep {
        before: low.median,
        after: high.median,
        scatter: low.deviation.max(high.deviation),
        between_us,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: i64 = 60_000_000;

    fn readings<T>(of: impl IntoIterator<Item = (i64, T)>) -> Vec<StateReading<T>> {
        let reading = |(minutes, value)| StateReading { at_us: minutes * MINUTE, value };
        of.into_iter().map(reading).collect()
    }

    #[test]
    fn a_turn_lies_between_two_readings_and_must_last() {
        let found = find_state_changes(
            readings([(0, 'a'), (10, 'a'), (20, 'b'), (30, 'b')]),
            60 * MINUTE,
            PartialEq::eq,
        );
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].between_us, [10 * MINUTE, 20 * MINUTE]);
        assert!(found[0].lasted);
        let flap = find_state_changes(
            readings([(0, 'a'), (10, 'b'), (20, 'a'), (30, 'a')]),
            60 * MINUTE,
            PartialEq::eq,
        );
        assert!(!flap[0].lasted && !flap[1].lasted);
        let days = readings([(0, 'a'), (10, 'b'), (900, 'b'), (910, 'a')]);
        let back = find_state_changes(days, 60 * MINUTE, PartialEq::eq);
        assert!(back[0].lasted && back[1].lasted);
    }

    #[test]
    fn nearness_fades_with_tau_and_with_vagueness() {
        let event = [0, 10 * MINUTE];
        let tau = compute_tau_us(MINUTE, 1);
        assert!((rate_timing([2 * MINUTE, 8 * MINUTE], event, tau) - 1.0).abs() < 1e-9);
        let late = rate_timing([40 * MINUTE, 41 * MINUTE], event, tau);
        assert!((late - (-1.0_f64).exp()).abs() < 1e-9, "{late}");
        let days = rate_timing([-9_000 * MINUTE, 5 * MINUTE], event, tau);
        assert!((days - MIN_SHARPNESS).abs() < 1e-9, "{days}");
        assert!(rate_timing([-3_000 * MINUTE, -2_900 * MINUTE], event, tau) < 1e-9);
    }

    #[test]
    fn an_old_step_is_no_step_at_the_event() {
        let old = (0..40).map(|n| (n * 10, if n < 10 { 100.0 } else { 50.0 }));
        let step =
            find_level_step(readings(old), [300 * MINUTE, 310 * MINUTE]).expect("both sides");
        assert!(!step.differs_by(1.01), "{step:?}");
    }

    #[test]
    fn what_is_no_number_makes_no_level() {
        let event = [10 * MINUTE, 20 * MINUTE];
        assert_eq!(find_level_step(readings([(0, f64::NAN), (30, 5.0)]), event), None);
        assert_eq!(find_level_step(readings([(0, 0.0), (30, 5.0)]), event), None);
        let found = find_level_step(readings([(0, 4.0), (30, 8.0)]), event).expect("both sides");
        assert!((found.ratio() - 2.0).abs() < 1e-9 && found.differs_by(1.5));
    }
}
