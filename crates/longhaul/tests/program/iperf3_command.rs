//! `longhaul iperf3 -c` beside Debian's iperf3 3.12, against the same server.

use crate::support::{Folder, longhaul};
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const DEADLINE: Duration = Duration::from_secs(60);
/// A server between two tests, or one that is about to listen.
const PATIENCE: Duration = Duration::from_secs(5);

/// An iperf3 server on a port of its own; ended with the test.
struct Server {
    child: Child,
    port: String,
}

impl Server {
    fn start(address: &str, options: &[&str]) -> Server {
        let free = TcpListener::bind((address, 0)).expect("a free port");
        let port = free.local_addr().expect("its address").port().to_string();
        drop(free);
        let child = Command::new("iperf3")
            .args(["-s", "-p", &port])
            .args(options)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("iperf3 is installed");
        Server { child, port }
    }

    /// Runs a client until the server is free for it.
    fn asked_by(
        &self,
        mut client: impl FnMut() -> Command,
        address: &str,
        options: &[&str],
    ) -> Output {
        let until = Instant::now() + PATIENCE;
        loop {
            let mut command = client();
            command
                .args(["-c", address, "-p", &self.port])
                .args(options);
            let output = command.output().expect("it runs");
            let said = [&output.stdout[..], &output.stderr[..]].concat();
            let said = String::from_utf8_lossy(&said).into_owned();
            let between = said.contains("Connection refused") || said.contains("busy");
            if !between || Instant::now() > until {
                return output;
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn theirs() -> Command {
    Command::new("iperf3")
}

fn ours() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
    command.arg("iperf3");
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// Numbers, units and cookies as letters; widths stay.
fn pattern(line: &str) -> String {
    if line.contains("Cookie:") || line.starts_with("iperf 3.12") || line.starts_with("Time:") {
        return line.chars().take(8).collect();
    }
    let mut shown = String::new();
    for (index, word) in line.split(' ').enumerate() {
        if index > 0 {
            shown.push(' ');
        }
        let scaled = ["Bytes", "bits/sec", "Bytes/sec"];
        let unit = scaled.iter().find(|unit| {
            let front = word.strip_suffix(**unit);
            front.is_some_and(|front| front.len() <= 1)
        });
        match unit {
            Some(unit) => shown.push_str(unit),
            None => shown.extend(
                word.chars()
                    .map(|c| if c.is_ascii_digit() { '0' } else { c }),
            ),
        }
    }
    // Amounts of another size have another number of blanks and digits.
    let mut columns = String::new();
    for c in shown.chars() {
        let last = columns.chars().next_back();
        let again = (c == '0' && (last == Some('0') || last == Some('.')))
            || (c == ' ' && last == Some(' '));
        if c == '.' && last == Some('0') {
            continue;
        }
        if !again {
            columns.push(c);
        }
    }
    columns
}

/// Lines of a block that may come again: the intervals of 64 streams would be too many, of two not.
const LONGEST_BLOCK: usize = 6;

/// The lines of an output. Blocks of intervals that follow one another stand as one: a last short
/// one is there when an end came late, and nothing says that both outputs have it.
fn patterns(output: &Output) -> Vec<String> {
    assert!(output.status.success(), "{output:?}");
    let mut lines: Vec<String> = text(&output.stdout).lines().map(pattern).collect();
    // What we have behind the last line of iperf3's.
    if let Some(done) = lines.iter().position(|line| line == "iperf Done.") {
        lines.truncate(done + 1);
    }
    for length in 1..=LONGEST_BLOCK {
        let mut at = 0;
        while at + 2 * length <= lines.len() {
            if lines[at..at + length] == lines[at + length..at + 2 * length] {
                lines.drain(at..at + length);
            } else {
                at += 1;
            }
        }
    }
    lines
}

#[test]
fn the_text_is_that_of_iperf3_line_by_line() {
    let server = Server::start("127.0.0.1", &[]);
    let rate = "20M";
    for options in [
        &["-n", "4M"][..],
        &["-t", "2", "-b", rate, "-i", "0.5", "-f", "k"],
        &["-t", "2", "-b", rate, "-P", "2", "-O", "1"],
        &["-t", "1", "-b", rate, "-V"],
        &["-t", "2", "-b", rate, "-R"],
        &["-t", "1", "-b", rate, "--bidir", "-P", "2"],
        &["-t", "1", "-u", "-b", "2M", "-l", "1000", "-P", "2"],
        &["-t", "1", "-u", "-b", "2M", "-l", "1000", "-R", "-V"],
        &["-t", "1", "-u", "-b", "2M", "-l", "1000", "--bidir"],
        &["-n", "1M", "-T", "title"],
    ] {
        let expected = patterns(&server.asked_by(theirs, "127.0.0.1", options));
        let found = patterns(&server.asked_by(ours, "127.0.0.1", options));
        assert_eq!(found, expected, "{options:?}");
    }
}

#[test]
fn what_the_server_printed_stands_where_iperf3_shows_it() {
    let options = ["-n", "1M", "-T", "title", "--get-server-output"];
    // A server each: once asked, one of 3.12 tells every client after that, and more of it.
    let [expected, found] = [theirs, ours].map(|client: fn() -> Command| {
        let server = Server::start("127.0.0.1", &[]);
        let lines = patterns(&server.asked_by(client, "127.0.0.1", &options));
        // How many intervals the server had is its own affair, and with none there is no head.
        let interval = |line: &String| line.starts_with("[ 0] 0-0 sec") && line.ends_with("sec ");
        let mut lines: Vec<_> = lines.into_iter().filter(|it| !interval(it)).collect();
        let head = |pair: &[String]| pair[0].starts_with("[ ID]") && pair[1].starts_with("- -");
        while let Some(at) = lines.windows(2).position(head) {
            lines.remove(at);
        }
        lines
    });
    assert_eq!(found, expected);
}

/// Paths of all keys.
fn keys(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                found.insert(format!("{path}.{key}"));
                keys(inner, &format!("{path}.{key}"), found);
            }
        }
        Value::Array(all) => all.iter().for_each(|inner| keys(inner, path, found)),
        _ => {}
    }
}

#[test]
fn the_json_has_every_key_of_iperf3() {
    let server = Server::start("127.0.0.1", &[]);
    for options in [
        &["-t", "1", "-b", "20M", "-J", "-P", "2"][..],
        &["-t", "1", "-b", "20M", "-J", "--bidir"],
        &["-t", "1", "-J", "-u", "-b", "1M", "-l", "1000"],
        &["-t", "1", "-J", "-u", "-b", "1M", "-l", "1000", "-R"],
    ] {
        let all = |client: fn() -> Command| {
            let output = server.asked_by(client, "127.0.0.1", options);
            assert!(output.status.success(), "{output:?}");
            let object: Value = serde_json::from_slice(&output.stdout).expect("JSON");
            let mut found = BTreeSet::new();
            keys(&object, "", &mut found);
            found
        };
        let (expected, found) = (all(theirs), all(ours));
        let missing: Vec<_> = expected.difference(&found).collect();
        assert!(missing.is_empty(), "{options:?}: {missing:?}");
    }
}

#[test]
fn a_stream_of_json_has_one_event_a_line() {
    let server = Server::start("::1", &[]);
    let options = ["-t", "1", "-i", "0.5", "-b", "20M", "--json-stream", "-6"];
    let output = server.asked_by(ours, "::1", &options);
    assert!(output.status.success(), "{output:?}");
    let lines = text(&output.stdout);
    let events: Vec<Value> = (lines.lines())
        .map(|line| serde_json::from_str(line).expect("an event"))
        .collect();
    let names: Vec<&str> = events
        .iter()
        .filter_map(|it| it["event"].as_str())
        .collect();
    assert_eq!(
        (names[0], names.last()),
        ("start", Some(&"end")),
        "{names:?}"
    );
    let inner = &names[1..names.len() - 1];
    assert!(
        inner.len() >= 2 && inner.iter().all(|it| *it == "interval"),
        "{names:?}"
    );
    assert_eq!(events[0]["data"]["connected"][0]["local_host"], "::1");
    assert!(events[1]["data"]["sum"]["bytes"].is_u64());
    assert!(events[names.len() - 1]["data"]["sum_sent"]["bytes"].is_u64());
}

#[test]
fn errors_are_told_as_iperf3_tells_them() {
    let told = |options: &[&str]| {
        let mut command = longhaul(DEADLINE);
        let assert = command.arg("iperf3").args(options).assert().code(1);
        text(&assert.get_output().stderr)
    };
    let refused = "iperf3: error - unable to connect to server: Connection refused\n";
    assert_eq!(told(&["-c", "127.0.0.1", "-p", "1"]), refused);
    for (options, why) in [
        (&[][..], "must either be a client (-c) or server (-s)"),
        (&["-c", "a", "-s"], "cannot be both server and client"),
        (
            &["-c", "a", "-R", "--bidir"],
            "cannot be both reverse and bidirectional",
        ),
        (
            &["-c", "a", "-t", "1", "-n", "1"],
            "only one test end condition (-t, -n, -k) may be specified",
        ),
        (
            &["-c", "a", "-P", "200"],
            "number of parallel streams too large (maximum = 128)",
        ),
        (
            &["-c", "a", "-F", "x"],
            "-F (a file as payload) is not done by longhaul",
        ),
        (
            &["-c", "a", "-D"],
            "some option you are trying to set is server only",
        ),
        (
            &["-s", "-R"],
            "some option you are trying to set is client only",
        ),
    ] {
        let said = told(options);
        assert!(
            said.starts_with(&format!("iperf3: parameter error - {why}")),
            "{said}"
        );
    }
    assert!(told(&["-c", "a", "--nosuch"]).starts_with("iperf3: unrecognized option '--nosuch'"));
    let mut command = longhaul(DEADLINE);
    let assert = command
        .args(["iperf3", "-c", "127.0.0.1", "-p", "1", "-J"])
        .assert()
        .code(1);
    let object: Value = serde_json::from_slice(&assert.get_output().stdout).expect("JSON");
    assert_eq!(
        object["error"],
        "error - unable to connect to server: Connection refused"
    );
}

#[test]
fn called_by_the_name_iperf3_it_is_iperf3() {
    let folder = Folder::new("iperf3-by-name");
    let link = folder.file("iperf3");
    symlink(env!("CARGO_BIN_EXE_longhaul"), &link).expect("a link");
    let output = Command::new(&link).arg("-v").output().expect("it runs");
    assert!(output.status.success());
    let said = text(&output.stdout);
    assert!(said.starts_with("iperf 3.12 (longhaul "), "{said}");
}

fn openssl(arguments: &[&str]) -> Output {
    let output = Command::new("openssl")
        .args(arguments)
        .output()
        .expect("openssl is installed");
    assert!(output.status.success(), "{output:?}");
    output
}

#[test]
fn a_user_with_the_padding_of_the_server_is_let_in() {
    let folder = Folder::new("iperf3-users-of-a-client");
    let path = |name: &str| folder.file(name).to_str().expect("UTF-8").to_owned();
    let (private, public, users) = (path("private.pem"), path("public.pem"), path("users.csv"));
    openssl(&["genrsa", "-out", &private, "2048"]);
    openssl(&["rsa", "-in", &private, "-pubout", "-out", &public]);
    // SHA-256 of {mario}rossi.
    let hash = "bf7a49a846d44b454a5d11e7acfaf13d138bbe0b7483aa3e050879700572709b";
    std::fs::write(&users, format!("mario,{hash}\n")).expect("written");
    let known = [
        "--rsa-private-key-path",
        &private,
        "--authorized-users-path",
        &users,
    ];
    let server = Server::start("127.0.0.1", &known);
    let user = [
        "-n",
        "1M",
        "--username",
        "mario",
        "--rsa-public-key-path",
        &public,
    ];
    let with = |password: &'static str, more: &[&str]| {
        let client = || {
            let mut command = ours();
            command.env("IPERF3_PASSWORD", password);
            command
        };
        server.asked_by(client, "127.0.0.1", &[&user[..], more].concat())
    };
    let right = with("rossi", &["--use-pkcs1-padding"]);
    assert!(right.status.success(), "{right:?}");
    let wrong = with("bianchi", &["--use-pkcs1-padding"]);
    assert_eq!(wrong.status.code(), Some(1), "{wrong:?}");
    let mut test = longhaul(DEADLINE);
    test.args([
        "test",
        "127.0.0.1",
        "-p",
        &server.port,
        "--iperf3",
        "--no-save",
        "-n",
        "1M",
    ])
    .args([
        "--iperf3-user",
        "mario",
        "--iperf3-public-key",
        &public,
        "--iperf3-pkcs1",
    ])
    .env("IPERF3_PASSWORD", "rossi");
    let until = Instant::now() + PATIENCE;
    while !test.output().expect("it runs").status.success() {
        assert!(Instant::now() < until, "the user is not let in");
    }
}
