//! perfSONAR: the methods of the plug-in for pScheduler, called as it calls them, and templates of
//! pSConfig.

use crate::latency::start_reflector;
use crate::support::{Folder, free_port, longhaul, serve_answer};
use serde_json::{Value, json};
use std::thread;

/// Calls a method, which must succeed.
fn call(method: &str, input: &Value) -> Value {
    let assert =
        longhaul().args(["pscheduler", method]).write_stdin(input.to_string()).assert().success();
    serde_json::from_slice(&assert.get_output().stdout).expect("JSON")
}

/// Runs a test with all its participants at once, and merges their results.
fn run_test(test: &Value, data: &[Value]) -> Value {
    let run = |participant: usize| {
        let input = json!({
            "schema": 1,
            "schedule": {"start": "2026-11-28T00:00:00Z", "duration": "PT60S"},
            "test": test,
            "participant": participant,
            "participant-data": data,
        });
        call("run", &input)
    };
    let results: Vec<Value> = thread::scope(|scope| {
        let runs = (0..data.len()).map(|participant| scope.spawn(move || run(participant)));
        let runs: Vec<_> = runs.collect();
        runs.into_iter().map(|it| it.join().expect("a result")).collect()
    });
    call("merged-results", &json!({"test": test, "results": results}))
}

#[test]
fn two_participants_measure_throughput_with_an_agreed_port_and_token() {
    let test = json!({
        "type": "throughput",
        "spec": {"schema": 7, "dest": "127.0.0.1", "duration": "PT1S", "parallel": 2},
    });
    assert_eq!(call("can-run", &test), json!({"can-run": true}));
    assert_eq!(call("duration", &test), json!({"duration": "PT16S"}));
    let prepare = |number| call("participant-data", &json!({"participant": number, "test": test}));
    let mut data = [prepare(0), prepare(1)];
    assert_eq!(data[0].get("_token"), None);
    assert!(data[1]["_token"].as_str().is_some_and(|token| token.len() >= 16));
    assert!((5201..5211).contains(&data[1]["port"].as_u64().expect("a port")));
    // No other test of this machine has it.
    data[1]["port"] = free_port().into();
    let merged = run_test(&test, &data);
    assert_eq!(merged["succeeded"], true, "{merged}");
    let summary = &merged["summary"]["summary"];
    assert!(summary["throughput-bits"].as_f64() > Some(0.0), "{summary}");
    assert!(summary["receiver-throughput-bits"].as_f64() > Some(0.0), "{summary}");
    assert_eq!(merged["summary"]["streams"].as_array().map(Vec::len), Some(2));
    assert_eq!(merged["intervals"][0]["streams"].as_array().map(Vec::len), Some(2));
    let diags = merged["diags"].as_str().expect("text");
    assert!(!diags.contains('\u{1b}'), "styles of a terminal in {diags}");
    for part in ["Participant 0:", "limited by", "Participant 1:", "finished"] {
        assert!(diags.contains(part), "{part} in {diags}");
    }
}

#[test]
fn a_wrong_token_is_a_failed_result_of_both_participants() {
    let test = json!({"type": "throughput", "spec": {"dest": "127.0.0.1", "duration": "PT1S"}});
    let mut server = call("participant-data", &json!({"participant": 1, "test": test}));
    server["port"] = free_port().into();
    let run = |participant: usize, token: &str| {
        let mut data = server.clone();
        data["_token"] = token.into();
        call(
            "run",
            &json!({
                "schedule": {"start": "2026-11-28T00:00:00Z", "duration": "PT3S"},
                "test": test, "participant": participant, "participant-data": [{}, data],
            }),
        )
    };
    let results = thread::scope(|scope| {
        let tokens = ["0123456789abcdef", "fedcba9876543210"];
        [0, 1]
            .map(|number| scope.spawn(move || run(number, tokens[number])))
            .map(|it| it.join().expect("a result"))
    });
    assert!(results.iter().all(|it| it["succeeded"] == false), "{results:?}");
    let merged = call("merged-results", &json!({"test": test, "results": results}));
    assert_eq!((&merged["succeeded"], &merged["intervals"]), (&json!(false), &json!([])));
    assert!(merged["error"].as_str().is_some_and(|why| why.contains("token")), "{merged}");
}

#[test]
fn rtt_trace_and_mtu_have_the_members_of_their_tests() {
    let run =
        |kind: &str, spec: Value| run_test(&json!({"type": kind, "spec": spec}), &[json!({})]);
    let rtt = run("rtt", json!({"dest": "127.0.0.1", "count": 3, "interval": "PT0.1S"}));
    assert_eq!((&rtt["sent"], &rtt["received"], &rtt["loss"]), (&json!(3), &json!(3), &json!(0.0)));
    assert_eq!(rtt["roundtrips"][2]["seq"], 3, "{rtt}");
    assert!(rtt["min"].as_str().is_some_and(|it| it.starts_with("PT0.")), "{rtt}");
    let trace = run("trace", json!({"dest": "127.0.0.1", "probe-type": "udp", "hostnames": false}));
    assert_eq!(trace["paths"][0][0]["ip"], "127.0.0.1", "{trace}");
    let mtu = run("mtu", json!({"dest": "127.0.0.1"}));
    assert!(mtu["mtu"].as_u64() >= Some(1280), "{mtu}");
    assert_eq!(mtu.get("diags"), None, "the schema has none");
}

#[test]
fn latency_of_each_direction_comes_from_a_reflector() {
    let (reflector, port) = start_reflector(&[]);
    let packets = json!({
        "schema": 4, "source": "127.0.0.1", "dest": "127.0.0.1", "packet-count": 20,
        "packet-interval": 0.01, "packet-padding": 100, "ctrl-port": port,
    });
    for (name, value) in [("output-raw", false), ("reverse", true), ("flip", true)] {
        let mut spec = packets.clone();
        spec[name] = value.into();
        let test = json!({"type": "latency", "spec": spec});
        assert_eq!(call("can-run", &test), json!({"can-run": true}));
        assert_eq!(call("duration", &test), json!({"duration": "PT11S"}));
        let result = run_test(&test, &[json!({})]);
        assert_eq!(result["succeeded"], true, "{result}");
        let histogram = result["histogram-latency"].as_object();
        let histogram = histogram.unwrap_or_else(|| panic!("no delays by one clock: {result}"));
        let delays: u64 = histogram.values().filter_map(Value::as_u64).sum();
        assert_eq!(delays, 20, "{result}");
    }
    drop(reflector);
    let spec = json!({"dest": "127.0.0.1", "packet-count": 1, "ctrl-port": free_port()});
    let failed = run_test(&json!({"type": "latency", "spec": spec}), &[json!({})]);
    let why = failed["error"].as_str().expect("a reason");
    assert!(failed["succeeded"] == false && why.contains("no answer"), "{failed}");
}

#[test]
fn what_longhaul_cannot_measure_is_refused_with_all_reasons() {
    let refused = |kind: &str, spec: Value| {
        let answer = call("can-run", &json!({"type": kind, "spec": spec}));
        assert_eq!(answer["can-run"], false, "{answer}");
        answer["reasons"].to_string()
    };
    let reasons = refused("throughput", json!({"burst-size": 9, "duration": "10 s", "mss": "a b"}));
    for part in ["burst-size", "PT10S", "mss must be", "dest is missing"] {
        assert!(reasons.contains(part), "{part} in {reasons}");
    }
    assert!(refused("throughput", json!({"dest": "a", "parallel": 9999})).contains("--streams"));
    let option = json!({"dest": "a", "probe-type": "output=x", "ip-version": "4 --output=x"});
    let reasons = refused("trace", option);
    assert!(reasons.contains("icmp, udp or tcp") && reasons.contains("4 or 6"), "{reasons}");
    assert!(refused("http", json!({"url": "a"})).contains("latency, rtt, trace and mtu"));
    let reasons = refused("latency", json!({"dest": "a", "data-ports": {}, "protocol": "owamp"}));
    assert!(reasons.contains("data-ports") && reasons.contains("stamp, twamp"), "{reasons}");
}

#[test]
fn a_template_of_perfsonar_is_checked_and_converted_with_what_is_left_out() {
    let folder = Folder::new("psconfig");
    let template = folder.file("mesh.json");
    let text = r#"{"addresses": {"a": {"address": "192.0.2.1"}, "b": {"address": "192.0.2.2"}},
        "groups": {"m": {"type": "mesh", "addresses": [{"name": "a"}, {"name": "b"}]}},
        "schedules": {"s": {"repeat": "PT1H"}},
        "tests": {"t": {"type": "rtt", "spec": {"dest": "{% address[1] %}"}},
            "u": {"type": "dns", "spec": {}}},
        "tasks": {"rtt": {"group": "m", "test": "t", "schedule": "s"},
            "dns": {"group": "m", "test": "u"}}}"#;
    std::fs::write(&template, text).expect("written");
    let path = template.to_str().expect("UTF-8");
    let check = ["watch", "--check", "--psconfig", path, "--agent", "b"];
    let assert = longhaul().args(check).assert().success();
    let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(said.contains("tasks.dns: tests of type dns are not measured"), "{said}");
    let shown = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
    assert!(shown.contains("1 host, 2 pairs"), "{shown}");
    let convert = ["psconfig", "convert", "-", "--agent", "b"];
    let assert = longhaul().args(convert).write_stdin(text).assert().success();
    let file = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
    for part in ["# not taken: tasks.dns", "address = \"192.0.2.1\"", "kind = \"path\"", "[serve]"]
    {
        assert!(file.contains(part), "{part} in {file}");
    }
    let url = serve_text(text);
    let assert = longhaul().args(["psconfig", "convert", &url, "--agent", "b"]).assert().success();
    assert_eq!(String::from_utf8_lossy(&assert.get_output().stdout), file);
    let assert = longhaul().args(["psconfig", "convert", "-"]).write_stdin("{}").assert().code(2);
    let why = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(why.contains("-:1: missing field `addresses`"), "{why}");
}

/// Serves a text by HTTP once. Returns the URL.
fn serve_text(text: &str) -> String {
    let answer = format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{text}");
    serve_answer("mesh.json", answer).0
}

#[test]
fn a_template_or_a_list_of_hosts_is_fetched_and_what_is_neither_is_refused() {
    let folder = Folder::new("psconfig-url");
    let file = folder.file("watch.toml");
    let check = |text: &str| {
        let watch = format!(
            "include = \"{}\"\n[agent]\nname = \"b\"\n[[group]]\nname = \"g\"\n\
             [[measure]]\nname = \"m\"\nkind = \"path\"\nevery = \"1 h\"\n",
            serve_text(text)
        );
        std::fs::write(&file, watch).expect("written");
        longhaul().args(["watch", "--check"]).arg(&file).assert()
    };
    let list = r#"[{"targets": ["192.0.2.7:5300"], "labels": {"groups": "g"}}]"#;
    let output = check(list).success().get_output().stdout.clone();
    assert!(String::from_utf8_lossy(&output).contains("1 host, 2 pairs"), "{output:?}");
    let output = check("<html>").code(2).get_output().stderr.clone();
    let why = String::from_utf8_lossy(&output);
    assert!(why.contains("/mesh.json:1: expected value"), "{why}");
    let watch = ["watch", "--check", "--psconfig", "http://127.0.0.1:1/mesh.json"];
    let output = longhaul().args(watch).assert().code(2).get_output().stderr.clone();
    let why = String::from_utf8_lossy(&output);
    assert!(why.contains("cannot read http://127.0.0.1:1/mesh.json"), "{why}");
    assert!(why.contains("refused"), "{why}");
}
