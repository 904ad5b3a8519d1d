//! Sends packets with their own TTL, and receives messages with all kernel metadata.

use super::{IpFamily, ProbeSocket};
use crate::syscall::ControlSpace;
use nix::errno::Errno;
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, RecvMsg, SockaddrStorage, recvmsg, sendmsg,
};
use socket2::Socket;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Space for time, TTL and an error with its sender.
const CONTROL_BYTES: usize = 512;
/// `linux/errqueue.h`: the extensions of the error are truncated.
const EXTENSIONS_INVALID: u8 = 1;

/// A received message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeArrival {
    /// Length in the buffer: of the message; for an error, of the quoted packet after its transport
    /// header (for a ping socket from its ICMP header on).
    pub bytes: usize,
    /// Its sender; for an error, the destination of the quoted packet.
    pub from: Option<SocketAddr>,
    /// Kernel receive timestamp, wall clock since 1970.
    pub at: Option<Duration>,
    /// TTL or hop limit on arrival.
    pub ttl: Option<u8>,
    /// The address of this host to which it was sent; only on a [`ProbeSocket::udp_service`].
    pub to: Option<IpAddr>,
    /// Type of service or traffic class; only on a [`ProbeSocket::udp_service`].
    pub traffic_class: Option<u8>,
    /// Present if it came from the error queue.
    pub queued: Option<ErrorQueueEntry>,
}

/// An entry of the error queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorQueueEntry {
    /// A router or the destination sent an ICMP error about one of our packets.
    Icmp(QueuedIcmpInfo),
    /// The packet of this number was transmitted, at the time of the arrival.
    Sent { number: u32 },
    /// Anything else, such as a packet that this host rejected.
    Other,
}

/// An ICMP error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuedIcmpInfo {
    /// Type and code, of ICMP or ICMPv6 depending on the socket's family.
    pub kind: u8,
    pub code: u8,
    /// MTU of a "packet too big" error.
    pub info: u32,
    pub reported_by: Option<IpAddr>,
    /// Offset of the RFC 4884 extensions.
    pub extensions_at: Option<usize>,
}

impl ProbeSocket {
    /// Sends one packet, with this TTL or the socket's default. Ignores an older ICMP error that
    /// the kernel returns instead of sending; the error queue contains it as well.
    ///
    /// # Errors
    /// `WouldBlock` if the socket's queue is full; EMSGSIZE for packets that must not be
    /// fragmented.
    pub fn send(&self, packet: &[u8], to: Option<SocketAddr>, ttl: Option<u8>) -> io::Result<()> {
        match self.send_once(packet, to, ttl) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                self.send_once(packet, to, ttl)
            }
            sent => sent,
        }
    }

    fn send_once(&self, packet: &[u8], to: Option<SocketAddr>, ttl: Option<u8>) -> io::Result<()> {
        let to = to.map(SockaddrStorage::from);
        let ttl = ttl.map(i32::from);
        let control = ttl.as_ref().map(|ttl| match self.family {
            IpFamily::V4 => ControlMessage::Ipv4Ttl(ttl),
            IpFamily::V6 => ControlMessage::Ipv6HopLimit(ttl),
        });
        let (raw, part) = (self.socket.as_raw_fd(), [IoSlice::new(packet)]);
        sendmsg(raw, &part, control.as_slice(), MsgFlags::empty(), to.as_ref())?;
        Ok(())
    }

    /// Answers a packet of a [`ProbeSocket::udp_service`]: from the address to which it was sent,
    /// with its DSCP.
    pub fn answer(&self, packet: &[u8], request: &ProbeArrival) -> io::Result<()> {
        let Some(to) = request.from else {
            return Err(io::ErrorKind::AddrNotAvailable.into());
        };
        // The kernel chooses the interface by the routes (index 0).
        let (v4, v6);
        let source = match request.to {
            Some(IpAddr::V4(own)) => {
                let own = libc::in_addr { s_addr: u32::from(own).to_be() };
                v4 = libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: own, ipi_addr: own };
                Some(ControlMessage::Ipv4PacketInfo(&v4))
            }
            Some(IpAddr::V6(own)) => {
                let own = libc::in6_addr { s6_addr: own.octets() };
                v6 = libc::in6_pktinfo { ipi6_ifindex: 0, ipi6_addr: own };
                Some(ControlMessage::Ipv6PacketInfo(&v6))
            }
            None => None,
        };
        // The lower two bits belong to the network (ECN).
        let class = request.traffic_class.unwrap_or(0) & !3;
        let class_v6 = i32::from(class);
        let class = match self.family {
            IpFamily::V4 => ControlMessage::Ipv4Tos(&class),
            IpFamily::V6 => ControlMessage::Ipv6TClass(&class_v6),
        };
        let control: Vec<_> = source.into_iter().chain([class]).collect();
        let (raw, part) = (self.socket.as_raw_fd(), [IoSlice::new(packet)]);
        let to = SockaddrStorage::from(to);
        sendmsg(raw, &part, &control, MsgFlags::empty(), Some(&to))?;
        Ok(())
    }

    /// Returns the next message, from the error queue first, then from the receive queue; `None` if
    /// there is none.
    pub fn receive(&self, into: &mut [u8]) -> io::Result<Option<ProbeArrival>> {
        if let Some(queued) = self.receive_from(into, MsgFlags::MSG_ERRQUEUE)? {
            return Ok(Some(queued));
        }
        match self.receive_from(into, MsgFlags::empty()) {
            // A pending error is reported here too; only the error queue has its details.
            Err(error) if is_path_error(&error) => self.receive_from(into, MsgFlags::MSG_ERRQUEUE),
            arrival => arrival,
        }
    }

    fn receive_from(&self, into: &mut [u8], flags: MsgFlags) -> io::Result<Option<ProbeArrival>> {
        receive_message(&self.socket, into, flags)
    }
}

fn receive_message(
    socket: &Socket,
    into: &mut [u8],
    flags: MsgFlags,
) -> io::Result<Option<ProbeArrival>> {
    let (raw, mut part) = (socket.as_raw_fd(), [IoSliceMut::new(into)]);
    let mut control = ControlSpace([0; CONTROL_BYTES]);
    match recvmsg(raw, &mut part, Some(&mut control.0), flags) {
        Err(Errno::EAGAIN) => Ok(None),
        Err(error) => Err(error.into()),
        Ok(message) => Ok(Some(parse_arrival(&message)?)),
    }
}

/// Returns the first ICMP error in the error queue of a socket, if there is one.
pub(crate) fn read_queued_icmp(socket: &Socket) -> Option<QueuedIcmpInfo> {
    match receive_message(socket, &mut [0; 64], MsgFlags::MSG_ERRQUEUE).ok()??.queued? {
        ErrorQueueEntry::Icmp(icmp) => Some(icmp),
        _ => None,
    }
}

/// Returns whether an error concerns an earlier packet on the path, not this call.
fn is_path_error(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable, PermissionDenied};
    let of_path = [libc::EMSGSIZE, libc::EPROTO, libc::EOPNOTSUPP, libc::ENOPROTOOPT];
    matches!(
        error.kind(),
        ConnectionRefused | HostUnreachable | NetworkUnreachable | PermissionDenied
    ) || error.raw_os_error().is_some_and(|code| {
        of_path.contains(&code) || code == libc::EHOSTDOWN || code == libc::ENONET
    })
}

fn parse_arrival(message: &RecvMsg<'_, '_, SockaddrStorage>) -> io::Result<ProbeArrival> {
    let mut arrival = ProbeArrival {
        bytes: message.bytes,
        from: None,
        at: None,
        ttl: None,
        to: None,
        traffic_class: None,
        queued: None,
    };
    for control in message.cmsgs()? {
        match control {
            ControlMessageOwned::ScmTimestampns(time) => arrival.at = Some(time.into()),
            // The first of the three times is the kernel's; it is zero if there is none.
            ControlMessageOwned::ScmTimestampsns(times) => {
                let time = Some(Duration::from(times.system)).filter(|time| !time.is_zero());
                arrival.at = arrival.at.or(time);
            }
            ControlMessageOwned::Ipv4Ttl(ttl) | ControlMessageOwned::Ipv6HopLimit(ttl) => {
                arrival.ttl = u8::try_from(ttl).ok();
            }
            ControlMessageOwned::Ipv4PacketInfo(info) => {
                arrival.to = Some(Ipv4Addr::from(u32::from_be(info.ipi_addr.s_addr)).into());
            }
            ControlMessageOwned::Ipv6PacketInfo(info) => {
                arrival.to = Some(Ipv6Addr::from(info.ipi6_addr.s6_addr).into());
            }
            ControlMessageOwned::Ipv4Tos(class) => arrival.traffic_class = Some(class),
            ControlMessageOwned::Ipv6TClass(class) => {
                arrival.traffic_class = u8::try_from(class).ok();
            }
            ControlMessageOwned::Ipv4RecvErr(error, by) => {
                let by = by.map(|by| Ipv4Addr::from(u32::from_be(by.sin_addr.s_addr)).into());
                arrival.queued = Some(parse_error_queue_entry(&error, by));
            }
            ControlMessageOwned::Ipv6RecvErr(error, by) => {
                let by = by.map(|by| Ipv6Addr::from(by.sin6_addr.s6_addr).into());
                arrival.queued = Some(parse_error_queue_entry(&error, by));
            }
            _ => {}
        }
    }
    // The kernel gives no address for these, and nix then leaves it undefined.
    let unnamed =
        matches!(arrival.queued, Some(ErrorQueueEntry::Sent { .. } | ErrorQueueEntry::Other));
    if !unnamed {
        arrival.from = message.address.as_ref().and_then(parse_address);
    }
    Ok(arrival)
}

fn parse_error_queue_entry(
    error: &libc::sock_extended_err,
    reported_by: Option<IpAddr>,
) -> ErrorQueueEntry {
    match error.ee_origin {
        libc::SO_EE_ORIGIN_ICMP | libc::SO_EE_ORIGIN_ICMP6 => {
            // ee_data holds struct sock_ee_data_rfc4884: a length of 16 bits, flags of 8.
            let [low, high, flags, _] = error.ee_data.to_ne_bytes();
            let length = usize::from(u16::from_ne_bytes([low, high]));
            ErrorQueueEntry::Icmp(QueuedIcmpInfo {
                kind: error.ee_type,
                code: error.ee_code,
                info: error.ee_info,
                reported_by: reported_by.filter(|address| !address.is_unspecified()),
                extensions_at: (length > 0 && flags & EXTENSIONS_INVALID == 0).then_some(length),
            })
        }
        libc::SO_EE_ORIGIN_TIMESTAMPING => ErrorQueueEntry::Sent { number: error.ee_data },
        _ => ErrorQueueEntry::Other,
    }
}

fn parse_address(address: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = address.as_sockaddr_in().map(|address| SocketAddr::from(*address));
    v4.or_else(|| address.as_sockaddr_in6().map(|address| SocketAddr::from(*address)))
}
