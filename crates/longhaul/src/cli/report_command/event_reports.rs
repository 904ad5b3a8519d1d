//! `longhaul report events` and `event`: lasting changes and their causes.

use super::route_tables::period_begin;
use crate::cli::args::{ArchiveArgs, EventsArgs};
use crate::cli::command_output;
use crate::command_failure::{ARCHIVE, CommandFailure, USAGE};
use longhaul_model::report::v1::event::{ChangeEvent, EventState};
use longhaul_store::history_store::{EventFilter, TimeRange};
use longhaul_store::{Archive, StoreError};
use serde_json::json;
use std::process::ExitCode;

/// The maximum number of events to read.
const MAX_EVENTS: u32 = 10_000;

pub fn list_found_events(args: &EventsArgs) -> Result<ExitCode, CommandFailure> {
    let begin = period_begin(args.since, args.days)?;
    let range = TimeRange { begin_us: begin.as_microsecond(), end_us: i64::MAX };
    let mut events = match open_archive(&args.archive)? {
        Some(archive) => query_events(&archive, range, MAX_EVENTS)?,
        None => Vec::new(),
    };
    events.retain(|event| {
        let of_host = |host: &String| event.pair.from == *host || event.pair.to == *host;
        (args.all || event.state != EventState::Withdrawn) && args.host.as_ref().is_none_or(of_host)
    });
    if args.json {
        command_output::print_json(&json!(events))?;
    } else if events.is_empty() {
        let since = crate::cli::report_archiving::format_rfc3339(begin);
        command_output::print_text(&format!("no lasting changes since {since}\n"))?;
    } else {
        command_output::print_document(&longhaul_report::event_text::build_event_list(&events))?;
    }
    Ok(ExitCode::SUCCESS)
}

pub fn show_event(id: &str, as_json: bool, args: &ArchiveArgs) -> Result<ExitCode, CommandFailure> {
    let Some(archive) = open_archive(args)? else {
        return Err(ambiguous_event_failure(id, &[]));
    };
    let event = find_event(&archive, id)?;
    if as_json {
        command_output::print_json(&json!(event))?;
    } else {
        command_output::print_document(&longhaul_report::event_text::build_event_document(&event))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the event whose id begins with `id`.
pub fn find_event(archive: &Archive, id: &str) -> Result<ChangeEvent, CommandFailure> {
    let mut events = query_events(archive, TimeRange::ALL, MAX_EVENTS)?;
    events.retain(|event| event.id.starts_with(id));
    match events.as_slice() {
        [event] => Ok(event.clone()),
        several => Err(ambiguous_event_failure(id, several)),
    }
}

fn ambiguous_event_failure(id: &str, found: &[ChangeEvent]) -> CommandFailure {
    if found.is_empty() {
        return CommandFailure::new(ARCHIVE, format!("cannot find event {id}"))
            .hint(Some("list all events with `longhaul report events`"));
    }
    let text = format!("cannot choose an event: the ids of {} begin with {id}", found.len());
    CommandFailure::new(USAGE, text).hint(Some("give more letters of the id"))
}

fn open_archive(args: &ArchiveArgs) -> Result<Option<Archive>, CommandFailure> {
    Ok(Archive::open_existing(&command_output::archive_path(args)?)?)
}

/// Reads up to `most` events of all pairs.
pub fn query_events(
    archive: &Archive,
    range: TimeRange,
    most: u32,
) -> Result<Vec<ChangeEvent>, StoreError> {
    archive.events(&EventFilter { range, pair: None, state: None, limit: most })
}
