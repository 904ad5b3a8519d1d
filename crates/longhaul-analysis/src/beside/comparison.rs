//! Compares two sets of runs.
//!
//! Tests every quantity of every pair in either set. No test can tell from two single runs whether
//! further runs would differ as well; a caveat reports whether their own intervals are disjoint.

use super::change;
use super::material::Taken;
use crate::detect::points::points_of;
use longhaul_model::report::v1::comparison::{Change, Period, Side, Verdict};
use longhaul_model::report::v1::quantity::Quantity;
use longhaul_model::report::v1::series::Pair;
use longhaul_model::report::v1::{AnyReport, Caveat};
use std::collections::{BTreeMap, BTreeSet};

/// A set of runs and the text that selected it.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    pub text: String,
    pub runs: Vec<Taken>,
}

/// The result of a comparison of two sets.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    pub sides: [Side; 2],
    pub changes: Vec<Change>,
    pub caveats: Vec<Caveat>,
}

type Values = BTreeMap<(Pair, Quantity), Vec<f64>>;

/// Compares `a` with `b`. If the two sets share no pair of hosts, their pairs are treated as the
/// same one, named as in the first set.
pub fn compare(a: &mut Asked, b: &mut Asked) -> Compared {
    for side in [&mut *a, &mut *b] {
        let key = |run: &Taken| (run.at_us, run.run_id.clone());
        side.runs.sort_by_key(key);
        side.runs.dedup_by(|x, y| x.run_id == y.run_id);
    }
    let mut caveats = Vec::new();
    let (before, mut after) = (values(&a.runs), values(&b.runs));
    if !after.is_empty() && before.keys().all(|key| !after.contains_key(key)) {
        after = renamed(&before, after, &mut caveats);
    }
    let keys: BTreeSet<_> = before.keys().chain(after.keys()).cloned().collect();
    let none = Vec::new();
    let mut changes: Vec<Change> = keys
        .iter()
        .filter_map(|(pair, quantity)| {
            let key = (pair.clone(), *quantity);
            let of = |side: &Values| side.get(&key).unwrap_or(&none).clone();
            change::of(pair, *quantity, &of(&before), &of(&after))
        })
        .collect();
    changes.sort_by_key(|change| (change.quantity, change.pair.clone()));
    change::adjust(changes.iter_mut());
    caveats.extend(shared(a, b));
    caveats.extend(settings_differ(a, b));
    caveats.extend(single(a, b, &changes));
    Compared {
        sides: [side(a), side(b)],
        changes,
        caveats,
    }
}

fn side(asked: &Asked) -> Side {
    let times = || asked.runs.iter().map(|run| run.at_us);
    Side {
        asked: asked.text.clone(),
        run_ids: asked.runs.iter().map(|run| run.run_id.clone()).collect(),
        period: times()
            .min()
            .zip(times().max())
            .map(|(begin_us, last)| Period {
                begin_us,
                end_us: last.saturating_add(1),
            }),
    }
}

fn values(runs: &[Taken]) -> Values {
    let mut found: Values = BTreeMap::new();
    for run in runs {
        let mut report = run.report.clone();
        // A probe of a scan that is selected by name counts as a run.
        if let AnyReport::Throughput(report) = &mut report {
            report.run.part_of = None;
        }
        for (pair, quantity, point) in points_of(&report, Some(&run.near), Some(&run.far)) {
            found.entry((pair, quantity)).or_default().push(point.value);
        }
    }
    found
}

/// Renames the hosts of the second set, as to compare the runs before and after a host's upgrade:
/// directions count, names do not. Applies only if each set has a single pair of hosts.
fn renamed(before: &Values, after: Values, caveats: &mut Vec<Caveat>) -> Values {
    let hosts = |side: &Values| -> BTreeSet<BTreeSet<String>> {
        side.keys()
            .map(|(pair, _)| [pair.from.clone(), pair.to.clone()].into())
            .collect()
    };
    if hosts(before).len() != 1 || hosts(&after).len() != 1 {
        return after;
    }
    let first = |side: &Values| side.keys().next().map(|(pair, _)| pair.clone());
    let (Some(mine), Some(theirs)) = (first(before), first(&after)) else {
        return after;
    };
    caveats.push(Caveat::new(
        "other_hosts",
        format!(
            "the two sets are of different hosts: {} > {} and {} > {}",
            mine.from, mine.to, theirs.from, theirs.to
        ),
    ));
    let renamed = |pair: &Pair| {
        if *pair == theirs {
            mine.clone()
        } else {
            super::reversed(&mine)
        }
    };
    let entries = after.into_iter();
    entries
        .map(|((pair, quantity), values)| ((renamed(&pair), quantity), values))
        .collect()
}

fn shared(a: &Asked, b: &Asked) -> Option<Caveat> {
    let of_a: BTreeSet<&str> = a.runs.iter().map(|run| run.run_id.as_str()).collect();
    let both = b
        .runs
        .iter()
        .filter(|run| of_a.contains(run.run_id.as_str()));
    let count = both.count();
    (count > 0).then(|| {
        Caveat::new(
            "shared_runs",
            format!("{count} of the runs are in both sets, which hides what differs"),
        )
    })
}

fn settings_differ(a: &Asked, b: &Asked) -> Option<Caveat> {
    let of = |side: &Asked| -> BTreeSet<_> {
        let runs = side.runs.iter();
        runs.filter_map(|run| match &run.report {
            AnyReport::Throughput(report) => Some(super::settings::of_plan(&report.plan)),
            _ => None,
        })
        .collect()
    };
    let (of_a, of_b) = (of(a), of(b));
    (!of_a.is_empty() && !of_b.is_empty() && of_a != of_b).then(|| {
        Caveat::new(
            "different_settings",
            "the bulk runs of the two sets were made with different settings",
        )
    })
}

/// Returns a caveat if a test needs more values; compares single runs by their own intervals.
fn single(a: &Asked, b: &Asked, changes: &[Change]) -> Option<Caveat> {
    let cannot = changes
        .iter()
        .any(|change| change.verdict == Verdict::CannotTell);
    if !cannot {
        return None;
    }
    let interval = |side: &Asked| match side.runs.as_slice() {
        [run] => match &run.report {
            AnyReport::Throughput(report) => report.analysis.goodput_interval_bps,
            _ => None,
        },
        _ => None,
    };
    let text = match interval(a).zip(interval(b)) {
        Some(([a_low, a_high], [b_low, b_high])) if a_high < b_low || b_high < a_low => {
            "the steady parts of the two runs lie apart by more than they swing; whether the next \
             runs would, too few values can tell: four and four at least"
        }
        Some(_) => {
            "the two runs differ by no more than each swings within itself; more runs would say more"
        }
        None => "so few values cannot tell a change from chance: four and four are the least",
    };
    Some(Caveat::new("too_few_values", text))
}

#[cfg(test)]
mod tests {
    use super::super::sketch;
    use super::*;

    fn asked(text: &str, rates_bps: &[f64], from: i64) -> Asked {
        let mut sketch = sketch::Archive::default();
        for (minute, bps) in (from..).zip(rates_bps) {
            sketch.run(minute, true, *bps);
        }
        Asked {
            text: text.to_owned(),
            runs: sketch.runs,
        }
    }

    #[test]
    fn two_sets_are_tested_and_two_runs_are_not() {
        let mut a = asked("before", &[100e6, 101e6, 99e6, 102e6, 98e6], 0);
        let mut b = asked("after", &[90e6, 91e6, 89e6, 92e6, 88e6], 100);
        let found = compare(&mut a, &mut b);
        let goodput = &found.changes[0];
        assert_eq!(
            (goodput.quantity, goodput.verdict),
            (Quantity::Goodput, Verdict::Fell)
        );
        assert_eq!(found.sides[1].run_ids.len(), 5);
        let found = compare(&mut asked("a", &[100e6], 0), &mut asked("b", &[50e6], 9));
        assert_eq!(found.changes[0].verdict, Verdict::CannotTell);
        assert_eq!(found.caveats[0].code, "too_few_values");
    }

    #[test]
    fn the_same_runs_twice_and_other_hosts_are_said() {
        let (mut a, mut b) = (asked("a", &[1e6; 5], 0), asked("b", &[1e6; 5], 0));
        let codes = |found: &Compared| -> Vec<String> {
            found.caveats.iter().map(|c| c.code.clone()).collect()
        };
        assert_eq!(codes(&compare(&mut a, &mut b)), ["shared_runs"]);
        let mut c = asked("c", &[1e6; 5], 50);
        for run in &mut c.runs {
            run.far = String::from("lyon");
        }
        let found = compare(&mut a, &mut c);
        assert_eq!(codes(&found), ["other_hosts"]);
        assert_eq!(found.changes[0].verdict, Verdict::NoChangeSeen);
    }
}
