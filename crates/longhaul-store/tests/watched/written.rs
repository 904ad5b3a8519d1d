//! Runs, planned runs and events: written once, however often they are said.

use crate::archive_queries::{DAY_US, goodput, points};
use crate::history_cases::{HOUR_US, MIDNIGHT_US, event, geneva, pair, run, runs};
use crate::temporary_archive::TemporaryArchive;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::{EventState, ReportKind, SharedScope};
use longhaul_store::history_store::{
    EventFilter, IncomingRun, IngestResult, PlannedOutcome, PlannedRun, PlannedRunCounts,
    PlannedRunFilter, PlannedRunState, RunFilter, TimeRange,
};
use longhaul_store::{Archive, StoreError};

const ANY_RUN: RunFilter = RunFilter::newest(100);

const ANY_PLANNED: PlannedRunFilter =
    PlannedRunFilter { range: TimeRange::ALL, pair: None, state: None, limit: 100 };

const ANY_EVENT: EventFilter = EventFilter::newest(100);

fn ids(archive: &Archive, filter: &RunFilter) -> Vec<String> {
    let runs = archive.runs(filter).expect("a list");
    runs.into_iter().map(|entry| entry.id).collect()
}

#[test]
fn a_batch_said_twice_changes_nothing() {
    let place = TemporaryArchive::new();
    let mut archive = place.open();
    let values = [(MIDNIGHT_US, 1.0), (MIDNIGHT_US + 1, 2.0), (MIDNIGHT_US + 2, 3.0)];
    let batch = runs(&values);
    let landed = archive.append_runs(&batch).unwrap();
    assert_eq!((landed.new, landed.already_stored), (3, 0));
    for _ in 0..2 {
        let landed = archive.append_runs(&batch).unwrap();
        assert_eq!((landed.new, landed.already_stored), (0, 3));
    }
    // A part of it, and within one batch twice.
    let landed = archive.append_runs(&[batch[1].clone(), batch[1].clone()]);
    assert_eq!(landed.unwrap().already_stored, 2);
    assert_eq!(points(&archive), values);
    assert_eq!(ids(&archive, &ANY_RUN).len(), 3);
}

#[test]
fn a_run_under_a_taken_id_is_named_and_the_rest_lands() {
    let place = TemporaryArchive::new();
    let mut archive = place.open();
    archive.append_runs(&[run("a", MIDNIGHT_US, 1.0)]).unwrap();
    let mut other = run("a", MIDNIGHT_US + 1, 2.0);
    other.report = other.report.replace("daresbury", "elsewhere");
    let landed = archive.append_runs(&[other, run("b", MIDNIGHT_US + 2, 3.0)]);
    let expected =
        IngestResult { new: 1, differing: vec!["a".to_owned()], ..IngestResult::default() };
    assert_eq!(landed.unwrap(), expected);
    let values = [(MIDNIGHT_US, 1.0), (MIDNIGHT_US + 2, 3.0)];
    assert_eq!(points(&archive), values);
}

#[test]
fn what_is_written_is_there_for_the_next_connection() {
    let place = TemporaryArchive::new();
    let mut archive = place.open();
    let reader = place.open();
    let run = run("a", MIDNIGHT_US, 1.0);
    archive.append_runs(std::slice::from_ref(&run)).unwrap();
    archive.put_event(&event("e", MIDNIGHT_US)).unwrap();
    assert_eq!(points(&reader).len(), 1);
    drop((archive, reader));
    let archive = place.open();
    let report = archive.report("a").unwrap().expect("the report");
    assert_eq!(IncomingRun::from_report(&report, MIDNIGHT_US).unwrap().report, run.report);
    assert!(archive.event("e").unwrap().is_some());
    assert_ne!(archive.disk_bytes().unwrap(), 0);
}

#[test]
fn an_empty_archive_answers_with_nothing() {
    let place = TemporaryArchive::new();
    let archive = place.open();
    assert_eq!(archive.pairs().unwrap(), []);
    assert_eq!(archive.grid(PathQuantity::Loss).unwrap(), []);
    assert_eq!(points(&archive), []);
    assert_eq!(goodput(&archive, TimeRange::ALL, 0).points, []);
    assert_eq!(archive.runs(&ANY_RUN).unwrap(), []);
    assert_eq!(archive.events(&ANY_EVENT).unwrap(), []);
    assert_eq!(archive.event("e").unwrap(), None);
    assert_eq!(archive.report("r").unwrap(), None);
    assert_eq!(archive.planned(&ANY_PLANNED).unwrap(), []);
    let counts = archive.planned_counts(TimeRange::ALL).unwrap();
    assert_eq!(counts, PlannedRunCounts::default());
}

#[test]
fn runs_are_found_by_pair_kind_and_time() {
    let place = TemporaryArchive::new();
    let mut archive = place.open();
    let mut back = run("back", MIDNIGHT_US + HOUR_US, 2.0);
    back.pairs = vec![];
    back.readings[0].pair = pair("geneva", "losangeles");
    back.run.started_at = String::from("2026-11-22T01:00:00Z");
    let mut forth = run("forth", MIDNIGHT_US, 1.0);
    forth.run.started_at = String::from("2026-11-22T00:00:00Z");
    archive.append_runs(&[forth, back]).unwrap();
    assert_eq!(ids(&archive, &ANY_RUN), ["back", "forth"]);
    let of_pair = RunFilter { pair: Some(geneva()), ..ANY_RUN };
    assert_eq!(ids(&archive, &of_pair), ["forth"]);
    let range = TimeRange { begin_us: MIDNIGHT_US, end_us: MIDNIGHT_US + HOUR_US };
    for pair in [None, Some(geneva())] {
        let in_range = RunFilter { range, pair, ..ANY_RUN };
        assert_eq!(ids(&archive, &in_range), ["forth"]);
    }
    for (kind, count) in [(ReportKind::Throughput, 2), (ReportKind::Path, 0)] {
        let of_kind = RunFilter { kind: Some(kind), ..ANY_RUN };
        assert_eq!(ids(&archive, &of_kind).len(), count);
    }
    let newest = RunFilter { limit: 1, ..ANY_RUN };
    assert_eq!(ids(&archive, &newest), ["back"]);
    let of_nobody = RunFilter { pair: Some(pair("nobody", "geneva")), ..ANY_RUN };
    assert_eq!(ids(&archive, &of_nobody).len(), 0);
}

fn due(number: i64) -> PlannedRun {
    PlannedRun {
        id: format!("planned-{number}"),
        due_us: MIDNIGHT_US + number * HOUR_US,
        measurement: "light".to_owned(),
        pair: (number % 2 == 0).then(geneva),
        outcome: None,
    }
}

fn missed(reason: &str) -> PlannedOutcome {
    PlannedOutcome::Missed { reason: reason.to_owned(), detail: None }
}

fn done(run_id: &str) -> PlannedOutcome {
    PlannedOutcome::Done { run_id: run_id.to_owned() }
}

#[test]
fn planned_runs_end_as_done_or_missed_and_add_up() {
    let place = TemporaryArchive::new();
    let mut archive = place.open();
    let ten: Vec<PlannedRun> = (0..10).map(due).collect();
    assert_eq!(archive.add_planned(&ten[..7]).unwrap(), 7);
    assert_eq!(archive.add_planned(&ten).unwrap(), 3);
    // A result settles its plan in the same breath.
    let mut run = run("r0", MIDNIGHT_US, 1.0);
    run.planned_id = Some("planned-0".to_owned());
    archive.append_runs(&[run]).unwrap();
    for (number, outcome) in [
        (1, done("r1")),
        (2, missed("budget")),
        (3, missed("budget")),
        (4, missed("unreachable")),
        (5, missed("unreachable")),
        // Said twice, and said otherwise.
        (2, missed("unreachable")),
        (1, missed("late")),
        (5, done("r5")),
    ] {
        archive.record_outcome(&format!("planned-{number}"), &outcome).unwrap();
    }
    let counts = archive.planned_counts(TimeRange::ALL).unwrap();
    assert_eq!((counts.done, counts.missed, counts.waiting), (3, 3, 4));
    assert_eq!(counts.planned, 10);
    let reasons: Vec<(&str, u64)> =
        counts.reasons.iter().map(|it| (it.reason.as_str(), it.runs)).collect();
    assert_eq!(reasons, [("budget", 2), ("unreachable", 1)]);
    planned_rows_tell_outcomes(&archive);
    let unknown = archive.record_outcome("nobody", &missed("budget"));
    assert!(matches!(unknown, Err(StoreError::NoSuchPlanned { .. })));
}

fn planned_rows_tell_outcomes(archive: &Archive) {
    let rows = archive.planned(&ANY_PLANNED).unwrap();
    let numbers: Vec<PlannedRun> =
        rows.iter().map(|row| PlannedRun { outcome: None, ..row.clone() }).collect();
    assert_eq!(numbers, (0..10).map(due).collect::<Vec<_>>());
    assert_eq!(rows[0].outcome, Some(done("r0")));
    assert_eq!(rows[1].outcome, Some(done("r1")));
    assert_eq!(rows[2].outcome, Some(missed("budget")));
    assert_eq!(rows[5].outcome, Some(done("r5")));
    assert_eq!(rows[6].outcome, None);
    let part = PlannedRunFilter {
        range: TimeRange { begin_us: MIDNIGHT_US + 2 * HOUR_US, end_us: MIDNIGHT_US + 9 * HOUR_US },
        pair: Some(geneva()),
        state: Some(PlannedRunState::Waiting),
        limit: 5,
    };
    let waiting = archive.planned(&part).unwrap();
    let waiting: Vec<&str> = waiting.iter().map(|row| row.id.as_str()).collect();
    assert_eq!(waiting, ["planned-6", "planned-8"]);
    let done = PlannedRunFilter { state: Some(PlannedRunState::Done), limit: 2, ..ANY_PLANNED };
    let latest = archive.latest_planned(&done).unwrap();
    let latest: Vec<&str> = latest.iter().map(|row| row.id.as_str()).collect();
    assert_eq!(latest, ["planned-5", "planned-1"]);
}

fn open_events(archive: &Archive) -> u32 {
    let grid = archive.grid(PathQuantity::Goodput).unwrap();
    grid.iter().map(|cell| cell.open_events).sum()
}

#[test]
fn an_event_is_one_entry_however_often_it_is_said() {
    let place = TemporaryArchive::new();
    let mut archive = place.open();
    let mut first = event("first", MIDNIGHT_US);
    let later = event("later", MIDNIGHT_US + DAY_US);
    for event in [&first, &later, &first] {
        archive.put_event(event).unwrap();
    }
    assert_eq!(open_events(&archive), 2);
    first.state = EventState::Confirmed;
    first.between_us[0] += 60_000_000;
    archive.put_event(&first).unwrap();
    assert_eq!(archive.event("first").unwrap(), Some(first.clone()));
    let all = archive.events(&ANY_EVENT).unwrap();
    assert_eq!(all, [later.clone(), first.clone()]);
    let confirmed = EventFilter { state: Some(EventState::Confirmed), ..ANY_EVENT };
    assert_eq!(archive.events(&confirmed).unwrap(), [first.clone()]);
    let second_day = EventFilter {
        range: TimeRange { begin_us: MIDNIGHT_US + DAY_US + 1, end_us: MIDNIGHT_US + 2 * DAY_US },
        pair: Some(geneva()),
        ..ANY_EVENT
    };
    assert_eq!(archive.events(&second_day).unwrap(), [later]);
    let of_nobody = EventFilter { pair: Some(pair("nobody", "geneva")), ..ANY_EVENT };
    assert_eq!(archive.events(&of_nobody).unwrap(), []);
    let open = EventFilter { is_open: true, ..ANY_EVENT };
    assert_eq!(archive.events(&open).unwrap(), all);
    first.state = EventState::Recovered;
    first.recovered_by = Some("later".to_owned());
    archive.put_event(&first).unwrap();
    assert_eq!(open_events(&archive), 1);
    assert_eq!(archive.events(&open).unwrap(), all[..1]);
}

#[test]
fn an_open_event_of_several_paths_is_listed_and_not_counted_for_its_first_path() {
    let place = TemporaryArchive::new();
    let mut archive = place.open();
    let mut shared = event("shared", MIDNIGHT_US);
    shared.shared = Some(SharedScope {
        elements: vec![],
        quantities: vec![PathQuantity::Goodput],
        affected: vec![],
        unaffected: vec![],
        paths: 2,
        affected_paths: 2,
        other_paths: 0,
        affected_other_paths: 0,
        chance_ratio: 0.001,
    });
    archive.put_event(&shared).unwrap();
    assert_eq!(open_events(&archive), 0);
    let open = EventFilter { is_open: true, ..ANY_EVENT };
    assert_eq!(archive.events(&open).unwrap(), [shared]);
}

#[test]
fn the_grid_has_every_pair_with_its_newest_value() {
    let place = TemporaryArchive::new();
    let mut archive = place.open();
    // Nine days, every hour another value, the last one far off.
    let mut values: Vec<(i64, f64)> =
        (0..216).map(|hour| (MIDNIGHT_US + hour * HOUR_US, 100.0 + (hour % 3) as f64)).collect();
    values[215].1 = 7.0;
    for batch in values.chunks(20) {
        archive.append_runs(&runs(batch)).unwrap();
    }
    archive
        .add_planned(&[PlannedRun { pair: Some(pair("geneva", "losangeles")), ..due(1) }])
        .unwrap();
    let grid = archive.grid(PathQuantity::Goodput).unwrap();
    let ways: Vec<&str> = grid.iter().map(|cell| cell.pair.from.as_str()).collect();
    assert_eq!(ways, ["geneva", "losangeles"]);
    assert_eq!((grid[0].value, grid[0].weekly_median), (None, None));
    assert_eq!(grid[1].value.unwrap(), 7.0);
    assert_eq!(grid[1].weekly_median, Some(101.0));
    // Of another quantity nothing is known.
    let grid = archive.grid(PathQuantity::Loss).unwrap();
    assert!(grid.iter().all(|cell| cell.value.is_none()));
}
