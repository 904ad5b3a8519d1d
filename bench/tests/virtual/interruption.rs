//! Measurements that end early: by a signal, a closing terminal or a dying server. The result of
//! what was measured is shown and archived.

use crate::lab::{HANG_LIMIT, StandingLab, TUN};
use longhaul_sys::signal::{Signal, send_signal};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use xtask::program_runner::{self, ProgramOutput};

crate::virtual_tests!(
    ctrl_c_leaves_the_partial_result_of_every_command,
    ctrl_c_leaves_the_partial_result_of_runs_with_an_iperf3_server,
    an_interrupted_scan_keeps_its_probe_and_measures_the_setting_again,
    sigterm_and_a_closing_terminal_leave_the_partial_result,
    a_killed_server_leaves_what_this_end_knows,
    a_server_that_falls_silent_leaves_what_this_end_knows,
    a_second_ctrl_c_ends_at_once,
    an_interrupt_before_any_payload_says_so,
    a_run_without_a_time_lasts_until_it_is_stopped,
    a_signal_to_the_lab_reaches_the_run_in_it,
);

const INTERRUPTED: i32 = 130;
const PEER: i32 = 3;
/// The time from a signal to the end of a run whose server answers.
const SOON: Duration = Duration::from_secs(5);
const IPERF3_PORT: &str = "5202";

/// A path with servers at its far end, and an archive.
struct InterruptionLab {
    lab: StandingLab,
    archive: PathBuf,
}

/// A command that was started at the near end.
struct StartedCommand {
    name: String,
    child: Child,
}

/// A command that ended after a signal, or after its server had died.
struct EndedCommand {
    name: String,
    output: ProgramOutput,
    took: Duration,
}

impl InterruptionLab {
    fn up() -> InterruptionLab {
        // A rate that a guest affords: each second of a full path of 100 Mbit/s takes several.
        let lab = StandingLab::up(TUN, &["hops.2.rate=30M"]);
        lab.serve(&format!("exec {} serve", lab.program()));
        lab.serve(&format!("exec iperf3 -s -p {IPERF3_PORT}"));
        let archive = std::env::temp_dir().join("interruption.sqlite3");
        let _ = std::fs::remove_file(&archive);
        InterruptionLab { lab, archive }
    }

    /// Starts a command of longhaul, with the lab's archive, and lets some time pass.
    fn start(&self, words: &str, time: Duration) -> StartedCommand {
        let program = self.lab.program();
        let archive = self.archive.display().to_string();
        let words: Vec<&str> = [program.as_str()]
            .into_iter()
            .chain(words.split(' '))
            .chain(["--archive", &archive])
            .collect();
        let mut command = self.lab.near_command(&words);
        if words.contains(&IPERF3_PORT) {
            // With a token, no iperf3 server is looked for.
            command.env_remove("LONGHAUL_TOKEN");
        }
        let child = program_runner::spawn_captured(&mut command);
        let mut child = child.expect("the command starts");
        std::thread::sleep(time);
        let name = words[1..words.len() - 2].join(" ");
        if child.try_wait().expect("its state").is_some() {
            let output = program_runner::wait_with_output(child, HANG_LIMIT).expect("its output");
            panic!("`{name}` ended at once: {}{}", output.stdout, output.stderr);
        }
        StartedCommand { name, child }
    }

    /// Returns the latest report of the archive.
    fn archived(&self) -> Value {
        let archive = self.archive.display().to_string();
        let program = self.lab.program();
        let words = [&program, "report", "show", "last", "--json", "--archive", &archive];
        serde_json::from_str(&self.lab.near(&words)).expect("JSON")
    }

    /// Interrupts a command after some seconds; asserts that its result, with this caveat, is on
    /// the screen and in the archive. Returns the archived report.
    fn interrupt(&self, words: &str, seconds: u64) -> Value {
        let started = self.start(words, Duration::from_secs(seconds));
        let ended = started.signal(Signal::SIGINT).finish();
        let report = self.archived();
        ended.assert_partial(INTERRUPTED, &report, "interrupted");
        assert!(ended.took < SOON, "{}: {:?}", ended.name, ended.took);
        report
    }
}

impl StartedCommand {
    fn signal(self, signal: Signal) -> StartedCommand {
        send_signal(self.child.id(), signal).expect("the process is there");
        self
    }

    fn finish(self) -> EndedCommand {
        let began = Instant::now();
        let output = program_runner::wait_with_output(self.child, HANG_LIMIT).expect("it ends");
        let (name, took) = (self.name, began.elapsed());
        println!(
            "{:>4}  {:>6.2} s  {name}",
            output.status.code().unwrap_or(-1),
            took.as_secs_f64()
        );
        EndedCommand { name, output, took }
    }
}

impl EndedCommand {
    fn text(&self) -> String {
        format!("`{}`:\n{}{}", self.name, self.output.stdout, self.output.stderr)
    }

    /// Asserts the exit code, a result on the screen, and the caveat in the archive.
    fn assert_partial(&self, code: i32, archived: &Value, caveat: &str) {
        let text = self.text();
        assert_eq!(self.output.status.code(), Some(code), "{text}");
        assert!(self.output.stdout.len() > 200, "no result on the screen: {text}");
        assert!(!text.contains("panic"), "{text}");
        let codes = caveat_codes(archived);
        assert!(codes.contains(&caveat), "{codes:?}: {text}");
    }
}

fn caveat_codes(report: &Value) -> Vec<&str> {
    let caveats = report["caveats"].as_array().into_iter().flatten();
    caveats.filter_map(|caveat| caveat["code"].as_str()).collect()
}

fn received_bytes(report: &Value) -> u64 {
    report["observation"]["ends"]["receiver"]["bytes"].as_u64().unwrap_or(0)
}

fn ctrl_c_leaves_the_partial_result_of_every_command() {
    let lab = InterruptionLab::up();
    for options in
        ["-t 20", "-t 20 -R", "-t 20 --bidir", "-t 20 --json", "-n 10G", "-n 10G -R -P 4"]
    {
        let report = lab.interrupt(&format!("test far -b 20M {options}"), 4);
        assert!(received_bytes(&report) > 5_000_000, "{options}: {report:#}");
    }
    // Before its goodput is known.
    let report = lab.interrupt("test far -b 20M", 1);
    assert!(received_bytes(&report) > 0, "{report:#}");
    for options in ["", " -R"] {
        let report = lab.interrupt(&format!("test far -u -b 5M -t 20{options}"), 3);
        assert!(received_bytes(&report) > 1_000_000, "{options}: {report:#}");
    }
    let format = lab.start("test far -t 20 -b 20M --format iperf3", Duration::from_secs(4));
    let format = format.signal(Signal::SIGINT).finish();
    format.assert_partial(INTERRUPTED, &lab.archived(), "interrupted");
    let json: Value = serde_json::from_str(&format.output.stdout).expect("JSON");
    assert!(json["end"]["sum_received"]["bytes"].as_u64() > Some(5_000_000), "{json:#}");
    let report = lab.interrupt("available far --shaper", 3);
    assert!(report["analysis"]["forward"].is_object(), "{report:#}");
    let report = lab.interrupt("load far -t 20s --idle 1s", 5);
    assert!(report["observation"]["phases"][1]["load"]["bytes"].as_u64() > Some(0), "{report:#}");
    lab.interrupt("path far -c 100", 3);
    let report = lab.interrupt("path far --load=8s --no-mtu --no-reverse -c 2", 16);
    assert!(report["observation"]["hop_load"]["hops"].is_array(), "{report:#}");
}

fn ctrl_c_leaves_the_partial_result_of_runs_with_an_iperf3_server() {
    let lab = InterruptionLab::up();
    for options in ["-t 20", "-t 20 -R", "-t 20 --bidir", "-t 20 -u", "-n 10G"] {
        let report =
            lab.interrupt(&format!("test far -p {IPERF3_PORT} --iperf3 -b 5M {options}"), 4);
        assert!(received_bytes(&report) > 1_000_000, "{options}: {report:#}");
        assert!(!caveat_codes(&report).contains(&"peer_lost"), "{options}: {report:#}");
    }
    // The server is found, and takes the next client.
    lab.interrupt(&format!("test far -p {IPERF3_PORT} -b 5M -t 20"), 5);
    lab.interrupt(&format!("iperf3 -c far -p {IPERF3_PORT} -b 5M -t 20"), 4);
    let json = format!("iperf3 -c far -p {IPERF3_PORT} -b 5M -t 20 -J");
    let started = lab.start(&json, Duration::from_secs(4));
    let ended = started.signal(Signal::SIGINT).finish();
    ended.assert_partial(INTERRUPTED, &lab.archived(), "interrupted");
    let json: Value = serde_json::from_str(&ended.output.stdout).expect("JSON");
    assert!(json["end"]["sum_received"]["bytes"].as_u64() > Some(1_000_000), "{json:#}");
}

fn an_interrupted_scan_keeps_its_probe_and_measures_the_setting_again() {
    let lab = InterruptionLab::up();
    let grid = "tune far --grid -w 64K,256K -P 1,2 -t 3s";
    lab.interrupt(grid, 2);
    // In the second probe: the report of the first one, and the run of the second.
    let second = lab.start(grid, Duration::from_secs(6)).signal(Signal::SIGINT).finish();
    second.assert_partial(INTERRUPTED, &lab.archived(), "interrupted");
    assert!(second.output.stderr.contains("resume"), "{}", second.text());
    let archive = lab.archive.display().to_string();
    let words = [&lab.lab.program(), "tune", "far", "--grid", "-w", "64K,256K", "-P", "1,2", "-t"];
    let words = words.map(|word| word as &str);
    let report = lab.lab.near(&[&words[..], &["3s", "--json", "--archive", &archive]].concat());
    let report: Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(report["analysis"]["stopped_by"], "grid_done");
    let cells = report["observation"]["cells"].as_array().expect("cells");
    assert!(cells.iter().all(|cell| cell["goodput_bps"].is_u64()), "{report:#}");
}

fn sigterm_and_a_closing_terminal_leave_the_partial_result() {
    let lab = InterruptionLab::up();
    for signal in [Signal::SIGTERM, Signal::SIGHUP] {
        let started = lab.start("test far -t 20 -b 20M", Duration::from_secs(4));
        let ended = started.signal(signal).finish();
        ended.assert_partial(INTERRUPTED, &lab.archived(), "interrupted");
    }
    // The kernel and the shell both tell of the closed terminal, to which nothing can be written.
    let mut closed = lab.start("test far -t 20 -b 21M", Duration::from_secs(4));
    (closed.child.stdout, closed.child.stderr) = (None, None);
    let ended = closed.signal(Signal::SIGHUP).signal(Signal::SIGHUP).finish();
    assert_eq!(ended.output.status.code(), Some(INTERRUPTED));
    let report = lab.archived();
    assert_eq!(report["plan"]["write_rate_bps"], 21_000_000, "{report:#}");
    assert!(caveat_codes(&report).contains(&"interrupted"), "{report:#}");
}

/// Sends a signal to the servers of the far end, and starts new ones after their death.
fn signal_servers(signal: &str) {
    for pattern in ["longhaul serve", "iperf3 -s"] {
        let status = Command::new("pkill").args([signal, "-f", pattern]).status();
        assert!(status.expect("pkill runs").success(), "no {pattern} runs");
    }
}

fn lose_server(words: &str, seconds: u64, signal: &str) -> (EndedCommand, Value) {
    let lab = InterruptionLab::up();
    let started = lab.start(words, Duration::from_secs(seconds));
    signal_servers(signal);
    let ended = started.finish();
    let report = lab.archived();
    ended.assert_partial(PEER, &report, "peer_lost");
    if signal != "-KILL" {
        signal_servers("-KILL");
    }
    (ended, report)
}

fn a_killed_server_leaves_what_this_end_knows() {
    for options in ["", " -R", " --bidir", " -u"] {
        let (ended, report) = lose_server(&format!("test far -t 20 -b 20M{options}"), 4, "-KILL");
        assert!(ended.took < SOON, "{}: {:?}", ended.name, ended.took);
        // 20 Mbit/s for more than two seconds.
        assert!(received_bytes(&report) > 5_000_000, "{options}: {report:#}");
        let goodput = report["analysis"]["goodput_bps"].as_f64().expect("a goodput");
        assert!((18e6..22e6).contains(&goodput), "{options}: {report:#}");
    }
    for options in ["", " -R"] {
        let words = format!("test far -t 20 --iperf3 -p {IPERF3_PORT} -b 20M{options}");
        let (ended, report) = lose_server(&words, 4, "-KILL");
        assert!(ended.took < SOON, "{}: {:?}", ended.name, ended.took);
        assert!(received_bytes(&report) > 5_000_000, "{options}: {report:#}");
    }
    lose_server("load far -t 20s --idle 1s", 5, "-KILL");
    lose_server("available far --shaper", 3, "-KILL");
}

fn a_server_that_falls_silent_leaves_what_this_end_knows() {
    let (ended, report) = lose_server("test far -t 60 -b 20M", 4, "-STOP");
    assert!(ended.took < Duration::from_secs(20), "{:?}", ended.took);
    assert!(received_bytes(&report) > 5_000_000, "{report:#}");
    // After Ctrl-C, less patience.
    let lab = InterruptionLab::up();
    let started = lab.start("test far -t 60 -b 20M", Duration::from_secs(4));
    signal_servers("-STOP");
    let ended = started.signal(Signal::SIGINT).finish();
    ended.assert_partial(INTERRUPTED, &lab.archived(), "interrupted");
    assert!(ended.took < Duration::from_secs(12), "{:?}", ended.took);
    signal_servers("-KILL");
}

fn a_second_ctrl_c_ends_at_once() {
    let lab = InterruptionLab::up();
    let started = lab.start("test far -t 60 -b 20M", Duration::from_secs(3));
    signal_servers("-STOP");
    let started = started.signal(Signal::SIGINT);
    std::thread::sleep(Duration::from_secs(1));
    let ended = started.signal(Signal::SIGINT).finish();
    assert_eq!(ended.output.status.code(), Some(INTERRUPTED), "{}", ended.text());
    assert!(ended.took < Duration::from_millis(100), "{:?}", ended.took);
    signal_servers("-KILL");
}

fn an_interrupt_before_any_payload_says_so() {
    let lab = InterruptionLab::up();
    // The servers do not accept, but the kernel connects.
    signal_servers("-STOP");
    for command in ["test", "available", "load", "tune"] {
        let started = lab.start(&format!("{command} far"), Duration::from_secs(1));
        let ended = started.signal(Signal::SIGINT).finish();
        let text = ended.text();
        assert_eq!(ended.output.status.code(), Some(INTERRUPTED), "{text}");
        assert!(ended.output.stderr.contains("interrupted"), "{text}");
        assert!(ended.took < Duration::from_secs(1), "{text}: {:?}", ended.took);
    }
    signal_servers("-KILL");
}

fn a_run_without_a_time_lasts_until_it_is_stopped() {
    let lab = InterruptionLab::up();
    for command in ["test far", "test far -p 5202 --iperf3"] {
        let started = lab.start(&format!("{command} -t 0 -b 20M"), Duration::from_secs(14));
        let ended = started.signal(Signal::SIGINT).finish();
        assert_eq!(ended.output.status.code(), Some(0), "{}", ended.text());
        let report = lab.archived();
        assert_eq!(report["plan"]["until_stopped"], true, "{report:#}");
        assert!(!caveat_codes(&report).contains(&"interrupted"), "{report:#}");
        assert!(report["observation"]["elapsed_us"].as_u64() > Some(12_000_000), "{report:#}");
    }
    // A stranger gets what the server grants.
    let serve = format!("exec {} serve -p 5203 --anonymous --anonymous-time 5s", lab.lab.program());
    lab.lab.serve(&serve);
    let program = lab.lab.program();
    let archive = lab.archive.display().to_string();
    let words = "test far -p 5203 -t 0 -b 20M --json --archive";
    let words: Vec<&str> =
        [&program as &str].into_iter().chain(words.split(' ')).chain([&archive as &str]).collect();
    let mut command = lab.lab.near_command(&words);
    command.env_remove("LONGHAUL_TOKEN");
    let text = program_runner::capture_stdout(&mut command, HANG_LIMIT).expect("it ends by itself");
    let report: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(report["plan"]["stop"]["time_us"], 5_000_000, "{report:#}");
    assert!(caveat_codes(&report).contains(&"time_granted"), "{report:#}");
}

fn a_signal_to_the_lab_reaches_the_run_in_it() {
    let longhaul = program_runner::build_longhaul_for_tests().expect("the program builds");
    let archive = std::env::temp_dir().join("in-the-lab.sqlite3");
    let mut command = Command::new(&longhaul);
    command.args(["lab", "run", "slac-daresbury", "--"]).arg(&longhaul);
    command.args(["test", "far", "-t", "30", "-b", "5M", "--archive"]).arg(&archive);
    let child = program_runner::spawn_captured(&mut command).expect("it starts");
    std::thread::sleep(Duration::from_secs(8));
    let started = StartedCommand { name: "lab run".to_owned(), child };
    let ended = started.signal(Signal::SIGTERM).finish();
    let mut show = Command::new(&longhaul);
    show.args(["report", "show", "last", "--json", "--archive"]).arg(&archive);
    let report = program_runner::capture_stdout(&mut show, HANG_LIMIT).expect("it is archived");
    let report = serde_json::from_str(&report).expect("JSON");
    ended.assert_partial(INTERRUPTED, &report, "interrupted");
}
