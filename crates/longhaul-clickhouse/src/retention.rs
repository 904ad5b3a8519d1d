//! Deletes expired data, in steps that each leave the archive consistent.
//!
//! One row with the exact counts closes an hour. From then on its values are ignored, and deleting
//! them is housekeeping. An interrupted run and two concurrent runs are therefore harmless: of two
//! rows of an hour the first one wins.

use crate::clock;
use crate::landing::marks;
use crate::reach::Reach;
use crate::rows::ClosingRow;
use crate::schema::quoted;
use longhaul_store::StoreError;
use longhaul_store::watched::buckets::HOUR_US;
use longhaul_store::watched::{Removed, Retention};

/// The number of hours closed in one step, which bounds the server's memory use.
const STEP_HOURS: i64 = 24;

/// The number of planned runs deleted in one step.
const STEP_PLANNED: usize = 2000;

pub fn retain(reach: &Reach, now_us: i64, keep: &Retention) -> Result<Removed, StoreError> {
    if !reach.is_current() {
        return Err(StoreError::Refused {
            what: String::from("retention on a server of 2018"),
            why: "it cannot remove rows and say when they are gone",
        });
    }
    let mut removed = Removed::default();
    let before = |keep| Retention::before(now_us, keep);
    values(reach, before(keep.values), &mut removed)?;
    removed.hours = hours(reach, before(keep.hours.max(keep.values)))?;
    removed.reports = reports(reach, before(keep.reports))?;
    removed.planned = planned(reach, before(keep.planned))?;
    Ok(removed)
}

fn values(reach: &Reach, before_us: i64, removed: &mut Removed) -> Result<(), StoreError> {
    let hour = before_us.div_euclid(HOUR_US);
    let end_us = hour * HOUR_US;
    let Some(first_us) = oldest(reach, 0, end_us)? else {
        return Ok(());
    };
    // From now on every writer checks whether its hours are closed.
    reach.ask("note what is to be closed", |at| async move {
        let mut insert = at.insert::<ClosingRow>("closing").await?;
        insert.write(&ClosingRow { before_hour: hour }).await?;
        insert.end().await
    })?;
    let mut next = Some(first_us);
    while let Some(first_us) = next {
        let begin = first_us.div_euclid(HOUR_US);
        let end = (begin + STEP_HOURS).min(hour);
        let closed = close(reach, begin, end)?;
        removed.closed_hours += closed.0;
        removed.values += closed.1;
        next = oldest(reach, end * HOUR_US, end_us)?;
    }
    remove(reach, "value", &format!("at_us < {end_us}"))
}

fn oldest(reach: &Reach, begin_us: i64, end_us: i64) -> Result<Option<i64>, StoreError> {
    let (count, first_us): (u64, i64) = reach.step("look for old values", |at| async move {
        at.query("SELECT toUInt64(count()), min(at_us) FROM value WHERE at_us >= ? AND at_us < ?")
            .bind(begin_us)
            .bind(end_us)
            .fetch_one()
            .await
    })?;
    Ok((count > 0).then_some(first_us))
}

/// Closes the open hours of a span; returns the number of hours and of values.
fn close(reach: &Reach, begin: i64, end: i64) -> Result<(u64, u64), StoreError> {
    // Identifies the rows of this step, so that they can be counted.
    let earliness = clock::earliness();
    let sql = format!(
        "INSERT INTO closed_hour \
         (quantity, sender, receiver, hour, samples, least, middle, most, earliness) \
         SELECT quantity, sender, receiver, hour, toUInt32(length(sorted)), sorted[1], \
         sorted[intDiv(length(sorted) + 1, 2)] / 2 + sorted[intDiv(length(sorted), 2) + 1] / 2, \
         sorted[-1], {earliness} \
         FROM (SELECT quantity, sender, receiver, intDiv(at_us, 3600000000) AS hour, \
                      arraySort(groupArray(value)) AS sorted \
               FROM value FINAL WHERE at_us >= {} AND at_us < {} \
               AND (quantity, sender, receiver, intDiv(at_us, 3600000000)) NOT IN \
                   (SELECT quantity, sender, receiver, hour FROM {}.closed_hour \
                    WHERE hour >= {begin} AND hour < {end}) \
               GROUP BY quantity, sender, receiver, hour)",
        begin * HOUR_US,
        end * HOUR_US,
        quoted(&reach.options.database),
    );
    let sql = &sql;
    reach.step("close old hours", |at| async move {
        at.query_raw(sql).execute().await
    })?;
    reach.step("count what was closed", |at| async move {
        let sql = "SELECT toUInt64(count()), toUInt64(sum(samples)) FROM closed_hour FINAL \
                   WHERE hour >= ? AND hour < ? AND earliness = ?";
        let query = at.query(sql).bind(begin).bind(end);
        query.bind(earliness).fetch_one().await
    })
}

/// Deletes rows and returns when they are gone on this replica. A replica that is down deletes them
/// later.
fn remove(reach: &Reach, table: &str, which: &str) -> Result<(), StoreError> {
    let sql = match &reach.options.cluster {
        Some(cluster) => {
            format!(
                "DELETE FROM {table}_local ON CLUSTER {} WHERE {which}",
                quoted(cluster)
            )
        }
        None => format!("DELETE FROM {table} WHERE {which}"),
    };
    let sql = &sql;
    reach.step("remove what is old", |at| async move {
        at.query_raw(sql).execute().await
    })
}

/// Deletes closed hours and returns their number.
fn hours(reach: &Reach, before_us: i64) -> Result<u64, StoreError> {
    let hour = before_us.div_euclid(HOUR_US);
    let count: u64 = reach.step("look for old hours", |at| async move {
        at.query("SELECT toUInt64(count()) FROM closed_hour FINAL WHERE hour < ?")
            .bind(hour)
            .fetch_one()
            .await
    })?;
    if count > 0 {
        let which = format!("hour < {hour}");
        remove(reach, "hourly", &which)?;
        remove(reach, "closed_hour", &which)?;
    }
    Ok(count)
}

/// Deletes expired reports of watched runs and returns their number.
fn reports(reach: &Reach, before_us: i64) -> Result<u64, StoreError> {
    let count: u64 = reach.step("look for old reports", |at| async move {
        at.query("SELECT toUInt64(uniqExact(id)) FROM report WHERE at_us < ?")
            .bind(before_us)
            .fetch_one()
            .await
    })?;
    if count > 0 {
        let which = format!("at_us < {before_us}");
        remove(reach, "run", &which)?;
        remove(reach, "report", &which)?;
    }
    Ok(count)
}

/// Deletes expired planned runs that have an outcome; those without one are kept.
fn planned(reach: &Reach, before_us: i64) -> Result<u64, StoreError> {
    let mut removed = 0;
    loop {
        let ids: Vec<String> = reach.step("look for old planned runs", |at| async move {
            at.query("SELECT id FROM planned FINAL WHERE due_us < ? AND state <> 0 LIMIT ?")
                .bind(before_us)
                .bind(STEP_PLANNED)
                .fetch_all()
                .await
        })?;
        if ids.is_empty() {
            return Ok(removed);
        }
        removed += ids.len() as u64;
        remove_planned(reach, before_us, &ids)?;
    }
}

/// Deletes all rows of each planned run at once, because a single remaining row would count as its
/// state.
fn remove_planned(reach: &Reach, before_us: i64, ids: &[String]) -> Result<(), StoreError> {
    let on = match &reach.options.cluster {
        Some(cluster) => format!("planned_local ON CLUSTER {}", quoted(cluster)),
        None => String::from("planned"),
    };
    let sql = format!(
        "DELETE FROM {on} WHERE due_us < ? AND id IN ({})",
        marks(ids.len())
    );
    let sql = &sql;
    reach.step("remove old planned runs", |at| async move {
        let query = at.query(sql).bind(before_us);
        let bound = ids.iter().fold(query, |query, id| query.bind(id));
        bound.execute().await
    })
}
