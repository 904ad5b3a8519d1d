//! A run as iperf3's JSON, for programs that read it: start, intervals, end; at once, or as the
//! events of `--json-stream` while the run is in progress ([`RunEventStream`]).
//!
//! Values that were not measured are absent, with three exceptions that known readers require: CPU
//! shares, jitter and `omit` are 0 if unknown. Socket numbers are ours and only distinguish
//! streams. docs/iperf3.md has the list.

use crate::number_format::{sum_counts, sum_known_counts};
use jiff::Timestamp;
use longhaul_analysis::throughput::last_tcp_info;
use longhaul_model::report::v1::observation::{
    BothEnds, EndObservation, ObservedStream, StreamEnd, StreamSample, TcpReading,
    ThroughputObservation, UdpCounts,
};
use longhaul_model::report::v1::plan::{RunDirection, RunTransport, StopCondition, ThroughputPlan};
use longhaul_model::report::v1::{RunInfo, ThroughputReport};
use serde_json::{Map, Value, json};
use std::fmt;
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
    let ways = list_directions(&report.plan, &report.observation);
    let mut json = json!({
        "start": build_start(&report.run, &report.plan, &ways),
        "intervals": build_intervals(&ways, interval_us),
        "end": build_end(&ways),
    });
    remove_nulls(&mut json);
    json
}

fn list_directions<'o>(
    plan: &ThroughputPlan,
    observation: &'o ThroughputObservation,
) -> Vec<DirectionView<'o>> {
    let forward = DirectionView { observation, first: 0 };
    let reverse = observation
        .reverse
        .as_deref()
        .map(|observation| DirectionView { observation, first: u64::from(plan.streams) });
    std::iter::once(forward).chain(reverse).collect()
}

/// This end of the streams of one direction of a run in progress, each with its latest sample.
#[derive(Debug, Clone, Copy)]
pub struct LiveDirection<'a> {
    pub forward: bool,
    pub own_ends: &'a [StreamEnd],
}

/// The events of iperf3's `--json-stream` (3.17): a start, an interval after each interval, and an
/// end. Times count from the start of payload at this end.
#[derive(Debug)]
pub struct RunEventStream {
    run: RunInfo,
    plan: ThroughputPlan,
    /// The length of intervals; 0 for a single one at the end.
    interval_us: u64,
    /// The number of intervals shown.
    shown: u64,
    observation: Option<ThroughputObservation>,
}

impl RunEventStream {
    pub fn new(run: RunInfo, plan: ThroughputPlan, interval_us: u64) -> RunEventStream {
        RunEventStream { run, plan, interval_us, shown: 0, observation: None }
    }

    /// Returns the events up to this moment of the run.
    pub fn observe(&mut self, directions: &[LiveDirection]) -> Vec<RunEvent> {
        let mut events = Vec::new();
        if let Some(observation) = &mut self.observation {
            add_samples(observation, directions);
        } else if let Some(observation) = begin_observation(&self.run, directions) {
            let ways = list_directions(&self.plan, &observation);
            events.push(RunEvent::new("start", build_start(&self.run, &self.plan, &ways)));
            self.observation = Some(observation);
        }
        let Some(observation) = self.observation.as_mut().filter(|_| self.interval_us > 0) else {
            return events;
        };
        let ends = directions.iter().flat_map(|direction| direction.own_ends);
        let reached_us = ends.map(|end| end.duration_us).min().unwrap_or(0);
        while (self.shown + 1) * self.interval_us <= reached_us {
            let from = self.shown * self.interval_us;
            let ways = list_directions(&self.plan, observation);
            let interval = build_interval(&ways, 0, (from, from + self.interval_us));
            events.push(RunEvent::new("interval", interval));
            self.shown += 1;
        }
        forget_samples(observation, self.shown * self.interval_us);
        events
    }

    /// Returns the remaining events of a run that has ended.
    pub fn finish(self, report: &ThroughputReport) -> Vec<RunEvent> {
        let ways = list_directions(&report.plan, &report.observation);
        let start = || RunEvent::new("start", build_start(&report.run, &report.plan, &ways));
        let mut events: Vec<RunEvent> =
            self.observation.is_none().then(start).into_iter().collect();
        let intervals = build_intervals(&ways, self.interval_us).into_iter();
        let rest = intervals.skip(self.shown as usize);
        events.extend(rest.map(|interval| RunEvent::new("interval", interval)));
        events.push(RunEvent::new("end", build_end(&ways)));
        events
    }
}

/// One object of `--json-stream`, which prints as one line with the name first, as in iperf3.
#[derive(Debug)]
pub struct RunEvent {
    pub event: &'static str,
    pub data: Value,
}

impl fmt::Display for RunEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{\"event\":\"{}\",\"data\":{}}}", self.event, self.data)
    }
}

impl RunEvent {
    pub fn new(event: &'static str, mut data: Value) -> RunEvent {
        remove_nulls(&mut data);
        RunEvent { event, data }
    }
}

/// Returns an observation of this end only; `None` before there are streams.
fn begin_observation(run: &RunInfo, directions: &[LiveDirection]) -> Option<ThroughputObservation> {
    let mut own = EndObservation::default();
    own.host.name.clone_from(&run.initiator.host);
    own.host.kernel = run.initiator.kernel.clone().unwrap_or_default();
    let mut observations =
        directions.iter().filter(|it| !it.own_ends.is_empty()).map(|direction| {
            let (near, far) = (own.clone(), EndObservation::default());
            let stream = |(index, end): (u32, &StreamEnd)| {
                let (near, far) = (end.clone(), StreamEnd::default());
                let [sender, receiver] = if direction.forward { [near, far] } else { [far, near] };
                ObservedStream { index, sender, receiver }
            };
            let [sender, receiver] = if direction.forward { [near, far] } else { [far, near] };
            ThroughputObservation {
                forward: direction.forward,
                elapsed_us: 0,
                idle_rtt_us: None,
                clock_error_us: None,
                same_host: false,
                same_boot: None,
                streams: (0..).zip(direction.own_ends).map(stream).collect(),
                ends: BothEnds { sender, receiver },
                reverse: None,
            }
        });
    let first = observations.next()?;
    Some(ThroughputObservation { reverse: observations.next().map(Box::new), ..first })
}

/// Returns this end of every stream of a direction.
fn own_ends_mut(observation: &mut ThroughputObservation) -> impl Iterator<Item = &mut StreamEnd> {
    let forward = observation.forward;
    let streams = observation.streams.iter_mut();
    streams.map(move |it| if forward { &mut it.sender } else { &mut it.receiver })
}

fn add_samples(observation: &mut ThroughputObservation, directions: &[LiveDirection]) {
    for direction in directions {
        let observed = if observation.forward == direction.forward {
            Some(&mut *observation)
        } else {
            observation.reverse.as_deref_mut()
        };
        let known = observed.into_iter().flat_map(own_ends_mut);
        for (known, now) in known.zip(direction.own_ends) {
            (known.bytes, known.duration_us) = (now.bytes, now.duration_us);
            known.samples.extend(now.samples.iter().cloned());
        }
    }
}

/// Removes the samples before `until_us`, except for the last of them.
fn forget_samples(observation: &mut ThroughputObservation, until_us: u64) {
    for end in own_ends_mut(observation) {
        let before = end.samples.partition_point(|sample| sample.at_us <= until_us);
        end.samples.drain(..before.saturating_sub(1));
    }
    if let Some(reverse) = observation.reverse.as_deref_mut() {
        forget_samples(reverse, until_us);
    }
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

fn build_start(run: &RunInfo, plan: &ThroughputPlan, ways: &[DirectionView]) -> Value {
    let observation = ways[0].observation;
    let [own, far] = observation.initiator_and_responder();
    let connected = ways.iter().flat_map(|way| {
        let streams = way.observation.streams.iter();
        streams.map(|stream| build_connection(way.socket(stream), way.own_end(stream)))
    });
    let far_name = match run.responder.host.as_str() {
        "" => &far.host.name,
        name => name,
    };
    let began = run.started_at.parse::<Timestamp>().ok();
    let first = observation.streams.first().map(|stream| ways[0].own_end(stream));
    let asked = plan.send_buffer_bytes.max(plan.receive_buffer_bytes);
    json!({
        "connected": connected.collect::<Vec<_>>(),
        "version": format!("iperf 3 (shape; longhaul {})", run.longhaul),
        "system_info": format!("Linux {} {}", own.host.name, own.host.kernel),
        "connecting_to": {
            "host": far_name,
            "port": first.and_then(|end| parse_address(end.peer.as_ref())).map(|it| it.port()),
        },
        "test_start": build_test_start(plan),
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

fn build_test_start(plan: &ThroughputPlan) -> Value {
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

/// The minimum length of an incomplete interval at the end of a run.
const MIN_LAST_INTERVAL_US: u64 = 100_000;
/// The maximum number of intervals: a day of seconds, and a margin. A run that states more has one.
const MAX_INTERVALS: u64 = 100_000;

/// Returns all intervals of all directions; a single one if `interval_us` is 0.
fn build_intervals(ways: &[DirectionView], interval_us: u64) -> Vec<Value> {
    let streams =
        || ways.iter().flat_map(|way| way.observation.streams.iter().map(move |s| way.own_end(s)));
    let begin = streams().map(|end| end.started_us).min().unwrap_or(0);
    let lasted =
        streams().map(|end| end.started_us.saturating_add(end.duration_us)).max().unwrap_or(0);
    let lasted = lasted.saturating_sub(begin);
    let whole = lasted.checked_div(interval_us).filter(|it| *it <= MAX_INTERVALS).unwrap_or(0);
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
            let part = StreamIntervalPart::between(
                way.own_end(stream),
                begin.saturating_add(from),
                begin.saturating_add(to),
            );
            bytes = sum_counts([bytes, part.bytes]);
            resent = sum_known_counts([resent, part.resent]);
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
    let stopped = end.started_us.saturating_add(end.duration_us);
    if at_us >= stopped {
        return end.bytes;
    }
    let point = |sample: &StreamSample| (sample.at_us, sample.bytes);
    let before = end.samples.iter().rev().map(point).find(|p| p.0 <= at_us);
    let after = end.samples.iter().map(point).find(|p| p.0 > at_us && p.0 <= stopped);
    let (from, low) = before.unwrap_or((end.started_us, 0));
    let (to, high) = after.unwrap_or((stopped, end.bytes));
    let share = at_us.saturating_sub(from) as f64 / to.saturating_sub(from).max(1) as f64;
    low.saturating_add((high.saturating_sub(low) as f64 * share) as u64)
}

/// The retransmits that an iperf3 server reports for its sender.
const FAR_RETRANSMITS: &str = "iperf3.retransmits";

fn build_end(ways: &[DirectionView]) -> Value {
    let streams = ways.iter().flat_map(|way| {
        let each = way.observation.streams.iter();
        each.map(|stream| {
            if way.is_udp() { build_udp_stream(way, stream) } else { build_tcp_stream(way, stream) }
        })
    });
    let mut end = Map::from_iter([("streams".to_owned(), streams.collect())]);
    for (way, suffix) in ways.iter().zip(["", "_bidir_reverse"]) {
        let (sent, received) = build_sums(way);
        if way.is_udp() {
            // The sender's bytes with the receiver's losses, as iperf3 combines them.
            let sum = add_members(sent.clone(), build_losses(&add_up_udp(way)));
            end.insert(format!("sum{suffix}"), sum);
        }
        end.insert(format!("sum_sent{suffix}"), sent);
        end.insert(format!("sum_received{suffix}"), received);
    }
    if let Some(way) = ways.first() {
        end.insert("cpu_utilization_percent".to_owned(), build_cpu_utilization(way));
        for (name, side) in [("sender", SENDER), ("receiver", RECEIVER)] {
            let mut streams = way.observation.streams.iter().filter(|_| !way.is_udp());
            let control = streams.find_map(|stream| side(stream).congestion_control.as_ref());
            end.insert(format!("{name}_tcp_congestion"), json!(control));
        }
    }
    Value::Object(end)
}

/// Selects one end of a stream.
type EndSelector = fn(&ObservedStream) -> &StreamEnd;

const SENDER: EndSelector = |stream| &stream.sender;
const RECEIVER: EndSelector = |stream| &stream.receiver;

/// Returns the time from the first byte of any stream to the last of any: a common time for all, so
/// that rates add up.
fn common_duration_s(way: &DirectionView, side: EndSelector) -> f64 {
    let ends = || way.observation.streams.iter().map(side);
    let from = ends().map(|end| end.started_us).min().unwrap_or(0);
    let to = ends().map(|end| end.started_us.saturating_add(end.duration_us)).max();
    to.unwrap_or(0).saturating_sub(from) as f64 / MICROS
}

/// Returns the bytes of one end of a stream, with members that only this end has.
fn build_stream_end(
    way: &DirectionView,
    stream: &ObservedStream,
    side: EndSelector,
    more: Value,
) -> Value {
    let one = build_span(0.0, common_duration_s(way, side), side(stream).bytes);
    let one = add_members(one, json!({"socket": way.socket(stream), "sender": way.sends()}));
    add_members(one, more)
}

fn build_tcp_stream(way: &DirectionView, stream: &ObservedStream) -> Value {
    let tcp = || stream.sender.samples.iter().filter_map(|s| s.tcp.as_ref());
    let trips: Vec<u64> = tcp().map(|t| t.rtt_us).filter(|us| *us > 0).collect();
    let sent = json!({
        "retransmits": last_tcp_info(&stream.sender).map(|t| t.retransmitted_segments),
        "max_snd_cwnd": tcp().map(|t| t.cwnd_bytes).max(),
        "max_snd_wnd": tcp().filter_map(|t| t.peer_window_bytes).max(),
        "max_rtt": trips.iter().max(),
        "min_rtt": trips.iter().min(),
        "mean_rtt": sum_counts(trips.iter().copied()).checked_div(trips.len() as u64),
    });
    json!({
        "sender": build_stream_end(way, stream, SENDER, sent),
        "receiver": build_stream_end(way, stream, RECEIVER, Value::Null),
    })
}

fn build_udp_stream(way: &DirectionView, stream: &ObservedStream) -> Value {
    let udp = stream.receiver.udp.unwrap_or_default();
    let late = json!({"out_of_order": udp.out_of_order});
    let more = add_members(build_losses(&udp), late);
    json!({"udp": build_stream_end(way, stream, SENDER, more)})
}

fn build_losses(udp: &UdpCounts) -> Value {
    let sent = sum_counts([udp.datagrams, udp.lost]);
    let percent = if sent > 0 { 100.0 * udp.lost as f64 / sent as f64 } else { 0.0 };
    json!({
        "jitter_ms": udp.jitter_ns.map_or(0.0, |ns| ns as f64 / 1e6),
        "lost_packets": udp.lost,
        "packets": sent,
        "lost_percent": percent,
    })
}

/// Returns the totals sent and received by all streams of a direction.
fn build_sums(way: &DirectionView) -> (Value, Value) {
    let streams = &way.observation.streams;
    let sum = |side: EndSelector, more: Value| {
        let bytes = sum_counts(streams.iter().map(|stream| side(stream).bytes));
        let one = build_span(0.0, common_duration_s(way, side), bytes);
        add_members(add_members(one, json!({"sender": way.sends()})), more)
    };
    if way.is_udp() {
        let packets = sum_known_counts(streams.iter().map(|s| s.sender.calls));
        let received = sum(RECEIVER, build_losses(&add_up_udp(way)));
        return (sum(SENDER, json!({"packets": packets})), received);
    }
    let own = streams.iter().map(|s| Some(last_tcp_info(&s.sender)?.retransmitted_segments));
    let far = &way.observation.ends.sender.protocol;
    let resent = sum_known_counts(own).filter(|_| !streams.is_empty());
    let resent = resent.or_else(|| far.get(FAR_RETRANSMITS).copied());
    (sum(SENDER, json!({"retransmits": resent})), sum(RECEIVER, Value::Null))
}

/// Adds up counts; jitter is the mean of the streams that have one.
fn add_up_udp(way: &DirectionView) -> UdpCounts {
    let streams = way.observation.streams.iter();
    let all: Vec<UdpCounts> = streams.filter_map(|s| s.receiver.udp).collect();
    let jitters: Vec<u64> = all.iter().filter_map(|udp| udp.jitter_ns).collect();
    UdpCounts {
        datagrams: sum_counts(all.iter().map(|udp| udp.datagrams)),
        lost: sum_counts(all.iter().map(|udp| udp.lost)),
        jitter_ns: sum_counts(jitters.iter().copied()).checked_div(jitters.len() as u64),
        ..UdpCounts::default()
    }
}

/// Returns CPU shares in percent of one core; 0 for an end that did not report them.
fn build_cpu_utilization(way: &DirectionView) -> Value {
    let lasted = way.observation.elapsed_us.max(1) as f64;
    let share = |us: Option<u64>| us.map_or(0.0, |us| 100.0 * us as f64 / lasted);
    let [host, remote] = way.observation.initiator_and_responder();
    let mut all = Map::new();
    let mut tell = |name: &str, end: &EndObservation| {
        let (user, system) = (share(end.cpu_user_us), share(end.cpu_system_us));
        for (part, value) in [("total", user + system), ("user", user), ("system", system)] {
            all.insert(format!("{name}_{part}"), json!(value));
        }
    };
    tell("host", host);
    tell("remote", remote);
    Value::Object(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_model::report::v1::RunParty;

    fn run_info() -> RunInfo {
        RunInfo {
            id: "20261126T090000Z-000000".to_owned(),
            started_at: "2026-11-26T09:00:00Z".to_owned(),
            duration_us: 0,
            longhaul: "1".to_owned(),
            initiator: RunParty { host: "near".to_owned(), ..RunParty::default() },
            responder: RunParty { host: "far".to_owned(), ..RunParty::default() },
            part_of: None,
            environment: None,
        }
    }

    /// This end of a stream that has moved `bytes` after `ms`.
    fn end_at(ms: u64, bytes: u64) -> StreamEnd {
        let at_us = ms * 1000;
        StreamEnd {
            local: Some("192.0.2.1:4001".to_owned()),
            peer: Some("192.0.2.2:5201".to_owned()),
            bytes,
            duration_us: at_us,
            samples: vec![StreamSample { at_us, bytes, ..StreamSample::default() }],
            ..StreamEnd::default()
        }
    }

    #[test]
    fn an_interval_is_an_event_as_soon_as_it_is_over() {
        let plan = ThroughputPlan { streams: 2, ..ThroughputPlan::default() };
        let mut stream = RunEventStream::new(run_info(), plan, 1_000_000);
        let mut observe = |ms: u64, bytes: u64| {
            let own_ends = [end_at(ms, bytes), end_at(ms, 2 * bytes)];
            stream.observe(&[LiveDirection { forward: true, own_ends: &own_ends }])
        };
        let start = observe(100, 100);
        assert_eq!(start.len(), 1);
        assert_eq!(start[0].event, "start");
        assert_eq!(start[0].data["connected"][1]["remote_port"], 5201);
        assert_eq!(start[0].data["connecting_to"]["host"], "far");
        assert!(observe(900, 900).is_empty(), "the first second is not over");
        let first = observe(1100, 1100);
        assert_eq!(first.len(), 1);
        // Between the samples at 900 and 1100 ms the bytes lie on a line.
        assert_eq!(first[0].data["streams"][0]["bytes"], 1000);
        assert_eq!(first[0].data["sum"]["bytes"], 3000);
        let late = observe(3500, 3500);
        let ends: Vec<&Value> = late.iter().map(|event| &event.data["sum"]["end"]).collect();
        assert_eq!(ends, [&json!(2), &json!(3)]);
        let kept = stream.observation.expect("begun").streams[0].sender.samples.len();
        assert!(kept <= 2, "{kept} samples are kept");
    }
}
