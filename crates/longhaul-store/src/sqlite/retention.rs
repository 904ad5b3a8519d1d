//! Deletes expired data, in steps that each leave the archive consistent.

use crate::archive::Archive;
use crate::history_store::{HOUR_US, RetentionPolicy, RetentionResult};
use crate::store_error::StoreError;
use rusqlite::Transaction;

/// The number of rows changed in one step, which bounds the time that other writers wait.
const STEP_ROWS: u64 = 20_000;

/// Smaller, because reports are larger.
const STEP_REPORTS: u64 = 200;

impl Archive {
    /// Deletes data older than `keep`. Hours of deleted values become part of the hourly series,
    /// which is kept for `hours`. Events are kept, and so are runs that are not watched, such as one
    /// that a person started.
    ///
    /// Works in steps, each of them consistent, so that others can write in between. The next call
    /// completes what an error interrupted.
    pub fn retain(
        &mut self,
        now_us: i64,
        keep: &RetentionPolicy,
    ) -> Result<RetentionResult, StoreError> {
        let before_us = RetentionPolicy::cutoff_us(now_us, keep.runs);
        let hours_before_us = RetentionPolicy::cutoff_us(now_us, keep.hours.max(keep.runs));
        expire_transfer_days(self, before_us)?;
        Ok(RetentionResult {
            values: expire_values(self, before_us)?,
            hours: expire_hours(self, hours_before_us)?,
            reports: expire_reports(self, before_us)?,
            planned: expire_planned(self, before_us)?,
        })
    }
}

/// Deletes the values before this time, by whole hours, whose buckets are stored. Returns the
/// number of values.
fn expire_values(archive: &mut Archive, before_us: i64) -> Result<u64, StoreError> {
    let end_us = before_us.div_euclid(HOUR_US) * HOUR_US;
    let (mut values, mut series) = (0, 0);
    loop {
        let step =
            archive.write("remove old values", |to| close_some_hours(to, end_us, &mut series))?;
        if step == 0 {
            return Ok(values);
        }
        values += step;
    }
}

/// Closes hours, beginning with those of `series`, which becomes the series to continue with.
/// Returns the number of deleted values.
fn close_some_hours(to: &Transaction<'_>, end_us: i64, series: &mut i64) -> rusqlite::Result<u64> {
    let left: Vec<i64> = to
        .prepare_cached("SELECT id FROM series WHERE id >= ?1 ORDER BY id")?
        .query_map([*series], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let mut values = 0;
    for id in left {
        *series = id;
        while let Some(first_us) = find_oldest_before(to, id, end_us)? {
            values += super::close_hour(to, id, first_us.div_euclid(HOUR_US))?;
            if values >= STEP_ROWS {
                return Ok(values);
            }
        }
    }
    Ok(values)
}

fn find_oldest_before(
    to: &Transaction<'_>,
    series: i64,
    end_us: i64,
) -> rusqlite::Result<Option<i64>> {
    to.prepare_cached("SELECT min(at_us) FROM value WHERE series = ?1 AND at_us < ?2")?
        .query_row((series, end_us), |row| row.get(0))
}

/// Repeats a step until it deletes nothing. Returns the number of deleted rows.
fn repeat_step(
    archive: &mut Archive,
    doing: &'static str,
    mut step: impl FnMut(&Transaction<'_>) -> rusqlite::Result<usize>,
) -> Result<u64, StoreError> {
    let mut deleted = 0;
    loop {
        match archive.write(doing, &mut step)? {
            0 => return Ok(deleted),
            rows => deleted += rows as u64,
        }
    }
}

/// Deletes closed hours and returns their number.
fn expire_hours(archive: &mut Archive, before_us: i64) -> Result<u64, StoreError> {
    let hour = before_us.div_euclid(HOUR_US);
    repeat_step(archive, "remove old hours", |to| {
        to.prepare_cached(
            "DELETE FROM hour WHERE (series, hour) IN (SELECT series, hour FROM hour \
             WHERE series IN (SELECT id FROM series) AND hour < ?1 AND state = 2 LIMIT ?2)",
        )?
        .execute((hour, STEP_ROWS))
    })
}

/// Deletes the sums of transfers of days that ended.
fn expire_transfer_days(archive: &mut Archive, before_us: i64) -> Result<u64, StoreError> {
    repeat_step(archive, "remove old days", |to| {
        to.prepare_cached(
            "DELETE FROM transfer_day WHERE (day, sender, receiver, limiter) IN \
             (SELECT day, sender, receiver, limiter FROM transfer_day \
              WHERE day < date(?1 / 1000000, 'unixepoch') LIMIT ?2)",
        )?
        .execute((before_us, STEP_ROWS))
    })
}

/// Deletes expired reports of watched runs that are not waiting in the outbox, and returns their
/// number.
fn expire_reports(archive: &mut Archive, before_us: i64) -> Result<u64, StoreError> {
    let mut reports = 0;
    repeat_step(archive, "remove old reports", |to| delete_reports(to, before_us, &mut reports))?;
    Ok(reports)
}

/// Deletes a run with the first of its pairs, together with its parts; the rows of the other pairs
/// are deleted later. Adds the deleted reports to `reports` and returns the number of rows.
fn delete_reports(to: &Transaction<'_>, before: i64, reports: &mut u64) -> rusqlite::Result<usize> {
    let old: Vec<(i64, i64, String)> = to
        .prepare_cached(
            "SELECT pair, at_us, run FROM watched_run \
             WHERE pair IN (SELECT 0 UNION ALL SELECT id FROM pair) AND at_us < ?1 \
             AND NOT EXISTS (SELECT 1 FROM outbox WHERE kind = 0 AND id = run) LIMIT ?2",
        )?
        .query_map((before, STEP_REPORTS), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let mut run = to.prepare_cached("DELETE FROM run WHERE id = ?1 OR part_of = ?1")?;
    let mut refused = to.prepare_cached("DELETE FROM set_aside WHERE kind = 0 AND id = ?1")?;
    let mut note =
        to.prepare_cached("DELETE FROM watched_run WHERE pair = ?1 AND at_us = ?2 AND run = ?3")?;
    let rows = old.len();
    for (pair, at_us, id) in old {
        *reports += run.execute([&id])? as u64;
        refused.execute([&id])?;
        note.execute((pair, at_us, id))?;
    }
    Ok(rows)
}

/// Deletes expired planned runs that have an outcome and returns their number; those without one
/// are kept. Also deletes the states of measurements that no longer run.
fn expire_planned(archive: &mut Archive, before_us: i64) -> Result<u64, StoreError> {
    archive.write("remove old states", |to| {
        to.prepare_cached(
            "DELETE FROM measurement_state \
             WHERE max(coalesce(done_us, 0), coalesce(failed_us, 0)) < ?1",
        )?
        .execute([before_us])
    })?;
    repeat_step(archive, "remove old planned runs", |to| {
        to.prepare_cached(
            "DELETE FROM planned WHERE rowid IN (SELECT rowid FROM planned \
             WHERE due_us < ?1 AND state <> 0 AND NOT EXISTS \
             (SELECT 1 FROM outbox WHERE kind = 1 AND id = planned.id) LIMIT ?2)",
        )?
        .execute((before_us, STEP_ROWS))
    })
}
