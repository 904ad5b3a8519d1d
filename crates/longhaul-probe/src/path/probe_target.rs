//! The destination of path probes, and the local end from which they leave.

use super::probe_packet::{KEYS, ProbeFlow};
use crate::DEFAULT_PORT;
use crate::secure::random_bytes;
use longhaul_model::report::v1::path::ProbeProtocol;
use longhaul_sys::probe_socket::{IpFamily, ProbeSocket};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The first destination port of traceroute(8), on which hosts usually have no service.
const UDP_PORT: u16 = 33_434;

/// A destination, and the local end that probes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeTarget {
    pub destination: IpAddr,
    /// Local address; `None` lets the kernel choose.
    pub source: Option<IpAddr>,
    /// Interface to bind to.
    pub device: Option<String>,
    pub protocol: ProbeProtocol,
    /// Destination port; `None` chooses the usual one of the protocol.
    pub port: Option<u16>,
    /// Source port or ICMP identifier, so that several traces are one flow; `None`, or a port in
    /// use, leaves the choice to the kernel.
    pub source_id: Option<u16>,
}

impl ProbeTarget {
    pub(super) fn family(&self) -> IpFamily {
        IpFamily::of_address(self.destination)
    }

    pub(super) fn destination_port(&self) -> u16 {
        self.port.unwrap_or(match self.protocol {
            ProbeProtocol::Tcp => DEFAULT_PORT,
            ProbeProtocol::Udp | ProbeProtocol::Icmp => UDP_PORT,
        })
    }

    /// Binds a socket to the interface, if one was requested.
    pub(super) fn bind_device(&self, socket: ProbeSocket) -> io::Result<ProbeSocket> {
        if let Some(device) = &self.device {
            socket.bind_device(device)?;
        }
        Ok(socket)
    }

    /// Binds a socket to the interface and the address that were requested.
    pub(super) fn bind(&self, socket: ProbeSocket) -> io::Result<ProbeSocket> {
        let socket = self.bind_device(socket)?;
        let any = match self.family() {
            IpFamily::V4 => IpAddr::from(Ipv4Addr::UNSPECIFIED),
            IpFamily::V6 => IpAddr::from(Ipv6Addr::UNSPECIFIED),
        };
        if self.source.is_some() || self.source_id.is_some() {
            self.bind_address(&socket, self.source.unwrap_or(any))?;
        }
        Ok(socket)
    }

    /// Binds a socket to an address, with the requested source port if that is free.
    pub(super) fn bind_address(&self, socket: &ProbeSocket, address: IpAddr) -> io::Result<()> {
        match socket.bind(SocketAddr::new(address, self.source_id.unwrap_or(0))) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                socket.bind(SocketAddr::new(address, 0))
            }
            bound => bound,
        }
    }

    /// Binds a socket and connects it to the destination.
    pub(super) fn connect(&self, socket: ProbeSocket) -> io::Result<ProbeSocket> {
        let socket = self.bind(socket)?;
        socket.connect(SocketAddr::new(self.destination, self.destination_port()))?;
        Ok(socket)
    }

    /// Returns the local address of packets to the destination.
    pub(super) fn find_source_address(&self) -> io::Result<IpAddr> {
        let socket = self.connect(ProbeSocket::udp(self.family())?)?;
        Ok(socket.local_address()?.ip())
    }

    /// Creates a flow from `source`. The ICMP identifier is random if there is neither a local port
    /// that the kernel has chosen nor a requested one.
    pub(super) fn new_flow(
        &self,
        source: IpAddr,
        local_port: Option<u16>,
    ) -> io::Result<ProbeFlow> {
        let no_random = || io::Error::other("the kernel provides no random bytes");
        let [tag @ .., a, b, c, d] = random_bytes::<8>().ok_or_else(no_random)?;
        let nonzero = |bytes| u16::from_ne_bytes(bytes) % KEYS + 1;
        Ok(ProbeFlow {
            protocol: self.protocol,
            source,
            destination: self.destination,
            source_id: local_port.or(self.source_id).unwrap_or(nonzero([a, b])),
            destination_id: match self.protocol {
                ProbeProtocol::Icmp => self.source_id.map_or(nonzero([c, d]), |id| id % KEYS + 1),
                ProbeProtocol::Udp | ProbeProtocol::Tcp => self.destination_port(),
            },
            tag: u32::from_ne_bytes(tag),
        })
    }
}
