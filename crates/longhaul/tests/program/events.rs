//! `longhaul report events` and `event`: what an agent found, as text and as JSON.

use crate::support::{Folder, golden, reported};
use longhaul_model::report::v1::ChangeEvent;
use longhaul_store::Archive;
use serde_json::{Value, json};

/// 2003-06-11 21:45 UTC.
const CHANGE_US: i64 = 1_055_367_900_000_000;

fn event(id: &str, far: &str, state: &str) -> ChangeEvent {
    let level = |median: f64| json!({"median": median, "deviation": 9e6, "samples": 60});
    let event = json!({
        "id": id, "pair": {"from": "slac", "to": far}, "quantity": "goodput", "state": state,
        "between_us": [CHANGE_US, CHANGE_US + 5_400_000_000_i64],
        "before": level(3.05e8), "after": level(1.3e8), "change_ratio": 0.43,
        "score": 2.71, "autocorrelation": 0.1, "announced_at_us": CHANGE_US + 9_000_000_000_i64,
        "causes": [{
            "cause": "retune", "confidence_ratio": 0.7,
            "summary": "The setting no longer fits the path: 8 streams of 1 MiB reach 130 Mbit/s, \
                        and 330 Mbit/s are free",
            "supports": ["available bandwidth rose from 268 Mbit/s to 330 Mbit/s"],
            "contradicts": [],
            "advice": [{"place": "initiator", "text": "Find the setting that fits the new path.",
                "command": "longhaul tune cesnet"}],
        }],
        "unchanged": ["min RTT: 165 ms before, 165 ms after"],
        "follow_ups": ["20030611T231500Z-aaaaaa"],
    });
    serde_json::from_value(event).expect("the shape of an event")
}

fn filled(folder: &Folder) -> std::path::PathBuf {
    let file = folder.file("archive.sqlite3");
    let mut archive = Archive::open(&file).expect("a new archive");
    for event in [
        event("goodput-1111111111111111", "cesnet", "confirmed"),
        event("goodput-2222222222222222", "lyon", "withdrawn"),
    ] {
        archive.put_event(&event).expect("room for an event");
    }
    file
}

#[test]
fn events_read_as_reviewed_and_fit_80_columns() {
    let folder = Folder::new("events-text");
    let archive = filled(&folder);
    let text = reported(&archive, &["events", "--since", "2003-06-01"], 0)
        + &reported(&archive, &["event", "goodput-1111"], 0);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    golden("report-events.txt", &text);
}

#[test]
fn json_is_the_events_themselves_without_the_withdrawn() {
    let folder = Folder::new("events-json");
    let archive = filled(&folder);
    let list = |words: &[&str]| -> Vec<ChangeEvent> {
        serde_json::from_str(&reported(&archive, words, 0)).expect("events")
    };
    let of_path = event("goodput-1111111111111111", "cesnet", "confirmed");
    assert_eq!(list(&["events", "--json", "--since", "2003-06-01"]), [of_path]);
    let all = ["events", "--json", "--all", "--since", "2003-06-01"];
    assert_eq!(list(&all).len(), 2);
    let of_host = ["events", "lyon", "--json", "--all", "--since", "2003-06-01"];
    assert_eq!(list(&of_host).len(), 1);
    let one: Value =
        serde_json::from_str(&reported(&archive, &["event", "goodput-2", "--json"], 0))
            .expect("an event");
    assert_eq!(one["pair"]["to"], "lyon");
}

#[test]
fn an_event_of_several_paths_says_what_they_share_and_its_parts_name_it() {
    let folder = Folder::new("events-shared");
    let file = folder.file("archive.sqlite3");
    let mut archive = Archive::open(&file).expect("a new archive");
    let mut part = event("goodput-3333333333333333", "cesnet", "confirmed");
    part.part_of = Some("shared-1".to_owned());
    let shared = json!({
        "elements": [{"kind": "hop", "name": "10.2.0.1"}, {"kind": "sender", "name": "slac"}],
        "quantities": ["goodput"], "chance_ratio": 0.003,
        "affected": [{"pair": part.pair, "quantity": "goodput", "event": part.id}],
        "unaffected": [{"from": "slac", "to": "lyon"}],
        "paths": 4, "affected_paths": 3, "other_paths": 20, "affected_other_paths": 1,
    });
    let whole = ChangeEvent {
        shared: serde_json::from_value(shared).expect("a scope"),
        part_of: None,
        ..event("shared-1", "cesnet", "confirmed")
    };
    for event in [&part, &whole] {
        archive.put_event(event).expect("room for an event");
    }
    let list = reported(&file, &["events", "--since", "2003-06-01"], 0).replace("\n  ", " ");
    let told =
        "3 of 4 paths through hop 10.2.0.1, or slac as sender changed (throughput): confirmed";
    assert!(list.contains(told), "{list}");
    assert!(list.contains("confirmed, part of shared-1"), "{list}");
    let one = reported(&file, &["event", "shared-1"], 0);
    assert!(one.contains("throughput slac > cesnet goodput-3333333333333333"), "{one}");
    assert!(one.contains("slac > lyon"), "{one}");
}

#[test]
fn nothing_found_and_unclear_ids_say_what_to_do() {
    let folder = Folder::new("events-none");
    let archive = filled(&folder);
    assert!(reported(&archive, &["events"], 0).starts_with("no lasting changes since "));
    assert!(reported(&archive, &["event", "goodput"], 2).contains("give more letters"));
    assert!(
        reported(&archive, &["event", "rtt"], 6)
            .contains("list all events with `longhaul report events`")
    );
}
