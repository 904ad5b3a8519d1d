//! `serve` and `test` together, over loopback: from the command line to the archive.

use crate::support::{self, Folder, longhaul};
use assert_cmd::Command;
use longhaul_sys::sched::may_use_core;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

/// A far end on a port of its own; ended with the test.
pub struct FarEnd {
    child: Child,
    /// Lines of its log, JSON.
    log: BufReader<std::process::ChildStderr>,
    pub port: String,
    pub token: Option<String>,
}

impl FarEnd {
    pub fn start(options: &[&str]) -> FarEnd {
        let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_longhaul"))
            .args(["serve", "-B", "127.0.0.1", "-p", "0", "--json"])
            .args(options)
            .env_remove("LONGHAUL_TOKEN")
            .env("XDG_DATA_HOME", env!("CARGO_TARGET_TMPDIR"))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start the far end");
        let mut log = BufReader::new(child.stderr.take().expect("its log"));
        let first = next_line(&mut log);
        assert_eq!(first["event"], "serving", "{first}");
        let address = first["addresses"][0].as_str().expect("an address").to_owned();
        FarEnd {
            child,
            log,
            port: address.rsplit(':').next().expect("a port").to_owned(),
            token: first["token_file"].as_str().map(|path| {
                let text = std::fs::read_to_string(path).expect("the file of the token");
                text.trim().to_owned()
            }),
        }
    }

    /// `longhaul test` against it, with its token.
    fn test(&self, options: &[&str]) -> Command {
        self.command("test", options)
    }

    /// A command against it, with its token.
    pub fn command(&self, name: &str, options: &[&str]) -> Command {
        let mut command = longhaul();
        command.args([name, "127.0.0.1", "-p", &self.port]).args(options);
        if let Some(token) = &self.token {
            command.env("LONGHAUL_TOKEN", token);
        }
        command
    }

    /// Reads the log up to an event of this kind.
    fn wait_for(&mut self, event: &str) -> Value {
        loop {
            let line = next_line(&mut self.log);
            if line["event"] == event {
                return line;
            }
        }
    }

    /// Waits until it has ended by itself.
    fn ended(mut self) -> Option<i32> {
        // Its log closes when it ends.
        std::io::copy(&mut self.log, &mut std::io::sink()).expect("its log");
        self.child.wait().expect("its end").code()
    }
}

impl Drop for FarEnd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn next_line(log: &mut impl BufRead) -> Value {
    let mut lines = log.lines().map(|line| line.expect("a line of the log"));
    // Another test may have killed a lab, of which every command warns.
    let line = lines.find(|line| !line.starts_with("warning: ")).expect("a line");
    serde_json::from_str(&line).unwrap_or_else(|_| panic!("not JSON: {line:?}"))
}

fn json(command: &mut Command) -> Value {
    let assert = command.assert().success();
    serde_json::from_slice(&assert.get_output().stdout).expect("JSON")
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

#[test]
fn a_run_is_measured_kept_and_shown_again() {
    let far = FarEnd::start(&[]);
    let folder = Folder::new("loopback");
    let archive = folder.file("archive.sqlite3");
    let archive = archive.to_str().expect("UTF-8");
    let paced = ["-n", "4M", "-b", "32M", "-P", "2"];
    let report = json(far.test(&paced).args(["--json", "--archive", archive]));
    assert_eq!(report["schema"], "longhaul.report/1");
    assert_eq!(report["plan"]["streams"], 2);
    assert_eq!(report["observation"]["streams"].as_array().expect("streams").len(), 2);
    assert_eq!(report["observation"]["same_host"], true);
    let totals = &report["analysis"]["totals"];
    assert_eq!(totals["receiver_bytes"], 4 << 20);
    assert_eq!(totals["sender_bytes"], totals["receiver_bytes"]);
    assert!(report["analysis"]["goodput_bps"].as_u64().expect("a rate") > 0);
    assert!(report["analysis"]["limited_by"].is_string());
    assert!(report["observation"]["streams"][0]["sender"]["send_buffer"].is_object());

    let shown = json(longhaul().args(["report", "show", "last", "--json", "--archive", archive]));
    assert!(shown == report, "the archive holds what was shown");
    let text = longhaul().args(["report", "show", "last", "--archive", archive]).assert().success();
    let text = text_of(&text.get_output().stdout);
    assert!(text.contains("limited by"), "{text}");
    for line in text.lines() {
        let command = line.trim_start().starts_with("sysctl");
        assert!(command || line.chars().count() <= 80, "{line}");
    }
}

#[test]
fn a_run_that_shall_not_be_kept_leaves_no_archive() {
    let far = FarEnd::start(&[]);
    let folder = Folder::new("no_save");
    let archive = folder.file("archive.sqlite3");
    far.test(&["-t", "300ms", "--no-save", "--archive"]).arg(&archive).assert().success();
    assert!(!archive.exists());
}

#[test]
fn every_kind_of_run_gives_a_report() {
    let far = FarEnd::start(&[]);
    for options in [
        &["-R"][..],
        &["--bidir"],
        &["-n", "10M"],
        &["-k", "100"],
        &["--wire"],
        &["-Z"],
        &["-w", "256K", "-N", "-M", "1400", "--dscp", "CS1"],
        &["-b", "50M", "-l", "8K", "--read-length", "16K"],
        &["-u", "-b", "20M", "-l", "1400"],
        &["-t", "500ms", "-O", "100ms", "--sample-interval", "50ms", "-A", "off"],
    ] {
        let mut arguments = vec!["--no-save", "--json"];
        // By bytes, so that some arrive however late the ends are.
        if !options.iter().any(|o| ["-n", "-k", "-O"].contains(o)) {
            arguments.extend(["-n", "1M"]);
        }
        arguments.extend(options);
        let report = json(&mut far.test(&arguments));
        let received = report["analysis"]["totals"]["receiver_bytes"].as_u64();
        let timed = options.contains(&"-t");
        assert!(received.is_some_and(|it| it > 0 || timed), "{options:?}");
        let back = report["analysis"]["reverse"].is_object();
        assert_eq!(back, options.contains(&"--bidir"), "{options:?}");
    }
}

#[test]
fn an_expectation_that_is_missed_ends_with_1_and_is_named() {
    let far = FarEnd::start(&[]);
    let expect = |condition: &str| {
        let mut command = far.test(&["-n", "1M", "--no-save", "--json", "--expect"]);
        command.arg(condition);
        command
    };
    expect("goodput >= 1 kbit/s").assert().code(0);
    let missed = expect("goodput >= 90 Tbit/s").assert().code(1);
    let output = missed.get_output();
    let told = text_of(&output.stderr);
    assert!(told.starts_with("missed: expected goodput >= 90 Tbit/s; found "), "{told}");
    // The report is there all the same.
    serde_json::from_slice::<Value>(&output.stdout).expect("JSON");
}

#[test]
fn an_archive_that_fails_costs_the_entry_and_not_the_result() {
    let far = FarEnd::start(&[]);
    let folder = Folder::new("archive_fails");
    let damaged = folder.file("damaged.sqlite3");
    std::fs::write(&damaged, vec![b'x'; 8192]).expect("write");
    // Permissions do not stop root, so the place that cannot be written is a folder.
    let unwritable = folder.0.clone();
    for place in [damaged, unwritable] {
        let assert = far.test(&["-t", "300ms", "--json", "--archive"]).arg(&place).assert().code(0);
        let output = assert.get_output();
        let told = text_of(&output.stderr);
        assert!(told.contains("caveat: cannot archive this run: "), "{told}");
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let caveats = report["caveats"].as_array().expect("caveats");
        assert!(caveats.iter().any(|c| c["code"] == "not_archived"), "{caveats:?}");
    }
}

#[test]
fn a_full_disk_costs_the_entry_and_not_the_result() {
    let far = FarEnd::start(&[]);
    let folder = Folder::new("disk_full");
    // A limit on the size of files stands in for a full disk; its signal is ignored, so that the
    // write itself fails, as on a full disk.
    let script = "trap '' XFSZ; ulimit -f 4; exec \"$0\" \"$@\"";
    let output = std::process::Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_longhaul")])
        .args(["test", "127.0.0.1", "-p", &far.port, "-t", "300ms", "--archive"])
        .arg(folder.file("archive.sqlite3"))
        .env("LONGHAUL_TOKEN", far.token.as_deref().unwrap_or_default())
        .output()
        .expect("start sh");
    let told = text_of(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.contains("caveat: cannot archive this run: cannot write the archive"), "{told}");
    let shown = text_of(&output.stdout);
    assert!(shown.contains("limited by"), "{shown}");
    assert!(shown.contains("not archived: repeat the command with --full"), "{shown}");
    println!("attack: tried 1");
}

#[test]
fn a_wrong_token_is_refused_and_the_far_end_goes_on() {
    let mut far = FarEnd::start(&[]);
    let wrong = far
        .test(&["-t", "300ms", "--no-save"])
        .env("LONGHAUL_TOKEN", "0123456789abcdef0123456789abcdef")
        .assert()
        .code(3);
    let told = text_of(&wrong.get_output().stderr);
    assert!(support::skip_lab_warning(&told).starts_with("error: "), "{told}");
    assert!(told.contains("token"), "{told}");
    assert!(told.contains("\nhint: "), "{told}");
    // The right one, from a file.
    let folder = Folder::new("token_file");
    let file = folder.file("token");
    std::fs::write(&file, format!("{}\n", far.token.clone().expect("a token"))).expect("write");
    far.test(&["-t", "300ms", "--no-save", "--token-file"])
        .env_remove("LONGHAUL_TOKEN")
        .arg(&file)
        .assert()
        .success();
    assert_eq!(far.wait_for("session_opened")["anonymous"], false);
}

#[test]
fn a_stranger_gets_the_limits_that_were_stated_and_no_more() {
    let far = FarEnd::start(&["--anonymous", "--anonymous-time", "1s"]);
    assert_eq!(far.token, None);
    far.test(&["-t", "300ms", "--no-save"]).assert().success();
    let long = far.test(&["-t", "5", "--no-save"]).assert().code(3);
    let told = text_of(&long.get_output().stderr);
    assert!(told.contains("1 s"), "{told}");
}

#[test]
fn strangers_are_turned_away_where_only_the_token_counts() {
    let far = FarEnd::start(&["--token-only"]);
    let told =
        far.test(&["-t", "300ms", "--no-save"]).env_remove("LONGHAUL_TOKEN").assert().code(3);
    let told = text_of(&told.get_output().stderr);
    assert!(told.contains("token"), "{told}");
}

#[test]
fn one_off_ends_by_itself_after_a_run() {
    let far = FarEnd::start(&["--one-off"]);
    far.test(&["-t", "300ms", "--no-save"]).assert().success();
    assert_eq!(far.ended(), Some(0));
}

#[test]
fn the_usual_signals_end_the_far_end_cleanly() {
    use longhaul_sys::signal::{Signal, send_signal};
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let far = FarEnd::start(&[]);
        send_signal(far.child.id(), signal).expect("send a signal");
        assert_eq!(far.ended(), Some(0), "{signal:?}");
    }
}

/// Loops that keep a core busy; ended with the test.
struct BusyCore {
    core: String,
    loops: Vec<Child>,
}

impl BusyCore {
    /// Keeps the first core busy that this process may use.
    fn start() -> BusyCore {
        let is_allowed = |core: &usize| may_use_core(*core).expect("the own affinity");
        // A cpuset names no more.
        let core = (0..1024).find(is_allowed).expect("a core").to_string();
        let spin = |_| {
            let mut taskset = std::process::Command::new("taskset");
            let spinning = taskset.args(["-c", &core, "sh", "-c", "while :; do :; done"]);
            spinning.spawn().expect("taskset of util-linux")
        };
        BusyCore { loops: (0..3).map(spin).collect(), core }
    }
}

impl Drop for BusyCore {
    fn drop(&mut self) {
        for child in &mut self.loops {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn a_run_on_a_busy_core_says_so_and_accuses_nobody_with_confidence() {
    let far = FarEnd::start(&[]);
    let busy = BusyCore::start();
    let longhaul = env!("CARGO_BIN_EXE_longhaul");
    let mut command = Command::new("taskset");
    command.args(["-c", &busy.core, "nice", "-n", "10", longhaul, "test", "127.0.0.1", "-p"]);
    command.args([&far.port, "-t", "3s", "--no-save", "--json"]);
    command.env("LONGHAUL_TOKEN", far.token.as_deref().expect("a token"));
    let output = command.assert().success().get_output().stdout.clone();
    let report: Value = serde_json::from_slice(&output).expect("a report");
    let caveats = report["caveats"].as_array().expect("caveats").iter();
    let codes: Vec<&str> = caveats.filter_map(|caveat| caveat["code"].as_str()).collect();
    assert!(codes.contains(&"busy_machine") || codes.contains(&"busy_host"), "{report:#}");
    let findings = report["findings"].as_array().expect("findings").iter();
    let causes: Vec<&Value> = findings.map(|finding| &finding["cause"]).collect();
    let accusing = ["policer", "shaper", "random_loss", "healthy"];
    assert!(!causes.iter().any(|cause| accusing.iter().any(|it| *cause == it)), "{causes:?}");
}
