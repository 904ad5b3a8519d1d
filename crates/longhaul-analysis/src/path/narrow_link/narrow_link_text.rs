//! Describes the verdict in a sentence that claims no more than was observed.

use super::hop_rise::HopRise;
use super::narrow_link_verdict::NarrowLinkInput;
use super::queue_position::QueuePosition;
use crate::path::{PathCapacityEstimate, path_format};
use longhaul_model::units::Rate;
use std::fmt::Write;

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
