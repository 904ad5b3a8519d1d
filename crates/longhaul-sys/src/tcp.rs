//! Data transfer on connected TCP sockets: gather write, receive, receive and discard.
//!
//! Calls block within the socket's timeouts, and are restarted when a signal interrupts them.

use crate::region::{Gather, Sink};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

/// Converts a result to a byte count or errno; `None` if a signal interrupted the call.
pub(crate) fn moved(answer: isize) -> Option<io::Result<usize>> {
    if answer >= 0 {
        return Some(Ok(answer.unsigned_abs()));
    }
    let error = io::Error::last_os_error();
    (error.kind() != io::ErrorKind::Interrupted).then_some(Err(error))
}

/// Repeats a call until it is not interrupted by a signal.
pub(crate) fn uninterrupted(mut call: impl FnMut() -> isize) -> io::Result<usize> {
    loop {
        if let Some(result) = moved(call()) {
            return result;
        }
    }
}

/// Receives until `into` is full, the socket's timeout expires, or the peer has finished: one call
/// for data of many segments.
pub fn receive_whole(stream: &TcpStream, into: &mut [u8]) -> io::Result<usize> {
    uninterrupted(|| {
        // SAFETY: the kernel writes at most the slice's own length into it.
        unsafe {
            libc::recv(
                stream.as_raw_fd(),
                into.as_mut_ptr().cast(),
                into.len(),
                libc::MSG_WAITALL,
            )
        }
    })
}

/// A TCP socket before connect, whose buffers, MSS and addresses can still be set.
#[derive(Debug)]
pub struct Unconnected {
    socket: Socket,
}

impl Unconnected {
    /// Creates a socket for the family of `to`.
    pub fn new(to: SocketAddr) -> io::Result<Unconnected> {
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
        Ok(Unconnected { socket })
    }

    /// Binds the local address; the kernel chooses the port.
    pub fn bind(&self, local: IpAddr) -> io::Result<()> {
        self.socket.bind(&SockAddr::from(SocketAddr::new(local, 0)))
    }

    /// Connects, within `deadline`.
    ///
    /// # Errors
    /// `TimedOut` after `deadline`; otherwise the network's error.
    pub fn connect(self, to: SocketAddr, deadline: Duration) -> io::Result<TcpStream> {
        self.socket.connect_timeout(&SockAddr::from(to), deadline)?;
        Ok(self.socket.into())
    }
}

impl AsFd for Unconnected {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Writes `bytes` of the repeated payload, starting at byte `position` of the stream.
///
/// # Errors
/// `WouldBlock` if nothing could be written before the send timeout; `BrokenPipe` after a shutdown
/// of this side.
pub fn send(
    socket: impl AsFd,
    payload: &mut Gather,
    position: u64,
    bytes: usize,
) -> io::Result<usize> {
    let fd = socket.as_fd().as_raw_fd();
    let (pieces, count) = payload.aim(position, bytes);
    // SAFETY: an all-zero msghdr has no name and no control data.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = pieces;
    message.msg_iovlen = count as _;
    // SAFETY: `message` and the pieces live for the call; the pieces are inside the payload.
    uninterrupted(|| unsafe { libc::sendmsg(fd, &raw const message, libc::MSG_NOSIGNAL) })
}

/// Receives at most the size of `sink`; 0 is the end of the stream.
///
/// # Errors
/// `WouldBlock` if nothing arrived before the receive timeout.
pub fn receive(socket: impl AsFd, sink: &Sink) -> io::Result<usize> {
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: an all-zero msghdr has no name, no pieces and no control data.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    let pieces = sink.pieces();
    message.msg_iov = pieces.as_ptr().cast_mut();
    message.msg_iovlen = pieces.len() as _;
    // SAFETY: the kernel reads the pieces, which live for the call, and writes where they say:
    // memory that nothing but the kernel touches.
    uninterrupted(|| unsafe { libc::recvmsg(fd, &raw mut message, 0) })
}

/// Discards up to `bytes` from the receive queue without copying them (MSG_TRUNC, tcp(7)).
///
/// # Errors
/// `WouldBlock` if nothing arrived before the receive timeout.
pub fn discard(socket: impl AsFd, bytes: usize) -> io::Result<usize> {
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: with MSG_TRUNC a TCP socket writes nothing to the (null) buffer.
    uninterrupted(|| unsafe { libc::recv(fd, std::ptr::null_mut(), bytes, libc::MSG_TRUNC) })
}
