//! Sockets of an echo series: send packets of one flow to one address and receive the answers.
//!
//! | probes | socket | times |
//! | --- | --- | --- |
//! | ICMP | ping socket, else raw | kernel |
//! | UDP | its own error queue | kernel |
//! | TCP | raw | kernel |

use super::heard::{Heard, Sorter};
use crate::path::PathError;
use crate::path::error::{PING, RAW, spoken};
use crate::path::packet::{Flow, key};
use longhaul_model::report::v1::path::Protocol;
use longhaul_sys::poll;
use longhaul_sys::probe_socket::{Family, Fragments, ProbeSocket};
use ring::rand::{SecureRandom, SystemRandom};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

/// Destination port of UDP probes: usually closed.
pub(in crate::path) const UDP_PORT: u16 = 33_434;
/// The maximum number of messages read per call.
const MOST_HEARD: usize = 64;
/// Size of the longest IP packet plus one byte.
const BUFFER_BYTES: usize = 1 << 16;
/// Attempts to find free neighbouring ports.
const PORT_ATTEMPTS: u32 = 20;
/// Alternatives that work without raw sockets.
const WITHOUT_RAW: &str = "TCP round trips are timed by connecting, which needs no privilege";
const WITHOUT_PING: &str = "use UDP or TCP probes, or widen net.ipv4.ping_group_range";

/// Destination and options of the packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::path) struct Way {
    pub destination: IpAddr,
    pub source: Option<IpAddr>,
    pub device: Option<String>,
    pub protocol: Protocol,
    pub port: Option<u16>,
    /// Number of source ports of TCP probes, used round-robin.
    pub flows: u16,
    /// Forbids fragmentation and ignores the kernel's cached path MTU.
    pub uncut: bool,
}

impl Way {
    fn family(&self) -> Family {
        Family::of(self.destination)
    }

    fn what(&self) -> String {
        format!("send {} probes to", spoken(self.protocol))
    }

    fn failed(&self, source: io::Error, right: Option<(&'static str, &'static str)>) -> PathError {
        PathError::of(self.what(), self.destination, source, right)
    }

    /// Binds a socket to the configured device, address and port.
    fn settle(&self, socket: &ProbeSocket, port: u16) -> io::Result<()> {
        if let Some(device) = &self.device {
            socket.bind_device(device)?;
        }
        let anywhere = match self.family() {
            Family::V4 => IpAddr::from([0_u8; 4]),
            Family::V6 => IpAddr::from([0_u8; 16]),
        };
        if self.source.is_some() || port != 0 {
            socket.bind(SocketAddr::new(self.source.unwrap_or(anywhere), port))?;
        }
        if self.uncut {
            socket.set_fragments(Fragments::NeverAndForget)?;
        }
        Ok(())
    }

    /// Returns the source address of the packets.
    pub(in crate::path) fn source_address(&self) -> Result<IpAddr, PathError> {
        let find = || {
            let socket = ProbeSocket::udp(self.family())?;
            self.settle(&socket, 0)?;
            socket.connect(SocketAddr::new(self.destination, UDP_PORT))?;
            Ok(socket.local_address()?.ip())
        };
        find().map_err(|source| self.failed(source, None))
    }
}

/// Sends probes and receives answers.
#[derive(Debug)]
pub(in crate::path) struct Courier {
    sender: ProbeSocket,
    /// Second socket for answers, if they do not arrive at the sender.
    listener: Option<ProbeSocket>,
    /// Reserved ports that no other program may get meanwhile.
    held: Vec<ProbeSocket>,
    flows: Vec<Flow>,
    sorter: Sorter,
    /// Numbers of packets in the order in which the kernel accepted them.
    left: Vec<u32>,
    buffer: Vec<u8>,
}

impl Courier {
    /// Opens the sockets that the protocol needs.
    ///
    /// # Errors
    /// [`PathError::Privilege`] with an alternative if the process lacks the privilege.
    pub(in crate::path) fn open(way: &Way) -> Result<Courier, PathError> {
        let flow = Flow {
            protocol: way.protocol,
            source: way.source_address()?,
            destination: way.destination,
            near: 0,
            far: way.port.unwrap_or(UDP_PORT),
            tag: random(),
        };
        let courier = match way.protocol {
            Protocol::Icmp => icmp(way, flow)?,
            Protocol::Udp => udp(way, flow).map_err(|source| way.failed(source, None))?,
            Protocol::Tcp => {
                let right = Some((RAW, WITHOUT_RAW));
                tcp(way, flow).map_err(|source| way.failed(source, right))?
            }
        };
        // Without transmit timestamps, round trips are only slightly longer.
        let _ = courier.sender.tell_send_times();
        Ok(courier)
    }

    fn new(
        sender: ProbeSocket,
        listener: Option<ProbeSocket>,
        flows: Vec<Flow>,
        sorter: Sorter,
    ) -> Courier {
        Courier {
            sender,
            listener,
            held: Vec::new(),
            flows,
            sorter,
            left: Vec::new(),
            buffer: vec![0; BUFFER_BYTES],
        }
    }

    /// Returns the actual IP packet size for the requested one: probes have a minimum size, and TCP
    /// probes have exactly one size.
    pub(in crate::path) fn packet_bytes(&self, asked: u32) -> u32 {
        let least = self.head_bytes() + self.flows[0].transport(key(0)).len() as u32;
        match self.flows[0].protocol {
            Protocol::Tcp => least,
            Protocol::Icmp | Protocol::Udp => asked.clamp(least, BUFFER_BYTES as u32 - 1),
        }
    }

    fn head_bytes(&self) -> u32 {
        match self.sender.family() {
            Family::V4 => 20,
            Family::V6 => 40,
        }
    }

    /// Sends the packet of this number, in the requested size if possible.
    pub(in crate::path) fn send(&mut self, number: u32, packet_bytes: u32) -> io::Result<()> {
        let bytes = self
            .packet_bytes(packet_bytes)
            .saturating_sub(self.head_bytes()) as usize;
        let flow = self.flows[number as usize % self.flows.len()];
        // Trailing zeros do not change the checksum of a message.
        let padded = |mut message: Vec<u8>, bytes: usize| {
            message.resize(bytes.max(message.len()), 0);
            message
        };
        let to = SocketAddr::new(flow.destination, 0);
        match flow.protocol {
            Protocol::Icmp => {
                let message = padded(flow.transport(key(number)), bytes);
                self.sender.send(&message, Some(to), None)?;
            }
            Protocol::Udp => {
                let payload = padded(flow.udp_payload(key(number)), bytes.saturating_sub(8));
                self.sender.send(&payload, None, None)?;
            }
            Protocol::Tcp => {
                let packet = flow.packet(super::TTL, key(number));
                self.sender.send(&packet, Some(to), None)?;
            }
        }
        self.left.push(number);
        Ok(())
    }

    /// Waits for a message, at most this long.
    pub(in crate::path) fn wait(&self, time: Duration) -> io::Result<()> {
        let sender = self.sender.as_fd();
        match &self.listener {
            None => poll::readable([sender], Some(time)).map(drop),
            Some(listener) => poll::readable([sender, listener.as_fd()], Some(time)).map(drop),
        }
    }

    /// Returns the received messages.
    pub(in crate::path) fn hear(&mut self) -> io::Result<Vec<Heard>> {
        let mut heard = Vec::new();
        for socket in std::iter::once(&self.sender).chain(&self.listener) {
            for _ in 0..MOST_HEARD {
                let Some(arrival) = socket.receive(&mut self.buffer)? else {
                    break;
                };
                let bytes = &self.buffer[..arrival.bytes.min(BUFFER_BYTES)];
                heard.extend(self.sorter.sort(&self.flows, &self.left, &arrival, bytes));
            }
        }
        Ok(heard)
    }
}

/// Returns random bits that an attacker cannot guess.
fn random() -> u32 {
    let mut bytes = [0; 4];
    // Without randomness, probes are only harder to tell from forgeries.
    let _ = SystemRandom::new().fill(&mut bytes);
    u32::from_ne_bytes(bytes)
}

fn icmp(way: &Way, flow: Flow) -> Result<Courier, PathError> {
    let denied = |error: &PathError| matches!(error, PathError::Privilege { .. });
    let right = Some((PING, WITHOUT_PING));
    match ping(way, flow).map_err(|source| way.failed(source, right)) {
        Err(error) if denied(&error) => {
            raw_icmp(way, flow).map_err(|source| way.failed(source, right))
        }
        opened => opened,
    }
}

fn ping(way: &Way, flow: Flow) -> io::Result<Courier> {
    let socket = ProbeSocket::ping(way.family())?;
    way.settle(&socket, 0)?;
    socket.connect(SocketAddr::new(way.destination, 0))?;
    let near = socket.local_address()?.port();
    let flow = Flow {
        near,
        far: constant_checksum(&flow),
        ..flow
    };
    Ok(Courier::new(socket, None, vec![flow], Sorter::Ping))
}

fn raw_icmp(way: &Way, flow: Flow) -> io::Result<Courier> {
    let socket = ProbeSocket::all_icmp(way.family())?;
    way.settle(&socket, 0)?;
    let flow = Flow {
        near: random() as u16,
        far: constant_checksum(&flow),
        ..flow
    };
    Ok(Courier::new(socket, None, vec![flow], Sorter::AllIcmp))
}

/// Returns a checksum other than zero and all ones, which are equivalent in a checksum.
fn constant_checksum(flow: &Flow) -> u16 {
    (flow.tag % 0xfffe) as u16 + 1
}

fn udp(way: &Way, flow: Flow) -> io::Result<Courier> {
    let socket = ProbeSocket::udp(way.family())?;
    way.settle(&socket, 0)?;
    socket.connect(SocketAddr::new(way.destination, flow.far))?;
    let near = socket.local_address()?.port();
    Ok(Courier::new(
        socket,
        None,
        vec![Flow { near, ..flow }],
        Sorter::Udp,
    ))
}

fn tcp(way: &Way, flow: Flow) -> io::Result<Courier> {
    let far = way.port.unwrap_or(crate::DEFAULT_PORT);
    let sender = ProbeSocket::packets(way.family())?;
    if let Some(device) = &way.device {
        sender.bind_device(device)?;
    }
    let (held, first) = hold_ports(way, flow.source, way.flows.max(1))?;
    let last = first + (held.len() as u16 - 1);
    let listener = ProbeSocket::all_tcp(way.family(), first..=last)?;
    let flows = (first..=last).map(|near| Flow { near, far, ..flow });
    let mut courier = Courier::new(sender, Some(listener), flows.collect(), Sorter::Tcp);
    courier.held = held;
    Ok(courier)
}

/// Binds `count` neighbouring ports, so that no other socket receives their answers.
fn hold_ports(way: &Way, source: IpAddr, count: u16) -> io::Result<(Vec<ProbeSocket>, u16)> {
    let hold = |port: u16| {
        let socket = ProbeSocket::tcp_port(way.family())?;
        socket.bind(SocketAddr::new(source, port))?;
        io::Result::Ok(socket)
    };
    let mut last_error = io::Error::from(io::ErrorKind::AddrInUse);
    for _ in 0..PORT_ATTEMPTS {
        let first = hold(0)?;
        let from = first.local_address()?.port();
        let more = (1..count).map(|next| match from.checked_add(next) {
            Some(port) => hold(port),
            None => Err(io::ErrorKind::AddrInUse.into()),
        });
        match more.collect::<io::Result<Vec<_>>>() {
            Ok(more) => return Ok((std::iter::once(first).chain(more).collect(), from)),
            Err(error) => last_error = error,
        }
    }
    Err(last_error)
}
