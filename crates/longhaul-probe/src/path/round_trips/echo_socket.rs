//! Sockets of an echo series: send packets of one flow to one address and receive the answers.
//!
//! | probes | socket | times |
//! | --- | --- | --- |
//! | ICMP | ping socket, else raw | kernel |
//! | UDP | its own error queue | kernel |
//! | TCP | raw | kernel |

use super::echo_event::{EchoEvent, classify_arrival};
use crate::path::path_error::{PING_PRIVILEGE, RAW_PRIVILEGE, protocol_name};
use crate::path::probe_packet::{ProbeFlow, probe_key};
use crate::path::probe_reply::ReplySource;
use crate::path::{PathError, ProbeTarget};
use longhaul_model::report::v1::path::ProbeProtocol;
use longhaul_sys::poll;
use longhaul_sys::probe_socket::{IpFamily, ProbeSocket};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

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
    pub target: ProbeTarget,
    /// Number of source ports of TCP probes, used round-robin.
    pub flows: u16,
    /// Forbids fragmentation and ignores the kernel's cached path MTU.
    pub forbid_fragmentation: bool,
}

impl EchoSocketConfig {
    fn path_error(
        &self,
        source: io::Error,
        right: Option<(&'static str, &'static str)>,
    ) -> PathError {
        let what = format!("send {} probes to", protocol_name(self.target.protocol));
        PathError::from_io_error(what, self.target.destination, source, right)
    }

    /// Sets the options that were requested for a socket.
    fn configure(&self, socket: ProbeSocket) -> io::Result<ProbeSocket> {
        if self.forbid_fragmentation {
            socket.forbid_fragmentation()?;
        }
        Ok(socket)
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
    source: ReplySource,
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
        let source = way.target.find_source_address();
        let source = source.map_err(|error| way.path_error(error, None))?;
        let ping = Some((PING_PRIVILEGE, WITHOUT_PING));
        let (opened, right) = match way.target.protocol {
            ProbeProtocol::Icmp => match open_ping(way, source) {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    (open_raw_icmp(way, source), ping)
                }
                opened => (opened, ping),
            },
            ProbeProtocol::Udp => (open_udp(way, source), None),
            ProbeProtocol::Tcp => (open_tcp(way, source), Some((RAW_PRIVILEGE, WITHOUT_RAW))),
        };
        let courier = opened.map_err(|error| way.path_error(error, right))?;
        // Without transmit timestamps, round trips are only slightly longer.
        let _ = courier.sender.enable_transmit_timestamps();
        Ok(courier)
    }

    fn new(
        sender: ProbeSocket,
        listener: Option<ProbeSocket>,
        flows: Vec<ProbeFlow>,
        source: ReplySource,
    ) -> EchoSocket {
        EchoSocket {
            sender,
            listener,
            reserved_ports: Vec::new(),
            flows,
            source,
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
                heard.extend(classify_arrival(
                    self.source,
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

fn open_ping(way: &EchoSocketConfig, source: IpAddr) -> io::Result<EchoSocket> {
    open_connected(way, source, ProbeSocket::ping(way.target.family())?, ReplySource::Ping)
}

fn open_udp(way: &EchoSocketConfig, source: IpAddr) -> io::Result<EchoSocket> {
    open_connected(way, source, ProbeSocket::udp(way.target.family())?, ReplySource::Udp)
}

fn open_connected(
    way: &EchoSocketConfig,
    source: IpAddr,
    socket: ProbeSocket,
    kind: ReplySource,
) -> io::Result<EchoSocket> {
    let socket = way.target.connect(way.configure(socket)?)?;
    let flow = way.target.new_flow(source, Some(socket.local_address()?.port()))?;
    Ok(EchoSocket::new(socket, None, vec![flow], kind))
}

fn open_raw_icmp(way: &EchoSocketConfig, source: IpAddr) -> io::Result<EchoSocket> {
    let socket = way.target.bind(way.configure(ProbeSocket::all_icmp(way.target.family())?)?)?;
    let flow = way.target.new_flow(source, None)?;
    Ok(EchoSocket::new(socket, None, vec![flow], ReplySource::RawIcmp))
}

fn open_tcp(way: &EchoSocketConfig, source: IpAddr) -> io::Result<EchoSocket> {
    let target = &way.target;
    let sender = target.bind_device(ProbeSocket::raw_packets(target.family())?)?;
    let (held, first) = reserve_ports(target, source, way.flows.max(1))?;
    let last = first + (held.len() as u16 - 1);
    let listener = ProbeSocket::all_tcp(target.family(), first..=last)?;
    let flow = target.new_flow(source, Some(first))?;
    let flows = (first..=last).map(|near| ProbeFlow { source_id: near, ..flow });
    let mut courier = EchoSocket::new(sender, Some(listener), flows.collect(), ReplySource::RawTcp);
    courier.reserved_ports = held;
    Ok(courier)
}

/// Binds `count` neighbouring ports, so that no other socket receives their answers.
fn reserve_ports(
    target: &ProbeTarget,
    source: IpAddr,
    count: u16,
) -> io::Result<(Vec<ProbeSocket>, u16)> {
    let hold = |port: u16| {
        let socket = ProbeSocket::tcp_port(target.family())?;
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
