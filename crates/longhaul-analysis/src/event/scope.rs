//! Determines which other paths changed with this one, and what only the changed paths share.
//!
//! The changed paths share exactly one host: it is that host or its access, unless other paths of
//! it stayed. They share a hop that no unchanged path has: it is that segment. Only this path
//! changed: it is the path or its remote host.
//!
//! Source: set intersection of hosts and hops. Units: paths, counted once for both directions.
//! Error: none; it is as complete as the mesh is. Wrong when: two problems begin at the same time;
//! routes were not traced.

use super::case::Case;
use super::words;
use crate::path::words::count;
use longhaul_model::report::v1::path::Route;
use longhaul_model::report::v1::series::Pair;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The minimum timing score of simultaneous changes.
const TOGETHER: f64 = 0.3;

/// The element that the changed paths share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shared {
    /// One host, and none of its other paths stayed unchanged.
    End(String),
    /// One host, but some of its other paths stayed unchanged.
    PartOfEnd(String),
    /// A hop that unchanged paths do not have.
    Segment(String),
    /// Only one of several paths changed.
    OnlyThis,
    Nothing,
}

/// The changed paths and the conclusion from them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    pub shared: Shared,
    pub text: String,
    /// The time at which the others changed; `None` if none did.
    pub between_us: Option<[i64; 2]>,
}

/// The two hosts of a path, independent of direction.
type Ends<'a> = [&'a str; 2];

fn ends(pair: &Pair) -> Ends<'_> {
    let (a, b) = (pair.from.as_str(), pair.to.as_str());
    if a <= b { [a, b] } else { [b, a] }
}

/// Returns `None` if no other path is known.
pub fn scope(case: &Case) -> Option<Scope> {
    let own = ends(&case.event.pair);
    let near = || {
        let all = case.evidence.elsewhere.iter();
        all.filter(|e| ends(&e.event.pair) != own && case.timing(e.event.between_us) >= TOGETHER)
    };
    let changed: BTreeSet<Ends> = near().map(|e| ends(&e.event.pair)).collect();
    let steady: BTreeSet<Ends> = case
        .evidence
        .steady
        .iter()
        .map(|s| ends(s.pair))
        .filter(|pair| *pair != own && !changed.contains(pair))
        .collect();
    if changed.is_empty() && steady.is_empty() {
        return None;
    }
    let between_us = near()
        .map(|e| e.event.between_us)
        .min_by_key(|b| b[0].abs_diff(case.event.between_us[0]));
    let (shared, text) = if changed.is_empty() {
        (Shared::OnlyThis, only_this(case, steady.len()))
    } else {
        together(case, own, &changed, &steady)
    };
    Some(Scope {
        shared,
        text,
        between_us,
    })
}

fn only_this(case: &Case, steady: usize) -> String {
    let pair = &case.event.pair;
    format!(
        "Only the path from {} to {} changed; {} did not: it is this path or its far end",
        words::quoted(&pair.from),
        words::quoted(&pair.to),
        count(steady, "other path"),
    )
}

fn together(
    case: &Case,
    own: Ends,
    changed: &BTreeSet<Ends>,
    steady: &BTreeSet<Ends>,
) -> (Shared, String) {
    let names: Vec<String> = changed
        .iter()
        .take(4)
        .map(|[a, b]| format!("{} - {}", words::quoted(a), words::quoted(b)))
        .collect();
    let more = if changed.len() > names.len() {
        ", ..."
    } else {
        ""
    };
    let begin = format!(
        "{} changed with it ({}{more})",
        count(changed.len(), "other path"),
        names.join(", ")
    );
    let common: Vec<&str> = own
        .into_iter()
        .filter(|end| changed.iter().all(|pair| pair.contains(end)))
        .collect();
    let segment = segment(case);
    if let [end] = common[..] {
        let host = words::quoted(end);
        let stayed = steady.iter().filter(|pair| pair.contains(&end)).count();
        if stayed == 0 {
            return (
                Shared::End(host.clone()),
                format!(
                    "{begin}; all share {host}, and no other path of it is known to have stayed: it is {host} or its access"
                ),
            );
        }
        let not = format!(
            "{begin}; all share {host}, but {} of it did not change",
            count(stayed, "other path")
        );
        return match segment {
            Some(hop) => (
                Shared::Segment(hop.clone()),
                format!(
                    "{not}; those that changed go by {hop}, the others do not: it is that segment"
                ),
            ),
            None => (
                Shared::PartOfEnd(host.clone()),
                format!(
                    "{not}: it is not {host} as a whole, rather a part of the way that they share{}",
                    prefix(case)
                ),
            ),
        };
    }
    match segment {
        Some(hop) => (
            Shared::Segment(hop.clone()),
            format!("{begin}; all go by {hop}, and no steady path does: it is that segment"),
        ),
        None => (
            Shared::Nothing,
            format!("{begin}; what they share is not known{}", prefix(case)),
        ),
    }
}

/// Returns the addresses of a route between its ends, with the names to show.
fn transit(route: &Route) -> BTreeMap<&str, String> {
    let answers = route.hops.iter().filter_map(|hop| hop.answers.first());
    answers
        .filter(|answer| answer.address != route.to && answer.address != route.from)
        .map(|answer| {
            (
                answer.address.as_str(),
                words::quoted(answer.name.as_ref().unwrap_or(&answer.address)),
            )
        })
        .collect()
}

/// Returns the first hop that all changed paths have after the event, and no unchanged one has.
fn segment(case: &Case) -> Option<String> {
    let own = case.routes_beside(false).1?.value;
    let near = case
        .evidence
        .elsewhere
        .iter()
        .filter(|e| case.timing(e.event.between_us) >= TOGETHER);
    let others: Vec<&Route> = near.map(|e| e.route).collect::<Option<_>>()?;
    let names = transit(own);
    let on = |route: &Route, address: &str| {
        route
            .hops
            .iter()
            .any(|hop| hop.answers.iter().any(|a| a.address == address))
    };
    let spared = |address: &str| {
        !case
            .evidence
            .steady
            .iter()
            .filter_map(|s| s.route)
            .any(|route| on(route, address))
    };
    let mut in_order = own.hops.iter().filter_map(|hop| hop.answers.first());
    let found = in_order.find(|answer| {
        let address = answer.address.as_str();
        names.contains_key(address)
            && others.iter().all(|route| on(route, address))
            && spared(address)
    })?;
    names.get(found.address.as_str()).cloned()
}

/// Returns `; their far ends lie in one network` if that is so.
fn prefix(case: &Case) -> &'static str {
    let own = case.routes_beside(false).1.and_then(|r| block(&r.value.to));
    let near = case
        .evidence
        .elsewhere
        .iter()
        .filter(|e| case.timing(e.event.between_us) >= TOGETHER);
    let mut others = near.map(|e| e.route.and_then(|route| block(&route.to)));
    if own.is_some() && others.all(|other| other == own) {
        "; their far ends lie in one network"
    } else {
        ""
    }
}

/// Returns the leading octets of an address: its /24 or /48.
fn block(address: &str) -> Option<Vec<u8>> {
    Some(match address.split('%').next()?.parse().ok()? {
        IpAddr::V4(v4) => v4.octets()[..3].to_vec(),
        IpAddr::V6(v6) => v6.octets()[..6].to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::evidence::{Elsewhere, Steady};
    use super::super::sketch::{self, HOUR, pair, route_to};
    use super::*;
    use longhaul_model::report::v1::event::Event;

    /// Returns the scope of slac-cesnet, given the other paths that changed and those that did not.
    fn scope_of(
        changed: &[(&str, &str)],
        steady: &[(&str, &str)],
        routes: [&[&str]; 3],
    ) -> Option<Scope> {
        let mut sketch = sketch::fell();
        sketch.trace(HOUR, routes[0]);
        let event = sketch.event();
        let other = |(from, to): &(&str, &str)| Event {
            pair: pair(from, to),
            ..event.clone()
        };
        let others: Vec<Event> = changed.iter().map(other).collect();
        let pairs: Vec<Pair> = steady.iter().map(|(a, b)| pair(a, b)).collect();
        let (theirs, stayed) = (
            route_to("192.0.2.77", routes[1]),
            route_to("192.0.2.78", routes[2]),
        );
        let mut evidence = sketch.evidence();
        evidence.elsewhere = others
            .iter()
            .map(|event| Elsewhere {
                event,
                route: Some(&theirs),
            })
            .collect();
        evidence.steady = pairs
            .iter()
            .map(|pair| Steady {
                pair,
                route: Some(&stayed),
            })
            .collect();
        scope(&Case {
            event: &event,
            evidence: &evidence,
        })
    }

    const PLAIN: [&[&str]; 3] = [&["10.1.0.1", "10.2.0.1"], &["10.4.0.1"], &["10.5.0.1"]];

    #[test]
    fn paths_that_share_one_end_point_at_it() {
        let found = scope_of(&[("slac", "in2p3")], &[("cern", "in2p3")], PLAIN).expect("a scope");
        assert_eq!(found.shared, Shared::End(String::from("slac")));
        assert!(found.text.contains("slac or its access"), "{}", found.text);
    }

    #[test]
    fn steady_paths_of_that_end_acquit_it() {
        let found = scope_of(&[("slac", "in2p3")], &[("slac", "nikhef")], PLAIN).expect("a scope");
        assert_eq!(found.shared, Shared::PartOfEnd(String::from("slac")));
    }

    #[test]
    fn a_hop_that_only_changed_paths_have_is_the_segment() {
        let routes: [&[&str]; 3] = [
            &["10.1.0.1", "10.2.0.1", "10.3.0.1"],
            &["10.1.0.1", "10.2.0.1"],
            &["10.1.0.1", "10.6.0.1"],
        ];
        let found = scope_of(&[("slac", "in2p3")], &[("slac", "nikhef")], routes).expect("a scope");
        assert_eq!(found.shared, Shared::Segment(String::from("10.2.0.1")));
        let apart =
            scope_of(&[("caltech", "in2p3")], &[("fnal", "nikhef")], routes).expect("a scope");
        assert_eq!(apart.shared, Shared::Segment(String::from("10.2.0.1")));
    }

    #[test]
    fn one_path_alone_is_itself_or_its_far_end() {
        let found =
            scope_of(&[], &[("slac", "nikhef"), ("slac", "in2p3")], PLAIN).expect("a scope");
        assert_eq!(found.shared, Shared::OnlyThis);
        assert!(
            found.text.contains("2 other paths did not"),
            "{}",
            found.text
        );
    }

    #[test]
    fn without_other_paths_nothing_is_said() {
        assert_eq!(scope_of(&[], &[], PLAIN), None);
        // The return direction of the same path does not count as another path.
        assert_eq!(scope_of(&[("cesnet", "slac")], &[], PLAIN), None);
    }
}
