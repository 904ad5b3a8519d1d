//! iperf3's JSON (3.0 to 3.2x): whole objects, concatenated objects, and `--json-stream`.

use crate::json::{count, number, print};
use crate::lines::between;
use crate::{Format, Found, MOST_INTERVALS, MOST_STREAMS, tame};
use jiff::Timestamp;
use longhaul_model::report::v1::imported::{Interval, Stream, Transfer};
use serde_json::{Map, Value};

/// Reports whether the value is a complete iperf3 object or one event of a JSON stream.
pub(crate) fn is_ours(value: &Value) -> bool {
    let version = value["start"]["version"].as_str();
    version.is_some_and(|it| it.starts_with("iperf")) || value["event"].is_string()
}

/// The events of a run so far, merged into one object.
pub(crate) struct Events(Value);

impl Default for Events {
    fn default() -> Events {
        Events(Value::Object(Map::new()))
    }
}

impl Events {
    /// Adds a value and returns the result that it contains or completes.
    pub(crate) fn take(&mut self, value: Value) -> Option<Found> {
        let Some(event) = value["event"].as_str().map(str::to_owned) else {
            return result(&value);
        };
        let is_last = gather(&mut self.0, &event, value);
        is_last
            .then(|| std::mem::take(self))
            .and_then(Events::finish)
    }

    /// Returns the result of a run whose last event is missing.
    pub(crate) fn finish(self) -> Option<Found> {
        result(&self.0)
    }
}

/// Stores a stream event where the complete object has it. Returns true for the last event.
fn gather(events: &mut Value, event: &str, mut value: Value) -> bool {
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

fn result(value: &Value) -> Option<Found> {
    let start = &value["start"];
    let version = start["version"].as_str().unwrap_or_default();
    if !version.starts_with("iperf") {
        return None;
    }
    let mut one = Found::new(Format::Iperf3Json, "iperf3");
    let version = version.trim_start_matches("iperf").trim();
    one.seen.tool_version = Some(tame(version)).filter(|it| !it.is_empty());
    one.started = start["timestamp"]["timesecs"]
        .as_i64()
        .and_then(|seconds| Timestamp::from_second(seconds).ok());
    ends(&mut one, start);
    let test = &start["test_start"];
    one.seen.protocol = test["protocol"].as_str().map(|it| tame(it).to_lowercase());
    for key in [
        "omit",
        "duration",
        "blksize",
        "tos",
        "bidir",
        "target_bitrate",
        "fqrate",
    ] {
        print(&mut one, key, &test[key]);
    }
    for key in [
        "sock_bufsize",
        "sndbuf_actual",
        "rcvbuf_actual",
        "tcp_mss_default",
    ] {
        print(&mut one, key, &start[key]);
    }
    let end = &value["end"];
    print(
        &mut one,
        "sender_tcp_congestion",
        &end["sender_tcp_congestion"],
    );
    for key in ["host_total", "remote_total"] {
        print(&mut one, key, &end["cpu_utilization_percent"][key]);
    }
    intervals(&mut one, &value["intervals"]);
    streams(&mut one, &end["streams"]);
    totals(&mut one, end);
    if let Some(error) = value["error"].as_str() {
        one.flaws
            .push(format!("iperf3 ended with an error: {}", tame(error)));
    }
    if end["streams"].as_array().is_none_or(Vec::is_empty) {
        one.flaws
            .push("the run has no end: it was cut off or failed".to_owned());
    }
    one.lacks("what limited the run: buffers in force, time blocked, limits of windows");
    Some(one)
}

fn ends(one: &mut Found, start: &Value) {
    let connected = &start["connected"][0];
    let host = |value: &Value| value.as_str().map(tame);
    let own = start["system_info"].as_str();
    one.seen.near = own
        .and_then(|info| info.split_whitespace().nth(1))
        .map(tame)
        .or_else(|| host(&connected["local_host"]));
    let far_address = host(&connected["remote_host"]);
    one.seen.far = host(&start["connecting_to"]["host"]).or_else(|| far_address.clone());
    one.seen.far_address = far_address;
    let reverse = start["test_start"]["reverse"].as_i64();
    let accepted = start["accepted_connection"].is_object();
    // iperf3 reports from the client's side at either end.
    if accepted {
        let seen = &mut one.seen;
        std::mem::swap(&mut seen.near, &mut seen.far);
        seen.near = host(&start["accepted_connection"]["host"]).or(seen.near.take());
        seen.far_address = host(&connected["local_host"]);
    }
    one.seen.forward = reverse.map(|reverse| reverse == 0);
    for name in [&one.seen.near, &one.seen.far].into_iter().flatten() {
        if between(name, "<", ">").is_some() {
            one.flaws.push("a host has markup in its name".to_owned());
            break;
        }
    }
}

fn transfer(value: &Value) -> Option<Transfer> {
    if !value.is_object() {
        return None;
    }
    Some(Transfer {
        bytes: count(&value["bytes"]),
        duration_us: number(&value["seconds"], 1e6),
        printed_bps: count(&value["bits_per_second"]),
        retransmitted_packets: count(&value["retransmits"]),
        datagrams: count(&value["packets"]),
        lost_datagrams: count(&value["lost_packets"]),
        jitter_us: number(&value["jitter_ms"], 1e3),
        rtt_min_us: count(&value["min_rtt"]).filter(|us| *us > 0),
        rtt_mean_us: count(&value["mean_rtt"]).filter(|us| *us > 0),
        ..Transfer::default()
    })
}

fn streams(one: &mut Found, all: &Value) {
    for value in all.as_array().into_iter().flatten() {
        let inner = &value["sender"];
        let udp = &value["udp"];
        let socket = [inner, udp, &value["receiver"]]
            .into_iter()
            .find_map(|it| it["socket"].as_i64());
        let stream = Stream {
            name: socket.map_or_else(|| "?".to_owned(), |socket| socket.to_string()),
            sender: transfer(inner),
            receiver: transfer(&value["receiver"]),
            either: transfer(udp),
        };
        let limit = (MOST_STREAMS, "streams");
        Found::add(&mut one.seen.streams, &mut one.flaws, stream, limit);
    }
}

fn totals(one: &mut Found, end: &Value) {
    one.seen.sender = transfer(&end["sum_sent"]);
    one.seen.receiver = transfer(&end["sum_received"]);
    if one.seen.receiver.is_none() && one.seen.sender.is_none() {
        one.seen.either = transfer(&end["sum"]);
    }
    if one.seen.receiver.is_none() {
        one.lacks("what the receiver counted");
    }
    if end["sum_sent_bidir_reverse"].is_object() {
        let flaw = "the run went both ways; only the first direction is in the totals";
        one.flaws.push(flaw.to_owned());
    }
}

fn intervals(one: &mut Found, all: &Value) {
    for value in all.as_array().into_iter().flatten() {
        for stream in value["streams"].as_array().into_iter().flatten() {
            let Some((started_us, duration_us)) =
                number(&stream["start"], 1e6).zip(number(&stream["seconds"], 1e6))
            else {
                continue;
            };
            let interval = Interval {
                stream: stream["socket"].as_i64().map(|it| it.to_string()),
                started_us,
                duration_us,
                bytes: count(&stream["bytes"]),
                printed_bps: count(&stream["bits_per_second"]),
                retransmitted_packets: count(&stream["retransmits"]),
                cwnd_bytes: count(&stream["snd_cwnd"]),
                rtt_us: count(&stream["rtt"]).filter(|us| *us > 0),
                rttvar_us: count(&stream["rttvar"]).filter(|us| *us > 0),
                omitted: stream["omitted"] == true,
            };
            let limit = (MOST_INTERVALS, "intervals");
            Found::add(&mut one.seen.intervals, &mut one.flaws, interval, limit);
        }
    }
}
