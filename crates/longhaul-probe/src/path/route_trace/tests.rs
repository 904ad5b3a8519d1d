//! Real sockets on the loopback interface, with whatever rights these tests run with.

use super::*;
use longhaul_model::report::v1::path::ProbeProtocol;
use longhaul_sys::probe_socket::{IpFamily, ProbeSocket};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};

const LOOPBACK: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

/// Ends a test that hangs.
const HUNG: Duration = Duration::from_secs(120);

fn asked(destination: IpAddr, protocol: ProbeProtocol) -> TraceRequest {
    TraceRequest {
        target: ProbeTarget {
            destination,
            source: None,
            device: None,
            protocol,
            port: None,
            source_id: None,
        },
        trace: path::TracePlan {
            most_hops: 30,
            probes: 1,
            timeout_us: 60_000_000,
            confidence_ratio: None,
        },
        max_time: HUNG,
    }
}

/// The route, or `None` where the right to trace so is missing; the error must then say so.
fn traced(asked: &TraceRequest) -> Option<ObservedRoute> {
    match trace_route(asked, &AtomicBool::new(false), &mut |_| {}) {
        Ok(route) => Some(route),
        Err(error) => {
            let told = error.to_string();
            assert!(told.contains("this requires root"), "{told}");
            assert!(error.hint().is_some_and(|hint| hint.contains("trace with UDP")));
            assert_eq!(error.exit_code(), 5);
            None
        }
    }
}

fn only_answer(route: &ObservedRoute) -> &HopReply {
    assert_eq!((route.hops.len(), route.ended_by.as_str()), (1, "reached"));
    assert_eq!(route.hops[0].answers.len(), 1);
    &route.hops[0].answers[0]
}

#[test]
fn this_host_is_one_hop_away_by_udp_with_or_without_privilege() {
    for address in LOOPBACK {
        let route = traced(&asked(address, ProbeProtocol::Udp)).expect("no privilege is needed");
        let answer = only_answer(&route);
        assert_eq!(answer.kind, "port_unreachable");
        assert_eq!(answer.address, address.to_string());
        assert_eq!(answer.rtts_ns.len(), 1);
        assert!(answer.reply_ttl.is_some());
        assert_eq!(route.from, answer.address);
    }
}

#[test]
fn this_host_answers_echoes() {
    for address in LOOPBACK {
        if let Some(route) = traced(&asked(address, ProbeProtocol::Icmp)) {
            assert_eq!(only_answer(&route).kind, "echo_reply");
        }
    }
}

#[test]
fn an_open_port_of_tcp_answers_otherwise_than_a_closed_one() {
    for address in LOOPBACK {
        let listener = TcpListener::bind((address, 0)).expect("a port");
        let mut tcp = asked(address, ProbeProtocol::Tcp);
        tcp.target.port = Some(listener.local_addr().expect("address").port());
        let Some(route) = traced(&tcp) else {
            continue;
        };
        assert_eq!(only_answer(&route).kind, "syn_ack");
        drop(listener);
        let route = traced(&tcp).expect("as before");
        assert_eq!(only_answer(&route).kind, "reset");
    }
}

#[test]
fn an_address_of_nobody_is_silence_in_bounded_time_or_no_way_there() {
    // TEST-NET-1; hosts without a default route say so at once.
    let mut nobody = asked(IpAddr::from([192, 0, 2, 77]), ProbeProtocol::Udp);
    nobody.max_time = Duration::from_millis(300);
    nobody.trace.most_hops = 3;
    match trace_route(&nobody, &AtomicBool::new(false), &mut |_| {}) {
        Ok(route) => assert!(!route.reached),
        Err(error) => assert!(matches!(error, PathError::NoRoute { .. }), "{error}"),
    }
}

#[test]
fn a_stop_ends_a_trace_at_once() {
    let stopped = AtomicBool::new(true);
    let mut watched = 0;
    let asked = asked(LOOPBACK[0], ProbeProtocol::Udp);
    let route = trace_route(&asked, &stopped, &mut |_| watched += 1).expect("a route without hops");
    assert_eq!((route.hops.len(), route.probes_sent, watched), (0, 0, 1));
}

/// What a router says that quotes 28 bytes, of which the error queue of a socket keeps nothing.
#[test]
fn a_quote_without_payload_belongs_to_the_only_probe_in_flight() {
    // Open, so that this host itself says nothing.
    let far = UdpSocket::bind((LOOPBACK[0], 0)).expect("a port");
    let mut asked = asked(LOOPBACK[0], ProbeProtocol::Udp);
    asked.target.port = Some(far.local_addr().expect("address").port());
    let mut prober = HopProber::without_privilege(&asked).expect("no privilege is needed");
    let Ok(packets) = ProbeSocket::raw_packets(IpFamily::V4) else {
        return;
    };
    let first = prober.send(4).expect("send");
    let quoted = &prober.socket.flow.packet(4, first)[..28];
    let to = Some(SocketAddr::new(LOOPBACK[0], 0));
    packets.send(&icmp_error(quoted), to, None).expect("send");
    let until = Instant::now() + HUNG;
    let answer = prober.poll(until).expect("poll").expect("an answer");
    assert_eq!(answer.number, first);
    // With two in flight it could be about either.
    prober.send(5).expect("send");
    prober.send(6).expect("send");
    packets.send(&icmp_error(quoted), to, None).expect("send");
    discards(&mut prober, 1);
    assert_eq!((prober.ambiguous, prober.discarded), (1, 1));
}

/// Garbage and forgeries from the very address that is probed.
#[test]
fn forged_and_garbled_answers_are_counted_and_not_believed() {
    let mut prober = HopProber::new(&asked(LOOPBACK[0], ProbeProtocol::Udp)).expect("a prober");
    let flow = prober.socket.flow;
    let number = prober.send(9).expect("send");
    let until = Instant::now() + HUNG;
    let answer = prober.poll(until).expect("poll").expect("an answer");
    assert_eq!(answer.number, number);
    // A datagram with the tag of nobody, to the port that the probes came from: the far end may
    // send what it likes there, and it is no answer.
    let liar = UdpSocket::bind((LOOPBACK[0], 0)).expect("a port");
    liar.send_to(b"an answer, honestly", (flow.source, flow.source_id)).expect("send");
    let Ok(packets) = ProbeSocket::raw_packets(IpFamily::V4) else {
        return;
    };
    // ICMP errors: one too short to say anything, one about a probe that was never sent.
    let never_sent = flow.packet(1, number.wrapping_add(100).max(1));
    for quoted in [&[0x45, 0, 0][..], &never_sent] {
        let error = icmp_error(quoted);
        let to = SocketAddr::new(LOOPBACK[0], 0);
        packets.send(&error, Some(to), None).expect("send");
    }
    let before = prober.discarded;
    discards(&mut prober, before + 2);
}

/// Hears what comes, of which nothing is an answer, until so much of it is discarded.
fn discards(prober: &mut HopProber, count: u32) {
    let until = Instant::now() + HUNG;
    while prober.discarded < count {
        assert!(Instant::now() < until, "{}", prober.discarded);
        assert_eq!(prober.poll(Instant::now()).expect("poll"), None);
    }
}

/// A time exceeded from this host to itself.
fn icmp_error(quoted: &[u8]) -> Vec<u8> {
    use crate::path::probe_packet::{fold_checksum, sum_words};
    let mut message = vec![11, 0, 0, 0, 0, 0, 0, 0];
    message.extend(quoted);
    let checksum = !fold_checksum(sum_words(&message));
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
    let total = (20 + message.len()) as u16;
    let mut packet = vec![0x45, 0];
    packet.extend(total.to_be_bytes());
    packet.extend([0, 1, 0, 0, 64, 1, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1]);
    packet.extend(message);
    packet
}
