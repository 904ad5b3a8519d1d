//! `longhaul iperf3 -s` beside Debian's `iperf3 -s`, 3.12: the same clients, and what both print.

use crate::iperf3_beside::{
    BOTH, Server, Users, Whose, await_that, ended, keys, patterns, signal, text,
};
use crate::support::{Folder, free_port};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::Output;

const LISTENS: &str = "Server listening";

/// What a server with `-1` prints of one client.
fn printed(whose: Whose, options: &[&str], client: &str) -> (Output, Output) {
    let server = Server::start(whose, &[&["-1"], options].concat());
    let client = server.run(client);
    (server.ended(), client)
}

#[test]
fn one_test_is_told_line_by_line_as_iperf3_does() {
    for (options, client) in [
        (&[][..], "-t 1"),
        (&["-V"], "-t 1 -R"),
        (&["-V", "-f", "M"], "-t 1 -P 2 -b 20M"),
        (&["-i", "0.5"], "-t 1 --bidir -b 20M"),
        (&[], "-u -t 1 -b 5M -P 2"),
        (&["-V"], "-u -t 1 -b 5M -R"),
        (&["-i", "0.5"], "-u -t 1 -b 5M --bidir"),
        (&[], "-t 1 -O 1 -b 20M"),
        (&["-i", "0"], "-n 100K"),
    ] {
        let [theirs, ours] = BOTH.map(|whose| printed(whose, options, client));
        for (output, client_output) in [&theirs, &ours] {
            assert!(output.status.success(), "{client}: {output:?}");
            assert!(
                client_output.status.success(),
                "{client}: {client_output:?}"
            );
        }
        assert_eq!(
            patterns(&ours.0),
            patterns(&theirs.0),
            "{options:?} {client}: {ours:?}"
        );
        assert_eq!(text(&ours.0.stderr), "", "{client}");
    }
}

#[test]
fn json_has_the_keys_of_iperf3s_server() {
    for client in [
        "-t 1 -b 20M -T title --extra-data more",
        "-t 1 -b 20M -R -P 2 -M 1400 --get-server-output",
        "-t 1 -b 20M --bidir",
        "-u -t 1 -b 5M",
        "-u -t 1 -b 5M --bidir",
    ] {
        let [theirs, ours] = BOTH.map(|whose| {
            let (output, client_output) = printed(whose, &["-J"], client);
            let value: Value = serde_json::from_slice(&output.stdout).expect(client);
            let mut found = BTreeSet::new();
            keys(&value, "", &mut found);
            if client.contains("--get-server-output") {
                let told = text(&client_output.stdout);
                assert!(told.contains("Server JSON output"), "{told}");
                let verdict = told.contains("\"limited_by\"");
                assert_eq!(verdict, whose == Whose::Longhaul, "{told}");
            }
            found
        });
        assert_eq!(ours, theirs, "{client}");
    }
}

#[test]
fn a_client_that_asks_gets_the_text_and_the_verdict() {
    let server = Server::start(Whose::Longhaul, &["-1"]);
    let client = server.run("-t 1 -R --get-server-output");
    let shown = text(&client.stdout);
    let (_, told) = shown.split_once("Server output:\n").expect(&shown);
    let own = text(&server.ended().stdout);
    assert!(
        told.starts_with(own.as_str()),
        "{told}\nbut it printed\n{own}"
    );
    assert!(told.contains("imited"), "{told}");
}

#[test]
fn each_event_is_a_line_where_that_is_asked_for() {
    let server = Server::start(Whose::Longhaul, &["-1", "--json-stream", "-i", "0.5"]);
    let client = server.run("-t 1 -b 10M");
    assert!(client.status.success(), "{client:?}");
    let output = text(&server.ended().stdout);
    let events: Vec<Value> = output
        .lines()
        .map(|line| serde_json::from_str(line).expect(line))
        .collect();
    let names: Vec<&str> = events
        .iter()
        .filter_map(|it| it["event"].as_str())
        .collect();
    assert_eq!(names.first(), Some(&"start"));
    assert_eq!(names.last(), Some(&"end"));
    assert!(
        names[1..names.len() - 1]
            .iter()
            .all(|name| *name == "interval")
    );
    assert!(names.len() >= 3, "{names:?}");
}

#[test]
fn in_the_background_it_has_a_process_id_and_a_log_and_leaves_neither_listener_nor_file() {
    let folder = Folder::new("iperf3-server-daemon");
    let (pidfile, log) = (folder.file("pid"), folder.file("log"));
    let port = free_port().to_string();
    let mut command = Whose::Longhaul.command();
    command.args([
        "-s",
        "-D",
        "-B",
        "127.0.0.1",
        "-p",
        &port,
        "--timestamps=%Y ",
    ]);
    command.arg("-I").arg(&pidfile).arg("--logfile").arg(&log);
    let done = command.output().expect("it starts");
    assert!(done.status.success(), "{done:?}");
    assert!(done.stdout.is_empty() && done.stderr.is_empty(), "{done:?}");
    let pid: u32 = fs::read_to_string(&pidfile)
        .expect("it stands")
        .parse()
        .expect("a number");
    let mut again = Whose::Longhaul.command();
    again
        .args(["-s", "-p", &free_port().to_string(), "-I"])
        .arg(&pidfile);
    let again = again.output().expect("it starts");
    assert_eq!(again.status.code(), Some(1), "{again:?}");
    assert!(
        text(&again.stderr).contains("Another instance"),
        "{again:?}"
    );
    let server = Server {
        child: None,
        address: "127.0.0.1",
        port: port.parse().expect("a port"),
    };
    let client = server.run("-n 100K");
    assert!(client.status.success(), "{client:?}");
    signal(pid, "-TERM");
    await_that("its end", || {
        !Path::new("/proc").join(pid.to_string()).exists()
    });
    assert!(!pidfile.exists());
    // Whoever is next has the port at once.
    TcpListener::bind(("127.0.0.1", server.port)).expect("a free port");
    let log = fs::read_to_string(&log).expect("a log");
    for words in ["Accepted connection from", "receiver", "(test #2)"] {
        assert!(log.contains(words), "{log}");
    }
    assert!(log.lines().all(|line| line.starts_with("20")), "{log}");
    let last = log.lines().last().expect("a line");
    assert!(
        last.ends_with("iperf3: interrupt - the server has terminated"),
        "{log}"
    );
}

#[test]
fn over_its_rate_or_its_time_a_test_ends_with_iperf3s_words() {
    let words = "total required bandwidth is larger than server limit";
    let server = Server::start(Whose::Longhaul, &["--server-bitrate-limit", "10M/1"]);
    let asked = server.run("-t 5 -b 20M");
    assert!(text(&asked.stderr).contains(words), "{asked:?}");
    let fast = server.run("-t 3600 -R");
    assert_eq!(fast.status.code(), Some(1), "{fast:?}");
    assert!(text(&fast.stderr).contains(words), "{fast:?}");
    assert!(server.run("-n 100K -b 2M").status.success());
    signal(server.id(), "-INT");
    let output = server.ended();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let errors = text(&output.stderr);
    assert_eq!(errors.matches(words).count(), 2, "{errors}");
    let limited = Server::start(Whose::Longhaul, &["-1", "--server-max-duration", "3"]);
    let long = limited.run("-t 4");
    // A client of 3.12 knows the number of this error, and no text.
    assert_eq!(long.status.code(), Some(1), "{long:?}");
    let output = limited.ended();
    assert!(output.status.success(), "{output:?}");
    assert!(
        text(&output.stderr).contains("maximum permitted limit"),
        "{output:?}"
    );
}

#[test]
fn an_idle_server_for_one_test_ends_by_itself() {
    for whose in BOTH {
        let server = Server::start(whose, &["-1", "--idle-timeout", "1"]);
        let output = server.ended();
        assert!(output.status.success(), "{whose:?}: {output:?}");
        assert_eq!(text(&output.stderr), "", "{whose:?}");
        assert!(
            text(&output.stdout).contains(LISTENS),
            "{whose:?}: {output:?}"
        );
    }
}

#[test]
fn users_are_let_in_and_others_are_not_the_one_test() {
    let users = Users::new("iperf3-server-users");
    let options = [
        &["-1", "--time-skew-threshold", "600"][..],
        &users.of_server(),
    ]
    .concat();
    let server = Server::start(Whose::Longhaul, &options);
    let stranger = server.run("-n 100K");
    assert!(
        text(&stranger.stderr).contains("test authorization failed"),
        "{stranger:?}"
    );
    let mario = server.run(&users.of_client(&[]).join(" "));
    assert!(mario.status.success(), "{mario:?}");
    let output = server.ended();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        text(&output.stderr),
        "iperf3: error - test authorization failed\n"
    );
    assert!(text(&output.stdout).contains("(test #2)"), "{output:?}");
}

/// The lines of each test: those below the line that names it.
fn by_client(output: &str) -> Vec<(&str, Vec<&str>)> {
    let mut clients: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut current = None;
    for line in output.lines() {
        if let Some(client) = line.strip_prefix("Accepted connection from ") {
            let known = clients.iter().position(|(name, _)| *name == client);
            current = Some(known.unwrap_or_else(|| {
                clients.push((client, Vec::new()));
                clients.len() - 1
            }));
        } else if line.starts_with("-----") || line.starts_with(LISTENS) {
            current = None;
        } else if let Some(current) = current {
            clients[current].1.push(line);
        }
    }
    clients
}

#[test]
fn of_two_clients_at_once_each_line_belongs_to_the_one_that_was_named_last() {
    let server = Server::start(Whose::Longhaul, &["-i", "0.2"]);
    let long = server.client("-t 2 -b 5M");
    let short = server.client("-t 1 -b 5M -R");
    for client in [long, short] {
        let output = ended(client);
        assert!(output.status.success(), "{output:?}");
    }
    // No test is under way before the banner of the next one.
    signal(server.id(), "-TERM");
    let output = text(&server.ended().stdout);
    let clients = by_client(&output);
    assert_eq!(clients.len(), 2, "{output}");
    for (client, lines) in clients {
        let ends = |word: &str| lines.iter().filter(|line| line.ends_with(word)).count();
        assert_eq!(ends("sender") + ends("receiver"), 1, "{client}: {output}");
        let headers = lines
            .iter()
            .filter(|line| line.starts_with("[ ID]"))
            .count();
        assert_eq!(headers, 2, "{client}: {output}");
        let opened = lines.iter().filter(|line| line.contains(" local ")).count();
        assert_eq!(opened, 1, "{client}: {output}");
    }
}

#[test]
fn a_server_that_is_terminated_tells_its_clients() {
    for whose in BOTH {
        let mut server = Server::start(whose, &["--forceflush", "-i", "0.2"]);
        let running = server.client("-t 3600 -b 1M");
        let pipe = server
            .child
            .as_mut()
            .and_then(|child| child.stdout.as_mut());
        let mut lines = BufReader::new(pipe.expect("piped"));
        let mut line = String::new();
        while !line.contains("sec") {
            line.clear();
            assert!(
                lines.read_line(&mut line).expect("its output") > 0,
                "{whose:?}"
            );
        }
        signal(server.id(), "-TERM");
        let client = ended(running);
        assert_eq!(client.status.code(), Some(1), "{whose:?}: {client:?}");
        let told = text(&client.stderr);
        assert!(
            told.contains("the server has terminated"),
            "{whose:?}: {told}"
        );
        let output = server.ended();
        assert_eq!(output.status.code(), Some(1), "{whose:?}: {output:?}");
        let errors = text(&output.stderr);
        assert_eq!(
            errors, "iperf3: interrupt - the server has terminated\n",
            "{whose:?}"
        );
        assert!(
            text(&output.stdout).contains("receiver"),
            "{whose:?}: {output:?}"
        );
    }
}

#[test]
fn what_cannot_be_is_refused_with_exit_code_1() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("its address").port().to_string();
    for (options, words) in [
        (
            &["-B", "127.0.0.1", "-p", port.as_str()][..],
            "unable to start listener for connections",
        ),
        (
            &["-P", "2"],
            "some option you are trying to set is client only",
        ),
        (&["-F", "payload"], "-F is not supported"),
        (
            &["--idle-timeout", "0"],
            "idle timeout parameter is not positive",
        ),
        (
            &["--rsa-private-key-path", "key"],
            "you must specify a path to a valid RSA",
        ),
        (
            &["-I", "/nonexistent/pid", "-p", "0"],
            "port number must be",
        ),
        (&["--timestamps=%"], "%"),
    ] {
        let mut command = Whose::Longhaul.command();
        let output = command.arg("-s").args(options).output().expect("it starts");
        assert_eq!(output.status.code(), Some(1), "{options:?}: {output:?}");
        assert!(
            text(&output.stderr).contains(words),
            "{options:?}: {output:?}"
        );
    }
}
