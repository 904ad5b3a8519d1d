//! `longhaul mcp` as its client meets it: a process that answers lines over pipes.

use crate::support::{Folder, HUNG, free_port};
use longhaul_store::Archive;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;

/// A running server, and the lines that it prints.
struct McpServer {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl McpServer {
    fn start(archive: &Path, options: &[&str]) -> McpServer {
        let mut child = Command::new(env!("CARGO_BIN_EXE_longhaul"))
            .arg("mcp")
            .args(options)
            .arg("--archive")
            .arg(archive)
            .env_remove("LONGHAUL_TOKEN")
            .env("XDG_DATA_HOME", env!("CARGO_TARGET_TMPDIR"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        McpServer { input: child.stdin.take(), child, lines }
    }

    fn send(&mut self, line: &str) {
        let input = self.input.as_mut().expect("open");
        writeln!(input, "{line}").expect("the server reads");
    }

    fn receive(&self) -> Value {
        let line = self.lines.recv_timeout(HUNG).expect("an answer");
        serde_json::from_str(&line).expect("JSON")
    }

    fn request(&mut self, method: &str, params: &Value) -> Value {
        let message = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
        self.send(&message.to_string());
        let answer = self.receive();
        assert_eq!(answer["id"], 7, "{answer}");
        answer
    }

    fn call(&mut self, name: &str, arguments: &Value) -> Value {
        self.request("tools/call", &json!({ "name": name, "arguments": arguments }))
    }

    fn tool_names(&mut self) -> Vec<String> {
        let list = self.request("tools/list", &json!({}));
        let tools = list["result"]["tools"].as_array().expect("a list").clone();
        tools.iter().filter_map(|tool| tool["name"].as_str().map(str::to_owned)).collect()
    }

    /// Closes stdin and returns the exit code.
    fn close(mut self) -> Option<i32> {
        self.input = None;
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for McpServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Fills an archive with one report, and returns its id.
fn fill_archive(path: &Path) -> String {
    let text = crate::support::fixture("la-geneva-9-streams.json");
    let report: longhaul_model::report::v1::ThroughputReport =
        serde_json::from_str(&text).expect("a report");
    Archive::open(path).expect("a new archive").append(&report).expect("room");
    report.run.id.clone()
}

#[test]
fn a_client_agrees_on_a_version_and_reads_the_archive() {
    let folder = Folder::new("mcp-reads");
    let archive = folder.file("archive.sqlite3");
    let id = fill_archive(&archive);
    let mut server = McpServer::start(&archive, &[]);
    let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {} });
    let answer = server.request("initialize", &hello);
    assert_eq!(answer["result"]["protocolVersion"], "2025-06-18");
    server.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);

    let list = server.call("reports", &json!({ "environment": "network" }));
    let text = list["result"]["content"][0]["text"].as_str().expect("text");
    let runs: Value = serde_json::from_str(text).expect("the JSON of `report list`");
    assert_eq!(runs[0]["id"], id.as_str());

    let shown = server.call("reports", &json!({ "id": "last" }));
    assert_eq!(shown["result"]["structuredContent"]["run"]["id"], id.as_str());
    let text = server.call("reports", &json!({ "id": "last", "format": "markdown" }));
    let text = text["result"]["content"][0]["text"].as_str().expect("text");
    assert!(text.starts_with("# "), "{text}");
    assert_eq!(server.close(), Some(0));
}

#[test]
fn only_tools_that_read_are_offered_unless_measurements_are_allowed() {
    let folder = Folder::new("mcp-read-only");
    let archive = folder.file("archive.sqlite3");
    let mut server = McpServer::start(&archive, &[]);
    assert_eq!(server.tool_names(), ["reports", "events", "case", "explain"]);
    let refused = server.call("test", &json!({ "host": "127.0.0.1" }));
    assert_eq!(refused["error"]["code"], -32_602);
    assert!(!archive.exists());
    let mut server = McpServer::start(&archive, &["--allow-measurements"]);
    assert_eq!(server.tool_names().last().map(String::as_str), Some("test"));
}

#[test]
fn an_allowed_test_measures_and_archives() {
    let folder = Folder::new("mcp-test");
    let archive = folder.file("archive.sqlite3");
    let port = free_port();
    let mut serve = Command::new(env!("CARGO_BIN_EXE_longhaul"))
        .args(["serve", "--bind", "127.0.0.1", "--anonymous", "--json", "--port"])
        .arg(port.to_string())
        .env_remove("LONGHAUL_TOKEN")
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut line = String::new();
    let mut log = BufReader::new(serve.stderr.take().expect("piped"));
    log.read_line(&mut line).expect("it serves");
    let mut server = McpServer::start(&archive, &["--allow-measurements"]);
    let answer = server.call("test", &json!({ "host": format!("127.0.0.1:{port}"), "seconds": 1 }));
    let report = &answer["result"]["structuredContent"];
    assert_eq!(report["kind"], "throughput", "{answer}");
    let id = report["run"]["id"].clone();
    let shown = server.call("reports", &json!({ "id": "last" }));
    assert_eq!(shown["result"]["structuredContent"]["run"]["id"], id);
    let _ = serve.kill();
    let _ = serve.wait();
}

#[test]
fn a_failed_tool_is_a_result_with_the_error_and_its_hint() {
    let folder = Folder::new("mcp-failed");
    let mut server = McpServer::start(&folder.file("archive.sqlite3"), &[]);
    let answer = server.call("reports", &json!({ "id": "last" }));
    assert_eq!(answer["result"]["isError"], true);
    let text = answer["result"]["content"][0]["text"].as_str().expect("text");
    assert!(text.contains("cannot find the archive") && text.contains("hint:"), "{text}");
}

#[test]
fn malformed_messages_are_answered_and_the_next_one_is_served() {
    let folder = Folder::new("mcp-malformed");
    let mut server = McpServer::start(&folder.file("archive.sqlite3"), &[]);
    for (line, code) in [
        ("{".to_owned(), -32_700),
        ("[]".to_owned(), -32_600),
        ("x".repeat(300_000), -32_600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"no/such"}"#.to_owned(), -32_601),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#.to_owned(), -32_602),
    ] {
        server.send(&line);
        assert_eq!(server.receive()["error"]["code"], code, "{}", &line[..line.len().min(80)]);
    }
    assert_eq!(server.request("ping", &json!({}))["result"], json!({}));
}

#[test]
fn a_cancelled_call_gets_no_answer_and_its_place_is_free() {
    let folder = Folder::new("mcp-cancelled");
    let mut server = McpServer::start(&folder.file("archive.sqlite3"), &[]);
    for id in 1..=5 {
        let params = json!({ "name": "explain", "arguments": { "seconds": 60 } });
        let call = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
        server.send(&call.to_string());
    }
    let refused = server.receive();
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(5), &json!(-32_600)));
    for id in 1..=4 {
        let params = json!({ "requestId": id });
        let notice =
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
        server.send(&notice.to_string());
    }
    assert_eq!(server.request("ping", &json!({}))["result"], json!({}));
    assert_eq!(server.close(), Some(0));
}
