//! Load balancing by flow over parallel routers.
//!
//! Source: the fields that routers hash for equal-cost multipath (RFC 2992): addresses, protocol,
//! and the ports of TCP and UDP; for ICMP, where routers use the first words of the header in the
//! same way, type, code, checksum and identifier. A tracer that keeps these constant stays on one
//! path. Wrong when: a router also hashes the IPv6 flow label, the TTL or the interface.

use super::pooled_packet::{ICMP, ICMP6, PooledPacket, TCP, UDP};
use std::net::IpAddr;

/// FNV-1a.
const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

fn mix_bytes(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME))
}

fn mix_address(hash: u64, address: IpAddr) -> u64 {
    match address {
        IpAddr::V4(it) => mix_bytes(hash, &it.octets()),
        IpAddr::V6(it) => mix_bytes(hash, &it.octets()),
    }
}

/// Returns the way of the packet `ip`, from 0 to `ways` - 1; each `salt` spreads flows differently.
pub(super) fn select_way(packet: &PooledPacket, ip: &[u8], salt: u64, ways: u8) -> u8 {
    if ways < 2 {
        return 0;
    }
    let hash = mix_bytes(BASIS, &salt.to_be_bytes());
    let hash = mix_address(mix_address(hash, packet.source), packet.destination);
    let hash = mix_bytes(hash, &[packet.protocol]);
    let hashed_bytes = match packet.protocol {
        _ if packet.fragment => 0,
        TCP | UDP => 4,
        ICMP | ICMP6 => 6,
        _ => 0,
    };
    let transport = ip.get(usize::from(packet.ip_header_bytes)..).unwrap_or_default();
    let mut hash = mix_bytes(hash, &transport[..hashed_bytes.min(transport.len())]);
    // The low bits of FNV are poorly mixed.
    hash ^= hash >> 29;
    hash = hash.wrapping_mul(0xBF58_476D_1CE4_E5B9);
    hash ^= hash >> 32;
    (hash % u64::from(ways)) as u8
}
