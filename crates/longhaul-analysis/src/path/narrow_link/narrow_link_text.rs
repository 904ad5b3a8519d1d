//! Describes the verdict in a sentence that claims no more than was observed.

use super::hop_rise::HopRise;
use super::narrow_link_verdict::{NarrowLinkInput, NarrowLinkObstacle};
use super::queue_position::QueuePosition;
use crate::path::{PathCapacityEstimate, path_format};
use longhaul_model::units::Rate;
use std::fmt::Write;

pub fn describe_obstacle(why: NarrowLinkObstacle, input: &NarrowLinkInput) -> String {
    let far = &input.observation.address;
    match why {
        NarrowLinkObstacle::NoLoad => String::from("no load ran, so nothing can be said of queues"),
        NarrowLinkObstacle::FarEndSilent => format!(
            "{far} answered too few probes, idle or loaded, to tell whether a queue grew towards it"
        ),
        NarrowLinkObstacle::Noise => {
            let noise = input.far.as_ref().map_or(0, |rise| rise.noise_ns);
            format!(
                "round trips to {far} vary by {} without our load, too much to see a queue of it",
                path_format::format_delay(noise)
            )
        }
        NarrowLinkObstacle::Chance => {
            let loaded = input.far.as_ref().map_or(0, |rise| rise.loaded);
            format!(
                "of {loaded} round trips to {far} under our load too few were longer than without it to \
                 tell a queue from chance"
            )
        }
        NarrowLinkObstacle::BothWays => String::from(
            "the delay grew on the way there and on the way back: one link cannot be named",
        ),
        NarrowLinkObstacle::NoLocation => {
            let rise = input.far.as_ref().map_or(0, |rise| rise.rise_ns);
            format!(
                "round trips to {far} grew by {} under our load, but the hops do not agree on where",
                path_format::format_delay(rise)
            )
        }
    }
}

pub fn describe_no_queue(far: &HopRise, input: &NarrowLinkInput) -> String {
    let grown = if far.rise_ns > 0 {
        format!("by {} only", path_format::format_delay(far.rise_ns))
    } else {
        String::from("not at all")
    };
    format!(
        "no queue grew: under our load the round trip to {} grew {grown}; the limit is no standing \
         queue of the path, but a host, a policer, loss or a very small buffer",
        input.observation.address
    )
}

pub fn describe_return_queue(against: &HopRise, input: &NarrowLinkInput) -> String {
    let way = if input.watch.forward { "back" } else { "there" };
    format!(
        "the queue grew against our load, on the way {way}, by {}: it holds up the acknowledgements, \
         and the hops cannot tell where",
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
        format!("under our load the queue grew in this host's own interface, by {rise}")
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
        (with, all) if with == all => text.push_str("; all later hops show it"),
        (with, all) => {
            let _ = write!(text, "; {with} of {all} later hops show it");
        }
    }
    if place.grows_again {
        text.push_str("; it grows in more than one step");
    }
    if verdict == "span" {
        text.push_str("; hops between them are unknown, silent or too noisy to tell which link");
    }
    if input.direction_rises().is_none() {
        text.push_str("; whether on the way there or back is not told");
    }
    if let Some(capacity) = capacity {
        let _ = write!(
            text,
            "; the path as a whole carries {}",
            format_capacity(capacity)
        );
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
    let interval = capacity
        .interval_bps
        .map(|[low, high]| format!(" ({} to {})", rate(low), rate(high)));
    format!("{}{}", rate(capacity.bps), interval.unwrap_or_default())
}

fn format_hop_name(ttl: u8, input: &NarrowLinkInput) -> String {
    let watched = input.watch.hops.iter().find(|hop| hop.ttl == ttl);
    let rises = input.hops.iter().chain(&input.far);
    let risen = || {
        let rise = rises.into_iter().find(|rise| rise.ttl == ttl)?;
        rise.address.clone()
    };
    match ttl {
        0 => String::from("this host"),
        _ => watched
            .and_then(|hop| hop.address.clone())
            .or_else(risen)
            .unwrap_or_else(|| format!("hop {ttl}")),
    }
}
