//! The server output for `--get-server-output` of a stock client: our counters, and what limited
//! the run.

use super::counter_readings::{CounterReading, CounterReadings};
use super::iperf3_messages::{RequestedTest, TestDirection, TestTransport};
use super::sender_observation::observe_sender;
use super::server_results::{CountedSpan, StreamPosition, list_streams};
use longhaul_analysis::throughput::{ThroughputConclusion, conclude_throughput, format_verdict};
use longhaul_model::report::v1::observation::{StreamSample, TcpReading};
use longhaul_model::report::v1::plan::ThroughputPlan;
use longhaul_model::units::{Bytes, Rate};
use longhaul_probe::session_driver::SessionResults;
use serde_json::{Value, json};
use std::fmt::Write;
use std::time::Duration;

/// The maximum number of stream lines; beyond it, only sums are written.
const MAX_STREAM_LINES: usize = 400;
/// The maximum number of samples of all streams in the JSON.
const MAX_SAMPLES: usize = 4000;
const COLUMNS: usize = 79;

/// The data of a finished test.
pub(crate) struct FinishedTest<'a> {
    pub test: &'a RequestedTest,
    pub plan: &'a ThroughputPlan,
    pub collected: &'a SessionResults,
    pub course: &'a CounterReadings,
    pub idle_rtt: Option<Duration>,
}

impl FinishedTest<'_> {
    /// Returns the conclusion from this end's counters, if it sends over TCP.
    fn conclusion(&self) -> Option<ThroughputConclusion> {
        let sender = self.collected.sender.as_ref();
        let sender = sender.filter(|_| self.test.transport == TestTransport::Tcp)?;
        let observation = observe_sender(false, sender, self.idle_rtt);
        Some(conclude_throughput(self.plan, &observation))
    }

    /// Returns the output as text, 80 columns wide.
    pub fn format_text(&self) -> String {
        let mut text = format!("longhaul {}\n", env!("CARGO_PKG_VERSION"));
        self.write_lines(&mut text);
        text.push('\n');
        for paragraph in self.verdict() {
            text.push_str(&wrap_words(&paragraph));
        }
        text
    }

    /// Returns the paragraphs that explain what limited the run, or why that is unknown.
    pub fn verdict(&self) -> Vec<String> {
        let Some(conclusion) = self.conclusion() else {
            let why = match (self.test.transport, self.test.direction) {
                (TestTransport::Udp, _) => {
                    "The requested rate or loss on the path limits a UDP test."
                }
                _ => {
                    "Only the sender knows what limited this run, and iperf3 does not report it. \
                     With -R this server sends and reports what limited the run."
                }
            };
            return vec![why.to_owned()];
        };
        let mut paragraphs = vec![format_verdict(&conclusion.analysis)];
        paragraphs.extend(
            conclusion
                .findings
                .iter()
                .map(|finding| finding.summary.clone()),
        );
        let caveat = "This verdict uses only the counters of this server: iperf3 does not report the \
                      CPU and the reads of its receiver.";
        paragraphs.push(caveat.to_owned());
        paragraphs
    }

    fn write_lines(&self, text: &mut String) {
        let streams = list_streams(self.test, self.collected);
        let readings = &self.course.readings;
        let each = streams.len() * readings.len() <= MAX_STREAM_LINES;
        let udp = self.test.transport == TestTransport::Udp;
        let own = if udp {
            "    Jitter  Lost/Total"
        } else {
            "   Retr        Cwnd       RTT"
        };
        let _ = writeln!(
            text,
            "[ ID]        Interval       Transfer          Rate{own}"
        );
        let mut before = self.course.begin.as_ref();
        for reading in readings {
            self.write_interval(text, &streams, (before, reading), each);
            before = Some(reading);
        }
        if readings.len() > 1 {
            let _ = writeln!(text, "{}", "- ".repeat(25).trim_end());
            if let (begin, Some(end)) = (self.course.begin.as_ref(), readings.last()) {
                self.write_interval(
                    text,
                    &streams,
                    (begin, end),
                    streams.len() <= MAX_STREAM_LINES,
                );
            }
        }
    }

    fn write_interval(
        &self,
        text: &mut String,
        streams: &[StreamPosition],
        span: (Option<&CounterReading>, &CounterReading),
        each: bool,
    ) {
        if each {
            for place in streams {
                let line = self.stream_line(place, span);
                let _ = writeln!(text, "{line}");
            }
        }
        for sends in [false, true] {
            let mut of_way = streams
                .iter()
                .filter(|place| place.sends == sends)
                .peekable();
            if of_way.peek().is_none() || (each && streams.len() == 1) {
                continue;
            }
            let rows: Vec<usize> = of_way.map(|place| place.row).collect();
            let line = self.line("SUM", sends, &rows, span);
            let _ = writeln!(text, "{}", line.trim_end());
        }
    }

    fn stream_line(
        &self,
        place: &StreamPosition,
        span: (Option<&CounterReading>, &CounterReading),
    ) -> String {
        let id = format!("{:>3}", place.id);
        let line = self.line(&id, place.sends, &[place.row], span);
        let own = match self.test.transport {
            TestTransport::Udp => format_datagrams(place, span),
            TestTransport::Tcp => Self::format_tcp_columns(place, span),
        };
        format!("{line}{own}").trim_end().to_owned()
    }

    fn line(
        &self,
        id: &str,
        sends: bool,
        rows: &[usize],
        (before, now): (Option<&CounterReading>, &CounterReading),
    ) -> String {
        let zero = self
            .course
            .begin
            .as_ref()
            .map_or(Duration::ZERO, |begin| begin.at);
        let from = before.map_or(Duration::ZERO, |before| before.at);
        let sum = |reading: &CounterReading| -> u64 {
            rows.iter().filter_map(|row| reading.bytes.get(*row)).sum()
        };
        let bytes = sum(now).saturating_sub(before.map_or(0, sum));
        let lasted = now.at.saturating_sub(from);
        let rate =
            Rate::over(bytes, lasted).map_or_else(|| "-".to_owned(), |rate| rate.to_string());
        format!(
            "[{id}] {} {:>6.1}-{:<6.1}s {:>10} {rate:>13}",
            if sends { "sent" } else { "recv" },
            from.saturating_sub(zero).as_secs_f64(),
            now.at.saturating_sub(zero).as_secs_f64(),
            Bytes(bytes).to_string(),
        )
    }

    /// Returns the retransmits of this interval, and window and RTT at its end.
    fn format_tcp_columns(
        place: &StreamPosition,
        (before, now): (Option<&CounterReading>, &CounterReading),
    ) -> String {
        let at = |at: Duration| {
            let until = place.end.started_us.saturating_add(at.as_micros() as u64);
            let tcp = |sample: &StreamSample| sample.at_us <= until && sample.tcp.is_some();
            let found = place.end.samples.iter().rev().find(|sample| tcp(sample));
            found.and_then(|sample| sample.tcp.as_ref())
        };
        let Some(tcp) = at(now.at).filter(|_| place.sends) else {
            return String::new();
        };
        let earlier = before.filter(|before| !before.at.is_zero());
        let earlier = earlier.and_then(|before| at(before.at));
        let known = earlier.map_or(0, |tcp: &TcpReading| tcp.retransmitted_segments);
        let again = tcp.retransmitted_segments.saturating_sub(known);
        let rtt = Duration::from_micros(tcp.rtt_us);
        format!(
            " {again:>6}  {:>10}  {:>8}",
            Bytes(tcp.cwnd_bytes).to_string(),
            longhaul_model::units::format_duration(rtt)
        )
    }

    /// Returns the output as JSON: the verdict, and our samples with TCP_INFO as in report v1.
    pub fn to_json(&self) -> Value {
        let conclusion = self.conclusion();
        let streams = list_streams(self.test, self.collected);
        let all: usize = streams.iter().map(|place| place.end.samples.len()).sum();
        let step = all.div_ceil(MAX_SAMPLES).max(1);
        let span = CountedSpan::of(self.course);
        let streams = streams.iter().map(|place| {
            let mut end = place.end.clone();
            end.samples = end.samples.into_iter().step_by(step).collect();
            json!({ "id": place.id, "sender": place.sends, "end": end })
        });
        json!({
            "longhaul": env!("CARGO_PKG_VERSION"),
            "limited_by": conclusion.as_ref().map(|c| c.analysis.limited_by),
            "verdict": self.verdict(),
            "analysis": conclusion.as_ref().map(|c| &c.analysis),
            "findings": conclusion.as_ref().map(|c| &c.findings),
            "caveats": conclusion.as_ref().map(|c| &c.caveats),
            "seconds": span.duration().as_secs_f64(),
            "streams": streams.collect::<Vec<_>>(),
            "both_directions": self.test.direction == TestDirection::Both,
        })
    }
}

fn format_datagrams(
    place: &StreamPosition,
    (before, now): (Option<&CounterReading>, &CounterReading),
) -> String {
    let of = |reading: &CounterReading| {
        reading
            .datagrams
            .get(place.row)
            .copied()
            .unwrap_or_default()
    };
    let (earlier, udp) = (before.map(of).unwrap_or_default(), of(now));
    let came = udp.datagrams.saturating_sub(earlier.datagrams);
    if place.sends {
        return format!("  {came:>9} sent");
    }
    let lost = udp.lost.saturating_sub(earlier.lost);
    let jitter = udp.jitter_ns.map_or_else(
        || "-".to_owned(),
        |ns| longhaul_model::units::format_duration(Duration::from_nanos(ns)),
    );
    format!("  {jitter:>8}  {lost}/{}", came + lost)
}

/// Wraps the words to lines of at most [`COLUMNS`] characters.
fn wrap_words(paragraph: &str) -> String {
    let (mut text, mut column) = (String::new(), 0);
    for word in paragraph.split_whitespace() {
        let letters = word.chars().count();
        if column > 0 && column + 1 + letters > COLUMNS {
            text.push('\n');
            column = 0;
        }
        if column > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += letters;
    }
    text.push('\n');
    text
}
