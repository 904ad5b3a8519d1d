//! A server that strangers flood: what it costs, and whether others are served meanwhile.

use crate::support::{free_port, longhaul};
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A token that nobody can guess offline.
const TOKEN: &str = "a token of more than sixteen characters";

/// A server whose log a test reads, or leaves unread.
struct FloodedServer {
    child: Child,
    port: u16,
    log: BufReader<std::process::ChildStderr>,
}

impl FloodedServer {
    fn start() -> FloodedServer {
        let port = free_port();
        let mut child = Command::new(env!("CARGO_BIN_EXE_longhaul"))
            .args(["serve", "-B", "127.0.0.1", "-p", &port.to_string(), "--json"])
            .env("LONGHAUL_TOKEN", TOKEN)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut log = BufReader::new(child.stderr.take().expect("a pipe"));
        log.read_line(&mut String::new()).expect("it says that it serves");
        FloodedServer { child, port, log }
    }

    /// Runs a short test with the token or without.
    fn serves(&self, with_token: bool) -> bool {
        let mut test = longhaul();
        let target = format!("127.0.0.1:{}", self.port);
        test.args(["test", &target, "-n", "64K", "--no-save", "--quiet"]);
        if with_token {
            test.env("LONGHAUL_TOKEN", TOKEN);
        }
        test.output().expect("the program runs").status.success()
    }
}

impl Drop for FloodedServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends hellos of sessions that do not exist.
fn send_forged_hellos(port: u16, count: u32) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.connect(("127.0.0.1", port)).expect("loopback");
    for number in 0..count {
        let mut hello = [0; 24];
        hello[..4].copy_from_slice(b"LHU1");
        hello[4..8].copy_from_slice(&number.to_be_bytes());
        // A full queue loses some.
        let _ = socket.send(&hello);
    }
}

#[test]
fn a_log_that_nobody_reads_holds_up_no_session() {
    let server = FloodedServer::start();
    // More lines than a pipe holds.
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(5) {
        send_forged_hellos(server.port, 1000);
        thread::sleep(Duration::from_millis(20));
    }
    for with_token in [true, false] {
        assert!(server.serves(with_token), "with the token: {with_token}");
    }
}

#[test]
fn forged_datagrams_are_counted_and_not_logged_one_by_one() {
    let mut server = FloodedServer::start();
    let over = AtomicBool::new(false);
    let seconds = 3;
    let most_lines = 100 * (seconds + 2);
    let (mut lines, mut counted) = (0, 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            let began = Instant::now();
            while began.elapsed() < Duration::from_secs(seconds) {
                send_forged_hellos(server.port, 100);
                thread::sleep(Duration::from_millis(10));
            }
            over.store(true, Ordering::Relaxed);
        });
        let began = Instant::now();
        while lines <= most_lines && began.elapsed() < Duration::from_secs(2 * seconds) {
            let mut line = String::new();
            if server.log.read_line(&mut line).expect("the log") == 0 {
                break;
            }
            lines += 1;
            let line: serde_json::Value = serde_json::from_str(&line).expect("JSON");
            counted += line["stream_refused"].as_u64().unwrap_or(0);
            if over.load(Ordering::Relaxed) && line["event"] == "events_omitted" {
                break;
            }
        }
    });
    assert!(lines <= most_lines, "{lines} lines");
    assert!(counted > 1000, "{counted} datagrams counted");
}
