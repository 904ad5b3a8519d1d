//! Sockets of a trace: raw sockets if the process has the privilege, otherwise unprivileged ones.

use super::TraceAsked;
use crate::DEFAULT_PORT;
use crate::path::error::{PING, PathError, RAW, spoken};
use crate::path::packet::{Flow, KEYS};
use crate::path::reply::{self, FromQueue, MOST_REPLY_BYTES, Reply};
use longhaul_model::report::v1::path::Protocol;
use longhaul_sys::poll;
use longhaul_sys::probe_socket::{Arrival, Family, Fragments, ProbeSocket, Queued};
use longhaul_sys::process;
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

const UDP_WITHOUT: &str =
    "trace by UDP, which takes no privilege, or give longhaul that right: setcap cap_net_raw+ep";
const ICMP_WITHOUT: &str = "trace by UDP, which takes no privilege, or permit pings: sysctl -w \
                            net.ipv4.ping_group_range=\"0 2147483647\"";

/// Sockets of the probes.
enum Way {
    /// Raw packets; receives all ICMP, and TCP to our ports.
    Whole {
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
pub(super) struct Heard {
    pub reply: Option<Reply>,
    /// Kernel timestamp, since 1970.
    pub at: Option<Duration>,
}

pub(super) struct Outlet {
    way: Way,
    pub flow: Flow,
    buffer: Vec<u8>,
}

impl Outlet {
    pub fn open(asked: &TraceAsked) -> Result<Outlet, PathError> {
        let way = match whole(asked) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => modest(asked),
            way => way,
        };
        Outlet::over(way, asked)
    }

    /// Opens the sockets of a process without raw-socket privileges.
    #[cfg(test)]
    pub fn open_modest(asked: &TraceAsked) -> Result<Outlet, PathError> {
        Outlet::over(modest(asked), asked)
    }

    fn over(way: io::Result<(Way, Flow)>, asked: &TraceAsked) -> Result<Outlet, PathError> {
        let what = format!("trace the route by {} to", spoken(asked.protocol));
        let right = match asked.protocol {
            Protocol::Icmp => (PING, ICMP_WITHOUT),
            Protocol::Udp | Protocol::Tcp => (RAW, UDP_WITHOUT),
        };
        let (way, flow) =
            way.map_err(|source| PathError::of(what, asked.destination, source, Some(right)))?;
        Ok(Outlet {
            way,
            flow,
            buffer: vec![0; MOST_REPLY_BYTES],
        })
    }

    /// Returns whether several flows can be sent.
    pub fn varies_flows(&self) -> bool {
        matches!(self.way, Way::Whole { .. })
    }

    pub fn send(&self, flow: &Flow, ttl: u8, key: u16) -> io::Result<()> {
        let sent = match &self.way {
            Way::Whole { packets, .. } => {
                let to = SocketAddr::new(flow.destination, 0);
                packets.send(&flow.packet(ttl, key), Some(to), None)
            }
            Way::Datagrams(socket) => socket.send(&flow.udp_payload(key), None, Some(ttl)),
            Way::Ping(socket) => socket.send(&flow.transport(key), None, Some(ttl)),
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
            Way::Whole { icmp, .. } => icmp,
            Way::Datagrams(socket) | Way::Ping(socket) => socket,
        };
        let second = match &self.way {
            Way::Whole { tcp: Some(tcp), .. } => tcp,
            _ => first,
        };
        poll::readable([first.as_fd(), second.as_fd()], Some(time)).map(drop)
    }

    /// Returns the next message, if there is one.
    pub fn receive(&mut self) -> io::Result<Option<Heard>> {
        match &self.way {
            Way::Whole { icmp, tcp, .. } => {
                if let Some(arrival) = icmp.receive(&mut self.buffer)? {
                    return Ok(Some(heard(&arrival, icmp_message(&arrival, &self.buffer))));
                }
                let Some(tcp) = tcp else { return Ok(None) };
                let arrival = tcp.receive(&mut self.buffer)?;
                Ok(arrival.map(|arrival| heard(&arrival, segment(&arrival, &self.buffer))))
            }
            Way::Datagrams(socket) => {
                let arrival = socket.receive(&mut self.buffer)?;
                Ok(arrival.map(|arrival| heard(&arrival, error(&arrival, &self.buffer, false))))
            }
            Way::Ping(socket) => {
                let arrival = socket.receive(&mut self.buffer)?;
                Ok(arrival.map(|arrival| {
                    let reply = match arrival.queued {
                        None => echo(&arrival, &self.buffer),
                        Some(_) => error(&arrival, &self.buffer, true),
                    };
                    heard(&arrival, reply)
                }))
            }
        }
    }
}

fn heard(arrival: &Arrival, reply: Option<Reply>) -> Heard {
    Heard {
        reply: reply.filter(|_| !arrival.cut),
        at: arrival.at,
    }
}

fn bytes<'a>(arrival: &Arrival, buffer: &'a [u8]) -> &'a [u8] {
    &buffer[..arrival.bytes.min(buffer.len())]
}

fn icmp_message(arrival: &Arrival, buffer: &[u8]) -> Option<Reply> {
    let bytes = bytes(arrival, buffer);
    match arrival.from?.ip() {
        IpAddr::V4(_) => reply::icmp_v4(bytes),
        from @ IpAddr::V6(_) => reply::icmp(bytes, from, arrival.ttl),
    }
}

fn segment(arrival: &Arrival, buffer: &[u8]) -> Option<Reply> {
    let bytes = bytes(arrival, buffer);
    match arrival.from?.ip() {
        IpAddr::V4(_) => reply::tcp_v4(bytes),
        from @ IpAddr::V6(_) => reply::tcp(bytes, from, arrival.ttl),
    }
}

fn echo(arrival: &Arrival, buffer: &[u8]) -> Option<Reply> {
    reply::icmp(bytes(arrival, buffer), arrival.from?.ip(), arrival.ttl)
}

fn error(arrival: &Arrival, buffer: &[u8], echo: bool) -> Option<Reply> {
    let Some(Queued::Icmp(trouble)) = arrival.queued else {
        return None;
    };
    reply::queued(&FromQueue {
        from: trouble.reported_by?,
        ttl: arrival.ttl,
        kind: trouble.kind,
        code: trouble.code,
        info: trouble.info,
        quoted: bytes(arrival, buffer),
        echo,
        extensions_at: trouble.extensions_at,
    })
}

fn on_device(socket: ProbeSocket, asked: &TraceAsked) -> io::Result<ProbeSocket> {
    if let Some(device) = &asked.device {
        socket.bind_device(device)?;
    }
    Ok(socket)
}

/// Returns the source address of packets to the destination.
fn source(asked: &TraceAsked) -> io::Result<IpAddr> {
    let socket = on_device(ProbeSocket::udp(Family::of(asked.destination))?, asked)?;
    if let Some(source) = asked.source {
        socket.bind(SocketAddr::new(source, 0))?;
    }
    socket.connect(SocketAddr::new(asked.destination, UDP_PORT))?;
    Ok(socket.local_address()?.ip())
}

fn far_port(asked: &TraceAsked) -> u16 {
    asked.port.unwrap_or(match asked.protocol {
        Protocol::Tcp => DEFAULT_PORT,
        Protocol::Udp | Protocol::Icmp => UDP_PORT,
    })
}

/// Returns a random word other than 0 and all ones.
fn random_word() -> io::Result<u16> {
    let mut bytes = [0; 4];
    process::random(&mut bytes)?;
    Ok((u32::from_ne_bytes(bytes) % u32::from(KEYS)) as u16 + 1)
}

fn flow(asked: &TraceAsked, source: IpAddr, near: u16) -> io::Result<Flow> {
    let mut tag = [0; 4];
    process::random(&mut tag)?;
    let far = match asked.protocol {
        Protocol::Icmp => random_word()?,
        Protocol::Udp | Protocol::Tcp => far_port(asked),
    };
    Ok(Flow {
        protocol: asked.protocol,
        source,
        destination: asked.destination,
        near,
        far,
        tag: u32::from_ne_bytes(tag),
    })
}

/// Opens raw sockets.
fn whole(asked: &TraceAsked) -> io::Result<(Way, Flow)> {
    let family = Family::of(asked.destination);
    let packets = on_device(ProbeSocket::packets(family)?, asked)?;
    let icmp = on_device(ProbeSocket::all_icmp(family)?, asked)?;
    let source = source(asked)?;
    let held = held(asked, source)?;
    let near = match &held {
        Some(held) => held.local_address()?.port(),
        None => random_word()?,
    };
    let tcp = match asked.protocol {
        Protocol::Tcp => {
            let more = asked.trace.confidence_ratio.map_or(0, |_| FLOWS - 1);
            let ports = near..=near.saturating_add(more);
            Some(on_device(ProbeSocket::all_tcp(family, ports)?, asked)?)
        }
        Protocol::Icmp | Protocol::Udp => None,
    };
    let way = Way::Whole {
        packets,
        icmp,
        tcp,
        _held: held,
    };
    Ok((way, flow(asked, source, near)?))
}

/// Reserves a source port with room for the other flows above it.
fn held(asked: &TraceAsked, source: IpAddr) -> io::Result<Option<ProbeSocket>> {
    let family = Family::of(asked.destination);
    for _ in 0..PORT_ATTEMPTS {
        let socket = match asked.protocol {
            Protocol::Icmp => return Ok(None),
            Protocol::Udp => ProbeSocket::udp(family)?,
            Protocol::Tcp => ProbeSocket::tcp_port(family)?,
        };
        socket.bind(SocketAddr::new(source, 0))?;
        if socket.local_address()?.port() < u16::MAX - FLOWS {
            return Ok(Some(socket));
        }
    }
    Err(io::Error::from(io::ErrorKind::AddrNotAvailable))
}

/// Opens unprivileged sockets.
fn modest(asked: &TraceAsked) -> io::Result<(Way, Flow)> {
    let family = Family::of(asked.destination);
    let socket = match asked.protocol {
        Protocol::Udp => ProbeSocket::udp(family)?,
        Protocol::Icmp => ProbeSocket::ping(family)?,
        Protocol::Tcp => return Err(io::Error::from(io::ErrorKind::PermissionDenied)),
    };
    let socket = on_device(socket, asked)?;
    let bound = SocketAddr::new(source(asked)?, 0);
    socket.bind(bound)?;
    socket.set_fragments(Fragments::NeverAndForget)?;
    socket.connect(SocketAddr::new(asked.destination, far_port(asked)))?;
    let own = socket.local_address()?;
    let flow = flow(asked, own.ip(), own.port())?;
    let way = match asked.protocol {
        Protocol::Icmp => Way::Ping(socket),
        Protocol::Udp | Protocol::Tcp => Way::Datagrams(socket),
    };
    Ok((way, flow))
}
