//! Data transfer on connected TCP sockets: gather write, receive, receive and discard.
//!
//! Calls block within the socket's timeouts, and are restarted when a signal interrupts them.

use crate::flow_label::lease_flow_label;
use crate::memory_region::{GatherVector, ReceiveSink};
use crate::probe_socket::{self, QueuedIcmpInfo};
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};
use std::io;
use std::net::{SocketAddr, TcpStream};
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

/// Limits the bytes in the send buffer that TCP has not sent yet (TCP_NOTSENT_LOWAT, Linux 3.12). With
/// more the socket is not writable.
pub fn limit_unsent_bytes(socket: &impl AsFd, bytes: u32) -> io::Result<()> {
    SockRef::from(socket).set_tcp_notsent_lowat(bytes)
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

    /// Binds the local address; the kernel chooses port 0. A port is free again as soon as its last
    /// connection has ended.
    pub fn bind(&self, local: SocketAddr) -> io::Result<()> {
        if local.port() != 0 {
            self.socket.set_reuse_address(true)?;
        }
        self.socket.bind(&SockAddr::from(local))
    }

    /// Sets the flow label of the packets; has no effect with IPv4.
    ///
    /// # Errors
    /// As [`lease_flow_label`].
    pub fn set_flow_label(&mut self, label: u32) -> io::Result<()> {
        self.to = lease_flow_label(&self.socket, self.to, label)?;
        Ok(())
    }

    /// Connects, within `deadline`.
    ///
    /// # Errors
    /// `TimedOut` after `deadline`; otherwise the network's error.
    pub fn connect(self, deadline: Duration) -> io::Result<TcpStream> {
        self.socket.connect_timeout(&SockAddr::from(self.to), deadline)?;
        Ok(self.socket.into())
    }

    /// Begins to connect, without waiting.
    ///
    /// # Errors
    /// The kernel's immediate error, such as a missing route.
    pub fn begin_connect(self) -> io::Result<ConnectingTcp> {
        // The error queue names ICMP messages that the error code does not.
        probe_socket::set_error_queue(&self.socket, self.to.is_ipv6(), true)?;
        self.socket.set_nonblocking(true)?;
        match self.socket.connect(&SockAddr::from(self.to)) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
            _ => Ok(ConnectingTcp(self)),
        }
    }
}

/// A TCP socket that connects. It is writable when the kernel has decided.
#[derive(Debug)]
pub struct ConnectingTcp(UnconnectedTcp);

impl ConnectingTcp {
    /// Returns the connection of a writable socket, in blocking mode.
    ///
    /// # Errors
    /// The network's error. It is `PermissionDenied` if a firewall or router sent "communication
    /// administratively prohibited" (RFC 792 and RFC 1812 codes 9, 10, 13; RFC 4443 codes 1, 5, 6).
    pub fn finish_connect(self) -> io::Result<TcpStream> {
        let UnconnectedTcp { socket, to } = self.0;
        if let Some(error) = socket.take_error()? {
            return Err(match probe_socket::read_queued_icmp(&socket) {
                Some(icmp) if is_prohibited(&icmp, to) => describe_prohibition(&icmp),
                _ => error,
            });
        }
        probe_socket::set_error_queue(&socket, to.is_ipv6(), false)?;
        socket.set_nonblocking(false)?;
        Ok(socket.into())
    }
}

impl AsFd for ConnectingTcp {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Destination unreachable, in ICMP and in ICMPv6.
const UNREACHABLE_V4: u8 = 3;
const UNREACHABLE_V6: u8 = 1;

fn is_prohibited(icmp: &QueuedIcmpInfo, to: SocketAddr) -> bool {
    match to {
        SocketAddr::V4(_) => icmp.kind == UNREACHABLE_V4 && matches!(icmp.code, 9 | 10 | 13),
        SocketAddr::V6(_) => icmp.kind == UNREACHABLE_V6 && matches!(icmp.code, 1 | 5 | 6),
    }
}

fn describe_prohibition(icmp: &QueuedIcmpInfo) -> io::Error {
    let by = icmp.reported_by.map(|by| format!(" by {by}")).unwrap_or_default();
    let text = format!("administratively prohibited{by} (ICMP code {})", icmp.code);
    io::Error::new(io::ErrorKind::PermissionDenied, text)
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
