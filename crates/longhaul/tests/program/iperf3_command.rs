//! `longhaul iperf3`, with clients and servers of Debian's iperf3 3.12.

use crate::support::{Folder, HUNG, free_port, longhaul};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;

/// A program that can be called with iperf3's options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Iperf3Program {
    Iperf3,
    Longhaul,
}

impl Iperf3Program {
    fn command(self) -> Command {
        let mut command = match self {
            Iperf3Program::Iperf3 => Command::new("iperf3"),
            Iperf3Program::Longhaul => Command::new(env!("CARGO_BIN_EXE_longhaul")),
        };
        if self == Iperf3Program::Longhaul {
            command.args(["iperf3", "--archive"]);
            command.arg(format!("{}/iperf3.sqlite3", env!("CARGO_TARGET_TMPDIR")));
        }
        command.env("IPERF3_PASSWORD", "rossi");
        command
    }
}

/// A server on loopback, ended with the test.
struct LoopbackServer {
    child: Child,
    port: String,
}

impl LoopbackServer {
    fn start(program: Iperf3Program, options: &[&str]) -> LoopbackServer {
        let port = free_port().to_string();
        let (mut command, listens) = match program {
            Iperf3Program::Iperf3 => (Command::new("iperf3"), "Server listening"),
            Iperf3Program::Longhaul => {
                let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
                command.arg("iperf3");
                (command, "serving")
            }
        };
        command.args(["-s", "-B", "127.0.0.1", "-p", &port]);
        if program == Iperf3Program::Iperf3 {
            command.arg("--forceflush");
        }
        let (reader, writer) = std::io::pipe().expect("a pipe");
        command.args(options).stdout(writer.try_clone().expect("the same pipe")).stderr(writer);
        let child = command.spawn().expect("a server");
        // The ends of the pipe for writing are closed here with the command.
        drop(command);
        let mut lines = BufReader::new(reader);
        let mut line = String::new();
        while !line.contains(listens) {
            line.clear();
            let read = lines.read_line(&mut line).expect("its output");
            assert!(read > 0, "{program:?} ended without listening");
        }
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        LoopbackServer { child, port }
    }

    fn client(&self, program: Iperf3Program, options: &[&str]) -> Command {
        let mut command = program.command();
        command.args(["-c", "127.0.0.1", "-p", &self.port]).args(options);
        command
    }

    /// Runs a client as soon as the server is free for it.
    fn run(&self, program: Iperf3Program, options: &[&str]) -> Output {
        let deadline = Instant::now() + HUNG;
        loop {
            let output = self.client(program, options).output().expect("it runs");
            let said = text(&[&output.stdout[..], &output.stderr[..]].concat());
            let is_between = said.contains("Connection refused") || said.contains("busy");
            if !is_between || Instant::now() > deadline {
                return output;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    /// Waits for its end.
    fn exit_code(mut self) -> Option<i32> {
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for LoopbackServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn a_client_prints_iperf3s_json_with_iperf3s_meaning_of_the_options() {
    let server = LoopbackServer::start(Iperf3Program::Iperf3, &[]);
    let both = |options: &[&str]| {
        [Iperf3Program::Iperf3, Iperf3Program::Longhaul]
            .map(|program| json(&server.run(program, options)))
    };
    let [theirs, ours] =
        both(&["-J", "-t", "1", "-i", "0.5", "-P", "2", "-b", "10M", "-S", "0x20"]);
    for key in ["num_streams", "target_bitrate", "tos", "duration", "protocol"] {
        let of = |object: &Value| object["start"]["test_start"][key].clone();
        assert_eq!(of(&ours), of(&theirs), "{key}");
    }
    let intervals = ours["intervals"].as_array().expect("a list");
    assert_eq!(intervals[0]["sum"]["seconds"], 0.5, "{intervals:?}");
    let [theirs, ours] = both(&["-J", "-n", "1M", "-i", "0", "-R"]);
    for object in [&theirs, &ours] {
        assert_eq!(object["start"]["test_start"]["reverse"], 1);
        assert!(object["end"]["sum_received"]["bytes"].as_u64() >= Some(1 << 20));
    }
    assert_eq!(ours["intervals"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_client_prints_and_archives_a_report() {
    let server = LoopbackServer::start(Iperf3Program::Iperf3, &[]);
    let folder = Folder::new("iperf3-archived");
    let archive = folder.file("runs.sqlite3");
    let path = archive.to_str().expect("UTF-8");
    let mut command = longhaul();
    command.args(["iperf3", "-c", "127.0.0.1", "-p", &server.port]);
    let assert = command.args(["-n", "1M", "--bidir", "--archive", path]).assert().success();
    let shown = text(&assert.get_output().stdout);
    assert!(shown.contains("limited by"), "{shown}");
    let listed = crate::support::reported(&archive, &["list"], 0);
    assert!(listed.contains("127.0.0.1"), "{listed}");
}

#[test]
fn a_server_for_one_test_allows_what_iperf3_allows_and_ends_after_it() {
    let server = LoopbackServer::start(Iperf3Program::Longhaul, &["-1"]);
    let client = server.run(Iperf3Program::Iperf3, &["-J", "-n", "2M", "-P", "20"]);
    let object = json(&client);
    assert_eq!(object["start"]["test_start"]["num_streams"], 20);
    assert_eq!(server.exit_code(), Some(0));
}

#[test]
fn a_server_refuses_tests_over_its_rate_and_its_time() {
    let limits = ["--server-bitrate-limit", "10M", "--server-max-duration", "3"];
    let server = LoopbackServer::start(Iperf3Program::Longhaul, &limits);
    for (options, words) in
        [(["-t", "2", "-b", "20M"], "bandwidth"), (["-t", "4", "-b", "1M"], "duration")]
    {
        let client = server.run(Iperf3Program::Iperf3, &options);
        assert_eq!(client.status.code(), Some(1), "{client:?}");
        assert!(text(&client.stderr).contains(words), "{client:?}");
    }
    let modest = server.run(Iperf3Program::Iperf3, &["-n", "100K", "-b", "2M"]);
    assert!(modest.status.success(), "{modest:?}");
}

#[test]
fn a_server_that_is_terminated_tells_its_clients() {
    let server = LoopbackServer::start(Iperf3Program::Longhaul, &[]);
    let options = ["-t", "3600", "-b", "1M", "-i", "0.2", "--forceflush"];
    let mut client = server
        .client(Iperf3Program::Iperf3, &options)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a client");
    let mut lines = BufReader::new(client.stdout.take().expect("piped"));
    let mut line = String::new();
    while !line.contains("sec") {
        line.clear();
        assert!(lines.read_line(&mut line).expect("its output") > 0);
    }
    let id = server.child.id().to_string();
    let sent = Command::new("kill").args(["-TERM", &id]).status();
    assert!(sent.expect("kill").success());
    let output = client.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = text(&output.stderr);
    assert!(said.contains("the server has terminated"), "{said}");
    assert_eq!(server.exit_code(), Some(0));
}

#[test]
fn an_option_that_is_not_supported_is_refused_with_its_replacement() {
    for (options, words) in [
        (&["-s", "-D"][..], "service manager"),
        (&["-c", "a", "--extra-data", "x"], "use --json-stream or -J"),
        (&["-c", "a", "-F", "x"], "longhaul copy"),
        (&["-c", "a", "--sctp"], "use TCP"),
        (&["-c", "a", "--gsro"], "leave it out"),
        (&["-c", "a", "--nosuch"], "unexpected argument '--nosuch'"),
        (&["-c", "a", "-s"], "cannot be used with"),
        (&["-c", "a", "-1"], "cannot be used with"),
        (&["-s", "-R"], "cannot be used with"),
        (&["-c", "a", "-t", "1", "-n", "1"], "cannot be used with"),
        (&["-c", "a", "-P", "200"], "must be 1 to 128"),
        (&[], "not provided"),
    ] {
        let assert = longhaul().arg("iperf3").args(options).assert().code(2);
        let said = text(&assert.get_output().stderr);
        assert!(said.contains(words), "{options:?}: {said}");
    }
}

fn openssl(arguments: &[&str]) {
    let done = Command::new("openssl").args(arguments).output();
    let done = done.expect("openssl is installed");
    assert!(done.status.success(), "{done:?}");
}

/// A key pair, and the one user `mario` with the password `rossi`.
struct TestUsers {
    _folder: Folder,
    private: String,
    public: String,
    list: String,
}

impl TestUsers {
    fn new(name: &str) -> Self {
        let folder = Folder::new(name);
        let path = |name: &str| folder.file(name).to_str().expect("UTF-8").to_owned();
        let (private, public) = (path("private.pem"), path("public.pem"));
        openssl(&["genrsa", "-out", &private, "2048"]);
        openssl(&["rsa", "-in", &private, "-pubout", "-out", &public]);
        let list = path("users.csv");
        // SHA-256 of {mario}rossi, from iperf3's own manual.
        let hash = "bf7a49a846d44b454a5d11e7acfaf13d138bbe0b7483aa3e050879700572709b";
        fs::write(&list, format!("mario,{hash}\n")).expect("written");
        TestUsers { _folder: folder, private, public, list }
    }

    fn server_options(&self) -> [&str; 4] {
        let (key, list) = ("--rsa-private-key-path", "--authorized-users-path");
        [key, &self.private, list, &self.list]
    }

    fn client_options<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        let (name, key) = ("--username", "--rsa-public-key-path");
        [&["-n", "1M", name, "mario", key, &self.public], more].concat()
    }
}

#[test]
fn a_server_accepts_its_users_with_either_padding_and_nobody_else() {
    use Iperf3Program::{Iperf3, Longhaul};
    let users = TestUsers::new("iperf3-users-of-longhaul");
    let server = LoopbackServer::start(Longhaul, &users.server_options());
    // A client of 3.12 uses PKCS #1 without being told.
    for (client, more) in [(Iperf3, &[][..]), (Longhaul, &[]), (Longhaul, &["--use-pkcs1-padding"])]
    {
        let options = users.client_options(more);
        let right = server.run(client, &options);
        assert!(right.status.success(), "{client:?} {more:?}: {right:?}");
        let mut wrong = server.client(client, &options);
        let wrong = wrong.env("IPERF3_PASSWORD", "bianchi").output();
        let wrong = wrong.expect("it runs");
        assert!(!wrong.status.success(), "{client:?} {more:?}: {wrong:?}");
        assert!(text(&wrong.stderr).contains("authoriz"), "{wrong:?}");
    }
    let stranger = server.run(Iperf3, &["-n", "1M"]);
    assert!(text(&stranger.stderr).contains("authorization"), "{stranger:?}");
}

#[test]
fn a_user_of_an_iperf3_server_is_accepted_with_its_padding() {
    let users = TestUsers::new("iperf3-users-of-iperf3");
    let server = LoopbackServer::start(Iperf3Program::Iperf3, &users.server_options());
    let options = users.client_options(&["--use-pkcs1-padding"]);
    let right = server.run(Iperf3Program::Longhaul, &options);
    assert!(right.status.success(), "{right:?}");
    let mut wrong = server.client(Iperf3Program::Longhaul, &options);
    let wrong = wrong.env("IPERF3_PASSWORD", "bianchi").output();
    assert_eq!(wrong.expect("it runs").status.code(), Some(3));
}
