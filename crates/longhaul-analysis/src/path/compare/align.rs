//! Aligns the hops of two routes.
//!
//! The alignment of minimum cost (Needleman and Wunsch 1970). Equal hops earn a bonus, so that a
//! change shows as one range and not as many; a hop that only one route has costs little more than
//! half of a different hop, so that ranges of different length are found.

use super::likeness::{Likeness, Place, likeness, places};
use longhaul_model::report::v1::path::Route;

/// Cost of a pair of hops, and of a hop without a counterpart.
const SAME: i32 = -20;
const SILENT: i32 = 1;
const NEIGHBOUR: i32 = 20;
const SAME_AS: i32 = 30;
const OTHER: i32 = 100;
const ALONE: i32 = 60;
/// One router answers for several TTLs: instead of another hop, or as an additional hop.
const STUTTER: i32 = 15;

/// The relation of two paired hops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
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

impl Sort {
    /// Returns true for a change; silence is not a change.
    pub fn changed(self) -> bool {
        !matches!(self, Sort::Same | Sort::Unknown | Sort::Silent)
    }
}

/// Two paired hops, or one alone; by TTL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    pub here: Option<u8>,
    pub other: Option<u8>,
    pub sort: Sort,
}

/// The alignment of two routes.
#[derive(Debug, Clone, PartialEq)]
pub struct Laid {
    pub pairs: Vec<Pair>,
    /// One trace ends before its destination, and the rest of the other has no counterpart.
    pub unseen: bool,
}

pub fn lay(here: &Route, other: &Route) -> Laid {
    let (a, b) = (places(here), places(other));
    let costs = costs(&a, &b);
    let (mut i, mut j) = end(&costs, here.reached, other.reached);
    let unseen = i < a.len() || j < b.len();
    let mut pairs = Vec::with_capacity(a.len().max(b.len()));
    while i > 0 || j > 0 {
        let (before, sort) = step_to(&costs, &a, &b, (i, j));
        pairs.push(Pair {
            here: (before.0 < i).then(|| a[before.0].ttl),
            other: (before.1 < j).then(|| b[before.1].ttl),
            sort,
        });
        (i, j) = before;
    }
    pairs.reverse();
    Laid { pairs, unseen }
}

/// Returns the minimum cost of aligning the first i hops with the first j.
fn costs(a: &[Place], b: &[Place]) -> Vec<Vec<i32>> {
    let mut table = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            let ways = ways(&table, a, b, (i, j));
            table[i][j] = ways.into_iter().flatten().map(|w| w.0).min().unwrap_or(0);
        }
    }
    table
}

type At = (usize, usize);
/// Cost so far, previous cell, and relation of the last pair.
type Way = (i32, At, Sort);

/// Returns the moves to a cell: both lists advance, or one of them; preferred ones first.
fn ways(table: &[Vec<i32>], a: &[Place], b: &[Place], (i, j): At) -> [Option<Way>; 3] {
    let way = |from: At, (cost, sort)| Some((table[from.0][from.1] + cost, from, sort));
    let last_a = i.checked_sub(1);
    let last_b = j.checked_sub(1);
    [
        last_a
            .zip(last_b)
            .and_then(|from| way(from, beside(&a[from.0], &b[from.1]))),
        last_a.and_then(|at| way((at, j), alone(&a[at]))),
        last_b.and_then(|at| way((i, at), alone(&b[at]))),
    ]
}

fn step_to(table: &[Vec<i32>], a: &[Place], b: &[Place], at: At) -> (At, Sort) {
    let mut ways = ways(table, a, b, at).into_iter().flatten();
    let cheapest = ways.find(|way| way.0 == table[at.0][at.1]);
    let (_, from, sort) = cheapest.expect("one of the ways has the cost of the table");
    (from, sort)
}

fn beside(a: &Place, b: &Place) -> (i32, Sort) {
    match likeness(a, b) {
        Likeness::Same => (SAME, Sort::Same),
        Likeness::Silent if a.own == b.own => (0, Sort::Unknown),
        Likeness::Silent => (SILENT, Sort::Silent),
        _ if a.stutter != b.stutter => (STUTTER, Sort::Stutter),
        Likeness::Neighbour => (NEIGHBOUR, Sort::LastOctet),
        Likeness::SameAs => (SAME_AS, Sort::SameAs),
        Likeness::Other => (OTHER, Sort::Other),
    }
}

fn alone(place: &Place) -> (i32, Sort) {
    if place.stutter {
        (STUTTER, Sort::Stutter)
    } else {
        (ALONE, Sort::Other)
    }
}

/// Returns the cell at which the alignment ends: the ends of both lists, or, if a trace was
/// truncated, its last hop; the part that both traces could see is always aligned.
fn end(table: &[Vec<i32>], here_reached: bool, other_reached: bool) -> At {
    let (n, m) = (table.len() - 1, table[0].len() - 1);
    let both = n.min(m);
    let mut ends = vec![(n, m)];
    if !other_reached {
        ends.extend((both..n).map(|i| (i, m)));
    }
    if !here_reached {
        ends.extend((both..m).map(|j| (n, j)));
    }
    let cost = |at: &At| table[at.0][at.1];
    ends.into_iter().min_by_key(cost).unwrap_or((n, m))
}
