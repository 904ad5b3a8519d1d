//! `longhaul iperf3 -c` beside Debian's iperf3 3.12, against the same server.

use crate::iperf3_beside::{Server, Users, Whose, keys, pattern, text};
use crate::support::{Folder, HUNG, longhaul};
use serde_json::Value;
use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::process::{Command, Output};
use std::time::Instant;

fn theirs() -> Command {
    Whose::Iperf3.command()
}

fn ours() -> Command {
    Whose::Longhaul.command()
}

/// Lines of a block that may come again: the intervals of 64 streams would be too many, of two not.
const LONGEST_BLOCK: usize = 6;

/// The lines of a client. Blocks of intervals that follow one another stand as one: a last short
/// one is there when an end came late, and nothing says that both outputs have it.
fn lines(output: &Output) -> Vec<String> {
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
    let server = Server::start(Whose::Iperf3, &[]);
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
        let expected = lines(&server.asked_by(theirs, options));
        let found = lines(&server.asked_by(ours, options));
        assert_eq!(found, expected, "{options:?}");
    }
}

#[test]
fn what_the_server_printed_stands_where_iperf3_shows_it() {
    let options = ["-n", "1M", "-T", "title", "--get-server-output"];
    // A server each: once asked, one of 3.12 tells every client after that, and more of it.
    let [expected, found] = [theirs, ours].map(|client: fn() -> Command| {
        let server = Server::start(Whose::Iperf3, &[]);
        let lines = lines(&server.asked_by(client, &options));
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

#[test]
fn the_json_has_every_key_of_iperf3() {
    let server = Server::start(Whose::Iperf3, &[]);
    for options in [
        &["-t", "1", "-b", "20M", "-J", "-P", "2"][..],
        &["-t", "1", "-b", "20M", "-J", "--bidir"],
        &["-t", "1", "-J", "-u", "-b", "1M", "-l", "1000"],
        &["-t", "1", "-J", "-u", "-b", "1M", "-l", "1000", "-R"],
    ] {
        let all = |client: fn() -> Command| {
            let output = server.asked_by(client, options);
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
    let server = Server::at("::1", Whose::Iperf3, &[]);
    let options = ["-t", "1", "-i", "0.5", "-b", "20M", "--json-stream", "-6"];
    let output = server.asked_by(ours, &options);
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
        !inner.is_empty() && inner.iter().all(|it| *it == "interval"),
        "{names:?}"
    );
    assert_eq!(events[0]["data"]["connected"][0]["local_host"], "::1");
    assert!(events[1]["data"]["sum"]["bytes"].is_u64());
    assert!(events[names.len() - 1]["data"]["sum_sent"]["bytes"].is_u64());
}

#[test]
fn errors_are_told_as_iperf3_tells_them() {
    let told = |options: &[&str]| {
        let mut command = longhaul();
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
    let mut command = longhaul();
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

fn ours_with(password: &'static str) -> impl Fn() -> Command {
    move || {
        let mut command = ours();
        command.env("IPERF3_PASSWORD", password);
        command
    }
}

#[test]
fn a_user_with_either_padding_is_let_in_by_our_own_server() {
    let users = Users::new("iperf3-users-of-ours");
    let server = Server::start(Whose::Longhaul, &users.of_server());
    for padding in [&[][..], &["--use-pkcs1-padding"]] {
        let asked = |password| {
            let options = users.of_client(padding);
            server.asked_by(ours_with(password), &options)
        };
        let (right, wrong) = (asked("rossi"), asked("bianchi"));
        assert!(right.status.success(), "{padding:?}: {right:?}");
        assert_eq!(wrong.status.code(), Some(1), "{padding:?}: {wrong:?}");
        assert!(
            text(&wrong.stderr).contains("authorization failed"),
            "{wrong:?}"
        );
    }
}

#[test]
fn a_user_with_the_padding_of_the_server_is_let_in() {
    let users = Users::new("iperf3-users-of-a-client");
    let server = Server::start(Whose::Iperf3, &users.of_server());
    let with = |password: &'static str, more: &[&str]| {
        server.asked_by(ours_with(password), &users.of_client(more))
    };
    let right = with("rossi", &["--use-pkcs1-padding"]);
    assert!(right.status.success(), "{right:?}");
    let wrong = with("bianchi", &["--use-pkcs1-padding"]);
    assert_eq!(wrong.status.code(), Some(1), "{wrong:?}");
    let mut test = longhaul();
    test.args([
        "test",
        "127.0.0.1",
        "-p",
        &server.port.to_string(),
        "--iperf3",
        "--no-save",
        "-n",
        "1M",
    ])
    .args([
        "--iperf3-user",
        "mario",
        "--iperf3-public-key",
        &users.public,
        "--iperf3-pkcs1",
    ])
    .env("IPERF3_PASSWORD", "rossi");
    let until = Instant::now() + HUNG;
    while !test.output().expect("it runs").status.success() {
        assert!(Instant::now() < until, "the user is not let in");
    }
}
