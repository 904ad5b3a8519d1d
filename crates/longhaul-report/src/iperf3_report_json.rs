//! A run as iperf3's JSON, for programs that read it: start, intervals, end.
//!
//! Values that were not measured are absent, with three exceptions that known readers require: CPU
//! shares, jitter and `omit` are 0 if unknown. Socket numbers are ours and only distinguish
//! streams. docs/iperf3.md has the list.

mod end_object;
mod interval_objects;

use jiff::Timestamp;
use longhaul_model::report::v1::ThroughputReport;
use longhaul_model::report::v1::observation::{ObservedStream, StreamEnd, ThroughputObservation};
use longhaul_model::report::v1::plan::{RunDirection, RunTransport, StopCondition};
use serde_json::{Map, Value, json};
use std::net::SocketAddr;

/// iperf3 uses file descriptors as socket numbers: the control connection is about 3.
const FIRST_SOCKET: u64 = 5;
const MICROS: f64 = 1e6;

/// One direction, as seen by this end.
struct DirectionView<'a> {
    observation: &'a ThroughputObservation,
    /// Number of its first stream among all streams.
    first: u64,
}

impl DirectionView<'_> {
    fn is_udp(&self) -> bool {
        let streams = &self.observation.streams;
        streams.iter().any(|stream| stream.receiver.udp.is_some())
    }

    fn sends(&self) -> bool {
        self.observation.forward
    }

    fn socket(&self, stream: &ObservedStream) -> u64 {
        FIRST_SOCKET + 2 * (self.first + u64::from(stream.index))
    }

    /// Returns this end of a stream.
    fn own_end<'s>(&self, stream: &'s ObservedStream) -> &'s StreamEnd {
        if self.sends() { &stream.sender } else { &stream.receiver }
    }
}

/// Returns the whole JSON object, with intervals of `interval_us`, or a single one if that is 0.
pub fn to_iperf3_json(report: &ThroughputReport, interval_us: u64) -> Value {
    let observation = &report.observation;
    let forward = DirectionView { observation, first: 0 };
    let reverse = observation
        .reverse
        .as_deref()
        .map(|observation| DirectionView { observation, first: u64::from(report.plan.streams) });
    let ways: Vec<DirectionView> = std::iter::once(forward).chain(reverse).collect();
    json!({
        "start": build_start(report, &ways),
        "intervals": interval_objects::build_intervals(&ways, interval_us),
        "end": end_object::build_end(&ways),
    })
}

fn build_start(report: &ThroughputReport, ways: &[DirectionView]) -> Value {
    let plan = &report.plan;
    let observation = &report.observation;
    let (own, far) = if observation.forward {
        (&observation.ends.sender, &observation.ends.receiver)
    } else {
        (&observation.ends.receiver, &observation.ends.sender)
    };
    let connected = ways.iter().flat_map(|way| {
        let streams = way.observation.streams.iter();
        streams.map(|stream| build_connection(way.socket(stream), way.own_end(stream)))
    });
    let kernel = &own.host.kernel;
    let far_name = match report.run.responder.host.as_str() {
        "" => &far.host.name,
        name => name,
    };
    let mut start = json!({
        "connected": connected.collect::<Vec<_>>(),
        "version": format!("iperf 3 (shape; longhaul {})", report.run.longhaul),
        "system_info": format!("Linux {} {kernel}", own.host.name),
        "connecting_to": {"host": far_name, "port": peer_port(ways)},
        "test_start": build_test_start(report),
    });
    if let Ok(began) = report.run.started_at.parse::<Timestamp>() {
        start["timestamp"] = json!({
            "time": began.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string(),
            "timesecs": began.as_second(),
        });
    }
    let first = observation.streams.first().map(|stream| ways[0].own_end(stream));
    if let Some(mss) = first.and_then(|end| end.mss_bytes) {
        start["tcp_mss_default"] = json!(mss);
    }
    if let Some(buffer) = first.and_then(|end| end.send_buffer) {
        start["sndbuf_actual"] = json!(buffer.stored_bytes);
    }
    if let Some(buffer) = first.and_then(|end| end.receive_buffer) {
        start["rcvbuf_actual"] = json!(buffer.stored_bytes);
    }
    let asked = plan.send_buffer_bytes.max(plan.receive_buffer_bytes);
    start["sock_bufsize"] = json!(asked.unwrap_or(0));
    start
}

fn parse_address(text: Option<&String>) -> Option<SocketAddr> {
    text?.parse().ok()
}

fn build_connection(socket: u64, own: &StreamEnd) -> Value {
    let mut one = Map::new();
    one.insert("socket".to_owned(), json!(socket));
    for (side, text) in [("local", &own.local), ("remote", &own.peer)] {
        if let Some(address) = parse_address(text.as_ref()) {
            one.insert(format!("{side}_host"), json!(address.ip().to_string()));
            one.insert(format!("{side}_port"), json!(address.port()));
        }
    }
    Value::Object(one)
}

fn peer_port(ways: &[DirectionView]) -> Option<u16> {
    let way = ways.first()?;
    let stream = way.observation.streams.first()?;
    Some(parse_address(way.own_end(stream).peer.as_ref())?.port())
}

fn build_test_start(report: &ThroughputReport) -> Value {
    let plan = &report.plan;
    let (time_us, bytes, blocks) = match plan.stop {
        StopCondition::TimeUs(time) => (time, 0, 0),
        StopCondition::Bytes(bytes) => (0, bytes, 0),
        StopCondition::Blocks(blocks) => (0, 0, blocks),
    };
    let (protocol, rate) = match plan.transport {
        RunTransport::Tcp => ("TCP", plan.write_rate_bps.unwrap_or(0)),
        RunTransport::Udp { rate_bps } => ("UDP", rate_bps),
    };
    json!({
        "protocol": protocol,
        "num_streams": plan.streams,
        "blksize": plan.write_bytes.unwrap_or(0),
        // The totals below include everything, even time excluded from the goodput.
        "omit": 0,
        "duration": json_number(time_us as f64 / MICROS),
        "bytes": bytes,
        "blocks": blocks,
        "reverse": u8::from(plan.direction == RunDirection::Reverse),
        "bidir": u8::from(plan.direction == RunDirection::Both),
        "tos": u16::from(plan.dscp.unwrap_or(0)) << 2,
        "target_bitrate": rate / u64::from(plan.streams.max(1)),
        "fqrate": plan.pacing_bps.unwrap_or(0),
    })
}

/// Returns integral numbers without a fraction, as iperf3 prints them.
fn json_number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 1e15 { json!(value as i64) } else { json!(value) }
}

/// Returns the bytes of a span with their rate.
fn build_span(from_s: f64, to_s: f64, bytes: u64) -> Map<String, Value> {
    let seconds = (to_s - from_s).max(0.0);
    let rate = if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 };
    let mut one = Map::new();
    for (name, value) in [("start", from_s), ("end", to_s), ("seconds", seconds)] {
        one.insert(name.to_owned(), json_number(value));
    }
    one.insert("bytes".to_owned(), json!(bytes));
    one.insert("bits_per_second".to_owned(), json!(rate));
    one
}

/// Inserts a value, unless it is absent.
fn insert_if_some(one: &mut Map<String, Value>, name: &str, value: Option<u64>) {
    if let Some(value) = value {
        one.insert(name.to_owned(), json!(value));
    }
}
