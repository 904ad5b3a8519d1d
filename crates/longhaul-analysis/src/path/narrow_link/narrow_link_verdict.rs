//! Finds the narrow link, or the reason why that is impossible.
//!
//! Source: our design. Without a standing queue to the destination (below 3 ms), no network queue
//! is the limit. A rise on the return path alone is a queue of the acknowledgements. The capacity
//! comes from an estimate of the whole path, never from round trips to hops. Units: ns, ratios.
//! Error: confidence 0.8 for one link in one run, 0.95 if an earlier run found the same, 0.7 for a
//! span; lower with contradicting evidence.
//! Wrong when: as for the whole of [`super`].

use super::hop_rise::{
    self, HopRise, MAX_P_VALUE, MIN_RISE_NS, OneWayRises, QUIET_RATIO, QueuePosition, RISEN_RATIO,
};
use crate::path::{KnownRoute, PathCapacityEstimate, path_format};
use longhaul_model::report::v1::path::{HopWatch, NarrowLink, PathObservation};
use longhaul_model::units::Rate;
use std::fmt::Write;

/// Confidence for one link in one run.
const LINK_CONFIDENCE: f64 = 0.8;
/// Confidence if an earlier run found the same link.
const REPEATED_CONFIDENCE: f64 = 0.95;
const SPAN_CONFIDENCE: f64 = 0.7;
/// The number of earlier runs that are compared.
const MAX_EARLIER_RUNS: usize = 2;
/// The minimum share of the rise that the own host's queue must explain.
const MIN_OWN_SHARE: f64 = 0.5;
/// The maximum difference between both directions together and the RTT, as a share of the RTT.
const MAX_RTT_MISMATCH: f64 = 0.5;

/// The input of the verdict.
#[derive(Debug, Clone)]
pub struct NarrowLinkInput<'o> {
    pub observation: &'o PathObservation,
    pub watch: &'o HopWatch,
    /// All hops except the destination.
    pub hops: Vec<HopRise>,
    pub far: Option<HopRise>,
    /// The TTL of the destination is known, not only that it lies behind all hops.
    pub is_far_ttl_known: bool,
    pub ends: OneWayRises,
}

/// Returns the verdict on the probes to all hops.
pub fn judge_narrow_link(
    observation: &PathObservation,
    watch: &HopWatch,
    known: &[KnownRoute],
    capacity: Option<PathCapacityEstimate>,
) -> NarrowLink {
    let input = NarrowLinkInput::of(observation, watch);
    let found = find_queue(&input, capacity);
    let mut link = found.unwrap_or_else(|why| create_blank_link("cannot_tell", 0.0, why));
    if link.verdict == "link" && is_repeated(&link, known) {
        link.confidence_ratio = link.confidence_ratio.max(REPEATED_CONFIDENCE);
    }
    link
}

impl<'o> NarrowLinkInput<'o> {
    fn of(observation: &'o PathObservation, watch: &'o HopWatch) -> NarrowLinkInput<'o> {
        let ends = OneWayRises::of(watch);
        let mut hops = hop_rise::measure_hop_rises(watch);
        let last = find_destination_ttl(observation, watch);
        let own = hops.iter().position(|hop| Some(hop.ttl) == last);
        let own = own.map(|at| hops.remove(at));
        // If its TTL is unknown, the destination lies behind all hops.
        let ttl = last.or_else(|| watch.hops.iter().map(|h| h.ttl.saturating_add(1)).max());
        let both = ends.both.clone().map(|rise| HopRise { ttl: ttl.unwrap_or(1), ..rise });
        NarrowLinkInput {
            observation,
            watch,
            hops,
            far: own.or(both),
            is_far_ttl_known: last.is_some(),
            ends,
        }
    }

    /// Returns the rises in the load's direction and against it, if the remote host reported its
    /// times; `None` also if they do not fit the RTT, as after a clock step.
    ///
    /// Medians, not floors: both ends are probed more often than a hop, and see the minimum of a
    /// varying queue, which the few probes of a hop miss.
    pub fn direction_rises(&self) -> Option<(&HopRise, &HopRise)> {
        let (forward, reverse) = (self.ends.forward.as_ref()?, self.ends.reverse.as_ref()?);
        let trip = self.far.as_ref()?.median_ns as f64;
        let slack = trip * MAX_RTT_MISMATCH + MIN_RISE_NS as f64;
        let (there, back) = (forward.median_ns as f64, reverse.median_ns as f64);
        let fits = there.min(back) >= -slack && (there + back - trip).abs() <= slack;
        if !fits {
            return None;
        }
        Some(if self.watch.forward { (forward, reverse) } else { (reverse, forward) })
    }
}

/// Returns the TTL at which the destination answers.
fn find_destination_ttl(observation: &PathObservation, watch: &HopWatch) -> Option<u8> {
    let by_address =
        watch.hops.iter().find(|hop| hop.address.as_deref() == Some(observation.address.as_str()));
    let by_route = || {
        let route = observation.route.as_ref().filter(|route| route.reached)?;
        route.hops.last().map(|hop| hop.ttl)
    };
    by_address.map(|hop| hop.ttl).or_else(by_route)
}

/// Returns the verdict on the queue, or the reason why no link can be named.
fn find_queue(
    input: &NarrowLinkInput,
    capacity: Option<PathCapacityEstimate>,
) -> Result<NarrowLink, String> {
    let (watch, to) = (input.watch, &input.observation.address);
    if watch.load_bytes == Some(0) || watch.load_until_us <= watch.load_from_us {
        return Err(String::from("no load ran, so queues cannot be located"));
    }
    let Some(far) = &input.far else {
        return Err(format!("{to} answered too few probes, idle or loaded, to detect a queue"));
    };
    if far.rise_ns < MIN_RISE_NS {
        let confidence = if far.loaded >= 5 { 0.9 } else { 0.7 };
        let text = describe_no_queue(far, input);
        return Ok(create_blank_link("none", confidence, text));
    }
    if !far.stands_out(far.rise_ns) {
        return Err(describe_weak_rise(far, to));
    }
    let mut sure = 1.0;
    if let Some((with, against)) = input.direction_rises() {
        let both = (with.median_ns + against.median_ns) as f64;
        let share = |way: &HopRise, ratio: f64| way.median_ns as f64 >= ratio * both;
        let back = share(against, RISEN_RATIO) && against.p < MAX_P_VALUE;
        match (share(with, QUIET_RATIO), share(with, RISEN_RATIO)) {
            (false, _) if back => {
                let text = describe_return_queue(against, input);
                let rise_ns = u64::try_from(against.rise_ns).ok();
                return Ok(NarrowLink { rise_ns, ..create_blank_link("return_path", 0.85, text) });
            }
            (true, true) => {}
            _ => {
                let why = "the delay grew in both directions: a single link cannot be named";
                return Err(why.to_owned());
            }
        }
        if share(against, QUIET_RATIO) {
            sure = 0.7;
        }
    }
    let place = (!input.hops.is_empty() || input.is_far_ttl_known)
        .then(|| hop_rise::locate_queue(&input.hops, far))
        .flatten();
    let place = place.ok_or_else(|| {
        format!(
            "the RTT to {to} grew by {} under our load, but the hops disagree about the location",
            path_format::format_delay(far.rise_ns)
        )
    })?;
    Ok(build_located_link(&place, sure, input, capacity))
}

fn build_located_link(
    place: &QueuePosition,
    sure: f64,
    input: &NarrowLinkInput,
    capacity: Option<PathCapacityEstimate>,
) -> NarrowLink {
    let open =
        !input.is_far_ttl_known && input.far.as_ref().is_some_and(|far| far.ttl == place.before);
    let own = place.after == 0 && place.before == 1 && is_own_queue(place, input.watch);
    let verdict = match place.before.saturating_sub(place.after) {
        _ if own => "own_host",
        0 | 1 if !open => "link",
        _ => "span",
    };
    let base = if verdict == "span" { SPAN_CONFIDENCE } else { LINK_CONFIDENCE };
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
        ..create_blank_link(
            verdict,
            base * sure * against,
            describe_location(verdict, place, input, capacity),
        )
    }
}

/// Returns true if the backlog of this host's interface explains the rise at the rate of the load.
fn is_own_queue(place: &QueuePosition, watch: &HopWatch) -> bool {
    let Some(backlog) = watch.own_backlog_bytes.filter(|_| watch.forward) else {
        return false;
    };
    let loaded_s = watch.load_until_us.saturating_sub(watch.load_from_us) as f64 / 1e6;
    let Some(bytes) = watch.load_bytes.filter(|_| loaded_s > 0.0) else {
        return false;
    };
    let waiting = bytes as f64 / loaded_s * (place.rise_ns as f64 / 1e9);
    backlog as f64 >= MIN_OWN_SHARE * waiting
}

/// Returns true if one of the latest runs found the same link.
fn is_repeated(link: &NarrowLink, known: &[KnownRoute]) -> bool {
    let mut earlier: Vec<&KnownRoute> =
        known.iter().filter(|run| run.narrow_link.is_some()).collect();
    earlier.sort_by(|a, b| b.at.cmp(&a.at));
    let same = |other: &NarrowLink| {
        other.verdict == "link"
            && (other.after_ttl, other.before_ttl) == (link.after_ttl, link.before_ttl)
    };
    let mut latest = earlier.iter().take(MAX_EARLIER_RUNS);
    latest.any(|run| run.narrow_link.as_ref().is_some_and(same))
}

fn create_blank_link(verdict: &str, confidence_ratio: f64, text: String) -> NarrowLink {
    NarrowLink { verdict: verdict.to_owned(), confidence_ratio, text, ..NarrowLink::default() }
}

/// Describes a rise that noise or chance explains.
pub fn describe_weak_rise(far: &HopRise, to: &str) -> String {
    if !far.exceeds_noise() {
        return format!(
            "the RTT to {to} varies by {} without our load, too much to detect a queue caused by it",
            path_format::format_delay(far.noise_ns)
        );
    }
    format!(
        "too few of {} RTTs to {to} under our load were longer than without it to distinguish a \
         queue from chance",
        far.loaded
    )
}

pub fn describe_no_queue(far: &HopRise, input: &NarrowLinkInput) -> String {
    let grown = if far.rise_ns > 0 {
        format!("by only {}", path_format::format_delay(far.rise_ns))
    } else {
        String::from("not at all")
    };
    format!(
        "no queue built up: under our load the RTT to {} grew {grown}; the limit is not a standing \
         queue on the path, but a host, a policer, loss or a very small buffer",
        input.observation.address
    )
}

pub fn describe_return_queue(against: &HopRise, input: &NarrowLinkInput) -> String {
    let way = if input.watch.forward { "back" } else { "there" };
    format!(
        "the queue grew in the opposite direction, {way}, by {}: it delays the acknowledgements, \
         and hops cannot locate it",
        path_format::format_delay(against.rise_ns)
    )
}

pub fn describe_location(
    verdict: &str,
    place: &QueuePosition,
    input: &NarrowLinkInput,
    capacity: Option<PathCapacityEstimate>,
) -> String {
    let rise = path_format::format_delay(place.rise_ns);
    let mut text = if verdict == "own_host" {
        format!("under our load the queue in this host's own interface grew by {rise}")
    } else {
        let ends = format!(
            "between {} and {}{}",
            format_hop_name(place.after, input),
            format_hop_name(place.before, input),
            format_hop_range(place, input)
        );
        format!("under our load the queue grew {ends}, by {rise}")
    };
    match place.shared {
        (_, 0) => {}
        (with, all) if with == all => text.push_str("; all later hops confirm it"),
        (with, all) => {
            let _ = write!(text, "; {with} of {all} later hops confirm it");
        }
    }
    if place.grows_again {
        text.push_str("; it grows in more than one step");
    }
    if verdict == "span" {
        text.push_str("; hops between them are unknown, silent or too noisy to identify the link");
    }
    if input.direction_rises().is_none() {
        text.push_str("; the direction is not known");
    }
    if let Some(capacity) = capacity {
        let _ = write!(text, "; capacity of the whole path: {}", format_capacity(capacity));
    }
    text
}

/// Formats the TTLs, if both are known.
fn format_hop_range(place: &QueuePosition, input: &NarrowLinkInput) -> String {
    let far = input.far.as_ref().map(|far| far.ttl);
    if !input.is_far_ttl_known && far == Some(place.before) {
        return format!(" (beyond hop {})", place.after);
    }
    format!(" (hops {}-{})", place.after, place.before)
}

fn format_capacity(capacity: PathCapacityEstimate) -> String {
    let rate = Rate::bits_per_second;
    let interval =
        capacity.interval_bps.map(|[low, high]| format!(" ({} to {})", rate(low), rate(high)));
    format!("{}{}", rate(capacity.bps), interval.unwrap_or_default())
}

fn format_hop_name(ttl: u8, input: &NarrowLinkInput) -> String {
    let watched = input.watch.hops.iter().find(|hop| hop.ttl == ttl);
    let is_far = input.far.as_ref().is_some_and(|far| far.ttl == ttl);
    let far = || is_far.then(|| input.observation.address.clone());
    match ttl {
        0 => String::from("this host"),
        _ => watched
            .and_then(|hop| hop.address.clone())
            .or_else(far)
            .unwrap_or_else(|| format!("hop {ttl}")),
    }
}
