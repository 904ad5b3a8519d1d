//! The client of iperf3's wire against servers that go wrong: every test ends, and says how.

use longhaul_model::report::v1::plan::{Direction, Plan, Stop, Transport};
use longhaul_probe::error::ProbeError;
use longhaul_probe::iperf3::client::{self, Action, Client, Closed, Input, Step, Wish};
use longhaul_probe::iperf3::wire::{
    Cookie, Parameters, Refusal, Results, State, StreamResults, Trouble, encode,
};
use longhaul_probe::throughput::Target;
use proptest::prelude::*;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;
use std::time::Duration;

const GREETING: Duration = Duration::from_secs(10);
/// Longer than any step of a test.
const LONG: Duration = Duration::from_secs(200);

fn client() -> Client {
    let cookie = Cookie([b'a'; 37]);
    Client::new(cookie, Parameters::default(), GREETING)
}

fn closed(actions: &[Action]) -> Option<&Closed> {
    actions.iter().find_map(|action| match action {
        Action::Close(closed) => Some(closed),
        _ => None,
    })
}

fn said(client: &mut Client, states: &[State]) -> Vec<Action> {
    let bytes: Vec<u8> = states.iter().map(|state| state.byte()).collect();
    client.handle(Duration::ZERO, Input::Bytes(&bytes))
}

/// As far as payload flows.
fn running() -> Client {
    let mut client = client();
    client.handle(Duration::ZERO, Input::Start);
    said(&mut client, &[State::ParameterExchange]);
    let opening = said(&mut client, &[State::CreateStreams]);
    assert_eq!(opening, [Action::OpenStreams]);
    client.handle(Duration::ZERO, Input::StreamsOpen);
    let glued = said(&mut client, &[State::TestStart, State::TestRunning]);
    assert_eq!(glued, [Action::Ready, Action::Go]);
    client
}

fn results() -> Vec<u8> {
    let results = Results {
        streams: vec![StreamResults {
            id: 1,
            bytes: 7,
            ..StreamResults::default()
        }],
        ..Results::default()
    };
    encode(&results, 1 << 20).expect("small")
}

#[test]
fn a_test_goes_its_way_and_the_last_word_may_be_glued_to_the_results() {
    let mut client = running();
    let over = Input::Moved {
        bytes: 7,
        over: true,
    };
    let ended = client.handle(Duration::ZERO, over);
    assert_eq!(ended, [Action::Send(vec![State::TestEnd.byte()])]);
    assert_eq!(
        said(&mut client, &[State::ExchangeResults]),
        [Action::Collect]
    );
    client.handle(Duration::ZERO, Input::Collected(Box::default()));
    let mut last = results();
    last.push(State::DisplayResults.byte());
    let actions = client.handle(Duration::ZERO, Input::Bytes(&last));
    let done = Action::Send(vec![State::Done.byte()]);
    assert_eq!(actions, [done, Action::Close(Closed::Finished)]);
    let told = client.take_results().expect("the server's results");
    assert_eq!(told.streams[0].bytes, 7);
}

#[test]
fn each_way_to_say_no_is_told_apart() {
    let mut busy = client();
    let actions = said(&mut busy, &[State::AccessDenied]);
    assert_eq!(closed(&actions), Some(&Closed::Busy));
    let mut refused = client();
    said(
        &mut refused,
        &[State::ParameterExchange, State::ServerError],
    );
    let refusal = Refusal::from(Trouble::DurationAboveLimit);
    let (front, back) = (&refusal.encode()[..3], &refusal.encode()[3..]);
    assert_eq!(refused.handle(Duration::ZERO, Input::Bytes(front)), []);
    let actions = refused.handle(Duration::ZERO, Input::Bytes(back));
    let step = Step::Asking;
    assert_eq!(closed(&actions), Some(&Closed::Refused { step, refusal }));
    let text = closed(&actions).expect("closed").to_string();
    assert!(text.contains("above the server's limit"), "{text}");
    let actions = said(&mut running(), &[State::ServerTerminate]);
    let step = Step::Running;
    assert_eq!(closed(&actions), Some(&Closed::Terminated { step }));
}

#[test]
fn every_step_has_its_time_and_frees_the_server_when_it_is_over() {
    let mut silent = running();
    let deadline = silent.next_deadline().expect("a deadline");
    assert_eq!(silent.handle(deadline / 2, Input::Tick), []);
    let moved = Input::Moved {
        bytes: 1,
        over: false,
    };
    silent.handle(deadline / 2, moved);
    assert_eq!(
        silent.handle(deadline, Input::Tick),
        [],
        "payload moved since"
    );
    let actions = silent.handle(deadline * 2, Input::Tick);
    let step = Step::Running;
    let bye = Action::Send(vec![State::ClientTerminate.byte()]);
    assert_eq!(actions, [bye, Action::Close(Closed::TimedOut { step })]);
    assert_eq!(silent.next_deadline(), None);
}

fn input() -> impl Strategy<Value = (u64, u8, Vec<u8>)> {
    let states = prop::sample::select(State::ALL.map(State::byte).to_vec());
    let bytes = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        prop::collection::vec(states, 0..8),
        Just(results()),
        Just(vec![2, 255, 255, 255, 0]),
    ];
    (0..20_u64, 0..6_u8, bytes)
}

proptest! {
    #[test]
    fn whatever_a_server_says_the_test_ends(inputs in prop::collection::vec(input(), 0..30)) {
        let mut client = client();
        let mut now = Duration::ZERO;
        client.handle(now, Input::Start);
        let mut ends = 0;
        for (seconds, kind, bytes) in inputs {
            now += Duration::from_secs(seconds);
            let input = match kind {
                0 => Input::StreamsOpen,
                1 => Input::Moved { bytes: bytes.len() as u64, over: bytes.len() > 20 },
                2 => Input::Collected(Box::default()),
                _ => Input::Bytes(&bytes),
            };
            let actions = client.handle(now, input);
            ends += usize::from(closed(&actions).is_some());
        }
        for _ in 0..2 {
            now += LONG;
            let actions = client.handle(now, Input::Tick);
            ends += usize::from(closed(&actions).is_some());
        }
        prop_assert_eq!(ends, 1);
        prop_assert_eq!(client.next_deadline(), None);
    }
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

fn against(words: &'static [&'static [u8]], plan: &Plan) -> Closed {
    against_shy(0, words, plan, LONG)
}

fn against_shy(
    shunned: usize,
    words: &'static [&'static [u8]],
    plan: &Plan,
    connect_timeout: Duration,
) -> Closed {
    let (port, thread) = hostile(shunned, words);
    let target = Target {
        port,
        connect_timeout,
        ..Target::new("127.0.0.1")
    };
    let error = client::run(&target, plan, &Wish::default(), Duration::ZERO, &mut |_| {})
        .expect_err("no result");
    thread.join().expect("the server");
    match error {
        ProbeError::Iperf3 { closed, .. } => closed,
        other => panic!("{other:?}"),
    }
}

#[test]
fn silence_garbage_and_endless_results_end_a_run() {
    let plan = Plan::default();
    let silent = against_shy(0, &[], &plan, Duration::from_secs(1));
    assert!(
        matches!(
            silent,
            Closed::TimedOut {
                step: Step::Greeting
            }
        ),
        "{silent}"
    );
    let web = against(&[b"HTTP/1.1 400 Bad Request\r\n\r\n"], &plan);
    assert!(matches!(web, Closed::Violation { .. }), "{web}");
    let hung_up = against(&[&[9], &[200]], &plan);
    assert!(
        matches!(
            hung_up,
            Closed::Violation {
                step: Step::Asking,
                ..
            }
        ),
        "{hung_up}"
    );
    let hasty = against(&[&[9], &[10, 13]], &plan);
    let step = hasty.to_string();
    assert!(
        matches!(hasty, Closed::Violation { .. } | Closed::Failed(_)),
        "{step}"
    );
}

#[test]
fn a_server_that_hung_up_between_two_tests_is_asked_again() {
    let closed = against_shy(2, &[&[9], &[200]], &Plan::default(), LONG);
    assert!(
        matches!(
            closed,
            Closed::Violation {
                step: Step::Asking,
                ..
            }
        ),
        "{closed}"
    );
}

#[test]
fn udp_that_nobody_answers_ends_the_run() {
    let plan = Plan {
        transport: Transport::Udp {
            rate_bps: 1_000_000,
        },
        direction: Direction::Reverse,
        stop: Stop::TimeUs(500_000),
        ..Plan::default()
    };
    let closed = against_shy(0, &[&[9], &[10]], &plan, Duration::from_secs(3));
    let Closed::Failed(why) = closed else {
        panic!("{closed}");
    };
    assert!(
        why.contains("UDP stream 0") && why.contains("no answer"),
        "{why}"
    );
}

#[test]
fn what_no_iperf3_server_does_is_refused_before_a_connection() {
    let plan = Plan {
        read_rate_bps: Some(1_000_000),
        ..Plan::default()
    };
    let target = Target::new("no-such-host.invalid");
    let error = client::run(
        &target,
        &plan,
        &Wish::default(),
        Duration::ZERO,
        &mut |_| {},
    )
    .expect_err("no such test");
    assert!(matches!(error, ProbeError::Plan(_)), "{error:?}");
}
