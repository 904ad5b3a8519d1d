//! Deletes expired data, in steps that each leave the archive consistent.
//!
//! One row with the exact counts closes an hour. From then on its values are ignored, and deleting
//! them is housekeeping. An interrupted run and two concurrent runs are therefore harmless: of two
//! rows of an hour the first one wins.

use crate::clickhouse_schema::quote_identifier;
use crate::database_client::DatabaseClient;
use crate::row_version;
use crate::run_insert::format_placeholders;
use crate::table_rows::ClosingHourRow;
use longhaul_store::StoreError;
use longhaul_store::history_store::time_buckets::HOUR_US;
use longhaul_store::history_store::{RetentionPolicy, RetentionResult};

/// The number of hours closed in one step, which bounds the server's memory use.
const HOURS_PER_STEP: i64 = 24;

/// The number of planned runs deleted in one step.
const PLANNED_PER_STEP: usize = 2000;

pub fn apply_retention(
    client: &DatabaseClient,
    now_us: i64,
    keep: &RetentionPolicy,
) -> Result<RetentionResult, StoreError> {
    if !client.is_current() {
        return Err(StoreError::Refused {
            what: String::from("retention on a server of 2018"),
            why: "it cannot report when deleted rows are gone",
        });
    }
    let mut removed = RetentionResult::default();
    let before = |keep| RetentionPolicy::cutoff_us(now_us, keep);
    expire_values(client, before(keep.values), &mut removed)?;
    removed.hours = expire_hours(client, before(keep.hours.max(keep.values)))?;
    removed.reports = expire_reports(client, before(keep.reports))?;
    removed.planned = expire_planned(client, before(keep.planned))?;
    Ok(removed)
}

fn expire_values(
    client: &DatabaseClient,
    before_us: i64,
    removed: &mut RetentionResult,
) -> Result<(), StoreError> {
    let hour = before_us.div_euclid(HOUR_US);
    let end_us = hour * HOUR_US;
    let Some(first_us) = find_oldest_value(client, 0, end_us)? else {
        return Ok(());
    };
    // From now on every writer checks whether its hours are closed.
    client.request("record which hours are to be closed", |at| async move {
        let mut insert = at.insert::<ClosingHourRow>("closing").await?;
        insert.write(&ClosingHourRow { before_hour: hour }).await?;
        insert.end().await
    })?;
    let mut next = Some(first_us);
    while let Some(first_us) = next {
        let begin = first_us.div_euclid(HOUR_US);
        let end = (begin + HOURS_PER_STEP).min(hour);
        let closed = close_hours(client, begin, end)?;
        removed.closed_hours += closed.0;
        removed.values += closed.1;
        next = find_oldest_value(client, end * HOUR_US, end_us)?;
    }
    delete_rows(client, "value", &format!("at_us < {end_us}"))
}

fn find_oldest_value(
    client: &DatabaseClient,
    begin_us: i64,
    end_us: i64,
) -> Result<Option<i64>, StoreError> {
    let (count, first_us): (u64, i64) =
        client.request_slow("find old values", |at| async move {
            at.query(
                "SELECT toUInt64(count()), min(at_us) FROM value WHERE at_us >= ? AND at_us < ?",
            )
            .bind(begin_us)
            .bind(end_us)
            .fetch_one()
            .await
        })?;
    Ok((count > 0).then_some(first_us))
}

/// Closes the open hours of a span; returns the number of hours and of values.
fn close_hours(client: &DatabaseClient, begin: i64, end: i64) -> Result<(u64, u64), StoreError> {
    // Identifies the rows of this step, so that they can be counted.
    let earliness = row_version::compute_earliness();
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
        quote_identifier(&client.options.database),
    );
    let sql = &sql;
    client
        .request_slow("close old hours", |at| async move { at.query_raw(sql).execute().await })?;
    client.request_slow("count the closed hours", |at| async move {
        let sql = "SELECT toUInt64(count()), toUInt64(sum(samples)) FROM closed_hour FINAL \
                   WHERE hour >= ? AND hour < ? AND earliness = ?";
        let query = at.query(sql).bind(begin).bind(end);
        query.bind(earliness).fetch_one().await
    })
}

/// Deletes rows and returns when they are gone on this replica. A replica that is down deletes them
/// later.
fn delete_rows(client: &DatabaseClient, table: &str, which: &str) -> Result<(), StoreError> {
    let sql = match &client.options.cluster {
        Some(cluster) => {
            format!(
                "DELETE FROM {table}_local ON CLUSTER {} WHERE {which}",
                quote_identifier(cluster)
            )
        }
        None => format!("DELETE FROM {table} WHERE {which}"),
    };
    let sql = &sql;
    client.request_slow("delete old rows", |at| async move { at.query_raw(sql).execute().await })
}

/// Deletes closed hours and returns their number.
fn expire_hours(client: &DatabaseClient, before_us: i64) -> Result<u64, StoreError> {
    let hour = before_us.div_euclid(HOUR_US);
    let count: u64 = client.request_slow("find old hours", |at| async move {
        at.query("SELECT toUInt64(count()) FROM closed_hour FINAL WHERE hour < ?")
            .bind(hour)
            .fetch_one()
            .await
    })?;
    if count > 0 {
        let which = format!("hour < {hour}");
        delete_rows(client, "hourly", &which)?;
        delete_rows(client, "closed_hour", &which)?;
    }
    Ok(count)
}

/// Deletes expired reports of watched runs and returns their number.
fn expire_reports(client: &DatabaseClient, before_us: i64) -> Result<u64, StoreError> {
    let count: u64 = client.request_slow("find old reports", |at| async move {
        at.query("SELECT toUInt64(uniqExact(id)) FROM report WHERE at_us < ?")
            .bind(before_us)
            .fetch_one()
            .await
    })?;
    if count > 0 {
        let which = format!("at_us < {before_us}");
        delete_rows(client, "run", &which)?;
        delete_rows(client, "report", &which)?;
    }
    Ok(count)
}

/// Deletes expired planned runs that have an outcome; those without one are kept.
fn expire_planned(client: &DatabaseClient, before_us: i64) -> Result<u64, StoreError> {
    let mut removed = 0;
    loop {
        let ids: Vec<String> = client.request_slow("find old planned runs", |at| async move {
            at.query("SELECT id FROM planned FINAL WHERE due_us < ? AND state <> 0 LIMIT ?")
                .bind(before_us)
                .bind(PLANNED_PER_STEP)
                .fetch_all()
                .await
        })?;
        if ids.is_empty() {
            return Ok(removed);
        }
        removed += ids.len() as u64;
        delete_planned(client, before_us, &ids)?;
    }
}

/// Deletes all rows of each planned run at once, because a single remaining row would count as its
/// state.
fn delete_planned(
    client: &DatabaseClient,
    before_us: i64,
    ids: &[String],
) -> Result<(), StoreError> {
    let on = match &client.options.cluster {
        Some(cluster) => format!("planned_local ON CLUSTER {}", quote_identifier(cluster)),
        None => String::from("planned"),
    };
    let sql =
        format!("DELETE FROM {on} WHERE due_us < ? AND id IN ({})", format_placeholders(ids.len()));
    let sql = &sql;
    client.request_slow("delete old planned runs", |at| async move {
        let query = at.query(sql).bind(before_us);
        let bound = ids.iter().fold(query, |query, id| query.bind(id));
        bound.execute().await
    })
}
