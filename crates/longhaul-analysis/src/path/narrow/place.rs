//! Finds the hops between which the rise begins.
//!
//! The queue begins at the first hop k that stands out (3 ms, 3 × its noise, a quarter of the
//! destination's rise, rank sum below 0.01) and whose rise the destination and 70 % of the later
//! hops share (0.6 of its rise, by floor or median). A hop that stands out alone, or before a quiet
//! one, answers slowly under load and is ignored. The link begins at the last hop before k that is
//! quiet (below 0.3 of k's rise, floor and median). Hops without enough data widen the span; so
//! does a rise that grows again beyond k, or that differs by a quarter from the common rise of the
//! later hops: k may answer slowly by chance by as much as the queue beyond it adds.
//!
//! Source: our design. Units: TTL. Error: see docs/methods/path.md.
//! Wrong when: two links are narrow at once, and the nearer one holds less than a quarter of the
//! queue: then the farther one is named. Or the router before the link answers slowly under load,
//! by exactly the delay of the queue.

use super::profile::Grown;
use crate::stats::quantile::median;

/// Share of the answering later hops that must show the same rise.
const SHARED_RATIO: f64 = 0.7;
/// Tolerance between the median rise at the first hop and that of the later hops, as a share.
const ALIKE_RATIO: f64 = 0.25;

/// The hops around the queue.
#[derive(Debug, Clone, PartialEq)]
pub struct Place {
    /// The last hop without the queue; 0 is this host.
    pub after: u8,
    /// The first hop with the queue.
    pub before: u8,
    pub rise_ns: i64,
    /// P-value of the rise at its first hop.
    pub p: f64,
    /// Hops between or before the two that are neither quiet nor risen.
    pub undecided: usize,
    /// The rise grows again beyond `before`.
    pub grows_again: bool,
    /// The number of later hops that show the rise, and of those that answered.
    pub shared: (usize, usize),
    /// TTLs of hops that rose alone.
    pub slow: Vec<u8>,
}

/// Finds the hops around the queue; `far` is the destination, which lies behind all `hops`.
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

/// Returns the median rise of the later hops.
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
    // The first hop with the whole rise; it is `hop` unless the rise grows again.
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
