//! Planned runs and their outcomes, and the states of the measurements.

use super::ApiState;
use super::api_error::ApiError;
use super::query_params::{QueryParams, QueryRange};
use super::run_handlers::list_jobs;
use super::shape::{MeasurementRow, PlannedRuns, RequestableRun};
use crate::agent::export::read_wall_us;
use crate::watch::DAY_US;
use axum::Json;
use axum::extract::State;
use longhaul_model::report::v1::HostPair;
use longhaul_store::history_store::{MeasurementState, PlannedRunFilter, PlannedRunState};
use std::collections::HashMap;
use std::sync::Arc;

const DEFAULT_LIMIT: u32 = 500;
const MAX_LIMIT: u32 = 10_000;

const STATES: [(&str, PlannedRunState); 3] = [
    ("waiting", PlannedRunState::Waiting),
    ("done", PlannedRunState::Done),
    ("missed", PlannedRunState::Missed),
];

/// Planned runs in a range: counts of all pairs, and the newest rows.
#[utoipa::path(get, path = "/api/v1/planned", tag = "runs",
    params(
        ("from" = Option<String>, Query, description = "Sender; with `to`: only rows of this pair", min_length = 1, max_length = 255),
        ("to" = Option<String>, Query, description = "Receiver; requires `from`", min_length = 1, max_length = 255),
        QueryRange,
        ("state" = Option<PlannedRunState>, Query, description = "Only rows in this state"),
        ("limit" = Option<u32>, Query, description = "Max number of rows; default 500", minimum = 1, maximum = 10_000),
    ),
    responses((status = 200, description = "Counts and rows", body = PlannedRuns)))]
pub async fn planned(
    State(shared): State<Arc<ApiState>>,
    mut params: QueryParams,
) -> Result<Json<PlannedRuns>, ApiError> {
    let mut filter = PlannedRunFilter {
        range: params.range()?,
        pair: params.pair()?,
        state: params.one_of("state", &STATES)?,
        limit: params.limit(DEFAULT_LIMIT, MAX_LIMIT)?,
    };
    params.reject_rest()?;
    let limit = filter.limit as usize;
    filter.limit += 1;
    let (counts, mut rows) = shared
        .archive
        .query(move |archive| {
            Ok((archive.planned_counts(filter.range)?, archive.latest_planned(&filter)?))
        })
        .await?;
    let more = rows.len() > limit;
    rows.truncate(limit);
    Ok(Json(PlannedRuns { counts, rows, more }))
}

/// The number of intervals without a result after which a measurement is stale.
const STALE_INTERVALS: i64 = 3;
/// The state of a measurement that is not in the watch file is listed for this time, because it may
/// be of another agent.
const FOREIGN_STATE_US: i64 = 7 * DAY_US;
const MEASUREMENTS_LIMIT: u32 = 5000;
const MAX_MEASUREMENTS: u32 = 100_000;

/// The measurements of each pair: their last result, and failures since. The failing ones come
/// first, then those whose last result is the oldest.
#[utoipa::path(get, path = "/api/v1/measurements", tag = "runs",
    params(("limit" = Option<u32>, Query, description = "Max number of rows; default 5000", minimum = 1, maximum = 100_000)),
    responses((status = 200, description = "Measurements", body = Vec<MeasurementRow>)))]
pub async fn measurements(
    State(shared): State<Arc<ApiState>>,
    mut params: QueryParams,
) -> Result<Json<Vec<MeasurementRow>>, ApiError> {
    let limit = params.limit(MEASUREMENTS_LIMIT, MAX_MEASUREMENTS)?;
    params.reject_rest()?;
    let file = shared.state.file();
    let now_us = read_wall_us();
    let rows = shared.archive.query(move |archive| {
        let states = archive.measurement_states(limit)?;
        Ok(build_measurement_rows(states, list_jobs(&file), now_us))
    });
    let mut rows = rows.await?;
    rows.truncate(limit as usize);
    Ok(Json(rows))
}

/// Joins the states with the jobs of the watch file. Jobs without a result come last.
fn build_measurement_rows(
    states: Vec<MeasurementState>,
    jobs: Vec<RequestableRun>,
    now_us: i64,
) -> Vec<MeasurementRow> {
    let pair_of = |job: &RequestableRun| {
        (job.from != job.to).then(|| HostPair { from: job.from.clone(), to: job.to.clone() })
    };
    let keyed = jobs.into_iter().map(|job| ((job.measure.clone(), pair_of(&job)), job));
    let mut jobs: HashMap<_, _> = keyed.collect();
    let mut rows: Vec<MeasurementRow> = states
        .into_iter()
        .filter_map(|state| {
            let job = jobs.remove(&(state.measurement.clone(), state.pair.clone()));
            let latest_us = state.done_us.max(state.failure.as_ref().map(|it| it.latest_us));
            let is_listed = job.is_some() || latest_us > Some(now_us - FOREIGN_STATE_US);
            is_listed.then(|| build_measurement_row(state, job))
        })
        .collect();
    let mut rest: Vec<RequestableRun> = jobs.into_values().collect();
    rest.sort_by(|a, b| (&a.measure, &a.from, &a.to).cmp(&(&b.measure, &b.from, &b.to)));
    rows.extend(rest.into_iter().map(|job| {
        let state = MeasurementState {
            measurement: job.measure.clone(),
            pair: pair_of(&job),
            done_us: None,
            done_run: None,
            kind: None,
            failure: None,
        };
        build_measurement_row(state, Some(job))
    }));
    rows
}

fn build_measurement_row(state: MeasurementState, job: Option<RequestableRun>) -> MeasurementRow {
    MeasurementRow {
        stale_after_us: job.as_ref().map_or(DAY_US, |job| STALE_INTERVALS * job.every_us),
        kind: job.map(|job| job.kind).or(state.kind),
        measurement: state.measurement,
        pair: state.pair,
        done_us: state.done_us,
        run_id: state.done_run,
        failure: state.failure,
    }
}
