//! The end of a test: results, server output, and the close of the connection.

use super::Iperf3Session;
use crate::iperf3_messages::TestResults;
use crate::server_output::format_server_output;
use crate::server_protocol::ServerTestEnd;
use crate::server_results::build_server_results;
use longhaul_model::sanitize::sanitize_line;
use longhaul_probe::measurement_server::ServeEvent;
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
        let ended = flowing.collect();
        self.moved = ended.span.end.total_bytes();
        let test = &granted.test;
        let mut results = build_server_results(test, &ended.collected, &ended.span);
        self.service.log(ServeEvent::ResultsReady {
            peer: self.peer,
            bytes: self.moved,
            streams: test.all_streams() as u32,
            capture_bytes: None,
        });
        if test.server_output {
            let idle_rtt = Some(self.idle_rtt).filter(|rtt| !rtt.is_zero());
            let text = format_server_output(test, &ended.collected, &ended.span, idle_rtt);
            results.server_output_text = Some(text);
        }
        results
    }

    /// Lets the client read our last message, and releases all resources.
    pub(super) fn close(mut self) {
        // The streams are closed first: the next test may need their slot.
        self.flowing = None;
        self.granted = None;
        let closed = self.closed.take();
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

    fn linger(&mut self) {
        let deadline = Instant::now() + LINGER_TIMEOUT;
        let mut bytes = [0; 1024];
        let mut open = self.stream.shutdown(Shutdown::Write).is_ok();
        while open && Instant::now() < deadline {
            let left = deadline.saturating_duration_since(Instant::now());
            let timed = self.stream.set_read_timeout(Some(left.max(Duration::from_millis(1))));
            open = timed.is_ok() && self.stream.read(&mut bytes).is_ok_and(|count| count > 0);
        }
    }
}
