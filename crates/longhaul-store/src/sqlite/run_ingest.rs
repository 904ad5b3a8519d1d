//! Inserts runs and their values, in any order, and any number of times.

use super::{NO_PAIR, SeriesRow, outbox, planned_table};
use crate::archive::insert_run;
use crate::archived_report;
use crate::history_store::{HOUR_US, IncomingRun, IngestResult, PlannedOutcome};
use longhaul_model::report::v1::HostPair;
use longhaul_model::report::v1::flows::LimitedTransfers;
use longhaul_model::report::v1::quantity::PathQuantity;
use rusqlite::{Transaction, params};
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};

/// One value with its series.
#[derive(Debug, Clone, Copy)]
struct SeriesValue<'a> {
    series: SeriesRow,
    at_us: i64,
    value: f64,
    run_id: &'a str,
}

enum InsertOutcome {
    New,
    /// Stored before, and watched from now on.
    NowWatched,
    Already,
    Differing,
}

/// The pairs and series of a transaction. Most runs of a batch have the same ones.
#[derive(Default)]
struct KnownSeries<'a> {
    pairs: HashMap<&'a HostPair, i64>,
    rows: HashMap<(i64, PathQuantity), SeriesRow>,
}

impl<'a> KnownSeries<'a> {
    fn find_pair(&mut self, to: &Transaction<'_>, pair: &'a HostPair) -> rusqlite::Result<i64> {
        match self.pairs.entry(pair) {
            Entry::Occupied(known) => Ok(*known.get()),
            Entry::Vacant(new) => Ok(*new.insert(super::find_or_insert_pair(to, pair)?)),
        }
    }

    fn find_series(
        &mut self,
        to: &Transaction<'_>,
        pair: i64,
        quantity: PathQuantity,
    ) -> rusqlite::Result<SeriesRow> {
        match self.rows.entry((pair, quantity)) {
            Entry::Occupied(known) => Ok(*known.get()),
            Entry::Vacant(new) => {
                Ok(*new.insert(super::find_or_insert_series(to, pair, quantity)?))
            }
        }
    }
}

/// Stores a batch; new items are also recorded in the outbox.
pub fn ingest_runs(to: &Transaction<'_>, runs: &[IncomingRun]) -> rusqlite::Result<IngestResult> {
    let mut landed = IngestResult::default();
    let mut known = KnownSeries::default();
    let mut values = Vec::new();
    for run in runs {
        match insert_or_match(to, run)? {
            fate @ (InsertOutcome::New | InsertOutcome::NowWatched) => {
                match fate {
                    InsertOutcome::NowWatched => landed.newly_watched += 1,
                    _ => landed.new += 1,
                }
                insert_watched_run(to, run, &mut known, &mut values)?;
                outbox::put_run(to, run)?;
            }
            InsertOutcome::Already => landed.already_stored += 1,
            InsertOutcome::Differing => {
                landed.differing.push(run.run.id.clone());
                continue;
            }
        }
        if let Some(planned) = &run.planned_id {
            // A collector may not know the agent's planned run; the run is stored anyway.
            let run_id = run.run.id.clone();
            planned_table::record_outcome(to, planned, &PlannedOutcome::Done { run_id })?;
        }
    }
    // Sorted like the table, so that neighbouring values share a cached page.
    values.sort_by_key(|value| (value.series.id, value.at_us));
    landed.late_values = store_values(to, &values)?;
    Ok(landed)
}

fn insert_or_match(to: &Transaction<'_>, run: &IncomingRun) -> rusqlite::Result<InsertOutcome> {
    let IncomingRun { run, list_columns: derived, kind, report, .. } = run;
    let inserted = insert_run(to, run, *kind, derived, report, true)?;
    if inserted > 0 {
        return Ok(InsertOutcome::New);
    }
    let (stored, watched): (String, bool) = to
        .prepare_cached("SELECT report, watched FROM run WHERE id = ?1")?
        .query_row([&run.id], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if stored != *report && !is_same_report(&stored, report) {
        return Ok(InsertOutcome::Differing);
    }
    if watched {
        return Ok(InsertOutcome::Already);
    }
    to.prepare_cached("UPDATE run SET watched = 1 WHERE id = ?1")?.execute([&run.id])?;
    Ok(InsertOutcome::NowWatched)
}

/// Returns true if another text is the stored report with a different layout, or written by a
/// program that parsed it. Such a program may drop fields that it does not know and round the last
/// digit of numbers.
fn is_same_report(stored: &str, other: &str) -> bool {
    let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
    let Some(other_value) = value(other) else {
        return false;
    };
    if value(stored).as_ref() == Some(&other_value) {
        return true;
    }
    let again = archived_report::parse_report("of the archive", stored).ok();
    let again = again.and_then(|report| serde_json::to_string(&report).ok());
    again.is_some_and(|again| again == other || value(&again) == Some(other_value))
}

/// Records the pairs of a new run and collects its values.
fn insert_watched_run<'a>(
    to: &Transaction<'_>,
    run: &'a IncomingRun,
    known: &mut KnownSeries<'a>,
    values: &mut Vec<SeriesValue<'a>>,
) -> rusqlite::Result<()> {
    let mut ids = BTreeSet::new();
    for pair in &run.pairs {
        ids.insert(known.find_pair(to, pair)?);
    }
    for reading in &run.readings {
        let pair = known.find_pair(to, &reading.pair)?;
        ids.insert(pair);
        values.push(SeriesValue {
            series: known.find_series(to, pair, reading.quantity)?,
            at_us: reading.point.at_us,
            value: reading.point.value,
            run_id: &run.run.id,
        });
    }
    add_transfers(to, &run.transfers)?;
    let mut note = to.prepare_cached("INSERT OR IGNORE INTO watched_run VALUES (?1, ?2, ?3)")?;
    let no_pair = ids.is_empty().then_some(NO_PAIR);
    for pair in ids.into_iter().chain(no_pair) {
        note.execute(params![pair, run.at_us, run.run.id])?;
    }
    Ok(())
}

/// Adds transfers to the sums of their days, which stay below the largest number of SQLite.
fn add_transfers(to: &Transaction<'_>, transfers: &[LimitedTransfers]) -> rusqlite::Result<()> {
    let mut add = to.prepare_cached(
        "INSERT INTO transfer_day VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO UPDATE SET \
         transfers = transfers + excluded.transfers, \
         bytes = bytes + min(excluded.bytes, 9223372036854775807 - bytes)",
    )?;
    for LimitedTransfers { day, pair, limiter, transfers, bytes } in transfers {
        let bytes = i64::try_from(*bytes).unwrap_or(i64::MAX);
        add.execute(params![day, pair.from, pair.to, limiter.word(), transfers, bytes])?;
    }
    Ok(())
}

/// Inserts sorted values and returns the number of late ones.
fn store_values(to: &Transaction<'_>, values: &[SeriesValue<'_>]) -> rusqlite::Result<u64> {
    let mut newest: HashMap<i64, SeriesValue<'_>> = HashMap::new();
    let mut late = 0;
    let mut insert = to.prepare_cached("INSERT OR IGNORE INTO value VALUES (?1, ?2, ?3)")?;
    let hour_of = |it: &SeriesValue<'_>| (it.series.id, it.at_us.div_euclid(HOUR_US));
    for values in values.chunk_by(|one, next| hour_of(one) == hour_of(next)) {
        let (series, hour) = hour_of(&values[0]);
        if super::is_hour_closed(to, series, hour)? {
            late += values.len() as u64;
            continue;
        }
        for value in values {
            if insert.execute((series, value.at_us, value.value))? > 0 {
                // Values ascend, so the last one of a series is its latest.
                newest.insert(series, *value);
            }
        }
    }
    let mut note = to.prepare_cached(
        "UPDATE series SET newest_at_us = ?2, newest = ?3, newest_run = ?4 WHERE id = ?1",
    )?;
    for SeriesValue { series, at_us, value, run_id } in newest.into_values() {
        if series.newest_us.is_none_or(|newest_us| newest_us < at_us) {
            note.execute((series.id, at_us, value, run_id))?;
            super::update_weekly_median(to, &series, at_us.div_euclid(HOUR_US))?;
        }
    }
    Ok(late)
}
