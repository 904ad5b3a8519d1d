//! The `build_end` object: totals of a run at both ends.

use super::{DirectionView, MICROS, build_span, insert_if_some};
use longhaul_analysis::throughput::run_totals::last_tcp_info;
use longhaul_model::report::v1::observation::{
    EndObservation, ObservedStream, StreamEnd, TcpReading, UdpCounts,
};
use serde_json::{Map, Value, json};

/// The retransmits that an iperf3 server reports for its sender.
const FAR_RETRANSMITS: &str = "iperf3.retransmits";

pub fn build_end(ways: &[DirectionView]) -> Value {
    let mut end = Map::new();
    let streams = ways.iter().flat_map(|way| {
        let each = way.observation.streams.iter();
        each.map(|stream| {
            if way.is_udp() { build_udp_stream(way, stream) } else { build_tcp_stream(way, stream) }
        })
    });
    end.insert("streams".to_owned(), streams.collect());
    for (way, suffix) in ways.iter().zip(["", "_bidir_reverse"]) {
        let (sent, received) = build_sums(way);
        if way.is_udp() {
            end.insert(format!("sum{suffix}"), build_udp_sum(way, &sent));
        }
        end.insert(format!("sum_sent{suffix}"), Value::Object(sent));
        end.insert(format!("sum_received{suffix}"), Value::Object(received));
    }
    if let Some(way) = ways.first() {
        end.insert("cpu_utilization_percent".to_owned(), build_cpu_utilization(way));
        for (name, side) in [("sender", sender_end as EndSelector), ("receiver", receiver_end)] {
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
type EndSelector = fn(&ObservedStream) -> &StreamEnd;

fn sender_end(stream: &ObservedStream) -> &StreamEnd {
    &stream.sender
}

fn receiver_end(stream: &ObservedStream) -> &StreamEnd {
    &stream.receiver
}

/// Returns the time from the first byte of any stream to the last of any: a common time for all, so
/// that rates add up.
fn common_duration_s(way: &DirectionView, side: EndSelector) -> f64 {
    let ends = || way.observation.streams.iter().map(side);
    let from = ends().map(|end| end.started_us).min().unwrap_or(0);
    let to = ends().map(|end| end.started_us + end.duration_us).max();
    to.unwrap_or(0).saturating_sub(from) as f64 / MICROS
}

fn build_byte_count(
    way: &DirectionView,
    stream: &ObservedStream,
    side: EndSelector,
) -> Map<String, Value> {
    build_span(0.0, common_duration_s(way, side), side(stream).bytes)
}

fn add_socket(mut one: Map<String, Value>, way: &DirectionView, stream: &ObservedStream) -> Value {
    insert_if_some(&mut one, "socket", Some(way.socket(stream)));
    one.insert("sender".to_owned(), json!(way.sends()));
    Value::Object(one)
}

fn build_tcp_stream(way: &DirectionView, stream: &ObservedStream) -> Value {
    let mut sent = build_byte_count(way, stream, sender_end);
    let tcp = || stream.sender.samples.iter().filter_map(|s| s.tcp.as_ref());
    let trips: Vec<u64> = tcp().map(|t| t.rtt_us).filter(|us| *us > 0).collect();
    insert_if_some(
        &mut sent,
        "retransmits",
        last_tcp_info(&stream.sender).map(|t| t.retransmitted_segments),
    );
    insert_if_some(&mut sent, "max_snd_cwnd", tcp().map(|t| t.cwnd_bytes).max());
    insert_if_some(
        &mut sent,
        "max_snd_wnd",
        tcp().filter_map(|t: &TcpReading| t.peer_window_bytes).max(),
    );
    insert_if_some(&mut sent, "max_rtt", trips.iter().max().copied());
    insert_if_some(&mut sent, "min_rtt", trips.iter().min().copied());
    insert_if_some(
        &mut sent,
        "mean_rtt",
        trips.iter().sum::<u64>().checked_div(trips.len() as u64),
    );
    json!({
        "sender": add_socket(sent, way, stream),
        "receiver": add_socket(build_byte_count(way, stream, receiver_end), way, stream),
    })
}

fn build_udp_stream(way: &DirectionView, stream: &ObservedStream) -> Value {
    let mut one = build_byte_count(way, stream, sender_end);
    insert_losses(&mut one, &stream.receiver.udp.unwrap_or_default());
    insert_if_some(&mut one, "out_of_order", stream.receiver.udp.and_then(|udp| udp.out_of_order));
    json!({"udp": add_socket(one, way, stream)})
}

fn insert_losses(one: &mut Map<String, Value>, udp: &UdpCounts) {
    let sent = udp.datagrams + udp.lost;
    let percent = if sent > 0 { 100.0 * udp.lost as f64 / sent as f64 } else { 0.0 };
    let jitter_ms = udp.jitter_ns.map_or(0.0, |ns| ns as f64 / 1e6);
    one.insert("jitter_ms".to_owned(), json!(jitter_ms));
    one.insert("lost_packets".to_owned(), json!(udp.lost));
    one.insert("packets".to_owned(), json!(sent));
    one.insert("lost_percent".to_owned(), json!(percent));
}

/// Returns the totals sent and received by all streams of a direction.
fn build_sums(way: &DirectionView) -> (Map<String, Value>, Map<String, Value>) {
    let streams = &way.observation.streams;
    let sum = |side: EndSelector| {
        let bytes = streams.iter().map(|stream| side(stream).bytes).sum();
        let mut one = build_span(0.0, common_duration_s(way, side), bytes);
        one.insert("sender".to_owned(), json!(way.sends()));
        one
    };
    let (mut sent, mut received) = (sum(sender_end), sum(receiver_end));
    if way.is_udp() {
        let all = streams.iter().filter_map(|s| s.receiver.udp);
        insert_losses(&mut received, &add_up_udp(all));
        let packets: Option<u64> = streams.iter().map(|s| s.sender.calls).sum();
        insert_if_some(&mut sent, "packets", packets);
    } else {
        let own = streams.iter().map(|s| Some(last_tcp_info(&s.sender)?.retransmitted_segments));
        let far = &way.observation.ends.sender.protocol;
        let resent = own.sum::<Option<u64>>().filter(|_| !streams.is_empty());
        insert_if_some(
            &mut sent,
            "retransmits",
            resent.or_else(|| far.get(FAR_RETRANSMITS).copied()),
        );
    }
    (sent, received)
}

/// Returns the sender's bytes with the receiver's losses, as iperf3 combines them.
fn build_udp_sum(way: &DirectionView, sent: &Map<String, Value>) -> Value {
    let mut one = sent.clone();
    let all = way.observation.streams.iter().filter_map(|s| s.receiver.udp);
    insert_losses(&mut one, &add_up_udp(all));
    Value::Object(one)
}

/// Adds up counts; jitter is the mean of the streams that have one.
fn add_up_udp(all: impl Iterator<Item = UdpCounts>) -> UdpCounts {
    let all: Vec<UdpCounts> = all.collect();
    let jitters: Vec<u64> = all.iter().filter_map(|udp| udp.jitter_ns).collect();
    UdpCounts {
        datagrams: all.iter().map(|udp| udp.datagrams).sum(),
        lost: all.iter().map(|udp| udp.lost).sum(),
        out_of_order: all.iter().map(|udp| udp.out_of_order).sum(),
        duplicates: all.iter().map(|udp| udp.duplicates).sum(),
        jitter_ns: jitters.iter().sum::<u64>().checked_div(jitters.len() as u64),
    }
}

/// Returns CPU shares in percent of one core; 0 for an end that did not report them.
fn build_cpu_utilization(way: &DirectionView) -> Value {
    let lasted = way.observation.elapsed_us.max(1) as f64;
    let share = |us: Option<u64>| us.map_or(0.0, |us| 100.0 * us as f64 / lasted);
    let ends = &way.observation.ends;
    let (host, remote) =
        if way.sends() { (&ends.sender, &ends.receiver) } else { (&ends.receiver, &ends.sender) };
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
