//! Between which two hops does the rise begin?
//!
//! The first hop k that stands out (3 ms, 3 × its noise, a quarter of the far end's rise, rank sum
//! below 0.01), that the far end and 70 % of the hops beyond share (0.6 of its rise, by floor or
//! median), begins the queue. A hop that stands out alone, or before a quiet one, answers slowly
//! under load, and is set aside. The link begins at the last hop before k that is quiet (below 0.3 of
//! k's rise, floor and median). Hops of which nothing can be said widen the answer; so does a rise
//! that grows again beyond k, or that differs by a quarter at k from what the hops beyond have in
//! common: k may answer slowly by chance as much as the queue beyond it holds.
//!
//! Source: our design. Units: TTL. Error: see docs/methods/path.md.
//! Wrong when: two links are narrow at once, and the nearer one holds less than a quarter of the
//! queue: then the farther one is told. Or the router before the link answers slowly under load, by
//! just what the queue holds.

use super::profile::Grown;
use crate::stats::quantile::median;

/// Share of the answering hops beyond that must show the same rise.
const SHARED_RATIO: f64 = 0.7;
/// The median rise at the first hop is that of the hops beyond, to within this share.
const ALIKE_RATIO: f64 = 0.25;

/// Where the queue is.
#[derive(Debug, Clone, PartialEq)]
pub struct Place {
    /// Last hop without it; 0 is this host.
    pub after: u8,
    /// First hop with it.
    pub before: u8,
    pub rise_ns: i64,
    /// Probability of the rise at its first hop by chance.
    pub p: f64,
    /// Hops between or before the two that are neither quiet nor risen.
    pub undecided: usize,
    /// Beyond `before` the rise grows once more.
    pub grows_again: bool,
    /// Hops beyond that show it, of those that answered.
    pub shared: (usize, usize),
    /// TTLs of hops that rose alone.
    pub slow: Vec<u8>,
}

/// `far` is the far end, which lies behind all `hops`.
pub fn find(hops: &[Grown], far: &Grown) -> Option<Place> {
    let mut slow = Vec::new();
    for (at, hop) in hops.iter().chain([far]).enumerate() {
        if !hop.stands_out(far.rise_ns) {
            continue;
        }
        let beyond = hops.get(at + 1..).unwrap_or_default();
        if !shared(hop, beyond, far) {
            slow.push(hop.ttl);
            continue;
        }
        let before: Vec<&Grown> = hops[..at.min(hops.len())]
            .iter()
            .filter(|earlier| !slow.contains(&earlier.ttl))
            .collect();
        return Some(between(&before, hop, beyond, far, slow));
    }
    None
}

fn shared(hop: &Grown, beyond: &[Grown], far: &Grown) -> bool {
    let with = beyond
        .iter()
        .filter(|later| later.risen_beside(hop))
        .count();
    let next_quiet = beyond.first().is_some_and(|next| next.quiet_beside(hop));
    !next_quiet && far.risen_beside(hop) && with as f64 >= SHARED_RATIO * beyond.len() as f64
}

/// The median rise of the hops beyond.
fn common(beyond: &[Grown], far: &Grown) -> f64 {
    let rises = beyond.iter().chain([far]).map(|rise| rise.median_ns as f64);
    median(rises).unwrap_or(far.median_ns as f64)
}

fn alike(hop: &Grown, common: f64) -> bool {
    (hop.median_ns as f64 - common).abs() <= ALIKE_RATIO * common
}

fn between(before: &[&Grown], hop: &Grown, beyond: &[Grown], far: &Grown, slow: Vec<u8>) -> Place {
    let quiet = |earlier: &&&Grown| earlier.quiet_beside(hop);
    let after = before.iter().rfind(quiet).map_or(0, |q| q.ttl);
    // The whole rise is there first at this hop; it is `hop` unless the rise grows once more.
    let common = common(beyond, far);
    let whole = |later: &&Grown| later.risen_beside(far) && alike(later, common);
    let first_whole = std::iter::once(hop)
        .chain(beyond)
        .find(whole)
        .unwrap_or(far);
    let with = beyond.iter().filter(|later| later.risen_beside(hop));
    Place {
        after,
        before: first_whole.ttl,
        rise_ns: first_whole.rise_ns,
        p: hop.p,
        undecided: before.iter().filter(|e| !e.quiet_beside(hop)).count(),
        grows_again: first_whole.ttl != hop.ttl,
        shared: (with.count(), beyond.len()),
        slow,
    }
}
