//! The data that an agent stores and queries.
//!
//! Times are microseconds since 1970-01-01T00:00:00Z by the clock of the measuring host, in any
//! order. Names of hosts, measurements and reasons come from the agent's file. Values are in the
//! unit of their [`PathQuantity`]. All input is checked against limits; one item beyond a limit rejects
//! its whole batch before anything is written.
//!
//! Every write is idempotent, so a sender without an answer repeats it. After `Ok` the data
//! survives a crash of the process and a power failure. After an error nothing was written, with
//! the exceptions that [`Archive::retain`](crate::Archive::retain) names.

use crate::archived_report;
use crate::store_error::StoreError;
use longhaul_model::report::v1::flows::LimitedTransfers;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::{
    AnyReport, ChangeEvent, EventState, HostPair, ListColumns, ReportKind, RunInfo, SeriesBucket,
    SeriesPoint,
};
use longhaul_model::serde_name;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;
use std::time::Duration;

/// A time span, including its start and excluding its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeRange {
    pub begin_us: i64,
    pub end_us: i64,
}

impl TimeRange {
    pub const ALL: TimeRange = TimeRange { begin_us: i64::MIN, end_us: i64::MAX };
}

/// One value of a run for a series.
#[derive(Debug, Clone, PartialEq)]
pub struct SeriesReading {
    pub pair: HostPair,
    pub quantity: PathQuantity,
    /// If two runs give a value to the same series at the same microsecond, one of the values is
    /// kept.
    pub point: SeriesPoint,
}

/// A finished run to be stored.
#[derive(Debug, Clone, PartialEq)]
pub struct IncomingRun {
    pub run: RunInfo,
    pub kind: ReportKind,
    pub list_columns: ListColumns,
    /// Start of the run.
    pub at_us: i64,
    /// As JSON on one line.
    pub report: String,
    /// The measured pairs, including those without a value.
    pub pairs: Vec<HostPair>,
    pub readings: Vec<SeriesReading>,
    /// The transfers of other programs, for the sums of their days.
    pub transfers: Vec<LimitedTransfers>,
    /// The planned run that this run completes, if it was planned here.
    pub planned_id: Option<String>,
    /// Name of the host that started it; absent: the agent that owns this archive.
    pub near: Option<String>,
}

impl IncomingRun {
    /// Converts a report, without values for series.
    pub fn from_report(report: &AnyReport, at_us: i64) -> Result<IncomingRun, StoreError> {
        let text = serde_json::to_string(report)
            .map_err(|source| StoreError::Report { id: report.run().id.clone(), source })?;
        Ok(IncomingRun::from_parts(report, text, at_us))
    }

    fn from_parts(report: &AnyReport, text: String, at_us: i64) -> IncomingRun {
        IncomingRun {
            run: report.run().clone(),
            kind: report.kind(),
            list_columns: report.list_columns(),
            at_us,
            report: text,
            pairs: Vec::new(),
            readings: Vec::new(),
            transfers: Vec::new(),
            planned_id: None,
            near: None,
        }
    }

    /// Converts the JSON of a report, which is stored unchanged.
    pub fn from_json(text: String, at_us: i64) -> Result<IncomingRun, StoreError> {
        IncomingRun::parse_json(text, at_us).map(|(run, _)| run)
    }

    /// Converts the JSON of a report, and returns the parsed report as well.
    pub fn parse_json(text: String, at_us: i64) -> Result<(IncomingRun, AnyReport), StoreError> {
        let report = archived_report::parse_report("of the batch", &text)?;
        let run = IncomingRun::from_parts(&report, text, at_us);
        Ok((run, report))
    }
}

/// The result of storing a batch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IngestResult {
    /// Runs that were not stored before.
    pub new: u64,
    /// Runs that were stored but not watched, with the same content: they are watched now, and
    /// their values are new.
    pub newly_watched: u64,
    /// Runs that were stored and watched, with the same content.
    pub already_stored: u64,
    /// Ids that another report has taken. The stored report stays; the rest of the batch is stored.
    pub differing: Vec<String>,
    /// Values of new and joined runs whose hour was already closed: the report is stored, the
    /// series is not changed.
    pub late_values: u64,
}

/// The items that one agent sends to another archive.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AgentDelivery {
    pub runs: Vec<IncomingRun>,
    pub planned: Vec<PlannedRun>,
    /// In their latest state.
    pub events: Vec<ChangeEvent>,
}

/// A run that came due or was requested.
#[skip_serializing_none]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = PlannedRow))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedRun {
    pub id: String,
    pub due_us: i64,
    /// Name of the measurement in the watch file.
    pub measurement: String,
    /// Absent if the run concerns one host.
    pub pair: Option<HostPair>,
    /// Absent while the run has not ended.
    pub outcome: Option<PlannedOutcome>,
}

/// The outcome of a planned run.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = Outcome))]
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlannedOutcome {
    Done { run_id: String },
    // The reason is one of a small set of words, so that it can be counted; the detail is what the
    // program that failed reported.
    Missed { reason: String, detail: Option<String> },
}

/// The state of a planned run.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PlannedRunState {
    Waiting,
    Done,
    Missed,
}

/// A filter for planned runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedRunFilter {
    pub range: TimeRange,
    pub pair: Option<HostPair>,
    pub state: Option<PlannedRunState>,
    pub limit: u32,
}

/// The number of runs due in the range, for all pairs, by outcome.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = PlannedCounts))]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct PlannedRunCounts {
    /// The sum of `done`, `missed` and `waiting`.
    pub planned: u64,
    pub done: u64,
    pub missed: u64,
    pub waiting: u64,
    /// Missed runs by reason, the most frequent first.
    pub reasons: Vec<MissedRunCount>,
}

/// The number of missed runs with one reason.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = MissedFor))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MissedRunCount {
    pub reason: String,
    pub runs: u64,
}

/// A pair in the grid.
#[skip_serializing_none]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = GridCell))]
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GridPair {
    pub pair: HostPair,
    /// The newest value, in the unit of the quantity.
    pub value: Option<f64>,
    /// Start of the run with this value.
    pub at_us: Option<i64>,
    /// Median of the hourly medians of the last seven days.
    // The latest hour is excluded. May lag behind the values by some batches.
    #[serde(rename = "median_7d")]
    pub weekly_median: Option<f64>,
    /// Suspected or confirmed events of this quantity that have not recovered.
    pub open_events: u32,
    /// The run with this value.
    pub run_id: Option<String>,
    /// The limiting factor of that run.
    pub limited_by: Option<String>,
}

/// The results of one measurement of one pair: the last success and the failures since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeasurementState {
    pub measurement: String,
    /// Absent for an audit.
    pub pair: Option<HostPair>,
    /// Due time of the last run with a result.
    pub done_us: Option<i64>,
    pub done_run: Option<String>,
    /// Kind of that run.
    pub kind: Option<String>,
    pub failure: Option<MeasurementFailure>,
}

/// The failures of a measurement since its last success.
#[skip_serializing_none]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MeasurementFailure {
    /// Due time of the first failed run.
    pub since_us: i64,
    /// Due time of the last one.
    pub latest_us: i64,
    /// `failed`, or `target_failing` if the target is skipped for a while.
    pub reason: String,
    /// The error of the last attempt.
    pub detail: Option<String>,
}

/// An action of a person on an event.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoteAction {
    /// The event is known.
    Acknowledge,
    /// A text without further effect.
    Comment,
    /// No notifications, and not among the open events, until `until_us`.
    Silence,
    /// Ends acknowledgement and silence.
    Reopen,
}

/// A note of a person on an event.
#[skip_serializing_none]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EventNote {
    pub at_us: i64,
    /// The user, the name of the token, or the name that was entered.
    pub who: String,
    pub action: NoteAction,
    pub text: Option<String>,
    /// End of a silence.
    pub until_us: Option<i64>,
}

/// The effect of the notes on an event.
#[skip_serializing_none]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct EventHandling {
    /// The number of notes.
    pub notes: u32,
    pub acknowledged_by: Option<String>,
    /// End of the latest silence; it may have passed.
    pub silenced_until_us: Option<i64>,
}

impl NoteAction {
    /// Returns the word in JSON and in the archive.
    pub fn word(self) -> &'static str {
        serde_name::name_variant(&self)
    }
}

impl EventHandling {
    /// Returns the effect of notes, the oldest first.
    pub fn of_notes(notes: &[EventNote]) -> EventHandling {
        let mut handling = EventHandling { notes: notes.len() as u32, ..Default::default() };
        for note in notes {
            match note.action {
                NoteAction::Acknowledge => handling.acknowledged_by = Some(note.who.clone()),
                NoteAction::Silence => handling.silenced_until_us = note.until_us,
                NoteAction::Reopen => {
                    (handling.acknowledged_by, handling.silenced_until_us) = (None, None);
                }
                NoteAction::Comment => {}
            }
        }
        handling
    }

    pub fn is_silenced(&self, now_us: i64) -> bool {
        self.silenced_until_us.is_some_and(|until_us| now_us < until_us)
    }
}

/// A filter for runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFilter {
    /// By the start time of the run, with a resolution of one second.
    pub range: TimeRange,
    /// Only watched runs of this pair.
    pub pair: Option<HostPair>,
    pub kind: Option<ReportKind>,
    /// Part of the name of the client or server, in any case.
    pub host: Option<String>,
    /// Start of the id.
    pub id: Option<String>,
    /// Only runs that a list shows after this one, for the next page.
    pub after: Option<String>,
    /// Only watched runs, and runs in this environment; see
    /// [`PathSelector`](crate::PathSelector::environment).
    pub environment: Option<String>,
    /// Includes the probes of a listed run, which its entry counts.
    pub with_parts: bool,
    pub limit: u32,
}

impl RunFilter {
    /// Returns the filter that selects the newest `limit` runs.
    pub const fn newest(limit: u32) -> RunFilter {
        RunFilter {
            range: TimeRange::ALL,
            pair: None,
            kind: None,
            host: None,
            id: None,
            after: None,
            environment: None,
            with_parts: true,
            limit,
        }
    }
}

/// A filter for events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventFilter {
    /// Events whose change may be in this range.
    pub range: TimeRange,
    pub pair: Option<HostPair>,
    pub state: Option<EventState>,
    /// Only open events.
    pub is_open: bool,
    pub limit: u32,
}

impl EventFilter {
    /// Returns the filter that selects the newest `limit` events.
    pub const fn newest(limit: u32) -> EventFilter {
        EventFilter { range: TimeRange::ALL, pair: None, state: None, is_open: false, limit }
    }
}

/// The retention times; `Duration::MAX` keeps data forever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionPolicy {
    /// Reports of watched runs, planned runs with an outcome, single values, which are rounded up to
    /// the hour, and sums of transfers, which are rounded up to the day.
    pub runs: Duration,
    /// Closed hours; at least as long as `runs`.
    pub hours: Duration,
}

impl RetentionPolicy {
    /// Returns the time before which data is expired.
    pub fn cutoff_us(now_us: i64, keep: Duration) -> i64 {
        let keep_us = i64::try_from(keep.as_micros()).unwrap_or(i64::MAX);
        now_us.saturating_sub(keep_us).max(0)
    }
}

/// The data that retention deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RetentionResult {
    pub values: u64,
    /// Closed hours that were deleted.
    pub hours: u64,
    pub reports: u64,
    pub planned: u64,
}

/// Returns true if an event is suspected or confirmed, and not recovered.
pub fn is_event_open(event: &ChangeEvent) -> bool {
    matches!(event.state, EventState::Suspected | EventState::Confirmed)
        && event.recovered_by.is_none()
}

pub const HOUR_US: i64 = 3_600_000_000;

/// Bucket lengths in seconds that divide hours, days and weeks evenly.
const SPANS_S: [i64; 19] = [
    1, 5, 10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400,
    172_800, 604_800, 2_419_200,
];

/// Returns the shortest bucket length that covers `first_us` to `last_us` with at most `at_most`
/// buckets, which start at multiples of it. Two buckets are always allowed.
pub fn choose_span_us(first_us: i64, last_us: i64, at_most: u32) -> i64 {
    let at_most = i64::from(at_most.max(2));
    let buckets = |span: i64| {
        let (first, last) = (first_us.div_euclid(span), last_us.div_euclid(span));
        last.saturating_sub(first).saturating_add(1)
    };
    let spans = SPANS_S.map(|span| span * 1_000_000);
    let longer = std::iter::successors(spans.last().copied(), |span| span.checked_mul(2));
    let mut spans = spans.into_iter().chain(longer);
    spans.find(|&span| buckets(span) <= at_most).unwrap_or(i64::MAX)
}

/// Aggregates values in time order into buckets of equal length, with one bucket's values in
/// memory. Spans without a value get no bucket.
#[derive(Debug)]
pub struct BucketBuilder {
    span_us: i64,
    index: i64,
    values: Vec<f64>,
    done: Vec<SeriesBucket>,
}

impl BucketBuilder {
    pub fn new(span_us: i64) -> Self {
        BucketBuilder { span_us, index: 0, values: Vec::new(), done: Vec::new() }
    }

    pub fn push(&mut self, point: SeriesPoint) {
        let place = point.at_us.div_euclid(self.span_us);
        if place != self.index {
            self.close_bucket();
            self.index = place;
        }
        self.values.push(point.value);
    }

    pub fn finish(mut self) -> Vec<SeriesBucket> {
        self.close_bucket();
        self.done
    }

    fn close_bucket(&mut self) {
        let begin_us = self.index * self.span_us;
        let bucket = bucket_from_values(begin_us, self.span_us, &mut self.values);
        self.done.extend(bucket);
        self.values.clear();
    }
}

/// Returns the values of one span as a bucket, or `None` without values. Sorts the values.
pub fn bucket_from_values(at_us: i64, span_us: i64, values: &mut [f64]) -> Option<SeriesBucket> {
    values.sort_by(f64::total_cmp);
    let (min, max) = (*values.first()?, *values.last()?);
    let middle = values.len() / 2;
    let median = if values.len() % 2 == 1 {
        values[middle]
    } else {
        f64::midpoint(values[middle - 1], values[middle])
    };
    Some(SeriesBucket {
        at_us,
        duration_us: span_us as u64,
        samples: u32::try_from(values.len()).unwrap_or(u32::MAX),
        min,
        median,
        max,
    })
}

/// Merges sorted buckets into longer ones with exact extremes; the median is the median of the
/// medians, weighted by samples.
pub fn widen_buckets(buckets: &[SeriesBucket], span_us: i64) -> Vec<SeriesBucket> {
    let place = |bucket: &SeriesBucket| bucket.at_us.div_euclid(span_us);
    buckets
        .chunk_by(|a, b| place(a) == place(b))
        .map(|group| {
            let least = |least: f64, bucket: &SeriesBucket| least.min(bucket.min);
            let most = |most: f64, bucket: &SeriesBucket| most.max(bucket.max);
            SeriesBucket {
                at_us: place(&group[0]) * span_us,
                duration_us: span_us as u64,
                samples: group.iter().map(|bucket| bucket.samples).sum(),
                min: group.iter().fold(f64::INFINITY, least),
                median: weighted_median(group),
                max: group.iter().fold(f64::NEG_INFINITY, most),
            }
        })
        .collect()
}

fn weighted_median(group: &[SeriesBucket]) -> f64 {
    let mut medians: Vec<(f64, u64)> =
        group.iter().map(|bucket| (bucket.median, u64::from(bucket.samples))).collect();
    medians.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half = medians.iter().map(|(_, samples)| samples).sum::<u64>() / 2;
    let mut below = 0;
    let found = medians.iter().find(|(_, samples)| {
        below += samples;
        below > half
    });
    found.or(medians.last()).map_or(0.0, |(median, _)| *median)
}

/// The maximum size of the name of a host or measurement, or of a reason.
pub const MAX_NAME_BYTES: usize = 255;

/// The maximum size of the id of a run, a planned run or an event.
pub const MAX_ID_BYTES: usize = 128;

/// The maximum size of a report; a day of samples of many streams is far below.
pub const MAX_REPORT_BYTES: usize = 64 << 20;

/// The maximum size of the text of a note, and of the detail of a missed run.
pub const MAX_TEXT_BYTES: usize = 4000;

/// The maximum number of notes on an event.
pub const MAX_EVENT_NOTES: usize = 1000;

/// The maximum size of an event as JSON.
pub const MAX_EVENT_BYTES: usize = 1 << 20;

/// The maximum number of runs or planned runs in one batch.
pub const MAX_BATCH_ITEMS: usize = 100_000;

/// The maximum number of values, of pairs and of transfers of one run.
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
    if [run.readings.len(), run.pairs.len(), run.transfers.len()]
        .iter()
        .any(|it| *it > MAX_READINGS)
    {
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
    let transfers = run.transfers.iter().map(|it| &it.pair);
    named.chain(&run.pairs).chain(transfers).try_for_each(check_pair)
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
        PlannedOutcome::Missed { reason, detail } => {
            check_name("the reason of a missed run", reason)?;
            match detail {
                Some(detail) => check_text("the detail of a missed run", detail, MAX_TEXT_BYTES),
                None => Ok(()),
            }
        }
    }
}

/// Checks a note on an event that has `earlier` notes.
pub fn check_note(note: &EventNote, earlier: usize) -> Result<(), StoreError> {
    check_name("the name of the author", &note.who)?;
    if let Some(text) = &note.text {
        check_text("the text of the note", text, MAX_TEXT_BYTES)?;
    }
    let refuse = |why| Err(refused_error("the note", why));
    if earlier >= MAX_EVENT_NOTES {
        return refuse("the event has 1000 notes already");
    }
    match (note.action, note.until_us) {
        (NoteAction::Silence, Some(until_us)) if is_valid_time(until_us) => Ok(()),
        (NoteAction::Silence, _) => refuse("a silence needs an end, until_us"),
        (_, Some(_)) => refuse("only a silence has an end"),
        (NoteAction::Comment, None) if note.text.is_none() => refuse("a comment needs a text"),
        _ => Ok(()),
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
    } else if text.bytes().any(|byte| !matches!(byte, b' '..=b'~'))
        && text.chars().any(char::is_control)
    {
        Some("it contains control characters")
    } else {
        None
    }
}

fn refused_error(what: &str, why: &'static str) -> StoreError {
    StoreError::Refused { what: what.to_owned(), why }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn gathered(values: impl IntoIterator<Item = (i64, f64)>, span_us: i64) -> Vec<SeriesBucket> {
        let mut gather = BucketBuilder::new(span_us);
        for (at_us, value) in values {
            gather.push(SeriesPoint { at_us, value });
        }
        gather.finish()
    }

    #[test]
    fn a_year_in_a_thousand_points_is_by_half_days() {
        assert_eq!(choose_span_us(0, 365 * 24 * HOUR_US, 1000), 12 * HOUR_US);
        assert_eq!(choose_span_us(0, 365 * 24 * HOUR_US, 8761), HOUR_US);
        assert_eq!(choose_span_us(0, 59_000_000, 60), 1_000_000);
    }

    #[test]
    fn a_bucket_keeps_extremes_and_has_the_middle_of_an_even_number() {
        let values = [(0, 4.0), (1, 1.0), (2, 9.0), (3, 2.0), (HOUR_US, 7.0)];
        let found = gathered(values, HOUR_US);
        let first = SeriesBucket {
            at_us: 0,
            duration_us: HOUR_US as u64,
            samples: 4,
            min: 1.0,
            median: 3.0,
            max: 9.0,
        };
        assert_eq!(found.len(), 2);
        assert_eq!(found[0], first);
        assert_eq!((found[1].at_us, found[1].median), (HOUR_US, 7.0));
    }

    proptest! {
        #[test]
        fn buckets_are_never_more_than_asked_for(
            a in 0..TIME_END_US, b in 0..TIME_END_US, at_most in 2_u32..5000,
        ) {
            let (first, last) = (a.min(b), a.max(b));
            let span = choose_span_us(first, last, at_most);
            let buckets = last.div_euclid(span) - first.div_euclid(span) + 1;
            prop_assert!(buckets <= i64::from(at_most));
        }

        #[test]
        fn widening_keeps_counts_and_extremes(
            values in prop::collection::btree_map(0_i64..90 * HOUR_US, -1e9_f64..1e9, 1..300),
        ) {
            let direct = gathered(values.clone(), 12 * HOUR_US);
            let widened = widen_buckets(&gathered(values, HOUR_US), 12 * HOUR_US);
            prop_assert_eq!(direct.len(), widened.len());
            for (a, b) in direct.iter().zip(&widened) {
                prop_assert_eq!((a.at_us, a.samples, a.min, a.max), (b.at_us, b.samples, b.min, b.max));
                prop_assert!(b.min <= b.median && b.median <= b.max);
            }
        }
    }
}
