//! The client against a server that reads whole blocks only and waits for ever where a stream
//! ends: uiperf3 is one.

use longhaul_iperf3::client_run;
use longhaul_iperf3::iperf3_messages::{StreamResults, TestResults, TestState, encode_message};
use longhaul_model::report::v1::plan::{StopCondition, ThroughputPlan};
use longhaul_probe::supervise::StopFlag;
use longhaul_probe::throughput::TargetHost;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

const COOKIE_BYTES: usize = 37;
const BLOCK_BYTES: u64 = 128 << 10;
const HUNG: Duration = Duration::from_secs(120);
/// Nothing comes for so long: the last byte has come.
const QUIET: Duration = Duration::from_millis(700);

fn take(peer: &mut TcpStream, bytes: usize) -> Vec<u8> {
    let mut taken = vec![0; bytes];
    peer.read_exact(&mut taken).expect("the client's words");
    taken
}

fn take_frame(peer: &mut TcpStream) -> String {
    let length = take(peer, 4).try_into().expect("four bytes");
    let body = take(peer, u32::from_be_bytes(length) as usize);
    String::from_utf8(body).expect("text")
}

fn say(peer: &mut TcpStream, states: &[TestState]) {
    let bytes: Vec<u8> = states.iter().map(|state| state.byte()).collect();
    peer.write_all(&bytes).expect("a client that listens");
}

/// What is to be read until `told` is set and nothing has come for a while; whether the stream had
/// ended by then.
fn read_blocks(mut data: TcpStream, told: &AtomicBool, bytes: &AtomicU64) -> bool {
    data.set_read_timeout(Some(QUIET)).expect("a timeout");
    let mut buffer = vec![0; BLOCK_BYTES as usize];
    loop {
        match data.read(&mut buffer) {
            Ok(0) => return true,
            Ok(count) => {
                bytes.fetch_add(count as u64, SeqCst);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if told.load(SeqCst) {
                    return false;
                }
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Serves one test; the bytes that came, and whether their stream ended before the test did.
fn serve(listener: &TcpListener) -> (u64, bool) {
    let (mut control, _) = listener.accept().expect("the client");
    control.set_read_timeout(Some(HUNG)).expect("a timeout");
    take(&mut control, COOKIE_BYTES);
    say(&mut control, &[TestState::ParameterExchange]);
    let asked = take_frame(&mut control);
    assert!(asked.contains(r#""len":131072"#), "{asked}");
    say(&mut control, &[TestState::CreateStreams]);
    let (mut data, _) = listener.accept().expect("a stream");
    take(&mut data, COOKIE_BYTES);
    let (told, bytes) = (AtomicBool::new(false), AtomicU64::new(0));
    let ended = std::thread::scope(|scope| {
        let reader = scope.spawn(|| read_blocks(data, &told, &bytes));
        say(&mut control, &[TestState::TestStart, TestState::TestRunning]);
        assert_eq!(take(&mut control, 1), [TestState::TestEnd.byte()]);
        told.store(true, SeqCst);
        reader.join().expect("a reader")
    });
    let bytes = bytes.into_inner();
    tell(&mut control, bytes);
    (bytes, ended)
}

fn tell(control: &mut TcpStream, bytes: u64) {
    say(control, &[TestState::ExchangeResults]);
    take_frame(control);
    let stream = StreamResults {
        id: 1,
        bytes: bytes as i64,
        end_time: Some(1.0),
        ..StreamResults::default()
    };
    let results = TestResults { streams: vec![stream], ..TestResults::default() };
    let frame = encode_message(&results, 1 << 20).expect("small");
    control.write_all(&frame).expect("a client that listens");
    say(control, &[TestState::DisplayResults]);
    assert_eq!(take(control, 1), [TestState::Done.byte()]);
}

#[test]
fn each_stream_ends_behind_a_whole_block_and_stays_open_until_the_server_has_counted() {
    for stop in [StopCondition::TimeUs(300_000), StopCondition::Bytes(1_000_001)] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let server = std::thread::spawn(move || serve(&listener));
        let target = TargetHost { port, ..TargetHost::new("127.0.0.1") };
        let plan = ThroughputPlan { stop, ..ThroughputPlan::default() };
        client_run::run(&target, &plan, None, Duration::ZERO, &StopFlag::default(), &mut |_| {})
            .expect("a result");
        let (bytes, ended) = server.join().expect("the server");
        assert_eq!((bytes % BLOCK_BYTES, ended), (0, false), "{stop:?}");
        if let StopCondition::Bytes(asked) = stop {
            assert_eq!(bytes, asked.next_multiple_of(BLOCK_BYTES));
        }
    }
}
