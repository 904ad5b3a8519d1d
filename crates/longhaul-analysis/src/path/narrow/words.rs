//! Describes the verdict in a sentence that claims no more than was observed.

use super::judge::{Obscured, Sight};
use super::place::Place;
use super::profile::Grown;
use crate::path::{Capacity, words};
use longhaul_model::units::Rate;
use std::fmt::Write;

pub fn obscured(why: Obscured, sight: &Sight) -> String {
    let far = &sight.observation.address;
    match why {
        Obscured::NoLoad => String::from("no load ran, so nothing can be said of queues"),
        Obscured::FarEndSilent => format!(
            "{far} answered too few probes, idle or loaded, to tell whether a queue grew towards it"
        ),
        Obscured::Noise => {
            let noise = sight.far.as_ref().map_or(0, |rise| rise.noise_ns);
            format!(
                "round trips to {far} vary by {} without our load, too much to see a queue of it",
                words::delay(noise)
            )
        }
        Obscured::Chance => {
            let loaded = sight.far.as_ref().map_or(0, |rise| rise.loaded);
            format!(
                "of {loaded} round trips to {far} under our load too few were longer than without it to \
                 tell a queue from chance"
            )
        }
        Obscured::BothWays => String::from(
            "the delay grew on the way there and on the way back: one link cannot be named",
        ),
        Obscured::NoPlace => {
            let rise = sight.far.as_ref().map_or(0, |rise| rise.rise_ns);
            format!(
                "round trips to {far} grew by {} under our load, but the hops do not agree on where",
                words::delay(rise)
            )
        }
    }
}

pub fn no_queue(far: &Grown, sight: &Sight) -> String {
    let grown = if far.rise_ns > 0 {
        format!("by {} only", words::delay(far.rise_ns))
    } else {
        String::from("not at all")
    };
    format!(
        "no queue grew: under our load the round trip to {} grew {grown}; the limit is no standing \
         queue of the path, but a host, a policer, loss or a very small buffer",
        sight.observation.address
    )
}

pub fn return_path(against: &Grown, sight: &Sight) -> String {
    let way = if sight.watch.forward { "back" } else { "there" };
    format!(
        "the queue grew against our load, on the way {way}, by {}: it holds up the acknowledgements, \
         and the hops cannot tell where",
        words::delay(against.rise_ns)
    )
}

pub fn placed(verdict: &str, place: &Place, sight: &Sight, capacity: Option<Capacity>) -> String {
    let rise = words::delay(place.rise_ns);
    let mut text = if verdict == "own_host" {
        format!("under our load the queue grew in this host's own interface, by {rise}")
    } else {
        let ends = format!(
            "between {} and {}{}",
            name(place.after, sight),
            name(place.before, sight),
            hops(place, sight)
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
    if sight.ways().is_none() {
        text.push_str("; whether on the way there or back is not told");
    }
    if let Some(capacity) = capacity {
        let _ = write!(text, "; the path as a whole carries {}", carries(capacity));
    }
    text
}

/// Formats the TTLs, if both are known.
fn hops(place: &Place, sight: &Sight) -> String {
    let far = sight.far.as_ref().map(|far| far.ttl);
    if !sight.far_placed && far == Some(place.before) {
        return format!(" (beyond hop {})", place.after);
    }
    format!(" (hops {}-{})", place.after, place.before)
}

fn carries(capacity: Capacity) -> String {
    let rate = Rate::bits_per_second;
    let interval = capacity
        .interval_bps
        .map(|[low, high]| format!(" ({} to {})", rate(low), rate(high)));
    format!("{}{}", rate(capacity.bps), interval.unwrap_or_default())
}

fn name(ttl: u8, sight: &Sight) -> String {
    let watched = sight.watch.hops.iter().find(|hop| hop.ttl == ttl);
    let rises = sight.hops.iter().chain(&sight.far);
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
