//! `longhaul report case`: compares paths in two periods.

use super::gather::Gathered;
use super::{events, written};
use crate::cli::args::CaseArgs;
use crate::fail::{ARCHIVE, Fail, USAGE};
use crate::render::beside;
use jiff::Timestamp;
use longhaul_analysis::beside::case;
use longhaul_model::report::v1::SCHEMA;
use longhaul_model::report::v1::case::{Case, PathCase};
use longhaul_model::report::v1::comparison::Period;
use longhaul_model::report::v1::event::{Event, State};
use longhaul_store::watched::Range;
use longhaul_store::{Archive, StoreError};
use serde_json::json;
use std::process::ExitCode;

/// The maximum number of events to read.
const MOST_EVENTS: u32 = 2_000;

/// The two periods, with the hosts and the event that define them.
struct Asked {
    hosts: Vec<String>,
    before: Period,
    after: Period,
    event: Option<Event>,
}

pub fn run(args: &CaseArgs) -> Result<ExitCode, Fail> {
    written::check(&args.written)?;
    let archive = written::archive(&args.archive)?;
    let asked = asked(args, &archive)?;
    let span = Period {
        begin_us: asked.before.begin_us.min(asked.after.begin_us),
        end_us: asked.before.end_us.max(asked.after.end_us),
    };
    let gathered = Gathered::of(&archive, &asked.hosts, span)?;
    let events = events_of(&archive, span)?;
    let materials = gathered.materials(&asked.hosts);
    let mut paths: Vec<PathCase> = materials
        .iter()
        .map(|material| case::of_path(material, (asked.before, asked.after), &events))
        .filter(|path| concerns(path, asked.event.as_ref()))
        .collect();
    unknown(&asked, &paths)?;
    case::adjust(&mut paths);
    let report = Case {
        schema: SCHEMA.to_owned(),
        kind: String::from("case"),
        longhaul: written::LONGHAUL.to_owned(),
        before: asked.before,
        after: asked.after,
        event_id: asked.event.map(|event| event.id),
        paths,
        caveats: gathered.caveats.clone(),
    };
    let document = |figures| beside::case::document(&report, figures);
    written::write(&args.written, &json!(report), document)?;
    Ok(ExitCode::SUCCESS)
}

fn asked(args: &CaseArgs, archive: &Archive) -> Result<Asked, Fail> {
    let hosts = args.hosts.clone();
    if let Some(id) = &args.event {
        return around(hosts, &events::find(archive, id)?, (archive, args.span));
    }
    if let Some(at) = args.at {
        let at_us = at.as_microsecond();
        let now_us = Timestamp::now().as_microsecond();
        return Ok(Asked {
            hosts,
            before: period(at_us.saturating_sub(args.span), at_us),
            after: period(
                at_us,
                at_us.saturating_add(args.span).min(now_us.max(at_us + 1)),
            ),
            event: None,
        });
    }
    match (args.before, args.after) {
        (Some(before), Some(after)) => Ok(Asked {
            hosts,
            before,
            after,
            event: None,
        }),
        _ => Err(Fail::new(USAGE, "which two periods are meant?").hint(Some(
            "give `--before PERIOD --after PERIOD`, `--at TIME`, or `--event ID` of `longhaul report \
             events`",
        ))),
    }
}

/// Returns the periods around an event, up to its neighbours in the same series.
fn around(
    mut hosts: Vec<String>,
    event: &Event,
    (archive, span_us): (&Archive, i64),
) -> Result<Asked, Fail> {
    if hosts.is_empty() {
        hosts.push(event.pair.to.clone());
    }
    let [begin, end] = event.between_us;
    let end = end.max(begin.saturating_add(1));
    let near = Range {
        begin_us: begin.saturating_sub(span_us),
        end_us: end.saturating_add(span_us),
    };
    let mut from = near.begin_us;
    let mut until = near
        .end_us
        .min(Timestamp::now().as_microsecond().max(end + 1));
    let same = |other: &&Event| {
        other.id != event.id
            && other.pair == event.pair
            && other.quantity == event.quantity
            && other.state != State::Withdrawn
    };
    for other in events::read(archive, near, MOST_EVENTS)?
        .iter()
        .filter(same)
    {
        if other.between_us[1] <= begin {
            from = from.max(other.between_us[1]);
        } else if other.between_us[0] >= end {
            until = until.min(other.between_us[0].saturating_add(1));
        }
    }
    Ok(Asked {
        hosts,
        // `before` includes the last value before the change, `after` the first one after it.
        before: period(from, begin.saturating_add(1)),
        after: period(end, until),
        event: Some(event.clone()),
    })
}

fn period(begin_us: i64, end_us: i64) -> Period {
    Period { begin_us, end_us }
}

fn events_of(archive: &Archive, span: Period) -> Result<Vec<Event>, StoreError> {
    let range = Range {
        begin_us: span.begin_us,
        end_us: span.end_us,
    };
    events::read(archive, range, MOST_EVENTS)
}

/// Returns true for paths measured in either period; with an event, only for its own path.
fn concerns(path: &PathCase, event: Option<&Event>) -> bool {
    let measured = path.run_counts.iter().sum::<u32>() > 0 || !path.changes.is_empty();
    let ours = event.is_none_or(|event| {
        path.changes.iter().any(|change| change.pair == event.pair) || path.pair == event.pair
    });
    measured && ours
}

/// Fails with the names of requested hosts that were never measured.
fn unknown(asked: &Asked, paths: &[PathCase]) -> Result<(), Fail> {
    let has = |host: &&String| {
        let mut ends = paths
            .iter()
            .flat_map(|path| [&path.pair.from, &path.pair.to]);
        ends.any(|end| end == *host)
    };
    let missing: Vec<&str> = asked
        .hosts
        .iter()
        .filter(|host| !has(host))
        .map(String::as_str)
        .collect();
    if missing.is_empty() && !paths.is_empty() {
        return Ok(());
    }
    let clean = super::written::shown(&missing.join(", "));
    Err(Fail::new(
        ARCHIVE,
        format!("nothing was measured to {clean} in either period"),
    )
    .hint(Some(
        "`longhaul report site` shows what was measured, and when; times are UTC",
    )))
}
