//! Aligns the hops of two routes.
//!
//! The alignment of minimum cost (Needleman and Wunsch 1970). Equal hops earn a bonus, so that a
//! change shows as one range and not as many; a hop that only one route has costs little more than
//! half of a different hop, so that ranges of different length are found.

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
    /// The first three octets are the same; in IPv6 the first 64 bits.
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
    let moves = compute_moves(&a, &b);
    let (mut i, mut j) = find_alignment_end(&moves, here.reached, other.reached);
    let unseen = i < a.len() || j < b.len();
    let mut pairs = Vec::with_capacity(a.len().max(b.len()));
    while i > 0 || j > 0 {
        let AlignmentMove { from, relation, .. } = moves[i][j];
        pairs.push(AlignedHops {
            here: (from.0 < i).then(|| a[from.0].ttl),
            other: (from.1 < j).then(|| b[from.1].ttl),
            relation,
        });
        (i, j) = from;
    }
    pairs.reverse();
    RouteAlignment { pairs, unseen }
}

/// Returns the cheapest move to each cell: it aligns the first i hops with the first j.
fn compute_moves(a: &[ComparedHop], b: &[ComparedHop]) -> Vec<Vec<AlignmentMove>> {
    let mut table = vec![vec![AlignmentMove::START; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            let ways = list_moves(&table, a, b, (i, j)).into_iter().flatten();
            table[i][j] = ways.min_by_key(|way| way.cost).unwrap_or(AlignmentMove::START);
        }
    }
    table
}

type CostIndex = (usize, usize);

/// A move to a cell of the table.
#[derive(Debug, Clone, Copy)]
struct AlignmentMove {
    /// The cost up to and including this move.
    cost: i32,
    from: CostIndex,
    relation: HopRelation,
}

impl AlignmentMove {
    const START: AlignmentMove =
        AlignmentMove { cost: 0, from: (0, 0), relation: HopRelation::Unknown };
}

/// Returns the moves to a cell: both lists advance, or one of them; preferred ones first.
fn list_moves(
    table: &[Vec<AlignmentMove>],
    a: &[ComparedHop],
    b: &[ComparedHop],
    (i, j): CostIndex,
) -> [Option<AlignmentMove>; 3] {
    let way = |from: CostIndex, (cost, relation)| {
        Some(AlignmentMove { cost: table[from.0][from.1].cost + cost, from, relation })
    };
    let last_a = i.checked_sub(1);
    let last_b = j.checked_sub(1);
    [
        last_a.zip(last_b).and_then(|from| way(from, compute_pair_cost(&a[from.0], &b[from.1]))),
        last_a.and_then(|at| way((at, j), compute_unpaired_cost(&a[at]))),
        last_b.and_then(|at| way((i, at), compute_unpaired_cost(&b[at]))),
    ]
}

fn compute_pair_cost(a: &ComparedHop, b: &ComparedHop) -> (i32, HopRelation) {
    let (Some(own_a), Some(own_b)) = (a.own, b.own) else {
        let silent = a.own == b.own;
        return if silent { (0, HopRelation::Unknown) } else { (SILENT, HopRelation::Silent) };
    };
    let systems = a.autonomous_system.zip(b.autonomous_system);
    if a.all.contains(own_b) || b.all.contains(own_a) {
        (SAME, HopRelation::Same)
    } else if a.stutter != b.stutter {
        (STUTTER, HopRelation::Stutter)
    } else if is_same_block(own_a, own_b) {
        (NEIGHBOUR, HopRelation::LastOctet)
    } else if systems.is_some_and(|(a, b)| a == b) {
        (SAME_AS, HopRelation::SameAs)
    } else {
        (OTHER, HopRelation::Other)
    }
}

fn compute_unpaired_cost(place: &ComparedHop) -> (i32, HopRelation) {
    if place.stutter { (STUTTER, HopRelation::Stutter) } else { (UNPAIRED, HopRelation::Other) }
}

/// Returns the cell at which the alignment ends: the ends of both lists, or, if a trace was
/// truncated, its last hop; the part that both traces could see is always aligned.
fn find_alignment_end(
    table: &[Vec<AlignmentMove>],
    here_reached: bool,
    other_reached: bool,
) -> CostIndex {
    let (n, m) = (table.len() - 1, table[0].len() - 1);
    let both = n.min(m);
    let mut ends = vec![(n, m)];
    if !other_reached {
        ends.extend((both..n).map(|i| (i, m)));
    }
    if !here_reached {
        ends.extend((both..m).map(|j| (n, j)));
    }
    let cost = |at: &CostIndex| table[at.0][at.1].cost;
    ends.into_iter().min_by_key(cost).unwrap_or((n, m))
}

/// One hop, reduced to what the comparison needs.
#[derive(Debug, Clone)]
struct ComparedHop<'r> {
    ttl: u8,
    /// The address that answered the one flow; `None` if silent.
    own: Option<&'r str>,
    /// Autonomous system of that address.
    autonomous_system: Option<u32>,
    /// That address and its equal-cost alternatives.
    all: BTreeSet<&'r str>,
    /// The hop before has the same address.
    stutter: bool,
}

/// Returns the hops of a route; trailing silent hops are left out if it does not reach its end.
fn list_compared_hops(route: &ObservedRoute) -> Vec<ComparedHop<'_>> {
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
