//! Addresses of the two hosts and the routers of a lab path.
//!
//! Host near is 10.77.0.1 and fd77::1, host far 10.77.0.2 and fd77::2. Router `k` (from 1) of
//! route `r` (0 is `main`, then the alternatives in order of name) is 10.77.(r+1).k and
//! fd77:0:0:(r+1)::k, unless an earlier route has a router of the same name: then it is that
//! router, with the address it has there. Where N routers stand side by side, the others have
//! 10.78.(r+1).k and fd77:0:0:(r+1)::1:k, 10.79.(r+1).k and so on.

use super::LabHost;
use crate::path_spec::{HopSpec, PathSpec};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The addresses of a host or router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeAddress {
    pub v4: Ipv4Addr,
    pub v6: Ipv6Addr,
}

impl LabHost {
    /// Returns the addresses of the host, which are those of every lab path.
    pub fn address(self) -> NodeAddress {
        let number = if self == LabHost::Near { 1 } else { 2 };
        NodeAddress {
            v4: Ipv4Addr::new(10, 77, 0, number),
            v6: Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, number.into()),
        }
    }
}

/// Returns the addresses of router `number` (from 1) of route `route` (from 0).
pub fn router_address(route: usize, number: usize) -> NodeAddress {
    NodeAddress {
        v4: Ipv4Addr::new(10, 77, route as u8 + 1, number as u8),
        v6: Ipv6Addr::new(0xfd77, 0, 0, route as u16 + 1, 0, 0, 0, number as u16),
    }
}

impl NodeAddress {
    /// Returns the addresses of parallel router number `way` (from 0).
    pub(crate) fn parallel(self, way: u8) -> NodeAddress {
        let [a, b, c, d] = self.v4.octets();
        let mut v6 = self.v6.segments();
        v6[6] = u16::from(way);
        NodeAddress { v4: Ipv4Addr::new(a, b + way, c, d), v6: Ipv6Addr::from(v6) }
    }

    pub(super) fn of_family(&self, other: IpAddr) -> IpAddr {
        match other {
            IpAddr::V4(_) => IpAddr::V4(self.v4),
            IpAddr::V6(_) => IpAddr::V6(self.v6),
        }
    }
}

/// Returns the routes of a path in the order of their numbers: `main`, then the alternatives by
/// name.
pub fn list_routes(spec: &PathSpec) -> impl Iterator<Item = (&str, &[HopSpec])> {
    let main = std::iter::once(("main", spec.hops.as_slice()));
    main.chain(spec.routes.iter().map(|(name, hops)| (name.as_str(), hops.as_slice())))
}

/// Returns the addresses of all routers, by route and then by hop. The far host, which ends every
/// route, is not included.
pub fn assign_router_addresses(spec: &PathSpec) -> Vec<Vec<NodeAddress>> {
    let mut known: HashMap<&str, (usize, NodeAddress)> = HashMap::new();
    let mut all = Vec::new();
    for (route, (_, hops)) in list_routes(spec).enumerate() {
        let routers = &hops[..hops.len().saturating_sub(1)];
        let addresses = routers.iter().enumerate().map(|(k, hop)| {
            let own = router_address(route, k + 1);
            match known.get(hop.name.as_str()) {
                Some((other, address)) if *other != route => *address,
                Some(_) => own,
                None => {
                    known.insert(&hop.name, (route, own));
                    own
                }
            }
        });
        all.push(addresses.collect());
    }
    all
}
