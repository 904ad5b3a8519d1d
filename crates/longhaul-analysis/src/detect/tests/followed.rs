//! A series followed value by value: what is told, when, and how often.

use super::{HOUR_US, series};
use crate::detect::Options;
use crate::detect::watcher::{PATIENCE, Watcher};
use longhaul_model::report::v1::event::{Event, State};
use longhaul_model::report::v1::quantity::Quantity;
use longhaul_model::report::v1::series::{Pair, Point};

fn watcher(quantity: Quantity) -> Watcher {
    Watcher {
        pair: Pair {
            from: String::from("slac"),
            to: String::from("cesnet"),
        },
        quantity,
        options: Options::default(),
    }
}

/// An announcement: after so many values, of which event, as what.
type Told = (usize, String, State);

/// Follows the points from the first `begin` on.
fn follow(points: &[Point], begin: usize) -> (Vec<Event>, Vec<Told>) {
    let watcher = watcher(Quantity::Goodput);
    let (mut events, mut told): (Vec<Event>, Vec<Told>) = (Vec::new(), Vec::new());
    for count in begin..=points.len() {
        let now_us = points[count - 1].at_us;
        let followed = watcher.follow(&points[..count], &events, now_us);
        for event in followed.events {
            if followed.news.contains(&event.id) {
                told.push((count, event.id.clone(), event.state));
            }
            events.retain(|old| old.id != event.id);
            events.push(event);
        }
    }
    (events, told)
}

fn states(told: &[Told]) -> Vec<State> {
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
    let down = events
        .iter()
        .find(|it| it.change_ratio < Some(1.0))
        .unwrap();
    let up = events
        .iter()
        .find(|it| it.change_ratio > Some(1.0))
        .unwrap();
    assert_eq!(down.state, State::Recovered);
    assert_eq!(down.recovered_by.as_ref(), Some(&up.id));
    assert_eq!(up.state, State::Confirmed);
    let of_down: Vec<(usize, State)> = told
        .iter()
        .filter(|(_, id, _)| *id == down.id)
        .map(|(count, _, state)| (*count, *state))
        .collect();
    assert_eq!(of_down[0], (63, State::Suspected), "{told:?}");
    assert_eq!(of_down[1].1, State::Confirmed);
    assert!(of_down[1].0 < 60 + 2 * PATIENCE, "{of_down:?}");
    assert_eq!(of_down[2].1, State::Recovered);
    assert_eq!(of_down.len(), 3);
    assert_eq!(down.between_us, [59 * HOUR_US, 60 * HOUR_US]);
    assert_eq!(down.announced_at_us, 62 * HOUR_US);
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
    assert_eq!(states(&told), [State::Suspected, State::Withdrawn]);
    assert_eq!(told[0].0, 73);
    assert_eq!(told[1].0, 70 + PATIENCE);
    assert_eq!(events[0].state, State::Withdrawn);
    assert_eq!(events[0].recovered_by, None);
}

#[test]
fn an_event_keeps_its_id_and_what_others_wrote_into_it() {
    let points = series(&[(200e6, 50), (280e6, 40)], 0.08, 4);
    let watcher = watcher(Quantity::Goodput);
    let first = watcher.follow(&points[..70], &[], 1);
    assert_eq!(first.events.len(), 1);
    let mut known = first.events[0].clone();
    assert_eq!(first.news, [known.id.clone()]);
    known.unchanged.push(String::from("the route"));
    // As if an earlier look had placed it two samples off.
    known.between_us = known.between_us.map(|at| at + 2 * HOUR_US);
    let second = watcher.follow(&points, std::slice::from_ref(&known), 2);
    assert!(second.news.is_empty(), "{second:?}");
    assert_eq!(second.events.len(), 1, "its levels are known better now");
    let event = &second.events[0];
    assert_eq!((&event.id, event.announced_at_us), (&known.id, 1));
    assert_eq!(event.unchanged, known.unchanged);
    assert_eq!(event.after.samples, 40);
    let third = watcher.follow(&points, &second.events, 3);
    assert_eq!(third.events, [], "nothing changed");
}

#[test]
fn ids_depend_on_pair_quantity_and_time_alone() {
    let points = series(&[(200e6, 50), (120e6, 40)], 0.08, 4);
    let id = |watcher: &Watcher, points: &[Point]| watcher.follow(points, &[], 1).news;
    let here = watcher(Quantity::Goodput);
    assert_eq!(id(&here, &points), id(&here, &points[3..]));
    let other = watcher(Quantity::Available);
    assert_ne!(id(&here, &points), id(&other, &points));
    let mut back = watcher(Quantity::Goodput);
    std::mem::swap(&mut back.pair.from, &mut back.pair.to);
    assert_ne!(id(&here, &points), id(&back, &points));
}

#[test]
fn events_of_other_series_and_of_long_ago_are_left_alone() {
    let points = series(&[(200e6, 90)], 0.08, 4);
    let here = watcher(Quantity::Goodput);
    let drop = series(&[(200e6, 50), (120e6, 40)], 0.08, 4);
    let old = here.follow(&drop, &[], 1).events.swap_remove(0);
    let of_loss = Event {
        quantity: Quantity::Loss,
        state: State::Suspected,
        ..old.clone()
    };
    let followed = here.follow(&points, &[old, of_loss], 2);
    assert_eq!(followed.events, []);
}
