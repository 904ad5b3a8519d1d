//! Routes: the one to an address, and the default route.
//!
//! Source: RTM_GETROUTE; of the calling thread's network namespace.
//! Wrong when: policy routing depends on a source, mark or port that the query lacks; only the
//! first of several next hops is returned.

use crate::netlink::{self, address_family, address_octets};
use crate::packet_ring::interface_name;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// struct rtmsg.
const FIXED_BYTES: usize = 12;
/// struct rtnexthop: length, flags, hops, interface.
const NEXT_HOP_INTERFACE: usize = 4;
const METRIC_MTU: u16 = 2;
const METRIC_WINDOW: u16 = 3;
const METRIC_INITIAL_WINDOW: u16 = 11;
const METRIC_INITIAL_RECEIVE_WINDOW: u16 = 14;
const METRIC_CONGESTION_CONTROL: u16 = 16;

/// A route, with its settings for connections.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KernelRoute {
    pub interface: Option<String>,
    pub gateway: Option<IpAddr>,
    /// The local address that the kernel would use.
    pub source: Option<IpAddr>,
    pub mtu_bytes: Option<u32>,
    /// Limit of the advertised receive window.
    pub window_bytes: Option<u32>,
    pub initial_window_segments: Option<u32>,
    pub initial_receive_window_segments: Option<u32>,
    pub congestion_control: Option<String>,
}

/// Returns the route that a packet to `parse_ip_address` takes.
///
/// # Errors
/// `NetworkUnreachable` if there is none.
pub fn query_route(address: IpAddr) -> io::Result<KernelRoute> {
    let octets = address_octets(address.to_canonical());
    let mut fixed = route_message_head(address.to_canonical());
    fixed[1] = 8 * octets.len() as u8;
    let answers = netlink::query_object(libc::RTM_GETROUTE, &fixed, libc::RTA_DST, &octets)?;
    let found = answers.first().and_then(|body| parse_route(body));
    found.ok_or_else(|| io::ErrorKind::NetworkUnreachable.into())
}

/// Returns the preferred default route, of IPv4 if there is one.
///
/// # Errors
/// `NetworkUnreachable` if there is none.
pub fn query_default_route() -> io::Result<KernelRoute> {
    for family in [IpAddr::from(Ipv4Addr::UNSPECIFIED), IpAddr::from(Ipv6Addr::UNSPECIFIED)] {
        let head = route_message_head(family);
        let answers = netlink::list_objects(libc::RTM_GETROUTE, &head)?;
        let best =
            answers.iter().filter(|body| is_default(body)).min_by_key(|body| route_priority(body));
        if let Some(route) = best.and_then(|body| parse_route(body)) {
            return Ok(route);
        }
    }
    Err(io::ErrorKind::NetworkUnreachable.into())
}

fn route_message_head(family: IpAddr) -> [u8; FIXED_BYTES] {
    let mut fixed = [0; FIXED_BYTES];
    fixed[0] = address_family(family);
    fixed
}

/// Returns whether this is a unicast default route of the main table.
fn is_default(body: &[u8]) -> bool {
    let everywhere = body.get(1) == Some(&0);
    let main = body.get(4) == Some(&libc::RT_TABLE_MAIN);
    everywhere && main && body.get(7) == Some(&libc::RTN_UNICAST)
}

fn route_priority(body: &[u8]) -> u32 {
    let attributes = body.get(FIXED_BYTES..).unwrap_or_default();
    netlink::find_attribute(attributes, libc::RTA_PRIORITY)
        .and_then(|value| netlink::read_u32(value, 0))
        .unwrap_or(0)
}

fn parse_route(body: &[u8]) -> Option<KernelRoute> {
    let attributes = body.get(FIXED_BYTES..)?;
    let value = |kind| netlink::find_attribute(attributes, kind);
    let out = value(libc::RTA_OIF).and_then(|value| netlink::read_u32(value, 0));
    let first_of_many = || netlink::read_u32(value(libc::RTA_MULTIPATH)?, NEXT_HOP_INTERFACE);
    let metrics = value(libc::RTA_METRICS).unwrap_or_default();
    let metric = |kind| netlink::read_u32(netlink::find_attribute(metrics, kind)?, 0);
    Some(KernelRoute {
        interface: out.or_else(first_of_many).and_then(interface_name),
        gateway: value(libc::RTA_GATEWAY).and_then(parse_ip_address),
        source: value(libc::RTA_PREFSRC).and_then(parse_ip_address),
        mtu_bytes: metric(METRIC_MTU),
        window_bytes: metric(METRIC_WINDOW),
        initial_window_segments: metric(METRIC_INITIAL_WINDOW),
        initial_receive_window_segments: metric(METRIC_INITIAL_RECEIVE_WINDOW),
        congestion_control: netlink::find_attribute(metrics, METRIC_CONGESTION_CONTROL)
            .map(netlink::parse_text),
    })
}

fn parse_ip_address(octets: &[u8]) -> Option<IpAddr> {
    if let Ok(four) = <[u8; 4]>::try_from(octets) {
        return Some(four.into());
    }
    <[u8; 16]>::try_from(octets).ok().map(IpAddr::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_route_to_loopback_is_loopback() {
        let route = query_route(Ipv4Addr::LOCALHOST.into()).expect("a route");
        assert_eq!(route.interface.as_deref(), Some("lo"));
        assert_eq!(route.gateway, None);
        assert_eq!(route.source, Some(Ipv4Addr::LOCALHOST.into()));
    }

    #[test]
    fn a_default_route_goes_everywhere_by_the_main_table() {
        let body = |prefix, table, kind| {
            let mut body = vec![libc::AF_INET as u8, prefix, 0, 0, table, 0, 0, kind];
            body.extend_from_slice(&[0; 4]);
            body
        };
        assert!(is_default(&body(0, libc::RT_TABLE_MAIN, libc::RTN_UNICAST)));
        assert!(!is_default(&body(8, libc::RT_TABLE_MAIN, libc::RTN_UNICAST)));
        assert!(!is_default(&body(0, libc::RT_TABLE_LOCAL, libc::RTN_UNICAST)));
        assert!(!is_default(&body(0, libc::RT_TABLE_MAIN, libc::RTN_UNREACHABLE)));
        assert!(!is_default(&[]));
    }

    #[test]
    fn an_interface_index_that_nobody_has_has_no_name() {
        assert_eq!(interface_name(1).as_deref(), Some("lo"));
        assert_eq!(interface_name(u32::MAX), None);
    }
}
