//! A server that strangers flood: what it costs, and whether others are served meanwhile.

use crate::support::{free_port, longhaul};
use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
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
    log: BufReader<Box<dyn Read + Send>>,
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
        let log: Box<dyn Read + Send> = Box::new(child.stderr.take().expect("a pipe"));
        let mut log = BufReader::new(log);
        log.read_line(&mut String::new()).expect("it says that it serves");
        FloodedServer { child, port, log }
    }

    /// Runs a short test with the token or without, from a network that no flood comes from.
    fn serves(&self, with_token: bool) -> bool {
        let mut test = longhaul();
        let target = format!("127.0.0.1:{}", self.port);
        test.args(["test", &target, "-B", "127.66.0.1", "-n", "64K", "--no-save", "--quiet"]);
        if with_token {
            test.env("LONGHAUL_TOKEN", TOKEN);
        }
        test.output().expect("the program runs").status.success()
    }
}

/// The resources that a process holds, and the CPU time that it has used.
#[derive(Debug, Clone, Copy, Default)]
struct ProcessUse {
    threads: u64,
    descriptors: u64,
    resident_kib: u64,
    cpu: Duration,
}

impl ProcessUse {
    fn read(process: u32) -> ProcessUse {
        let file = |name: &str| fs::read_to_string(format!("/proc/{process}/{name}")).expect(name);
        let status = file("status");
        let field = |name: &str| -> u64 {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect(name);
            line.split_whitespace().next().and_then(|word| word.parse().ok()).expect(name)
        };
        let stat = file("stat");
        let (_, stat) = stat.rsplit_once(')').expect("the name ends");
        let times: Vec<u64> =
            stat.split_whitespace().skip(11).take(2).flat_map(str::parse).collect();
        let descriptors = fs::read_dir(format!("/proc/{process}/fd")).expect("descriptors");
        ProcessUse {
            threads: field("Threads:"),
            descriptors: descriptors.count() as u64,
            resident_kib: field("VmRSS:"),
            // In ticks of the kernel's user interface.
            cpu: Duration::from_millis(10) * times.iter().sum::<u64>() as u32,
        }
    }

    fn peak(self, other: ProcessUse) -> ProcessUse {
        ProcessUse {
            threads: self.threads.max(other.threads),
            descriptors: self.descriptors.max(other.descriptors),
            resident_kib: self.resident_kib.max(other.resident_kib),
            cpu: self.cpu.max(other.cpu),
        }
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
    let seconds = 3;
    let most_lines = 100 * (seconds + 2) as usize;
    let log = std::mem::replace(&mut server.log, BufReader::new(Box::new(std::io::empty())));
    let lines = thread::spawn(move || log.lines().map_while(Result::ok).collect::<Vec<_>>());
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(seconds) {
        send_forged_hellos(server.port, 100);
        thread::sleep(Duration::from_millis(10));
    }
    // What was omitted is counted after a second.
    thread::sleep(Duration::from_secs(seconds));
    server.child.kill().expect("it runs");
    let lines = lines.join().expect("the log");
    let refused = |line: &String| {
        let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        line["stream_refused"].as_u64()
    };
    let counted: u64 = lines.iter().filter_map(refused).sum();
    let lines = lines.len();
    assert!(lines <= most_lines, "{lines} lines");
    assert!(counted > 1000, "{counted} datagrams counted");
}

/// The first bytes of a real client.
fn record_client_hello() -> Vec<u8> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let target = listener.local_addr().expect("its address").to_string();
    let client = thread::spawn(move || longhaul().args(["test", &target, "--no-save"]).output());
    let (mut stream, _) = listener.accept().expect("the client connects");
    let mut head = [0; 5];
    stream.read_exact(&mut head).expect("a record");
    let mut body = vec![0; usize::from(u16::from_be_bytes([head[3], head[4]]))];
    stream.read_exact(&mut body).expect("a record");
    drop((stream, listener));
    client.join().expect("a thread").expect("the program runs");
    [&head[..], &body].concat()
}

/// Opens a thousand connections a second until `over`, and holds each for a second.
fn flood_connections(port: u16, first_bytes: &[u8], over: &AtomicBool) -> u32 {
    let mut held = VecDeque::new();
    let began = Instant::now();
    let mut opened = 0;
    while !over.load(Ordering::Relaxed) {
        while opened < began.elapsed().as_millis() as u32 {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
            // It may have been refused already.
            let _ = stream.write_all(first_bytes);
            held.push_back(stream);
            opened += 1;
        }
        held.drain(..held.len().saturating_sub(1000));
        thread::sleep(Duration::from_millis(5));
    }
    opened
}

/// Floods a server, samples what it uses, and runs honest clients in the last part.
fn assert_flood_is_cheap(name: &str, flood: impl Fn(u16, &AtomicBool) -> u32 + Sync) {
    let mut server = FloodedServer::start();
    let process = server.child.id();
    let idle = ProcessUse::read(process);
    let mut log = std::mem::replace(&mut server.log, BufReader::new(Box::new(std::io::empty())));
    let over = AtomicBool::new(false);
    let began = Instant::now();
    let mut peak = ProcessUse::default();
    let mut sample_for = |time| {
        let until = Instant::now() + Duration::from_secs(time);
        while Instant::now() < until {
            peak = peak.peak(ProcessUse::read(process));
            thread::sleep(Duration::from_millis(50));
        }
        peak
    };
    thread::scope(|scope| {
        let flooding = scope.spawn(|| flood(server.port, &over));
        let lines = scope.spawn(|| log.by_ref().lines().count() as u64);
        sample_for(1);
        let before = ProcessUse::read(process).cpu;
        let measured = Instant::now();
        let after = sample_for(5).cpu;
        let busy = after.saturating_sub(before).as_secs_f64() / measured.elapsed().as_secs_f64();
        let served = [true, false].map(|with_token| (0..3).all(|_| server.serves(with_token)));
        let peak = sample_for(1);
        over.store(true, Ordering::Relaxed);
        let count = flooding.join();
        let seconds = began.elapsed().as_secs();
        // The end of the server ends its log.
        server.child.kill().expect("it runs");
        let lines = lines.join().expect("the log");
        let count = count.expect("the flood");
        let rate = f64::from(count) / seconds as f64;
        println!("attack: tried {count}");
        assert_eq!(served, [true, true], "{name}: with the token, and without");
        assert!(peak.threads <= 128 && peak.descriptors <= 512, "{name}: {peak:?}");
        assert!(peak.resident_kib <= idle.resident_kib + (64 << 10), "{name}: {peak:?}, {idle:?}");
        assert!(lines <= 100 * (seconds + 1), "{name}: {lines} lines in {seconds} s");
        assert!(rate > 500.0, "{name}: only {rate}/s");
        // In proportion, if the machine was too busy for the whole flood.
        assert!(busy <= 0.05 * MOST_BUSY_IN_TESTS, "{name}: {busy} of a core");
    });
}

/// The program of the tests is not optimized.
const MOST_BUSY_IN_TESTS: f64 = 3.0;

#[test]
fn a_flood_of_silent_connections_is_cheap_and_shuts_nobody_out() {
    assert_flood_is_cheap("silent", |port, over| flood_connections(port, b"", over));
}

#[test]
fn a_flood_of_single_bytes_is_cheap_and_shuts_nobody_out() {
    assert_flood_is_cheap("one byte", |port, over| flood_connections(port, b"L", over));
}

#[test]
fn a_flood_of_handshakes_is_cheap_and_shuts_nobody_out() {
    let hello = record_client_hello();
    assert_flood_is_cheap("handshakes", |port, over| flood_connections(port, &hello, over));
}

#[test]
fn a_flood_of_forged_datagrams_is_cheap_and_shuts_nobody_out() {
    assert_flood_is_cheap("datagrams", |port, over| {
        let (mut sent, began) = (0, Instant::now());
        while !over.load(Ordering::Relaxed) {
            let due = began.elapsed().as_millis() as u32 - sent;
            send_forged_hellos(port, due);
            sent += due;
            thread::sleep(Duration::from_millis(5));
        }
        sent
    });
}
