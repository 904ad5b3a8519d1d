//! The receiver of one TCP stream: blocking reads into memory (*delivered*), or discarding in the
//! kernel without a copy (*wire*).
//!
//! # Read batching
//!
//! Adaptive batching for UDP receivers: the reader sleeps so that datagrams accumulate.
//!
//! A reader that takes each datagram as it arrives is woken for each, which costs more than the
//! datagram; between two programs on one machine, the sender's call pays for it. The kernel keeps
//! arrival times, so the reader may come later and take many at once: after each read that emptied
//! the queue, it sleeps until a quarter of its buffer would be full at the measured rate. With
//! bursts this may cost more than it saves, so both modes are tried alternately, and the one with
//! less CPU time per datagram is kept for a while.
//!
//! Wrong when: the rate grows fourfold within one sleep, or this thread gets no core for three more
//! sleeps. If the kernel gives no arrival times, the reader does not sleep.

use super::RatePacer;
use super::end_run::{EngineShared, StreamState};
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
            super::sample_if_due(self.shared, self.stream, self.meter.now_ns());
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

/// The span over which the rate and the cost of a datagram are measured.
const SPAN_NS: u64 = 20_000_000;
/// The number of spans for which the cheaper mode is kept before the other is tried again.
const KEPT_SPANS: u32 = 50;
/// The maximum sleep, and so the maximum age of a counter and delay of a stop.
const MAX_PAUSE_NS: u64 = 2_000_000;
/// The minimum sleep, which costs as much as a few datagrams.
const MIN_PAUSE_NS: u64 = 50_000;
/// The fraction of the buffer that may fill during a sleep.
const BUFFER_PARTS: u64 = 4;
/// The kernel's overhead of a datagram, which also takes at most twice its payload in the buffer.
const OVERHEAD_BYTES: u64 = 512;

/// The batching state of one stream's reader.
#[derive(Debug)]
pub(super) struct BatchPacer {
    room_bytes: u64,
    span: BatchSpan,
    pauses: bool,
    /// CPU time per datagram without and with sleeps.
    costs_ns: [Option<u64>; 2],
    kept_spans: u32,
    pause: Option<Duration>,
}

/// The result of one read.
#[derive(Debug, Clone, Copy)]
pub(super) struct BatchedRead {
    pub count: u64,
    /// Payload bytes.
    pub bytes: u64,
    /// The read emptied the queue, which it does not if a long sleep let too many arrive.
    pub emptied_queue: bool,
}

/// The datagrams since the beginning of a span, which is given in wall-clock and CPU time.
#[derive(Debug, Default)]
struct BatchSpan {
    began_ns: u64,
    cpu_began_ns: u64,
    count: u64,
    bytes: u64,
}

impl BatchPacer {
    /// Creates the state for a receive buffer that the kernel stores as `buffer_bytes`.
    pub fn new(buffer_bytes: usize) -> BatchPacer {
        BatchPacer {
            room_bytes: buffer_bytes as u64 / BUFFER_PARTS,
            span: BatchSpan::default(),
            pauses: false,
            costs_ns: [None; 2],
            kept_spans: 0,
            pause: None,
        }
    }

    /// Returns the time to sleep after a read. `cpu_ns` returns the CPU time of this thread.
    pub fn pause_after(
        &mut self,
        now_ns: u64,
        came: BatchedRead,
        cpu_ns: impl FnOnce() -> u64,
    ) -> Option<Duration> {
        self.span.count += came.count;
        self.span.bytes += came.bytes;
        let lasted_ns = now_ns.saturating_sub(self.span.began_ns);
        if lasted_ns >= SPAN_NS {
            let cpu_ns = cpu_ns();
            self.evaluate_span(lasted_ns, cpu_ns);
            self.span =
                BatchSpan { began_ns: now_ns, cpu_began_ns: cpu_ns, ..BatchSpan::default() };
        }
        self.pause.filter(|_| came.emptied_queue)
    }

    fn evaluate_span(&mut self, lasted_ns: u64, cpu_ns: u64) {
        let possible = self.possible_pause(lasted_ns);
        let whole = lasted_ns < 2 * SPAN_NS;
        if possible.is_none() || !whole {
            (self.pauses, self.costs_ns, self.pause) = (false, [None; 2], None);
            return;
        }
        let spent_ns = cpu_ns.saturating_sub(self.span.cpu_began_ns);
        self.costs_ns[usize::from(self.pauses)] = Some(spent_ns / self.span.count.max(1));
        self.kept_spans += 1;
        self.choose_mode();
        self.pause = possible.filter(|_| self.pauses);
    }

    /// Chooses the mode of the next span: an unmeasured one, otherwise the cheaper one, and the
    /// other one now and then.
    fn choose_mode(&mut self) {
        let better = match self.costs_ns {
            [Some(without), Some(with)] => with < without,
            [known, _] => known.is_some(),
        };
        let try_other = self.kept_spans >= KEPT_SPANS;
        if try_other {
            self.kept_spans = 0;
        }
        self.pauses = better != try_other;
    }

    /// Returns the sleep that fills the allowed part of the buffer, if several datagrams arrive.
    fn possible_pause(&self, lasted_ns: u64) -> Option<Duration> {
        let taken_bytes = 2 * self.span.bytes + OVERHEAD_BYTES * self.span.count;
        let fills_ns = self.room_bytes.saturating_mul(lasted_ns) / taken_bytes.max(1);
        let rest_ns = fills_ns.min(MAX_PAUSE_NS);
        let several = 2 * lasted_ns <= rest_ns * self.span.count;
        (several && rest_ns >= MIN_PAUSE_NS).then(|| Duration::from_nanos(rest_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORED: usize = 212_992;
    const GIGABIT_NS: u64 = 11_600;

    /// Returns the sleeps, span by span, for datagrams of `bytes` that arrive every `spacing_ns`
    /// and cost `costs_ns` each, without and with sleeps.
    fn rests(
        reader: &mut BatchPacer,
        (spacing_ns, bytes): (u64, u64),
        costs_ns: [u64; 2],
        spans: u64,
    ) -> Vec<Option<Duration>> {
        let begin = reader.span.began_ns.max(1 << 40);
        let mut cpu_ns = reader.span.cpu_began_ns;
        let mut seen = Vec::new();
        for index in 1..=spans * SPAN_NS / spacing_ns {
            cpu_ns += costs_ns[usize::from(reader.pause.is_some())];
            let mut judged = false;
            let came = BatchedRead { count: 1, bytes, emptied_queue: true };
            let rest = reader.pause_after(begin + index * spacing_ns, came, || {
                judged = true;
                cpu_ns
            });
            if judged {
                seen.push(rest);
            }
        }
        seen
    }

    #[test]
    fn a_rest_fills_no_more_than_a_quarter_of_the_buffer() {
        for (spacing_ns, bytes) in [(GIGABIT_NS, 1448), (GIGABIT_NS, 200), (4_000, 1448)] {
            let mut fresh = BatchPacer::new(STORED);
            let seen = rests(&mut fresh, (spacing_ns, bytes), [9, 3], 5);
            let rest = seen.last().copied().flatten().expect("a rest");
            let count = rest.as_nanos() as u64 / spacing_ns;
            assert!(count >= 10, "{count} of {bytes} bytes");
            assert!(count * (2 * bytes + OVERHEAD_BYTES) <= STORED as u64 / BUFFER_PARTS);
        }
    }

    #[test]
    fn who_has_not_taken_all_does_not_rest() {
        let mut reader = BatchPacer::new(STORED);
        let seen = rests(&mut reader, (GIGABIT_NS, 1448), [9_000, 3_000], 5);
        assert!(seen.last().is_some_and(Option::is_some));
        let mut after = |all| {
            let came = BatchedRead { count: 64, bytes: 64 * 1448, emptied_queue: all };
            reader.pause_after(reader.span.began_ns, came, || 0)
        };
        assert_eq!(after(false), None);
        assert!(after(true).is_some());
    }

    #[test]
    fn rare_datagrams_are_taken_as_they_come_and_so_are_those_of_a_small_buffer() {
        let none = |seen: Vec<Option<Duration>>| seen.iter().all(Option::is_none);
        assert!(none(rests(&mut BatchPacer::new(STORED), (5_000_000, 1448), [9, 3], 5)));
        assert!(none(rests(&mut BatchPacer::new(4608), (GIGABIT_NS, 1448), [9, 3], 5)));
    }

    #[test]
    fn the_cheaper_way_is_kept_and_the_other_tried_now_and_then() {
        for (costs_ns, most_rest) in [([9_000, 3_000], true), ([3_000, 9_000], false)] {
            let mut reader = BatchPacer::new(STORED);
            let seen = rests(&mut reader, (GIGABIT_NS, 1448), costs_ns, 200);
            let resting = seen.iter().filter(|rest| rest.is_some()).count();
            assert_eq!(resting > seen.len() * 9 / 10, most_rest, "{costs_ns:?}");
            assert_eq!(resting < seen.len() / 10, !most_rest, "{costs_ns:?}");
            assert!(resting > 0 && resting < seen.len(), "both were tried");
        }
    }

    #[test]
    fn who_becomes_slow_is_not_waited_for() {
        let mut reader = BatchPacer::new(STORED);
        let fast = rests(&mut reader, (GIGABIT_NS, 1448), [9_000, 3_000], 5);
        assert!(fast.last().is_some_and(Option::is_some));
        let slow = rests(&mut reader, (2_000_000, 1448), [9_000, 3_000], 5);
        assert_eq!(slow.last(), Some(&None));
    }
}
