//! A far end that speaks the protocol well and lies about its counts: a relay in front of an honest
//! one, which alters its messages.

use crate::fake::FakePeer;
use crate::far_end::{FarEnd, HUNG, options, short};
use longhaul_model::report::v1::observation::StreamEnd;
use longhaul_model::report::v1::plan::{RunDirection, ThroughputPlan};
use longhaul_probe::probe_error::ProbeError;
use longhaul_probe::secure::{TlsHandshake, TlsIdentity};
use longhaul_probe::supervise::StopFlag;
use longhaul_probe::throughput::{self, TargetHost, ThroughputOutcome};
use longhaul_probe::wire::ControlMessage;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// The time for which a relay waits for one end, before it looks at the other.
const TURN: Duration = Duration::from_millis(1);

/// Copies from one socket to the other until the first one ends.
fn relay_payload(mut from: TcpStream, mut to: TcpStream) {
    std::thread::spawn(move || {
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
}

/// Relays one session to the honest server, whose messages `alter` changes.
fn relay_session(listener: &TcpListener, server: SocketAddr, alter: impl Fn(&mut ControlMessage)) {
    let (control, _) = listener.accept().expect("the client connects");
    listener.set_nonblocking(true).expect("a listener");
    let identity = TlsIdentity::generate().expect("a certificate can be made");
    let mut client = FakePeer::over(control, TlsHandshake::Server(&identity));
    let mut far = FakePeer::connect(server);
    let deadline = Instant::now() + HUNG;
    while !client.is_cut() && Instant::now() < deadline {
        while let Ok((near, _)) = listener.accept() {
            let far = TcpStream::connect(server).expect("the server listens");
            let clones = || Ok::<_, io::Error>((near.try_clone()?, far.try_clone()?));
            let (near_reader, far_writer) = clones().expect("descriptors");
            relay_payload(near_reader, far_writer);
            relay_payload(far, near);
        }
        for message in client.hear_for(TURN) {
            far.say(&message);
        }
        for mut message in far.hear_for(TURN) {
            alter(&mut message);
            client.say(&message);
        }
    }
}

/// Runs a plan with a server whose stream results are altered.
fn run_with_lie(
    plan: &ThroughputPlan,
    alter: impl Fn(&mut StreamEnd) + Send + 'static,
) -> Result<ThroughputOutcome, ProbeError> {
    let honest = FarEnd::start(options());
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    let server = honest.address;
    let relay = std::thread::spawn(move || {
        relay_session(&listener, server, |message| {
            if let ControlMessage::Stream(result) = message {
                alter(&mut result.end);
            }
        });
    });
    let target = TargetHost { port, connect_timeout: HUNG, ..TargetHost::new("127.0.0.1") };
    let outcome = throughput::run(&target, plan, &StopFlag::default(), &mut |_| {});
    relay.join().expect("the relay ends with the client");
    outcome
}

fn contradiction(outcome: Result<ThroughputOutcome, ProbeError>) -> String {
    match outcome {
        Err(error @ ProbeError::Contradiction { .. }) => {
            assert_eq!(error.exit_code(), 3);
            error.to_string()
        }
        Err(other) => panic!("another error: {other}"),
        Ok(_) => panic!("the lie is believed"),
    }
}

#[test]
fn the_results_of_an_honest_server_behind_a_relay_are_believed() {
    let plan = ThroughputPlan { direction: RunDirection::Both, streams: 2, ..short() };
    let outcome = run_with_lie(&plan, |_| {}).expect("a run");
    assert!(outcome.observation.ends.receiver.bytes > 0);
}

#[test]
fn a_server_that_claims_a_thousand_times_what_was_sent_gives_no_result() {
    let lie = |end: &mut StreamEnd| {
        end.bytes *= 1000;
        for sample in &mut end.samples {
            sample.bytes *= 1000;
        }
    };
    for direction in [RunDirection::Forward, RunDirection::Both] {
        let what = contradiction(run_with_lie(&ThroughputPlan { direction, ..short() }, lie));
        assert!(what.contains("received, but only"), "{what}");
    }
    println!("attack: tried 1");
}

#[test]
fn a_server_that_claims_bytes_before_they_were_sent_gives_no_result() {
    let lie = |end: &mut StreamEnd| {
        end.duration_us /= 1000;
        end.samples.clear();
    };
    let what = contradiction(run_with_lie(&short(), lie));
    assert!(what.contains("had been sent"), "{what}");
    println!("attack: tried 1");
}

#[test]
fn a_sender_that_claims_less_than_arrived_here_gives_no_result() {
    let plan = ThroughputPlan { direction: RunDirection::Reverse, ..short() };
    contradiction(run_with_lie(&plan, |end| end.bytes /= 2));
    println!("attack: tried 1");
}
