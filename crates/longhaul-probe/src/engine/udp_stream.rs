//! One UDP stream: evenly paced datagrams out, and the account of received ones.
//!
//! Below about 100 Mbit/s, every datagram is sent at its own time. Above, one call sends as many as
//! are due in 200 us (UDP segmentation offload).

use super::datagram_tracker::{DatagramFormat, DatagramHeader, DatagramTracker};
use super::end_run::EngineShared;
use super::stream_counters::CounterWriter;
use super::tcp_receiver::{BatchPacer, BatchedRead};
use super::{RatePacer, sockets};
use longhaul_model::report::v1::observation::UdpCounts;
use longhaul_model::report::v1::plan::{ReceiveMode, RunTransport};
use longhaul_model::units::Rate;
use longhaul_sys::memory_region::ReceiveSink;
use longhaul_sys::sockopt;
use longhaul_sys::sockopt::SockRef;
use longhaul_sys::thread_times::ThreadId;
use longhaul_sys::udp_batch::{self, ReceiveBatch};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// The number of datagrams per call is what is due in this time.
const BATCH_TIME: Duration = Duration::from_micros(200);
const BATCH_FROM: Rate = Rate::bits_per_second(100_000_000);
/// `UDP_MAX_SEGMENTS` of the oldest kernels that have the option, and the largest IP packet.
const MAX_SEGMENTS: usize = 64;
const MAX_SEND_BYTES: usize = 65_000;
/// The largest payload of one datagram over IPv4.
const MAX_DATAGRAM_BYTES: usize = 65_507;
/// The maximum time that a late sender may catch up; more would be a burst.
const MAX_CATCH_UP: Duration = Duration::from_millis(5);
/// The number of end marks: they are repeated because any of them may be lost.
const END_MARKS: u32 = 5;
const END_SPACING: Duration = Duration::from_millis(10);
/// The time limit for datagrams that are still on the way when the end mark arrives.
const LATE_TIMEOUT: Duration = Duration::from_secs(1);
const SLOTS: usize = 64;
/// The MTU limit for the default size of datagrams.
const MAX_DEFAULT_MTU: u32 = 9000;

/// Returns the default payload of a datagram, which leaves room for one more header: 1448 bytes at
/// an MTU of 1500 over IPv4, 1432 over IPv6.
fn default_datagram_bytes(socket: &UdpSocket) -> usize {
    const MTU_USUAL: u32 = 1500;
    let Ok(peer) = socket.peer_addr() else {
        return 1432;
    };
    let mtu = sockopt::path_mtu_bytes(socket, peer).unwrap_or(MTU_USUAL);
    let headers = match peer {
        SocketAddr::V4(_) => 52,
        SocketAddr::V6(_) => 68,
    };
    mtu.min(MAX_DEFAULT_MTU).saturating_sub(headers) as usize
}

/// The sender of one UDP stream.
pub(super) struct DatagramSender<'a> {
    shared: &'a EngineShared,
    index: usize,
    socket: &'a UdpSocket,
    rate: Rate,
    datagram_bytes: usize,
    meter: CounterWriter<'a>,
    buffer: Vec<u8>,
    batch: usize,
    sent: u64,
}

impl<'a> DatagramSender<'a> {
    /// Allocates all memory for sending.
    pub fn new(
        shared: &'a EngineShared,
        index: usize,
        socket: &'a UdpSocket,
    ) -> DatagramSender<'a> {
        let plan = &shared.spec.plan;
        let rate_bps = match plan.transport {
            RunTransport::Udp { rate_bps } => rate_bps,
            RunTransport::Tcp => u64::MAX,
        };
        let rate = Rate::bits_per_second(rate_bps / shared.streams.len().max(1) as u64);
        let asked = plan.write_bytes.map(|bytes| bytes as usize);
        let datagram_bytes = asked
            .unwrap_or_else(|| default_datagram_bytes(socket))
            .clamp(shared.spec.heads.header_bytes(), MAX_DATAGRAM_BYTES);
        let mut batch = batch_size(rate, datagram_bytes);
        if batch > 1 && udp_batch::set_segment_bytes(socket, datagram_bytes as u16).is_err() {
            batch = 1;
        }
        let mut buffer = vec![0; batch * datagram_bytes];
        super::fill_payload(&mut buffer);
        let meter = CounterWriter::new(&shared.streams[index].counters, shared.clock());
        DatagramSender {
            shared,
            index,
            socket,
            rate,
            datagram_bytes,
            meter,
            buffer,
            batch,
            sent: 0,
        }
    }

    /// Sends until the stop rule is met, then sends end marks.
    pub fn run(mut self) -> io::Result<()> {
        self.meter.begin();
        let mut pace = RatePacer::new(self.rate, MAX_CATCH_UP, self.meter.now_ns());
        while pace.wait(self.shared.clock(), &self.shared.stop) {
            self.meter.skip_pause();
            let bytes = self.shared.stop.claim(self.datagram_bytes, self.batch);
            if bytes == 0 {
                break;
            }
            self.send(bytes)?;
            pace.advance(bytes);
        }
        if self.shared.spec.heads == DatagramFormat::Longhaul {
            self.send_end_marks()?;
        }
        Ok(())
    }

    /// Returns the size of a batch of `claimed` bytes. A remainder that is shorter than a header is
    /// sent as a bare header; with iperf3's format every datagram has the full size, since some
    /// servers wait for it.
    fn batch_bytes(&self, claimed: usize) -> usize {
        let head = self.shared.spec.heads.header_bytes();
        match claimed % self.datagram_bytes {
            0 => claimed,
            tail if self.shared.spec.heads != DatagramFormat::Longhaul => {
                claimed - tail + self.datagram_bytes
            }
            tail => claimed - tail + tail.max(head),
        }
    }

    fn send(&mut self, claimed: usize) -> io::Result<()> {
        let bytes = self.batch_bytes(claimed);
        let mut count = 0;
        let sent_ns = self.shared.clock().now_ns();
        for datagram in self.buffer[..bytes].chunks_mut(self.datagram_bytes) {
            let header = DatagramHeader {
                stream: self.index as u16,
                last: false,
                sequence: self.sent + count,
                sent_ns,
            };
            self.shared.spec.heads.write(header, datagram);
            count += 1;
        }
        match self.socket.send(&self.buffer[..bytes]) {
            Ok(bytes) => {
                self.sent += count;
                self.meter.record_bytes(bytes);
                self.meter.record_calls(count);
                Ok(())
            }
            // The queue is full: the rate is more than this host can send. The claimed bytes are
            // lost here, not on the path, so they get no sequence numbers.
            Err(error) if sockets::is_queue_full(&error) => {
                self.meter.record_wait();
                self.shared.stop.give_back(claimed);
                Ok(())
            }
            Err(error) if sockets::is_too_long(&error) => {
                let text = format!(
                    "a datagram of {} bytes is larger than the MTU of the interface",
                    self.datagram_bytes
                );
                Err(io::Error::new(error.kind(), text))
            }
            Err(error) => Err(error),
        }
    }

    fn send_end_marks(&mut self) -> io::Result<()> {
        let mut mark = vec![0; self.shared.spec.heads.header_bytes()];
        for _ in 0..END_MARKS {
            let header = DatagramHeader {
                stream: self.index as u16,
                last: true,
                sequence: self.sent,
                sent_ns: self.shared.clock().now_ns(),
            };
            self.shared.spec.heads.write(header, &mut mark);
            self.socket.send(&mark)?;
            std::thread::sleep(END_SPACING);
        }
        Ok(())
    }
}

fn batch_size(rate: Rate, datagram_bytes: usize) -> usize {
    if rate < BATCH_FROM {
        return 1;
    }
    let due = rate.bytes_in(BATCH_TIME) as usize / datagram_bytes;
    let most = (MAX_SEND_BYTES / datagram_bytes).min(MAX_SEGMENTS);
    due.clamp(1, most.max(1))
}

/// Returns the largest datagram that the plan allows.
fn max_datagram_bytes(asked: Option<u64>) -> usize {
    asked.map_or(MAX_DEFAULT_MTU as usize, |bytes| bytes.min(MAX_DATAGRAM_BYTES as u64) as usize)
}

/// The receiver of one UDP stream.
pub(super) struct DatagramReceiver<'a> {
    shared: &'a EngineShared,
    socket: &'a UdpSocket,
    meter: CounterWriter<'a>,
    batch: ReceiveBatch,
    tracker: DatagramTracker,
    batch_pacer: Option<BatchPacer>,
}

impl<'a> DatagramReceiver<'a> {
    /// Allocates all memory for receiving; in mode *wire* the payload stays in the kernel.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn new(
        shared: &'a EngineShared,
        index: usize,
        socket: &'a UdpSocket,
    ) -> io::Result<DatagramReceiver<'a>> {
        let sink = match shared.spec.plan.mode {
            ReceiveMode::Delivered => {
                Some(ReceiveSink::new(max_datagram_bytes(shared.spec.plan.write_bytes))?)
            }
            ReceiveMode::Wire => None,
        };
        Ok(DatagramReceiver {
            shared,
            socket,
            meter: CounterWriter::new(&shared.streams[index].counters, shared.clock()),
            batch: ReceiveBatch::new(SLOTS, shared.spec.heads.header_bytes(), sink),
            tracker: DatagramTracker::default(),
            batch_pacer: SockRef::from(socket).recv_buffer_size().ok().map(BatchPacer::new),
        })
    }

    /// Receives until all datagrams have arrived, until some time after the end mark, or a stop.
    pub fn run(mut self) -> (UdpCounts, io::Result<()>) {
        self.meter.skip_pause();
        let mut ended: Option<Instant> = None;
        let result = loop {
            if self.shared.stop.is_stopped() || self.tracker.is_complete() {
                break Ok(());
            }
            match self.batch.receive(self.socket) {
                Ok(taken) => {
                    if let Some(rest) = self.record_batch(taken < SLOTS) {
                        std::thread::sleep(rest);
                        self.meter.record_wait();
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.meter.record_wait();
                    if ended.is_some() {
                        break Ok(());
                    }
                }
                Err(error) => break Err(error),
            }
            if self.tracker.has_end()
                && ended.get_or_insert_with(Instant::now).elapsed() > LATE_TIMEOUT
            {
                break Ok(());
            }
        };
        (self.tracker.udp_counts(), result)
    }

    /// Records the received datagrams and returns the time to sleep. `emptied_queue: all`: the queue is empty.
    fn record_batch(&mut self, all: bool) -> Option<Duration> {
        let (mut bytes, mut count) = (0, 0);
        let now = Duration::from_nanos(self.shared.clock().now_ns());
        let mut timed = true;
        for datagram in self.batch.datagrams() {
            timed &= datagram.arrived.is_some();
            let Some(header) = self.shared.spec.heads.read(datagram.bytes) else {
                continue;
            };
            if self.tracker.record(header, datagram.arrived.unwrap_or(now)) {
                bytes += datagram.payload_bytes;
                count += 1;
            }
        }
        if count > 0 {
            self.meter.record_bytes(bytes);
            self.meter.record_calls(count);
        } else {
            self.meter.record_wait();
        }
        self.meter.publish_udp(&self.tracker.udp_counts());
        let cpu_ns = || {
            let spent = ThreadId::current().cpu_time();
            spent.map_or(0, |spent| spent.as_nanos() as u64)
        };
        let came = BatchedRead { count, bytes: bytes as u64, emptied_queue: all };
        let rest = self.batch_pacer.as_mut()?.pause_after(self.meter.now_ns(), came, cpu_ns);
        rest.filter(|_| timed && !self.tracker.has_end())
    }
}
