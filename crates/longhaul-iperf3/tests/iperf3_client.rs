//! The client of iperf3's wire against servers that go wrong: every test ends, and says how.

use longhaul_iperf3::client_run::{
    self, ClientAction, ClientInput, ClientProtocol, ClientStep, ClientTestEnd, Iperf3RunError,
};
use longhaul_iperf3::iperf3_messages::{
    Iperf3Error, ServerRefusal, StreamResults, TestCookie, TestParameters, TestResults, TestState,
    encode_message,
};
use longhaul_model::report::v1::plan::{RunDirection, RunTransport, StopCondition, ThroughputPlan};
use longhaul_probe::probe_error::ProbeError;
use longhaul_probe::supervise::StopFlag;
use longhaul_probe::throughput::TargetHost;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;
use std::time::Duration;

const GREETING: Duration = Duration::from_secs(10);
/// Longer than any step of a test.
const LONG: Duration = Duration::from_secs(200);

fn client() -> ClientProtocol {
    let cookie = TestCookie([b'a'; 37]);
    ClientProtocol::new(cookie, TestParameters::default(), GREETING)
}

fn closed(actions: &[ClientAction]) -> Option<&ClientTestEnd> {
    actions.iter().find_map(|action| match action {
        ClientAction::Close(closed) => Some(closed),
        _ => None,
    })
}

fn said(client: &mut ClientProtocol, states: &[TestState]) -> Vec<ClientAction> {
    let bytes: Vec<u8> = states.iter().map(|state| state.byte()).collect();
    client.handle(Duration::ZERO, ClientInput::Bytes(&bytes))
}

/// As far as payload flows.
fn running() -> ClientProtocol {
    let mut client = client();
    client.handle(Duration::ZERO, ClientInput::Start);
    said(&mut client, &[TestState::ParameterExchange]);
    let opening = said(&mut client, &[TestState::CreateStreams]);
    assert_eq!(opening, [ClientAction::OpenStreams]);
    client.handle(Duration::ZERO, ClientInput::StreamsOpen);
    let glued = said(&mut client, &[TestState::TestStart, TestState::TestRunning]);
    assert_eq!(glued, [ClientAction::Ready, ClientAction::Go]);
    client
}

fn results() -> Vec<u8> {
    let results = TestResults {
        streams: vec![StreamResults { id: 1, bytes: 7, ..StreamResults::default() }],
        ..TestResults::default()
    };
    encode_message(&results, 1 << 20).expect("small")
}

#[test]
fn a_test_goes_its_way_and_the_last_word_may_be_glued_to_the_results() {
    let mut client = running();
    let over = ClientInput::Moved { bytes: 7, over: true };
    let ended = client.handle(Duration::ZERO, over);
    assert_eq!(ended, [ClientAction::Send(vec![TestState::TestEnd.byte()])]);
    assert_eq!(said(&mut client, &[TestState::ExchangeResults]), [ClientAction::Collect]);
    client.handle(Duration::ZERO, ClientInput::Collected(Box::default()));
    let mut last = results();
    last.push(TestState::DisplayResults.byte());
    let actions = client.handle(Duration::ZERO, ClientInput::Bytes(&last));
    let done = ClientAction::Send(vec![TestState::Done.byte()]);
    assert_eq!(actions, [done, ClientAction::Close(ClientTestEnd::Finished)]);
    let told = client.take_results().expect("the server's results");
    assert_eq!(told.streams[0].bytes, 7);
}

#[test]
fn each_way_to_say_no_is_told_apart() {
    let mut busy = client();
    let actions = said(&mut busy, &[TestState::AccessDenied]);
    assert_eq!(closed(&actions), Some(&ClientTestEnd::Busy));
    let mut refused = client();
    said(&mut refused, &[TestState::ParameterExchange, TestState::ServerError]);
    let refusal = ServerRefusal::from(Iperf3Error::DurationAboveLimit);
    let (front, back) = (&refusal.encode()[..3], &refusal.encode()[3..]);
    assert_eq!(refused.handle(Duration::ZERO, ClientInput::Bytes(front)), []);
    let actions = refused.handle(Duration::ZERO, ClientInput::Bytes(back));
    let step = ClientStep::Asking;
    assert_eq!(closed(&actions), Some(&ClientTestEnd::Refused { step, refusal }));
    let text = closed(&actions).expect("closed").to_string();
    assert!(text.contains("above the server's limit"), "{text}");
    let actions = said(&mut running(), &[TestState::ServerTerminate]);
    let step = ClientStep::Running;
    assert_eq!(closed(&actions), Some(&ClientTestEnd::Terminated { step }));
}

#[test]
fn every_step_has_its_time_and_frees_the_server_when_it_is_over() {
    let mut silent = running();
    let deadline = silent.next_deadline().expect("a deadline");
    assert_eq!(silent.handle(deadline / 2, ClientInput::Tick), []);
    let moved = ClientInput::Moved { bytes: 1, over: false };
    silent.handle(deadline / 2, moved);
    assert_eq!(silent.handle(deadline, ClientInput::Tick), [], "payload moved since");
    let actions = silent.handle(deadline * 2, ClientInput::Tick);
    let step = ClientStep::Running;
    let bye = ClientAction::Send(vec![TestState::ClientTerminate.byte()]);
    assert_eq!(actions, [bye, ClientAction::Close(ClientTestEnd::TimedOut { step })]);
    assert_eq!(silent.next_deadline(), None);
}

/// A server that hangs up on as many clients as are `shunned`, says these bytes to the next, one
/// after each of its messages, and then nothing.
fn hostile(shunned: usize, words: &'static [&'static [u8]]) -> (u16, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    let thread = std::thread::spawn(move || {
        for _ in 0..shunned {
            drop(listener.accept().expect("a client"));
        }
        let (mut peer, _) = listener.accept().expect("the client");
        let mut bytes = [0; 4096];
        for word in words {
            if peer.read(&mut bytes).unwrap_or(0) == 0 || peer.write_all(word).is_err() {
                return;
            }
        }
        // Until the client has had enough.
        while peer.read(&mut bytes).is_ok_and(|count| count > 0) {}
    });
    (port, thread)
}

fn against(words: &'static [&'static [u8]], plan: &ThroughputPlan) -> ClientTestEnd {
    against_shy(0, words, plan, LONG)
}

fn against_shy(
    shunned: usize,
    words: &'static [&'static [u8]],
    plan: &ThroughputPlan,
    connect_timeout: Duration,
) -> ClientTestEnd {
    let (port, thread) = hostile(shunned, words);
    let target = TargetHost { port, connect_timeout, ..TargetHost::new("127.0.0.1") };
    let error =
        client_run::run(&target, plan, None, Duration::ZERO, &StopFlag::default(), &mut |_| {})
            .expect_err("no result");
    thread.join().expect("the server");
    match error {
        Iperf3RunError::Test { closed, .. } => closed,
        Iperf3RunError::Probe(other) => panic!("{other:?}"),
    }
}

#[test]
fn silence_garbage_and_endless_results_end_a_run() {
    let plan = ThroughputPlan::default();
    let silent = against_shy(0, &[], &plan, Duration::from_secs(1));
    assert!(matches!(silent, ClientTestEnd::TimedOut { step: ClientStep::Greeting }), "{silent}");
    let web = against(&[b"HTTP/1.1 400 Bad Request\r\n\r\n"], &plan);
    assert!(matches!(web, ClientTestEnd::Violation { .. }), "{web}");
    let hung_up = against(&[&[9], &[200]], &plan);
    assert!(
        matches!(hung_up, ClientTestEnd::Violation { step: ClientStep::Asking, .. }),
        "{hung_up}"
    );
    let hasty = against(&[&[9], &[10, 13]], &plan);
    let step = hasty.to_string();
    assert!(matches!(hasty, ClientTestEnd::Violation { .. } | ClientTestEnd::Failed(_)), "{step}");
}

#[test]
fn a_server_that_hung_up_between_two_tests_is_asked_again() {
    let closed = against_shy(2, &[&[9], &[200]], &ThroughputPlan::default(), LONG);
    assert!(
        matches!(closed, ClientTestEnd::Violation { step: ClientStep::Asking, .. }),
        "{closed}"
    );
}

#[test]
fn udp_that_nobody_answers_ends_the_run() {
    let plan = ThroughputPlan {
        transport: RunTransport::Udp { rate_bps: 1_000_000 },
        direction: RunDirection::Reverse,
        stop: StopCondition::TimeUs(500_000),
        ..ThroughputPlan::default()
    };
    let closed = against_shy(0, &[&[9], &[10]], &plan, Duration::from_secs(3));
    let ClientTestEnd::Failed(why) = closed else {
        panic!("{closed}");
    };
    assert!(why.contains("UDP stream 0") && why.contains("no answer"), "{why}");
}

#[test]
fn what_no_iperf3_server_does_is_refused_before_a_connection() {
    let plan = ThroughputPlan { read_rate_bps: Some(1_000_000), ..ThroughputPlan::default() };
    let target = TargetHost::new("no-such-host.invalid");
    let error =
        client_run::run(&target, &plan, None, Duration::ZERO, &StopFlag::default(), &mut |_| {})
            .expect_err("no such test");
    assert!(matches!(error, Iperf3RunError::Probe(ProbeError::Plan(_))), "{error:?}");
}
