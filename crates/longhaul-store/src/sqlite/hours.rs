//! The hourly series: which hours are to be counted again, and the counting.

use super::landing::Sample;
use crate::watched::buckets::{self, HOUR_US};
use longhaul_model::report::v1::series::Bucket;
use rusqlite::{OptionalExtension, Transaction, params};
use std::collections::BTreeSet;

/// To be counted from its values.
pub const DUE: i64 = 0;
pub const COUNTED: i64 = 1;
/// Its values are gone.
pub const CLOSED: i64 = 2;

/// Hours of the week before the newest one that are usual.
const USUAL_HOURS: i64 = 168;

/// The usual is looked at again after so many hours.
const USUAL_EVERY_HOURS: i64 = 6;

/// Hours that every batch counts beyond its own share, so that a backlog goes.
const SPARE_ROWS: u64 = 64;

/// The hour that the values of a batch are in at present, as they come in order.
#[derive(Default)]
pub struct Touched {
    at: Option<(i64, i64)>,
    state: Option<i64>,
}

impl Touched {
    /// Whether the hour of this value takes none any more.
    pub fn is_closed(&mut self, to: &Transaction<'_>, value: &Sample) -> rusqlite::Result<bool> {
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

    /// The hour of the value that was just looked at has one more.
    pub fn mark(&mut self, to: &Transaction<'_>, value: &Sample) -> rusqlite::Result<()> {
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

/// Counts hours that are over, as many as keep pace with a batch of these values.
pub fn count_some(to: &Transaction<'_>, values: &[Sample]) -> rusqlite::Result<()> {
    let Some(newest_us) = values.iter().map(|value| value.at_us).max() else {
        return Ok(());
    };
    let rows = SPARE_ROWS + 2 * values.len() as u64;
    count_before(to, newest_us.div_euclid(HOUR_US), rows).map(drop)
}

/// Counts due hours before `hour`, the earliest first, until so many rows are read. Says how many
/// hours that were.
pub fn count_before(to: &Transaction<'_>, hour: i64, rows: u64) -> rusqlite::Result<u64> {
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
        read += 1 + count(to, id, hour)?;
        counted += 1;
        series.insert(id);
    }
    series.into_iter().try_for_each(|id| usual(to, id))?;
    Ok(counted)
}

/// Counts one hour from its values and says how many they are.
fn count(to: &Transaction<'_>, series: i64, hour: i64) -> rusqlite::Result<u64> {
    let begin_us = hour * HOUR_US;
    let Some(bucket) = bucket(to, series, begin_us, begin_us + HOUR_US)? else {
        to.prepare_cached("DELETE FROM hour WHERE series = ?1 AND hour = ?2")?
            .execute((series, hour))?;
        return Ok(0);
    };
    to.prepare_cached(
        "UPDATE hour SET state = 1, samples = ?3, min = ?4, median = ?5, max = ?6 \
         WHERE series = ?1 AND hour = ?2",
    )?
    .execute(params![
        series,
        hour,
        bucket.samples,
        bucket.min,
        bucket.median,
        bucket.max
    ])?;
    Ok(u64::from(bucket.samples))
}

/// Counts an hour that is due, or that nobody has marked.
pub fn count_again(to: &Transaction<'_>, series: i64, hour: i64) -> rusqlite::Result<()> {
    to.prepare_cached("INSERT OR IGNORE INTO hour (series, hour, state) VALUES (?1, ?2, 0)")?
        .execute((series, hour))?;
    let state: i64 = to
        .prepare_cached("SELECT state FROM hour WHERE series = ?1 AND hour = ?2")?
        .query_row((series, hour), |row| row.get(0))?;
    if state == DUE {
        count(to, series, hour)?;
    }
    Ok(())
}

/// The values of a span within one hour as the bucket of that hour.
pub fn bucket(
    from: &Transaction<'_>,
    series: i64,
    begin_us: i64,
    end_us: i64,
) -> rusqlite::Result<Option<Bucket>> {
    let mut values = from
        .prepare_cached("SELECT value FROM value WHERE series = ?1 AND at_us >= ?2 AND at_us < ?3")?
        .query_map((series, begin_us, end_us), |row| row.get(0))?
        .collect::<rusqlite::Result<Vec<f64>>>()?;
    let hour_us = begin_us.div_euclid(HOUR_US) * HOUR_US;
    Ok(buckets::of_values(hour_us, HOUR_US, &mut values))
}

/// Looks again, now and then, at what is usual for a series.
fn usual(to: &Transaction<'_>, series: i64) -> rusqlite::Result<()> {
    let (newest_us, last): (Option<i64>, Option<i64>) = to
        .prepare_cached("SELECT newest_at_us, usual_hour FROM series WHERE id = ?1")?
        .query_row([series], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let Some(hour) = newest_us.map(|us| us.div_euclid(HOUR_US)) else {
        return Ok(());
    };
    if last.is_some_and(|last| hour - last < USUAL_EVERY_HOURS) {
        return Ok(());
    }
    let mut medians = to
        .prepare_cached(
            "SELECT median FROM hour \
             WHERE series = ?1 AND hour >= ?2 AND hour < ?3 AND median IS NOT NULL",
        )?
        .query_map((series, hour - USUAL_HOURS, hour), |row| row.get(0))?
        .collect::<rusqlite::Result<Vec<f64>>>()?;
    let median = buckets::of_values(0, HOUR_US, &mut medians).map(|bucket| bucket.median);
    to.prepare_cached("UPDATE series SET usual = ?2, usual_hour = ?3 WHERE id = ?1")?
        .execute((series, median, hour))
        .map(drop)
}
