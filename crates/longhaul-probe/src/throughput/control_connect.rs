//! Resolves a name and opens a control connection with TLS.

use super::{IpFamily, TargetHost};
use crate::engine::{self, TransferRole};
use crate::probe_error::ProbeError;
use crate::secure::{
    AuthToken, ChannelError, ControlChannel, TlsHandshake, boot_proof, client_config,
};
use crate::session::SessionSetup;
use longhaul_model::report::v1::RunParty;
use longhaul_model::report::v1::plan::ThroughputPlan;
use longhaul_sys::listening_socket;
use longhaul_sys::tcp_transfer::UnconnectedTcp;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// Time after which the kernel detects a dead peer, if the session has not done so before.
pub const DEAD_PEER_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct TlsControlConnection {
    pub channel: ControlChannel,
    pub local: Option<SocketAddr>,
}

impl TlsControlConnection {
    /// Returns the setup of a session on this connection.
    pub fn session_setup(
        &self,
        token: Option<AuthToken>,
        party: RunParty,
        server: SocketAddr,
    ) -> SessionSetup {
        SessionSetup {
            token,
            exporter: *self.channel.exporter(),
            party,
            boot_proof: boot_proof(self.channel.exporter()),
            same_address: self.local.map(|local| local.ip()) == Some(server.ip()),
        }
    }
}

/// Resolves the target to its first address of the requested family.
pub fn resolve_target(target: &TargetHost) -> Result<SocketAddr, ProbeError> {
    let failed = |source| ProbeError::Resolve { host: target.host.clone(), source };
    let fits = |address: &SocketAddr| {
        target.family.is_none_or(|family| IpFamily::of_address(address.ip()) == family)
    };
    let host = target.host.trim_start_matches('[').trim_end_matches(']');
    let mut addresses = (host, target.port).to_socket_addrs().map_err(failed)?;
    addresses.find(fits).ok_or_else(|| {
        let family = match target.family {
            None => "address",
            Some(IpFamily::V4) => "IPv4 address",
            Some(IpFamily::V6) => "IPv6 address",
        };
        failed(io::Error::new(io::ErrorKind::NotFound, format!("the name has no {family}")))
    })
}

/// Connects with options for small messages.
pub fn connect_plain(target: &TargetHost, address: SocketAddr) -> Result<TcpStream, ProbeError> {
    let socket = connect_socket(create_socket(target, address)?, target, address)?;
    let small = || -> io::Result<()> {
        socket.set_nodelay(true)?;
        listening_socket::set_dead_peer_timeout(&socket, DEAD_PEER_TIMEOUT)
    };
    small().map_err(|source| ProbeError::Connect { host: target.host.clone(), address, source })?;
    Ok(socket)
}

/// Connects and performs the TLS handshake.
pub(crate) fn open_control(
    target: &TargetHost,
    address: SocketAddr,
) -> Result<TlsControlConnection, ProbeError> {
    let failed = |source| ProbeError::Connect { host: target.host.clone(), address, source };
    let socket = connect_plain(target, address)?;
    let local = socket.local_addr().ok();
    let tls = |why: String| ProbeError::Tls { address, why };
    let config = client_config().map_err(|error| tls(error.to_string()))?;
    let deadline = Instant::now() + target.connect_timeout;
    let channel =
        ControlChannel::open(socket, TlsHandshake::Client(config), deadline).map_err(|error| {
            match error {
                ChannelError::Iperf3 => ProbeError::Iperf3There { address },
                ChannelError::Socket(source) if source.kind() != io::ErrorKind::InvalidData => {
                    failed(source)
                }
                other => tls(other.to_string()),
            }
        })?;
    Ok(TlsControlConnection { channel, local })
}

pub(super) fn create_socket(
    target: &TargetHost,
    address: SocketAddr,
) -> Result<UnconnectedTcp, ProbeError> {
    // The control connection is bound like the data connections, with no other options.
    let plain = ThroughputPlan::default();
    let socket = engine::open_tcp_socket(&plain, TransferRole::Sender, address, &target.bind);
    socket.map_err(|error| ProbeError::local(error.to_string(), error.source))
}

pub(super) fn connect_socket(
    socket: UnconnectedTcp,
    target: &TargetHost,
    address: SocketAddr,
) -> Result<TcpStream, ProbeError> {
    socket.connect(target.connect_timeout).map_err(|source| ProbeError::Connect {
        host: target.host.clone(),
        address,
        source,
    })
}
