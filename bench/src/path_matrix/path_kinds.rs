//! The kinds of paths: each draws a network, and a command that looks at it.

use super::{LinkSetup, PathCell, PathCellTruth};
use crate::guest_cells::CellKind;
use crate::verdict_matrix::matrix_cell::DrawnPath;
use longhaul_model::splitmix::SplitMix64;

pub const KINDS: [CellKind<PathCell>; 11] = [
    ("narrow link between routers", 8, draw_router_link),
    ("narrow last link", 6, draw_last_link),
    ("narrow link of this host", 4, draw_own_link),
    ("narrow link, managed queue", 6, draw_managed_link),
    ("narrow link, reverse load", 4, draw_reverse_link),
    ("policer under load", 4, draw_policer),
    ("no queue under load", 4, draw_small_window),
    ("route and path MTU", 8, draw_route),
    ("delay under load", 8, draw_loaded_queue),
    ("delay under load, managed queue", 8, draw_loaded_managed_queue),
    ("delay under load, reverse", 4, draw_loaded_reverse),
];

/// The options of `path --load` and of `load`.
const LINK_OPTIONS: &str = "--load=6s --no-reverse --no-mtu";
const LOAD_OPTIONS: &str = "-t 10s --idle 2s -C cubic";
/// The managed queues, and what distinguishes them.
const MANAGED_QUEUES: [&str; 4] = ["fq_codel", "codel", "pie", "sfq perturb 10"];

/// Draws a path whose hosts' own links are much faster, so that one link is narrow.
fn draw_path(random: &mut SplitMix64) -> DrawnPath {
    let mut path = DrawnPath::draw_within(random, [5e6, 200e6], [4.0, 150.0]);
    path.is_reverse = false;
    path.first_bps = path.rate_bps * 10;
    path
}

/// Draws a narrow link between the routers with a queue that the load can fill.
fn draw_fifo(random: &mut SplitMix64, path: &DrawnPath) -> LinkSetup {
    let products = random.between(0.5, 3.0);
    let queue = path.queue_bytes(products).max(30 * path.mtu);
    let discipline = random.below(3);
    let commands = match discipline {
        0 => path.link_with_queue(queue),
        1 => path.netem_rate(queue),
        _ => path.htb(queue),
    };
    let word = ["tbf", "netem", "htb"][discipline];
    let note = format!("{word}, queue {:.0} ms", queue as f64 * 8e3 / path.rate_bps as f64);
    LinkSetup { commands, note }
}

fn draw_managed(random: &mut SplitMix64, path: &DrawnPath) -> LinkSetup {
    let kind = random.below(MANAGED_QUEUES.len() + 1);
    let (commands, note) = MANAGED_QUEUES.get(kind).map_or_else(
        || (format!("narrow cake bandwidth {}bit besteffort", path.rate_bps), "cake"),
        |discipline| (path.managed(discipline), *discipline),
    );
    LinkSetup { commands, note: note.to_owned() }
}

/// Returns a cell of `path --load`, forward.
fn load_link(path: DrawnPath, link: LinkSetup, truth: PathCellTruth) -> PathCell {
    PathCell { path, link, options: LINK_OPTIONS.to_owned(), truth }
}

fn draw_router_link(random: &mut SplitMix64) -> PathCell {
    let path = draw_path(random);
    let link = draw_fifo(random, &path);
    load_link(path, link, PathCellTruth::NarrowLink { before_ttl: 2, is_managed: false })
}

fn draw_last_link(random: &mut SplitMix64) -> PathCell {
    let path = draw_path(random);
    let products = random.between(0.5, 2.0);
    // Packets on their way count as well.
    let packets = path.queue_bytes(products + 0.5) / path.mtu + 30;
    let half_ms = path.rtt_ms / 2.0;
    let rate = path.rate_bps;
    let commands = format!(
        "ip netns exec core tc qdisc replace dev far root handle 1: \
         netem delay {half_ms:.3}ms rate {rate}bit limit {packets}"
    );
    let link = LinkSetup { commands, note: format!("netem, {packets} packets") };
    load_link(path, link, PathCellTruth::NarrowLink { before_ttl: 3, is_managed: false })
}

/// The first link is the narrow one: its queue is in this host, whose kernel lets each stream queue two
/// packets, which may be too little to see.
fn draw_own_link(random: &mut SplitMix64) -> PathCell {
    let mut path = draw_path(random);
    path.first_bps = path.rate_bps;
    let link = LinkSetup { commands: String::new(), note: "tbf of this host".to_owned() };
    load_link(path, link, PathCellTruth::OtherPlace(&["own_host", "none"]))
}

fn draw_managed_link(random: &mut SplitMix64) -> PathCell {
    let path = draw_path(random);
    let link = draw_managed(random, &path);
    load_link(path, link, PathCellTruth::NarrowLink { before_ttl: 2, is_managed: true })
}

fn draw_reverse_link(random: &mut SplitMix64) -> PathCell {
    let path = draw_path(random);
    let LinkSetup { commands, note } = draw_fifo(random, &path);
    let commands = commands
        .replace("narrow ", "narrow_back ")
        .replace("edge tc", "core tc")
        .replace("dev core", "dev edge");
    PathCell {
        path,
        link: LinkSetup { commands, note },
        options: format!("{LINK_OPTIONS} -R"),
        truth: PathCellTruth::NarrowLink { before_ttl: 2, is_managed: false },
    }
}

fn draw_policer(random: &mut SplitMix64) -> PathCell {
    let mut path = draw_path(random);
    // Policers drop packets of more than 2 kB, unless they are told otherwise.
    path.mtu = 1500;
    let burst = path.queue_bytes(random.between(0.5, 2.0)).max(20 * path.mtu);
    let commands = format!("police leave {}bit {burst}", path.rate_bps);
    let link = LinkSetup { commands, note: format!("bucket {burst} B") };
    load_link(path, link, PathCellTruth::OtherPlace(&["none"]))
}

/// A single stream with a window of a third of the path, because the bursts of several may collide.
fn draw_small_window(random: &mut SplitMix64) -> PathCell {
    let mut path = DrawnPath::draw_within(random, [20e6, 200e6], [40.0, 150.0]);
    (path.is_reverse, path.first_bps) = (false, path.rate_bps * 2);
    let bytes = (path.bdp_bytes() * 0.6) as u64;
    let sysctl = format!("ip netns exec far sysctl -qw net.ipv4.tcp_rmem='4096 {bytes} {bytes}'");
    let commands = format!("{}\n{sysctl}", draw_fifo(random, &path).commands);
    PathCell {
        path,
        link: LinkSetup { commands, note: "a window of a third of the BDP".to_owned() },
        options: format!("{LINK_OPTIONS} -P 1"),
        truth: PathCellTruth::OtherPlace(&["none"]),
    }
}

fn draw_route(random: &mut SplitMix64) -> PathCell {
    let mut path = draw_path(random);
    path.mtu = [1500, 9000][random.below(2)];
    let mtu = 1280 + random.below(path.mtu as usize - 1280) as u32;
    let commands = format!(
        "ip -n core link set far mtu {mtu}\nip -n far link set core mtu {mtu}\n{}",
        path.plain_link()
    );
    PathCell {
        path,
        link: LinkSetup { commands, note: format!("last link with an MTU of {mtu}") },
        options: "-c 5 --no-reverse".to_owned(),
        truth: PathCellTruth::Route { mtu },
    }
}

/// Returns a cell of `load`.
fn load_queue(path: DrawnPath, link: LinkSetup) -> PathCell {
    let truth = PathCellTruth::LoadedDelay;
    PathCell { path, link, options: LOAD_OPTIONS.to_owned(), truth }
}

fn draw_loaded_queue(random: &mut SplitMix64) -> PathCell {
    let path = draw_path(random);
    let link = draw_fifo(random, &path);
    load_queue(path, link)
}

fn draw_loaded_managed_queue(random: &mut SplitMix64) -> PathCell {
    let path = draw_path(random);
    let link = draw_managed(random, &path);
    load_queue(path, link)
}

fn draw_loaded_reverse(random: &mut SplitMix64) -> PathCell {
    let cell = draw_reverse_link(random);
    PathCell { options: format!("{LOAD_OPTIONS} -R"), truth: PathCellTruth::LoadedDelay, ..cell }
}
