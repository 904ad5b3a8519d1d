//! Reports as results of perfSONAR's pScheduler, for programs that read its tests `throughput`,
//! `latency`, `rtt`, `trace` and `mtu`.
//!
//! The names and units are those of the result schemas of pScheduler 5. Values that were not
//! measured are absent. docs/perfsonar.md has the list.

use crate::iperf3_report_json::to_iperf3_json;
use crate::latency_text::build_latency_document;
use crate::path_text::build_path_document;
use crate::throughput_text::build_throughput_document;
use longhaul_analysis::latency::list_one_way_delays;
use longhaul_model::report::v1::latency::LatencyAnalysis;
use longhaul_model::report::v1::path::{HopReply, ObservedHop, RoundTripSeries};
use longhaul_model::report::v1::{LatencyReport, PathReport, ThroughputReport};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The tests that longhaul measures for pScheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PschedulerTest {
    Throughput,
    Rtt,
    Trace,
    Mtu,
    Latency,
}

/// Returns the result of a test `throughput`, with intervals of `interval_us`. Its `diags` are the
/// whole text of the report, which names the limiter and its evidence.
pub fn to_throughput_result(report: &ThroughputReport, interval_us: u64) -> Value {
    let json = to_iperf3_json(report, interval_us);
    let intervals = list_items(&json["intervals"]).map(|interval| {
        let streams: Vec<Value> = list_items(&interval["streams"]).map(convert_span).collect();
        json!({"streams": streams, "summary": convert_span(&interval["sum"])})
    });
    let end = &json["end"];
    let ends = list_items(&end["streams"]).map(|stream| {
        let sent = ["sender", "udp"].into_iter().find_map(|name| stream.get(name));
        let mut one = convert_span(sent.unwrap_or(&Value::Null));
        copy_member(&mut one, "rtt", &stream["sender"]["mean_rtt"]);
        one
    });
    let whole = if end["sum"].is_object() { &end["sum"] } else { &end["sum_sent"] };
    let mut summary = convert_span(whole);
    copy_member(&mut summary, "receiver-throughput-bits", &end["sum_received"]["bits_per_second"]);
    let mut result = json!({
        "schema": 1,
        "succeeded": true,
        "diags": build_throughput_document(report).unstyled_text(),
        "intervals": intervals.collect::<Vec<_>>(),
        "summary": {"streams": ends.collect::<Vec<_>>(), "summary": summary},
    });
    copy_member(&mut result, "mss", &json["start"]["tcp_mss_default"]);
    copy_member(&mut result, "tcp-window-size", &json["start"]["sndbuf_actual"]);
    result
}

/// Returns the result of a test of a path: RTTs, route or path MTU.
///
/// # Errors
/// The reason why the report lacks what the test measures.
pub fn to_path_result(report: &PathReport, test: PschedulerTest) -> Result<Value, String> {
    let observation = &report.observation;
    let mut result = match test {
        PschedulerTest::Rtt => {
            let series = observation.round_trips.as_ref();
            build_rtt_result(report, series.ok_or_else(|| explain_absence(report, "round_trips"))?)
        }
        PschedulerTest::Trace => {
            let route = observation.route.as_ref();
            let route = route.ok_or_else(|| explain_absence(report, "route"))?;
            json!({"paths": [route.hops.iter().map(build_hop).collect::<Vec<_>>()]})
        }
        PschedulerTest::Mtu => {
            let mtu = report.analysis.path_mtu.as_ref();
            json!({"mtu": mtu.ok_or_else(|| explain_absence(report, "mtu"))?.bytes})
        }
        PschedulerTest::Throughput | PschedulerTest::Latency => {
            return Err("a path has neither throughput nor one-way latency".to_owned());
        }
    };
    result["schema"] = 1.into();
    result["succeeded"] = true.into();
    // The schema of an MTU has no diagnostics.
    if test != PschedulerTest::Mtu {
        result["diags"] = build_path_document(report).unstyled_text().into();
    }
    Ok(result)
}

/// Returns the result of a test `latency` of the direction from this host, or of the other one. There are
/// no delays if the clocks do not allow them, and no counts if losses have no direction.
pub fn to_latency_result(report: &LatencyReport, is_forward: bool) -> Value {
    let LatencyAnalysis { forward, reverse, .. } = &report.analysis;
    let direction = if is_forward { forward } else { reverse };
    let mut result = json!({
        "schema": 1,
        "succeeded": true,
        "diags": build_latency_document(report).unstyled_text(),
    });
    if let Some(counts) = direction.as_ref().and_then(|it| it.counts) {
        result["packets-sent"] = counts.sent.into();
        result["packets-received"] = counts.sent.saturating_sub(counts.lost).into();
        result["packets-lost"] = counts.lost.into();
        result["packets-duplicated"] = counts.duplicates.into();
        result["packets-reordered"] = counts.reordered.into();
    }
    if let Some(error_ns) = direction.as_ref().and_then(|it| it.delay_error_ns) {
        let mut histogram: BTreeMap<String, u64> = BTreeMap::new();
        for delays in list_one_way_delays(&report.observation) {
            let delay_ns = delays[usize::from(!is_forward)];
            // The sum makes a zero of a negative zero.
            let hundredths = (delay_ns as f64 / 10_000.0).round() + 0.0;
            *histogram.entry(format!("{:.2}", hundredths / 100.0)).or_default() += 1;
        }
        result["max-clock-error"] = json!(error_ns as f64 / 1e6);
        result["histogram-latency"] = json!(histogram);
    }
    result
}

/// Returns the result of a test that failed, with the members that its schema requires.
pub fn build_failed_result(test: &str, error: &str, diags: &str) -> Value {
    let mut result = json!({"schema": 1, "succeeded": false, "error": error, "diags": diags});
    match test {
        "throughput" => {
            result["intervals"] = json!([]);
            result["summary"] = json!({});
        }
        "rtt" => {
            result["roundtrips"] = json!([]);
            result["loss"] = json!(1.0);
        }
        "trace" => result["paths"] = json!([]),
        // The schema of a path MTU requires one, which nobody knows.
        _ => {}
    }
    result
}

fn list_items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// Copies a value that was measured.
fn copy_member(to: &mut Value, name: &str, value: &Value) {
    if !value.is_null() {
        to[name] = value.clone();
    }
}

/// Converts a span of iperf3's JSON: the bytes, rate and losses of a stream, or of all.
fn convert_span(span: &Value) -> Value {
    let names = [
        ("socket", "stream-id"),
        ("start", "start"),
        ("end", "end"),
        ("bytes", "throughput-bytes"),
        ("bits_per_second", "throughput-bits"),
        ("packets", "sent"),
        ("lost_packets", "lost"),
        ("jitter_ms", "jitter"),
        ("retransmits", "retransmits"),
        ("snd_cwnd", "tcp-window-size"),
        ("rtt", "rtt"),
        ("omitted", "omitted"),
    ];
    let member = |(iperf3, own): (&str, &str)| Some((own.to_owned(), span.get(iperf3)?.clone()));
    Value::Object(names.into_iter().filter_map(member).collect())
}

fn build_rtt_result(report: &PathReport, series: &RoundTripSeries) -> Value {
    let echoes = || series.echoes.iter();
    let received = echoes().filter(|echo| echo.rtt_ns.is_some()).count() as u64;
    let sent = u64::from(series.sent).max(received);
    let header_bytes = if report.observation.address.contains(':') { 40 } else { 20 };
    let trips = echoes().zip(1_u64..).map(|(echo, number)| {
        let mut trip = json!({
            "seq": number,
            "ip": report.observation.address,
            "length": series.packet_bytes.saturating_sub(header_bytes).max(1),
        });
        if let Some(rtt) = echo.rtt_ns {
            trip["rtt"] = format_duration_ns(rtt);
        }
        if let Some(ttl) = echo.ttl.filter(|ttl| *ttl > 0) {
            trip["ttl"] = ttl.into();
        }
        trip
    });
    let mut result = json!({
        "roundtrips": trips.collect::<Vec<_>>(),
        "sent": sent,
        "received": received,
        "lost": sent - received,
        "loss": (sent - received) as f64 / sent.max(1) as f64,
        "duplicates": series.duplicates,
        "reorders": series.reordered,
    });
    if let Some(rtt) = report.analysis.rtt.filter(|rtt| rtt.answered > 0) {
        result["min"] = format_duration_ns(rtt.min_ns);
        result["max"] = format_duration_ns(rtt.max_ns);
        result["mean"] = format_duration_ns(rtt.avg_ns);
        result["stddev"] = format_duration_ns(rtt.stddev_ns);
    }
    result
}

fn build_hop(hop: &ObservedHop) -> Value {
    let Some(reply) = hop.answers.first() else {
        return json!({});
    };
    let mut one = json!({"ip": reply.address});
    if let Some(name) = &reply.name {
        one["hostname"] = json!(name);
    }
    if let Some(rtt) = reply.rtts_ns.iter().min() {
        one["rtt"] = format_duration_ns(*rtt);
    }
    if let Some(number) = reply.autonomous_system {
        one["as"] = json!({"number": number});
    }
    if let Some(error) = name_icmp_error(reply) {
        one["error"] = error.into();
    }
    one
}

/// Returns pScheduler's name of an answer that ended a trace before its destination.
fn name_icmp_error(reply: &HopReply) -> Option<&'static str> {
    match reply.kind.as_str() {
        "host_unreachable" => Some("host-unreachable"),
        "net_unreachable" => Some("net-unreachable"),
        "prohibited" => Some("communication-administratively-prohibited"),
        _ => None,
    }
}

/// Formats nanoseconds as an ISO 8601 duration in seconds.
fn format_duration_ns(ns: u64) -> Value {
    format!("PT{}.{:09}S", ns / 1_000_000_000, ns % 1_000_000_000).into()
}

fn explain_absence(report: &PathReport, what: &str) -> String {
    let missing = report.observation.missing.iter().find(|it| it.what == what);
    missing.map_or_else(
        || format!("no answer from {}", report.observation.address),
        |it| it.why.clone(),
    )
}
