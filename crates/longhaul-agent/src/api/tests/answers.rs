//! Every address, asked as it should be.

use super::scene::{BEGIN_US, HOUR_US, Scene};
use crate::agent::flows_test_builder::build_run;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::flows::LimitedTransfers;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::{HostPair, SeriesPoint};
use longhaul_store::history_store::{IncomingRun, SeriesReading, TimeRange};
use serde_json::json;

const PAIR: &str = "from=slac&to=cesnet";

#[test]
fn about_says_what_the_agent_is() {
    let scene = Scene::new();
    let about = scene.json("/api/v1/about");
    assert_eq!(about["longhaul"], env!("CARGO_PKG_VERSION"));
    assert_eq!(about["started_at"], "2026-09-11T12:00:00Z");
    assert_eq!(about["archive"]["kind"], "SQLite");
    assert!(about["archive"]["bytes"].as_u64().is_some_and(|it| it > 0));
    let agent = &about["agent"];
    assert_eq!(agent["name"], "slac");
    assert_eq!(agent["targets"], 1);
    assert_eq!(agent["takes_orders"], true);
}

#[test]
fn only_unusual_reasons_count_as_missed_and_all_are_listed() {
    let scene = Scene::new();
    let off = ["agent_off"; 3];
    let reasons = [&off[..], &["failed", "failed", "disk_full", "locked", "asleep"]].concat();
    scene.miss_runs_today(&reasons);
    scene.desk.counters.write().off_time = Some(TimeRange { begin_us: 1, end_us: 2 });
    let agent = scene.json("/api/v1/about")["agent"].clone();
    let counts = ["planned_today", "failed_today", "missed_today"].map(|key| agent[key].clone());
    assert_eq!(counts, [8, 2, 1].map(|it| json!(it)));
    let reasons = [("agent_off", 3), ("failed", 2), ("asleep", 1), ("disk_full", 1), ("locked", 1)];
    let reasons = reasons.map(|(reason, runs)| json!({ "reason": reason, "runs": runs }));
    assert_eq!(agent["missed_today_by_reason"], json!(reasons));
    assert_eq!(agent["off"], json!({ "from_us": 1, "until_us": 2 }));
}

#[test]
fn pairs_and_their_newest_values_are_told() {
    let scene = Scene::new();
    let pair = json!({ "from": "slac", "to": "cesnet" });
    let back = json!({ "from": "cesnet", "to": "slac" });
    assert_eq!(scene.json("/api/v1/pairs"), json!([back, pair]));
    let grid = scene.json("/api/v1/grid?quantity=goodput");
    let cell = &grid[1];
    assert_eq!(cell["pair"], pair);
    assert_eq!(cell["value"], 1e8 + 99.0);
    assert_eq!(cell["at_us"], BEGIN_US + 99 * HOUR_US);
    assert_eq!(cell["open_events"], 1);
    let loss = scene.json("/api/v1/grid?quantity=loss");
    assert!(loss[1].get("value").is_none(), "absent, never null: {loss}");
}

#[test]
fn transfers_are_listed_apart_from_paths_while_they_are_seen() {
    let scene = Scene::new();
    let day_us = 24 * HOUR_US;
    let mut archive = (scene.desk.open_archive)().expect("an archive");
    for (number, program, at_us) in
        [(0, "old", BEGIN_US - 9 * day_us), (1, "scp", BEGIN_US - day_us), (2, "rclone", BEGIN_US)]
    {
        let text = include_str!("../../../../../fixtures/reports/flows-rclone.json");
        let text = text.replace("b9ab14", &format!("{number:06x}")).replace("rclone", program);
        let mut run = IncomingRun::from_json(text, at_us).expect("a report");
        let pair = HostPair { from: format!("slac/{program}"), to: "10.77.0.2".to_owned() };
        let point = SeriesPoint { at_us, value: 1e6 * f64::from(number) };
        run.readings = vec![SeriesReading { pair, quantity: PathQuantity::Goodput, point }];
        archive.append_runs(&[run]).expect("stored");
    }
    let rows = scene.json("/api/v1/transfers");
    let names = rows.as_array().expect("a list").iter().map(|it| it["pair"]["from"].as_str());
    assert_eq!(names.collect::<Vec<_>>(), [Some("slac/rclone"), Some("slac/scp")]);
    assert_eq!(rows[0]["value"], 2e6);
    assert_eq!(rows[0]["run_id"], "20261127T123914Z-000002");
    assert_eq!(scene.json("/api/v1/pairs").as_array().map(Vec::len), Some(2));
    let grid = scene.json("/api/v1/grid?quantity=goodput");
    assert_eq!(grid.as_array().map(Vec::len), Some(2));
}

#[test]
fn bytes_of_transfers_are_summed_by_day() {
    let scene = Scene::new();
    let mut archive = (scene.desk.open_archive)().expect("an archive");
    // 2026-11-27T12:00:00Z; the last one was delivered before.
    for number in [1, 2, 3, 3] {
        let run = build_run(number, 1_795_780_800_000_000, |_| ());
        archive.append_runs(&[run]).expect("stored");
    }
    let list = scene.json("/api/v1/transfers/daily");
    assert_eq!(list["is_complete"], true);
    let rows = list["rows"].as_array().expect("rows");
    let [row] = &rows[..] else { panic!("{list}") };
    assert_eq!((&row["day"], &row["transfers"]), (&json!("2026-11-27"), &json!(3)));
    assert_eq!(
        row["limits"],
        json!([
            { "limiter": "application", "bytes": row["bytes"], "share_ratio": 1.0 }
        ])
    );
    let count = |query: &str| {
        let list = scene.json(&format!("/api/v1/transfers/daily?{query}"));
        list["rows"].as_array().map(Vec::len)
    };
    // The day begins and ends at midnight.
    let [begin_us, end_us] = [1_795_737_600_000_000_i64, 1_795_824_000_000_000];
    assert_eq!(count(&format!("end_us={begin_us}")), Some(0));
    assert_eq!(count(&format!("end_us={}", begin_us + 1)), Some(1));
    assert_eq!(count(&format!("begin_us={}", end_us - 1)), Some(1));
    assert_eq!(count(&format!("begin_us={end_us}")), Some(0));
    assert_eq!(count("host=HERE"), Some(1));
    assert_eq!(count("host=rclone"), Some(0));
}

#[test]
fn the_days_that_fill_the_list_are_read_to_their_ends() {
    let scene = Scene::new();
    let mut archive = (scene.desk.open_archive)().expect("an archive");
    for number in 0..3_u32 {
        let day = 9 - number;
        let mut run = build_run(number, BEGIN_US, |_| ());
        run.transfers = (0..600_u64)
            .map(|peer| LimitedTransfers {
                day: format!("2026-11-0{day}"),
                pair: HostPair { from: "here/scp".to_owned(), to: format!("peer-{peer}") },
                limiter: Limiter::Loss,
                transfers: 1,
                bytes: u64::MAX - peer,
            })
            .collect();
        archive.append_runs(&[run.clone()]).expect("stored");
        run.run.id.push('b');
        archive.append_runs(&[run]).expect("sums of any size are stored");
    }
    let list = scene.json("/api/v1/transfers/daily");
    assert_eq!(list["is_complete"], false);
    let rows = list["rows"].as_array().expect("rows");
    let of_day = |day: &str| rows.iter().filter(|row| row["day"] == day).count();
    assert_eq!((of_day("2026-11-09"), of_day("2026-11-08"), rows.len()), (600, 400, 1000));
    assert_eq!(rows[0]["transfers"], 2);
}

#[test]
fn a_series_comes_as_points_or_in_buckets_that_keep_the_extremes() {
    let scene = Scene::new();
    let ask = |points: u32| {
        scene.json(&format!("/api/v1/series?{PAIR}&quantity=goodput&points={points}"))
    };
    let whole = ask(1000);
    assert_eq!(whole["points"].as_array().map(Vec::len), Some(100));
    assert!(whole.get("buckets").is_none());
    let few = ask(10);
    let buckets = few["buckets"].as_array().expect("buckets");
    assert!((2..=10).contains(&buckets.len()));
    assert!(buckets.iter().any(|it| it["max"] == 9e9), "{few}");
    let begin = BEGIN_US + 10 * HOUR_US;
    let end = BEGIN_US + 13 * HOUR_US;
    let part = scene
        .json(&format!("/api/v1/series?{PAIR}&quantity=goodput&begin_us={begin}&end_us={end}"));
    assert_eq!(part["points"].as_array().map(Vec::len), Some(3));
    let never = scene.json("/api/v1/series?from=a&to=b&quantity=hops");
    assert_eq!(never["points"], json!([]));
}

#[test]
fn routes_are_numbered_and_have_their_hops() {
    let scene = Scene::new();
    let routes = scene.json(&format!("/api/v1/routes?{PAIR}"));
    let rows = routes.as_array().expect("rows");
    assert_eq!(rows.len(), 1);
    let row = &rows[0];
    assert_eq!(row["run_id"], "20260911T141500Z-0b77d2");
    assert!(row["number"].as_u64().is_some_and(|it| it > 0));
    assert_eq!(row["hops"][0]["ttl"], 1);
    assert!(row["hops"][0]["address"].is_string());
}

#[test]
fn events_are_listed_shown_and_put_into_a_case() {
    let scene = Scene::new();
    for query in ["", "?state=confirmed", "?open=true&limit=1", &format!("?{PAIR}")] {
        let events = scene.json(&format!("/api/v1/events{query}"));
        assert_eq!(events[0]["id"], "e-1", "{query}");
    }
    assert_eq!(scene.json("/api/v1/events?state=withdrawn"), json!([]));
    let event = scene.json("/api/v1/events/e-1");
    assert_eq!(event["between_us"][0], BEGIN_US + 40 * HOUR_US);
    assert_eq!(event["quantity"], "goodput");
    let case = scene.get("/api/v1/events/e-1/case");
    assert_eq!(case.status, 200);
    assert!(case.head.contains("content-type: text/plain"), "{}", case.head);
    assert!(case.body.contains("slac") && case.body.contains("fell"), "{}", case.body);
    assert!(case.body.lines().all(|line| line.chars().count() <= 78));
    for path in ["/api/v1/events/e-2", "/api/v1/events/e-2/case"] {
        let answer = scene.get(path);
        assert_eq!((answer.status, answer.code().as_str()), (404, "not_found"));
    }
}

#[test]
fn runs_are_listed_and_their_reports_are_those_that_were_stored() {
    let scene = Scene::new();
    let runs = scene.json(&format!("/api/v1/runs?{PAIR}&limit=3"));
    let rows = runs.as_array().expect("rows");
    assert_eq!(rows.len(), 3);
    assert_eq!(rows[0]["id"], "run-099");
    assert_eq!(rows[0]["pair"]["to"], "cesnet");
    assert!(rows[0]["goodput_bps"].as_u64().is_some());
    let hosts = scene.json("/api/v1/runs?kind=host");
    assert_eq!(hosts.as_array().map(Vec::len), Some(1));
    let report = scene.json("/api/v1/runs/run-042");
    assert_eq!(report["schema"], "longhaul.report/1");
    assert_eq!(report["run"]["id"], "run-042");
    for (format, kind) in [("text", "text/plain"), ("html", "text/html")] {
        let answer = scene.get(&format!("/api/v1/runs/run-042?format={format}"));
        assert!(answer.head.contains(&format!("content-type: {kind}")), "{}", answer.head);
        assert!(answer.body.contains("Mbit/s"), "{}", answer.body);
    }
    assert_eq!(scene.get("/api/v1/runs/nosuch").code(), "not_found");
}

#[test]
fn planned_runs_are_counted_and_the_newest_come_first() {
    let scene = Scene::new();
    let (begin, end) = (BEGIN_US, BEGIN_US + 3 * HOUR_US);
    let range = format!("begin_us={begin}&end_us={end}");
    let planned = scene.json(&format!("/api/v1/planned?{range}"));
    assert_eq!(
        planned["counts"],
        json!({ "planned": 3, "done": 1, "missed": 1, "waiting": 1,
            "reasons": [{ "reason": "locked", "runs": 1 }] })
    );
    let ids = |query: &str| -> Vec<String> {
        let planned = scene.json(&format!("/api/v1/planned?{query}"));
        let rows = planned["rows"].as_array().expect("rows");
        rows.iter().map(|it| it["id"].as_str().unwrap_or("").to_owned()).collect()
    };
    assert_eq!(ids(&range), ["p-2", "p-1", "p-0"]);
    assert_eq!(ids(&format!("{range}&limit=2")), ["p-2", "p-1"]);
    assert_eq!(ids(&format!("{range}&state=missed")), ["p-1"]);
    assert_eq!(ids(&format!("{PAIR}&state=done")), ["p-0"]);
    assert!(ids("from=a&to=b").is_empty());
    let few = scene.json(&format!("/api/v1/planned?{range}&limit=1"));
    assert_eq!(few["more"], true);
}

#[test]
fn hosts_have_their_place_and_their_audit() {
    let scene = Scene::new();
    let hosts = scene.json("/api/v1/hosts");
    let row = |name: &str| {
        let rows = hosts.as_array().expect("rows");
        rows.iter().find(|it| it["host"] == name).cloned()
    };
    let far = row("cesnet").expect("the far host");
    assert_eq!((&far["place"], &far["latitude"]), (&json!("Prague"), &json!(50.08)));
    assert_eq!(far["groups"], json!(["europe"]));
    assert_eq!(row("slac").expect("the agent's own")["groups"], json!(["europe"]));
    let mut audited = hosts.as_array().into_iter().flatten();
    let audit = audited.find_map(|it| it["audit_run_id"].as_str());
    assert_eq!(audit, Some("20261122T023434Z-e0dc17"));
}

#[test]
fn metrics_are_open_metrics_with_the_figures() {
    let scene = Scene::new();
    let accept = "accept: application/openmetrics-text;version=1.0.0;q=0.8,text/plain;q=0.5";
    let answer = scene.ask("GET", "/metrics", &[accept], "");
    assert_eq!(answer.status, 200);
    assert!(answer.head.contains("application/openmetrics-text"));
    for line in [
        "longhaul_runs_planned_total 10",
        "longhaul_runs_missed_total{reason=\"locked\"} 2",
        "longhaul_runs_running 1.0",
        "longhaul_today_bytes 12345.0",
        "longhaul_to_send_items 3.0",
        "longhaul_set_aside_items 1.0",
        "longhaul_archive_up 1.0",
        "longhaul_events_open{state=\"confirmed\",from=\"slac\",to=\"cesnet\",\
         quantity=\"goodput\",change=\"fell\"} 1.0",
        "longhaul_goodput_bytes_per_second{from=\"slac\",to=\"cesnet\"} 12500012.375",
        "longhaul_up{measure=\"bulk\",from=\"slac\",to=\"cesnet\"} 1.0",
        "longhaul_up{measure=\"route\",from=\"slac\",to=\"cesnet\"} 0.0",
        "longhaul_interval_seconds{measure=\"bulk\",from=\"slac\",to=\"cesnet\"} 3600.0",
        "longhaul_runs_failed_total{measure=\"route\",from=\"slac\",to=\"cesnet\",\
         reason=\"target\"} 1",
        "longhaul_disk_full 0.0",
        "longhaul_pairs_left_out 0.0",
    ] {
        assert!(answer.body.lines().any(|it| it == line), "{line} in {}", answer.body);
    }
    assert!(answer.body.ends_with("# EOF\n"));
}

#[test]
fn the_page_is_served_with_its_policy_and_other_addresses_lead_to_it() {
    let scene = Scene::new();
    for path in ["/", "/index.html", "/some/place", "/%3Cscript%3E"] {
        let answer = scene.get(path);
        assert_eq!(answer.status, 200, "{path}");
        assert!(answer.body.contains("<title>longhaul</title>"), "{path}");
        assert!(answer.head.contains("cache-control: no-cache"));
        for header in [
            "content-security-policy: default-src 'none'; script-src 'self'",
            "frame-ancestors 'none'",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
        ] {
            assert!(answer.head.contains(header), "{header}: {}", answer.head);
        }
    }
    assert_eq!(scene.get("/assets/gone-12345.js").status, 404);
    assert_eq!(scene.get("/healthz").body, "ok\n");
}

#[test]
fn what_is_asked_for_compressed_comes_compressed() {
    let scene = Scene::new();
    let answer = scene.ask("GET", "/api/v1/openapi.json", &["accept-encoding: gzip"], "");
    assert!(answer.head.contains("content-encoding: gzip"), "{}", answer.head);
}
