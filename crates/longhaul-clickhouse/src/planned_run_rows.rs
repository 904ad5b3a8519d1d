//! Planned runs and their outcomes.
//!
//! An outcome is another row of the same key with a higher version. Two writers that settle the
//! same run in any order therefore produce the same result.

use crate::database_client::DatabaseClient;
use crate::row_version;
use crate::run_insert::{MAX_IDS_PER_QUERY, NO_NAME, format_placeholders};
use crate::table_rows::PlannedRunRow as Stored;
use longhaul_model::report::v1::series::HostPair;
use longhaul_store::StoreError;
use longhaul_store::history_store::ingest_limits::TIME_END_US;
use longhaul_store::history_store::{
    PlannedEntry, PlannedOutcome, PlannedRun, PlannedRunCounts, PlannedRunFilter, TimeRange,
};
use std::collections::{BTreeMap, HashMap};

pub const WAITING: u8 = 0;
const MISSED: u8 = 1;
const DONE: u8 = 2;

/// Stores planned runs and returns the number of new ones.
pub fn insert_planned(client: &DatabaseClient, due: &[PlannedRun]) -> Result<u64, StoreError> {
    let mut new: BTreeMap<&str, &PlannedRun> = BTreeMap::new();
    for it in due {
        new.entry(&it.id).or_insert(it);
    }
    let ids: Vec<&str> = new.keys().copied().collect();
    for known in read_stored_rows(client, &ids)? {
        new.remove(known.id.as_str());
    }
    let rows: Vec<Stored> = new.values().map(|it| build_waiting_row(it)).collect();
    insert_rows(client, &rows)?;
    Ok(rows.len() as u64)
}

fn build_waiting_row(planned: &PlannedRun) -> Stored {
    let end = |of: fn(&HostPair) -> &String| {
        let name = planned.pair.as_ref().map(of);
        name.map_or(String::new(), Clone::clone)
    };
    Stored {
        id: planned.id.clone(),
        due_us: planned.due_us,
        measurement: planned.measurement.clone(),
        sender: end(|pair| &pair.from),
        receiver: end(|pair| &pair.to),
        state: WAITING,
        told: String::new(),
        standing: row_version::compute_standing(WAITING),
    }
}

/// Stores planned runs with their outcomes. Each row is complete, so an outcome is stored even if
/// the row of its plan went to a replica that is down.
pub fn upsert_planned(client: &DatabaseClient, rows: &[PlannedEntry]) -> Result<(), StoreError> {
    let ids: Vec<&str> = rows.iter().map(|row| row.planned.id.as_str()).collect();
    let stored = read_stored_rows(client, &ids)?.into_iter();
    let mut known: HashMap<String, Stored> = stored.map(|row| (row.id.clone(), row)).collect();
    let mut written = BTreeMap::new();
    for row in rows {
        let id = &row.planned.id;
        let is_new = !known.contains_key(id);
        let stands = known.entry(id.clone()).or_insert_with(|| build_waiting_row(&row.planned));
        let before = stands.state;
        if let Some(outcome) = &row.outcome {
            apply_outcome(stands, outcome);
        }
        if is_new || stands.state != before {
            written.insert(id.clone(), stands.clone());
        }
    }
    insert_rows(client, &written.into_values().collect::<Vec<_>>())
}

/// Stores outcomes of planned runs and returns the number of known ids.
pub fn record_outcomes(
    client: &DatabaseClient,
    outcomes: &[(&str, PlannedOutcome)],
) -> Result<usize, StoreError> {
    let mut said: BTreeMap<&str, Vec<&PlannedOutcome>> = BTreeMap::new();
    for (id, outcome) in outcomes {
        said.entry(id).or_default().push(outcome);
    }
    let ids: Vec<&str> = said.keys().copied().collect();
    let stored = read_stored_rows(client, &ids)?;
    let count = stored.len();
    let mut rows = Vec::new();
    for mut row in stored {
        let before = row.state;
        for outcome in &said[row.id.as_str()] {
            apply_outcome(&mut row, outcome);
        }
        if row.state != before {
            rows.push(row);
        }
    }
    insert_rows(client, &rows)?;
    Ok(count)
}

fn apply_outcome(row: &mut Stored, outcome: &PlannedOutcome) {
    let (state, told) = match outcome {
        PlannedOutcome::Done { run_id } => (DONE, run_id),
        PlannedOutcome::Missed { reason } => (MISSED, reason),
    };
    if state > row.state {
        row.state = state;
        row.told.clone_from(told);
        row.standing = row_version::compute_standing(state);
    }
}

/// Returns the current rows of those ids that are known.
fn read_stored_rows(client: &DatabaseClient, ids: &[&str]) -> Result<Vec<Stored>, StoreError> {
    let mut found = Vec::new();
    for ids in ids.chunks(MAX_IDS_PER_QUERY) {
        let rows: Vec<Stored> = client.request("find planned runs", |at| async move {
            let sql = format!(
                "SELECT ?fields FROM planned WHERE id IN ({}) \
                 ORDER BY id, standing DESC LIMIT 1 BY id",
                format_placeholders(ids.len())
            );
            let query = ids.iter().fold(at.query(&sql), |query, id| query.bind(id));
            query.fetch_all().await
        })?;
        found.extend(rows);
    }
    Ok(found)
}

fn insert_rows(client: &DatabaseClient, rows: &[Stored]) -> Result<(), StoreError> {
    if rows.is_empty() {
        return Ok(());
    }
    client.request("store planned runs", |at| async move {
        let mut insert = at.insert::<Stored>("planned").await?;
        for row in rows {
            insert.write(row).await?;
        }
        insert.end().await
    })
}

/// Clamps a range to the accepted times.
pub fn clamp_range(range: TimeRange) -> (i64, i64) {
    let clamp = |us: i64| us.clamp(0, TIME_END_US);
    (clamp(range.begin_us), clamp(range.end_us))
}

pub fn list_planned(
    client: &DatabaseClient,
    filter: &PlannedRunFilter,
) -> Result<Vec<PlannedEntry>, StoreError> {
    let (begin_us, end_us) = clamp_range(filter.range);
    let mut sql =
        String::from("SELECT ?fields FROM planned FINAL WHERE due_us >= ? AND due_us < ?");
    if filter.waiting {
        sql += " AND state = 0";
    }
    if filter.pair.is_some() {
        sql += " AND sender = ? AND receiver = ?";
    }
    sql += " ORDER BY due_us, id LIMIT ?";
    let sql = &sql;
    let rows: Vec<Stored> = client.request("list planned runs", |at| async move {
        let mut query = at.query(sql).bind(begin_us).bind(end_us);
        if let Some(pair) = &filter.pair {
            query = query.bind(&pair.from).bind(&pair.to);
        }
        query.bind(filter.limit).fetch_all().await
    })?;
    Ok(rows.into_iter().map(to_planned_entry).collect())
}

fn to_planned_entry(row: Stored) -> PlannedEntry {
    let pair = (row.sender != NO_NAME).then_some(HostPair { from: row.sender, to: row.receiver });
    PlannedEntry {
        planned: PlannedRun { id: row.id, due_us: row.due_us, measurement: row.measurement, pair },
        outcome: match row.state {
            DONE => Some(PlannedOutcome::Done { run_id: row.told }),
            MISSED => Some(PlannedOutcome::Missed { reason: row.told }),
            _ => None,
        },
    }
}

pub fn count_planned(
    client: &DatabaseClient,
    range: TimeRange,
) -> Result<PlannedRunCounts, StoreError> {
    let (begin_us, end_us) = clamp_range(range);
    let rows: Vec<(u8, String, u64)> = client.request("count planned runs", |at| async move {
        let sql = "SELECT state, if(state = 1, told, '') AS reason, toUInt64(count()) AS runs \
                   FROM planned FINAL WHERE due_us >= ? AND due_us < ? \
                   GROUP BY state, reason ORDER BY runs DESC, reason";
        at.query(sql).bind(begin_us).bind(end_us).fetch_all().await
    })?;
    let mut counts = PlannedRunCounts::default();
    for (state, reason, runs) in rows {
        match state {
            DONE => counts.done += runs,
            MISSED => {
                counts.missed += runs;
                counts.reasons.push((reason, runs));
            }
            _ => counts.waiting += runs,
        }
    }
    Ok(counts)
}
