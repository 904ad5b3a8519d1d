//! The JSON of a test of `longhaul iperf3`, built during the test: `-J` prints it at the end, and
//! `--json-stream` piece by piece. This module has the parts that client and server share.
//!
//! Unlike the JSON of a report it has the requested intervals, and totals without omitted
//! intervals, as iperf3 does.

use super::{FIRST_SOCKET, number, put, span};
use longhaul_probe::iperf3::wire::{Results, StreamResults};
use longhaul_probe::serve::follow::{Datagrams, Interval, Started, StreamInterval};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// Returns the socket number of the stream opened as `index`, which identifies the stream and is
/// not a file descriptor.
pub fn socket(index: usize) -> u64 {
    FIRST_SOCKET + 2 * index as u64
}

/// Suffixes of the sums of each direction.
const SUMS: [&str; 2] = ["", "_bidir_reverse"];

/// Returns the connections of a test; `socket` assigns their numbers.
pub fn connected(started: &Started, socket: impl Fn(usize) -> u64) -> Value {
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
pub fn processors(own: Option<&Results>, far: Option<&Results>) -> Value {
    let mut shares = Map::new();
    for (name, results) in [("host", own), ("remote", far)] {
        let share = |of: fn(&Results) -> f64| json!(results.map_or(0.0, of));
        shares.insert(format!("{name}_total"), share(|r| r.cpu_util_total));
        shares.insert(format!("{name}_user"), share(|r| r.cpu_util_user));
        shares.insert(format!("{name}_system"), share(|r| r.cpu_util_system));
    }
    Value::Object(shares)
}

/// Returns one interval of all streams; `socket` assigns their numbers.
pub fn interval(interval: &Interval, socket: impl Fn(usize) -> u64) -> Value {
    let streams = interval.streams.iter().enumerate();
    let ways = ways(&interval.streams);
    let mut one = Map::new();
    one.insert(
        "streams".to_owned(),
        streams
            .map(|(index, stream)| interval_part(interval, stream, Some(socket(index))))
            .collect(),
    );
    for (way, suffix) in ways.iter().zip(SUMS) {
        one.insert(format!("sum{suffix}"), interval_part(interval, way, None));
    }
    Value::Object(one)
}

fn interval_part(interval: &Interval, stream: &StreamInterval, socket: Option<u64>) -> Value {
    let (from, to) = (interval.from.as_secs_f64(), interval.to.as_secs_f64());
    let mut one = span(from, to, stream.bytes);
    put(&mut one, "socket", socket);
    put(&mut one, "retransmits", stream.resent);
    if let (Some(tcp), Some(_)) = (stream.tcp, socket) {
        let us = |time: Duration| Some(time.as_micros() as u64);
        put(&mut one, "snd_cwnd", Some(tcp.cwnd_bytes));
        put(&mut one, "snd_wnd", tcp.peer_window_bytes);
        put(&mut one, "rtt", us(tcp.rtt));
        put(&mut one, "rttvar", us(tcp.rttvar));
        put(&mut one, "pmtu", Some(tcp.path_mtu_bytes));
    }
    if let Some(udp) = stream.datagrams {
        if stream.sends {
            put(&mut one, "packets", Some(udp.count));
        } else {
            lost(&mut one, &udp);
        }
    }
    one.insert("omitted".to_owned(), json!(interval.omitted));
    one.insert("sender".to_owned(), json!(stream.sends));
    Value::Object(one)
}

/// Returns the jitter in milliseconds; 0 if unknown, because readers require the key.
pub fn jitter_ms(udp: &Datagrams) -> f64 {
    udp.jitter.map_or(0.0, |jitter| jitter.as_secs_f64() * 1e3)
}

pub fn lost(one: &mut Map<String, Value>, udp: &Datagrams) {
    let share = if udp.count > 0 {
        100.0 * udp.lost as f64 / udp.count as f64
    } else {
        0.0
    };
    one.insert("jitter_ms".to_owned(), json!(jitter_ms(udp)));
    one.insert("lost_packets".to_owned(), json!(udp.lost));
    one.insert("packets".to_owned(), json!(udp.count));
    one.insert("lost_percent".to_owned(), number(share));
}

/// Returns the sum of each direction, that of the first stream first.
fn ways(streams: &[StreamInterval]) -> Vec<StreamInterval> {
    let first = streams.first().is_some_and(|stream| stream.sends);
    [first, !first]
        .into_iter()
        .filter_map(|sends| way(streams, sends))
        .collect()
}

/// Returns the sum of one direction.
pub fn way(streams: &[StreamInterval], sends: bool) -> Option<StreamInterval> {
    let of_way: Vec<_> = streams.iter().filter(|s| s.sends == sends).collect();
    of_way.first()?;
    let udp: Option<Vec<Datagrams>> = of_way.iter().map(|s| s.datagrams).collect();
    Some(StreamInterval {
        sends,
        bytes: of_way.iter().map(|s| s.bytes).sum(),
        resent: of_way.iter().map(|s| s.resent).sum(),
        tcp: None,
        datagrams: udp.map(|all| added_up(&all)),
    })
}

fn added_up(all: &[Datagrams]) -> Datagrams {
    let jitters = || all.iter().filter_map(|udp| udp.jitter);
    Datagrams {
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
pub struct Both {
    /// True: this end sends.
    pub sends: bool,
    pub sent: Total,
    pub received: Total,
}

/// Converts a server's results of a stream to our own counts.
pub fn far(
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
        resent: u64::try_from(told.retransmits)
            .ok()
            .filter(|_| sends && !udp),
        tcp: None,
        datagrams: udp.then(|| Datagrams {
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
pub struct Extremes {
    cwnd: Option<u64>,
    window: Option<u64>,
    /// Maximum, minimum, sum and count of RTTs in microseconds.
    rtt_us: Option<(u64, u64, u64, u64)>,
}

impl Extremes {
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

    pub fn tell(&self, one: &mut Map<String, Value>) {
        let rtt = self.rtt_us;
        put(one, "max_snd_cwnd", self.cwnd);
        put(one, "max_snd_wnd", self.window);
        put(one, "max_rtt", rtt.map(|rtt| rtt.0));
        put(one, "min_rtt", rtt.map(|rtt| rtt.1));
        put(one, "mean_rtt", rtt.map(|rtt| rtt.2 / rtt.3.max(1)));
    }
}

/// Returns the bytes, rate and retransmits of a whole test.
pub fn side((lasted, stream): &Total) -> Map<String, Value> {
    let mut one = span(0.0, lasted.as_secs_f64(), stream.bytes);
    put(&mut one, "retransmits", stream.resent);
    one
}

/// Returns the totals without CPU shares and congestion controls.
pub fn end(streams: &[Both], extremes: &[Extremes], udp: bool) -> Map<String, Value> {
    let each = streams.iter().enumerate().map(|(index, both)| {
        if udp {
            json!({ "udp": datagram_stream(index, both) })
        } else {
            byte_stream(index, both, extremes.get(index))
        }
    });
    let mut end = Map::new();
    end.insert("streams".to_owned(), each.collect());
    let first = streams.first().is_some_and(|both| both.sends);
    for (sends, suffix) in [first, !first].into_iter().zip(SUMS) {
        let of_way: Vec<&Both> = streams.iter().filter(|both| both.sends == sends).collect();
        if of_way.is_empty() {
            continue;
        }
        let (sent, received) = (total(&of_way, |b| &b.sent), total(&of_way, |b| &b.received));
        if udp {
            end.insert(
                format!("sum{suffix}"),
                datagram_sum(&sent, &received, sends),
            );
        }
        for (name, of) in [("sum_sent", &sent), ("sum_received", &received)] {
            let mut one = side(of);
            if let Some(datagrams) = of.1.datagrams {
                lost(&mut one, &datagrams);
            }
            one.insert("sender".to_owned(), json!(sends));
            end.insert(format!("{name}{suffix}"), Value::Object(one));
        }
    }
    end
}

fn byte_stream(index: usize, both: &Both, extremes: Option<&Extremes>) -> Value {
    let mut sender = side(&both.sent);
    if let Some(seen) = extremes.filter(|_| both.sends) {
        seen.tell(&mut sender);
    }
    let mut receiver = side(&both.received);
    for one in [&mut sender, &mut receiver] {
        put(one, "socket", Some(socket(index)));
        one.insert("sender".to_owned(), json!(both.sends));
    }
    json!({ "sender": sender, "receiver": receiver })
}

fn datagram_stream(index: usize, both: &Both) -> Value {
    let mut one = side(&both.sent);
    let counted = both.received.1.datagrams.unwrap_or_default();
    lost(&mut one, &counted);
    put(&mut one, "socket", Some(socket(index)));
    put(&mut one, "out_of_order", Some(counted.out_of_order));
    one.insert("sender".to_owned(), json!(both.sends));
    Value::Object(one)
}

/// The counts of a stream, and their time.
type Total = (Duration, StreamInterval);

fn total(of_way: &[&Both], of: fn(&Both) -> &Total) -> Total {
    let lasted = of_way.iter().map(|both| of(both).0).max();
    let streams: Vec<StreamInterval> = of_way.iter().map(|both| of(both).1.clone()).collect();
    let sum = ways(&streams).into_iter().next().unwrap_or_default();
    (lasted.unwrap_or_default(), sum)
}

/// Returns the sender's bytes with the receiver's losses, as iperf3 combines them.
fn datagram_sum(sent: &Total, received: &Total, sends: bool) -> Value {
    let mut one = side(sent);
    lost(&mut one, &received.1.datagrams.unwrap_or_default());
    one.insert("sender".to_owned(), json!(sends));
    Value::Object(one)
}
