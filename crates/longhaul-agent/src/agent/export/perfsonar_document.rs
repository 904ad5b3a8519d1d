//! Runs as the documents that pScheduler sends to archives.
//!
//! Source: perfsonar/pscheduler 5.2 (`daemons/archiver.raw`, the validators of the tests) and the fields
//! that the pipeline of perfsonar/logstash reads. A run of a path is up to three documents, because
//! pScheduler has a test each for RTT, route and path MTU.

use crate::watch::watch_file::WatchFile;
use jiff::{SignedDuration, Timestamp};
use longhaul_model::report::v1::plan::{RunDirection, RunTransport, StopCondition, ThroughputPlan};
use longhaul_model::report::v1::{AnyReport, HostPair, PathReport, RunInfo, ThroughputReport};
use longhaul_report::pscheduler_json::{PschedulerTest, to_path_result, to_throughput_result};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use std::net::IpAddr;

/// The length of the intervals of a result of throughput.
const INTERVAL_US: u64 = 1_000_000;

/// The two ends of a run as addresses or names, of which the first is where the run began.
struct ArchivedEnds {
    near: String,
    far: String,
    /// 4 or 6, if it is known.
    ip_version: Option<u8>,
}

/// Returns the documents of a run that the host `near` began. There are none for kinds of reports that
/// pScheduler has no test for, and none for parts of a path that were not measured.
pub fn build_documents(
    file: &WatchFile,
    near: &str,
    pairs: &[HostPair],
    report: &AnyReport,
) -> Vec<Value> {
    let Some(pair) = pairs.first() else {
        return Vec::new();
    };
    let far = if pair.from == near { &pair.to } else { &pair.from };
    match report {
        AnyReport::Throughput(report) => {
            let ends = find_ends(file, near, far, report.run.initiator.address.as_ref());
            vec![build_throughput_document(report, &ends)]
        }
        AnyReport::Path(report) => {
            let ends = find_ends(file, near, far, report.observation.source.as_ref());
            let tests = [
                (PschedulerTest::Rtt, "rtt"),
                (PschedulerTest::Trace, "trace"),
                (PschedulerTest::Mtu, "mtu"),
            ];
            let document = |(test, name)| build_path_document(report, &ends, test, name);
            tests.into_iter().filter_map(document).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the addresses of the watch file; for a near end without one in the family of the far end,
/// the address that the run was made from.
fn find_ends(file: &WatchFile, near: &str, far: &str, used: Option<&String>) -> ArchivedEnds {
    let declared = |name: &str| file.hosts.iter().find(|host| host.name == name);
    let far = declared(far).map_or(far, |host| &host.address).to_owned();
    let is_v4 = |text: &str| text.parse::<IpAddr>().ok().map(|it| it.is_ipv4());
    let own = declared(near).map(|host| &host.address).filter(|address| *address != near);
    let fits =
        own.is_some_and(|own| is_v4(own).zip(is_v4(&far)).is_none_or(|(own, far)| own == far));
    let chosen = own.filter(|_| fits).or(used).or(own);
    let near = chosen.map_or(near, String::as_str).to_owned();
    let family = used.and_then(|used| is_v4(used)).or(is_v4(&far));
    let ip_version = family.map(|is_v4| if is_v4 { 4 } else { 6 });
    ArchivedEnds { near, far, ip_version }
}

fn build_throughput_document(report: &ThroughputReport, ends: &ArchivedEnds) -> Value {
    let plan = &report.plan;
    let is_reverse = plan.direction == RunDirection::Reverse;
    let (source, dest) = if is_reverse { (&ends.far, &ends.near) } else { (&ends.near, &ends.far) };
    let spec = build_throughput_spec(plan, &report.run);
    let test = build_test("throughput", spec, ends, [source, dest]);
    let result = to_throughput_result(report, INTERVAL_US);
    build_document(&report.run, &ends.near, &test, &[source, dest], &result)
}

fn build_throughput_spec(plan: &ThroughputPlan, run: &RunInfo) -> Value {
    let time_us = match plan.stop {
        StopCondition::TimeUs(us) => us,
        _ => run.duration_us,
    };
    let mut spec = json!({"schema": 1, "duration": format_seconds(time_us)});
    if plan.streams > 1 {
        spec["parallel"] = plan.streams.into();
    }
    if let RunTransport::Udp { rate_bps } = plan.transport {
        spec["udp"] = true.into();
        spec["bandwidth"] = rate_bps.into();
    } else if let Some(rate) = plan.write_rate_bps {
        spec["bandwidth"] = rate.into();
    }
    if let Some(bytes) = plan.send_buffer_bytes {
        spec["window-size"] = bytes.into();
    }
    if let Some(name) = &plan.congestion_control {
        spec["congestion"] = name.as_str().into();
    }
    spec
}

fn build_path_document(
    report: &PathReport,
    ends: &ArchivedEnds,
    test: PschedulerTest,
    name: &str,
) -> Option<Value> {
    let result = to_path_result(report, test).ok()?;
    let spec = match test {
        PschedulerTest::Rtt => json!({"schema": 1, "count": report.plan.round_trips.probes.max(1)}),
        PschedulerTest::Mtu => json!({"schema": 2}),
        _ => json!({"schema": 1}),
    };
    let test = build_test(name, spec, ends, [&ends.near, &ends.far]);
    Some(build_document(&report.run, &ends.near, &test, &[&ends.near], &result))
}

fn build_test(
    name: &str,
    mut spec: Value,
    ends: &ArchivedEnds,
    [source, dest]: [&String; 2],
) -> Value {
    spec["source"] = source.as_str().into();
    spec["dest"] = dest.as_str().into();
    if let Some(version) = ends.ip_version {
        spec["ip-version"] = version.into();
    }
    json!({"type": name, "spec": spec})
}

/// Builds a document. Its ids are derived from the run, so that a repeated document has the same; a task
/// is all runs of one test. The URLs name the agent, where no pScheduler has to answer.
fn build_document(
    run: &RunInfo,
    near: &str,
    test: &Value,
    participants: &[&String],
    result: &Value,
) -> Value {
    let task_id = derive_uuid(&[near, &test.to_string()]);
    let run_id = derive_uuid(&[near, &run.id, &test.to_string()]);
    let host = if near.contains(':') { format!("[{near}]") } else { near.to_owned() };
    let task_href = format!("https://{host}/pscheduler/tasks/{task_id}");
    let run_href = format!("{task_href}/runs/{run_id}");
    let duration = format_seconds(run.duration_us);
    let (start, end) = (&run.started_at, find_end(run));
    json!({
        "id": run_id,
        "schedule": {"start": start, "duration": duration},
        "tool": {"name": "longhaul", "version": run.longhaul},
        "run": {
            "href": run_href,
            "task-href": task_href,
            "start-time": start,
            "end-time": end,
            "duration": duration,
            "added": start,
            "participant": 0,
            "participants": participants,
            "state": "finished",
            "state-display": "Finished",
            "errors": null,
        },
        "task": {
            "href": task_href,
            "test": test,
            "tool": "longhaul",
            "detail": {"duration": duration, "participant": 0, "participants": participants},
        },
        "test": test,
        "participants": participants,
        "result": result,
        "reference": {"longhaul": {"run": run.id}},
    })
}

/// Returns the end of a run in UTC, or its start if that cannot be read.
fn find_end(run: &RunInfo) -> String {
    let lasting = SignedDuration::from_micros(i64::try_from(run.duration_us).unwrap_or(i64::MAX));
    let end = run.started_at.parse::<Timestamp>().ok().and_then(|it| it.checked_add(lasting).ok());
    end.map_or_else(|| run.started_at.clone(), |end| end.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// Formats a time as whole seconds of ISO 8601, rounded up.
fn format_seconds(us: u64) -> String {
    format!("PT{}S", us.div_ceil(1_000_000))
}

/// Returns a UUID of version 8 (RFC 9562) that is derived from these texts.
fn derive_uuid(texts: &[&str]) -> String {
    let digest = digest(&SHA256, texts.join("\n").as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest.as_ref()[..16]);
    let bits = u128::from_be_bytes(bytes);
    let bits = bits & !(0xF << 76 | 0b11 << 62) | 8 << 76 | 0b10 << 62;
    let hex = format!("{bits:032x}");
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::watch_file::{SecretFileState, WatchFileContext, parse_watch_file};
    use std::path::Path;

    const PATH: &str = include_str!("../../../../../fixtures/reports/path-balanced-v6.json");
    const BULK: &str = include_str!("../../../../../fixtures/reports/slac-daresbury-window.json");

    fn watch_file(own_address: &str) -> WatchFile {
        let text = format!(
            "[agent]\nname = \"a\"\n[[host]]\nname = \"a\"\n{own_address}\n[[host]]\nname = \"b\"\n\
             address = \"b.example.net\"\n[[target]]\nhost = \"b\"\n[[measure]]\nname = \"m\"\n\
             kind = \"path\"\nevery = \"1 h\"\n"
        );
        let here =
            WatchFileContext { agent: None, check_secret: &|_: &Path| SecretFileState::Private };
        parse_watch_file("w", &text, &here).expect("right")
    }

    fn documents(file: &WatchFile, report: &AnyReport) -> Vec<Value> {
        let pair = HostPair { from: "a".to_owned(), to: "b".to_owned() };
        build_documents(file, "a", &[pair], report)
    }

    #[test]
    fn a_path_is_a_document_for_each_test_and_import_reads_them() {
        let report = AnyReport::Path(serde_json::from_str(PATH).expect("a report"));
        let found = documents(&watch_file("address = \"a.example.net\""), &report);
        let tests: Vec<&str> = found.iter().filter_map(|it| it["test"]["type"].as_str()).collect();
        assert_eq!(tests, ["rtt", "trace", "mtu"]);
        for document in &found {
            let spec = &document["test"]["spec"];
            let ends = (&spec["source"], &spec["dest"], &spec["ip-version"]);
            assert_eq!(ends, (&json!("a.example.net"), &json!("b.example.net"), &json!(6)));
            assert_eq!(document["participants"], json!(["a.example.net"]));
            assert_eq!(document["result"]["succeeded"], true);
            let id = document["id"].as_str().expect("an id");
            let task = document["task"]["href"].as_str().expect("a URL");
            assert!(task.starts_with("https://a.example.net/pscheduler/tasks/"), "{task}");
            assert_eq!(document["run"]["href"], format!("{task}/runs/{id}"));
            let read = longhaul_import::parse_output(&document.to_string(), None);
            let read = read.unwrap_or_else(|error| panic!("{error}: {document}"));
            assert_eq!(read[0].observation.far.as_deref(), Some("b.example.net"));
        }
        let ids: std::collections::BTreeSet<String> =
            found.iter().map(|it| it["id"].to_string()).collect();
        assert_eq!(ids.len(), 3);
        assert_eq!(documents(&watch_file("address = \"a.example.net\""), &report), found);
    }

    #[test]
    fn the_source_of_a_reverse_run_is_the_far_end() {
        let mut report: ThroughputReport = serde_json::from_str(BULK).expect("a report");
        report.run.initiator.address = Some("192.0.2.9".to_owned());
        let ends = |report: &ThroughputReport, own: &str| {
            let any = AnyReport::Throughput(Box::new(report.clone()));
            let found = documents(&watch_file(own), &any);
            let spec = &found[0]["test"]["spec"];
            [&spec["source"], &spec["dest"]].map(|it| it.as_str().expect("a name").to_owned())
        };
        assert_eq!(ends(&report, ""), ["192.0.2.9", "b.example.net"]);
        report.plan.direction = RunDirection::Reverse;
        assert_eq!(ends(&report, ""), ["b.example.net", "192.0.2.9"]);
    }

    #[test]
    fn a_uuid_has_its_version_and_variant() {
        let uuid = derive_uuid(&["a", "b"]);
        let parts: Vec<&str> = uuid.split('-').collect();
        assert_eq!(parts.iter().map(|it| it.len()).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
        assert!(parts[2].starts_with('8') && parts[3].starts_with(['8', '9', 'a', 'b']), "{uuid}");
    }
}
