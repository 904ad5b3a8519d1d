//! A run as iperf3's JSON, for programs that read it: start, intervals, end.
//!
//! Values that were not measured are absent, with three exceptions that known readers require: CPU
//! shares, jitter and `omit` are 0 if unknown. Socket numbers are ours and only distinguish
//! streams. docs/iperf3.md has the list.

mod end;
mod intervals;
pub mod live;

use jiff::Timestamp;
use longhaul_model::report::v1::Throughput;
use longhaul_model::report::v1::observation::{Observation, Stream, StreamEnd};
use longhaul_model::report::v1::plan::{Direction, Stop, Transport};
use serde_json::{Map, Value, json};
use std::net::SocketAddr;

/// iperf3 uses file descriptors as socket numbers: the control connection is about 3.
const FIRST_SOCKET: u64 = 5;
const MICROS: f64 = 1e6;

/// One direction, as seen by this end.
struct Way<'a> {
    observation: &'a Observation,
    /// Number of its first stream among all streams.
    first: u64,
}

impl Way<'_> {
    fn is_udp(&self) -> bool {
        let streams = &self.observation.streams;
        streams.iter().any(|stream| stream.receiver.udp.is_some())
    }

    fn sends(&self) -> bool {
        self.observation.forward
    }

    fn socket(&self, stream: &Stream) -> u64 {
        FIRST_SOCKET + 2 * (self.first + u64::from(stream.index))
    }

    /// Returns this end of a stream.
    fn own<'s>(&self, stream: &'s Stream) -> &'s StreamEnd {
        if self.sends() {
            &stream.sender
        } else {
            &stream.receiver
        }
    }
}

/// Returns the whole JSON object.
pub fn shape(report: &Throughput) -> Value {
    let observation = &report.observation;
    let forward = Way {
        observation,
        first: 0,
    };
    let reverse = observation.reverse.as_deref().map(|observation| Way {
        observation,
        first: u64::from(report.plan.streams),
    });
    let ways: Vec<Way> = std::iter::once(forward).chain(reverse).collect();
    json!({
        "start": start(report, &ways),
        "intervals": intervals::all(&ways),
        "end": end::end(&ways),
    })
}

fn start(report: &Throughput, ways: &[Way]) -> Value {
    let plan = &report.plan;
    let observation = &report.observation;
    let (own, far) = if observation.forward {
        (&observation.ends.sender, &observation.ends.receiver)
    } else {
        (&observation.ends.receiver, &observation.ends.sender)
    };
    let connected = ways.iter().flat_map(|way| {
        let streams = way.observation.streams.iter();
        streams.map(|stream| connected(way.socket(stream), way.own(stream)))
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
        "connecting_to": {"host": far_name, "port": port(ways)},
        "test_start": test_start(report),
    });
    if let Ok(began) = report.run.started_at.parse::<Timestamp>() {
        start["timestamp"] = json!({
            "time": began.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string(),
            "timesecs": began.as_second(),
        });
    }
    let first = observation
        .streams
        .first()
        .map(|stream| ways[0].own(stream));
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

fn address(text: Option<&String>) -> Option<SocketAddr> {
    text?.parse().ok()
}

fn connected(socket: u64, own: &StreamEnd) -> Value {
    let mut one = Map::new();
    one.insert("socket".to_owned(), json!(socket));
    for (side, text) in [("local", &own.local), ("remote", &own.peer)] {
        if let Some(address) = address(text.as_ref()) {
            one.insert(format!("{side}_host"), json!(address.ip().to_string()));
            one.insert(format!("{side}_port"), json!(address.port()));
        }
    }
    Value::Object(one)
}

fn port(ways: &[Way]) -> Option<u16> {
    let way = ways.first()?;
    let stream = way.observation.streams.first()?;
    Some(address(way.own(stream).peer.as_ref())?.port())
}

fn test_start(report: &Throughput) -> Value {
    let plan = &report.plan;
    let (time_us, bytes, blocks) = match plan.stop {
        Stop::TimeUs(time) => (time, 0, 0),
        Stop::Bytes(bytes) => (0, bytes, 0),
        Stop::Blocks(blocks) => (0, 0, blocks),
    };
    let (protocol, rate) = match plan.transport {
        Transport::Tcp => ("TCP", plan.write_rate_bps.unwrap_or(0)),
        Transport::Udp { rate_bps } => ("UDP", rate_bps),
    };
    json!({
        "protocol": protocol,
        "num_streams": plan.streams,
        "blksize": plan.write_bytes.unwrap_or(0),
        // The totals below include everything, even time excluded from the goodput.
        "omit": 0,
        "duration": number(time_us as f64 / MICROS),
        "bytes": bytes,
        "blocks": blocks,
        "reverse": u8::from(plan.direction == Direction::Reverse),
        "bidir": u8::from(plan.direction == Direction::Both),
        "tos": u16::from(plan.dscp.unwrap_or(0)) << 2,
        "target_bitrate": rate / u64::from(plan.streams.max(1)),
        "fqrate": plan.pacing_bps.unwrap_or(0),
    })
}

/// Returns integral numbers without a fraction, as iperf3 prints them.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        json!(value as i64)
    } else {
        json!(value)
    }
}

/// Returns the bytes of a span with their rate.
fn span(from_s: f64, to_s: f64, bytes: u64) -> Map<String, Value> {
    let seconds = (to_s - from_s).max(0.0);
    let rate = if seconds > 0.0 {
        bytes as f64 * 8.0 / seconds
    } else {
        0.0
    };
    let mut one = Map::new();
    for (name, value) in [("start", from_s), ("end", to_s), ("seconds", seconds)] {
        one.insert(name.to_owned(), number(value));
    }
    one.insert("bytes".to_owned(), json!(bytes));
    one.insert("bits_per_second".to_owned(), json!(rate));
    one
}

/// Inserts a value, unless it is absent.
fn put(one: &mut Map<String, Value>, name: &str, value: Option<u64>) {
    if let Some(value) = value {
        one.insert(name.to_owned(), json!(value));
    }
}
