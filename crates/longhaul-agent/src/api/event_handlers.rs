//! Lasting changes, and the case text to send to a provider.

use super::ApiState;
use super::api_error::ApiError;
use super::query_params::{self, QueryParams, QueryRange};
use crate::agent::build_case_text;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use longhaul_model::report::v1::{ChangeEvent, EventState};
use longhaul_store::history_store::EventFilter;
use std::sync::Arc;

const DEFAULT_LIMIT: u32 = 200;
const MAX_LIMIT: u32 = 5000;
const STATES: [EventState; 4] =
    [EventState::Suspected, EventState::Confirmed, EventState::Withdrawn, EventState::Recovered];

/// Events, the latest change first.
#[utoipa::path(get, path = "/api/v1/events", tag = "events",
    params(
        ("from" = Option<String>, Query, description = "Sender; requires `to`", min_length = 1, max_length = 255),
        ("to" = Option<String>, Query, description = "Receiver; requires `from`", min_length = 1, max_length = 255),
        QueryRange,
        ("state" = Option<EventState>, Query, description = "Only events in this state"),
        ("limit" = Option<u32>, Query, description = "Max number of events; default 200", minimum = 1, maximum = 5000),
    ),
    responses((status = 200, description = "Events whose change may lie in the range", body = Vec<ChangeEvent>)))]
pub async fn events(
    State(shared): State<Arc<ApiState>>,
    mut params: QueryParams,
) -> Result<Json<Vec<ChangeEvent>>, ApiError> {
    let filter = EventFilter {
        range: params.range()?,
        pair: params.pair()?,
        state: params.one_of("state", &STATES.map(|state| (state.word(), state)))?,
        limit: params.limit(DEFAULT_LIMIT, MAX_LIMIT)?,
    };
    params.reject_rest()?;
    let events = shared.archive.query(move |archive| archive.events(&filter)).await?;
    Ok(Json(events))
}

/// One event.
#[utoipa::path(get, path = "/api/v1/events/{id}", tag = "events",
    params(("id" = String, Path, description = "Event id", min_length = 1, max_length = 128)),
    responses((status = 200, description = "The event", body = ChangeEvent)))]
pub async fn event(
    State(shared): State<Arc<ApiState>>,
    Path(id): Path<String>,
    params: QueryParams,
) -> Result<Json<ChangeEvent>, ApiError> {
    params.reject_rest()?;
    let id = query_params::validate_id("event id", id)?;
    let event = shared.archive.query(move |archive| archive.event(&id)).await?;
    event.map(Json).ok_or_else(reject_unknown_event)
}

/// The case text of an event for the network operator: what changed, both routes, the likely cause,
/// what was checked, and what is requested.
#[utoipa::path(get, path = "/api/v1/events/{id}/case", tag = "events",
    params(("id" = String, Path, description = "Event id", min_length = 1, max_length = 128)),
    responses((status = 200, description = "Plain text of 78 columns", content_type = "text/plain", body = String)))]
pub async fn case(
    State(shared): State<Arc<ApiState>>,
    Path(id): Path<String>,
    params: QueryParams,
) -> Result<impl IntoResponse, ApiError> {
    params.reject_rest()?;
    let id = query_params::validate_id("event id", id)?;
    let file = shared.state.file();
    let text = shared
        .archive
        .query(move |archive| {
            let event = archive.event(&id)?;
            let text = event.map(|event| build_case_text(archive, &event, &file));
            text.transpose()
        })
        .await?;
    let text = text.ok_or_else(reject_unknown_event)?;
    Ok(([(CONTENT_TYPE, "text/plain; charset=utf-8")], text))
}

fn reject_unknown_event() -> ApiError {
    ApiError::not_found("the archive has no event with this id")
        .hint("list the events with /api/v1/events; the link may be of another agent")
}
