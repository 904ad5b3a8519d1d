//! Opens a control connection with TLS.

use super::TargetHost;
use super::target_address::{TargetConnection, connect_target};
use crate::engine::{self, TransferRole};
use crate::probe_error::ProbeError;
use crate::secure::{
    AuthToken, ChannelError, ControlChannel, TlsHandshake, boot_proof, client_config, make_ticket,
};
use crate::session::SessionSetup;
use longhaul_model::report::v1::RunParty;
use longhaul_model::report::v1::plan::ThroughputPlan;
use longhaul_sys::tcp_transfer::UnconnectedTcp;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

/// The maximum segment of a control connection, in both directions: it fits into the smallest packet
/// that every IPv6 path passes (1,280 bytes, RFC 8200, section 5). Results then arrive even if a path
/// drops large packets without a message, and a queue of bytes that is nearly full has room for them.
const CONTROL_MSS_BYTES: u32 = 1220;

pub(crate) struct TlsControlConnection {
    pub channel: ControlChannel,
    pub local: Option<SocketAddr>,
    pub address: SocketAddr,
    /// The target with this address.
    pub target: TargetHost,
}

impl TlsControlConnection {
    /// Returns the setup of a session on this connection.
    pub fn session_setup(&self, token: Option<AuthToken>, party: RunParty) -> SessionSetup {
        SessionSetup {
            token,
            exporter: *self.channel.exporter(),
            party,
            boot_proof: boot_proof(self.channel.exporter()),
            same_address: self.local.map(|local| local.ip()) == Some(self.address.ip()),
        }
    }
}

/// Connects to the first address that answers, and performs the TLS handshake.
pub(crate) fn open_control(target: &TargetHost) -> Result<TlsControlConnection, ProbeError> {
    open_channel(connect_target(target)?)
}

/// Performs the TLS handshake.
pub(super) fn open_channel(
    connection: TargetConnection,
) -> Result<TlsControlConnection, ProbeError> {
    let TargetConnection { stream, address, target } = connection;
    let local = stream.local_addr().ok();
    let tls = |why: String| ProbeError::Tls { address, why };
    let ticket = target.token.as_deref().and_then(AuthToken::new).and_then(|it| make_ticket(&it));
    let config = client_config(ticket).map_err(|error| tls(error.to_string()))?;
    let deadline = Instant::now() + target.connect_timeout;
    let channel =
        ControlChannel::open(stream, TlsHandshake::Client(config), deadline).map_err(|error| {
            match error {
                ChannelError::Iperf3 => ProbeError::Iperf3There { address },
                ChannelError::Socket(source) if source.kind() != io::ErrorKind::InvalidData => {
                    ProbeError::connect(&target, address, source)
                }
                other => tls(other.to_string()),
            }
        })?;
    Ok(TlsControlConnection { channel, local, address, target })
}

pub(super) fn create_socket(
    target: &TargetHost,
    address: SocketAddr,
) -> Result<UnconnectedTcp, ProbeError> {
    // The control connection is bound like the data connections, with no other options but small segments.
    let plain = ThroughputPlan { mss_bytes: Some(CONTROL_MSS_BYTES), ..ThroughputPlan::default() };
    let socket = engine::open_tcp_socket(&plain, TransferRole::Sender, address, &target.bind);
    socket.map_err(|error| ProbeError::local(error.to_string(), error.source))
}

pub(super) fn connect_socket(
    socket: UnconnectedTcp,
    target: &TargetHost,
    address: SocketAddr,
) -> Result<TcpStream, ProbeError> {
    let connected = socket.connect(target.connect_timeout);
    connected.map_err(|source| ProbeError::connect(target, address, source))
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_sys::tcp_info::read_tcp_info;
    use std::net::TcpListener;

    #[test]
    fn both_ends_of_a_control_connection_send_segments_that_every_path_passes() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let target = TargetHost::new("127.0.0.1");
        let socket = create_socket(&target, address).expect("a socket");
        let near = connect_socket(socket, &target, address).expect("a connection");
        let (far, _) = listener.accept().expect("a connection");
        for end in [near, far] {
            let mss_bytes = read_tcp_info(&end).expect("TCP_INFO").reading.mss_bytes;
            assert!(mss_bytes <= u64::from(CONTROL_MSS_BYTES), "{mss_bytes}");
        }
    }
}
