//! What is counted of streams, as the lines of both roles want it.

use crate::render::iperf3_report_json::live_json;
use longhaul_iperf3::iperf3_service::server_observer::{IntervalReport, StreamInterval};
use longhaul_iperf3::text_output::{IntervalRow, StreamSide};

/// A stream in an interval; `id` numbers it.
pub fn row(id: i64, interval: &IntervalReport, stream: &StreamInterval) -> IntervalRow {
    let udp = stream.datagrams.unwrap_or_default();
    IntervalRow {
        id,
        sends: stream.sends,
        from_s: interval.from.as_secs_f64(),
        to_s: interval.to.as_secs_f64(),
        bytes: stream.bytes,
        retransmits: stream.retransmits,
        cwnd: stream.tcp.map(|tcp| tcp.cwnd_bytes),
        datagrams: udp.count,
        lost: i64::try_from(udp.lost).unwrap_or(i64::MAX),
        jitter_ms: live_json::jitter_ms(&udp),
    }
}

/// One end of a stream over the whole test.
pub fn side(lasted_s: f64, stream: &StreamInterval) -> StreamSide {
    let udp = stream.datagrams.unwrap_or_default();
    StreamSide {
        duration_s: lasted_s,
        bytes: stream.bytes,
        retransmits: stream.retransmits,
        datagrams: udp.count,
        lost: i64::try_from(udp.lost).unwrap_or(i64::MAX),
        jitter_ms: live_json::jitter_ms(&udp),
    }
}
