//! An agent whose target is cut off: the metric that alerts use falls within two intervals.

use longhaul_bench::scratch_folder::ScratchFolder;
use longhaul_sys::signal::{Signal, send_signal};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use xtask::program_runner;

crate::virtual_tests!(a_target_that_is_cut_off_is_down_within_two_intervals,);

const PAGE: &str = "127.0.0.1:5280";
const EVERY: Duration = Duration::from_secs(600);
const WATCH_FILE: &str = r#"
[agent]
name = "here"
archive = "archive.sqlite3"
jitter = "0 s"
[[host]]
name = "there"
address = "127.0.0.1"
[[target]]
host = "there"
[[measure]]
name = "bulk"
kind = "throughput"
time = "1 s"
rate = "1 Mbit/s"
directions = "forward"
every = "10 min"
[detect]
follow_ups = false
"#;
const UP: &str = r#"longhaul_up{measure="bulk",from="here",to="there"} "#;
const LAST: &str =
    r#"longhaul_last_success_timestamp_seconds{measure="bulk",from="here",to="there"} "#;

/// A process of the test, terminated at its end.
struct TestProcess(Child);

impl TestProcess {
    fn start(longhaul: &Path, arguments: &[&str]) -> TestProcess {
        let mut command = Command::new(longhaul);
        command.args(arguments).stdin(Stdio::null());
        TestProcess(command.spawn().expect("the program starts"))
    }
}

impl Drop for TestProcess {
    fn drop(&mut self) {
        let _ = send_signal(self.0.id(), Signal::SIGTERM);
        let _ = program_runner::wait_with_limit(&mut self.0, Duration::from_secs(120));
    }
}

/// Returns the value of a metric, if the agent exports it.
fn read_metric(name: &str) -> Option<f64> {
    let mut stream = TcpStream::connect(PAGE).ok()?;
    let request = format!("GET /metrics HTTP/1.1\r\nhost: {PAGE}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.lines().find_map(|line| line.strip_prefix(name)?.parse().ok())
}

/// Waits until the target is up or not; returns the time that it took.
fn wait_for_up(wanted: f64, limit: Duration) -> Duration {
    let began = Instant::now();
    while read_metric(UP) != Some(wanted) {
        let waited = began.elapsed();
        assert!(waited < limit, "not {wanted} after {waited:?}, but {:?}", read_metric(UP));
        sleep(Duration::from_secs(5));
    }
    began.elapsed()
}

fn a_target_that_is_cut_off_is_down_within_two_intervals() {
    let longhaul = program_runner::build_longhaul_for_tests().expect("the program builds");
    let folder = ScratchFolder::on_disk().expect("a folder");
    let file = folder.path("watch.toml");
    std::fs::write(&file, WATCH_FILE).expect("written");
    let server = TestProcess::start(&longhaul, &["serve", "--anonymous"]);
    let _agent = TestProcess::start(&longhaul, &["watch", file.to_str().expect("a path")]);
    wait_for_up(1.0, 2 * EVERY);
    let last = read_metric(LAST).expect("the time of the last success");
    assert!(last > 0.0);
    drop(server);
    let took = wait_for_up(0.0, 2 * EVERY);
    assert!(took > Duration::ZERO, "it was up until then");
    // The server comes back: so does the metric, and the failures stay counted.
    let _server = TestProcess::start(&longhaul, &["serve", "--anonymous"]);
    wait_for_up(1.0, 2 * EVERY);
    assert!(read_metric(LAST).is_some_and(|it| it > last));
    let failed =
        r#"longhaul_runs_failed_total{measure="bulk",from="here",to="there",reason="target"} "#;
    assert_eq!(read_metric(failed), Some(1.0));
}
