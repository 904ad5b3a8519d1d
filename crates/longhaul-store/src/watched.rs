//! What an agent and its page ask of an archive, whatever the database behind it.
//!
//! Times are microseconds since 1970-01-01T00:00:00Z, of the clock of whoever measured; they need
//! not come in order. Names of hosts, measurements and reasons are words of the agent's file.
//! Values are in the unit of their [`Quantity`]. Whatever comes in is held to the limits of
//! [`limits`]; one item beyond them refuses its whole batch, before anything is written.
//!
//! Everything that writes may be said twice and then changes nothing, so a sender that did not
//! hear the answer says it again. When a call returns `Ok`, what it wrote outlives the process and
//! the power supply. When it returns an error, nothing of it was written, with the exceptions that
//! [`Watched::retain`] names.

pub mod buckets;
pub mod limits;

use crate::archive::Entry;
use crate::error::StoreError;
use crate::filed::{self, Derived, Filed};
use longhaul_model::report::v1::event::{Event, State};
use longhaul_model::report::v1::quantity::Quantity;
use longhaul_model::report::v1::series::{Pair, Point, Series};
use longhaul_model::report::v1::{AnyReport, Kind, Run};
use std::time::Duration;

/// An archive that is written on a schedule and looked at while it is.
///
/// One value is one connection: the agent has one that writes, each reader opens its own.
pub trait Watched: Send {
    /// Stores finished runs with what they gave to the series, all or none. A run that is watched
    /// already is left as it is, with its values. One that was filed by whoever made it, and that
    /// nobody watches yet, is watched from here on: its stored report stays, and it gains pairs,
    /// values and the planned run that it settles.
    fn append_runs(&mut self, runs: &[WatchedRun]) -> Result<Landed, StoreError>;

    /// Notes runs that are due. An id that is there already is left as it is. Says how many were
    /// new.
    fn plan(&mut self, planned: &[Planned]) -> Result<u64, StoreError>;

    /// Says what became of a planned run. What was done stays done; what was missed becomes done
    /// when its result comes after all; of two reasons the first stays.
    ///
    /// [`StoreError::NoSuchPlanned`] where no run is planned under this id.
    fn settle(&mut self, planned_id: &str, outcome: &Outcome) -> Result<(), StoreError>;

    /// Stores what came from another agent at once. All of it may have come before.
    ///
    /// An archive that cannot do it in one transaction does one thing after the other; what an
    /// error cuts off is done when the sender says it again.
    fn receive(&mut self, delivery: &Delivery) -> Result<Landed, StoreError> {
        let planned = delivery.planned.iter().map(|row| row.planned.clone());
        self.plan(&planned.collect::<Vec<_>>())?;
        let landed = self.append_runs(&delivery.runs)?;
        for row in &delivery.planned {
            if let Some(outcome) = &row.outcome {
                self.settle(&row.planned.id, outcome)?;
            }
        }
        for event in &delivery.events {
            self.put_event(event)?;
        }
        Ok(landed)
    }

    /// Planned runs by the time when they were due, the earliest first.
    fn planned(&self, filter: &PlannedFilter) -> Result<Vec<PlannedRow>, StoreError>;

    /// How many runs were due in a range, and what became of them. The parts add up to the whole.
    fn planned_counts(&self, range: Range) -> Result<PlannedCounts, StoreError>;

    /// Values of one quantity of one pair, in the order of time; of a pair that was never seen,
    /// none.
    ///
    /// At most `at_most` points and buckets together, but never fewer than two are asked for and
    /// never more than [`limits::SERIES_MAX`]. Single values where they are few enough and still
    /// kept; buckets of an hour where only those are kept; otherwise buckets of even spans, whose
    /// `min` and `max` are those of the values. The median of a bucket is that of its values up to
    /// an hour, above that the median of its hours' medians, weighted by their samples.
    fn series(
        &self,
        pair: &Pair,
        quantity: Quantity,
        range: Range,
        at_most: u32,
    ) -> Result<Series, StoreError>;

    /// The newest value of every pair that is known, by name.
    fn grid(&self, quantity: Quantity) -> Result<Vec<GridCell>, StoreError>;

    /// Every pair that has values or was planned, by name.
    fn pairs(&self) -> Result<Vec<Pair>, StoreError>;

    /// The report of exactly this run.
    fn report(&self, run_id: &str) -> Result<Option<AnyReport>, StoreError>;

    /// Runs, the newest first.
    fn runs(&self, filter: &RunFilter) -> Result<Vec<Entry>, StoreError>;

    /// Stores an event, in the place of what was there under its id.
    fn put_event(&mut self, event: &Event) -> Result<(), StoreError>;

    /// The event of exactly this id.
    fn event(&self, id: &str) -> Result<Option<Event>, StoreError>;

    /// Events, the latest change first.
    fn events(&self, filter: &EventFilter) -> Result<Vec<Event>, StoreError>;

    /// Removes what is older than `keep` says. Single values go when their hour has been counted
    /// into the hourly series, which stays for `hours`; events stay; runs that nobody watches, such as one
    /// that a person started, stay.
    ///
    /// Works in steps, each whole by itself, so that others can write between them. What an error
    /// cuts off the next call does.
    fn retain(&mut self, now_us: i64, keep: &Retention) -> Result<Removed, StoreError>;

    /// What the archive is and how large.
    fn about(&self) -> Result<About, StoreError>;
}

/// A span of time: from its begin on, up to and without its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    pub begin_us: i64,
    pub end_us: i64,
}

impl Range {
    pub const ALL: Range = Range {
        begin_us: i64::MIN,
        end_us: i64::MAX,
    };

    pub fn holds(self, at_us: i64) -> bool {
        (self.begin_us..self.end_us).contains(&at_us)
    }
}

/// One value that a run gave to a series.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    pub pair: Pair,
    pub quantity: Quantity,
    /// Of two runs that give a value to the same series at the same microsecond one value is
    /// kept.
    pub point: Point,
}

/// A finished run on its way into the archive.
#[derive(Debug, Clone, PartialEq)]
pub struct WatchedRun {
    pub run: Run,
    pub kind: Kind,
    pub derived: Derived,
    /// Start of the run.
    pub at_us: i64,
    /// As JSON on one line.
    pub report: String,
    /// Pairs that it is a measurement of, also where it gave no value.
    pub pairs: Vec<Pair>,
    pub readings: Vec<Reading>,
    /// The planned run that it settles as done, if it was planned here.
    pub planned_id: Option<String>,
    /// Name of the host that began it; absent: the agent whose archive this is.
    pub near: Option<String>,
}

impl WatchedRun {
    /// Files a report, with nothing for the series as yet.
    pub fn of(report: &AnyReport, at_us: i64) -> Result<WatchedRun, StoreError> {
        let run = run_of(report);
        let text = report.text().map_err(|source| StoreError::Report {
            id: run.id.clone(),
            source,
        })?;
        Ok(WatchedRun {
            run: run.clone(),
            kind: kind_of(report),
            derived: report.derived(),
            at_us,
            report: text,
            pairs: Vec::new(),
            readings: Vec::new(),
            planned_id: None,
            near: None,
        })
    }

    /// Files the text of a report; the text is kept as it came.
    pub fn of_text(text: String, at_us: i64) -> Result<WatchedRun, StoreError> {
        WatchedRun::with_report(text, at_us).map(|(run, _)| run)
    }

    /// The same, with the report that the text is.
    pub fn with_report(text: String, at_us: i64) -> Result<(WatchedRun, AnyReport), StoreError> {
        let report = filed::parse("of the batch", &text)?;
        let run = WatchedRun {
            run: run_of(&report).clone(),
            kind: kind_of(&report),
            derived: report.derived(),
            at_us,
            report: text,
            pairs: Vec::new(),
            readings: Vec::new(),
            planned_id: None,
            near: None,
        };
        Ok((run, report))
    }
}

/// The run that a report is of, whatever its kind.
pub fn run_of(report: &AnyReport) -> &Run {
    match report {
        AnyReport::Throughput(report) => &report.run,
        AnyReport::Scan(report) => &report.run,
        AnyReport::Host(report) => &report.run,
        AnyReport::Predict(report) => &report.run,
        AnyReport::Path(report) => &report.run,
        AnyReport::Available(report) => &report.run,
        AnyReport::Load(report) => &report.run,
        AnyReport::Imported(report) => &report.run,
        AnyReport::Copy(report) => &report.run,
    }
}

fn kind_of(report: &AnyReport) -> Kind {
    match report {
        AnyReport::Throughput(_) => Kind::Throughput,
        AnyReport::Scan(_) => Kind::Scan,
        AnyReport::Host(_) => Kind::Host,
        AnyReport::Predict(_) => Kind::Predict,
        AnyReport::Path(_) => Kind::Path,
        AnyReport::Available(_) => Kind::Available,
        AnyReport::Load(_) => Kind::Load,
        AnyReport::Imported(_) => Kind::Imported,
        AnyReport::Copy(_) => Kind::Copy,
    }
}

/// What became of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Landed {
    /// Runs that were not there before.
    pub new: u64,
    /// Runs that were there, reading the same, and that nobody watched: now they are, and what
    /// they give to the series is new.
    pub joined: u64,
    /// Runs that were there and watched, reading the same.
    pub already: u64,
    /// Ids that are taken by another report. What was there first stays; the rest of the batch is
    /// stored.
    pub differing: Vec<String>,
    /// Values of new and joined runs that came after their hour was closed: the report is kept, the series
    /// is not changed.
    pub late_values: u64,
}

/// What one agent sends to another archive.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Delivery {
    pub runs: Vec<WatchedRun>,
    pub planned: Vec<PlannedRow>,
    /// In their newest state.
    pub events: Vec<Event>,
}

/// A run that is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    pub id: String,
    pub due_us: i64,
    /// What the agent's file calls it.
    pub measurement: String,
    /// None for what concerns one host.
    pub pair: Option<Pair>,
}

/// What became of a planned run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Done {
        run_id: String,
    },
    /// With a reason that is one of few words, so that it can be counted.
    Missed {
        reason: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedRow {
    pub planned: Planned,
    /// None: not yet.
    pub outcome: Option<Outcome>,
}

/// Which planned runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedFilter {
    pub range: Range,
    pub pair: Option<Pair>,
    /// Those without an outcome alone.
    pub waiting: bool,
    pub limit: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlannedCounts {
    pub done: u64,
    pub missed: u64,
    /// Without an outcome as yet.
    pub waiting: u64,
    /// The missed ones by reason, the most frequent first; they add up to `missed`.
    pub reasons: Vec<(String, u64)>,
}

impl PlannedCounts {
    pub fn planned(&self) -> u64 {
        self.done + self.missed + self.waiting
    }
}

/// A pair in the grid.
#[derive(Debug, Clone, PartialEq)]
pub struct GridCell {
    pub pair: Pair,
    /// By the time of the run, not of its arrival.
    pub newest: Option<Point>,
    /// Median of the hourly medians of the seven days before the newest hour, that hour left out.
    /// May lag behind the values by some batches.
    pub usual: Option<f64>,
    /// Events of this quantity that are suspected or confirmed and not recovered from.
    pub open_events: u32,
}

/// Which runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFilter {
    /// By the start of the run, to the second.
    pub range: Range,
    /// Watched runs of this pair alone.
    pub pair: Option<Pair>,
    pub kind: Option<Kind>,
    pub limit: u32,
}

/// Which events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventFilter {
    /// Those whose change may lie in it.
    pub range: Range,
    pub pair: Option<Pair>,
    pub state: Option<State>,
    pub limit: u32,
}

/// How long what is kept; `Duration::MAX` is for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Single values, rounded up to the hour.
    pub values: Duration,
    /// Hours whose values are gone; never shorter than `values`.
    pub hours: Duration,
    /// Reports of watched runs.
    pub reports: Duration,
    /// Planned runs and their outcomes.
    pub planned: Duration,
}

impl Retention {
    pub const FOR_EVER: Retention = Retention {
        values: Duration::MAX,
        hours: Duration::MAX,
        reports: Duration::MAX,
        planned: Duration::MAX,
    };

    /// The time before which what is kept for so long is old.
    pub fn before(now_us: i64, keep: Duration) -> i64 {
        let keep_us = i64::try_from(keep.as_micros()).unwrap_or(i64::MAX);
        now_us.saturating_sub(keep_us).max(0)
    }
}

/// What retention did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Removed {
    pub values: u64,
    /// Hours that are now kept as their bucket alone.
    pub closed_hours: u64,
    /// Hours that are forgotten.
    pub hours: u64,
    pub reports: u64,
    pub planned: u64,
    /// Reports that are old enough and still to be sent to the collector.
    pub kept_to_send: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// The name of the database.
    pub kind: &'static str,
    /// On disk, where that can be said.
    pub bytes: Option<u64>,
}

/// Whether an event still concerns the present.
pub fn is_open(event: &Event) -> bool {
    matches!(event.state, State::Suspected | State::Confirmed) && event.recovered_by.is_none()
}
