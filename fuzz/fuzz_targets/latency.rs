//! Arbitrary bytes as packets of STAMP and TWAMP Light: an answer has the length of its packet, can be
//! decoded, and is not answered itself. The same bytes are messages of a server of TWAMP-Control, and of a
//! client, whose sessions are within the limits.

#![no_main]

use libfuzzer_sys::fuzz_target;
use longhaul_probe::latency::control_cipher::TwampKey;
use longhaul_probe::latency::control_messages::TwampSessionRequest;
use longhaul_probe::latency::control_server::{ControlServerOptions, TwampControlServer};
use longhaul_probe::latency::control_session::TwampControlClient;
use longhaul_probe::latency::reflector_state::{ReflectorArrival, ReflectorState};
use longhaul_probe::latency::session_table::SharedTwampSessions;
use longhaul_probe::latency::test_packet::{PacketCodec, PacketKey};
use longhaul_probe::latency::wire_time::{ErrorEstimate, decode_time};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

const RECEIVED_NS: u64 = 1_795_842_000_000_000_000;

fuzz_target!(|bytes: &[u8]| {
    let Some((&[mode], packet)) = bytes.split_first_chunk() else {
        return;
    };
    let request = TwampSessionRequest {
        is_ipv6: false,
        sender_port: 1,
        reflector_port: 862,
        payload_bytes: 44,
        timeout: Duration::ZERO,
        dscp: None,
    };
    let keys =
        if mode & 4 == 0 { Vec::new() } else { TwampKey::parse_lines("joe key").expect("a key") };
    let (mut client, mut rest) = (TwampControlClient::new(request, keys.first().cloned()), packet);
    while let Some((message, more)) =
        client.expected_bytes().and_then(|it| rest.split_at_checked(it))
    {
        if client.answer_message(message).is_err() {
            break;
        }
        rest = more;
    }
    serve_client(keys, packet);
    let codec = PacketCodec::new((mode & 1 != 0).then(|| PacketKey::new(b"key")));
    let mut state = ReflectorState::new(Some(codec.clone()), mode & 2 != 0, Arc::default());
    if let Some(reply) = codec.decode_reply(packet) {
        decode_time(reply.received, reply.error.format);
        reply.error.encode();
    }
    let from = ([192, 0, 2, mode], 40_000).into();
    let arrival = ReflectorArrival { from, received_ns: RECEIVED_NS, ttl: mode };
    let mut answer = |packet: &mut Vec<u8>| {
        let error = ErrorEstimate::decode(0x8001);
        state.answer(packet, &arrival, Duration::ZERO, error, || RECEIVED_NS + 1000)
    };
    let mut reflected = packet.to_vec();
    if answer(&mut reflected) {
        assert_eq!(reflected.len(), packet.len());
        let reply = codec.decode_reply(&reflected).expect("it is authentic");
        assert_eq!(Some(reply.request), codec.decode_request(packet));
        assert!(!answer(&mut reflected));
    }
});

/// Reads the bytes as messages of a client.
fn serve_client(keys: Vec<TwampKey>, mut bytes: &[u8]) {
    let [client, own]: [SocketAddr; 2] = [1, 2].map(|host| ([192, 0, 2, host], 862).into());
    let options = ControlServerOptions { keys, reflector_port: 862, started_ns: RECEIVED_NS };
    let Some(mut server) = TwampControlServer::new(Arc::new(options), 1, client, own) else {
        return;
    };
    let sessions = SharedTwampSessions::default();
    while let Some((message, rest)) =
        server.expected_bytes().and_then(|length| bytes.split_at_checked(length))
    {
        let answer = server.answer_message(message, &sessions, Duration::ZERO);
        assert!(answer.len() <= 48);
        bytes = rest;
    }
    assert!(sessions.lock().count_sessions() <= 64);
}
