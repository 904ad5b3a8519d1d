//! The source of a connection: one party has all addresses of a prefix, so shares are by prefix.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The prefixes of an address, at the lengths that one party usually has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SourcePrefix {
    /// The network: IPv4 /24, IPv6 /48.
    pub network: IpAddr,
    /// The host or its link: IPv4 /32, IPv6 /64.
    pub host: IpAddr,
}

impl From<IpAddr> for SourcePrefix {
    fn from(address: IpAddr) -> SourcePrefix {
        let (network, host) = match address.to_canonical() {
            IpAddr::V4(v4) => (mask_v4(v4, 24), mask_v4(v4, 32)),
            IpAddr::V6(v6) => (mask_v6(v6, 48), mask_v6(v6, 64)),
        };
        SourcePrefix { network, host }
    }
}

fn mask_v4(address: Ipv4Addr, bits: u32) -> IpAddr {
    Ipv4Addr::from_bits(address.to_bits() & u32::MAX << (32 - bits)).into()
}

fn mask_v6(address: Ipv6Addr, bits: u32) -> IpAddr {
    Ipv6Addr::from_bits(address.to_bits() & u128::MAX << (128 - bits)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_share_a_network_and_mapped_addresses_are_those_of_ipv4() {
        let prefix = |text: &str| SourcePrefix::from(text.parse::<IpAddr>().expect("an address"));
        let here = prefix("192.0.2.1");
        assert_eq!(here, prefix("::ffff:192.0.2.1"));
        assert_eq!(here.network, prefix("192.0.2.254").network);
        assert_ne!(here.host, prefix("192.0.2.254").host);
        assert_ne!(here.network, prefix("192.0.3.1").network);
        let there = prefix("2001:db8:1:2::3");
        assert_eq!(there, prefix("2001:db8:1:2:ffff::"));
        assert_eq!(there.network, prefix("2001:db8:1:ffff::").network);
        assert_ne!(there.host, prefix("2001:db8:1:ffff::").host);
        assert_ne!(there.network, prefix("2001:db8:2::").network);
    }
}
