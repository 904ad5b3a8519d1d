//! Resolves a name and opens a control connection with TLS.

use super::{Family, Target};
use crate::engine::{self, ConnectingSocket, Role};
use crate::error::ProbeError;
use crate::secure::{Channel, ChannelError, Handshake, initiator_config};
use longhaul_model::report::v1::plan::Plan;
use longhaul_sys::{listen, sockopt};
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// Time after which the kernel detects a dead peer, if the session has not done so before.
pub(crate) const DEAD_PEER: Duration = Duration::from_secs(60);

pub(crate) struct Connection {
    pub channel: Channel,
    pub local: Option<SocketAddr>,
}

/// Resolves the target to its first address of the requested family.
pub(crate) fn resolve(target: &Target) -> Result<SocketAddr, ProbeError> {
    let failed = |source| ProbeError::Resolve {
        host: target.host.clone(),
        source,
    };
    let fits = |address: &SocketAddr| match target.family {
        Family::Any => true,
        Family::V4 => address.is_ipv4(),
        Family::V6 => address.is_ipv6(),
    };
    let host = target.host.trim_start_matches('[').trim_end_matches(']');
    let mut addresses = (host, target.port).to_socket_addrs().map_err(failed)?;
    addresses.find(fits).ok_or_else(|| {
        let family = match target.family {
            Family::Any => "address",
            Family::V4 => "IPv4 address",
            Family::V6 => "IPv6 address",
        };
        failed(io::Error::new(
            io::ErrorKind::NotFound,
            format!("it has no {family}"),
        ))
    })
}

/// Connects with options for small messages.
pub(crate) fn plain(target: &Target, address: SocketAddr) -> Result<TcpStream, ProbeError> {
    let socket = connect(target, address)?;
    let small = || -> io::Result<()> {
        sockopt::set_no_delay(&socket, true)?;
        listen::notice_dead_peer(&socket, DEAD_PEER)
    };
    small().map_err(|source| ProbeError::Connect {
        host: target.host.clone(),
        address,
        source,
    })?;
    Ok(socket)
}

/// Connects and performs the TLS handshake.
pub(crate) fn open(target: &Target, address: SocketAddr) -> Result<Connection, ProbeError> {
    let failed = |source| ProbeError::Connect {
        host: target.host.clone(),
        address,
        source,
    };
    let socket = plain(target, address)?;
    let local = socket.local_addr().ok();
    let tls = |why: String| ProbeError::Tls { address, why };
    let config = initiator_config().map_err(|error| tls(error.to_string()))?;
    let deadline = Instant::now() + target.connect_timeout;
    let channel = Channel::open(socket, Handshake::Initiator(config), deadline).map_err(
        |error| match error {
            ChannelError::Iperf3 => ProbeError::Iperf3There { address },
            ChannelError::Socket(source) if source.kind() != io::ErrorKind::InvalidData => {
                failed(source)
            }
            other => tls(other.to_string()),
        },
    )?;
    Ok(Connection { channel, local })
}

fn connect(target: &Target, address: SocketAddr) -> Result<TcpStream, ProbeError> {
    connect_from(socket(target, address)?, target, address)
}

/// Returns the duration of a TCP connect; the connection is closed at once.
pub(super) fn timed(target: &Target, address: SocketAddr) -> Result<Duration, ProbeError> {
    let socket = socket(target, address)?;
    let before = Instant::now();
    let stream = connect_from(socket, target, address)?;
    let time = before.elapsed();
    drop(stream);
    Ok(time)
}

fn socket(target: &Target, address: SocketAddr) -> Result<ConnectingSocket, ProbeError> {
    // The control connection is bound like the data connections, with no other options.
    let plain = Plan::default();
    let socket = engine::connecting_socket(&plain, Role::Sender, address, &target.bind);
    socket.map_err(|error| ProbeError::Local {
        what: error.to_string(),
        source: Some(error.source),
    })
}

fn connect_from(
    socket: ConnectingSocket,
    target: &Target,
    address: SocketAddr,
) -> Result<TcpStream, ProbeError> {
    socket
        .connect(target.connect_timeout)
        .map_err(|source| ProbeError::Connect {
            host: target.host.clone(),
            address,
            source,
        })
}
