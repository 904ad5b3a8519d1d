//! The hourly series: hours are aggregated when their single values are deleted, and from these
//! values before that.

use crate::history_store::TimeRange;
use crate::history_store::time_buckets::{self, BucketBuilder, HOUR_US};
use longhaul_model::report::v1::series::{SeriesBucket, SeriesPoint};
use rusqlite::Transaction;

/// The number of hours before the latest one that define the usual value.
const USUAL_HOURS: i64 = 168;

/// The interval for updating the usual value, in hours.
const USUAL_INTERVAL_HOURS: i64 = 6;

/// The requested part of a series, which may be empty.
pub struct SeriesSlice<'a> {
    pub from: &'a Transaction<'a>,
    pub series: i64,
    pub range: TimeRange,
}

impl SeriesSlice<'_> {
    /// Returns the closed hours. A closed hour belongs to the part that contains its start.
    pub fn closed_hours(&self) -> rusqlite::Result<Vec<SeriesBucket>> {
        let TimeRange { begin_us, end_us } = self.range;
        self.from
            .prepare_cached(
                "SELECT hour, samples, min, median, max FROM hour \
                 WHERE series = ?1 AND hour >= ?2 AND hour < ?3 AND state = 2 ORDER BY hour",
            )?
            .query_map(
                (self.series, round_up_to_hour(begin_us), round_up_to_hour(end_us)),
                |row| {
                    Ok(SeriesBucket {
                        at_us: row.get::<_, i64>(0)? * HOUR_US,
                        duration_us: HOUR_US as u64,
                        samples: row.get(1)?,
                        min: row.get(2)?,
                        median: row.get(3)?,
                        max: row.get(4)?,
                    })
                },
            )?
            .collect()
    }

    /// Adds the buckets of the stored values to those of the closed hours, in time order.
    pub fn add_value_buckets(
        &self,
        mut closed: Vec<SeriesBucket>,
        span_us: i64,
    ) -> rusqlite::Result<Vec<SeriesBucket>> {
        let mut gather = BucketBuilder::new(span_us);
        self.for_each_point(|point| gather.push(point))?;
        closed.extend(gather.finish());
        closed.sort_by_key(|bucket| bucket.at_us);
        Ok(closed)
    }

    /// Passes on the stored values one by one, because there may be too many for memory.
    pub fn for_each_point(&self, mut take: impl FnMut(SeriesPoint)) -> rusqlite::Result<()> {
        let mut statement = self.from.prepare_cached(
            "SELECT at_us, value FROM value \
             WHERE series = ?1 AND at_us >= ?2 AND at_us < ?3 ORDER BY at_us",
        )?;
        let mut rows = statement.query((self.series, self.range.begin_us, self.range.end_us))?;
        while let Some(row) = rows.next()? {
            take(SeriesPoint { at_us: row.get(0)?, value: row.get(1)? });
        }
        Ok(())
    }
}

/// Returns the first hour that starts at or after this time.
fn round_up_to_hour(us: i64) -> i64 {
    us.saturating_add(HOUR_US - 1).div_euclid(HOUR_US)
}

/// Returns whether the hour of a time is closed.
pub fn is_hour_closed(to: &Transaction<'_>, series: i64, at_us: i64) -> rusqlite::Result<bool> {
    to.prepare_cached("SELECT 1 FROM hour WHERE series = ?1 AND hour = ?2 AND state = 2")?
        .exists((series, at_us.div_euclid(HOUR_US)))
}

/// Replaces the values of one hour by their bucket and returns their number.
pub fn close_hour(to: &Transaction<'_>, series: i64, hour: i64) -> rusqlite::Result<u64> {
    let range = TimeRange { begin_us: hour * HOUR_US, end_us: (hour + 1) * HOUR_US };
    let part = SeriesSlice { from: to, series, range };
    let mut close =
        to.prepare_cached("INSERT OR REPLACE INTO hour VALUES (?1, ?2, 2, ?3, ?4, ?5, ?6)")?;
    for it in part.add_value_buckets(Vec::new(), HOUR_US)? {
        close.execute((series, hour, it.samples, it.min, it.median, it.max))?;
    }
    let values = to
        .prepare_cached("DELETE FROM value WHERE series = ?1 AND at_us >= ?2 AND at_us < ?3")?
        .execute((series, range.begin_us, range.end_us))?;
    Ok(values as u64)
}

/// Updates the usual value of a series if it is older than [`USUAL_INTERVAL_HOURS`].
pub fn update_weekly_median(to: &Transaction<'_>, series: i64) -> rusqlite::Result<()> {
    let (newest_us, last): (i64, Option<i64>) = to
        .prepare_cached("SELECT newest_at_us, usual_hour FROM series WHERE id = ?1")?
        .query_row([series], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let hour = newest_us.div_euclid(HOUR_US);
    if last.is_some_and(|last| hour - last < USUAL_INTERVAL_HOURS) {
        return Ok(());
    }
    let range = TimeRange { begin_us: (hour - USUAL_HOURS) * HOUR_US, end_us: hour * HOUR_US };
    let part = SeriesSlice { from: to, series, range };
    let hours = part.add_value_buckets(part.closed_hours()?, HOUR_US)?;
    let mut medians: Vec<f64> = hours.iter().map(|bucket| bucket.median).collect();
    let Some(usual) = time_buckets::bucket_from_values(0, HOUR_US, &mut medians) else {
        return Ok(());
    };
    to.prepare_cached("UPDATE series SET usual = ?2, usual_hour = ?3 WHERE id = ?1")?
        .execute((series, usual.median, hour))
        .map(drop)
}
