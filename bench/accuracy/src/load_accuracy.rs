//! Probes during a load whose queue is known: sawtooth, cross traffic, host noise, clock drift.

use super::{AccuracyRow, ErrorTally, convert_interval};
use longhaul_analysis::load::conclude_load;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::load::{
    LoadFlow, LoadObservation, LoadPhase, LoadPlan, LoadPoint, LoadProbe, LoadStep,
};
use longhaul_model::report::v1::path::ProbeEcho;
use longhaul_model::splitmix::SplitMix64;

const CASES: usize = 200;
const INTERVAL_US: u64 = 10_000;
const IDLE_US: u64 = 3_000_000;
const LOAD_US: u64 = 10_000_000;

pub struct LoadCase {
    pub plan: LoadPlan,
    pub observation: LoadObservation,
    /// The delay that the full queue adds, and the median of the added delay.
    full_ns: f64,
    middle_ns: f64,
    capacity_bps: f64,
    drains_us: f64,
}

/// Draws the case of a seed.
pub fn draw_seeded_load_case(seed: u64) -> LoadCase {
    draw_load_case(&mut SplitMix64::new(seed))
}

/// RTTs of 5 to 200 ms; a queue of 10 to 800 ms that a loss-based flow keeps 70 to 100 % full.
fn draw_load_case(rng: &mut SplitMix64) -> LoadCase {
    let base_ns = rng.between(5e6, 200e6);
    let full_ns = rng.between(10e6, 800e6);
    let period_us = rng.between(3e5, 1.5e6);
    let noise_ns = rng.between(2e4, 3e5);
    let drift = rng.between(-60e-6, 60e-6);
    let capacity_bps = rng.between(1e7, 1e9);
    let (begin, end) = (IDLE_US, IDLE_US + LOAD_US);
    // A cubic sawtooth is above this half of the time; the queue's own noise is a packet or two.
    let course = |phase: f64| 1.0 - 0.3 * (1.0 - phase).powi(3);
    let queue = |at_us: f64| {
        // The queue at the end of the load drains from there.
        let since = (at_us - begin as f64).min(LOAD_US as f64);
        let part = course((since / period_us).fract());
        let filled = (since / 4e5).min(1.0);
        if at_us < begin as f64 {
            0.0
        } else if at_us < end as f64 {
            full_ns * part * filled
        } else {
            (full_ns * part - (at_us - end as f64) * 1e3).max(0.0)
        }
    };
    let probe = |at_us: u64, rng: &mut SplitMix64| {
        let wait = queue(at_us as f64 + base_ns / 2e3);
        let mut late = || noise_ns * rng.normal().abs();
        let (there, back) = (base_ns / 2.0 + wait + late(), base_ns / 2.0 + late());
        let clock = 7e8 + drift * at_us as f64 * 1e3;
        LoadProbe {
            echo: ProbeEcho { at_us, rtt_ns: Some((there + back) as u64), ttl: None },
            forward_ns: Some((there + clock) as i64),
            reverse_ns: Some((back - clock) as i64),
        }
    };
    let count = (end + IDLE_US) / INTERVAL_US;
    let probes = (0..count).map(|i| probe(i * INTERVAL_US, rng)).collect();
    let mut loaded = build_phase(begin, end, Some(0));
    loaded.load = Some(build_load_flow(begin, end, capacity_bps));
    LoadCase {
        plan: build_load_plan(),
        observation: LoadObservation {
            clock: "kernel_receive".to_owned(),
            idle_rtt_us: None,
            probes,
            phases: vec![
                build_phase(0, begin, None),
                loaded,
                build_phase(end, end + IDLE_US, None),
            ],
            responsiveness: None,
        },
        full_ns,
        middle_ns: full_ns * course(0.5),
        capacity_bps,
        // A probe reaches the queue half a round trip after it was sent.
        drains_us: (full_ns * course((LOAD_US as f64 / period_us).fract()) - base_ns / 2.0)
            .max(INTERVAL_US as f64 * 1e3)
            / 1e3,
    }
}

fn build_phase(from_us: u64, until_us: u64, step: Option<u32>) -> LoadPhase {
    LoadPhase { from_us, until_us, step, load: None, competitor: None, error: None }
}

fn build_load_plan() -> LoadPlan {
    LoadPlan {
        forward: true,
        steps: vec![LoadStep {
            streams: 1,
            window_bytes: None,
            congestion_control: None,
            rate_bps: None,
            dscp: None,
            scavenger: false,
            competitor: false,
            baseline: false,
        }],
        probe_interval_us: INTERVAL_US,
        probe_bytes: 100,
        idle_us: IDLE_US,
        load_us: LOAD_US,
        responsiveness: None,
    }
}

/// A flow whose packets fill the capacity; its series counts payload bytes.
fn build_load_flow(from_us: u64, until_us: u64, capacity_bps: f64) -> LoadFlow {
    let goodput = capacity_bps * 1448.0 / 1500.0;
    let at = |i: u64| from_us + (until_us - from_us) * i / 100;
    let bytes = |at_us: u64| (goodput / 8e6 * (at_us - from_us) as f64) as u64;
    LoadFlow {
        run_id: None,
        bytes: bytes(until_us),
        elapsed_us: until_us - from_us,
        limited_by: Limiter::PathCapacity,
        series: (0..=100).map(|i| LoadPoint { at_us: at(i), bytes: bytes(at(i)) }).collect(),
        retransmits: None,
        mss_bytes: Some(1448),
    }
}

const ROWS: [&str; 5] = [
    "load, rise of the round trip",
    "load, delay of the full queue",
    "load, bytes in the queue",
    "load, recovery",
    "load, direction told wrongly",
];

/// Errors of the RTT rise, the queue size and the recovery, and wrongly reported directions.
pub fn evaluate_load(seed: u64) -> Vec<AccuracyRow> {
    let mut rng = SplitMix64::new(seed);
    let mut tallies = <[ErrorTally; 5]>::default();
    for _ in 0..CASES {
        let case = draw_load_case(&mut rng);
        let found = conclude_load(&case.plan, &case.observation).analysis;
        let result = found.steps.first();
        let off = |value: Option<Option<u64>>, truth: f64| {
            value.flatten().map(|v| (v as f64 / truth - 1.0).abs())
        };
        let errors = [
            off(result.map(|r| r.rise_ns), case.middle_ns),
            off(result.map(|r| r.queue_delay_ns), case.full_ns),
            off(result.map(|r| r.queue_bytes), case.full_ns / 8e9 * case.capacity_bps),
            off(result.map(|r| r.recovery_us), case.drains_us),
            result.filter(|r| r.grew.as_deref() != Some("forward")).map(|_| 1.0),
        ];
        for (tally, error) in tallies.iter_mut().zip(errors) {
            tally.add_error(error);
        }
        let interval = result.and_then(|r| r.rise_interval_ns);
        tallies[0].add_interval(interval.map(convert_interval), case.middle_ns);
    }
    ROWS.into_iter().zip(tallies).map(|(name, tally)| tally.row(name)).collect()
}
