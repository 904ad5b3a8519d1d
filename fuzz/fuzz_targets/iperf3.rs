//! Arbitrary bytes of an iperf3 peer: no panic, bounded memory, and every test ends.

#![no_main]

use libfuzzer_sys::fuzz_target;
use longhaul_probe::iperf3::client::{self, Client};
use longhaul_probe::iperf3::server::{Action, Closed, Input, Server};
use longhaul_probe::iperf3::wire::{
    Bodies, Cookie, Counters, Greeting, MOST_SERVER_RESULT_BYTES, Packet, Parameters, Refusal,
    Results, Test, decode,
};
use std::time::Duration;

/// A server with a driver of straw, and its clock.
struct Straw {
    server: Server,
    now: Duration,
    closed: Option<Closed>,
}

impl Straw {
    fn feed(&mut self, input: Input<'_>) {
        for action in self.server.handle(self.now, input) {
            let answer = match action {
                Action::Admit(_) => Input::Admitted,
                Action::Run => Input::Moved(1),
                Action::Stop => Input::Drained,
                Action::Collect(results) => Input::Ready(results),
                Action::Close(closed) => {
                    assert_eq!(self.closed.replace(closed), None, "closed twice");
                    continue;
                }
                Action::Send(_) => continue,
            };
            self.feed(answer);
            self.feed(Input::StreamsOpen);
        }
    }
}

/// As a server hears it.
fn served(cut: u8, bytes: &[u8]) {
    let mut straw = Straw {
        server: Server::new(Duration::from_secs(3600), Some(1 << 30)),
        now: Duration::ZERO,
        closed: None,
    };
    straw.feed(Input::Start);
    for piece in bytes.chunks(usize::from(cut).max(1)) {
        straw.now += Duration::from_millis(3);
        straw.feed(Input::Bytes(piece));
    }
    let mut wakes = 0;
    while straw.closed.is_none() {
        straw.now = straw.server.next_deadline().expect("each step has one");
        straw.feed(Input::Tick);
        wakes += 1;
        assert!(wakes < 100, "a test that never ends");
    }
}

/// As our own client hears it, which sends a little and is then done.
fn asked(cut: u8, bytes: &[u8]) {
    let greeting = Duration::from_secs(10);
    let mut client = Client::new(Cookie([b'a'; 37]), Parameters::default(), greeting);
    let mut now = Duration::ZERO;
    let mut closes = 0;
    let mut feed = |client: &mut Client, now: Duration, input: client::Input<'_>| {
        let mut actions = client.handle(now, input);
        while let Some(action) = actions.pop() {
            let answer = match action {
                client::Action::OpenStreams => client::Input::StreamsOpen,
                client::Action::Go => client::Input::Moved {
                    bytes: 1,
                    over: true,
                },
                client::Action::Collect => client::Input::Collected(Box::default()),
                client::Action::Close(_) => {
                    closes += 1;
                    continue;
                }
                client::Action::Send(_) | client::Action::Ready => continue,
            };
            actions.extend(client.handle(now, answer));
        }
    };
    feed(&mut client, now, client::Input::Start);
    for piece in bytes.chunks(usize::from(cut).max(1)) {
        now += Duration::from_millis(3);
        feed(&mut client, now, client::Input::Bytes(piece));
    }
    let mut wakes = 0;
    while let Some(deadline) = client.next_deadline() {
        now = now.max(deadline);
        feed(&mut client, now, client::Input::Tick);
        wakes += 1;
        assert!(wakes < 100, "a test that never ends");
    }
    assert_eq!(closes, 1, "closed once");
}

/// As a client hears it: states and refusals, and a server's results.
fn told(bytes: &[u8]) {
    if let Some(refusal) = bytes.first_chunk() {
        let _ = Refusal::decode(*refusal).to_string();
    }
    let mut bodies = Bodies::new(MOST_SERVER_RESULT_BYTES);
    let mut rest = bytes;
    while let Ok(Some(body)) = bodies.next(&mut rest) {
        if let Ok(results) = decode::<Results>(&body) {
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
    if let Ok(asked) = decode::<Parameters>(rest)
        && let Ok(test) = Test::of(&asked)
    {
        let _ = longhaul_probe::iperf3::plan(&test);
    }
    for counters in [Counters::Bits32, Counters::Bits64] {
        let _ = Packet::read(rest, counters);
    }
    let _ = Greeting::of_hello(rest);
});
