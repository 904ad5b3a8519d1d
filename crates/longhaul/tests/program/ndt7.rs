//! `longhaul ndt7` against `longhaul serve --ndt7`: reports, M-Lab's JSON, assigned servers, and refusals.

use crate::support::{Folder, free_port, longhaul, serve_answer};
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

const LOCATE_PATH: &str = "v2/nearest/ndt/ndt7";

fn describe_server(port: u16) -> Value {
    let base = format!("ws://127.0.0.1:{port}/ndt/v7");
    serde_json::json!({
        "machine": format!("mlab-{port}"),
        "location": { "city": "New York", "country": "US" },
        "urls": {
            "ws:///ndt/v7/download": format!("{base}/download?access_token=a.b"),
            "ws:///ndt/v7/upload": format!("{base}/upload?access_token=a.b"),
        }
    })
}

#[test]
fn the_first_assigned_server_that_answers_is_measured() {
    let server = Ndt7Server::start(&["--anonymous", "--ndt7", "--anonymous-bytes", "1M"]);
    let dead = free_port();
    let no_urls = serde_json::json!({ "machine": "mlab-0", "urls": {} });
    let results = [no_urls, describe_server(dead), describe_server(server.port)];
    let answer = serde_json::json!({ "results": results });
    let (url, locator) =
        serve_answer(LOCATE_PATH, format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{answer}"));
    let assert = longhaul()
        .args(["ndt7", "--plain", "--no-save", &format!("--locate={url}")])
        .assert()
        .success();
    let request = locator.join().expect("a request");
    assert!(request.contains("/ndt7?client_name=longhaul&client_version="), "{request}");
    let stderr = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    for port in [dead, server.port] {
        assert!(stderr.contains(&format!("measuring with mlab-{port} (New York, US)")), "{stderr}");
    }
    let stdout = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
    assert_eq!(stdout.matches("127.0.0.1").count(), 2, "{stdout}");
}

#[test]
fn a_locator_that_refuses_is_quoted() {
    let refused = "HTTP/1.1 429 Too Many Requests\r\nconnection: close\r\n\r\n{}";
    let none = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{\"next_request\": {}}";
    for (answer, why) in [(refused, "429 Too Many Requests"), (none, "no server is free")] {
        let (url, locator) = serve_answer(LOCATE_PATH, answer.to_owned());
        let assert = longhaul().args(["ndt7", &format!("--locate={url}")]).assert().code(3);
        locator.join().expect("a request");
        let text = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        assert!(text.contains("no server was assigned") && text.contains(why), "{text}");
    }
}
