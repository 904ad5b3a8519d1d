//! `longhaul report routes`: golden table, JSON and CSV, and what is said where there is nothing.
//!
//! The traces are those of SLAC to Prague and Lyon of 11 June 2003, as its case study tells them: 17
//! hops by Internet2 become 13 and 15 by ESnet in the afternoon, and Lyon's round trip grows by 10 ms.

use crate::support::{Folder, golden, longhaul};
use longhaul_model::report::v1::PathReport;
use longhaul_store::Archive;
use serde_json::{Value, json};

/// Addresses by hop, networks of one operator behind each other.
fn hops(parts: &[(&str, u32)]) -> Vec<String> {
    parts
        .iter()
        .flat_map(|(network, count)| (1..=*count).map(move |n| format!("{network}.{n}.1")))
        .collect()
}

fn prague(carrier: (&str, u32)) -> Vec<String> {
    hops(&[("134.79", 2), carrier, ("195.113", 6)])
}

fn lyon(carrier: (&str, u32)) -> Vec<String> {
    hops(&[("134.79", 2), carrier, ("193.48", 2)])
}

/// A report of one trace; an empty address is a silent hop.
fn trace(host: &str, at: &str, addresses: &[String], rtt_ms: u64, reached: bool) -> PathReport {
    let hop = |(place, address): (usize, &String)| {
        let answer = json!({"address": address, "kind": "time_exceeded",
            "rtts_ns": [(place as u64 + 1) * rtt_ms * 1_000_000 / addresses.len() as u64]});
        let answers: Vec<Value> = (!address.is_empty()).then_some(answer).into_iter().collect();
        json!({"ttl": place + 1, "sent": 3, "answers": answers})
    };
    let hops: Vec<Value> = addresses.iter().enumerate().map(hop).collect();
    let id = format!("{}-{host}", at.replace(['-', ':'], ""));
    let party = |host: &str| json!({"host": host});
    let report = json!({
        "schema": "longhaul.report/1", "kind": "path",
        "run": {"id": id, "started_at": at, "duration_us": 9_000_000, "longhaul": "0.4.0",
            "initiator": party("slac"), "responder": party(host)},
        "plan": {"protocol": "udp", "reverse": false, "mtu": false, "options": false,
            "round_trips": {"protocol": "icmp", "probes": 10, "interval_us": 100_000,
                "packet_bytes": 84, "timeout_us": 1_000_000}},
        "observation": {"address": "192.0.2.1", "route": {
            "from": "134.79.1.2", "to": "192.0.2.1", "protocol": "udp", "flow": "33434 > 33435",
            "at_us": 0, "duration_us": 5_000_000, "reached": reached, "hops": hops,
            "ended_by": if reached { "reached" } else { "silent" }, "probes_sent": 51}},
        "analysis": {"version": 1},
        "findings": [], "caveats": [],
    });
    serde_json::from_value(report).expect("the shape of a path report")
}

fn at(day: u32, hour: u32, minute: u32) -> String {
    format!("2003-06-{day:02}T{hour:02}:{minute:02}:00Z")
}

fn reports() -> Vec<PathReport> {
    let (abilene, esnet) = (("192.32", 9), ("198.129", 5));
    let mut silent = prague(abilene);
    silent[4].clear();
    let mut neighbour = prague(abilene);
    neighbour[9] = String::from("192.32.8.77");
    let mut stutter = prague(abilene);
    let before = stutter[6].clone();
    stutter[7] = before;
    let mut other = prague(esnet);
    other[4] = String::from("198.200.3.1");
    let cut: Vec<String> = prague(esnet).into_iter().take(4).collect();
    let mut all = vec![
        trace("prague", &at(10, 2, 0), &prague(abilene), 160, true),
        trace("prague", &at(10, 3, 0), &silent, 160, true),
        trace("prague", &at(10, 9, 10), &neighbour, 160, true),
        trace("prague", &at(10, 9, 50), &prague(abilene), 160, true),
        trace("prague", &at(10, 14, 0), &stutter, 160, true),
        trace("prague", &at(11, 22, 0), &prague(abilene), 160, true),
        trace("prague", &at(11, 22, 45), &prague(esnet), 160, true),
        trace("prague", &at(11, 23, 0), &cut, 160, false),
        trace("prague", &at(12, 0, 0), &prague(esnet), 160, true),
        trace("prague", &at(12, 1, 0), &other, 160, true),
        trace("prague", &at(12, 2, 0), &other, 160, true),
    ];
    for (day, hour, carrier, rtt_ms) in [
        (11, 21, ("192.32", 13), 150),
        (11, 23, ("193.251", 11), 160),
        (12, 18, ("198.129", 12), 150),
    ] {
        all.push(trace("lyon", &at(day, hour, 0), &lyon(carrier), rtt_ms, true));
    }
    all
}

/// Standard output of `longhaul report routes …` on an archive of these traces.
fn shown(test: &str, arguments: &[&str]) -> String {
    let folder = Folder::new(test);
    let file = folder.file("archive.sqlite3");
    let mut archive = Archive::open(&file).expect("a new archive");
    for report in reports() {
        archive.append(&report).expect("append");
    }
    let assert = longhaul()
        .args(["report", "routes"])
        .args(arguments)
        .arg("--archive")
        .arg(&file)
        .assert()
        .success();
    String::from_utf8(assert.get_output().stdout.clone()).expect("UTF-8")
}

#[test]
fn the_table_of_routes_is_as_reviewed_and_fits_80_columns() {
    let text = shown("routes_text", &["prague", "lyon", "--since", "2003-06-10"]);
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
        assert!(!line.contains('\u{1b}'), "{line:?}");
    }
    golden("routes.txt", &text);
}

#[test]
fn json_holds_routes_and_every_trace() {
    let text = shown("routes_json", &["prague", "--since", "2003-06-11", "--json"]);
    let tables: Value = serde_json::from_str(&text).expect("one document");
    let table = &tables[0];
    assert_eq!(table["host"], "prague");
    assert_eq!(table["traces"].as_array().map(Vec::len), Some(6));
    let change = &table["traces"][1]["route_change"];
    assert_eq!(change["kind"], "several_hops");
    assert_eq!(change["ranges"], json!([{"here": [3, 7], "other": [3, 11]}]));
    let numbers: Vec<_> = table["routes"]
        .as_array()
        .expect("routes")
        .iter()
        .map(|route| route["route_number"].clone())
        .collect();
    assert_eq!(numbers, [json!(1), json!(4), json!(5)]);
}

#[test]
fn nothing_to_show_is_said_with_what_would_help() {
    let folder = Folder::new("routes_none");
    let file = folder.file("archive.sqlite3");
    let mut archive = Archive::open(&file).expect("a new archive");
    archive.append(&reports()[0]).expect("append");
    for (arguments, want) in
        [(&["prague"][..], "--since 2003-06-10"), (&["tokyo"], "longhaul path HOST")]
    {
        let assert = longhaul()
            .args(["report", "routes"])
            .args(arguments)
            .arg("--archive")
            .arg(&file)
            .assert()
            .code(6);
        let told = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        assert!(told.contains(want), "{told}");
    }
}
