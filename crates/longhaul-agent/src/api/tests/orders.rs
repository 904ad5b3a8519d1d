//! Asking for runs: by whom, and what becomes of it.

use super::scene::{Answer, Scene, TOKEN};
use crate::token_store::TokenRight;
use serde_json::json;

const JSON: &str = "content-type: application/json";

fn order(scene: &Scene, measure: &str, headers: &[&str]) -> Answer {
    let body = json!({ "measure": measure, "from": "slac", "to": "cesnet" }).to_string();
    let headers: Vec<&str> = headers.iter().copied().chain([JSON]).collect();
    scene.ask("POST", "/api/v1/runs", &headers, &body)
}

#[test]
fn what_can_be_asked_for_is_listed() {
    let scene = Scene::new();
    let jobs = scene.json("/api/v1/jobs?from=slac&to=cesnet");
    let names: Vec<&str> =
        jobs.as_array().into_iter().flatten().filter_map(|it| it["measure"].as_str()).collect();
    assert_eq!(names, ["bulk", "route"]);
    assert_eq!((&jobs[0]["heavy"], &jobs[0]["kind"]), (&json!(true), &json!("throughput")));
    assert_eq!(jobs[0]["rate_bps"], 10_000_000_000_u64);
    assert_eq!(scene.json("/api/v1/jobs?from=slac&to=nobody"), json!([]));
}

#[test]
fn an_order_is_queued_or_refused_with_the_reason() {
    let scene = Scene::new();
    let taken = order(&scene, "bulk", &[]);
    assert_eq!(taken.status, 202, "{}", taken.body);
    assert_eq!(taken.json(), json!({ "planned_id": "slac-1-1" }));
    for (measure, status, code) in [
        ("route", 409, "waits_already"),
        ("full", 503, "queue_full"),
        ("other", 404, "not_found"),
        ("", 400, "bad_request"),
        ("a\nb", 400, "bad_request"),
    ] {
        let answer = order(&scene, measure, &[]);
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{measure:?}");
    }
}

#[test]
fn bodies_that_are_no_orders_are_refused() {
    let scene = Scene::new();
    for (headers, body, status) in [
        (&[JSON][..], "{", 400),
        (&[JSON], "[]", 400),
        (&[JSON], "{\"measure\": 7}", 400),
        (&[JSON], "{\"measure\":\"bulk\",\"from\":\"a\",\"to\":\"b\",\"now\":true}", 400),
        (&["content-type: text/plain"], "{}", 415),
        (&[], "{}", 415),
    ] {
        let answer = scene.ask("POST", "/api/v1/runs", headers, body);
        assert_eq!(answer.status, status, "{body}: {}", answer.body);
        assert_eq!(answer.code(), "bad_request");
        println!("attack: tried 1");
    }
}

#[test]
fn another_site_cannot_ask_in_the_name_of_a_browser() {
    let scene = Scene::new();
    let own = format!("origin: http://{}", scene.at);
    assert_eq!(order(&scene, "bulk", &[&own, "sec-fetch-site: same-origin"]).status, 202);
    for headers in [
        &["origin: http://evil.example"][..],
        &["origin: null"],
        &["sec-fetch-site: cross-site"],
        &["sec-fetch-site: same-site", &own],
    ] {
        let answer = order(&scene, "bulk", headers);
        assert_eq!((answer.status, answer.code().as_str()), (403, "foreign_origin"), "{headers:?}");
        println!("attack: tried 1");
    }
    let rebound = ["host: evil.example", "origin: http://evil.example"];
    assert_eq!(order(&scene, "bulk", &rebound).status, 421);
}

#[test]
fn with_a_token_an_order_needs_it() {
    let scene = Scene::closed();
    assert_eq!(order(&scene, "bulk", &[]).status, 401);
    let right = format!("authorization: Bearer {TOKEN}");
    assert_eq!(order(&scene, "bulk", &[&right]).status, 202);
}

#[test]
fn the_user_comes_from_the_header_of_a_trusted_proxy_only() {
    let user = |proxy: &str| {
        let scene = Scene::with(&format!(
            "[api]\nuser_header = \"X-Forwarded-User\"\ntrusted_proxies = [\"{proxy}\"]\n"
        ));
        let headers = ["x-forwarded-user: alice\u{202e}"];
        scene.ask("GET", "/api/v1/about", &headers, "").json()["agent"]["user"].clone()
    };
    let named = user("127.0.0.1");
    assert!(named.as_str().is_some_and(|it| it.starts_with("alice")), "{named}");
    assert!(!named.to_string().contains('\u{202e}'), "no direction override: {named}");
    assert!(user("192.0.2.1").is_null());
}

#[test]
fn a_reader_may_read_and_an_operator_may_also_start_runs_both_by_name() {
    let scene = Scene::closed();
    let create = |name: &str, right| {
        let token = scene.desk.tokens.create(name, right).expect("created");
        format!("authorization: Bearer {}", token.as_str())
    };
    let reader = create("wall-display", TokenRight::Read);
    let about = scene.ask("GET", "/api/v1/about", &[&reader], "").json()["agent"].clone();
    assert_eq!((&about["user"], &about["takes_orders"]), (&json!("wall-display"), &json!(false)));
    let refused = order(&scene, "bulk", &[&reader]);
    assert_eq!((refused.status, refused.code().as_str()), (403, "read_only"));
    let error = refused.json()["error"].clone();
    assert_eq!(error["text"], "this token may only read");
    let hint = error["hint"].as_str().expect("a hint");
    assert!(hint.contains("to read (GET only) or to operate") && !hint.contains('`'), "{hint}");
    let operator = create("alice", TokenRight::Operate);
    assert_eq!(order(&scene, "bulk", &[&operator]).status, 202);
    let agent = create("dtn2", TokenRight::Agent);
    let refused = scene.ask("GET", "/api/v1/about", &[&agent], "");
    assert_eq!((refused.status, refused.code().as_str()), (403, "agent_token"));
    scene.desk.tokens.revoke("alice", false).expect("revoked");
    assert_eq!(order(&scene, "bulk", &[&operator]).status, 401);
    let none = scene.ask("GET", "/api/v1/about", &[], "").json()["error"].clone();
    assert_eq!(none["text"], "this agent requires a token with the right to read");
}
