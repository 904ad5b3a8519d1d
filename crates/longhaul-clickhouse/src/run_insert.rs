//! Inserts runs and their values, in any order, and any number of times.
//!
//! ClickHouse has no transactions, so the order of writing replaces them: pairs, values, outcomes
//! of planned runs, rows of the run list, and the report last. A run whose report is stored is
//! complete. After an interrupted insert the sender repeats the run, which changes nothing that was
//! written.

use crate::database_client::DatabaseClient;
use crate::planned_run_rows;
use crate::row_version;
use crate::table_rows::{PairInsertRow, ReportInsertRow, RunInsertRow, ValueInsertRow};
use longhaul_model::report::v1::series::HostPair;
use longhaul_store::StoreError;
use longhaul_store::history_store::time_buckets::HOUR_US;
use longhaul_store::history_store::{IncomingRun, IngestResult, PlannedOutcome, SeriesReading};
use std::collections::{BTreeSet, HashMap, HashSet};

/// The maximum number of ids in one query.
pub const MAX_IDS_PER_QUERY: usize = 500;

/// The maximum size of the reports in one request.
const MAX_REPORT_BYTES_PER_INSERT: usize = 16 << 20;

/// The maximum number of pairs to remember; beyond it some are written again.
const MAX_KNOWN_PAIRS: usize = 1_000_000;

/// The name that means "no pair", and that the list of all runs uses; no real name is empty.
pub const NO_NAME: &str = "";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StoredRunMatch {
    New,
    Already,
    Differing,
}

/// Stores a batch of runs.
pub fn insert_runs(
    client: &DatabaseClient,
    known: &mut HashSet<HostPair>,
    runs: &[IncomingRun],
) -> Result<IngestResult, StoreError> {
    let fates = match_stored_runs(client, runs)?;
    let of = |fate: StoredRunMatch| {
        let both = runs.iter().zip(&fates);
        both.filter(move |(_, it)| **it == fate).map(|(run, _)| run)
    };
    let new: Vec<&IncomingRun> = of(StoredRunMatch::New).collect();
    let (values, late) = collect_values(client, &new)?;
    let pairs = new.iter().flat_map(|run| pairs_of(run));
    insert_pairs(client, known, pairs)?;
    insert_values(client, &values)?;
    let done = of(StoredRunMatch::New).chain(of(StoredRunMatch::Already));
    let outcomes: Vec<(&str, PlannedOutcome)> = done.filter_map(done_outcome).collect();
    planned_run_rows::record_outcomes(client, &outcomes)?;
    insert_run_rows(client, &new)?;
    insert_reports(client, &new)?;
    Ok(IngestResult {
        new: new.len() as u64,
        already_stored: of(StoredRunMatch::Already).count() as u64,
        differing: of(StoredRunMatch::Differing).map(|run| run.run.id.clone()).collect(),
        late_values: late,
        ..IngestResult::default()
    })
}

fn done_outcome(run: &IncomingRun) -> Option<(&str, PlannedOutcome)> {
    let run_id = run.run.id.clone();
    let planned = run.planned_id.as_deref()?;
    Some((planned, PlannedOutcome::Done { run_id }))
}

/// Compares each run with the stored one of the same id. Within a batch the first run of an id
/// wins.
fn match_stored_runs(
    client: &DatabaseClient,
    runs: &[IncomingRun],
) -> Result<Vec<StoredRunMatch>, StoreError> {
    let mut fates = vec![StoredRunMatch::New; runs.len()];
    let mut first: HashMap<&str, usize> = HashMap::new();
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (place, run) in runs.iter().enumerate() {
        let id = run.run.id.as_str();
        let before = *first.entry(id).or_insert(place);
        if before != place {
            fates[place] = compare_reports(&runs[before].report, &run.report);
        }
        places.entry(id).or_default().push(place);
    }
    let mut ids: Vec<&str> = places.keys().copied().collect();
    ids.sort_unstable();
    for ids in ids.chunks(MAX_IDS_PER_QUERY) {
        let stored: Vec<(String, String)> = client.request("find the runs", |at| async move {
            let sql = format!(
                "SELECT id, report FROM report WHERE id IN ({}) \
                 ORDER BY id, earliness DESC LIMIT 1 BY id",
                format_placeholders(ids.len())
            );
            let query = ids.iter().fold(at.query(&sql), |query, id| query.bind(id));
            query.fetch_all().await
        })?;
        for (id, report) in stored {
            for &place in places.get(id.as_str()).into_iter().flatten() {
                fates[place] = compare_reports(&report, &runs[place].report);
            }
        }
    }
    Ok(fates)
}

fn compare_reports(stored: &str, come: &str) -> StoredRunMatch {
    if stored == come { StoredRunMatch::Already } else { StoredRunMatch::Differing }
}

/// Returns `count` placeholders for a list of values.
pub fn format_placeholders(count: usize) -> String {
    vec!["?"; count].join(", ")
}

fn pairs_of(run: &IncomingRun) -> impl Iterator<Item = &HostPair> {
    run.pairs.iter().chain(run.readings.iter().map(|it| &it.pair))
}

/// Inserts the pairs that this connection has not inserted before.
pub fn insert_pairs<'a>(
    client: &DatabaseClient,
    known: &mut HashSet<HostPair>,
    pairs: impl Iterator<Item = &'a HostPair>,
) -> Result<(), StoreError> {
    let new: BTreeSet<&HostPair> = pairs.filter(|pair| !known.contains(*pair)).collect();
    if new.is_empty() {
        return Ok(());
    }
    let rows: &Vec<PairInsertRow> =
        &new.iter().map(|pair| PairInsertRow { sender: &pair.from, receiver: &pair.to }).collect();
    client.request("store the pairs", |at| async move {
        let mut insert = at.insert::<PairInsertRow>("pair").await?;
        for row in rows {
            insert.write(row).await?;
        }
        insert.end().await
    })?;
    if known.len() + new.len() > MAX_KNOWN_PAIRS {
        known.clear();
    }
    known.extend(new.into_iter().cloned());
    Ok(())
}

type SeriesHour<'a> = (&'a str, &'a str, &'a str, i64);

fn hour_of(reading: &SeriesReading) -> SeriesHour<'_> {
    (
        reading.quantity.word(),
        &reading.pair.from,
        &reading.pair.to,
        reading.point.at_us.div_euclid(HOUR_US),
    )
}

/// Returns the values of new runs whose hour is still open, and the number of late ones.
fn collect_values<'a>(
    client: &DatabaseClient,
    new: &[&'a IncomingRun],
) -> Result<(Vec<ValueInsertRow<'a>>, u64), StoreError> {
    let readings: Vec<&SeriesReading> = new.iter().flat_map(|run| &run.readings).collect();
    let closed = find_closed_hours(client, &readings)?;
    let late = |reading: &&SeriesReading| closed.contains(&to_owned_hour(hour_of(reading)));
    let in_time = readings.iter().copied().filter(|it| !late(it));
    let mut rows: Vec<ValueInsertRow> = in_time
        .map(|reading| ValueInsertRow {
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

type OwnedSeriesHour = (String, String, String, i64);

fn to_owned_hour((quantity, sender, receiver, hour): SeriesHour<'_>) -> OwnedSeriesHour {
    (quantity.to_owned(), sender.to_owned(), receiver.to_owned(), hour)
}

/// Returns those hours of the readings that are closed.
fn find_closed_hours(
    client: &DatabaseClient,
    readings: &[&SeriesReading],
) -> Result<HashSet<OwnedSeriesHour>, StoreError> {
    let mut found = HashSet::new();
    if readings.is_empty() {
        return Ok(found);
    }
    let before: i64 = client.request("read which hours are closed", |at| async move {
        at.query("SELECT max(before_hour) FROM closing").fetch_one().await
    })?;
    let hours: BTreeSet<SeriesHour> = readings.iter().map(|it| hour_of(it)).collect();
    let old: Vec<SeriesHour> = hours.into_iter().filter(|it| it.3 < before).collect();
    for old in old.chunks(MAX_IDS_PER_QUERY) {
        let rows: Vec<OwnedSeriesHour> = client.request("find closed hours", |at| async move {
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

fn insert_values(client: &DatabaseClient, rows: &[ValueInsertRow<'_>]) -> Result<(), StoreError> {
    if rows.is_empty() {
        return Ok(());
    }
    client.request("store the values", |at| async move {
        let mut insert = at.insert::<ValueInsertRow>("value").await?;
        for row in rows {
            insert.write(row).await?;
        }
        insert.end().await
    })
}

fn insert_run_rows(client: &DatabaseClient, new: &[&IncomingRun]) -> Result<(), StoreError> {
    if new.is_empty() {
        return Ok(());
    }
    let earliness = row_version::compute_earliness();
    client.request("store the list of runs", |at| async move {
        let mut insert = at.insert::<RunInsertRow>("run").await?;
        for run in new {
            let pairs: BTreeSet<&HostPair> = pairs_of(run).collect();
            for pair in pairs {
                let names = (pair.from.as_str(), pair.to.as_str());
                insert.write(&build_run_row(run, names, earliness)).await?;
            }
            let row = build_run_row(run, (NO_NAME, NO_NAME), earliness);
            insert.write(&row).await?;
        }
        insert.end().await
    })
}

fn build_run_row<'a>(
    run: &'a IncomingRun,
    pair: (&'a str, &'a str),
    earliness: u64,
) -> RunInsertRow<'a> {
    let of = &run.run;
    RunInsertRow {
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
        streams: run.list_columns.streams,
        goodput_bps: run.list_columns.goodput_bps,
        limited_by: run.list_columns.limited_by,
        analysis_version: run.list_columns.analysis_version,
        part_of: of.part_of.as_ref().map(|whole| whole.id.as_str()),
        earliness,
    }
}

fn insert_reports(client: &DatabaseClient, new: &[&IncomingRun]) -> Result<(), StoreError> {
    let earliness = row_version::compute_earliness();
    let mut rest = new;
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = rest.iter().take_while(|run| {
            bytes += run.report.len();
            bytes <= MAX_REPORT_BYTES_PER_INSERT
        });
        // A report above the limit is sent alone.
        let (now, later) = rest.split_at(fits.count().max(1));
        client.request("store the runs", |at| async move {
            let mut insert = at.insert::<ReportInsertRow>("report").await?;
            for run in now {
                let row = ReportInsertRow {
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
