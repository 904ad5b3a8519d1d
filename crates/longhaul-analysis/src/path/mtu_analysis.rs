//! Derives the path MTU, and detects larger packets that are dropped silently.
//!
//! Source: RFC 1191, RFC 8201 and RFC 8899. Units: bytes of the whole IP packet.
//! Error: the step of the search, which the smallest refused size gives.
//! Wrong when: loss takes every attempt at one size, other sizes that arrived show that.

use longhaul_model::report::v1::path::{MtuProbe, MtuSearch, PathMtu};

/// The number of attempts without an answer after which a size counts as not passing.
const MIN_ATTEMPTS: u32 = 2;

/// Returns `None` if no size arrived.
pub fn derive_path_mtu(search: &MtuSearch) -> Option<PathMtu> {
    let arrived = |probe: &&MtuProbe| probe.arrived > 0;
    let bytes = search.probes.iter().filter(arrived).map(|p| p.packet_bytes).max()?;
    let above = |probe: &&MtuProbe| probe.packet_bytes > bytes;
    let failed = |probe: &&MtuProbe| {
        probe.refused_mtu_bytes.is_some()
            || probe.refused_by.is_some()
            || probe.sent >= MIN_ATTEMPTS
    };
    let refused: Vec<&MtuProbe> = search.probes.iter().filter(above).filter(failed).collect();
    Some(PathMtu {
        bytes,
        refused_bytes: refused.iter().map(|probe| probe.packet_bytes).min(),
        black_hole: is_black_hole(search, &refused),
    })
}

/// Returns true if packets that this host may send are dropped silently. A router that refuses one
/// size explains the larger ones too.
fn is_black_hole(search: &MtuSearch, refused: &[&MtuProbe]) -> bool {
    let told = refused.iter().any(|probe| probe.refused_by.is_some());
    let sent = refused
        .iter()
        .any(|probe| probe.packet_bytes <= search.local_bytes && probe.refused_mtu_bytes.is_none());
    sent && !told
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Size, sent, arrived, refused by.
    fn search(probes: &[(u32, u32, u32, Option<&str>)]) -> MtuSearch {
        let probe = |&(packet_bytes, sent, arrived, by): &(u32, u32, u32, Option<&str>)| MtuProbe {
            packet_bytes,
            sent,
            arrived,
            refused_by: by.map(str::to_owned),
            refused_mtu_bytes: by.map(|_| 1500),
        };
        MtuSearch { local_bytes: 9000, probes: probes.iter().map(probe).collect() }
    }

    fn found(bytes: u32, refused: Option<u32>, black_hole: bool) -> PathMtu {
        PathMtu { bytes, refused_bytes: refused, black_hole }
    }

    #[test]
    fn sizes_that_arrive_bound_it_from_below_and_refused_ones_from_above() {
        let told =
            search(&[(9000, 1, 0, Some("10.1.0.1")), (1500, 1, 1, None), (1501, 3, 0, None)]);
        assert_eq!(derive_path_mtu(&told), Some(found(1500, Some(1501), false)));
        let vanished = search(&[(9000, 3, 0, None), (1500, 3, 2, None), (4000, 3, 0, None)]);
        assert_eq!(derive_path_mtu(&vanished), Some(found(1500, Some(4000), true)));
        assert_eq!(derive_path_mtu(&search(&[(9000, 1, 1, None)])), Some(found(9000, None, false)));
        assert_eq!(derive_path_mtu(&search(&[(1500, 3, 0, None)])), None);
    }

    #[test]
    fn one_lost_packet_is_no_black_hole() {
        let lost = search(&[(9000, 1, 0, None), (8000, 2, 1, None)]);
        assert_eq!(derive_path_mtu(&lost), Some(found(8000, None, false)));
    }

    #[test]
    fn what_the_own_host_refuses_is_no_black_hole() {
        let large = search(&[(9000, 2, 2, None), (9600, 3, 0, None)]);
        assert_eq!(derive_path_mtu(&large), Some(found(9000, Some(9600), false)));
    }
}
