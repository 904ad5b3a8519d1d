//! The sockets of probes to one destination: the first sends, and all receive.
//!
//! | probes | with `CAP_NET_RAW` | without |
//! | --- | --- | --- |
//! | ICMP | raw packets and raw ICMP, or raw ICMP alone | ping socket |
//! | UDP | raw packets and raw ICMP | UDP socket with its error queue |
//! | TCP | raw packets, raw ICMP and raw TCP | |
//!
//! With raw packets, several flows can be sent, but only packets of the minimum size.

use super::probe_packet::{ProbeFlow, probe_key};
use super::probe_reply::{self, ProbeReply, ReplySource};
use super::probe_target::ProbeTarget;
use longhaul_model::report::v1::path::ProbeProtocol;
use longhaul_sys::poll;
use longhaul_sys::probe_socket::{ErrorQueueEntry, ProbeSocket};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

/// Size of the longest IP packet plus one byte.
const BUFFER_BYTES: usize = 1 << 16;
/// Attempts to get a port from the kernel with room for all flows above it.
const PORT_ATTEMPTS: u32 = 20;

/// A received message.
#[derive(Debug)]
pub(super) struct PathArrival {
    pub message: PathMessage,
    /// Kernel timestamp, since 1970.
    pub at: Option<Duration>,
    /// The kernel delivers only our own messages to the socket.
    pub own: bool,
}

/// Content of a received message.
#[derive(Debug)]
pub(super) enum PathMessage {
    Reply(ProbeReply),
    /// The packet of this number, counted from 0 in sending order, was transmitted.
    Transmitted(u32),
    Malformed,
}

/// The sockets, and the flow of the probes.
#[derive(Debug)]
pub(super) struct PathSocket {
    sockets: Vec<(ReplySource, ProbeSocket)>,
    /// Reserves the source port.
    _reserved_port: Option<ProbeSocket>,
    pub flow: ProbeFlow,
    buffer: Vec<u8>,
}

impl PathSocket {
    fn new(sockets: Vec<(ReplySource, ProbeSocket)>, flow: ProbeFlow) -> PathSocket {
        PathSocket { sockets, _reserved_port: None, flow, buffer: vec![0; BUFFER_BYTES] }
    }

    /// Opens raw sockets, which receive all ICMP, and TCP to `ports` consecutive ports.
    pub fn open_raw(target: &ProbeTarget, ports: u16) -> io::Result<PathSocket> {
        let family = target.family();
        let packets = target.bind_device(ProbeSocket::raw_packets(family)?)?;
        let icmp = target.bind_device(ProbeSocket::all_icmp(family)?)?;
        let mut sockets = vec![(ReplySource::RawPackets, packets), (ReplySource::RawIcmp, icmp)];
        let source = target.find_source_address()?;
        let reserved = reserve_source_port(target, source, ports)?;
        let near = reserved.as_ref().map(ProbeSocket::local_address).transpose()?;
        let flow = target.new_flow(source, near.map(|near| near.port()))?;
        if target.protocol == ProbeProtocol::Tcp {
            let ports = flow.source_id..=flow.source_id.saturating_add(ports - 1);
            let tcp = target.bind_device(ProbeSocket::all_tcp(family, ports)?)?;
            sockets.push((ReplySource::RawTcp, tcp));
        }
        Ok(PathSocket { _reserved_port: reserved, ..PathSocket::new(sockets, flow) })
    }

    /// Opens a raw ICMP socket, which sends echoes of any size.
    pub fn open_raw_icmp(target: &ProbeTarget, whole_packets: bool) -> io::Result<PathSocket> {
        let socket = ProbeSocket::all_icmp(target.family())?;
        if whole_packets {
            socket.forbid_fragmentation()?;
        }
        let flow = target.new_flow(target.find_source_address()?, None)?;
        Ok(PathSocket::new(vec![(ReplySource::RawIcmp, target.bind(socket)?)], flow))
    }

    /// Opens an unprivileged socket: UDP with its error queue, or a ping socket. `whole_packets`
    /// forbids fragmentation and ignores the kernel's cached path MTU.
    pub fn open_unprivileged(target: &ProbeTarget, whole_packets: bool) -> io::Result<PathSocket> {
        let (source, socket) = match target.protocol {
            ProbeProtocol::Udp => (ReplySource::Udp, ProbeSocket::udp(target.family())?),
            ProbeProtocol::Icmp => (ReplySource::Ping, ProbeSocket::ping(target.family())?),
            ProbeProtocol::Tcp => return Err(io::ErrorKind::PermissionDenied.into()),
        };
        if whole_packets {
            socket.forbid_fragmentation()?;
        }
        let socket = target.connect(socket)?;
        let own = socket.local_address()?;
        let flow = target.new_flow(own.ip(), Some(own.port()))?;
        Ok(PathSocket::new(vec![(source, socket)], flow))
    }

    /// Enables [`PathMessage::Transmitted`]. Some interfaces provide none.
    pub fn enable_transmit_timestamps(&self) -> io::Result<()> {
        self.sockets[0].1.enable_transmit_timestamps()
    }

    /// Returns whether several flows can be sent.
    pub fn varies_flows(&self) -> bool {
        self.sockets[0].0 == ReplySource::RawPackets
    }

    /// Returns the actual IP packet size for the requested one: probes have a minimum size, and raw
    /// packets have exactly that size.
    pub fn packet_bytes(&self, asked: u32) -> u32 {
        let least = self.flow.packet(0, probe_key(0)).len() as u32;
        if self.varies_flows() { least } else { asked.clamp(least, BUFFER_BYTES as u32 - 1) }
    }

    /// Sends a probe, in the requested size if possible.
    pub fn send(&self, flow: &ProbeFlow, ttl: u8, key: u16, packet_bytes: u32) -> io::Result<()> {
        let (source, socket) = &self.sockets[0];
        let to = Some(SocketAddr::new(flow.destination, 0));
        if *source == ReplySource::RawPackets {
            return socket.send(&flow.packet(ttl, key), to, None);
        }
        let header_bytes = if flow.destination.is_ipv4() { 20 } else { 40 };
        let mut transport = flow.transport(key);
        // Trailing zeros do not change the checksum of a message.
        transport
            .resize(transport.len().max((packet_bytes as usize).saturating_sub(header_bytes)), 0);
        match source {
            // The kernel writes the UDP header.
            ReplySource::Udp => socket.send(&transport[8..], None, Some(ttl)),
            _ => socket.send(&transport, to, Some(ttl)),
        }
    }

    /// Waits for a message, at most this long.
    pub fn wait(&self, time: Duration) -> io::Result<()> {
        // The last socket may be repeated.
        let last = self.sockets.len() - 1;
        let descriptors = [0, 1, 2].map(|index: usize| self.sockets[index.min(last)].1.as_fd());
        poll::wait_readable(descriptors, Some(time)).map(drop)
    }

    /// Returns the next message, if there is one.
    pub fn receive(&mut self) -> io::Result<Option<PathArrival>> {
        for (source, socket) in &self.sockets {
            while let Some(arrival) = socket.receive(&mut self.buffer)? {
                let bytes = &self.buffer[..arrival.bytes.min(BUFFER_BYTES)];
                let message = match arrival.queued {
                    Some(ErrorQueueEntry::Sent { number }) => PathMessage::Transmitted(number),
                    Some(ErrorQueueEntry::Other) => continue,
                    Some(ErrorQueueEntry::Icmp(_)) | None => source
                        .parse_reply(&arrival, bytes)
                        .map_or(PathMessage::Malformed, PathMessage::Reply),
                };
                let own = source.receives_only_own();
                return Ok(Some(PathArrival { message, at: arrival.at, own }));
            }
        }
        Ok(None)
    }

    /// Returns whether the reply is about our packets, as far as anything but the tag can show.
    pub fn is_own_reply(&self, reply: &ProbeReply, own: bool) -> bool {
        own || probe_reply::claims_flow(&self.flow, reply)
    }
}

/// Reserves a source port with room for the other ports above it.
fn reserve_source_port(
    target: &ProbeTarget,
    source: IpAddr,
    ports: u16,
) -> io::Result<Option<ProbeSocket>> {
    for _ in 0..PORT_ATTEMPTS {
        let socket = match target.protocol {
            ProbeProtocol::Icmp => return Ok(None),
            ProbeProtocol::Udp => ProbeSocket::udp(target.family())?,
            ProbeProtocol::Tcp => ProbeSocket::tcp_port(target.family())?,
        };
        target.bind_address(&socket, source)?;
        if socket.local_address()?.port() < u16::MAX - ports {
            return Ok(Some(socket));
        }
    }
    Err(io::Error::from(io::ErrorKind::AddrNotAvailable))
}
