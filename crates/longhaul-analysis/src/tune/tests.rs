//! The search against small models of real paths, and against anything at all.

use super::*;
use longhaul_model::report::v1::analysis::Bound;
use longhaul_model::report::v1::plan;
use longhaul_model::report::v1::scan::{self, Budget, Plan};
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

fn plan() -> Plan {
    Plan {
        search: scan::Search::Guided,
        direction: plan::Direction::Forward,
        windows_bytes: Vec::new(),
        streams: Vec::new(),
        congestion_controls: Vec::new(),
        repeats: 1,
        seed: 0,
        present: None,
        budget: Budget {
            probes: 10,
            time_us: 600_000_000,
            bytes: None,
        },
        probe: plan::Plan::default(),
    }
}

/// A path without noise: what the windows, the loss and the capacity allow.
#[derive(Clone)]
struct Model {
    capacity_bps: f64,
    rtt_s: f64,
    sender: HostLimits,
    receiver: HostLimits,
    /// Of one stream of the sender's default.
    loss_bps: f64,
    policed_bps: f64,
    bbr: bool,
}

fn limits(explicit: u64, automatic: u64) -> HostLimits {
    HostLimits {
        explicit_bytes: Some(explicit),
        automatic_bytes: Some(automatic),
        cores: Some(8),
    }
}

impl Model {
    fn sdsc() -> Model {
        Model {
            capacity_bps: 122e6,
            rtt_s: 0.029,
            sender: limits(256 * MIB, 16 * MIB),
            receiver: limits(256 * MIB, 6 * MIB),
            loss_bps: f64::INFINITY,
            policed_bps: f64::INFINITY,
            bbr: true,
        }
    }

    fn geneva() -> Model {
        Model {
            capacity_bps: 6.18e9,
            rtt_s: 0.172,
            ..Model::sdsc()
        }
    }

    fn daresbury() -> Model {
        Model {
            capacity_bps: 9.5e6,
            rtt_s: 0.160,
            receiver: limits(65_536, 131_072),
            ..Model::sdsc()
        }
    }

    fn cesnet() -> Model {
        Model {
            capacity_bps: 300e6,
            rtt_s: 0.160,
            loss_bps: 9e6,
            bbr: false,
            ..Model::sdsc()
        }
    }

    fn truth(&self, setting: &Setting) -> (f64, Limiter) {
        let window = setting.window_bytes.map_or_else(
            || {
                let halved = self.receiver.automatic_bytes.unwrap() / 2;
                halved.min(self.sender.automatic_bytes.unwrap())
            },
            |w| {
                w.min(self.receiver.explicit_bytes.unwrap())
                    .min(self.sender.explicit_bytes.unwrap())
            },
        );
        let streams = f64::from(setting.streams);
        let bbr = setting.congestion_control.as_deref() == Some("bbr");
        let loss = if bbr { f64::INFINITY } else { self.loss_bps };
        let paced = setting.pacing_bps.map_or(f64::INFINITY, |bps| bps as f64);
        let unpaced = if paced.is_finite() { 1.0 } else { 0.9 };
        [
            (
                window as f64 * 8.0 / self.rtt_s * streams,
                Limiter::ReceiveWindow,
            ),
            (loss * streams, Limiter::Loss),
            (paced * streams, Limiter::Pacing),
            (self.policed_bps * unpaced, Limiter::Policer),
            (self.capacity_bps, Limiter::PathCapacity),
        ]
        .into_iter()
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .unwrap()
    }

    fn probe(&self, setting: Setting) -> Trial {
        let (bps, limiter) = self.truth(&setting);
        let bps = bps as u64;
        let mut permitted = vec![String::from("cubic")];
        permitted.extend(self.bbr.then(|| String::from("bbr")));
        Trial {
            goodput_bps: Some(bps),
            interval_bps: Some([bps - bps / 100, bps + bps / 100]),
            limiter,
            confidence_ratio: 0.9,
            bucket_bps: (limiter == Limiter::Policer).then_some(self.policed_bps as u64),
            idle_rtt: Some(Duration::from_secs_f64(self.rtt_s)),
            loaded_rtt: Some(Duration::from_secs_f64(self.rtt_s)),
            sender: self.sender,
            receiver: self.receiver,
            congestion_control: Some(setting.congestion_control.clone().unwrap_or("cubic".into())),
            permitted,
            ..Trial::failed(setting)
        }
    }
}

fn drive(mut search: Search, path: impl Fn(Setting) -> Trial) -> (Search, u32, Stop) {
    let mut spent = Spent::default();
    loop {
        match search.next(spent) {
            Step::Done(stop) => return (search, spent.probes, stop),
            Step::Probe(probe) => {
                assert!(!probe.why.is_empty() && probe.time >= Duration::from_secs(10));
                search.record(path(probe.setting));
                spent.probes += 1;
                spent.time += probe.time;
            }
        }
    }
}

fn tuned(model: &Model) -> (Setting, f64, u32, Stop) {
    let search = Search::new(&plan(), Start::default());
    let (search, probes, stop) = drive(search, |s| model.probe(s));
    let choice = search.choice().unwrap().clone();
    let bps = model.truth(&choice).0;
    (choice, bps, probes, stop)
}

#[test]
fn a_path_that_one_stream_fills_needs_one_stream() {
    let (choice, bps, probes, stop) = tuned(&Model::sdsc());
    assert_eq!(choice, Setting::default());
    assert_eq!((bps, stop), (122e6, Stop::Settled));
    assert!(probes <= 4, "{probes}");
}

#[test]
fn a_long_fat_path_gets_its_windows() {
    let (choice, bps, probes, _) = tuned(&Model::geneva());
    assert!(bps >= 0.95 * 6.18e9 && probes <= 8, "{choice:?} {probes}");
}

#[test]
fn where_no_window_may_be_asked_streams_carry_it() {
    let stingy = Model {
        sender: limits(212_992, 4 * MIB),
        receiver: limits(212_992, 6 * MIB),
        ..Model::geneva()
    };
    let (choice, bps, probes, _) = tuned(&stingy);
    assert_eq!(choice.window_bytes, None);
    assert!(bps >= 0.95 * 6.18e9 && probes <= 8, "{choice:?} {probes}");
    assert!(choice.streams <= 64, "{choice:?}");
}

#[test]
fn a_clipped_host_gets_just_enough_streams() {
    let (choice, bps, probes, _) = tuned(&Model::daresbury());
    assert!(bps >= 0.95 * 9.5e6 && probes <= 8, "{choice:?} {probes}");
    assert!(choice.streams <= 4, "{choice:?}");
}

#[test]
fn loss_gets_streams_and_bbr_where_it_may() {
    let (choice, bps, probes, _) = tuned(&Model::cesnet());
    assert!(bps >= 0.95 * 300e6 && probes <= 8, "{choice:?} {probes}");
    assert!((32..=48).contains(&choice.streams), "{choice:?}");
    let (choice, bps, probes, _) = tuned(&Model {
        bbr: true,
        ..Model::cesnet()
    });
    assert_eq!(choice.congestion_control.as_deref(), Some("bbr"));
    assert!(bps >= 0.95 * 300e6 && probes <= 8, "{choice:?} {probes}");
}

#[test]
fn a_policed_path_is_paced() {
    let (choice, _, probes, stop) = tuned(&Model {
        policed_bps: 40e6,
        ..Model::sdsc()
    });
    assert_eq!((choice.pacing_bps, choice.streams), (Some(38_000_000), 1));
    assert!(stop == Stop::Policed && probes <= 4, "{stop:?} {probes}");
}

#[test]
fn an_application_is_left_alone_once_more_streams_did_not_help() {
    let slow = |setting: Setting| Trial {
        goodput_bps: Some(50_000_000),
        interval_bps: Some([49_900_000, 50_100_000]),
        limiter: Limiter::Application,
        ..Trial::failed(setting)
    };
    let (search, probes, stop) = drive(Search::new(&plan(), Start::default()), slow);
    assert_eq!((search.choice(), probes), (Some(&Setting::default()), 2));
    assert_eq!(stop, Stop::Application);
}

#[test]
fn what_is_remembered_and_still_holds_takes_two_probes() {
    let (choice, bps, ..) = tuned(&Model::geneva());
    let start = Start {
        present: Some(choice.clone()),
        remembered: true,
        idle_rtt: None,
    };
    let search = Search::new(&plan(), start.clone()).expecting(bps as u64);
    let Step::Probe(first) = search.next(Spent::default()) else {
        panic!("nothing measured");
    };
    assert_eq!(first.setting, choice);
    let (_, probes, stop) = drive(search, |s| Model::geneva().probe(s));
    assert_eq!((probes, stop), (2, Stop::Settled));
    let lossy = Model {
        loss_bps: 50e6,
        ..Model::geneva()
    };
    let search = Search::new(&plan(), start).expecting(bps as u64);
    let (search, probes, _) = drive(search, |s| lossy.probe(s));
    assert!(probes > 2);
    assert!(lossy.truth(search.choice().unwrap()).0 >= 0.95 * 6.18e9);
}

#[test]
fn the_present_setting_stands_beside_the_default() {
    let present = Setting {
        window_bytes: Some(MIB),
        streams: 8,
        ..Setting::default()
    };
    let start = Start {
        present: Some(present.clone()),
        ..Start::default()
    };
    let (search, ..) = drive(Search::new(&plan(), start), |s| Model::cesnet().probe(s));
    assert_eq!(search.trials()[0].setting, Setting::default());
    assert_eq!(search.trials()[1].setting, present);
    let best = Model::cesnet().truth(search.choice().unwrap()).0;
    assert!(best >= 0.95 * 300e6);
}

#[test]
fn a_ramp_is_given_more_time_once() {
    let ramp = |setting: Setting| Trial {
        goodput_bps: Some(1_000_000),
        limiter: Limiter::Ramp,
        ..Trial::failed(setting)
    };
    let mut search = Search::new(&plan(), Start::default());
    search.record(ramp(Setting::default()));
    let Step::Probe(again) = search.next(Spent::default()) else {
        panic!("nothing measured");
    };
    assert_eq!(again.setting, Setting::default());
    assert_eq!(again.time, Duration::from_secs(30));
    search.record(ramp(Setting::default()));
    let Step::Probe(next) = search.next(Spent::default()) else {
        panic!("nothing measured");
    };
    assert!(next.setting.streams > 1);
}

#[test]
fn a_path_that_fails_ends_the_search() {
    let (search, probes, stop) = drive(Search::new(&plan(), Start::default()), Trial::failed);
    assert_eq!((search.choice(), probes, stop), (None, 2, Stop::Settled));
}

#[test]
fn a_budget_ends_the_search_before_it_is_passed() {
    let stop_of = |budget| {
        let plan = Plan { budget, ..plan() };
        drive(Search::new(&plan, Start::default()), |s| {
            Model::geneva().probe(s)
        })
        .2
    };
    let budget = plan().budget;
    assert_eq!(
        stop_of(Budget {
            probes: 2,
            ..budget
        }),
        Stop::Probes
    );
    let time_us = 25_000_000;
    assert_eq!(stop_of(Budget { time_us, ..budget }), Stop::Time);
    let bytes = Some(100);
    assert_eq!(stop_of(Budget { bytes, ..budget }), Stop::Bytes);
}

const LIMITERS: [Limiter; 12] = [
    Limiter::ReceiveWindow,
    Limiter::SendBuffer,
    Limiter::Application,
    Limiter::CpuSender,
    Limiter::CpuReceiver,
    Limiter::Loss,
    Limiter::PathCapacity,
    Limiter::Shaper,
    Limiter::Policer,
    Limiter::Pacing,
    Limiter::Ramp,
    Limiter::Unknown,
];

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
    ) -> Trial {
        let interval = goodput.zip(half);
        Trial {
            goodput_bps: goodput,
            interval_bps: interval.map(|(g, h)| [g.saturating_sub(h), g.saturating_add(h)]),
            limiter: LIMITERS[limiter],
            next_limit: next.map(|(which, rate_bps)| Bound {
                limiter: LIMITERS[which],
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
            ..Trial::failed(Setting::default())
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
    ) -> Plan {
        Plan {
            windows_bytes: windows,
            streams,
            congestion_controls: controls,
            budget: Budget { probes, ..plan().budget },
            ..plan()
        }
    }
}

fn permitted(plan: &Plan, setting: &Setting) -> bool {
    let among = |empty: bool, listed: bool| empty || listed;
    let windows = &plan.windows_bytes;
    let controls = &plan.congestion_controls;
    among(windows.is_empty(), windows.contains(&setting.window_bytes))
        && among(
            plan.streams.is_empty(),
            plan.streams.contains(&setting.streams),
        )
        && among(
            controls.is_empty(),
            controls.contains(&setting.congestion_control),
        )
        && (1..=128).contains(&setting.streams)
        && setting
            .window_bytes
            .is_none_or(|w| (1..=1 << 30).contains(&w))
}

proptest! {
    #[test]
    fn whatever_comes_it_ends_in_budget_and_asks_only_what_it_may(
        plan in any_plan(),
        trials in proptest::collection::vec(any_trial(), 24),
        remembered in any::<bool>(),
        streams in proptest::option::of(0u32..200),
    ) {
        let present = streams.map(|streams| Setting { streams, ..Setting::default() });
        let mut search = Search::new(&plan, Start { present, remembered, idle_rtt: None });
        let mut spent = Spent::default();
        while let Step::Probe(probe) = search.next(spent) {
            prop_assert!(permitted(&plan, &probe.setting), "{:?}", probe.setting);
            prop_assert!(spent.probes < plan.budget.probes);
            prop_assert!(spent.time + probe.time <= Duration::from_micros(plan.budget.time_us));
            prop_assert!(probe.time <= Duration::from_secs(60));
            let setting = probe.setting.clone();
            search.record(Trial { setting: probe.setting, ..trials[spent.probes as usize].clone() });
            let times = search.trials().iter().filter(|t| t.setting == setting).count();
            prop_assert!(times <= 3, "{setting:?} {times} times");
            spent.probes += 1;
            spent.time += probe.time;
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
        let (search, ..) = drive(Search::new(&plan(), Start::default()), |s| model.probe(s));
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
        let most = Setting { window_bytes: Some(cap), streams: 48, ..choice.clone() };
        let most = model.truth(&most).0;
        prop_assert!(bps >= 0.95 * most, "{choice:?}: {bps} of {most} after {probes}");
    }
}
