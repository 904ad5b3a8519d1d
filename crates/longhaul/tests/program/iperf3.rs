//! `longhaul test` against Debian's iperf3 3.12 over loopback, and runs printed in its shape.

use crate::support::{Folder, free_port, longhaul};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

const LISTENS: &str = "Server listening";

/// An iperf3 server on a port of its own; ended with the test.
struct Server {
    child: Child,
    port: String,
    lines: BufReader<ChildStdout>,
}

impl Server {
    fn start() -> Server {
        let port = free_port().to_string();
        let mut child = Command::new("iperf3")
            .args(["-s", "-B", "127.0.0.1", "-p", &port, "--forceflush"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("iperf3 is installed");
        let lines = BufReader::new(child.stdout.take().expect("its output"));
        let mut server = Server { child, port, lines };
        server.wait_for(LISTENS);
        server
    }

    /// Reads its output up to a line with this.
    fn wait_for(&mut self, word: &str) {
        let mut line = String::new();
        while !line.contains(word) {
            line.clear();
            let read = self.lines.read_line(&mut line).expect("its output");
            assert!(read > 0, "it ended without saying {word}");
        }
    }

    fn test(&self, options: &[&str]) -> assert_cmd::Command {
        self.command("test", options)
    }

    fn command(&self, name: &str, options: &[&str]) -> assert_cmd::Command {
        let mut command = longhaul();
        command.args([name, "127.0.0.1", "-p", &self.port, "--no-save"]).args(options);
        command
    }

    /// A run's report; the server, which shuts its port between two tests, listens again then.
    fn json(&mut self, options: &[&str]) -> Value {
        let assert = self.test(options).assert().success();
        self.wait_for(LISTENS);
        serde_json::from_slice(&assert.get_output().stdout).expect("JSON")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// All that was asked was sent in one direction, and nothing arrived that was not. A server of
/// iperf3 that is late does not count what it has not read when the test ends.
fn agreed(observation: &Value) {
    let bytes = |end: &str| observation["ends"][end]["bytes"].as_u64().expect("a count");
    let (sent, received) = (bytes("sender"), bytes("receiver"));
    assert!(sent >= 16 << 20 && received <= sent, "{sent} sent, {received} received");
}

fn caveats(report: &Value) -> Vec<&str> {
    let all = report["caveats"].as_array().expect("caveats");
    all.iter().filter_map(|caveat| caveat["code"].as_str()).collect()
}

#[test]
fn tcp_is_measured_in_all_directions_and_both_ends_agree() {
    let mut server = Server::start();
    let rate = ["--iperf3", "--json", "-n", "16M", "-b", "100M"];
    let mut with = |more: &[&str]| server.json(&[&rate[..], more].concat());
    let forward = with(&["-P", "2"]);
    agreed(&forward["observation"]);
    assert_eq!(forward["observation"]["forward"], true);
    assert!(caveats(&forward).contains(&"iperf3_far_end"), "{}", forward["caveats"]);
    assert_eq!(forward["observation"]["ends"]["receiver"]["host"]["kernel"], "");
    let reverse = with(&["-R"]);
    agreed(&reverse["observation"]);
    assert_eq!(reverse["observation"]["forward"], false);
    let both = with(&["--bidir"]);
    agreed(&both["observation"]);
    agreed(&both["observation"]["reverse"]);
}

#[test]
fn bytes_and_blocks_are_sent_to_the_last_one() {
    let mut server = Server::start();
    let counted = ["--iperf3", "--json", "-n", "16M", "-P", "3", "-w", "256K", "-M", "1400"];
    let report = server.json(&counted);
    let sent = |report: &Value| report["analysis"]["totals"]["sender_bytes"].as_u64();
    assert_eq!(sent(&report), Some(16 << 20));
    let report = server.json(&["--iperf3", "--json", "-k", "10", "-l", "64K"]);
    assert_eq!(sent(&report), Some(10 << 16));
}

#[test]
fn udp_is_counted_in_both_directions() {
    let mut server = Server::start();
    let rate = ["--iperf3", "--json", "-u", "-b", "10M", "-l", "1000"];
    for more in [&["-n", "500K", "-P", "2"][..], &["-t", "1", "-R"]] {
        let report = server.json(&[&rate[..], more].concat());
        let streams = report["observation"]["streams"].as_array().expect("streams");
        for stream in streams {
            let udp = &stream["receiver"]["udp"];
            let count = |name: &str| udp[name].as_u64().expect("a count");
            let sent = stream["sender"]["calls"].as_u64().expect("datagrams");
            let timed = more.contains(&"-t");
            assert!(count("datagrams") > 0 || timed, "{udp}");
            assert!(count("datagrams") + count("lost") <= sent + sent / 50, "{udp} of {sent}");
        }
    }
}

#[test]
fn a_server_of_iperf3_is_found_and_stays_of_use() {
    let mut server = Server::start();
    let brief = ["--json", "-n", "1M"];
    let found = server.json(&brief);
    // Once for the greeting that it did not understand, once for the run.
    server.wait_for(LISTENS);
    assert!(caveats(&found).contains(&"iperf3_found"), "{}", found["caveats"]);
    let token = ["--token", "a token of more than sixteen letters"];
    let assert = server.test(&[&brief[..], &token].concat()).assert().code(3);
    let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(said.contains("is an iperf3 server") && said.contains("--iperf3"), "{said}");
    // It shuts its port for a moment after that greeting too.
    server.wait_for(LISTENS);
    let again = server.json(&brief);
    assert!(caveats(&again).contains(&"iperf3_found"));
}

#[test]
fn a_grid_is_scanned_with_a_server_of_iperf3_in_both_directions() {
    let server = Server::start();
    let grid = ["--grid", "-w", "auto,256K", "-P", "1,2", "-t", "500ms", "--bidir", "--json", "-q"];
    let assert = server.command("tune", &grid).assert().success();
    let scan: Value = serde_json::from_slice(&assert.get_output().stdout).expect("JSON");
    let cells = scan["observation"]["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 8);
    for cell in cells {
        assert!(cell["receiver_bytes"].as_u64() > Some(0), "{cell}");
        assert!(cell["goodput_bps"].as_u64() > Some(0), "{cell}");
    }
    let told = caveats(&scan);
    assert!(told.contains(&"iperf3_found") && told.contains(&"iperf3_far_end"), "{told:?}");
    // A named server is no discovery; a setting that it refuses costs one cell.
    let grid = ["--iperf3", "--grid", "-P", "1", "-w", "auto", "-t", "500ms", "--json", "-q"];
    let named = [&grid[..], &["-C", "default,no-such-one"]].concat();
    let assert = server.command("tune", &named).assert().success();
    let scan: Value = serde_json::from_slice(&assert.get_output().stdout).expect("JSON");
    assert!(!caveats(&scan).contains(&"iperf3_found"), "{}", scan["caveats"]);
    let cells = scan["observation"]["cells"].as_array().expect("cells");
    let failed = cells.iter().filter(|cell| cell["error"].is_string()).count();
    assert_eq!((cells.len(), failed), (2, 1), "{cells:?}");
}

#[test]
fn loads_by_a_server_of_iperf3_are_probed_from_one_end() {
    let server = Server::start();
    let brief = ["-t", "500ms", "--idle", "500ms", "-P", "1,2", "--json", "-q"];
    for (more, forward) in [(&[][..], true), (&["-R", "--iperf3"], false)] {
        let options = [&brief[..], more].concat();
        let assert = server.command("load", &options).assert().success();
        let report: Value = serde_json::from_slice(&assert.get_output().stdout).expect("JSON");
        assert_eq!(report["plan"]["forward"], forward);
        let seen = &report["observation"];
        let phases = seen["phases"].as_array().expect("phases");
        let loads: Vec<&Value> = phases.iter().filter(|phase| phase["step"].is_u64()).collect();
        assert_eq!(loads.len(), 2);
        for load in loads {
            assert!(load["load"]["bytes"].as_u64() > Some(0), "{load}");
        }
        let probes = seen["probes"].as_array().expect("probes");
        assert!(probes.iter().any(|probe| probe["rtt_ns"].is_u64()));
        assert!(probes.iter().all(|probe| probe["forward_ns"].is_null()));
        let told = caveats(&report);
        assert!(told.contains(&"one_end_probes"), "{told:?}");
        assert_eq!(told.contains(&"iperf3_found"), forward, "{told:?}");
    }
    let refused = server.command("load", &["--iperf3", "--competitor"]).assert().code(2);
    let said = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
    assert!(said.contains("an iperf3 server runs one test at a time"), "{said}");
}

#[test]
fn available_bandwidth_with_a_server_of_iperf3_is_measured_from_one_end() {
    let server = Server::start();
    let brief = ["--light", "--json", "-q"];
    let assert = server.command("available", &brief).assert().success();
    let report: Value = serde_json::from_slice(&assert.get_output().stdout).expect("JSON");
    assert_eq!(report["plan"]["uncooperative"], "paced_tcp");
    let steps = report["observation"]["forward"]["paced_steps"].as_array().expect("steps");
    assert!((1..=8).contains(&steps.len()), "{steps:?}");
    assert!(steps[0]["rate_bps"].is_null() && steps[0]["delivered_bps"].as_u64() > Some(0));
    assert!(steps.iter().skip(1).all(|step| step["rate_bps"].is_u64()), "{steps:?}");
    let found = &report["analysis"]["forward"];
    assert_eq!(found["flags"][0], "uncooperative");
    assert_eq!(found["methods"][0]["name"], "paced_tcp");
    assert!(report["analysis"]["reverse"].is_null());
    let told = caveats(&report);
    for code in ["iperf3_found", "one_end_available", "loopback"] {
        assert!(told.contains(&code), "{code}: {told:?}");
    }
    for refused in ["-R", "--shaper"] {
        let assert = server.command("available", &["--iperf3", refused]).assert().code(2);
        let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        assert!(said.contains("only the forward direction, without --shaper"), "{said}");
    }
}

#[test]
fn a_busy_server_and_one_that_dies_are_told_with_what_to_do() {
    let mut server = Server::start();
    let binary = env!("CARGO_BIN_EXE_longhaul");
    let long = Command::new(binary)
        .args(["test", "127.0.0.1", "-p", &server.port, "--no-save", "--iperf3"])
        .args(["-t", "3600", "-b", "10M"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a long run");
    server.wait_for("connected to");
    let busy = server.test(&["--iperf3", "-t", "1"]).assert().code(3);
    let said = String::from_utf8_lossy(&busy.get_output().stderr).into_owned();
    assert!(said.contains("busy with another test"), "{said}");
    assert!(said.contains("hint:"), "{said}");
    server.child.kill().expect("it dies");
    let output = long.wait_with_output().expect("it ends by itself");
    assert_eq!(output.status.code(), Some(3));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("while transferring payload"), "{said}");
}

/// Keys without which known readers fail: the Python wrapper `iperf3`, and pScheduler.
fn check_shape(shape: &Value, protocol: &str) {
    let start = &shape["start"];
    assert!(start["version"].as_str().is_some_and(|it| it.starts_with("iperf 3")));
    assert!(start["system_info"].is_string() && start["connecting_to"]["host"].is_string());
    assert!(start["timestamp"]["time"].is_string() && start["timestamp"]["timesecs"].is_u64());
    let connected = &start["connected"][0];
    assert!(connected["local_host"].is_string() && connected["remote_port"].is_u64());
    let test = &start["test_start"];
    assert_eq!(test["protocol"], protocol);
    for key in ["num_streams", "blksize", "omit", "duration", "reverse"] {
        assert!(test[key].is_number(), "{key}");
    }
    for interval in shape["intervals"].as_array().expect("intervals") {
        assert!(interval["sum"]["bits_per_second"].is_number());
        assert!(interval["streams"][0]["socket"].is_u64());
    }
    let processors = &shape["end"]["cpu_utilization_percent"];
    for key in ["host_total", "host_user", "host_system", "remote_total"] {
        assert!(processors[key].is_number(), "{key}");
    }
}

/// What our own reader of iperf3's JSON makes of it.
fn imported(test: &str, shape: &Value) -> Value {
    let folder = Folder::new(test);
    let file = folder.file("run.json");
    std::fs::write(&file, shape.to_string()).expect("written");
    let assert = longhaul().args(["import", "--dry-run", "--json"]).arg(&file).assert().success();
    let all: Value = serde_json::from_slice(&assert.get_output().stdout).expect("JSON");
    all[0]["report"]["observation"].clone()
}

#[test]
fn a_run_in_iperf3s_shape_has_what_readers_want_and_is_read_back() {
    let mut server = Server::start();
    let shape = server.json(&["--iperf3", "--format", "iperf3", "-t", "1", "-P", "2"]);
    check_shape(&shape, "TCP");
    let sums = &shape["end"]["sum_sent"];
    assert!(sums["retransmits"].is_u64(), "{sums}");
    let seen = imported("iperf3-shape", &shape);
    for (end, sum) in [("sender", "sum_sent"), ("receiver", "sum_received")] {
        assert_eq!(seen[end]["bytes"], shape["end"][sum]["bytes"], "{end}");
    }
    let streams = seen["streams"].as_array().expect("streams");
    let bytes = streams.iter().filter_map(|one| one["receiver"]["bytes"].as_u64());
    assert_eq!(Some(bytes.sum()), seen["receiver"]["bytes"].as_u64());
    let datagrams = ["--iperf3", "--format", "iperf3", "-t", "1", "-u", "-R"];
    let shape = server.json(&datagrams);
    check_shape(&shape, "UDP");
    for key in ["jitter_ms", "packets", "lost_packets", "lost_percent", "seconds"] {
        assert!(shape["end"]["sum"][key].is_number(), "{key}");
    }
    let udp = &imported("iperf3-shape-udp", &shape)["streams"][0]["either"];
    assert_eq!(udp["datagrams"], shape["end"]["sum"]["packets"]);
}
