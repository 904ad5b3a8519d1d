//! The receiver of one TCP stream: blocking reads into memory (*delivered*), or discarding in the
//! kernel without a copy (*wire*).

use super::end_run::{EngineShared, StreamState};
use super::pace::RatePacer;
use super::sample_request;
use super::stream_counters::CounterWriter;
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
    shared: &'a EngineShared,
    stream: &'a StreamState,
    socket: &'a TcpStream,
    sink: ReceiveSink,
    meter: CounterWriter<'a>,
}

impl<'a> TcpReceiver<'a> {
    /// Allocates all memory for receiving.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn new(
        shared: &'a EngineShared,
        index: usize,
        socket: &'a TcpStream,
    ) -> io::Result<TcpReceiver<'a>> {
        let stream = &shared.streams[index];
        let sink = ReceiveSink::new(shared.defaults.read_bytes)?;
        let meter = CounterWriter::new(&stream.counters, shared.clock());
        Ok(TcpReceiver { shared, stream, socket, sink, meter })
    }

    /// Reads until the end of the stream, an error, or a stop.
    pub fn run(mut self) -> io::Result<()> {
        self.meter.skip_pause();
        let (stop, clock) = (&self.shared.stop, self.shared.clock());
        let began_ns = self.meter.now_ns();
        let rate = self.shared.defaults.read_rate;
        let mut pace = rate.map(|rate| RatePacer::new(rate, MAX_CATCH_UP, began_ns));
        while !stop.is_stopped() {
            sample_request::sample_if_due(self.shared, self.stream, self.meter.now_ns());
            if let Some(pace) = &mut pace {
                if !pace.wait(clock, stop) {
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
                    let elapsed_ns = clock.now_ns().saturating_sub(began_ns);
                    if reset && stop.is_spent(elapsed_ns) {
                        break;
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn take(&self) -> io::Result<usize> {
        match self.shared.spec.plan.mode {
            ReceiveMode::Delivered => tcp_transfer::receive_into_sink(self.socket, &self.sink),
            ReceiveMode::Wire => {
                tcp_transfer::discard_received(self.socket, self.shared.defaults.read_bytes)
            }
        }
    }
}
