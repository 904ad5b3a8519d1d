//! Limits of the archive for all input from outside.

use super::{Outcome, Planned, WatchedRun};
use crate::error::StoreError;
use longhaul_model::report::v1::event::Event;
use longhaul_model::report::v1::series::Pair;

/// The maximum size of the name of a host or measurement, or of a reason.
pub const NAME_BYTES_MAX: usize = 255;

/// The maximum size of the id of a run, a planned run or an event.
pub const ID_BYTES_MAX: usize = 128;

/// The maximum size of a report; a day of samples of many streams is far below.
pub const REPORT_BYTES_MAX: usize = 64 << 20;

/// The maximum size of an event as JSON.
pub const EVENT_BYTES_MAX: usize = 1 << 20;

/// The maximum number of runs or planned runs in one batch.
pub const BATCH_MAX: usize = 100_000;

/// The maximum number of values and of pairs of one run.
pub const READINGS_MAX: usize = 10_000;

/// The maximum number of points and buckets in one answer.
pub const SERIES_MAX: u32 = 100_000;

/// The first rejected time, 2200-01-01. A later time comes from a broken clock and would remain the
/// latest value forever.
pub const TIME_END_US: i64 = 7_258_118_400_000_000;

/// Checks a batch of runs.
pub fn runs(runs: &[WatchedRun]) -> Result<(), StoreError> {
    batch("runs", runs.len())?;
    runs.iter().try_for_each(run)
}

/// Checks one run.
pub fn run(run: &WatchedRun) -> Result<(), StoreError> {
    let id = &run.run.id;
    identifier("the id of a run", id)?;
    let refuse = |why| Err(refused(&format!("run {id}"), why));
    if run.report.len() > REPORT_BYTES_MAX {
        return refuse("its report is longer than 64 MiB");
    }
    if run.readings.len() > READINGS_MAX || run.pairs.len() > READINGS_MAX {
        return refuse("it gives more than 10,000 values");
    }
    if !is_time(run.at_us) || !run.readings.iter().all(|it| is_time(it.point.at_us)) {
        return refuse("its time is before 1970 or after 2199: the clock was wrong");
    }
    if !run.readings.iter().all(|it| it.point.value.is_finite()) {
        return refuse("a value of it is not a number");
    }
    if let Some(planned) = &run.planned_id {
        identifier("the id of a planned run", planned)?;
    }
    let named = run.readings.iter().map(|it| &it.pair);
    named.chain(&run.pairs).try_for_each(pair)
}

/// Checks planned runs.
pub fn planned(planned: &[Planned]) -> Result<(), StoreError> {
    batch("planned runs", planned.len())?;
    planned.iter().try_for_each(|it| {
        identifier("the id of a planned run", &it.id)?;
        name("the name of a measurement", &it.measurement)?;
        if !is_time(it.due_us) {
            let what = format!("planned run {}", it.id);
            return Err(refused(&what, "its time is before 1970 or after 2199"));
        }
        it.pair.as_ref().map_or(Ok(()), pair)
    })
}

/// Checks an outcome.
pub fn outcome(outcome: &Outcome) -> Result<(), StoreError> {
    match outcome {
        Outcome::Done { run_id } => identifier("the id of a run", run_id),
        Outcome::Missed { reason } => name("the reason of a missed run", reason),
    }
}

/// Checks an event; `text` is its JSON.
pub fn event(event: &Event, text: &str) -> Result<(), StoreError> {
    identifier("the id of an event", &event.id)?;
    pair(&event.pair)?;
    if text.len() > EVENT_BYTES_MAX {
        let what = format!("event {}", event.id);
        return Err(refused(&what, "it is longer than 1 MiB"));
    }
    Ok(())
}

fn pair(pair: &Pair) -> Result<(), StoreError> {
    name("the name of a host", &pair.from)?;
    name("the name of a host", &pair.to)
}

fn is_time(at_us: i64) -> bool {
    (0..TIME_END_US).contains(&at_us)
}

fn batch(what: &str, count: usize) -> Result<(), StoreError> {
    if count > BATCH_MAX {
        return Err(refused(
            &format!("{count} {what} at once"),
            "at most 100,000",
        ));
    }
    Ok(())
}

fn name(what: &str, text: &str) -> Result<(), StoreError> {
    words(what, text, NAME_BYTES_MAX)
}

fn identifier(what: &str, text: &str) -> Result<(), StoreError> {
    words(what, text, ID_BYTES_MAX)
}

fn words(what: &str, text: &str, bytes_max: usize) -> Result<(), StoreError> {
    let why = if text.is_empty() {
        "it is empty"
    } else if text.len() > bytes_max {
        "it is too long"
    } else if text.chars().any(char::is_control) {
        "it has control characters"
    } else {
        return Ok(());
    };
    // Only the start is repeated, because a name may be very long.
    let start: String = text.chars().take(40).collect();
    Err(refused(&format!("{what}, {start:?}"), why))
}

fn refused(what: &str, why: &'static str) -> StoreError {
    StoreError::Refused {
        what: what.to_owned(),
        why,
    }
}
