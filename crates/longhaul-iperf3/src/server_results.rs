//! Builds this end's results in iperf3's format.

use super::counter_readings::{CountedSpan, CounterReading};
use super::iperf3_messages::{RequestedTest, StreamResults, TestResults, stream_id};
use longhaul_model::report::v1::observation::{StreamEnd, StreamSample, UdpCounts};
use longhaul_model::report::v1::plan::RunDirection;
use longhaul_probe::engine::EngineResult;
use longhaul_probe::session_driver::SessionResults;

/// A stream and its position among all streams of the test.
pub(crate) struct StreamPosition<'a> {
    pub id: i64,
    pub sends: bool,
    pub end: &'a StreamEnd,
    /// The stream's index in the readings.
    pub row: usize,
}

/// Returns the streams of a test in the order in which the client opened them.
pub(crate) fn list_streams<'a>(
    test: &RequestedTest,
    collected: &'a SessionResults,
) -> Vec<StreamPosition<'a>> {
    let receives = streams_of(collected.receiver.as_ref());
    let sends = streams_of(collected.sender.as_ref());
    let receiving = receives.iter().enumerate().map(|(index, end)| StreamPosition {
        id: stream_id(index),
        sends: false,
        end,
        row: index,
    });
    let sending = sends.iter().enumerate().map(|(index, end)| StreamPosition {
        id: stream_id(test.first_sending() + index),
        sends: true,
        end,
        row: receives.len() + index,
    });
    receiving.chain(sending).collect()
}

fn streams_of(end: Option<&EngineResult>) -> &[StreamEnd] {
    end.map_or(&[], |end| &end.streams)
}

/// Builds the results for the client.
pub(crate) fn build_results(
    test: &RequestedTest,
    collected: &SessionResults,
    span: &CountedSpan,
) -> TestResults {
    let (user, system) = calculate_cpu_percent(collected, span);
    let sends = test.plan.direction != RunDirection::Forward;
    let streams = list_streams(test, collected);
    let streams = streams.iter().map(|place| build_stream_results(test, place, span));
    TestResults {
        cpu_util_total: user + system,
        cpu_util_user: user,
        cpu_util_system: system,
        sender_has_retransmits: match (sends, test.is_udp()) {
            (true, false) => 1,
            (true, true) => 0,
            (false, _) => -1,
        },
        congestion_used: find_congestion_control(collected),
        server_output_text: None,
        streams: streams.collect(),
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
        id: place.id,
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

/// Returns the user and system time of this process, in percent of one core.
fn calculate_cpu_percent(collected: &SessionResults, span: &CountedSpan) -> (f64, f64) {
    let end = collected.receiver.as_ref().or(collected.sender.as_ref());
    let lasted = span.end.at.as_secs_f64();
    let share = |us: Option<u64>| match us {
        Some(us) if lasted > 0.0 => us as f64 / 1e4 / lasted,
        _ => 0.0,
    };
    let end = end.map(|end| &end.end);
    (share(end.and_then(|end| end.cpu_user_us)), share(end.and_then(|end| end.cpu_system_us)))
}

fn find_congestion_control(collected: &SessionResults) -> Option<String> {
    let ends = collected.sender.iter().chain(&collected.receiver);
    ends.flat_map(|end| &end.streams).find_map(|stream| stream.congestion_control.clone())
}
