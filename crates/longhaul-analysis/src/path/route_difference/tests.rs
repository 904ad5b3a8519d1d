use super::*;
use crate::path::path_test_builder::{build_link, build_route, build_truncated_route};

const NOTHING: Ends = None;

type Ends = Option<[u8; 2]>;

fn changed(change: &RouteDifference) -> Vec<(Ends, Ends)> {
    change.ranges.iter().map(|r| (r.here, r.other)).collect()
}

fn kind(here: &[&str], other: &[&str]) -> RouteChangeKind {
    compare_routes(&build_route(here), &build_route(other)).kind
}

/// `prefix.1`, `prefix.2`, …: hops of one operator, each in a network of its own.
fn carrier(prefix: u8, hops: u8) -> Vec<String> {
    (1..=hops).map(|n| format!("{prefix}.{n}.0.1")).collect()
}

fn of(parts: &[&[String]]) -> ObservedRoute {
    let all: Vec<&str> = parts.iter().copied().flatten().map(String::as_str).collect();
    build_route(&all)
}

/// SLAC to CESNET, 11 June 2003: 17 hops by Internet2 become 13 by ESnet; hops 3-11 become 3-7, the
/// last six are the same.
#[test]
fn the_route_to_cesnet_changes_in_one_range() {
    let (site, last) = (carrier(134, 2), carrier(195, 6));
    let before = of(&[&site, &carrier(192, 9), &last]);
    let after = of(&[&site, &carrier(198, 5), &last]);
    assert_eq!((before.hops.len(), after.hops.len()), (17, 13));
    let change = compare_routes(&after, &before);
    assert_eq!(change.kind, RouteChangeKind::SeveralHops);
    assert_eq!(changed(&change), [(Some([3, 7]), Some([3, 11]))]);
    assert_eq!(change.rtt_step_ns, Some(-4_000_000));
    let back = compare_routes(&before, &after);
    assert_eq!(changed(&back), [(Some([3, 11]), Some([3, 7]))]);
}

/// SLAC to IN2P3 on the same day: 17 hops become 15, the first and last two are the same, and the
/// round trip grows by 10 ms.
#[test]
fn the_detour_to_in2p3_changes_all_but_both_ends() {
    let (site, last) = (carrier(134, 2), carrier(134, 4)[2..].to_vec());
    let before = of(&[&site, &carrier(192, 13), &last]);
    let mut after = of(&[&site, &carrier(193, 11), &last]);
    assert_eq!((before.hops.len(), after.hops.len()), (17, 15));
    after.hops[14].answers[0].rtts_ns = vec![27_000_000];
    let change = compare_routes(&after, &before);
    assert_eq!(change.kind, RouteChangeKind::SeveralHops);
    assert_eq!(changed(&change), [(Some([3, 13]), Some([3, 15]))]);
    assert_eq!(change.rtt_step_ns, Some(10_000_000));
}

#[test]
fn silence_is_no_change() {
    let full = ["10.1.0.1", "10.2.0.1", "10.3.0.1", "10.4.0.1"];
    let gaps = ["10.1.0.1", "", "", "10.4.0.1"];
    assert_eq!(kind(&full, &full), RouteChangeKind::Same);
    assert_eq!(kind(&gaps, &full), RouteChangeKind::SilentHop);
    assert_eq!(kind(&full, &gaps), RouteChangeKind::SilentHop);
    assert!(compare_routes(&build_route(&gaps), &build_route(&full)).ranges.is_empty());
    // A route with the same hops silent has nothing that changed.
    assert_eq!(kind(&gaps, &gaps), RouteChangeKind::Same);
}

#[test]
fn the_words_of_the_tables_are_met() {
    let base = ["10.1.0.1", "10.2.0.1", "10.3.0.1", "10.4.0.1"];
    for (here, want) in [
        (["10.1.0.1", "10.2.0.9", "10.3.0.1", "10.4.0.1"], RouteChangeKind::LastOctet),
        (["10.1.0.1", "10.1.0.1", "10.3.0.1", "10.4.0.1"], RouteChangeKind::Stutter),
        (["10.1.0.1", "10.9.0.1", "10.3.0.1", "10.4.0.1"], RouteChangeKind::OneHop),
        (["10.1.0.1", "10.8.0.1", "10.9.0.1", "10.4.0.1"], RouteChangeKind::SeveralHops),
    ] {
        assert_eq!(kind(&here, &base), want, "{here:?}");
        assert_eq!(kind(&base, &here), want, "{here:?}");
    }
    let more = ["10.1.0.1", "10.2.0.1", "10.7.0.1", "10.3.0.1", "10.4.0.1"];
    let change = compare_routes(&build_route(&more), &build_route(&base));
    assert_eq!(change.kind, RouteChangeKind::OneHop);
    assert_eq!(changed(&change), [(Some([3, 3]), NOTHING)]);
}

#[test]
fn a_router_that_answers_once_more_stutters() {
    let base = ["10.1.0.1", "10.2.0.1", "10.3.0.1"];
    let longer = ["10.1.0.1", "10.1.0.1", "10.2.0.1", "10.3.0.1"];
    let change = compare_routes(&build_route(&longer), &build_route(&base));
    assert_eq!(change.kind, RouteChangeKind::Stutter);
    assert_eq!(changed(&change), [(Some([2, 2]), NOTHING)]);
}

#[test]
fn neighbours_in_ipv6_share_their_first_64_bits() {
    let base = ["2001:db8:0:1::1", "2001:db8:0:2::1"];
    let near = ["2001:db8:0:1::77", "2001:db8:0:2::1"];
    let far = ["2001:db8:0:9::1", "2001:db8:0:2::1"];
    assert_eq!(kind(&near, &base), RouteChangeKind::LastOctet);
    assert_eq!(kind(&far, &base), RouteChangeKind::OneHop);
}

#[test]
fn two_addresses_of_one_autonomous_system_are_told_where_it_is_known() {
    let base = build_route(&["10.1.0.1", "10.2.0.1", "10.3.0.1"]);
    let mut here = build_route(&["10.1.0.1", "10.9.0.1", "10.3.0.1"]);
    let mut known = base.clone();
    here.hops[1].answers[0].autonomous_system = Some(293);
    assert_eq!(compare_routes(&here, &known).kind, RouteChangeKind::OneHop);
    known.hops[1].answers[0].autonomous_system = Some(293);
    assert_eq!(compare_routes(&here, &known).kind, RouteChangeKind::SameAs);
    known.hops[1].answers[0].autonomous_system = Some(20965);
    assert_eq!(compare_routes(&here, &known).kind, RouteChangeKind::OneHop);
}

#[test]
fn a_known_equal_cost_alternative_is_the_same_hop() {
    let mut base = build_route(&["10.1.0.1", "10.2.0.1", "10.3.0.1"]);
    let here = build_route(&["10.1.0.1", "10.2.8.1", "10.3.0.1"]);
    assert_eq!(compare_routes(&here, &base).kind, RouteChangeKind::OneHop);
    base.links = vec![build_link(1, "10.1.0.1", "10.2.8.1"), build_link(2, "10.2.8.1", "10.3.0.1")];
    assert_eq!(compare_routes(&here, &base).kind, RouteChangeKind::Same);
    assert_eq!(compare_routes(&base, &here).kind, RouteChangeKind::Same);
}

#[test]
fn an_end_that_is_not_reached_is_the_worst() {
    let full = build_route(&["10.1.0.1", "10.2.0.1", "10.3.0.1", "10.4.0.1"]);
    let cut = build_truncated_route(&["10.1.0.1", "10.2.0.1", "", "", ""]);
    let change = compare_routes(&cut, &full);
    assert_eq!(change.kind, RouteChangeKind::EndNotReached);
    assert!(change.ranges.is_empty(), "what was seen is the same");
    assert_eq!(change.rtt_step_ns, None);
    // What the cut one could not see is no change either.
    assert_eq!(compare_routes(&full, &cut).kind, RouteChangeKind::SilentHop);
    let elsewhere = build_truncated_route(&["10.1.0.1", "10.9.0.1"]);
    assert_eq!(compare_routes(&full, &elsewhere).kind, RouteChangeKind::OneHop);
    assert_eq!(compare_routes(&cut, &cut).kind, RouteChangeKind::Same);
}

#[test]
fn silence_inside_a_change_does_not_break_it() {
    let base = ["10.1.0.1", "10.2.0.1", "10.3.0.1", "10.4.0.1", "10.5.0.1"];
    let here = ["10.1.0.1", "10.7.0.1", "", "10.8.0.1", "10.5.0.1"];
    let change = compare_routes(&build_route(&here), &build_route(&base));
    assert_eq!(changed(&change), [(Some([2, 4]), Some([2, 4]))]);
}

#[test]
fn nothing_beside_nothing_is_the_same() {
    assert_eq!(kind(&[], &[]), RouteChangeKind::Same);
    assert_eq!(kind(&[], &["10.1.0.1"]), RouteChangeKind::OneHop);
}

proptest::proptest! {
    /// Routes of few addresses, so that repeats, silence and returns all occur.
    #[test]
    fn laying_is_sound_for_any_two_routes(
        here in proptest::collection::vec(0u8..6, 0..24),
        other in proptest::collection::vec(0u8..6, 0..24),
        reached in proptest::bool::ANY,
    ) {
        let named = |n: &u8| if *n == 0 { String::new() } else { format!("10.{n}.0.1") };
        let texts = |hops: &[u8]| hops.iter().map(named).collect::<Vec<_>>();
        let (a, b) = (texts(&here), texts(&other));
        let (mut a, b) = (of(&[&a]), of(&[&b]));
        a.reached = reached;
        let own = compare_routes(&a, &a);
        proptest::prop_assert!(own.kind == RouteChangeKind::Same && own.ranges.is_empty());
        let change = compare_routes(&a, &b);
        // Ranges ascend, never overlap, and lie inside the routes.
        let mut last = (0, 0);
        for range in &change.ranges {
            for (ends, last, hops) in [
                (range.here, &mut last.0, a.hops.len()),
                (range.other, &mut last.1, b.hops.len()),
            ] {
                if let Some([from, to]) = ends {
                    proptest::prop_assert!(*last < from && from <= to && usize::from(to) <= hops);
                    *last = to;
                }
            }
        }
        let quiet = change.kind <= RouteChangeKind::SilentHop;
        proptest::prop_assert!(!quiet || change.ranges.is_empty());
    }
}
