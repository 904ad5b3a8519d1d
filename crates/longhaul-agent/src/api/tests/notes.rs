//! Notes of people on events, the case in its formats, and the states of measurements.

use super::scene::{self, Answer, BEGIN_US, HOUR_US, Scene, TOKEN};
use crate::token_store::TokenRight;
use longhaul_model::report::v1::{RunEnvironment, ThroughputReport};
use longhaul_store::Archive;
use longhaul_store::history_store::{PlannedOutcome, PlannedRun};
use serde_json::{Value, json};

const NOTES: &str = "/api/v1/events/e-1/notes";
/// 2100-01-01.
const LATER_US: i64 = 4_102_444_800_000_000;

fn add(scene: &Scene, path: &str, body: &Value, headers: &[&str]) -> Answer {
    let json = "content-type: application/json";
    let headers: Vec<&str> = headers.iter().copied().chain([json]).collect();
    scene.ask("POST", path, &headers, &body.to_string())
}

#[test]
fn an_event_is_acknowledged_silenced_and_reopened() {
    let scene = Scene::new();
    assert_eq!(scene.json(NOTES), json!([]));
    assert_eq!(scene.json("/api/v1/events/e-1")["handling"], json!({ "notes": 0 }));
    let acknowledge = json!({ "action": "acknowledge", "who": "jo", "text": " a ticket is open " });
    let answer = add(&scene, NOTES, &acknowledge, &[]);
    assert_eq!(answer.status, 201, "{}", answer.body);
    let note = answer.json();
    assert_eq!((&note["who"], &note["text"]), (&json!("jo"), &json!("a ticket is open")));
    assert!(note["at_us"].as_i64().is_some_and(|us| us > BEGIN_US - 1000 * HOUR_US));
    let silence = json!({ "action": "silence", "who": "jo", "until_us": LATER_US });
    assert_eq!(add(&scene, NOTES, &silence, &[]).status, 201);
    assert_eq!(scene.json(NOTES).as_array().map(Vec::len), Some(2));
    let handled = json!({ "notes": 2, "acknowledged_by": "jo", "silenced_until_us": LATER_US });
    assert_eq!(scene.json("/api/v1/events")[0]["handling"], handled);
    assert_eq!(add(&scene, NOTES, &json!({ "action": "reopen", "who": "jo" }), &[]).status, 201);
    assert_eq!(scene.json("/api/v1/events/e-1")["handling"], json!({ "notes": 3 }));
}

#[test]
fn a_note_needs_an_event_a_name_and_what_its_action_needs() {
    let scene = Scene::new();
    for (body, status) in [
        (json!({ "action": "acknowledge" }), 400),
        (json!({ "action": "acknowledge", "who": " " }), 400),
        (json!({ "action": "comment", "who": "jo" }), 400),
        (json!({ "action": "silence", "who": "jo" }), 400),
        (json!({ "action": "delete", "who": "jo" }), 400),
        (json!({ "action": "comment", "who": "jo", "text": "x", "until_us": LATER_US }), 400),
    ] {
        let answer = add(&scene, NOTES, &body, &[]);
        assert_eq!((answer.status, answer.code().as_str()), (status, "bad_request"), "{body}");
    }
    let comment = json!({ "action": "comment", "who": "jo", "text": "\u{1b}[2J seen" });
    assert_eq!(add(&scene, NOTES, &comment, &[]).json()["text"], "\u{fffd}[2J seen");
    let nowhere = add(&scene, "/api/v1/events/e-2/notes", &comment, &[]);
    assert_eq!((nowhere.status, nowhere.code().as_str()), (404, "not_found"));
    assert_eq!(scene.get("/api/v1/events/e-2/notes").status, 404);
}

#[test]
fn another_site_and_a_client_without_the_token_add_no_note() {
    let comment = json!({ "action": "comment", "who": "jo", "text": "seen" });
    let scene = Scene::new();
    let foreign = add(&scene, NOTES, &comment, &["origin: http://evil.example"]);
    assert_eq!((foreign.status, foreign.code().as_str()), (403, "foreign_origin"));
    assert_eq!(scene.json(NOTES), json!([]));
    let closed = Scene::closed();
    assert_eq!(add(&closed, NOTES, &comment, &[]).status, 401);
    let right = format!("authorization: Bearer {TOKEN}");
    assert_eq!(add(&closed, NOTES, &comment, &[&right]).status, 201);
}

#[test]
fn a_token_that_may_only_read_adds_no_note_and_one_of_an_operator_does() {
    let scene = Scene::closed();
    let note = json!({ "action": "acknowledge" });
    let add_as = |name: &str, right| {
        let token = scene.desk.tokens.create(name, right).expect("created");
        let header = format!("authorization: Bearer {}", token.as_str());
        (add(&scene, NOTES, &note, &[&header]), header)
    };
    let (refused, reader) = add_as("wall-display", TokenRight::Read);
    assert_eq!((refused.status, refused.code().as_str()), (403, "read_only"));
    let notes = scene.ask("GET", NOTES, &[&reader], "");
    assert_eq!((notes.status, notes.json()), (200, json!([])));
    let (added, _) = add_as("alice", TokenRight::Operate);
    assert_eq!((added.status, &added.json()["who"]), (201, &json!("alice")));
}

#[test]
fn the_case_comes_as_text_as_html_and_in_parts_with_the_same_words() {
    let scene = Scene::new();
    let case = |format: &str| scene.get(&format!("/api/v1/events/e-1/case?format={format}"));
    let parts = case("json").json();
    let parts = parts.as_array().expect("parts");
    assert_eq!(parts[0]["kind"], "title");
    let html = case("html");
    assert!(html.head.contains("content-type: text/html"), "{}", html.head);
    assert!(!html.body.contains("<img"), "names are inert");
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let text = words(&case("text").body);
    for part in parts {
        let told = words(part["text"].as_str().expect("text"));
        assert!(text.windows(told.len()).any(|it| it == told), "{told:?} is not in {text:?}");
    }
    let first = parts[0]["text"].as_str().expect("text");
    assert!(html.body.contains(&format!("<title>{first}")), "{}", html.body);
    assert_eq!(case("pdf").code(), "bad_request");
}

#[test]
fn measurements_tell_their_last_result_and_since_when_they_fail() {
    let scene = Scene::new();
    let mut archive = Archive::open(&scene.folder.join("archive.sqlite3")).expect("an archive");
    let planned = |id: &str, hour: i64, measurement: &str| PlannedRun {
        id: id.to_owned(),
        due_us: BEGIN_US + hour * HOUR_US,
        measurement: measurement.to_owned(),
        pair: Some(super::scene::pair()),
        outcome: None,
    };
    archive.add_planned(&[planned("p-8", 8, "bulk"), planned("p-9", 9, "gone")]).expect("planned");
    let failed = |detail: &str| {
        let (reason, detail) = ("failed".to_owned(), Some(detail.to_owned()));
        PlannedOutcome::Missed { reason, detail }
    };
    archive.record_outcome("p-8", &failed("connection refused")).expect("settled");
    archive.record_outcome("p-9", &failed("no route")).expect("settled");
    let rows = scene.json("/api/v1/measurements");
    let pair = json!({ "from": "slac", "to": "cesnet" });
    let since_us = BEGIN_US + 8 * HOUR_US;
    assert_eq!(
        rows[0],
        json!({
            "measurement": "bulk", "pair": pair, "kind": "throughput", "run_id": "run-000",
            "done_us": BEGIN_US, "stale_after_us": 3 * HOUR_US,
            "failure": { "since_us": since_us, "latest_us": since_us, "reason": "failed",
                "detail": "connection refused" },
        })
    );
    // `gone` is not in the watch file and has not run for long; the others have no result yet.
    let back = json!({ "from": "cesnet", "to": "slac" });
    let bulk = json!({ "measurement": "bulk", "pair": back, "kind": "throughput",
        "stale_after_us": 3 * HOUR_US });
    let route = json!({ "measurement": "route", "pair": pair, "kind": "path",
        "stale_after_us": HOUR_US / 2 });
    assert_eq!(rows.as_array().map(|it| it[1..].to_vec()), Some(vec![bulk, route]));
    let missed = scene.json("/api/v1/planned?state=missed&from=slac&to=cesnet");
    assert_eq!(missed["rows"][0]["outcome"]["missed"]["detail"], "no route");
}

#[test]
fn runs_are_filtered_by_host_and_id_and_read_page_by_page() {
    let scene = Scene::new();
    let ids = |query: &str| -> Vec<String> {
        let rows = scene.json(&format!("/api/v1/runs?{query}"));
        let rows = rows.as_array().expect("rows");
        rows.iter().map(|it| it["id"].as_str().unwrap_or("").to_owned()).collect()
    };
    let pair = "from=slac&to=cesnet&kind=throughput&limit=60";
    let first = ids(pair);
    let last = first.last().expect("a run");
    let second = ids(&format!("{pair}&after={last}"));
    assert_eq!((first.len(), second.len()), (60, 40));
    assert!(second.iter().all(|id| !first.contains(id)));
    assert_eq!(ids("id=run-04").len(), 10);
    assert_eq!(ids("kind=path").len(), 1);
    assert!(ids("kind=path&host=nowhere").is_empty());
    let path = scene.json("/api/v1/runs?kind=path");
    assert!(path[0]["values"]["rtt_us"].as_u64().is_some_and(|us| us > 0), "{path}");
    let host = path[0]["responder_host"].as_str().expect("a name").to_uppercase();
    assert_eq!(ids(&format!("kind=path&host={host}")).len(), 1);
}

#[test]
fn runs_of_other_networks_that_the_agent_did_not_make_are_listed_on_request() {
    let scene = Scene::new();
    let mut archive = Archive::open(&scene.folder.join("archive.sqlite3")).expect("an archive");
    let mut report: ThroughputReport =
        serde_json::from_str(&scene::report("slac-daresbury-window.json")).expect("a report");
    for (id, environment) in [("own-lab", "lab:la-geneva"), ("own-net", "network")] {
        report.run.id = id.into();
        report.run.environment = Some(RunEnvironment::from(environment.to_owned()));
        archive.append(&report).expect("append");
    }
    let ids = |query: &str| -> Vec<String> {
        let rows = scene.json(&format!("/api/v1/runs?id=own-{query}"));
        let rows = rows.as_array().expect("rows");
        rows.iter().map(|it| it["id"].as_str().unwrap_or("").to_owned()).collect()
    };
    assert_eq!(ids(""), ["own-net"]);
    assert_eq!(ids("&environment=lab"), ["own-lab"]);
    assert_eq!(ids("&environment=all").len(), 2);
}
