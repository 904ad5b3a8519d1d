//! Compares one quantity in two samples.
//!
//! Rates and RTTs are compared by ratio, shares and counts by difference. The test and the interval
//! are those of the change test in the statistics module.

use crate::change_detection::compute_level;
use longhaul_analysis::stats::sample_change::{self, LEVEL, adjust_holm};
use longhaul_model::report::v1::comparison::{ChangeVerdict, QuantityChange};
use longhaul_model::report::v1::quantity::{PathQuantity, QuantityScale};
use longhaul_model::report::v1::series::HostPair;
use std::collections::BTreeMap;

/// Compares `before` with `after`, each in time order; `None` if neither has a value. The verdict
/// is that of this test alone until it is adjusted for the other tests.
pub fn compare_quantity(
    pair: &HostPair,
    quantity: PathQuantity,
    before: &[f64],
    after: &[f64],
) -> Option<QuantityChange> {
    let levels = [before, after].map(|values| compute_level(values.iter().copied()));
    if levels.iter().all(Option::is_none) {
        return None;
    }
    let by_ratio = quantity.scale() == QuantityScale::Ratio;
    let scaled = |values: &[f64]| -> Vec<f64> {
        let placed = values.iter().map(|value| if by_ratio { value.ln() } else { *value });
        placed.filter(|value| value.is_finite()).collect()
    };
    let found = sample_change::compare_samples(&scaled(before), &scaled(after));
    let [before, after] = levels;
    let ratio = found.filter(|_| by_ratio);
    let difference = found.filter(|_| !by_ratio);
    let mut told = QuantityChange {
        pair: pair.clone(),
        quantity,
        before,
        after,
        change_ratio: ratio.map(|it| it.shift.exp()),
        change_interval_ratio: ratio.and_then(|it| it.interval).map(|ends| ends.map(f64::exp)),
        difference: difference.map(|it| it.shift),
        difference_interval: difference.and_then(|it| it.interval),
        p_value: found.and_then(|it| it.p),
        p_adjusted: found.and_then(|it| it.p),
        method: found.filter(|it| it.p.is_some()).map(|it| {
            let law = if it.exact { "exact" } else { "normal" };
            format!("rank_sum_{law}")
        }),
        correlation: found.and_then(|it| it.correlation),
        verdict: ChangeVerdict::NotMeasured,
    };
    if found.is_some() {
        told.verdict = judge_change(&told);
    }
    Some(told)
}

fn judge_change(change: &QuantityChange) -> ChangeVerdict {
    if change.before.is_none() || change.after.is_none() {
        return ChangeVerdict::NotMeasured;
    }
    let shift = change.change_ratio.map(f64::ln).or(change.difference);
    match (change.p_adjusted, shift) {
        (Some(p), Some(shift)) if p < LEVEL && shift < 0.0 => ChangeVerdict::Fell,
        (Some(p), Some(shift)) if p < LEVEL && shift > 0.0 => ChangeVerdict::Rose,
        (Some(_), Some(_)) => ChangeVerdict::NoChangeSeen,
        _ => ChangeVerdict::CannotTell,
    }
}

/// Adjusts the tests of one table for multiple testing. Those of one quantity form a family, so
/// that among many paths one in twenty does not appear to have changed by chance.
pub fn adjust_changes<'c>(changes: impl Iterator<Item = &'c mut QuantityChange>) {
    let mut families: BTreeMap<PathQuantity, Vec<&mut QuantityChange>> = BTreeMap::new();
    for change in changes.filter(|change| change.p_value.is_some()) {
        families.entry(change.quantity).or_default().push(change);
    }
    for mut family in families.into_values() {
        let raw: Vec<f64> = family.iter().filter_map(|change| change.p_value).collect();
        for (change, raised) in family.iter_mut().zip(adjust_holm(&raw)) {
            change.p_adjusted = Some(raised);
            change.verdict = judge_change(change);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(to: &str) -> HostPair {
        HostPair { from: String::from("slac"), to: to.to_owned() }
    }

    fn told(quantity: PathQuantity, before: &[f64], after: &[f64]) -> QuantityChange {
        compare_quantity(&pair("cesnet"), quantity, before, after).unwrap()
    }

    #[test]
    fn a_fall_is_told_with_its_size_and_its_bounds() {
        let before = [250e6, 255e6, 245e6, 252e6, 248e6, 251e6];
        let after = [150e6, 148e6, 152e6, 151e6, 149e6, 153e6];
        let change = told(PathQuantity::Goodput, &before, &after);
        assert_eq!(change.verdict, ChangeVerdict::Fell);
        assert!((change.change_ratio.unwrap() - 0.6).abs() < 0.02, "{change:?}");
        let [low, high] = change.change_interval_ratio.unwrap();
        assert!(0.55 < low && low < 0.6 && 0.6 < high && high < 0.65);
        assert_eq!(change.difference, None);
        assert_eq!(change.method.as_deref(), Some("rank_sum_exact"));
    }

    #[test]
    fn what_is_missing_or_too_little_is_said_and_never_guessed() {
        let one = told(PathQuantity::Goodput, &[250e6], &[150e6]);
        assert_eq!((one.verdict, one.p_value), (ChangeVerdict::CannotTell, None));
        assert!((one.change_ratio.unwrap() - 0.6).abs() < 1e-9);
        let none = told(PathQuantity::Goodput, &[250e6], &[]);
        assert_eq!((none.verdict, none.after), (ChangeVerdict::NotMeasured, None));
        assert_eq!(none.change_ratio, None);
        assert!(compare_quantity(&pair("x"), PathQuantity::Goodput, &[], &[f64::NAN]).is_none());
    }

    #[test]
    fn shares_may_be_zero_and_are_compared_by_difference() {
        let change = told(PathQuantity::Loss, &[0.0; 8], &[0.01, 0.02, 0.01, 0.02, 0.03, 0.01]);
        assert_eq!(change.verdict, ChangeVerdict::Rose);
        assert!(change.change_ratio.is_none() && change.difference.unwrap() > 0.005);
    }

    #[test]
    fn many_paths_share_their_false_alarms() {
        let near = ([1.0, 2.0, 3.0, 4.0, 7.0], [5.0, 6.0, 8.0, 9.0, 10.0]);
        let mut changes: Vec<QuantityChange> = (0..10)
            .map(|i| {
                compare_quantity(&pair(&i.to_string()), PathQuantity::Goodput, &near.0, &near.1)
                    .unwrap()
            })
            .collect();
        assert!(changes.iter().all(|change| change.verdict == ChangeVerdict::Rose));
        adjust_changes(changes.iter_mut());
        let seen = |change: &QuantityChange| change.verdict == ChangeVerdict::NoChangeSeen;
        assert!(changes.iter().all(seen), "each p is 0.03, and there are ten");
    }
}
