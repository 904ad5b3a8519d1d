//! Compares two sets of runs.
//!
//! Tests every quantity of every pair in either set. No test can tell from two single runs whether
//! further runs would differ as well; a caveat reports whether their own intervals are disjoint.
//!
//! # Quantity change
//!
//! Compares one quantity in two samples.
//!
//! Rates and RTTs are compared by ratio, shares and counts by difference. The test and the interval
//! are those of the change test in the statistics module.

use super::archived_path::ArchivedRun;
use crate::change_detection::{compute_level, extract_points};
use longhaul_analysis::stats::sample_change::{self, LEVEL, adjust_holm};
use longhaul_model::report::v1::quantity::{PathQuantity, QuantityScale};
use longhaul_model::report::v1::{
    AnyReport, ChangeVerdict, ComparisonSide, HostPair, QuantityChange, ReportCaveat, TimePeriod,
};
use std::collections::{BTreeMap, BTreeSet};

/// A set of runs and the text that selected it.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSet {
    pub text: String,
    pub runs: Vec<ArchivedRun>,
}

/// The result of a comparison of two sets.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSetComparison {
    pub sides: [ComparisonSide; 2],
    pub changes: Vec<QuantityChange>,
    pub caveats: Vec<ReportCaveat>,
}

type QuantityValues = BTreeMap<(HostPair, PathQuantity), Vec<f64>>;

/// Compares `a` with `b`. If the two sets share no pair of hosts, their pairs are treated as the
/// same one, named as in the first set.
pub fn compare_run_sets(a: &mut RunSet, b: &mut RunSet) -> RunSetComparison {
    for side in [&mut *a, &mut *b] {
        let key = |run: &ArchivedRun| (run.at_us, run.run_id.clone());
        side.runs.sort_by_key(key);
        side.runs.dedup_by(|x, y| x.run_id == y.run_id);
    }
    let mut caveats = Vec::new();
    let (before, mut after) = (collect_values(&a.runs), collect_values(&b.runs));
    if !after.is_empty() && before.keys().all(|key| !after.contains_key(key)) {
        after = rename_hosts(&before, after, &mut caveats);
    }
    let keys: BTreeSet<_> = before.keys().chain(after.keys()).cloned().collect();
    let none = Vec::new();
    let mut changes: Vec<QuantityChange> = keys
        .iter()
        .filter_map(|(pair, quantity)| {
            let key = (pair.clone(), *quantity);
            let of = |side: &QuantityValues| side.get(&key).unwrap_or(&none).clone();
            compare_quantity(pair, *quantity, &of(&before), &of(&after))
        })
        .collect();
    changes.sort_by_key(|change| (change.quantity, change.pair.clone()));
    adjust_changes(changes.iter_mut());
    caveats.extend(warn_shared_runs(a, b));
    caveats.extend(warn_different_settings(a, b));
    caveats.extend(warn_too_few_values(a, b, &changes));
    RunSetComparison { sides: [describe_side(a), describe_side(b)], changes, caveats }
}

fn describe_side(asked: &RunSet) -> ComparisonSide {
    let times = || asked.runs.iter().map(|run| run.at_us);
    ComparisonSide {
        asked: asked.text.clone(),
        run_ids: asked.runs.iter().map(|run| run.run_id.clone()).collect(),
        period: times()
            .min()
            .zip(times().max())
            .map(|(begin_us, last)| TimePeriod { begin_us, end_us: last.saturating_add(1) }),
    }
}

fn collect_values(runs: &[ArchivedRun]) -> QuantityValues {
    let mut found: QuantityValues = BTreeMap::new();
    for run in runs {
        let mut report = run.report.clone();
        // A probe of a scan that is selected by name counts as a run.
        if let AnyReport::Throughput(report) = &mut report {
            report.run.part_of = None;
        }
        for (pair, quantity, point) in extract_points(&report, Some(&run.near), Some(&run.far)) {
            found.entry((pair, quantity)).or_default().push(point.value);
        }
    }
    found
}

/// Renames the hosts of the second set, as to compare the runs before and after a host's upgrade:
/// directions count, names do not. Applies only if each set has a single pair of hosts.
fn rename_hosts(
    before: &QuantityValues,
    after: QuantityValues,
    caveats: &mut Vec<ReportCaveat>,
) -> QuantityValues {
    let hosts = |side: &QuantityValues| -> BTreeSet<BTreeSet<String>> {
        side.keys().map(|(pair, _)| [pair.from.clone(), pair.to.clone()].into()).collect()
    };
    if hosts(before).len() != 1 || hosts(&after).len() != 1 {
        return after;
    }
    let first = |side: &QuantityValues| side.keys().next().map(|(pair, _)| pair.clone());
    let (Some(mine), Some(theirs)) = (first(before), first(&after)) else {
        return after;
    };
    caveats.push(ReportCaveat::new(
        "other_hosts",
        format!(
            "the two sets are of different hosts: {} > {} and {} > {}",
            mine.from, mine.to, theirs.from, theirs.to
        ),
    ));
    let renamed = |pair: &HostPair| {
        if *pair == theirs { mine.clone() } else { super::reverse_pair(&mine) }
    };
    let entries = after.into_iter();
    entries.map(|((pair, quantity), values)| ((renamed(&pair), quantity), values)).collect()
}

fn warn_shared_runs(a: &RunSet, b: &RunSet) -> Option<ReportCaveat> {
    let of_a: BTreeSet<&str> = a.runs.iter().map(|run| run.run_id.as_str()).collect();
    let both = b.runs.iter().filter(|run| of_a.contains(run.run_id.as_str()));
    let count = both.count();
    (count > 0).then(|| {
        let text = format!("{count} of the runs are in both sets, which hides differences");
        ReportCaveat::new("shared_runs", text)
    })
}

fn warn_different_settings(a: &RunSet, b: &RunSet) -> Option<ReportCaveat> {
    let of = |side: &RunSet| -> BTreeSet<_> {
        let runs = side.runs.iter();
        runs.filter_map(|run| match &run.report {
            AnyReport::Throughput(report) => {
                Some(super::period_settings::setting_of_plan(&report.plan))
            }
            _ => None,
        })
        .collect()
    };
    let (of_a, of_b) = (of(a), of(b));
    (!of_a.is_empty() && !of_b.is_empty() && of_a != of_b).then(|| {
        let text = "the bulk runs of the two sets used different settings";
        ReportCaveat::new("different_settings", text)
    })
}

/// Returns a caveat if a test needs more values; compares single runs by their own intervals.
fn warn_too_few_values(a: &RunSet, b: &RunSet, changes: &[QuantityChange]) -> Option<ReportCaveat> {
    let cannot = changes.iter().any(|change| change.verdict == ChangeVerdict::CannotTell);
    if !cannot {
        return None;
    }
    let interval = |side: &RunSet| match side.runs.as_slice() {
        [run] => match &run.report {
            AnyReport::Throughput(report) => report.analysis.goodput_interval_bps,
            _ => None,
        },
        _ => None,
    };
    let text = match interval(a).zip(interval(b)) {
        Some(([a_low, a_high], [b_low, b_high])) if a_high < b_low || b_high < a_low => {
            "the steady rates of the two runs differ by more than they vary; two runs are too few to \
             tell whether the next ones would: at least 4 and 4 are needed"
        }
        Some(_) => {
            "the two runs differ by no more than each varies within itself; compare more runs"
        }
        None => "too few runs to tell a change from chance; at least 4 and 4 are needed",
    };
    Some(ReportCaveat::new("too_few_values", text))
}

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
    use super::super::test_archive;
    use super::*;

    fn asked(text: &str, rates_bps: &[f64], from: i64) -> RunSet {
        let mut sketch = test_archive::TestArchive::default();
        for (minute, bps) in (from..).zip(rates_bps) {
            sketch.run(minute, true, *bps);
        }
        RunSet { text: text.to_owned(), runs: sketch.runs }
    }

    #[test]
    fn two_sets_are_tested_and_two_runs_are_not() {
        let mut a = asked("before", &[100e6, 101e6, 99e6, 102e6, 98e6], 0);
        let mut b = asked("after", &[90e6, 91e6, 89e6, 92e6, 88e6], 100);
        let found = compare_run_sets(&mut a, &mut b);
        let goodput = &found.changes[0];
        assert_eq!(
            (goodput.quantity, goodput.verdict),
            (PathQuantity::Goodput, ChangeVerdict::Fell)
        );
        assert_eq!(found.sides[1].run_ids.len(), 5);
        let found = compare_run_sets(&mut asked("a", &[100e6], 0), &mut asked("b", &[50e6], 9));
        assert_eq!(found.changes[0].verdict, ChangeVerdict::CannotTell);
        assert_eq!(found.caveats[0].code, "too_few_values");
    }

    #[test]
    fn the_same_runs_twice_and_other_hosts_are_said() {
        let (mut a, mut b) = (asked("a", &[1e6; 5], 0), asked("b", &[1e6; 5], 0));
        let codes = |found: &RunSetComparison| -> Vec<String> {
            found.caveats.iter().map(|c| c.code.clone()).collect()
        };
        assert_eq!(codes(&compare_run_sets(&mut a, &mut b)), ["shared_runs"]);
        let mut c = asked("c", &[1e6; 5], 50);
        for run in &mut c.runs {
            run.far = String::from("lyon");
        }
        let found = compare_run_sets(&mut a, &mut c);
        assert_eq!(codes(&found), ["other_hosts"]);
        assert_eq!(found.changes[0].verdict, ChangeVerdict::NoChangeSeen);
    }
}

#[cfg(test)]
mod quantity_change_tests {
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
