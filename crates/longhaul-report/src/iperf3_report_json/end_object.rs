//! The `build_end` object: totals of a run at both ends.

use super::{DirectionView, MICROS, add_members, build_span};
use longhaul_analysis::throughput::run_totals::last_tcp_info;
use longhaul_model::report::v1::observation::{
    EndObservation, ObservedStream, StreamEnd, UdpCounts,
};
use serde_json::{Map, Value, json};

/// The retransmits that an iperf3 server reports for its sender.
const FAR_RETRANSMITS: &str = "iperf3.retransmits";

pub fn build_end(ways: &[DirectionView]) -> Value {
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
    let to = ends().map(|end| end.started_us + end.duration_us).max();
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
        "mean_rtt": trips.iter().sum::<u64>().checked_div(trips.len() as u64),
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
    let sent = udp.datagrams + udp.lost;
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
        let bytes = streams.iter().map(|stream| side(stream).bytes).sum();
        let one = build_span(0.0, common_duration_s(way, side), bytes);
        add_members(add_members(one, json!({"sender": way.sends()})), more)
    };
    if way.is_udp() {
        let packets: Option<u64> = streams.iter().map(|s| s.sender.calls).sum();
        let received = sum(RECEIVER, build_losses(&add_up_udp(way)));
        return (sum(SENDER, json!({"packets": packets})), received);
    }
    let own = streams.iter().map(|s| Some(last_tcp_info(&s.sender)?.retransmitted_segments));
    let far = &way.observation.ends.sender.protocol;
    let resent = own.sum::<Option<u64>>().filter(|_| !streams.is_empty());
    let resent = resent.or_else(|| far.get(FAR_RETRANSMITS).copied());
    (sum(SENDER, json!({"retransmits": resent})), sum(RECEIVER, Value::Null))
}

/// Adds up counts; jitter is the mean of the streams that have one.
fn add_up_udp(way: &DirectionView) -> UdpCounts {
    let streams = way.observation.streams.iter();
    let all: Vec<UdpCounts> = streams.filter_map(|s| s.receiver.udp).collect();
    let jitters: Vec<u64> = all.iter().filter_map(|udp| udp.jitter_ns).collect();
    UdpCounts {
        datagrams: all.iter().map(|udp| udp.datagrams).sum(),
        lost: all.iter().map(|udp| udp.lost).sum(),
        jitter_ns: jitters.iter().sum::<u64>().checked_div(jitters.len() as u64),
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
