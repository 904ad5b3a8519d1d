//! The server output for `--get-server-output`: our totals, and what limited the run.

use super::counter_readings::CountedSpan;
use super::iperf3_messages::RequestedTest;
use super::sender_observation::observe_sender;
use super::server_results::list_streams;
use longhaul_analysis::throughput::{conclude_throughput, format_verdict};
use longhaul_model::units::{Bytes, Rate, format_duration};
use longhaul_probe::session_driver::SessionResults;
use std::fmt::Write;
use std::time::Duration;

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
