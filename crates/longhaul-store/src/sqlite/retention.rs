//! Deletes expired data, in steps that each leave the archive consistent.

use super::hourly_series;
use crate::archive::Archive;
use crate::history_store::time_buckets::HOUR_US;
use crate::history_store::{RetentionPolicy, RetentionResult};
use crate::store_error::StoreError;
use rusqlite::Transaction;
use std::time::Duration;

/// The number of rows changed in one step, which bounds the time that other writers wait.
const STEP_ROWS: u64 = 20_000;

/// Smaller, because reports are larger.
const STEP_REPORTS: u64 = 200;

/// Closes expired hours: aggregates them and deletes their values.
pub fn expire_values(
    archive: &mut Archive,
    now_us: i64,
    keep: Duration,
    removed: &mut RetentionResult,
) -> Result<(), StoreError> {
    let doing = "remove old values";
    let hour = RetentionPolicy::cutoff_us(now_us, keep).div_euclid(HOUR_US);
    while archive
        .write("count old hours", |to| hourly_series::count_hours_before(to, hour, STEP_ROWS))?
        > 0
    {}
    let mut after = 0;
    loop {
        let step = archive.write(doing, |to| close_some_hours(to, hour, after))?;
        removed.values += step.values;
        removed.closed_hours += step.hours;
        match step.last_series {
            Some(series) => after = series,
            None => return Ok(()),
        }
    }
}

#[derive(Default)]
struct CloseStep {
    values: u64,
    hours: u64,
    /// The last series that was completed; none: all of them.
    last_series: Option<i64>,
}

/// Continues after the series `after`. A series with more values than one step allows is continued
/// by the next step.
fn close_some_hours(to: &Transaction<'_>, hour: i64, after: i64) -> rusqlite::Result<CloseStep> {
    let mut step = CloseStep::default();
    let series: Vec<i64> = to
        .prepare_cached("SELECT id FROM series WHERE id > ?1 ORDER BY id")?
        .query_map([after], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let mut done = after;
    for id in series {
        let end_us = hour.saturating_mul(HOUR_US);
        while let Some(first_us) = find_oldest_before(to, id, end_us)? {
            if step.values >= STEP_ROWS {
                step.last_series = Some(done);
                return Ok(step);
            }
            let first = first_us.div_euclid(HOUR_US);
            step.values += close_hour(to, id, first)?;
            step.hours += 1;
        }
        done = id;
    }
    Ok(step)
}

fn find_oldest_before(
    to: &Transaction<'_>,
    series: i64,
    end_us: i64,
) -> rusqlite::Result<Option<i64>> {
    to.prepare_cached("SELECT min(at_us) FROM value WHERE series = ?1 AND at_us < ?2")?
        .query_row((series, end_us), |row| row.get(0))
}

/// Deletes the values of one hour and returns their number.
fn close_hour(to: &Transaction<'_>, series: i64, hour: i64) -> rusqlite::Result<u64> {
    // Another process may have added values since the hours were aggregated.
    hourly_series::recount_hour(to, series, hour)?;
    let values = to
        .prepare_cached("DELETE FROM value WHERE series = ?1 AND at_us >= ?2 AND at_us < ?3")?
        .execute((series, hour * HOUR_US, (hour + 1) * HOUR_US))?;
    to.prepare_cached("UPDATE hour SET state = 2 WHERE series = ?1 AND hour = ?2")?
        .execute((series, hour))?;
    Ok(values as u64)
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
pub fn expire_hours(archive: &mut Archive, now_us: i64, keep: Duration) -> Result<u64, StoreError> {
    let hour = RetentionPolicy::cutoff_us(now_us, keep).div_euclid(HOUR_US);
    repeat_step(archive, "remove old hours", |to| {
        to.prepare_cached(
            "DELETE FROM hour WHERE (series, hour) IN (SELECT series, hour FROM hour \
             WHERE series IN (SELECT id FROM series) AND hour < ?1 AND state = 2 LIMIT ?2)",
        )?
        .execute((hour, STEP_ROWS))
    })
}

/// Deletes expired reports of watched runs that are not waiting in the outbox, and returns their
/// number.
pub fn expire_reports(
    archive: &mut Archive,
    now_us: i64,
    keep: Duration,
) -> Result<u64, StoreError> {
    let before = RetentionPolicy::cutoff_us(now_us, keep);
    let mut reports = 0;
    repeat_step(archive, "remove old reports", |to| delete_reports(to, before, &mut reports))?;
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
/// are kept.
pub fn expire_planned(
    archive: &mut Archive,
    now_us: i64,
    keep: Duration,
) -> Result<u64, StoreError> {
    let before = RetentionPolicy::cutoff_us(now_us, keep);
    repeat_step(archive, "remove old planned runs", |to| {
        to.prepare_cached(
            "DELETE FROM planned WHERE rowid IN (SELECT rowid FROM planned \
             WHERE due_us < ?1 AND state <> 0 AND NOT EXISTS \
             (SELECT 1 FROM outbox WHERE kind = 1 AND id = planned.id) LIMIT ?2)",
        )?
        .execute((before, STEP_ROWS))
    })
}
