//! Inserts what an agent delivers, in any order, and any number of times.
//!
//! ClickHouse has no transactions, so the order of writing replaces them: pairs, planned runs,
//! values, rows of the run list, and the report last. A run whose report is stored is complete.
//! After an interrupted insert the sender repeats the run: the engine keeps one row of each key. Of
//! two reports with the same id it keeps the first.

use crate::database_client::DatabaseClient;
use crate::table_rows;
use crate::table_rows::{
    EventInsertRow, PairInsertRow, PlannedInsertRow, ReportInsertRow, RunInsertRow, ValueInsertRow,
};
use longhaul_model::report::v1::{ChangeEvent, HostPair};
use longhaul_store::StoreError;
use longhaul_store::history_store::{self, AgentDelivery, IncomingRun, PlannedOutcome, PlannedRun};
use std::collections::{BTreeSet, HashSet};

/// The maximum size of the reports in one request.
const MAX_REPORT_BYTES_PER_INSERT: usize = 64 << 20;

/// The maximum number of pairs to remember; beyond it some are written again.
const MAX_KNOWN_PAIRS: usize = 1_000_000;

/// The name that means "no pair", and that the list of all runs uses; no real name is empty.
const NO_NAME: &str = "";

/// The states of a planned run; a later one outranks an earlier one.
const WAITING: u8 = 0;
const MISSED: u8 = 1;
const DONE: u8 = 2;

/// Inserts the pairs that this connection has not inserted before.
pub fn insert_pairs(
    client: &DatabaseClient,
    known: &mut HashSet<HostPair>,
    delivery: &AgentDelivery,
) -> Result<(), StoreError> {
    let of_runs = delivery.runs.iter().flat_map(pairs_of);
    let of_plans = delivery.planned.iter().filter_map(|row| row.pair.as_ref());
    let of_events = delivery.events.iter().map(|event| &event.pair);
    let all = of_runs.chain(of_plans).chain(of_events);
    let new: BTreeSet<&HostPair> = all.filter(|pair| !known.contains(*pair)).collect();
    let rows: Vec<PairInsertRow> =
        new.iter().map(|pair| PairInsertRow { sender: &pair.from, receiver: &pair.to }).collect();
    client.insert::<PairInsertRow<'_>>("store the pairs", "pair", &rows)?;
    if known.len() + new.len() > MAX_KNOWN_PAIRS {
        known.clear();
    }
    known.extend(new.into_iter().cloned());
    Ok(())
}

fn pairs_of(run: &IncomingRun) -> impl Iterator<Item = &HostPair> {
    run.pairs.iter().chain(run.readings.iter().map(|it| &it.pair))
}

/// Stores planned runs with their outcomes.
///
/// An outcome is another row of the same key with a higher version. Two writers that settle the
/// same run in any order therefore produce the same result.
pub fn insert_planned(client: &DatabaseClient, rows: &[PlannedRun]) -> Result<(), StoreError> {
    let rows: Vec<PlannedInsertRow> = rows.iter().map(build_planned_row).collect();
    client.insert::<PlannedInsertRow<'_>>("store planned runs", "planned", &rows)
}

fn build_planned_row(row: &PlannedRun) -> PlannedInsertRow<'_> {
    let (state, told) = match &row.outcome {
        None => (WAITING, ""),
        Some(PlannedOutcome::Missed { reason, .. }) => (MISSED, reason.as_str()),
        Some(PlannedOutcome::Done { run_id }) => (DONE, run_id.as_str()),
    };
    let pair = row.pair.as_ref();
    PlannedInsertRow {
        id: &row.id,
        due_us: row.due_us,
        measurement: &row.measurement,
        sender: pair.map_or(NO_NAME, |pair| &pair.from),
        receiver: pair.map_or(NO_NAME, |pair| &pair.to),
        state,
        told,
        standing: table_rows::compute_standing(state),
    }
}

/// Stores runs.
pub fn insert_runs(client: &DatabaseClient, runs: &[IncomingRun]) -> Result<(), StoreError> {
    insert_values(client, runs)?;
    insert_run_rows(client, runs)?;
    insert_reports(client, runs)
}

fn insert_values(client: &DatabaseClient, runs: &[IncomingRun]) -> Result<(), StoreError> {
    let readings = runs.iter().flat_map(|run| &run.readings);
    let rows: Vec<ValueInsertRow> = readings
        .map(|reading| ValueInsertRow {
            quantity: reading.quantity.word(),
            sender: &reading.pair.from,
            receiver: &reading.pair.to,
            at_us: reading.point.at_us,
            value: reading.point.value,
        })
        .collect();
    client.insert::<ValueInsertRow<'_>>("store the values", "value", &rows)
}

fn insert_run_rows(client: &DatabaseClient, runs: &[IncomingRun]) -> Result<(), StoreError> {
    let earliness = table_rows::compute_earliness();
    let mut rows = Vec::new();
    for run in runs {
        let pairs: BTreeSet<&HostPair> = pairs_of(run).collect();
        for pair in pairs {
            rows.push(build_run_row(run, &pair.from, &pair.to, earliness));
        }
        rows.push(build_run_row(run, NO_NAME, NO_NAME, earliness));
    }
    client.insert::<RunInsertRow<'_>>("store the list of runs", "run", &rows)
}

fn build_run_row<'a>(
    run: &'a IncomingRun,
    sender: &'a str,
    receiver: &'a str,
    earliness: u64,
) -> RunInsertRow<'a> {
    let of = &run.run;
    RunInsertRow {
        sender,
        receiver,
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

fn insert_reports(client: &DatabaseClient, runs: &[IncomingRun]) -> Result<(), StoreError> {
    let earliness = table_rows::compute_earliness();
    let mut rows = Vec::with_capacity(runs.len());
    for run in runs {
        let (id, report) = (&run.run.id, &run.report);
        rows.push(ReportInsertRow { id, at_us: run.at_us, report, earliness });
    }
    let mut rest = rows.as_slice();
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = rest.iter().take_while(|row| {
            bytes += row.report.len();
            bytes <= MAX_REPORT_BYTES_PER_INSERT
        });
        // A report above the limit is sent alone.
        let (now, later) = rest.split_at(fits.count().max(1));
        client.insert::<ReportInsertRow<'_>>("store the runs", "report", now)?;
        rest = later;
    }
    Ok(())
}

/// Stores an event and replaces an earlier one with the same id; `text` is its JSON.
pub fn insert_event(
    client: &DatabaseClient,
    event: &ChangeEvent,
    text: &str,
) -> Result<(), StoreError> {
    let id = &event.id;
    let before: u64 = client.request("read the event", |at| async move {
        at.query("SELECT max(version) FROM event WHERE id = ?").bind(id).fetch_one().await
    })?;
    let row = EventInsertRow {
        id,
        sender: &event.pair.from,
        receiver: &event.pair.to,
        quantity: event.quantity.word(),
        state: event.state.word(),
        is_open: u8::from(history_store::is_event_open(event)),
        begin_us: event.between_us[0],
        end_us: event.between_us[1],
        event: text,
        // The version increases even if another writer's clock is ahead.
        version: table_rows::now_us().max(before.saturating_add(1)),
    };
    client.insert::<EventInsertRow<'_>>("store the event", "event", &[row])
}
