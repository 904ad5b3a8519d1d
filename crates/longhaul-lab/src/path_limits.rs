//! Limits of a path that follow from its description alone.
//!
//! Source: the route and its links as they are when the path begins. Wrong when later events change
//! them, when cross traffic takes capacity, or when random loss or a policer keeps TCP below the
//! rate.

use crate::path_spec::{ChangeSpec, HopSpec, LinkSpec, PathSpec};
use longhaul_model::units::Rate;
use std::borrow::Cow;
use std::time::Duration;

/// The length of IPv4 and TCP headers with timestamps, in bytes.
const HEADER_BYTES: u32 = 52;

/// The link of one direction with the lowest capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NarrowLabLink {
    /// The index into the hops of the route.
    pub hop: usize,
    /// The rate that it sustains, wire overhead included.
    pub rate: Rate,
}

/// Returns the hops when the path begins, after all events up to that time.
pub fn resolve_hops_at_begin(path: &PathSpec) -> Cow<'_, [HopSpec]> {
    let done = || path.events.iter().filter(|event| event.at <= path.begin_at);
    let route = done().fold("main", |route, event| match &event.change {
        ChangeSpec::Route(to) => to,
        ChangeSpec::Link { .. } => route,
    });
    let mut hops = Cow::Borrowed(path.routes.get(route).unwrap_or(&path.hops).as_slice());
    for event in done() {
        if let ChangeSpec::Link { place, to } = &event.change
            && place.route == route
            && let Some(changed) = hops.to_mut().get_mut(place.hop)
        {
            let link = if place.forward { &mut changed.forward } else { &mut changed.reverse };
            link.clone_from(to);
        }
    }
    hops
}

/// Returns the sum of the delays of both directions, without jitter, queues and serialisation.
pub fn compute_rtt(path: &PathSpec) -> Duration {
    let both = |hop: &HopSpec| hop.forward.delay + hop.reverse.delay;
    resolve_hops_at_begin(path).iter().map(both).sum()
}

/// Returns the rate that a link sustains: the minimum of its rate, shaper and policer.
pub fn compute_link_capacity(link: &LinkSpec) -> Option<Rate> {
    let shaped = link.shaper.map(|shaper| shaper.sustained);
    let policed = link.policer.map(|policer| policer.rate);
    [link.rate, shaped, policed].into_iter().flatten().min()
}

/// Returns the first link with the lowest capacity, or `None` if no link has a limit.
pub fn find_narrow_link(path: &PathSpec, forward: bool) -> Option<NarrowLabLink> {
    let hops = resolve_hops_at_begin(path);
    let links = hops.iter().enumerate();
    links
        .filter_map(|(hop, spec)| {
            Some((hop, compute_link_capacity(link_in_direction(spec, forward))?))
        })
        .min_by_key(|(hop, rate)| (*rate, *hop))
        .map(|(hop, rate)| NarrowLabLink { hop, rate })
}

/// Returns the bytes in flight that fill the path: rate of the forward narrow link times RTT.
pub fn compute_bdp_bytes(path: &PathSpec) -> Option<u64> {
    Some(find_narrow_link(path, true)?.rate.bytes_in(compute_rtt(path)))
}

/// Returns the smallest MTU of the links of one direction.
pub fn find_path_mtu(path: &PathSpec, forward: bool) -> u32 {
    let hops = resolve_hops_at_begin(path);
    let links = hops.iter().map(|hop| link_in_direction(hop, forward).mtu);
    links.flatten().fold(path.mtu, u32::min)
}

/// Returns the maximum goodput of one direction: capacity × (MTU − 52) / (MTU + overhead), the
/// minimum over all links, for TCP over IPv4 with timestamps.
pub fn compute_goodput_limit(path: &PathSpec, forward: bool) -> Option<Rate> {
    let mtu = find_path_mtu(path, forward);
    let hops = resolve_hops_at_begin(path);
    let links = hops.iter().map(|hop| link_in_direction(hop, forward));
    let limits = links.filter_map(|link| {
        let wire = u128::from(mtu + link.overhead);
        let payload = u128::from(mtu.saturating_sub(HEADER_BYTES));
        let bits = u128::from(compute_link_capacity(link)?.as_bps()) * payload / wire;
        u64::try_from(bits).ok().map(Rate::bits_per_second)
    });
    limits.min()
}

/// Returns one direction of a hop's link.
pub fn link_in_direction(hop: &HopSpec, forward: bool) -> &LinkSpec {
    if forward { &hop.forward } else { &hop.reverse }
}
