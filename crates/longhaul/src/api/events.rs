//! Lasting changes, and the case text to send to a provider.

use super::Shared;
use super::asked::{self, Asked, Span};
use super::fault::Fault;
use super::shape::event::{self, Event};
use crate::agent::case_text_of;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use longhaul_model::report::v1::event::State as ModelState;
use longhaul_store::watched::EventFilter;
use std::sync::Arc;

const USUAL: u32 = 200;
const MOST: u32 = 5000;
const STATES: [ModelState; 4] = [
    ModelState::Suspected,
    ModelState::Confirmed,
    ModelState::Withdrawn,
    ModelState::Recovered,
];

/// Events, the latest change first.
#[utoipa::path(get, path = "/api/v1/events", tag = "events",
    params(
        ("from" = Option<String>, Query, description = "Sender; with to", min_length = 1, max_length = 255),
        ("to" = Option<String>, Query, description = "Receiver; with from", min_length = 1, max_length = 255),
        Span,
        ("state" = Option<event::State>, Query, description = "Those of one state alone"),
        ("limit" = Option<u32>, Query, description = "At most; usually 200", minimum = 1, maximum = 5000),
    ),
    responses((status = 200, description = "Events whose change may lie in the range", body = Vec<Event>)))]
pub async fn events(
    State(shared): State<Arc<Shared>>,
    mut asked: Asked,
) -> Result<Json<Vec<Event>>, Fault> {
    let filter = EventFilter {
        range: asked.range()?,
        pair: asked.pair()?,
        state: asked.one_of("state", &STATES.map(|state| (state.word(), state)))?,
        limit: asked.limit(USUAL, MOST)?,
    };
    asked.done()?;
    let events = shared
        .readers
        .ask(move |archive| archive.events(&filter))
        .await?;
    Ok(Json(events.into_iter().map(Event::from).collect()))
}

/// One event.
#[utoipa::path(get, path = "/api/v1/events/{id}", tag = "events",
    params(("id" = String, Path, description = "Its id", min_length = 1, max_length = 128)),
    responses((status = 200, description = "The event", body = Event)))]
pub async fn event(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    asked: Asked,
) -> Result<Json<Event>, Fault> {
    asked.done()?;
    let id = asked::id("the id of an event", id)?;
    let event = shared
        .readers
        .ask(move |archive| archive.event(&id))
        .await?;
    event.map(|event| Json(event.into())).ok_or_else(unknown)
}

/// The case text of an event for the network operator: what changed, both routes, the likely cause,
/// what was checked, and what is requested.
#[utoipa::path(get, path = "/api/v1/events/{id}/case", tag = "events",
    params(("id" = String, Path, description = "Its id", min_length = 1, max_length = 128)),
    responses((status = 200, description = "Plain text of 78 columns", content_type = "text/plain", body = String)))]
pub async fn case(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    asked: Asked,
) -> Result<impl IntoResponse, Fault> {
    asked.done()?;
    let id = asked::id("the id of an event", id)?;
    let file = shared.desk.file();
    let text = shared
        .readers
        .ask(move |archive| {
            let event = archive.event(&id)?;
            let text = event.map(|event| case_text_of(archive, &event, &file));
            text.transpose()
        })
        .await?;
    let text = text.ok_or_else(unknown)?;
    Ok(([(CONTENT_TYPE, "text/plain; charset=utf-8")], text))
}

fn unknown() -> Fault {
    Fault::nothing("no event of this id is in the archive")
        .hint("/api/v1/events lists them; a link may be of another agent")
}
