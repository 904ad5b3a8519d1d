//! Clients of iperf3's wire that break off, or say what no client says.

use crate::far_end::{FarEnd, HUNG};
use crate::iperf3::{error, kill, open, run};
use longhaul_iperf3::iperf3_messages::TestState;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

const COOKIE: &[u8; 37] = b"abcdefghijklmnopqrstuvwxyz234567abcd\0";

/// A client of bytes.
struct Raw(TcpStream);

impl Raw {
    fn new(far: &FarEnd) -> Raw {
        Raw::with(far, COOKIE)
    }

    fn with(far: &FarEnd, cookie: &[u8; 37]) -> Raw {
        let mut stream = far.connect();
        stream.set_read_timeout(Some(HUNG)).expect("a time");
        stream.write_all(cookie).expect("it accepts");
        Raw(stream)
    }

    fn say(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).expect("it listens");
    }

    fn framed(&mut self, text: &str) {
        let length = (text.len() as u32).to_be_bytes();
        self.say(&[&length, text.as_bytes()].concat());
    }

    fn hear(&mut self) -> Option<TestState> {
        let mut byte = [0];
        self.0.read_exact(&mut byte).expect("an answer in time");
        TestState::from_byte(byte[0])
    }

    /// The number of the error that the server says.
    fn trouble(&mut self) -> i32 {
        assert_eq!(self.hear(), Some(TestState::ServerError));
        let mut code = [0; 4];
        self.0.read_exact(&mut code).expect("its number");
        i32::from_be_bytes(code)
    }
}

const PLAIN: &str =
    r#"{"tcp":true,"omit":0,"time":20,"parallel":1,"len":1000,"bandwidth":1000000}"#;

/// A whole test of few bytes, once the client before it is known to be lost: not by a deadline,
/// and its place is free then.
fn next_is_served(far: &FarEnd) {
    let lost = far.session_closed();
    assert!(lost.contains("lost while"), "{lost}");
    let mut cookie = *COOKIE;
    cookie[0] = b'q';
    let mut raw = Raw::with(far, &cookie);
    assert_eq!(raw.hear(), Some(TestState::ParameterExchange));
    raw.framed(r#"{"tcp":true,"num":1000,"parallel":1,"len":1000}"#);
    assert_eq!(raw.hear(), Some(TestState::CreateStreams));
    finish(far, &mut raw, &cookie);
    far.session_closed();
}

fn finish(far: &FarEnd, raw: &mut Raw, cookie: &[u8; 37]) {
    let mut data = Raw::with(far, cookie);
    assert_eq!(raw.hear(), Some(TestState::TestStart));
    assert_eq!(raw.hear(), Some(TestState::TestRunning));
    data.say(&[7; 1000]);
    raw.say(&[TestState::TestEnd.byte()]);
    assert_eq!(raw.hear(), Some(TestState::ExchangeResults));
    raw.framed(
        r#"{"cpu_util_total":0,"cpu_util_user":0,"cpu_util_system":0,"sender_has_retransmits":-1,
            "streams":[{"id":1,"bytes":1000,"retransmits":-1,"jitter":0,"errors":0,"packets":0}]}"#,
    );
    let mut length = [0; 4];
    raw.0.read_exact(&mut length).expect("results in time");
    let mut results = vec![0; u32::from_be_bytes(length) as usize];
    raw.0.read_exact(&mut results).expect("results in time");
    let results: Value = serde_json::from_slice(&results).expect("JSON");
    // What the far end was too late to read before it counted, it has not.
    assert!(results["streams"][0]["bytes"].as_u64() <= Some(1000));
    assert_eq!(raw.hear(), Some(TestState::DisplayResults));
    raw.say(&[TestState::Done.byte()]);
    // When it hangs up, the place is free for the next one.
    let mut rest = Vec::new();
    raw.0.read_to_end(&mut rest).expect("it hangs up");
}

/// How far a client comes before it is lost; what must be held until then.
fn stopped_at(far: &FarEnd, steps: u32) -> (Raw, Option<Raw>) {
    let mut raw = Raw::new(far);
    assert_eq!(raw.hear(), Some(TestState::ParameterExchange));
    let mut data = None;
    if steps > 0 {
        raw.framed(PLAIN);
        assert_eq!(raw.hear(), Some(TestState::CreateStreams));
    }
    if steps > 1 {
        data = Some(Raw::new(far));
        assert_eq!(raw.hear(), Some(TestState::TestStart));
        assert_eq!(raw.hear(), Some(TestState::TestRunning));
    }
    if steps > 2 {
        raw.say(&[TestState::TestEnd.byte()]);
        assert_eq!(raw.hear(), Some(TestState::ExchangeResults));
    }
    if steps > 3 {
        raw.say(b"\x00\x00\x01\x00{\"cpu_util_total\":");
    }
    (raw, data)
}

#[test]
fn a_client_lost_at_any_step_frees_the_only_place_at_once() {
    let far = FarEnd::start(open(1));
    for steps in 0..5 {
        drop(stopped_at(&far, steps));
        next_is_served(&far);
        println!("attack: tried 1");
    }
}

/// A client that has seen payload flow.
fn running_client(far: &FarEnd, arguments: &[&str]) -> Child {
    let mut client = Command::new("iperf3")
        .args(["-c", "127.0.0.1", "-p", &far.address.port().to_string()])
        .args(["-i", "0.1", "--forceflush"])
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .expect("iperf3 is installed");
    let mut lines = BufReader::new(client.stdout.take().expect("piped"));
    let mut line = String::new();
    while !line.contains("bits/sec") {
        line.clear();
        let read = lines.read_line(&mut line).expect("its output");
        assert!(read > 0, "it ended by itself");
    }
    // What it prints until it is killed is of no use, and must not block it.
    std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
    client
}

#[test]
fn a_client_that_is_killed_frees_the_only_place_at_once() {
    let far = FarEnd::start(open(1));
    for arguments in [
        &["-t", "3600", "-b", "1M"][..],
        &["-t", "3600", "-R"],
        &["-t", "3600", "--bidir", "-P", "4"],
        &["-u", "-t", "3600"],
    ] {
        let running = running_client(&far, arguments);
        kill(running);
        next_is_served(&far);
        println!("attack: tried 1");
    }
    // A stock client is served after all of them.
    assert_eq!(error(&run(&far, &["-n", "100K"])), None);
}

#[test]
fn what_is_no_test_gets_an_error_that_clients_print() {
    let far = FarEnd::start(open(4));
    for (text, code) in [
        (r#"{"tcp":true,"#, 114),
        ("[]", 114),
        (r#"{"parallel":"many"}"#, 114),
        (r#"{"parallel":1000}"#, 6),
        (r#"{"udp":true,"len":70000}"#, 20),
        (r#"{"sctp":true}"#, 13),
        (r#"{"congestion":"a/../b"}"#, 134),
    ] {
        let mut raw = Raw::new(&far);
        assert_eq!(raw.hear(), Some(TestState::ParameterExchange));
        raw.framed(text);
        assert_eq!(raw.trouble(), code, "{text}");
    }
    // A length over the limit is refused before its bytes come.
    let mut raw = Raw::new(&far);
    assert_eq!(raw.hear(), Some(TestState::ParameterExchange));
    raw.say(&[0xff; 4]);
    assert_eq!(raw.trouble(), 114);
    // A state of the server's own, while the test runs.
    let mut raw = Raw::new(&far);
    raw.framed(PLAIN);
    assert_eq!(raw.hear(), Some(TestState::ParameterExchange));
    assert_eq!(raw.hear(), Some(TestState::CreateStreams));
    raw.say(&[TestState::DisplayResults.byte()]);
    assert_eq!(raw.trouble(), 110);
    assert_eq!(error(&run(&far, &["-n", "100K"])), None);
}

#[test]
fn a_stream_too_many_is_turned_away_and_a_foreign_cookie_joins_nothing() {
    let far = FarEnd::start(open(4));
    let mut raw = Raw::new(&far);
    assert_eq!(raw.hear(), Some(TestState::ParameterExchange));
    raw.framed(PLAIN);
    assert_eq!(raw.hear(), Some(TestState::CreateStreams));
    let mut other = *COOKIE;
    other[0] = b'z';
    let mut foreign = Raw::with(&far, &other);
    // To the server it is a new client, which has said nothing.
    assert_eq!(foreign.hear(), Some(TestState::ParameterExchange));
    let _stream = Raw::new(&far);
    assert_eq!(raw.hear(), Some(TestState::TestStart));
    assert_eq!(raw.hear(), Some(TestState::TestRunning));
    let mut second = Raw::new(&far);
    assert_ne!(second.hear(), Some(TestState::ParameterExchange), "it joins no running test");
    raw.say(&[TestState::ClientTerminate.byte()]);
    assert_eq!(far.session_closed(), "ended by the client");
}
