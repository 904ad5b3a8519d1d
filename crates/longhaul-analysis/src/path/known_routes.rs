//! Numbers the distinct routes of a path.
//!
//! Every distinct route of a path has a small number, in the order of first appearance. A route
//! that differs only by silent hops keeps the number, because a missing answer is not another
//! route. So does a truncated route that agrees up to its end.
//!
//! # Route symmetry
//!
//! Compares the forward and the return route.
//!
//! By autonomous system if both routes know some; else by /24 (IPv4) and /64 (IPv6): routers answer
//! with another address on the return path, often from the same small network.
//!
//! Source: our own measure: elements in both, divided by elements in either. Units: ratio, hops.
//! Error: without autonomous systems, equal routes can look different, since the two ends of a link
//! need not share a block: so only a low share of systems is called asymmetric.
//! Wrong when: many hops are silent in one direction.

use super::route_difference;
use super::route_difference::hop_alignment::find_address_block;
use longhaul_model::report::v1::PathReport;
use longhaul_model::report::v1::path::{
    HopReply, NarrowLink, ObservedRoute, RouteChangeKind, RouteSymmetry,
};
use longhaul_model::units::count_of;
use std::collections::BTreeSet;

/// A route of this path in the archive.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownRoute {
    pub number: u32,
    pub run_id: String,
    /// UTC, RFC 3339: start of that run.
    pub at: String,
    pub route: ObservedRoute,
    /// Minimum RTT to the destination.
    pub rtt_min_ns: Option<u64>,
    /// The narrow link that the hops showed under load in that run.
    pub narrow_link: Option<NarrowLink>,
}

impl KnownRoute {
    /// Returns the numbered route of an earlier report; `None` if it has none.
    pub fn of(report: &PathReport) -> Option<KnownRoute> {
        Some(KnownRoute {
            number: report.analysis.route_number?,
            ..KnownRoute::without_number(report)?
        })
    }

    /// Returns the route of a report, with the number zero until it is assigned one.
    pub(super) fn without_number(report: &PathReport) -> Option<KnownRoute> {
        let route = report.observation.route.clone()?;
        let rtt_min_ns = report.analysis.rtt.map(|rtt| rtt.min_ns);
        Some(KnownRoute {
            number: 0,
            run_id: report.run.id.clone(),
            at: report.run.started_at.clone(),
            rtt_min_ns: rtt_min_ns.or_else(|| route_difference::find_destination_rtt(&route)),
            route,
            narrow_link: report.analysis.narrow_link.clone(),
        })
    }
}

/// Returns the number of a route on its path: that of the known route it equals, or the next free
/// one.
pub fn assign_route_number(known: &[KnownRoute], route: &ObservedRoute) -> u32 {
    let likest = known
        .iter()
        .filter_map(|earlier| {
            Some((count_agreeing_hops(route, &earlier.route)?, &earlier.at, earlier))
        })
        .max_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)));
    let next = || known.iter().map(|k| k.number).max().unwrap_or(0).saturating_add(1);
    likest.map_or_else(next, |(_, _, earlier)| earlier.number)
}

/// Returns the number of hops in which the two agree, if their answers show no difference.
fn count_agreeing_hops(route: &ObservedRoute, earlier: &ObservedRoute) -> Option<usize> {
    // A truncated trace is the start of many routes: it never gives its number to a complete one.
    if route.reached && !earlier.reached {
        return None;
    }
    let difference = route_difference::compare_hops(route, earlier);
    (difference.kind <= RouteChangeKind::SilentHop).then_some(difference.agreeing)
}

/// Returns the route to compare a new one with: the latest, or, if the new one reached its end, the
/// latest that also did, since a truncated one says little.
pub fn find_previous_route<'k>(
    known: &'k [KnownRoute],
    route: &ObservedRoute,
) -> Option<&'k KnownRoute> {
    let latest = |reached: bool| {
        let fits = move |k: &&KnownRoute| !reached || k.route.reached;
        let by_time = |k: &&KnownRoute| (k.at.clone(), k.run_id.clone());
        known.iter().filter(fits).max_by_key(by_time)
    };
    if route.reached { latest(true).or_else(|| latest(false)) } else { latest(false) }
}

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
    use crate::path::path_test_builder::{build_route, build_truncated_route};

    fn known(number: u32, at: &str, route: ObservedRoute) -> KnownRoute {
        KnownRoute {
            number,
            run_id: format!("run-{at}"),
            at: at.to_owned(),
            route,
            rtt_min_ns: None,
            narrow_link: None,
        }
    }

    const A: [&str; 4] = ["10.1.0.1", "10.2.0.1", "10.3.0.1", "10.4.0.1"];
    const B: [&str; 4] = ["10.1.0.1", "10.7.0.1", "10.8.0.1", "10.4.0.1"];

    #[test]
    fn numbers_follow_the_order_of_first_sight() {
        let mut all = Vec::new();
        assert_eq!(assign_route_number(&all, &build_route(&A)), 1);
        all.push(known(1, "2003-06-10", build_route(&A)));
        assert_eq!(assign_route_number(&all, &build_route(&B)), 2);
        all.push(known(2, "2003-06-11", build_route(&B)));
        assert_eq!(assign_route_number(&all, &build_route(&A)), 1, "back on the first");
    }

    #[test]
    fn silence_keeps_the_number_of_the_likest() {
        let all =
            [known(1, "2003-06-10", build_route(&A)), known(2, "2003-06-11", build_route(&B))];
        let gaps = |hop: &str| build_route(&["10.1.0.1", hop, "", "10.4.0.1"]);
        assert_eq!(assign_route_number(&all, &gaps("10.2.0.1")), 1);
        assert_eq!(assign_route_number(&all, &gaps("10.7.0.1")), 2);
        // If nothing distinguishes them, the most recent one is chosen.
        assert_eq!(assign_route_number(&all, &gaps("")), 2);
    }

    #[test]
    fn a_cut_route_takes_a_number_and_gives_none() {
        let cut = build_truncated_route(&["10.1.0.1", "10.2.0.1", "", ""]);
        let whole = [known(1, "2003-06-10", build_route(&A))];
        assert_eq!(assign_route_number(&whole, &cut), 1);
        let only_cut = [known(1, "2003-06-10", cut.clone())];
        assert_eq!(assign_route_number(&only_cut, &build_route(&A)), 2);
        assert_eq!(assign_route_number(&only_cut, &cut), 1);
    }

    #[test]
    fn a_whole_route_stands_against_the_last_whole_one() {
        let all = [
            known(2, "2003-06-12", build_truncated_route(&A[..2])),
            known(1, "2003-06-10", build_route(&A)),
            known(3, "2003-06-11", build_route(&B)),
        ];
        assert_eq!(find_previous_route(&all, &build_route(&A)).map(|k| k.number), Some(3));
        assert_eq!(
            find_previous_route(&all, &build_truncated_route(&A)).map(|k| k.number),
            Some(2)
        );
        assert_eq!(find_previous_route(&[], &build_route(&A)), None);
        let cut_only = &all[..1];
        assert_eq!(find_previous_route(cut_only, &build_route(&A)).map(|k| k.number), Some(2));
    }
}

#[cfg(test)]
mod route_symmetry_tests {
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
