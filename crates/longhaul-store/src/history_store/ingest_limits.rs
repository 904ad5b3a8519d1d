//! Limits of the archive for all input from outside.

use super::{IncomingRun, PlannedOutcome, PlannedRun};
use crate::store_error::StoreError;
use longhaul_model::report::v1::event::ChangeEvent;
use longhaul_model::report::v1::series::HostPair;

/// The maximum size of the name of a host or measurement, or of a reason.
pub const MAX_NAME_BYTES: usize = 255;

/// The maximum size of the id of a run, a planned run or an event.
pub const MAX_ID_BYTES: usize = 128;

/// The maximum size of a report; a day of samples of many streams is far below.
pub const MAX_REPORT_BYTES: usize = 64 << 20;

/// The maximum size of an event as JSON.
pub const MAX_EVENT_BYTES: usize = 1 << 20;

/// The maximum number of runs or planned runs in one batch.
pub const MAX_BATCH_ITEMS: usize = 100_000;

/// The maximum number of values and of pairs of one run.
pub const MAX_READINGS: usize = 10_000;

/// The maximum number of points and buckets in one answer.
pub const MAX_SERIES_POINTS: u32 = 100_000;

/// The first rejected time, 2200-01-01. A later time comes from a broken clock and would remain the
/// latest value forever.
pub const TIME_END_US: i64 = 7_258_118_400_000_000;

/// Checks a batch of runs.
pub fn check_runs(runs: &[IncomingRun]) -> Result<(), StoreError> {
    check_batch_size("runs", runs.len())?;
    runs.iter().try_for_each(check_run)
}

/// Checks one run.
pub fn check_run(run: &IncomingRun) -> Result<(), StoreError> {
    let id = &run.run.id;
    check_identifier("the id of a run", id)?;
    let refuse = |why| Err(refused_error(&format!("run {id}"), why));
    if run.report.len() > MAX_REPORT_BYTES {
        return refuse("its report is longer than 64 MiB");
    }
    if run.readings.len() > MAX_READINGS || run.pairs.len() > MAX_READINGS {
        return refuse("it has more than 10,000 values");
    }
    if !is_valid_time(run.at_us) || !run.readings.iter().all(|it| is_valid_time(it.point.at_us)) {
        return refuse("its time is before 1970 or after 2199: the clock was wrong");
    }
    if !run.readings.iter().all(|it| it.point.value.is_finite()) {
        return refuse("one of its values is not a number");
    }
    if let Some(planned) = &run.planned_id {
        check_identifier("the id of a planned run", planned)?;
    }
    let named = run.readings.iter().map(|it| &it.pair);
    named.chain(&run.pairs).try_for_each(check_pair)
}

/// Checks planned runs.
pub fn check_planned(planned: &[PlannedRun]) -> Result<(), StoreError> {
    check_batch_size("planned runs", planned.len())?;
    planned.iter().try_for_each(|it| {
        check_identifier("the id of a planned run", &it.id)?;
        check_name("the name of a measurement", &it.measurement)?;
        if !is_valid_time(it.due_us) {
            let what = format!("planned run {}", it.id);
            return Err(refused_error(&what, "its time is before 1970 or after 2199"));
        }
        it.outcome.as_ref().map_or(Ok(()), check_outcome)?;
        it.pair.as_ref().map_or(Ok(()), check_pair)
    })
}

/// Checks an outcome.
pub fn check_outcome(outcome: &PlannedOutcome) -> Result<(), StoreError> {
    match outcome {
        PlannedOutcome::Done { run_id } => check_identifier("the id of a run", run_id),
        PlannedOutcome::Missed { reason } => check_name("the reason of a missed run", reason),
    }
}

/// Checks an event; `text` is its JSON.
pub fn check_event(event: &ChangeEvent, text: &str) -> Result<(), StoreError> {
    check_identifier("the id of an event", &event.id)?;
    check_pair(&event.pair)?;
    if text.len() > MAX_EVENT_BYTES {
        let what = format!("event {}", event.id);
        return Err(refused_error(&what, "it is longer than 1 MiB"));
    }
    Ok(())
}

fn check_pair(pair: &HostPair) -> Result<(), StoreError> {
    check_name("the name of a host", &pair.from)?;
    check_name("the name of a host", &pair.to)
}

fn is_valid_time(at_us: i64) -> bool {
    (0..TIME_END_US).contains(&at_us)
}

fn check_batch_size(what: &str, count: usize) -> Result<(), StoreError> {
    if count > MAX_BATCH_ITEMS {
        return Err(refused_error(
            &format!("{count} {what} at once"),
            "at most 100,000 are allowed",
        ));
    }
    Ok(())
}

fn check_name(what: &str, text: &str) -> Result<(), StoreError> {
    check_text(what, text, MAX_NAME_BYTES)
}

fn check_identifier(what: &str, text: &str) -> Result<(), StoreError> {
    check_text(what, text, MAX_ID_BYTES)
}

fn check_text(what: &str, text: &str, bytes_max: usize) -> Result<(), StoreError> {
    let Some(why) = find_name_fault(text, bytes_max) else {
        return Ok(());
    };
    // Only the start is repeated, because a name may be very long.
    let start: String = text.chars().take(40).collect();
    Err(refused_error(&format!("{what}, {start:?}"), why))
}

/// Returns the reason why a name or an id is invalid, or `None` if it is valid.
pub fn find_name_fault(text: &str, bytes_max: usize) -> Option<&'static str> {
    if text.is_empty() {
        Some("it is empty")
    } else if text.len() > bytes_max {
        Some("it is too long")
    } else if text.chars().any(char::is_control) {
        Some("it contains control characters")
    } else {
        None
    }
}

fn refused_error(what: &str, why: &'static str) -> StoreError {
    StoreError::Refused { what: what.to_owned(), why }
}
