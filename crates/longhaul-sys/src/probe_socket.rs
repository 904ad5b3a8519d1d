//! Sockets for path measurements: ICMP, UDP and raw IP packets, with routers' ICMP errors, kernel
//! timestamps and the TTL of received packets.
//!
//! | socket | requires | receives |
//! | --- | --- | --- |
//! | [`ProbeSocket::raw_packets`] | `CAP_NET_RAW` | nothing: it sends IP packets with their headers |
//! | [`ProbeSocket::all_icmp`] | `CAP_NET_RAW` | all ICMP messages of this network namespace |
//! | [`ProbeSocket::all_tcp`] | `CAP_NET_RAW` | TCP segments to certain ports |
//! | [`ProbeSocket::ping`] | a group in `net.ipv4.ping_group_range` | echo replies, errors |
//! | [`ProbeSocket::udp`] | nothing | datagrams, errors |
//!
//! Every socket is non-blocking: wait with [`crate::poll::wait_readable`], which also returns for
//! entries in the error queue. Sources: raw(7), ip(7), ipv6(7), icmp(7), `linux/errqueue.h`, RFC
//! 4884.

mod probe_socket_message;

pub(crate) use probe_socket_message::read_queued_icmp;
pub use probe_socket_message::{ErrorQueueEntry, ProbeArrival, QueuedIcmpInfo};

use crate::sockopt::{self, set_option};
use crate::udp_batch;
use socket2::{Domain, Protocol, SockFilter, SockRef, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd};

/// `linux/in.h`, `linux/in6.h`: report the offset of RFC 4884 extensions with errors.
const IP_RECVERR_RFC4884: i32 = 26;
const IPV6_RECVERR_RFC4884: i32 = 31;
/// Receive buffer for answers: some hundred small packets.
const RECEIVE_ROOM: usize = 512 * 1024;

/// Address family of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IpFamily {
    V4,
    V6,
}

impl IpFamily {
    pub const fn of_address(address: IpAddr) -> IpFamily {
        match address {
            IpAddr::V4(_) => IpFamily::V4,
            IpAddr::V6(_) => IpFamily::V6,
        }
    }

    const fn icmp(self) -> Protocol {
        match self {
            IpFamily::V4 => Protocol::ICMPV4,
            IpFamily::V6 => Protocol::ICMPV6,
        }
    }

    const fn domain(self) -> Domain {
        match self {
            IpFamily::V4 => Domain::IPV4,
            IpFamily::V6 => Domain::IPV6,
        }
    }
}

/// Returns whether a packet exceeded the interface's MTU or the known path MTU (EMSGSIZE).
pub fn is_too_long(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EMSGSIZE)
}

/// Turns the error queue of a socket on or off.
pub(crate) fn set_error_queue(socket: &Socket, is_ipv6: bool, on: bool) -> io::Result<()> {
    let (level, option) = if is_ipv6 {
        (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)
    } else {
        (libc::IPPROTO_IP, libc::IP_RECVERR)
    };
    set_option(socket, level, option, i32::from(on))
}

/// A socket for probes; see the table above.
#[derive(Debug)]
pub struct ProbeSocket {
    socket: Socket,
    family: IpFamily,
}

impl AsFd for ProbeSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl ProbeSocket {
    fn open(family: IpFamily, kind: Type, protocol: Protocol) -> io::Result<ProbeSocket> {
        let socket = Socket::new(family.domain(), kind, Some(protocol))?;
        socket.set_nonblocking(true)?;
        Ok(ProbeSocket { socket, family })
    }

    fn with_receive_options(self) -> io::Result<ProbeSocket> {
        // A smaller buffer than requested may only lose answers in a burst.
        let _ = SockRef::from(&self.socket).set_recv_buffer_size(RECEIVE_ROOM);
        sockopt::set_receive_timestamps(&self.socket)?;
        udp_batch::set_receive_hop_limit(&self.socket, self.family)?;
        Ok(self)
    }

    fn with_error_queue(self) -> io::Result<ProbeSocket> {
        let it = self.with_receive_options()?;
        set_error_queue(&it.socket, it.family == IpFamily::V6, true)?;
        // Kernels before Linux 5.9 do not report the extensions of a queued error.
        let _ = it.enable_for_family(
            (libc::IPPROTO_IP, IP_RECVERR_RFC4884),
            (libc::IPPROTO_IPV6, IPV6_RECVERR_RFC4884),
        );
        Ok(it)
    }

    /// Opens a socket that sends complete IP packets (`send` with port 0). The kernel fills in the
    /// IPv4 length and header checksum. Receives nothing.
    ///
    /// # Errors
    /// `PermissionDenied` without `CAP_NET_RAW`.
    pub fn raw_packets(family: IpFamily) -> io::Result<ProbeSocket> {
        ProbeSocket::open(family, Type::RAW, Protocol::from(libc::IPPROTO_RAW))
    }

    /// Opens a socket that receives echo replies, unreachables, "too big", time exceeded and
    /// parameter problems of this network namespace, for any program's packets. IPv4 messages
    /// include their IP header, IPv6 ones do not. Sends ICMP messages without an IP header.
    ///
    /// # Errors
    /// `PermissionDenied` without `CAP_NET_RAW`.
    pub fn all_icmp(family: IpFamily) -> io::Result<ProbeSocket> {
        let it = ProbeSocket::open(family, Type::RAW, family.icmp())?.with_receive_options()?;
        filter_icmp_answers(&it.socket, family)?;
        Ok(it)
    }

    /// Opens a socket that receives TCP segments to these ports of this host, whether in use or
    /// not. IPv4 segments include their IP header, IPv6 ones do not.
    ///
    /// # Errors
    /// `PermissionDenied` without `CAP_NET_RAW`.
    pub fn all_tcp(family: IpFamily, ports: RangeInclusive<u16>) -> io::Result<ProbeSocket> {
        let it = ProbeSocket::open(family, Type::RAW, Protocol::TCP)?;
        // Attach the filter first, so that no segments of other ports are queued.
        filter_tcp_ports(&it.socket, family, &ports)?;
        it.with_receive_options()
    }

    /// Opens a socket that sends echo requests and receives their replies and errors. The kernel
    /// sets identifier (the local port) and checksum.
    ///
    /// # Errors
    /// `PermissionDenied` outside of `net.ipv4.ping_group_range`.
    pub fn ping(family: IpFamily) -> io::Result<ProbeSocket> {
        ProbeSocket::open(family, Type::DGRAM, family.icmp())?.with_error_queue()
    }

    /// Opens a socket that sends and receives datagrams, and receives errors. Needs no privileges.
    pub fn udp(family: IpFamily) -> io::Result<ProbeSocket> {
        ProbeSocket::open(family, Type::DGRAM, Protocol::UDP)?.with_error_queue()
    }

    /// Opens a TCP socket that only reserves a port once it is bound, so that no other program gets
    /// it.
    pub fn tcp_port(family: IpFamily) -> io::Result<ProbeSocket> {
        ProbeSocket::open(family, Type::STREAM, Protocol::TCP)
    }

    /// Opens a socket for a service that answers with [`ProbeSocket::answer`]. An IPv6 socket
    /// receives no IPv4. Datagrams leave with this TTL or hop limit.
    pub fn udp_service(family: IpFamily, ttl: u8) -> io::Result<ProbeSocket> {
        let it = ProbeSocket::open(family, Type::DGRAM, Protocol::UDP)?.with_receive_options()?;
        it.set_ttl(ttl)?;
        if family == IpFamily::V6 {
            it.socket.set_only_v6(true)?;
            it.socket.set_recv_tclass_v6(true)?;
        } else {
            it.socket.set_recv_tos_v4(true)?;
        }
        it.enable_for_family(
            (libc::IPPROTO_IP, libc::IP_PKTINFO),
            (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
        )?;
        Ok(it)
    }

    /// Sets the TTL or hop limit of packets that are sent without one of their own.
    pub fn set_ttl(&self, ttl: u8) -> io::Result<()> {
        match self.family {
            IpFamily::V4 => self.socket.set_ttl_v4(ttl.into()),
            IpFamily::V6 => self.socket.set_unicast_hops_v6(ttl.into()),
        }
    }

    /// Sets the source address; port 0 lets the kernel choose.
    pub fn bind(&self, source: SocketAddr) -> io::Result<()> {
        self.socket.bind(&source.into())
    }

    /// Binds the socket to one interface (SO_BINDTODEVICE).
    pub fn bind_device(&self, name: &str) -> io::Result<()> {
        SockRef::from(&self.socket).bind_device(Some(name.as_bytes()))
    }

    /// Sets the default destination and receives only from it. Errors from routers are still
    /// received.
    pub fn connect(&self, to: SocketAddr) -> io::Result<()> {
        self.socket.connect(&to.into())
    }

    /// Returns the local address and port; the port of a ping socket is its echo identifier.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        let not_ip = || io::Error::from(io::ErrorKind::AddrNotAvailable);
        self.socket.local_addr()?.as_socket().ok_or_else(not_ip)
    }

    /// Forbids fragmentation, and ignores the kernel's path MTU (`IP_PMTUDISC_PROBE`, ip(7)).
    pub fn forbid_fragmentation(&self) -> io::Result<()> {
        if self.family == IpFamily::V6 {
            self.set(libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG, 1)?;
        }
        udp_batch::forbid_fragmentation(&self.socket, self.family)
    }

    /// Enables transmit timestamps in the error queue, as [`ErrorQueueEntry::Sent`], numbered from 0 in
    /// sending order since this call. Some interfaces provide none.
    pub fn enable_transmit_timestamps(&self) -> io::Result<()> {
        let flags = libc::SOF_TIMESTAMPING_TX_SOFTWARE
            | libc::SOF_TIMESTAMPING_SOFTWARE
            | libc::SOF_TIMESTAMPING_OPT_ID
            | libc::SOF_TIMESTAMPING_OPT_TSONLY;
        self.set(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, flags as i32)
    }

    fn enable_for_family(&self, v4: (i32, i32), v6: (i32, i32)) -> io::Result<()> {
        let (level, option) = match self.family {
            IpFamily::V4 => v4,
            IpFamily::V6 => v6,
        };
        self.set(level, option, 1)
    }

    fn set(&self, level: i32, option: i32, value: i32) -> io::Result<()> {
        sockopt::set_option(&self.socket, level, option, value)
    }
}

/// `linux/icmp.h`.
const ICMP_FILTER: i32 = 1;
/// `linux/icmpv6.h`.
const ICMPV6_FILTER: i32 = 1;
/// Echo reply, destination unreachable, time exceeded, parameter problem.
const ANSWERS_V4: [u8; 4] = [0, 3, 11, 12];
/// Destination unreachable, packet too big, time exceeded, parameter problem, echo reply.
const ANSWERS_V6: [u8; 5] = [1, 2, 3, 4, 129];

/// Passes only ICMP messages that answer a probe.
fn filter_icmp_answers(socket: &Socket, family: IpFamily) -> io::Result<()> {
    // A set bit blocks the type.
    match family {
        IpFamily::V4 => {
            let passed = ANSWERS_V4.iter().fold(0_u32, |bits, kind| bits | 1 << kind);
            set_option(socket, libc::SOL_RAW, ICMP_FILTER, !passed)
        }
        IpFamily::V6 => {
            let mut blocked = [u32::MAX; 8];
            for kind in ANSWERS_V6 {
                blocked[usize::from(kind / 32)] &= !(1 << (kind % 32));
            }
            set_option(socket, libc::IPPROTO_ICMPV6, ICMPV6_FILTER, blocked)
        }
    }
}

/// Passes only TCP segments to these ports, with a classic BPF program: a raw IPv4 socket gets
/// packets from the IP header on, an IPv6 one from the TCP header on.
fn filter_tcp_ports(
    socket: &Socket,
    family: IpFamily,
    ports: &RangeInclusive<u16>,
) -> io::Result<()> {
    // BPF_LDX|BPF_B|BPF_MSH: X = 4 * (packet[0] & 15); BPF_LD|BPF_H|BPF_IND and |BPF_ABS;
    // BPF_JMP|BPF_JGE|BPF_K and |BPF_JGT; BPF_RET|BPF_K (linux/filter.h).
    let mut program = match family {
        IpFamily::V4 => vec![bpf_step(0xb1, 0, 0, 0), bpf_step(0x48, 0, 0, 2)],
        IpFamily::V6 => vec![bpf_step(0x28, 0, 0, 2)],
    };
    program.extend([
        bpf_step(0x35, 0, 2, u32::from(*ports.start())),
        bpf_step(0x25, 1, 0, u32::from(*ports.end())),
        bpf_step(0x06, 0, 0, u32::MAX),
        bpf_step(0x06, 0, 0, 0),
    ]);
    socket.attach_filter(&program)
}

const fn bpf_step(code: u16, jt: u8, jf: u8, k: u32) -> SockFilter {
    SockFilter::new(code, jt, jf, k)
}

#[cfg(test)]
mod tests;
