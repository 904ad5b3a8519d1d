use super::*;
use crate::path::scene::{cut_route, report, route};

const INTERNET2: [&str; 4] = ["134.1.0.1", "192.2.0.1", "192.3.0.1", "195.4.0.1"];
const ESNET: [&str; 4] = ["134.1.0.1", "198.2.0.1", "198.3.0.1", "195.4.0.1"];

fn at(hour: u32, minute: u32) -> String {
    format!("2003-06-11T{hour:02}:{minute:02}:00Z")
}

fn kinds(table: &Table) -> Vec<Option<ChangeKind>> {
    let changes = table.traces.iter();
    changes.map(|t| t.change.as_ref().map(|c| c.kind)).collect()
}

#[test]
fn a_day_with_one_change_shows_it_in_its_hour() {
    let mut reports = vec![
        report(&at(20, 0), route(&INTERNET2)),
        report(
            &at(21, 0),
            route(&["134.1.0.1", "", "192.3.0.1", "195.4.0.1"]),
        ),
        report(&at(22, 15), route(&INTERNET2)),
        report(&at(22, 45), route(&ESNET)),
        report(&at(22, 50), route(&ESNET)),
        report(&at(23, 0), route(&ESNET)),
    ];
    reports.reverse();
    let table = of("prague", &reports, "");
    assert_eq!(
        kinds(&table),
        [
            None,
            Some(ChangeKind::SilentHop),
            Some(ChangeKind::SilentHop),
            Some(ChangeKind::SeveralHops),
            Some(ChangeKind::Same),
            Some(ChangeKind::Same),
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
        (Some(ChangeKind::SeveralHops), 2, 3)
    );
    let numbers: Vec<u32> = table.routes.iter().map(|r| r.number).collect();
    assert_eq!(numbers, [1, 2]);
    assert_eq!(table.routes[0].traces, 3);
    assert_eq!(table.routes[0].last_seen, at(22, 15));
}

#[test]
fn what_is_older_numbers_the_routes_and_is_not_shown() {
    let reports = [
        report(&at(1, 0), route(&INTERNET2)),
        report(&at(2, 0), route(&ESNET)),
        report(&at(3, 0), route(&ESNET)),
    ];
    let table = of("prague", &reports, &at(2, 30));
    assert_eq!(kinds(&table), [Some(ChangeKind::Same)]);
    assert_eq!(table.traces[0].number, 2);
    assert_eq!(table.routes.len(), 1);
    assert_eq!(table.routes[0].first_seen, at(2, 0), "in the whole archive");
}

#[test]
fn after_an_outage_the_route_stands_against_the_last_whole_one() {
    let reports = [
        report(&at(1, 0), route(&INTERNET2)),
        report(&at(2, 0), cut_route(&INTERNET2[..2])),
        report(&at(3, 0), route(&INTERNET2)),
    ];
    let table = of("prague", &reports, "");
    assert_eq!(
        kinds(&table),
        [
            None,
            Some(ChangeKind::EndNotReached),
            Some(ChangeKind::Same)
        ]
    );
    let numbers: Vec<u32> = table.traces.iter().map(|t| t.number).collect();
    assert_eq!(numbers, [1, 1, 1], "an outage is no route of its own");
}

#[test]
fn numbers_of_the_reports_stand() {
    let mut first = report(&at(1, 0), route(&INTERNET2));
    first.analysis.route_number = Some(7);
    let reports = [
        first,
        report(&at(2, 0), route(&INTERNET2)),
        report(&at(3, 0), route(&ESNET)),
    ];
    let table = of("prague", &reports, "");
    let numbers: Vec<u32> = table.traces.iter().map(|t| t.number).collect();
    assert_eq!(numbers, [7, 7, 8]);
}

#[test]
fn reports_without_a_route_or_a_time_are_left_out() {
    let mut silent = report(&at(1, 0), route(&INTERNET2));
    silent.observation.route = None;
    let odd = report("yesterday", route(&INTERNET2));
    let table = of("prague", &[silent, odd], "");
    assert_eq!((table.traces.len(), table.days.len()), (1, 0));
}
