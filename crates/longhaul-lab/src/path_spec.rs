//! The description of a lab path, shared by the path file, the engine and `lab show`.
//!
//! A path is a chain: host `near`, then one link and one node for every hop. The last hop's node is
//! host `far`; all others are routers, which exist only inside the engine. A hop describes both
//! directions of the link from its predecessor, and the node at its end.
//!
//! # Path limits
//!
//! Limits of a path that follow from its description alone.
//!
//! Source: the route and its links as they are when the path begins. Wrong when later events change
//! them, when cross traffic takes capacity, or when random loss or a policer keeps TCP below the
//! rate.

use crate::emulation_engine::LabHost;
use crate::path_file::MAX_RATE_BPS;
use longhaul_config::config_values;
use longhaul_model::units::{Bytes, Rate};
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

/// A complete and valid path: every value is in its range and every reference resolves.
#[derive(Debug, Clone, PartialEq)]
pub struct PathSpec {
    /// File stem or shipped name: `la-geneva`.
    pub key: String,
    /// A sentence that describes the path.
    pub name: String,
    /// The largest IP packet on every link that does not set its own, in bytes.
    pub mtu: u32,
    /// The seed of all random processes; the same seed and input give the same output.
    pub seed: u64,
    pub near: HostSpec,
    pub far: HostSpec,
    pub hops: Vec<HopSpec>,
    /// Alternative chains, activated by events; `hops` is the route named `main`.
    pub routes: BTreeMap<String, Vec<HopSpec>>,
    /// Sorted by time.
    pub events: Vec<EventSpec>,
    /// The time at which the path begins; the effects of events up to then are already in force.
    pub begin_at: Duration,
    /// Sysctls that the kernel does not keep per namespace.
    pub machine: MachineSpec,
}

impl PathSpec {
    pub(crate) fn host(&self, host: LabHost) -> &HostSpec {
        match host {
            LabHost::Near => &self.near,
            LabHost::Far => &self.far,
        }
    }
}

/// One of the two end hosts.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HostSpec {
    #[serde(deserialize_with = "config_values::line")]
    pub city: Option<String>,
    /// Per-namespace sysctls by dotted name: `net.ipv4.tcp_rmem`.
    #[serde(deserialize_with = "deserialize_sysctls")]
    pub sysctl: BTreeMap<String, String>,
    /// The host receives its packets in batches, as from a network card that waits this long after
    /// the first packet of a batch before it interrupts; zero delivers them one by one.
    #[serde(deserialize_with = "config_values::duration::<_, _, 0, 60>")]
    pub batch: Duration,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MachineSpec {
    /// Machine-wide sysctls by dotted name: `net.core.rmem_max`.
    #[serde(deserialize_with = "deserialize_sysctls")]
    pub sysctl: BTreeMap<String, String>,
    /// If true, the path is wrong without them, so refuse to run; if false, run with a caveat.
    pub required: bool,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct HopSpec {
    /// The router's name, also used in the truth file.
    pub name: String,
    /// City or IATA code.
    pub city: Option<String>,
    /// The link from the predecessor to this hop.
    pub forward: LinkSpec,
    /// The link from this hop back to its predecessor.
    pub reverse: LinkSpec,
    /// The router answers nothing: no time exceeded, no echo, no port unreachable.
    pub silent: bool,
    /// The maximum ICMP messages per second (token bucket with a burst of one tenth, at least one).
    pub icmp_limit: Option<u32>,
    /// The extra time that the router takes to create an ICMP message (slow control processor).
    pub icmp_delay: Duration,
    /// The validity of its ICMP errors.
    pub icmp: IcmpValidity,
    /// The MPLS labels in its ICMP errors, outermost first (RFC 4950).
    pub mpls: Vec<u32>,
    /// The number of parallel routers, each with its own address; every flow uses one of them. Zero
    /// and one mean a single router.
    pub balance: u8,
    /// The changes that it makes to the options of a TCP handshake.
    pub rewrite: OptionRewrite,
}

/// The validity of a router's ICMP errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IcmpValidity {
    #[default]
    Honest,
    /// Truncated, with wrong lengths and random bytes.
    Garbage,
    /// Well-formed messages about packets that were never sent.
    Forged,
}

/// TCP options that a middlebox changes in packets with SYN, in both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OptionRewrite {
    /// These options become NOPs.
    pub sack: bool,
    pub window_scale: bool,
    pub timestamps: bool,
    /// The maximum MSS in bytes; a larger one is reduced to it.
    pub clamp_mss: Option<u16>,
}

/// One direction of one link. A packet passes, in this order:
///
/// policer → shaper → queue (tail drop) → serialisation at `rate` → random loss → delay, jitter,
/// reordering.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkSpec {
    pub delay: Duration,
    /// The half-width of a symmetric bell-shaped variation of `delay`; order is kept.
    pub jitter: Duration,
    /// `None` means as fast as the machine.
    pub rate: Option<Rate>,
    /// The maximum number of queued wire bytes; `None` means no limit.
    pub queue: Option<Bytes>,
    /// The probability that a packet (segment) is lost, 0 to 1.
    pub loss: f64,
    /// The share of packets that are overtaken, and their extra delay.
    pub reorder: Option<ReorderSpec>,
    pub policer: Option<PolicerSpec>,
    pub shaper: Option<ShaperSpec>,
    pub cross: Option<CrossSpec>,
    /// Wire bytes per packet beyond the IP packet: 38 for Ethernet with preamble and gap.
    pub overhead: u32,
    /// The largest IP packet on this link; a larger one is answered with "too big" unless
    /// `mtu_black_hole` is set.
    pub mtu: Option<u32>,
    pub mtu_black_hole: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReorderSpec {
    #[serde(deserialize_with = "config_values::share::<_, _, 0, 1000>")]
    pub share: f64,
    #[serde(deserialize_with = "config_values::duration::<_, _, 0, 60>")]
    pub late_by: Duration,
}

/// A token bucket that drops the excess.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicerSpec {
    #[serde(deserialize_with = "config_values::rate::<_, _, 1, MAX_RATE_BPS>")]
    pub rate: Rate,
    #[serde(deserialize_with = "config_values::bytes::<_, _, Bytes, 1, { u64::MAX }>")]
    pub burst: Bytes,
}

/// A token bucket that queues the excess: `burst` bytes pass at `peak`, the rest at `sustained`.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShaperSpec {
    #[serde(deserialize_with = "config_values::rate::<_, _, 1, MAX_RATE_BPS>")]
    pub peak: Rate,
    #[serde(deserialize_with = "config_values::rate::<_, _, 1, MAX_RATE_BPS>")]
    pub sustained: Rate,
    #[serde(deserialize_with = "config_values::bytes::<_, _, Bytes, 1, { u64::MAX }>")]
    pub burst: Bytes,
}

/// Cross traffic on a link. It takes capacity and queue and is counted in the truth, but exists
/// only in the engine.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CrossSpec {
    #[serde(deserialize_with = "config_values::rate::<_, _, 1, MAX_RATE_BPS>")]
    pub rate: Rate,
    #[serde(default)]
    pub pattern: CrossPattern,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CrossPattern {
    /// Evenly spaced packets.
    Cbr,
    /// Exponential gaps.
    #[default]
    Poisson,
    /// Bursts at twice `rate`; on and off times are exponential with a mean of 100 ms.
    OnOff,
    /// A window that grows by one packet per RTT and halves on loss, up to `rate`.
    Tcp,
}

impl CrossPattern {
    /// Returns the word of path files, the truth file and JSON.
    pub fn name(self) -> &'static str {
        match self {
            CrossPattern::Cbr => "cbr",
            CrossPattern::Poisson => "poisson",
            CrossPattern::OnOff => "onoff",
            CrossPattern::Tcp => "tcp",
        }
    }
}

/// A change at a time on the path's time line; a path begins at zero unless `begin_at` is set.
#[derive(Debug, Clone, PartialEq)]
pub struct EventSpec {
    pub at: Duration,
    pub change: ChangeSpec,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ChangeSpec {
    /// Packets sent from now on take this route (`main` or an alternative).
    Route(String),
    /// One direction of one link of one route is replaced completely.
    Link { place: LinkPlace, to: Box<LinkSpec> },
}

/// One direction of one link of a route.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LinkPlace {
    pub route: String,
    /// The index into the hops of the route.
    pub hop: usize,
    pub forward: bool,
}

impl Default for LinkSpec {
    fn default() -> Self {
        LinkSpec {
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            rate: None,
            queue: None,
            loss: 0.0,
            reorder: None,
            policer: None,
            shaper: None,
            cross: None,
            overhead: 38,
            mtu: None,
            mtu_black_hole: false,
        }
    }
}

/// A sysctl, or a table of those whose names begin alike.
#[derive(Deserialize)]
#[serde(untagged, expecting = "is not allowed here; write a number or a line of text")]
enum SysctlNode {
    Value(#[serde(deserialize_with = "config_values::scalar")] String),
    Table(BTreeMap<String, SysctlNode>),
}

/// Reads sysctls by dotted name; `net.core.rmem_max` may be quoted or written as nested keys.
fn deserialize_sysctls<'de, D: serde::Deserializer<'de>>(
    from: D,
) -> Result<BTreeMap<String, String>, D::Error> {
    let mut pending: Vec<(String, SysctlNode)> =
        BTreeMap::<String, SysctlNode>::deserialize(from)?.into_iter().collect();
    let mut found = BTreeMap::new();
    while let Some((name, node)) = pending.pop() {
        match node {
            SysctlNode::Table(nodes) => {
                let nodes = nodes.into_iter();
                pending.extend(nodes.map(|(key, node)| (format!("{name}.{key}"), node)));
            }
            SysctlNode::Value(value) if is_network_sysctl(&name) => drop(found.insert(name, value)),
            SysctlNode::Value(_) => {
                let name = longhaul_config::quote_value(&name);
                return Err(serde::de::Error::custom(format!(
                    "{name} is not the name of a network sysctl; write names such as \
                     net.ipv4.tcp_rmem"
                )));
            }
        }
    }
    Ok(found)
}

/// Only `net.`: a path file must not change any other setting of the machine.
fn is_network_sysctl(name: &str) -> bool {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    name.starts_with("net.") && name.chars().all(is_legal) && !name.split('.').any(str::is_empty)
}

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
