//! An agent with `[fireflies]`: datagrams become transfers in its archive.

use crate::support::{Folder, free_port, longhaul};
use crate::watch_agent::WatchAgent;
use longhaul_sys::signal::Signal;
use serde_json::{Value, json};
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

/// Sends datagrams to the agent of the folder, stops it, and returns its reports of kind `flows`.
fn receive_and_stop(folder: &Folder, datagrams: &[&[u8]]) -> (Vec<Value>, String) {
    let (page, port) = (free_port(), free_port());
    write_watch_file(folder, page, &format!("[fireflies]\nlisten = \"127.0.0.1:{port}\"\n"));
    let mut agent = WatchAgent::start(folder, &[]);
    agent.wait_for(&format!("receiving fireflies at 127.0.0.1:{port}"));
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    for datagram in datagrams {
        socket.send_to(datagram, ("127.0.0.1", port)).expect("sent");
    }
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
    let datagrams: Vec<&[u8]> = datagrams.iter().map(String::as_bytes).collect();
    let (reports, log) = receive_and_stop(&folder, &datagrams);
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
}
