//! The kinds of beds: each draws a path, and what others send across it.

use super::test_bed::{ETHERNET_BYTES, LinkSharing, RateTruth, TestBed};
use crate::guest_cells::CellKind;
use crate::verdict_matrix::matrix_cell::{DrawnPath, log_between};
use longhaul_model::splitmix::SplitMix64;

pub const KINDS: [CellKind<TestBed>; 24] = [
    ("idle", 5, draw_idle),
    ("Poisson on tbf", 5, draw_poisson_on_tbf),
    ("Poisson on htb", 4, draw_poisson_on_htb),
    ("Poisson on netem", 4, draw_poisson_on_netem),
    ("jittered datagrams", 4, draw_jittered),
    ("bursts of datagrams", 4, draw_bursts),
    ("on and off", 4, draw_on_off),
    ("paced datagrams", 3, draw_paced_datagrams),
    ("paced streams", 4, draw_paced_streams),
    ("streams", 4, draw_streams),
    ("fq_codel", 5, draw_fq_codel),
    ("CAKE", 5, draw_cake),
    ("two loaded hops", 5, draw_two_hops),
    ("bucket, idle", 5, draw_idle_bucket),
    ("bucket, loaded", 3, draw_loaded_bucket),
    ("policer", 4, draw_policer),
    ("aggregation", 3, draw_aggregation),
    ("receive batches", 4, draw_receive_batches),
    ("late stamps", 4, draw_late_stamps),
    ("one-core host", 3, draw_one_core_host),
    (LIGHT_KIND, 24, draw_light),
    ("overload", 2, draw_overload),
    ("clock steps", 2, draw_clock_steps),
    ("idle one-core host", 3, draw_idle_one_core_host),
];

/// The kind that is measured with few packets.
pub const LIGHT_KIND: &str = "light";

const FAIR: RateTruth = RateTruth::Link(LinkSharing::Fair);
/// The IP and UDP headers of a datagram.
const IPV4_HEADERS: u64 = 28;
const IPV6_HEADERS: u64 = 48;
/// The largest message of the traffic generator.
const MAX_MESSAGE_BYTES: u64 = 8192;

/// The load of others on a link.
#[derive(Debug, Clone, Copy)]
struct OtherLoad {
    load_ratio: f64,
    message_bytes: u64,
    per_second: f64,
    bps: f64,
}

impl OtherLoad {
    fn draw(random: &mut SplitMix64, path: &DrawnPath, loads: [f64; 2]) -> OtherLoad {
        let load_ratio = random.between(loads[0], loads[1]);
        OtherLoad::of(random, path, path.rate_bps, load_ratio)
    }

    /// Returns a load of this ratio of a link, in full or in smaller packets.
    fn of(random: &mut SplitMix64, path: &DrawnPath, link_bps: u64, load_ratio: f64) -> OtherLoad {
        let headers = if path.is_ipv6 { IPV6_HEADERS } else { IPV4_HEADERS };
        let full = (path.mtu - headers).min(MAX_MESSAGE_BYTES);
        let message_bytes = [full, full, full / 2][random.below(3)];
        let frame_bits = (message_bytes + headers + ETHERNET_BYTES) as f64 * 8.0;
        let per_second = load_ratio * link_bps as f64 / frame_bits;
        let bps = per_second * message_bytes as f64 * 8.0;
        OtherLoad { load_ratio, message_bytes, per_second, bps }
    }

    fn poisson(&self) -> String {
        format!("POISSON [{:.1} {}]", self.per_second, self.message_bytes)
    }

    fn describe(&self) -> String {
        format!("{:.0} % in {} B", self.load_ratio * 100.0, self.message_bytes)
    }
}

/// Draws a path; few are fast, because these take long to run.
fn draw_path(random: &mut SplitMix64) -> DrawnPath {
    let rates = if random.below(6) == 0 { [200e6, 1e9] } else { [10e6, 200e6] };
    draw_path_within(random, rates)
}

fn draw_path_within(random: &mut SplitMix64, rates: [f64; 2]) -> DrawnPath {
    let mut path = DrawnPath::draw_within(random, rates, [1.0, 80.0]);
    path.is_reverse = false;
    path
}

/// Returns a queue of 20 to 200 ms.
fn draw_queue(random: &mut SplitMix64, path: &DrawnPath) -> u64 {
    let seconds = log_between(random, 0.02, 0.2);
    ((path.rate_bps as f64 / 8.0 * seconds) as u64).max(path.mtu * 40)
}

/// Returns a link with one queue for all.
fn draw_link(random: &mut SplitMix64, path: &DrawnPath) -> String {
    let queue = draw_queue(random, path);
    match random.below(3) {
        0 => path.link_with_queue(queue),
        1 => path.htb(queue),
        _ => path.netem_rate(queue),
    }
}

fn draw_idle(random: &mut SplitMix64) -> TestBed {
    let path = draw_path(random);
    let (link, rate) = (draw_link(random, &path), path.rate_bps);
    let narrow = match random.below(4) {
        0 => path.managed("fq_codel"),
        1 => format!("narrow cake bandwidth {rate}bit"),
        _ => link,
    };
    let note = narrow.split_whitespace().nth(1).unwrap_or_default().to_owned();
    TestBed::new(path, narrow).titled(note)
}

fn build_poisson(
    random: &mut SplitMix64,
    path: DrawnPath,
    narrow: String,
    loads: [f64; 2],
) -> TestBed {
    let load = OtherLoad::draw(random, &path, loads);
    TestBed::new(path, narrow)
        .titled(load.describe())
        .beside(&format!("generate 4ms '{}'", load.poisson()))
}

fn draw_poisson_on_tbf(random: &mut SplitMix64) -> TestBed {
    let path = draw_path(random);
    let narrow = path.link_with_queue(draw_queue(random, &path));
    build_poisson(random, path, narrow, [0.05, 0.9])
}

fn draw_poisson_on_htb(random: &mut SplitMix64) -> TestBed {
    let path = draw_path(random);
    let narrow = path.htb(draw_queue(random, &path));
    build_poisson(random, path, narrow, [0.05, 0.9])
}

fn draw_poisson_on_netem(random: &mut SplitMix64) -> TestBed {
    let path = draw_path(random);
    let narrow = path.netem_rate(draw_queue(random, &path));
    build_poisson(random, path, narrow, [0.05, 0.9])
}

/// Draws datagrams of iperf3 that a jittering delay makes independent.
fn draw_jittered(random: &mut SplitMix64) -> TestBed {
    let path = draw_path_within(random, [10e6, 200e6]);
    let load = OtherLoad::draw(random, &path, [0.05, 0.9]);
    let narrow = draw_link(random, &path);
    let others = format!("others -u -t 60 -b {:.0} -l {}", load.bps, load.message_bytes);
    TestBed::new(path, narrow).titled(load.describe()).beside(&others)
}

/// Returns a command of iperf3 without jitter.
fn plain_others(words: &str) -> String {
    format!(
        "ip netns exec beside tc qdisc replace dev edge root netem limit 100000 delay 6ms\n\
         ip netns exec beside iperf3 -c $BEHIND -t 60 {words}"
    )
}

fn draw_bursts(random: &mut SplitMix64) -> TestBed {
    let path = draw_path_within(random, [10e6, 200e6]);
    let load = OtherLoad::draw(random, &path, [0.05, 0.8]);
    let (narrow, burst) = (draw_link(random, &path), 4 + random.below(28));
    let words = format!("-u -b {:.0}/{burst} -l {}", load.bps, load.message_bytes);
    TestBed::new(path, narrow)
        .titled(format!("{} by {burst}", load.describe()))
        .beside(&plain_others(&words))
}

/// Draws traffic that sends for some time at twice its mean rate, and then for as long not at all.
fn draw_on_off(random: &mut SplitMix64) -> TestBed {
    let path = draw_path_within(random, [10e6, 200e6]);
    let load = OtherLoad::draw(random, &path, [0.05, 0.45]);
    let (narrow, period_s) = (draw_link(random, &path), log_between(random, 0.02, 0.2));
    let pattern = format!(
        "BURST [REGULAR {:.3} PERIODIC [{:.1} {}] FIXED {:.3}]",
        period_s,
        2.0 * load.per_second,
        load.message_bytes,
        period_s / 2.0
    );
    TestBed::new(path, narrow)
        .titled(format!("{}, every {:.0} ms", load.describe(), period_s * 1e3))
        .beside(&format!("generate 0ms '{pattern}'"))
}

fn draw_paced_datagrams(random: &mut SplitMix64) -> TestBed {
    let path = draw_path_within(random, [10e6, 200e6]);
    let load = OtherLoad::draw(random, &path, [0.05, 0.9]);
    let narrow = draw_link(random, &path);
    let pattern = format!("PERIODIC [{:.1} {}]", load.per_second, load.message_bytes);
    TestBed::new(path, narrow)
        .titled(load.describe())
        .beside(&format!("generate 100us '{pattern}'"))
}

fn draw_paced_streams(random: &mut SplitMix64) -> TestBed {
    let path = draw_path_within(random, [10e6, 200e6]);
    let (narrow, count) = (draw_link(random, &path), 1 + random.below(4));
    let load_ratio = random.between(0.05, 0.85);
    let each = load_ratio * path.rate_bps as f64 / count as f64;
    TestBed::new(path, narrow)
        .titled(format!("{count} streams, {:.0} %", load_ratio * 100.0))
        .beside(&plain_others(&format!("-P {count} --fq-rate {each:.0}")))
}

/// Draws TCP streams that their windows limit.
fn draw_streams(random: &mut SplitMix64) -> TestBed {
    let path = draw_path_within(random, [10e6, 200e6]);
    let (narrow, count) = (draw_link(random, &path), 1 + random.below(4));
    let load_ratio = random.between(0.05, 0.8);
    // The delay is only on the way of the probes; these streams have that of the narrow link.
    let before = "ip netns exec core tc qdisc replace dev edge root netem limit 100000 delay 20ms";
    let window = load_ratio * path.rate_bps as f64 / 8.0 * 0.02 / count as f64;
    let window = (window as u64).max(path.mtu * 2);
    TestBed::new(path, narrow)
        .titled(format!("{count} streams, about {:.0} %", load_ratio * 100.0))
        .before(before.to_owned())
        .beside(&plain_others(&format!("-P {count} -w {window}")))
}

fn draw_fq_codel(random: &mut SplitMix64) -> TestBed {
    let path = draw_path(random);
    let narrow = path.managed("fq_codel");
    build_poisson(random, path, narrow, [0.1, 0.9]).truly(FAIR)
}

fn draw_cake(random: &mut SplitMix64) -> TestBed {
    let path = draw_path(random);
    let narrow = format!("narrow cake bandwidth {}bit", path.rate_bps);
    build_poisson(random, path, narrow, [0.1, 0.9]).truly(FAIR)
}

fn draw_two_hops(random: &mut SplitMix64) -> TestBed {
    let path = draw_path_within(random, [10e6, 200e6]);
    let narrow = path.link_with_queue(draw_queue(random, &path));
    let second_bps = (path.rate_bps as f64 * log_between(random, 0.6, 1.8)) as u64;
    let second_load = random.between(0.1, 0.8);
    let others = OtherLoad::of(random, &path, second_bps, second_load);
    let (queue, burst) = (second_bps / 8 / 10, path.mtu * 2 + 100);
    let bed = build_poisson(random, path, narrow, [0.1, 0.8]);
    let note =
        format!("{} and {:.1} Mbit/s, {}", bed.note(), second_bps as f64 / 1e6, others.describe());
    bed.titled(note)
        .with_second_hop(second_bps)
        .before(format!("second_hop tbf rate {second_bps}bit burst {burst} limit {queue}"))
        .beside(&format!("generate_to_far 4ms '{}'", others.poisson()))
}

/// Draws a token bucket of 1.5 to 64 kB behind a faster link.
fn draw_idle_bucket(random: &mut SplitMix64) -> TestBed {
    let path = draw_path_within(random, [10e6, 150e6]);
    let bucket = log_between(random, 1600.0, 64_000.0) as u64;
    let bucket = bucket.max(path.mtu + 100);
    let narrow = path.tbf(bucket, draw_queue(random, &path));
    TestBed::new(path, narrow)
        .titled(format!("bucket of {:.1} kB", bucket as f64 / 1e3))
        .truly(RateTruth::Bucket)
}

fn draw_loaded_bucket(random: &mut SplitMix64) -> TestBed {
    let bed = draw_idle_bucket(random);
    let load = OtherLoad::draw(random, &bed.path, [0.1, 0.7]);
    let note = format!("{}, {}", bed.note(), load.describe());
    bed.titled(note).beside(&format!("generate 4ms '{}'", load.poisson()))
}

/// Draws a policer of 10 to 60 kB behind a link that is some times as fast.
fn draw_policer(random: &mut SplitMix64) -> TestBed {
    let path = draw_path_within(random, [10e6, 100e6]);
    let bucket = log_between(random, 10_000.0, 64_000.0) as u64;
    let mut behind = path.clone();
    behind.rate_bps = (path.rate_bps as f64 * log_between(random, 2.0, 5.0)) as u64;
    let narrow = behind.link_with_queue(draw_queue(random, &behind));
    let police = format!("police leave {}bit {bucket}", path.rate_bps);
    let peak = behind.rate_bps as f64 / 1e6;
    TestBed::new(path, narrow)
        .titled(format!("policer of {:.1} kB behind {peak:.0} Mbit/s", bucket as f64 / 1e3))
        .truly(RateTruth::Bucket)
        .before(police)
}

/// Draws a second hop that lets packets pass in time slots, as access to a shared medium does.
fn draw_aggregation(random: &mut SplitMix64) -> TestBed {
    let path = draw_path_within(random, [10e6, 150e6]);
    let narrow = draw_link(random, &path);
    let slot_ms = log_between(random, 0.5, 4.0);
    let bed = build_poisson(random, path, narrow, [0.0, 0.8]);
    let note = format!("{}, slots of {slot_ms:.1} ms", bed.note());
    bed.titled(note).before(format!(
        "second_hop netem limit 100000 delay 1ms slot {:.0}us {:.0}us",
        slot_ms * 800.0,
        slot_ms * 1200.0
    ))
}

fn draw_receive_batches(random: &mut SplitMix64) -> TestBed {
    let path = draw_path(random);
    let narrow = draw_link(random, &path);
    let batch_us = log_between(random, 20.0, 250.0);
    let bed = build_poisson(random, path, narrow, [0.0, 0.9]);
    let note = format!("{}, batches of {batch_us:.0} µs", bed.note());
    bed.titled(note).before(format!(
        "second_hop netem limit 100000 delay 1ms slot {batch_us:.0}us {batch_us:.0}us"
    ))
}

/// Draws a host that takes packets late, with those behind them, by up to 5 ms.
fn draw_late_stamps(random: &mut SplitMix64) -> TestBed {
    let path = draw_path_within(random, [10e6, 150e6]);
    let narrow = draw_link(random, &path);
    let late_us = log_between(random, 10.0, 1000.0);
    let bed = build_poisson(random, path, narrow, [0.0, 0.9]);
    let note = format!("{}, late by {late_us:.0} µs", bed.note());
    bed.titled(note).before(late_hop(late_us))
}

/// Returns the command of a hop whose packets are late by a heavy-tailed time, without reordering.
fn late_hop(late_us: f64) -> String {
    let mean = late_us * 1.5;
    format!(
        "second_hop netem limit 100000 delay {mean:.0}us {late_us:.0}us distribution paretonormal\n\
         ip netns exec core tc qdisc add dev far parent 1: pfifo limit 100000"
    )
}

/// Draws a host that needs some time for each packet, and takes packets late.
/// The lateness of a host with one core: a time for each packet, and one that varies.
struct LateClock {
    note: String,
    command: String,
}

impl LateClock {
    fn draw(random: &mut SplitMix64, path: &DrawnPath) -> LateClock {
        let packet_us = (path.mtu as f64 * 8e6 / path.rate_bps as f64) * random.between(0.2, 0.7);
        let late_us = log_between(random, 10.0, 200.0);
        // One byte takes a nanosecond.
        let overhead = (packet_us * 1e3) as u64;
        let late = late_us * 1.5;
        LateClock {
            note: format!("{packet_us:.0} µs a packet, late by {late_us:.0} µs"),
            command: format!(
                "second_hop netem limit 100000 delay {late:.0}us {late_us:.0}us \
                 distribution paretonormal rate 8gbit {overhead}\n\
                 ip netns exec core tc qdisc add dev far parent 1: pfifo limit 100000"
            ),
        }
    }
}

fn draw_one_core_host(random: &mut SplitMix64) -> TestBed {
    let path = draw_path_within(random, [10e6, 150e6]);
    let narrow = draw_link(random, &path);
    let late = LateClock::draw(random, &path);
    let bed = build_poisson(random, path, narrow, [0.0, 0.8]);
    let note = format!("{}, {}", bed.note(), late.note);
    bed.titled(note).before(late.command)
}

fn draw_idle_one_core_host(random: &mut SplitMix64) -> TestBed {
    let path = draw_path_within(random, [10e6, 150e6]);
    let narrow = draw_link(random, &path);
    let late = LateClock::draw(random, &path);
    TestBed::new(path, narrow).titled(late.note).before(late.command)
}

fn draw_light(random: &mut SplitMix64) -> TestBed {
    let path = draw_path(random);
    let narrow = draw_link(random, &path);
    build_poisson(random, path, narrow, [0.0, 0.9]).option("--light")
}

fn draw_overload(random: &mut SplitMix64) -> TestBed {
    let path = draw_path_within(random, [10e6, 100e6]);
    let narrow = draw_link(random, &path);
    build_poisson(random, path, narrow, [1.1, 1.6])
}

/// Draws steps of the clock during the measurement. The traffic generator follows the clock, and
/// would pause; iperf3 does not.
fn draw_clock_steps(random: &mut SplitMix64) -> TestBed {
    let path = draw_path_within(random, [10e6, 100e6]);
    let narrow = draw_link(random, &path);
    let step = ["+5 seconds", "-3 seconds"][random.below(2)];
    let load = OtherLoad::draw(random, &path, [0.1, 0.8]);
    let others = format!("others -u -t 60 -b {:.0} -l {}", load.bps, load.message_bytes);
    TestBed::new(path, narrow)
        .titled(format!("{}, {step}", load.describe()))
        .beside(&others)
        .beside(&format!("(sleep 3.5; date -s '{step}')"))
}
