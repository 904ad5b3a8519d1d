//! Runs the client's protocol on a real control connection, together with the engines.

use super::ClientTestEnd;
use super::client_protocol::{ClientAction, ClientInput, ClientProtocol, ClientStep};
use super::client_transfer::ClientTransfer;
use crate::iperf3_messages::{TestCookie, TestResults};
use longhaul_probe::engine::is_socket_timeout;
use longhaul_probe::session_driver::TRANSFER_POLL;
use longhaul_sys::tcp_info;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The interval at which the engines are polled when the test may end, and the deadlines otherwise.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
const IDLE_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// The minimum read timeout: zero would mean no timeout.
const MIN_WAIT: Duration = Duration::from_millis(1);
/// The timeout of a send: messages are small and the connection is idle.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);
const READ_BYTES: usize = 16 << 10;

pub(super) struct ClientDriver<'a, 'w> {
    pub control: TcpStream,
    pub client: ClientProtocol,
    pub cookie: TestCookie,
    pub transfer: &'a mut ClientTransfer<'w>,
    pub epoch: Instant,
    /// Set by the user to end the test early.
    pub stop: &'a AtomicBool,
}

impl ClientDriver<'_, '_> {
    /// Runs until the test is closed; returns the server's results, if they have arrived.
    pub fn run(mut self) -> (ClientTestEnd, Option<TestResults>) {
        let mut bytes = [0; READ_BYTES];
        let mut closed = self.feed(ClientInput::Start);
        loop {
            if let Some(closed) = closed {
                return (closed, self.client.take_results());
            }
            closed = match self.receive(&mut bytes) {
                Ok(0) => self.feed(ClientInput::Cut("closed by the server".to_owned())),
                Ok(count) => self.feed(ClientInput::Bytes(&bytes[..count])),
                Err(error) if is_socket_timeout(&error) => self.feed(ClientInput::Tick),
                Err(error) => self.feed(ClientInput::Cut(error.to_string())),
            };
            closed = closed.or_else(|| self.poll_stop()).or_else(|| self.poll_transfer());
        }
    }

    fn poll_stop(&mut self) -> Option<ClientTestEnd> {
        if !self.stop.load(Ordering::Relaxed) || !self.transfer.interrupt(self.client.step()) {
            return None;
        }
        self.feed(ClientInput::Interrupted)
    }

    fn receive(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let look = match self.client.step() {
            ClientStep::Running => {
                self.transfer.flow_time_left().clamp(POLL_INTERVAL, TRANSFER_POLL)
            }
            ClientStep::Ending => POLL_INTERVAL,
            _ => IDLE_POLL_INTERVAL,
        };
        let now = self.epoch.elapsed();
        let left = self.client.next_deadline().map(|at| at.saturating_sub(now));
        let wait = left.map_or(look, |left| left.min(look)).max(MIN_WAIT);
        self.control.set_read_timeout(Some(wait))?;
        self.control.read(bytes)
    }

    fn poll_transfer(&mut self) -> Option<ClientTestEnd> {
        if !matches!(self.client.step(), ClientStep::Running | ClientStep::Ending) {
            return None;
        }
        let moved = self.transfer.poll_engines()?;
        self.feed(moved)
    }

    /// Feeds an input and all inputs that result from it, before more is received.
    fn feed(&mut self, input: ClientInput<'_>) -> Option<ClientTestEnd> {
        let mut actions = VecDeque::from(self.client.handle(self.epoch.elapsed(), input));
        while let Some(action) = actions.pop_front() {
            let answer = match action {
                ClientAction::Close(closed) => return Some(closed),
                other => self.act(other),
            };
            if let Some(answer) = answer {
                actions.extend(self.client.handle(self.epoch.elapsed(), answer));
            }
        }
        None
    }

    fn act(&mut self, action: ClientAction) -> Option<ClientInput<'static>> {
        let done = match action {
            ClientAction::Send(bytes) => {
                return self.send(&bytes).err().map(|error| ClientInput::Cut(error.to_string()));
            }
            ClientAction::OpenStreams => {
                self.transfer.open_streams(self.cookie).map(|()| Some(ClientInput::StreamsOpen))
            }
            ClientAction::Ready => {
                let info = tcp_info::read_tcp_info(&self.control).ok();
                let idle_rtt = info.map(|info| info.rtt_min().unwrap_or(info.rtt()));
                self.transfer.ready(idle_rtt).map(|()| None)
            }
            ClientAction::Go => {
                self.transfer.go();
                Ok(None)
            }
            ClientAction::Collect => {
                let results = self.transfer.collect();
                Ok(Some(ClientInput::Collected(Box::new(results))))
            }
            ClientAction::Close(_) => Ok(None),
        };
        match done {
            Ok(answer) => answer,
            Err(error) => Some(ClientInput::Failed(format!("{error}: {}", error.source))),
        }
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.control.set_write_timeout(Some(SEND_TIMEOUT))?;
        self.control.write_all(bytes)
    }
}
