//! Sockets of a trace: raw sockets if the process has the privilege, otherwise unprivileged ones.

use super::TraceRequest;
use crate::path::path_error::{PING_PRIVILEGE, PathError, RAW_PRIVILEGE, protocol_name};
use crate::path::probe_packet::ProbeFlow;
use crate::path::probe_reply::{MAX_REPLY_BYTES, ProbeReply, ReplySource};
use longhaul_model::report::v1::path::ProbeProtocol;
use longhaul_sys::poll;
use longhaul_sys::probe_socket::ProbeSocket;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

/// Number of source ports of a TCP trace, starting with that of the first flow.
pub(super) const FLOWS: u16 = 256;
/// Attempts to get a port from the kernel with room for all flows above it.
const PORT_ATTEMPTS: u32 = 20;

const UDP_WITHOUT: &str = "trace with UDP, which needs no privilege, or grant CAP_NET_RAW: \
     `setcap cap_net_raw+ep $(command -v longhaul)`";
const ICMP_WITHOUT: &str = "trace with UDP, which needs no privilege, or permit pings: `sysctl -w \
                            net.ipv4.ping_group_range=\"0 2147483647\"`";

/// A received message; malformed ones have no reply.
pub(super) struct TraceArrival {
    pub reply: Option<ProbeReply>,
    /// Kernel timestamp, since 1970.
    pub at: Option<Duration>,
}

pub(super) struct TraceSocket {
    /// Sends whole packets of several flows; without privilege, the first listener sends those of
    /// one flow.
    raw_sender: Option<ProbeSocket>,
    listeners: Vec<(ReplySource, ProbeSocket)>,
    /// Reserves the source port.
    _reserved_port: Option<ProbeSocket>,
    pub flow: ProbeFlow,
    buffer: Vec<u8>,
}

impl TraceSocket {
    pub fn open(asked: &TraceRequest) -> Result<TraceSocket, PathError> {
        let opened = match open_raw(asked) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                open_unprivileged(asked)
            }
            opened => opened,
        };
        opened.map_err(|source| {
            let target = &asked.target;
            let what = format!("trace the route with {} to", protocol_name(target.protocol));
            let right = match target.protocol {
                ProbeProtocol::Icmp => (PING_PRIVILEGE, ICMP_WITHOUT),
                ProbeProtocol::Udp | ProbeProtocol::Tcp => (RAW_PRIVILEGE, UDP_WITHOUT),
            };
            PathError::from_io_error(what, target.destination, source, Some(right))
        })
    }

    /// Returns whether several flows can be sent.
    pub fn varies_flows(&self) -> bool {
        self.raw_sender.is_some()
    }

    pub fn send(&self, flow: &ProbeFlow, ttl: u8, key: u16) -> io::Result<()> {
        let sent = match (&self.raw_sender, self.listeners.first()) {
            (Some(raw), _) => {
                let to = SocketAddr::new(flow.destination, 0);
                raw.send(&flow.packet(ttl, key), Some(to), None)
            }
            (None, Some((ReplySource::Udp, socket))) => {
                socket.send(&flow.udp_payload(key), None, Some(ttl))
            }
            (None, Some((_, socket))) => socket.send(&flow.transport(key), None, Some(ttl)),
            (None, None) => Err(io::ErrorKind::NotConnected.into()),
        };
        match sent {
            // A full queue on this host loses the probe like a full queue on the path.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            sent => sent,
        }
    }

    /// Waits for a message, at most this long.
    pub fn wait(&self, time: Duration) -> io::Result<()> {
        match self.listeners.as_slice() {
            [] => Ok(()),
            [(_, one), .., (_, other)] => {
                poll::wait_readable([one.as_fd(), other.as_fd()], Some(time)).map(drop)
            }
            [(_, one)] => poll::wait_readable([one.as_fd()], Some(time)).map(drop),
        }
    }

    /// Returns the next message, if there is one.
    pub fn receive(&mut self) -> io::Result<Option<TraceArrival>> {
        for (source, socket) in &self.listeners {
            let Some(arrival) = socket.receive(&mut self.buffer)? else {
                continue;
            };
            let bytes = &self.buffer[..arrival.bytes.min(self.buffer.len())];
            let reply = source.parse_reply(&arrival, bytes).filter(|_| !arrival.truncated);
            return Ok(Some(TraceArrival { reply, at: arrival.at }));
        }
        Ok(None)
    }
}

/// Opens raw sockets, which receive all ICMP, and TCP to our ports.
fn open_raw(asked: &TraceRequest) -> io::Result<TraceSocket> {
    let target = &asked.target;
    let family = target.family();
    let packets = target.bind_device(ProbeSocket::raw_packets(family)?)?;
    let icmp = target.bind_device(ProbeSocket::all_icmp(family)?)?;
    let source = target.find_source_address()?;
    let held = reserve_source_port(asked, source)?;
    let near = match &held {
        Some(held) => Some(held.local_address()?.port()),
        None => None,
    };
    let flow = target.new_flow(source, near)?;
    let mut listeners = vec![(ReplySource::RawIcmp, icmp)];
    if target.protocol == ProbeProtocol::Tcp {
        let more = asked.trace.confidence_ratio.map_or(0, |_| FLOWS - 1);
        let ports = flow.source_id..=flow.source_id.saturating_add(more);
        let tcp = target.bind_device(ProbeSocket::all_tcp(family, ports)?)?;
        listeners.push((ReplySource::RawTcp, tcp));
    }
    let buffer = vec![0; MAX_REPLY_BYTES];
    Ok(TraceSocket { raw_sender: Some(packets), listeners, _reserved_port: held, flow, buffer })
}

/// Reserves a source port with room for the other flows above it.
fn reserve_source_port(asked: &TraceRequest, source: IpAddr) -> io::Result<Option<ProbeSocket>> {
    let family = asked.target.family();
    for _ in 0..PORT_ATTEMPTS {
        let socket = match asked.target.protocol {
            ProbeProtocol::Icmp => return Ok(None),
            ProbeProtocol::Udp => ProbeSocket::udp(family)?,
            ProbeProtocol::Tcp => ProbeSocket::tcp_port(family)?,
        };
        socket.bind(SocketAddr::new(source, 0))?;
        if socket.local_address()?.port() < u16::MAX - FLOWS {
            return Ok(Some(socket));
        }
    }
    Err(io::Error::from(io::ErrorKind::AddrNotAvailable))
}

/// Opens an unprivileged socket: UDP with its error queue, or a ping socket.
pub(super) fn open_unprivileged(asked: &TraceRequest) -> io::Result<TraceSocket> {
    let target = &asked.target;
    let (source, socket) = match target.protocol {
        ProbeProtocol::Udp => (ReplySource::Udp, ProbeSocket::udp(target.family())?),
        ProbeProtocol::Icmp => (ReplySource::Ping, ProbeSocket::ping(target.family())?),
        ProbeProtocol::Tcp => return Err(io::ErrorKind::PermissionDenied.into()),
    };
    socket.forbid_fragmentation()?;
    let socket = target.connect(socket)?;
    let own = socket.local_address()?;
    Ok(TraceSocket {
        raw_sender: None,
        listeners: vec![(source, socket)],
        _reserved_port: None,
        flow: target.new_flow(own.ip(), Some(own.port()))?,
        buffer: vec![0; MAX_REPLY_BYTES],
    })
}
