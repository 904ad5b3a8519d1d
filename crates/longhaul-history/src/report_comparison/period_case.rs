//! Compares a path in two periods and explains the change.
//!
//! Levels and tests come from the values, routes and settings from the runs. If an agent found a
//! lasting change in that time, its causes are reported; otherwise the agent's reasoning is applied
//! to the change between the periods.
//!
//! # Period routes
//!
//! Compares the routes of a path in two periods.
//!
//! Uses the route that most traces of a period show, from the last trace in which most hops
//! answered. A hop that is silent in only one of two traces does not make them different.

use super::archived_path::{ArchivedPath, ArchivedRun};
use super::{period_settings, run_set_comparison};
use crate::event::{EventExplanation, EvidenceReport, explain_event};
use longhaul_analysis::path::compare_routes;
use longhaul_analysis::path::trace_table::count_answering_hops;
use longhaul_model::report::v1::case::{PathCase, RouteCase, TracedRoute};
use longhaul_model::report::v1::path::{ObservedRoute, RouteChangeKind};
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::{
    AnyReport, ChangeEvent, ChangeVerdict, EventState, HostPair, QuantityChange, QuantitySeries,
    SeriesPoint, TimePeriod,
};

/// The maximum number of points of a series that a case keeps for its plots.
const MAX_SERIES_POINTS: usize = 2_000;
/// The quantities that are plotted.
const PLOTTED_QUANTITIES: [PathQuantity; 4] = [
    PathQuantity::Goodput,
    PathQuantity::Available,
    PathQuantity::Capacity,
    PathQuantity::RttFloor,
];

/// Compares the two periods of one path; `events` are the archive's events on it, in any order.
pub fn compare_periods(
    material: &ArchivedPath,
    periods: [TimePeriod; 2],
    events: &[ChangeEvent],
) -> PathCase {
    let [before, after] = periods;
    let changes = list_changes(material, periods);
    let span = TimePeriod {
        begin_us: before.begin_us.min(after.begin_us),
        end_us: before.end_us.max(after.end_us),
    };
    let mut events: Vec<ChangeEvent> =
        events.iter().filter(|event| is_event_in_span(event, material, span)).cloned().collect();
    events.sort_by_key(|event| event.between_us[0]);
    let explained = explain_changes(material, &changes, &events, periods);
    let count = |period| u32::try_from(material.runs_within(period).count()).unwrap_or(u32::MAX);
    PathCase {
        pair: material.pair.clone(),
        run_counts: periods.map(count),
        missing: list_missing(material, &changes, periods),
        changes,
        routes: compare_period_routes(material, periods),
        settings: period_settings::compare_settings(material, periods),
        recommended: period_settings::find_recommended_setting(material, &material.pair, after),
        events,
        findings: explained.causes,
        unchanged: explained.unchanged,
        series: list_series(material, span),
    }
}

/// Adjusts the verdicts for the number of tests over all paths.
pub fn adjust_path_changes(paths: &mut [PathCase]) {
    for is_forward in [true, false] {
        let of_way = paths.iter_mut().flat_map(|path| {
            let pair = path.pair.clone();
            let ours = move |change: &&mut QuantityChange| (change.pair == pair) == is_forward;
            path.changes.iter_mut().filter(ours)
        });
        run_set_comparison::adjust_changes(of_way);
    }
}

fn list_changes(material: &ArchivedPath, periods: [TimePeriod; 2]) -> Vec<QuantityChange> {
    let mut found = Vec::new();
    for pair in material.directions() {
        let other = period_settings::list_one_period_runs(material, &pair, periods);
        for quantity in PathQuantity::ALL {
            let of_bulk = matches!(quantity, PathQuantity::Goodput | PathQuantity::Retransmits);
            let without = if of_bulk { other.as_slice() } else { &[] };
            let [before, after] =
                periods.map(|period| material.values_without(&pair, quantity, period, without));
            found.extend(run_set_comparison::compare_quantity(&pair, quantity, &before, &after));
        }
    }
    found
}

fn is_event_in_span(event: &ChangeEvent, material: &ArchivedPath, span: TimePeriod) -> bool {
    let ours = material.directions().contains(&event.pair);
    let [from, to] = event.between_us;
    ours && event.state != EventState::Withdrawn && from < span.end_us && to >= span.begin_us
}

/// Returns the causes of the largest change: of an agent's event, or of the change itself.
fn explain_changes(
    material: &ArchivedPath,
    changes: &[QuantityChange],
    events: &[ChangeEvent],
    periods: [TimePeriod; 2],
) -> EventExplanation {
    let [before, after] = periods;
    let between = |event: &&ChangeEvent| {
        let [from, to] = event.between_us;
        from < after.end_us && to >= before.begin_us && !event.causes.is_empty()
    };
    let rank = |pair: &HostPair, quantity: PathQuantity| {
        let place = PathQuantity::ALL.iter().position(|it| *it == quantity);
        (*pair != material.pair, place)
    };
    let told = events.iter().filter(between);
    if let Some(event) = told.min_by_key(|event| rank(&event.pair, event.quantity)) {
        return EventExplanation {
            causes: event.causes.clone(),
            unchanged: event.unchanged.clone(),
            ..EventExplanation::default()
        };
    }
    let changed = changes.iter().filter(|change| {
        matches!(change.verdict, ChangeVerdict::Fell | ChangeVerdict::Rose)
            && (before.end_us <= after.begin_us)
    });
    let first = changed.min_by_key(|change| rank(&change.pair, change.quantity));
    let event = first.and_then(|change| build_event(material, change, periods));
    event.map_or_else(EventExplanation::default, |event| {
        explain_event(&event, &material.evidence(&event.pair))
    })
}

/// Returns the change as an event, in the form that an agent would report.
fn build_event(
    material: &ArchivedPath,
    change: &QuantityChange,
    periods: [TimePeriod; 2],
) -> Option<ChangeEvent> {
    let points = material.points(&change.pair, change.quantity);
    let [mut earlier, mut later] =
        periods.map(|period| points.iter().filter(move |point| period.contains(point.at_us)));
    let between_us = [earlier.next_back()?.at_us, later.next()?.at_us];
    Some(ChangeEvent {
        id: String::from("case"),
        pair: change.pair.clone(),
        quantity: change.quantity,
        state: EventState::Confirmed,
        between_us,
        before: change.before?,
        after: change.after?,
        change_ratio: change.change_ratio,
        score: 1.0,
        autocorrelation: change.correlation.unwrap_or(0.0),
        announced_at_us: between_us[1],
        recovered_by: None,
        causes: Vec::new(),
        unchanged: Vec::new(),
        scope: None,
        follow_ups: Vec::new(),
        shared: None,
        part_of: None,
    })
}

/// Lists important quantities that were not measured, and in which period.
fn list_missing(
    material: &ArchivedPath,
    changes: &[QuantityChange],
    periods: [TimePeriod; 2],
) -> Vec<String> {
    let lacks = |sides: [bool; 2]| match sides {
        [false, false] => Some("in either period"),
        [false, true] => Some("in the earlier period"),
        [true, false] => Some("in the later period"),
        [true, true] => None,
    };
    let mut found = Vec::new();
    for quantity in [
        PathQuantity::Goodput,
        PathQuantity::RttFloor,
        PathQuantity::Available,
        PathQuantity::Capacity,
    ] {
        let of = changes.iter().filter(|change| change.quantity == quantity).collect::<Vec<_>>();
        let sides = [
            of.iter().any(|change| change.before.is_some()),
            of.iter().any(|change| change.after.is_some()),
        ];
        if let Some(when) = lacks(sides) {
            found.push(format!("{}: not measured {when}", quantity.title()));
        }
    }
    let traced = periods.map(|period| {
        let mut runs = material.runs_within(period);
        runs.any(|run| match &run.report {
            AnyReport::Path(path) => {
                path.observation.route.is_some() || path.observation.route_reverse.is_some()
            }
            _ => false,
        })
    });
    if let Some(when) = lacks(traced) {
        found.push(format!("route: not traced {when}"));
    }
    found
}

fn list_series(material: &ArchivedPath, span: TimePeriod) -> Vec<QuantitySeries> {
    let mut found = Vec::new();
    for pair in material.directions() {
        for quantity in PLOTTED_QUANTITIES {
            let mut points: Vec<SeriesPoint> = material.points(&pair, quantity);
            points.retain(|point| span.contains(point.at_us));
            let step = points.len().div_ceil(MAX_SERIES_POINTS).max(1);
            let points: Vec<SeriesPoint> = points.into_iter().step_by(step).collect();
            if !points.is_empty() {
                found.push(QuantitySeries {
                    pair: pair.clone(),
                    quantity,
                    points,
                    buckets: Vec::new(),
                });
            }
        }
    }
    found
}

/// Compares the routes of both directions, forward first; omits those without a trace.
pub fn compare_period_routes(material: &ArchivedPath, periods: [TimePeriod; 2]) -> Vec<RouteCase> {
    let of = |pair: HostPair| {
        let [before, after] = periods.map(|period| find_usual_route(material, &pair, period));
        let both = before.as_ref().zip(after.as_ref());
        let change = both.map(|(before, after)| compare_routes(&after.route, &before.route));
        RouteCase { pair, before, after, change }
    };
    let mut cases: Vec<RouteCase> = material.directions().map(of).into();
    cases.retain(|case| case.before.is_some() || case.after.is_some());
    cases
}

fn find_usual_route(
    material: &ArchivedPath,
    pair: &HostPair,
    period: TimePeriod,
) -> Option<TracedRoute> {
    let runs = material.runs_within(period);
    let traced: Vec<_> = runs.filter_map(|run| Some((run, route_of_run(run, pair)?))).collect();
    let mut kinds: Vec<Vec<(&ArchivedRun, &ObservedRoute)>> = Vec::new();
    for (run, route) in traced.iter().copied() {
        match kinds.iter_mut().find(|kind| is_same_route(route, kind[0].1)) {
            Some(kind) => kind.push((run, route)),
            None => kinds.push(vec![(run, route)]),
        }
    }
    let most = kinds.into_iter().max_by_key(Vec::len)?;
    let (run, route) =
        most.iter().max_by_key(|(run, route)| (count_answering_hops(route), run.at_us))?;
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Some(TracedRoute {
        run_id: run.run_id.clone(),
        at_us: run.at_us,
        run_counts: [count(most.len()), count(traced.len())],
        route: (*route).clone(),
    })
}

/// Returns the route that a path report traced in this direction.
fn route_of_run<'a>(run: &'a ArchivedRun, pair: &HostPair) -> Option<&'a ObservedRoute> {
    let AnyReport::Path(report) = &run.report else {
        return None;
    };
    EvidenceReport { at_us: run.at_us, report: &**report, forward: run.near == pair.from }.route()
}

fn is_same_route(here: &ObservedRoute, other: &ObservedRoute) -> bool {
    here.reached == other.reached && compare_routes(here, other).kind <= RouteChangeKind::SilentHop
}

#[cfg(test)]
mod tests {
    use super::super::test_archive::{self, MINUTE_US};
    use super::*;

    fn periods() -> [TimePeriod; 2] {
        let period =
            |from: i64, to: i64| TimePeriod { begin_us: from * MINUTE_US, end_us: to * MINUTE_US };
        [period(0, 60), period(60, 120)]
    }

    #[test]
    fn a_route_that_changed_is_found_as_the_cause_of_a_fall() {
        let mut sketch = test_archive::TestArchive::default();
        for minute in 0..12 {
            let (bps, route): (_, &[&str]) = if minute < 6 {
                (250e6, &["10.0.0.1", "10.1.0.1", "10.2.0.1", "10.9.0.1"])
            } else {
                (150e6, &["10.0.0.1", "10.7.0.1", "10.9.0.1"])
            };
            let wobble = 1.0 + 0.01 * f64::from(minute % 3);
            sketch.run(i64::from(minute) * 10, true, bps * wobble);
            sketch.trace(i64::from(minute) * 10 + 1, route);
        }
        let case = compare_periods(&sketch.material(), periods(), &[]);
        let goodput = &case.changes[0];
        assert_eq!(
            (goodput.quantity, goodput.verdict),
            (PathQuantity::Goodput, ChangeVerdict::Fell)
        );
        let change = case.routes[0].change.as_ref().unwrap();
        assert_eq!(change.ranges[0].other, Some([2, 3]));
        assert_eq!(change.ranges[0].here, Some([2, 2]));
        let causes: Vec<_> = case.findings.iter().map(|f| f.cause.as_str()).collect();
        assert!(causes.contains(&"route_change"), "{causes:?}");
        assert!(case.missing.iter().any(|m| m.starts_with("available bandwidth")));
    }

    #[test]
    fn runs_with_a_setting_of_one_period_do_not_hide_what_became_of_the_path() {
        let mut sketch = test_archive::TestArchive::default();
        for minute in 0..16 {
            let bps = match minute {
                0..6 => 250e6,
                6..12 => 120e6,
                _ => 310e6,
            };
            sketch.run(minute * 10, true, bps + minute as f64 * 1e5);
            if minute >= 12 {
                sketch.change_last(|run| run.plan.streams = 48);
            }
        }
        let period =
            |from: i64, to: i64| TimePeriod { begin_us: from * MINUTE_US, end_us: to * MINUTE_US };
        let case = compare_periods(&sketch.material(), [period(0, 60), period(60, 160)], &[]);
        let goodput = &case.changes[0];
        assert_eq!(goodput.verdict, ChangeVerdict::Fell, "{goodput:?}");
        assert_eq!(goodput.after.map(|level| level.samples), Some(6));
        assert_eq!(case.settings.len(), 2, "the table has both");
        let later = [period(60, 120), period(120, 160)];
        let case = compare_periods(&sketch.material(), later, &[]);
        let goodput = &case.changes[0];
        assert_eq!(goodput.verdict, ChangeVerdict::Rose, "no setting is in both: all count");
    }

    #[test]
    fn an_empty_period_has_no_values_and_says_so() {
        let mut sketch = test_archive::TestArchive::default();
        sketch.run(70, true, 150e6);
        let case = compare_periods(&sketch.material(), periods(), &[]);
        assert_eq!(case.changes[0].before, None);
        assert_eq!(case.changes[0].verdict, ChangeVerdict::NotMeasured);
        assert_eq!(case.settings[0].before_bps, None);
        assert!(
            case.missing.contains(&String::from("throughput: not measured in the earlier period")),
            "{:?}",
            case.missing
        );
        assert!(case.findings.is_empty());
    }
}
