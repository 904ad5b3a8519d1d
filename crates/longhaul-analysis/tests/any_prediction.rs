//! Whatever is asked, a prediction is a number within its bounds, or none.

use longhaul_analysis::predict::{check_plan, predict_goodput};
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::predict::{
    PredictionCell, PredictionHosts, PredictionObservation, PredictionPath, PredictionPlan,
};
use proptest::prelude::*;

fn plan(
    capacity_bps: u64,
    rtt_us: u64,
    window: Option<u64>,
    streams: u32,
    control: &str,
) -> PredictionPlan {
    PredictionPlan {
        path: PredictionPath {
            capacity_bps,
            rtt_us,
            mss_bytes: 1448,
            header_bytes: 52,
            origin: String::from("asked"),
        },
        hosts: PredictionHosts::default(),
        windows_bytes: vec![window],
        streams: vec![streams],
        congestion_controls: vec![control.to_owned()],
        loss_ratios: vec![0.0],
        buffers_bytes: vec![(capacity_bps as f64 * rtt_us as f64 / 8e6).min(1e15) as u64],
        time_us: 10_000_000,
        scan_id: None,
    }
}

fn only(plan: &PredictionPlan) -> PredictionCell {
    check_plan(plan).expect("a plan that can be predicted");
    let mut cells = predict_goodput(plan, &PredictionObservation::default()).cells;
    assert_eq!(cells.len(), 1);
    cells.remove(0)
}

fn control() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["reno", "cubic", "bbr"])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn nothing_asked_makes_it_panic_or_pass_its_bounds(
        capacity_bps in any::<u64>(),
        rtt_us in any::<u64>(),
        window in prop::option::of(any::<u64>()),
        streams in any::<u32>(),
        control in control(),
        loss in prop::num::f64::ANY,
        buffer in any::<u64>(),
        time_us in any::<u64>(),
    ) {
        let mut plan = plan(capacity_bps, rtt_us, window, streams, control);
        plan.loss_ratios = vec![loss];
        plan.buffers_bytes = vec![buffer];
        plan.time_us = time_us;
        let found = predict_goodput(&plan, &PredictionObservation::default());
        prop_assert_eq!(found.cells.is_empty(), check_plan(&plan).is_err());
    }

    #[test]
    fn what_can_be_predicted_is_finite_and_bounded(
        capacity_bps in 1_000u64..=100_000_000_000_000,
        rtt_us in 10u64..=60_000_000,
        window in prop::option::of(1u64..),
        streams in 1u32..=1024,
        control in control(),
        loss in prop_oneof![Just(0.0), 1e-9..0.5f64],
        buffer in any::<u64>(),
        time_us in 1_000u64..=86_400_000_000,
    ) {
        let mut plan = plan(capacity_bps, rtt_us, window, streams, control);
        plan.loss_ratios = vec![loss];
        plan.buffers_bytes = vec![buffer];
        plan.time_us = time_us;
        let cell = only(&plan);
        prop_assert!(cell.bounds.iter().all(|b| cell.goodput_bps <= b.rate_bps), "{:?}", cell);
        prop_assert!(cell.made_loss_ratio.is_finite() && (0.0..=1.0).contains(&cell.made_loss_ratio));
        prop_assert!(cell.queue_bytes as f64 <= buffer as f64 * 1.001 + 1.0, "{:?}", cell);
    }

    /// To within what drops in another order make of one and the same setting. A window that runs
    /// past the path may well carry less: Reno then recovers for the rest of the transfer.
    #[test]
    fn a_wider_window_or_link_carries_no_less(
        capacity_bps in 1_000_000u64..=10_000_000_000,
        rtt_us in 1_000u64..=300_000,
        window in 16_384u64..=16_777_216,
        streams in 1u32..=64,
        control in control(),
    ) {
        let of = |capacity_bps, window| {
            let mut plan = plan(capacity_bps, rtt_us, Some(window), streams, control);
            plan.time_us = 60_000_000;
            only(&plan).goodput_bps as f64
        };
        let here = of(capacity_bps, window);
        let path_bytes = u128::from(capacity_bps) * u128::from(rtt_us) / 8_000_000;
        if 2 * u128::from(window) * u128::from(streams) <= path_bytes {
            prop_assert!(of(capacity_bps, 2 * window) >= 0.85 * here);
        }
        prop_assert!(of(2 * capacity_bps, window) >= 0.85 * here);
    }
}

type Spoil = fn(&mut PredictionPlan);

#[test]
fn impossible_plans_are_refused_by_the_value_that_is_wrong() {
    let good = plan(1_000_000_000, 100_000, Some(65_536), 4, "cubic");
    assert!(check_plan(&good).is_ok());
    let wrong: [(&str, Spoil); 8] = [
        ("capacity_bps 0", |p| p.path.capacity_bps = 0),
        ("rtt_us 0", |p| p.path.rtt_us = 0),
        ("mss_bytes 0", |p| p.path.mss_bytes = 0),
        ("time_us 0", |p| p.time_us = 0),
        ("cells 0", |p| p.streams.clear()),
        ("cells 4097", |p| p.streams = vec![1; 4097]),
        ("streams 0", |p| p.streams = vec![0]),
        ("loss_ratio NaN", |p| p.loss_ratios = vec![f64::NAN]),
    ];
    for (what, spoil) in wrong {
        let mut plan = good.clone();
        spoil(&mut plan);
        let told = check_plan(&plan).unwrap_err();
        assert!(told.starts_with(what), "{told}");
        assert!(predict_goodput(&plan, &PredictionObservation::default()).cells.is_empty());
    }
}

#[test]
fn a_small_window_holds_a_large_one_fills_and_loss_bounds() {
    let held = only(&plan(100_000_000, 160_000, Some(65_536), 1, "cubic"));
    assert_eq!(held.limited_by, Limiter::ReceiveWindow);
    assert!((held.goodput_bps as f64 / 3_276_800.0 - 1.0).abs() < 0.02, "{held:?}");

    let full = only(&plan(100_000_000, 160_000, Some(16 << 20), 4, "cubic"));
    assert_eq!(full.limited_by, Limiter::PathCapacity);
    assert!(full.goodput_bps > 90_000_000, "{full:?}");

    let mut lossy = plan(100_000_000, 160_000, Some(16 << 20), 1, "cubic");
    lossy.loss_ratios = vec![1e-3];
    let lossy_cubic = only(&lossy);
    assert_eq!(lossy_cubic.limited_by, Limiter::Loss);
    assert!(lossy_cubic.goodput_bps < 10_000_000, "{lossy_cubic:?}");
    lossy.congestion_controls = vec![String::from("bbr")];
    assert!(only(&lossy).goodput_bps > 80_000_000);

    let mut slow_host = plan(100_000_000, 160_000, Some(16 << 20), 4, "cubic");
    slow_host.hosts.processor_bps = Some(20_000_000);
    let slow = only(&slow_host);
    assert_eq!(slow.limited_by, Limiter::CpuReceiver);
    assert!(slow.goodput_bps <= 20_000_000 && slow.made_loss_ratio == 0.0, "{slow:?}");
}

#[test]
fn the_same_plan_gives_the_same_prediction() {
    let plan = plan(100_000_000, 30_000, Some(4 << 20), 8, "cubic");
    let observation = PredictionObservation::default();
    assert_eq!(predict_goodput(&plan, &observation), predict_goodput(&plan, &observation));
}
