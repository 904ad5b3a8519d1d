//! The socket below TLS: it keeps little unsent data, and obeys the limits of a server.
//!
//! Data that waits in this host delays the answers behind it. The kernel holds what the connection
//! sends in 5 ms, as the draft advises (section 6.1.1).

use longhaul_sys::tcp_transfer::limit_unsent_bytes;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

/// The time between two estimates of the rate.
const RATE_INTERVAL: Duration = Duration::from_millis(100);
/// The sending time of unsent data, as a part of a second.
const UNSENT_PART: f64 = 0.005;
const UNSENT_BYTES: (f64, f64) = (4096.0, 1_048_576.0);
/// A frame is this part of the unsent data.
const FRAME_DIVISOR: usize = 4;
const FIRST_UNSENT_BYTES: usize = 65_536;
/// The longest pause of a connection that is ahead of its rate.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// The sending rate of a connection, as its body needs it.
#[derive(Debug)]
pub struct SocketMeter {
    unsent_bytes: AtomicUsize,
}

impl Default for SocketMeter {
    fn default() -> Self {
        SocketMeter { unsent_bytes: AtomicUsize::new(FIRST_UNSENT_BYTES) }
    }
}

impl SocketMeter {
    /// Returns the size of a frame that is sent in about a millisecond.
    pub fn frame_bytes(&self) -> usize {
        self.unsent_bytes.load(Ordering::Relaxed) / FRAME_DIVISOR
    }
}

/// The bytes and the rate that the connections of a client may have together.
#[derive(Debug)]
pub struct TrafficBudget {
    pub started: Instant,
    pub bytes: Option<u64>,
    pub rate_bps: Option<u64>,
    pub moved_bytes: AtomicU64,
}

impl TrafficBudget {
    /// Adds bytes that were moved.
    fn spend(&self, bytes: usize) {
        self.moved_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Returns the time for which the client is ahead of its rate.
    ///
    /// # Errors
    /// The client has moved all that it may.
    fn check(&self) -> io::Result<Duration> {
        let moved = self.moved_bytes.load(Ordering::Relaxed);
        if self.bytes.is_some_and(|most| moved >= most) {
            return Err(io::Error::other("the client has moved all bytes that it may"));
        }
        let due = self.rate_bps.map(|bps| moved as f64 * 8.0 / bps.max(1) as f64);
        let due = Duration::try_from_secs_f64(due.unwrap_or(0.0)).unwrap_or(Duration::MAX);
        Ok(due.saturating_sub(self.started.elapsed()))
    }
}

/// A TCP socket with a meter and, at a server, a budget.
#[derive(Debug)]
pub struct MeteredSocket {
    socket: TcpStream,
    meter: Arc<SocketMeter>,
    budget: Option<Arc<TrafficBudget>>,
    pause: Option<Pin<Box<Sleep>>>,
    interval_began: Instant,
    interval_bytes: usize,
}

impl MeteredSocket {
    pub fn new(
        socket: TcpStream,
        meter: Arc<SocketMeter>,
        budget: Option<Arc<TrafficBudget>>,
    ) -> MeteredSocket {
        let unsent = meter.unsent_bytes.load(Ordering::Relaxed);
        // An old kernel holds more.
        let _ = limit_unsent_bytes(&socket, unsent as u32);
        let interval_began = Instant::now();
        MeteredSocket { socket, meter, budget, pause: None, interval_began, interval_bytes: 0 }
    }

    fn note_written(&mut self, bytes: usize) {
        self.interval_bytes += bytes;
        let elapsed = self.interval_began.elapsed();
        if elapsed < RATE_INTERVAL {
            return;
        }
        let unsent = self.interval_bytes as f64 / elapsed.as_secs_f64() * UNSENT_PART;
        let unsent = unsent.clamp(UNSENT_BYTES.0, UNSENT_BYTES.1) as usize;
        self.meter.unsent_bytes.store(unsent, Ordering::Relaxed);
        let _ = limit_unsent_bytes(&self.socket, unsent as u32);
        self.interval_began = Instant::now();
        self.interval_bytes = 0;
    }

    /// Is ready when the budget allows to move more.
    fn poll_budget(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(budget) = &self.budget else {
            return Poll::Ready(Ok(()));
        };
        loop {
            if let Some(pause) = &mut self.pause {
                if pause.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                self.pause = None;
            }
            let early = budget.check()?;
            if early.is_zero() {
                return Poll::Ready(Ok(()));
            }
            self.pause = Some(Box::pin(tokio::time::sleep(early.min(LONGEST_PAUSE))));
        }
    }
}

impl AsyncRead for MeteredSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        std::task::ready!(self.poll_budget(context))?;
        let before = into.filled().len();
        let polled = Pin::new(&mut self.socket).poll_read(context, into);
        if let Some(budget) = &self.budget {
            budget.spend(into.filled().len() - before);
        }
        polled
    }
}

impl AsyncWrite for MeteredSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        std::task::ready!(self.poll_budget(context))?;
        let written = std::task::ready!(Pin::new(&mut self.socket).poll_write(context, bytes))?;
        self.note_written(written);
        if let Some(budget) = &self.budget {
            budget.spend(written);
        }
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}
