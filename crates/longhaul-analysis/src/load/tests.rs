//! Runs with known truth: queues that grow and drain, drifting clocks, competitors.

use super::*;
use longhaul_accuracy::load_accuracy::{LoadCase, draw_seeded_load_case};
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::load::{
    LoadFlow, LoadObservation, LoadPhase, LoadPlan, LoadPoint, LoadProbe, LoadStep,
};
use longhaul_model::report::v1::path::ProbeEcho;
use proptest::prelude::*;

fn plan(steps: Vec<LoadStep>) -> LoadPlan {
    LoadPlan {
        forward: true,
        steps,
        probe_interval_us: 10_000,
        probe_bytes: 100,
        idle_us: 2_000_000,
        load_us: 5_000_000,
        responsiveness: None,
    }
}

fn step() -> LoadStep {
    LoadStep {
        streams: 1,
        window_bytes: None,
        congestion_control: None,
        rate_bps: None,
        dscp: None,
        scavenger: false,
        competitor: false,
        baseline: false,
    }
}

fn flow(from_us: u64, until_us: u64, bps: u64) -> LoadFlow {
    let at = |i: u64| from_us + (until_us - from_us) * i / 50;
    let series =
        (0..=50).map(|i| LoadPoint { at_us: at(i), bytes: (at(i) - from_us) * bps / 8_000_000 });
    let series: Vec<LoadPoint> = series.collect();
    LoadFlow {
        run_id: None,
        bytes: series[50].bytes,
        elapsed_us: until_us - from_us,
        limited_by: Limiter::PathCapacity,
        series,
        retransmits: None,
        mss_bytes: Some(1448),
    }
}

fn phase(from_us: u64, until_us: u64, step: Option<u32>) -> LoadPhase {
    LoadPhase { from_us, until_us, step, load: None, competitor: None, error: None }
}

/// 20 ms, and `queue_ms` more between `from_us` and `until_us`; the far clock is `drift` fast.
fn probes(
    length_us: u64,
    (from_us, until_us): (u64, u64),
    queue_ms: f64,
    drift: f64,
) -> Vec<LoadProbe> {
    (0..length_us / 10_000)
        .map(|i| {
            let at_us = i * 10_000;
            let wobble = f64::from((i * 7 % 11) as u32) * 5e3;
            let queue = if (from_us..until_us).contains(&at_us) { queue_ms * 1e6 } else { 0.0 };
            let clock = 5e9 + drift * at_us as f64 * 1e3;
            LoadProbe {
                echo: ProbeEcho { at_us, rtt_ns: Some((20e6 + queue + wobble) as u64), ttl: None },
                forward_ns: Some((10e6 + queue + wobble + clock) as i64),
                reverse_ns: Some((10e6 - clock) as i64),
            }
        })
        .collect()
}

fn loaded(queue_ms: f64, drift: f64) -> LoadObservation {
    let mut load = phase(2_000_000, 7_000_000, Some(0));
    load.load = Some(flow(2_000_000, 7_000_000, 48_000_000));
    LoadObservation {
        clock: "kernel_receive".to_owned(),
        idle_rtt_us: Some(20_000),
        probes: probes(9_000_000, (2_100_000, 7_300_000), queue_ms, drift),
        phases: vec![phase(0, 2_000_000, None), load, phase(7_000_000, 9_000_000, None)],
        responsiveness: None,
    }
}

#[test]
fn a_queue_is_told_with_its_size_its_direction_and_its_end() {
    let found = conclude_load(&plan(vec![step()]), &loaded(640.0, 50e-6));
    let result = &found.analysis.steps[0];
    let rise = result.rise_ns.unwrap() as f64;
    assert!((rise / 640e6 - 1.0).abs() < 0.01, "{rise}");
    assert_eq!(result.grew.as_deref(), Some("forward"));
    // 48 Mbit/s of payload are 49.7 Mbit/s of IP packets: 640 ms of them.
    let queue = result.queue_bytes.unwrap() as f64;
    assert!((queue / 3.98e6 - 1.0).abs() < 0.02, "{queue}");
    let back = result.recovery_us.unwrap();
    assert!((290_000..=310_000).contains(&back), "{back}");
    assert_eq!(result.round_trips_per_minute, Some(91));
    assert_eq!(found.findings[0].cause, "deep_queue");
    assert!(found.caveats.is_empty(), "{:?}", found.caveats);
}

#[test]
fn drifting_clocks_are_not_taken_for_a_queue_and_no_queue_is_said_so() {
    for drift in [-80e-6, 0.0, 80e-6] {
        let found = conclude_load(&plan(vec![step()]), &loaded(0.0, drift));
        let result = &found.analysis.steps[0];
        assert_eq!(result.grew, None, "{drift}");
        assert_eq!(found.findings[0].cause, "no_queue", "{drift}");
        let varied = result.delays.unwrap().forward_variation_ns.unwrap();
        assert!(varied < 200_000, "{drift}: {varied}");
    }
}

#[test]
fn loss_under_load_is_told_from_a_lost_probe() {
    let mut seen = loaded(10.0, 0.0);
    let silence = |seen: &mut LoadObservation, every: usize| {
        let inside = |p: &&mut LoadProbe| (3_000_000..7_000_000).contains(&p.echo.at_us);
        for probe in seen.probes.iter_mut().filter(inside).step_by(every) {
            probe.echo.rtt_ns = None;
        }
    };
    silence(&mut seen, 400);
    let causes = |seen: &LoadObservation| {
        let found = conclude_load(&plan(vec![step()]), seen).findings;
        found.into_iter().map(|f| f.cause).collect::<Vec<_>>()
    };
    assert!(!causes(&seen).contains(&"loss_under_load".to_owned()));
    silence(&mut seen, 10);
    assert!(causes(&seen).contains(&"loss_under_load".to_owned()));
}

/// Baseline, plain load, scavenger, baseline; each 5 s with 2 s between.
fn compared(beside_plain: u64, beside_scavenger: u64) -> (LoadPlan, LoadObservation) {
    let baseline = || LoadStep { competitor: true, baseline: true, ..step() };
    let steps = vec![
        baseline(),
        LoadStep { competitor: true, ..step() },
        LoadStep { competitor: true, scavenger: true, ..step() },
        baseline(),
    ];
    let rates = [
        (0, 48_000_000),
        (24_000_000, beside_plain),
        (3_000_000, beside_scavenger),
        (0, 47_600_000),
    ];
    let mut phases = vec![phase(0, 2_000_000, None)];
    for (i, (load, competitor)) in rates.into_iter().enumerate() {
        let from = 2_000_000 + 7_000_000 * i as u64;
        let mut loaded = phase(from, from + 5_000_000, Some(i as u32));
        loaded.load = (load > 0).then(|| flow(from, from + 5_000_000, load));
        loaded.competitor = Some(flow(from, from + 5_000_000, competitor));
        phases.push(loaded);
        phases.push(phase(from + 5_000_000, from + 7_000_000, None));
    }
    let observation = LoadObservation {
        clock: "user".to_owned(),
        idle_rtt_us: None,
        probes: probes(30_000_000, (0, 0), 0.0, 0.0),
        phases,
        responsiveness: None,
    };
    (plan(steps), observation)
}

#[test]
fn a_scavenger_yields_by_what_the_competitor_keeps() {
    let (plan, seen) = compared(24_000_000, 46_000_000);
    let found = conclude_load(&plan, &seen);
    let scavenger = found.analysis.scavenger.unwrap();
    assert!(scavenger.yields);
    assert_eq!((scavenger.plain_step, scavenger.yielding_step), (Some(1), 2));
    assert!((scavenger.competitor_kept_yielding_ratio - 46.0 / 47.8).abs() < 0.01);
    assert!((scavenger.competitor_kept_plain_ratio.unwrap() - 24.0 / 47.8).abs() < 0.01);
    assert!(found.findings.iter().any(|f| f.cause == "yields"));
    let (plan, seen) = compared(24_000_000, 40_000_000);
    let found = conclude_load(&plan, &seen);
    assert!(!found.analysis.scavenger.unwrap().yields);
    assert!(found.findings.iter().any(|f| f.cause == "does_not_yield"));
}

#[test]
fn a_load_that_something_else_held_back_is_no_proof_of_an_empty_queue() {
    let mut seen = loaded(0.0, 0.0);
    seen.phases[1].load.as_mut().unwrap().limited_by = Limiter::ReceiveWindow;
    let found = conclude_load(&plan(vec![step()]), &seen);
    assert!(found.findings.is_empty(), "{:?}", found.findings);
    assert_eq!(found.caveats[0].code, "path_not_filled");
}

#[test]
fn an_empty_run_concludes_nothing_and_says_why() {
    let found = conclude_load(&plan(vec![step()]), &LoadObservation::default());
    assert_eq!((found.analysis.idle, found.analysis.steps.len()), (None, 0));
    assert_eq!(found.caveats[0].code, "no_idle");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_rise_lies_in_its_interval_and_shares_are_shares(seed in 0u64..1000) {
        let LoadCase { plan, observation, .. } = draw_seeded_load_case(seed);
        let found = conclude_load(&plan, &observation).analysis;
        for result in &found.steps {
            if let (Some(rise), Some([low, high])) = (result.rise_ns, result.rise_interval_ns) {
                prop_assert!(low <= rise && rise <= high);
            }
            let delays = result.delays.unwrap();
            let [low, high] = delays.loss_interval_ratio;
            prop_assert!(low <= delays.loss_ratio && delays.loss_ratio <= high);
            prop_assert!(delays.rtt_min_ns <= delays.rtt_median_ns);
            prop_assert!(delays.rtt_median_ns <= delays.rtt_p95_ns);
        }
    }

    #[test]
    fn garbage_concludes_without_panic(
        times in prop::collection::vec((any::<u64>(), any::<Option<u64>>(), any::<Option<i64>>()), 0..60),
        phases in prop::collection::vec((any::<u64>(), any::<u64>(), any::<Option<u32>>()), 0..6),
    ) {
        let mut probes: Vec<LoadProbe> = times
            .into_iter()
            .map(|(at_us, rtt_ns, one_way)| LoadProbe {
                echo: ProbeEcho { at_us: at_us / 4, rtt_ns, ttl: None },
                forward_ns: one_way,
                reverse_ns: one_way,
            })
            .collect();
        probes.sort_by_key(|p| p.echo.at_us);
        let phases = phases.into_iter().map(|(a, b, step)| {
            let (from, until) = (a.min(b) / 4, a.max(b) / 4);
            let mut phase = phase(from, until, step);
            let points = |at_us, bytes| LoadPoint { at_us, bytes };
            phase.load = Some(LoadFlow {
                series: vec![points(from, 0), points(from.saturating_add(a % 5_000_000), b)],
                ..flow(0, 50, 8)
            });
            phase
        });
        let observation = LoadObservation { probes, phases: phases.collect(), ..LoadObservation::default() };
        let _ = conclude_load(&plan(vec![step(), step()]), &observation);
    }
}
