//! Sockets of an echo series: send packets of one flow to one address and receive the answers.
//!
//! | probes | socket | times |
//! | --- | --- | --- |
//! | ICMP | ping socket, else raw | kernel |
//! | UDP | its own error queue | kernel |
//! | TCP | raw | kernel |

use super::echo_event::{EchoClassifier, EchoEvent};
use crate::path::PathError;
use crate::path::path_error::{PING_PRIVILEGE, RAW_PRIVILEGE, protocol_name};
use crate::path::probe_packet::{ProbeFlow, probe_key};
use longhaul_model::report::v1::path::ProbeProtocol;
use longhaul_sys::poll;
use longhaul_sys::probe_socket::{FragmentPolicy, IpFamily, ProbeSocket};
use ring::rand::{SecureRandom, SystemRandom};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

/// Destination port of UDP probes: usually closed.
pub(in crate::path) const UDP_PORT: u16 = 33_434;
/// The maximum number of messages read per call.
const MAX_MESSAGES: usize = 64;
/// Size of the longest IP packet plus one byte.
const BUFFER_BYTES: usize = 1 << 16;
/// Attempts to find free neighbouring ports.
const PORT_ATTEMPTS: u32 = 20;
/// Alternatives that work without raw sockets.
const WITHOUT_RAW: &str = "use TCP probes, which time a connect and need no privilege";
const WITHOUT_PING: &str = "use UDP or TCP probes, or widen net.ipv4.ping_group_range";

/// Destination and options of the packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::path) struct EchoSocketConfig {
    pub destination: IpAddr,
    pub source: Option<IpAddr>,
    pub device: Option<String>,
    pub protocol: ProbeProtocol,
    pub port: Option<u16>,
    /// Number of source ports of TCP probes, used round-robin.
    pub flows: u16,
    /// Forbids fragmentation and ignores the kernel's cached path MTU.
    pub forbid_fragmentation: bool,
}

impl EchoSocketConfig {
    fn family(&self) -> IpFamily {
        IpFamily::of_address(self.destination)
    }

    fn describe_action(&self) -> String {
        format!("send {} probes to", protocol_name(self.protocol))
    }

    fn path_error(
        &self,
        source: io::Error,
        right: Option<(&'static str, &'static str)>,
    ) -> PathError {
        PathError::from_io_error(self.describe_action(), self.destination, source, right)
    }

    /// Binds a socket to the configured device, address and port.
    fn bind_socket(&self, socket: &ProbeSocket, port: u16) -> io::Result<()> {
        if let Some(device) = &self.device {
            socket.bind_device(device)?;
        }
        let anywhere = match self.family() {
            IpFamily::V4 => IpAddr::from([0_u8; 4]),
            IpFamily::V6 => IpAddr::from([0_u8; 16]),
        };
        if self.source.is_some() || port != 0 {
            socket.bind(SocketAddr::new(self.source.unwrap_or(anywhere), port))?;
        }
        if self.forbid_fragmentation {
            socket.set_fragment_policy(FragmentPolicy::NeverIgnoringPmtu)?;
        }
        Ok(())
    }

    /// Returns the source address of the packets.
    pub(in crate::path) fn source_address(&self) -> Result<IpAddr, PathError> {
        let find = || {
            let socket = ProbeSocket::udp(self.family())?;
            self.bind_socket(&socket, 0)?;
            socket.connect(SocketAddr::new(self.destination, UDP_PORT))?;
            Ok(socket.local_address()?.ip())
        };
        find().map_err(|source| self.path_error(source, None))
    }
}

/// Sends probes and receives answers.
#[derive(Debug)]
pub(in crate::path) struct EchoSocket {
    sender: ProbeSocket,
    /// Second socket for answers, if they do not arrive at the sender.
    listener: Option<ProbeSocket>,
    /// Reserved ports that no other program may get meanwhile.
    reserved_ports: Vec<ProbeSocket>,
    flows: Vec<ProbeFlow>,
    classifier: EchoClassifier,
    /// Numbers of packets in the order in which the kernel accepted them.
    sent_numbers: Vec<u32>,
    buffer: Vec<u8>,
}

impl EchoSocket {
    /// Opens the sockets that the protocol needs.
    ///
    /// # Errors
    /// [`PathError::Privilege`] with an alternative if the process lacks the privilege.
    pub(in crate::path) fn open(way: &EchoSocketConfig) -> Result<EchoSocket, PathError> {
        let flow = ProbeFlow {
            protocol: way.protocol,
            source: way.source_address()?,
            destination: way.destination,
            source_id: 0,
            destination_id: way.port.unwrap_or(UDP_PORT),
            tag: random_tag(),
        };
        let courier = match way.protocol {
            ProbeProtocol::Icmp => open_icmp(way, flow)?,
            ProbeProtocol::Udp => {
                open_udp(way, flow).map_err(|source| way.path_error(source, None))?
            }
            ProbeProtocol::Tcp => {
                let right = Some((RAW_PRIVILEGE, WITHOUT_RAW));
                open_tcp(way, flow).map_err(|source| way.path_error(source, right))?
            }
        };
        // Without transmit timestamps, round trips are only slightly longer.
        let _ = courier.sender.enable_transmit_timestamps();
        Ok(courier)
    }

    fn new(
        sender: ProbeSocket,
        listener: Option<ProbeSocket>,
        flows: Vec<ProbeFlow>,
        sorter: EchoClassifier,
    ) -> EchoSocket {
        EchoSocket {
            sender,
            listener,
            reserved_ports: Vec::new(),
            flows,
            classifier: sorter,
            sent_numbers: Vec::new(),
            buffer: vec![0; BUFFER_BYTES],
        }
    }

    /// Returns the actual IP packet size for the requested one: probes have a minimum size, and TCP
    /// probes have exactly one size.
    pub(in crate::path) fn packet_bytes(&self, asked: u32) -> u32 {
        let least = self.ip_header_bytes() + self.flows[0].transport(probe_key(0)).len() as u32;
        match self.flows[0].protocol {
            ProbeProtocol::Tcp => least,
            ProbeProtocol::Icmp | ProbeProtocol::Udp => asked.clamp(least, BUFFER_BYTES as u32 - 1),
        }
    }

    fn ip_header_bytes(&self) -> u32 {
        match self.sender.family() {
            IpFamily::V4 => 20,
            IpFamily::V6 => 40,
        }
    }

    /// Sends the packet of this number, in the requested size if possible.
    pub(in crate::path) fn send(&mut self, number: u32, packet_bytes: u32) -> io::Result<()> {
        let bytes = self.packet_bytes(packet_bytes).saturating_sub(self.ip_header_bytes()) as usize;
        let flow = self.flows[number as usize % self.flows.len()];
        // Trailing zeros do not change the checksum of a message.
        let padded = |mut message: Vec<u8>, bytes: usize| {
            message.resize(bytes.max(message.len()), 0);
            message
        };
        let to = SocketAddr::new(flow.destination, 0);
        match flow.protocol {
            ProbeProtocol::Icmp => {
                let message = padded(flow.transport(probe_key(number)), bytes);
                self.sender.send(&message, Some(to), None)?;
            }
            ProbeProtocol::Udp => {
                let payload = padded(flow.udp_payload(probe_key(number)), bytes.saturating_sub(8));
                self.sender.send(&payload, None, None)?;
            }
            ProbeProtocol::Tcp => {
                let packet = flow.packet(super::TTL, probe_key(number));
                self.sender.send(&packet, Some(to), None)?;
            }
        }
        self.sent_numbers.push(number);
        Ok(())
    }

    /// Waits for a message, at most this long.
    pub(in crate::path) fn wait(&self, time: Duration) -> io::Result<()> {
        let sender = self.sender.as_fd();
        match &self.listener {
            None => poll::wait_readable([sender], Some(time)).map(drop),
            Some(listener) => poll::wait_readable([sender, listener.as_fd()], Some(time)).map(drop),
        }
    }

    /// Returns the received messages.
    pub(in crate::path) fn receive(&mut self) -> io::Result<Vec<EchoEvent>> {
        let mut heard = Vec::new();
        for socket in std::iter::once(&self.sender).chain(&self.listener) {
            for _ in 0..MAX_MESSAGES {
                let Some(arrival) = socket.receive(&mut self.buffer)? else {
                    break;
                };
                let bytes = &self.buffer[..arrival.bytes.min(BUFFER_BYTES)];
                heard.extend(self.classifier.classify(
                    &self.flows,
                    &self.sent_numbers,
                    &arrival,
                    bytes,
                ));
            }
        }
        Ok(heard)
    }
}

/// Returns random bits that an attacker cannot guess.
fn random_tag() -> u32 {
    let mut bytes = [0; 4];
    // Without randomness, probes are only harder to tell from forgeries.
    let _ = SystemRandom::new().fill(&mut bytes);
    u32::from_ne_bytes(bytes)
}

fn open_icmp(way: &EchoSocketConfig, flow: ProbeFlow) -> Result<EchoSocket, PathError> {
    let denied = |error: &PathError| matches!(error, PathError::Privilege { .. });
    let right = Some((PING_PRIVILEGE, WITHOUT_PING));
    match open_ping(way, flow).map_err(|source| way.path_error(source, right)) {
        Err(error) if denied(&error) => {
            open_raw_icmp(way, flow).map_err(|source| way.path_error(source, right))
        }
        opened => opened,
    }
}

fn open_ping(way: &EchoSocketConfig, flow: ProbeFlow) -> io::Result<EchoSocket> {
    let socket = ProbeSocket::ping(way.family())?;
    way.bind_socket(&socket, 0)?;
    socket.connect(SocketAddr::new(way.destination, 0))?;
    let near = socket.local_address()?.port();
    let flow = ProbeFlow { source_id: near, destination_id: constant_checksum(&flow), ..flow };
    Ok(EchoSocket::new(socket, None, vec![flow], EchoClassifier::Ping))
}

fn open_raw_icmp(way: &EchoSocketConfig, flow: ProbeFlow) -> io::Result<EchoSocket> {
    let socket = ProbeSocket::all_icmp(way.family())?;
    way.bind_socket(&socket, 0)?;
    let flow = ProbeFlow {
        source_id: random_tag() as u16,
        destination_id: constant_checksum(&flow),
        ..flow
    };
    Ok(EchoSocket::new(socket, None, vec![flow], EchoClassifier::AllIcmp))
}

/// Returns a checksum other than zero and all ones, which are equivalent in a checksum.
fn constant_checksum(flow: &ProbeFlow) -> u16 {
    (flow.tag % 0xfffe) as u16 + 1
}

fn open_udp(way: &EchoSocketConfig, flow: ProbeFlow) -> io::Result<EchoSocket> {
    let socket = ProbeSocket::udp(way.family())?;
    way.bind_socket(&socket, 0)?;
    socket.connect(SocketAddr::new(way.destination, flow.destination_id))?;
    let near = socket.local_address()?.port();
    Ok(EchoSocket::new(
        socket,
        None,
        vec![ProbeFlow { source_id: near, ..flow }],
        EchoClassifier::Udp,
    ))
}

fn open_tcp(way: &EchoSocketConfig, flow: ProbeFlow) -> io::Result<EchoSocket> {
    let far = way.port.unwrap_or(crate::DEFAULT_PORT);
    let sender = ProbeSocket::raw_packets(way.family())?;
    if let Some(device) = &way.device {
        sender.bind_device(device)?;
    }
    let (held, first) = reserve_ports(way, flow.source, way.flows.max(1))?;
    let last = first + (held.len() as u16 - 1);
    let listener = ProbeSocket::all_tcp(way.family(), first..=last)?;
    let flows =
        (first..=last).map(|near| ProbeFlow { source_id: near, destination_id: far, ..flow });
    let mut courier = EchoSocket::new(sender, Some(listener), flows.collect(), EchoClassifier::Tcp);
    courier.reserved_ports = held;
    Ok(courier)
}

/// Binds `count` neighbouring ports, so that no other socket receives their answers.
fn reserve_ports(
    way: &EchoSocketConfig,
    source: IpAddr,
    count: u16,
) -> io::Result<(Vec<ProbeSocket>, u16)> {
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
