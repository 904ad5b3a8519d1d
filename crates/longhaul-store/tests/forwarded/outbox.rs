//! What waits for another archive.

use crate::temporary_archive::TemporaryArchive;
use crate::{MIDNIGHT_US, pair, planned, watched};
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::{ChangeEvent, EventState, QuantityLevel};
use longhaul_store::Archive;
use longhaul_store::history_store::{IncomingRun, PlannedOutcome, RetentionPolicy};
use longhaul_store::sqlite::outbox::{HeldRun, MAIN_DESTINATION, OutboxItem, RefusedEntry};
use std::time::Duration;

fn event(id: &str, state: EventState) -> ChangeEvent {
    let level = QuantityLevel { median: 2.0, deviation: 0.1, samples: 9 };
    ChangeEvent {
        id: id.to_owned(),
        pair: pair(),
        quantity: PathQuantity::Goodput,
        state,
        between_us: [MIDNIGHT_US, MIDNIGHT_US + 1],
        before: level,
        after: level,
        change_ratio: None,
        score: 1.5,
        autocorrelation: 0.25,
        announced_at_us: MIDNIGHT_US,
        recovered_by: None,
        causes: vec![],
        unchanged: vec![],
        scope: None,
        follow_ups: vec![],
        shared: None,
        part_of: None,
    }
}

/// The names of what waits, with what is known of it.
fn waiting(archive: &Archive) -> Vec<String> {
    let outgoing = archive.next_outgoing(MAIN_DESTINATION, 0, 100, u64::MAX).unwrap();
    let name = |item: &OutboxItem| match item {
        OutboxItem::Run(run) => {
            let run = IncomingRun::from_json(run.report.clone(), 0).unwrap();
            run.run.id
        }
        OutboxItem::Planned(row) => match &row.outcome {
            None => row.id.clone(),
            Some(PlannedOutcome::Done { run_id }) => format!("{}: {run_id}", row.id),
            Some(PlannedOutcome::Missed { reason, .. }) => format!("{}: {reason}", row.id),
        },
        OutboxItem::Event(event) => format!("{}: {}", event.id, event.state.word()),
    };
    let items = outgoing.iter().flat_map(|it| &it.items);
    items.map(|it| name(&it.item)).collect()
}

fn sending() -> (TemporaryArchive, Archive) {
    let place = TemporaryArchive::new();
    let mut archive = place.open();
    archive.set_destinations(&[MAIN_DESTINATION]).expect("destinations");
    (place, archive)
}

#[test]
fn each_item_waits_once_in_its_newest_state() {
    let (_place, mut archive) = sending();
    archive.add_planned(&[planned("a"), planned("b")]).unwrap();
    archive.put_event(&event("e", EventState::Suspected)).unwrap();
    assert_eq!(waiting(&archive), ["planned-a", "planned-b", "e: suspected"]);
    let missed = PlannedOutcome::Missed { reason: "budget".to_owned(), detail: None };
    archive.record_outcome("planned-a", &missed).unwrap();
    archive.put_event(&event("e", EventState::Confirmed)).unwrap();
    archive.append_runs(&[watched("b", MIDNIGHT_US)]).unwrap();
    let expected = ["planned-a: budget", "e: confirmed", "b", "planned-b: b"];
    assert_eq!(waiting(&archive), expected);
    // Said again, nothing is new.
    archive.add_planned(&[planned("a")]).unwrap();
    archive.record_outcome("planned-a", &missed).unwrap();
    archive.put_event(&event("e", EventState::Confirmed)).unwrap();
    archive.append_runs(&[watched("b", MIDNIGHT_US)]).unwrap();
    assert_eq!(waiting(&archive), expected);
}

#[test]
fn what_changes_while_it_is_on_its_way_is_sent_again() {
    let (_place, mut archive) = sending();
    archive.add_planned(&[planned("a"), planned("b")]).unwrap();
    let on_its_way = archive.next_outgoing(MAIN_DESTINATION, 0, 10, u64::MAX).unwrap().unwrap();
    let done = PlannedOutcome::Done { run_id: "a".to_owned() };
    archive.record_outcome("planned-a", &done).unwrap();
    archive.acknowledge(&on_its_way.range, &[]).unwrap();
    assert_eq!(waiting(&archive), ["planned-a: a"]);
    let last = archive.next_outgoing(MAIN_DESTINATION, 0, 10, u64::MAX).unwrap().unwrap();
    archive.acknowledge(&last.range, &[]).unwrap();
    assert_eq!(archive.next_outgoing(MAIN_DESTINATION, 0, 10, u64::MAX).unwrap(), None);
}

#[test]
fn a_run_goes_out_with_its_pairs_and_its_report_letter_for_letter() {
    let (_place, mut archive) = sending();
    let mut run = watched("a", MIDNIGHT_US);
    run.near = Some("slac".to_owned());
    archive.append_runs(std::slice::from_ref(&run)).unwrap();
    let outgoing = archive.next_outgoing(MAIN_DESTINATION, 0, 10, u64::MAX).unwrap().unwrap();
    let OutboxItem::Run(sent) = &outgoing.items[0].item else {
        panic!("{outgoing:?}");
    };
    assert_eq!(sent.report, run.report);
    assert_eq!(sent.pairs, [pair()]);
    assert_eq!(sent.near.as_deref(), Some("slac"));
}

#[test]
fn a_batch_is_bounded_but_never_empty() {
    let (_place, mut archive) = sending();
    let runs: Vec<_> = ["a", "b", "c"].map(|id| watched(id, MIDNIGHT_US)).into();
    archive.append_runs(&runs).unwrap();
    let weight = runs[0].report.len() as u64;
    for (limit, bytes, expected) in
        [(10, 0, 1), (10, 2 * weight, 2), (1, u64::MAX, 1), (10, u64::MAX, 3)]
    {
        let outgoing = archive.next_outgoing(MAIN_DESTINATION, 0, limit, bytes).unwrap().unwrap();
        assert_eq!(outgoing.items.len(), expected, "{limit} {bytes}");
        assert_eq!(outgoing.range.up_to, outgoing.items[expected - 1].place);
        assert_eq!(outgoing.is_last, expected == 3);
    }
    assert_eq!(archive.backlog().unwrap().items, 3);
}

#[test]
fn a_run_that_the_sender_holds_is_not_read() {
    let (_place, mut archive) = sending();
    archive.add_planned(&[planned("a")]).unwrap();
    let runs: Vec<_> = ["a", "b"].map(|id| watched(id, MIDNIGHT_US)).into();
    archive.append_runs(&runs).unwrap();
    let held = |id: &str| runs.iter().find(|it| it.run.id == id && id == "b").cloned();
    let outgoing = archive.next_outgoing_with(MAIN_DESTINATION, 0, 10, u64::MAX, held);
    let outgoing = outgoing.unwrap().unwrap();
    let [HeldRun { place, run }] = &outgoing.held_runs[..] else {
        panic!("{outgoing:?}");
    };
    assert_eq!((run, *place), (&runs[1], outgoing.range.up_to));
    assert_eq!(outgoing.items.len(), 2);
    assert_eq!(outgoing.places().count(), 3);
}

#[test]
fn what_is_refused_stands_aside_and_can_be_sent_again() {
    let (_place, mut archive) = sending();
    archive.append_runs(&[watched("a", MIDNIGHT_US)]).unwrap();
    archive.append_runs(&[watched("b", MIDNIGHT_US)]).unwrap();
    let first = archive.next_outgoing(MAIN_DESTINATION, 0, 1, 0).unwrap().unwrap();
    let refusal = RefusedEntry { place: first.range.up_to, why: "the clock was wrong".to_owned() };
    archive.acknowledge(&first.range, &[refusal]).unwrap();
    assert_eq!(waiting(&archive), ["b"]);
    assert_eq!(archive.backlog().unwrap().set_aside, 1);
    assert_eq!(archive.requeue_rejected(MAIN_DESTINATION).unwrap(), 1);
    assert_eq!(waiting(&archive), ["b", "a"]);
    assert_eq!(archive.backlog().unwrap().set_aside, 0);
}

#[test]
fn retention_takes_nothing_that_waits() {
    let (_place, mut archive) = sending();
    archive.add_planned(&[planned("a"), planned("b")]).unwrap();
    archive.append_runs(&[watched("a", MIDNIGHT_US)]).unwrap();
    let keep = RetentionPolicy { runs: Duration::ZERO, hours: Duration::ZERO };
    let later = MIDNIGHT_US + 3_600_000_000;
    let removed = archive.retain(later, &keep).unwrap();
    assert_eq!((removed.reports, removed.planned), (0, 0));
    let outgoing = archive.next_outgoing(MAIN_DESTINATION, 0, 10, u64::MAX).unwrap().unwrap();
    archive.acknowledge(&outgoing.range, &[]).unwrap();
    let removed = archive.retain(later, &keep).unwrap();
    assert_eq!((removed.reports, removed.planned), (1, 1));
}

#[test]
fn each_destination_has_a_position_and_refusals_of_its_own() {
    let place = TemporaryArchive::new();
    let mut archive = place.open();
    archive.set_destinations(&[MAIN_DESTINATION, "second"]).unwrap();
    archive.append_runs(&[watched("a", MIDNIGHT_US)]).unwrap();
    archive.append_runs(&[watched("b", MIDNIGHT_US)]).unwrap();
    let first = archive.next_outgoing("second", 0, 1, u64::MAX).unwrap().unwrap();
    let refusal = RefusedEntry { place: first.range.up_to, why: "full".to_owned() };
    archive.acknowledge(&first.range, &[refusal]).unwrap();
    let rest = archive.next_outgoing("second", first.range.up_to, 9, u64::MAX).unwrap().unwrap();
    assert_eq!(rest.items.len(), 1);
    assert_eq!(waiting(&archive), ["a", "b"]);
    assert_eq!(archive.requeue_rejected(MAIN_DESTINATION).unwrap(), 0);
    assert_eq!(archive.requeue_rejected("second").unwrap(), 1);
    assert_eq!(archive.set_destinations(&[MAIN_DESTINATION]).unwrap(), 2);
    assert_eq!(waiting(&archive), ["a", "b"]);
    assert_eq!(archive.backlog().unwrap().items, 2);
}

#[test]
fn without_a_destination_nothing_waits() {
    let place = TemporaryArchive::new();
    let mut archive = place.open();
    archive.add_planned(&[planned("a")]).unwrap();
    archive.append_runs(&[watched("a", MIDNIGHT_US)]).unwrap();
    archive.put_event(&event("e", EventState::Confirmed)).unwrap();
    assert_eq!(archive.next_outgoing(MAIN_DESTINATION, 0, 10, u64::MAX).unwrap(), None);
}
