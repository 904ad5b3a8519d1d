//! `longhaul report case`: compares paths in two periods.

use super::run_collection::{RunCollection, is_named};
use super::{find_event, query_events};
use crate::cli::args::CaseArgs;
use crate::command_failure::{ARCHIVE, CommandFailure, USAGE};
use jiff::Timestamp;
use longhaul_history::report_comparison::period_case;
use longhaul_model::report::v1::case::{CaseReport, PathCase};
use longhaul_model::report::v1::{ChangeEvent, EventState, SCHEMA, TimePeriod};
use longhaul_report::run_comparison;
use longhaul_store::Archive;
use longhaul_store::history_store::TimeRange;

/// The maximum number of events to read.
const MAX_EVENTS: u32 = 2_000;

/// The two periods, with the hosts and the event that define them.
struct CasePeriods {
    hosts: Vec<String>,
    before: TimePeriod,
    after: TimePeriod,
    event: Option<ChangeEvent>,
}

pub fn run(args: &CaseArgs) -> Result<(), CommandFailure> {
    let archive = super::open_existing_archive(&args.archive)?;
    let asked = resolve_case_periods(args, &archive)?;
    let span = TimePeriod {
        begin_us: asked.before.begin_us.min(asked.after.begin_us),
        end_us: asked.before.end_us.max(asked.after.end_us),
    };
    let gathered = RunCollection::read(&archive, &asked.hosts, span, args.environment.filter())?;
    let range = TimeRange { begin_us: span.begin_us, end_us: span.end_us };
    let events = query_events(&archive, range, MAX_EVENTS)?;
    let materials = gathered.materials(&asked.hosts);
    let mut paths: Vec<PathCase> = materials
        .iter()
        .map(|material| {
            period_case::compare_periods(material, [asked.before, asked.after], &events)
        })
        .filter(|path| is_relevant_path(path, asked.event.as_ref()))
        .collect();
    require_measured_hosts(&asked, &paths)?;
    period_case::adjust_path_changes(&mut paths);
    let report = CaseReport {
        schema: SCHEMA.to_owned(),
        kind: String::from("case"),
        longhaul: super::LONGHAUL_VERSION.to_owned(),
        before: asked.before,
        after: asked.after,
        event_id: asked.event.map(|event| event.id),
        paths,
        caveats: gathered.caveats.clone(),
    };
    let document = run_comparison::case_document::build_case_document(&report);
    super::write_report(&args.written, &report, &document)
}

fn resolve_case_periods(args: &CaseArgs, archive: &Archive) -> Result<CasePeriods, CommandFailure> {
    let hosts = args.hosts.clone();
    if let Some(id) = &args.event {
        return periods_around_event(hosts, &find_event(archive, id)?, archive, args.span);
    }
    let (before, after) = match (args.at, args.before, args.after) {
        (Some(at), ..) => {
            let at_us = at.as_microsecond();
            let latest = Timestamp::now().as_microsecond().max(at_us + 1);
            (
                make_period(at_us.saturating_sub(args.span), at_us),
                make_period(at_us, at_us.saturating_add(args.span).min(latest)),
            )
        }
        (None, Some(before), Some(after)) => (before, after),
        _ => {
            let fail = CommandFailure::new(USAGE, "cannot compare: two periods are required");
            return Err(fail.hint(Some(
                "give `--before PERIOD --after PERIOD`, `--at TIME`, or `--event ID` from \
                 `longhaul report events`",
            )));
        }
    };
    Ok(CasePeriods { hosts, before, after, event: None })
}

/// Returns the periods around an event, up to its neighbours in the same series.
fn periods_around_event(
    mut hosts: Vec<String>,
    event: &ChangeEvent,
    archive: &Archive,
    span_us: i64,
) -> Result<CasePeriods, CommandFailure> {
    if hosts.is_empty() {
        hosts.push(event.pair.to.clone());
    }
    let [begin, end] = event.between_us;
    let end = end.max(begin.saturating_add(1));
    let near =
        TimeRange { begin_us: begin.saturating_sub(span_us), end_us: end.saturating_add(span_us) };
    let mut from = near.begin_us;
    let mut until = near.end_us.min(Timestamp::now().as_microsecond().max(end + 1));
    let same = |other: &&ChangeEvent| {
        other.id != event.id
            && other.pair == event.pair
            && other.quantity == event.quantity
            && other.state != EventState::Withdrawn
    };
    for other in query_events(archive, near, MAX_EVENTS)?.iter().filter(same) {
        if other.between_us[1] <= begin {
            from = from.max(other.between_us[1]);
        } else if other.between_us[0] >= end {
            until = until.min(other.between_us[0].saturating_add(1));
        }
    }
    Ok(CasePeriods {
        hosts,
        // `before` includes the last value before the change, `after` the first one after it.
        before: make_period(from, begin.saturating_add(1)),
        after: make_period(end, until),
        event: Some(event.clone()),
    })
}

fn make_period(begin_us: i64, end_us: i64) -> TimePeriod {
    TimePeriod { begin_us, end_us }
}

/// Returns true for paths measured in either period; with an event, only for its own path.
fn is_relevant_path(path: &PathCase, event: Option<&ChangeEvent>) -> bool {
    let measured = path.run_counts.iter().sum::<u32>() > 0 || !path.changes.is_empty();
    let ours = event.is_none_or(|event| {
        path.changes.iter().any(|change| change.pair == event.pair) || path.pair == event.pair
    });
    measured && ours
}

/// Fails with the names of requested hosts that were never measured.
fn require_measured_hosts(asked: &CasePeriods, paths: &[PathCase]) -> Result<(), CommandFailure> {
    let has = |host: &&String| {
        let mut ends = paths.iter().flat_map(|path| [&path.pair.from, &path.pair.to]);
        ends.any(|end| is_named(end, host))
    };
    let missing: Vec<&str> =
        asked.hosts.iter().filter(|host| !has(host)).map(String::as_str).collect();
    if missing.is_empty() && !paths.is_empty() {
        return Ok(());
    }
    let clean = super::sanitize_input(&missing.join(", "));
    let text = format!("cannot compare: no runs to {clean} in either period");
    Err(CommandFailure::new(ARCHIVE, text)
        .hint(Some("list the paths and times (UTC) of all runs with `longhaul report site`")))
}
