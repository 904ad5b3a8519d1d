//! A series followed value by value: what is told, when, and how often.

use super::{HOUR_US, series};
use crate::change_detection::DetectionOptions;
use crate::change_detection::event_tracking::{EventTracker, PATIENCE};
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::{ChangeEvent, EventState, HostPair, SeriesPoint};

fn watcher(quantity: PathQuantity) -> EventTracker {
    EventTracker {
        pair: HostPair { from: String::from("slac"), to: String::from("cesnet") },
        quantity,
        options: DetectionOptions::default(),
    }
}

/// An announcement: after so many values, of which event, as what.
type Told = (usize, String, EventState);

/// Follows the points from the first `begin` on.
fn follow(points: &[SeriesPoint], begin: usize) -> (Vec<ChangeEvent>, Vec<Told>) {
    let watcher = watcher(PathQuantity::Goodput);
    let (mut events, mut told): (Vec<ChangeEvent>, Vec<Told>) = (Vec::new(), Vec::new());
    for count in begin..=points.len() {
        let now_us = points[count - 1].at_us;
        let followed = watcher.update(&points[..count], &events, now_us);
        for event in followed.events {
            if followed.announced_ids.contains(&event.id) {
                told.push((count, event.id.clone(), event.state));
            }
            events.retain(|old| old.id != event.id);
            events.push(event);
        }
    }
    (events, told)
}

fn states(told: &[Told]) -> Vec<EventState> {
    told.iter().map(|(_, _, state)| *state).collect()
}

#[test]
fn a_drop_is_suspected_after_three_values_confirmed_once_and_recovers() {
    let mut points = series(&[(250e6, 60), (150e6, 60), (250e6, 60)], 0.06, 8);
    // Low values now and then, so that three in a row are not enough to be sure.
    for at in [5, 17, 29, 41, 53] {
        points[at].value *= 0.4;
    }
    let (events, told) = follow(&points, 30);
    assert_eq!(events.len(), 2, "{events:#?}");
    let down = events.iter().find(|it| it.change_ratio < Some(1.0)).unwrap();
    let up = events.iter().find(|it| it.change_ratio > Some(1.0)).unwrap();
    assert_eq!(down.state, EventState::Recovered);
    assert_eq!(down.recovered_by.as_ref(), Some(&up.id));
    assert_eq!(up.state, EventState::Confirmed);
    let of_down: Vec<(usize, EventState)> = told
        .iter()
        .filter(|(_, id, _)| *id == down.id)
        .map(|(count, _, state)| (*count, *state))
        .collect();
    assert_eq!(of_down[0], (63, EventState::Suspected), "{told:?}");
    assert_eq!(of_down[1].1, EventState::Confirmed);
    assert!(of_down[1].0 < 60 + 2 * PATIENCE, "{of_down:?}");
    assert_eq!(of_down[2].1, EventState::Recovered);
    assert_eq!(of_down.len(), 3);
    assert_eq!(down.between_us, [59 * HOUR_US, 60 * HOUR_US]);
    assert_eq!(down.announced_at_us, 62 * HOUR_US);
}

#[test]
fn a_change_has_recovered_when_nine_tenths_of_it_are_undone() {
    for (after, state) in [(152e3, EventState::Recovered), (160e3, EventState::Confirmed)] {
        let points = series(&[(150e3, 40), (200e3, 40), (after, 40)], 0.001, 3);
        let events = watcher(PathQuantity::RttFloor).update(&points, &[], 1).events;
        assert_eq!(events.len(), 2, "{events:?}");
        assert_eq!(events[0].state, state, "{after}");
    }
}

#[test]
fn three_low_values_are_a_suspicion_that_is_withdrawn() {
    let mut points = series(&[(250e6, 100)], 0.06, 5);
    for at in [7, 15, 23, 31, 39, 47, 55, 63] {
        points[at].value *= 0.4;
    }
    for point in &mut points[70..73] {
        point.value *= 0.6;
    }
    let (events, told) = follow(&points, 30);
    assert_eq!(states(&told), [EventState::Suspected, EventState::Withdrawn]);
    assert_eq!(told[0].0, 73);
    assert_eq!(told[1].0, 70 + PATIENCE);
    assert_eq!(events[0].state, EventState::Withdrawn);
    assert_eq!(events[0].recovered_by, None);
}

#[test]
fn an_event_keeps_its_id_and_what_others_wrote_into_it() {
    let points = series(&[(200e6, 50), (280e6, 40)], 0.08, 4);
    let watcher = watcher(PathQuantity::Goodput);
    let first = watcher.update(&points[..70], &[], 1);
    assert_eq!(first.events.len(), 1);
    let mut known = first.events[0].clone();
    assert_eq!(first.announced_ids, [known.id.clone()]);
    known.unchanged.push(String::from("the route"));
    // As if an earlier look had placed it two samples off.
    known.between_us = known.between_us.map(|at| at + 2 * HOUR_US);
    let second = watcher.update(&points, std::slice::from_ref(&known), 2);
    assert!(second.announced_ids.is_empty(), "{second:?}");
    assert_eq!(second.events.len(), 1, "its levels are known better now");
    let event = &second.events[0];
    assert_eq!((&event.id, event.announced_at_us), (&known.id, 1));
    assert_eq!(event.unchanged, known.unchanged);
    assert_eq!(event.after.samples, 40);
    let third = watcher.update(&points, &second.events, 3);
    assert_eq!(third.events, [], "nothing changed");
}

#[test]
fn ids_depend_on_pair_quantity_and_time_alone() {
    let points = series(&[(200e6, 50), (120e6, 40)], 0.08, 4);
    let id = |watcher: &EventTracker, points: &[SeriesPoint]| {
        watcher.update(points, &[], 1).announced_ids
    };
    let here = watcher(PathQuantity::Goodput);
    assert_eq!(id(&here, &points), id(&here, &points[3..]));
    let other = watcher(PathQuantity::Available);
    assert_ne!(id(&here, &points), id(&other, &points));
    let mut back = watcher(PathQuantity::Goodput);
    std::mem::swap(&mut back.pair.from, &mut back.pair.to);
    assert_ne!(id(&here, &points), id(&back, &points));
}

#[test]
fn events_of_other_series_and_of_long_ago_are_left_alone() {
    let points = series(&[(200e6, 90)], 0.08, 4);
    let here = watcher(PathQuantity::Goodput);
    let drop = series(&[(200e6, 50), (120e6, 40)], 0.08, 4);
    let old = here.update(&drop, &[], 1).events.swap_remove(0);
    let of_loss =
        ChangeEvent { quantity: PathQuantity::Loss, state: EventState::Suspected, ..old.clone() };
    let followed = here.update(&points, &[old, of_loss], 2);
    assert_eq!(followed.events, []);
}
