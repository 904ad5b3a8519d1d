//! Sockets for looking at a path: ICMP, UDP and whole IP packets of our own making, with the
//! errors that routers send back, the kernel's receive times and the TTL of what arrives.
//!
//! | socket | needs | hears |
//! | --- | --- | --- |
//! | [`ProbeSocket::packets`] | `CAP_NET_RAW` | nothing: it sends IP packets with their headers |
//! | [`ProbeSocket::all_icmp`] | `CAP_NET_RAW` | all ICMP that comes to this network namespace |
//! | [`ProbeSocket::all_tcp`] | `CAP_NET_RAW` | TCP segments that come to some ports |
//! | [`ProbeSocket::ping`] | a group in `net.ipv4.ping_group_range` | echo replies, errors |
//! | [`ProbeSocket::udp`] | nothing | datagrams, errors |
//!
//! Every socket is non-blocking: wait with [`crate::poll::readable`], which also wakes for what
//! stands in the error queue. Sources: raw(7), ip(7), ipv6(7), icmp(7), `linux/errqueue.h`, RFC
//! 4884.

mod filter;
mod message;

pub use message::{Arrival, Queued, Trouble};

use crate::sockopt;
use crate::syscall::status;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// `linux/in.h`, `linux/in6.h`: with errors, where in them the RFC 4884 extensions stand.
const IP_RECVERR_RFC4884: i32 = 26;
const IPV6_RECVERR_RFC4884: i32 = 31;
/// `linux/in6.h`: the flow label of an address that is sent to is used.
const IPV6_FLOWINFO_SEND: i32 = 33;
/// `linux/in6.h`: nothing is fragmented on this host.
const IPV6_DONTFRAG: i32 = 62;
/// Room for answers while nobody reads: some hundred small packets.
const RECEIVE_ROOM: usize = 512 * 1024;

/// Of which addresses a socket is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    V4,
    V6,
}

impl Family {
    pub const fn of(address: IpAddr) -> Family {
        match address {
            IpAddr::V4(_) => Family::V4,
            IpAddr::V6(_) => Family::V6,
        }
    }

    const fn domain(self) -> Domain {
        match self {
            Family::V4 => Domain::IPV4,
            Family::V6 => Domain::IPV6,
        }
    }
}

/// What this host does with a packet that is larger than the path's MTU as it knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fragments {
    /// Cuts it where that is allowed.
    Allowed,
    /// Refuses it, with [`io::ErrorKind`] of EMSGSIZE, as soon as a router has told a smaller MTU.
    Never,
    /// Sends it uncut whatever was learned before, up to the MTU of the interface.
    NeverAndForget,
}

/// The packet does not fit the interface, or the path as the kernel knows it (EMSGSIZE).
pub fn is_too_long(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EMSGSIZE)
}

/// One socket of a probing; see the table above.
#[derive(Debug)]
pub struct ProbeSocket {
    socket: Socket,
    family: Family,
}

impl AsFd for ProbeSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl ProbeSocket {
    fn open(family: Family, kind: Type, protocol: Protocol) -> io::Result<ProbeSocket> {
        let socket = Socket::new(family.domain(), kind, Some(protocol))?;
        socket.set_nonblocking(true)?;
        Ok(ProbeSocket { socket, family })
    }

    fn hearing(self) -> io::Result<ProbeSocket> {
        // A smaller buffer than asked loses answers in a burst at worst.
        let _ = sockopt::set_receive_buffer(&self.socket, RECEIVE_ROOM);
        sockopt::set_receive_timestamps(&self.socket)?;
        self.switch(
            (libc::IPPROTO_IP, libc::IP_RECVTTL),
            (libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT),
            1,
        )?;
        Ok(self)
    }

    fn hearing_errors(self) -> io::Result<ProbeSocket> {
        let it = self.hearing()?;
        it.switch(
            (libc::IPPROTO_IP, libc::IP_RECVERR),
            (libc::IPPROTO_IPV6, libc::IPV6_RECVERR),
            1,
        )?;
        // Before Linux 5.9 extensions of a queued error stay undecoded.
        let _ = it.switch(
            (libc::IPPROTO_IP, IP_RECVERR_RFC4884),
            (libc::IPPROTO_IPV6, IPV6_RECVERR_RFC4884),
            1,
        );
        Ok(it)
    }

    /// Sends IP packets that are whole, with their IP header (`send` with port 0). The kernel
    /// fills the IPv4 length and header checksum. Hears nothing.
    ///
    /// # Errors
    /// `PermissionDenied` without `CAP_NET_RAW`.
    pub fn packets(family: Family) -> io::Result<ProbeSocket> {
        ProbeSocket::open(family, Type::RAW, Protocol::from(libc::IPPROTO_RAW))
    }

    /// Hears echo replies, unreachables, "too big", time exceeded and parameter problems of this
    /// network namespace, of any program's packets. IPv4 messages come with their IP header, IPv6
    /// ones without. Sends ICMP messages without an IP header.
    ///
    /// # Errors
    /// `PermissionDenied` without `CAP_NET_RAW`.
    pub fn all_icmp(family: Family) -> io::Result<ProbeSocket> {
        let protocol = match family {
            Family::V4 => Protocol::ICMPV4,
            Family::V6 => Protocol::ICMPV6,
        };
        let it = ProbeSocket::open(family, Type::RAW, protocol)?.hearing()?;
        filter::answers_only(&it.socket, family)?;
        Ok(it)
    }

    /// Hears the TCP segments that come to these ports of this host, whether a socket has them or
    /// not. IPv4 segments come with their IP header, IPv6 ones without.
    ///
    /// # Errors
    /// `PermissionDenied` without `CAP_NET_RAW`.
    pub fn all_tcp(family: Family, ports: RangeInclusive<u16>) -> io::Result<ProbeSocket> {
        let it = ProbeSocket::open(family, Type::RAW, Protocol::TCP)?;
        // First the filter: nothing of other ports may come in between.
        filter::tcp_ports_only(&it.socket, family, &ports)?;
        it.hearing()
    }

    /// Sends echo requests and hears their replies and the errors about them. The kernel sets
    /// identifier (the local port) and checksum.
    ///
    /// # Errors
    /// `PermissionDenied` outside of `net.ipv4.ping_group_range`.
    pub fn ping(family: Family) -> io::Result<ProbeSocket> {
        let protocol = match family {
            Family::V4 => Protocol::ICMPV4,
            Family::V6 => Protocol::ICMPV6,
        };
        ProbeSocket::open(family, Type::DGRAM, protocol)?.hearing_errors()
    }

    /// Sends datagrams and hears what comes back, and the errors about them. Needs no privilege.
    pub fn udp(family: Family) -> io::Result<ProbeSocket> {
        ProbeSocket::open(family, Type::DGRAM, Protocol::UDP)?.hearing_errors()
    }

    /// A TCP socket that does nothing but hold a port once it is bound, so that no other program
    /// gets it.
    pub fn tcp_port(family: Family) -> io::Result<ProbeSocket> {
        ProbeSocket::open(family, Type::STREAM, Protocol::TCP)
    }

    pub fn family(&self) -> Family {
        self.family
    }

    /// Sends from this address; port 0 lets the kernel choose.
    pub fn bind(&self, source: SocketAddr) -> io::Result<()> {
        self.socket.bind(&source.into())
    }

    /// Keeps the socket on one interface (SO_BINDTODEVICE).
    pub fn bind_device(&self, name: &str) -> io::Result<()> {
        sockopt::bind_device(&self.socket, name)
    }

    /// Sends to this address when none is given, and hears only from there. Errors from routers
    /// on the way are heard all the same.
    pub fn connect(&self, to: SocketAddr) -> io::Result<()> {
        self.socket.connect(&to.into())
    }

    /// Own address and port; the port of a ping socket is its echo identifier.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        let not_ip = || io::Error::from(io::ErrorKind::AddrNotAvailable);
        self.socket.local_addr()?.as_socket().ok_or_else(not_ip)
    }

    /// TTL or hop limit of what is sent without its own.
    pub fn set_ttl(&self, ttl: u8) -> io::Result<()> {
        let ttl = u32::from(ttl);
        match self.family {
            Family::V4 => self.socket.set_ttl_v4(ttl),
            Family::V6 => self.socket.set_unicast_hops_v6(ttl),
        }
    }

    /// Type of service or traffic class, all eight bits.
    pub fn set_traffic_class(&self, class: u8) -> io::Result<()> {
        match self.family {
            Family::V4 => self.socket.set_tos_v4(u32::from(class)),
            Family::V6 => self.socket.set_tclass_v6(u32::from(class)),
        }
    }

    /// The flow label in the address of [`ProbeSocket::send`] and [`ProbeSocket::connect`] is
    /// used, in the byte order of the network; IPv6 only.
    pub fn use_flow_labels(&self) -> io::Result<()> {
        self.set(libc::IPPROTO_IPV6, IPV6_FLOWINFO_SEND, 1)
    }

    /// What happens to packets beyond the path's MTU.
    pub fn set_fragments(&self, fragments: Fragments) -> io::Result<()> {
        let value = match fragments {
            Fragments::Allowed => libc::IP_PMTUDISC_DONT,
            Fragments::Never => libc::IP_PMTUDISC_DO,
            Fragments::NeverAndForget => libc::IP_PMTUDISC_PROBE,
        };
        if self.family == Family::V6 {
            let on = i32::from(fragments != Fragments::Allowed);
            self.set(libc::IPPROTO_IPV6, IPV6_DONTFRAG, on)?;
        }
        self.switch(
            (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER),
            (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER),
            value,
        )
    }

    /// The kernel tells when each packet left, in the error queue, as [`Queued::Sent`]: numbered
    /// from 0 in the order of sending since this call. Interfaces without such times are silent.
    pub fn tell_send_times(&self) -> io::Result<()> {
        let flags = libc::SOF_TIMESTAMPING_TX_SOFTWARE
            | libc::SOF_TIMESTAMPING_SOFTWARE
            | libc::SOF_TIMESTAMPING_OPT_ID
            | libc::SOF_TIMESTAMPING_OPT_TSONLY;
        self.set(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, flags as i32)
    }

    fn switch(&self, v4: (i32, i32), v6: (i32, i32), value: i32) -> io::Result<()> {
        let (level, option) = match self.family {
            Family::V4 => v4,
            Family::V6 => v6,
        };
        self.set(level, option, value)
    }

    fn set(&self, level: i32, option: i32, value: i32) -> io::Result<()> {
        let raw = self.socket.as_raw_fd();
        let length = size_of_val(&value) as libc::socklen_t;
        // SAFETY: `value` lives for the call and its length is passed with it.
        status(unsafe { libc::setsockopt(raw, level, option, (&raw const value).cast(), length) })
    }
}

#[cfg(test)]
mod tests;
