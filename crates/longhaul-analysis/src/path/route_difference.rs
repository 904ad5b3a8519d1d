//! Compares two routes.
//!
//! The two lists of hops are aligned at minimum cost (see [`hop_alignment`]); differences are named as in
//! SLAC's traceroute tables: last octet, same autonomous system, one hop, several hops, end not
//! reached, stutter. A silent hop is not a change: it may be the hop that the other route has
//! there. Equal-cost alternatives that a trace found count as the same hop.
//!
//! Source: the rules of SLAC's traceroute analysis (IEPM), in our words; /64 for its last octet in
//! IPv6. Units: TTL, ns. Error: of several alignments with the same cost one is shown.
//! Wrong when: two traces of one flow took two routes, and alternatives were not searched for.

pub(super) mod hop_alignment;

use hop_alignment::{AlignedHops, HopRelation};
use longhaul_model::report::v1::path::{
    ChangedHops, ObservedRoute, RouteChangeKind, RouteDifference,
};

/// Compares `here` with the earlier route `other`. The caller fills in numbers and runs.
pub fn compare_routes(here: &ObservedRoute, other: &ObservedRoute) -> RouteDifference {
    let difference = compare_hops(here, other);
    let kind = if other.reached && !here.reached {
        RouteChangeKind::EndNotReached
    } else {
        difference.kind
    };
    RouteDifference {
        kind,
        other_number: None,
        other_run: None,
        ranges: difference.ranges,
        rtt_step_ns: compute_rtt_step(find_destination_rtt(here), find_destination_rtt(other)),
    }
}

/// The difference of the hops alone, regardless of whether the end was reached.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct HopDifference {
    pub kind: RouteChangeKind,
    pub ranges: Vec<ChangedHops>,
    /// Hops that answered in both routes and are the same.
    pub agreeing: usize,
}

pub(super) fn compare_hops(here: &ObservedRoute, other: &ObservedRoute) -> HopDifference {
    let alignment = hop_alignment::align_routes(here, other);
    let mut changed = Vec::new();
    // An equal pair of hops ends a change; silence inside a change does not.
    for part in alignment.pairs.split(|pair| pair.relation == HopRelation::Same) {
        let sorts = |pair: &AlignedHops| pair.relation.is_change();
        let Some(first) = part.iter().position(sorts) else {
            continue;
        };
        let last = part.iter().rposition(sorts).unwrap_or(first);
        changed.push(&part[first..=last]);
    }
    HopDifference {
        kind: classify_change(&alignment, &changed),
        ranges: changed.iter().map(|part| build_changed_range(part)).collect(),
        agreeing: alignment.pairs.iter().filter(|p| p.relation == HopRelation::Same).count(),
    }
}

/// Returns the largest kind of difference.
fn classify_change(
    alignment: &hop_alignment::RouteAlignment,
    changed: &[&[AlignedHops]],
) -> RouteChangeKind {
    let hops: usize = changed.iter().map(|part| count_other_hops(part)).sum();
    let any = |sort| alignment.pairs.iter().any(|pair| pair.relation == sort);
    match hops {
        2.. => RouteChangeKind::SeveralHops,
        1 => RouteChangeKind::OneHop,
        _ if any(HopRelation::SameAs) => RouteChangeKind::SameAs,
        _ if any(HopRelation::LastOctet) => RouteChangeKind::LastOctet,
        _ if any(HopRelation::Stutter) => RouteChangeKind::Stutter,
        _ if any(HopRelation::Silent) || alignment.unseen => RouteChangeKind::SilentHop,
        _ => RouteChangeKind::Same,
    }
}

/// Returns the number of different hops of one change, on the longer side.
fn count_other_hops(part: &[AlignedHops]) -> usize {
    let others = || part.iter().filter(|pair| pair.relation == HopRelation::Other);
    let here = others().filter(|pair| pair.here.is_some()).count();
    let there = others().filter(|pair| pair.other.is_some()).count();
    here.max(there)
}

fn build_changed_range(part: &[AlignedHops]) -> ChangedHops {
    let span = |side: fn(&AlignedHops) -> Option<u8>| {
        let mut ttls = part.iter().filter_map(side);
        let first = ttls.next()?;
        Some([first, ttls.next_back().unwrap_or(first)])
    };
    ChangedHops { here: span(|pair| pair.here), other: span(|pair| pair.other) }
}

/// Returns the minimum RTT to the destination in a trace.
pub(super) fn find_destination_rtt(route: &ObservedRoute) -> Option<u64> {
    let last = route.hops.last().filter(|_| route.reached)?;
    let times = last.answers.iter().flat_map(|answer| &answer.rtts_ns);
    times.min().copied()
}

pub(super) fn compute_rtt_step(here: Option<u64>, other: Option<u64>) -> Option<i64> {
    let here = i64::try_from(here?).ok()?;
    Some(here - i64::try_from(other?).ok()?)
}

#[cfg(test)]
mod tests;
