//! What a lab path is: the nouns that the path file, the engine and `lab show` share.
//!
//! A path is a chain: host `near`, then one link and one node for every hop. The last hop's node
//! is host `far`; all others are routers, which exist only inside the engine. A hop describes the
//! link that leads to it from its predecessor (both directions) and the node at its end.

use longhaul_model::units::{Bytes, Rate};
use std::collections::BTreeMap;
use std::time::Duration;

/// A whole path, checked: every value is in its range and every reference resolves.
#[derive(Debug, Clone, PartialEq)]
pub struct PathSpec {
    /// File stem or shipped name: `la-geneva`.
    pub key: String,
    /// A sentence.
    pub name: String,
    /// Largest IP packet on every link that does not set its own, bytes.
    pub mtu: u32,
    /// Seed of all random processes; the same seed and input give the same output.
    pub seed: u64,
    pub near: HostSpec,
    pub far: HostSpec,
    pub hops: Vec<HopSpec>,
    /// Alternative chains, switched to by events; `hops` is the route named `main`.
    pub routes: BTreeMap<String, Vec<HopSpec>>,
    /// In order of time.
    pub events: Vec<EventSpec>,
    /// The time at which the path begins: what its events did up to then is done already.
    pub begin_at: Duration,
    /// Sysctls that the kernel does not keep per namespace.
    pub machine: MachineSpec,
}

/// One of the two end hosts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HostSpec {
    pub city: Option<String>,
    /// Per-namespace sysctls by dotted name: `net.ipv4.tcp_rmem`.
    pub sysctl: BTreeMap<String, String>,
    /// The host gets its packets in batches, as from a network card that waits this long from the
    /// first packet of a batch before it interrupts; zero: one by one.
    pub batch: Duration,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct MachineSpec {
    /// Machine-wide sysctls by dotted name: `net.core.rmem_max`.
    pub sysctl: BTreeMap<String, String>,
    /// True: the path is not what it says without them, so refuse to run; false: run with a caveat.
    pub required: bool,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct HopSpec {
    /// What the router is called; also its name in the truth file.
    pub name: String,
    /// City or IATA code.
    pub city: Option<String>,
    /// From the predecessor to this hop.
    pub forward: LinkSpec,
    /// From this hop back to its predecessor.
    pub reverse: LinkSpec,
    /// Answers nothing: no time exceeded, no echo, no port unreachable.
    pub silent: bool,
    /// ICMP messages per second at most (token bucket with a burst of one tenth, at least one).
    pub icmp_limit: Option<u32>,
    /// Extra time the router takes to make an ICMP message (slow control processor).
    pub icmp_delay: Duration,
    /// What its ICMP errors are like.
    pub icmp: Manners,
    /// MPLS labels that its ICMP errors show, outermost first (RFC 4950).
    pub mpls: Vec<u32>,
    /// So many routers stand here side by side, each with an address of its own, and every flow
    /// keeps to one of them; zero and one: a single router.
    pub balance: u8,
    /// What it does to the options of a TCP handshake.
    pub rewrite: Rewrite,
}

/// Whether what a router says can be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Manners {
    #[default]
    Honest,
    /// Cut off, with lengths that lie and bytes of chance.
    Garbage,
    /// Sound messages about packets that nobody sent.
    Forged,
}

/// What a middlebox makes of TCP options in packets with SYN, both ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rewrite {
    /// These become NOPs.
    pub sack: bool,
    pub window_scale: bool,
    pub timestamps: bool,
    /// A larger maximum segment size becomes this, bytes.
    pub clamp_mss: Option<u16>,
}

impl Rewrite {
    /// Whether it leaves everything as it is.
    pub fn is_none(&self) -> bool {
        *self == Rewrite::default()
    }
}

/// One direction of one link: what happens to a packet, in this order.
///
/// policer → shaper → queue (tail drop) → serialisation at `rate` → random loss → delay, jitter,
/// reordering.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkSpec {
    pub delay: Duration,
    /// Half-width of a symmetric bell-shaped variation of `delay`; order is kept.
    pub jitter: Duration,
    /// `None`: as fast as the machine.
    pub rate: Option<Rate>,
    /// Bytes of wire that may wait; `None`: no limit.
    pub queue: Option<Bytes>,
    /// Probability that a packet (segment) is lost, 0 to 1.
    pub loss: f64,
    /// Share of packets that are overtaken, and by how much time they come late.
    pub reorder: Option<Reorder>,
    pub policer: Option<Policer>,
    pub shaper: Option<Shaper>,
    pub cross: Option<Cross>,
    /// Bytes on the wire per packet beyond the IP packet: 38 for Ethernet with preamble and gap.
    pub overhead: u32,
    /// Largest IP packet on this link; a larger one is answered with "too big" unless
    /// `mtu_black_hole`.
    pub mtu: Option<u32>,
    pub mtu_black_hole: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reorder {
    pub share: f64,
    pub late_by: Duration,
}

/// Token bucket that drops the excess.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Policer {
    pub rate: Rate,
    pub burst: Bytes,
}

/// Token bucket that queues the excess: `burst` bytes pass at `peak`, the rest at `sustained`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shaper {
    pub peak: Rate,
    pub sustained: Rate,
    pub burst: Bytes,
}

/// Other people's traffic on a link. It takes capacity and queue and is counted in the truth; it
/// exists only in the engine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cross {
    pub rate: Rate,
    pub pattern: CrossPattern,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrossPattern {
    /// Evenly spaced packets.
    Cbr,
    /// Exponential gaps.
    Poisson,
    /// Bursts at twice `rate`, exponential on and off times of 100 ms on average.
    OnOff,
    /// A window that grows by one packet per round trip and halves on loss, up to `rate`.
    Tcp,
}

/// Something that happens at a time, counted from before the first of them; a path that does not
/// say otherwise begins at zero.
#[derive(Debug, Clone, PartialEq)]
pub struct EventSpec {
    pub at: Duration,
    pub change: Change,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Packets sent from now on take this route (`main` or an alternative).
    Route(String),
    /// The whole of one direction of one link of one route is replaced.
    Link {
        route: String,
        hop: usize,
        forward: bool,
        to: Box<LinkSpec>,
    },
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
