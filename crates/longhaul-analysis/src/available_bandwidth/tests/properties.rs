//! Time scaling, order of trains, lost trains, clock skew.

use super::*;
use longhaul_model::report::v1::available::{EstimateVerdict, ProbeTrain};
use proptest::prelude::*;

fn scaled(train: &ProbeTrain, factor: u64) -> ProbeTrain {
    ProbeTrain {
        rate_bps: train.rate_bps.map(|bps| bps / factor),
        sent_at_ns: train.sent_at_ns * factor,
        sent_ns: train.sent_ns.iter().map(|ns| ns * factor).collect(),
        received_at_ns: train.received_at_ns * factor,
        received_ns: train.received_ns.iter().map(|ns| ns.map(|ns| ns * factor)).collect(),
        ..train.clone()
    }
}

fn skewed(train: &ProbeTrain, zero: u64, skew: f64) -> ProbeTrain {
    let late = |ns: u64| (ns as f64 * (1.0 + skew)).round() as u64;
    ProbeTrain {
        received_at_ns: zero + late(train.received_at_ns - zero),
        received_ns: train.received_ns.iter().map(|ns| ns.map(late)).collect(),
        ..train.clone()
    }
}

#[test]
fn a_path_so_many_times_slower_has_rates_so_many_times_lower() {
    let (plan, probing) = run();
    let slow = DirectionProbing {
        interface_bps: probing.interface_bps.map(|bps| bps / 4),
        trains: probing.trains.iter().map(|t| scaled(t, 4)).collect(),
        ..probing.clone()
    };
    let (before, after) = (forward(plan, probing.clone()), forward(plan, slow));
    assert_eq!(before.verdict, EstimateVerdict::Estimated);
    let quarter = |bps: Option<u64>| bps.map(|bps| bps / 4);
    assert!(near(after.capacity_bps, quarter(before.capacity_bps), 0.02), "{before:?} {after:?}");
    assert!(near(after.available_bps, quarter(before.available_bps), 0.05), "{before:?} {after:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn the_order_of_trains_says_nothing(by in 1usize..40) {
        let (plan, probing) = run();
        let mut turned = probing.clone();
        let count = turned.trains.len();
        turned.trains.rotate_left(by % count);
        turned.trains.swap(0, by % (count - 1) + 1);
        prop_assert_eq!(forward(plan, turned), forward(plan, probing.clone()));
    }

    #[test]
    fn one_train_less_changes_hardly_anything(at in 0usize..40) {
        let (plan, probing) = run();
        let mut fewer = probing.clone();
        fewer.trains.remove(at % probing.trains.len());
        let (found, whole) = (forward(plan, fewer), forward(plan, probing.clone()));
        prop_assert!(near(found.capacity_bps, whole.capacity_bps, 0.03), "{found:?}");
        let moved = found.available_bps.unwrap().abs_diff(whole.available_bps.unwrap());
        prop_assert!(moved < 4_000_000, "{found:?} {whole:?}");
    }

    #[test]
    fn clocks_of_different_rate_change_nothing(skew in -2e-4..2e-4f64) {
        let (plan, probing) = run();
        let zero = probing.trains.iter().map(|t| t.received_at_ns).min().unwrap();
        let drifting = DirectionProbing {
            trains: probing.trains.iter().map(|t| skewed(t, zero, skew)).collect(),
            ..probing.clone()
        };
        let (found, still) = (forward(plan, drifting), forward(plan, probing.clone()));
        prop_assert!(near(found.capacity_bps, still.capacity_bps, 0.01), "{found:?} {still:?}");
        let moved = found.available_bps.unwrap().abs_diff(still.available_bps.unwrap());
        prop_assert!(moved < 2_000_000, "{found:?} {still:?}");
    }
}

#[test]
fn the_receivers_batches_are_recovered() {
    for batching_s in [50e-6, 125e-6] {
        let link = SimulatedLink::new(1e9, 0.3, TrafficPattern::Poisson, 5);
        let mut path = SimulatedPath::new(1e10, vec![link], batching_s, 6);
        let plan = build_available_plan(AvailableMode::Quick, 7);
        let probing = run_probe_schedule(&mut path, &plan);
        let found = forward(&plan, probing).batching_ns.unwrap() as f64 / 1e9;
        // The timer runs for 80 to 100 % of it, and the next packet starts it again.
        assert!((0.8..1.2).contains(&(found / batching_s)), "{found} not {batching_s}");
    }
}
