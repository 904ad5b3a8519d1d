//! Whole runs.

use crate::far_end::{FarEnd, brief, options, short};
use longhaul_model::report::v1::observation::ThroughputObservation;
use longhaul_model::report::v1::plan::{RunDirection, RunTransport, StopCondition, ThroughputPlan};
use longhaul_probe::measurement_server::ServeOptions;
use longhaul_probe::session::SessionState;
use longhaul_probe::supervise::StopFlag;
use longhaul_probe::throughput;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

/// What holds for every observation of a run that went well.
fn is_sound(plan: &ThroughputPlan, observation: &ThroughputObservation) {
    assert_eq!(observation.streams.len(), plan.streams as usize);
    assert!(observation.elapsed_us > 0);
    assert!(observation.same_host, "both ends are this process");
    let idle = observation.idle_rtt_us.expect("the idle path was timed");
    assert_eq!(observation.clock_error_us, Some(idle / 2));
    let received: u64 = observation.streams.iter().map(|s| s.receiver.bytes).sum();
    let sent: u64 = observation.streams.iter().map(|s| s.sender.bytes).sum();
    assert_eq!(observation.ends.receiver.bytes, received);
    assert_eq!(observation.ends.sender.bytes, sent);
    assert!(received <= sent, "{received} of {sent}");
    for stream in &observation.streams {
        assert_eq!(stream.sender.local, stream.receiver.peer, "the two ends of one stream");
        assert_eq!(stream.sender.error, None);
        assert_eq!(stream.receiver.error, None);
        // One process, one clock: the time line is common within the round trip.
        let early = stream.receiver.started_us + idle + 1000 >= stream.sender.started_us;
        assert!(early, "a byte arrives after it was sent");
    }
}

#[test]
fn payload_flows_in_every_direction_for_the_time_asked() {
    let far = FarEnd::start(options());
    for direction in [RunDirection::Forward, RunDirection::Reverse, RunDirection::Both] {
        for streams in [1, 3] {
            let plan = ThroughputPlan { direction, streams, ..short() };
            let began = Instant::now();
            let outcome = far.run(&plan).expect("a run over loopback");
            let observation = &outcome.observation;
            is_sound(&plan, observation);
            assert_eq!(observation.forward, direction != RunDirection::Reverse);
            assert_eq!(observation.reverse.is_some(), direction == RunDirection::Both);
            if let Some(reverse) = &observation.reverse {
                assert!(!reverse.forward);
                is_sound(&plan, reverse);
            }
            assert!(began.elapsed() > Duration::from_secs(1));
            assert_eq!(outcome.responder.address.as_deref(), Some("127.0.0.1"));
            assert_eq!(outcome.initiator.address.as_deref(), Some("127.0.0.1"));
            assert!(outcome.responder.longhaul.is_some());
        }
    }
}

#[test]
fn a_run_by_bytes_or_blocks_delivers_exactly_that() {
    let far = FarEnd::start(options());
    for direction in [RunDirection::Forward, RunDirection::Reverse] {
        let bytes = ThroughputPlan {
            direction,
            streams: 2,
            stop: StopCondition::Bytes(10_000_001),
            ..ThroughputPlan::default()
        };
        let outcome = far.run(&bytes).expect("a run by bytes");
        assert_eq!(outcome.observation.ends.receiver.bytes, 10_000_001);
        let blocks =
            ThroughputPlan { stop: StopCondition::Blocks(100), write_bytes: Some(8192), ..bytes };
        let outcome = far.run(&blocks).expect("a run by blocks");
        assert_eq!(outcome.observation.ends.receiver.bytes, 819_200);
    }
}

#[test]
fn datagrams_flow_both_ways_and_are_counted() {
    let far = FarEnd::start(options());
    for direction in [RunDirection::Forward, RunDirection::Reverse, RunDirection::Both] {
        let plan = ThroughputPlan {
            direction,
            streams: 2,
            transport: RunTransport::Udp { rate_bps: 10_000_000 },
            stop: StopCondition::Bytes(500_000),
            ..ThroughputPlan::default()
        };
        let outcome = far.run(&plan).expect("a run over UDP");
        let all = [Some(&outcome.observation), outcome.observation.reverse.as_deref()];
        for observation in all.into_iter().flatten() {
            for stream in &observation.streams {
                let udp = stream.receiver.udp.expect("datagrams were counted");
                assert!(udp.datagrams > 0, "{direction:?}: {stream:?}");
            }
        }
    }
}

#[test]
fn the_far_end_tells_how_it_was_called_and_what_it_logged_of_this_run() {
    let far = FarEnd::start(ServeOptions {
        command: Some("longhaul serve --token ***\u{1b}[2J".to_owned()),
        ..options()
    });
    for direction in [RunDirection::Forward, RunDirection::Reverse, RunDirection::Both] {
        let plan = ThroughputPlan { direction, ..short() };
        let seen = far.run(&plan).expect("a run").observation;
        let end = if seen.forward { &seen.ends.receiver } else { &seen.ends.sender };
        let told = end.program.as_ref().expect("told");
        assert!(!told.longhaul.is_empty());
        let command = told.command.as_deref();
        assert_eq!(command, Some("longhaul serve --token ***\u{fffd}[2J"), "on one line");
        let [opened, counted] = told.log.as_slice() else {
            panic!("{direction:?}: {:?}", told.log);
        };
        assert!(opened.contains("TCP, 1 stream(s)"), "{opened}");
        assert!(counted.contains("transferred "), "{counted}");
        assert_eq!(seen.same_boot, Some(true), "both ends are this process");
    }
}

#[test]
fn the_same_port_serves_ipv6() {
    let far = FarEnd::start(ServeOptions {
        addresses: vec![IpAddr::V6(Ipv6Addr::LOCALHOST)],
        ..options()
    });
    for transport in [RunTransport::Tcp, RunTransport::Udp { rate_bps: 10_000_000 }] {
        let plan = ThroughputPlan { transport, ..short() };
        let outcome = far.run(&plan).expect("a run over IPv6");
        assert_eq!(outcome.responder.address.as_deref(), Some("::1"));
    }
}

#[test]
fn one_listener_takes_both_families() {
    let far = FarEnd::start(ServeOptions { addresses: Vec::new(), ..options() });
    for host in ["127.0.0.1", "::1"] {
        for transport in [RunTransport::Tcp, RunTransport::Udp { rate_bps: 10_000_000 }] {
            let plan = ThroughputPlan { transport, ..short() };
            let target = throughput::TargetHost { host: host.to_owned(), ..far.target() };
            let outcome =
                throughput::run(&target, &plan, &StopFlag::default(), &mut |_| {}).expect("a run");
            assert_eq!(outcome.responder.address.as_deref(), Some(host));
        }
    }
}

#[test]
fn both_ends_share_the_token_or_neither_measures() {
    let far = FarEnd::start(ServeOptions {
        token: Some("a token of more than sixteen characters".to_owned()),
        anonymous: None,
        ..options()
    });
    let target = far.target_with("a token of more than sixteen characters\n");
    let outcome = throughput::run(&target, &short(), &StopFlag::default(), &mut |_| {})
        .expect("the right token");
    is_sound(&short(), &outcome.observation);
}

#[test]
fn progress_is_told_while_payload_flows_with_the_far_ends_count() {
    let far = FarEnd::start(options());
    let plan = ThroughputPlan {
        stop: StopCondition::Bytes(30_000_000),
        write_rate_bps: Some(100_000_000),
        ..ThroughputPlan::default()
    };
    let mut seen = Vec::new();
    throughput::run(&far.target(), &plan, &StopFlag::default(), &mut |progress| {
        seen.push(progress.clone());
    })
    .expect("a run");
    let states: Vec<SessionState> = seen.iter().map(|p| p.state).collect();
    assert!(states.is_sorted_by_key(|s| *s as u8));
    let flows: Vec<_> = seen.iter().filter_map(|p| p.forward.as_ref()).collect();
    assert!(flows.is_sorted_by_key(|flow| (flow.sent_bytes, flow.received_bytes)));
    let last = flows.last().expect("it sends");
    assert_eq!(last.received_bytes.is_some(), last.received_at.is_some());
    assert!(last.received_bytes <= last.sent_bytes, "{last:?}");
}

#[test]
fn many_runs_share_the_far_end() {
    let far = FarEnd::start(ServeOptions {
        token: Some("a token of more than sixteen characters".to_owned()),
        ..options()
    });
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let target = far.target_with("a token of more than sixteen characters");
                let plan = ThroughputPlan { streams: 4, ..short() };
                let outcome = throughput::run(&target, &plan, &StopFlag::default(), &mut |_| {})
                    .expect("a run");
                assert_eq!(outcome.observation.streams.len(), 4);
            });
        }
    });
}

#[test]
fn as_many_streams_as_allowed_open_at_once() {
    let far = FarEnd::start(ServeOptions {
        token: Some("a token of more than sixteen characters".to_owned()),
        ..options()
    });
    let target = far.target_with("a token of more than sixteen characters");
    let plan = ThroughputPlan { streams: 128, ..brief() };
    let outcome = throughput::run(&target, &plan, &StopFlag::default(), &mut |_| {})
        .expect("a run of 128 streams");
    assert_eq!(outcome.observation.streams.len(), 128);
    assert_eq!(outcome.observation.ends.receiver.bytes, 4 << 20);
}
