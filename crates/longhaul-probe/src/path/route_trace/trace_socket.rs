//! Sockets of a trace: raw sockets if the process has the privilege, otherwise unprivileged ones.

use super::TraceRequest;
use crate::DEFAULT_PORT;
use crate::path::path_error::{PING_PRIVILEGE, PathError, RAW_PRIVILEGE, protocol_name};
use crate::path::probe_packet::{KEYS, ProbeFlow};
use crate::path::probe_reply::{self, MAX_REPLY_BYTES, ProbeReply, QueuedIcmpError};
use longhaul_model::report::v1::path::ProbeProtocol;
use longhaul_sys::poll;
use longhaul_sys::probe_socket::{
    ErrorQueueEntry, FragmentPolicy, IpFamily, ProbeArrival, ProbeSocket,
};
use longhaul_sys::process_control;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

/// First port of Van Jacobson's traceroute, usually closed.
const UDP_PORT: u16 = 33_434;
/// Number of source ports of a TCP trace, starting with that of the first flow.
pub(super) const FLOWS: u16 = 256;
/// Attempts to get a port from the kernel with room for all flows above it.
const PORT_ATTEMPTS: u32 = 20;

const UDP_WITHOUT: &str = "trace with UDP, which needs no privilege, or grant CAP_NET_RAW: \
     `setcap cap_net_raw+ep $(command -v longhaul)`";
const ICMP_WITHOUT: &str = "trace with UDP, which needs no privilege, or permit pings: `sysctl -w \
                            net.ipv4.ping_group_range=\"0 2147483647\"`";

/// Sockets of the probes.
enum TraceTransport {
    /// Raw packets; receives all ICMP, and TCP to our ports.
    RawPackets {
        packets: ProbeSocket,
        icmp: ProbeSocket,
        tcp: Option<ProbeSocket>,
        /// Reserves the source port.
        _held: Option<ProbeSocket>,
    },
    /// UDP with its error queue.
    Datagrams(ProbeSocket),
    /// A ping socket.
    Ping(ProbeSocket),
}

/// A received message; malformed ones have no reply.
pub(super) struct TraceArrival {
    pub reply: Option<ProbeReply>,
    /// Kernel timestamp, since 1970.
    pub at: Option<Duration>,
}

pub(super) struct TraceSocket {
    way: TraceTransport,
    pub flow: ProbeFlow,
    buffer: Vec<u8>,
}

impl TraceSocket {
    pub fn open(asked: &TraceRequest) -> Result<TraceSocket, PathError> {
        let way = match open_raw(asked) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                open_unprivileged_transport(asked)
            }
            way => way,
        };
        TraceSocket::with_transport(way, asked)
    }

    /// Opens the sockets of a process without raw-socket privileges.
    #[cfg(test)]
    pub fn open_unprivileged(asked: &TraceRequest) -> Result<TraceSocket, PathError> {
        TraceSocket::with_transport(open_unprivileged_transport(asked), asked)
    }

    fn with_transport(
        way: io::Result<(TraceTransport, ProbeFlow)>,
        asked: &TraceRequest,
    ) -> Result<TraceSocket, PathError> {
        let what = format!("trace the route with {} to", protocol_name(asked.protocol));
        let right = match asked.protocol {
            ProbeProtocol::Icmp => (PING_PRIVILEGE, ICMP_WITHOUT),
            ProbeProtocol::Udp | ProbeProtocol::Tcp => (RAW_PRIVILEGE, UDP_WITHOUT),
        };
        let (way, flow) = way.map_err(|source| {
            PathError::from_io_error(what, asked.destination, source, Some(right))
        })?;
        Ok(TraceSocket { way, flow, buffer: vec![0; MAX_REPLY_BYTES] })
    }

    /// Returns whether several flows can be sent.
    pub fn varies_flows(&self) -> bool {
        matches!(self.way, TraceTransport::RawPackets { .. })
    }

    pub fn send(&self, flow: &ProbeFlow, ttl: u8, key: u16) -> io::Result<()> {
        let sent = match &self.way {
            TraceTransport::RawPackets { packets, .. } => {
                let to = SocketAddr::new(flow.destination, 0);
                packets.send(&flow.packet(ttl, key), Some(to), None)
            }
            TraceTransport::Datagrams(socket) => {
                socket.send(&flow.udp_payload(key), None, Some(ttl))
            }
            TraceTransport::Ping(socket) => socket.send(&flow.transport(key), None, Some(ttl)),
        };
        match sent {
            // A full queue on this host loses the probe like a full queue on the path.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            sent => sent,
        }
    }

    /// Waits for a message, at most this long.
    pub fn wait(&self, time: Duration) -> io::Result<()> {
        let first = match &self.way {
            TraceTransport::RawPackets { icmp, .. } => icmp,
            TraceTransport::Datagrams(socket) | TraceTransport::Ping(socket) => socket,
        };
        let second = match &self.way {
            TraceTransport::RawPackets { tcp: Some(tcp), .. } => tcp,
            _ => first,
        };
        poll::wait_readable([first.as_fd(), second.as_fd()], Some(time)).map(drop)
    }

    /// Returns the next message, if there is one.
    pub fn receive(&mut self) -> io::Result<Option<TraceArrival>> {
        match &self.way {
            TraceTransport::RawPackets { icmp, tcp, .. } => {
                if let Some(arrival) = icmp.receive(&mut self.buffer)? {
                    return Ok(Some(into_arrival(
                        &arrival,
                        parse_icmp_message(&arrival, &self.buffer),
                    )));
                }
                let Some(tcp) = tcp else { return Ok(None) };
                let arrival = tcp.receive(&mut self.buffer)?;
                Ok(arrival.map(|arrival| {
                    into_arrival(&arrival, parse_tcp_segment(&arrival, &self.buffer))
                }))
            }
            TraceTransport::Datagrams(socket) => {
                let arrival = socket.receive(&mut self.buffer)?;
                Ok(arrival.map(|arrival| {
                    into_arrival(&arrival, parse_queued_icmp(&arrival, &self.buffer, false))
                }))
            }
            TraceTransport::Ping(socket) => {
                let arrival = socket.receive(&mut self.buffer)?;
                Ok(arrival.map(|arrival| {
                    let reply = match arrival.queued {
                        None => parse_ping_reply(&arrival, &self.buffer),
                        Some(_) => parse_queued_icmp(&arrival, &self.buffer, true),
                    };
                    into_arrival(&arrival, reply)
                }))
            }
        }
    }
}

fn into_arrival(arrival: &ProbeArrival, reply: Option<ProbeReply>) -> TraceArrival {
    TraceArrival { reply: reply.filter(|_| !arrival.truncated), at: arrival.at }
}

fn arrival_bytes<'a>(arrival: &ProbeArrival, buffer: &'a [u8]) -> &'a [u8] {
    &buffer[..arrival.bytes.min(buffer.len())]
}

fn parse_icmp_message(arrival: &ProbeArrival, buffer: &[u8]) -> Option<ProbeReply> {
    let bytes = arrival_bytes(arrival, buffer);
    match arrival.from?.ip() {
        IpAddr::V4(_) => probe_reply::parse_icmp_v4(bytes),
        from @ IpAddr::V6(_) => probe_reply::parse_icmp(bytes, from, arrival.ttl),
    }
}

fn parse_tcp_segment(arrival: &ProbeArrival, buffer: &[u8]) -> Option<ProbeReply> {
    let bytes = arrival_bytes(arrival, buffer);
    match arrival.from?.ip() {
        IpAddr::V4(_) => probe_reply::parse_tcp_v4(bytes),
        from @ IpAddr::V6(_) => probe_reply::parse_tcp(bytes, from, arrival.ttl),
    }
}

fn parse_ping_reply(arrival: &ProbeArrival, buffer: &[u8]) -> Option<ProbeReply> {
    probe_reply::parse_icmp(arrival_bytes(arrival, buffer), arrival.from?.ip(), arrival.ttl)
}

fn parse_queued_icmp(arrival: &ProbeArrival, buffer: &[u8], echo: bool) -> Option<ProbeReply> {
    let Some(ErrorQueueEntry::Icmp(trouble)) = arrival.queued else {
        return None;
    };
    probe_reply::parse_queued_error(&QueuedIcmpError {
        from: trouble.reported_by?,
        ttl: arrival.ttl,
        kind: trouble.kind,
        code: trouble.code,
        info: trouble.info,
        quoted: arrival_bytes(arrival, buffer),
        echo,
        extensions_at: trouble.extensions_at,
    })
}

fn bind_to_device(socket: ProbeSocket, asked: &TraceRequest) -> io::Result<ProbeSocket> {
    if let Some(device) = &asked.device {
        socket.bind_device(device)?;
    }
    Ok(socket)
}

/// Returns the source address of packets to the destination.
fn find_source_address(asked: &TraceRequest) -> io::Result<IpAddr> {
    let socket = bind_to_device(ProbeSocket::udp(IpFamily::of_address(asked.destination))?, asked)?;
    if let Some(source) = asked.source {
        socket.bind(SocketAddr::new(source, 0))?;
    }
    socket.connect(SocketAddr::new(asked.destination, UDP_PORT))?;
    Ok(socket.local_address()?.ip())
}

fn destination_port(asked: &TraceRequest) -> u16 {
    asked.port.unwrap_or(match asked.protocol {
        ProbeProtocol::Tcp => DEFAULT_PORT,
        ProbeProtocol::Udp | ProbeProtocol::Icmp => UDP_PORT,
    })
}

/// Returns a random word other than 0 and all ones.
fn random_word() -> io::Result<u16> {
    let mut bytes = [0; 4];
    process_control::fill_random(&mut bytes)?;
    Ok((u32::from_ne_bytes(bytes) % u32::from(KEYS)) as u16 + 1)
}

fn build_flow(asked: &TraceRequest, source: IpAddr, near: u16) -> io::Result<ProbeFlow> {
    let mut tag = [0; 4];
    process_control::fill_random(&mut tag)?;
    let far = match asked.protocol {
        ProbeProtocol::Icmp => random_word()?,
        ProbeProtocol::Udp | ProbeProtocol::Tcp => destination_port(asked),
    };
    Ok(ProbeFlow {
        protocol: asked.protocol,
        source,
        destination: asked.destination,
        source_id: near,
        destination_id: far,
        tag: u32::from_ne_bytes(tag),
    })
}

/// Opens raw sockets.
fn open_raw(asked: &TraceRequest) -> io::Result<(TraceTransport, ProbeFlow)> {
    let family = IpFamily::of_address(asked.destination);
    let packets = bind_to_device(ProbeSocket::raw_packets(family)?, asked)?;
    let icmp = bind_to_device(ProbeSocket::all_icmp(family)?, asked)?;
    let source = find_source_address(asked)?;
    let held = reserve_source_port(asked, source)?;
    let near = match &held {
        Some(held) => held.local_address()?.port(),
        None => random_word()?,
    };
    let tcp = match asked.protocol {
        ProbeProtocol::Tcp => {
            let more = asked.trace.confidence_ratio.map_or(0, |_| FLOWS - 1);
            let ports = near..=near.saturating_add(more);
            Some(bind_to_device(ProbeSocket::all_tcp(family, ports)?, asked)?)
        }
        ProbeProtocol::Icmp | ProbeProtocol::Udp => None,
    };
    let way = TraceTransport::RawPackets { packets, icmp, tcp, _held: held };
    Ok((way, build_flow(asked, source, near)?))
}

/// Reserves a source port with room for the other flows above it.
fn reserve_source_port(asked: &TraceRequest, source: IpAddr) -> io::Result<Option<ProbeSocket>> {
    let family = IpFamily::of_address(asked.destination);
    for _ in 0..PORT_ATTEMPTS {
        let socket = match asked.protocol {
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

/// Opens unprivileged sockets.
fn open_unprivileged_transport(asked: &TraceRequest) -> io::Result<(TraceTransport, ProbeFlow)> {
    let family = IpFamily::of_address(asked.destination);
    let socket = match asked.protocol {
        ProbeProtocol::Udp => ProbeSocket::udp(family)?,
        ProbeProtocol::Icmp => ProbeSocket::ping(family)?,
        ProbeProtocol::Tcp => return Err(io::Error::from(io::ErrorKind::PermissionDenied)),
    };
    let socket = bind_to_device(socket, asked)?;
    let bound = SocketAddr::new(find_source_address(asked)?, 0);
    socket.bind(bound)?;
    socket.set_fragment_policy(FragmentPolicy::NeverIgnoringPmtu)?;
    socket.connect(SocketAddr::new(asked.destination, destination_port(asked)))?;
    let own = socket.local_address()?;
    let flow = build_flow(asked, own.ip(), own.port())?;
    let way = match asked.protocol {
        ProbeProtocol::Icmp => TraceTransport::Ping(socket),
        ProbeProtocol::Udp | ProbeProtocol::Tcp => TraceTransport::Datagrams(socket),
    };
    Ok((way, flow))
}
