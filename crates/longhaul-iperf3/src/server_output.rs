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

/// The data of a finished test.
pub(crate) struct FinishedTest<'a> {
    pub test: &'a RequestedTest,
    pub collected: &'a SessionResults,
    pub span: &'a CountedSpan,
    pub idle_rtt: Option<Duration>,
}

impl FinishedTest<'_> {
    /// Returns the output as text, a paragraph per line.
    pub fn format_text(&self) -> String {
        let mut text = format!("longhaul {}\n", env!("CARGO_PKG_VERSION"));
        for sends in [false, true] {
            self.write_totals(&mut text, sends);
        }
        for paragraph in self.explain_limits() {
            let _ = writeln!(text, "{paragraph}");
        }
        text
    }

    fn write_totals(&self, text: &mut String, sends: bool) {
        let streams = list_streams(self.test, self.collected);
        let rows: Vec<usize> =
            streams.iter().filter(|place| place.sends == sends).map(|place| place.row).collect();
        if rows.is_empty() {
            return;
        }
        let bytes = rows.iter().map(|row| self.span.counted_bytes(*row)).sum();
        let lasted = self.span.duration();
        let rate = Rate::over(bytes, lasted).map_or_else(String::new, |rate| format!(", {rate}"));
        let _ = writeln!(
            text,
            "{} {} in {}{rate}, streams: {}",
            if sends { "sent" } else { "received" },
            Bytes(bytes),
            format_duration(lasted),
            rows.len(),
        );
    }

    /// Returns the paragraphs that explain what limited the run, or why that is unknown.
    fn explain_limits(&self) -> Vec<String> {
        if self.test.is_udp() {
            return vec!["The requested rate or loss on the path limits a UDP test.".to_owned()];
        }
        let Some(sender) = &self.collected.sender else {
            let why = "Only the sender knows what limited this run, and iperf3 does not report it. \
                       With -R this server sends and reports what limited the run.";
            return vec![why.to_owned()];
        };
        let observation = observe_sender(sender, self.idle_rtt);
        let conclusion = conclude_throughput(&self.test.plan, &observation);
        let caveat = "This verdict uses only the counters of this server: iperf3 does not report \
                      the CPU and the reads of its receiver.";
        let findings = conclusion.findings.iter();
        std::iter::once(format_verdict(&conclusion.analysis))
            .chain(findings.map(|finding| finding.summary.clone()))
            .chain([caveat.to_owned()])
            .collect()
    }
}
