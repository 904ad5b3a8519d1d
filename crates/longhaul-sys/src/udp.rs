//! Many datagrams per call: segmentation offload when sending, recvmmsg with the kernel's receive
//! times when receiving.

use crate::syscall::status;
use crate::tcp::uninterrupted;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// `UDP_SEGMENT`, linux/udp.h (Linux 4.18).
const UDP_SEGMENT: i32 = 103;
/// One control message with a timespec, and room to spare.
const CONTROL_WORDS: usize = 8;

/// Every send is cut into datagrams of this payload by the kernel or the card; 0 switches it off.
///
/// # Errors
/// On kernels before 4.18, and for sizes beyond the path's MTU.
pub fn set_segment_bytes(socket: impl AsFd, bytes: u16) -> io::Result<()> {
    let value = i32::from(bytes);
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: `value` lives for the call and its size is passed with it.
    let answer = unsafe {
        libc::setsockopt(
            fd,
            libc::IPPROTO_UDP,
            UDP_SEGMENT,
            (&raw const value).cast(),
            size_of::<i32>() as u32,
        )
    };
    status(answer)
}

/// One received datagram.
#[derive(Debug, Clone, Copy)]
pub struct Datagram<'a> {
    /// As much of it as the slot holds.
    pub bytes: &'a [u8],
    /// Its true payload, even when the slot is shorter.
    pub payload_bytes: usize,
    /// Wall clock of its arrival in the kernel, since 1970.
    pub arrived: Option<Duration>,
}

/// Room for several datagrams, used again and again.
pub struct ReceiveBatch {
    payload: Vec<u8>,
    slot_bytes: usize,
    control: Vec<[u64; CONTROL_WORDS]>,
    vectors: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
    filled: usize,
}

// SAFETY: the raw pointers in `vectors` and `headers` are set anew by every `receive`, to memory
// that the value owns.
unsafe impl Send for ReceiveBatch {}

impl ReceiveBatch {
    pub fn new(slots: usize, slot_bytes: usize) -> ReceiveBatch {
        // SAFETY: an all-zero mmsghdr has no buffers.
        let header: libc::mmsghdr = unsafe { std::mem::zeroed() };
        let vector = libc::iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        };
        ReceiveBatch {
            payload: vec![0; slots * slot_bytes],
            slot_bytes,
            control: vec![[0; CONTROL_WORDS]; slots],
            vectors: vec![vector; slots],
            headers: vec![header; slots],
            filled: 0,
        }
    }

    /// Waits for one datagram, then takes what else is there, up to the number of slots.
    ///
    /// # Errors
    /// `WouldBlock` when nothing came before the receive timeout.
    pub fn receive(&mut self, socket: impl AsFd) -> io::Result<usize> {
        self.filled = 0;
        self.point();
        let fd = socket.as_fd().as_raw_fd();
        let count = self.headers.len() as u32;
        let flags = libc::MSG_WAITFORONE | libc::MSG_TRUNC;
        let headers = self.headers.as_mut_ptr();
        let none = std::ptr::null_mut();
        // SAFETY: `point` has just set every header to memory that `self` owns.
        self.filled = uninterrupted(|| unsafe {
            libc::recvmmsg(fd, headers, count, flags as _, none) as isize
        })?;
        Ok(self.filled)
    }

    fn point(&mut self) {
        let slots = self.payload.chunks_exact_mut(self.slot_bytes);
        let parts = self.vectors.iter_mut().zip(&mut self.control);
        for ((header, slot), (vector, control)) in self.headers.iter_mut().zip(slots).zip(parts) {
            vector.iov_base = slot.as_mut_ptr().cast();
            vector.iov_len = slot.len();
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = control.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = size_of_val(control) as _;
        }
    }

    /// Datagrams of the last [`ReceiveBatch::receive`], in the order of arrival.
    pub fn datagrams(&self) -> impl Iterator<Item = Datagram<'_>> {
        let slots = self.payload.chunks_exact(self.slot_bytes);
        self.headers[..self.filled]
            .iter()
            .zip(slots)
            .map(|(header, slot)| Datagram {
                bytes: &slot[..slot.len().min(header.msg_len as usize)],
                payload_bytes: header.msg_len as usize,
                arrived: arrival(&header.msg_hdr),
            })
    }
}

/// The time that SO_TIMESTAMPNS attached, if it did.
fn arrival(header: &libc::msghdr) -> Option<Duration> {
    // SAFETY: the kernel has set the control length of a header that points to owned memory.
    let mut control = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !control.is_null() {
        // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR give headers that are whole inside the buffer.
        let (level, kind) = unsafe { ((*control).cmsg_level, (*control).cmsg_type) };
        if level == libc::SOL_SOCKET && kind == libc::SCM_TIMESTAMPNS {
            // SAFETY: a message of this kind carries one timespec, perhaps unaligned.
            let time: libc::timespec = unsafe {
                libc::CMSG_DATA(control)
                    .cast::<libc::timespec>()
                    .read_unaligned()
            };
            return Some(Duration::new(time.tv_sec as u64, time.tv_nsec as u32));
        }
        // SAFETY: as above.
        control = unsafe { libc::CMSG_NXTHDR(header, control) };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sockopt;
    use std::net::UdpSocket;

    fn pair() -> (UdpSocket, UdpSocket) {
        let near = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let far = UdpSocket::bind("127.0.0.1:0").expect("a port");
        near.connect(far.local_addr().expect("address"))
            .expect("connect");
        far.connect(near.local_addr().expect("address"))
            .expect("connect");
        (near, far)
    }

    #[test]
    fn datagrams_come_whole_and_with_their_time_of_arrival() {
        let (near, far) = pair();
        sockopt::set_receive_timestamps(&far).expect("timestamps");
        for length in [1_usize, 100, 1000] {
            near.send(&vec![length as u8; length]).expect("send");
        }
        let mut batch = ReceiveBatch::new(8, 64);
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
    fn a_segmented_send_arrives_as_separate_datagrams() {
        let (near, far) = pair();
        set_segment_bytes(&near, 100).expect("Linux 4.18");
        near.send(&[3; 250]).expect("send");
        let mut batch = ReceiveBatch::new(8, 200);
        let mut seen = Vec::new();
        while seen.len() < 3 {
            batch.receive(&far).expect("receive");
            seen.extend(batch.datagrams().map(|datagram| datagram.payload_bytes));
        }
        assert_eq!(seen, [100, 100, 50]);
    }
}
