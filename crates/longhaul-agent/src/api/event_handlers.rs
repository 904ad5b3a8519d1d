//! Lasting changes, the case to send to a provider, and the notes of people on events.

use super::ApiState;
use super::access_control::RequestUser;
use super::api_error::ApiError;
use super::document_format::DocumentFormat;
use super::query_params::{self, QueryParams, QueryRange};
use super::shape::{CasePart, EventRow, NewEventNote};
use crate::agent::build_case;
use crate::agent::export::read_wall_us;
use crate::agent::shared_state::LiveUpdate;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use longhaul_model::report::v1::{ChangeEvent, EventState};
use longhaul_model::sanitize::sanitize;
use longhaul_report::event_text::build_case_document;
use longhaul_store::history_store::{EventFilter, EventNote, MAX_NAME_BYTES};
use longhaul_store::{Archive, StoreError};
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
        ("open" = Option<bool>, Query, description = "`true`: only events that are suspected or confirmed and have not recovered"),
        ("limit" = Option<u32>, Query, description = "Max number of events; default 200", minimum = 1, maximum = 5000),
    ),
    responses((status = 200, description = "Events whose change may lie in the range", body = Vec<EventRow>)))]
pub async fn events(
    State(shared): State<Arc<ApiState>>,
    mut params: QueryParams,
) -> Result<Json<Vec<EventRow>>, ApiError> {
    let filter = EventFilter {
        range: params.range()?,
        pair: params.pair()?,
        state: params.one_of("state", &STATES.map(|state| (state.word(), state)))?,
        is_open: params.one_of("open", &[("true", true), ("false", false)])?.unwrap_or_default(),
        limit: params.limit(DEFAULT_LIMIT, MAX_LIMIT)?,
    };
    params.reject_rest()?;
    let rows = shared.archive.query(move |archive| {
        let events = archive.events(&filter)?;
        events.into_iter().map(|event| add_handling(archive, event)).collect()
    });
    Ok(Json(rows.await?))
}

fn add_handling(archive: &Archive, event: ChangeEvent) -> Result<EventRow, StoreError> {
    Ok(EventRow { handling: archive.event_handling(&event.id)?, event })
}

/// One event.
#[utoipa::path(get, path = "/api/v1/events/{id}", tag = "events",
    params(("id" = String, Path, description = "Event id", min_length = 1, max_length = 128)),
    responses((status = 200, description = "The event", body = EventRow)))]
pub async fn event(
    State(shared): State<Arc<ApiState>>,
    Path(id): Path<String>,
    params: QueryParams,
) -> Result<Json<EventRow>, ApiError> {
    params.reject_rest()?;
    let id = query_params::validate_id("event id", id)?;
    let event = shared.archive.query(move |archive| {
        archive.event(&id)?.map(|event| add_handling(archive, event)).transpose()
    });
    event.await?.map(Json).ok_or_else(reject_unknown_event)
}

/// The case of an event for the network operator: what changed, both routes, the likely cause, what
/// was checked, and what is requested.
#[utoipa::path(get, path = "/api/v1/events/{id}/case", tag = "events",
    params(
        ("id" = String, Path, description = "Event id", min_length = 1, max_length = 128),
        ("format" = Option<String>, Query, description = "`text` (78 columns, the default), `html` (a file to send), or `json` (its parts)"),
    ),
    responses((status = 200, description = "The case", content(
        (String = "text/plain"), (String = "text/html"), (Vec<CasePart> = "application/json")))))]
pub async fn case(
    State(shared): State<Arc<ApiState>>,
    Path(id): Path<String>,
    mut params: QueryParams,
) -> Result<Response, ApiError> {
    let format = DocumentFormat::take(&mut params)?.unwrap_or(DocumentFormat::Text);
    params.reject_rest()?;
    let id = query_params::validate_id("event id", id)?;
    let file = shared.state.file();
    let case = shared.archive.query(move |archive| {
        let event = archive.event(&id)?;
        event.map(|event| build_case(archive, &event, &file)).transpose()
    });
    let case = case.await?.ok_or_else(reject_unknown_event)?;
    Ok(match format {
        DocumentFormat::Text => format.answer(case.to_text()),
        DocumentFormat::Html => {
            format.answer(build_case_document(&case, env!("CARGO_PKG_VERSION")).html())
        }
        DocumentFormat::Json => {
            let parts: Vec<CasePart> = case.parts.into_iter().map(CasePart::from).collect();
            Json(parts).into_response()
        }
    })
}

/// The notes of people on an event, the oldest first.
#[utoipa::path(get, path = "/api/v1/events/{id}/notes", tag = "events",
    params(("id" = String, Path, description = "Event id", min_length = 1, max_length = 128)),
    responses((status = 200, description = "Notes", body = Vec<EventNote>)))]
pub async fn notes(
    State(shared): State<Arc<ApiState>>,
    Path(id): Path<String>,
    params: QueryParams,
) -> Result<Json<Vec<EventNote>>, ApiError> {
    params.reject_rest()?;
    let id = query_params::validate_id("event id", id)?;
    let notes = shared.archive.query(move |archive| {
        let known = archive.event(&id)?.is_some();
        known.then(|| archive.event_notes(&id)).transpose()
    });
    notes.await?.map(Json).ok_or_else(reject_unknown_event)
}

/// Adds a note to an event: acknowledges it, comments it, silences it until a time, or ends both. A
/// silenced event sends no notifications.
#[utoipa::path(post, path = "/api/v1/events/{id}/notes", tag = "events",
    params(("id" = String, Path, description = "Event id", min_length = 1, max_length = 128)),
    request_body = NewEventNote,
    responses((status = 201, description = "The stored note", body = EventNote)))]
pub async fn add_note(
    State(shared): State<Arc<ApiState>>,
    Path(id): Path<String>,
    Extension(user): Extension<RequestUser>,
    headers: HeaderMap,
    params: QueryParams,
    body: Result<Json<NewEventNote>, JsonRejection>,
) -> Result<(StatusCode, Json<EventNote>), ApiError> {
    shared.authorize_change(&user, &headers)?;
    params.reject_rest()?;
    let id = query_params::validate_id("event id", id)?;
    let Json(new) = body.map_err(|rejection| {
        ApiError::from_rejection(
            &rejection,
            "{\"action\": \"comment\", \"who\": \"…\", \"text\": \"…\"}",
        )
    })?;
    let who = user.name.or(new.who);
    let who = who.ok_or_else(|| ApiError::bad_request("who is missing: your name"))?;
    let line = |text: String| sanitize(text.trim()).into_owned();
    let note = EventNote {
        at_us: read_wall_us(),
        who: query_params::validate_name("who", line(who), MAX_NAME_BYTES)?,
        action: new.action,
        text: new.text.map(line).filter(|text| !text.is_empty()),
        until_us: new.until_us,
    };
    let (stored, update) = (note.clone(), shared.clone());
    let event = shared.archive.change(move |archive| {
        let known = archive.add_event_note(&id, &stored)?;
        known.then(|| archive.event(&id)).transpose()
    });
    let event = event.await?.flatten().ok_or_else(reject_unknown_event)?;
    // Other pages show the effect too.
    let _ = update.state.updates.send(LiveUpdate::Event(Arc::new(event)));
    Ok((StatusCode::CREATED, Json(note)))
}

fn reject_unknown_event() -> ApiError {
    ApiError::not_found("the archive has no event with this id")
        .hint("list the events with /api/v1/events; the link may be of another agent")
}
