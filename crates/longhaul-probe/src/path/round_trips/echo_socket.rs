//! Sends the numbered probes of an echo series, and classifies the received messages: answer,
//! error, transmit timestamp, or noise.

use super::{EchoTransport, TTL};
use crate::path::path_error::{PING_PRIVILEGE, RAW_PRIVILEGE, protocol_name};
use crate::path::path_socket::{PathArrival, PathMessage, PathSocket};
use crate::path::probe_packet::{KEYS, ProbeFlow, probe_key};
use crate::path::probe_reply::{self, ProbeReply, ReplyKind};
use crate::path::{PathError, ProbeTarget};
use longhaul_model::report::v1::path::ProbeProtocol;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

/// The maximum number of messages read per call.
const MAX_MESSAGES: usize = 128;
/// Alternatives that work without raw sockets.
const WITHOUT_RAW: &str = "use TCP probes, which time a connect and need no privilege";
const WITHOUT_PING: &str = "use UDP or TCP probes, or widen net.ipv4.ping_group_range";

/// A classified message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::path) enum EchoEvent {
    /// The destination answered the packet of this number.
    Answer {
        number: u32,
        /// Kernel timestamp (wall clock).
        stamp: Option<Duration>,
        ttl: Option<u8>,
    },
    /// The destination answered, and the whole round trip was already measured.
    Measured {
        number: u32,
        rtt: Duration,
        /// Measured by the kernel, not by this program.
        by_kernel: bool,
    },
    /// Transmit timestamp (wall clock) of the packet.
    Transmitted { number: u32, stamp: Duration },
    /// A router reports that the packet is too big.
    TooBig { number: u32, by: IpAddr, mtu_bytes: Option<u32> },
    /// A router or host reports that the packet is undeliverable.
    Unreachable { by: IpAddr, word: &'static str },
    /// Claims to belong to our packets, but matches none.
    Unmatched,
}

/// Sends probes and receives answers.
#[derive(Debug)]
pub(in crate::path) struct EchoSocket {
    socket: PathSocket,
    /// Number of source ports, used round-robin.
    ports: u16,
    /// Numbers of packets in the order in which the kernel accepted them.
    sent_numbers: Vec<u32>,
}

impl EchoSocket {
    /// Opens the sockets that the protocol needs. `ports` is the number of source ports of TCP
    /// probes. `whole_packets` forbids fragmentation and ignores the kernel's cached path MTU.
    ///
    /// # Errors
    /// [`PathError::Privilege`] with an alternative if the process lacks the privilege.
    pub(in crate::path) fn open(
        target: &ProbeTarget,
        ports: u16,
        whole_packets: bool,
    ) -> Result<EchoSocket, PathError> {
        let (opened, ports, right) = match target.protocol {
            ProbeProtocol::Tcp => {
                (PathSocket::open_raw(target, ports), ports, (RAW_PRIVILEGE, WITHOUT_RAW))
            }
            ProbeProtocol::Icmp | ProbeProtocol::Udp => {
                let opened = match PathSocket::open_unprivileged(target, whole_packets) {
                    Err(error)
                        if error.kind() == io::ErrorKind::PermissionDenied
                            && target.protocol == ProbeProtocol::Icmp =>
                    {
                        PathSocket::open_raw_icmp(target, whole_packets)
                    }
                    opened => opened,
                };
                (opened, 1, (PING_PRIVILEGE, WITHOUT_PING))
            }
        };
        let socket = opened.map_err(|error| {
            let what = format!("send {} probes to", protocol_name(target.protocol));
            let right = Some(right).filter(|_| target.protocol != ProbeProtocol::Udp);
            PathError::from_io_error(what, target.destination, error, right)
        })?;
        // Without transmit timestamps, round trips are only slightly longer.
        let _ = socket.enable_transmit_timestamps();
        Ok(EchoSocket { socket, ports, sent_numbers: Vec::new() })
    }

    fn flow_of(&self, number: u32) -> ProbeFlow {
        self.socket.flow.sibling_flow((number % u32::from(self.ports)) as u16)
    }

    /// Classifies a message; returns `None` if it belongs to other programs' packets.
    fn classify_arrival(&self, arrival: &PathArrival) -> Option<EchoEvent> {
        let reply = match &arrival.message {
            PathMessage::Transmitted(index) => {
                let number = *self.sent_numbers.get(*index as usize)?;
                return Some(EchoEvent::Transmitted { number, stamp: arrival.at? });
            }
            PathMessage::Malformed => return arrival.own.then_some(EchoEvent::Unmatched),
            PathMessage::Reply(reply) => reply,
        };
        let number_of = |key| recover_probe_number(key, *self.sent_numbers.last()?);
        let flow_of = |key| number_of(key).map(|number| self.flow_of(number));
        match probe_reply::find_probe_key(reply, flow_of).and_then(number_of) {
            Some(number) => Some(self.classify_reply(reply, number, arrival.at)),
            None => self.socket.is_own_reply(reply, arrival.own).then_some(EchoEvent::Unmatched),
        }
    }

    fn classify_reply(
        &self,
        reply: &ProbeReply,
        number: u32,
        stamp: Option<Duration>,
    ) -> EchoEvent {
        let (by, ttl) = (reply.from, reply.ttl);
        let of_far_end = by == self.socket.flow.destination;
        match reply.kind {
            ReplyKind::EchoReply | ReplyKind::SynAck | ReplyKind::Reset => {
                EchoEvent::Answer { number, stamp, ttl }
            }
            ReplyKind::PortUnreachable | ReplyKind::ProtocolUnreachable if of_far_end => {
                EchoEvent::Answer { number, stamp, ttl }
            }
            ReplyKind::TooBig { mtu_bytes } => {
                EchoEvent::TooBig { number, by, mtu_bytes: Some(mtu_bytes) }
            }
            kind => EchoEvent::Unreachable { by, word: kind.as_str() },
        }
    }
}

impl EchoTransport for EchoSocket {
    fn packet_bytes(&self, asked: u32) -> u32 {
        self.socket.packet_bytes(asked)
    }

    fn send(&mut self, number: u32, packet_bytes: u32) -> io::Result<()> {
        self.socket.send(&self.flow_of(number), TTL, probe_key(number), packet_bytes)?;
        self.sent_numbers.push(number);
        Ok(())
    }

    fn wait(&mut self, time: Duration) -> io::Result<()> {
        self.socket.wait(time)
    }

    fn receive(&mut self) -> io::Result<Vec<EchoEvent>> {
        let mut events = Vec::new();
        for _ in 0..MAX_MESSAGES {
            let Some(arrival) = self.socket.receive()? else {
                break;
            };
            events.extend(self.classify_arrival(&arrival));
        }
        Ok(events)
    }
}

/// Returns the number of the last packet sent with this key; `latest` is the last packet of all.
fn recover_probe_number(key: u16, latest: u32) -> Option<u32> {
    let keys = u32::from(KEYS);
    let residue = u32::from(key).checked_sub(1).filter(|residue| *residue < keys)?;
    let back = (latest % keys + keys - residue) % keys;
    latest.checked_sub(back)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::probe_packet::probe_key;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_key_leads_back_to_the_number_it_was_made_of(latest in 0_u32..200_000, back in 0_u32..65_534) {
            let number = latest.saturating_sub(back);
            prop_assert_eq!(recover_probe_number(probe_key(number), latest), Some(number));
        }

        #[test]
        fn a_key_that_was_never_sent_leads_nowhere(latest in 0_u32..1000, ahead in 1_u32..1000) {
            prop_assert_eq!(recover_probe_number(probe_key(latest + ahead), latest), None);
        }
    }

    #[test]
    fn keys_that_no_packet_has_lead_nowhere() {
        assert_eq!(recover_probe_number(0, 10), None);
        assert_eq!(recover_probe_number(u16::MAX, 70_000), None);
    }
}
