//! Compares two routes.
//!
//! The two lists of hops are aligned at minimum cost (see [`align`]); differences are named as in
//! SLAC's traceroute tables: last octet, same autonomous system, one hop, several hops, end not
//! reached, stutter. A silent hop is not a change: it may be the hop that the other route has
//! there. Equal-cost alternatives that a trace found count as the same hop.
//!
//! Source: the rules of SLAC's traceroute analysis (IEPM), in our words; /64 for its last octet in
//! IPv6. Units: TTL, ns. Error: of several alignments with the same cost one is shown.
//! Wrong when: two traces of one flow took two routes, and alternatives were not searched for.

pub(super) mod align;
pub(super) mod likeness;

use align::{Pair, Sort};
use longhaul_model::report::v1::path::{ChangeKind, ChangedRange, Route, RouteChange};

/// Compares `here` with the earlier route `other`. The caller fills in numbers and runs.
pub fn compare(here: &Route, other: &Route) -> RouteChange {
    let difference = difference(here, other);
    let kind = if other.reached && !here.reached {
        ChangeKind::EndNotReached
    } else {
        difference.kind
    };
    RouteChange {
        kind,
        other_number: None,
        other_run: None,
        ranges: difference.ranges,
        rtt_step_ns: step(floor(here), floor(other)),
    }
}

/// The difference of the hops alone, regardless of whether the end was reached.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Difference {
    pub kind: ChangeKind,
    pub ranges: Vec<ChangedRange>,
    /// Hops that answered in both routes and are the same.
    pub agreeing: usize,
}

pub(super) fn difference(here: &Route, other: &Route) -> Difference {
    let laid = align::lay(here, other);
    let mut changed = Vec::new();
    // An equal pair of hops ends a change; silence inside a change does not.
    for part in laid.pairs.split(|pair| pair.sort == Sort::Same) {
        let sorts = |pair: &Pair| pair.sort.changed();
        let Some(first) = part.iter().position(sorts) else {
            continue;
        };
        let last = part.iter().rposition(sorts).unwrap_or(first);
        changed.push(&part[first..=last]);
    }
    Difference {
        kind: kind(&laid, &changed),
        ranges: changed.iter().map(|part| range(part)).collect(),
        agreeing: laid.pairs.iter().filter(|p| p.sort == Sort::Same).count(),
    }
}

/// Returns the largest kind of difference.
fn kind(laid: &align::Laid, changed: &[&[Pair]]) -> ChangeKind {
    let hops: usize = changed.iter().map(|part| other_hops(part)).sum();
    let any = |sort| laid.pairs.iter().any(|pair| pair.sort == sort);
    match hops {
        2.. => ChangeKind::SeveralHops,
        1 => ChangeKind::OneHop,
        _ if any(Sort::SameAs) => ChangeKind::SameAs,
        _ if any(Sort::LastOctet) => ChangeKind::LastOctet,
        _ if any(Sort::Stutter) => ChangeKind::Stutter,
        _ if any(Sort::Silent) || laid.unseen => ChangeKind::SilentHop,
        _ => ChangeKind::Same,
    }
}

/// Returns the number of different hops of one change, on the longer side.
fn other_hops(part: &[Pair]) -> usize {
    let others = || part.iter().filter(|pair| pair.sort == Sort::Other);
    let here = others().filter(|pair| pair.here.is_some()).count();
    let there = others().filter(|pair| pair.other.is_some()).count();
    here.max(there)
}

fn range(part: &[Pair]) -> ChangedRange {
    let span = |side: fn(&Pair) -> Option<u8>| {
        let mut ttls = part.iter().filter_map(side);
        let first = ttls.next()?;
        Some([first, ttls.next_back().unwrap_or(first)])
    };
    ChangedRange {
        here: span(|pair| pair.here),
        other: span(|pair| pair.other),
    }
}

/// Returns the minimum RTT to the destination in a trace.
pub(super) fn floor(route: &Route) -> Option<u64> {
    let last = route.hops.last().filter(|_| route.reached)?;
    let times = last.answers.iter().flat_map(|answer| &answer.rtts_ns);
    times.min().copied()
}

pub(super) fn step(here: Option<u64>, other: Option<u64>) -> Option<i64> {
    let here = i64::try_from(here?).ok()?;
    Some(here - i64::try_from(other?).ok()?)
}

#[cfg(test)]
mod tests;
