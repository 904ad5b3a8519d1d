//! Sockets for a plan: everything that must be set before data flows, and before connect where
//! the kernel only then listens.
//!
//! Buffers and MSS shape the handshake (window scale, announced MSS), so an initiator sets them
//! before connect. On an accepted socket the scale stands already. Older kernels also leave the
//! window clamped there to what the handshake's buffer allowed, so the clamp is raised with
//! SO_RCVBUF; Linux 6.18 lets the window grow without it.
//!
//! Between longhauls an asked receive buffer bounds the window to what was granted of it, so that
//! the asked figure is the one in force. On iperf3's wire it does what it does in iperf3: the kernel
//! opens the window as far as the whole buffer allows, up to twice of what was asked.

use super::{EngineError, Role};
use longhaul_model::report::v1::plan::Plan;
use longhaul_model::units::Rate;
use longhaul_sys::host::sysctl;
use longhaul_sys::sockopt;
use longhaul_sys::tcp::Unconnected;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// The code point of traffic that yields (RFC 8622).
const LOWER_EFFORT: u8 = 1;
/// Of UDP, as it is asked: what 10 Gbit/s bring in 1.6 ms.
const DATAGRAM_ROOM_BYTES: usize = 2 << 20;

/// What carries one stream.
#[derive(Debug)]
pub enum DataSocket {
    Tcp(TcpStream),
    /// Connected to the peer.
    Udp(UdpSocket),
}

/// Local and peer address; IPv4 inside IPv6 as what it is.
pub(super) type Addresses = (Option<SocketAddr>, Option<SocketAddr>);

impl DataSocket {
    pub(super) fn addresses(&self) -> Addresses {
        let (local, peer) = match self {
            DataSocket::Tcp(stream) => (stream.local_addr(), stream.peer_addr()),
            DataSocket::Udp(socket) => (socket.local_addr(), socket.peer_addr()),
        };
        let plain =
            |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
        (local.ok().map(plain), peer.ok().map(plain))
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

/// Where the initiator's data connections start from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LocalBind {
    pub address: Option<IpAddr>,
    pub device: Option<String>,
}

/// A TCP socket that is ready to connect.
#[derive(Debug)]
pub struct ConnectingSocket {
    socket: Unconnected,
    to: SocketAddr,
}

impl ConnectingSocket {
    /// Keeps the window within what is granted of the asked buffer.
    pub fn bound_window(&self, plan: &Plan) -> Result<(), EngineError> {
        bound_window(&self.socket, plan)
    }

    /// Connects, at most for `deadline`.
    pub fn connect(self, deadline: Duration) -> io::Result<TcpStream> {
        self.socket.connect(self.to, deadline)
    }
}

/// A TCP socket for `plan` with everything set that must be set before connect.
pub fn connecting_socket(
    plan: &Plan,
    role: Role,
    to: SocketAddr,
    local: &LocalBind,
) -> Result<ConnectingSocket, EngineError> {
    let socket =
        Unconnected::new(to).map_err(|source| EngineError::new("make a TCP socket", source))?;
    bind_device(&socket, local)?;
    if let Some(address) = local.address {
        socket
            .bind(address)
            .map_err(|source| EngineError::new(format!("bind to {address}"), source))?;
    }
    ask_buffers(&socket, plan)?;
    set_tcp_options(&socket, plan, role, to)?;
    Ok(ConnectingSocket { socket, to })
}

/// Sets on an accepted connection what can still be set.
pub fn prepare_accepted(socket: &TcpStream, plan: &Plan, role: Role) -> Result<(), EngineError> {
    let peer = socket
        .peer_addr()
        .map_err(|source| EngineError::new("name the peer of a connection", source))?;
    ask_buffers(socket, plan)?;
    clamp_window(socket, plan, |stored| stored)?;
    set_tcp_options(socket, plan, role, peer)
}

/// A UDP socket for `plan`, connected to `to`.
pub fn datagram_socket(
    plan: &Plan,
    to: SocketAddr,
    local: &LocalBind,
) -> Result<UdpSocket, EngineError> {
    let unspecified = match to {
        SocketAddr::V4(_) => IpAddr::from([0_u8; 4]),
        SocketAddr::V6(_) => IpAddr::from([0_u8; 16]),
    };
    let from = SocketAddr::new(local.address.unwrap_or(unspecified), 0);
    let socket = UdpSocket::bind(from)
        .map_err(|source| EngineError::new(format!("bind a UDP socket to {from}"), source))?;
    bind_device(&socket, local)?;
    socket
        .connect(to)
        .map_err(|source| EngineError::new(format!("connect a UDP socket to {to}"), source))?;
    prepare_datagrams(&socket, plan, to)?;
    Ok(socket)
}

/// Sets buffers and DSCP of a UDP socket. A reader that nobody gave a buffer has room for what
/// comes while it has no core, or rests; where the kernel grants less (`net.core.rmem_max`), that
/// is what it has.
///
/// # Errors
/// What was asked and cannot be had.
pub fn prepare_datagrams(
    socket: &UdpSocket,
    plan: &Plan,
    peer: SocketAddr,
) -> Result<(), EngineError> {
    ask_buffers(socket, plan)?;
    if plan.receive_buffer_bytes.is_none() {
        let _ = sockopt::set_receive_buffer(socket, DATAGRAM_ROOM_BYTES);
    }
    let family = SocketAddr::new(peer.ip().to_canonical(), peer.port());
    set_dscp(socket, plan, family)
}

fn bind_device(socket: &impl AsFd, local: &LocalBind) -> Result<(), EngineError> {
    let Some(device) = &local.device else {
        return Ok(());
    };
    sockopt::bind_device(socket, device)
        .map_err(|source| EngineError::new(format!("bind to interface {device}"), source))
}

/// Both buffers are asked at both ends: the smaller one matters little for the direction without
/// payload, and the session need not know which is which.
fn ask_buffers(socket: &impl AsFd, plan: &Plan) -> Result<(), EngineError> {
    if let Some(bytes) = plan.send_buffer_bytes {
        sockopt::set_send_buffer(socket, bounded(bytes)).map_err(|source| {
            EngineError::new(format!("ask for a send buffer of {bytes} bytes"), source)
        })?;
    }
    if let Some(bytes) = plan.receive_buffer_bytes {
        sockopt::set_receive_buffer(socket, bounded(bytes)).map_err(|source| {
            EngineError::new(format!("ask for a receive buffer of {bytes} bytes"), source)
        })?;
    }
    Ok(())
}

/// The kernel takes an int and doubles it.
fn bounded(bytes: u64) -> usize {
    bytes.min(i32::MAX as u64 / 2) as usize
}

/// Bounds the window to what was granted of an asked receive buffer: half of what Linux stores.
///
/// Linux 6.6 and newer move the clamp when they learn how much of a buffer packets waste, so it
/// is set again while data flows.
pub fn bound_window(socket: &impl AsFd, plan: &Plan) -> Result<(), EngineError> {
    clamp_window(socket, plan, |stored| stored / 2)
}

/// Where a receive buffer was asked, clamps the window to a part of what is stored of it.
fn clamp_window(
    socket: &impl AsFd,
    plan: &Plan,
    part: fn(usize) -> usize,
) -> Result<(), EngineError> {
    if plan.receive_buffer_bytes.is_none() {
        return Ok(());
    }
    let stored = sockopt::stored_receive_buffer(socket)
        .map_err(|source| EngineError::new("read the receive buffer back", source))?;
    sockopt::set_window_clamp(socket, part(stored))
        .map_err(|source| EngineError::new("clamp the window to the asked buffer", source))
}

fn set_tcp_options(
    socket: &impl AsFd,
    plan: &Plan,
    role: Role,
    peer: SocketAddr,
) -> Result<(), EngineError> {
    if let Some(name) = plan.congestion_control.as_deref() {
        choose_congestion_control(socket, name, role)?;
    }
    if let Some(bytes) = plan.mss_bytes {
        sockopt::set_mss(socket, bytes)
            .map_err(|source| EngineError::new(format!("set the MSS to {bytes} bytes"), source))?;
    }
    if plan.no_delay {
        sockopt::set_no_delay(socket, true)
            .map_err(|source| EngineError::new("set TCP_NODELAY", source))?;
    }
    if let Some(bps) = plan.pacing_bps.filter(|_| role == Role::Sender) {
        let ceiling = Rate::bits_per_second(bps);
        sockopt::set_pacing_ceiling(socket, ceiling)
            .map_err(|source| EngineError::new(format!("pace at {ceiling}"), source))?;
    }
    set_dscp(socket, plan, peer)
}

fn choose_congestion_control(
    socket: &impl AsFd,
    name: &str,
    role: Role,
) -> Result<(), EngineError> {
    if role == Role::Receiver {
        return Ok(());
    }
    sockopt::set_congestion_control(socket, name).map_err(|source| {
        let error = EngineError::new(format!("choose congestion control {name}"), source);
        let setting = match error.source.kind() {
            io::ErrorKind::PermissionDenied => "net.ipv4.tcp_allowed_congestion_control",
            _ => "net.ipv4.tcp_available_congestion_control",
        };
        let have = sysctl::read(setting).unwrap_or_default();
        error.with_hint(format!("{setting} at the sender: {have}"))
    })
}

fn set_dscp(socket: &impl AsFd, plan: &Plan, peer: SocketAddr) -> Result<(), EngineError> {
    let lower_effort = plan.scavenger.then_some(LOWER_EFFORT);
    let Some(dscp) = plan.dscp.or(lower_effort) else {
        return Ok(());
    };
    sockopt::set_dscp(socket, dscp, peer)
        .map_err(|source| EngineError::new(format!("set DSCP {dscp}"), source))
}
