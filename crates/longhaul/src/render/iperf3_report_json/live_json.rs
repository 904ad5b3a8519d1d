//! The JSON of a test of `longhaul iperf3`, built during the test: `-J` prints it at the end, and
//! `--json-stream` piece by piece. This module has the parts that client and server share.
//!
//! Unlike the JSON of a report it has the requested intervals, and totals without omitted
//! intervals, as iperf3 does.

use super::{FIRST_SOCKET, build_span, insert_if_some, json_number};
use longhaul_iperf3::iperf3_messages::{StreamResults, TestResults};
use longhaul_iperf3::iperf3_service::server_observer::{
    DatagramCounts, IntervalReport, StartedStreams, StreamInterval,
};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// Returns the socket number of the stream opened as `index`, which identifies the stream and is
/// not a file descriptor.
pub fn socket_number(index: usize) -> u64 {
    FIRST_SOCKET + 2 * index as u64
}

/// Suffixes of the sums of each direction.
const SUM_SUFFIXES: [&str; 2] = ["", "_bidir_reverse"];

/// Returns the connections of a test; `socket` assigns their numbers.
pub fn build_connections(started: &StartedStreams, socket: impl Fn(usize) -> u64) -> Value {
    let streams = started.streams.iter().enumerate();
    let connected = streams.map(|(index, stream)| {
        json!({
            "socket": socket(index),
            "local_host": stream.local.ip().to_canonical().to_string(),
            "local_port": stream.local.port(),
            "remote_host": stream.peer.ip().to_canonical().to_string(),
            "remote_port": stream.peer.port(),
        })
    });
    connected.collect()
}

/// Returns the CPU shares of both ends; 0 for an end that has not reported them, because readers
/// require the key.
pub fn build_cpu_utilization(own: Option<&TestResults>, far: Option<&TestResults>) -> Value {
    let mut shares = Map::new();
    for (name, results) in [("host", own), ("remote", far)] {
        let share = |of: fn(&TestResults) -> f64| json!(results.map_or(0.0, of));
        shares.insert(format!("{name}_total"), share(|r| r.cpu_util_total));
        shares.insert(format!("{name}_user"), share(|r| r.cpu_util_user));
        shares.insert(format!("{name}_system"), share(|r| r.cpu_util_system));
    }
    Value::Object(shares)
}

/// Returns one interval of all streams; `socket` assigns their numbers.
pub fn build_interval(interval: &IntervalReport, socket: impl Fn(usize) -> u64) -> Value {
    let streams = interval.streams.iter().enumerate();
    let ways = sum_directions(&interval.streams);
    let mut one = Map::new();
    one.insert(
        "streams".to_owned(),
        streams
            .map(|(index, stream)| build_interval_part(interval, stream, Some(socket(index))))
            .collect(),
    );
    for (way, suffix) in ways.iter().zip(SUM_SUFFIXES) {
        one.insert(
            format!("sum{suffix}"),
            build_interval_part(interval, way, None),
        );
    }
    Value::Object(one)
}

fn build_interval_part(
    interval: &IntervalReport,
    stream: &StreamInterval,
    socket: Option<u64>,
) -> Value {
    let (from, to) = (interval.from.as_secs_f64(), interval.to.as_secs_f64());
    let mut one = build_span(from, to, stream.bytes);
    insert_if_some(&mut one, "socket", socket);
    insert_if_some(&mut one, "retransmits", stream.retransmits);
    if let (Some(tcp), Some(_)) = (stream.tcp, socket) {
        let us = |time: Duration| Some(time.as_micros() as u64);
        insert_if_some(&mut one, "snd_cwnd", Some(tcp.cwnd_bytes));
        insert_if_some(&mut one, "snd_wnd", tcp.peer_window_bytes);
        insert_if_some(&mut one, "rtt", us(tcp.rtt));
        insert_if_some(&mut one, "rttvar", us(tcp.rttvar));
        insert_if_some(&mut one, "pmtu", Some(tcp.path_mtu_bytes));
    }
    if let Some(udp) = stream.datagrams {
        if stream.sends {
            insert_if_some(&mut one, "packets", Some(udp.count));
        } else {
            insert_losses(&mut one, &udp);
        }
    }
    one.insert("omitted".to_owned(), json!(interval.omitted));
    one.insert("sender".to_owned(), json!(stream.sends));
    Value::Object(one)
}

/// Returns the jitter in milliseconds; 0 if unknown, because readers require the key.
pub fn jitter_ms(udp: &DatagramCounts) -> f64 {
    udp.jitter.map_or(0.0, |jitter| jitter.as_secs_f64() * 1e3)
}

pub fn insert_losses(one: &mut Map<String, Value>, udp: &DatagramCounts) {
    let share = if udp.count > 0 {
        100.0 * udp.lost as f64 / udp.count as f64
    } else {
        0.0
    };
    one.insert("jitter_ms".to_owned(), json!(jitter_ms(udp)));
    one.insert("lost_packets".to_owned(), json!(udp.lost));
    one.insert("packets".to_owned(), json!(udp.count));
    one.insert("lost_percent".to_owned(), json_number(share));
}

/// Returns the sum of each direction, that of the first stream first.
fn sum_directions(streams: &[StreamInterval]) -> Vec<StreamInterval> {
    let first = streams.first().is_some_and(|stream| stream.sends);
    [first, !first]
        .into_iter()
        .filter_map(|sends| sum_direction(streams, sends))
        .collect()
}

/// Returns the sum of one direction.
pub fn sum_direction(streams: &[StreamInterval], sends: bool) -> Option<StreamInterval> {
    let of_way: Vec<_> = streams.iter().filter(|s| s.sends == sends).collect();
    of_way.first()?;
    let udp: Option<Vec<DatagramCounts>> = of_way.iter().map(|s| s.datagrams).collect();
    Some(StreamInterval {
        sends,
        bytes: of_way.iter().map(|s| s.bytes).sum(),
        retransmits: of_way.iter().map(|s| s.retransmits).sum(),
        tcp: None,
        datagrams: udp.map(|all| add_up_datagrams(&all)),
    })
}

fn add_up_datagrams(all: &[DatagramCounts]) -> DatagramCounts {
    let jitters = || all.iter().filter_map(|udp| udp.jitter);
    DatagramCounts {
        count: all.iter().map(|udp| udp.count).sum(),
        lost: all.iter().map(|udp| udp.lost).sum(),
        out_of_order: all.iter().map(|udp| udp.out_of_order).sum(),
        jitter: jitters()
            .sum::<Duration>()
            .checked_div(jitters().count() as u32),
    }
}

/// One stream over the whole test, at both ends.
#[derive(Debug, Clone)]
pub struct StreamBothEnds {
    /// True: this end sends.
    pub sends: bool,
    pub sent: StreamTotal,
    pub received: StreamTotal,
}

/// Converts a server's results of a stream to our own counts.
pub fn totals_from_server(
    told: &StreamResults,
    sends: bool,
    udp: bool,
    own: Duration,
) -> (Duration, StreamInterval) {
    let times = told.start_time.zip(told.end_time);
    let lasted = times.map_or(own, |(from, to)| {
        Duration::try_from_secs_f64(to - from).unwrap_or(own)
    });
    let count = |all: i64, omitted: Option<i64>| (all - omitted.unwrap_or(0)).max(0) as u64;
    let jitter = Duration::try_from_secs_f64(told.jitter).unwrap_or_default();
    let stream = StreamInterval {
        sends,
        bytes: told.bytes.max(0) as u64,
        retransmits: u64::try_from(told.retransmits)
            .ok()
            .filter(|_| sends && !udp),
        tcp: None,
        datagrams: udp.then(|| DatagramCounts {
            count: count(told.packets, told.omitted_packets),
            lost: count(told.errors, told.omitted_errors),
            out_of_order: 0,
            jitter: (!sends).then_some(jitter),
        }),
    };
    (lasted, stream)
}

/// Maximum and mean values of a sending stream, from its intervals.
#[derive(Debug, Clone, Copy, Default)]
pub struct SenderExtremes {
    cwnd: Option<u64>,
    window: Option<u64>,
    /// Maximum, minimum, sum and count of RTTs in microseconds.
    rtt_us: Option<(u64, u64, u64, u64)>,
}

impl SenderExtremes {
    pub fn note(&mut self, stream: &StreamInterval) {
        let Some(tcp) = stream.tcp else { return };
        self.cwnd = self.cwnd.max(Some(tcp.cwnd_bytes));
        self.window = self.window.max(tcp.peer_window_bytes);
        let us = tcp.rtt.as_micros() as u64;
        self.rtt_us = Some(match self.rtt_us {
            None => (us, us, us, 1),
            Some((most, least, sum, count)) => (most.max(us), least.min(us), sum + us, count + 1),
        });
    }

    pub fn insert_into(&self, one: &mut Map<String, Value>) {
        let rtt = self.rtt_us;
        insert_if_some(one, "max_snd_cwnd", self.cwnd);
        insert_if_some(one, "max_snd_wnd", self.window);
        insert_if_some(one, "max_rtt", rtt.map(|rtt| rtt.0));
        insert_if_some(one, "min_rtt", rtt.map(|rtt| rtt.1));
        insert_if_some(one, "mean_rtt", rtt.map(|rtt| rtt.2 / rtt.3.max(1)));
    }
}

/// Returns the bytes, rate and retransmits of a whole test.
pub fn build_side((lasted, stream): &StreamTotal) -> Map<String, Value> {
    let mut one = build_span(0.0, lasted.as_secs_f64(), stream.bytes);
    insert_if_some(&mut one, "retransmits", stream.retransmits);
    one
}

/// Returns the totals without CPU shares and congestion controls.
pub fn build_end(
    streams: &[StreamBothEnds],
    extremes: &[SenderExtremes],
    udp: bool,
) -> Map<String, Value> {
    let each = streams.iter().enumerate().map(|(index, both)| {
        if udp {
            json!({ "udp": build_udp_stream(index, both) })
        } else {
            build_tcp_stream(index, both, extremes.get(index))
        }
    });
    let mut end = Map::new();
    end.insert("streams".to_owned(), each.collect());
    let first = streams.first().is_some_and(|both| both.sends);
    for (sends, suffix) in [first, !first].into_iter().zip(SUM_SUFFIXES) {
        let of_way: Vec<&StreamBothEnds> =
            streams.iter().filter(|both| both.sends == sends).collect();
        if of_way.is_empty() {
            continue;
        }
        let (sent, received) = (
            add_up_totals(&of_way, |b| &b.sent),
            add_up_totals(&of_way, |b| &b.received),
        );
        if udp {
            end.insert(
                format!("sum{suffix}"),
                build_udp_sum(&sent, &received, sends),
            );
        }
        for (name, of) in [("sum_sent", &sent), ("sum_received", &received)] {
            let mut one = build_side(of);
            if let Some(datagrams) = of.1.datagrams {
                insert_losses(&mut one, &datagrams);
            }
            one.insert("sender".to_owned(), json!(sends));
            end.insert(format!("{name}{suffix}"), Value::Object(one));
        }
    }
    end
}

fn build_tcp_stream(
    index: usize,
    both: &StreamBothEnds,
    extremes: Option<&SenderExtremes>,
) -> Value {
    let mut sender = build_side(&both.sent);
    if let Some(seen) = extremes.filter(|_| both.sends) {
        seen.insert_into(&mut sender);
    }
    let mut receiver = build_side(&both.received);
    for one in [&mut sender, &mut receiver] {
        insert_if_some(one, "socket", Some(socket_number(index)));
        one.insert("sender".to_owned(), json!(both.sends));
    }
    json!({ "sender": sender, "receiver": receiver })
}

fn build_udp_stream(index: usize, both: &StreamBothEnds) -> Value {
    let mut one = build_side(&both.sent);
    let counted = both.received.1.datagrams.unwrap_or_default();
    insert_losses(&mut one, &counted);
    insert_if_some(&mut one, "socket", Some(socket_number(index)));
    insert_if_some(&mut one, "out_of_order", Some(counted.out_of_order));
    one.insert("sender".to_owned(), json!(both.sends));
    Value::Object(one)
}

/// The counts of a stream, and their time.
type StreamTotal = (Duration, StreamInterval);

fn add_up_totals(
    of_way: &[&StreamBothEnds],
    of: fn(&StreamBothEnds) -> &StreamTotal,
) -> StreamTotal {
    let lasted = of_way.iter().map(|both| of(both).0).max();
    let streams: Vec<StreamInterval> = of_way.iter().map(|both| of(both).1.clone()).collect();
    let sum = sum_directions(&streams)
        .into_iter()
        .next()
        .unwrap_or_default();
    (lasted.unwrap_or_default(), sum)
}

/// Returns the sender's bytes with the receiver's losses, as iperf3 combines them.
fn build_udp_sum(sent: &StreamTotal, received: &StreamTotal, sends: bool) -> Value {
    let mut one = build_side(sent);
    insert_losses(&mut one, &received.1.datagrams.unwrap_or_default());
    one.insert("sender".to_owned(), json!(sends));
    Value::Object(one)
}
