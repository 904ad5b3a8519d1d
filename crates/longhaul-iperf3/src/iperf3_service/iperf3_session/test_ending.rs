//! The end of a test: results, server output, and the close of the connection.

use super::super::interval_tracker::datagram_growth;
use super::super::iperf3_streams::EndedTest;
use super::super::server_observer::{LimiterVerdict, ServerOutput, StreamInterval, TestTotals};
use super::Iperf3Session;
use crate::counter_readings::{CounterReading, CounterReadings};
use crate::iperf3_messages::{RequestedTest, StreamResults, TestResults, TestTransport};
use crate::server_output::FinishedTest;
use crate::server_protocol::ServerTestEnd;
use crate::server_results::{CountedSpan, build_results, list_streams};
use longhaul_model::report::v1::observation::UdpCounts;
use longhaul_probe::measurement_server::ServeEvent;
use longhaul_probe::program_sanitizer::sanitize_line;
use std::io::Read;
use std::net::Shutdown;
use std::time::{Duration, Instant};

/// The time that the client has to read our last message before the connection is closed.
const LINGER_TIMEOUT: Duration = Duration::from_millis(500);

impl Iperf3Session<'_> {
    /// Ends the streams and returns this end's results.
    pub(super) fn results(&mut self) -> TestResults {
        let (Some(flowing), Some(granted)) = (self.flowing.take(), &self.granted) else {
            return TestResults::default();
        };
        let EndedTest {
            collected,
            course,
            rest,
        } = flowing.collect();
        let last = course.readings.last();
        self.moved = last.map_or(self.moved, CounterReading::total_bytes);
        let test = &granted.test;
        let mut told = build_results(test, &collected, &course);
        self.service.log(ServeEvent::ResultsReady {
            peer: self.peer,
            bytes: self.moved,
            streams: test.all_streams() as u32,
            capture_bytes: None,
        });
        let story = FinishedTest {
            test,
            plan: &granted.plan,
            collected: &collected,
            course: &course,
            idle_rtt: Some(self.idle_rtt).filter(|rtt| !rtt.is_zero()),
        };
        let output = match &mut self.follower {
            Some(follower) => {
                if let Some(rest) = rest {
                    follower.interval(rest);
                }
                let sends: Vec<bool> = list_streams(test, &collected)
                    .iter()
                    .map(|it| it.sends)
                    .collect();
                Some(follower.finished(TestTotals {
                    duration: CountedSpan::of(&course).duration(),
                    streams: build_totals(test, &sends, &told, &course),
                    results: &told,
                    verdict: test.server_output.then(|| build_verdict(&story)),
                }))
            }
            None if !test.server_output => None,
            None if self.options.json_output => Some(ServerOutput::Json(story.to_json())),
            None => Some(ServerOutput::Text(story.format_text())),
        };
        match output.filter(|_| test.server_output) {
            Some(ServerOutput::Text(text)) => told.server_output_text = Some(text),
            Some(ServerOutput::Json(value)) => told.server_output_json = Some(value),
            None => {}
        }
        told
    }

    /// Lets the client read our last message, and releases all resources.
    pub(super) fn close(mut self) {
        if matches!(
            self.closed,
            Some(ServerTestEnd::ClientTerminated | ServerTestEnd::Terminated(_))
        ) {
            // No client asks for the results, but the observer receives them.
            self.results();
        }
        // The streams are closed first: the next test may need their slot.
        self.flowing = None;
        self.granted = None;
        let closed = self.closed.take();
        if let Some(closed) = &closed {
            self.notify_closed(closed);
        }
        if !matches!(closed, Some(ServerTestEnd::Gone(..))) {
            self.linger();
        }
        let reason = closed.map_or_else(String::new, |closed| closed.to_string());
        self.service.log(ServeEvent::SessionClosed {
            peer: self.peer,
            reason: sanitize_line(&reason, 200),
            elapsed: self.epoch.elapsed(),
            bytes: self.moved,
        });
    }

    fn notify_closed(&mut self, closed: &ServerTestEnd) {
        if let Some(follower) = self.follower.take() {
            follower.closed(closed);
        } else if let Some(following) = &self.options.observer {
            following.observer.test_rejected(self.peer, closed);
        }
    }

    fn linger(&mut self) {
        let deadline = Instant::now() + LINGER_TIMEOUT;
        let mut bytes = [0; 1024];
        let mut open = self.stream.shutdown(Shutdown::Write).is_ok();
        while open && Instant::now() < deadline {
            let left = deadline.saturating_duration_since(Instant::now());
            let timed = self
                .stream
                .set_read_timeout(Some(left.max(Duration::from_millis(1))));
            open = timed.is_ok() && self.stream.read(&mut bytes).is_ok_and(|count| count > 0);
        }
    }
}

fn build_verdict(story: &FinishedTest<'_>) -> LimiterVerdict {
    LimiterVerdict {
        paragraphs: story.verdict(),
        data: story.to_json(),
    }
}

/// Returns each stream's counts over the whole test.
fn build_totals(
    test: &RequestedTest,
    sends: &[bool],
    told: &TestResults,
    course: &CounterReadings,
) -> Vec<StreamInterval> {
    let span = CountedSpan::of(course);
    let udp = |reading: Option<&CounterReading>, row: usize| -> UdpCounts {
        let found = reading.and_then(|reading| reading.datagrams.get(row));
        found.copied().unwrap_or_default()
    };
    let streams = told.streams.iter().zip(sends).enumerate();
    let stream = |(row, (stream, &sends)): (usize, (&StreamResults, &bool))| StreamInterval {
        sends,
        bytes: u64::try_from(stream.bytes).unwrap_or(0),
        retransmits: u64::try_from(stream.retransmits).ok(),
        tcp: None,
        datagrams: (test.transport == TestTransport::Udp)
            .then(|| datagram_growth(sends, udp(span.begin, row), udp(span.end, row))),
    };
    streams.map(stream).collect()
}
