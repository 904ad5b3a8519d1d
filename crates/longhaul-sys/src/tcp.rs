//! Moving bytes through a connected TCP socket: gather write, receive, receive and discard.
//!
//! Calls block as the socket's timeouts allow, and begin again when a signal interrupts them.

use crate::region::{Gather, Sink};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

/// Bytes that a call moved, or its errno; `None` when a signal came first.
pub(crate) fn moved(answer: isize) -> Option<io::Result<usize>> {
    if answer >= 0 {
        return Some(Ok(answer.unsigned_abs()));
    }
    let error = io::Error::last_os_error();
    (error.kind() != io::ErrorKind::Interrupted).then_some(Err(error))
}

/// Repeats a call until no signal interrupts it.
pub(crate) fn uninterrupted(mut call: impl FnMut() -> isize) -> io::Result<usize> {
    loop {
        if let Some(result) = moved(call()) {
            return result;
        }
    }
}

/// Receives until `into` is full, the socket's time-out is over, or the peer has ended: one call
/// for what comes in many segments.
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

/// A TCP socket before its connect, when buffers, MSS and addresses can still be chosen.
#[derive(Debug)]
pub struct Unconnected {
    socket: Socket,
}

impl Unconnected {
    /// A socket of the family of `to`.
    pub fn new(to: SocketAddr) -> io::Result<Unconnected> {
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
        Ok(Unconnected { socket })
    }

    /// Chooses the local address; the kernel chooses the port.
    pub fn bind(&self, local: IpAddr) -> io::Result<()> {
        self.socket.bind(&SockAddr::from(SocketAddr::new(local, 0)))
    }

    /// Connects, at most for `deadline`.
    ///
    /// # Errors
    /// `TimedOut` after `deadline`; otherwise what the network answered.
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

/// Writes `bytes` of the repeated payload from byte `position` of the stream.
///
/// # Errors
/// `WouldBlock` when nothing could be written before the send timeout; `BrokenPipe` after a
/// shutdown of this side.
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

/// Receives up to as much as `sink` holds; 0 is the end of the stream.
///
/// # Errors
/// `WouldBlock` when nothing came before the receive timeout.
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

/// Takes up to `bytes` from the receive queue without copying them anywhere (MSG_TRUNC, tcp(7)).
///
/// # Errors
/// `WouldBlock` when nothing came before the receive timeout.
pub fn discard(socket: impl AsFd, bytes: usize) -> io::Result<usize> {
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: with MSG_TRUNC a TCP socket writes nothing to the (null) buffer.
    uninterrupted(|| unsafe { libc::recv(fd, std::ptr::null_mut(), bytes, libc::MSG_TRUNC) })
}
