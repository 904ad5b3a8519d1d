//! Batched datagrams: segmentation offload and sendmmsg for sending, recvmmsg with kernel
//! timestamps for receiving.

use crate::memory_region::ReceiveSink;
use crate::probe_socket::IpFamily;
use crate::sockopt::set_option;
use crate::tcp_transfer::retry_interrupted;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// `UDP_SEGMENT`, linux/udp.h (Linux 4.18).
const UDP_SEGMENT: i32 = 103;
/// Buffer size for control messages with a timespec, a count and a hop limit, with a reserve.
const CONTROL_WORDS: usize = 16;

/// Makes the kernel or the card split every send into datagrams of this payload; 0 disables it.
///
/// # Errors
/// Fails on kernels before 4.18, and for sizes beyond the path MTU.
pub fn set_segment_bytes(socket: impl AsFd, bytes: u16) -> io::Result<()> {
    set_option(socket, libc::IPPROTO_UDP, UDP_SEGMENT, i32::from(bytes))
}

/// Reports with each datagram how many the kernel has dropped on this socket for lack of buffer.
pub fn set_overflow_count(socket: impl AsFd) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1_i32)
}

/// Reports the TTL or hop limit of each received datagram.
pub fn set_receive_hop_limit(socket: impl AsFd, family: IpFamily) -> io::Result<()> {
    match family {
        IpFamily::V4 => set_option(socket, libc::IPPROTO_IP, libc::IP_RECVTTL, 1_i32),
        IpFamily::V6 => set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, 1_i32),
    }
}

/// Forbids fragmentation, and ignores the kernel's path MTU (`IP_PMTUDISC_PROBE`, ip(7)).
pub fn forbid_fragmentation(socket: impl AsFd, family: IpFamily) -> io::Result<()> {
    let (level, name, value) = match family {
        IpFamily::V4 => (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE),
        IpFamily::V6 => (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE),
    };
    set_option(socket, level, name, value)
}

/// One received datagram.
#[derive(Debug, Clone, Copy)]
pub struct BatchDatagram<'a> {
    /// The received bytes, limited by the slot's size.
    pub bytes: &'a [u8],
    /// The real payload length, even if the slot is shorter.
    pub payload_bytes: usize,
    /// Kernel receive timestamp, wall clock since 1970.
    pub arrived: Option<Duration>,
    /// TTL or hop limit on arrival.
    pub hop_limit: Option<u8>,
    /// Datagrams dropped by the kernel on this socket so far, for lack of buffer.
    pub overflowed: Option<u32>,
}

/// Reusable buffers for several datagrams.
pub struct ReceiveBatch {
    payload: Vec<u8>,
    slot_bytes: usize,
    headers: Vec<libc::mmsghdr>,
    filled: usize,
    /// Memory that the headers point to, besides the payload.
    _pointed: BatchMemory,
}

type BatchMemory = (Vec<[u64; CONTROL_WORDS]>, Vec<libc::iovec>, Option<ReceiveSink>);

// SAFETY: the raw pointers are to memory that the value owns: to vectors whose length never
// changes, and to a sink that any thread may let the kernel write to.
unsafe impl Send for ReceiveBatch {}

impl ReceiveBatch {
    /// Creates slots of `slot_bytes` for one datagram each; with a sink, the rest of a datagram is
    /// written there.
    pub fn new(slots: usize, slot_bytes: usize, sink: Option<ReceiveSink>) -> ReceiveBatch {
        let mut payload = vec![0; slots * slot_bytes];
        let mut control = vec![[0; CONTROL_WORDS]; slots];
        let rest = sink.as_ref().map_or(&[][..], ReceiveSink::pieces);
        let mut vectors = Vec::with_capacity(slots * (1 + rest.len()));
        for slot in payload.chunks_exact_mut(slot_bytes) {
            vectors.push(libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: slot.len() });
            vectors.extend_from_slice(rest);
        }
        let of_slot = vectors.chunks_exact_mut(1 + rest.len()).zip(&mut control);
        let headers = of_slot.map(|(vectors, control)| {
            // SAFETY: an all-zero mmsghdr has no buffers.
            let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
            header.msg_hdr.msg_iov = vectors.as_mut_ptr();
            header.msg_hdr.msg_iovlen = vectors.len() as _;
            header.msg_hdr.msg_control = control.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = size_of_val(control) as _;
            header
        });
        ReceiveBatch {
            headers: headers.collect(),
            payload,
            slot_bytes,
            filled: 0,
            _pointed: (control, vectors, sink),
        }
    }

    /// Waits for one datagram, then reads further available ones, up to the number of slots.
    ///
    /// # Errors
    /// `WouldBlock` if nothing arrived before the receive timeout.
    pub fn receive(&mut self, socket: impl AsFd) -> io::Result<usize> {
        // The kernel has changed only the headers that it filled.
        for header in &mut self.headers[..self.filled] {
            header.msg_hdr.msg_controllen = size_of::<[u64; CONTROL_WORDS]>() as _;
        }
        self.filled = 0;
        let fd = socket.as_fd().as_raw_fd();
        let count = self.headers.len() as u32;
        let flags = libc::MSG_WAITFORONE | libc::MSG_TRUNC;
        let headers = self.headers.as_mut_ptr();
        let none = std::ptr::null_mut();
        // SAFETY: every header points to memory that `self` owns.
        self.filled = retry_interrupted(|| unsafe {
            libc::recvmmsg(fd, headers, count, flags as _, none) as isize
        })?;
        Ok(self.filled)
    }

    /// Iterates over the datagrams of the last [`ReceiveBatch::receive`], in order of arrival.
    pub fn datagrams(&self) -> impl Iterator<Item = BatchDatagram<'_>> {
        let slots = self.payload.chunks_exact(self.slot_bytes);
        self.headers[..self.filled].iter().zip(slots).map(|(header, slot)| {
            let mut datagram = BatchDatagram {
                bytes: &slot[..slot.len().min(header.msg_len as usize)],
                payload_bytes: header.msg_len as usize,
                arrived: None,
                hop_limit: None,
                overflowed: None,
            };
            datagram.add_metadata(&header.msg_hdr);
            datagram
        })
    }
}

impl BatchDatagram<'_> {
    /// Adds what the kernel attached to the datagram.
    fn add_metadata(&mut self, header: &libc::msghdr) {
        // SAFETY: the kernel has set the control length of a header that points to owned memory.
        let mut control = unsafe { libc::CMSG_FIRSTHDR(header) };
        while !control.is_null() {
            // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR give headers that are whole inside the buffer.
            let (level, kind) = unsafe { ((*control).cmsg_level, (*control).cmsg_type) };
            // SAFETY: as above; the data of the header begins there.
            let data = unsafe { libc::CMSG_DATA(control) };
            match (level, kind) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                    // SAFETY: a message of this kind carries one timespec, perhaps unaligned.
                    let time = unsafe { data.cast::<libc::timespec>().read_unaligned() };
                    self.arrived = Some(Duration::new(time.tv_sec as u64, time.tv_nsec as u32));
                }
                (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => {
                    // SAFETY: a message of this kind carries one u32, perhaps unaligned.
                    self.overflowed = Some(unsafe { data.cast::<u32>().read_unaligned() });
                }
                (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                    // SAFETY: a message of these kinds carries one int, perhaps unaligned.
                    let limit = unsafe { data.cast::<i32>().read_unaligned() };
                    self.hop_limit = u8::try_from(limit).ok();
                }
                _ => {}
            }
            // SAFETY: as above.
            control = unsafe { libc::CMSG_NXTHDR(header, control) };
        }
    }
}

/// The maximum number of datagrams per call.
pub const MAX_PER_CALL: usize = 16;

/// Sends `bytes` on a connected socket as datagrams of `datagram_bytes` each (the last may be
/// shorter), at most [`MAX_PER_CALL`]. Returns the number that the kernel accepted.
///
/// # Errors
/// Fails if it accepted none.
pub fn send_many(socket: impl AsFd, bytes: &[u8], datagram_bytes: usize) -> io::Result<usize> {
    let mut vectors = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; MAX_PER_CALL];
    // SAFETY: an all-zero mmsghdr has no buffers.
    let mut headers: [libc::mmsghdr; MAX_PER_CALL] = unsafe { std::mem::zeroed() };
    let mut count: u32 = 0;
    let datagrams = bytes.chunks(datagram_bytes.max(1));
    for ((vector, header), datagram) in vectors.iter_mut().zip(&mut headers).zip(datagrams) {
        vector.iov_base = datagram.as_ptr().cast_mut().cast();
        vector.iov_len = datagram.len();
        header.msg_hdr.msg_iov = vector;
        header.msg_hdr.msg_iovlen = 1;
        count += 1;
    }
    let fd = socket.as_fd().as_raw_fd();
    let headers = headers.as_mut_ptr();
    // SAFETY: the first `count` headers point to vectors and bytes that live for the call; the
    // kernel only reads the bytes.
    retry_interrupted(|| unsafe { libc::sendmmsg(fd, headers, count, 0) as isize })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sockopt;
    use socket2::SockRef;
    use std::net::UdpSocket;

    fn pair() -> (UdpSocket, UdpSocket) {
        let near = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let far = UdpSocket::bind("127.0.0.1:0").expect("a port");
        near.connect(far.local_addr().expect("address")).expect("connect");
        far.connect(near.local_addr().expect("address")).expect("connect");
        (near, far)
    }

    #[test]
    fn datagrams_come_whole_and_with_their_time_of_arrival() {
        let (near, far) = pair();
        sockopt::set_receive_timestamps(&far).expect("timestamps");
        for length in [1_usize, 100, 1000] {
            near.send(&vec![length as u8; length]).expect("send");
        }
        let mut batch = ReceiveBatch::new(8, 64, None);
        let mut seen = Vec::new();
        while seen.len() < 3 {
            batch.receive(&far).expect("receive");
            seen.extend(batch.datagrams().map(|datagram| {
                assert!(datagram.arrived.is_some());
                (datagram.payload_bytes, datagram.bytes.len())
            }));
        }
        assert_eq!(seen, [(1, 1), (100, 64), (1000, 64)]);
    }

    #[test]
    fn what_came_tells_its_hop_limit_and_the_drops_before_it() {
        let (near, far) = pair();
        let family = IpFamily::V4;
        set_receive_hop_limit(&far, family).expect("IP_RECVTTL");
        set_overflow_count(&far).expect("SO_RXQ_OVFL");
        forbid_fragmentation(&near, family).expect("IP_MTU_DISCOVER");
        SockRef::from(&far).set_recv_buffer_size(4096).expect("a small buffer");
        for _ in 0..100 {
            near.send(&[1; 1000]).expect("send");
        }
        let mut batch = ReceiveBatch::new(64, 64, None);
        let mut came = batch.receive(&far).expect("receive");
        assert!(batch.datagrams().all(|datagram| datagram.hop_limit == Some(64)));
        // The count is attached to datagrams that are queued after a drop.
        near.send(&[2; 10]).expect("send");
        came += batch.receive(&far).expect("receive");
        let dropped = batch.datagrams().find_map(|datagram| datagram.overflowed);
        assert_eq!(dropped.map(|count| count as usize), Some(101 - came));
    }

    #[test]
    fn a_segmented_send_arrives_as_separate_datagrams() {
        let (near, far) = pair();
        set_segment_bytes(&near, 100).expect("Linux 4.18");
        near.send(&[3; 250]).expect("send");
        let mut batch = ReceiveBatch::new(8, 200, None);
        let mut seen = Vec::new();
        while seen.len() < 3 {
            batch.receive(&far).expect("receive");
            seen.extend(batch.datagrams().map(|datagram| datagram.payload_bytes));
        }
        assert_eq!(seen, [100, 100, 50]);
    }
}

#[cfg(test)]
mod udp_sendmmsg_tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn one_call_sends_separate_datagrams() {
        let near = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let far = UdpSocket::bind("127.0.0.1:0").expect("a port");
        near.connect(far.local_addr().expect("address")).expect("connect");
        assert_eq!(send_many(&near, &[5; 250], 100).expect("send"), 3);
        let mut bytes = [0; 300];
        let came = [0; 3].map(|_: u8| far.recv(&mut bytes).expect("receive"));
        assert_eq!(came, [100, 100, 50]);
        let most = send_many(&near, &[5; 100], 1).expect("send");
        assert_eq!(most, MAX_PER_CALL);
    }
}
