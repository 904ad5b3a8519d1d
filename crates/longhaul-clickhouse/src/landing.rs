//! Inserts runs and their values, in any order, and any number of times.
//!
//! ClickHouse has no transactions, so the order of writing replaces them: pairs, values, outcomes
//! of planned runs, rows of the run list, and the report last. A run whose report is stored is
//! complete. After an interrupted insert the sender repeats the run, which changes nothing that was
//! written.

use crate::clock;
use crate::planned;
use crate::reach::Reach;
use crate::rows::{PairRow, ReportRow, RunRow, ValueRow};
use longhaul_model::report::v1::series::Pair;
use longhaul_store::StoreError;
use longhaul_store::watched::buckets::HOUR_US;
use longhaul_store::watched::{Landed, Outcome, Reading, WatchedRun};
use std::collections::{BTreeSet, HashMap, HashSet};

/// The maximum number of ids in one query.
pub const IDS_AT_ONCE: usize = 500;

/// The maximum size of the reports in one request.
const REPORTS_BYTES: usize = 16 << 20;

/// The maximum number of pairs to remember; beyond it some are written again.
const KNOWN_MAX: usize = 1_000_000;

/// The name that means "no pair", and that the list of all runs uses; no real name is empty.
pub const NO_NAME: &str = "";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    New,
    Already,
    Differing,
}

/// Stores a batch of runs.
pub fn land(
    reach: &Reach,
    known: &mut HashSet<Pair>,
    runs: &[WatchedRun],
) -> Result<Landed, StoreError> {
    let fates = fates(reach, runs)?;
    let of = |fate: Fate| {
        let both = runs.iter().zip(&fates);
        both.filter(move |(_, it)| **it == fate).map(|(run, _)| run)
    };
    let new: Vec<&WatchedRun> = of(Fate::New).collect();
    let (values, late) = values(reach, &new)?;
    let pairs = new.iter().flat_map(|run| pairs_of(run));
    note_pairs(reach, known, pairs)?;
    insert_values(reach, &values)?;
    let done = of(Fate::New).chain(of(Fate::Already));
    let outcomes: Vec<(&str, Outcome)> = done.filter_map(outcome).collect();
    planned::settle(reach, &outcomes)?;
    insert_lines(reach, &new)?;
    insert_reports(reach, &new)?;
    Ok(Landed {
        new: new.len() as u64,
        already: of(Fate::Already).count() as u64,
        differing: of(Fate::Differing).map(|run| run.run.id.clone()).collect(),
        late_values: late,
        ..Landed::default()
    })
}

fn outcome(run: &WatchedRun) -> Option<(&str, Outcome)> {
    let run_id = run.run.id.clone();
    let planned = run.planned_id.as_deref()?;
    Some((planned, Outcome::Done { run_id }))
}

/// Compares each run with the stored one of the same id. Within a batch the first run of an id
/// wins.
fn fates(reach: &Reach, runs: &[WatchedRun]) -> Result<Vec<Fate>, StoreError> {
    let mut fates = vec![Fate::New; runs.len()];
    let mut first: HashMap<&str, usize> = HashMap::new();
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (place, run) in runs.iter().enumerate() {
        let id = run.run.id.as_str();
        let before = *first.entry(id).or_insert(place);
        if before != place {
            fates[place] = alike(&runs[before].report, &run.report);
        }
        places.entry(id).or_default().push(place);
    }
    let mut ids: Vec<&str> = places.keys().copied().collect();
    ids.sort_unstable();
    for ids in ids.chunks(IDS_AT_ONCE) {
        let stored: Vec<(String, String)> = reach.ask("look for the runs", |at| async move {
            let sql = format!(
                "SELECT id, report FROM report WHERE id IN ({}) \
                 ORDER BY id, earliness DESC LIMIT 1 BY id",
                marks(ids.len())
            );
            let query = ids.iter().fold(at.query(&sql), |query, id| query.bind(id));
            query.fetch_all().await
        })?;
        for (id, report) in stored {
            for &place in places.get(id.as_str()).into_iter().flatten() {
                fates[place] = alike(&report, &runs[place].report);
            }
        }
    }
    Ok(fates)
}

fn alike(stored: &str, come: &str) -> Fate {
    if stored == come {
        Fate::Already
    } else {
        Fate::Differing
    }
}

/// Returns `count` placeholders for a list of values.
pub fn marks(count: usize) -> String {
    vec!["?"; count].join(", ")
}

fn pairs_of(run: &WatchedRun) -> impl Iterator<Item = &Pair> {
    run.pairs
        .iter()
        .chain(run.readings.iter().map(|it| &it.pair))
}

/// Inserts the pairs that this connection has not inserted before.
pub fn note_pairs<'a>(
    reach: &Reach,
    known: &mut HashSet<Pair>,
    pairs: impl Iterator<Item = &'a Pair>,
) -> Result<(), StoreError> {
    let new: BTreeSet<&Pair> = pairs.filter(|pair| !known.contains(*pair)).collect();
    if new.is_empty() {
        return Ok(());
    }
    let rows: &Vec<PairRow> = &new
        .iter()
        .map(|pair| PairRow {
            sender: &pair.from,
            receiver: &pair.to,
        })
        .collect();
    reach.ask("store the pairs", |at| async move {
        let mut insert = at.insert::<PairRow>("pair").await?;
        for row in rows {
            insert.write(row).await?;
        }
        insert.end().await
    })?;
    if known.len() + new.len() > KNOWN_MAX {
        known.clear();
    }
    known.extend(new.into_iter().cloned());
    Ok(())
}

type Hour<'a> = (&'a str, &'a str, &'a str, i64);

fn hour_of(reading: &Reading) -> Hour<'_> {
    (
        reading.quantity.word(),
        &reading.pair.from,
        &reading.pair.to,
        reading.point.at_us.div_euclid(HOUR_US),
    )
}

/// Returns the values of new runs whose hour is still open, and the number of late ones.
fn values<'a>(
    reach: &Reach,
    new: &[&'a WatchedRun],
) -> Result<(Vec<ValueRow<'a>>, u64), StoreError> {
    let readings: Vec<&Reading> = new.iter().flat_map(|run| &run.readings).collect();
    let closed = closed(reach, &readings)?;
    let late = |reading: &&Reading| closed.contains(&owned(hour_of(reading)));
    let in_time = readings.iter().copied().filter(|it| !late(it));
    let mut rows: Vec<ValueRow> = in_time
        .map(|reading| ValueRow {
            quantity: reading.quantity.word(),
            sender: &reading.pair.from,
            receiver: &reading.pair.to,
            at_us: reading.point.at_us,
            value: reading.point.value,
        })
        .collect();
    let late = readings.len() - rows.len();
    rows.sort_by_key(|row| (row.quantity, row.sender, row.receiver, row.at_us));
    Ok((rows, late as u64))
}

type OwnedHour = (String, String, String, i64);

fn owned((quantity, sender, receiver, hour): Hour<'_>) -> OwnedHour {
    (
        quantity.to_owned(),
        sender.to_owned(),
        receiver.to_owned(),
        hour,
    )
}

/// Returns those hours of the readings that are closed.
fn closed(reach: &Reach, readings: &[&Reading]) -> Result<HashSet<OwnedHour>, StoreError> {
    let mut found = HashSet::new();
    if readings.is_empty() {
        return Ok(found);
    }
    let before: i64 = reach.ask("ask which hours are closed", |at| async move {
        at.query("SELECT max(before_hour) FROM closing")
            .fetch_one()
            .await
    })?;
    let hours: BTreeSet<Hour> = readings.iter().map(|it| hour_of(it)).collect();
    let old: Vec<Hour> = hours.into_iter().filter(|it| it.3 < before).collect();
    for old in old.chunks(IDS_AT_ONCE) {
        let rows: Vec<OwnedHour> = reach.ask("look for closed hours", |at| async move {
            let sql = format!(
                "SELECT DISTINCT quantity, sender, receiver, hour FROM closed_hour \
                 WHERE (quantity, sender, receiver, hour) IN ({})",
                vec!["(?, ?, ?, ?)"; old.len()].join(", ")
            );
            let bound = old.iter().fold(at.query(&sql), |query, hour| {
                query.bind(hour.0).bind(hour.1).bind(hour.2).bind(hour.3)
            });
            bound.fetch_all().await
        })?;
        found.extend(rows);
    }
    Ok(found)
}

fn insert_values(reach: &Reach, rows: &[ValueRow<'_>]) -> Result<(), StoreError> {
    if rows.is_empty() {
        return Ok(());
    }
    reach.ask("store the values", |at| async move {
        let mut insert = at.insert::<ValueRow>("value").await?;
        for row in rows {
            insert.write(row).await?;
        }
        insert.end().await
    })
}

fn insert_lines(reach: &Reach, new: &[&WatchedRun]) -> Result<(), StoreError> {
    if new.is_empty() {
        return Ok(());
    }
    let earliness = clock::earliness();
    reach.ask("store the list of runs", |at| async move {
        let mut insert = at.insert::<RunRow>("run").await?;
        for run in new {
            let pairs: BTreeSet<&Pair> = pairs_of(run).collect();
            for pair in pairs {
                let names = (pair.from.as_str(), pair.to.as_str());
                insert.write(&line(run, names, earliness)).await?;
            }
            let row = line(run, (NO_NAME, NO_NAME), earliness);
            insert.write(&row).await?;
        }
        insert.end().await
    })
}

fn line<'a>(run: &'a WatchedRun, pair: (&'a str, &'a str), earliness: u64) -> RunRow<'a> {
    let of = &run.run;
    RunRow {
        sender: pair.0,
        receiver: pair.1,
        at_us: run.at_us,
        id: &of.id,
        near: run.near.as_deref().unwrap_or(NO_NAME),
        started_at: &of.started_at,
        kind: run.kind.word(),
        initiator_host: &of.initiator.host,
        responder_host: &of.responder.host,
        responder_address: of.responder.address.as_deref(),
        streams: run.derived.streams,
        goodput_bps: run.derived.goodput_bps,
        limited_by: run.derived.limited_by,
        analysis_version: run.derived.analysis_version,
        part_of: of.part_of.as_ref().map(|whole| whole.id.as_str()),
        earliness,
    }
}

fn insert_reports(reach: &Reach, new: &[&WatchedRun]) -> Result<(), StoreError> {
    let earliness = clock::earliness();
    let mut rest = new;
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = rest.iter().take_while(|run| {
            bytes += run.report.len();
            bytes <= REPORTS_BYTES
        });
        // A report above the limit is sent alone.
        let (now, later) = rest.split_at(fits.count().max(1));
        reach.ask("store the runs", |at| async move {
            let mut insert = at.insert::<ReportRow>("report").await?;
            for run in now {
                let row = ReportRow {
                    id: &run.run.id,
                    at_us: run.at_us,
                    report: &run.report,
                    earliness,
                };
                insert.write(&row).await?;
            }
            insert.end().await
        })?;
        rest = later;
    }
    Ok(())
}
