//! Planned runs and their outcomes.

use super::Shared;
use super::asked::{Asked, Span};
use super::fault::Fault;
use super::shape::run::{PlannedRow, PlannedRuns, Standing};
use crate::watch::SECOND_US;
use axum::Json;
use axum::extract::State;
use longhaul_model::report::v1::series::Pair;
use longhaul_store::watched::limits::TIME_END_US;
use longhaul_store::watched::{self, PlannedFilter, Range};
use longhaul_store::{StoreError, Watched};
use std::sync::Arc;

const USUAL: u32 = 500;
const MOST: u32 = 10_000;
/// The maximum number of rows that one request scans.
const LOOKED_THROUGH: usize = 100_000;
/// The newest rows are searched backwards; each step is twice as long as the previous one.
const FIRST_STEP_US: i64 = 3600 * SECOND_US;

/// The requested rows.
struct Wanted {
    range: Range,
    pair: Option<Pair>,
    standing: Option<Standing>,
    limit: usize,
}

/// Planned runs in a range: counts of all pairs, and the newest rows.
#[utoipa::path(get, path = "/api/v1/planned", tag = "runs",
    params(
        ("from" = Option<String>, Query, description = "Sender; with to: rows of this pair alone", min_length = 1, max_length = 255),
        ("to" = Option<String>, Query, description = "Receiver; with from", min_length = 1, max_length = 255),
        Span,
        ("state" = Option<Standing>, Query, description = "Rows that stand so alone"),
        ("limit" = Option<u32>, Query, description = "Rows at most; usually 500", minimum = 1, maximum = 10_000),
    ),
    responses((status = 200, description = "Counts and rows", body = PlannedRuns)))]
pub async fn planned(
    State(shared): State<Arc<Shared>>,
    mut asked: Asked,
) -> Result<Json<PlannedRuns>, Fault> {
    let wanted = Wanted {
        range: asked.range()?,
        pair: asked.pair()?,
        standing: asked.one_of("state", &Standing::WORDS)?,
        limit: asked.limit(USUAL, MOST)? as usize,
    };
    asked.done()?;
    let (counts, (rows, more)) = shared
        .readers
        .ask(move |archive| {
            let counts = archive.planned_counts(wanted.range)?;
            Ok((counts, newest(archive, &wanted)?))
        })
        .await?;
    Ok(Json(PlannedRuns {
        counts: counts.into(),
        rows: rows.into_iter().map(PlannedRow::from).collect(),
        more,
    }))
}

/// Returns the newest matching rows, and whether there may be more. The archive returns the
/// earliest rows first, so it is queried in steps from the end of the range.
fn newest(
    archive: &dyn Watched,
    wanted: &Wanted,
) -> Result<(Vec<watched::PlannedRow>, bool), StoreError> {
    let mut rows = Vec::new();
    let mut looked_through = 0;
    let mut step_us = FIRST_STEP_US;
    let mut end_us = latest_end(wanted.range);
    while end_us > wanted.range.begin_us {
        let begin_us = end_us.saturating_sub(step_us).max(wanted.range.begin_us);
        let stretch = archive.planned(&PlannedFilter {
            range: Range { begin_us, end_us },
            pair: wanted.pair.clone(),
            waiting: wanted.standing == Some(Standing::Waiting),
            limit: LOOKED_THROUGH as u32,
        })?;
        looked_through += stretch.len();
        let fits = |row: &watched::PlannedRow| {
            let standing = Standing::of(row.outcome.as_ref());
            wanted.standing.is_none_or(|wanted| wanted == standing)
        };
        rows.extend(stretch.into_iter().rev().filter(fits));
        if rows.len() > wanted.limit || looked_through >= LOOKED_THROUGH {
            rows.truncate(wanted.limit);
            return Ok((rows, true));
        }
        end_us = begin_us;
        step_us = step_us.saturating_mul(2);
    }
    Ok((rows, false))
}

/// Limits the end of the range, because nothing is planned far ahead.
fn latest_end(range: Range) -> i64 {
    let soon = super::about::now_us().saturating_add(FIRST_STEP_US);
    range.end_us.min(soon.clamp(0, TIME_END_US))
}
