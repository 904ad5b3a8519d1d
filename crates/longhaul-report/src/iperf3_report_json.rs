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
use serde_json::{Value, json};
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
    let mut json = json!({
        "start": build_start(report, &ways),
        "intervals": interval_objects::build_intervals(&ways, interval_us),
        "end": end_object::build_end(&ways),
    });
    remove_nulls(&mut json);
    json
}

/// Removes members without a value.
fn remove_nulls(json: &mut Value) {
    match json {
        Value::Object(members) => {
            members.retain(|_, value| !value.is_null());
            members.values_mut().for_each(remove_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_nulls),
        _ => {}
    }
}

/// Adds the members of another object.
fn add_members(mut to: Value, more: Value) -> Value {
    if let (Value::Object(to), Value::Object(more)) = (&mut to, more) {
        to.extend(more);
    }
    to
}

fn build_start(report: &ThroughputReport, ways: &[DirectionView]) -> Value {
    let plan = &report.plan;
    let observation = &report.observation;
    let [own, far] = observation.initiator_and_responder();
    let connected = ways.iter().flat_map(|way| {
        let streams = way.observation.streams.iter();
        streams.map(|stream| build_connection(way.socket(stream), way.own_end(stream)))
    });
    let far_name = match report.run.responder.host.as_str() {
        "" => &far.host.name,
        name => name,
    };
    let began = report.run.started_at.parse::<Timestamp>().ok();
    let first = observation.streams.first().map(|stream| ways[0].own_end(stream));
    let asked = plan.send_buffer_bytes.max(plan.receive_buffer_bytes);
    json!({
        "connected": connected.collect::<Vec<_>>(),
        "version": format!("iperf 3 (shape; longhaul {})", report.run.longhaul),
        "system_info": format!("Linux {} {}", own.host.name, own.host.kernel),
        "connecting_to": {
            "host": far_name,
            "port": first.and_then(|end| parse_address(end.peer.as_ref())).map(|it| it.port()),
        },
        "test_start": build_test_start(report),
        "timestamp": began.map(|began| json!({
            "time": began.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string(),
            "timesecs": began.as_second(),
        })),
        "tcp_mss_default": first.and_then(|end| end.mss_bytes),
        "sndbuf_actual": first.and_then(|end| end.send_buffer).map(|it| it.stored_bytes),
        "rcvbuf_actual": first.and_then(|end| end.receive_buffer).map(|it| it.stored_bytes),
        "sock_bufsize": asked.unwrap_or(0),
    })
}

fn parse_address(text: Option<&String>) -> Option<SocketAddr> {
    text?.parse().ok()
}

fn build_connection(socket: u64, own: &StreamEnd) -> Value {
    let [local, remote] = [&own.local, &own.peer].map(|text| parse_address(text.as_ref()));
    json!({
        "socket": socket,
        "local_host": local.map(|it| it.ip().to_string()),
        "local_port": local.map(|it| it.port()),
        "remote_host": remote.map(|it| it.ip().to_string()),
        "remote_port": remote.map(|it| it.port()),
    })
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
fn build_span(from_s: f64, to_s: f64, bytes: u64) -> Value {
    let seconds = (to_s - from_s).max(0.0);
    let rate = if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 };
    json!({
        "start": json_number(from_s),
        "end": json_number(to_s),
        "seconds": json_number(seconds),
        "bytes": bytes,
        "bits_per_second": rate,
    })
}
