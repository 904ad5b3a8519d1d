//! The transfer of a subtest, the same in both roles: one end sends random data, and both measure.

use crate::ndt7_connection::{IO_WAIT, Ndt7Connection};
use crate::ndt7_messages::{
    AppCount, ConnectionEnds, Ndt7Measurement, SubtestKind, name_tcp_counters,
};
use longhaul_model::splitmix::SplitMix64;
use longhaul_sys::tcp_info::read_tcp_info;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tungstenite::{Bytes, Error, Message};

/// The time between two measurements of this end.
const MEASURE_INTERVAL: Duration = Duration::from_millis(250);
/// The time between two looks of a sender at what has arrived.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// The maximum number of messages that a sender takes in one look.
const MAX_TAKEN_AT_ONCE: usize = 16;
/// The maximum number of measurements that are kept of each end.
const MAX_MEASUREMENTS: usize = 1000;
/// The sizes of messages, from the first to the largest.
const FIRST_MESSAGE_BYTES: usize = 1 << 13;
const LARGEST_MESSAGE_BYTES: usize = 1 << 20;
/// A message is at most this part of what was sent before.
const GROWTH_DIVISOR: u64 = 16;
/// The maximum time for the closing handshake.
const CLOSE_TIME: Duration = Duration::from_secs(2);

/// The bounds of a transfer.
#[derive(Debug, Clone, Copy)]
pub struct TransferLimits {
    /// The time after which a sender ends.
    pub send_time: Duration,
    /// The time after which both ends close the connection.
    pub end_time: Duration,
    pub bytes: Option<u64>,
    pub rate_bps: Option<u64>,
}

impl Default for TransferLimits {
    /// Allows what the protocol prescribes: 10 s, and 13 s to the end of the connection.
    fn default() -> Self {
        TransferLimits {
            send_time: Duration::from_secs(10),
            end_time: Duration::from_secs(13),
            bytes: None,
            rate_bps: None,
        }
    }
}

/// The measurements of both ends.
#[derive(Debug, Default)]
pub struct TransferOutcome {
    pub own: Vec<Ndt7Measurement>,
    pub peer: Vec<Ndt7Measurement>,
    pub bytes: u64,
    pub elapsed: Duration,
    /// The reason, if the connection ended without a closing handshake.
    pub failure: Option<String>,
}

/// A transfer in progress.
pub struct SubtestTransfer<'a> {
    connection: Ndt7Connection,
    kind: SubtestKind,
    is_server: bool,
    limits: TransferLimits,
    ends: Option<ConnectionEnds>,
    stop: &'a AtomicBool,
    started: Instant,
    payload: Bytes,
    message_bytes: usize,
    /// The payload in the buffer of the WebSocket that the kernel has not taken.
    unsent: Option<u64>,
    next_measure: Duration,
    next_look: Duration,
    outcome: TransferOutcome,
}

/// The end of a transfer: `Ok` after a closing handshake.
type TransferEnd = Result<(), String>;

impl<'a> SubtestTransfer<'a> {
    /// Prepares a transfer whose handshake has just ended.
    pub fn new(
        connection: Ndt7Connection,
        kind: SubtestKind,
        is_server: bool,
        limits: TransferLimits,
        stop: &'a AtomicBool,
    ) -> SubtestTransfer<'a> {
        let tcp = &connection.tcp;
        let ends = is_server.then(|| tcp.peer_addr().ok().zip(tcp.local_addr().ok())).flatten();
        let ends = ends.map(|(client, server)| ConnectionEnds {
            client: client.to_string(),
            server: server.to_string(),
            uuid: None,
        });
        SubtestTransfer {
            connection,
            kind,
            is_server,
            limits,
            ends,
            stop,
            started: Instant::now(),
            payload: Bytes::new(),
            message_bytes: FIRST_MESSAGE_BYTES,
            unsent: None,
            next_measure: MEASURE_INTERVAL,
            next_look: LOOK_INTERVAL,
            outcome: TransferOutcome::default(),
        }
    }

    /// Transfers until the sender ends, a limit is reached or `stop` is set. `progress` receives each
    /// count of this end.
    pub fn run(mut self, progress: &mut dyn FnMut(AppCount)) -> TransferOutcome {
        let end = if self.sends() { self.send_all(progress) } else { self.receive_all(progress) };
        self.outcome.elapsed = self.started.elapsed();
        self.outcome.failure = end.err();
        self.outcome
    }

    fn sends(&self) -> bool {
        self.is_server == (self.kind == SubtestKind::Download)
    }

    fn send_all(&mut self, progress: &mut dyn FnMut(AppCount)) -> TransferEnd {
        let mut random = SplitMix64::new(self.started.elapsed().as_nanos() as u64);
        let words = (0..LARGEST_MESSAGE_BYTES / 8).map(|_| random.next_u64().to_le_bytes());
        self.payload = words.flatten().collect::<Vec<u8>>().into();
        // The time of the test begins with its first data.
        self.started = Instant::now();
        while !self.is_over() {
            self.flush()?;
            if self.unsent.is_none() {
                self.measure_when_due(progress)?;
                self.send_next()?;
            }
            if self.look_at_peer()? {
                return self.close(true);
            }
        }
        self.flush()?;
        self.measure(progress)?;
        self.close(false)
    }

    /// Returns whether this sender has sent for long enough, or enough.
    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
            || self.started.elapsed() >= self.limits.send_time
            || self.limits.bytes.is_some_and(|most| self.outcome.bytes >= most)
    }

    fn send_next(&mut self) -> TransferEnd {
        if self.wait_for_rate() {
            return Ok(());
        }
        let message = Message::Binary(self.payload.slice(..self.message_bytes));
        let sent = self.connection.socket.write(message);
        self.unsent = Some(self.message_bytes as u64);
        accept_would_block(sent)?;
        if self.message_bytes < LARGEST_MESSAGE_BYTES
            && self.message_bytes as u64 <= self.outcome.bytes / GROWTH_DIVISOR
        {
            self.message_bytes *= 2;
        }
        self.flush()
    }

    /// Waits a little if the transfer is ahead of its maximum rate; returns whether it is.
    fn wait_for_rate(&self) -> bool {
        let Some(rate_bps) = self.limits.rate_bps else { return false };
        let due = Duration::from_secs_f64(self.outcome.bytes as f64 * 8.0 / rate_bps.max(1) as f64);
        let early = due.saturating_sub(self.started.elapsed());
        thread::sleep(early.min(IO_WAIT));
        !early.is_zero()
    }

    /// Writes what is left in the buffer, as far as the kernel takes it.
    fn flush(&mut self) -> TransferEnd {
        let is_done = accept_would_block(self.connection.socket.flush())?;
        if is_done && let Some(bytes) = self.unsent.take() {
            self.outcome.bytes += bytes;
        }
        Ok(())
    }

    /// Takes what the peer has sent, without waiting; returns whether the peer ends the test.
    fn look_at_peer(&mut self) -> Result<bool, String> {
        if self.started.elapsed() < self.next_look {
            return Ok(false);
        }
        self.next_look = self.started.elapsed() + LOOK_INTERVAL;
        let unusable = |error: io::Error| error.to_string();
        self.connection.tcp.set_nonblocking(true).map_err(unusable)?;
        let mut is_closing = Ok(false);
        for _ in 0..MAX_TAKEN_AT_ONCE {
            match self.connection.socket.read() {
                Ok(Message::Binary(_)) => {
                    is_closing = Err("the receiver sent data".to_owned());
                    break;
                }
                Ok(Message::Close(_)) => {
                    is_closing = Ok(true);
                    break;
                }
                Ok(message) => self.keep_measurement(&message),
                Err(error) => {
                    is_closing = accept_would_block(Err(error)).map(|_| false);
                    break;
                }
            }
        }
        self.connection.tcp.set_nonblocking(false).map_err(unusable)?;
        is_closing
    }

    fn receive_all(&mut self, progress: &mut dyn FnMut(AppCount)) -> TransferEnd {
        loop {
            let is_too_much = self.limits.bytes.is_some_and(|most| self.outcome.bytes >= most);
            if self.stop.load(Ordering::Relaxed)
                || is_too_much
                || self.started.elapsed() >= self.limits.end_time
            {
                self.measure(progress)?;
                return self.close(false);
            }
            if self.wait_for_rate() {
                continue;
            }
            match self.connection.socket.read() {
                Ok(Message::Binary(bytes)) => self.outcome.bytes += bytes.len() as u64,
                Ok(Message::Close(_)) => {
                    self.measure(progress)?;
                    return self.close(true);
                }
                Ok(message) => self.keep_measurement(&message),
                Err(Error::ConnectionClosed) => return Ok(()),
                Err(error) => {
                    accept_would_block(Err(error))?;
                }
            }
            self.flush()?;
            self.measure_when_due(progress)?;
        }
    }

    /// Performs the closing handshake. Data that still arrives does not count. A peer that has closed
    /// its end may drop the connection, also without the end of TLS.
    fn close(&mut self, by_peer: bool) -> TransferEnd {
        let given_up = Instant::now() + CLOSE_TIME;
        let mut step = self.connection.socket.close(None);
        while Instant::now() < given_up && !self.stop.load(Ordering::Relaxed) {
            match step {
                Err(Error::ConnectionClosed | Error::AlreadyClosed) => return Ok(()),
                Err(Error::Io(error)) if by_peer && !is_temporary(&error) => return Ok(()),
                other => accept_would_block(other)?,
            };
            step = match self.connection.socket.read() {
                Ok(Message::Close(_)) if !by_peer => return Ok(()),
                Ok(message) => {
                    self.keep_measurement(&message);
                    Ok(())
                }
                Err(error) => Err(error),
            };
        }
        Err("the peer did not close the connection".to_owned())
    }

    fn keep_measurement(&mut self, message: &Message) {
        if let Message::Text(text) = message
            && self.outcome.peer.len() < MAX_MEASUREMENTS
        {
            self.outcome.peer.extend(Ndt7Measurement::parse(text));
        }
    }

    fn measure_when_due(&mut self, progress: &mut dyn FnMut(AppCount)) -> TransferEnd {
        if self.started.elapsed() < self.next_measure {
            return Ok(());
        }
        self.next_measure = self.started.elapsed() + MEASURE_INTERVAL;
        self.measure(progress)
    }

    /// Takes a measurement, keeps it and sends it.
    fn measure(&mut self, progress: &mut dyn FnMut(AppCount)) -> TransferEnd {
        let elapsed_us = self.started.elapsed().as_micros() as u64;
        let count = AppCount { elapsed_time: elapsed_us, num_bytes: self.outcome.bytes };
        progress(count);
        let info = read_tcp_info(&self.connection.tcp).ok();
        let measurement = Ndt7Measurement {
            app_info: Some(count),
            connection_info: self.ends.clone(),
            origin: Some(if self.is_server { "server" } else { "client" }.to_owned()),
            test: Some(self.kind.name().to_owned()),
            bbr_info: None,
            tcp_info: info.map(|info| name_tcp_counters(&info.reading, elapsed_us)),
        };
        let text = measurement.to_json();
        if self.outcome.own.len() < MAX_MEASUREMENTS {
            self.outcome.own.push(measurement);
        }
        match self.connection.socket.send(Message::text(text)) {
            // The peer has begun to close.
            Err(Error::Protocol(_) | Error::ConnectionClosed | Error::AlreadyClosed) => Ok(()),
            sent => accept_would_block(sent).map(|_| ()),
        }
    }
}

/// Returns whether an operation is done; one that would have to wait is not, and is continued by the
/// next call.
fn accept_would_block(result: Result<(), Error>) -> Result<bool, String> {
    match result {
        Ok(()) => Ok(true),
        Err(Error::Io(error)) if is_temporary(&error) => Ok(false),
        Err(error) => Err(error.to_string()),
    }
}

fn is_temporary(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}
