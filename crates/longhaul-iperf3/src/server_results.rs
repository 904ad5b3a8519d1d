//! Builds this end's results in iperf3's format.

use super::counter_readings::{CountedSpan, CounterReading};
use super::iperf3_messages::{RequestedTest, StreamResults, TestResults, stream_id};
use longhaul_model::report::v1::observation::{StreamEnd, StreamSample, UdpCounts};
use longhaul_model::report::v1::plan::RunDirection;
use longhaul_probe::engine::EngineResult;
use longhaul_probe::session_driver::SessionResults;

/// A stream and its position among all streams of the test.
pub(crate) struct StreamPosition<'a> {
    pub sends: bool,
    pub end: &'a StreamEnd,
    /// The stream's index in the order of opening and in the readings.
    pub row: usize,
}

/// Returns the streams of a test in the order in which the client opened them: first those on which
/// it sends.
pub(crate) fn list_streams(collected: &SessionResults) -> Vec<StreamPosition<'_>> {
    let receiving = streams_of(collected.receiver.as_ref()).iter().map(|end| (end, false));
    let sending = streams_of(collected.sender.as_ref()).iter().map(|end| (end, true));
    let streams = receiving.chain(sending).enumerate();
    streams.map(|(row, (end, sends))| StreamPosition { sends, end, row }).collect()
}

pub(crate) fn streams_of(end: Option<&EngineResult>) -> &[StreamEnd] {
    end.map_or(&[], |end| &end.streams)
}

/// Builds the server's results for the client.
pub(crate) fn build_server_results(
    test: &RequestedTest,
    collected: &SessionResults,
    span: &CountedSpan,
) -> TestResults {
    let sender_has_retransmits = match (test.plan.direction, test.is_udp()) {
        (RunDirection::Forward, _) => -1,
        (_, udp) => i64::from(!udp),
    };
    let streams = list_streams(collected);
    let streams = streams.iter().map(|place| build_stream_results(test, place, span)).collect();
    build_results(collected, span.end.at.as_secs_f64(), sender_has_retransmits, streams)
}

/// Builds the results of either end, with the CPU time of its process over `lasted` seconds.
pub(crate) fn build_results(
    collected: &SessionResults,
    lasted: f64,
    sender_has_retransmits: i64,
    streams: Vec<StreamResults>,
) -> TestResults {
    let mut ends = collected.receiver.iter().chain(&collected.sender);
    let percent = |us: Option<u64>| match us {
        Some(us) if lasted > 0.0 => us as f64 / 1e4 / lasted,
        _ => 0.0,
    };
    let (user, system) = ends
        .clone()
        .next()
        .map_or((0.0, 0.0), |own| (percent(own.end.cpu_user_us), percent(own.end.cpu_system_us)));
    TestResults {
        cpu_util_total: user + system,
        cpu_util_user: user,
        cpu_util_system: system,
        sender_has_retransmits,
        congestion_used: ends
            .find_map(|end| end.streams.iter().find_map(|it| it.congestion_control.clone())),
        server_output_text: None,
        streams,
    }
}

fn build_stream_results(
    test: &RequestedTest,
    place: &StreamPosition,
    span: &CountedSpan,
) -> StreamResults {
    let whole = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let row = place.row;
    let udp = |reading: &CounterReading| reading.stream_datagrams(row);
    let packets = |udp: UdpCounts| {
        if place.sends { udp.datagrams } else { udp.datagrams + udp.lost }
    };
    let omitted = udp(&span.begin);
    let at_end = udp(&span.end);
    let datagrams = test.is_udp();
    let counted = |count: u64| if datagrams { whole(count) } else { 0 };
    StreamResults {
        id: stream_id(row),
        bytes: whole(span.counted_bytes(row)),
        retransmits: count_retransmits(test, place, span),
        jitter: at_end.jitter_ns.unwrap_or(0) as f64 / 1e9,
        errors: counted(at_end.lost),
        omitted_errors: Some(counted(omitted.lost)),
        packets: counted(packets(at_end)),
        omitted_packets: Some(counted(packets(omitted))),
        start_time: Some(0.0),
        end_time: Some(span.duration().as_secs_f64()),
    }
}

/// Returns the retransmits since counting began; -1 if this end does not send.
fn count_retransmits(test: &RequestedTest, place: &StreamPosition, span: &CountedSpan) -> i64 {
    if !place.sends || test.is_udp() {
        return -1;
    }
    let count = |sample: &StreamSample| Some(sample.tcp.as_ref()?.retransmitted_segments as i64);
    let samples = &place.end.samples;
    let last = samples.iter().rev().find_map(count);
    let Some(last) = last else {
        return -1;
    };
    let begin = span.begin.at;
    let from = place.end.started_us.saturating_add(begin.as_micros() as u64);
    let mut before = samples.iter().rev().filter(|sample| sample.at_us <= from);
    let omitted = (!begin.is_zero()).then(|| before.find_map(count));
    last - omitted.flatten().unwrap_or(0)
}
