//! The lab's emulated path is what its file says, by iperf3, ping and the device's counters, on each
//! backend and without root.

use longhaul_bench::bench_lab::{self, BenchLab, HeldProcess};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use xtask::program_runner;

crate::virtual_tests!(
    round_trips_are_those_of_the_path,
    a_tcp_transfer_runs_at_the_goodput_limit,
    the_bottleneck_carries_its_rate,
    random_loss_is_within_its_binomial_interval,
    routers_answer_by_name_from_their_place_in_the_path,
);

const PLAIN: &str = include_str!("plain.toml");
/// IPv4 and TCP with timestamps in 1500 bytes, 1538 on the wire, at 100 Mbit/s.
const GOODPUT_LIMIT_BPS: f64 = 100e6 * 1448.0 / 1538.0;
const RTT_MS: f64 = 20.0;
const LIMIT: Duration = Duration::from_secs(600);
/// The time after which a command counts as hanging.
pub const HANG_LIMIT: Duration = Duration::from_secs(300);

/// A backend of the lab, and whether an ordinary user runs it.
#[derive(Debug, Clone, Copy)]
pub struct LabMode {
    backend: &'static str,
    unprivileged: bool,
}

pub const TUN: LabMode = LabMode { backend: "tun", unprivileged: false };
const PACKET: LabMode = LabMode { backend: "packet", unprivileged: false };
const UNPRIVILEGED: LabMode = LabMode { backend: "packet", unprivileged: true };
const MODES: [LabMode; 3] = [TUN, PACKET, UNPRIVILEGED];

/// A path that stays until it is dropped, with no server at its far end.
pub struct StandingLab {
    folder: PathBuf,
    _far: HeldProcess,
    lab: BenchLab,
}

impl StandingLab {
    /// Sets up the plain path with `sets` in force.
    pub fn up(mode: LabMode, sets: &[&str]) -> StandingLab {
        let name = format!("lab-{}-{}", mode.backend, mode.unprivileged);
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("plain.toml"), PLAIN).expect("the path file");
        // An ordinary user may have no access to where the program was built.
        let longhaul = program_runner::build_longhaul_for_tests().expect("the program builds");
        fs::copy(longhaul, folder.join("longhaul")).expect("a copy of the program");
        let everyone = || fs::Permissions::from_mode(0o777);
        fs::set_permissions(&folder, everyone()).expect("permissions");
        fs::set_permissions(folder.join("longhaul"), everyone()).expect("permissions");
        let mut command = Command::new("env");
        if mode.unprivileged {
            command = Command::new("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
        }
        command.arg(folder.join("longhaul")).args(["lab", "run"]).arg(folder.join("plain.toml"));
        command.args(sets.iter().flat_map(|set| ["--set", set]));
        command.arg("--truth").arg(folder.join("truth.json"));
        command.env("LONGHAUL_LAB_BACKEND", mode.backend).current_dir("/");
        let mut lab = BenchLab::start(&mut command).expect("the path is set up");
        let far = lab.replace_server().expect("the far host is free for other servers");
        StandingLab { folder, _far: far, lab }
    }

    /// Returns the program as the hosts of the lab find it.
    pub fn program(&self) -> String {
        self.folder.join("longhaul").display().to_string()
    }

    /// Starts a server at the far end and waits until it listens.
    pub fn serve(&self, command: &str) {
        let script = format!("{command} >/dev/null 2>&1 & sleep 0.5");
        run_at_host(&mut command_with_token(self.lab.far, &["sh", "-c", &script]));
    }

    /// Returns a command that runs at the near end.
    pub fn near_command(&self, words: &[&str]) -> Command {
        command_with_token(self.lab.near, words)
    }

    /// Takes the path down and returns its ground truth.
    fn finish(self) -> Value {
        let truth = self.folder.join("truth.json");
        drop(self);
        let truth = fs::read_to_string(truth).expect("the truth");
        serde_json::from_str(&truth).expect("JSON")
    }

    /// Runs a command at the near end and returns what it prints.
    pub fn near(&self, words: &[&str]) -> String {
        run_at_host(&mut self.near_command(words))
    }

    /// The same for iperf3, whose report is JSON.
    pub fn iperf3(&self, words: &[&str]) -> Value {
        let text = self.near(&[&["iperf3", "-J", "-c", "far"], words].concat());
        serde_json::from_str(&text).expect("iperf3's report")
    }
}

fn command_with_token(host: u32, words: &[&str]) -> Command {
    let mut command = bench_lab::command_at_host(host, words);
    command.env("LONGHAUL_TOKEN", "of-this-test-0123456789abcdef");
    command
}

/// Runs a command to its end, which must be a success, and returns what it prints.
fn run_at_host(command: &mut Command) -> String {
    let output = program_runner::capture_output(command, LIMIT).expect("it ends");
    assert!(output.status.success(), "{} {}", output.stdout, output.stderr);
    output.stdout
}

fn with_iperf3(mode: LabMode, sets: &[&str]) -> StandingLab {
    let lab = StandingLab::up(mode, sets);
    lab.serve("iperf3 -s");
    lab
}

fn round_trips_are_those_of_the_path() {
    for mode in MODES {
        let lab = with_iperf3(mode, &[]);
        for family in ["-4", "-6"] {
            let words = ["ping", family, "-n", "-q", "-c", "20", "-i", "0.05", "far"];
            let printed = lab.near(&words);
            let summary = printed.split("mdev = ").nth(1).expect("ping's summary");
            let min = summary.split('/').next().and_then(|ms| ms.parse().ok());
            let range = RTT_MS..RTT_MS + 0.1;
            assert!(min.is_some_and(|min| range.contains(&min)), "{mode:?}: {printed}");
        }
    }
}

fn a_tcp_transfer_runs_at_the_goodput_limit() {
    for mode in MODES {
        let lab = with_iperf3(mode, &[]);
        let report = lab.iperf3(&["-C", "cubic", "-O", "1", "-t", "1"]);
        let received = report["end"]["sum_received"]["bits_per_second"].as_f64();
        let share = received.expect("a rate") / GOODPUT_LIMIT_BPS;
        assert!((0.99..1.01).contains(&share), "{mode:?}: {share}");
    }
}

/// Reads the near device's counter twice while the far end sends.
const WINDOW: &str = "
    iperf3 -c far -C cubic -R -t 3 -i 0 >/dev/null &
    sleep 2
    for i in 1 2; do
        echo $(date +%s%N) $(cat /sys/class/net/wan0/statistics/rx_bytes)
        sleep 1
    done
    wait";

fn the_bottleneck_carries_its_rate() {
    for mode in MODES {
        let lab = with_iperf3(mode, &[]);
        let printed = lab.near(&["sh", "-c", WINDOW]);
        let numbers: Vec<f64> = printed.split_whitespace().flat_map(str::parse).collect();
        let &[from_ns, from_bytes, to_ns, to_bytes] = &numbers[..] else {
            panic!("two readings: {printed}");
        };
        let rate_bps = 8e9 * (to_bytes - from_bytes) / (to_ns - from_ns);
        // A packet socket's device counts the Ethernet header, and a super-packet has one.
        let share = rate_bps / (100e6 * 1500.0 / 1538.0);
        assert!((0.99..1.01).contains(&share), "{mode:?}: {share}");
    }
}

fn random_loss_is_within_its_binomial_interval() {
    const LOSS: f64 = 0.01;
    for mode in [TUN, PACKET] {
        let lab = with_iperf3(mode, &["hops.2.forward.loss=1 %"]);
        let report = lab.iperf3(&["-u", "-b", "15M", "-l", "1000", "-t", "5"]);
        let sum = &report["end"]["sum"];
        let sent = sum["packets"].as_f64().expect("packets");
        let lost = sum["lost_packets"].as_f64().expect("lost packets");
        // Four standard deviations: once in 16 000 runs outside by chance.
        let margin = 4.0 * (sent * LOSS * (1.0 - LOSS)).sqrt();
        assert!((lost - sent * LOSS).abs() < margin, "{mode:?}: {lost} of {sent}");
        let dropped = dropped_by_the_path(&lab.finish());
        // Beyond the datagrams there are the control connection's few segments.
        assert!((dropped - lost).abs() < 10.0, "{mode:?}: {dropped}, {lost}");
    }
}

fn dropped_by_the_path(truth: &Value) -> f64 {
    let drops = &truth["routes"][0]["hops"][1]["forward"]["drops"];
    assert_eq!(drops["loss"], drops["total"], "{drops}");
    drops["loss"].as_f64().expect("the truth's loss")
}

fn routers_answer_by_name_from_their_place_in_the_path() {
    let lab = StandingLab::up(TUN, &[]);
    let pings = "ping -n -c 1 -t 1 far; ping -n -6 -c 1 -t 2 far; ping -n -4 -c 1 r1.example.net";
    let printed = lab.near(&["sh", "-c", pings]);
    for text in ["From 10.77.1.1", "From fd77:0:0:1::2", "64 bytes from 10.77.1.1"] {
        assert!(printed.contains(text), "{text} is missing in {printed}");
    }
}
