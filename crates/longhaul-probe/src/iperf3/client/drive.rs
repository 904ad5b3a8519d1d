//! Runs the client's protocol on a real control connection, together with the engines.

use super::closed::Closed;
use super::course::Course;
use super::role::{Action, Client, Input, Step};
use crate::drive::CALM_POLL;
use crate::iperf3::wire::Cookie;
use longhaul_sys::tcp_info;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// The interval at which the engines are polled when the test may end, and the deadlines otherwise.
const LOOK: Duration = Duration::from_millis(5);
const IDLE_LOOK: Duration = Duration::from_millis(100);
/// The minimum read timeout: zero would mean no timeout.
const LEAST_WAIT: Duration = Duration::from_millis(1);
/// The timeout of a send: messages are small and the connection is idle.
const SEND_TIME: Duration = Duration::from_secs(10);
const READ_BYTES: usize = 16 << 10;

pub(super) struct Drive<'a, 'w> {
    pub control: TcpStream,
    pub client: Client,
    pub cookie: Cookie,
    pub course: &'a mut Course<'w>,
    pub epoch: Instant,
    /// Set to end the test.
    pub stop: Option<&'a AtomicBool>,
}

impl Drive<'_, '_> {
    /// Runs until the test is closed; returns the client with its results.
    pub fn run(mut self) -> (Closed, Client) {
        let mut bytes = [0; READ_BYTES];
        if let Some(closed) = self.feed(Input::Start) {
            return (closed, self.client);
        }
        loop {
            let closed = match self.listen(&mut bytes) {
                Ok(0) => self.feed(Input::Cut("the server closed it".to_owned())),
                Ok(count) => self.feed(Input::Bytes(&bytes[..count])),
                Err(error) if is_no_news(&error) => self.feed(Input::Tick),
                Err(error) => self.feed(Input::Cut(error.to_string())),
            };
            let closed = closed.or_else(|| self.look());
            if let Some(closed) = closed {
                return (closed, self.client);
            }
        }
    }

    fn listen(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let look = match self.client.step() {
            Step::Running => self.course.calm_for().clamp(LOOK, CALM_POLL),
            Step::Ending => LOOK,
            _ => IDLE_LOOK,
        };
        let now = self.epoch.elapsed();
        let left = self.client.next_deadline().map(|at| at.saturating_sub(now));
        let wait = left.map_or(look, |left| left.min(look)).max(LEAST_WAIT);
        self.control.set_read_timeout(Some(wait))?;
        self.control.read(bytes)
    }

    fn look(&mut self) -> Option<Closed> {
        if !matches!(self.client.step(), Step::Running | Step::Ending) {
            return None;
        }
        let moved = self.course.look()?;
        if self.stop.is_some_and(|stop| stop.load(Relaxed)) {
            self.course.interrupt();
            return self.feed(Input::Failed("the client has terminated".to_owned()));
        }
        self.feed(Input::Moved {
            bytes: moved.bytes,
            over: moved.over,
        })
    }

    /// Feeds an input and all inputs that result from it, before more is received.
    fn feed(&mut self, input: Input<'_>) -> Option<Closed> {
        let mut actions = VecDeque::from(self.client.handle(self.epoch.elapsed(), input));
        while let Some(action) = actions.pop_front() {
            let answer = match action {
                Action::Close(closed) => return Some(closed),
                other => self.act(other),
            };
            if let Some(answer) = answer {
                actions.extend(self.client.handle(self.epoch.elapsed(), answer));
            }
        }
        None
    }

    fn act(&mut self, action: Action) -> Option<Input<'static>> {
        let done = match action {
            Action::Send(bytes) => {
                return self
                    .send(&bytes)
                    .err()
                    .map(|error| Input::Cut(error.to_string()));
            }
            Action::OpenStreams => self
                .course
                .open(self.cookie)
                .map(|()| Some(Input::StreamsOpen)),
            Action::Ready => {
                let info = tcp_info::read(&self.control).ok();
                let idle_rtt = info.map(|info| info.rtt_min.unwrap_or(info.rtt));
                self.course.ready(idle_rtt).map(|()| None)
            }
            Action::Go => {
                self.course.go();
                Ok(None)
            }
            Action::Collect => {
                self.course.collect();
                let results = self.course.results();
                Ok(Some(Input::Collected(Box::new(results))))
            }
            Action::Close(_) => Ok(None),
        };
        match done {
            Ok(answer) => answer,
            Err(error) => Some(Input::Failed(format!("{error}: {}", error.source))),
        }
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.control.set_write_timeout(Some(SEND_TIME))?;
        self.control.write_all(bytes)
    }
}

fn is_no_news(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}
