//! Series: order, lateness, buckets, retention.

use crate::archive_queries::{DAY_US, goodput, hour, points};
use crate::history_cases::{HOUR_US, MIDNIGHT_US, geneva, pair, run, runs};
use crate::temporary_archive::TemporaryArchive;
use longhaul_model::report::v1::QuantitySeries;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::flows::LimitedTransfers;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_store::Archive;
use longhaul_store::history_store::{
    PlannedOutcome, PlannedRun, PlannedRunFilter, RetentionPolicy, RunFilter, TimeRange,
};
use std::time::Duration;

const DAY: Duration = Duration::from_secs(86_400);

/// Evenly over hours, with values that do not repeat soon.
fn every(step_us: i64, count: i64) -> Vec<(i64, f64)> {
    (0..count).map(|i| (MIDNIGHT_US + i * step_us, f64::from((i * 7919 % 1009) as i32))).collect()
}

fn samples(series: &QuantitySeries) -> u64 {
    let bucketed: u64 = series.buckets.iter().map(|it| u64::from(it.samples)).sum();
    bucketed + series.points.len() as u64
}

#[test]
fn few_values_come_as_they_are_and_in_order() {
    let place = TemporaryArchive::new();
    let mut archive = place.open();
    let mut values = every(60_000_000, 50);
    values.reverse();
    archive.append_runs(&runs(&values)).unwrap();
    values.reverse();
    assert_eq!(points(&archive), values);
    let range = TimeRange { begin_us: values[10].0, end_us: values[20].0 };
    let part = goodput(&archive, range, 1000);
    assert_eq!(part.points.len(), 10, "the end is not part of the range");
    assert_eq!(part.points[0].at_us, values[10].0);
}

#[test]
fn batches_in_any_order_give_the_same_series() {
    let place = TemporaryArchive::new();
    let mut archive = place.open();
    let values = every(600_000_000, 300);
    // Three interleaved parts, the last first, each overlapping the next.
    for part in [2, 0, 1, 2] {
        let mine: Vec<_> = (0..values.len())
            .filter(|i| i % 3 == part || i % 5 == part)
            .map(|i| values[i])
            .collect();
        archive.append_runs(&runs(&mine)).unwrap();
    }
    assert_eq!(points(&archive), values);
    let hourly = goodput(&archive, TimeRange::ALL, 60);
    assert_eq!(hourly.buckets.len(), 50);
    for (bucket, group) in hourly.buckets.iter().zip(values.chunks(6)) {
        let mut sorted: Vec<f64> = group.iter().map(|(_, value)| *value).collect();
        sorted.sort_by(f64::total_cmp);
        assert_eq!((bucket.min, bucket.max), (sorted[0], sorted[5]));
        assert_eq!(bucket.median, f64::midpoint(sorted[2], sorted[3]));
    }
}

#[test]
fn a_late_batch_corrects_its_hour() {
    let place = TemporaryArchive::new();
    let mut archive = place.open();
    let minute = 60_000_000;
    let early = [(MIDNIGHT_US, 4.0), (MIDNIGHT_US + minute, 8.0)];
    archive.append_runs(&runs(&early)).unwrap();
    // Later hours let the archive count the first one.
    for i in 1..5 {
        let at_us = MIDNIGHT_US + i * HOUR_US;
        archive.append_runs(&runs(&[(at_us, 1.0), (at_us + minute, 1.0)])).unwrap();
    }
    let first = |archive: &Archive| goodput(archive, TimeRange::ALL, 6).buckets[0];
    assert_eq!(first(&archive), hour(0, 2, [4.0, 6.0, 8.0]));
    let late = [
        (MIDNIGHT_US + 2 * minute, 10.0),
        (MIDNIGHT_US + 3 * minute, 1.0),
        (MIDNIGHT_US + 4 * minute, 9.0),
    ];
    let landed = archive.append_runs(&runs(&late)).unwrap();
    assert_eq!((landed.new, landed.late_values), (3, 0));
    assert_eq!(first(&archive), hour(0, 5, [1.0, 8.0, 10.0]));
    archive.append_runs(&runs(&late)).unwrap();
    assert_eq!(first(&archive), hour(0, 5, [1.0, 8.0, 10.0]));
}

#[test]
fn many_values_become_buckets_that_keep_extremes() {
    let place = TemporaryArchive::new();
    let mut archive = place.open();
    let mut values = every(300_000_000, 3000);
    values[1234].1 = -5.0;
    values[2345].1 = 5000.0;
    archive.append_runs(&runs(&values)).unwrap();
    for at_most in [2, 3, 10, 99, 250, 251, 700, 2999] {
        let series = goodput(&archive, TimeRange::ALL, at_most);
        let buckets = &series.buckets;
        assert!(buckets.len() <= at_most as usize, "{at_most}");
        assert_eq!(samples(&series), 3000, "{at_most}");
        let least = buckets.iter().map(|it| it.min).fold(f64::MAX, f64::min);
        let most = buckets.iter().map(|it| it.max).fold(f64::MIN, f64::max);
        assert_eq!((least, most), (-5.0, 5000.0), "{at_most}");
        assert!(buckets.is_sorted_by_key(|it| it.at_us));
        assert!(buckets.iter().all(|it| it.min <= it.median && it.median <= it.max));
    }
    assert_eq!(goodput(&archive, TimeRange::ALL, 3000).points.len(), 3000);
}

#[test]
fn neighbouring_ranges_share_no_value_and_lose_none() {
    let place = TemporaryArchive::new();
    let mut archive = place.open();
    archive.append_runs(&runs(&every(210_000_000, 600))).unwrap();
    let keep = RetentionPolicy { runs: Duration::from_secs(12 * 3600), hours: Duration::MAX };
    // The first half is closed, the second is not.
    archive.retain(MIDNIGHT_US + 30 * HOUR_US, &keep).unwrap();
    for at_most in [2, 7, 40, 400, 10_000] {
        let cuts = [0, 1, 3_333, 9_000, 17_777, 20_000, 31_000, 36_000, 99_999];
        let total: u64 = cuts
            .windows(2)
            .map(|cut| {
                let range = TimeRange {
                    begin_us: MIDNIGHT_US + cut[0] * 3_600_000,
                    end_us: MIDNIGHT_US + cut[1] * 3_600_000,
                };
                samples(&goodput(&archive, range, at_most))
            })
            .sum();
        assert_eq!(total, 600, "{at_most}");
    }
}

#[test]
fn a_clock_that_goes_back_leaves_the_newest_value_in_place() {
    let place = TemporaryArchive::new();
    let mut archive = place.open();
    // A day ahead, then set right.
    for (at_us, value) in
        [(MIDNIGHT_US, 1.0), (MIDNIGHT_US + DAY_US, 2.0), (MIDNIGHT_US + HOUR_US, 3.0)]
    {
        archive.append_runs(&runs(&[(at_us, value)])).unwrap();
    }
    let grid = archive.grid(PathQuantity::Goodput).unwrap();
    assert_eq!(grid[0].value.unwrap(), 2.0);
    let values: Vec<f64> = points(&archive).iter().map(|it| it.1).collect();
    assert_eq!(values, [1.0, 3.0, 2.0]);
}

#[test]
fn old_values_go_and_their_hours_stay() {
    let place = TemporaryArchive::new();
    let mut archive = place.open();
    let values = every(600_000_000, 6 * 72);
    archive.append_runs(&runs(&values)).unwrap();
    let before = goodput(&archive, TimeRange::ALL, 100).buckets;
    assert_eq!(before.len(), 72);
    let keep = RetentionPolicy { runs: DAY, hours: Duration::MAX };
    // Half past: the hour that is cut stays whole.
    let now_us = MIDNIGHT_US + 72 * HOUR_US + HOUR_US / 2;
    let removed = archive.retain(now_us, &keep).unwrap();
    assert_eq!((removed.values, removed.planned), (288, 0));
    assert_eq!(goodput(&archive, TimeRange::ALL, 100).buckets, before);
    let both = goodput(&archive, TimeRange::ALL, 1000);
    assert_eq!(both.buckets, before[..48]);
    let kept: Vec<_> = both.points.iter().map(|it| (it.at_us, it.value)).collect();
    assert_eq!(kept, values[288..]);
    assert_eq!(archive.retain(now_us, &keep).unwrap().values, 0);
    let grid = archive.grid(PathQuantity::Goodput).unwrap();
    assert_eq!(grid[0].value.unwrap(), values[431].1);
}

#[test]
fn hours_of_old_values_go_when_they_are_old_too() {
    let place = TemporaryArchive::new();
    let mut archive = place.open();
    let values = every(600_000_000, 6 * 72);
    archive.append_runs(&runs(&values)).unwrap();
    let before = goodput(&archive, TimeRange::ALL, 100).buckets;
    let now_us = MIDNIGHT_US + 72 * HOUR_US;
    // Hours are never forgotten before their values.
    for (hours, gone, left) in [(2 * DAY, 24, 24), (Duration::ZERO, 24, 48)] {
        let keep = RetentionPolicy { runs: DAY, hours };
        assert_eq!(archive.retain(now_us, &keep).unwrap().hours, gone);
        let both = goodput(&archive, TimeRange::ALL, 1000);
        assert_eq!(both.buckets, before[left..48]);
        assert_eq!(both.points.len(), 6 * 24);
        assert_eq!(archive.retain(now_us, &keep).unwrap().hours, 0);
    }
    let grid = archive.grid(PathQuantity::Goodput).unwrap();
    assert_eq!(grid[0].value.unwrap(), values[431].1);
}

#[test]
fn a_closed_hour_is_not_counted_twice() {
    let place = TemporaryArchive::new();
    let mut archive = place.open();
    let old = runs(&[(MIDNIGHT_US, 1.0), (MIDNIGHT_US + 1, 2.0), (MIDNIGHT_US + 2, 3.0)]);
    archive.append_runs(&old).unwrap();
    let keep = RetentionPolicy { runs: DAY, hours: Duration::MAX };
    let removed = archive.retain(MIDNIGHT_US + 3 * DAY_US, &keep).unwrap();
    assert_eq!((removed.values, removed.reports), (3, 3));
    // The same batch once more, and one run that nobody has seen.
    let landed = archive.append_runs(&old).unwrap();
    assert_eq!((landed.new, landed.late_values), (3, 3));
    let unseen = run("unseen", MIDNIGHT_US + 3, 99.0);
    assert_eq!(archive.append_runs(&[unseen]).unwrap().late_values, 1);
    // An hour of which nothing was known is taken, however old.
    let older = runs(&[(MIDNIGHT_US - DAY_US, 7.0)]);
    assert_eq!(archive.append_runs(&older).unwrap().late_values, 0);
    archive.retain(MIDNIGHT_US + 3 * DAY_US, &keep).unwrap();
    let series = goodput(&archive, TimeRange::ALL, 1000);
    assert_eq!(series.points, []);
    assert_eq!(series.buckets, [hour(-24, 1, [7.0; 3]), hour(0, 3, [1.0, 2.0, 3.0])]);
}

#[test]
fn retention_takes_what_is_old_of_runs_and_plans() {
    let place = TemporaryArchive::new();
    let mut archive = place.open();
    let mut with_two = run("two-pairs", MIDNIGHT_US, 1.0);
    with_two.pairs.push(pair("geneva", "losangeles"));
    let mut without = run("no-pair", MIDNIGHT_US, 1.0);
    (without.pairs, without.readings) = (vec![], vec![]);
    let mut young = run("young", MIDNIGHT_US + 5 * DAY_US, 1.0);
    young.transfers = ["2026-11-24", "2026-11-25"].map(transfers_of).into();
    archive.append_runs(&[with_two, without, young]).unwrap();
    let due = ["done", "missed", "waiting"].map(|id| PlannedRun {
        id: id.to_owned(),
        due_us: MIDNIGHT_US,
        measurement: "light".to_owned(),
        pair: Some(geneva()),
        outcome: None,
    });
    archive.add_planned(&due).unwrap();
    let (run_id, reason) = ("two-pairs".to_owned(), "budget".to_owned());
    archive.record_outcome("done", &PlannedOutcome::Done { run_id }).unwrap();
    archive.record_outcome("missed", &PlannedOutcome::Missed { reason, detail: None }).unwrap();
    let keep = RetentionPolicy { runs: 2 * DAY, hours: Duration::MAX };
    let removed = archive.retain(MIDNIGHT_US + 5 * DAY_US, &keep).unwrap();
    assert_eq!((removed.reports, removed.planned, removed.values), (2, 2, 1));
    let filter = RunFilter::newest(10);
    let left = archive.runs(&filter).unwrap();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].id, "young");
    assert_eq!(archive.report("no-pair").unwrap(), None);
    let filter = PlannedRunFilter { range: TimeRange::ALL, pair: None, state: None, limit: 10 };
    // What was never settled is not forgotten.
    let left = archive.planned(&filter).unwrap();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].id, "waiting");
    let mut days = Vec::new();
    let list_day = |it: LimitedTransfers| {
        days.push(it.day);
        true
    };
    archive.for_each_transfer_sum(TimeRange::ALL, list_day).unwrap();
    assert_eq!(days, ["2026-11-25"]);
}

fn transfers_of(day: &str) -> LimitedTransfers {
    LimitedTransfers {
        day: day.to_owned(),
        pair: pair("geneva/rclone", "192.0.2.7"),
        limiter: Limiter::Loss,
        transfers: 1,
        bytes: 1,
    }
}
