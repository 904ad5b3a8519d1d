//! Tables over two shards: hours of values, and retention.

use crate::fleet::{Fleet, ask, wait_for};
use crate::{MIDNIGHT_US, connect, run};
use longhaul_clickhouse::ClickHouseOptions;
use longhaul_model::report::v1::HostPair;
use longhaul_store::history_store::{AgentDelivery, IncomingRun, PlannedOutcome, PlannedRun};

/// Each has a pair of its own, so that both shards have some.
const SENDERS: i64 = 12;
const HOURS: i64 = 6;
/// The values of each pair in an hour.
const VALUES: i64 = 6;
const HOUR_US: i64 = 3_600_000_000;
/// Within an hour.
const CUT_US: i64 = MIDNIGHT_US + 2 * HOUR_US + HOUR_US / 2;

/// A value of a pair, which is 1000 for each sender and 1 for each step of time.
#[derive(Debug, Clone, Copy)]
struct SentValue {
    sender: i64,
    step: i64,
}

impl SentValue {
    fn all() -> impl Iterator<Item = SentValue> {
        let steps = |sender| (0..HOURS * VALUES).map(move |step| SentValue { sender, step });
        (0..SENDERS).flat_map(steps)
    }

    fn at_us(self) -> i64 {
        MIDNIGHT_US + self.step * HOUR_US / VALUES
    }

    fn number(self) -> i64 {
        self.sender * 1000 + self.step
    }

    fn pair(self) -> HostPair {
        HostPair { from: format!("host-{:02}", self.sender), to: String::from("geneva") }
    }

    fn run(self) -> IncomingRun {
        let mut run = run(self.number());
        run.at_us = self.at_us();
        run.pairs = vec![self.pair()];
        run.readings[0].pair = self.pair();
        run.readings[0].point.at_us = self.at_us();
        run
    }

    fn planned(self) -> PlannedRun {
        PlannedRun {
            id: format!("planned-{:06}", self.number()),
            due_us: self.at_us(),
            measurement: String::from("bulk"),
            pair: Some(self.pair()),
            outcome: Some(PlannedOutcome::Done { run_id: self.run().run.id }),
        }
    }
}

/// Lists the times in a table, in order.
fn list_times(options: &ClickHouseOptions, table: &str, column: &str) -> Option<String> {
    let rows = if table == "run" { "WHERE sender != ''" } else { "" };
    ask(options, &format!("SELECT {column} FROM {table} FINAL {rows} ORDER BY {column}"))
}

/// Lists the hours as the rollup should have them: samples, min, median and max.
fn expected_hours() -> String {
    let hour = |sender: i64, hour: i64| {
        let first = SentValue { sender, step: hour * VALUES };
        let (least, since_1970) = (first.number(), first.at_us() / HOUR_US);
        let middle = least as f64 + (VALUES - 1) as f64 / 2.0;
        let (from, most) = (first.pair().from, least + VALUES - 1);
        format!("{from}\t{since_1970}\t{VALUES}\t{least}\t{middle}\t{most}")
    };
    let hours = (0..SENDERS).flat_map(|sender| (0..HOURS).map(move |it| hour(sender, it)));
    hours.collect::<Vec<_>>().join("\n")
}

fn list_hours(options: &ClickHouseOptions) -> Option<String> {
    ask(
        options,
        "SELECT sender, hour, countMerge(samples), minMerge(least), quantileMerge(0.5)(middle), \
         maxMerge(most) FROM hourly GROUP BY sender, hour ORDER BY sender, hour",
    )
}

#[test]
fn hours_are_those_of_the_values_and_retention_deletes_on_both_shards() {
    let fleet = Fleet::start(2);
    let both = fleet.options(&[0, 1]);
    let mut sink = connect(both.clone());
    let runs = SentValue::all().map(SentValue::run).collect();
    let planned = SentValue::all().map(SentValue::planned).collect();
    let delivery = AgentDelivery { runs, planned, ..AgentDelivery::default() };
    sink.receive(&delivery).expect("stored");
    let count_local = |shard: usize, table: &str| {
        let count = ask(&fleet.options(&[shard]), &format!("SELECT count() FROM {table}_local"));
        count.and_then(|it| it.parse::<i64>().ok()).expect("a count")
    };
    let tables = [("value", "at_us"), ("run", "at_us"), ("report", "at_us"), ("planned", "due_us")];
    for (table, _) in tables.iter().chain(&[("hourly", "")]) {
        assert!(count_local(0, table) > 0 && count_local(1, table) > 0, "{table}");
    }
    assert_eq!(list_hours(&both), Some(expected_hours()));

    sink.delete_before(CUT_US).expect("deleted");
    let mut kept: Vec<i64> = SentValue::all().map(SentValue::at_us).collect();
    kept.retain(|at_us| *at_us >= CUT_US);
    kept.sort_unstable();
    let kept = kept.iter().map(i64::to_string).collect::<Vec<_>>().join("\n");
    for (table, column) in tables {
        // The servers delete in the background.
        wait_for("the deletion", || list_times(&both, table, column).as_ref() == Some(&kept));
    }
    assert_eq!(list_hours(&both), Some(expected_hours()), "hours stay");
}
