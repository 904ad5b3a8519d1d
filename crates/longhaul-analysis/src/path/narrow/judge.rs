//! Finds the narrow link, or the reason why that is impossible.
//!
//! Source: our design. Without a standing queue to the destination (below 3 ms), no network queue
//! is the limit. A rise on the return path alone is a queue of the acknowledgements. The capacity
//! comes from an estimate of the whole path, never from round trips to hops. Units: ns, ratios.
//! Error: confidence 0.8 for one link in one run, 0.95 if an earlier run found the same, 0.7 for a
//! span; lower with contradicting evidence.
//! Wrong when: as for the whole of [`super`].

use super::ends::Ends;
use super::place::{self, Place};
use super::profile::{self, Grown, LEAST_P, LEAST_RISE_NS, QUIET_RATIO, RISEN_RATIO};
use super::words;
use crate::path::{Capacity, KnownRoute};
use longhaul_model::report::v1::path::{HopWatch, NarrowLink, Observation};

/// Confidence for one link in one run.
const ONE_LINK: f64 = 0.8;
/// Confidence if an earlier run found the same link.
const REPEATED: f64 = 0.95;
const SPAN: f64 = 0.7;
/// The number of earlier runs that are compared.
const EARLIER: usize = 2;
/// The minimum share of the rise that the own host's queue must explain.
const OWN_SHARE: f64 = 0.5;
/// The maximum difference between both directions together and the RTT, as a share of the RTT.
const OFF_THE_TRIP: f64 = 0.5;

/// The input of the verdict.
#[derive(Debug, Clone)]
pub struct Sight<'o> {
    pub observation: &'o Observation,
    pub watch: &'o HopWatch,
    /// All hops except the destination.
    pub hops: Vec<Grown>,
    pub far: Option<Grown>,
    /// The TTL of the destination is known, not only that it lies behind all hops.
    pub far_placed: bool,
    pub ends: Ends,
}

/// The reason why no link can be named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obscured {
    NoLoad,
    FarEndSilent,
    Noise,
    Chance,
    BothWays,
    NoPlace,
}

/// Returns the verdict on the probes to all hops.
pub fn judge(
    observation: &Observation,
    watch: &HopWatch,
    known: &[KnownRoute],
    capacity: Option<Capacity>,
) -> NarrowLink {
    let sight = Sight::of(observation, watch);
    match look(&sight) {
        Ok(found) => {
            let mut link = found.into_link(&sight, capacity);
            if link.verdict == "link" && repeated(&link, known) {
                link.confidence_ratio = link.confidence_ratio.max(REPEATED);
            }
            link
        }
        Err(why) => blank("cannot_tell", 0.0, words::obscured(why, &sight)),
    }
}

impl<'o> Sight<'o> {
    fn of(observation: &'o Observation, watch: &'o HopWatch) -> Sight<'o> {
        let ends = Ends::of(watch);
        let mut hops = profile::hops(watch);
        let last = far_ttl(observation, watch);
        let own = hops.iter().position(|hop| Some(hop.ttl) == last);
        let own = own.map(|at| hops.remove(at));
        // If its TTL is unknown, the destination lies behind all hops.
        let ttl = last.or_else(|| watch.hops.iter().map(|h| h.ttl.saturating_add(1)).max());
        let both = ends.both.clone().map(|rise| Grown {
            ttl: ttl.unwrap_or(1),
            address: Some(observation.address.clone()),
            ..rise
        });
        Sight {
            observation,
            watch,
            hops,
            far: own.or(both),
            far_placed: last.is_some(),
            ends,
        }
    }

    /// Returns the rises in the load's direction and against it, if the remote host reported its
    /// times; `None` also if they do not fit the RTT, as after a clock step.
    ///
    /// Medians, not floors: both ends are probed more often than a hop, and see the minimum of a
    /// varying queue, which the few probes of a hop miss.
    pub fn ways(&self) -> Option<(&Grown, &Grown)> {
        let (forward, reverse) = (self.ends.forward.as_ref()?, self.ends.reverse.as_ref()?);
        let trip = self.far.as_ref()?.median_ns as f64;
        let slack = trip * OFF_THE_TRIP + LEAST_RISE_NS as f64;
        let (there, back) = (forward.median_ns as f64, reverse.median_ns as f64);
        let fits = there.min(back) >= -slack && (there + back - trip).abs() <= slack;
        if !fits {
            return None;
        }
        Some(if self.watch.forward {
            (forward, reverse)
        } else {
            (reverse, forward)
        })
    }
}

/// Returns the TTL at which the destination answers.
fn far_ttl(observation: &Observation, watch: &HopWatch) -> Option<u8> {
    let by_address = watch
        .hops
        .iter()
        .find(|hop| hop.address.as_deref() == Some(observation.address.as_str()));
    let by_route = || {
        let route = observation.route.as_ref().filter(|route| route.reached)?;
        route.hops.last().map(|hop| hop.ttl)
    };
    by_address.map(|hop| hop.ttl).or_else(by_route)
}

/// The result of the search.
pub enum Found {
    NoQueue { far: Grown },
    ReturnPath { against: Grown },
    Placed { place: Place, sure: f64 },
}

fn look(sight: &Sight) -> Result<Found, Obscured> {
    let watch = sight.watch;
    if watch.load_bytes == Some(0) || watch.load_until_us <= watch.load_from_us {
        return Err(Obscured::NoLoad);
    }
    let far = sight.far.as_ref().ok_or(Obscured::FarEndSilent)?;
    if far.rise_ns < LEAST_RISE_NS {
        return Ok(Found::NoQueue { far: far.clone() });
    }
    if !far.stands_out(far.rise_ns) {
        return Err(if far.beyond_noise() {
            Obscured::Chance
        } else {
            Obscured::Noise
        });
    }
    let mut sure = 1.0;
    if let Some((with, against)) = sight.ways() {
        let both = (with.median_ns + against.median_ns) as f64;
        let share = |way: &Grown, ratio: f64| way.median_ns as f64 >= ratio * both;
        let back = share(against, RISEN_RATIO) && against.p < LEAST_P;
        match (share(with, QUIET_RATIO), share(with, RISEN_RATIO)) {
            (false, _) if back => {
                return Ok(Found::ReturnPath {
                    against: against.clone(),
                });
            }
            (true, true) => {}
            _ => return Err(Obscured::BothWays),
        }
        if share(against, QUIET_RATIO) {
            sure = 0.7;
        }
    }
    if sight.hops.is_empty() && !sight.far_placed {
        return Err(Obscured::NoPlace);
    }
    let place = place::find(&sight.hops, far).ok_or(Obscured::NoPlace)?;
    Ok(Found::Placed { place, sure })
}

impl Found {
    fn into_link(self, sight: &Sight, capacity: Option<Capacity>) -> NarrowLink {
        match self {
            Found::NoQueue { far } => {
                let confidence = if far.loaded >= 5 { 0.9 } else { 0.7 };
                blank("none", confidence, words::no_queue(&far, sight))
            }
            Found::ReturnPath { against } => NarrowLink {
                rise_ns: u64::try_from(against.rise_ns).ok(),
                ..blank("return_path", 0.85, words::return_path(&against, sight))
            },
            Found::Placed { place, sure } => placed(&place, sure, sight, capacity),
        }
    }
}

fn placed(place: &Place, sure: f64, sight: &Sight, capacity: Option<Capacity>) -> NarrowLink {
    let open = !sight.far_placed
        && sight
            .far
            .as_ref()
            .is_some_and(|far| far.ttl == place.before);
    let own = place.after == 0 && place.before == 1 && own_queue(place, sight.watch);
    let verdict = match place.before.saturating_sub(place.after) {
        _ if own => "own_host",
        0 | 1 if !open => "link",
        _ => "span",
    };
    let base = if verdict == "span" { SPAN } else { ONE_LINK };
    let against = match (place.undecided, place.slow.len()) {
        (0, 0) => 1.0,
        _ => 0.85,
    };
    NarrowLink {
        after_ttl: Some(place.after),
        before_ttl: (!open).then_some(place.before),
        rise_ns: u64::try_from(place.rise_ns).ok(),
        capacity_bps: capacity.map(|c| c.bps),
        capacity_interval_bps: capacity.and_then(|c| c.interval_bps),
        ..blank(
            verdict,
            base * sure * against,
            words::placed(verdict, place, sight, capacity),
        )
    }
}

/// Returns true if the backlog of this host's interface explains the rise at the rate of the load.
fn own_queue(place: &Place, watch: &HopWatch) -> bool {
    let Some(backlog) = watch.own_backlog_bytes.filter(|_| watch.forward) else {
        return false;
    };
    let loaded_s = watch.load_until_us.saturating_sub(watch.load_from_us) as f64 / 1e6;
    let Some(bytes) = watch.load_bytes.filter(|_| loaded_s > 0.0) else {
        return false;
    };
    let waiting = bytes as f64 / loaded_s * (place.rise_ns as f64 / 1e9);
    backlog as f64 >= OWN_SHARE * waiting
}

/// Returns true if one of the latest runs found the same link.
fn repeated(link: &NarrowLink, known: &[KnownRoute]) -> bool {
    let mut earlier: Vec<&KnownRoute> = known
        .iter()
        .filter(|run| run.narrow_link.is_some())
        .collect();
    earlier.sort_by(|a, b| b.at.cmp(&a.at));
    let same = |other: &NarrowLink| {
        other.verdict == "link"
            && (other.after_ttl, other.before_ttl) == (link.after_ttl, link.before_ttl)
    };
    let mut latest = earlier.iter().take(EARLIER);
    latest.any(|run| run.narrow_link.as_ref().is_some_and(same))
}

fn blank(verdict: &str, confidence_ratio: f64, text: String) -> NarrowLink {
    NarrowLink {
        verdict: verdict.to_owned(),
        after_ttl: None,
        before_ttl: None,
        rise_ns: None,
        capacity_bps: None,
        capacity_interval_bps: None,
        confidence_ratio,
        text,
    }
}
