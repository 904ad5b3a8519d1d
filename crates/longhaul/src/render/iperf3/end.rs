//! The `end` object: totals of a run at both ends.

use super::{MICROS, Way, put, span};
use longhaul_analysis::throughput::totals::last;
use longhaul_model::report::v1::observation::{End, Stream, StreamEnd, Tcp, Udp};
use serde_json::{Map, Value, json};

/// The retransmits that an iperf3 server reports for its sender.
const FAR_RETRANSMITS: &str = "iperf3.retransmits";

pub fn end(ways: &[Way]) -> Value {
    let mut end = Map::new();
    let streams = ways.iter().flat_map(|way| {
        let each = way.observation.streams.iter();
        each.map(|stream| {
            if way.is_udp() {
                datagrams(way, stream)
            } else {
                bytes(way, stream)
            }
        })
    });
    end.insert("streams".to_owned(), streams.collect());
    for (way, suffix) in ways.iter().zip(["", "_bidir_reverse"]) {
        let (sent, received) = sums(way);
        if way.is_udp() {
            end.insert(format!("sum{suffix}"), both(way, &sent));
        }
        end.insert(format!("sum_sent{suffix}"), Value::Object(sent));
        end.insert(format!("sum_received{suffix}"), Value::Object(received));
    }
    if let Some(way) = ways.first() {
        end.insert("cpu_utilization_percent".to_owned(), processors(way));
        for (name, side) in [("sender", sender as Side), ("receiver", receiver)] {
            let mut streams = way.observation.streams.iter();
            let control = streams.find_map(|stream| side(stream).congestion_control.as_ref());
            if let Some(control) = control.filter(|_| !way.is_udp()) {
                end.insert(format!("{name}_tcp_congestion"), json!(control));
            }
        }
    }
    Value::Object(end)
}

/// Selects one end of a stream.
type Side = fn(&Stream) -> &StreamEnd;

fn sender(stream: &Stream) -> &StreamEnd {
    &stream.sender
}

fn receiver(stream: &Stream) -> &StreamEnd {
    &stream.receiver
}

/// Returns the time from the first byte of any stream to the last of any: a common time for all, so
/// that rates add up.
fn lasted_s(way: &Way, side: Side) -> f64 {
    let ends = || way.observation.streams.iter().map(side);
    let from = ends().map(|end| end.started_us).min().unwrap_or(0);
    let to = ends().map(|end| end.started_us + end.duration_us).max();
    to.unwrap_or(0).saturating_sub(from) as f64 / MICROS
}

fn counted(way: &Way, stream: &Stream, side: Side) -> Map<String, Value> {
    span(0.0, lasted_s(way, side), side(stream).bytes)
}

fn of_socket(mut one: Map<String, Value>, way: &Way, stream: &Stream) -> Value {
    put(&mut one, "socket", Some(way.socket(stream)));
    one.insert("sender".to_owned(), json!(way.sends()));
    Value::Object(one)
}

fn bytes(way: &Way, stream: &Stream) -> Value {
    let mut sent = counted(way, stream, sender);
    let tcp = || stream.sender.samples.iter().filter_map(|s| s.tcp.as_ref());
    let trips: Vec<u64> = tcp().map(|t| t.rtt_us).filter(|us| *us > 0).collect();
    put(
        &mut sent,
        "retransmits",
        last(&stream.sender).map(|t| t.retransmitted_segments),
    );
    put(&mut sent, "max_snd_cwnd", tcp().map(|t| t.cwnd_bytes).max());
    put(
        &mut sent,
        "max_snd_wnd",
        tcp().filter_map(|t: &Tcp| t.peer_window_bytes).max(),
    );
    put(&mut sent, "max_rtt", trips.iter().max().copied());
    put(&mut sent, "min_rtt", trips.iter().min().copied());
    put(
        &mut sent,
        "mean_rtt",
        trips.iter().sum::<u64>().checked_div(trips.len() as u64),
    );
    json!({
        "sender": of_socket(sent, way, stream),
        "receiver": of_socket(counted(way, stream, receiver), way, stream),
    })
}

fn datagrams(way: &Way, stream: &Stream) -> Value {
    let mut one = counted(way, stream, sender);
    lost(&mut one, &stream.receiver.udp.unwrap_or_default());
    put(
        &mut one,
        "out_of_order",
        stream.receiver.udp.and_then(|udp| udp.out_of_order),
    );
    json!({"udp": of_socket(one, way, stream)})
}

fn lost(one: &mut Map<String, Value>, udp: &Udp) {
    let sent = udp.datagrams + udp.lost;
    let percent = if sent > 0 {
        100.0 * udp.lost as f64 / sent as f64
    } else {
        0.0
    };
    let jitter_ms = udp.jitter_ns.map_or(0.0, |ns| ns as f64 / 1e6);
    one.insert("jitter_ms".to_owned(), json!(jitter_ms));
    one.insert("lost_packets".to_owned(), json!(udp.lost));
    one.insert("packets".to_owned(), json!(sent));
    one.insert("lost_percent".to_owned(), json!(percent));
}

/// Returns the totals sent and received by all streams of a direction.
fn sums(way: &Way) -> (Map<String, Value>, Map<String, Value>) {
    let streams = &way.observation.streams;
    let sum = |side: Side| {
        let bytes = streams.iter().map(|stream| side(stream).bytes).sum();
        let mut one = span(0.0, lasted_s(way, side), bytes);
        one.insert("sender".to_owned(), json!(way.sends()));
        one
    };
    let (mut sent, mut received) = (sum(sender), sum(receiver));
    if way.is_udp() {
        let all = streams.iter().filter_map(|s| s.receiver.udp);
        lost(&mut received, &added_up(all));
        let packets: Option<u64> = streams.iter().map(|s| s.sender.calls).sum();
        put(&mut sent, "packets", packets);
    } else {
        let own = streams
            .iter()
            .map(|s| Some(last(&s.sender)?.retransmitted_segments));
        let far = &way.observation.ends.sender.protocol;
        let resent = own.sum::<Option<u64>>().filter(|_| !streams.is_empty());
        put(
            &mut sent,
            "retransmits",
            resent.or_else(|| far.get(FAR_RETRANSMITS).copied()),
        );
    }
    (sent, received)
}

/// Returns the sender's bytes with the receiver's losses, as iperf3 combines them.
fn both(way: &Way, sent: &Map<String, Value>) -> Value {
    let mut one = sent.clone();
    let all = way
        .observation
        .streams
        .iter()
        .filter_map(|s| s.receiver.udp);
    lost(&mut one, &added_up(all));
    Value::Object(one)
}

/// Adds up counts; jitter is the mean of the streams that have one.
fn added_up(all: impl Iterator<Item = Udp>) -> Udp {
    let all: Vec<Udp> = all.collect();
    let jitters: Vec<u64> = all.iter().filter_map(|udp| udp.jitter_ns).collect();
    Udp {
        datagrams: all.iter().map(|udp| udp.datagrams).sum(),
        lost: all.iter().map(|udp| udp.lost).sum(),
        out_of_order: all.iter().map(|udp| udp.out_of_order).sum(),
        duplicates: all.iter().map(|udp| udp.duplicates).sum(),
        jitter_ns: jitters
            .iter()
            .sum::<u64>()
            .checked_div(jitters.len() as u64),
    }
}

/// Returns CPU shares in percent of one core; 0 for an end that did not report them.
fn processors(way: &Way) -> Value {
    let lasted = way.observation.elapsed_us.max(1) as f64;
    let share = |us: Option<u64>| us.map_or(0.0, |us| 100.0 * us as f64 / lasted);
    let ends = &way.observation.ends;
    let (host, remote) = if way.sends() {
        (&ends.sender, &ends.receiver)
    } else {
        (&ends.receiver, &ends.sender)
    };
    let mut all = Map::new();
    let mut tell = |name: &str, end: &End| {
        let (user, system) = (share(end.cpu_user_us), share(end.cpu_system_us));
        for (part, value) in [("total", user + system), ("user", user), ("system", system)] {
            all.insert(format!("{name}_{part}"), json!(value));
        }
    };
    tell("host", host);
    tell("remote", remote);
    Value::Object(all)
}
