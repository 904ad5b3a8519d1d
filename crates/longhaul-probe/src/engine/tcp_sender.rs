//! The sender of one TCP stream: blocking writes of a repeated payload, or page references.
//!
//! The zero-copy sender fills a pipe with references (vmsplice) and moves them to the socket
//! (splice). Without a pipe, plain writes are used, with a caveat.

use super::defaults::EngineDefaults;
use super::end_run::{EngineShared, StreamState};
use super::stream_counters::CounterWriter;
use super::{RatePacer, StreamEnding};
use longhaul_model::report::v1::ReportCaveat;
use longhaul_sys::memory_region::{GatherVector, MemoryRegion};
use longhaul_sys::sockopt::SockRef;
use longhaul_sys::splice::SplicePipe;
use longhaul_sys::tcp_transfer;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// The timeout of a blocked write, after which the stop rule is checked.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_millis(50);
/// The time limit for completing the last block of a stream that is left open.
const FILL_TIMEOUT: Duration = Duration::from_millis(500);
/// The maximum time that a late paced application may catch up.
const MAX_CATCH_UP: Duration = Duration::from_millis(20);

/// Moves payload into the socket.
#[derive(Debug)]
struct PayloadMover {
    payload: GatherVector,
    /// Carries page references; without it, payload is copied.
    pipe: Option<SplicePipe>,
    /// Bytes that are in the pipe and not yet in the socket.
    waiting: usize,
}

impl PayloadMover {
    /// Returns the mover for one stream, and a caveat if it is a fallback.
    fn new(
        payload: &Arc<MemoryRegion>,
        zero_copy: bool,
        choice: &EngineDefaults,
    ) -> (PayloadMover, Option<ReportCaveat>) {
        let payload = GatherVector::new(Arc::clone(payload), choice.write_bytes);
        let (pipe, caveat) = match zero_copy.then(|| SplicePipe::new(choice.pipe_bytes)) {
            None => (None, None),
            Some(Ok(pipe)) => (Some(pipe), None),
            Some(Err(error)) => {
                let text = format!("cannot create a pipe for vmsplice ({error}); sent by copying");
                (None, Some(ReportCaveat::new("zero_copy_unavailable", text)))
            }
        };
        (PayloadMover { payload, pipe, waiting: 0 }, caveat)
    }

    /// Moves up to `bytes` bytes, beginning at byte `position` of the stream.
    fn push(&mut self, socket: &TcpStream, position: u64, bytes: usize) -> io::Result<usize> {
        let Some(pipe) = &self.pipe else {
            return tcp_transfer::send_payload(socket, &mut self.payload, position, bytes);
        };
        if self.waiting == 0 {
            let most = bytes.min(pipe.capacity_bytes());
            self.waiting = pipe.fill(&mut self.payload, position, most)?;
        }
        let more = self.waiting < bytes;
        let moved = pipe.drain(socket, bytes.min(self.waiting), more)?;
        self.waiting -= moved;
        Ok(moved)
    }
}

/// One sending stream.
pub(super) struct TcpSender<'a> {
    shared: &'a EngineShared,
    stream: &'a StreamState,
    socket: &'a TcpStream,
    mover: PayloadMover,
    meter: CounterWriter<'a>,
}

/// The time at which writing ends, even if data is left.
struct WriteDeadline {
    /// `None`: that of the stop rule, which an early end brings forward.
    at_ns: Option<u64>,
    /// The write timeout has been shortened to meet `at_ns`.
    armed: bool,
}

impl<'a> TcpSender<'a> {
    /// Returns the sender, and a caveat if it cannot send as requested.
    pub fn new(
        shared: &'a EngineShared,
        index: usize,
        socket: &'a TcpStream,
    ) -> (TcpSender<'a>, Option<ReportCaveat>) {
        let stream = &shared.streams[index];
        let payload = &shared.payloads[index % shared.payloads.len()];
        let (mover, caveat) =
            PayloadMover::new(payload, shared.spec.plan.zero_copy, &shared.defaults);
        let meter = CounterWriter::new(&stream.counters, shared.clock());
        (TcpSender { shared, stream, socket, mover, meter }, caveat)
    }

    /// Writes until the stop rule is met, an error occurs, or the run is stopped.
    pub fn run(mut self) -> io::Result<()> {
        self.meter.begin();
        let (stop, choice) = (&self.shared.stop, &self.shared.defaults);
        let mut pace =
            choice.write_rate.map(|rate| RatePacer::new(rate, MAX_CATCH_UP, self.meter.now_ns()));
        let mut until = WriteDeadline { at_ns: None, armed: false };
        while !stop.is_over(self.meter.now_ns()) {
            if let Some(pace) = &mut pace {
                if !pace.wait(self.shared.clock(), stop) {
                    break;
                }
                self.meter.skip_pause();
            }
            let block = stop.claim(choice.write_bytes, 1);
            if block == 0 {
                break;
            }
            let mut left = block;
            if let Err(error) = self.write(&mut left, &mut until) {
                stop.give_back(left);
                return Err(error);
            }
            self.meter.record_calls(1);
            if let Some(pace) = &mut pace {
                pace.advance(block);
            }
        }
        self.finish_stream()
    }

    fn finish_stream(&mut self) -> io::Result<()> {
        let stop = &self.shared.stop;
        match self.shared.spec.ending {
            StreamEnding::HalfClosed => {
                let closed = self.socket.shutdown(Shutdown::Write);
                // The receiver of a run limited by time may be gone already.
                if stop.must_drain() && !stop.is_stopped() { closed } else { Ok(()) }
            }
            StreamEnding::Open { .. } if stop.is_stopped() => Ok(()),
            StreamEnding::Open { block_bytes } => self.fill_block(block_bytes),
        }
    }

    /// Completes the last block, if this is possible soon.
    fn fill_block(&mut self, block_bytes: u64) -> io::Result<()> {
        let whole = self.meter.position().next_multiple_of(block_bytes.max(1));
        let mut left = (whole - self.meter.position()) as usize;
        if left == 0 {
            return Ok(());
        }
        SockRef::from(self.socket).set_write_timeout(Some(WRITE_TIMEOUT))?;
        let mut until = WriteDeadline {
            at_ns: Some(self.meter.now_ns() + FILL_TIMEOUT.as_nanos() as u64),
            armed: false,
        };
        self.write(&mut left, &mut until)
    }

    /// Writes `left` bytes, unless the time or the run ends first.
    fn write(&mut self, left: &mut usize, until: &mut WriteDeadline) -> io::Result<()> {
        while *left > 0 {
            self.arm_timeout(until)?;
            match self.mover.push(self.socket, self.meter.position(), *left) {
                Ok(bytes) => {
                    *left -= bytes;
                    self.meter.record_bytes(bytes);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.meter.record_wait(),
                Err(error) => return Err(error),
            }
            let now_ns = self.meter.now_ns();
            super::sample_if_due(self.shared, self.stream, now_ns);
            if now_ns >= self.deadline_ns(until) || self.shared.stop.is_stopped() {
                break;
            }
        }
        Ok(())
    }

    fn deadline_ns(&self, until: &WriteDeadline) -> u64 {
        until.at_ns.unwrap_or_else(|| self.shared.stop.deadline_ns())
    }

    /// Shortens the write timeout when less than a tick is left before the deadline.
    fn arm_timeout(&self, until: &mut WriteDeadline) -> io::Result<()> {
        let left_ns = self.deadline_ns(until).saturating_sub(self.meter.now_ns());
        if !until.armed && left_ns < WRITE_TIMEOUT.as_nanos() as u64 {
            until.armed = true;
            let left = Duration::from_nanos(left_ns).max(Duration::from_millis(1));
            SockRef::from(self.socket).set_write_timeout(Some(left))?;
        }
        Ok(())
    }
}
