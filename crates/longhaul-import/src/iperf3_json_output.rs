//! iperf3's JSON (3.0 to 3.2x): whole objects, concatenated objects, and `--json-stream`.

use crate::json_results::{read_count, read_scaled_number, store_printed_value};
use crate::printed_numbers::text_between;
use crate::{ImportFormat, ImportedResult, sanitize_text};
use jiff::Timestamp;
use longhaul_model::report::v1::imported::{ImportedInterval, ImportedStream, ImportedTransfer};
use serde_json::{Map, Value};

/// Reports whether the value is a complete iperf3 object or one event of a JSON stream.
pub(crate) fn is_iperf3_value(value: &Value) -> bool {
    let version = value["start"]["version"].as_str();
    version.is_some_and(|it| it.starts_with("iperf")) || value["event"].is_string()
}

/// The events of a run so far, merged into one object.
pub(crate) struct Iperf3EventStream(Value);

impl Default for Iperf3EventStream {
    fn default() -> Iperf3EventStream {
        Iperf3EventStream(Value::Object(Map::new()))
    }
}

impl Iperf3EventStream {
    /// Adds a value and returns the result that it contains or completes.
    pub(crate) fn push(&mut self, value: Value) -> Option<ImportedResult> {
        let Some(event) = value["event"].as_str().map(str::to_owned) else {
            return parse_iperf3_result(&value);
        };
        let is_last = merge_event(&mut self.0, &event, value);
        is_last.then(|| std::mem::take(self)).and_then(Iperf3EventStream::finish)
    }

    /// Returns the result of a run whose last event is missing.
    pub(crate) fn finish(self) -> Option<ImportedResult> {
        parse_iperf3_result(&self.0)
    }
}

/// Stores a stream event where the complete object has it. Returns true for the last event.
fn merge_event(events: &mut Value, event: &str, mut value: Value) -> bool {
    let data = value["data"].take();
    match event {
        "interval" => match &mut events["intervals"] {
            Value::Array(all) => all.push(data),
            none => *none = Value::Array(vec![data]),
        },
        "start" | "end" => events[event] = data,
        "error" => events["error"] = data,
        _ => {}
    }
    event == "end"
}

fn parse_iperf3_result(value: &Value) -> Option<ImportedResult> {
    let start = &value["start"];
    let version = start["version"].as_str().unwrap_or_default();
    if !version.starts_with("iperf") {
        return None;
    }
    let mut one = ImportedResult::new(ImportFormat::Iperf3Json, "iperf3");
    let version = version.trim_start_matches("iperf").trim();
    one.observation.tool_version = Some(sanitize_text(version)).filter(|it| !it.is_empty());
    one.started = start["timestamp"]["timesecs"]
        .as_i64()
        .and_then(|seconds| Timestamp::from_second(seconds).ok());
    read_hosts(&mut one, start);
    let test = &start["test_start"];
    one.observation.protocol = test["protocol"].as_str().map(|it| sanitize_text(it).to_lowercase());
    for key in ["omit", "duration", "blksize", "tos", "bidir", "target_bitrate", "fqrate"] {
        store_printed_value(&mut one, key, &test[key]);
    }
    for key in ["sock_bufsize", "sndbuf_actual", "rcvbuf_actual", "tcp_mss_default"] {
        store_printed_value(&mut one, key, &start[key]);
    }
    let end = &value["end"];
    store_printed_value(&mut one, "sender_tcp_congestion", &end["sender_tcp_congestion"]);
    for key in ["host_total", "remote_total"] {
        store_printed_value(&mut one, key, &end["cpu_utilization_percent"][key]);
    }
    read_intervals(&mut one, &value["intervals"]);
    read_streams(&mut one, &end["streams"]);
    read_totals(&mut one, end);
    if let Some(error) = value["error"].as_str() {
        one.import_caveats.push(format!("iperf3 ended with an error: {}", sanitize_text(error)));
    }
    if end["streams"].as_array().is_none_or(Vec::is_empty) {
        one.import_caveats.push("the run has no end: it was truncated or failed".to_owned());
    }
    one.add_missing("limiting factor: effective buffers, blocked times, window limits");
    Some(one)
}

fn read_hosts(one: &mut ImportedResult, start: &Value) {
    let connected = &start["connected"][0];
    let host = |value: &Value| value.as_str().map(sanitize_text);
    let own = start["system_info"].as_str();
    one.observation.near = own
        .and_then(|info| info.split_whitespace().nth(1))
        .map(sanitize_text)
        .or_else(|| host(&connected["local_host"]));
    let far_address = host(&connected["remote_host"]);
    one.observation.far = host(&start["connecting_to"]["host"]).or_else(|| far_address.clone());
    one.observation.far_address = far_address;
    let reverse = start["test_start"]["reverse"].as_i64();
    let accepted = start["accepted_connection"].is_object();
    // iperf3 reports from the client's side at either end.
    if accepted {
        let seen = &mut one.observation;
        std::mem::swap(&mut seen.near, &mut seen.far);
        seen.near = host(&start["accepted_connection"]["host"]).or(seen.near.take());
        seen.far_address = host(&connected["local_host"]);
    }
    one.observation.forward = reverse.map(|reverse| reverse == 0);
    for name in [&one.observation.near, &one.observation.far].into_iter().flatten() {
        if text_between(name, "<", ">").is_some() {
            one.import_caveats.push("a host name contains markup".to_owned());
            break;
        }
    }
}

fn read_transfer(value: &Value) -> Option<ImportedTransfer> {
    if !value.is_object() {
        return None;
    }
    Some(ImportedTransfer {
        bytes: read_count(&value["bytes"]),
        duration_us: read_scaled_number(&value["seconds"], 1e6),
        printed_bps: read_count(&value["bits_per_second"]),
        retransmitted_packets: read_count(&value["retransmits"]),
        datagrams: read_count(&value["packets"]),
        lost_datagrams: read_count(&value["lost_packets"]),
        jitter_us: read_scaled_number(&value["jitter_ms"], 1e3),
        rtt_min_us: read_count(&value["min_rtt"]).filter(|us| *us > 0),
        rtt_mean_us: read_count(&value["mean_rtt"]).filter(|us| *us > 0),
        ..ImportedTransfer::default()
    })
}

fn read_streams(one: &mut ImportedResult, all: &Value) {
    for value in all.as_array().into_iter().flatten() {
        let inner = &value["sender"];
        let udp = &value["udp"];
        let socket =
            [inner, udp, &value["receiver"]].into_iter().find_map(|it| it["socket"].as_i64());
        let stream = ImportedStream {
            name: socket.map_or_else(|| "?".to_owned(), |socket| socket.to_string()),
            sender: read_transfer(inner),
            receiver: read_transfer(&value["receiver"]),
            either: read_transfer(udp),
        };
        one.add_stream(stream);
    }
}

fn read_totals(one: &mut ImportedResult, end: &Value) {
    one.observation.sender = read_transfer(&end["sum_sent"]);
    one.observation.receiver = read_transfer(&end["sum_received"]);
    if one.observation.receiver.is_none() && one.observation.sender.is_none() {
        one.observation.either = read_transfer(&end["sum"]);
    }
    if one.observation.receiver.is_none() {
        one.add_missing("receiver counts");
    }
    if end["sum_sent_bidir_reverse"].is_object() {
        let flaw = "the run is bidirectional; the totals contain only the first direction";
        one.import_caveats.push(flaw.to_owned());
    }
}

fn read_intervals(one: &mut ImportedResult, all: &Value) {
    for value in all.as_array().into_iter().flatten() {
        for stream in value["streams"].as_array().into_iter().flatten() {
            let Some((started_us, duration_us)) = read_scaled_number(&stream["start"], 1e6)
                .zip(read_scaled_number(&stream["seconds"], 1e6))
            else {
                continue;
            };
            let interval = ImportedInterval {
                stream: stream["socket"].as_i64().map(|it| it.to_string()),
                started_us,
                duration_us,
                bytes: read_count(&stream["bytes"]),
                printed_bps: read_count(&stream["bits_per_second"]),
                retransmitted_packets: read_count(&stream["retransmits"]),
                cwnd_bytes: read_count(&stream["snd_cwnd"]),
                rtt_us: read_count(&stream["rtt"]).filter(|us| *us > 0),
                rttvar_us: read_count(&stream["rttvar"]).filter(|us| *us > 0),
                omitted: stream["omitted"] == true,
            };
            one.add_interval(interval);
        }
    }
}
