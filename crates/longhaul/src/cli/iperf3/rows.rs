//! What is counted of streams, as the lines of both roles want it.

use crate::render::iperf3::live;
use longhaul_probe::iperf3::text::{Row, Side};
use longhaul_probe::serve::follow::{Interval, StreamInterval};

/// A stream in an interval; `id` numbers it.
pub fn row(id: i64, interval: &Interval, stream: &StreamInterval) -> Row {
    let udp = stream.datagrams.unwrap_or_default();
    Row {
        id,
        sends: stream.sends,
        from_s: interval.from.as_secs_f64(),
        to_s: interval.to.as_secs_f64(),
        bytes: stream.bytes,
        resent: stream.resent,
        cwnd: stream.tcp.map(|tcp| tcp.cwnd_bytes),
        datagrams: udp.count,
        lost: i64::try_from(udp.lost).unwrap_or(i64::MAX),
        jitter_ms: live::jitter_ms(&udp),
    }
}

/// One end of a stream over the whole test.
pub fn side(lasted_s: f64, stream: &StreamInterval) -> Side {
    let udp = stream.datagrams.unwrap_or_default();
    Side {
        lasted_s,
        bytes: stream.bytes,
        resent: stream.resent,
        datagrams: udp.count,
        lost: i64::try_from(udp.lost).unwrap_or(i64::MAX),
        jitter_ms: live::jitter_ms(&udp),
    }
}
