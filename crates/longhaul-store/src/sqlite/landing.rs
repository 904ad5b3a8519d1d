//! Inserts runs and their values, in any order, and any number of times.

use super::hours;
use super::names::{NO_PAIR, Names};
use super::outbox::Outbox;
use super::planned;
use crate::archive::file_run;
use crate::filed::{self, Filed};
use crate::watched::{Landed, Outcome, WatchedRun};
use rusqlite::{Transaction, params};
use std::collections::{BTreeSet, HashMap};

/// One value with the id of its series.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    pub series: i64,
    pub at_us: i64,
    pub value: f64,
}

enum Fate {
    New,
    /// Stored before, and watched from now on.
    Joined,
    Already,
    Differing,
}

/// Stores a batch; new items are also recorded in the outbox, if it is enabled.
pub fn land(
    to: &Transaction<'_>,
    runs: &[WatchedRun],
    (outbox, names): (Outbox, &mut Names),
) -> rusqlite::Result<Landed> {
    let mut landed = Landed::default();
    let mut values = Vec::new();
    for run in runs {
        match insert(to, run)? {
            fate @ (Fate::New | Fate::Joined) => {
                match fate {
                    Fate::Joined => landed.joined += 1,
                    _ => landed.new += 1,
                }
                follow(to, run, names, &mut values)?;
                outbox.run(to, run)?;
            }
            Fate::Already => landed.already += 1,
            Fate::Differing => {
                landed.differing.push(run.run.id.clone());
                continue;
            }
        }
        if let Some(planned) = &run.planned_id {
            // A collector may not know the agent's planned run; the run is stored anyway.
            let run_id = run.run.id.clone();
            planned::settle(to, planned, &Outcome::Done { run_id }, outbox)?;
        }
    }
    // Sorted like the table, so that neighbouring values share a cached page.
    values.sort_by_key(|value| (value.series, value.at_us));
    landed.late_values = store(to, &values)?;
    hours::count_some(to, &values)?;
    Ok(landed)
}

fn insert(to: &Transaction<'_>, run: &WatchedRun) -> rusqlite::Result<Fate> {
    let WatchedRun {
        run,
        derived,
        kind,
        report,
        ..
    } = run;
    let inserted = file_run(to, run, *kind, derived, report, true)?;
    if inserted > 0 {
        return Ok(Fate::New);
    }
    let (stored, watched): (String, bool) = to
        .prepare_cached("SELECT report, watched FROM run WHERE id = ?1")?
        .query_row([&run.id], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if stored != *report && !says_the_same(&stored, report) {
        return Ok(Fate::Differing);
    }
    if watched {
        return Ok(Fate::Already);
    }
    to.prepare_cached("UPDATE run SET watched = 1 WHERE id = ?1")?
        .execute([&run.id])?;
    Ok(Fate::Joined)
}

/// Returns true if another text is the stored report with a different layout, or written by a
/// program that parsed it. Such a program may drop fields that it does not know and round the last
/// digit of numbers.
fn says_the_same(stored: &str, other: &str) -> bool {
    let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
    let Some(other_value) = value(other) else {
        return false;
    };
    if value(stored).as_ref() == Some(&other_value) {
        return true;
    }
    let again = filed::parse("of the archive", stored).ok();
    let again = again.and_then(|report| report.text().ok());
    again.is_some_and(|again| again == other || value(&again) == Some(other_value))
}

/// Records the pairs of a new run and collects its values.
fn follow(
    to: &Transaction<'_>,
    run: &WatchedRun,
    names: &mut Names,
    values: &mut Vec<Sample>,
) -> rusqlite::Result<()> {
    let mut pairs = BTreeSet::new();
    for reading in &run.readings {
        pairs.insert(names.pair(to, &reading.pair)?);
        values.push(Sample {
            series: names.series(to, &reading.pair, reading.quantity)?,
            at_us: reading.point.at_us,
            value: reading.point.value,
        });
    }
    for pair in &run.pairs {
        pairs.insert(names.pair(to, pair)?);
    }
    if pairs.is_empty() {
        pairs.insert(NO_PAIR);
    }
    let mut note = to.prepare_cached("INSERT OR IGNORE INTO watched_run VALUES (?1, ?2, ?3)")?;
    for pair in pairs {
        note.execute(params![pair, run.at_us, run.run.id])?;
    }
    Ok(())
}

/// Inserts sorted values and returns the number of late ones.
fn store(to: &Transaction<'_>, values: &[Sample]) -> rusqlite::Result<u64> {
    let mut hours = hours::Touched::default();
    let mut newest: HashMap<i64, Sample> = HashMap::new();
    let mut late = 0;
    let mut insert = to.prepare_cached("INSERT OR IGNORE INTO value VALUES (?1, ?2, ?3)")?;
    for value in values {
        if hours.is_closed(to, value)? {
            late += 1;
        } else if insert.execute((value.series, value.at_us, value.value))? > 0 {
            hours.mark(to, value)?;
            // Values ascend, so the last one of a series is its latest.
            newest.insert(value.series, *value);
        }
    }
    let mut note = to.prepare_cached(
        "UPDATE series SET newest_at_us = ?2, newest = ?3 \
         WHERE id = ?1 AND coalesce(newest_at_us < ?2, TRUE)",
    )?;
    for value in newest.values() {
        note.execute((value.series, value.at_us, value.value))?;
    }
    Ok(late)
}
