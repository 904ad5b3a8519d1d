//! `longhaul ndt7` against `longhaul serve --ndt7`: reports, M-Lab's JSON, and refusals.

use crate::support::{Folder, free_port, longhaul};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStderr, Command, Stdio};

/// A server that is killed at the end of its test.
struct Ndt7Server {
    child: Child,
    port: u16,
    /// Open until then, so that the server can log.
    _log: BufReader<ChildStderr>,
}

impl Ndt7Server {
    fn start(options: &[&str]) -> Ndt7Server {
        let port = free_port();
        let mut child = Command::new(env!("CARGO_BIN_EXE_longhaul"))
            .args(["serve", "--bind", "127.0.0.1", "--json", "--port", &port.to_string()])
            .args(options)
            .env_remove("LONGHAUL_TOKEN")
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut log = BufReader::new(child.stderr.take().expect("piped"));
        log.read_line(&mut String::new()).expect("it serves");
        Ndt7Server { child, port, _log: log }
    }
}

impl Drop for Ndt7Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn both_directions_have_reports_and_results_that_can_be_imported() {
    let folder = Folder::new("ndt7-both");
    let result = folder.file("result.json");
    let server = Ndt7Server::start(&["--anonymous", "--ndt7", "--anonymous-bytes", "4M"]);
    let host = format!("127.0.0.1:{}", server.port);
    let assert = longhaul()
        .args(["ndt7", &host, "--json", "--archive"])
        .arg(folder.file("archive.sqlite3"))
        .arg("--result")
        .arg(&result)
        .assert()
        .success();
    let rows: Vec<Value> = serde_json::from_slice(&assert.get_output().stdout).expect("JSON");
    assert_eq!(rows.len(), 2);
    for (row, forward) in rows.iter().zip([false, true]) {
        assert_eq!(row["state"], "filed");
        assert_eq!(row["report"]["observation"]["forward"], forward);
        let received = &row["report"]["observation"]["receiver"]["bytes"];
        assert!(received.as_u64().is_some_and(|bytes| bytes >= 4 << 20), "{received}");
    }
    let imported =
        longhaul().args(["import", "--no-save", "--json"]).arg(&result).assert().success();
    let again: Vec<Value> = serde_json::from_slice(&imported.get_output().stdout).expect("JSON");
    assert_eq!(again.len(), 2);
}

#[test]
fn a_server_that_does_not_serve_ndt7_is_named_with_the_option_that_does() {
    let server = Ndt7Server::start(&["--anonymous"]);
    let host = format!("127.0.0.1:{}", server.port);
    for options in [&["--plain"][..], &[]] {
        let assert = longhaul().args(["ndt7", &host, "--no-save"]).args(options).assert().code(3);
        let text = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        assert!(text.contains("longhaul serve --ndt7"), "{text}");
    }
}
