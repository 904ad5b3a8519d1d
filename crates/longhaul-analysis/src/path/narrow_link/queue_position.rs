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

use super::hop_rise::HopRise;
use crate::stats::quantile::median;

/// Share of the answering later hops that must show the same rise.
const SHARED_RATIO: f64 = 0.7;
/// Tolerance between the median rise at the first hop and that of the later hops, as a share.
const ALIKE_RATIO: f64 = 0.25;

/// The hops around the queue.
#[derive(Debug, Clone, PartialEq)]
pub struct QueuePosition {
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
pub fn locate_queue(hops: &[HopRise], far: &HopRise) -> Option<QueuePosition> {
    let mut slow = Vec::new();
    for (at, hop) in hops.iter().chain([far]).enumerate() {
        if !hop.stands_out(far.rise_ns) {
            continue;
        }
        let beyond = hops.get(at + 1..).unwrap_or_default();
        if !is_rise_shared(hop, beyond, far) {
            slow.push(hop.ttl);
            continue;
        }
        let before: Vec<&HopRise> = hops[..at.min(hops.len())]
            .iter()
            .filter(|earlier| !slow.contains(&earlier.ttl))
            .collect();
        return Some(build_location(&before, hop, beyond, far, slow));
    }
    None
}

fn is_rise_shared(hop: &HopRise, beyond: &[HopRise], far: &HopRise) -> bool {
    let with = beyond.iter().filter(|later| later.is_risen_like(hop)).count();
    let next_quiet = beyond.first().is_some_and(|next| next.is_quiet_against(hop));
    !next_quiet && far.is_risen_like(hop) && with as f64 >= SHARED_RATIO * beyond.len() as f64
}

/// Returns the median rise of the later hops.
fn compute_common_rise(beyond: &[HopRise], far: &HopRise) -> f64 {
    let rises = beyond.iter().chain([far]).map(|rise| rise.median_ns as f64);
    median(rises).unwrap_or(far.median_ns as f64)
}

fn is_similar_rise(hop: &HopRise, common: f64) -> bool {
    (hop.median_ns as f64 - common).abs() <= ALIKE_RATIO * common
}

fn build_location(
    before: &[&HopRise],
    hop: &HopRise,
    beyond: &[HopRise],
    far: &HopRise,
    slow: Vec<u8>,
) -> QueuePosition {
    let quiet = |earlier: &&&HopRise| earlier.is_quiet_against(hop);
    let after = before.iter().rfind(quiet).map_or(0, |q| q.ttl);
    // The first hop with the whole rise; it is `hop` unless the rise grows again.
    let common = compute_common_rise(beyond, far);
    let whole = |later: &&HopRise| later.is_risen_like(far) && is_similar_rise(later, common);
    let first_whole = std::iter::once(hop).chain(beyond).find(whole).unwrap_or(far);
    let with = beyond.iter().filter(|later| later.is_risen_like(hop));
    QueuePosition {
        after,
        before: first_whole.ttl,
        rise_ns: first_whole.rise_ns,
        p: hop.p,
        undecided: before.iter().filter(|e| !e.is_quiet_against(hop)).count(),
        grows_again: first_whole.ttl != hop.ttl,
        shared: (with.count(), beyond.len()),
        slow,
    }
}
