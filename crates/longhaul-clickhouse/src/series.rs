//! Reads series: single values if they are few, otherwise buckets, which the server computes up to
//! a length of one hour.

use crate::planned::within;
use crate::reach::Reach;
use crate::schema::quoted;
use longhaul_model::report::v1::quantity::Quantity;
use longhaul_model::report::v1::series::{Bucket, Pair, Point};
use longhaul_store::StoreError;
use longhaul_store::watched::Range;
use longhaul_store::watched::buckets::{self, HOUR_US};
use std::collections::HashSet;

type Both = (Vec<Point>, Vec<Bucket>);

/// Returns the condition for values of hours that are not closed. It names the database because
/// another shard may use a different current database.
fn open_values(database: &str) -> String {
    format!(
        "quantity = ? AND sender = ? AND receiver = ? AND at_us >= ? AND at_us < ? \
         AND intDiv(at_us, 3600000000) NOT IN (SELECT hour FROM {}.closed_hour \
             WHERE quantity = ? AND sender = ? AND receiver = ?)",
        quoted(database)
    )
}

/// The requested part of a series, which may be empty.
struct Part<'a> {
    reach: &'a Reach,
    /// The condition of [`open_values`].
    open: String,
    quantity: Quantity,
    pair: &'a Pair,
    begin_us: i64,
    end_us: i64,
}

/// Returns points, or buckets, or buckets followed by points where single values are no longer
/// stored.
pub fn series(
    reach: &Reach,
    of: (&Pair, Quantity),
    range: Range,
    at_most: u32,
) -> Result<Both, StoreError> {
    let (begin_us, end_us) = within(range);
    let part = Part {
        reach,
        open: open_values(&reach.options.database),
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
    let span = buckets::span_us(first, last, at_most);
    let all = part.open_and_closed(span.min(HOUR_US))?;
    if span > HOUR_US {
        return Ok((Vec::new(), buckets::widened(&all, span)));
    }
    Ok((Vec::new(), all))
}

impl Part<'_> {
    /// Returns the number of closed hours, the first and the last. A closed hour belongs to the
    /// part that contains its start.
    fn closed_extent(&self) -> Result<(u64, i64, i64), StoreError> {
        self.reach
            .ask("read the extent of the series", |at| async move {
                let sql = "SELECT toUInt64(uniqExact(hour)), min(hour), max(hour) FROM closed_hour \
                       WHERE quantity = ? AND sender = ? AND receiver = ? \
                       AND hour >= ? AND hour < ?";
                let query = at.query(sql).bind(self.quantity.word());
                let query = query.bind(&self.pair.from).bind(&self.pair.to);
                let query = query.bind(up_to_hour(self.begin_us));
                query.bind(up_to_hour(self.end_us)).fetch_one().await
            })
    }

    fn open_extent(&self) -> Result<(u64, i64, i64), StoreError> {
        let open = &self.open;
        let sql = format!(
            "SELECT toUInt64(count()), min(at_us), max(at_us) FROM value FINAL WHERE {open}"
        );
        let sql = &sql;
        self.reach
            .ask("read the extent of the series", |at| async move {
                self.bound(at.query(sql)).fetch_one().await
            })
    }

    fn bound(&self, query: clickhouse::query::Query) -> clickhouse::query::Query {
        let Pair { from, to } = self.pair;
        let query = query.bind(self.quantity.word()).bind(from).bind(to);
        let query = query.bind(self.begin_us).bind(self.end_us);
        query.bind(self.quantity.word()).bind(from).bind(to)
    }

    /// Reads values before closed hours, and drops values of an hour that was closed in between, so
    /// that nothing is missing or counted twice.
    fn points_and_closed(&self) -> Result<Both, StoreError> {
        let open = &self.open;
        let sql = format!("SELECT at_us, value FROM value FINAL WHERE {open} ORDER BY at_us");
        let sql = &sql;
        let rows: Vec<(i64, f64)> = self.reach.ask("read the series", |at| async move {
            self.bound(at.query(sql)).fetch_all().await
        })?;
        let closed = self.closed()?;
        let is_open = open_after(&closed);
        let points = rows
            .into_iter()
            .filter(|(at_us, _)| is_open(*at_us))
            .map(|(at_us, value)| Point { at_us, value })
            .collect();
        Ok((points, closed))
    }

    /// Returns buckets of at most one hour computed from values, merged with the closed hours.
    fn open_and_closed(&self, span_us: i64) -> Result<Vec<Bucket>, StoreError> {
        let open = &self.open;
        let sql = format!(
            "SELECT begin_us, toUInt32(length(sorted)) AS samples, sorted[1], \
             sorted[intDiv(samples + 1, 2)] / 2 + sorted[intDiv(samples, 2) + 1] / 2, sorted[-1] \
             FROM (SELECT intDiv(at_us, {span_us}) * {span_us} AS begin_us, \
                          arraySort(groupArray(value)) AS sorted \
                   FROM value FINAL WHERE {open} GROUP BY begin_us) ORDER BY begin_us"
        );
        let sql = &sql;
        let rows: Vec<Kept> = self.reach.ask("read the series", |at| async move {
            self.bound(at.query(sql)).fetch_all().await
        })?;
        let closed = self.closed()?;
        let is_open = open_after(&closed);
        let mut found: Vec<Bucket> = rows
            .into_iter()
            .filter(|row| is_open(row.0))
            .map(|row| bucket(row, span_us))
            .collect();
        found.extend(closed);
        found.sort_by_key(|bucket| bucket.at_us);
        Ok(found)
    }

    fn closed(&self) -> Result<Vec<Bucket>, StoreError> {
        let rows: Vec<Kept> = self.reach.ask("read the closed hours", |at| async move {
            let sql = "SELECT hour * 3600000000, samples, least, middle, most \
                       FROM closed_hour FINAL \
                       WHERE quantity = ? AND sender = ? AND receiver = ? \
                       AND hour >= ? AND hour < ? ORDER BY hour";
            let query = at.query(sql).bind(self.quantity.word());
            let query = query.bind(&self.pair.from).bind(&self.pair.to);
            let query = query.bind(up_to_hour(self.begin_us));
            query.bind(up_to_hour(self.end_us)).fetch_all().await
        })?;
        Ok(rows.into_iter().map(|row| bucket(row, HOUR_US)).collect())
    }
}

/// Start, samples, minimum, median, maximum.
type Kept = (i64, u32, f64, f64, f64);

fn bucket((at_us, samples, min, median, max): Kept, span_us: i64) -> Bucket {
    Bucket {
        at_us,
        duration_us: span_us as u64,
        samples,
        min,
        median,
        max,
    }
}

/// Returns a filter for times outside of these closed hours.
fn open_after(closed: &[Bucket]) -> impl Fn(i64) -> bool + use<> {
    let hours: HashSet<i64> = closed
        .iter()
        .map(|it| it.at_us.div_euclid(HOUR_US))
        .collect();
    move |at_us| !hours.contains(&at_us.div_euclid(HOUR_US))
}

/// Returns the first hour that starts at or after this time.
fn up_to_hour(us: i64) -> i64 {
    us.saturating_add(HOUR_US - 1).div_euclid(HOUR_US)
}
