//! Reads series: single values if they are few, otherwise buckets, which the server computes up to
//! a length of one hour.

use crate::clickhouse_schema::quote_identifier;
use crate::database_client::DatabaseClient;
use crate::planned_run_rows::clamp_range;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::series::{HostPair, SeriesBucket, SeriesPoint};
use longhaul_store::StoreError;
use longhaul_store::history_store::TimeRange;
use longhaul_store::history_store::time_buckets::{self, HOUR_US};
use std::collections::HashSet;

type QueriedSeries = (Vec<SeriesPoint>, Vec<SeriesBucket>);

/// Returns the condition for values of hours that are not closed. It names the database because
/// another shard may use a different current database.
fn open_values_condition(database: &str) -> String {
    format!(
        "quantity = ? AND sender = ? AND receiver = ? AND at_us >= ? AND at_us < ? \
         AND intDiv(at_us, 3600000000) NOT IN (SELECT hour FROM {}.closed_hour \
             WHERE quantity = ? AND sender = ? AND receiver = ?)",
        quote_identifier(database)
    )
}

/// The requested part of a series, which may be empty.
struct SeriesQuery<'a> {
    reach: &'a DatabaseClient,
    /// The condition of [`open_values_condition`].
    open: String,
    quantity: PathQuantity,
    pair: &'a HostPair,
    begin_us: i64,
    end_us: i64,
}

/// Returns points, or buckets, or buckets followed by points where single values are no longer
/// stored.
pub fn read_series(
    client: &DatabaseClient,
    of: (&HostPair, PathQuantity),
    range: TimeRange,
    at_most: u32,
) -> Result<QueriedSeries, StoreError> {
    let (begin_us, end_us) = clamp_range(range);
    let part = SeriesQuery {
        reach: client,
        open: open_values_condition(&client.options.database),
        quantity: of.1,
        pair: of.0,
        begin_us,
        end_us,
    };
    let (hours, first_hour, last_hour) = part.closed_extent()?;
    let (values, first_us, last_us) = part.open_extent()?;
    if values + hours <= u64::from(at_most) {
        return part.points_and_closed();
    }
    let first_us = [(hours, first_hour * HOUR_US), (values, first_us)];
    let last_us = [(hours, last_hour * HOUR_US), (values, last_us)];
    let some = |(count, us): &(u64, i64)| (*count > 0).then_some(*us);
    let first = first_us.iter().filter_map(some).min().unwrap_or(0);
    let last = last_us.iter().filter_map(some).max().unwrap_or(0);
    let span = time_buckets::choose_span_us(first, last, at_most);
    let all = part.open_and_closed(span.min(HOUR_US))?;
    if span > HOUR_US {
        return Ok((Vec::new(), time_buckets::widen_buckets(&all, span)));
    }
    Ok((Vec::new(), all))
}

impl SeriesQuery<'_> {
    /// Returns the number of closed hours, the first and the last. A closed hour belongs to the
    /// part that contains its start.
    fn closed_extent(&self) -> Result<(u64, i64, i64), StoreError> {
        self.reach.request("read the extent of the series", |at| async move {
            let sql = "SELECT toUInt64(uniqExact(hour)), min(hour), max(hour) FROM closed_hour \
                       WHERE quantity = ? AND sender = ? AND receiver = ? \
                       AND hour >= ? AND hour < ?";
            let query = at.query(sql).bind(self.quantity.word());
            let query = query.bind(&self.pair.from).bind(&self.pair.to);
            let query = query.bind(round_up_to_hour(self.begin_us));
            query.bind(round_up_to_hour(self.end_us)).fetch_one().await
        })
    }

    fn open_extent(&self) -> Result<(u64, i64, i64), StoreError> {
        let open = &self.open;
        let sql = format!(
            "SELECT toUInt64(count()), min(at_us), max(at_us) FROM value FINAL WHERE {open}"
        );
        let sql = &sql;
        self.reach.request("read the extent of the series", |at| async move {
            self.bind_parameters(at.query(sql)).fetch_one().await
        })
    }

    fn bind_parameters(&self, query: clickhouse::query::Query) -> clickhouse::query::Query {
        let HostPair { from, to } = self.pair;
        let query = query.bind(self.quantity.word()).bind(from).bind(to);
        let query = query.bind(self.begin_us).bind(self.end_us);
        query.bind(self.quantity.word()).bind(from).bind(to)
    }

    /// Reads values before closed hours, and drops values of an hour that was closed in between, so
    /// that nothing is missing or counted twice.
    fn points_and_closed(&self) -> Result<QueriedSeries, StoreError> {
        let open = &self.open;
        let sql = format!("SELECT at_us, value FROM value FINAL WHERE {open} ORDER BY at_us");
        let sql = &sql;
        let rows: Vec<(i64, f64)> = self.reach.request("read the series", |at| async move {
            self.bind_parameters(at.query(sql)).fetch_all().await
        })?;
        let closed = self.closed_hours()?;
        let is_open = open_hour_filter(&closed);
        let points = rows
            .into_iter()
            .filter(|(at_us, _)| is_open(*at_us))
            .map(|(at_us, value)| SeriesPoint { at_us, value })
            .collect();
        Ok((points, closed))
    }

    /// Returns buckets of at most one hour computed from values, merged with the closed hours.
    fn open_and_closed(&self, span_us: i64) -> Result<Vec<SeriesBucket>, StoreError> {
        let open = &self.open;
        let sql = format!(
            "SELECT begin_us, toUInt32(length(sorted)) AS samples, sorted[1], \
             sorted[intDiv(samples + 1, 2)] / 2 + sorted[intDiv(samples, 2) + 1] / 2, sorted[-1] \
             FROM (SELECT intDiv(at_us, {span_us}) * {span_us} AS begin_us, \
                          arraySort(groupArray(value)) AS sorted \
                   FROM value FINAL WHERE {open} GROUP BY begin_us) ORDER BY begin_us"
        );
        let sql = &sql;
        let rows: Vec<BucketTuple> = self.reach.request("read the series", |at| async move {
            self.bind_parameters(at.query(sql)).fetch_all().await
        })?;
        let closed = self.closed_hours()?;
        let is_open = open_hour_filter(&closed);
        let mut found: Vec<SeriesBucket> = rows
            .into_iter()
            .filter(|row| is_open(row.0))
            .map(|row| to_bucket(row, span_us))
            .collect();
        found.extend(closed);
        found.sort_by_key(|bucket| bucket.at_us);
        Ok(found)
    }

    fn closed_hours(&self) -> Result<Vec<SeriesBucket>, StoreError> {
        let rows: Vec<BucketTuple> =
            self.reach.request("read the closed hours", |at| async move {
                let sql = "SELECT hour * 3600000000, samples, least, middle, most \
                       FROM closed_hour FINAL \
                       WHERE quantity = ? AND sender = ? AND receiver = ? \
                       AND hour >= ? AND hour < ? ORDER BY hour";
                let query = at.query(sql).bind(self.quantity.word());
                let query = query.bind(&self.pair.from).bind(&self.pair.to);
                let query = query.bind(round_up_to_hour(self.begin_us));
                query.bind(round_up_to_hour(self.end_us)).fetch_all().await
            })?;
        Ok(rows.into_iter().map(|row| to_bucket(row, HOUR_US)).collect())
    }
}

/// Start, samples, minimum, median, maximum.
type BucketTuple = (i64, u32, f64, f64, f64);

fn to_bucket((at_us, samples, min, median, max): BucketTuple, span_us: i64) -> SeriesBucket {
    SeriesBucket { at_us, duration_us: span_us as u64, samples, min, median, max }
}

/// Returns a filter for times outside of these closed hours.
fn open_hour_filter(closed: &[SeriesBucket]) -> impl Fn(i64) -> bool + use<> {
    let hours: HashSet<i64> = closed.iter().map(|it| it.at_us.div_euclid(HOUR_US)).collect();
    move |at_us| !hours.contains(&at_us.div_euclid(HOUR_US))
}

/// Returns the first hour that starts at or after this time.
fn round_up_to_hour(us: i64) -> i64 {
    us.saturating_add(HOUR_US - 1).div_euclid(HOUR_US)
}
