//! Arbitrary bytes of an iperf3 peer: no panic, bounded memory, and every test ends.

#![no_main]

use libfuzzer_sys::fuzz_target;
use longhaul_iperf3::client_run::{self, ClientProtocol};
use longhaul_iperf3::iperf3_messages::{
    FrameSplitter, MAX_SERVER_RESULT_BYTES, RequestedTest, ServerRefusal, TestCookie,
    TestParameters, TestResults, UdpGreeting, decode_body,
};
use longhaul_iperf3::server_protocol::{ServerAction, ServerInput, ServerProtocol, ServerTestEnd};
use std::time::Duration;

/// A server with a driver of straw, and its clock.
struct Straw {
    server: ServerProtocol,
    now: Duration,
    closed: Option<ServerTestEnd>,
}

impl Straw {
    fn feed(&mut self, input: ServerInput<'_>) {
        for action in self.server.handle(self.now, input) {
            let answer = match action {
                ServerAction::Admit(_) => ServerInput::Admitted,
                ServerAction::Run => ServerInput::Moved(1),
                ServerAction::Stop => ServerInput::Drained,
                ServerAction::Collect => ServerInput::Ready(Box::default()),
                ServerAction::Close(closed) => {
                    assert_eq!(self.closed.replace(closed), None, "closed twice");
                    continue;
                }
                ServerAction::Send(_) => continue,
            };
            self.feed(answer);
            self.feed(ServerInput::StreamsOpen);
        }
    }
}

/// As a server hears it.
fn served(cut: u8, bytes: &[u8]) {
    let mut straw = Straw {
        server: ServerProtocol::new(Duration::from_secs(3600), Some(1 << 30)),
        now: Duration::ZERO,
        closed: None,
    };
    straw.feed(ServerInput::Start);
    for piece in bytes.chunks(usize::from(cut).max(1)) {
        straw.now += Duration::from_millis(3);
        straw.feed(ServerInput::Bytes(piece));
    }
    let mut wakes = 0;
    while straw.closed.is_none() {
        straw.now = straw.server.next_deadline().expect("each step has one");
        straw.feed(ServerInput::Tick);
        wakes += 1;
        assert!(wakes < 100, "a test that never ends");
    }
}

/// As our own client hears it, which sends a little and is then done.
fn asked(cut: u8, bytes: &[u8]) {
    let greeting = Duration::from_secs(10);
    let mut client =
        ClientProtocol::new(TestCookie([b'a'; 37]), TestParameters::default(), greeting);
    let mut now = Duration::ZERO;
    let mut closes = 0;
    let mut feed =
        |client: &mut ClientProtocol, now: Duration, input: client_run::ClientInput<'_>| {
            let mut actions = client.handle(now, input);
            while let Some(action) = actions.pop() {
                let answer = match action {
                    client_run::ClientAction::OpenStreams => client_run::ClientInput::StreamsOpen,
                    client_run::ClientAction::Go => {
                        client_run::ClientInput::Moved { bytes: 1, over: true }
                    }
                    client_run::ClientAction::Collect => {
                        client_run::ClientInput::Collected(Box::default())
                    }
                    client_run::ClientAction::Close(_) => {
                        closes += 1;
                        continue;
                    }
                    client_run::ClientAction::Send(_) | client_run::ClientAction::Ready => continue,
                };
                actions.extend(client.handle(now, answer));
            }
        };
    feed(&mut client, now, client_run::ClientInput::Start);
    for piece in bytes.chunks(usize::from(cut).max(1)) {
        now += Duration::from_millis(3);
        feed(&mut client, now, client_run::ClientInput::Bytes(piece));
    }
    let mut wakes = 0;
    while let Some(deadline) = client.next_deadline() {
        now = now.max(deadline);
        feed(&mut client, now, client_run::ClientInput::Tick);
        wakes += 1;
        assert!(wakes < 100, "a test that never ends");
    }
    assert_eq!(closes, 1, "closed once");
}

/// As a client hears it: states and refusals, and a server's results.
fn told(bytes: &[u8]) {
    if let Some(refusal) = bytes.first_chunk() {
        let _ = ServerRefusal::decode(*refusal).to_string();
    }
    let mut bodies = FrameSplitter::new(MAX_SERVER_RESULT_BYTES);
    let mut rest = bytes;
    while let Ok(Some(body)) = bodies.next(&mut rest) {
        if let Ok(results) = decode_body::<TestResults>(&body) {
            for streams in [1, 2, 256] {
                let _ = results.by_index(streams);
            }
        }
    }
    assert!(bodies.held_bytes() <= bytes.len().max(1024) * 2);
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&cut, rest)) = bytes.split_first() else {
        return;
    };
    served(cut, rest);
    asked(cut, rest);
    told(rest);
    if let Ok(asked) = decode_body::<TestParameters>(rest) {
        let _ = RequestedTest::validate(&asked);
    }
    let _ = UdpGreeting::from_hello(rest);
});
