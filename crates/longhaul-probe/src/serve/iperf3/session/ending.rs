//! The end of a test: results, server output, and the close of the connection.

use super::super::follow::{ServerOutput, StreamInterval, Totals, Verdict};
use super::super::intervals::grown;
use super::super::streams::Ended;
use super::Session;
use crate::iperf3::course::{Course, Reading};
use crate::iperf3::output::Story;
use crate::iperf3::results::{Span, places, results};
use crate::iperf3::server::Closed;
use crate::iperf3::wire::{Results, StreamResults, Test, Transport};
use crate::serve::event::ServeEvent;
use crate::told::one_line;
use longhaul_model::report::v1::observation::Udp;
use std::io::Read;
use std::net::Shutdown;
use std::time::{Duration, Instant};

/// The time that the client has to read our last message before the connection is closed.
const FAREWELL: Duration = Duration::from_millis(500);

impl Session<'_> {
    /// Ends the streams and returns this end's results.
    pub(super) fn results(&mut self) -> Results {
        let (Some(flowing), Some(granted)) = (self.flowing.take(), &self.granted) else {
            return Results::default();
        };
        let Ended {
            collected,
            course,
            rest,
        } = flowing.collect();
        let last = course.readings.last();
        self.moved = last.map_or(self.moved, Reading::total_bytes);
        let test = &granted.test;
        let mut told = results(test, &collected, &course);
        (self.service.log)(ServeEvent::ResultsReady {
            peer: self.peer,
            bytes: self.moved,
            streams: test.all_streams() as u32,
            capture_bytes: None,
        });
        let story = Story {
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
                let sends: Vec<bool> = places(test, &collected).iter().map(|it| it.sends).collect();
                Some(follower.finished(Totals {
                    lasted: Span::of(&course).lasted(),
                    streams: totals(test, &sends, &told, &course),
                    results: &told,
                    verdict: test.server_output.then(|| verdict(&story)),
                }))
            }
            None if !test.server_output => None,
            None if self.options.json_output => Some(ServerOutput::Json(story.json())),
            None => Some(ServerOutput::Text(story.text())),
        };
        match output.filter(|_| test.server_output) {
            Some(ServerOutput::Text(text)) => told.server_output_text = Some(text),
            Some(ServerOutput::Json(value)) => told.server_output_json = Some(value),
            None => {}
        }
        told
    }

    /// Lets the client read our last message, and releases all resources.
    pub(super) fn leave(mut self) {
        if matches!(
            self.closed,
            Some(Closed::ClientTerminated | Closed::Terminated(_))
        ) {
            // No client asks for the results, but the observer receives them.
            self.results();
        }
        // The streams are closed first: the next test may need their slot.
        self.flowing = None;
        self.granted = None;
        let closed = self.closed.take();
        if let Some(closed) = &closed {
            self.tell_closed(closed);
        }
        if !matches!(closed, Some(Closed::Gone(..))) {
            self.linger();
        }
        let reason = closed.map_or_else(String::new, |closed| closed.to_string());
        (self.service.log)(ServeEvent::SessionClosed {
            peer: self.peer,
            reason: one_line(&reason, 200),
            elapsed: self.epoch.elapsed(),
            bytes: self.moved,
        });
    }

    fn tell_closed(&mut self, closed: &Closed) {
        if let Some(follower) = self.follower.take() {
            follower.closed(closed);
        } else if let Some(following) = &self.options.following {
            following.by.turned_away(self.peer, closed);
        }
    }

    fn linger(&mut self) {
        let deadline = Instant::now() + FAREWELL;
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

fn verdict(story: &Story<'_>) -> Verdict {
    Verdict {
        words: story.verdict(),
        data: story.json(),
    }
}

/// Returns each stream's counts over the whole test.
fn totals(test: &Test, sends: &[bool], told: &Results, course: &Course) -> Vec<StreamInterval> {
    let span = Span::of(course);
    let udp = |reading: Option<&Reading>, row: usize| -> Udp {
        let found = reading.and_then(|reading| reading.datagrams.get(row));
        found.copied().unwrap_or_default()
    };
    let streams = told.streams.iter().zip(sends).enumerate();
    let stream = |(row, (stream, &sends)): (usize, (&StreamResults, &bool))| StreamInterval {
        sends,
        bytes: u64::try_from(stream.bytes).unwrap_or(0),
        resent: u64::try_from(stream.retransmits).ok(),
        tcp: None,
        datagrams: (test.transport == Transport::Udp)
            .then(|| grown(sends, udp(span.begin, row), udp(span.end, row))),
    };
    streams.map(stream).collect()
}
