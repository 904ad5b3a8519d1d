//! Results of pScheduler, perfSONAR's scheduler (5.x), for tests of throughput, RTT, one-way latency,
//! trace and MTU, alone or in the document that its archiver sends.
//!
//! The schema does not say which end counted `throughput-bytes`, nor the units of RTTs, windows and
//! jitter: they are whatever the tool printed. So bytes are accepted if they match rate and time,
//! and the other values if the tool is iperf.

use crate::json_results::{read_count, read_scaled_number, store_printed_value};
use crate::{ImportFormat, ImportedResult, MAX_ANSWERS, sanitize_text};
use jiff::{Span, SpanRelativeTo, Timestamp};
use longhaul_model::report::v1::imported::{
    ImportedHop, ImportedInterval, ImportedPings, ImportedStream, ImportedTransfer, PrintedFigure,
};
use serde_json::{Value, json};
use std::net::IpAddr;
use std::time::Duration;

/// The maximum number of paths of one result that are merged.
const MAX_MERGED_PATHS: usize = 64;

/// Returns the result in a JSON value, `None` if it is not a pScheduler result, or the reason why
/// it cannot be read.
pub(crate) fn parse_pscheduler_result(value: &Value) -> Result<Option<ImportedResult>, String> {
    let joined = join_task_and_run(value);
    let value = joined.as_ref().unwrap_or(value);
    let places = [&value["result"], &value["result-merged"], value];
    let Some(result) = places.into_iter().find(|it| it["succeeded"].is_boolean()) else {
        return Ok(None);
    };
    let Some(test) = find_test_kind(value, result) else {
        return Ok(None);
    };
    let mut one = ImportedResult::new(ImportFormat::Pscheduler, "pscheduler");
    let moments = [&value["run"]["start-time"], &value["start-time"], &value["schedule"]["start"]];
    let mut moments = moments.into_iter().filter_map(Value::as_str);
    one.started = moments.find_map(|text| text.parse::<Timestamp>().ok());
    read_hosts(&mut one, value);
    store_printed_values(&mut one, value, result);
    match test {
        "throughput" => read_throughput(&mut one, value, result),
        "rtt" => read_rtt_test(&mut one, value, result),
        "trace" => {
            let probes = value["test"]["spec"]["probe-type"].as_str();
            one.observation.protocol = probes.map(sanitize_text);
            read_trace_test(&mut one, result);
        }
        "latency" | "latencybg" => read_latency_test(&mut one, value, result),
        // The MTU is among the printed values.
        "mtu" => {}
        other => {
            return Err(format!(
                "it is a pScheduler result of a test `{}`; only throughput, rtt, latency, latencybg, \
                 trace and mtu are read",
                sanitize_text(other)
            ));
        }
    }
    if result["succeeded"] == false {
        let why = result["error"].as_str().map_or_else(
            || "without a reason".to_owned(),
            |it| format!("with: {}", sanitize_text(it)),
        );
        one.import_caveats.push(format!("pScheduler reports that the run failed, {why}"));
    }
    Ok(Some(one))
}

/// Joins the task and the run of the document that an archiver's transform receives.
fn join_task_and_run(value: &Value) -> Option<Value> {
    let (task, run) = (&value["task"], &value["run"]);
    (task["test"].is_object() && value["test"].is_null()).then(|| {
        json!({
            "test": task["test"],
            "tool": {"name": task["tool"]},
            "participants": run["participants"],
            "run": run,
            "result": run["result-merged"],
        })
    })
}

/// Returns the type of the test, from its own entry or from what the result contains.
fn find_test_kind<'a>(value: &'a Value, result: &Value) -> Option<&'a str> {
    value["test"]["type"].as_str().or_else(|| {
        let kinds = [
            ("rtt", result["roundtrips"].is_array()),
            ("trace", result["paths"].is_array()),
            ("throughput", result["summary"].is_object() || result["intervals"].is_array()),
            ("latency", result["histogram-latency"].is_object()),
            ("mtu", result["mtu"].is_number()),
        ];
        kinds.into_iter().find(|(_, found)| *found).map(|(kind, _)| kind)
    })
}

fn read_hosts(one: &mut ImportedResult, value: &Value) {
    let spec = &value["test"]["spec"];
    let host = |value: &Value| value.as_str().map(sanitize_text).filter(|it| !it.is_empty());
    one.observation.near = host(&spec["source"]).or_else(|| host(&value["participants"][0]));
    one.observation.far = host(&spec["dest"]);
    let address = one.observation.far.as_ref();
    one.observation.far_address = address.filter(|it| it.parse::<IpAddr>().is_ok()).cloned();
}

fn store_printed_values(one: &mut ImportedResult, value: &Value, result: &Value) {
    store_printed_value(one, "tool", &value["tool"]["name"]);
    store_printed_value(one, "tool version", &value["tool"]["version"]);
    for key in [
        "duration",
        "parallel",
        "bandwidth",
        "window-size",
        "congestion",
        "ip-version",
        "length",
        "count",
    ] {
        store_printed_value(one, key, &value["test"]["spec"][key]);
    }
    for key in [
        "mss",
        "mtu",
        "tcp-window-size",
        "requested-tcp-window-size",
        "duplicates",
        "reorders",
        "packets-sent",
        "packets-received",
        "packets-lost",
        "packets-duplicated",
        "packets-reordered",
        "max-clock-error",
    ] {
        store_printed_value(one, key, &result[key]);
    }
}

/// Recognises iperf by the tool's name or by its output in the result.
fn is_iperf_result(value: &Value, result: &Value) -> bool {
    match value["tool"]["name"].as_str() {
        Some(name) => name.starts_with("iperf"),
        None => result["diags"].as_str().is_some_and(|it| it.contains("iperf")),
    }
}

fn read_throughput(one: &mut ImportedResult, value: &Value, result: &Value) {
    let spec = &value["test"]["spec"];
    one.observation.forward = spec.is_object().then(|| spec["reverse"] != true);
    let by_iperf = is_iperf_result(value, result);
    let whole = &result["summary"]["summary"];
    let total = read_transfer(whole, by_iperf);
    if let (Some(total), Some(printed)) = (&total, read_count(&whole["throughput-bytes"]))
        && total.bytes.is_none()
        && !is_byte_rate(printed, total.printed_bps)
    {
        one.import_caveats.push(format!(
            "`throughput-bytes` is {printed}, which does not match its rate and time: it is left out"
        ));
    }
    one.observation.sender = total;
    one.observation.receiver = read_count(&whole["receiver-throughput-bits"])
        .map(|bps| ImportedTransfer { printed_bps: Some(bps), ..ImportedTransfer::default() });
    for summary in result["summary"]["streams"].as_array().into_iter().flatten() {
        let stream = ImportedStream {
            name: read_stream_id(summary).unwrap_or_else(|| "?".to_owned()),
            sender: read_transfer(summary, by_iperf),
            ..ImportedStream::default()
        };
        one.add_stream(stream);
    }
    read_intervals(one, &result["intervals"], by_iperf);
    infer_protocol(one, spec);
    one.add_missing("receiver byte counts");
    one.add_missing("limiting factor: effective buffers, blocked times, window limits");
}

fn infer_protocol(one: &mut ImportedResult, spec: &Value) {
    let sender = one.observation.sender.unwrap_or_default();
    let udp = sender.datagrams.is_some() || sender.lost_datagrams.is_some();
    let tcp = spec.is_object() || sender.retransmitted_packets.is_some();
    let word = if spec["udp"] == true || udp { Some("udp") } else { tcp.then_some("tcp") };
    one.observation.protocol = word.map(str::to_owned);
}

fn read_stream_id(value: &Value) -> Option<String> {
    match &value["stream-id"] {
        Value::String(text) => Some(sanitize_text(text)),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn read_duration_us(value: &Value) -> Option<u64> {
    let (start, end) = (value["start"].as_f64()?, value["end"].as_f64()?);
    read_scaled_number(&Value::from(end - start), 1e6).filter(|us| *us > 0)
}

fn read_transfer(value: &Value, by_iperf: bool) -> Option<ImportedTransfer> {
    if !value.is_object() {
        return None;
    }
    let mut transfer = ImportedTransfer {
        duration_us: read_duration_us(value),
        printed_bps: read_count(&value["throughput-bits"]),
        retransmitted_packets: read_count(&value["retransmits"]),
        datagrams: read_count(&value["sent"]),
        lost_datagrams: read_count(&value["lost"]),
        ..ImportedTransfer::default()
    };
    transfer.bytes =
        read_count(&value["throughput-bytes"]).filter(|it| matches_rate_and_time(*it, &transfer));
    if by_iperf {
        transfer.jitter_us = read_scaled_number(&value["jitter"], 1e3);
        transfer.rtt_mean_us = read_count(&value["rtt"]).filter(|us| *us > 0);
    }
    Some(transfer)
}

/// Reports whether rate and time agree with these bytes within one per cent.
fn matches_rate_and_time(bytes: u64, transfer: &ImportedTransfer) -> bool {
    let (Some(bps), Some(us)) = (transfer.printed_bps, transfer.duration_us) else {
        return false;
    };
    let made = u128::from(bps) * u128::from(us) / 8_000_000;
    u128::from(bytes).abs_diff(made) <= made / 100
}

/// Reports whether the value is bytes per second, which some tools print under the same name.
fn is_byte_rate(printed: u64, bps: Option<u64>) -> bool {
    bps.is_some_and(|bps| printed.abs_diff(bps / 8) <= bps / 800 + 1)
}

fn read_intervals(one: &mut ImportedResult, all: &Value, by_iperf: bool) {
    for value in all.as_array().into_iter().flatten() {
        let streams = value["streams"].as_array().filter(|it| !it.is_empty());
        let whole = std::slice::from_ref(&value["summary"]);
        for stream in streams.map_or(whole, Vec::as_slice) {
            let Some(seen) = read_transfer(stream, by_iperf) else {
                continue;
            };
            let started = read_scaled_number(&stream["start"], 1e6);
            let Some((started_us, duration_us)) = started.zip(seen.duration_us) else {
                continue;
            };
            // pScheduler's parser of iperf stores the congestion window under this name.
            let cwnd =
                read_count(&stream["tcp-window-size"]).filter(|bytes| by_iperf && *bytes > 0);
            let interval = ImportedInterval {
                stream: streams.and_then(|_| read_stream_id(stream)),
                started_us,
                duration_us,
                bytes: seen.bytes,
                printed_bps: seen.printed_bps,
                retransmitted_packets: seen.retransmitted_packets,
                cwnd_bytes: cwnd,
                rtt_us: seen.rtt_mean_us,
                rttvar_us: None,
                omitted: stream["omitted"] == true,
            };
            one.add_interval(interval);
        }
    }
}

/// Parses a duration of ISO 8601, such as `PT0.009059S` or `P1DT2H`; a day has 24 hours.
pub fn parse_iso_duration(text: &str) -> Option<Duration> {
    let is_short = text.len() < 64 && text.starts_with('P');
    let span: Span = is_short.then(|| text.parse().ok())??;
    span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?.try_into().ok()
}

/// Parses a duration into microseconds.
fn parse_iso_duration_us(value: &Value) -> Option<u64> {
    let duration = parse_iso_duration(value.as_str()?)?;
    let us = u64::try_from(duration.as_nanos().checked_add(500)? / 1000).ok()?;
    (us < 9_000_000_000_000_000).then_some(us)
}

fn read_rtt_test(one: &mut ImportedResult, value: &Value, result: &Value) {
    one.observation.pings = Some(ImportedPings {
        sent_packets: read_count(&result["sent"]),
        received_packets: read_count(&result["received"]),
        rtt_min_us: parse_iso_duration_us(&result["min"]),
        rtt_mean_us: parse_iso_duration_us(&result["mean"]),
        rtt_max_us: parse_iso_duration_us(&result["max"]),
        ..ImportedPings::default()
    });
    for echo in result["roundtrips"].as_array().into_iter().flatten() {
        if one.observation.far_address.is_none() {
            one.observation.far_address = read_address(&echo["ip"]);
        }
        if let Some(us) = parse_iso_duration_us(&echo["rtt"]) {
            one.add_round_trip(us);
        }
    }
    if value["tool"]["name"] == "ping" {
        one.observation.protocol = Some("icmp".to_owned());
    }
}

/// Stores quantiles of the one-way delay. A key of the histogram is a delay in units of the width of
/// a bucket, which is a millisecond if the test does not say; its value is a number of packets.
fn read_latency_test(one: &mut ImportedResult, value: &Value, result: &Value) {
    let bucket_ms = value["test"]["spec"]["bucket-width"].as_f64().unwrap_or(0.001) * 1e3;
    let buckets = result["histogram-latency"].as_object().into_iter().flatten();
    let mut delays: Vec<(f64, u64)> = buckets
        .filter_map(|(key, packets)| Some((key.parse::<f64>().ok()?, read_count(packets)?)))
        .filter(|(key, packets)| key.is_finite() && *packets > 0)
        .take(MAX_ANSWERS)
        .collect();
    delays.sort_by(|a, b| a.0.total_cmp(&b.0));
    let total = delays.iter().fold(0_u64, |sum, (_, packets)| sum.saturating_add(*packets));
    for (name, share) in [("min", 0.0), ("median", 0.5), ("p95", 0.95), ("max", 1.0)] {
        let rank = ((total as f64 * share).ceil() as u64).max(1);
        let mut passed = 0_u64;
        let found = delays.iter().find(|(_, packets)| {
            passed = passed.saturating_add(*packets);
            passed >= rank
        });
        if let Some((key, _)) = found {
            let text = format!("{:.3} ms", key * bucket_ms);
            one.observation.printed.push(PrintedFigure { name: format!("delay {name}"), text });
        }
    }
    one.add_missing("a bound of the clock error for each packet");
}

fn read_address(value: &Value) -> Option<String> {
    let text = value.as_str()?;
    text.parse::<IpAddr>().ok().map(|_| text.to_owned())
}

/// Merges the paths, one or one per probe, hop by hop.
fn read_trace_test(one: &mut ImportedResult, result: &Value) {
    let paths = result["paths"].as_array().into_iter().flatten();
    for path in paths.take(MAX_MERGED_PATHS) {
        for (index, step) in path.as_array().into_iter().flatten().enumerate() {
            if index == one.observation.hops.len() {
                let hop = ImportedHop { ttl_index: index as u32 + 1, ..ImportedHop::default() };
                one.add_hop(hop);
            }
            match one.observation.hops.get_mut(index) {
                Some(hop) => merge_hop_answer(hop, step),
                None => break,
            }
        }
    }
    one.add_missing("load balancing, return path");
}

fn merge_hop_answer(hop: &mut ImportedHop, step: &Value) {
    let Some(from) = read_address(&step["ip"]) else {
        *hop.unanswered_packets.get_or_insert(0) += 1;
        return;
    };
    if !hop.addresses.contains(&from) {
        hop.addresses.push(from);
    }
    if hop.host.is_none() {
        hop.host = step["hostname"].as_str().map(sanitize_text);
    }
    hop.rtts_us.extend(parse_iso_duration_us(&step["rtt"]));
}
