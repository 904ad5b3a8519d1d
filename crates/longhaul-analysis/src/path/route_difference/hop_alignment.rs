//! Aligns the hops of two routes.
//!
//! The alignment of minimum cost (Needleman and Wunsch 1970). Equal hops earn a bonus, so that a
//! change shows as one range and not as many; a hop that only one route has costs little more than
//! half of a different hop, so that ranges of different length are found.
//!
//! # Likeness of hops
//!
//! Rates the likeness of two hops of two routes.

use longhaul_model::report::v1::path::{ObservedHop, ObservedRoute};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Cost of a pair of hops, and of a hop without a counterpart.
const SAME: i32 = -20;
const SILENT: i32 = 1;
const NEIGHBOUR: i32 = 20;
const SAME_AS: i32 = 30;
const OTHER: i32 = 100;
const UNPAIRED: i32 = 60;
/// One router answers for several TTLs: instead of another hop, or as an additional hop.
const STUTTER: i32 = 15;

/// The relation of two paired hops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HopRelation {
    Same,
    /// Silent in both.
    Unknown,
    /// Silent in one.
    Silent,
    Stutter,
    LastOctet,
    SameAs,
    Other,
}

impl HopRelation {
    /// Returns true for a change; silence is not a change.
    pub fn is_change(self) -> bool {
        !matches!(self, HopRelation::Same | HopRelation::Unknown | HopRelation::Silent)
    }
}

/// Two paired hops, or one alone; by TTL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AlignedHops {
    pub here: Option<u8>,
    pub other: Option<u8>,
    pub relation: HopRelation,
}

/// The alignment of two routes.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteAlignment {
    pub pairs: Vec<AlignedHops>,
    /// One trace ends before its destination, and the rest of the other has no counterpart.
    pub unseen: bool,
}

pub fn align_routes(here: &ObservedRoute, other: &ObservedRoute) -> RouteAlignment {
    let (a, b) = (list_compared_hops(here), list_compared_hops(other));
    let costs = compute_costs(&a, &b);
    let (mut i, mut j) = find_alignment_end(&costs, here.reached, other.reached);
    let unseen = i < a.len() || j < b.len();
    let mut pairs = Vec::with_capacity(a.len().max(b.len()));
    while i > 0 || j > 0 {
        let (before, sort) = find_cheapest_move(&costs, &a, &b, (i, j));
        pairs.push(AlignedHops {
            here: (before.0 < i).then(|| a[before.0].ttl),
            other: (before.1 < j).then(|| b[before.1].ttl),
            relation: sort,
        });
        (i, j) = before;
    }
    pairs.reverse();
    RouteAlignment { pairs, unseen }
}

/// Returns the minimum cost of aligning the first i hops with the first j.
fn compute_costs(a: &[ComparedHop], b: &[ComparedHop]) -> Vec<Vec<i32>> {
    let mut table = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            let ways = list_moves(&table, a, b, (i, j));
            table[i][j] = ways.into_iter().flatten().map(|w| w.0).min().unwrap_or(0);
        }
    }
    table
}

type CostIndex = (usize, usize);
/// Cost so far, previous cell, and relation of the last pair.
type CostMove = (i32, CostIndex, HopRelation);

/// Returns the moves to a cell: both lists advance, or one of them; preferred ones first.
fn list_moves(
    table: &[Vec<i32>],
    a: &[ComparedHop],
    b: &[ComparedHop],
    (i, j): CostIndex,
) -> [Option<CostMove>; 3] {
    let way = |from: CostIndex, (cost, sort)| Some((table[from.0][from.1] + cost, from, sort));
    let last_a = i.checked_sub(1);
    let last_b = j.checked_sub(1);
    [
        last_a.zip(last_b).and_then(|from| way(from, compute_pair_cost(&a[from.0], &b[from.1]))),
        last_a.and_then(|at| way((at, j), compute_unpaired_cost(&a[at]))),
        last_b.and_then(|at| way((i, at), compute_unpaired_cost(&b[at]))),
    ]
}

fn find_cheapest_move(
    table: &[Vec<i32>],
    a: &[ComparedHop],
    b: &[ComparedHop],
    at: CostIndex,
) -> (CostIndex, HopRelation) {
    let mut ways = list_moves(table, a, b, at).into_iter().flatten();
    let cheapest = ways.find(|way| way.0 == table[at.0][at.1]);
    let (_, from, sort) = cheapest.expect("one of the ways has the cost of the table");
    (from, sort)
}

fn compute_pair_cost(a: &ComparedHop, b: &ComparedHop) -> (i32, HopRelation) {
    match rate_likeness(a, b) {
        HopLikeness::Same => (SAME, HopRelation::Same),
        HopLikeness::Silent if a.own == b.own => (0, HopRelation::Unknown),
        HopLikeness::Silent => (SILENT, HopRelation::Silent),
        _ if a.stutter != b.stutter => (STUTTER, HopRelation::Stutter),
        HopLikeness::Neighbour => (NEIGHBOUR, HopRelation::LastOctet),
        HopLikeness::SameAs => (SAME_AS, HopRelation::SameAs),
        HopLikeness::Other => (OTHER, HopRelation::Other),
    }
}

fn compute_unpaired_cost(place: &ComparedHop) -> (i32, HopRelation) {
    if place.stutter { (STUTTER, HopRelation::Stutter) } else { (UNPAIRED, HopRelation::Other) }
}

/// Returns the cell at which the alignment ends: the ends of both lists, or, if a trace was
/// truncated, its last hop; the part that both traces could see is always aligned.
fn find_alignment_end(table: &[Vec<i32>], here_reached: bool, other_reached: bool) -> CostIndex {
    let (n, m) = (table.len() - 1, table[0].len() - 1);
    let both = n.min(m);
    let mut ends = vec![(n, m)];
    if !other_reached {
        ends.extend((both..n).map(|i| (i, m)));
    }
    if !here_reached {
        ends.extend((both..m).map(|j| (n, j)));
    }
    let cost = |at: &CostIndex| table[at.0][at.1];
    ends.into_iter().min_by_key(cost).unwrap_or((n, m))
}

/// One hop, reduced to what the comparison needs.
#[derive(Debug, Clone)]
pub struct ComparedHop<'r> {
    pub ttl: u8,
    /// The address that answered the one flow; `None` if silent.
    pub own: Option<&'r str>,
    /// Autonomous system of that address.
    autonomous_system: Option<u32>,
    /// That address and its equal-cost alternatives.
    all: BTreeSet<&'r str>,
    /// The hop before has the same address.
    pub stutter: bool,
}

/// Returns the hops of a route; trailing silent hops are left out if it does not reach its end.
pub fn list_compared_hops(route: &ObservedRoute) -> Vec<ComparedHop<'_>> {
    let answering = |hop: &ObservedHop| !hop.answers.is_empty();
    let last = if route.reached {
        route.hops.len()
    } else {
        route.hops.iter().rposition(answering).map_or(0, |at| at + 1)
    };
    let mut found: Vec<ComparedHop> = Vec::with_capacity(last);
    for hop in &route.hops[..last] {
        let mut next = build_compared_hop(route, hop);
        next.stutter = next.own.is_some() && found.last().is_some_and(|p| p.own == next.own);
        found.push(next);
    }
    found
}

fn build_compared_hop<'r>(route: &'r ObservedRoute, hop: &'r ObservedHop) -> ComparedHop<'r> {
    let first = hop.answers.first();
    let mut all: BTreeSet<&str> = hop.answers.iter().map(|a| a.address.as_str()).collect();
    for link in &route.links {
        if link.ttl == hop.ttl {
            all.insert(&link.from);
        }
        if link.ttl.checked_add(1) == Some(hop.ttl) {
            all.insert(&link.to);
        }
    }
    ComparedHop {
        ttl: hop.ttl,
        own: first.map(|answer| answer.address.as_str()),
        autonomous_system: first.and_then(|answer| answer.autonomous_system),
        all,
        stutter: false,
    }
}

/// Degrees of likeness, in descending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HopLikeness {
    Same,
    /// One or both are silent.
    Silent,
    /// The first three octets are the same; in IPv6 the first 64 bits.
    Neighbour,
    SameAs,
    Other,
}

pub fn rate_likeness(a: &ComparedHop, b: &ComparedHop) -> HopLikeness {
    let (Some(own_a), Some(own_b)) = (a.own, b.own) else {
        return HopLikeness::Silent;
    };
    let systems = a.autonomous_system.zip(b.autonomous_system);
    if a.all.contains(own_b) || b.all.contains(own_a) {
        HopLikeness::Same
    } else if is_same_block(own_a, own_b) {
        HopLikeness::Neighbour
    } else if systems.is_some_and(|(a, b)| a == b) {
        HopLikeness::SameAs
    } else {
        HopLikeness::Other
    }
}

fn is_same_block(a: &str, b: &str) -> bool {
    find_address_block(a).is_some_and(|of_a| Some(of_a) == find_address_block(b))
}

/// Returns the first address of the /24 or /64 that contains an address.
pub fn find_address_block(address: &str) -> Option<IpAddr> {
    // A link-local address may carry the name of an interface.
    let bare = address.split('%').next()?;
    match bare.parse().ok()? {
        IpAddr::V4(v4) => {
            let [a, b, c, _] = v4.octets();
            Some(IpAddr::from([a, b, c, 0]))
        }
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            Some(IpAddr::from([a, b, c, d, 0, 0, 0, 0]))
        }
    }
}
