//! `longhaul report events` and `event`: lasting changes and their causes.

use super::routes::since;
use crate::cli::args::{ArchiveArgs, EventsArgs};
use crate::cli::output;
use crate::fail::{ARCHIVE, Fail, USAGE};
use crate::render;
use longhaul_model::report::v1::event::{Event, State};
use longhaul_store::watched::{EventFilter, Range, Watched};
use longhaul_store::{Archive, StoreError};
use serde_json::json;
use std::process::ExitCode;

/// The maximum number of events to read.
const MOST_EVENTS: u32 = 10_000;

pub fn list(args: &EventsArgs) -> Result<ExitCode, Fail> {
    let begin = since(args.since, args.days)?;
    let range = Range {
        begin_us: begin.as_microsecond(),
        end_us: i64::MAX,
    };
    let mut events = match open(&args.archive)? {
        Some(archive) => read(&archive, range, MOST_EVENTS)?,
        None => Vec::new(),
    };
    events.retain(|event| {
        let of_host = |host: &String| event.pair.from == *host || event.pair.to == *host;
        (args.all || event.state != State::Withdrawn) && args.host.as_ref().is_none_or(of_host)
    });
    if args.json {
        output::json(&json!(events))?;
    } else if events.is_empty() {
        let since = crate::cli::filing::rfc3339(begin);
        output::text(&format!("no lasting change was found since {since}\n"))?;
    } else {
        output::text(&render::events::list(&events))?;
    }
    Ok(ExitCode::SUCCESS)
}

pub fn one(id: &str, as_json: bool, args: &ArchiveArgs) -> Result<ExitCode, Fail> {
    let Some(archive) = open(args)? else {
        return Err(not_one(id, &[]));
    };
    let event = find(&archive, id)?;
    if as_json {
        output::json(&json!(event))?;
    } else {
        output::text(&render::events::page(&event))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the event whose id begins with `id`.
pub fn find(archive: &Archive, id: &str) -> Result<Event, Fail> {
    let mut events = read(archive, Range::ALL, MOST_EVENTS)?;
    events.retain(|event| event.id.starts_with(id));
    match events.as_slice() {
        [event] => Ok(event.clone()),
        several => Err(not_one(id, several)),
    }
}

fn not_one(id: &str, found: &[Event]) -> Fail {
    if found.is_empty() {
        return Fail::new(ARCHIVE, format!("no event is called {id}"))
            .hint(Some("`longhaul report events` lists them"));
    }
    let text = format!("{} events begin with {id}", found.len());
    Fail::new(USAGE, text).hint(Some("give more letters of the id"))
}

fn open(args: &ArchiveArgs) -> Result<Option<Archive>, Fail> {
    Ok(Archive::open_existing(&output::archive_path(args)?)?)
}

/// Reads up to `most` events of all pairs.
pub fn read(archive: &Archive, range: Range, most: u32) -> Result<Vec<Event>, StoreError> {
    archive.events(&EventFilter {
        range,
        pair: None,
        state: None,
        limit: most,
    })
}
