//! Compares the forward and the return route.
//!
//! By autonomous system if both routes know some; else by /24 (IPv4) and /64 (IPv6): routers answer
//! with another address on the return path, often from the same small network.
//!
//! Source: our own measure: elements in both, divided by elements in either. Units: ratio, hops.
//! Error: without autonomous systems, equal routes can look different, since the two ends of a link
//! need not share a block: so only a low share of systems is called asymmetric.
//! Wrong when: many hops are silent in one direction.

use super::route_difference::hop_alignment::find_address_block;
use longhaul_model::report::v1::path::{HopReply, ObservedRoute, RouteSymmetry};
use longhaul_model::units::count_of;
use std::collections::BTreeSet;

/// The minimum number of known elements in each direction.
const MIN_ELEMENTS: usize = 2;
/// Routes that share less than this ratio of autonomous systems are called asymmetric.
const ASYMMETRIC_RATIO: f64 = 0.5;

/// The comparison and its conclusion.
pub struct SymmetryResult {
    pub symmetry: RouteSymmetry,
    /// Compared by autonomous systems, and few are shared.
    pub asymmetric: bool,
}

/// Returns `None` if too little of either route is known.
pub fn compare_symmetry(
    forward: &ObservedRoute,
    reverse: &ObservedRoute,
) -> Option<SymmetryResult> {
    let by_system = count_shared(forward, reverse, |a| a.autonomous_system);
    let by_block = || count_shared(forward, reverse, |a| find_address_block(&a.address));
    let systems = by_system.is_some();
    let (common, all) = by_system.or_else(by_block)?;
    let shared_ratio = common as f64 / all as f64;
    let [there, back] = [forward, reverse].map(|route| route.hops.len());
    let unit = if systems { "autonomous systems" } else { "address blocks (/24, /64)" };
    Some(SymmetryResult {
        asymmetric: systems && shared_ratio < ASYMMETRIC_RATIO,
        symmetry: RouteSymmetry {
            shared_ratio,
            forward_hops: there as u32,
            reverse_hops: back as u32,
            text: format!(
                "forward {}, reverse {}; {common} of {all} {unit} in common",
                count_of(there as u64, "hop"),
                count_of(back as u64, "hop"),
            ),
        },
    })
}

/// Returns the number of elements in both routes, and in either.
fn count_shared<T: Ord>(
    forward: &ObservedRoute,
    reverse: &ObservedRoute,
    place: impl Fn(&HopReply) -> Option<T>,
) -> Option<(usize, usize)> {
    let of = |route: &ObservedRoute| -> BTreeSet<T> {
        let first = route.hops.iter().filter_map(|hop| hop.answers.first());
        first.filter_map(&place).collect()
    };
    let (there, back) = (of(forward), of(reverse));
    let enough = there.len().min(back.len()) >= MIN_ELEMENTS;
    enough.then(|| {
        let common = there.intersection(&back).count();
        (common, there.union(&back).count())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::path_test_builder::build_route;

    fn with_systems(addresses: &[&str], systems: &[u32]) -> ObservedRoute {
        let mut all = build_route(addresses);
        for (hop, system) in all.hops.iter_mut().zip(systems) {
            hop.answers[0].autonomous_system = Some(*system);
        }
        all
    }

    #[test]
    fn blocks_stand_in_where_systems_are_unknown() {
        let there = build_route(&["10.1.0.2", "10.2.0.2", "10.3.0.2"]);
        let back = build_route(&["10.3.0.1", "10.2.0.1", "10.1.0.1"]);
        let found = compare_symmetry(&there, &back).unwrap();
        assert!((found.symmetry.shared_ratio - 1.0).abs() < f64::EPSILON);
        let other = build_route(&["10.7.0.1", "10.8.0.1"]);
        let found = compare_symmetry(&there, &other).unwrap();
        assert!(!found.asymmetric, "blocks alone prove nothing");
        assert_eq!(
            found.symmetry.text,
            "forward 3 hops, reverse 2 hops; 0 of 5 address blocks (/24, /64) in common"
        );
    }

    #[test]
    fn systems_tell_a_detour_on_the_way_back() {
        let there = with_systems(&["10.1.0.1", "10.2.0.1", "10.3.0.1"], &[3671, 293, 2200]);
        let same = with_systems(&["10.4.0.1", "10.5.0.1", "10.6.0.1"], &[2200, 293, 3671]);
        let detour = with_systems(&["10.4.0.1", "10.5.0.1", "10.6.0.1"], &[2200, 5511, 11537]);
        assert!(!compare_symmetry(&there, &same).unwrap().asymmetric);
        assert!(compare_symmetry(&there, &detour).unwrap().asymmetric);
    }

    #[test]
    fn silence_says_nothing() {
        let there = build_route(&["10.1.0.1", "", ""]);
        assert!(compare_symmetry(&there, &build_route(&["10.1.0.1", "10.2.0.1"])).is_none());
    }
}
