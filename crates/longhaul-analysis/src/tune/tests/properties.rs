//! The search against anything at all.

use super::model::{MIB, Model, limits};
use super::*;
use longhaul_model::report::v1::analysis::RateBound;
use proptest::prelude::*;

fn any_cap() -> impl Strategy<Value = Option<u64>> {
    proptest::option::of(prop_oneof![0u64..70_000, any::<u64>()])
}

prop_compose! {
    /// What no honest kernel would say is among these, too.
    fn any_trial()(
        goodput in proptest::option::of(prop_oneof![0u64..3, 1u64..100_000_000_000, any::<u64>()]),
        half in proptest::option::of(any::<u64>()),
        limiter in 0usize..12,
        trip_us in proptest::option::of(prop_oneof![0u64..1_000_000, any::<u64>()]),
        next in proptest::option::of((0usize..12, any::<u64>())),
        bucket in any_cap(),
        caps in (any_cap(), any_cap(), any_cap(), any_cap()),
        cores in proptest::option::of(any::<u32>()),
        granted in any_cap(),
        bbr in any::<bool>(),
    ) -> ProbeTrial {
        let interval = goodput.zip(half);
        ProbeTrial {
            goodput_bps: goodput,
            interval_bps: interval.map(|(g, h)| [g.saturating_sub(h), g.saturating_add(h)]),
            limiter: Limiter::ALL[limiter],
            next_limit: next.map(|(which, rate_bps)| RateBound {
                limiter: Limiter::ALL[which],
                rate_bps,
                why: String::new(),
            }),
            bucket_bps: bucket,
            idle_rtt: trip_us.map(Duration::from_micros),
            loaded_rtt: trip_us.map(Duration::from_micros),
            granted_send_bytes: granted,
            granted_receive_bytes: granted,
            sender: HostLimits { explicit_bytes: caps.0, automatic_bytes: caps.1, cores },
            receiver: HostLimits { explicit_bytes: caps.2, automatic_bytes: caps.3, cores },
            congestion_control: Some(String::from("cubic")),
            permitted: bbr.then(|| String::from("bbr")).into_iter().collect(),
            ..ProbeTrial::failed(TransferSetting::default())
        }
    }
}

prop_compose! {
    fn any_plan()(
        windows in proptest::collection::vec(proptest::option::of(1u64..1 << 40), 0..4),
        streams in proptest::collection::vec(0u32..200, 0..4),
        controls in proptest::collection::vec(
            proptest::option::of(Just(String::from("bbr"))), 0..2),
        probes in 0u32..20,
    ) -> ScanPlan {
        ScanPlan {
            windows_bytes: windows,
            streams,
            congestion_controls: controls,
            budget: ScanBudget { probes, ..plan().budget },
            ..plan()
        }
    }
}

fn permitted(plan: &ScanPlan, setting: &TransferSetting) -> bool {
    let among = |empty: bool, listed: bool| empty || listed;
    let windows = &plan.windows_bytes;
    let controls = &plan.congestion_controls;
    among(windows.is_empty(), windows.contains(&setting.window_bytes))
        && among(plan.streams.is_empty(), plan.streams.contains(&setting.streams))
        && among(controls.is_empty(), controls.contains(&setting.congestion_control))
        && (1..=128).contains(&setting.streams)
        && setting.window_bytes.is_none_or(|w| (1..=1 << 30).contains(&w))
}

proptest! {
    #[test]
    fn whatever_comes_it_ends_in_budget_and_asks_only_what_it_may(
        plan in any_plan(),
        trials in proptest::collection::vec(any_trial(), 24),
        goodput_bps in any::<u64>(),
        streams in proptest::option::of(0u32..200),
    ) {
        let remembered = streams.map(|streams| RememberedSetting {
            setting: TransferSetting { streams, ..TransferSetting::default() },
            goodput_bps,
        });
        let mut search = SettingSearch::new(&plan, SearchStart { remembered, ..SearchStart::default() });
        let mut spent = SearchSpent::default();
        while let SearchStep::Probe(probe) = search.next(spent) {
            prop_assert!(permitted(&plan, &probe.setting), "{:?}", probe.setting);
            prop_assert!(spent.probes < plan.budget.probes);
            prop_assert!(spent.time + probe.time.longest <= Duration::from_micros(plan.budget.time_us));
            prop_assert!(probe.time.usual <= Duration::from_secs(60));
            let setting = probe.setting.clone();
            search.record(ProbeTrial { setting: probe.setting, ..trials[spent.probes as usize].clone() });
            let times = search.trials().iter().filter(|t| t.setting == setting).count();
            prop_assert!(times <= 3, "{setting:?} {times} times");
            spent.probes += 1;
            spent.time += probe.time.longest;
        }
    }

    #[test]
    fn no_explicit_window_passes_what_the_kernels_were_seen_to_grant(
        cap in 4096u64..1 << 30,
        capacity in 1e6f64..1e11,
        rtt_ms in 1.0f64..500.0,
    ) {
        let model = Model {
            capacity_bps: capacity,
            rtt_s: rtt_ms / 1e3,
            receiver: limits(cap, MIB),
            ..Model::sdsc()
        };
        let (search, ..) = drive(SettingSearch::new(&plan(), SearchStart::default()), |s| model.probe(s));
        for trial in search.trials() {
            prop_assert!(trial.setting.window_bytes.is_none_or(|w| w <= cap));
        }
    }

    #[test]
    fn on_a_quiet_path_it_reaches_what_the_budget_lets_it_reach(
        capacity in 1e7f64..1e10,
        rtt_ms in 1.0f64..300.0,
        cap in 4 * MIB..256 * MIB,
        loss in 1e7f64..1e10,
    ) {
        let model = Model {
            capacity_bps: capacity,
            rtt_s: rtt_ms / 1e3,
            receiver: limits(cap, 6 * MIB),
            loss_bps: loss,
            ..Model::sdsc()
        };
        let (choice, bps, probes, _) = tuned(&model);
        let most = TransferSetting { window_bytes: Some(cap), streams: 48, ..choice.clone() };
        let most = model.truth(&most).0;
        prop_assert!(bps >= 0.95 * most, "{choice:?}: {bps} of {most} after {probes}");
    }
}
