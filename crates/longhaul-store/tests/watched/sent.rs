//! What strangers may send.

use crate::archive_queries::points;
use crate::history_cases::{MIDNIGHT_US, event, geneva, pair, run};
use crate::temporary_archive::TemporaryArchive;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_store::StoreError;
use longhaul_store::history_store::{
    AgentDelivery, IncomingRun, PlannedOutcome, PlannedRun, TimeRange,
};

const NAMES: [&str; 7] = [
    "'; DROP TABLE run; --",
    "\"quoted\"",
    "%",
    "_",
    "<script>alert(1)</script>",
    "Zürich-東京",
    "\\x00\\'",
];

#[test]
fn names_are_kept_letter_for_letter() {
    let place = TemporaryArchive::new();
    let mut archive = place.open();
    let mut expected = Vec::new();
    for (number, name) in NAMES.into_iter().enumerate() {
        let mut run = run(name, MIDNIGHT_US + number as i64, 1.0);
        run.pairs = vec![];
        run.readings[0].pair = pair(name, NAMES[0]);
        run.planned_id = Some(name.to_owned());
        archive.append_runs(&[run]).unwrap();
        expected.push(pair(name, NAMES[0]));
    }
    let mut found = archive.pairs().unwrap();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    for pair in &expected {
        let series = archive.series(pair, PathQuantity::Goodput, TimeRange::ALL, 10);
        assert_eq!(series.unwrap().points.len(), 1, "{pair:?}");
        assert!(archive.report(&pair.from).unwrap().is_some(), "{pair:?}");
    }
    assert_eq!(archive.report("run").unwrap(), None);
}

fn is_refused<T: std::fmt::Debug>(answer: Result<T, StoreError>, why: &str) {
    match answer {
        Err(error @ StoreError::Refused { .. }) => {
            let text = error.to_string();
            assert!(text.contains(why), "{text}");
            assert!(text.len() < 400, "a long name is not repeated");
        }
        other => panic!("{why}: {other:?}"),
    }
}

type Spoil<'a> = &'a dyn Fn(&mut IncomingRun);

#[test]
fn what_is_beyond_the_limits_is_refused_with_its_whole_batch() {
    let place = TemporaryArchive::new();
    let mut archive = place.open();
    let long = "x".repeat(1 << 20);
    let cases: [(Spoil, &str); 10] = [
        (&|run| run.run.id.clone_from(&long), "too long"),
        (&|run| run.run.id = String::new(), "empty"),
        (&|run| run.pairs[0].to = String::from("a\0b"), "control"),
        (&|run| run.pairs[0].from.clone_from(&long), "too long"),
        (&|run| run.readings[0].pair.from = String::from("a\n"), "control"),
        (&|run| run.readings[0].point.value = f64::NAN, "not a number"),
        (&|run| run.readings[0].point.at_us = i64::MAX, "clock"),
        (&|run| run.at_us = -1, "clock"),
        (&|run| run.pairs = vec![geneva(); 10_001], "10,000"),
        (&|run| run.planned_id = Some(long.clone()), "too long"),
    ];
    for (spoil, why) in cases {
        let mut spoilt = run("spoilt", MIDNIGHT_US, 1.0);
        spoil(&mut spoilt);
        let batch = [run("good", MIDNIGHT_US, 1.0), spoilt];
        is_refused(archive.append_runs(&batch), why);
    }
    assert_eq!(points(&archive), []);
    assert_eq!(archive.report("good").unwrap(), None);
}

#[test]
fn an_event_or_plan_beyond_the_limits_is_refused() {
    let place = TemporaryArchive::new();
    let mut archive = place.open();
    let mut long = event("long", MIDNIGHT_US);
    long.unchanged = vec!["x".repeat(1 << 20)];
    is_refused(archive.put_event(&long), "1 MiB");
    is_refused(archive.put_event(&event("", MIDNIGHT_US)), "empty");
    let mut planned = PlannedRun {
        id: "a".to_owned(),
        due_us: MIDNIGHT_US,
        measurement: "x".repeat(256),
        pair: None,
        outcome: None,
    };
    is_refused(archive.add_planned(&[planned.clone()]), "too long");
    planned.measurement = String::from("light");
    planned.due_us = -1;
    is_refused(archive.add_planned(&[planned]), "before 1970");
    let reason = "x".repeat(300);
    is_refused(
        archive.record_outcome("a", &PlannedOutcome::Missed { reason, detail: None }),
        "too long",
    );
    assert_eq!(archive.pairs().unwrap(), []);
}

#[test]
fn what_another_agent_sends_may_come_twice_and_out_of_order() {
    let place = TemporaryArchive::new();
    let mut archive = place.open();
    let planned = PlannedRun {
        id: "planned-a".to_owned(),
        due_us: MIDNIGHT_US,
        measurement: "light".to_owned(),
        pair: Some(geneva()),
        outcome: None,
    };
    let row = |outcome| PlannedRun { outcome, ..planned.clone() };
    let done = PlannedOutcome::Done { run_id: "a".to_owned() };
    let newer = AgentDelivery {
        runs: vec![run("a", MIDNIGHT_US, 1.0)],
        planned: vec![row(Some(done.clone()))],
        events: vec![event("e", MIDNIGHT_US)],
    };
    let older = AgentDelivery { planned: vec![row(None)], ..AgentDelivery::default() };
    assert_eq!(archive.receive(&newer).unwrap().new, 1);
    for delivery in [&older, &newer, &older] {
        assert_eq!(archive.receive(delivery).unwrap().new, 0);
    }
    assert_eq!(points(&archive).len(), 1);
    let counts = archive.planned_counts(TimeRange::ALL).unwrap();
    assert_eq!((counts.planned, counts.done), (1, 1));
    assert!(archive.event("e").unwrap().is_some());
}

#[test]
fn deliveries_of_one_transaction_have_a_result_each_or_none_is_stored() {
    let place = TemporaryArchive::new();
    let mut archive = place.open();
    let of = |run| AgentDelivery { runs: vec![run], ..AgentDelivery::default() };
    let (first, second) = (of(run("a", MIDNIGHT_US, 1.0)), of(run("b", MIDNIGHT_US + 1, 2.0)));
    let landed = archive.receive_all(&[&first, &second, &first]).unwrap();
    let figures: Vec<(u64, u64)> = landed.iter().map(|it| (it.new, it.already_stored)).collect();
    assert_eq!(figures, [(1, 0), (1, 0), (0, 1)]);
    let third = of(run("c", MIDNIGHT_US + 2, 3.0));
    let spoilt = of(run("", MIDNIGHT_US + 3, 4.0));
    assert!(archive.receive_all(&[&third, &spoilt]).is_err());
    assert_eq!(archive.report("c").unwrap(), None);
}
