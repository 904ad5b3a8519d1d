//! The `intervals` array: one-second intervals from this end's samples.

use super::{MICROS, Way, put, span};
use longhaul_model::report::v1::observation::{Sample, Stream, StreamEnd, Tcp};
use serde_json::{Map, Value, json};

const EVERY_US: u64 = 1_000_000;
/// The minimum length of an incomplete interval at the end of a run.
const LEAST_US: u64 = 100_000;

/// Returns all intervals of all directions.
pub fn all(ways: &[Way]) -> Vec<Value> {
    let streams = || {
        ways.iter()
            .flat_map(|way| way.observation.streams.iter().map(move |s| way.own(s)))
    };
    let begin = streams().map(|end| end.started_us).min().unwrap_or(0);
    let lasted = streams()
        .map(|end| end.started_us + end.duration_us)
        .max()
        .unwrap_or(0);
    let lasted = lasted.saturating_sub(begin);
    let mut edges: Vec<u64> = (0..=lasted / EVERY_US).map(|i| i * EVERY_US).collect();
    if lasted % EVERY_US >= LEAST_US || edges.len() < 2 {
        edges.push(lasted);
    }
    edges
        .windows(2)
        .map(|pair| one(ways, begin, (pair[0], pair[1])))
        .collect()
}

fn one(ways: &[Way], begin: u64, (from, to): (u64, u64)) -> Value {
    let mut streams = Vec::new();
    let mut interval = Map::new();
    for (way, name) in ways.iter().zip(["sum", "sum_bidir_reverse"]) {
        let (mut bytes, mut resent) = (0, Some(0));
        for stream in &way.observation.streams {
            let part = Part::of(way.own(stream), begin + from, begin + to);
            bytes += part.bytes;
            resent = resent.zip(part.resent).map(|(sum, more)| sum + more);
            streams.push(part.shape(way, stream, (from, to)));
        }
        let mut sum = span(from as f64 / MICROS, to as f64 / MICROS, bytes);
        if way.sends() {
            put(&mut sum, "retransmits", resent);
        }
        interval.insert(name.to_owned(), marked(sum, way.sends()));
    }
    interval.insert("streams".to_owned(), Value::Array(streams));
    Value::Object(interval)
}

fn marked(mut one: Map<String, Value>, sends: bool) -> Value {
    one.insert("omitted".to_owned(), json!(false));
    one.insert("sender".to_owned(), json!(sends));
    Value::Object(one)
}

/// The counts of one end of a stream in one interval.
struct Part<'a> {
    bytes: u64,
    resent: Option<u64>,
    tcp: Option<&'a Tcp>,
}

impl<'a> Part<'a> {
    fn of(end: &'a StreamEnd, from: u64, to: u64) -> Part<'a> {
        let last = |until: u64| {
            let mut before = end.samples.iter().rev().filter(move |s| s.at_us <= until);
            before.find_map(|sample| sample.tcp.as_ref())
        };
        let resent = |tcp: &Tcp| tcp.retransmitted_segments;
        Part {
            bytes: bytes_by(end, to).saturating_sub(bytes_by(end, from)),
            resent: last(to).map(|now| resent(now).saturating_sub(last(from).map_or(0, resent))),
            tcp: last(to),
        }
    }

    fn shape(&self, way: &Way, stream: &Stream, (from, to): (u64, u64)) -> Value {
        let mut one = span(from as f64 / MICROS, to as f64 / MICROS, self.bytes);
        put(&mut one, "socket", Some(way.socket(stream)));
        if let (true, Some(tcp)) = (way.sends(), self.tcp) {
            put(&mut one, "retransmits", self.resent);
            put(&mut one, "snd_cwnd", Some(tcp.cwnd_bytes));
            put(&mut one, "snd_wnd", tcp.peer_window_bytes);
            put(&mut one, "rtt", Some(tcp.rtt_us));
            put(&mut one, "rttvar", Some(tcp.rttvar_us));
        }
        marked(one, way.sends())
    }
}

/// Returns the bytes counted by a time, interpolated between samples; after the end the last count.
fn bytes_by(end: &StreamEnd, at_us: u64) -> u64 {
    let stopped = end.started_us + end.duration_us;
    if at_us >= stopped {
        return end.bytes;
    }
    let point = |sample: &Sample| (sample.at_us, sample.bytes);
    let before = end.samples.iter().rev().map(point).find(|p| p.0 <= at_us);
    let after = end
        .samples
        .iter()
        .map(point)
        .find(|p| p.0 > at_us && p.0 <= stopped);
    let (from, low) = before.unwrap_or((end.started_us, 0));
    let (to, high) = after.unwrap_or((stopped, end.bytes));
    let share = at_us.saturating_sub(from) as f64 / to.saturating_sub(from).max(1) as f64;
    low + (high.saturating_sub(low) as f64 * share) as u64
}
