//! Planned runs and their outcomes.

use super::outbox;
use crate::archive::Archive;
use crate::history_store::{
    MeasurementFailure, MeasurementState, MissedRunCount, PlannedOutcome, PlannedRun,
    PlannedRunCounts, PlannedRunFilter, PlannedRunState, TimeRange,
};
use crate::store_error::StoreError;
use longhaul_model::report::v1::HostPair;
use rusqlite::{OptionalExtension, Row, Transaction, params};

const WAITING: i64 = 0;
const DONE: i64 = 1;
const MISSED: i64 = 2;

const SELECT: &str = "SELECT planned.id, due_us, measurement, state, run, reason, sender, receiver, \
                      detail FROM planned LEFT JOIN pair ON pair.id = planned.pair";

/// The reasons of missed runs that are failures of the measurement (as the agent names them); the
/// others are its own decisions.
const FAILURES: [&str; 2] = ["failed", "target_failing"];

/// A success ends the failures up to its time. Outcomes may arrive in any order.
const NOTE_SUCCESS: &str = "\
    INSERT INTO measurement_state (measurement, pair, done_us, done_run) \
    SELECT measurement, coalesce(pair, 0), due_us, ?2 FROM planned WHERE id = ?1 \
    ON CONFLICT (measurement, pair) DO UPDATE SET \
    done_run = CASE WHEN coalesce(done_us, 0) <= excluded.done_us THEN excluded.done_run ELSE done_run END, \
    done_us = max(coalesce(done_us, 0), excluded.done_us), \
    detail = CASE WHEN failed_us <= excluded.done_us THEN NULL ELSE detail END, \
    failing_since_us = CASE WHEN failed_us <= excluded.done_us THEN NULL \
        WHEN failing_since_us <= excluded.done_us THEN failed_us ELSE failing_since_us END";

/// A failure counts if it is later than the last success. One without detail keeps that of the
/// attempt before.
const NOTE_FAILURE: &str = "\
    INSERT INTO measurement_state (measurement, pair, failing_since_us, failed_us, reason, detail) \
    SELECT measurement, coalesce(pair, 0), due_us, due_us, ?2, ?3 FROM planned WHERE id = ?1 \
    ON CONFLICT (measurement, pair) DO UPDATE SET \
    reason = CASE WHEN coalesce(failed_us, 0) <= excluded.failed_us THEN excluded.reason ELSE reason END, \
    detail = CASE WHEN coalesce(failed_us, 0) <= excluded.failed_us \
        THEN coalesce(excluded.detail, detail) ELSE coalesce(detail, excluded.detail) END, \
    failing_since_us = min(coalesce(failing_since_us, excluded.failed_us), excluded.failed_us), \
    failed_us = max(coalesce(failed_us, 0), excluded.failed_us) \
    WHERE excluded.failed_us > coalesce(done_us, 0)";

/// Stores planned runs with their outcomes and returns the number of new ones.
pub fn insert_planned(to: &Transaction<'_>, planned: &[PlannedRun]) -> rusqlite::Result<u64> {
    let mut new = 0;
    let mut insert = to.prepare_cached(
        "INSERT INTO planned (id, due_us, measurement, pair, state, run, reason, detail) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (id) DO NOTHING",
    )?;
    for it in planned {
        let pair = it.pair.as_ref().map(|pair| super::find_or_insert_pair(to, pair));
        let (state, run, reason, detail) = match &it.outcome {
            None => (WAITING, None, None, None),
            Some(PlannedOutcome::Done { run_id }) => (DONE, Some(run_id), None, None),
            Some(PlannedOutcome::Missed { reason, detail }) => {
                (MISSED, None, Some(reason), detail.as_ref())
            }
        };
        let row = params![
            it.id,
            it.due_us,
            it.measurement,
            pair.transpose()?,
            state,
            run,
            reason,
            detail
        ];
        if insert.execute(row)? > 0 {
            new += 1;
            note_outcome(to, &it.id, it.outcome.as_ref())?;
            outbox::put_planned(to, &it.id, it.due_us)?;
        } else if let Some(outcome) = &it.outcome {
            record_outcome(to, &it.id, outcome)?;
        }
    }
    Ok(new)
}

/// Stores the outcome of a planned run; returns false if the id is unknown.
pub fn record_outcome(
    to: &Transaction<'_>,
    id: &str,
    outcome: &PlannedOutcome,
) -> rusqlite::Result<bool> {
    let due_us: Option<i64> = match outcome {
        PlannedOutcome::Done { run_id } => to
            .prepare_cached(
                "UPDATE planned SET state = 1, run = ?2, reason = NULL, detail = NULL \
                 WHERE id = ?1 AND state <> 1 RETURNING due_us",
            )?
            .query_row([id, run_id], |row| row.get(0)),
        PlannedOutcome::Missed { reason, detail } => to
            .prepare_cached(
                "UPDATE planned SET state = 2, reason = ?2, detail = ?3 \
                 WHERE id = ?1 AND state = 0 RETURNING due_us",
            )?
            .query_row(params![id, reason, detail], |row| row.get(0)),
    }
    .optional()?;
    if let Some(due_us) = due_us {
        note_outcome(to, id, Some(outcome))?;
        outbox::put_planned(to, id, due_us)?;
        return Ok(true);
    }
    to.prepare_cached("SELECT 1 FROM planned WHERE id = ?1")?.exists([id])
}

/// Updates the state of the measurement with the new outcome of a planned run.
fn note_outcome(
    to: &Transaction<'_>,
    id: &str,
    outcome: Option<&PlannedOutcome>,
) -> rusqlite::Result<()> {
    match outcome {
        Some(PlannedOutcome::Done { run_id }) => {
            to.prepare_cached(NOTE_SUCCESS)?.execute([id, run_id]).map(drop)
        }
        Some(PlannedOutcome::Missed { reason, detail }) if FAILURES.contains(&reason.as_str()) => {
            to.prepare_cached(NOTE_FAILURE)?.execute(params![id, reason, detail]).map(drop)
        }
        _ => Ok(()),
    }
}

impl Archive {
    /// Returns planned runs, sorted by due time, earliest first.
    pub fn planned(&self, filter: &PlannedRunFilter) -> Result<Vec<PlannedRun>, StoreError> {
        self.list_planned(filter, "ASC")
    }

    /// Returns planned runs, sorted by due time, latest first.
    pub fn latest_planned(&self, filter: &PlannedRunFilter) -> Result<Vec<PlannedRun>, StoreError> {
        self.list_planned(filter, "DESC")
    }

    fn list_planned(
        &self,
        filter: &PlannedRunFilter,
        order: &str,
    ) -> Result<Vec<PlannedRun>, StoreError> {
        // As text, so that the indexes of waiting and of missed runs serve.
        let state = filter.state.map_or(String::new(), |state| {
            let number = match state {
                PlannedRunState::Waiting => WAITING,
                PlannedRunState::Done => DONE,
                PlannedRunState::Missed => MISSED,
            };
            format!("AND state = {number}")
        });
        let pair = filter.pair.as_ref().map_or(
            "",
            |_| "AND planned.pair = (SELECT id FROM pair WHERE sender = ?3 AND receiver = ?4)",
        );
        let query = format!(
            "{SELECT} WHERE due_us >= ?1 AND due_us < ?2 {pair} {state} \
             ORDER BY due_us {order}, planned.id {order} LIMIT ?5"
        );
        let values = params![
            filter.range.begin_us,
            filter.range.end_us,
            filter.pair.as_ref().map(|pair| &pair.from),
            filter.pair.as_ref().map(|pair| &pair.to),
            filter.limit
        ];
        self.read("list planned runs", |from| {
            from.prepare_cached(&query)?.query_map(values, read_planned_row)?.collect()
        })
    }

    /// Returns the states of the measurements: the failing ones first, then by the time of the last
    /// success, the oldest first.
    pub fn measurement_states(&self, limit: u32) -> Result<Vec<MeasurementState>, StoreError> {
        self.read("read the states of the measurements", |from| {
            from.prepare_cached(
                "SELECT measurement, sender, receiver, done_us, done_run, kind, \
                 failing_since_us, failed_us, reason, detail FROM measurement_state \
                 LEFT JOIN pair ON pair.id = measurement_state.pair \
                 LEFT JOIN run ON run.id = done_run \
                 ORDER BY failing_since_us IS NULL, done_us, measurement, sender, receiver LIMIT ?1",
            )?
            .query_map([limit], read_measurement_state)?
            .collect()
        })
    }

    /// Returns the latest due time of a planned run.
    pub fn last_planned_us(&self) -> Result<Option<i64>, StoreError> {
        self.read("find the last planned run", |from| {
            from.query_row("SELECT max(due_us) FROM planned", [], |row| row.get(0))
        })
    }

    /// Returns the number of runs due in a range, by outcome. The counts add up to the total.
    pub fn planned_counts(&self, range: TimeRange) -> Result<PlannedRunCounts, StoreError> {
        self.read("count planned runs", |from| {
            let mut counts = PlannedRunCounts::default();
            let mut statement = from.prepare_cached(
                "SELECT state, CASE WHEN state = 2 THEN reason END AS why, count(*) AS runs \
                 FROM planned WHERE due_us >= ?1 AND due_us < ?2 GROUP BY state, why \
                 ORDER BY runs DESC, why",
            )?;
            let mut rows = statement.query((range.begin_us, range.end_us))?;
            while let Some(row) = rows.next()? {
                let runs: u64 = row.get(2)?;
                counts.planned += runs;
                match row.get(0)? {
                    DONE => counts.done += runs,
                    MISSED => {
                        counts.missed += runs;
                        counts.reasons.push(MissedRunCount { reason: row.get(1)?, runs });
                    }
                    _ => counts.waiting += runs,
                }
            }
            Ok(counts)
        })
    }
}

/// Returns the planned run with exactly this id.
pub fn find_planned(from: &Transaction<'_>, id: &str) -> rusqlite::Result<Option<PlannedRun>> {
    from.prepare_cached(&format!("{SELECT} WHERE planned.id = ?1"))?
        .query_row([id], read_planned_row)
        .optional()
}

fn read_measurement_state(row: &Row<'_>) -> rusqlite::Result<MeasurementState> {
    let ends: (Option<String>, Option<String>) = (row.get(1)?, row.get(2)?);
    let failure = match row.get(6)? {
        None => None,
        Some(since_us) => Some(MeasurementFailure {
            since_us,
            latest_us: row.get(7)?,
            reason: row.get(8)?,
            detail: row.get(9)?,
        }),
    };
    Ok(MeasurementState {
        measurement: row.get(0)?,
        pair: ends.0.zip(ends.1).map(|(from, to)| HostPair { from, to }),
        done_us: row.get(3)?,
        done_run: row.get(4)?,
        kind: row.get(5)?,
        failure,
    })
}

fn read_planned_row(row: &Row<'_>) -> rusqlite::Result<PlannedRun> {
    let ends: (Option<String>, Option<String>) = (row.get(6)?, row.get(7)?);
    let outcome = match row.get(3)? {
        DONE => Some(PlannedOutcome::Done { run_id: row.get(4)? }),
        MISSED => Some(PlannedOutcome::Missed { reason: row.get(5)?, detail: row.get(8)? }),
        _ => None,
    };
    Ok(PlannedRun {
        id: row.get(0)?,
        due_us: row.get(1)?,
        measurement: row.get(2)?,
        pair: ends.0.zip(ends.1).map(|(from, to)| HostPair { from, to }),
        outcome,
    })
}
