//! `longhaul explain`: snapshots of ss, transfers of this host, and what is refused.

use crate::support::{Folder, HUNG, longhaul};
use longhaul_import::ss_snapshots::parse_ss_snapshots;
use longhaul_model::report::v1::flows::flow_grouping::FlowMemory;
use longhaul_model::report::v1::observation::TcpReading;
use longhaul_sys::socket_diag::{DiagnosedSocket, DiagnosisSocket};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Instant;

fn snapshots() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/flows/ss-rclone.txt")
}

#[test]
fn snapshots_of_ss_are_explained_and_archived() {
    let folder = Folder::new("explain-ss");
    let archive = folder.file("archive.sqlite3");
    let explain = |what: &str| {
        let mut command = longhaul();
        command.args(["explain", "--from-ss"]).arg(snapshots()).arg(what);
        command.arg("--archive").arg(&archive).arg("-q").assert().success()
    };
    for what in ["all", "rclone", ":2222", "10.77.0.2"] {
        let shown = explain(what).get_output().stdout.clone();
        let shown = String::from_utf8(shown).expect("UTF-8");
        assert!(shown.contains("limited by the application"), "{what}: {shown}");
        assert!(shown.contains("--transfers 16"), "{what}: {shown}");
    }
    let mut list = longhaul();
    let listed = list.args(["report", "list", "--kind", "flows", "--archive"]).arg(&archive);
    let listed = listed.assert().success().get_output().stdout.clone();
    assert_eq!(String::from_utf8_lossy(&listed).matches("10.77.0.2").count(), 4);
}

#[test]
fn one_snapshot_and_unknown_names_are_refused_with_the_reason() {
    let folder = Folder::new("explain-refused");
    let text = std::fs::read_to_string(snapshots()).expect("the fixture");
    let second = text.match_indices("State").nth(1).expect("several snapshots").0;
    let file = folder.file("one.txt");
    std::fs::write(&file, &text[..second]).expect("written");
    let refuse = |arguments: &[&str]| {
        let mut command = longhaul();
        let assert = command.arg("explain").args(arguments).arg("--no-save").assert().code(2);
        String::from_utf8_lossy(&assert.get_output().stderr).into_owned()
    };
    let one = refuse(&["--from-ss", file.to_str().expect("UTF-8")]);
    assert!(one.contains("there is one snapshot"), "{one}");
    let nobody = refuse(&["no-such-program.invalid"]);
    assert!(nobody.contains("no process has that name"), "{nobody}");
    let number = refuse(&["4194305"]);
    assert!(number.contains("no process of that number"), "{number}");
}

#[test]
fn a_host_without_matching_transfers_is_a_result() {
    // An agent watches programs that do not always run.
    for what in [&[":1"][..], &["--allow-none", "--", "no-such-program.invalid"]] {
        let mut command = longhaul();
        let explained = command.args(["explain", "--for", "1s", "--no-save"]).args(what);
        let shown = explained.assert().success().get_output().stdout.clone();
        let shown = String::from_utf8_lossy(&shown).into_owned();
        assert!(shown.contains("none: no connection matches"), "{shown}");
    }
}

#[test]
fn a_connection_that_moved_too_little_is_shown_with_its_bytes_and_the_minimum() {
    let capture = "../../fixtures/captures/ssh.pcap";
    let mut command = longhaul();
    let explained = command.current_dir(env!("CARGO_MANIFEST_DIR"));
    let explained = explained.args(["capture", "explain", "--no-save", capture]);
    let shown = explained.assert().success().get_output().stdout.clone();
    let shown = String::from_utf8(shown).expect("UTF-8");
    let words: Vec<&str> = shown.split_whitespace().collect();
    let wanted = "1 matching connection moved at most 5.159 KiB of payload in one direction; \
                  a limit is named from 16 KiB on";
    assert!(words.join(" ").contains(wanted), "{shown}");
}

/// Moves data through a connection over loopback until the sender waits for the receiver, then lets the
/// receiver read all of it. Returns both ends.
fn move_data_and_rest() -> [TcpStream; 2] {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let mut near =
        TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
    let (mut far, _) = listener.accept().expect("accepted");
    far.set_read_timeout(Some(HUNG)).expect("set");
    near.set_nonblocking(true).expect("set");
    for _ in 0..10 {
        let mut written = 0;
        while let Ok(count) = near.write(&[7; 16 * 1024]) {
            written += count;
        }
        far.read_exact(&mut vec![0; written]).expect("all that was written");
    }
    [near, far]
}

/// The counters of a connection, without those that `ss` does not print and with times in whole
/// milliseconds where it prints no more.
fn keep_what_ss_prints(tcp: &TcpReading, ss: &TcpReading) -> TcpReading {
    let in_ms = |us: Option<u64>| us.map(|us| us / 1000 * 1000);
    TcpReading {
        ca_state: 0,
        // It prints no rate of 0.
        delivery_bps: tcp.delivery_bps.filter(|bps| *bps > 0),
        busy_us: in_ms(tcp.busy_us),
        receive_window_limited_us: in_ms(tcp.receive_window_limited_us),
        send_buffer_limited_us: in_ms(tcp.send_buffer_limited_us),
        // Older ones print no windows.
        peer_window_bytes: ss.peer_window_bytes.and(tcp.peer_window_bytes),
        own_window_bytes: ss.own_window_bytes.and(tcp.own_window_bytes),
        timeouts: None,
        timeout_us: None,
        ..tcp.clone()
    }
}

/// Returns what `ss` prints about the connection with this local address.
fn read_with_ss(local: SocketAddr) -> (TcpReading, Option<FlowMemory>) {
    let mut ss = Command::new("ss");
    ss.args(["-tinm", "state", "established", "src", &local.to_string()]);
    let printed = ss.output().expect("ss runs");
    let text = String::from_utf8(printed.stdout).expect("UTF-8").repeat(2);
    let parsed = parse_ss_snapshots(&text, 1).unwrap_or_else(|error| panic!("{error}: {text}"));
    let sample = &parsed.flows[0].samples[0];
    (sample.tcp.clone(), sample.memory)
}

fn read_with_sock_diag(local: SocketAddr) -> DiagnosedSocket {
    let mut found = None;
    let diagnosis = DiagnosisSocket::open().expect("sock_diag");
    let visited = diagnosis.visit_connections(&mut |it| {
        if it.local == local {
            found = Some(it);
        }
    });
    visited.expect("sock_diag");
    found.expect("the connection")
}

#[test]
fn the_counters_of_both_ends_of_an_idle_connection_equal_those_of_ss() {
    let ends = move_data_and_rest();
    let started = Instant::now();
    for end in &ends {
        let local = end.local_addr().expect("an address");
        // Late acknowledgements may still move; then the looks of ss before and after differ.
        let (ss, memory, socket) = loop {
            let (before, socket, after) =
                (read_with_ss(local), read_with_sock_diag(local), read_with_ss(local));
            if before == after {
                break (before.0, before.1, socket);
            }
            assert!(started.elapsed() < HUNG, "the connection never rests");
        };
        let reading = TcpReading {
            receive_rtt_us: socket.info.receive_rtt_us,
            ..keep_what_ss_prints(&socket.info.reading, &ss)
        };
        assert_eq!(reading, ss);
        assert_eq!((socket.memory, socket.memory.is_some()), (memory, true));
    }
    let moved = |end: &TcpStream, of: fn(&TcpReading) -> Option<u64>| {
        of(&read_with_ss(end.local_addr().expect("an address")).0).is_some_and(|count| count > 0)
    };
    assert!(moved(&ends[0], |it| it.bytes_acked) && moved(&ends[1], |it| it.bytes_received));
}

/// A connection over loopback on which one thread writes and another reads, until it is dropped.
struct BusyConnection {
    port: u16,
    near: TcpStream,
}

impl BusyConnection {
    fn open() -> BusyConnection {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let near = TcpStream::connect(("127.0.0.1", port)).expect("connected");
        let (mut far, _) = listener.accept().expect("accepted");
        let mut writer = near.try_clone().expect("a second handle");
        thread::spawn(move || while writer.write_all(&[7; 16 * 1024]).is_ok() {});
        thread::spawn(move || {
            let mut buffer = vec![0; 64 * 1024];
            while far.read(&mut buffer).is_ok_and(|count| count > 0) {}
        });
        BusyConnection { port, near }
    }
}

impl Drop for BusyConnection {
    fn drop(&mut self) {
        let _ = self.near.shutdown(Shutdown::Both);
    }
}

/// A pseudo-terminal of 80x24 in which the live table runs.
struct TerminalRun {
    script: Child,
    output: Receiver<Vec<u8>>,
    shown: String,
}

impl TerminalRun {
    fn start(port: u16, archive: &Path) -> TerminalRun {
        let program = env!("CARGO_BIN_EXE_longhaul");
        let line = format!(
            "stty cols 80 rows 24; exec '{program}' explain --watch --for 1s :{port} --archive '{}'",
            archive.display()
        );
        // The program keeps the pipe open, so that its end is that of the output.
        let shell = "exec 7>&1; exec script --quiet --return --command \"$0\" /dev/null";
        let mut script = Command::new("sh");
        script.args(["-c", shell, &line]);
        script.env("TERM", "xterm").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut script = script.spawn().expect("script runs");
        let mut stdout = script.stdout.take().expect("a pipe");
        let (sender, output) = mpsc::channel();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = stdout.read(&mut buffer) {
                let _ = sender.send(buffer[..count].to_vec());
            }
        });
        TerminalRun { script, output, shown: String::new() }
    }

    /// Reads until the terminal has shown the text, or to the end.
    fn read_until(&mut self, text: &str) {
        while !self.shown.contains(text) {
            match self.output.recv_timeout(HUNG) {
                Ok(bytes) => self.shown.push_str(&String::from_utf8_lossy(&bytes)),
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => panic!("{text:?} never came: {:?}", self.shown),
            }
        }
    }

    fn press(&mut self, key: &[u8]) {
        let keyboard = self.script.stdin.as_mut().expect("a pipe");
        keyboard.write_all(key).expect("typed");
    }
}

impl Drop for TerminalRun {
    fn drop(&mut self) {
        let _ = self.script.kill();
        let _ = self.script.wait();
    }
}

/// Runs the live table on a terminal until it shows the transfer, ends it, and returns the terminal.
fn run_live_table(folder: &Folder, end: impl FnOnce(&mut TerminalRun)) -> TerminalRun {
    let connection = BusyConnection::open();
    let archive = folder.file("archive.sqlite3");
    let mut terminal = TerminalRun::start(connection.port, &archive);
    terminal.read_until("127.0.0.1");
    assert!(!terminal.shown.contains(LEAVE_SCREEN), "{:?}", terminal.shown);
    end(&mut terminal);
    terminal.read_until("the end of the program");
    let mut list = longhaul();
    let listed = list.args(["report", "list", "--kind", "flows", "--archive"]).arg(&archive);
    let listed = listed.assert().success().get_output().stdout.clone();
    assert!(String::from_utf8_lossy(&listed).contains("127.0.0.1"));
    terminal
}

const LEAVE_SCREEN: &str = "\x1b[?1049l";

#[test]
fn the_live_table_leaves_the_screen_with_a_report() {
    for key in [&b"q"[..], b"\x03"] {
        let folder = Folder::new("explain-watch");
        let mut terminal = run_live_table(&folder, |terminal| terminal.press(key));
        let (_, report) = terminal.shown.rsplit_once(LEAVE_SCREEN).expect("the screen is left");
        assert!(report.contains("limited by"), "{report:?}");
        assert!(terminal.script.wait().expect("ended").success());
    }
}

#[test]
fn a_live_table_whose_terminal_closes_archives_its_last_window() {
    let folder = Folder::new("explain-hang-up");
    run_live_table(&folder, |terminal| terminal.script.kill().expect("closed"));
}
