//! One end of a session's UDP flow: receives datagrams with kernel timestamps.

use super::train_recorder::{DatagramArrival, TrainRecorder};
use super::{DatagramKind, ProbeDatagramHeader, saturating_nanos};
use crate::engine::RunClock;
use longhaul_sys::probe_socket::IpFamily;
use longhaul_sys::sockopt;
use longhaul_sys::sockopt::SockRef;
use longhaul_sys::udp_batch::{self, ReceiveBatch};
use std::io;
use std::net::UdpSocket;

/// Space for trains that arrive while the reader is not scheduled: 2500 packets of 1500 bytes.
const BUFFER_BYTES: usize = 4 << 20;
/// Datagrams per receive call.
const SLOTS: usize = 64;
/// The longest reflected datagram; only the header of longer ones is read.
const SLOT_BYTES: usize = 9216;

/// Configures a connected socket: non-blocking, timestamps, no fragmentation.
pub(super) fn configure_socket(socket: &UdpSocket) -> io::Result<()> {
    let family = IpFamily::of_address(socket.peer_addr()?.ip());
    socket.set_nonblocking(true)?;
    sockopt::set_receive_timestamps(socket)?;
    udp_batch::forbid_fragmentation(socket, family)?;
    // Buffers smaller than requested show as counted drops. Without the last two options, only that
    // count and the hop limit are missing.
    let _ = SockRef::from(socket).set_recv_buffer_size(BUFFER_BYTES);
    let _ = SockRef::from(socket).set_send_buffer_size(BUFFER_BYTES);
    let _ = udp_batch::set_overflow_count(socket);
    let _ = udp_batch::set_receive_hop_limit(socket, family);
    Ok(())
}

/// A datagram that is not part of a train.
pub(super) struct SingleDatagram<'a> {
    /// The received bytes, possibly truncated.
    pub bytes: &'a [u8],
    /// `None` if it is not one of our datagrams.
    pub header: Option<ProbeDatagramHeader>,
    pub arrival: DatagramArrival,
    pub hop_limit: Option<u8>,
    /// The datagram was truncated.
    pub truncated: bool,
}

/// Reads the datagrams of a flow.
pub(super) struct FlowReader {
    pub clock: RunClock,
    pub recorder: TrainRecorder,
    batch: ReceiveBatch,
    session: u64,
}

impl FlowReader {
    pub fn new(session: u64, clock: RunClock) -> FlowReader {
        FlowReader {
            clock,
            recorder: TrainRecorder::default(),
            batch: ReceiveBatch::new(SLOTS, SLOT_BYTES, None),
            session,
        }
    }

    /// Reads all available datagrams: trains go to the recorder, others to `each`.
    pub fn read(
        &mut self,
        socket: &UdpSocket,
        each: &mut dyn FnMut(&SingleDatagram<'_>),
    ) -> io::Result<()> {
        loop {
            let count = match self.batch.receive(socket) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // The peer's port is closed for a moment, or its host unreachable: treated as
                // silence.
                Err(error) if is_path_error(&error) => break,
                Err(error) => return Err(error),
            };
            self.dispatch(each);
            if count < SLOTS {
                break;
            }
        }
        if self.recorder.needs_clock_reading() {
            self.recorder.record_clock_offset(self.clock.wall_offset_ns());
        }
        Ok(())
    }

    fn dispatch(&mut self, each: &mut dyn FnMut(&SingleDatagram<'_>)) {
        let read_ns = self.clock.now_ns();
        for datagram in self.batch.datagrams() {
            let arrival = DatagramArrival {
                kernel: datagram.arrived,
                read_ns,
                overflowed: datagram.overflowed,
            };
            let header =
                ProbeDatagramHeader::read(datagram.bytes).filter(|h| h.session == self.session);
            match header {
                Some(header) if header.kind == DatagramKind::Train => {
                    self.recorder.record(&header, arrival);
                }
                header => each(&SingleDatagram {
                    bytes: datagram.bytes,
                    header,
                    arrival,
                    hop_limit: datagram.hop_limit,
                    truncated: datagram.payload_bytes > datagram.bytes.len(),
                }),
            }
        }
    }
}

impl DatagramArrival {
    /// Returns the arrival time on the monotonic clock.
    pub fn monotonic_ns(&self, offset_ns: i64) -> u64 {
        match self.kernel {
            Some(wall) => super::wall_to_monotonic_ns(saturating_nanos(wall), offset_ns),
            None => self.read_ns,
        }
    }
}

fn is_path_error(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable};
    matches!(error.kind(), ConnectionRefused | HostUnreachable | NetworkUnreachable)
}
