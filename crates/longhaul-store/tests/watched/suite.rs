//! What the cases are made of.

use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::series::{HostPair, QuantitySeries, SeriesBucket, SeriesPoint};
use longhaul_model::report::v1::{AnyReport, ThroughputReport};
use longhaul_store::HistoryStore;
use longhaul_store::history_store::{IncomingRun, SeriesReading, TimeRange};

/// An archive of a test's own, empty at first.
pub trait Place {
    /// A connection to it; each one sees what the others have written.
    fn open(&self) -> Box<dyn HistoryStore>;
}

/// The tests of everything that a [`HistoryStore`] promises; `$fresh` gives a new [`Place`].
macro_rules! suite {
    ($fresh:path) => {
        suite!($fresh; written:
            a_batch_said_twice_changes_nothing,
            a_run_under_a_taken_id_is_named_and_the_rest_lands,
            what_is_written_is_there_for_the_next_connection,
            an_empty_archive_answers_with_nothing,
            runs_are_found_by_pair_kind_and_time,
            planned_runs_end_as_done_or_missed_and_add_up,
            an_event_is_one_entry_however_often_it_is_said,
            the_grid_has_every_pair_with_its_newest_value,
        );
        suite!($fresh; times:
            few_values_come_as_they_are_and_in_order,
            batches_in_any_order_give_the_same_series,
            a_late_batch_corrects_its_hour,
            many_values_become_buckets_that_keep_extremes,
            neighbouring_ranges_share_no_value_and_lose_none,
            a_clock_that_goes_back_leaves_the_newest_value_in_place,
            old_values_go_and_their_hours_stay,
            hours_of_old_values_go_when_they_are_old_too,
            a_closed_hour_is_not_counted_twice,
            retention_takes_what_is_old_of_runs_and_plans,
        );
        suite!($fresh; sent:
            names_are_kept_letter_for_letter,
            what_is_beyond_the_limits_is_refused_with_its_whole_batch,
            an_event_or_plan_beyond_the_limits_is_refused,
            what_another_agent_sends_may_come_twice_and_out_of_order,
        );
    };
    ($fresh:path; $module:ident: $($case:ident,)+) => {
        $(#[test]
        fn $case() {
            crate::$module::$case($fresh().as_ref());
        })+
    };
}

pub const HOUR_US: i64 = 3_600_000_000;
pub const DAY_US: i64 = 24 * HOUR_US;

/// 2026-11-22T00:00:00Z, the start of an hour.
pub const MIDNIGHT_US: i64 = 1_795_305_600_000_000;

const FIXTURE: &str = include_str!("../../../../fixtures/reports/slac-daresbury-window.json");

pub fn pair(from: &str, to: &str) -> HostPair {
    HostPair { from: from.to_owned(), to: to.to_owned() }
}

pub fn geneva() -> HostPair {
    pair("losangeles", "geneva")
}

/// A run of this id with one value of goodput.
pub fn run(id: &str, at_us: i64, value: f64) -> IncomingRun {
    let mut report: ThroughputReport = serde_json::from_str(FIXTURE).expect("a report");
    report.run.id = String::from(id);
    let mut run =
        IncomingRun::from_report(&AnyReport::Throughput(Box::new(report)), at_us).expect("text");
    run.pairs = vec![geneva()];
    run.readings = vec![SeriesReading {
        pair: geneva(),
        quantity: PathQuantity::Goodput,
        point: SeriesPoint { at_us, value },
    }];
    run
}

/// One run for each value; ids are of the times.
pub fn runs(values: &[(i64, f64)]) -> Vec<IncomingRun> {
    values.iter().map(|&(at_us, value)| run(&format!("run-{at_us}"), at_us, value)).collect()
}

pub fn goodput(archive: &dyn HistoryStore, range: TimeRange, at_most: u32) -> QuantitySeries {
    archive.series(&geneva(), PathQuantity::Goodput, range, at_most).expect("a series")
}

/// All values as they are.
pub fn points(archive: &dyn HistoryStore) -> Vec<(i64, f64)> {
    let series = goodput(archive, TimeRange::ALL, 100_000);
    assert_eq!(series.buckets, []);
    let values = series.points.iter();
    values.map(|point| (point.at_us, point.value)).collect()
}

/// The hour that begins so many hours after [`MIDNIGHT_US`], as one bucket.
pub fn hour(after: i64, samples: u32, [min, median, max]: [f64; 3]) -> SeriesBucket {
    SeriesBucket {
        at_us: MIDNIGHT_US + after * HOUR_US,
        duration_us: HOUR_US as u64,
        samples,
        min,
        median,
        max,
    }
}
