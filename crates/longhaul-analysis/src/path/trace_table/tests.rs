use super::*;
use crate::path::path_test_builder::{build_report, build_route, build_truncated_route};

const INTERNET2: [&str; 4] = ["134.1.0.1", "192.2.0.1", "192.3.0.1", "195.4.0.1"];
const ESNET: [&str; 4] = ["134.1.0.1", "198.2.0.1", "198.3.0.1", "195.4.0.1"];

fn at(hour: u32, minute: u32) -> String {
    format!("2003-06-11T{hour:02}:{minute:02}:00Z")
}

fn kinds(table: &TraceTable) -> Vec<Option<RouteChangeKind>> {
    let changes = table.traces.iter();
    changes.map(|t| t.change.as_ref().map(|c| c.kind)).collect()
}

#[test]
fn a_day_with_one_change_shows_it_in_its_hour() {
    let mut reports = vec![
        build_report(&at(20, 0), build_route(&INTERNET2)),
        build_report(&at(21, 0), build_route(&["134.1.0.1", "", "192.3.0.1", "195.4.0.1"])),
        build_report(&at(22, 15), build_route(&INTERNET2)),
        build_report(&at(22, 45), build_route(&ESNET)),
        build_report(&at(22, 50), build_route(&ESNET)),
        build_report(&at(23, 0), build_route(&ESNET)),
    ];
    reports.reverse();
    let table = build_trace_table("prague", &reports, "");
    assert_eq!(
        kinds(&table),
        [
            None,
            Some(RouteChangeKind::SilentHop),
            Some(RouteChangeKind::SilentHop),
            Some(RouteChangeKind::SeveralHops),
            Some(RouteChangeKind::Same),
            Some(RouteChangeKind::Same),
        ]
    );
    let [day] = &table.days[..] else {
        panic!("one day");
    };
    assert_eq!(day.date, "2003-06-11");
    assert_eq!(day.hours[19], None);
    let worst = day.hours[22].unwrap();
    assert_eq!(
        (worst.kind, worst.number, worst.traces),
        (Some(RouteChangeKind::SeveralHops), 2, 3)
    );
    let numbers: Vec<u32> = table.routes.iter().map(|r| r.number).collect();
    assert_eq!(numbers, [1, 2]);
    assert_eq!(table.routes[0].traces, 3);
    assert_eq!(table.routes[0].last_seen, at(22, 15));
}

#[test]
fn what_is_older_numbers_the_routes_and_is_not_shown() {
    let reports = [
        build_report(&at(1, 0), build_route(&INTERNET2)),
        build_report(&at(2, 0), build_route(&ESNET)),
        build_report(&at(3, 0), build_route(&ESNET)),
    ];
    let table = build_trace_table("prague", &reports, &at(2, 30));
    assert_eq!(kinds(&table), [Some(RouteChangeKind::Same)]);
    assert_eq!(table.traces[0].number, 2);
    assert_eq!(table.routes.len(), 1);
    assert_eq!(table.routes[0].first_seen, at(2, 0), "in the whole archive");
}

#[test]
fn after_an_outage_the_route_stands_against_the_last_whole_one() {
    let reports = [
        build_report(&at(1, 0), build_route(&INTERNET2)),
        build_report(&at(2, 0), build_truncated_route(&INTERNET2[..2])),
        build_report(&at(3, 0), build_route(&INTERNET2)),
    ];
    let table = build_trace_table("prague", &reports, "");
    assert_eq!(
        kinds(&table),
        [None, Some(RouteChangeKind::EndNotReached), Some(RouteChangeKind::Same)]
    );
    let numbers: Vec<u32> = table.traces.iter().map(|t| t.number).collect();
    assert_eq!(numbers, [1, 1, 1], "an outage is no route of its own");
}

#[test]
fn numbers_of_the_reports_stand() {
    let mut first = build_report(&at(1, 0), build_route(&INTERNET2));
    first.analysis.route_number = Some(7);
    let reports = [
        first,
        build_report(&at(2, 0), build_route(&INTERNET2)),
        build_report(&at(3, 0), build_route(&ESNET)),
    ];
    let table = build_trace_table("prague", &reports, "");
    let numbers: Vec<u32> = table.traces.iter().map(|t| t.number).collect();
    assert_eq!(numbers, [7, 7, 8]);
}

#[test]
fn reports_without_a_route_or_a_time_are_left_out() {
    let mut silent = build_report(&at(1, 0), build_route(&INTERNET2));
    silent.observation.route = None;
    let odd = build_report("yesterday", build_route(&INTERNET2));
    let table = build_trace_table("prague", &[silent, odd], "");
    assert_eq!((table.traces.len(), table.days.len()), (1, 0));
}
