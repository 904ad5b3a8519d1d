//! What goes wrong between two hosts: each ends in a named error before its deadline, and the far
//! end takes the next peer at once.

use crate::fake::{FakeFarEnd, FakePeer};
use crate::far_end::{FarEnd, brief, options, patient, short};
use longhaul_model::report::v1::plan::{RunDirection, RunTransport, StopCondition, ThroughputPlan};
use longhaul_model::report::v1::{ReportCaveat, RunParty};
use longhaul_probe::measurement_server::{
    AnonymousLimits, MeasurementServer, ServeEvent, ServeOptions,
};
use longhaul_probe::probe_error::{ProbeError, ServeError, TokenFailure};
use longhaul_probe::session::SessionState;
use longhaul_probe::supervise::StopFlag;
use longhaul_probe::throughput::{self, IpFamily, TargetHost};
use longhaul_probe::wire::{
    ByeReason, ControlMessage, DATA_STREAM, HelloMessage, ProtocolVersions, RunProposal,
    SessionNonce, StreamPreamble, TokenProof,
};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::sync::Barrier;
use std::time::Duration;

const TOKEN: &str = "a token of more than sixteen characters";

fn fails(target: &TargetHost, plan: &ThroughputPlan) -> ProbeError {
    throughput::run(target, plan, &StopFlag::default(), &mut |_| {}).expect_err("this cannot work")
}

fn still_serves(far: &FarEnd) {
    far.run(&brief()).expect("the far end serves the next peer");
}

#[test]
fn hosts_ports_and_families_that_are_not_there() {
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = free.local_addr().expect("it is bound").port();
    drop(free);
    let closed = TargetHost { port, ..TargetHost::new("127.0.0.1") };
    let error = fails(&closed, &short());
    assert!(matches!(&error, ProbeError::Connect { .. }), "{error:?}");
    assert!(error.hint().is_some_and(|hint| hint.contains("longhaul serve")));
    assert_eq!(error.exit_code(), 3);
    let unknown = TargetHost::new("no-such-host.invalid");
    assert!(matches!(fails(&unknown, &short()), ProbeError::Resolve { .. }));
    let other = TargetHost { family: Some(IpFamily::V6), ..closed };
    assert!(matches!(fails(&other, &short()), ProbeError::Resolve { .. }));
}

#[test]
fn a_connection_of_one_byte_is_over_when_its_peer_is_gone() {
    let far = FarEnd::start(options());
    let mut knock = far.connect();
    knock.write_all(&DATA_STREAM[..1]).expect("the far end reads");
    knock.shutdown(std::net::Shutdown::Write).expect("a connection");
    let why = far.dismissed();
    assert!(why.contains("unexpected end of file"), "{why}");
    still_serves(&far);
}

#[test]
fn a_preamble_in_single_bytes_is_waited_for() {
    let far = FarEnd::start(options());
    let mut slow = far.connect();
    let preamble = StreamPreamble { nonce: SessionNonce([7; 16]), index: 0, forward: true };
    for byte in preamble.encode(DATA_STREAM) {
        slow.write_all(&[byte]).expect("the far end reads");
    }
    let why = far.event(|event| match event {
        ServeEvent::StreamRefused { why, .. } => Some((*why).to_owned()),
        _ => None,
    });
    assert!(!why.contains("in time"), "{why}");
}

#[test]
fn tokens_missing_wrong_and_unproven() {
    let closed =
        FarEnd::start(ServeOptions { token: Some(TOKEN.to_owned()), anonymous: None, ..options() });
    let open = FarEnd::start(options());
    for (target, trouble) in [
        (closed.target(), TokenFailure::Missing),
        (closed.target_with("another one"), TokenFailure::Wrong),
        (open.target_with(TOKEN), TokenFailure::Unproven),
    ] {
        let error = fails(&target, &short());
        let told = matches!(&error, ProbeError::Token { what, .. } if *what == trouble);
        assert!(told, "{error:?}");
        assert_eq!(error.exit_code(), 3);
    }
    still_serves(&open);
}

#[test]
fn plans_beyond_the_limits_are_refused_with_the_limit_named() {
    let far = FarEnd::start(ServeOptions {
        anonymous: Some(AnonymousLimits { streams: 2, ..AnonymousLimits::default() }),
        ..options()
    });
    let error = fails(&far.target(), &ThroughputPlan { streams: 3, ..short() });
    let text = error.to_string();
    assert!(matches!(error, ProbeError::Refused { .. }) && text.contains("at most 2"), "{text}");
    let error = fails(&far.target(), &ThroughputPlan { streams: 1_000_000, ..short() });
    assert_eq!(error.exit_code(), 2, "refused before it leaves this host: {error}");
    still_serves(&far);
}

#[test]
fn a_million_streams_asked_by_a_peer_without_manners() {
    let far = FarEnd::start(ServeOptions { token: Some(TOKEN.to_owned()), ..options() });
    let mut peer = FakePeer::connect(far.address);
    peer.prove(TOKEN);
    let plan = ThroughputPlan { streams: 1_000_000, ..short() };
    let propose = RunProposal { plan, party: RunParty::default(), boot_proof: None };
    peer.say(&ControlMessage::Propose(Box::new(propose)));
    let refused =
        peer.hear_until(|message| matches!(message, ControlMessage::Bye(ByeReason::Refused(_))));
    let ControlMessage::Bye(ByeReason::Refused(what)) = refused else {
        unreachable!("that is what was waited for");
    };
    assert!(what.contains("streams 1000000") && what.contains("128"), "{what}");
}

#[test]
fn strangers_beyond_the_number_allowed_are_told_to_come_again() {
    let far = FarEnd::start(ServeOptions {
        anonymous: Some(AnonymousLimits { concurrent: 1, ..AnonymousLimits::default() }),
        ..options()
    });
    // In the midst of the first one, which waits for it.
    let mut told = None;
    far.run_watched(&short(), &mut |progress| {
        if progress.state as u8 >= SessionState::Opening as u8 && told.is_none() {
            told = Some(fails(&far.target(), &short()).to_string());
        }
    });
    assert!(told.is_some_and(|it| it.contains("at the same time")));
    far.session_closed();
    far.session_closed();
    still_serves(&far);
}

#[test]
fn another_version_at_either_end_names_both() {
    let newer = ProtocolVersions { least: 7, most: 9 };
    let fake = FakeFarEnd::start(move |peer| {
        peer.say(&ControlMessage::Hello(HelloMessage {
            versions: newer,
            longhaul: "9.0".to_owned(),
        }));
        peer.hear_until(|message| matches!(message, ControlMessage::Bye(_)));
    });
    let error = fails(&fake.target(), &short());
    let text = error.to_string();
    assert_eq!(error.exit_code(), 4, "{text}");
    assert!(text.contains("7 to 9") && text.contains("this program speaks 4"), "{text}");

    let far = FarEnd::start(options());
    let mut peer = FakePeer::connect(far.address);
    peer.say(&ControlMessage::Hello(HelloMessage { versions: newer, longhaul: "9.0".to_owned() }));
    let bye = peer.hear_until(|message| matches!(message, ControlMessage::Bye(_)));
    assert_eq!(bye, ControlMessage::Bye(ByeReason::Version(ProtocolVersions::OURS)));
    still_serves(&far);
}

#[test]
fn something_else_listens_there() {
    let fake = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = fake.local_addr().expect("it is bound").port();
    let other = std::thread::spawn(move || {
        let (mut stream, _) = fake.accept().expect("the initiator connects");
        stream.write_all(b"SSH-2.0-OpenSSH_9.9\r\n").expect("it listens");
        let mut rest = Vec::new();
        // Until the initiator has had enough.
        let _ = stream.read_to_end(&mut rest);
    });
    let target = TargetHost { port, ..TargetHost::new("127.0.0.1") };
    let error = fails(&target, &short());
    assert!(matches!(error, ProbeError::Tls { .. }), "{error:?}");
    other.join().expect("it saw the end");
}

#[test]
fn strange_first_bytes_are_dismissed() {
    let far = FarEnd::start(options());
    far.connect().write_all(b"\x00\x01\x02\x03").expect("it accepts");
    assert!(far.dismissed().contains("unknown protocol"));
    drop(far.connect());
    assert!(far.dismissed().contains("did not arrive"));
    // A TLS record that is none, and one that is cut.
    far.connect().write_all(b"\x16\x03\x01\x00\x05hello").expect("it accepts");
    assert!(far.dismissed().contains("TLS"));
    still_serves(&far);
}

#[test]
fn garbage_where_a_message_should_be_ends_the_session_at_every_step() {
    let far = FarEnd::start(options());
    let garbage: [&[u8]; 4] = [
        b"\x00\x00\x00\x05hello",
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x02[]",
        b"\x00\x00\x00\x07\"bogus\"",
    ];
    for bytes in garbage {
        for step in 0..3 {
            let mut peer = FakePeer::connect(far.address);
            match step {
                0 => {}
                1 => peer.greet(),
                _ => {
                    peer.negotiate(&short());
                }
            }
            peer.say_bytes(bytes);
            peer.hear_until(|message| {
                matches!(message, ControlMessage::Bye(ByeReason::Violation(_)))
            });
            let reason = far.session_closed();
            assert!(reason.contains("violated the protocol"), "{reason}");
            println!("attack: tried 1");
        }
    }
    still_serves(&far);
}

#[test]
fn messages_out_of_order_and_truncated_end_the_session() {
    let far = FarEnd::start(options());
    let mut peer = FakePeer::connect(far.address);
    peer.say(&ControlMessage::Ping { number: 0 });
    peer.hear_until(|message| matches!(message, ControlMessage::Bye(ByeReason::Violation(_))));
    assert!(far.session_closed().contains("`ping` while greeting"));
    let mut peer = FakePeer::connect(far.address);
    peer.greet();
    peer.say_bytes(b"\x00\x00\x01\x00{\"propose\":");
    drop(peer);
    assert!(far.session_closed().contains("negotiating the plan"));
    still_serves(&far);
}

#[test]
fn a_far_end_that_talks_nonsense_is_named_with_the_step() {
    let fake = FakeFarEnd::start(|peer| {
        peer.say(&ControlMessage::Hello(HelloMessage {
            versions: ProtocolVersions::OURS,
            longhaul: String::new(),
        }));
        peer.say(&ControlMessage::Drained);
        peer.hear_until(|message| matches!(message, ControlMessage::Bye(_)));
    });
    let error = fails(&fake.target(), &short());
    assert!(
        matches!(&error, ProbeError::PeerLost { step: SessionState::Proving, .. }),
        "{error:?}"
    );
}

#[test]
fn a_far_end_that_falls_silent_ends_by_the_steps_deadline() {
    let fake = FakeFarEnd::start(|peer| {
        peer.say(&ControlMessage::Hello(HelloMessage {
            versions: ProtocolVersions::OURS,
            longhaul: String::new(),
        }));
        peer.wait_for_the_end();
    });
    let error = fails(&fake.target(), &short());
    assert!(matches!(&error, ProbeError::Timeout { step: SessionState::Proving, .. }), "{error:?}");
}

#[test]
fn a_peer_that_never_greets_is_given_up() {
    let far = FarEnd::start(options());
    let peer = FakePeer::connect(far.address);
    let reason = far.session_closed();
    assert!(reason.contains("timed out while greeting"), "{reason}");
    drop(peer);
}

#[test]
fn a_preamble_a_byte_at_a_time_gains_no_time() {
    let far = FarEnd::start(options());
    let mut stream = far.connect();
    // The pace of the slow peer; the far end's hanging up ends it.
    stream.set_read_timeout(Some(Duration::from_secs(2))).expect("a socket");
    let preamble = StreamPreamble { nonce: SessionNonce([1; 16]), index: 0, forward: true };
    let bytes = preamble.encode(DATA_STREAM);
    stream.write_all(&bytes[..4]).expect("it accepts");
    for &byte in &bytes[4..] {
        if stream.write_all(&[byte]).is_err() {
            break;
        }
        let mut nothing = [0];
        let timed_out = io::ErrorKind::WouldBlock;
        if !stream.read(&mut nothing).is_err_and(|error| error.kind() == timed_out) {
            break;
        }
    }
    let why = far.dismissed();
    assert_eq!(why, "its first bytes did not arrive in time");
    still_serves(&far);
}

#[test]
fn a_data_connection_needs_the_sessions_nonce() {
    let far = FarEnd::start(options());
    let mut peer = FakePeer::connect(far.address);
    let nonce = peer.negotiate(&short());
    let refused = |preamble: StreamPreamble| {
        let mut stream = far.connect();
        stream.write_all(&preamble.encode(DATA_STREAM)).expect("it accepts");
        far.event(|event| match event {
            ServeEvent::StreamRefused { why, .. } => Some(*why),
            _ => None,
        })
    };
    let own = StreamPreamble { nonce, index: 0, forward: true };
    assert!(refused(StreamPreamble { nonce: SessionNonce([0; 16]), ..own }).contains("nonce"));
    assert!(refused(StreamPreamble { index: 1, ..own }).contains("no such stream"));
    assert!(refused(StreamPreamble { forward: false, ..own }).contains("no such stream"));
    let mut stream = far.connect();
    stream.write_all(&own.encode(DATA_STREAM)).expect("it accepts");
    peer.hear_until(|message| matches!(message, ControlMessage::Opened));
    assert!(refused(own).contains("already open"));
}

#[test]
fn streams_that_never_open_free_the_place() {
    let far = FarEnd::start(options());
    let mut peer = FakePeer::connect(far.address);
    peer.negotiate(&short());
    let reason = far.session_closed();
    assert!(reason.contains("timed out while opening the data streams"), "{reason}");
}

#[test]
fn datagrams_without_a_session_get_no_answer() {
    let far = FarEnd::start(options());
    let stranger = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    stranger.connect(far.address).expect("loopback");
    let preamble = StreamPreamble { nonce: SessionNonce([9; 16]), index: 0, forward: true };
    let hello = preamble.encode(longhaul_probe::wire::DATAGRAM_HELLO);
    stranger.send(&hello).expect("loopback");
    far.event(|event| matches!(event, ServeEvent::StreamRefused { .. }).then_some(()));
    stranger.set_nonblocking(true).expect("a socket");
    assert!(stranger.recv(&mut [0; 64]).is_err(), "an answer would make this an amplifier");
    let plan = ThroughputPlan { transport: RunTransport::Udp { rate_bps: 1_000_000 }, ..short() };
    far.run(&plan).expect("UDP still works");
}

#[test]
fn an_initiator_killed_in_mid_run_frees_its_place_at_once() {
    let far = FarEnd::start(ServeOptions {
        anonymous: Some(AnonymousLimits {
            concurrent: 1,
            seconds: 3600,
            ..AnonymousLimits::default()
        }),
        ..options()
    });
    for _ in 0..20 {
        let (peer, streams) = FakePeer::running(far.address, Duration::from_secs(3600));
        drop(streams);
        drop(peer);
        // By its end, and not by a deadline.
        let reason = far.session_closed();
        assert!(
            reason.contains("transferring payload") && !reason.contains("heartbeat"),
            "{reason}"
        );
        println!("attack: tried 1");
    }
    still_serves(&far);
}

#[test]
fn an_initiator_that_falls_silent_in_mid_run_is_given_up() {
    let far = FarEnd::start(patient());
    let (peer, streams) = FakePeer::running(far.address, Duration::from_secs(3600));
    let reason = far.session_closed();
    assert!(reason.contains("no heartbeat arrived"), "{reason}");
    drop((peer, streams));
}

#[test]
fn a_far_end_that_stops_in_mid_run_leaves_what_was_measured_or_an_error_with_the_step() {
    let far = FarEnd::start(patient());
    let target = far.target();
    let plan = ThroughputPlan { stop: StopCondition::TimeUs(3_600_000_000), ..short() };
    let mut far = Some(far);
    let result = throughput::run(&target, &plan, &StopFlag::default(), &mut |progress| {
        if progress.state == SessionState::Running {
            drop(far.take());
        }
    });
    let error = match result {
        Ok(outcome) => {
            // Some bytes had been acknowledged.
            assert!(outcome.observation.ends.receiver.bytes > 0);
            let codes: Vec<&str> = outcome.caveats.iter().map(|it| it.code.as_str()).collect();
            assert!(codes.contains(&ReportCaveat::PEER_LOST), "{codes:?}");
            return;
        }
        Err(error) => error,
    };
    // The data connections may break before the control connection tells.
    let lost = |step: SessionState| matches!(step, SessionState::Running | SessionState::Draining);
    assert!(matches!(&error, ProbeError::PeerFailed { step, .. } if lost(*step)), "{error:?}");
}

#[test]
fn a_crowd_of_silent_connections_does_not_shut_others_out() {
    let far = FarEnd::start(options());
    let crowd: Vec<TcpStream> = (0..80).map(|_| far.connect()).collect();
    far.run(&brief()).expect("there is room for those who speak");
    drop(crowd);
}

#[test]
fn a_crowd_of_honest_clients_loses_none() {
    // More of them, in an unoptimised program on a busy machine, wait longer than a place lasts.
    const CROWD: usize = 100;
    let limits = AnonymousLimits { concurrent: 1024, streams: 16, ..AnonymousLimits::default() };
    let far =
        FarEnd::start(ServeOptions { anonymous: Some(limits), max_sessions: 1024, ..options() });
    // They wait for each other, so that all connect at once.
    let gate = Barrier::new(CROWD);
    let crowd = || {
        gate.wait();
        let mut peer = FakePeer::connect(far.address);
        peer.negotiate(&brief());
    };
    std::thread::scope(|scope| {
        let crowd = &crowd;
        let threads: Vec<_> = (0..CROWD).map(|_| scope.spawn(crowd)).collect();
        let served = threads.into_iter().filter_map(|thread| thread.join().ok()).count();
        assert_eq!(served, CROWD);
    });
}

#[test]
fn a_port_in_use_is_a_clear_error() {
    let far = FarEnd::start(options());
    let error = MeasurementServer::bind(ServeOptions {
        port: far.address.port(),
        addresses: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
        ..ServeOptions::default()
    })
    .expect_err("the port is taken");
    assert!(matches!(&error, ServeError::Listen { protocol: "TCP", .. }), "{error:?}");
    assert!(error.hint().is_some_and(|hint| hint.contains("--port")));
}

#[test]
fn what_the_far_ends_kernel_refuses_is_told_as_its_failure() {
    let far = FarEnd::start(ServeOptions { token: Some(TOKEN.to_owned()), ..options() });
    let plan = ThroughputPlan {
        direction: RunDirection::Reverse,
        congestion_control: Some("no_such_control".to_owned()),
        ..short()
    };
    let error = fails(&far.target_with(TOKEN), &plan);
    assert!(matches!(&error, ProbeError::PeerFailed { .. }), "{error:?}");
    assert!(error.to_string().contains("no_such_control"), "{error}");
    let forward = ThroughputPlan { direction: RunDirection::Forward, ..plan };
    let error = fails(&far.target_with(TOKEN), &forward);
    assert!(matches!(&error, ProbeError::Local { .. }), "{error:?}");
    assert_eq!(error.exit_code(), 5);
    still_serves(&far);
}

#[test]
fn a_proof_for_one_connection_does_not_open_another() {
    let far =
        FarEnd::start(ServeOptions { token: Some(TOKEN.to_owned()), anonymous: None, ..options() });
    let mut peer = FakePeer::connect(far.address);
    let replayed = FakePeer::connect(far.address).proof(TOKEN);
    peer.hello();
    peer.say(&ControlMessage::Proof(TokenProof { token_proof: Some(replayed) }));
    peer.hear_until(|message| matches!(message, ControlMessage::Bye(ByeReason::TokenWrong)));
}
