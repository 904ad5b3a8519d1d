//! Sessions of probes over the loopback interface.

use crate::fake::{FakeFarEnd, FakePeer};
use crate::far_end::{FarEnd, options};
use longhaul_model::report::v1::available::{TrainPlan, TrainPurpose, TrainSchedule};
use longhaul_model::report::v1::{RunParty, load};
use longhaul_probe::measurement_server::ServeOptions;
use longhaul_probe::probe_error::ProbeError;
use longhaul_probe::probing::{EchoSeriesPlan, ProbeBounds, ProbeClient};
use longhaul_probe::session::SessionState;
use longhaul_probe::supervise::StopFlag;
use longhaul_probe::wire::{
    AnonymousLimits, ControlMessage, HelloMessage, ProbeProposal, ProtocolVersions, SessionReply,
    SessionRequest,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn train(index: u32, packets: u32, schedule: TrainSchedule) -> TrainPlan {
    TrainPlan {
        index,
        purpose: TrainPurpose::Sweep,
        packets,
        packet_bytes: 1200,
        schedule,
        pause_us: 2000,
    }
}

fn trains() -> Vec<TrainPlan> {
    let poisson = TrainSchedule::Poisson { mean_gap_ns: 500_000, seed: 1 };
    vec![
        train(0, 17, TrainSchedule::BackToBack),
        train(1, 60, TrainSchedule::RateBps(50_000_000)),
        train(2, 40, poisson),
        train(3, 200, TrainSchedule::BackToBack),
    ]
}

#[test]
fn trains_of_either_end_come_back_with_both_ends_times() {
    let far = FarEnd::start(options());
    let mut prober = ProbeClient::connect(&far.target(), &StopFlag::default()).expect("a session");
    for forward in [true, false] {
        let plans = trains();
        let trains =
            if forward { prober.send_trains(&plans) } else { prober.receive_trains(&plans) }
                .expect("trains over loopback");
        assert_eq!(trains.len(), plans.len());
        for (plan, train) in plans.iter().zip(&trains) {
            assert_eq!(train.index, plan.index);
            assert_eq!(train.sent_ns.len(), plan.packets as usize);
            assert_eq!(train.received_ns.len(), plan.packets as usize);
            assert!(train.sent_ns.is_sorted(), "{train:?}");
            let came = train.received_ns.iter().flatten().count();
            assert!(came > 0, "forward {forward}: nothing of train {}", plan.index);
        }
        assert_eq!(trains[1].rate_bps, Some(50_000_000));
        assert_eq!((trains[0].micro_burst_packets, trains[3].micro_burst_packets), (1, 8));
        let clock = &prober.direction_facts(forward).receive_clock;
        assert_eq!(clock, "kernel", "forward {forward}");
    }
    prober.close();
    let reason = far.session_closed();
    assert_eq!(reason, "finished");
}

#[test]
fn echoes_carry_four_times_and_hold_the_session() {
    let far = FarEnd::start(options());
    let mut prober = ProbeClient::connect(&far.target(), &StopFlag::default()).expect("a session");
    let series = EchoSeriesPlan {
        interval: Duration::from_millis(10),
        packet_bytes: 100,
        max_time: Duration::from_secs(100),
    };
    let mut probes: Vec<load::LoadProbe> = Vec::new();
    let stop = AtomicBool::new(false);
    // A stop ends it, and the session is there for more.
    let result = prober
        .run_echoes(&series, &stop, &mut |probe| {
            probes.push(*probe);
            let answered = probe.echo.rtt_ns.is_some();
            stop.fetch_or(answered, Ordering::Relaxed);
        })
        .expect("echoes over loopback");
    assert_eq!(probes.len(), result.sent as usize, "each is told once");
    let answered: Vec<_> = probes.iter().filter(|p| p.echo.rtt_ns.is_some()).collect();
    assert!(!answered.is_empty(), "{result:?}");
    let also = result.echoes.iter().filter(|echo| echo.rtt_ns.is_some());
    assert_eq!(answered.len(), also.count());
    for probe in answered {
        let both = probe.forward_ns.zip(probe.reverse_ns);
        let (forward, reverse) = both.expect("an honest far end");
        let rtt = probe.echo.rtt_ns.map(|rtt| rtt as i64);
        assert_eq!(Some(forward + reverse), rtt);
        assert_eq!(probe.echo.ttl, Some(64));
    }
    assert!(prober.read_server_tcp_options().expect("options").in_force.is_some());
}

#[test]
fn an_ask_over_the_agreed_bytes_is_refused_and_the_session_goes_on() {
    let far = FarEnd::start(options());
    let bounds = ProbeBounds { flows: 1, most_bytes: 30_000, most_time_us: 20_000_000, dscp: None };
    let mut prober =
        ProbeClient::open(&far.target(), bounds, &StopFlag::default()).expect("a session");
    let error = prober
        .receive_trains(&[train(0, 100, TrainSchedule::BackToBack)])
        .expect_err("120 kB of 30 kB");
    assert!(error.to_string().contains("30000 bytes are left"), "{error}");
    let trains = prober.receive_trains(&[train(1, 20, TrainSchedule::BackToBack)]);
    assert_eq!(trains.expect("24 kB").len(), 1);
}

#[test]
fn strangers_get_what_serve_grants_them_and_no_more() {
    let limits = AnonymousLimits { bytes: Some(100_000), ..AnonymousLimits::default() };
    let far = FarEnd::start(ServeOptions { anonymous: Some(limits), ..options() });
    let prober = ProbeClient::connect(&far.target(), &StopFlag::default()).expect("a session");
    let bounds = prober.bounds().expect("bounds");
    assert_eq!(bounds.most_bytes, 100_000);
    // Who asks for more all the same is turned away.
    let mut peer = FakePeer::connect(far.address);
    peer.greet();
    peer.say(&ControlMessage::Probe(Box::new(ProbeProposal {
        bounds: ProbeBounds { most_bytes: 100_001, ..bounds.clone() },
        party: RunParty::default(),
        boot_proof: None,
    })));
    let bye = peer.hear_until(|message| matches!(message, ControlMessage::Bye(_)));
    assert!(format!("{bye:?}").contains("without a token"), "{bye:?}");
}

#[test]
fn a_session_without_a_flow_still_tells_options() {
    let far = FarEnd::start(options());
    let bounds = ProbeBounds { flows: 0, most_bytes: 0, most_time_us: 20_000_000, dscp: None };
    let mut prober =
        ProbeClient::open(&far.target(), bounds, &StopFlag::default()).expect("a session");
    assert!(prober.read_server_tcp_options().expect("options").mss_bytes.is_some());
    assert!(prober.send_trains(&trains()).is_err());
}

#[test]
fn a_far_end_of_an_older_release_is_named_with_exit_code_4() {
    let far = FakeFarEnd::start(|peer| {
        peer.say(&ControlMessage::Hello(HelloMessage {
            versions: ProtocolVersions { least: 1, most: 1 },
            longhaul: "0.0.9".to_owned(),
        }));
        peer.hear_until(|message| matches!(message, ControlMessage::Proof(_)));
        peer.welcome();
        peer.wait_for_the_end();
    });
    let Err(error) = ProbeClient::connect(&far.target(), &StopFlag::default()) else {
        panic!("version 1")
    };
    assert!(matches!(error, ProbeError::Version { .. }), "{error}");
    assert_eq!(error.exit_code(), 4);
}

#[test]
fn a_far_end_that_answers_something_else_ends_nothing_but_the_ask() {
    let far = FakeFarEnd::start(|peer| {
        peer.accept_probes();
        for _ in 0..2 {
            peer.hear_until(|message| {
                matches!(message, ControlMessage::Ask(SessionRequest::Options))
            });
            peer.say(&ControlMessage::Answer(Box::new(SessionReply::Armed)));
        }
        peer.wait_for_the_end();
    });
    let bounds = ProbeBounds { flows: 0, most_bytes: 0, most_time_us: 20_000_000, dscp: None };
    let mut prober =
        ProbeClient::open(&far.target(), bounds, &StopFlag::default()).expect("a session");
    for _ in 0..2 {
        let error = prober.read_server_tcp_options().expect_err("armed is no answer to it");
        let step = match &error {
            ProbeError::PeerFailed { step, .. } => *step,
            other => panic!("{other}"),
        };
        assert_eq!(step, SessionState::Working);
    }
}
