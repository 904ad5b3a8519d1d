//! Sends several datagrams with one call (sendmmsg(2)).

use crate::tcp_transfer::retry_interrupted;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

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
