//! The hourly series: aggregates the values of each hour.

use super::run_ingest::SeriesValue;
use crate::history_store::time_buckets::{self, HOUR_US};
use longhaul_model::report::v1::series::SeriesBucket;
use rusqlite::{OptionalExtension, Transaction, params};
use std::collections::BTreeSet;

/// To be aggregated from its values.
pub const DUE: i64 = 0;
pub const COUNTED: i64 = 1;
/// Its values have been deleted.
pub const CLOSED: i64 = 2;

/// The number of hours before the latest one that define the usual value.
const USUAL_HOURS: i64 = 168;

/// The interval for updating the usual value, in hours.
const USUAL_INTERVAL_HOURS: i64 = 6;

/// Rows that every batch aggregates beyond its own share, so that a backlog shrinks.
const EXTRA_ROWS: u64 = 64;

/// The hour of the current value while a sorted batch is written.
#[derive(Default)]
pub struct HourCursor {
    at: Option<(i64, i64)>,
    state: Option<i64>,
}

impl HourCursor {
    /// Returns true if the hour of this value is closed.
    pub fn is_closed(
        &mut self,
        to: &Transaction<'_>,
        value: &SeriesValue,
    ) -> rusqlite::Result<bool> {
        let hour = (value.series, value.at_us.div_euclid(HOUR_US));
        if self.at != Some(hour) {
            self.state = to
                .prepare_cached("SELECT state FROM hour WHERE series = ?1 AND hour = ?2")?
                .query_row(hour, |row| row.get(0))
                .optional()?;
            self.at = Some(hour);
        }
        Ok(self.state == Some(CLOSED))
    }

    /// Marks the hour of the value last checked for aggregation.
    pub fn mark(&mut self, to: &Transaction<'_>, value: &SeriesValue) -> rusqlite::Result<()> {
        if self.state != Some(DUE) {
            to.prepare_cached(
                "INSERT INTO hour (series, hour, state) VALUES (?1, ?2, 0) \
                 ON CONFLICT DO UPDATE SET state = 0",
            )?
            .execute((value.series, value.at_us.div_euclid(HOUR_US)))?;
            self.state = Some(DUE);
        }
        Ok(())
    }
}

/// Aggregates past hours, as many as keep pace with a batch of these values.
pub fn count_recent_hours(to: &Transaction<'_>, values: &[SeriesValue]) -> rusqlite::Result<()> {
    let Some(newest_us) = values.iter().map(|value| value.at_us).max() else {
        return Ok(());
    };
    let rows = EXTRA_ROWS + 2 * values.len() as u64;
    count_hours_before(to, newest_us.div_euclid(HOUR_US), rows).map(drop)
}

/// Aggregates due hours before `hour`, earliest first, until `rows` rows have been read. Returns
/// the number of hours.
pub fn count_hours_before(to: &Transaction<'_>, hour: i64, rows: u64) -> rusqlite::Result<u64> {
    let due: Vec<(i64, i64)> = to
        .prepare_cached(
            "SELECT series, hour FROM hour WHERE state = 0 AND hour < ?1 ORDER BY hour LIMIT ?2",
        )?
        .query_map((hour, rows as i64), |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let (mut read, mut counted) = (0, 0);
    let mut series = BTreeSet::new();
    for (id, hour) in due {
        if read >= rows {
            break;
        }
        read += 1 + count_hour(to, id, hour)?;
        counted += 1;
        series.insert(id);
    }
    series.into_iter().try_for_each(|id| update_weekly_median(to, id))?;
    Ok(counted)
}

/// Aggregates one hour and returns the number of its values.
fn count_hour(to: &Transaction<'_>, series: i64, hour: i64) -> rusqlite::Result<u64> {
    let begin_us = hour * HOUR_US;
    let Some(bucket) = read_bucket(to, series, begin_us, begin_us + HOUR_US)? else {
        to.prepare_cached("DELETE FROM hour WHERE series = ?1 AND hour = ?2")?
            .execute((series, hour))?;
        return Ok(0);
    };
    to.prepare_cached(
        "UPDATE hour SET state = 1, samples = ?3, min = ?4, median = ?5, max = ?6 \
         WHERE series = ?1 AND hour = ?2",
    )?
    .execute(params![series, hour, bucket.samples, bucket.min, bucket.median, bucket.max])?;
    Ok(u64::from(bucket.samples))
}

/// Aggregates an hour that is due or was never marked.
pub fn recount_hour(to: &Transaction<'_>, series: i64, hour: i64) -> rusqlite::Result<()> {
    to.prepare_cached("INSERT OR IGNORE INTO hour (series, hour, state) VALUES (?1, ?2, 0)")?
        .execute((series, hour))?;
    let state: i64 = to
        .prepare_cached("SELECT state FROM hour WHERE series = ?1 AND hour = ?2")?
        .query_row((series, hour), |row| row.get(0))?;
    if state == DUE {
        count_hour(to, series, hour)?;
    }
    Ok(())
}

/// Returns the values of a span within one hour as that hour's bucket.
pub fn read_bucket(
    from: &Transaction<'_>,
    series: i64,
    begin_us: i64,
    end_us: i64,
) -> rusqlite::Result<Option<SeriesBucket>> {
    let mut values = from
        .prepare_cached("SELECT value FROM value WHERE series = ?1 AND at_us >= ?2 AND at_us < ?3")?
        .query_map((series, begin_us, end_us), |row| row.get(0))?
        .collect::<rusqlite::Result<Vec<f64>>>()?;
    let hour_us = begin_us.div_euclid(HOUR_US) * HOUR_US;
    Ok(time_buckets::bucket_from_values(hour_us, HOUR_US, &mut values))
}

/// Updates the usual value of a series if it is older than [`USUAL_INTERVAL_HOURS`].
fn update_weekly_median(to: &Transaction<'_>, series: i64) -> rusqlite::Result<()> {
    let (newest_us, last): (Option<i64>, Option<i64>) = to
        .prepare_cached("SELECT newest_at_us, usual_hour FROM series WHERE id = ?1")?
        .query_row([series], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let Some(hour) = newest_us.map(|us| us.div_euclid(HOUR_US)) else {
        return Ok(());
    };
    if last.is_some_and(|last| hour - last < USUAL_INTERVAL_HOURS) {
        return Ok(());
    }
    let mut medians = to
        .prepare_cached(
            "SELECT median FROM hour \
             WHERE series = ?1 AND hour >= ?2 AND hour < ?3 AND median IS NOT NULL",
        )?
        .query_map((series, hour - USUAL_HOURS, hour), |row| row.get(0))?
        .collect::<rusqlite::Result<Vec<f64>>>()?;
    let median =
        time_buckets::bucket_from_values(0, HOUR_US, &mut medians).map(|bucket| bucket.median);
    to.prepare_cached("UPDATE series SET usual = ?2, usual_hour = ?3 WHERE id = ?1")?
        .execute((series, median, hour))
        .map(drop)
}
