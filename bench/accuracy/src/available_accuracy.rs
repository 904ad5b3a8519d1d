//! Accuracy of the estimators of capacity and available bandwidth on simulated paths.
//!
//! Each case runs the same probe schedule as a real session. The load is 10, 30, 50, 70 or 85 %;
//! the sender is 2.5, 10 or 100 times as fast as the link. Errors are shares of the capacity; the
//! truth is what the simulated link had free between the first and the last probe.

/// Capacities of the paths with a receiver that timestamps packets late.
const BUSY_CAPACITIES: [(f64, &str); 3] =
    [(2e7, "20 Mbit/s"), (1e8, "100 Mbit/s"), (3e8, "300 Mbit/s")];
const BUSY_LOADS: [f64; 3] = [0.0, 0.3, 0.7];
const LATE_S: [f64; 3] = [10e-6, 30e-6, 100e-6];

/// Evaluates a receiver without batching whose CPU has other work.
fn evaluate_busy_receiver(seed: u64, cases: usize) -> Vec<AccuracyRow> {
    let mut found = Vec::new();
    for (capacity_bps, rate) in BUSY_CAPACITIES {
        let (mut available, mut capacity) = (ErrorTally::default(), ErrorTally::default());
        for (load, late_s) in BUSY_LOADS.iter().flat_map(|l| LATE_S.map(|s| (*l, s))) {
            for case in 0..cases {
                let seed = seed.wrapping_mul(1_000_003) ^ (case as u64 * 7919);
                let link = SimulatedLink::new(capacity_bps, load, TRAFFIC[case % 3].0, seed);
                let line_bps = LINE_RATIOS[1 + case % 2] * capacity_bps;
                let mut path = SimulatedPath::new(line_bps, vec![link], 0.0, seed ^ 0x63);
                path.late_s = late_s;
                tally_direction(path, AvailableMode::Quick, &mut available, &mut capacity);
            }
        }
        found.extend([
            available.row(format!("available, {rate}, busy receiver")),
            capacity.row(format!("capacity, {rate}, busy receiver")),
        ]);
    }
    found
}

#[cfg(test)]
mod accuracy_gates;
pub mod simulated_path;
pub mod simulated_traffic;

use super::{AccuracyRow, ErrorTally};
use longhaul_analysis::available_bandwidth::{self, PriorPathFacts, ProbeSchedule};
use longhaul_model::report::v1::available::{
    AvailableEstimate, AvailableMode, AvailableObservation, AvailablePlan, DirectionProbing,
};
use longhaul_model::splitmix::SplitMix64;
use simulated_path::{SimulatedBucket, SimulatedLink, SimulatedPath};
use simulated_traffic::TrafficPattern;

const LOADS: [f64; 5] = [0.1, 0.3, 0.5, 0.7, 0.85];
const LINE_RATIOS: [f64; 3] = [2.5, 10.0, 100.0];
/// The maximum line rate of a simulated sender, unless the link is faster than 10 Gbit/s.
const MAX_LINE_BPS: f64 = 25e9;
const BATCHING_S: [(f64, &str); 3] = [(0.0, "0 µs"), (50e-6, "50 µs"), (125e-6, "125 µs")];
const TRAFFIC: [(TrafficPattern, &str); 3] = [
    (TrafficPattern::Poisson, "Poisson"),
    (TrafficPattern::Bursty, "bursty"),
    (TrafficPattern::HeavyTailed, "heavy-tailed"),
];
/// The capacities of paths with one loaded link.
const CAPACITIES: [(f64, &str); 6] = [
    (1e7, "10 Mbit/s"),
    (5e7, "50 Mbit/s"),
    (1e8, "100 Mbit/s"),
    (3e8, "300 Mbit/s"),
    (1e9, "1 Gbit/s"),
    (1e10, "10 Gbit/s"),
];

/// Evaluates all estimators, with at least `cases` cases in each row.
pub fn evaluate_available(seed: u64, cases: usize) -> Vec<AccuracyRow> {
    let mut found = Vec::new();
    for (capacity_bps, rate) in CAPACITIES {
        let mut capacity = ErrorTally::default();
        for (batching_s, batches) in BATCHING_S {
            for (traffic, pattern) in TRAFFIC {
                let mut available = ErrorTally::default();
                for case in 0..cases {
                    let path = build_one_hop_path(capacity_bps, batching_s, traffic, seed, case);
                    tally_direction(path, AvailableMode::Quick, &mut available, &mut capacity);
                }
                let name = format!("available, {rate}, batches {batches}, {pattern}");
                found.push(available.row(name));
            }
        }
        found.push(capacity.row(format!("capacity, {rate}")));
    }
    found.extend(evaluate_busy_receiver(seed, cases));
    found.extend(evaluate_light_mode(seed, cases));
    found.extend(evaluate_several_hops(seed, 3 * cases));
    found.extend(evaluate_buckets(seed, 2 * cases));
    found
}

fn build_one_hop_path(
    capacity_bps: f64,
    batching_s: f64,
    traffic: TrafficPattern,
    seed: u64,
    case: usize,
) -> SimulatedPath {
    let load = LOADS[case % LOADS.len()];
    let line = LINE_RATIOS[case / LOADS.len() % LINE_RATIOS.len()];
    let line_bps = (line * capacity_bps).min(MAX_LINE_BPS.max(2.5 * capacity_bps));
    let seed = (seed.wrapping_mul(0x9e37_79b9) ^ (case as u64 * 7919)).wrapping_mul(1_000_003);
    let link = SimulatedLink::new(capacity_bps, load, traffic, seed);
    SimulatedPath::new(line_bps, vec![link], batching_s, seed ^ 0x63)
}

/// Simulates one direction, from the first probe to the conclusion.
pub fn simulate_direction(path: &mut SimulatedPath, plan: &AvailablePlan) -> AvailableEstimate {
    let probing = run_probe_schedule(path, plan);
    let observation = AvailableObservation {
        idle_rtt_us: Some(10_000),
        forward: Some(probing),
        ..AvailableObservation::default()
    };
    available_bandwidth::conclude_available(plan, &observation).analysis.forward.unwrap_or_default()
}

/// Sends the trains that the probe schedule requests over the path.
pub fn run_probe_schedule(path: &mut SimulatedPath, plan: &AvailablePlan) -> DirectionProbing {
    let facts = PriorPathFacts {
        idle_rtt_us: Some(10_000),
        interface_bps: Some(path.line_bps as u64),
        path_mtu_bytes: None,
    };
    let mut course = ProbeSchedule::new(plan, facts);
    let mut trains = Vec::new();
    while let Some(request) = course.next() {
        let sent = path.send(&request);
        course.record(&sent);
        trains.extend(sent);
    }
    let bytes = trains.iter().map(|t| t.sent_ns.len() as u64 * u64::from(t.packet_bytes));
    DirectionProbing {
        probe_bytes: bytes.sum(),
        duration_us: (path.seconds() * 1e6) as u64,
        interface_bps: Some(path.line_bps as u64),
        receive_clock: String::from("kernel"),
        trains,
        ..DirectionProbing::default()
    }
}

pub fn build_available_plan(mode: AvailableMode, seed: u64) -> AvailablePlan {
    let budget = available_bandwidth::budget_of_mode(mode);
    AvailablePlan {
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

fn tally_direction(
    mut path: SimulatedPath,
    mode: AvailableMode,
    available: &mut ErrorTally,
    capacity: &mut ErrorTally,
) {
    let truth = path.capacity_bps();
    let found = simulate_direction(&mut path, &build_available_plan(mode, 11));
    let free = path.truth_bps();
    available.add(found.available_bps, found.available_interval_bps, free, truth);
    capacity.add(found.capacity_bps, found.capacity_interval_bps, truth, truth);
}

/// Evaluates light mode, with all batching and traffic together.
fn evaluate_light_mode(seed: u64, cases: usize) -> Vec<AccuracyRow> {
    let row = |(capacity_bps, rate): (f64, &str)| {
        let (mut available, mut capacity) = (ErrorTally::default(), ErrorTally::default());
        let kinds =
            BATCHING_S.iter().flat_map(|(batching_s, _)| TRAFFIC.map(|it| (*batching_s, it.0)));
        for (batching_s, traffic) in kinds {
            for case in 0..cases {
                let path = build_one_hop_path(capacity_bps, batching_s, traffic, seed, case);
                tally_direction(path, AvailableMode::Light, &mut available, &mut capacity);
            }
        }
        available.row(format!("available, light mode, {rate}"))
    };
    [CAPACITIES[0], CAPACITIES[2], CAPACITIES[4]].map(row).to_vec()
}

/// Capacities and loads of consecutive links.
type HopLoads = &'static [(f64, f64)];

/// The errors with several loaded links, and the number of runs that report several loaded links.
fn evaluate_several_hops(seed: u64, cases: usize) -> Vec<AccuracyRow> {
    let paths: [(HopLoads, &str); 4] = [
        (&[(100e6, 0.5), (100e6, 0.5)], "two loaded hops"),
        (&[(155e6, 0.7), (100e6, 0.1)], "tight hop first"),
        (&[(100e6, 0.1), (155e6, 0.7)], "tight hop last"),
        (&[(100e6, 0.5)], "one loaded hop"),
    ];
    let mut found = Vec::new();
    for (hops, name) in paths {
        let (mut available, mut flags) = (ErrorTally::default(), ErrorTally::default());
        for case in 0..cases {
            let mut path =
                build_multi_hop_path(hops, TRAFFIC[case % 3].0, seed ^ (case as u64 * 104_729));
            let estimate =
                simulate_direction(&mut path, &build_available_plan(AvailableMode::Quick, 11));
            let (truth, capacity) = (path.truth_bps(), path.capacity_bps());
            available.add(estimate.available_bps, estimate.available_interval_bps, truth, capacity);
            let flagged = estimate.flags.iter().any(|f| f == "multi_hop");
            flags.add_error(flagged.then_some(0.0));
        }
        found.push(available.row(format!("available, {name}")));
        found.push(flags.row(format!("several hops told, {name}")));
    }
    found
}

fn build_multi_hop_path(hops: HopLoads, traffic: TrafficPattern, seed: u64) -> SimulatedPath {
    let links = hops.iter().zip(1u64..).map(|((capacity_bps, load), i)| {
        SimulatedLink::new(*capacity_bps, *load, traffic, seed.wrapping_mul(31) ^ (i << 40))
    });
    SimulatedPath::new(1e9, links.collect(), 0.0, seed)
}

/// The contract of the seed scenario: 135 Mbit/s peak and 67 Mbit/s sustained in ATM cells, with a
/// burst of 100 cells. The figures below are in IP bytes.
pub fn build_seed_path(seed: u64) -> SimulatedPath {
    let link = SimulatedLink::new(119e6, 0.0, TrafficPattern::Poisson, seed);
    SimulatedPath::new(
        1e9,
        vec![link.with_bucket(SimulatedBucket::new(59.3e6, 4800.0, false))],
        0.0,
        seed,
    )
}

/// A token bucket that takes seconds to empty.
pub fn draw_large_bucket(rng: &mut SplitMix64, drops: bool) -> SimulatedPath {
    let peak = rng.between(3e7, 1.2e8);
    let rate = peak / rng.between(1.4, 3.0);
    let bytes = rng.between(1.0, 3.0) * (peak - rate) / 8.0;
    let seed = rng.below(1 << 30) as u64;
    let link = SimulatedLink::new(peak, 0.02, TrafficPattern::Poisson, seed);
    let link = link.with_bucket(SimulatedBucket::new(rate, bytes, drops));
    SimulatedPath::new(1e9, vec![link], 0.0, seed)
}

/// A bucket of a few packets with a short queue, in front of a slower link with cross traffic.
pub fn draw_middle_bucket(rng: &mut SplitMix64, drops: bool) -> SimulatedPath {
    let narrow = rng.between(2e7, 2e8);
    let rate = narrow / rng.between(1.5, 2.5);
    let bytes = rng.between(0.015, 0.06) * narrow / 8.0;
    let seed = rng.below(1 << 30) as u64;
    let tokens =
        SimulatedBucket::new(rate, bytes, drops).with_queue(rng.between(0.05, 0.2) * rate / 8.0);
    let links = vec![
        SimulatedLink::new(1.8 * narrow, 0.0, TrafficPattern::Poisson, seed).with_bucket(tokens),
        SimulatedLink::new(narrow, rng.between(0.0, 0.2), TrafficPattern::Poisson, seed + 1),
    ];
    SimulatedPath::new(1e9, links, 0.0, seed)
}

fn evaluate_buckets(seed: u64, cases: usize) -> Vec<AccuracyRow> {
    let cases = 0..cases as u64;
    let seeds = cases.clone().map(|case| {
        (build_seed_path(seed ^ case), build_available_plan(AvailableMode::Quick, case))
    });
    let mut rows = evaluate_bucket("bucket of 4.8 kB", seeds).to_vec();
    for (draw, drops, name) in SHAPER_CASES {
        let mut rng = SplitMix64::new(seed);
        let drawn = cases.clone().map(|case| (draw(&mut rng, drops), plan_shaper_probing(case)));
        rows.extend(evaluate_bucket(name, drawn));
    }
    rows
}

/// The errors of the rate and of the size of the bucket of each path.
fn evaluate_bucket(
    name: &str,
    cases: impl Iterator<Item = (SimulatedPath, AvailablePlan)>,
) -> [AccuracyRow; 2] {
    let (mut rate, mut burst) = (ErrorTally::default(), ErrorTally::default());
    for (mut path, plan) in cases {
        let (rate_bps, bytes) = path.links[0].bucket_truth();
        let found = simulate_direction(&mut path, &plan).bucket;
        let found = found.as_ref();
        let interval = found.and_then(|b| b.sustained_interval_bps);
        rate.add(found.map(|b| b.sustained_bps), interval, rate_bps, rate_bps);
        let interval = found.and_then(|b| b.burst_interval_bytes);
        burst.add(found.map(|b| b.burst_bytes), interval, bytes, bytes);
    }
    [rate.row(format!("{name}, rate")), burst.row(format!("{name}, burst"))]
}

/// Draws a path whose first link has a bucket that drops or queues.
type DrawBucketPath = fn(&mut SplitMix64, bool) -> SimulatedPath;

const SHAPER_CASES: [(DrawBucketPath, bool, &str); 4] = [
    (draw_middle_bucket, false, "shaper of milliseconds"),
    (draw_middle_bucket, true, "policer of milliseconds"),
    (draw_large_bucket, false, "shaper of seconds"),
    (draw_large_bucket, true, "policer of seconds"),
];

/// The plan of `available --shaper`.
pub fn plan_shaper_probing(seed: u64) -> AvailablePlan {
    AvailablePlan {
        most_bytes: 200_000_000,
        shaper_time_us: Some(12_000_000),
        ..build_available_plan(AvailableMode::Quick, seed)
    }
}
