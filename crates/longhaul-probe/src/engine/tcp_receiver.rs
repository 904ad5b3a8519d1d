//! The receiver of one TCP stream: blocking reads into memory (*delivered*), or discarding in the
//! kernel without a copy (*wire*).

use super::defaults::EngineDefaults;
use super::pace::RatePacer;
use super::stop_rule::StopRule;
use super::stream_counters::{CounterWriter, RunClock};
use longhaul_model::report::v1::plan::ReceiveMode;
use longhaul_sys::memory_region::ReceiveSink;
use longhaul_sys::tcp_transfer;
use std::io;
use std::net::TcpStream;
use std::time::Duration;

/// The timeout of a read, after which the stop rule is checked.
pub(super) const READ_TIMEOUT: Duration = Duration::from_millis(100);
/// The maximum time that a late rate-limited reader may catch up.
const MAX_CATCH_UP: Duration = Duration::from_millis(20);

/// One receiving stream.
pub(super) struct TcpReceiver<'a> {
    pub socket: &'a TcpStream,
    pub mode: ReceiveMode,
    /// Shared by the streams of a core, so that their bytes are written to the same cached memory.
    pub sink: ReceiveSink,
    pub meter: CounterWriter<'a>,
    pub clock: RunClock,
    pub stop: &'a StopRule,
    pub choice: &'a EngineDefaults,
    pub sample_if_due: &'a dyn Fn(u64),
}

impl TcpReceiver<'_> {
    /// Reads until the end of the stream, an error, or a stop.
    pub fn run(mut self) -> io::Result<()> {
        let began_ns = self.meter.now_ns();
        let mut pace = self
            .choice
            .read_rate
            .map(|rate| RatePacer::new(rate, MAX_CATCH_UP, self.meter.now_ns()));
        while !self.stop.is_stopped() {
            (self.sample_if_due)(self.meter.now_ns());
            if let Some(pace) = &mut pace {
                if !pace.wait(self.clock, self.stop) {
                    break;
                }
                self.meter.skip_pause();
            }
            match self.take() {
                Ok(0) => break,
                Ok(bytes) => {
                    self.meter.record_bytes(bytes);
                    self.meter.record_calls(1);
                    if let Some(pace) = &mut pace {
                        pace.advance(bytes);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.meter.record_wait(),
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
            ReceiveMode::Delivered => tcp_transfer::receive_into_sink(self.socket, &self.sink),
            ReceiveMode::Wire => {
                tcp_transfer::discard_received(self.socket, self.choice.read_bytes)
            }
        }
    }
}
