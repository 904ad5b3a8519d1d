//! Rates the likeness of two hops of two routes.

use longhaul_model::report::v1::path::{ObservedHop, ObservedRoute};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// One hop, reduced to what the comparison needs.
#[derive(Debug, Clone)]
pub struct ComparedHop<'r> {
    pub ttl: u8,
    /// The address that answered the one flow; `None` if silent.
    pub own: Option<&'r str>,
    /// Autonomous system of that address.
    autonomous_system: Option<u32>,
    /// That address and its equal-cost alternatives.
    all: BTreeSet<&'r str>,
    /// The hop before has the same address.
    pub stutter: bool,
}

/// Returns the hops of a route; trailing silent hops are left out if it does not reach its end.
pub fn list_compared_hops(route: &ObservedRoute) -> Vec<ComparedHop<'_>> {
    let answering = |hop: &ObservedHop| !hop.answers.is_empty();
    let last = if route.reached {
        route.hops.len()
    } else {
        route.hops.iter().rposition(answering).map_or(0, |at| at + 1)
    };
    let mut found: Vec<ComparedHop> = Vec::with_capacity(last);
    for hop in &route.hops[..last] {
        let mut next = build_compared_hop(route, hop);
        next.stutter = next.own.is_some() && found.last().is_some_and(|p| p.own == next.own);
        found.push(next);
    }
    found
}

fn build_compared_hop<'r>(route: &'r ObservedRoute, hop: &'r ObservedHop) -> ComparedHop<'r> {
    let first = hop.answers.first();
    let mut all: BTreeSet<&str> = hop.answers.iter().map(|a| a.address.as_str()).collect();
    for link in &route.links {
        if link.ttl == hop.ttl {
            all.insert(&link.from);
        }
        if link.ttl.checked_add(1) == Some(hop.ttl) {
            all.insert(&link.to);
        }
    }
    ComparedHop {
        ttl: hop.ttl,
        own: first.map(|answer| answer.address.as_str()),
        autonomous_system: first.and_then(|answer| answer.autonomous_system),
        all,
        stutter: false,
    }
}

/// Degrees of likeness, in descending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HopLikeness {
    Same,
    /// One or both are silent.
    Silent,
    /// The first three octets are the same; in IPv6 the first 64 bits.
    Neighbour,
    SameAs,
    Other,
}

pub fn rate_likeness(a: &ComparedHop, b: &ComparedHop) -> HopLikeness {
    let (Some(own_a), Some(own_b)) = (a.own, b.own) else {
        return HopLikeness::Silent;
    };
    let systems = a.autonomous_system.zip(b.autonomous_system);
    if a.all.contains(own_b) || b.all.contains(own_a) {
        HopLikeness::Same
    } else if is_same_block(own_a, own_b) {
        HopLikeness::Neighbour
    } else if systems.is_some_and(|(a, b)| a == b) {
        HopLikeness::SameAs
    } else {
        HopLikeness::Other
    }
}

fn is_same_block(a: &str, b: &str) -> bool {
    find_address_block(a).is_some_and(|of_a| Some(of_a) == find_address_block(b))
}

/// Returns the first address of the /24 or /64 that contains an address.
pub fn find_address_block(address: &str) -> Option<IpAddr> {
    // A link-local address may carry the name of an interface.
    let bare = address.split('%').next()?;
    match bare.parse().ok()? {
        IpAddr::V4(v4) => {
            let [a, b, c, _] = v4.octets();
            Some(IpAddr::from([a, b, c, 0]))
        }
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            Some(IpAddr::from([a, b, c, d, 0, 0, 0, 0]))
        }
    }
}
