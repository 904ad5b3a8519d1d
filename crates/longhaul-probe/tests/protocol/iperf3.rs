//! iperf3's own client, 3.12 of Debian, against a far end of ours; and clients that do it wrong.

use crate::far_end::{FarEnd, options};
use longhaul_probe::iperf3::Users;
use longhaul_probe::iperf3::wire::State;
use longhaul_probe::serve::{AnonymousLimits, Iperf3Options, ServeEvent, ServeOptions};
use rsa::pkcs8::{EncodePrivateKey, EncodePublicKey, LineEnding};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// For whatever should come soon, on a machine that does much else.
const SOON: Duration = Duration::from_secs(20);
/// A client that takes longer hangs.
const HUNG: Duration = Duration::from_secs(60);
/// A client is lost, and so much later at the most the next one has had its test.
const RECOVERED: Duration = Duration::from_secs(1);
const COOKIE: &[u8; 37] = b"abcdefghijklmnopqrstuvwxyz234567abcd\0";

fn open(runs: u32) -> ServeOptions {
    ServeOptions {
        anonymous: Some(AnonymousLimits {
            seconds: 30,
            streams: 128,
            concurrent: runs,
            rate_bps: None,
            bytes: None,
        }),
        max_sessions: runs,
        ..options()
    }
}

fn client(far: &FarEnd, arguments: &[&str]) -> Child {
    let port = far.address.port().to_string();
    Command::new("iperf3")
        .args(["-c", "127.0.0.1", "-p", &port, "-J"])
        .args(arguments)
        .env("IPERF3_PASSWORD", "rossi")
        .stdout(Stdio::piped())
        .spawn()
        .expect("iperf3 is installed")
}

/// What the client printed; it must end by itself.
fn outcome(mut client: Child) -> Value {
    let mut text = String::new();
    let mut output = client.stdout.take().expect("piped");
    let reader = std::thread::spawn(move || {
        output
            .read_to_string(&mut text)
            .map(|_| text)
            .expect("text")
    });
    let deadline = Instant::now() + HUNG;
    while client.try_wait().expect("a child").is_none() {
        if Instant::now() > deadline {
            client.kill().expect("it runs");
            panic!("iperf3 hangs");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let text = reader.join().expect("a reader");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn run(far: &FarEnd, arguments: &[&str]) -> Value {
    outcome(client(far, arguments))
}

fn error(outcome: &Value) -> Option<&str> {
    outcome["error"].as_str()
}

/// Like the rows of iperf3's own test_commands.sh; SCTP and CPU affinity of the client left out.
const ROWS: &[&str] = &[
    "-t1",
    "-t1 -4 -i 0.2",
    "-t1 -P 4",
    "-t1 -R",
    "-t1 -R -P 3 --get-server-output",
    "-t1 --bidir",
    "-t1 --bidir -P 2",
    "-t1 -O 1",
    "-t1 -O 1 -R",
    "-n 5M",
    "-n 5M -R",
    "-k 100 -l 64K",
    "-k 100 -R",
    "-t1 -w 128K",
    "-t1 -w 128K -R",
    "-t1 -M 1400",
    "-t1 -N -l 1400",
    "-t1 -Z",
    "-t1 -Z -R",
    "-t1 -S 16",
    "-t1 -C cubic",
    "-t1 -C cubic -R",
    "-t1 -b 50M",
    "-t1 -b 50M/10 -R",
    "-t1 --fq-rate 100M -R",
    "-t1 -T title --extra-data more",
    "-t1 --repeating-payload",
    "-t1 -A 0,0",
    "-u -t1",
    "-u -t1 -b 20M -R",
    "-u -t1 -b 20M -P 3 --get-server-output",
    "-u -t1 -b 20M --bidir",
    "-u -t1 -b 20M -l 1000 --udp-counters-64bit",
    "-u -t1 -b 20M -O 1",
    "-u -n 1M -b 50M",
    "-u -k 50 -b 50M -R",
];

#[test]
fn every_kind_of_test_runs_and_both_ends_count_alike() {
    let far = FarEnd::start(open(16));
    for rows in ROWS.chunks(12) {
        let clients = rows.iter().map(|row| {
            let arguments: Vec<&str> = row.split(' ').collect();
            (*row, client(&far, &arguments))
        });
        let clients: Vec<_> = clients.collect();
        for (row, client) in clients {
            check(row, &outcome(client));
        }
    }
}

fn check(row: &str, outcome: &Value) {
    assert_eq!(error(outcome), None, "{row}");
    if row.contains("--get-server-output") {
        let text = outcome["server_output_text"].as_str().expect(row);
        assert!(text.starts_with("longhaul "), "{text}");
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        assert!(!row.contains("-R") || text.contains("imited"), "{text}");
    }
    let end = &outcome["end"];
    if row.starts_with("-u") {
        let packets = end["sum"]["packets"].as_u64().expect(row);
        assert!(packets > 0, "{row}");
        let lost = end["sum"]["lost_packets"].as_i64().expect(row);
        assert!(
            (0..=packets as i64 / 2).contains(&lost),
            "{row}: {lost} of {packets}"
        );
        return;
    }
    let count = |key: &str| end[key]["bytes"].as_f64().expect(row);
    let mut pairs = vec![(count("sum_sent"), count("sum_received"))];
    if row.contains("--bidir") {
        pairs.push((
            count("sum_sent_bidir_reverse"),
            count("sum_received_bidir_reverse"),
        ));
    }
    for (sent, received) in pairs {
        assert!(received > 0.0, "{row}");
        // What is under way at the end counts at one end only, as between two of iperf3's own;
        // so does what passes between the two ends' ideas of when the omitted second is over.
        let room = 48e6 + 0.25 * sent;
        assert!(
            (sent - received).abs() <= room,
            "{row}: {sent} sent, {received} received"
        );
    }
}

#[test]
fn fifty_clients_are_served_at_once() {
    let far = FarEnd::start(open(50));
    let clients: Vec<Child> = (0..50)
        .map(|index| {
            let kind: &[&str] = match index % 3 {
                0 => &["-t1", "-b", "2M"],
                1 => &["-t1", "-b", "1M", "-R", "-P", "2"],
                _ => &["-t1", "-b", "1M", "-u"],
            };
            client(&far, kind)
        })
        .collect();
    for client in clients {
        assert_eq!(error(&outcome(client)), None);
    }
}

#[test]
fn beyond_the_limits_a_client_is_told_at_once() {
    let far = FarEnd::start(open(1));
    let busy = client(&far, &["-t", "20", "-b", "1M"]);
    far.event(SOON, |event| {
        matches!(event, ServeEvent::SessionOpened { .. }).then_some(())
    });
    let second = run(&far, &["-t1"]);
    assert!(
        error(&second).is_some_and(|text| text.contains("busy")),
        "{second}"
    );
    kill(busy);
    far.session_closed(SOON);
    for (arguments, words) in [
        (&["-t", "31"][..], "too long"),
        (&["-t1", "-P", "128", "-C", "nosuch"][..], "congestion"),
    ] {
        let refused = run(&far, arguments);
        assert!(
            error(&refused).is_some_and(|text| text.contains(words)),
            "{refused}"
        );
    }
    let limited = FarEnd::start(ServeOptions {
        anonymous: Some(AnonymousLimits {
            rate_bps: Some(1_000_000),
            ..AnonymousLimits::default()
        }),
        ..options()
    });
    let fast = run(&limited, &["-t1"]);
    assert!(
        error(&fast).is_some_and(|text| text.contains("bandwidth")),
        "{fast}"
    );
    assert_eq!(error(&run(&limited, &["-t1", "-b", "500K"])), None);
    let none = FarEnd::start(ServeOptions {
        iperf3: None,
        ..options()
    });
    let refused = run(&none, &["-t1"]);
    assert!(
        error(&refused).is_some_and(|text| text.contains("busy")),
        "{refused}"
    );
}

/// As SIGKILL does: no farewell.
fn kill(mut client: Child) {
    client.kill().expect("it runs");
    client.wait().expect("a child");
}

/// A client of bytes.
struct Raw(TcpStream);

impl Raw {
    fn new(far: &FarEnd) -> Raw {
        Raw::with(far, COOKIE)
    }

    fn with(far: &FarEnd, cookie: &[u8; 37]) -> Raw {
        let mut stream = far.connect();
        stream.set_read_timeout(Some(SOON)).expect("a time");
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

    fn hear(&mut self) -> Option<State> {
        let mut byte = [0];
        self.0.read_exact(&mut byte).expect("an answer in time");
        State::of(byte[0])
    }

    /// The number of the error that the server says.
    fn trouble(&mut self) -> i32 {
        assert_eq!(self.hear(), Some(State::ServerError));
        let mut code = [0; 4];
        self.0.read_exact(&mut code).expect("its number");
        i32::from_be_bytes(code)
    }
}

const PLAIN: &str =
    r#"{"tcp":true,"omit":0,"time":20,"parallel":1,"len":1000,"bandwidth":1000000}"#;

/// A whole test of few bytes, begun again as long as the place is not free.
fn small_test(far: &FarEnd, until: Instant) {
    let mut cookie = *COOKIE;
    cookie[0] = b'q';
    loop {
        assert!(Instant::now() < until, "the place is not free in time");
        let mut raw = Raw::with(far, &cookie);
        assert_eq!(raw.hear(), Some(State::ParameterExchange));
        raw.framed(r#"{"tcp":true,"num":1000,"parallel":1,"len":1000}"#);
        match raw.hear() {
            Some(State::CreateStreams) => return finish(far, &mut raw, &cookie),
            other => assert_eq!(other, Some(State::AccessDenied)),
        }
    }
}

fn finish(far: &FarEnd, raw: &mut Raw, cookie: &[u8; 37]) {
    let mut data = Raw::with(far, cookie);
    assert_eq!(raw.hear(), Some(State::TestStart));
    assert_eq!(raw.hear(), Some(State::TestRunning));
    data.say(&[7; 1000]);
    raw.say(&[State::TestEnd.byte()]);
    assert_eq!(raw.hear(), Some(State::ExchangeResults));
    raw.framed(
        r#"{"cpu_util_total":0,"cpu_util_user":0,"cpu_util_system":0,"sender_has_retransmits":-1,
            "streams":[{"id":1,"bytes":1000,"retransmits":-1,"jitter":0,"errors":0,"packets":0}]}"#,
    );
    let mut length = [0; 4];
    raw.0.read_exact(&mut length).expect("results in time");
    let mut results = vec![0; u32::from_be_bytes(length) as usize];
    raw.0.read_exact(&mut results).expect("results in time");
    let results: Value = serde_json::from_slice(&results).expect("JSON");
    assert_eq!(results["streams"][0]["bytes"], 1000);
    assert_eq!(raw.hear(), Some(State::DisplayResults));
    raw.say(&[State::Done.byte()]);
    // When it hangs up, the place is free for the next one.
    let mut rest = Vec::new();
    raw.0.read_to_end(&mut rest).expect("it hangs up");
}

/// How far a client comes before it is lost; what must be held until then.
fn stopped_at(far: &FarEnd, steps: u32) -> (Raw, Option<Raw>) {
    let mut raw = Raw::new(far);
    assert_eq!(raw.hear(), Some(State::ParameterExchange));
    let mut data = None;
    if steps > 0 {
        raw.framed(PLAIN);
        assert_eq!(raw.hear(), Some(State::CreateStreams));
    }
    if steps > 1 {
        data = Some(Raw::new(far));
        assert_eq!(raw.hear(), Some(State::TestStart));
        assert_eq!(raw.hear(), Some(State::TestRunning));
    }
    if steps > 2 {
        raw.say(&[State::TestEnd.byte()]);
        assert_eq!(raw.hear(), Some(State::ExchangeResults));
    }
    if steps > 3 {
        raw.say(b"\x00\x00\x01\x00{\"cpu_util_total\":");
    }
    (raw, data)
}

#[test]
fn a_client_lost_at_any_step_frees_the_only_place_within_a_second() {
    let far = FarEnd::start(open(1));
    for steps in 0..5 {
        drop(stopped_at(&far, steps));
        small_test(&far, Instant::now() + RECOVERED);
        let lost = |event: &ServeEvent| match event {
            ServeEvent::SessionClosed { reason, .. } if reason.contains("lost while") => Some(()),
            _ => None,
        };
        far.event(SOON, lost);
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
fn a_client_that_is_killed_frees_the_only_place_within_a_second() {
    let far = FarEnd::start(open(1));
    for arguments in [
        &["-t", "20", "-b", "1M"][..],
        &["-t", "20", "-R"],
        &["-t", "20", "--bidir", "-P", "4"],
        &["-u", "-t", "20"],
    ] {
        let running = running_client(&far, arguments);
        kill(running);
        small_test(&far, Instant::now() + RECOVERED);
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
        assert_eq!(raw.hear(), Some(State::ParameterExchange));
        raw.framed(text);
        assert_eq!(raw.trouble(), code, "{text}");
    }
    // A length over the limit is refused before its bytes come.
    let mut raw = Raw::new(&far);
    assert_eq!(raw.hear(), Some(State::ParameterExchange));
    raw.say(&[0xff; 4]);
    assert_eq!(raw.trouble(), 114);
    // A state of the server's own, while the test runs.
    let mut raw = Raw::new(&far);
    raw.framed(PLAIN);
    assert_eq!(raw.hear(), Some(State::ParameterExchange));
    assert_eq!(raw.hear(), Some(State::CreateStreams));
    raw.say(&[State::DisplayResults.byte()]);
    assert_eq!(raw.trouble(), 110);
    assert_eq!(error(&run(&far, &["-n", "100K"])), None);
}

#[test]
fn a_stream_too_many_is_turned_away_and_a_foreign_cookie_joins_nothing() {
    let far = FarEnd::start(open(4));
    let mut raw = Raw::new(&far);
    assert_eq!(raw.hear(), Some(State::ParameterExchange));
    raw.framed(PLAIN);
    assert_eq!(raw.hear(), Some(State::CreateStreams));
    let mut other = *COOKIE;
    other[0] = b'z';
    let mut foreign = Raw::with(&far, &other);
    // To the server it is a new client, which has said nothing.
    assert_eq!(foreign.hear(), Some(State::ParameterExchange));
    let _stream = Raw::new(&far);
    assert_eq!(raw.hear(), Some(State::TestStart));
    assert_eq!(raw.hear(), Some(State::TestRunning));
    let mut second = Raw::new(&far);
    assert_ne!(
        second.hear(),
        Some(State::ParameterExchange),
        "it joins no running test"
    );
    raw.say(&[State::ClientTerminate.byte()]);
    assert_eq!(far.session_closed(SOON), "ended by the client");
}

#[test]
fn users_are_known_by_their_tokens() {
    let folder = std::env::temp_dir().join(format!("longhaul-iperf3-users-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = |name: &str| folder.join(name);
    let key = rsa::RsaPrivateKey::new(&mut rsa::rand_core::OsRng, 2048).expect("a key");
    let private = key.to_pkcs8_pem(LineEnding::LF).expect("PEM");
    let public = key
        .to_public_key()
        .to_public_key_pem(LineEnding::LF)
        .expect("PEM");
    std::fs::write(path("private.pem"), private.as_bytes()).expect("written");
    std::fs::write(path("public.pem"), public).expect("written");
    // SHA-256 of `{mario}rossi`, from iperf3's own manual.
    let list = "mario,bf7a49a846d44b454a5d11e7acfaf13d138bbe0b7483aa3e050879700572709b\n";
    std::fs::write(path("users.csv"), list).expect("written");
    let users = Users::load(
        &path("private.pem"),
        &path("users.csv"),
        Duration::from_secs(60),
    );
    let far = FarEnd::start(ServeOptions {
        token: Some("of no use to iperf3, but long enough".to_owned()),
        anonymous: None,
        iperf3: Some(Iperf3Options {
            users: Some(users.expect("both are fine")),
            json_output: true,
            ..Iperf3Options::default()
        }),
        ..options()
    });
    let stranger = run(&far, &["-t1"]);
    assert!(
        error(&stranger).is_some_and(|text| text.contains("authorization")),
        "{stranger}"
    );
    let public = path("public.pem").display().to_string();
    let named = |name| {
        [
            "-n",
            "1M",
            "-R",
            "--get-server-output",
            "--username",
            name,
            "--rsa-public-key-path",
        ]
    };
    let with = |name| run(&far, &[named(name).as_slice(), &[public.as_str()]].concat());
    let mario = with("mario");
    assert_eq!(error(&mario), None);
    assert!(
        mario["server_output_json"]["streams"][0]["end"]["samples"].is_array(),
        "{mario}"
    );
    let luigi = with("luigi");
    assert!(
        error(&luigi).is_some_and(|text| text.contains("authorization")),
        "{luigi}"
    );
    std::fs::remove_dir_all(folder).expect("removed");
}
