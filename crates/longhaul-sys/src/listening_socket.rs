//! Listening sockets: TCP listeners, and UDP sockets that share one port.

use nix::sys::socket::{MsgFlags, recv};
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// The connections that may wait for `accept`, and those of unfinished handshakes on kernels without
/// SYN cookies: 5,000 a second over 436 ms are 2,180. The kernel lowers it to net.core.somaxconn.
const BACKLOG: i32 = 4096;

/// The time after which the kernel detects that the peer of a control connection is dead, if the
/// session has not done so before. On a full path a living peer can be silent for long.
const CONTROL_DEAD_PEER_TIMEOUT: Duration = Duration::from_secs(120);

/// Address and options of a listening socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenSocketConfig<'a> {
    pub address: SocketAddr,
    /// True if an IPv6 socket also accepts IPv4 (IPV6_V6ONLY off).
    pub both_families: bool,
    pub device: Option<&'a str>,
}

fn open_socket(
    place: &ListenSocketConfig<'_>,
    kind: Type,
    protocol: Protocol,
) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(place.address), kind, Some(protocol))?;
    if place.address.is_ipv6() {
        socket.set_only_v6(!place.both_families)?;
    }
    if let Some(device) = place.device {
        SockRef::from(&socket).bind_device(Some(device.as_bytes()))?;
    }
    socket.set_reuse_address(true)?;
    Ok(socket)
}

/// Opens a listener whose `accept` never waits.
pub fn listen_tcp(place: &ListenSocketConfig<'_>) -> io::Result<TcpListener> {
    let socket = open_socket(place, Type::STREAM, Protocol::TCP)?;
    socket.bind(&place.address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Opens a UDP socket that permits others on the same port (SO_REUSEPORT). The kernel prefers a
/// connected one for the datagrams of its peer.
pub fn bind_shared_udp(place: &ListenSocketConfig<'_>) -> io::Result<UdpSocket> {
    let socket = open_socket(place, Type::DGRAM, Protocol::UDP)?;
    socket.set_reuse_port(true)?;
    socket.bind(&place.address.into())?;
    Ok(socket.into())
}

/// Copies the next bytes of a connection that have arrived, and leaves them there. Does not wait:
/// without any, the error is `WouldBlock`. Returns 0 at the end of the connection.
pub fn peek_bytes(socket: &impl AsFd, bytes: &mut [u8]) -> io::Result<usize> {
    let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
    Ok(recv(socket.as_fd().as_raw_fd(), bytes, flags)?)
}

/// Makes a connection close with RST, which leaves no state in the kernel (TIME_WAIT).
pub fn reset_on_close(stream: &TcpStream) {
    // An error only means that it is closed in order.
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
}

/// Sets the options of a connection for small messages that must arrive soon: without Nagle's
/// algorithm, with a limit for a dead peer, and without exponential backoff of its retransmissions
/// (TCP_THIN_LINEAR_TIMEOUTS, Linux 2.6.34): on a full path each of them is lost with some
/// probability, and after a few doublings none is sent in time.
pub fn prepare_control_socket(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    SockRef::from(socket).set_tcp_thin_linear_timeouts(true)?;
    set_dead_peer_timeout(socket, CONTROL_DEAD_PEER_TIMEOUT)
}

/// Detects a dead peer: sends keep-alive probes after `after`, and waits no longer than `after` for
/// acknowledgements (TCP_USER_TIMEOUT).
pub fn set_dead_peer_timeout(socket: &impl AsFd, after: Duration) -> io::Result<()> {
    let interval = (after / 4).max(Duration::from_secs(1));
    let keepalive = TcpKeepalive::new().with_time(after).with_interval(interval).with_retries(4);
    let socket = SockRef::from(socket);
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_tcp_user_timeout(Some(after))
}
