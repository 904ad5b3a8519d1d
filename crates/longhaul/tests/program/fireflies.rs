//! Fireflies: an agent with `[fireflies]` makes transfers of them, and commands send their own.

use crate::addresses::in_network;
use crate::copy::Served;
use crate::support::{Folder, free_port, longhaul};
use crate::watch_agent::WatchAgent;
use longhaul_capture::capture_reader::CaptureReader;
use longhaul_sys::signal::Signal;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::net::UdpSocket;

fn write_watch_file(folder: &Folder, page: u16, section: &str) {
    let text = format!(
        "[agent]\nname = \"here\"\narchive = \"archive.sqlite3\"\nlisten = \"127.0.0.1:{page}\"\n\
         {section}[[host]]\nname = \"here\"\naddress = \"127.0.0.1\"\n"
    );
    std::fs::write(folder.file("watch.toml"), text).expect("written");
}

fn firefly(state: &str, port: u16, bytes: u64) -> String {
    let value = json!({
        "version": 1,
        "flow-lifecycle": {"state": state, "start-time": "2026-11-22T10:00:00+00:00",
                           "end-time": "2026-11-22T10:00:10+00:00"},
        "flow-id": {"afi": "ipv4", "src-ip": "192.0.2.9", "dst-ip": "127.0.0.1",
                    "protocol": "tcp", "src-port": port, "dst-port": 1094},
        "usage": {"sent": bytes, "received": 0},
        "context": {"experiment-id": 2, "activity-id": 19, "application": "xrootd v5"},
    });
    format!("<134>1 2026-11-22T10:00:11.808092+00:00 dtn flowd-go - firefly-json - {value}")
}

fn read_archive(folder: &Folder, arguments: &[&str]) -> Value {
    let assert = longhaul()
        .args(arguments)
        .arg("--json")
        .arg("--archive")
        .arg(folder.file("archive.sqlite3"))
        .assert()
        .success();
    serde_json::from_slice(&assert.get_output().stdout).expect("JSON")
}

/// Has fireflies sent to a port of the agent of the folder, stops it, and returns its reports of kind
/// `flows`.
fn receive_and_stop(folder: &Folder, send: impl FnOnce(u16)) -> (Vec<Value>, String) {
    let (page, port) = (free_port(), free_port());
    write_watch_file(folder, page, &format!("[fireflies]\nlisten = \"127.0.0.1:{port}\"\n"));
    let mut agent = WatchAgent::start(folder, &[]);
    agent.wait_for(&format!("receiving fireflies at 127.0.0.1:{port}"));
    send(port);
    // The report is written at once, or when the agent stops.
    agent.wait_for("archived run");
    agent.signal(Signal::SIGTERM);
    agent.wait_for("msg=stopped");
    let list = read_archive(folder, &["report", "list", "--kind", "flows"]);
    let ids = list.as_array().expect("a list").iter().map(|run| run["id"].as_str().expect("an id"));
    (ids.map(|id| read_archive(folder, &["report", "show", id])).collect(), agent.read.clone())
}

#[test]
fn transfers_of_which_fireflies_tell_are_filed_by_experiment_and_activity() {
    let folder = Folder::new("fireflies");
    let datagrams = [
        firefly("start", 40_001, 0),
        firefly("start", 40_002, 0),
        firefly("end", 40_001, 1_000_000_000),
        firefly("end", 40_002, 250_000_000),
        "<134>1 \u{1b}[2J {\"flow-lifecycle\": {\"state\": \"end\"}}".to_owned(),
    ];
    let (reports, log) = receive_and_stop(&folder, |port| {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        for datagram in datagrams {
            socket.send_to(datagram.as_bytes(), ("127.0.0.1", port)).expect("sent");
        }
    });
    assert!(!log.contains('\u{1b}'), "{log}");
    let mut rate_bps = 0;
    // Both flows are one transfer of one report, unless the agent was slow to hear of the second.
    for report in &reports {
        let transfer = &report["observation"]["transfers"][0];
        assert_eq!(transfer["process"]["name"], "atlas/Staging");
        assert_eq!((&transfer["peer"], &transfer["sends"]), (&json!("192.0.2.9"), &json!(false)));
        let judged = &report["analysis"]["transfers"][0]["run"];
        assert_eq!(judged["limited_by"], "unknown", "bytes alone name no limit");
        rate_bps += judged["goodput_bps"].as_u64().expect("a rate");
    }
    assert_eq!(rate_bps, 1_000_000_000);
    let since = ["report", "transfers", "192.0.2.9", "--since", "2026-11-01"];
    let days = read_archive(&folder, &since);
    assert_eq!(days[0]["day"], "2026-11-22");
    assert_eq!(
        (&days[0]["program"], &days[0]["bytes"]),
        (&json!("atlas/Staging"), &json!(1_250_000_000))
    );
    assert_eq!(
        days[0]["limits"],
        json!([{"limiter": "unknown", "bytes": 1_250_000_000, "share_ratio": 1.0}])
    );
    assert_eq!(days.as_array().map(Vec::len), Some(1));
    let other = ["report", "transfers", "cms", "--since", "2026-11-01"];
    assert_eq!(read_archive(&folder, &other), json!([]));
}

#[test]
fn runs_and_copies_are_filed_with_the_tag_that_they_are_given() {
    let folder = Folder::new("fireflies_of_commands");
    let served = Served::new(&folder, "rw");
    let file = folder.file("data");
    std::fs::write(&file, vec![7; 4 << 20]).expect("written");
    let (reports, _) = receive_and_stop(&folder, |port| {
        let collector = format!("127.0.0.1:{port}");
        let options = ["-R", "-n", "4M", "-q", "--no-save"];
        let mut run = served.far.command("test", &options);
        run.args(["--scitag", "2:19", "--firefly", &collector]).assert().success();
        let mut copy = served.copy(file.to_str().expect("UTF-8"), "127.0.0.1:data");
        copy.args(["--scitag", "196", "--firefly", &collector]).assert().success();
        let grid = ["--grid", "-w", "auto", "-P", "2", "-t", "500ms", "-q", "--no-save"];
        let mut probe = served.far.command("tune", &grid);
        probe.args(["--scitag", "3:2", "--firefly", &collector]).assert().success();
    });
    let mut transfers = BTreeMap::new();
    for report in &reports {
        for transfer in report["observation"]["transfers"].as_array().expect("a list") {
            let name = transfer["process"]["name"].as_str().expect("a name").to_owned();
            let flows = transfer["run"]["streams"].as_array().expect("a list").iter();
            let bytes: u64 = flows.filter_map(|it| it["receiver"]["bytes"].as_u64()).sum();
            let (sum, sends) = transfers.entry(name).or_insert((0, None));
            (*sum, *sends) = (*sum + bytes, transfer["sends"].as_bool());
        }
    }
    // The flows of a copy are in several reports if the agent hears of the last one later.
    assert!(transfers.values().all(|(bytes, _)| *bytes >= 4 << 20), "{transfers:?}");
    let transfers: BTreeMap<_, _> =
        transfers.into_iter().map(|(name, (_, sends))| (name, sends)).collect();
    let expected =
        [("atlas/Staging", false), ("cms/Data Challenge", true), ("cms/perfSONAR", true)];
    assert_eq!(transfers, expected.map(|(name, sends)| (name.to_owned(), Some(sends))).into());
}

#[test]
fn packets_of_ipv6_carry_the_tag_and_those_of_ipv4_cannot() {
    let folder = Folder::new("flow_label");
    for load in [&["-n", "64K"][..], &["-u", "-t", "100ms"]] {
        let file = folder.file("run.pcapng");
        let name = file.to_str().expect("UTF-8");
        let mut run = in_network(&["test", "fe80::99%lh0", "--scitag", "2:19"]);
        run.args(load).args(["--json", "--capture-overwrite", "--capture", name]);
        let report = run.assert().success();
        let report: Value = serde_json::from_slice(&report.get_output().stdout).expect("JSON");
        assert_eq!(find_caveat(&report, "no_flow_label"), None);
        let mut capture =
            CaptureReader::open(File::open(&file).expect("a file")).expect("a capture");
        let mut labels = Vec::new();
        while let Some(packet) = capture.next_packet() {
            // The header of IPv6 ends with the destination.
            let header = packet.bytes.get(..40).expect("a header");
            if header[39] == 0x99 {
                labels.push(u32::from_be_bytes([0, header[1] & 0xf, header[2], header[3]]));
            }
        }
        assert!(!labels.is_empty(), "{load:?}");
        let all_are_tagged = labels.iter().all(|label| label & 0x3_fefc == 0x1_004c);
        assert!(all_are_tagged, "{load:?}: {labels:x?}");
    }
    let run = in_network(&["test", "half", "-4", "-n", "64K", "--scitag", "2:19", "--json"])
        .assert()
        .success();
    let report: Value = serde_json::from_slice(&run.get_output().stdout).expect("JSON");
    let text = find_caveat(&report, "no_flow_label").expect("a caveat");
    assert!(text.contains("IPv4 has none"), "{text}");
}

fn find_caveat(report: &Value, code: &str) -> Option<String> {
    let mut caveats = report["caveats"].as_array()?.iter();
    let text = caveats.find(|it| it["code"] == code)?["text"].as_str()?;
    Some(text.to_owned())
}
