//! The kinds of days: each draws a path with the traffic of others, and what is done to it.

use super::{DayCell, DayTruth};
use crate::guest_cells::CellKind;
use crate::verdict_matrix::matrix_cell::{DrawnPath, log_between};
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::splitmix::SplitMix64;

pub const KINDS: [CellKind<DayCell>; 9] = [
    ("a longer route", 1, draw_longer_route),
    ("more delay on the same route", 1, draw_more_delay),
    ("a slower link", 1, draw_slower_link),
    ("more traffic of others", 1, draw_more_traffic),
    ("a shaper", 1, draw_shaper),
    ("a policer", 1, draw_policer),
    ("random loss", 1, draw_loss),
    ("nothing", 1, draw_nothing),
    ("nothing, busy hours", 1, draw_busy_hours),
];

const RATES: &[PathQuantity] =
    &[PathQuantity::Goodput, PathQuantity::Available, PathQuantity::Capacity];
const LOSSES: &[PathQuantity] = &[PathQuantity::Loss, PathQuantity::Retransmits];
const DELAYS: &[PathQuantity] = &[PathQuantity::RttFloor];
/// Over a longer path the same queue holds less of the BDP, so that a transfer may be slower.
const AFTER_DELAYS: &[PathQuantity] =
    &[PathQuantity::Goodput, PathQuantity::Retransmits, PathQuantity::Hops];
/// The arguments of iperf3 for the traffic of others; `LOAD` stands for its rate.
const TRAFFICS: [&str; 3] = ["-u -l 1400 -b LOAD", "-u -l 1400 -b LOAD/30", "-P 2 -b LOAD"];
/// The share of the link that others use at most days, and the amplitude of its daily course.
const USED_SHARES: [f64; 2] = [0.05, 0.25];
const DAILY_AMPLITUDE: f64 = 0.1;
const BUSY_AMPLITUDE: f64 = 0.3;
/// The standard deviation of the traffic between measurements, as a share of it.
const NOISE: f64 = 0.1;

/// Draws a slow path, because each packet costs time of the machine.
fn draw_day(random: &mut SplitMix64, amplitude: f64) -> DayCell {
    let mut path = DrawnPath::draw_within(random, [4e6, 12e6], [8.0, 150.0]);
    path.is_reverse = false;
    path.is_ipv6 = false;
    path.first_bps = path.rate_bps * 8;
    let used = random.between(USED_SHARES[0], USED_SHARES[1]) * path.rate_bps as f64;
    let phase = random.unit();
    let loads = (0..DayCell::SLOTS).map(|slot| {
        let day_share = (slot * DayCell::SLOT_S) as f64 / 86_400.0 + phase;
        let course = 1.0 + amplitude * (day_share * std::f64::consts::TAU).sin();
        (used * course * (NOISE * random.normal()).exp()) as u64
    });
    DayCell {
        loads: loads.collect(),
        traffic: TRAFFICS[random.below(TRAFFICS.len())],
        change_s: (DayCell::DAY_S as f64 * random.between(0.45, 0.6)) as u64,
        queue_bytes: path.queue_bytes(random.between(0.5, 2.0)).max(30_000),
        path,
        change: ":".to_owned(),
        note: "no change".to_owned(),
        truth: DayTruth { moves: &[], may_move: &[], causes: &[] },
    }
}

fn draw_changed(
    random: &mut SplitMix64,
    truth: DayTruth,
    change: impl Fn(&mut SplitMix64, &DrawnPath) -> (String, String),
) -> DayCell {
    let mut day = draw_day(random, DAILY_AMPLITUDE);
    (day.change, day.note) = change(random, &day.path);
    day.truth = truth;
    day
}

fn draw_longer_route(random: &mut SplitMix64) -> DayCell {
    let truth = DayTruth { moves: DELAYS, may_move: AFTER_DELAYS, causes: &["route_change"] };
    draw_changed(random, truth, |random, path| {
        let added_ms = path.rtt_ms * random.between(0.2, 0.6) + 4.0;
        (format!("detour {added_ms:.1}ms"), format!("{added_ms:.1} ms and a hop more"))
    })
}

/// Nothing that can be measured tells the cause.
fn draw_more_delay(random: &mut SplitMix64) -> DayCell {
    let truth = DayTruth { moves: DELAYS, may_move: AFTER_DELAYS, causes: &[] };
    draw_changed(random, truth, |random, path| {
        let added_ms = path.rtt_ms * random.between(0.2, 0.6) + 4.0;
        let delay_ms = path.rtt_ms / 2.0 + added_ms;
        (netem(&format!("delay {delay_ms:.3}ms")), format!("{added_ms:.1} ms more"))
    })
}

fn draw_slower_link(random: &mut SplitMix64) -> DayCell {
    let truth = DayTruth { moves: RATES, may_move: LOSSES, causes: &["capacity_change"] };
    draw_changed(random, truth, |random, path| {
        let bps = (path.rate_bps as f64 * random.between(0.4, 0.7)) as u64;
        let command = format!("narrow tbf rate {bps}bit burst 3100 limit $QUEUE");
        (command, format!("to {:.1} Mbit/s", bps as f64 / 1e6))
    })
}

fn draw_more_traffic(random: &mut SplitMix64) -> DayCell {
    const MOVES: &[PathQuantity] = &[PathQuantity::Goodput, PathQuantity::Available];
    let truth = DayTruth { moves: MOVES, may_move: LOSSES, causes: &["cross_traffic"] };
    draw_changed(random, truth, |random, path| {
        let kbps = (path.rate_bps as f64 * random.between(0.3, 0.55) / 1e3) as u64;
        (format!("echo {kbps} >more"), format!("{:.1} Mbit/s more", kbps as f64 / 1e3))
    })
}

fn draw_shaper(random: &mut SplitMix64) -> DayCell {
    let truth = DayTruth { moves: RATES, may_move: LOSSES, causes: &["shaper_appeared"] };
    draw_changed(random, truth, |random, path| {
        let bps = path.rate_bps as f64 * random.between(0.4, 0.7);
        let seconds = random.between(0.5, 2.0);
        let bucket = (path.rate_bps as f64 - bps) * seconds / 8.0;
        let command = format!(
            "narrow tbf rate {bps:.0}bit burst {bucket:.0} peakrate $RATE mtu 3100 limit $QUEUE"
        );
        (command, format!("{:.1} Mbit/s after {seconds:.1} s", bps / 1e6))
    })
}

fn draw_policer(random: &mut SplitMix64) -> DayCell {
    let truth = DayTruth { moves: RATES, may_move: LOSSES, causes: &["policer_appeared"] };
    draw_changed(random, truth, |random, path| {
        let bps = path.rate_bps as f64 * random.between(0.4, 0.7);
        let seconds = log_between(random, 0.05, 0.5);
        let command = format!("police leave {bps:.0}bit {:.0}", bps * seconds / 8.0);
        (command, format!("{:.1} Mbit/s, bucket {:.0} ms", bps / 1e6, seconds * 1e3))
    })
}

/// The loss holds one stream to 0.3 to 0.6 of the rate by Mathis' formula.
fn draw_loss(random: &mut SplitMix64) -> DayCell {
    const MOVES: &[PathQuantity] =
        &[PathQuantity::Goodput, PathQuantity::Loss, PathQuantity::Retransmits];
    let truth =
        DayTruth { moves: MOVES, may_move: &[PathQuantity::Available], causes: &["random_loss"] };
    draw_changed(random, truth, |random, path| {
        let bps = path.rate_bps as f64 * random.between(0.3, 0.6);
        let ratio = (1.22 * 8.0 * 1448.0 * 1e3 / (path.rtt_ms * bps)).powi(2);
        let percent = 100.0 * ratio.min(0.05);
        (netem(&format!("$DELAY_OUT loss {percent:.4}%")), format!("{percent:.2} %"))
    })
}

fn draw_nothing(random: &mut SplitMix64) -> DayCell {
    draw_day(random, DAILY_AMPLITUDE)
}

fn draw_busy_hours(random: &mut SplitMix64) -> DayCell {
    draw_day(random, BUSY_AMPLITUDE)
}

/// Returns the command that changes what the network does to packets for the far host.
fn netem(arguments: &str) -> String {
    format!(
        "ip netns exec core tc qdisc change dev far root handle 1: netem limit 1000000 {arguments}"
    )
}
