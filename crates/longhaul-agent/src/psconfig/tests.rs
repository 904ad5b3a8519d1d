use super::*;
use crate::watch::watch_file::{
    ArchiveMethod, MeasureDirections, MeasureKind, SecretFileState, WatchFile, WatchFileContext,
    parse_watch_file,
};
use longhaul_model::units::Rate;
use serde_json::json;
use std::path::Path;

/// A template with three addresses, a mesh and one task of the type of the test.
fn template(test: &Value) -> Value {
    json!({
        "addresses": {
            "a": {"address": "192.0.2.1", "host": "host-a", "tags": ["x"]},
            "b": {"address": "192.0.2.2", "tags": ["x"]},
            "c:6": {"address": "2001:db8::3"},
        },
        "hosts": {"host-a": {}},
        "groups": {"g": {"type": "mesh", "addresses": [{"name": "a"}, {"name": "b"}, {"name": "c:6"}]}},
        "schedules": {"s": {"repeat": "PT1H", "sliprand": true, "slip": "PT10M"}},
        "tests": {"t": test},
        "tasks": {"one": {"group": "g", "test": "t", "schedule": "s"}},
    })
}

fn throughput() -> Value {
    json!({"type": "throughput", "spec": {
        "source": "{% address[0] %}", "dest": "{% address[1] %}", "duration": "PT20S"}})
}

fn convert(template: &Value, host: &str) -> ConvertedTemplate {
    convert_template("t.json", &template.to_string(), &[host.to_owned()]).expect("a template")
}

/// Returns the watch file of a template.
fn watch(template: &Value, host: &str) -> WatchFile {
    let tables = convert(template, host).tables;
    let text = format!("[agent]\nname = {}\n{tables}", quote(host));
    let context =
        WatchFileContext { agent: None, check_secret: &|_: &Path| SecretFileState::Private };
    parse_watch_file("w", &text, &context).unwrap_or_else(|problems| panic!("{problems}\n{text}"))
}

/// Returns names and addresses of the hosts that are measured.
fn targets(file: &WatchFile) -> Vec<(&str, &str)> {
    let own = file.own_host().name.as_str();
    let others = file.hosts.iter().filter(|host| host.name != own);
    others.map(|host| (host.name.as_str(), host.address.as_str())).collect()
}

#[test]
fn a_host_measures_the_pairs_of_a_mesh_that_it_begins() {
    let mut file = template(&throughput());
    file["tests"]["t"]["spec"]["parallel"] = 4.into();
    file["tests"]["t"]["spec"]["bandwidth"] = 1_000_000_000.into();
    let file = watch(&file, "a");
    assert_eq!(targets(&file), [("b", "192.0.2.2"), ("c-6", "2001:db8::3")]);
    let [one] = &file.measures[..] else { panic!("{:?}", file.measures) };
    assert_eq!((one.name.as_str(), one.kind), ("one", MeasureKind::Throughput));
    assert_eq!(one.directions, MeasureDirections::Forward);
    assert_eq!((one.every.as_secs(), one.jitter.as_secs()), (3600, 600));
    assert_eq!((one.time().as_secs(), one.streams), (20, Some(4)));
    assert_eq!(one.rate.map(Rate::as_bps), Some(1_000_000_000));
}

#[test]
fn a_host_is_known_by_name_address_or_host_and_others_are_an_error() {
    let template = template(&throughput());
    for host in ["a", "192.0.2.1", "HOST-A"] {
        assert!(convert(&template, host).tables.contains("address = \"192.0.2.2\""), "{host}");
    }
    let unknown = convert_template("t.json", &template.to_string(), &["z".to_owned()]);
    let why = unknown.expect_err("no address").to_string();
    assert!(why.starts_with("t.json: no address of this template is `z`"), "{why}");
}

#[test]
fn a_reverse_test_and_one_for_a_host_without_an_agent_are_measured_in_the_other_direction() {
    let mut file = template(&throughput());
    file["tests"]["t"]["spec"]["reverse"] = true.into();
    let reverse = watch(&file, "a");
    assert_eq!(reverse.measures[0].directions, MeasureDirections::Reverse);
    file["tests"]["t"]["spec"]["reverse"] = false.into();
    file["addresses"]["b"]["no-agent"] = true.into();
    let both = watch(&file, "a");
    let names: Vec<&str> = both.measures.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["one-reverse", "one"]);
    let groups: Vec<usize> = both.sets.iter().map(|set| set.hosts.len()).collect();
    assert_eq!(groups, [1, 2], "b does not begin, so that a measures both directions");
}

#[test]
fn labels_remote_addresses_and_exclusions_choose_addresses_and_pairs() {
    let mut file = template(&throughput());
    file["addresses"]["b"] = json!({"address": "192.0.2.2",
        "remote-addresses": {"a": {"labels": {"backup": {"address": "198.51.100.2"}}}}});
    file["addresses"]["a"]["labels"] = json!({"backup": {"address": "198.51.100.1"}});
    file["groups"]["g"] = json!({"type": "disjoint", "default-address-label": "backup",
        "a-addresses": [{"name": "a"}], "b-addresses": [{"name": "b"}, {"name": "c:6"}]});
    assert_eq!(targets(&watch(&file, "a")), [("b", "198.51.100.2")], "c has no such label");
    assert_eq!(targets(&watch(&file, "b")), [("a", "198.51.100.1")]);
    file["groups"]["g"]["unidirectional"] = true.into();
    assert!(!convert(&file, "b").tables.contains("[[measure]]"));
    let mut file = template(&throughput());
    file["groups"]["g"]["excludes"] =
        json!([{"local-address": {"name": "a"}, "target-addresses": [{"name": "b"}]}]);
    assert_eq!(targets(&watch(&file, "a")), [("c-6", "2001:db8::3")]);
    file["addresses"]["c:6"]["host"] = "host-a".into();
    assert!(!convert(&file, "a").tables.contains("[[measure]]"), "the other is of the same host");
}

#[test]
fn classes_choose_addresses_by_tag_version_and_network() {
    let mut file = template(&throughput());
    file["groups"]["g"]["addresses"] = json!([{"class": "k"}]);
    for (filter, expected) in [
        (json!({"type": "tag", "tag": "x"}), 1),
        (json!({"type": "ip-version", "ip-version": 4}), 1),
        (json!({"type": "netmask", "netmask": "192.0.2.0/30"}), 1),
        (
            json!({"type": "or", "filters": [{"type": "tag", "tag": "x"},
            {"type": "not", "filter": {"type": "ip-version", "ip-version": 4}}]}),
            2,
        ),
        (
            json!({"type": "and", "filters": [{"type": "tag", "tag": "x"},
            {"type": "netmask", "netmask": "192.0.2.2/32"}]}),
            0,
        ),
    ] {
        let source = json!({"type": "current-config"});
        file["address-classes"] = json!({"k": {"data-source": source, "match-filter": filter}});
        let hosts = convert(&file, "a").tables.matches("address = ").count();
        assert_eq!(hosts, 1 + expected, "{filter}");
    }
}

#[test]
fn cycles_and_unknown_references_are_said_and_end() {
    let mut file = template(&throughput());
    file["groups"]["g"]["addresses"] = json!([{"class": "k"}]);
    let other = |class: &str| {
        json!({"data-source": {"type": "current-config"},
            "match-filter": {"type": "address-class", "class": class}})
    };
    file["address-classes"] = json!({"k": other("l"), "l": other("k")});
    assert!(
        convert(&file, "a").notes[0].contains("tasks.one: address classes refer to each other")
    );
    for (place, name) in [("group", "group"), ("test", "test"), ("schedule", "schedule")] {
        let mut file = template(&throughput());
        file["tasks"]["one"][place] = "gone".into();
        assert_eq!(convert(&file, "a").notes, [format!("tasks.one: unknown {name} gone")]);
    }
}

#[test]
fn what_is_not_measured_is_said_line_by_line() {
    let notes = |change: &dyn Fn(&mut Value)| {
        let mut file = template(&throughput());
        change(&mut file);
        convert(&file, "a").notes.join("\n")
    };
    let dns = notes(&|it| it["tests"]["t"]["type"] = "dns".into());
    assert_eq!(dns, "tasks.one: tests of type dns are not measured by longhaul");
    let udp = notes(&|it| it["tests"]["t"]["spec"]["udp"] = true.into());
    assert!(udp.contains("UDP"), "{udp}");
    let cron = notes(&|it| it["schedules"]["s"] = json!({"repeat-cron": "* * * * *"}));
    assert!(cron.contains("repeat-cron"), "{cron}");
    let once = notes(&|it| it["tasks"]["one"]["schedule"] = Value::Null);
    assert!(once.contains("no schedule that repeats"), "{once}");
    let variable = notes(&|it| it["tests"]["t"]["spec"]["dest"] = "{% jq .a %}".into());
    assert!(variable.contains("variable jq .a"), "{variable}");
    let more = notes(&|it| {
        it["tests"]["t"]["spec"]["mss"] = 1400.into();
        it["archives"] = json!({"x": {"archiver": "http", "data": {}}});
        it["tasks"]["one"]["archives"] = json!(["x"]);
        it["schedules"]["s"]["until"] = "2027-01-01T00:00:00Z".into();
        it["includes"] = json!(["https://a.example.net/\u{1b}[2J"]);
    });
    for part in [
        "mss is ignored",
        "until is ignored",
        "archive x: missing field `_url`",
        "includes: https://a",
    ] {
        assert!(more.contains(part), "{part} in {more}");
    }
    assert!(!more.contains('\u{1b}'), "{more}");
}

#[test]
fn an_http_archive_of_a_task_or_a_host_gets_the_results() {
    let mut file = template(&throughput());
    let data = json!({"schema": 3, "_url": "https://archive.example.net/logstash", "op": "put",
        "_headers": {"x-ps-observer": "{% scheduled_by_address %}", "x-none": null}});
    file["archives"] = json!({"x": {"archiver": "http", "data": data},
        "y": {"archiver": "http", "data": {"_url": "http://y/", "verify-ssl": true}},
        "z": {"archiver": "rabbitmq", "data": {}},
        "t": {"archiver": "http", "data": {"_url": "http://t/"}, "transform": {"script": "."}}});
    file["tasks"]["one"]["archives"] = json!(["z", "t", "x", "gone"]);
    file["hosts"]["host-a"]["archives"] = json!(["x", "y"]);
    let mut other = file["tasks"]["one"].clone();
    other["archives"] = json!([]);
    file["tasks"]["two"] = other;
    let read = watch(&file, "a");
    let [archive, second] = &read.perfsonar_archives[..] else {
        panic!("{:?}", read.perfsonar_archives);
    };
    assert_eq!(archive.url, "https://archive.example.net/logstash");
    assert_eq!((&second.url[..], second.verify_certificate), ("http://y/", true));
    assert_eq!((archive.method, archive.verify_certificate), (ArchiveMethod::Put, false));
    let headers: Vec<(&str, &str)> =
        archive.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(headers, [("x-ps-observer", "192.0.2.1")]);
    assert_eq!(read.own_host().address, "192.0.2.1");
    let notes = convert(&file, "a").notes.join("\n");
    for part in ["z: its archiver is rabbitmq", "t: its transform", "gone: it is unknown"] {
        assert!(notes.contains(part), "{part} in {notes}");
    }
    file["hosts"] = json!({});
    let notes = convert(&file, "a").notes.join("\n");
    assert!(notes.contains("tasks.two: results are sent to the archive x, too"), "{notes}");
    assert!(!notes.contains("tasks.one: results are sent"), "{notes}");
}

#[test]
fn errors_have_line_and_path() {
    let text = "{\n\"addresses\": {},\n\"groups\": {}, \"tests\": {},\n\"tasks\": {\"x\": {\"group\": 1}}}";
    let why = convert_template("t.json", text, &["a".to_owned()]).expect_err("wrong").to_string();
    assert!(why.starts_with("t.json:4: tasks.x.group: invalid type: integer `1`"), "{why}");
    let why = convert_template("t.json", "{", &[]).expect_err("cut").to_string();
    assert!(why.starts_with("t.json:1: "), "{why}");
}

#[test]
fn a_template_with_100_000_addresses_is_bounded_work() {
    let mut file = template(&throughput());
    let numbers = 0..100_000;
    let others = numbers.clone().map(|it| (format!("n{it}"), json!({"address": format!("n{it}")})));
    file["addresses"].as_object_mut().expect("addresses").extend(others);
    let selectors: Vec<Value> = numbers.map(|it| json!({"name": format!("n{it}")})).collect();
    file["groups"]["g"] =
        json!({"type": "disjoint", "a-addresses": selectors, "b-addresses": [{"name": "a"}]});
    let converted = convert(&file, "a");
    assert_eq!(converted.tables.matches("[[host]]").count(), 100_001);
    for address in file["addresses"].as_object_mut().expect("addresses").values_mut() {
        address["host"] = "everywhere".into();
    }
    file["groups"]["g"]["b-addresses"] = file["groups"]["g"]["a-addresses"].clone();
    let notes = convert(&file, "everywhere").notes;
    assert!(notes[0].contains("more than 5000000 pairs"), "{notes:?}");
}

#[test]
fn tests_of_one_address_take_their_destination_from_the_specification() {
    let test = json!({"type": "rtt", "spec": {"dest": "far.example.net", "count": 20}});
    let mut file = template(&test);
    file["groups"]["g"]["type"] = "list".into();
    let file = watch(&file, "b");
    assert_eq!(targets(&file), [("far.example.net", "far.example.net")]);
    assert_eq!((file.measures[0].kind, file.measures[0].count()), (MeasureKind::Path, 20));
}
