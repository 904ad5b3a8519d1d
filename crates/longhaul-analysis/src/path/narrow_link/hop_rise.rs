//! Measures the rise of the RTT to a hop under load, and its noise without load.
//!
//! Source: our design: floor f = minimum idle RTT; g = second lowest loaded RTT, from 2 s of load
//! until 0.5 s before its end, so that a single fast packet does not hide a queue; rise = g − f;
//! noise = 90th minus 10th percentile of the idle RTTs. Units: ns. Error: about the noise over the
//! idle answers.
//! Wrong when: the queue drains in between, as under a single stream that halves its window.
//!
//! # Rises one way
//!
//! Assigns the queue to the forward or the return path, from one-way delays of both hosts.
//!
//! The offset between the two clocks cancels in every difference; their drift is removed by the
//! line from the floor of the idle time before to that of the idle time after. Without an idle time
//! after, the floor before is used alone.
//! Source: our design. Units: ns. Error: the curvature of the drift in half a minute: below 0.1 ms.
//! Wrong when: a clock was stepped by a few milliseconds during the run; larger steps do not fit
//! the RTT and are left out.
//!
//! # Queue position
//!
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

use crate::stats::{median, quantile, sign_test, sort_finite};
use longhaul_model::report::v1::path::{EndDelay, HopWatch, ProbeEcho, WatchedHop};

/// Time that a load needs to fill a queue; at most a quarter of the loaded time is left out.
const FILLING_US: u64 = 2_000_000;
/// Streams end at different times, and the queue is empty before its last packet is read. At most a
/// sixteenth of the loaded time is left out.
const ENDING_US: u64 = 500_000;
/// Time that a queue needs to drain.
const DRAINING_US: u64 = 1_000_000;
/// The minimum number of answers in each phase.
const MIN_ANSWERS: usize = 3;
/// The minimum share of answered probes of a usable hop.
const MIN_ANSWERED_RATIO: f64 = 0.3;
/// A rise below this share of the reference rise counts as none.
pub const QUIET_RATIO: f64 = 0.3;
/// A rise above this share of the reference rise counts as the same.
pub const RISEN_RATIO: f64 = 0.6;
/// The minimum rise that counts as a queue.
pub const MIN_RISE_NS: i64 = 3_000_000;
const NOISE_FACTOR: f64 = 3.0;
pub const MAX_P_VALUE: f64 = 0.01;

/// Returns `Some(true)` if a probe met the load, `Some(false)` if it met an idle path, `None` for
/// transitions.
fn is_loaded(watch: &HopWatch, at_us: u64) -> Option<bool> {
    let loaded_us = watch.load_until_us.saturating_sub(watch.load_from_us);
    let filled_us = watch.load_from_us.saturating_add(FILLING_US.min(loaded_us / 4));
    let ending_us = watch.load_until_us.saturating_sub(ENDING_US.min(loaded_us / 16));
    let drained_us = watch.load_until_us.saturating_add(DRAINING_US);
    if at_us < watch.load_from_us || at_us >= drained_us {
        Some(false)
    } else {
        (filled_us..ending_us).contains(&at_us).then_some(true)
    }
}

/// Returns the values of the answered probes in ascending order, if enough were answered.
fn sort_answers(probes: &[Option<f64>]) -> Option<Vec<f64>> {
    let answers = sort_finite(probes.iter().flatten().copied());
    let least = MIN_ANSWERED_RATIO * probes.len() as f64;
    (answers.len() >= MIN_ANSWERS && answers.len() as f64 >= least).then_some(answers)
}

/// The rise of one hop from idle to loaded.
#[derive(Debug, Clone, PartialEq)]
pub struct HopRise {
    pub ttl: u8,
    /// g − f; negative if loaded round trips were shorter.
    pub rise_ns: i64,
    /// Median loaded minus median idle.
    pub median_ns: i64,
    pub noise_ns: i64,
    /// P-value of the hypothesis that loaded RTTs are no longer than idle ones (rank sum).
    pub p: f64,
    /// Answers under load.
    pub loaded: usize,
}

impl HopRise {
    /// Compares probes by their send time; each has a value if it was answered. Returns `None` if
    /// too few were answered.
    fn of(
        ttl: u8,
        watch: &HopWatch,
        probes: impl Iterator<Item = (u64, Option<f64>)>,
    ) -> Option<HopRise> {
        let (mut idle, mut loaded) = (Vec::new(), Vec::new());
        for (at_us, value) in probes {
            match is_loaded(watch, at_us) {
                Some(true) => loaded.push(value),
                Some(false) => idle.push(value),
                None => {}
            }
        }
        let (idle, loaded) = (&sort_answers(&idle)?, &sort_answers(&loaded)?);
        let at = |values: &[f64], share| quantile(values, share);
        let noise = at(idle, 0.9)? - at(idle, 0.1)?;
        Some(HopRise {
            ttl,
            rise_ns: (loaded.get(1)? - idle.first()?).round() as i64,
            median_ns: (at(loaded, 0.5)? - at(idle, 0.5)?).round() as i64,
            noise_ns: noise.round() as i64,
            p: sign_test::rank_sum_probability(idle, loaded),
            loaded: loaded.len(),
        })
    }

    /// Returns true for a rise beyond noise and chance, and large compared with the destination's.
    pub fn stands_out(&self, far_ns: i64) -> bool {
        let least = (MIN_RISE_NS as f64).max(0.25 * far_ns as f64);
        self.rise_ns as f64 >= least && self.exceeds_noise() && self.p < MAX_P_VALUE
    }

    /// Returns true if the rise exceeds the variation without load.
    pub fn exceeds_noise(&self) -> bool {
        self.rise_ns as f64 >= NOISE_FACTOR * self.noise_ns as f64
    }

    /// Returns true if this hop is without the queue, by its floor and by its median.
    pub fn is_quiet_against(&self, risen: &HopRise) -> bool {
        let below = |own: i64, other: i64| (own as f64) < QUIET_RATIO * other as f64;
        below(self.rise_ns, risen.rise_ns) && below(self.median_ns, risen.median_ns)
    }

    /// Returns true if this hop has the same queue, by its floor or by its median. Probes of two
    /// hops at slightly different times see a varying queue at different depths, and the second
    /// lowest of a few is often the minimum of the queue.
    pub fn is_risen_like(&self, risen: &HopRise) -> bool {
        let reaches = |own: i64, other: i64| own as f64 >= RISEN_RATIO * other as f64;
        reaches(self.rise_ns, risen.rise_ns) || reaches(self.median_ns, risen.median_ns)
    }
}

/// Returns all usable hops, nearest first; the destination last if it is among them.
pub fn measure_hop_rises(watch: &HopWatch) -> Vec<HopRise> {
    let value = |echo: &ProbeEcho| (echo.at_us, echo.rtt_ns.map(|ns| ns as f64));
    let rise = |hop: &WatchedHop| HopRise::of(hop.ttl, watch, hop.echoes.iter().map(value));
    let mut found: Vec<HopRise> = watch.hops.iter().filter_map(rise).collect();
    found.sort_by_key(|rise| rise.ttl);
    found
}

/// Both directions, and the round trip that they form.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OneWayRises {
    pub forward: Option<HopRise>,
    pub reverse: Option<HopRise>,
    pub both: Option<HopRise>,
}

impl OneWayRises {
    pub fn of(watch: &HopWatch) -> OneWayRises {
        let rise = |value: fn(&EndDelay) -> Option<i64>| measure_one_way_rise(watch, value);
        OneWayRises {
            forward: rise(|probe| probe.forward_ns),
            reverse: rise(|probe| probe.reverse_ns),
            // The offset is in both with opposite signs.
            both: rise(|probe| probe.forward_ns?.checked_add(probe.reverse_ns?)),
        }
    }
}

fn measure_one_way_rise(watch: &HopWatch, value: fn(&EndDelay) -> Option<i64>) -> Option<HopRise> {
    // Subtract the offset before converting to float: it may be years.
    let zero = watch.ends.iter().filter_map(value).min()?;
    let delay = |probe: &EndDelay| Some(value(probe)?.checked_sub(zero)? as f64);
    let drift = compute_drift(watch, delay);
    let straight = watch
        .ends
        .iter()
        .map(|probe| (probe.at_us, delay(probe).map(|ns| ns - drift * probe.at_us as f64)));
    HopRise::of(0, watch, straight)
}

/// Returns the drift in ns per µs, between the idle floors before and after the load.
fn compute_drift(watch: &HopWatch, delay: impl Fn(&EndDelay) -> Option<f64>) -> f64 {
    let floor = |after: bool| {
        let idle = watch.ends.iter().filter(|probe| is_loaded(watch, probe.at_us) == Some(false));
        idle.filter(|probe| (probe.at_us >= watch.load_until_us) == after)
            .filter_map(|probe| Some((probe.at_us, delay(probe)?)))
            .min_by(|a, b| a.1.total_cmp(&b.1))
    };
    match (floor(false), floor(true)) {
        (Some((from, low)), Some((to, high))) if to > from => (high - low) / (to - from) as f64,
        _ => 0.0,
    }
}

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
