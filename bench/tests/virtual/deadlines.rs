//! Waits that end: whatever a peer does not do, the time until it is given up is bounded.

use crate::lab::{HANG_LIMIT, StandingLab, TUN};
use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use xtask::program_runner;

crate::virtual_tests!(
    a_server_that_accepts_and_never_answers_is_given_up,
    a_client_that_connects_and_never_speaks_is_disconnected,
    a_server_that_is_killed_during_a_run_ends_it_soon,
    a_server_that_stops_during_a_run_is_given_up,
    a_client_that_is_killed_frees_its_place_within_a_second,
    a_trace_to_nobody_ends,
    a_grid_that_is_killed_is_resumed_and_measures_no_cell_twice,
);

const SERVE: &str = "serve --max-sessions 1";

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Asserts that a child ends by then, and returns its exit code and what it printed on stderr.
fn ends_within(limit: Duration, mut child: Child) -> (Option<i32>, String) {
    let began = Instant::now();
    let status = program_runner::wait_with_limit(&mut child, HANG_LIMIT).expect("it ends");
    let mut text = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        stderr.read_to_string(&mut text).expect("UTF-8");
    }
    let time = began.elapsed();
    assert!(time <= limit, "{time:?}, at most {limit:?}: {text}");
    (status.code(), text)
}

fn a_server_that_accepts_and_never_answers_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    for option in [None, Some("--iperf3")] {
        let longhaul = program_runner::build_longhaul_for_tests().expect("the program builds");
        let mut test = Command::new(longhaul);
        test.args(["test", "127.0.0.1", "--no-save", "-p", &port.to_string()]);
        test.args(option).stdout(Stdio::null()).stderr(Stdio::piped());
        let (code, text) = ends_within(seconds(13), test.spawn().expect("it starts"));
        assert_ne!(code, Some(0), "{text}");
        assert!(text.contains("127.0.0.1"), "{text}");
    }
}

fn a_client_that_connects_and_never_speaks_is_disconnected() {
    let server = LoopbackServer::start();
    let address = SocketAddr::from(([127, 0, 0, 1], server.port));
    let mut silent = TcpStream::connect(address).expect("a connection");
    let began = Instant::now();
    silent.set_read_timeout(Some(HANG_LIMIT)).expect("a timeout");
    let mut bytes = Vec::new();
    // A reset is an end as well.
    let _ = silent.read_to_end(&mut bytes);
    let time = began.elapsed();
    assert!(time <= seconds(8), "{time:?}");
}

/// `longhaul serve` on loopback.
pub struct LoopbackServer {
    child: Child,
    pub port: u16,
}

impl LoopbackServer {
    pub fn start() -> LoopbackServer {
        let port = 5299;
        let longhaul = program_runner::build_longhaul_for_tests().expect("the program builds");
        let mut serve = Command::new(longhaul);
        serve.args(SERVE.split(' ')).args(["-p", &port.to_string()]);
        serve.stdout(Stdio::null()).stderr(Stdio::null());
        let child = serve.spawn().expect("the server starts");
        std::thread::sleep(seconds(1));
        LoopbackServer { child, port }
    }
}

impl Drop for LoopbackServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lab_with_server() -> StandingLab {
    let lab = StandingLab::up(TUN, &[]);
    lab.serve(&format!("exec {} {SERVE}", lab.program()));
    lab
}

/// Sends a signal to every `longhaul serve` or `longhaul test` of the guest, which is this test's own.
fn signal_all(signal: &str, command: &str) {
    let pattern = format!("longhaul {command}");
    let status = Command::new("pkill").args([signal, "-f", &pattern]).status();
    assert!(status.expect("pkill runs").success(), "no {command} runs");
}

/// Starts a run of 30 s at the near end and lets two pass.
fn start_run(lab: &StandingLab) -> Child {
    let program = lab.program();
    let words = [&program, "test", "far", "-t", "30", "-b", "20M", "--no-save"];
    let mut run = lab.near_command(&words);
    run.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = run.spawn().expect("the run starts");
    std::thread::sleep(seconds(2));
    if child.try_wait().expect("its state").is_some() {
        let output = program_runner::wait_with_output(child, HANG_LIMIT).expect("its output");
        panic!("the run ended at once: {}", output.stderr);
    }
    child
}

fn a_server_that_is_killed_during_a_run_ends_it_soon() {
    let lab = lab_with_server();
    let run = start_run(&lab);
    signal_all("-KILL", "serve");
    let (code, text) = ends_within(seconds(5), run);
    assert_ne!(code, Some(0), "{text}");
}

fn a_server_that_stops_during_a_run_is_given_up() {
    let lab = lab_with_server();
    let run = start_run(&lab);
    signal_all("-STOP", "serve");
    // The rest of its time, and the deadline of the next message.
    let (code, text) = ends_within(seconds(28 + 13), run);
    signal_all("-KILL", "serve");
    assert_ne!(code, Some(0), "{text}");
}

fn a_client_that_is_killed_frees_its_place_within_a_second() {
    let lab = lab_with_server();
    let mut run = start_run(&lab);
    let program = lab.program();
    let words = [&program, "test", "far", "-n", "1K", "--no-save", "-q"];
    let refused =
        program_runner::capture_output(&mut lab.near_command(&words), HANG_LIMIT).expect("it ends");
    assert!(!refused.status.success(), "{}", refused.stdout);
    signal_all("-KILL", "test");
    run.wait().expect("its end");
    std::thread::sleep(seconds(1));
    lab.near(&words);
}

fn a_trace_to_nobody_ends() {
    let lab = StandingLab::up(TUN, &[]);
    let program = lab.program();
    let words = [&program, "path", "10.77.200.1", "--no-mtu", "--no-reverse", "--no-save"];
    let mut trace = lab.near_command(&words);
    trace.stdout(Stdio::null()).stderr(Stdio::piped());
    ends_within(seconds(60), trace.spawn().expect("it starts"));
}

fn a_grid_that_is_killed_is_resumed_and_measures_no_cell_twice() {
    let lab = lab_with_server();
    let archive = std::env::temp_dir().join("grid.sqlite3");
    let archive = archive.display().to_string();
    let program = lab.program();
    let grid = "--grid -w 64K,256K -P 1,2 -t 500ms --json --archive";
    let words: Vec<&str> = [&program, "tune", "far"]
        .into_iter()
        .chain(grid.split(' '))
        .chain([archive.as_str()])
        .collect();
    let mut first = lab.near_command(&words);
    first.stdout(Stdio::null()).stderr(Stdio::null());
    let mut first = first.spawn().expect("the grid starts");
    std::thread::sleep(seconds(2));
    signal_all("-KILL", "tune");
    first.wait().expect("its end");
    let output =
        program_runner::capture_output(&mut lab.near_command(&words), HANG_LIMIT).expect("it ends");
    assert!(output.stderr.contains("resuming scan "), "{}", output.stderr);
    let report: serde_json::Value = serde_json::from_str(&output.stdout).expect("JSON");
    assert_eq!(report["analysis"]["stopped_by"], "grid_done");
    let cells = report["observation"]["cells"].as_array().expect("cells");
    let list = lab.near(&[&program, "report", "list", "--json", "--archive", &archive]);
    let list: serde_json::Value = serde_json::from_str(&list).expect("JSON");
    assert_eq!(list[0]["parts"], cells.len(), "one run of each cell: {list:#}");
}
