//! On the loopback interface of this host. What needs privilege is tried where it is there, and
//! must say that it is missing where it is not.

use super::*;
use crate::poll;
use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};
use std::time::{Duration, Instant};

const LOOPBACK: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

/// The next message that fits; whatever takes a minute never comes.
fn next(
    socket: &ProbeSocket,
    into: &mut [u8],
    fits: impl Fn(&ProbeArrival, &[u8]) -> bool,
) -> ProbeArrival {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        assert!(!left.is_zero(), "nothing came");
        poll::wait_readable([socket.as_fd()], Some(left)).expect("poll");
        while let Some(arrival) = socket.receive(into).expect("receive") {
            if fits(&arrival, &into[..arrival.bytes]) {
                return arrival;
            }
        }
    }
}

/// A port of UDP at which nobody listens.
fn closed_port(address: IpAddr) -> SocketAddr {
    let socket = UdpSocket::bind((address, 0)).expect("a port");
    socket.local_addr().expect("address")
}

fn raw_or_denied(made: io::Result<ProbeSocket>) -> Option<ProbeSocket> {
    match made {
        Ok(socket) => Some(socket),
        Err(error) => {
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
            None
        }
    }
}

#[test]
fn a_closed_port_stands_in_the_error_queue_with_what_was_sent() {
    for address in LOOPBACK {
        let socket = ProbeSocket::udp(IpFamily::of_address(address)).expect("no privilege needed");
        let to = closed_port(address);
        socket.send(b"probe 7", Some(to), Some(9)).expect("send");
        let mut bytes = [0; 100];
        let arrival = next(&socket, &mut bytes, |_, _| true);
        assert_eq!(&bytes[..arrival.bytes], b"probe 7");
        assert_eq!(arrival.from.map(|from| from.port()), Some(to.port()));
        assert!(arrival.at.is_some(), "{arrival:?}");
        assert!(arrival.ttl.is_some(), "{arrival:?}");
        let Some(ErrorQueueEntry::Icmp(trouble)) = arrival.queued else {
            panic!("not an error: {arrival:?}");
        };
        let port_unreachable = match IpFamily::of_address(address) {
            IpFamily::V4 => (3, 3),
            IpFamily::V6 => (1, 4),
        };
        assert_eq!((trouble.kind, trouble.code), port_unreachable);
        assert_eq!(trouble.reported_by, Some(address));
        // The error that is pending as well keeps nothing from being sent.
        socket.send(b"probe 8", Some(to), None).expect("send");
    }
}

#[test]
fn the_ttl_of_a_datagram_arrives() {
    for address in LOOPBACK {
        let near = ProbeSocket::udp(IpFamily::of_address(address)).expect("socket");
        let far = ProbeSocket::udp(IpFamily::of_address(address)).expect("socket");
        far.bind(SocketAddr::new(address, 0)).expect("bind");
        let to = far.local_address().expect("address");
        for (ttl, seen) in [(Some(3), 3), (None, 64)] {
            near.send(b"x", Some(to), ttl).expect("send");
            let arrival = next(&far, &mut [0; 10], |_, _| true);
            assert_eq!(arrival.ttl, Some(seen));
            assert_eq!((arrival.queued, arrival.bytes), (None, 1));
        }
    }
}

#[test]
fn a_packet_beyond_the_mtu_of_the_interface_is_refused_not_cut() {
    let near = ProbeSocket::udp(IpFamily::V4).expect("socket");
    near.forbid_fragmentation().expect("fragments");
    let to = closed_port(LOOPBACK[0]);
    // The loopback MTU is 65536, above the most that a datagram holds, so that a smaller one
    // cannot be tried here: what is tried is the refusal of what no packet can hold.
    let refused = near.send(&vec![0; 65_530], Some(to), None);
    assert_eq!(refused.expect_err("too big").raw_os_error(), Some(libc::EMSGSIZE));
}

#[test]
fn a_ping_socket_hears_its_echo() {
    for address in LOOPBACK {
        let Some(socket) = raw_or_denied(ProbeSocket::ping(IpFamily::of_address(address))) else {
            continue;
        };
        let (request, reply) = match IpFamily::of_address(address) {
            IpFamily::V4 => (8, 0),
            IpFamily::V6 => (128, 129),
        };
        let to = Some(SocketAddr::new(address, 0));
        let echo = [request, 0, 0, 0, 0, 0, 0, 5, 1, 2, 3];
        socket.send(&echo, to, None).expect("send");
        let mut bytes = [0; 100];
        let arrival = next(&socket, &mut bytes, |_, _| true);
        assert_eq!((bytes[0], &bytes[6..arrival.bytes]), (reply, &echo[6..]));
        assert!(arrival.at.is_some());
    }
}

#[test]
fn send_times_are_told_in_the_order_of_sending() {
    let socket = ProbeSocket::udp(IpFamily::V4).expect("socket");
    let far = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.enable_transmit_timestamps().expect("send times");
    let to = far.local_addr().expect("address");
    let mut told = Vec::new();
    for _ in 0..3 {
        socket.send(b"x", Some(to), None).expect("send");
        let arrival = next(&socket, &mut [0; 10], |_, _| true);
        let Some(ErrorQueueEntry::Sent { number }) = arrival.queued else {
            panic!("not a send time: {arrival:?}");
        };
        told.push((number, arrival.at.expect("a time")));
    }
    assert_eq!(told.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(told.is_sorted_by_key(|(_, at)| *at));
}

#[test]
fn all_icmp_is_heard_of_other_sockets_packets_too() {
    for address in LOOPBACK {
        let Some(listening) = raw_or_denied(ProbeSocket::all_icmp(IpFamily::of_address(address)))
        else {
            continue;
        };
        let sending = ProbeSocket::udp(IpFamily::of_address(address)).expect("socket");
        let to = closed_port(address);
        sending.send(b"to be quoted", Some(to), None).expect("send");
        let mut bytes = [0; 200];
        let quotes = |_: &ProbeArrival, bytes: &[u8]| bytes.ends_with(b"to be quoted");
        let arrival = next(&listening, &mut bytes, quotes);
        assert_eq!(arrival.from.map(|from| from.ip()), Some(address));
        assert!(arrival.at.is_some() && arrival.ttl.is_some());
    }
}

#[test]
fn of_tcp_only_the_asked_port_is_heard() {
    for address in LOOPBACK {
        let listener = std::net::TcpListener::bind((address, 0)).expect("a port");
        let port = listener.local_addr().expect("address").port();
        let heard = ProbeSocket::all_tcp(IpFamily::of_address(address), port..=port);
        let Some(listening) = raw_or_denied(heard) else {
            continue;
        };
        std::net::TcpStream::connect((address, port)).expect("connect");
        let mut bytes = [0; 200];
        // The three segments from the connecting side; the answers have another port.
        for _ in 0..3 {
            let arrival = next(&listening, &mut bytes, |_, _| true);
            let segment = match IpFamily::of_address(address) {
                IpFamily::V4 => &bytes[20..arrival.bytes],
                IpFamily::V6 => &bytes[..arrival.bytes],
            };
            assert_eq!(u16::from_be_bytes([segment[2], segment[3]]), port);
        }
    }
}

#[test]
fn a_whole_packet_of_our_own_making_arrives() {
    let Some(packets) = raw_or_denied(ProbeSocket::raw_packets(IpFamily::V4)) else {
        return;
    };
    let far = UdpSocket::bind("127.0.0.1:0").expect("a port");
    far.set_read_timeout(Some(Duration::from_secs(60))).expect("timeout");
    let to = far.local_addr().expect("address");
    let mut packet = vec![0x45, 0, 0, 29, 0x12, 0x34, 0x40, 0, 5, 17, 0, 0];
    packet.extend([127, 0, 0, 1, 127, 0, 0, 1, 0x99, 0x99]);
    packet.extend(to.port().to_be_bytes());
    packet.extend([0, 9, 0, 0, b'!']);
    let destination = SocketAddr::new(to.ip(), 0);
    packets.send(&packet, Some(destination), None).expect("send");
    let mut byte = [0; 4];
    let (length, from) = far.recv_from(&mut byte).expect("it arrives");
    assert_eq!((&byte[..length], from.port()), (&b"!"[..], 0x9999));
}

#[test]
fn a_service_answers_from_the_address_that_was_asked_with_the_dscp_of_the_packet() {
    for (address, other) in
        [(LOOPBACK[0], IpAddr::V4(Ipv4Addr::new(127, 0, 0, 9))), (LOOPBACK[1], LOOPBACK[1])]
    {
        let family = IpFamily::of_address(address);
        let any: IpAddr = match family {
            IpFamily::V4 => Ipv4Addr::UNSPECIFIED.into(),
            IpFamily::V6 => Ipv6Addr::UNSPECIFIED.into(),
        };
        let service = ProbeSocket::udp_service(family, 255).expect("no privilege needed");
        service.bind(SocketAddr::new(any, 0)).expect("a port");
        let port = service.local_address().expect("address").port();
        let client = ProbeSocket::udp_service(family, 64).expect("a socket");
        // It receives only from the address that it asks.
        client.connect(SocketAddr::new(other, port)).expect("connect");
        sockopt::set_dscp(&client, 46, SocketAddr::new(other, port)).expect("EF");
        client.send(b"question", None, None).expect("send");
        let mut bytes = [0; 100];
        let question = next(&service, &mut bytes, |_, text| text == b"question");
        assert_eq!((question.to, question.ttl), (Some(other), Some(64)));
        assert_eq!(question.traffic_class, Some(46 << 2));
        service.answer(b"answer", &question).expect("answer");
        let answer = next(&client, &mut bytes, |_, text| text == b"answer");
        assert_eq!((answer.ttl, answer.traffic_class), (Some(255), Some(46 << 2)));
    }
}
