//! A run that its own process has filed, and that the agent then hands over with its values.

use crate::temporary_archive::TemporaryArchive;
use crate::{MIDNIGHT_US, pair, planned, report, watched};
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_store::Archive;
use longhaul_store::history_store::{IngestResult, RetentionPolicy, RunFilter, TimeRange};
use longhaul_store::sqlite::outbox::MAIN_DESTINATION;
use std::time::Duration;

fn values(archive: &Archive) -> usize {
    let series = archive.series(&pair(), PathQuantity::Goodput, TimeRange::ALL, 100);
    series.expect("a series").points.len()
}

fn of_pair(archive: &Archive) -> usize {
    let filter = RunFilter { pair: Some(pair()), ..RunFilter::newest(10) };
    archive.runs(&filter).expect("runs").len()
}

fn joined() -> IngestResult {
    IngestResult { newly_watched: 1, ..IngestResult::default() }
}

#[test]
fn a_run_that_was_filed_by_itself_becomes_watched_once() {
    let place = TemporaryArchive::new();
    let mut archive = place.open();
    archive.set_destinations(&[MAIN_DESTINATION]).expect("destinations");
    archive.add_planned(&[planned("a")]).unwrap();
    place.open().append(&report("a")).unwrap();
    assert_eq!((values(&archive), of_pair(&archive)), (0, 0));
    let run = [watched("a", MIDNIGHT_US)];
    assert_eq!(archive.append_runs(&run).unwrap(), joined());
    for _ in 0..2 {
        let landed = archive.append_runs(&run).unwrap();
        assert_eq!((landed.already_stored, landed.newly_watched), (1, 0));
    }
    assert_eq!((values(&archive), of_pair(&archive)), (1, 1));
    assert_eq!(archive.planned_counts(TimeRange::ALL).unwrap().done, 1);
    // The plan, now done, and the run: each once.
    assert_eq!(archive.backlog().unwrap().items, 2);
    // Its own process says it again.
    let again = place.open().append(&report("a")).unwrap();
    assert_eq!(again, longhaul_store::AppendOutcome::AlreadyStored);
    assert_eq!(archive.list(10).unwrap().len(), 1);
}

#[test]
fn another_report_under_its_id_does_not_join() {
    let place = TemporaryArchive::new();
    let mut archive = place.open();
    archive.append(&report("a")).unwrap();
    let mut other = watched("a", MIDNIGHT_US);
    other.report = other.report.replace("daresbury", "elsewhere");
    let landed = archive.append_runs(&[other]).unwrap();
    assert_eq!(landed.differing, ["a"]);
    assert_eq!(values(&archive), 0);
    let landed = archive.append_runs(&[watched("a", MIDNIGHT_US)]).unwrap();
    assert_eq!(landed, joined());
}

#[test]
fn the_same_report_in_other_letters_joins() {
    let place = TemporaryArchive::new();
    let mut archive = place.open();
    archive.append(&report("a")).unwrap();
    // As a later version of the program would have stored it, with a field that we do not know.
    let database = rusqlite::Connection::open(&place.0).unwrap();
    let changed = database
        .execute("UPDATE run SET report = '{ \"of_a_later_version\": 1, ' || substr(report, 2)", [])
        .unwrap();
    assert_eq!(changed, 1);
    let mut indented = watched("a", MIDNIGHT_US);
    indented.report = format!("  {}\n", indented.report);
    let landed = archive.append_runs(&[indented]).unwrap();
    assert_eq!(landed, joined());
    let landed = archive.append_runs(&[watched("a", MIDNIGHT_US)]).unwrap();
    assert_eq!(landed.already_stored, 1);
    // What was stored first stays.
    let stored: String =
        database.query_row("SELECT report FROM run", [], |row| row.get(0)).unwrap();
    assert!(stored.contains("of_a_later_version"), "{stored}");
}

#[test]
fn retention_takes_joined_runs_with_their_parts_and_no_others() {
    let place = TemporaryArchive::new();
    let mut archive = place.open();
    let mut part = report("part");
    part.run.part_of = Some(longhaul_model::report::v1::ParentRun { id: "a".to_owned(), index: 0 });
    archive.append(&part).unwrap();
    for id in ["a", "of-a-person"] {
        archive.append(&report(id)).unwrap();
    }
    archive.append_runs(&[watched("a", MIDNIGHT_US)]).unwrap();
    let keep = RetentionPolicy { runs: Duration::from_secs(1), hours: Duration::MAX };
    let removed = archive.retain(MIDNIGHT_US + 2_000_000, &keep).unwrap();
    assert_eq!(removed.reports, 2);
    let left = archive.list(10).unwrap();
    let left: Vec<&str> = left.iter().map(|entry| entry.id.as_str()).collect();
    assert_eq!(left, ["of-a-person"]);
}
