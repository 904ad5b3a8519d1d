//! Determines which other paths changed with this one, and what only the changed paths share.
//!
//! The changed paths share exactly one host: it is that host or its access, unless other paths of
//! it stayed. They share a hop that no unchanged path has: it is that segment. Only this path
//! changed: it is the path or its remote host.
//!
//! Source: set intersection of hosts and hops. Units: paths, counted once for both directions.
//! Error: none; it is as complete as the mesh is. Wrong when: two problems begin at the same time;
//! routes were not traced.

use super::change_evidence::OtherPathChange;
use super::event_case::EventCase;
use super::event_format;
use longhaul_model::report::v1::HostPair;
use longhaul_model::report::v1::path::ObservedRoute;
use longhaul_model::units::count_of;
use std::collections::BTreeSet;

/// The minimum timing score of simultaneous changes.
const MIN_TIMING: f64 = 0.3;

/// The element that the changed paths share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SharedElement {
    /// One host, and none of its other paths stayed unchanged.
    Host(String),
    /// One host, but some of its other paths stayed unchanged.
    PartOfHost(String),
    /// A hop that unchanged paths do not have.
    Segment(String),
    /// Only one of several paths changed.
    OnlyThisPath,
    Nothing,
}

/// The changed paths and the conclusion from them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeScope {
    pub shared: SharedElement,
    pub text: String,
    /// The time at which the others changed; `None` if none did.
    pub between_us: Option<[i64; 2]>,
}

/// The two hosts of a path, independent of direction.
type UnorderedHosts<'a> = [&'a str; 2];

fn order_hosts(pair: &HostPair) -> UnorderedHosts<'_> {
    let (a, b) = (pair.from.as_str(), pair.to.as_str());
    if a <= b { [a, b] } else { [b, a] }
}

/// Returns the changes of other paths near the event.
fn list_near_changes<'a>(case: &EventCase<'a>) -> impl Iterator<Item = &'a OtherPathChange<'a>> {
    let case = *case;
    let all = case.evidence.other_path_changes.iter();
    all.filter(move |change| case.timing(change.event.between_us) >= MIN_TIMING)
}

/// Returns `None` if no other path is known.
pub fn find_change_scope(case: &EventCase) -> Option<ChangeScope> {
    let own = order_hosts(&case.event.pair);
    let near = || list_near_changes(case).filter(|e| order_hosts(&e.event.pair) != own);
    let changed: BTreeSet<UnorderedHosts> = near().map(|e| order_hosts(&e.event.pair)).collect();
    let steady: BTreeSet<UnorderedHosts> = case
        .evidence
        .unchanged_paths
        .iter()
        .map(|s| order_hosts(s.pair))
        .filter(|pair| *pair != own && !changed.contains(pair))
        .collect();
    if changed.is_empty() && steady.is_empty() {
        return None;
    }
    let between_us =
        near().map(|e| e.event.between_us).min_by_key(|b| b[0].abs_diff(case.event.between_us[0]));
    let (shared, text) = if changed.is_empty() {
        (SharedElement::OnlyThisPath, describe_single_change(case, steady.len()))
    } else {
        describe_common_changes(case, own, &changed, &steady)
    };
    Some(ChangeScope { shared, text, between_us })
}

fn describe_single_change(case: &EventCase, steady: usize) -> String {
    let pair = &case.event.pair;
    format!(
        "Only the path from {} to {} changed; {} did not: the cause is on this path or at its far end",
        event_format::sanitize_name(&pair.from),
        event_format::sanitize_name(&pair.to),
        count_of(steady as u64, "other path"),
    )
}

fn describe_common_changes(
    case: &EventCase,
    own: UnorderedHosts,
    changed: &BTreeSet<UnorderedHosts>,
    steady: &BTreeSet<UnorderedHosts>,
) -> (SharedElement, String) {
    let name = event_format::sanitize_name;
    let names: Vec<String> =
        changed.iter().take(4).map(|[a, b]| format!("{} - {}", name(a), name(b))).collect();
    let more = if changed.len() > names.len() { ", ..." } else { "" };
    let begin = format!(
        "{} changed at the same time ({}{more})",
        count_of(changed.len() as u64, "other path"),
        names.join(", ")
    );
    let common: Vec<&str> =
        own.into_iter().filter(|end| changed.iter().all(|pair| pair.contains(end))).collect();
    let segment = find_shared_segment(case);
    let [end] = common[..] else {
        let shared = segment.map_or(SharedElement::Nothing, SharedElement::Segment);
        let text = match &shared {
            SharedElement::Segment(hop) => format!(
                "{begin}; all pass {hop}, and no unchanged path does: the cause is that segment"
            ),
            _ => format!("{begin}; no shared segment is known"),
        };
        return (shared, text);
    };
    let host = name(end);
    let begin = format!("{begin}; all share {host}");
    let stayed = steady.iter().filter(|pair| pair.contains(&end)).count();
    if stayed == 0 {
        let text = format!(
            "{begin}, and no other path from it is known to be unchanged: the cause is {host} or its access link"
        );
        return (SharedElement::Host(host), text);
    }
    let begin =
        format!("{begin}, but {} of it did not change", count_of(stayed as u64, "other path"));
    if let Some(hop) = segment {
        let text = format!(
            "{begin}; those that changed pass {hop}, the others do not: the cause is that segment"
        );
        return (SharedElement::Segment(hop), text);
    }
    let text =
        format!("{begin}: the cause is not {host} as a whole, but a shared part of the path");
    (SharedElement::PartOfHost(host), text)
}

/// Returns the first hop that all changed paths have after the event, and no unchanged one has.
fn find_shared_segment(case: &EventCase) -> Option<String> {
    let own = case.routes_around_event(false).1?.value;
    let near = list_near_changes(case);
    let others: Vec<&ObservedRoute> = near.map(|e| e.route).collect::<Option<_>>()?;
    let on = |route: &ObservedRoute, address: &str| {
        route.hops.iter().any(|hop| hop.answers.iter().any(|a| a.address == address))
    };
    let steady = case.evidence.unchanged_paths.iter().filter_map(|s| s.route);
    let mut in_order = own.hops.iter().filter_map(|hop| hop.answers.first());
    let found = in_order.find(|answer| {
        let address = &answer.address;
        *address != own.to
            && *address != own.from
            && others.iter().all(|route| on(route, address))
            && !steady.clone().any(|route| on(route, address))
    })?;
    Some(event_format::name_hop(found))
}

#[cfg(test)]
mod tests {
    use super::super::change_evidence::UnchangedPath;
    use super::super::event_test_builder::{self, HOUR, build_pair, build_route_to};
    use super::*;
    use longhaul_model::report::v1::ChangeEvent;

    /// Returns the scope of slac-cesnet, given the other paths that changed and those that did not.
    fn scope_of(
        changed: &[(&str, &str)],
        steady: &[(&str, &str)],
        routes: [&[&str]; 3],
    ) -> Option<ChangeScope> {
        let mut sketch = event_test_builder::build_goodput_drop();
        sketch.trace(HOUR, routes[0]);
        let event = sketch.event();
        let other =
            |(from, to): &(&str, &str)| ChangeEvent { pair: build_pair(from, to), ..event.clone() };
        let others: Vec<ChangeEvent> = changed.iter().map(other).collect();
        let pairs: Vec<HostPair> = steady.iter().map(|(a, b)| build_pair(a, b)).collect();
        let (theirs, stayed) =
            (build_route_to("192.0.2.77", routes[1]), build_route_to("192.0.2.78", routes[2]));
        let mut evidence = sketch.evidence();
        evidence.other_path_changes =
            others.iter().map(|event| OtherPathChange { event, route: Some(&theirs) }).collect();
        evidence.unchanged_paths =
            pairs.iter().map(|pair| UnchangedPath { pair, route: Some(&stayed) }).collect();
        find_change_scope(&EventCase { event: &event, evidence: &evidence })
    }

    const PLAIN: [&[&str]; 3] = [&["10.1.0.1", "10.2.0.1"], &["10.4.0.1"], &["10.5.0.1"]];

    #[test]
    fn paths_that_share_one_end_point_at_it() {
        let found = scope_of(&[("slac", "in2p3")], &[("cern", "in2p3")], PLAIN).expect("a scope");
        assert_eq!(found.shared, SharedElement::Host(String::from("slac")));
        assert!(found.text.contains("slac or its access"), "{}", found.text);
    }

    #[test]
    fn steady_paths_of_that_end_acquit_it() {
        let found = scope_of(&[("slac", "in2p3")], &[("slac", "nikhef")], PLAIN).expect("a scope");
        assert_eq!(found.shared, SharedElement::PartOfHost(String::from("slac")));
    }

    #[test]
    fn a_hop_that_only_changed_paths_have_is_the_segment() {
        let routes: [&[&str]; 3] = [
            &["10.1.0.1", "10.2.0.1", "10.3.0.1"],
            &["10.1.0.1", "10.2.0.1"],
            &["10.1.0.1", "10.6.0.1"],
        ];
        let found = scope_of(&[("slac", "in2p3")], &[("slac", "nikhef")], routes).expect("a scope");
        assert_eq!(found.shared, SharedElement::Segment(String::from("10.2.0.1")));
        let apart =
            scope_of(&[("caltech", "in2p3")], &[("fnal", "nikhef")], routes).expect("a scope");
        assert_eq!(apart.shared, SharedElement::Segment(String::from("10.2.0.1")));
    }

    #[test]
    fn one_path_alone_is_itself_or_its_far_end() {
        let found =
            scope_of(&[], &[("slac", "nikhef"), ("slac", "in2p3")], PLAIN).expect("a scope");
        assert_eq!(found.shared, SharedElement::OnlyThisPath);
        assert!(found.text.contains("2 other paths did not"), "{}", found.text);
    }

    #[test]
    fn without_other_paths_nothing_is_said() {
        assert_eq!(scope_of(&[], &[], PLAIN), None);
        // The return direction of the same path does not count as another path.
        assert_eq!(scope_of(&[("cesnet", "slac")], &[], PLAIN), None);
    }
}
