//! The server against this program's client and against messages built octet by octet.

use super::*;
use crate::latency::control_messages::{ACCEPTED, RESOURCES_NEVER, RESOURCES_NOW, encode_command};
use crate::latency::control_session::TwampControlClient;
use crate::latency::reflector_state::{ReflectorArrival, ReflectorState};
use crate::latency::session_table::SharedTwampSessions;
use crate::latency::test_packet::TestRequest;
use crate::latency::wire_time::ErrorEstimate;
use longhaul_model::report::v1::latency::LatencyProtocol;
use proptest::prelude::*;

const NOW: Duration = Duration::from_secs(100);
const REQUEST: TwampSessionRequest = TwampSessionRequest {
    is_ipv6: false,
    sender_port: 40_000,
    reflector_port: 0,
    payload_bytes: 112,
    timeout: Duration::from_secs(2),
    dscp: Some(46),
};

fn client_address() -> SocketAddr {
    ([192, 0, 2, 1], 50_000).into()
}

fn own_address() -> SocketAddr {
    ([192, 0, 2, 9], 862).into()
}

fn keys(text: &str) -> Vec<TwampKey> {
    TwampKey::parse_lines(text).expect("keys")
}

fn server(keys: Vec<TwampKey>) -> TwampControlServer {
    let options = ControlServerOptions { keys, reflector_port: 8862, started_ns: 1 };
    TwampControlServer::new(Arc::new(options), 7, client_address(), own_address())
        .expect("random bytes")
}

/// The two ends of a connection.
struct ConnectedPair {
    client: TwampControlClient,
    server: TwampControlServer,
    sessions: SharedTwampSessions,
}

impl ConnectedPair {
    /// Exchanges messages until the session has started, with these modes in the greeting.
    fn connect(server_keys: &str, key: Option<&str>, modes: u8) -> Result<ConnectedPair, String> {
        let server_keys = if server_keys.is_empty() { Vec::new() } else { keys(server_keys) };
        let mut pair = ConnectedPair {
            client: TwampControlClient::new(REQUEST, key.map(|text| keys(text).remove(0))),
            server: server(server_keys),
            sessions: Arc::default(),
        };
        let mut greeting = pair.server.greeting();
        greeting[15] &= modes;
        let mut message = greeting.to_vec();
        while pair.client.expected_bytes().is_some() {
            let answer = pair.client.answer_message(&message)?;
            message = pair.send(&answer);
        }
        Ok(pair)
    }

    /// Sends bytes of the client to the server, and returns its answers.
    fn send(&mut self, mut bytes: &[u8]) -> Vec<u8> {
        let mut answers = Vec::new();
        while let Some((part, rest)) =
            self.server.expected_bytes().and_then(|length| bytes.split_at_checked(length))
        {
            answers.extend(self.server.answer_message(part, &self.sessions, NOW));
            bytes = rest;
        }
        answers
    }
}

#[test]
fn a_session_is_set_up_and_reflected_in_every_mode() {
    for (server_keys, key, modes) in [
        ("", None, 0xff),
        ("joe a passphrase", Some("joe a passphrase"), 0xff),
        // The encrypted one alone.
        ("joe a passphrase", Some("joe a passphrase"), 4),
    ] {
        let mut pair = ConnectedPair::connect(server_keys, key, modes).expect("a session");
        assert_eq!(pair.client.reflector_port(), 8862);
        assert!(pair.server.is_running());
        let stop = pair.client.stop_message();
        let codec = PacketCodec::for_session(pair.client.test_key());
        let mut reflector = ReflectorState::new(None, false, Arc::clone(&pair.sessions));
        let request = TestRequest { sequence: 5, timestamp: 77, error: 1, session: 0 };
        let mut ask_short = |port: u16, length: usize, now: Duration| {
            let mut packet = vec![0; 112];
            codec.encode_request(&request, LatencyProtocol::Twamp, &mut packet);
            packet.truncate(length);
            let from = (client_address().ip(), port).into();
            let arrival = ReflectorArrival { from, received_ns: 1, ttl: 250 };
            let error = ErrorEstimate::decode(0x8001);
            let is_answered = reflector.answer(&mut packet, &arrival, now, error, || 2);
            is_answered.then(|| codec.decode_reply(&packet).expect("an answer"))
        };
        // Without padding the answer is longer.
        let shortest = if key.is_some() { 48 } else { 14 };
        assert_eq!(ask_short(40_000, shortest - 1, NOW), None);
        assert_eq!(ask_short(40_000, shortest, NOW).map(|it| it.request), Some(request));
        let mut ask = |port: u16, now: Duration| ask_short(port, 112, now);
        // The reflector counts.
        let sequences = [0, 1].map(|_| ask(40_000, NOW).map(|it| (it.sequence, it.request)));
        assert_eq!(sequences, [Some((1, request)), Some((2, request))]);
        assert_eq!(ask(40_001, NOW), None);
        assert!(pair.send(&stop).is_empty());
        assert!(!pair.server.is_running() && pair.server.is_idle());
        assert!(ask(40_000, NOW + Duration::from_secs(1)).is_some());
        assert_eq!(ask(40_000, NOW + Duration::from_secs(2)), None);
    }
}

#[test]
fn clients_without_the_right_key_are_refused() {
    for (server_keys, key, part) in [
        ("joe right", Some("joe wrong"), "refuses the connection"),
        ("joe right", Some("ann right"), "refuses the connection"),
        ("joe right", None, "no unauthenticated mode (modes 0x6)"),
        ("", Some("joe right"), "no authenticated mode (modes 0x1)"),
    ] {
        let failed = ConnectedPair::connect(server_keys, key, 0xff).map(|_| ());
        let why = failed.expect_err("refused");
        assert!(why.contains(part), "{why}");
    }
}

#[test]
fn a_command_with_a_changed_octet_ends_the_connection() {
    for at in 0..COMMAND_BYTES {
        let mut pair =
            ConnectedPair::connect("joe secret", Some("joe secret"), 0xff).expect("a session");
        let mut stop = pair.client.stop_message();
        stop[at] ^= 1;
        assert!(pair.send(&stop).is_empty(), "octet {at}");
        assert_eq!(pair.server.expected_bytes(), None, "octet {at}");
    }
}

/// Returns the server's refusal of a session whose request has other octets at an offset.
fn refusal_of(at: usize, octets: &[u8]) -> u8 {
    let mut pair = ConnectedPair {
        client: TwampControlClient::new(REQUEST, None),
        server: server(Vec::new()),
        sessions: Arc::default(),
    };
    let mut setup = [0; SETUP_BYTES];
    setup[3] = 1;
    assert_eq!(pair.send(&setup)[15], ACCEPTED);
    let mut request = REQUEST.encode(TwampMode::Unauthenticated, 1);
    request[at..at + octets.len()].copy_from_slice(octets);
    let accept = pair.send(&request);
    let is_refused = accept[0] != ACCEPTED;
    let started = pair.send(&encode_command(START_SESSIONS));
    assert_eq!(started[0], if is_refused { REFUSED } else { ACCEPTED });
    accept[0]
}

#[test]
fn sessions_are_between_the_addresses_of_the_connection_and_within_the_limits() {
    let padding = |bytes: u32| bytes.to_be_bytes();
    for (at, octets, expected) in [
        (16, &[192, 0, 2, 1][..], ACCEPTED),
        (16, &[192, 0, 2, 2], NOT_SUPPORTED),
        (32, &[192, 0, 2, 9], ACCEPTED),
        (32, &[192, 0, 2, 10], NOT_SUPPORTED),
        // The other family, a sender of OWAMP, a schedule, no port, a PHB.
        (1, &[6], NOT_SUPPORTED),
        (2, &[1], NOT_SUPPORTED),
        (7, &[1], NOT_SUPPORTED),
        (12, &[0, 0], NOT_SUPPORTED),
        (84, &[0x40], NOT_SUPPORTED),
        // The longest packet, and one that is too long.
        (64, &padding(0), ACCEPTED),
        (64, &padding(8986), ACCEPTED),
        (64, &padding(8987), RESOURCES_NEVER),
        (64, &padding(u32::MAX), RESOURCES_NEVER),
    ] {
        assert_eq!(refusal_of(at, octets), expected, "{octets:?} at {at}");
    }
}

#[test]
fn a_connection_and_a_source_have_a_limit_of_sessions() {
    let mut sessions = TwampSessionTable::default();
    let codec = || PacketCodec::for_session(None);
    let mut open = |connection, host, port: u16| {
        let sender = ([192, 0, 2, host], port).into();
        sessions.open(connection, sender, &REQUEST, codec(), NOW)
    };
    for port in 1..=64 {
        assert_eq!(open(port.into(), 1, port), Ok(()));
    }
    assert_eq!(open(1, 1, 65), Err(RESOURCES_NOW));
    assert_eq!(open(1, 2, 1), Ok(()));
    // Of another connection.
    assert_eq!(open(2, 2, 1), Err(RESOURCES_NOW));
    sessions.close(1);
    assert!(sessions.open(1, ([192, 0, 2, 1], 1).into(), &REQUEST, codec(), NOW).is_ok());
}

proptest! {
    #[test]
    fn any_messages_are_answered_or_end_the_connection(
        parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..8),
        with_keys in any::<bool>(),
        is_set_up in any::<bool>(),
    ) {
        let mut server = server(if with_keys { keys("joe secret") } else { Vec::new() });
        let sessions = Mutex::default();
        let mut setup = vec![0; SETUP_BYTES];
        setup[3] = 1;
        for part in is_set_up.then_some(setup).iter().chain(&parts) {
            let expected = server.expected_bytes();
            let answer = server.answer_message(part, &sessions, NOW);
            prop_assert!(answer.len() <= ACCEPT_BYTES);
            if expected.is_none() {
                prop_assert!(answer.is_empty());
            }
        }
    }
}
