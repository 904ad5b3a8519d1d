//! A few cases of each class that the bench covers in full: enough to notice a broken estimator.

use super::{BUSY_CAPACITIES, *};
use longhaul_model::report::v1::available::{EstimateVerdict, TokenBucketKind};

fn case(
    capacity_bps: f64,
    batching_s: f64,
    traffic: TrafficPattern,
    cases: usize,
) -> (ErrorTally, ErrorTally) {
    let (mut available, mut capacity) = (ErrorTally::default(), ErrorTally::default());
    for case in 0..cases {
        let path = build_one_hop_path(capacity_bps, batching_s, traffic, 3, case);
        tally_direction(path, AvailableMode::Quick, &mut available, &mut capacity);
    }
    (available, capacity)
}

#[test]
fn one_loaded_hop_is_measured_to_a_few_per_cent() {
    for (capacity_bps, batching_s, traffic) in [
        (1e7, 50e-6, TrafficPattern::Poisson),
        (1e8, 0.0, TrafficPattern::Bursty),
        (1e8, 50e-6, TrafficPattern::HeavyTailed),
    ] {
        let (available, capacity) = case(capacity_bps, batching_s, traffic, 5);
        let (available, capacity) = (available.row("available"), capacity.row("capacity"));
        assert_eq!(available.answered, available.cases, "{available:?}");
        assert!(available.median_error_ratio < 0.05, "{available:?}");
        assert!(capacity.median_error_ratio < 0.04, "{capacity:?}");
    }
}

#[test]
fn budgets_are_never_exceeded() {
    for mode in [AvailableMode::Light, AvailableMode::Quick] {
        for capacity_bps in [1e7, 3e8] {
            let mut path = build_one_hop_path(capacity_bps, 125e-6, TrafficPattern::Bursty, 5, 4);
            let plan = build_available_plan(mode, 1);
            let probing = run_probe_schedule(&mut path, &plan);
            assert!(probing.probe_bytes <= plan.most_bytes, "{} bytes", probing.probe_bytes);
            assert!(probing.duration_us <= plan.most_time_us, "{} us", probing.duration_us);
            assert!(!probing.trains.is_empty());
        }
    }
}

#[test]
fn the_seeds_bucket_is_found_with_its_three_numbers() {
    let found =
        simulate_direction(&mut build_seed_path(7), &build_available_plan(AvailableMode::Quick, 7));
    let bucket = found.bucket.expect("a bucket of 4.8 kB");
    assert_eq!(bucket.kind, TokenBucketKind::Shaper);
    assert!((bucket.sustained_bps as f64 / 59.3e6 - 1.0).abs() < 0.03, "{bucket:?}");
    assert!((bucket.peak_bps as f64 / 119e6 - 1.0).abs() < 0.15, "{bucket:?}");
    assert!((bucket.burst_bytes as f64 - 4800.0).abs() < 1500.0, "{bucket:?}");
    assert!(found.available_bps.unwrap_or(0) < 62_000_000, "{:?}", found.available_bps);
}

#[test]
fn long_looks_find_buckets_and_tell_them_apart() {
    for (drops, kind) in [(false, TokenBucketKind::Shaper), (true, TokenBucketKind::Policer)] {
        let draws: [DrawBucketPath; 2] = [draw_large_bucket, draw_middle_bucket];
        for draw in draws {
            let mut path = draw(&mut SplitMix64::new(5), drops);
            let (rate, bytes) = path.links[0].bucket_truth();
            let found = simulate_direction(&mut path, &plan_shaper_probing(5));
            let bucket = found.bucket.expect("a bucket");
            assert_eq!(bucket.kind, kind, "{bucket:?}");
            assert!(
                (bucket.sustained_bps as f64 / rate - 1.0).abs() < 0.03,
                "{bucket:?} not {rate}"
            );
            assert!(
                (bucket.burst_bytes as f64 / bytes - 1.0).abs() < 0.05,
                "{bucket:?} not {bytes}"
            );
        }
    }
}

#[test]
fn a_long_look_at_a_loaded_link_finds_no_bucket() {
    let kinds = [TrafficPattern::Poisson, TrafficPattern::Bursty, TrafficPattern::HeavyTailed];
    for (seed, traffic) in (0..12u8).zip(kinds.into_iter().cycle()) {
        let load = 0.2 + 0.04 * f64::from(seed);
        let link = SimulatedLink::new(5e7, load, traffic, u64::from(seed));
        let mut path = SimulatedPath::new(1e9, vec![link], 0.0, u64::from(seed));
        let found = simulate_direction(&mut path, &plan_shaper_probing(u64::from(seed)));
        assert_eq!(found.bucket, None, "{traffic:?} {load}");
    }
}

#[test]
fn a_path_as_fast_as_its_sender_bounds_nothing_from_above() {
    let link = SimulatedLink::new(1e10, 0.0, TrafficPattern::Poisson, 1);
    let mut path = SimulatedPath::new(1e9, vec![link], 0.0, 1);
    let found = simulate_direction(&mut path, &build_available_plan(AvailableMode::Quick, 1));
    assert_eq!(found.verdict, EstimateVerdict::SenderLimited, "{found:?}");
    assert_eq!(found.available_bps, None);
    assert!(found.capacity_bps.unwrap() > 900_000_000, "{found:?}");
}

#[test]
fn light_mode_refuses_what_its_bytes_cannot_time() {
    let mut path = build_one_hop_path(1e10, 125e-6, TrafficPattern::Poisson, 2, 1);
    let found = simulate_direction(&mut path, &build_available_plan(AvailableMode::Light, 1));
    assert_eq!(found.verdict, EstimateVerdict::BeyondResolution, "{found:?}");
    assert_eq!((found.capacity_bps, found.available_bps), (None, None));
}

#[test]
fn a_busy_receiver_does_not_move_the_capacity_out_of_its_interval() {
    let rows = evaluate_busy_receiver(3, 4);
    let capacities = rows.iter().filter(|row| row.method.starts_with("capacity"));
    let mut checked = 0;
    for row in capacities {
        checked += 1;
        assert_eq!(row.answered, row.cases, "{row:?}");
        assert!(row.median_error_ratio < 0.035, "{row:?}");
        assert!(row.coverage_ratio >= Some(0.85), "{row:?}");
    }
    assert_eq!(checked, BUSY_CAPACITIES.len());
}
