//! Builds this end's results in iperf3's format.

use super::counter_readings::{CountedSpan, CounterReading, observe_sender};
use super::iperf3_messages::{RequestedTest, StreamResults, TestResults, stream_id};
use longhaul_analysis::throughput::{conclude_throughput, format_verdict};
use longhaul_model::report::v1::observation::{StreamEnd, StreamSample, UdpCounts};
use longhaul_model::report::v1::plan::RunDirection;
use longhaul_model::units::{Bytes, Rate, format_duration};
use longhaul_probe::engine::EngineResult;
use longhaul_probe::session_driver::SessionResults;
use std::fmt::Write;
use std::time::Duration;

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

/// Returns the output as text, a paragraph per line.
pub(crate) fn format_server_output(
    test: &RequestedTest,
    collected: &SessionResults,
    span: &CountedSpan,
    idle_rtt: Option<Duration>,
) -> String {
    let mut text = format!("longhaul {}\n", env!("CARGO_PKG_VERSION"));
    let streams = list_streams(collected);
    for sends in [false, true] {
        let rows = streams.iter().filter(|place| place.sends == sends).map(|place| place.row);
        let bytes: Vec<u64> = rows.map(|row| span.counted_bytes(row)).collect();
        if !bytes.is_empty() {
            write_totals(&mut text, sends, &bytes, span.duration());
        }
    }
    for paragraph in explain_limits(test, collected, idle_rtt) {
        let _ = writeln!(text, "{paragraph}");
    }
    text
}

fn write_totals(text: &mut String, sends: bool, stream_bytes: &[u64], lasted: Duration) {
    let bytes = stream_bytes.iter().sum();
    let rate = Rate::over(bytes, lasted).map_or_else(String::new, |rate| format!(", {rate}"));
    let _ = writeln!(
        text,
        "{} {} in {}{rate}, streams: {}",
        if sends { "sent" } else { "received" },
        Bytes(bytes),
        format_duration(lasted),
        stream_bytes.len(),
    );
}

/// Returns the paragraphs that explain what limited the run, or why that is unknown.
fn explain_limits(
    test: &RequestedTest,
    collected: &SessionResults,
    idle_rtt: Option<Duration>,
) -> Vec<String> {
    if test.is_udp() {
        return vec!["The requested rate or loss on the path limits a UDP test.".to_owned()];
    }
    let Some(sender) = &collected.sender else {
        let why = "Only the sender knows what limited this run, and iperf3 does not report it. \
                   With -R this server sends and reports what limited the run.";
        return vec![why.to_owned()];
    };
    let observation = observe_sender(sender, idle_rtt);
    let conclusion = conclude_throughput(&test.plan, &observation);
    let caveat = "This verdict uses only the counters of this server: iperf3 does not report \
                  the CPU and the reads of its receiver.";
    let findings = conclusion.findings.iter();
    std::iter::once(format_verdict(&conclusion.analysis))
        .chain(findings.map(|finding| finding.summary.clone()))
        .chain([caveat.to_owned()])
        .collect()
}
