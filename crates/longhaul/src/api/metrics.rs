//! Prometheus metrics as OpenMetrics text.
//!
//! Bounded: pairs come from the watch file, and at most [`PAIRS`] of them are exported; the rest is
//! counted. Built for each scrape, without state in between.

mod registry;

use super::Shared;
use super::asked::Asked;
use super::fault::Fault;
use super::metrics::registry::Page;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use longhaul_model::report::v1::event;
use longhaul_model::report::v1::quantity::Quantity;
use longhaul_store::watched::{EventFilter, GridCell, Range};
use longhaul_store::{StoreError, Watched};
use std::sync::Arc;

/// The maximum number of pairs with exported values.
const PAIRS: usize = 5000;
/// The maximum number of events that are counted.
const EVENTS: u32 = 10_000;
const KIND: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The archive data of one scrape.
pub struct Stored {
    kind: &'static str,
    bytes: Option<u64>,
    grids: Vec<(Quantity, Vec<GridCell>)>,
    /// The number of open events, by state.
    suspected: u64,
    confirmed: u64,
}

/// Prometheus metrics: the agent's counters, and the newest value of every pair. docs/api.md lists
/// them.
#[utoipa::path(get, path = "/metrics", tag = "agent",
    responses((status = 200, description = "OpenMetrics text", content_type = "application/openmetrics-text", body = String)))]
pub async fn metrics(
    State(shared): State<Arc<Shared>>,
    asked: Asked,
) -> Result<impl IntoResponse, Fault> {
    asked.done()?;
    // The agent's own metrics do not depend on the archive.
    let stored = shared.readers.ask(stored).await.ok();
    let figures = shared.desk.figures();
    let text = Page::new(&figures, stored.as_ref(), shared.desk.started_us).text();
    Ok(([(CONTENT_TYPE, KIND)], text))
}

fn stored(archive: &dyn Watched) -> Result<Stored, StoreError> {
    let about = archive.about()?;
    let grid = |quantity| Ok((quantity, archive.grid(quantity)?));
    Ok(Stored {
        kind: about.kind,
        bytes: about.bytes,
        grids: Quantity::ALL
            .into_iter()
            .map(grid)
            .collect::<Result<_, StoreError>>()?,
        suspected: open_events(archive, event::State::Suspected)?,
        confirmed: open_events(archive, event::State::Confirmed)?,
    })
}

fn open_events(archive: &dyn Watched, state: event::State) -> Result<u64, StoreError> {
    let events = archive.events(&EventFilter {
        range: Range::ALL,
        pair: None,
        state: Some(state),
        limit: EVENTS,
    })?;
    let open = events
        .iter()
        .filter(|it| longhaul_store::watched::is_open(it));
    Ok(open.count() as u64)
}
