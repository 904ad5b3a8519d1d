//! The receiver of one TCP stream: blocking reads into memory (*delivered*), or discarding in the
//! kernel without a copy (*wire*).

use super::choice::Choice;
use super::counters::{Meter, RunClock};
use super::follow::Follower;
use super::pace::Pace;
use super::stop::StopRule;
use longhaul_model::report::v1::plan::Mode;
use longhaul_sys::region::Sink;
use longhaul_sys::tcp;
use std::io;
use std::net::TcpStream;
use std::time::Duration;

/// The timeout of a read, after which the stop rule is checked.
pub(super) const TICK: Duration = Duration::from_millis(100);
/// The maximum time that a late rate-limited reader may catch up.
const CREDIT: Duration = Duration::from_millis(20);

/// One receiving stream.
pub(super) struct TcpReceiver<'a> {
    pub socket: &'a TcpStream,
    pub mode: Mode,
    /// Shared by the streams of a core, so that their bytes are written to the same cached memory.
    pub sink: Sink,
    pub meter: Meter<'a>,
    pub clock: RunClock,
    pub stop: &'a StopRule,
    pub choice: &'a Choice,
    pub follower: Option<Follower<'a>>,
    pub asked: &'a dyn Fn(u64),
}

impl TcpReceiver<'_> {
    /// Reads until the end of the stream, an error, or a stop.
    pub fn run(mut self) -> io::Result<()> {
        let began_ns = self.meter.now_ns();
        let mut pace = self
            .choice
            .read_rate
            .map(|rate| Pace::new(rate, CREDIT, self.meter.now_ns()));
        while !self.stop.stopped() {
            (self.asked)(self.meter.now_ns());
            if let Some(follower) = &mut self.follower {
                follower.look(self.socket, self.meter.now_ns());
            }
            if let Some(pace) = &mut pace {
                if !pace.wait(self.clock, self.stop) {
                    break;
                }
                self.meter.paused();
            }
            match self.take() {
                Ok(0) => break,
                Ok(bytes) => {
                    self.meter.moved(bytes);
                    self.meter.completed(1);
                    if let Some(pace) = &mut pace {
                        pace.passed(bytes);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.meter.waited(),
                Err(error) => {
                    let reset = error.kind() == io::ErrorKind::ConnectionReset;
                    let elapsed_ns = self.clock.now_ns().saturating_sub(began_ns);
                    if reset && self.stop.is_spent(elapsed_ns) {
                        break;
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn take(&self) -> io::Result<usize> {
        match self.mode {
            Mode::Delivered => tcp::receive(self.socket, &self.sink),
            Mode::Wire => tcp::discard(self.socket, self.choice.read_bytes),
        }
    }
}
