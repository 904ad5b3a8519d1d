//! Runs as the documents that pScheduler sends to archives.
//!
//! Source: perfsonar/pscheduler 5.2 (`daemons/archiver.raw`, the validators of the tests) and the fields
//! that the pipeline of perfsonar/logstash reads. A run of a path is up to three documents, because
//! pScheduler has a test each for RTT, route and path MTU.

use crate::watch::run_schedule::{FAILED_REASON, is_id_of_agent};
use crate::watch::watch_file::{MeasureConfig, MeasureKind, WatchFile};
use jiff::{SignedDuration, Timestamp};
use longhaul_model::report::v1::plan::{RunDirection, RunTransport, StopCondition, ThroughputPlan};
use longhaul_model::report::v1::{AnyReport, HostPair, PathReport, RunInfo, ThroughputReport};
use longhaul_model::units::Rate;
use longhaul_report::pscheduler_json::{
    PschedulerTest, build_failed_result, to_latency_result, to_path_result, to_throughput_result,
};
use longhaul_store::history_store::{PlannedOutcome, PlannedRun};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use std::net::IpAddr;

/// The length of the intervals of a result of throughput.
const INTERVAL_US: u64 = 1_000_000;
/// The time between the packets of a latency run of an agent.
const LATENCY_INTERVAL_US: u64 = 100_000;

/// The two ends of a run as addresses or names, of which the first is where the run began.
struct ArchivedEnds {
    near: String,
    far: String,
    /// 4 or 6, if it is known.
    ip_version: Option<u8>,
}

/// The run of a document.
struct DocumentedRun<'a> {
    id: &'a str,
    /// `run` of the id of a report, `planned` of a planned run.
    id_kind: &'static str,
    started_at: String,
    duration_us: u64,
    /// Of longhaul.
    version: &'a str,
}

impl<'a> DocumentedRun<'a> {
    fn of(run: &'a RunInfo) -> DocumentedRun<'a> {
        let started_at = run.started_at.clone();
        let RunInfo { id, duration_us, longhaul, .. } = run;
        DocumentedRun {
            id,
            id_kind: "run",
            started_at,
            duration_us: *duration_us,
            version: longhaul,
        }
    }
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
        // Without an answer the run has failed, and has the document of a failure.
        AnyReport::Latency(report) if report.analysis.answered_packets > 0 => {
            let ends = find_ends(file, near, far, report.run.initiator.address.as_ref());
            let plan = &report.plan;
            let spec = build_latency_spec(plan.packets, plan.interval_us);
            let document = |is_forward: bool| {
                let test = build_test("latency", spec.clone(), &ends, !is_forward);
                let result = to_latency_result(report, is_forward);
                build_document(&DocumentedRun::of(&report.run), &ends, &test, &result)
            };
            [true, false].into_iter().map(document).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the documents of a planned run of this agent that was tried and has no result. There is none
/// of a path MTU, because its schema has no failure.
pub fn build_failed_documents(file: &WatchFile, planned: &PlannedRun) -> Vec<Value> {
    let near = &file.agent.name;
    let measure = file.measures.iter().find(|it| it.name == planned.measurement);
    let (Some(PlannedOutcome::Missed { reason, detail }), Some(measure), Some(pair)) =
        (&planned.outcome, measure, &planned.pair)
    else {
        return Vec::new();
    };
    if reason != FAILED_REASON || !is_id_of_agent(&planned.id, near) {
        return Vec::new();
    }
    let is_reverse = pair.to == *near;
    let ends = find_ends(file, near, if is_reverse { &pair.from } else { &pair.to }, None);
    let run = DocumentedRun {
        id: &planned.id,
        id_kind: "planned",
        started_at: format_timestamp(
            Timestamp::from_microsecond(planned.due_us).unwrap_or_default(),
        ),
        duration_us: u64::try_from(measure.max_duration().as_micros()).unwrap_or(u64::MAX),
        version: env!("CARGO_PKG_VERSION"),
    };
    let error = detail.as_deref().unwrap_or(reason);
    let document = |(name, spec)| {
        let test = build_test(name, spec, &ends, is_reverse);
        build_document(&run, &ends, &test, &build_failed_result(name, error, ""))
    };
    list_tests(measure).into_iter().map(document).collect()
}

/// Returns the tests of a measurement with their specifications.
fn list_tests(measure: &MeasureConfig) -> Vec<(&'static str, Value)> {
    match measure.kind {
        MeasureKind::Throughput => {
            let plan = ThroughputPlan {
                stop: StopCondition::TimeUs(measure.time().as_micros() as u64),
                streams: measure.streams.unwrap_or(1),
                send_buffer_bytes: measure.window,
                congestion_control: measure.congestion_control.clone(),
                write_rate_bps: measure.rate.map(Rate::as_bps),
                ..ThroughputPlan::default()
            };
            vec![("throughput", build_throughput_spec(&plan, 0))]
        }
        MeasureKind::Latency => {
            vec![("latency", build_latency_spec(measure.count(), LATENCY_INTERVAL_US))]
        }
        MeasureKind::Path => [(PschedulerTest::Rtt, "rtt"), (PschedulerTest::Trace, "trace")]
            .map(|(test, name)| (name, build_path_spec(test, measure.count())))
            .into(),
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
    let is_reverse = report.plan.direction == RunDirection::Reverse;
    let spec = build_throughput_spec(&report.plan, report.run.duration_us);
    let test = build_test("throughput", spec, ends, is_reverse);
    let result = to_throughput_result(report, INTERVAL_US);
    build_document(&DocumentedRun::of(&report.run), ends, &test, &result)
}

fn build_throughput_spec(plan: &ThroughputPlan, duration_us: u64) -> Value {
    let time_us = match plan.stop {
        StopCondition::TimeUs(us) => us,
        _ => duration_us,
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
    let spec = build_path_spec(test, report.plan.round_trips.probes);
    let test = build_test(name, spec, ends, false);
    Some(build_document(&DocumentedRun::of(&report.run), ends, &test, &result))
}

fn build_path_spec(test: PschedulerTest, count: u32) -> Value {
    match test {
        PschedulerTest::Rtt => json!({"schema": 1, "count": count.max(1)}),
        PschedulerTest::Mtu => json!({"schema": 2}),
        _ => json!({"schema": 1}),
    }
}

fn build_latency_spec(packets: u32, interval_us: u64) -> Value {
    let interval_s = interval_us as f64 / 1e6;
    json!({"schema": 1, "packet-count": packets, "packet-interval": interval_s})
}

fn build_test(name: &str, mut spec: Value, ends: &ArchivedEnds, is_reverse: bool) -> Value {
    let (source, dest) = if is_reverse { (&ends.far, &ends.near) } else { (&ends.near, &ends.far) };
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
    run: &DocumentedRun<'_>,
    ends: &ArchivedEnds,
    test: &Value,
    result: &Value,
) -> Value {
    let near = ends.near.as_str();
    let participants = match test["type"].as_str() {
        Some("throughput") => json!([test["spec"]["source"], test["spec"]["dest"]]),
        _ => json!([near]),
    };
    let task_id = derive_uuid(&[near, &test.to_string()]);
    let run_id = derive_uuid(&[near, run.id, &test.to_string()]);
    let host = if near.contains(':') { format!("[{near}]") } else { near.to_owned() };
    let task_href = format!("https://{host}/pscheduler/tasks/{task_id}");
    let run_href = format!("{task_href}/runs/{run_id}");
    let duration = format_seconds(run.duration_us);
    let (start, end) = (&run.started_at, find_end(run));
    let has_succeeded = result["succeeded"] == true;
    let (state, display) =
        if has_succeeded { ("finished", "Finished") } else { ("failed", "Failed") };
    json!({
        "id": run_id,
        "schedule": {"start": start, "duration": duration},
        "tool": {"name": "longhaul", "version": run.version},
        "run": {
            "href": run_href,
            "task-href": task_href,
            "start-time": start,
            "end-time": end,
            "duration": duration,
            "added": start,
            "participant": 0,
            "participants": participants,
            "state": state,
            "state-display": display,
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
        "reference": {"longhaul": {run.id_kind: run.id}},
    })
}

/// Returns the end of a run in UTC, or its start if that cannot be read.
fn find_end(run: &DocumentedRun<'_>) -> String {
    let lasting = SignedDuration::from_micros(i64::try_from(run.duration_us).unwrap_or(i64::MAX));
    let end = run.started_at.parse::<Timestamp>().ok().and_then(|it| it.checked_add(lasting).ok());
    end.map_or_else(|| run.started_at.clone(), format_timestamp)
}

/// Formats a time in UTC, with whole seconds.
fn format_timestamp(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
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
    use longhaul_model::report::v1::LatencyReport;
    use std::path::Path;

    const PATH: &str = include_str!("../../../../../fixtures/reports/path-balanced-v6.json");
    const LATENCY: &str = include_str!("../../../../../fixtures/reports/latency-asymmetric.json");
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
    fn a_session_of_latency_is_a_document_for_each_direction_and_import_reads_them() {
        let report: LatencyReport = serde_json::from_str(LATENCY).expect("a report");
        let analysis = &report.analysis;
        let counts = [&analysis.forward, &analysis.reverse]
            .map(|it| it.as_ref().and_then(|it| it.counts).expect("counts"));
        let found = documents(
            &watch_file("address = \"a.example.net\""),
            &AnyReport::Latency(Box::new(report)),
        );
        let ends = |document: &Value| {
            let spec = &document["test"]["spec"];
            [&spec["source"], &spec["dest"]].map(|it| it.as_str().expect("a name").to_owned())
        };
        assert_eq!(ends(&found[0]), ["a.example.net", "b.example.net"]);
        assert_eq!(ends(&found[1]), ["b.example.net", "a.example.net"]);
        for (document, counts) in found.iter().zip(counts) {
            let result = &document["result"];
            assert_eq!(result["packets-sent"], counts.sent);
            let delays = result["histogram-latency"].as_object().expect("delays");
            let packets = delays.values().filter_map(Value::as_u64).sum::<u64>();
            assert_eq!(packets, found[0]["result"]["packets-received"].as_u64().expect("a count"));
            assert_eq!(document["participants"], json!(["a.example.net"]));
            let read = longhaul_import::parse_output(&document.to_string(), None);
            assert!(read.is_ok(), "{read:?}");
        }
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn a_run_that_failed_has_documents_without_a_result() {
        let mut file = watch_file("address = \"a.example.net\"");
        let mut planned = PlannedRun {
            id: "a-1f-1".to_owned(),
            due_us: 1_795_305_600_000_000,
            measurement: "m".to_owned(),
            pair: Some(HostPair { from: "b".to_owned(), to: "a".to_owned() }),
            outcome: None,
        };
        let missed = |reason: &str| PlannedOutcome::Missed {
            reason: reason.to_owned(),
            detail: Some("connection refused".to_owned()),
        };
        for (outcome, count) in
            [(None, 0), (Some(missed("budget")), 0), (Some(missed("failed")), 2)]
        {
            planned.outcome = outcome;
            assert_eq!(build_failed_documents(&file, &planned).len(), count);
        }
        for (kind, tests) in [
            (MeasureKind::Path, &["rtt", "trace"][..]),
            (MeasureKind::Throughput, &["throughput"]),
            (MeasureKind::Latency, &["latency"]),
            (MeasureKind::Tune, &[]),
        ] {
            file.measures[0].kind = kind;
            let found = build_failed_documents(&file, &planned);
            let names: Vec<&str> =
                found.iter().filter_map(|it| it["test"]["type"].as_str()).collect();
            assert_eq!(names, tests);
            for document in found {
                assert_eq!(document["run"]["state"], "failed");
                assert_eq!(document["run"]["start-time"], "2026-11-22T00:00:00Z");
                assert_eq!(document["test"]["spec"]["source"], "b.example.net");
                let result = &document["result"];
                assert_eq!(
                    (&result["succeeded"], &result["error"]),
                    (&json!(false), &json!("connection refused"))
                );
            }
        }
        planned.id = "b-1f-1".to_owned();
        assert_eq!(build_failed_documents(&file, &planned), Vec::<Value>::new());
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
