//! One UDP stream: evenly paced datagrams out, and the account of received ones.
//!
//! Below about 100 Mbit/s, every datagram is sent at its own time. Above, one call sends as many as
//! are due in 200 us (UDP segmentation offload).

use super::counters::{Meter, RunClock};
use super::datagram::{Header, Heads, Ledger};
use super::pace::Pace;
use super::payload;
use super::rest::{Came, Rest};
use super::stop::StopRule;
use longhaul_model::report::v1::observation::Udp;
use longhaul_model::report::v1::plan::Mode;
use longhaul_model::units::Rate;
use longhaul_sys::region::Sink;
use longhaul_sys::sockopt;
use longhaul_sys::thread::ThreadId;
use longhaul_sys::udp::{self, ReceiveBatch};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// The number of datagrams per call is what is due in this time.
const BATCH_TIME: Duration = Duration::from_micros(200);
const BATCH_FROM: Rate = Rate::bits_per_second(100_000_000);
/// `UDP_MAX_SEGMENTS` of the oldest kernels that have the option, and the largest IP packet.
const SEGMENTS_MAX: usize = 64;
const SEND_BYTES_MAX: usize = 65_000;
/// The largest payload of one datagram over IPv4.
const DATAGRAM_BYTES_MAX: usize = 65_507;
/// The maximum time that a late sender may catch up; more would be a burst.
const CREDIT: Duration = Duration::from_millis(5);
/// The number of end marks: they are repeated because any of them may be lost.
const END_MARKS: u32 = 5;
const END_SPACING: Duration = Duration::from_millis(10);
/// The time limit for datagrams that are still on the way when the end mark arrives.
const LATE: Duration = Duration::from_secs(1);
const SLOTS: usize = 64;
/// The MTU limit for the default size of datagrams.
const MTU_MOST: u32 = 9000;

/// Returns the default payload of a datagram, which leaves room for one more header: 1448 bytes at
/// an MTU of 1500 over IPv4, 1432 over IPv6.
pub(super) fn default_bytes(socket: &UdpSocket) -> usize {
    const MTU_USUAL: u32 = 1500;
    let Ok(peer) = socket.peer_addr() else {
        return 1432;
    };
    let mtu = sockopt::path_mtu_bytes(socket, peer).unwrap_or(MTU_USUAL);
    let headers = match peer {
        SocketAddr::V4(_) => 52,
        SocketAddr::V6(_) => 68,
    };
    mtu.min(MTU_MOST).saturating_sub(headers) as usize
}

/// The sender of one UDP stream.
pub(super) struct DatagramSender<'a> {
    pub socket: &'a UdpSocket,
    pub index: usize,
    pub rate: Rate,
    pub datagram_bytes: usize,
    heads: Heads,
    pub meter: Meter<'a>,
    pub clock: RunClock,
    pub stop: &'a StopRule,
    buffer: Vec<u8>,
    batch: usize,
    sent: u64,
}

impl<'a> DatagramSender<'a> {
    /// Allocates all memory for sending.
    pub fn new(
        socket: &'a UdpSocket,
        index: usize,
        (rate, datagram_bytes, heads): (Rate, usize, Heads),
        (meter, clock): (Meter<'a>, RunClock),
        stop: &'a StopRule,
    ) -> DatagramSender<'a> {
        let datagram_bytes = datagram_bytes.clamp(heads.bytes(), DATAGRAM_BYTES_MAX);
        let mut batch = batch(rate, datagram_bytes);
        if batch > 1 && udp::set_segment_bytes(socket, datagram_bytes as u16).is_err() {
            batch = 1;
        }
        let mut buffer = vec![0; batch * datagram_bytes];
        payload::fill(&mut buffer);
        DatagramSender {
            socket,
            index,
            rate,
            datagram_bytes,
            heads,
            meter,
            clock,
            stop,
            buffer,
            batch,
            sent: 0,
        }
    }

    /// Sends until the stop rule is met, then sends end marks.
    pub fn run(mut self) -> io::Result<()> {
        self.meter.begin();
        let mut pace = Pace::new(self.rate, CREDIT, self.meter.now_ns());
        while pace.wait(self.clock, self.stop) {
            self.meter.paused();
            let bytes = self.stop.claim(self.datagram_bytes, self.batch);
            if bytes == 0 {
                break;
            }
            self.send(bytes)?;
            pace.passed(bytes);
        }
        if self.heads.mark_ends() {
            self.say_end()?;
        }
        Ok(())
    }

    /// Returns the size of a batch of `claimed` bytes. A remainder that is shorter than a header is
    /// sent as a bare header; with iperf3's format every datagram has the full size, since some
    /// servers wait for it.
    fn batch_bytes(&self, claimed: usize) -> usize {
        let head = self.heads.bytes();
        match claimed % self.datagram_bytes {
            0 => claimed,
            tail if self.heads.are_whole() => claimed - tail + self.datagram_bytes,
            tail => claimed - tail + tail.max(head),
        }
    }

    fn send(&mut self, claimed: usize) -> io::Result<()> {
        let bytes = self.batch_bytes(claimed);
        let mut count = 0;
        let sent_ns = self.clock.now_ns();
        for datagram in self.buffer[..bytes].chunks_mut(self.datagram_bytes) {
            let header = Header {
                stream: self.index as u16,
                last: false,
                sequence: self.sent + count,
                sent_ns,
            };
            self.heads.write(header, datagram);
            count += 1;
        }
        match self.socket.send(&self.buffer[..bytes]) {
            Ok(bytes) => {
                self.sent += count;
                self.meter.moved(bytes);
                self.meter.completed(count);
                Ok(())
            }
            // The queue is full: the rate is more than this host can send. The claimed bytes are
            // lost here, not on the path, so they get no sequence numbers.
            Err(error)
                if error.kind() == io::ErrorKind::WouldBlock
                    || error.kind() == io::ErrorKind::OutOfMemory
                    || error.raw_os_error() == Some(ENOBUFS) =>
            {
                self.meter.waited();
                self.stop.give_back(claimed);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn say_end(&mut self) -> io::Result<()> {
        let mut mark = vec![0; self.heads.bytes()];
        for _ in 0..END_MARKS {
            let header = Header {
                stream: self.index as u16,
                last: true,
                sequence: self.sent,
                sent_ns: self.clock.now_ns(),
            };
            self.heads.write(header, &mut mark);
            self.socket.send(&mark)?;
            std::thread::sleep(END_SPACING);
        }
        Ok(())
    }
}

/// "No buffer space available" on Linux (errno.h), for which std has no kind.
const ENOBUFS: i32 = 105;

fn batch(rate: Rate, datagram_bytes: usize) -> usize {
    if rate < BATCH_FROM {
        return 1;
    }
    let due = rate.bytes_in(BATCH_TIME) as usize / datagram_bytes;
    let most = (SEND_BYTES_MAX / datagram_bytes).min(SEGMENTS_MAX);
    due.clamp(1, most.max(1))
}

/// Returns the largest datagram that the plan allows.
fn most_bytes(asked: Option<u64>) -> usize {
    asked.map_or(MTU_MOST as usize, |bytes| {
        bytes.min(DATAGRAM_BYTES_MAX as u64) as usize
    })
}

/// The receiver of one UDP stream.
pub(super) struct DatagramReceiver<'a> {
    pub socket: &'a UdpSocket,
    pub meter: Meter<'a>,
    pub clock: RunClock,
    pub stop: &'a StopRule,
    heads: Heads,
    batch: ReceiveBatch,
    ledger: Ledger,
    rest: Option<Rest>,
}

impl<'a> DatagramReceiver<'a> {
    /// Allocates all memory for receiving; in mode *wire* the payload stays in the kernel.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn new(
        socket: &'a UdpSocket,
        (mode, heads, asked): (Mode, Heads, Option<u64>),
        (meter, clock): (Meter<'a>, RunClock),
        stop: &'a StopRule,
    ) -> io::Result<DatagramReceiver<'a>> {
        let batch = match mode {
            Mode::Delivered => {
                let sink = Sink::new(most_bytes(asked))?;
                ReceiveBatch::with_sink(SLOTS, heads.bytes(), sink)
            }
            Mode::Wire => ReceiveBatch::new(SLOTS, heads.bytes()),
        };
        Ok(DatagramReceiver {
            socket,
            meter,
            clock,
            stop,
            heads,
            batch,
            ledger: Ledger::new(),
            rest: sockopt::stored_receive_buffer(socket).ok().map(Rest::new),
        })
    }

    /// Receives until all datagrams have arrived, until some time after the end mark, or a stop.
    pub fn run(mut self) -> (Udp, io::Result<()>) {
        self.meter.paused();
        let mut ended: Option<Instant> = None;
        let result = loop {
            if self.stop.stopped() || self.ledger.is_complete() {
                break Ok(());
            }
            match self.batch.receive(self.socket) {
                Ok(taken) => {
                    if let Some(rest) = self.enter(taken < SLOTS) {
                        std::thread::sleep(rest);
                        self.meter.waited();
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.meter.waited();
                    if ended.is_some() {
                        break Ok(());
                    }
                }
                Err(error) => break Err(error),
            }
            if self.ledger.has_end() && ended.get_or_insert_with(Instant::now).elapsed() > LATE {
                break Ok(());
            }
        };
        (self.ledger.account(), result)
    }

    /// Records the received datagrams and returns the time to sleep. `all`: the queue is empty.
    fn enter(&mut self, all: bool) -> Option<Duration> {
        let (mut bytes, mut count) = (0, 0);
        let now = Duration::from_nanos(self.clock.now_ns());
        let mut timed = true;
        for datagram in self.batch.datagrams() {
            timed &= datagram.arrived.is_some();
            let Some(header) = self.heads.read(datagram.bytes) else {
                continue;
            };
            if self.ledger.enter(header, datagram.arrived.unwrap_or(now)) {
                bytes += datagram.payload_bytes;
                count += 1;
            }
        }
        if count > 0 {
            self.meter.moved(bytes);
            self.meter.completed(count);
        } else {
            self.meter.waited();
        }
        self.meter.accounted(&self.ledger.account());
        let cpu_ns = || {
            let spent = ThreadId::current().cpu_time();
            spent.map_or(0, |spent| spent.as_nanos() as u64)
        };
        let came = Came {
            count,
            bytes: bytes as u64,
            all,
        };
        let rest = self.rest.as_mut()?.after(self.meter.now_ns(), came, cpu_ns);
        rest.filter(|_| timed && !self.ledger.has_end())
    }
}
