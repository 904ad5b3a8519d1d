//! Creates and prepares the sockets of a plan: options that must be set before data flows, some of
//! them before connect.
//!
//! Buffers and MSS affect the handshake (window scale, announced MSS), so a client sets them before
//! connect. On an accepted socket the scale is already fixed. Older kernels also keep the window
//! clamped to the buffer at the handshake, so the clamp is raised with SO_RCVBUF; Linux 6.18 lets
//! the window grow without it.
//!
//! Between longhauls, a requested receive buffer limits the window to the granted size, so that the
//! requested value is the effective one. With iperf3's wire protocol it behaves as in iperf3: the
//! kernel opens the window up to the whole buffer, at most twice the requested size.

use super::{EngineContext, EngineError, TransferRole};
use longhaul_model::report::v1::plan::ThroughputPlan;
use longhaul_model::units::Rate;
use longhaul_sys::flow_label::lease_flow_label;
use longhaul_sys::probe_socket::IpFamily;
use longhaul_sys::sockopt::SockRef;
use longhaul_sys::tcp_transfer::UnconnectedTcp;
use longhaul_sys::{host, sockopt, udp_batch};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

/// The lower-effort code point of scavenger traffic (RFC 8622).
const LOWER_EFFORT: u8 = 1;
/// The UDP receive buffer to request: the bytes that arrive in 1.6 ms at 10 Gbit/s.
const UDP_BUFFER_BYTES: usize = 2 << 20;

/// The socket of one stream.
#[derive(Debug)]
pub enum DataSocket {
    Tcp(TcpStream),
    /// Connected to the peer.
    Udp(UdpSocket),
}

/// Local and peer address; IPv4-mapped IPv6 addresses are given as IPv4.
pub(super) type StreamAddresses = (Option<SocketAddr>, Option<SocketAddr>);

impl DataSocket {
    pub(super) fn addresses(&self) -> StreamAddresses {
        let (local, peer) = match self {
            DataSocket::Tcp(stream) => (stream.local_addr(), stream.peer_addr()),
            DataSocket::Udp(socket) => (socket.local_addr(), socket.peer_addr()),
        };
        (local.ok().map(crate::canonical_address), peer.ok().map(crate::canonical_address))
    }
}

impl AsFd for DataSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            DataSocket::Tcp(stream) => stream.as_fd(),
            DataSocket::Udp(socket) => socket.as_fd(),
        }
    }
}

/// The local address, port, device and flow label of a connection of the client.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LocalBind {
    pub address: Option<IpAddr>,
    /// The kernel chooses a port if none is given.
    pub port: Option<u16>,
    pub device: Option<String>,
    /// The flow label of IPv6 packets (20 bits); the kernel chooses one if none is given.
    pub flow_label: Option<u32>,
}

impl LocalBind {
    /// Returns the address to bind a socket to that will be connected to `to`.
    fn socket_address(&self, to: SocketAddr) -> SocketAddr {
        let unspecified = match to {
            SocketAddr::V4(_) => IpAddr::from([0_u8; 4]),
            SocketAddr::V6(_) => IpAddr::from([0_u8; 16]),
        };
        SocketAddr::new(self.address.unwrap_or(unspecified), self.port.unwrap_or(0))
    }
}

/// Creates a TCP socket for `plan` and sets all options that must be set before connect.
pub fn open_tcp_socket(
    plan: &ThroughputPlan,
    role: TransferRole,
    to: SocketAddr,
    local: &LocalBind,
) -> Result<UnconnectedTcp, EngineError> {
    let mut socket = UnconnectedTcp::new(to).during("create a TCP socket")?;
    bind_device(&socket, local)?;
    if let Some(label) = local.flow_label {
        socket.set_flow_label(label).during(format!("set flow label {label:#x}"))?;
    }
    if local.address.is_some() || local.port.is_some() {
        let address = local.socket_address(to);
        socket.bind(address).during(format!("bind to {address}"))?;
    }
    request_buffers(&socket, plan)?;
    set_tcp_options(&socket, plan, role, to)?;
    Ok(socket)
}

/// Sets the options that can still be set on an accepted connection.
pub fn prepare_accepted(
    socket: &TcpStream,
    plan: &ThroughputPlan,
    role: TransferRole,
) -> Result<(), EngineError> {
    let peer = socket.peer_addr().during("read the peer address of a connection")?;
    request_buffers(socket, plan)?;
    clamp_window(socket, plan, |stored| stored)?;
    set_tcp_options(socket, plan, role, peer)
}

/// Creates a UDP socket for `plan`, connected to `to`.
pub fn open_udp_socket(
    plan: &ThroughputPlan,
    to: SocketAddr,
    local: &LocalBind,
) -> Result<UdpSocket, EngineError> {
    let from = local.socket_address(to);
    let socket = UdpSocket::bind(from).during(format!("bind a UDP socket to {from}"))?;
    bind_device(&socket, local)?;
    let to = match local.flow_label {
        Some(label) => {
            lease_flow_label(&socket, to, label).during(format!("set flow label {label:#x}"))?
        }
        None => to,
    };
    socket.connect(to).during(format!("connect a UDP socket to {to}"))?;
    prepare_udp_socket(&socket, plan, to)?;
    Ok(socket)
}

/// Sets the buffers, the DSCP and the DF bit of a UDP socket. Without a requested size, the receive
/// buffer is made large enough for what arrives while the reader has no core or sleeps; if the kernel
/// grants less (`net.core.rmem_max`), the granted size is used.
///
/// # Errors
/// A requested option cannot be set.
pub fn prepare_udp_socket(
    socket: &UdpSocket,
    plan: &ThroughputPlan,
    peer: SocketAddr,
) -> Result<(), EngineError> {
    request_buffers(socket, plan)?;
    if plan.receive_buffer_bytes.is_none() {
        let _ = SockRef::from(socket).set_recv_buffer_size(UDP_BUFFER_BYTES);
    }
    if plan.dont_fragment {
        udp_batch::forbid_fragmentation(socket, IpFamily::of_address(peer.ip().to_canonical()))
            .during("forbid fragmentation")?;
    }
    set_dscp(socket, plan, peer)
}

fn bind_device(socket: &impl AsFd, local: &LocalBind) -> Result<(), EngineError> {
    let Some(device) = &local.device else {
        return Ok(());
    };
    SockRef::from(socket)
        .bind_device(Some(device.as_bytes()))
        .during(format!("bind to interface {device}"))
}

/// Requests both buffers at both ends. The buffer of the direction without payload matters little,
/// and the session need not know which one it is.
fn request_buffers(socket: &impl AsFd, plan: &ThroughputPlan) -> Result<(), EngineError> {
    if let Some(bytes) = plan.send_buffer_bytes {
        SockRef::from(socket)
            .set_send_buffer_size(clamp_buffer_bytes(bytes))
            .during(format!("request a send buffer of {bytes} bytes"))?;
    }
    if let Some(bytes) = plan.receive_buffer_bytes {
        SockRef::from(socket)
            .set_recv_buffer_size(clamp_buffer_bytes(bytes))
            .during(format!("request a receive buffer of {bytes} bytes"))?;
    }
    Ok(())
}

/// The kernel takes an int and doubles it.
fn clamp_buffer_bytes(bytes: u64) -> usize {
    bytes.min(i32::MAX as u64 / 2) as usize
}

/// Limits the window to the granted size of a requested receive buffer: half of what Linux stores.
///
/// Linux 6.6 and newer move the clamp when they learn how much of the buffer packets waste, so it
/// is set again while data flows.
pub fn limit_window(socket: &impl AsFd, plan: &ThroughputPlan) -> Result<(), EngineError> {
    clamp_window(socket, plan, |stored| stored / 2)
}

/// Clamps the window to a part of the stored receive buffer, if a size was requested.
fn clamp_window(
    socket: &impl AsFd,
    plan: &ThroughputPlan,
    part: fn(usize) -> usize,
) -> Result<(), EngineError> {
    if plan.receive_buffer_bytes.is_none() {
        return Ok(());
    }
    let stored = SockRef::from(socket).recv_buffer_size().during("read back the receive buffer")?;
    sockopt::set_window_clamp(socket, part(stored))
        .during("clamp the window to the requested buffer")
}

fn set_tcp_options(
    socket: &impl AsFd,
    plan: &ThroughputPlan,
    role: TransferRole,
    peer: SocketAddr,
) -> Result<(), EngineError> {
    if let Some(name) = plan.congestion_control.as_deref() {
        choose_congestion_control(socket, name, role)?;
    }
    if let Some(bytes) = plan.mss_bytes {
        SockRef::from(socket).set_tcp_mss(bytes).during(format!("set the MSS to {bytes} bytes"))?;
    }
    if plan.no_delay {
        SockRef::from(socket).set_tcp_nodelay(true).during("set TCP_NODELAY")?;
    }
    if let Some(bps) = plan.pacing_bps.filter(|_| role == TransferRole::Sender) {
        let ceiling = Rate::bits_per_second(bps);
        sockopt::set_pacing_ceiling(socket, ceiling).during(format!("pace at {ceiling}"))?;
    }
    set_dscp(socket, plan, peer)
}

fn choose_congestion_control(
    socket: &impl AsFd,
    name: &str,
    role: TransferRole,
) -> Result<(), EngineError> {
    if role == TransferRole::Receiver {
        return Ok(());
    }
    SockRef::from(socket).set_tcp_congestion(name.as_bytes()).map_err(|source| {
        let error = EngineError::new(format!("set congestion control {name}"), source);
        let setting = match error.source.kind() {
            io::ErrorKind::PermissionDenied => "net.ipv4.tcp_allowed_congestion_control",
            _ => "net.ipv4.tcp_available_congestion_control",
        };
        let have = host::read_setting(setting).unwrap_or_default();
        error.with_hint(format!("{setting} at the sender: {have}"))
    })
}

fn set_dscp(
    socket: &impl AsFd,
    plan: &ThroughputPlan,
    peer: SocketAddr,
) -> Result<(), EngineError> {
    let lower_effort = plan.scavenger.then_some(LOWER_EFFORT);
    let Some(dscp) = plan.dscp.or(lower_effort) else {
        return Ok(());
    };
    sockopt::set_dscp(socket, dscp, peer).during(format!("set DSCP {dscp}"))
}

/// Returns whether a call on a socket with a timeout may be repeated.
pub fn is_socket_timeout(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

/// Returns whether a datagram that must not be fragmented is larger than the interface's MTU.
pub(crate) fn is_too_long(error: &io::Error) -> bool {
    /// "Message too long" on Linux (errno.h), for which std has no kind.
    const EMSGSIZE: i32 = 90;
    error.raw_os_error() == Some(EMSGSIZE)
}

/// Returns whether this host's send queue is full.
pub(crate) fn is_queue_full(error: &io::Error) -> bool {
    /// "No buffer space available" on Linux (errno.h), for which std has no kind.
    const ENOBUFS: i32 = 105;
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::OutOfMemory)
        || error.raw_os_error() == Some(ENOBUFS)
}
