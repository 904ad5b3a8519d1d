//! A few cases of each class that the bench covers in full: enough to notice a broken estimator.

use super::busy::BUSY;
use super::*;
use longhaul_model::report::v1::available::{BucketKind, Verdict};

fn case(capacity_bps: f64, batching_s: f64, traffic: Traffic, cases: usize) -> (Tally, Tally) {
    let (mut available, mut capacity) = (Tally::default(), Tally::default());
    for case in 0..cases {
        let path = one_hop(capacity_bps, batching_s, traffic, 3, case);
        judge(path, Mode::Quick, &mut available, &mut capacity);
    }
    (available, capacity)
}

#[test]
fn one_loaded_hop_is_measured_to_a_few_per_cent() {
    for (capacity_bps, batching_s, traffic) in [
        (1e7, 50e-6, Traffic::Poisson),
        (1e8, 0.0, Traffic::Bursty),
        (1e8, 50e-6, Traffic::HeavyTailed),
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
    for mode in [Mode::Light, Mode::Quick] {
        for capacity_bps in [1e7, 3e8] {
            let mut path = one_hop(capacity_bps, 125e-6, Traffic::Bursty, 5, 4);
            let plan = plan(mode, 1);
            let probing = probe(&mut path, &plan);
            assert!(
                probing.probe_bytes <= plan.most_bytes,
                "{} bytes",
                probing.probe_bytes
            );
            assert!(
                probing.duration_us <= plan.most_time_us,
                "{} us",
                probing.duration_us
            );
            assert!(!probing.trains.is_empty());
        }
    }
}

#[test]
fn the_seeds_bucket_is_found_with_its_three_numbers() {
    let found = measure(&mut seed_case(7), &plan(Mode::Quick, 7));
    let bucket = found.bucket.expect("a bucket of 4.8 kB");
    assert_eq!(bucket.kind, BucketKind::Shaper);
    assert!(
        (bucket.sustained_bps as f64 / 59.3e6 - 1.0).abs() < 0.03,
        "{bucket:?}"
    );
    assert!(
        (bucket.peak_bps as f64 / 119e6 - 1.0).abs() < 0.15,
        "{bucket:?}"
    );
    assert!(
        (bucket.burst_bytes as f64 - 4800.0).abs() < 1500.0,
        "{bucket:?}"
    );
    assert!(
        found.available_bps.unwrap_or(0) < 62_000_000,
        "{:?}",
        found.available_bps
    );
}

#[test]
fn long_looks_find_buckets_and_tell_them_apart() {
    for (drops, kind) in [(false, BucketKind::Shaper), (true, BucketKind::Policer)] {
        let draws: [Draw; 2] = [large_bucket, middle_bucket];
        for draw in draws {
            let (mut path, rate, bytes) = draw(&mut Rng::new(5), drops);
            let found = measure(&mut path, &long_look(5));
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
    let kinds = [Traffic::Poisson, Traffic::Bursty, Traffic::HeavyTailed];
    for (seed, traffic) in (0..12u8).zip(kinds.into_iter().cycle()) {
        let load = 0.2 + 0.04 * f64::from(seed);
        let link = Link::new(5e7, load, traffic, u64::from(seed));
        let mut path = Path::new(1e9, vec![link], 0.0, u64::from(seed));
        let found = measure(&mut path, &long_look(u64::from(seed)));
        assert_eq!(found.bucket, None, "{traffic:?} {load}");
    }
}

#[test]
fn a_path_as_fast_as_its_sender_bounds_nothing_from_above() {
    let link = Link::new(1e10, 0.0, Traffic::Poisson, 1);
    let mut path = Path::new(1e9, vec![link], 0.0, 1);
    let found = measure(&mut path, &plan(Mode::Quick, 1));
    assert_eq!(found.verdict, Verdict::SenderLimited, "{found:?}");
    assert_eq!(found.available_bps, None);
    assert!(found.capacity_bps.unwrap() > 900_000_000, "{found:?}");
}

#[test]
fn light_mode_refuses_what_its_bytes_cannot_time() {
    let mut path = one_hop(1e10, 125e-6, Traffic::Poisson, 2, 1);
    let found = measure(&mut path, &plan(Mode::Light, 1));
    assert_eq!(found.verdict, Verdict::BeyondResolution, "{found:?}");
    assert_eq!((found.capacity_bps, found.available_bps), (None, None));
}

#[test]
fn the_old_formulas_are_much_further_off() {
    let (mut abing, mut spruce) = (Tally::default(), Tally::default());
    for case in 0..10 {
        rivals_on(
            &one_hop(1e8, 0.0, Traffic::Bursty, 4, case),
            4,
            &mut abing,
            &mut spruce,
        );
    }
    assert!(abing.row("abing").median_error_ratio > 0.1);
}

#[test]
fn a_busy_receiver_does_not_move_the_capacity_out_of_its_interval() {
    let rows = busy_receiver(3, 4);
    let capacities = rows.iter().filter(|row| row.method.starts_with("capacity"));
    let mut seen = 0;
    for row in capacities {
        seen += 1;
        assert_eq!(row.answered, row.cases, "{row:?}");
        assert!(row.median_error_ratio < 0.035, "{row:?}");
        assert!(row.coverage_ratio >= Some(0.85), "{row:?}");
    }
    assert_eq!(seen, BUSY.len());
}
