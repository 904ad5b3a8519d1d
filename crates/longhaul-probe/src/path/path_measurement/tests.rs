//! Against this host itself: what can be had without a far end, and what is then said.

use super::*;
use longhaul_model::report::v1::path::{HopLoadPlan, RoundTripPlan, TracePlan};
use std::net::TcpListener;

fn plan() -> PathPlan {
    PathPlan {
        protocol: ProbeProtocol::Udp,
        port: None,
        round_trips: RoundTripPlan {
            protocol: ProbeProtocol::Tcp,
            probes: 3,
            interval_us: 2000,
            packet_bytes: 60,
            timeout_us: 500_000,
        },
        trace: Some(TracePlan {
            most_hops: 3,
            probes: 1,
            timeout_us: 500_000,
            confidence_ratio: None,
        }),
        reverse: true,
        mtu: false,
        options: true,
        load: Some(HopLoadPlan { phase_us: 2_000_000, streams: 1, forward: true }),
    }
}

/// Something listens, and never says a word.
fn mute() -> (TcpListener, TargetHost) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let target = TargetHost {
        port: listener.local_addr().expect("its address").port(),
        connect_timeout: Duration::from_millis(300),
        ..TargetHost::new("127.0.0.1")
    };
    (listener, target)
}

#[test]
fn without_a_longhaul_there_the_rest_is_measured_and_the_gap_is_named() {
    let (_listener, target) = mute();
    let mut parts = Vec::new();
    let stop = StopFlag::default();
    let outcome = run(&target, &plan(), None, &stop, &mut |progress| {
        parts.push(progress.part);
    })
    .expect("this host has an address");
    let seen = &outcome.observation;
    assert_eq!(seen.address, "127.0.0.1");
    let trips = seen.round_trips.as_ref().expect("round trips");
    assert_eq!((trips.protocol, trips.sent), (ProbeProtocol::Tcp, 3));
    let options = seen.options.as_ref().expect("options");
    assert!(options.here.is_some() && options.there.is_none());
    assert!(seen.route.as_ref().is_some_and(|route| route.reached));
    assert!(seen.hop_load.is_none() && outcome.load.is_none());
    let missing: Vec<&str> = seen.missing.iter().map(|gap| gap.what.as_str()).collect();
    assert_eq!(missing, ["reverse", "load"], "{:?}", seen.missing);
    for part in [
        PathPart::RoundTrips,
        PathPart::Route,
        PathPart::Options,
        PathPart::Session,
        PathPart::Load,
    ] {
        assert!(parts.contains(&part), "{part:?}");
    }
}

#[test]
fn a_look_that_is_stopped_names_everything_that_it_left_out() {
    let (_listener, target) = mute();
    let stop = StopFlag::new(true.into());
    let outcome = run(&target, &plan(), None, &stop, &mut |_| {}).expect("an address");
    let missing: Vec<&str> =
        outcome.observation.missing.iter().map(|gap| gap.what.as_str()).collect();
    assert_eq!(missing, ["round_trips", "route", "options", "reverse", "load"]);
    assert_eq!(outcome.observation.round_trips, None);
}

#[test]
fn a_name_without_an_address_is_an_error() {
    let target = TargetHost::new("no-such-host.invalid");
    let error =
        run(&target, &plan(), None, &StopFlag::default(), &mut |_| {}).expect_err("no name");
    assert!(matches!(error, ProbeError::Resolve { .. }), "{error}");
}
