//! Data transfer on connected TCP sockets: gather write, receive, receive and discard.
//!
//! Calls block within the socket's timeouts, and are restarted when a signal interrupts them.

use crate::memory_region::{GatherVector, ReceiveSink};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

/// Repeats a call until it is not interrupted by a signal; returns its byte count.
pub(crate) fn retry_interrupted(mut call: impl FnMut() -> isize) -> io::Result<usize> {
    loop {
        if let Ok(count) = usize::try_from(call()) {
            return Ok(count);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Receives until `into` is full, the socket's timeout expires, or the peer has finished: one call
/// for data of many segments.
pub fn receive_whole(stream: &TcpStream, into: &mut [u8]) -> io::Result<usize> {
    retry_interrupted(|| {
        // SAFETY: the kernel writes at most the slice's own length into it.
        unsafe {
            libc::recv(stream.as_raw_fd(), into.as_mut_ptr().cast(), into.len(), libc::MSG_WAITALL)
        }
    })
}

/// A TCP socket before connect, whose buffers, MSS and addresses can still be set.
#[derive(Debug)]
pub struct UnconnectedTcp {
    socket: Socket,
    to: SocketAddr,
}

impl UnconnectedTcp {
    /// Creates a socket to connect to `to`.
    pub fn new(to: SocketAddr) -> io::Result<UnconnectedTcp> {
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
        Ok(UnconnectedTcp { socket, to })
    }

    /// Binds the local address; the kernel chooses the port.
    pub fn bind(&self, local: IpAddr) -> io::Result<()> {
        self.socket.bind(&SockAddr::from(SocketAddr::new(local, 0)))
    }

    /// Connects, within `deadline`.
    ///
    /// # Errors
    /// `TimedOut` after `deadline`; otherwise the network's error.
    pub fn connect(self, deadline: Duration) -> io::Result<TcpStream> {
        self.socket.connect_timeout(&SockAddr::from(self.to), deadline)?;
        Ok(self.socket.into())
    }
}

impl AsFd for UnconnectedTcp {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Writes `bytes` of the repeated payload, starting at byte `position` of the stream.
///
/// # Errors
/// `WouldBlock` if nothing could be written before the send timeout; `BrokenPipe` after a shutdown
/// of this side.
pub fn send_payload(
    socket: impl AsFd,
    payload: &mut GatherVector,
    position: u64,
    bytes: usize,
) -> io::Result<usize> {
    let fd = socket.as_fd().as_raw_fd();
    let (pieces, count) = payload.vectors_for(position, bytes);
    // SAFETY: an all-zero msghdr has no name and no control data.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = pieces;
    message.msg_iovlen = count as _;
    // SAFETY: `message` and the pieces live for the call; the pieces are inside the payload.
    retry_interrupted(|| unsafe { libc::sendmsg(fd, &raw const message, libc::MSG_NOSIGNAL) })
}

/// Receives at most the size of `sink`; 0 is the end of the stream.
///
/// # Errors
/// `WouldBlock` if nothing arrived before the receive timeout.
pub fn receive_into_sink(socket: impl AsFd, sink: &ReceiveSink) -> io::Result<usize> {
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: an all-zero msghdr has no name, no pieces and no control data.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    let pieces = sink.pieces();
    message.msg_iov = pieces.as_ptr().cast_mut();
    message.msg_iovlen = pieces.len() as _;
    // SAFETY: the kernel reads the pieces, which live for the call, and writes where they say:
    // memory that nothing but the kernel touches.
    retry_interrupted(|| unsafe { libc::recvmsg(fd, &raw mut message, 0) })
}

/// Discards up to `bytes` from the receive queue without copying them (MSG_TRUNC, tcp(7)).
///
/// # Errors
/// `WouldBlock` if nothing arrived before the receive timeout.
pub fn discard_received(socket: impl AsFd, bytes: usize) -> io::Result<usize> {
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: with MSG_TRUNC a TCP socket writes nothing to the (null) buffer.
    retry_interrupted(|| unsafe { libc::recv(fd, std::ptr::null_mut(), bytes, libc::MSG_TRUNC) })
}
