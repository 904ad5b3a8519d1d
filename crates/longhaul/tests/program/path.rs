//! `longhaul path` as people and programs meet it, and this very host.

use crate::support::{self, Folder, HUNG, fixture, longhaul, shown};
use assert_cmd::Command;
use assert_cmd::assert::Assert;
use longhaul_model::report::v1::PathReport;
use longhaul_store::Archive;
use longhaul_sys::signal::{Signal, send_signal};
use std::net::UdpSocket;
use std::process::Stdio;

/// 43 hops there and back; a change of route under load; alternatives of IPv6.
const FIXTURES: [&str; 3] = ["path-sanjose-lulea", "path-slac-cesnet-change", "path-balanced-v6"];

fn report(name: &str) -> PathReport {
    serde_json::from_str(&fixture(&format!("{name}.json"))).expect("the fixture is a report")
}

#[test]
fn json_of_a_path_is_the_report_itself() {
    for name in FIXTURES {
        let text = shown("path_json", &report(name), &["--json"]);
        let back: PathReport = serde_json::from_str(&text).expect("a report");
        assert!(back == report(name), "{name} reads back differently");
    }
}

/// A run to this host's own address, with an archive of its own.
fn here(folder: &Folder, options: &[&str]) -> Assert {
    longhaul()
        .args(["path", "127.0.0.1", "-p", "9", "--no-names", "--archive"])
        .arg(folder.file("archive.sqlite3"))
        .args(options)
        .assert()
}

#[test]
fn the_path_to_this_host_has_one_hop_and_is_archived_with_its_number() {
    let folder = Folder::new("path_here");
    for number in [1, 1] {
        let assert = here(&folder, &["--udp", "-c", "3", "-i", "10ms", "--json"]).success();
        let text = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
        let told: PathReport = serde_json::from_str(&text).expect("a report");
        let route = told.observation.route.expect("a route");
        assert!(route.reached, "{text}");
        assert_eq!(route.hops.len(), 1);
        assert_eq!(told.analysis.route_number, Some(number));
        let rtt = told.analysis.rtt.expect("round trips");
        assert_eq!((rtt.sent, rtt.answered), (3, 3));
        let missing = told.observation.missing;
        assert!(missing.iter().any(|m| m.what == "reverse"), "{missing:?}");
    }
    let archive = Archive::open(&folder.file("archive.sqlite3")).expect("the archive");
    assert_eq!(archive.list(10).expect("a list").len(), 2);
}

#[test]
fn a_watch_without_a_terminal_writes_lines_and_ends_as_a_report() {
    let folder = Folder::new("path_watch");
    let assert = here(&folder, &["--udp", "--watch", "-c", "2"]).success();
    let text = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
    assert!(text.contains(" round 1\n"), "{text}");
    assert!(text.contains(" round 2\n"), "{text}");
    assert!(text.contains("\n 1   127.0.0.1 "), "{text}");
    assert!(text.contains("ROUTE 1: 1 hop by UDP"), "{text}");
    let archive = Archive::open(&folder.file("archive.sqlite3")).expect("the archive");
    assert_eq!(archive.list(10).expect("a list").len(), 1);
}

#[test]
fn what_cannot_be_asked_is_refused_with_the_range() {
    for (options, message) in [
        (&["--to-port", "80"][..], "--to-port needs --udp or --tcp"),
        (&["-m", "0"], "'0' for '--max-hops <N>': must be 1 to 255"),
        (&["-s", "10"], "'10' for '--size <BYTES>': must be 64 to"),
        (&["--queries", "99"], "must be 1 to 20"),
        (&["--alternatives=2"], "must be 0.5 to 0.999"),
        (&["--load=1s"], "must be 3 s to 300 s"),
        (&["-R"], "--load"),
        (&["--udp", "--tcp"], "cannot be used with"),
        (&["--watch", "-i", "100ms"], "must be at least 1 s"),
        (&["--watch", "--load"], "cannot be used with"),
    ] {
        let assert = longhaul().args(["path", "far.invalid"]).args(options).assert().code(2);
        let text = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        assert!(support::skip_lab_warning(&text).starts_with("error: "), "{options:?}: {text}");
        assert!(text.contains(message), "{options:?}: {text}");
    }
}

#[test]
fn a_name_without_an_address_is_named() {
    for options in [&[][..], &["--watch"]] {
        let assert = longhaul()
            .args(["path", "no-such-host.invalid", "--no-save"])
            .args(options)
            .assert()
            .code(3);
        let text = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        assert!(
            support::skip_lab_warning(&text)
                .starts_with("error: cannot resolve no-such-host.invalid\n"),
            "{text}"
        );
        assert!(assert.get_output().stdout.is_empty());
    }
}

/// Whether this test may do everything.
fn is_root() -> bool {
    let assert = Command::new("id").arg("-u").assert().success();
    assert.get_output().stdout == b"0\n"
}

#[test]
fn without_privilege_udp_serves_and_the_report_says_what_is_missing() {
    let program = env!("CARGO_BIN_EXE_longhaul");
    let mut command = if is_root() {
        // Root without a single capability is nobody special to the kernel.
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set=-all", "--inh-caps=-all", program]);
        command
    } else {
        Command::new(program)
    };
    command.env_remove("LONGHAUL_TOKEN").timeout(HUNG);
    let assert = command
        .args(["path", "127.0.0.1", "-p", "9", "--no-names", "--no-save"])
        .args(["-c", "2", "--json", "--tcp"])
        .assert()
        .success();
    let text = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
    let told: PathReport = serde_json::from_str(&text).expect("a report");
    let route = told.observation.route.expect("a route");
    assert!(route.reached, "{text}");
    let missing = told.observation.missing;
    let of_route = missing.iter().find(|missing| missing.what == "route");
    assert!(of_route.is_some_and(|missing| missing.why.contains("CAP_NET_RAW")), "{text}");
}

#[test]
fn ctrl_c_ends_a_look_with_what_was_seen_and_its_own_code() {
    let folder = Folder::new("path_cut");
    let file = folder.file("archive.sqlite3");
    let far = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let port = far.local_addr().expect("its address").port().to_string();
    let look = std::process::Command::new(env!("CARGO_BIN_EXE_longhaul"))
        .args(["path", "127.0.0.1", "--udp", "--to-port", &port])
        .args(["-c", "10000", "--no-names", "--archive"])
        .arg(&file)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start");
    far.set_read_timeout(Some(HUNG)).expect("a time");
    far.recv(&mut [0; 100]).expect("the first probe");
    send_signal(look.id(), Signal::SIGINT).expect("it is there");
    let output = look.wait_with_output().expect("its end");
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("UDP packets of 64 B"), "{text}");
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(complaint.contains("was interrupted"), "{complaint}");
    let archive = Archive::open(&file).expect("the archive");
    assert_eq!(archive.list(10).expect("a list").len(), 1);
}
