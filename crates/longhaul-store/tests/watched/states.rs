//! The values of runs in lists, the states of measurements, and the notes of people on events.

use crate::history_cases::{HOUR_US, MIDNIGHT_US, event, geneva, run};
use crate::temporary_archive::TemporaryArchive;
use longhaul_model::report::v1::RunValues;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_store::history_store::{
    EventHandling, EventNote, IncomingRun, MAX_EVENT_NOTES, MeasurementFailure, MeasurementState,
    NoteAction, PlannedOutcome, PlannedRun, RunFilter,
};
use longhaul_store::{Archive, StoreError};

fn fixture(text: &str) -> IncomingRun {
    IncomingRun::from_json(text.to_owned(), MIDNIGHT_US).expect("a report")
}

#[test]
fn a_list_has_the_values_of_every_kind_of_run() {
    let place = TemporaryArchive::new();
    let mut archive = place.open();
    let path = include_str!("../../../../fixtures/reports/path-sanjose-lulea.json");
    let host = include_str!("../../../../fixtures/reports/host-judged.json");
    let scan = include_str!("../../../../fixtures/reports/scan-guided.json");
    let load = include_str!("../../../../fixtures/reports/load-narrow.json");
    let available = include_str!("../../../../fixtures/reports/available-narrow.json");
    let runs = [path, host, scan, load, available].map(fixture);
    archive.append_runs(&runs).unwrap();
    let rows = archive.runs(&RunFilter::newest(10)).unwrap();
    let values = |kind: &str| {
        let row = rows.iter().find(|row| row.kind == kind).expect("a row");
        row.values.expect("values")
    };
    let path = values("path");
    assert!(path.rtt_us.is_some_and(|us| us > 100_000) && path.hops.is_some_and(|it| it > 5));
    assert!(path.loss_ratio.is_some(), "{path:?}");
    assert!(
        values("host").limiting_settings.is_some() && values("host").advised_settings.is_some()
    );
    assert!(values("load").rtt_rise_us.is_some_and(|us| us > 0));
    let available = values("available");
    assert!(available.available_bps.is_some() && available.capacity_bps.is_some());
    assert!(values("scan").window_bytes.is_some());
    // The row of a live update says the same as the list.
    for run in &runs {
        let live = longhaul_store::RunEntry::from_run(run);
        assert_eq!(
            rows.iter().find(|row| row.id == live.id).map(|row| row.values),
            Some(live.values)
        );
    }
    archive.append_runs(&[run("bulk", MIDNIGHT_US, 1.0)]).unwrap();
    let rows = archive.runs(&RunFilter { id: Some("bulk".to_owned()), ..RunFilter::newest(9) });
    assert_eq!(rows.unwrap()[0].values, None::<RunValues>);
}

#[test]
fn the_grid_names_the_run_of_the_newest_value_and_what_limited_it() {
    let place = TemporaryArchive::new();
    let mut archive = place.open();
    let runs = [run("new", MIDNIGHT_US + HOUR_US, 2.0), run("old", MIDNIGHT_US, 1.0)];
    archive.append_runs(&runs).unwrap();
    let cell = &archive.grid(PathQuantity::Goodput).unwrap()[0];
    assert_eq!(cell.run_id.as_deref(), Some("new"));
    assert_eq!(cell.limited_by.as_deref(), Some("receive_window"));
    assert_eq!(archive.grid(PathQuantity::Loss).unwrap()[0].limited_by, None);
}

#[test]
fn runs_are_found_by_host_and_id_and_come_in_pages() {
    let place = TemporaryArchive::new();
    let mut archive = place.open();
    // All within one second.
    let runs: Vec<IncomingRun> =
        (0..7).map(|n| run(&format!("run-{n}"), MIDNIGHT_US + n, 1.0)).collect();
    archive.append_runs(&runs).unwrap();
    // Both ends of each run have an "a" in their name.
    let both_ends = Some("a".to_owned());
    for (pair, host) in [(None, None), (Some(geneva()), None), (None, both_ends)] {
        let all = RunFilter { pair, host, ..RunFilter::newest(3) };
        let mut seen = Vec::new();
        let mut after = None;
        loop {
            let page = archive.runs(&RunFilter { after, ..all.clone() }).unwrap();
            seen.extend(page.iter().map(|row| row.id.clone()));
            after = page.last().map(|row| row.id.clone());
            if page.len() < 3 {
                break;
            }
        }
        let ids: Vec<String> = (0..7).rev().map(|n| format!("run-{n}")).collect();
        assert_eq!(seen, ids, "{:?}", all.pair);
        let mut read = Vec::new();
        let every = RunFilter { limit: u32::MAX, ..all.clone() };
        archive.for_each_report(&every, |report| read.push(report.run().id.clone())).unwrap();
        assert_eq!(read, ids, "{:?}", all.pair);
        for (host, count) in [("FAR", 3), ("slac", 3), ("%", 0), ("nowhere", 0)] {
            let of_host = RunFilter { host: Some(host.to_owned()), ..all.clone() };
            assert_eq!(archive.runs(&of_host).unwrap().len(), count, "{host}");
        }
        for (id, count) in [("run-3", 1), ("run-", 3), ("un-3", 0), ("%", 0)] {
            let of_id = RunFilter { id: Some(id.to_owned()), ..all.clone() };
            assert_eq!(archive.runs(&of_id).unwrap().len(), count, "{id}");
        }
    }
}

/// Runs that come due each hour; `outcomes` settles them in this order.
fn settled(outcomes: &[(i64, PlannedOutcome)]) -> MeasurementState {
    let place = TemporaryArchive::new();
    let mut archive = place.open();
    let planned = |hour: i64| PlannedRun {
        id: format!("p-{hour}"),
        due_us: MIDNIGHT_US + hour * HOUR_US,
        measurement: "bulk".to_owned(),
        pair: Some(geneva()),
        outcome: None,
    };
    archive.add_planned(&(0..10).map(planned).collect::<Vec<_>>()).unwrap();
    for (hour, outcome) in outcomes {
        archive.record_outcome(&format!("p-{hour}"), outcome).unwrap();
    }
    let mut states = archive.measurement_states(10).unwrap();
    assert_eq!(states.len(), 1, "{states:?}");
    states.remove(0)
}

fn failed(detail: &str) -> PlannedOutcome {
    let detail = Some(detail.to_owned());
    PlannedOutcome::Missed { reason: "failed".to_owned(), detail }
}

fn missed(reason: &str) -> PlannedOutcome {
    PlannedOutcome::Missed { reason: reason.to_owned(), detail: None }
}

fn done(run_id: &str) -> PlannedOutcome {
    PlannedOutcome::Done { run_id: run_id.to_owned() }
}

#[test]
fn a_measurement_fails_since_its_first_failure_after_a_success() {
    let refused = "connection refused";
    let story = [
        (0, done("r0")),
        (1, missed("locked")),
        (2, failed("no route")),
        (3, failed(refused)),
        (4, missed("target_failing")),
        (5, missed("budget")),
    ];
    let state = settled(&story);
    assert_eq!((state.done_us, state.done_run.as_deref()), (Some(MIDNIGHT_US), Some("r0")));
    let failure = MeasurementFailure {
        since_us: MIDNIGHT_US + 2 * HOUR_US,
        latest_us: MIDNIGHT_US + 4 * HOUR_US,
        reason: "target_failing".to_owned(),
        detail: Some(refused.to_owned()),
    };
    assert_eq!(state.failure.as_ref(), Some(&failure));
    // Outcomes of another agent may arrive in any order.
    let backwards: Vec<_> = story.iter().rev().cloned().collect();
    assert_eq!(settled(&backwards).failure.map(|it| it.since_us), Some(failure.since_us));
    let after = settled(&[&story[..], &[(6, done("r6"))]].concat());
    assert_eq!((after.failure, after.done_run.as_deref()), (None, Some("r6")));
    // A result that arrives late is still older than the failures.
    let late = settled(&[&story[1..], &[(0, done("r0"))]].concat());
    assert_eq!(late.failure, Some(failure));
    let locked = settled(&[(0, done("r0")), (1, missed("locked")), (2, missed("asleep"))]);
    assert_eq!(locked.failure, None, "the agent's own decisions are no failures");
}

fn note(action: NoteAction, text: Option<&str>, until_us: Option<i64>) -> EventNote {
    let text = text.map(str::to_owned);
    EventNote { at_us: MIDNIGHT_US, who: "jo".to_owned(), action, text, until_us }
}

fn handling(archive: &Archive) -> EventHandling {
    archive.event_handling("e").unwrap()
}

#[test]
fn notes_on_an_event_acknowledge_and_silence_it_until_it_is_reopened() {
    let place = TemporaryArchive::new();
    let mut archive = place.open();
    archive.put_event(&event("e", MIDNIGHT_US)).unwrap();
    assert_eq!(handling(&archive), EventHandling::default());
    let acknowledged = note(NoteAction::Acknowledge, None, None);
    assert!(archive.add_event_note("e", &acknowledged).unwrap());
    let silence = note(NoteAction::Silence, Some("planned work"), Some(MIDNIGHT_US + HOUR_US));
    assert!(archive.add_event_note("e", &silence).unwrap());
    assert!(!archive.add_event_note("nosuch", &silence).unwrap(), "no such event");
    let now = handling(&archive);
    assert_eq!((now.notes, now.acknowledged_by.as_deref()), (2, Some("jo")));
    assert!(now.is_silenced(MIDNIGHT_US) && !now.is_silenced(MIDNIGHT_US + HOUR_US));
    // The detector writes the event anew; the notes stay.
    archive.put_event(&event("e", MIDNIGHT_US + 1)).unwrap();
    assert_eq!(archive.event_notes("e").unwrap(), [acknowledged, silence]);
    archive.add_event_note("e", &note(NoteAction::Reopen, None, None)).unwrap();
    assert_eq!(handling(&archive), EventHandling { notes: 3, ..EventHandling::default() });
}

#[test]
fn notes_beyond_the_limits_are_refused() {
    let place = TemporaryArchive::new();
    let mut archive = place.open();
    archive.put_event(&event("e", MIDNIGHT_US)).unwrap();
    let long = "x".repeat(5000);
    for refused in [
        note(NoteAction::Comment, None, None),
        note(NoteAction::Comment, Some(&long), None),
        note(NoteAction::Comment, Some("a\nb"), None),
        note(NoteAction::Silence, None, None),
        note(NoteAction::Silence, None, Some(-1)),
        note(NoteAction::Acknowledge, None, Some(MIDNIGHT_US)),
        EventNote { who: String::new(), ..note(NoteAction::Acknowledge, None, None) },
    ] {
        let answer = archive.add_event_note("e", &refused);
        assert!(matches!(answer, Err(StoreError::Refused { .. })), "{refused:?}: {answer:?}");
    }
    let comment = note(NoteAction::Comment, Some("seen"), None);
    for _ in 0..MAX_EVENT_NOTES {
        archive.add_event_note("e", &comment).unwrap();
    }
    assert!(matches!(archive.add_event_note("e", &comment), Err(StoreError::Refused { .. })));
}
