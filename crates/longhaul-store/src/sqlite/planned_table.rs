//! Planned runs and their outcomes.

use super::name_ids::NameIds;
use super::outbox::OutboxWriter;
use crate::history_store::{
    MissedRunCount, PlannedEntry, PlannedOutcome, PlannedRun, PlannedRunCounts, PlannedRunFilter,
    PlannedRunState, TimeRange,
};
use longhaul_model::report::v1::series::HostPair;
use rusqlite::{OptionalExtension, Row, Transaction, params};

const WAITING: i64 = 0;
const DONE: i64 = 1;
const MISSED: i64 = 2;

const SELECT: &str = "SELECT planned.id, due_us, measurement, state, run, reason, sender, receiver \
                      FROM planned LEFT JOIN pair ON pair.id = planned.pair";

/// Stores planned runs and returns the number of new ones.
pub fn insert_planned(
    to: &Transaction<'_>,
    planned: &[PlannedRun],
    outbox: OutboxWriter,
    names: &mut NameIds,
) -> rusqlite::Result<u64> {
    let mut new = 0;
    let mut insert = to.prepare_cached(
        "INSERT INTO planned (id, due_us, measurement, pair) VALUES (?1, ?2, ?3, ?4) \
         ON CONFLICT (id) DO NOTHING",
    )?;
    for it in planned {
        let pair = match &it.pair {
            Some(pair) => Some(names.pair_id(to, pair)?),
            None => None,
        };
        if insert.execute(params![it.id, it.due_us, it.measurement, pair])? > 0 {
            new += 1;
            outbox.planned(to, &it.id)?;
        }
    }
    Ok(new)
}

/// Stores the outcome of a planned run; returns false if the id is unknown.
pub fn record_outcome(
    to: &Transaction<'_>,
    id: &str,
    outcome: &PlannedOutcome,
    outbox: OutboxWriter,
) -> rusqlite::Result<bool> {
    let changed = match outcome {
        PlannedOutcome::Done { run_id } => to
            .prepare_cached(
                "UPDATE planned SET state = 1, run = ?2, reason = NULL WHERE id = ?1 AND state <> 1",
            )?
            .execute([id, run_id])?,
        PlannedOutcome::Missed { reason } => to
            .prepare_cached("UPDATE planned SET state = 2, reason = ?2 WHERE id = ?1 AND state = 0")?
            .execute([id, reason])?,
    };
    if changed > 0 {
        outbox.planned(to, id)?;
        return Ok(true);
    }
    to.prepare_cached("SELECT 1 FROM planned WHERE id = ?1")?.exists([id])
}

/// Returns planned runs by due time; `order` is `ASC` or `DESC`.
pub fn list_planned(
    from: &Transaction<'_>,
    filter: &PlannedRunFilter,
    order: &str,
) -> rusqlite::Result<Vec<PlannedEntry>> {
    let state = filter.state.map(|state| match state {
        PlannedRunState::Waiting => WAITING,
        PlannedRunState::Done => DONE,
        PlannedRunState::Missed => MISSED,
    });
    from.prepare_cached(&format!(
        "{SELECT} WHERE due_us >= ?1 AND due_us < ?2 \
         AND (?3 IS NULL OR sender = ?3 AND receiver = ?4) AND (?5 IS NULL OR state = ?5) \
         ORDER BY due_us {order}, planned.id {order} LIMIT ?6"
    ))?
    .query_map(
        params![
            filter.range.begin_us,
            filter.range.end_us,
            filter.pair.as_ref().map(|pair| &pair.from),
            filter.pair.as_ref().map(|pair| &pair.to),
            state,
            filter.limit
        ],
        read_planned_row,
    )?
    .collect()
}

/// Returns the planned run with exactly this id.
pub fn find_planned(from: &Transaction<'_>, id: &str) -> rusqlite::Result<Option<PlannedEntry>> {
    from.prepare_cached(&format!("{SELECT} WHERE planned.id = ?1"))?
        .query_row([id], read_planned_row)
        .optional()
}

fn read_planned_row(row: &Row<'_>) -> rusqlite::Result<PlannedEntry> {
    let ends: (Option<String>, Option<String>) = (row.get(6)?, row.get(7)?);
    let outcome = match row.get(3)? {
        DONE => Some(PlannedOutcome::Done { run_id: row.get(4)? }),
        MISSED => Some(PlannedOutcome::Missed { reason: row.get(5)? }),
        _ => None,
    };
    Ok(PlannedEntry {
        planned: PlannedRun {
            id: row.get(0)?,
            due_us: row.get(1)?,
            measurement: row.get(2)?,
            pair: ends.0.zip(ends.1).map(|(from, to)| HostPair { from, to }),
        },
        outcome,
    })
}

pub fn count_planned(
    from: &Transaction<'_>,
    range: TimeRange,
) -> rusqlite::Result<PlannedRunCounts> {
    let bounds = (range.begin_us, range.end_us);
    let of_state = |state: i64| -> rusqlite::Result<u64> {
        from.prepare_cached(
            "SELECT count(*) FROM planned WHERE due_us >= ?1 AND due_us < ?2 AND state = ?3",
        )?
        .query_row((bounds.0, bounds.1, state), |row| row.get(0))
    };
    let reasons = from
        .prepare_cached(
            "SELECT reason, count(*) AS runs FROM planned \
             WHERE due_us >= ?1 AND due_us < ?2 AND state = 2 \
             GROUP BY reason ORDER BY runs DESC, reason",
        )?
        .query_map(bounds, |row| Ok(MissedRunCount { reason: row.get(0)?, runs: row.get(1)? }))?
        .collect::<rusqlite::Result<_>>()?;
    let (done, missed, waiting) = (of_state(DONE)?, of_state(MISSED)?, of_state(WAITING)?);
    Ok(PlannedRunCounts { planned: done + missed + waiting, done, missed, waiting, reasons })
}
