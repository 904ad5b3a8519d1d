//! On the loopback interface: real sockets, and what this host's kernel answers.

use super::*;
use std::net::{TcpListener, UdpSocket};

fn asked(protocol: ProbeProtocol, destination: &str, port: Option<u16>) -> EchoSeriesRequest {
    EchoSeriesRequest {
        target: ProbeTarget {
            destination: destination.parse().expect("an address"),
            source: None,
            device: None,
            protocol,
            port,
            source_id: None,
        },
        round_trips: RoundTripPlan {
            protocol,
            probes: 3,
            interval_us: 2000,
            packet_bytes: 100,
            timeout_us: 900_000,
        },
        give_up_after: Some(3),
    }
}

fn run(asked: &EchoSeriesRequest) -> EchoSeriesResult {
    let mut told = Vec::new();
    let stop = AtomicBool::new(false);
    let ran = measure_round_trips(asked, &stop, &mut |echo| told.push(*echo)).expect("sockets");
    assert_eq!(told, ran.echoes.echoes, "each probe is told once");
    assert_eq!(ran.echoes.sent as usize, told.len());
    ran
}

#[test]
fn udp_to_a_port_where_nothing_listens_is_answered_by_the_kernel() {
    for address in ["127.0.0.1", "::1"] {
        let ran = run(&asked(ProbeProtocol::Udp, address, None));
        // The kernel limits how many errors it sends; the first gets through.
        assert!(ran.answered >= 1, "{address}: {ran:?}");
        assert_eq!(ran.echoes.packet_bytes, 100);
    }
}

#[test]
fn udp_to_an_echo_service_is_answered_by_the_same_datagram() {
    let service = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let port = service.local_addr().expect("its address").port();
    let echo = std::thread::spawn(move || {
        let mut bytes = [0; 200];
        for _ in 0..3 {
            let (count, from) = service.recv_from(&mut bytes).expect("a datagram");
            service.send_to(&bytes[..count], from).expect("an answer");
            // Noise of the same sender is no answer.
            service.send_to(b"noise", from).expect("noise");
        }
    });
    let mut asked = asked(ProbeProtocol::Udp, "127.0.0.1", Some(port));
    asked.round_trips.timeout_us = 60_000_000;
    let ran = run(&asked);
    echo.join().expect("the service");
    assert_eq!((ran.answered, ran.echoes.duplicates), (3, 0));
    assert!(ran.echoes.discarded >= 2, "{}", ran.echoes.discarded);
    assert_ne!(ran.echoes.clock, "user");
}

#[test]
fn connecting_times_a_listener_and_a_refusal() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    let listening = asked(ProbeProtocol::Tcp, "127.0.0.1", Some(port));
    let schedule = EchoSchedule {
        probes: 3,
        interval: Duration::from_millis(2),
        timeout: Duration::from_secs(60),
        give_up_after: None,
    };
    let connect = |asked: &EchoSeriesRequest| {
        let connects = ConnectProber::new(asked.target.clone(), schedule.timeout);
        let mut running = RunningEchoSeries {
            packet_bytes: connects.packet_bytes(60),
            carrier: Box::new(connects),
            series: EchoSeriesState::new(schedule),
            epoch: Instant::now(),
            unreachable: None,
        };
        running.run(&AtomicBool::new(false), &mut |_| {}).expect("threads");
        running.series.echoes(ProbeProtocol::Tcp, 60)
    };
    let heard = connect(&listening);
    assert!(heard.echoes.iter().all(|echo| echo.rtt_ns.is_some()));
    assert_eq!(heard.clock, "kernel");
    drop(listener);
    let refused = connect(&listening);
    assert!(refused.echoes.iter().all(|echo| echo.rtt_ns.is_some()));
    assert_eq!(refused.clock, "user");
}

#[test]
fn a_stopped_series_ends_at_once_with_what_it_has() {
    let mut asked = asked(ProbeProtocol::Udp, "127.0.0.1", None);
    asked.round_trips.probes = 1000;
    asked.round_trips.interval_us = 60_000_000;
    let stop = AtomicBool::new(true);
    let ran = measure_round_trips(&asked, &stop, &mut |_| {}).expect("sockets");
    assert!(ran.echoes.sent <= 1);
}

#[test]
fn an_address_without_a_route_says_so() {
    // Of the block that is reserved for documentation, from a source that this host has not.
    let mut asked = asked(ProbeProtocol::Udp, "192.0.2.1", None);
    asked.target.source = Some("198.51.100.7".parse().expect("an address"));
    let error =
        measure_round_trips(&asked, &AtomicBool::new(false), &mut |_| {}).expect_err("not ours");
    assert!(matches!(error, PathError::NoRoute { .. }), "{error}");
}
