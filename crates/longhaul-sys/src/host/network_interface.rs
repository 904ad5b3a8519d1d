//! Network interfaces: their addresses, MTU and counters.
//!
//! Source: getifaddrs(3), SIOCGIFMTU, `/proc/net/dev`; of the calling thread's network namespace,
//! unlike `/sys/class/net`.

use super::KernelCounters;
use crate::netlink::{NetlinkSocket, interface_index};
use crate::syscall::check_status;
use nix::ifaddrs::getifaddrs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::AsRawFd;

/// Lists every address of every interface, with the interface's name.
pub fn list_addresses() -> io::Result<Vec<(String, IpAddr)>> {
    let found = getifaddrs()?.filter_map(|entry| {
        let address = entry.address?;
        let v4 = address.as_sockaddr_in().map(|it| IpAddr::from(it.ip()));
        let v6 = address.as_sockaddr_in6().map(|it| IpAddr::from(it.ip()));
        Some((entry.interface_name, v4.or(v6)?))
    });
    Ok(found.collect())
}

/// Returns the interface used by traffic from `local` to `peer`: the one with `local`, or loopback
/// if `peer` is also an address of this host.
pub fn interface_between(local: IpAddr, peer: IpAddr) -> Option<String> {
    let (local, peer) = (local.to_canonical(), peer.to_canonical());
    let all = list_addresses().ok()?;
    let holder = |wanted: IpAddr| {
        all.iter().find(|(_, address)| *address == wanted).map(|(name, _)| name.clone())
    };
    if local.is_loopback() || holder(peer).is_some() {
        return holder(Ipv4Addr::LOCALHOST.into()).or_else(|| holder(local));
    }
    holder(local)
}

/// Builds a request for an interface; `None` if the name is too long.
pub(super) fn build_ifreq(name: &str) -> Option<libc::ifreq> {
    // SAFETY: an all-zero ifreq has an empty name.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let room = request.ifr_name.len() - 1;
    if name.len() > room {
        return None;
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as _;
    }
    Some(request)
}

/// Opens any socket of the namespace, as needed for interface ioctls.
pub(crate) fn open_any_socket() -> Option<UdpSocket> {
    UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))
        .or_else(|_| UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)))
        .ok()
}

/// Returns the interface's MTU.
pub fn mtu_bytes(name: &str) -> Option<u32> {
    let request = query_interface(name, libc::SIOCGIFMTU).ok()?;
    // SAFETY: on success the kernel has set this member.
    u32::try_from(unsafe { request.ifr_ifru.ifru_mtu }).ok()
}

/// Executes an ioctl that reads a property of an interface.
fn query_interface(name: &str, what: libc::Ioctl) -> io::Result<libc::ifreq> {
    let mut request = build_ifreq(name).ok_or(io::ErrorKind::InvalidInput)?;
    let socket = open_any_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
    // SAFETY: the request lives for the call and names an interface; the requests of this file
    // read and write nothing beyond it.
    check_status(unsafe { libc::ioctl(socket.as_raw_fd(), what, &raw mut request) })?;
    Ok(request)
}

/// Sets the interface's MTU.
///
/// # Errors
/// `PermissionDenied` without `CAP_NET_ADMIN`, `InvalidInput` beyond the device's limit.
pub fn set_mtu(name: &str, bytes: u32) -> io::Result<()> {
    NetlinkSocket::open()?.set_number(interface_index(name)?, libc::IFLA_MTU, bytes)
}

/// Returns the transmit queue length in packets, which some queueing disciplines use.
pub fn transmit_queue_packets(name: &str) -> io::Result<u32> {
    let request = query_interface(name, libc::SIOCGIFTXQLEN)?;
    // SAFETY: the kernel has set an int at the place of this member, which is an int.
    Ok(unsafe { request.ifr_ifru.ifru_mtu }.unsigned_abs())
}

/// Returns whether the device is up and has a carrier.
pub fn has_carrier(name: &str) -> io::Result<bool> {
    let request = query_interface(name, libc::SIOCGIFFLAGS)?;
    // SAFETY: on success the kernel has set this member.
    let flags = i32::from(unsafe { request.ifr_ifru.ifru_flags });
    Ok(flags & libc::IFF_RUNNING != 0)
}

/// Reads an interface's counters by kernel name (`rx_dropped`), prefixed with the interface's name.
pub fn read_net_dev(name: &str) -> io::Result<KernelCounters> {
    let text = std::fs::read_to_string("/proc/thread-self/net/dev")?;
    Ok(parse_net_dev(&text, name))
}

/// Parses the line of `/proc/net/dev` for `name`.
pub fn parse_net_dev(text: &str, name: &str) -> KernelCounters {
    const NAMES: [&str; 16] = [
        "rx_bytes",
        "rx_packets",
        "rx_errors",
        "rx_dropped",
        "rx_fifo",
        "rx_frame",
        "rx_compressed",
        "rx_multicast",
        "tx_bytes",
        "tx_packets",
        "tx_errors",
        "tx_dropped",
        "tx_fifo",
        "tx_collisions",
        "tx_carrier",
        "tx_compressed",
    ];
    text.lines()
        .filter_map(|line| line.rsplit_once(':'))
        .filter(|(holder, _)| holder.trim() == name)
        .flat_map(|(_, values)| NAMES.into_iter().zip(values.split_ascii_whitespace()))
        .filter_map(|(field, value)| Some((format!("{name}.{field}"), value.parse().ok()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn loopback_holds_its_address_and_has_an_mtu() {
        let loopback = IpAddr::from(Ipv4Addr::LOCALHOST);
        let name = interface_between(loopback, loopback).expect("a loopback interface");
        assert!(mtu_bytes(&name).is_some_and(|mtu| mtu >= 1500));
        assert!(has_carrier(&name).is_ok_and(|carrier| carrier));
        assert!(transmit_queue_packets(&name).is_ok_and(|packets| packets < 1 << 20));
        assert!(read_net_dev(&name).is_ok_and(|counters| counters.len() == 16));
    }

    #[test]
    fn an_interface_that_does_not_exist_has_nothing() {
        for name in ["no-such", "a-name-that-is-much-too-long-for-linux", ""] {
            assert_eq!(mtu_bytes(name), None);
            assert!(transmit_queue_packets(name).is_err() && has_carrier(name).is_err());
            assert!(set_mtu(name, 1500).is_err());
        }
    }

    #[test]
    fn counters_are_told_apart_by_interface() {
        let text = "Inter-| Receive\n face |bytes\n  lo: 1 2 3\neth0:7 8\n";
        let expect: KernelCounters =
            [("eth0.rx_bytes".to_owned(), 7), ("eth0.rx_packets".to_owned(), 8)].into();
        assert_eq!(parse_net_dev(text, "eth0"), expect);
        assert_eq!(parse_net_dev(text, "eth1"), KernelCounters::new());
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_fail(text in "( *e:( *[0-9]{0,22}){0,18}\n|.{0,40}\n){0,6}") {
            prop_assert!(parse_net_dev(&text, "e").len() <= 16);
        }
    }
}
