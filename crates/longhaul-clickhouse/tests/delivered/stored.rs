//! Runs, planned runs and events: stored once, however often they are said.

use crate::delivery_cases::{missed, of_event, of_plan, of_runs, open, planned};
use crate::embedded::{self, ask};
use crate::history_cases::{HOUR_US, MIDNIGHT_US, event, geneva, pair, run, runs};
use longhaul_model::report::v1::EventState;
use longhaul_store::StoreError;
use longhaul_store::history_store::{AgentDelivery, PlannedOutcome};

const VALUES: &str = "SELECT at_us, value FROM value FINAL ORDER BY at_us";
const PLANS: &str = "SELECT id, state, told FROM planned FINAL ORDER BY id";

#[test]
fn a_delivery_said_twice_changes_nothing() {
    let options = embedded::options();
    let mut sink = open(&options);
    let delivery = AgentDelivery {
        runs: runs(&[(MIDNIGHT_US, 1.0), (MIDNIGHT_US + 1, 2.0), (MIDNIGHT_US + 2, 3.0)]),
        planned: vec![planned("p", Some(PlannedOutcome::Done { run_id: "r".to_owned() }))],
        events: vec![event("e", MIDNIGHT_US)],
    };
    for _ in 0..3 {
        sink.receive(&delivery).expect("stored");
    }
    let values = [(MIDNIGHT_US, 1), (MIDNIGHT_US + 1, 2), (MIDNIGHT_US + 2, 3)];
    let values = values.map(|(at_us, value)| format!("{at_us}\t{value}")).join("\n");
    assert_eq!(ask(&options, VALUES), values);
    assert_eq!(ask(&options, "SELECT count() FROM report FINAL"), "3");
    assert_eq!(ask(&options, "SELECT count() FROM run FINAL WHERE sender = ''"), "3");
    assert_eq!(ask(&options, "SELECT count() FROM run FINAL WHERE sender = 'losangeles'"), "3");
    assert_eq!(ask(&options, "SELECT count() FROM event FINAL"), "1");
    assert_eq!(ask(&options, "SELECT count() FROM pair FINAL"), "1");
    assert_eq!(ask(&options, PLANS), "p\t2\tr");
}

#[test]
fn the_first_of_two_reports_with_one_id_stays() {
    let options = embedded::options();
    let mut sink = open(&options);
    let first = run("a", MIDNIGHT_US, 1.0);
    let mut other = run("a", MIDNIGHT_US + 1, 2.0);
    other.report = other.report.replace("daresbury", "elsewhere");
    assert_ne!(first.report, other.report);
    let report = first.report.clone();
    sink.receive(&of_runs(vec![first])).expect("stored");
    sink.receive(&of_runs(vec![other, run("b", MIDNIGHT_US + 2, 3.0)])).expect("stored");
    let stored = "SELECT report FROM report FINAL WHERE id = 'a' FORMAT TSVRaw";
    assert_eq!(ask(&options, stored), report);
    assert_eq!(ask(&options, "SELECT count() FROM report FINAL"), "2");
}

#[test]
fn a_planned_run_is_done_before_missed_before_waiting() {
    let options = embedded::options();
    let mut sink = open(&options);
    let done = Some(PlannedOutcome::Done { run_id: "r".to_owned() });
    for (outcome, state) in [
        (None, "p\t0\t"),
        (Some(missed("budget")), "p\t1\tbudget"),
        (Some(missed("locked")), "p\t1\tbudget"),
        (None, "p\t1\tbudget"),
        (done, "p\t2\tr"),
        (Some(missed("budget")), "p\t2\tr"),
    ] {
        sink.receive(&of_plan(planned("p", outcome))).expect("stored");
        assert_eq!(ask(&options, PLANS), state.trim_end());
    }
}

#[test]
fn an_event_is_one_entry_in_its_latest_state() {
    let options = embedded::options();
    let mut sink = open(&options);
    let mut changed = event("e", MIDNIGHT_US);
    for state in [EventState::Suspected, EventState::Confirmed, EventState::Recovered] {
        changed.state = state;
        sink.receive(&of_event(changed.clone())).expect("stored");
    }
    assert_eq!(ask(&options, "SELECT state, is_open FROM event FINAL"), "recovered\t0");
    let stored = ask(&options, "SELECT event FROM event FINAL FORMAT TSVRaw");
    assert_eq!(stored, serde_json::to_string(&changed).expect("text"));
}

#[test]
fn names_are_kept_letter_for_letter() {
    let names = ["'; DROP TABLE run; --", "\"quoted\"", "%", "<script>", "Zürich-東京", "\\x00\\'"];
    let options = embedded::options();
    let mut sink = open(&options);
    for (number, name) in names.into_iter().enumerate() {
        let mut run = run(name, MIDNIGHT_US + number as i64, 1.0);
        run.pairs = vec![];
        run.readings[0].pair = pair(name, "geneva");
        sink.receive(&of_runs(vec![run])).expect("stored");
    }
    let stored = ask(&options, "SELECT sender FROM value FINAL ORDER BY at_us FORMAT TSVRaw");
    assert_eq!(stored, names.join("\n"));
}

#[test]
fn what_is_beyond_the_limits_is_refused_with_its_whole_delivery() {
    let options = embedded::options();
    let mut sink = open(&options);
    let mut spoilt = run("spoilt", MIDNIGHT_US, 1.0);
    spoilt.readings[0].point.value = f64::NAN;
    let refused = sink.receive(&of_runs(vec![run("good", MIDNIGHT_US, 1.0), spoilt]));
    assert!(matches!(refused, Err(StoreError::Refused { .. })), "{refused:?}");
    let refused = sink.receive(&of_plan(planned("p", Some(missed(&"x".repeat(300))))));
    assert!(matches!(refused, Err(StoreError::Refused { .. })), "{refused:?}");
    assert_eq!(ask(&options, "SELECT count() FROM pair"), "0");
    assert_eq!(ask(&options, "SELECT count() FROM report"), "0");
}

#[test]
fn old_runs_values_and_plans_go_and_hours_and_events_stay() {
    let options = embedded::options();
    let mut sink = open(&options);
    let delivery = AgentDelivery {
        runs: runs(&[(MIDNIGHT_US, 1.0), (MIDNIGHT_US + 2 * HOUR_US, 2.0)]),
        planned: vec![planned("p", Some(missed("budget")))],
        events: vec![event("e", MIDNIGHT_US)],
    };
    sink.receive(&delivery).expect("stored");
    sink.delete_before(MIDNIGHT_US + HOUR_US).expect("deleted");
    for (table, left) in
        [("value", "1"), ("report", "1"), ("run", "2"), ("planned", "0"), ("event", "1")]
    {
        assert_eq!(ask(&options, &format!("SELECT count() FROM {table} FINAL")), left, "{table}");
    }
    let hours = "SELECT uniqExact(hour) FROM hourly WHERE sender = 'losangeles'";
    assert_eq!(ask(&options, hours), "2");
    assert_eq!(ask(&options, "SELECT sender, receiver FROM pair FINAL"), {
        let pair = geneva();
        format!("{}\t{}", pair.from, pair.to)
    });
}
