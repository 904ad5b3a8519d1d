//! The `intervals` array, from this end's samples.

use super::{DirectionView, MICROS, add_members, build_span};
use longhaul_model::report::v1::observation::{StreamEnd, StreamSample, TcpReading};
use serde_json::{Map, Value, json};

/// The minimum length of an incomplete interval at the end of a run.
const MIN_LAST_INTERVAL_US: u64 = 100_000;

/// Returns all intervals of all directions; a single one if `interval_us` is 0.
pub fn build_intervals(ways: &[DirectionView], interval_us: u64) -> Vec<Value> {
    let streams =
        || ways.iter().flat_map(|way| way.observation.streams.iter().map(move |s| way.own_end(s)));
    let begin = streams().map(|end| end.started_us).min().unwrap_or(0);
    let lasted = streams().map(|end| end.started_us + end.duration_us).max().unwrap_or(0);
    let lasted = lasted.saturating_sub(begin);
    let whole = lasted.checked_div(interval_us).unwrap_or(0);
    let mut edges: Vec<u64> = (0..=whole).map(|i| i * interval_us).collect();
    if lasted - whole * interval_us >= MIN_LAST_INTERVAL_US || edges.len() < 2 {
        edges.push(lasted);
    }
    edges.windows(2).map(|pair| build_interval(ways, begin, (pair[0], pair[1]))).collect()
}

fn build_interval(ways: &[DirectionView], begin: u64, (from, to): (u64, u64)) -> Value {
    let mut streams = Vec::new();
    let mut interval = Map::new();
    for (way, name) in ways.iter().zip(["sum", "sum_bidir_reverse"]) {
        let span = |bytes: u64, resent: Option<u64>| {
            let one = build_span(from as f64 / MICROS, to as f64 / MICROS, bytes);
            let resent = resent.filter(|_| way.sends());
            let more = json!({"omitted": false, "sender": way.sends(), "retransmits": resent});
            add_members(one, more)
        };
        let (mut bytes, mut resent) = (0, Some(0));
        for stream in &way.observation.streams {
            let part = StreamIntervalPart::between(way.own_end(stream), begin + from, begin + to);
            bytes += part.bytes;
            resent = resent.zip(part.resent).map(|(sum, more)| sum + more);
            let tcp = part.tcp.filter(|_| way.sends());
            let more = json!({
                "socket": way.socket(stream),
                "snd_cwnd": tcp.map(|tcp| tcp.cwnd_bytes),
                "snd_wnd": tcp.and_then(|tcp| tcp.peer_window_bytes),
                "rtt": tcp.map(|tcp| tcp.rtt_us),
                "rttvar": tcp.map(|tcp| tcp.rttvar_us),
            });
            streams.push(add_members(span(part.bytes, part.resent), more));
        }
        interval.insert(name.to_owned(), span(bytes, resent));
    }
    interval.insert("streams".to_owned(), Value::Array(streams));
    Value::Object(interval)
}

/// The counts of one end of a stream in one interval.
struct StreamIntervalPart<'a> {
    bytes: u64,
    resent: Option<u64>,
    tcp: Option<&'a TcpReading>,
}

impl<'a> StreamIntervalPart<'a> {
    fn between(end: &'a StreamEnd, from: u64, to: u64) -> StreamIntervalPart<'a> {
        let last = |until: u64| {
            let mut before = end.samples.iter().rev().filter(move |s| s.at_us <= until);
            before.find_map(|sample| sample.tcp.as_ref())
        };
        let resent = |tcp: &TcpReading| tcp.retransmitted_segments;
        StreamIntervalPart {
            bytes: bytes_by(end, to).saturating_sub(bytes_by(end, from)),
            resent: last(to).map(|now| resent(now).saturating_sub(last(from).map_or(0, resent))),
            tcp: last(to),
        }
    }
}

/// Returns the bytes counted by a time, interpolated between samples; after the end the last count.
fn bytes_by(end: &StreamEnd, at_us: u64) -> u64 {
    let stopped = end.started_us + end.duration_us;
    if at_us >= stopped {
        return end.bytes;
    }
    let point = |sample: &StreamSample| (sample.at_us, sample.bytes);
    let before = end.samples.iter().rev().map(point).find(|p| p.0 <= at_us);
    let after = end.samples.iter().map(point).find(|p| p.0 > at_us && p.0 <= stopped);
    let (from, low) = before.unwrap_or((end.started_us, 0));
    let (to, high) = after.unwrap_or((stopped, end.bytes));
    let share = at_us.saturating_sub(from) as f64 / to.saturating_sub(from).max(1) as f64;
    low + (high.saturating_sub(low) as f64 * share) as u64
}
