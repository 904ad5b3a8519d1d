//! Accuracy of the estimators of capacity and available bandwidth on simulated paths.
//!
//! Each case runs the same probe schedule as a real session. The load is 10, 30, 50, 70 or 85 %;
//! the sender is 2.5, 10 or 100 times as fast as the link. Errors are shares of the capacity; the
//! truth is what the simulated link had free between the first and the last probe. The formulas of
//! abing and Spruce are evaluated on the same paths for comparison.

mod busy;
mod classes;
#[cfg(test)]
mod gates;
pub(crate) mod path;
mod rivals;
pub(crate) mod traffic;

use super::Row;
use super::rng::Rng;
use crate::available::{self, Course, Facts};
use crate::stats::quantile::{quantile, sorted};
use busy::busy_receiver;
use classes::CLASSES;
use longhaul_model::report::v1::available::{Bucket, Estimate, Mode, Observation, Plan, Probing};
use path::{Link, Path, Tokens};
use traffic::Traffic;

const LOADS: [f64; 5] = [0.1, 0.3, 0.5, 0.7, 0.85];
const LINES: [f64; 3] = [2.5, 10.0, 100.0];
/// The maximum line rate of a simulated sender, unless the link is faster than 10 Gbit/s.
const MOST_LINE_BPS: f64 = 25e9;
const BATCHING_S: [f64; 3] = [0.0, 50e-6, 125e-6];
const TRAFFIC: [Traffic; 3] = [Traffic::Poisson, Traffic::Bursty, Traffic::HeavyTailed];

/// Collects the errors of one row.
#[derive(Default)]
struct Tally {
    cases: usize,
    errors: Vec<f64>,
    intervals: usize,
    held: usize,
}

impl Tally {
    fn add(&mut self, value: Option<u64>, interval: Option<[u64; 2]>, truth: f64, unit: f64) {
        self.cases += 1;
        self.errors
            .extend(value.map(|bps| (bps as f64 - truth).abs() / unit));
        if let Some([low, high]) = interval {
            self.intervals += 1;
            self.held += usize::from((low as f64..=high as f64).contains(&truth));
        }
    }

    fn row(self, method: &'static str) -> Row {
        let errors = sorted(self.errors);
        Row {
            method,
            cases: self.cases,
            answered: errors.len(),
            median_error_ratio: quantile(&errors, 0.5).unwrap_or(0.0),
            p90_error_ratio: quantile(&errors, 0.9).unwrap_or(0.0),
            coverage_ratio: (self.intervals > 0).then(|| self.held as f64 / self.intervals as f64),
        }
    }
}

/// Evaluates all estimators, with at least `cases` cases in each row.
pub fn rows(seed: u64, cases: usize) -> Vec<Row> {
    let mut found = Vec::new();
    let (mut abing, mut spruce) = (Tally::default(), Tally::default());
    for class in &CLASSES {
        let mut capacity = Tally::default();
        for (batching_s, names) in BATCHING_S.iter().zip(class.names) {
            for (traffic, name) in TRAFFIC.iter().zip(names) {
                let mut available = Tally::default();
                for case in 0..cases {
                    let path = one_hop(class.capacity_bps, *batching_s, *traffic, seed, case);
                    rivals_on(&path, seed, &mut abing, &mut spruce);
                    judge(path, Mode::Quick, &mut available, &mut capacity);
                }
                found.push(available.row(name));
            }
        }
        found.push(capacity.row(class.capacity_name));
    }
    found.extend(busy_receiver(seed, cases));
    found.extend(light(seed, cases));
    found.push(abing.row("abing's formula on all of these paths"));
    found.push(spruce.row("Spruce, told the capacity, on all of these paths"));
    found.extend(several_hops(seed, 3 * cases));
    found.extend(buckets(seed, 2 * cases));
    found
}

fn one_hop(capacity_bps: f64, batching_s: f64, traffic: Traffic, seed: u64, case: usize) -> Path {
    let load = LOADS[case % LOADS.len()];
    let line = LINES[case / LOADS.len() % LINES.len()];
    let line_bps = (line * capacity_bps).min(MOST_LINE_BPS.max(2.5 * capacity_bps));
    let seed = (seed.wrapping_mul(0x9e37_79b9) ^ (case as u64 * 7919)).wrapping_mul(1_000_003);
    let link = Link::new(capacity_bps, load, traffic, seed);
    Path::new(line_bps, vec![link], batching_s, seed ^ 0x63)
}

/// Simulates one direction, from the first probe to the conclusion.
pub(crate) fn measure(path: &mut Path, plan: &Plan) -> Estimate {
    let probing = probe(path, plan);
    let observation = Observation {
        idle_rtt_us: Some(10_000),
        forward: Some(probing),
        ..Observation::default()
    };
    available::conclude(plan, &observation, &[])
        .analysis
        .forward
        .unwrap_or_default()
}

/// Sends the trains that the probe schedule requests over the path.
pub(crate) fn probe(path: &mut Path, plan: &Plan) -> Probing {
    let facts = Facts {
        idle_rtt_us: Some(10_000),
        interface_bps: Some(path.line_bps as u64),
        path_mtu_bytes: None,
    };
    let mut course = Course::new(plan, facts);
    let mut trains = Vec::new();
    while let Some(asked) = course.next() {
        let sent = path.send(&asked);
        course.record(&sent);
        trains.extend(sent);
    }
    let bytes = trains
        .iter()
        .map(|t| t.sent_ns.len() as u64 * u64::from(t.packet_bytes));
    Probing {
        probe_bytes: bytes.sum(),
        duration_us: (path.seconds() * 1e6) as u64,
        interface_bps: Some(path.line_bps as u64),
        receive_clock: String::from("kernel"),
        trains,
        ..Probing::default()
    }
}

pub(crate) fn plan(mode: Mode, seed: u64) -> Plan {
    let budget = available::budget(mode);
    Plan {
        mode,
        forward: true,
        reverse: false,
        packet_bytes: 1500,
        most_bytes: budget.most_bytes,
        most_time_us: budget.most_time_us,
        seed,
        dscp: None,
        uncooperative: None,
        shaper_time_us: None,
    }
}

fn judge(mut path: Path, mode: Mode, available: &mut Tally, capacity: &mut Tally) {
    let truth = path.capacity_bps();
    let found = measure(&mut path, &plan(mode, 11));
    let free = path.truth_bps();
    available.add(
        found.available_bps,
        found.available_interval_bps,
        free,
        truth,
    );
    capacity.add(
        found.capacity_bps,
        found.capacity_interval_bps,
        truth,
        truth,
    );
}

fn rivals_on(path: &Path, seed: u64, abing: &mut Tally, spruce: &mut Tally) {
    let capacity = path.capacity_bps();
    let mut own = path.clone();
    let found = rivals::abing(&mut own).map(|bps| bps as u64);
    abing.add(found, None, own.truth_bps(), capacity);
    let mut own = path.clone();
    let found = rivals::spruce(&mut own, seed).map(|bps| bps as u64);
    spruce.add(found, None, own.truth_bps(), capacity);
}

/// Evaluates light mode, with all batching and traffic together.
fn light(seed: u64, cases: usize) -> Vec<Row> {
    let names = [
        "available, light mode, 10 Mbit/s",
        "available, light mode, 100 Mbit/s",
        "available, light mode, 1 Gbit/s",
    ];
    let row = |(name, capacity_bps): (&'static str, f64)| {
        let (mut available, mut capacity) = (Tally::default(), Tally::default());
        for (batching_s, traffic) in BATCHING_S.iter().flat_map(|b| TRAFFIC.map(|t| (b, t))) {
            for case in 0..cases {
                let path = one_hop(capacity_bps, *batching_s, traffic, seed, case);
                judge(path, Mode::Light, &mut available, &mut capacity);
            }
        }
        available.row(name)
    };
    names.into_iter().zip([1e7, 1e8, 1e9]).map(row).collect()
}

/// Capacities and loads of consecutive links.
type Hops = &'static [(f64, f64)];

/// The errors with several loaded links, and the number of runs that report several loaded links.
fn several_hops(seed: u64, cases: usize) -> Vec<Row> {
    let paths: [(Hops, &'static str, &'static str); 4] = [
        (
            &[(100e6, 0.5), (100e6, 0.5)],
            "available, two loaded hops",
            "several hops told, two loaded hops",
        ),
        (
            &[(155e6, 0.7), (100e6, 0.1)],
            "available, tight hop first",
            "several hops told, tight hop first",
        ),
        (
            &[(100e6, 0.1), (155e6, 0.7)],
            "available, tight hop last",
            "several hops told, tight hop last",
        ),
        (
            &[(100e6, 0.5)],
            "available, one loaded hop",
            "several hops told, one loaded hop",
        ),
    ];
    let mut found = Vec::new();
    for (hops, name, told_name) in paths {
        let (mut available, mut told) = (Tally::default(), Tally::default());
        for case in 0..cases {
            let mut path = chain(hops, TRAFFIC[case % 3], seed ^ (case as u64 * 104_729));
            let estimate = measure(&mut path, &plan(Mode::Quick, 11));
            let (truth, capacity) = (path.truth_bps(), path.capacity_bps());
            available.add(
                estimate.available_bps,
                estimate.available_interval_bps,
                truth,
                capacity,
            );
            let flagged = estimate.flags.iter().any(|f| f == "multi_hop");
            told.add(flagged.then_some(0), None, 0.0, 1.0);
        }
        found.push(available.row(name));
        found.push(told.row(told_name));
    }
    found
}

fn chain(hops: Hops, traffic: Traffic, seed: u64) -> Path {
    let links = hops.iter().zip(1u64..).map(|((capacity_bps, load), i)| {
        Link::new(
            *capacity_bps,
            *load,
            traffic,
            seed.wrapping_mul(31) ^ (i << 40),
        )
    });
    Path::new(1e9, links.collect(), 0.0, seed)
}

/// The contract of the seed scenario: 135 Mbit/s peak and 67 Mbit/s sustained in ATM cells, with a
/// burst of 100 cells. The figures below are in IP bytes.
pub(crate) fn seed_case(seed: u64) -> Path {
    let link = Link::new(119e6, 0.0, Traffic::Poisson, seed);
    Path::new(
        1e9,
        vec![link.with_bucket(Tokens::new(59.3e6, 4800.0, false))],
        0.0,
        seed,
    )
}

/// A token bucket that takes seconds to empty.
pub(crate) fn large_bucket(rng: &mut Rng, drops: bool) -> (Path, f64, f64) {
    let peak = rng.between(3e7, 1.2e8);
    let rate = peak / rng.between(1.4, 3.0);
    let bytes = rng.between(1.0, 3.0) * (peak - rate) / 8.0;
    let seed = rng.below(1 << 30) as u64;
    let link = Link::new(peak, 0.02, Traffic::Poisson, seed);
    let link = link.with_bucket(Tokens::new(rate, bytes, drops));
    (Path::new(1e9, vec![link], 0.0, seed), rate, bytes)
}

/// A bucket of a few packets with a short queue, in front of a slower link with cross traffic.
pub(crate) fn middle_bucket(rng: &mut Rng, drops: bool) -> (Path, f64, f64) {
    let narrow = rng.between(2e7, 2e8);
    let rate = narrow / rng.between(1.5, 2.5);
    let bytes = rng.between(0.015, 0.06) * narrow / 8.0;
    let seed = rng.below(1 << 30) as u64;
    let tokens = Tokens::new(rate, bytes, drops).with_queue(rng.between(0.05, 0.2) * rate / 8.0);
    let links = vec![
        Link::new(1.8 * narrow, 0.0, Traffic::Poisson, seed).with_bucket(tokens),
        Link::new(narrow, rng.between(0.0, 0.2), Traffic::Poisson, seed + 1),
    ];
    (Path::new(1e9, links, 0.0, seed), rate, bytes)
}

fn buckets(seed: u64, cases: usize) -> Vec<Row> {
    let (mut rate, mut burst) = (Tally::default(), Tally::default());
    for case in 0..cases as u64 {
        let found = measure(&mut seed_case(seed ^ case), &plan(Mode::Quick, case)).bucket;
        bucket_errors(found.as_ref(), 59.3e6, 4800.0, &mut rate, &mut burst);
    }
    let mut rows = vec![
        rate.row("bucket of 4.8 kB, rate"),
        burst.row("bucket of 4.8 kB, burst"),
    ];
    for (draw, drops, [rate_name, burst_name]) in LONG_LOOKS {
        let (mut rate, mut burst) = (Tally::default(), Tally::default());
        let mut rng = Rng::new(seed);
        for case in 0..cases as u64 {
            let (mut path, true_rate, true_bytes) = draw(&mut rng, drops);
            let found = measure(&mut path, &long_look(case)).bucket;
            bucket_errors(found.as_ref(), true_rate, true_bytes, &mut rate, &mut burst);
        }
        rows.extend([rate.row(rate_name), burst.row(burst_name)]);
    }
    rows
}

/// Draws a path with a bucket that drops or queues, and returns its rate and its size in bytes.
type Draw = fn(&mut Rng, bool) -> (Path, f64, f64);

const LONG_LOOKS: [(Draw, bool, [&str; 2]); 4] = [
    (
        middle_bucket,
        false,
        [
            "shaper of milliseconds, rate",
            "shaper of milliseconds, burst",
        ],
    ),
    (
        middle_bucket,
        true,
        [
            "policer of milliseconds, rate",
            "policer of milliseconds, burst",
        ],
    ),
    (
        large_bucket,
        false,
        ["shaper of seconds, rate", "shaper of seconds, burst"],
    ),
    (
        large_bucket,
        true,
        ["policer of seconds, rate", "policer of seconds, burst"],
    ),
];

/// The plan of `available --shaper`.
pub(crate) fn long_look(seed: u64) -> Plan {
    Plan {
        most_bytes: 200_000_000,
        shaper_time_us: Some(12_000_000),
        ..plan(Mode::Quick, seed)
    }
}

fn bucket_errors(
    found: Option<&Bucket>,
    rate_bps: f64,
    bytes: f64,
    rate: &mut Tally,
    burst: &mut Tally,
) {
    let (bps, interval) = (
        found.map(|b| b.sustained_bps),
        found.and_then(|b| b.sustained_interval_bps),
    );
    rate.add(bps, interval, rate_bps, rate_bps);
    let (size, interval) = (
        found.map(|b| b.burst_bytes),
        found.and_then(|b| b.burst_interval_bytes),
    );
    burst.add(size, interval, bytes, bytes);
}
