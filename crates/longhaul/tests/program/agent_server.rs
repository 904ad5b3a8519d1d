//! The server of an agent: `[serve]` in the watch file.

use crate::support::{Folder, free_port, longhaul};
use crate::watch_agent::WatchAgent;
use longhaul_sys::signal::Signal;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const TOKEN: &str = "a-token-that-no-log-may-have";

/// Writes the file of a collector, which measures nothing, and the token.
fn write_watch_file(folder: &Folder, page: u16, serve: &str) {
    for name in ["serve.token", "enrol.token"] {
        let file = folder.file(name);
        fs::write(&file, format!("{TOKEN}\n")).expect("written");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("permissions");
    }
    let text = format!(
        "[agent]\nname = \"here\"\narchive = \"archive.sqlite3\"\nlisten = \"127.0.0.1:{page}\"\n\
         [api]\nenrol_token_file = \"enrol.token\"\n{serve}"
    );
    fs::write(folder.file("watch.toml"), text).expect("written");
}

fn format_section(port: u16, more: &str) -> String {
    format!("[serve]\nlisten = \"127.0.0.1:{port}\"\ntoken_file = \"serve.token\"\n{more}")
}

/// Runs a short test; returns what it says on stderr.
fn run_test(folder: &Folder, port: u16, with_token: bool, code: i32) -> String {
    let mut test = longhaul();
    test.args(["test", &format!("127.0.0.1:{port}"), "-t", "300ms", "--no-save", "--quiet"]);
    test.env_remove("LONGHAUL_TOKEN");
    if with_token {
        test.arg("--token-file").arg(folder.file("serve.token"));
    }
    String::from_utf8(test.assert().code(code).get_output().stderr.clone()).expect("UTF-8")
}

fn read_metrics(page: u16) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", page)).expect("it listens");
    let head =
        format!("GET /metrics HTTP/1.1\r\nhost: 127.0.0.1:{page}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn an_agent_with_serve_answers_clients_with_the_token_and_refuses_others() {
    let folder = Folder::new("agent_server");
    let (page, port) = (free_port(), free_port());
    write_watch_file(&folder, page, &format_section(port, "token_only = true\n"));
    let mut agent = WatchAgent::start(&folder, &[]);
    let line = agent.wait_for("event=serving");
    assert!(line.contains(&format!("address=127.0.0.1:{port}")), "{line}");
    run_test(&folder, port, true, 0);
    let line = agent.wait_for("event=session_opened");
    assert!(line.contains("level=info") && line.contains("anonymous=false"), "{line}");
    agent.wait_for("event=session_closed");
    let told = run_test(&folder, port, false, 3);
    assert!(told.contains("token"), "{told}");
    let metrics = read_metrics(page);
    assert!(metrics.contains("longhaul_serve_up 1"), "{metrics}");
    let stopping = Instant::now();
    agent.signal(Signal::SIGTERM);
    agent.wait_for("msg=stopped");
    assert!(agent.child.wait().expect("it ends").success());
    assert!(stopping.elapsed() < Duration::from_secs(10), "{:?}", stopping.elapsed());
    TcpListener::bind(("127.0.0.1", port)).expect("nothing listens any more");
    assert!(!agent.read.contains(TOKEN), "{}", agent.read);
}

#[test]
fn a_reload_starts_moves_and_stops_the_server() {
    let folder = Folder::new("agent_server_reload");
    let [page, first, second] = [free_port(), free_port(), free_port()];
    write_watch_file(&folder, page, "");
    let mut agent = WatchAgent::start(&folder, &[]);
    agent.wait_for("event=watching");
    for port in [first, second] {
        write_watch_file(&folder, page, &format_section(port, ""));
        agent.signal(Signal::SIGHUP);
        let line = agent.wait_for("event=serving");
        assert!(line.contains(&format!("127.0.0.1:{port}")), "{line}");
    }
    TcpListener::bind(("127.0.0.1", first)).expect("the server has moved");
    run_test(&folder, second, true, 0);
    write_watch_file(&folder, page, "");
    agent.signal(Signal::SIGHUP);
    agent.wait_for("the server has stopped");
    TcpListener::bind(("127.0.0.1", second)).expect("the server has stopped");
}

#[test]
fn a_port_in_use_is_told_with_a_remedy_until_it_is_free() {
    let folder = Folder::new("agent_server_port");
    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = other.local_addr().expect("an address").port();
    let page = free_port();
    write_watch_file(&folder, page, &format_section(port, ""));
    let mut agent = WatchAgent::start(&folder, &[]);
    let line = agent.wait_for("the server does not run");
    assert!(line.contains("level=warn") && line.contains("`listen` in [serve]"), "{line}");
    assert!(read_metrics(page).contains("longhaul_serve_up 0"));
    drop(other);
    agent.wait_for("event=serving");
    run_test(&folder, port, true, 0);
}

#[test]
fn a_check_shows_the_address_of_the_server_and_finds_its_errors() {
    let folder = Folder::new("agent_server_check");
    let check = |serve: &str, code: i32| {
        write_watch_file(&folder, 5280, serve);
        let mut command = longhaul();
        let assert = command.args(["watch", "--check"]).arg(folder.file("watch.toml"));
        let assert = assert.assert().code(code);
        let output = assert.get_output();
        let text = [output.stdout.clone(), output.stderr.clone()].concat();
        String::from_utf8(text).expect("UTF-8")
    };
    let told = check(&format_section(5300, ""), 0);
    assert!(told.contains("127.0.0.1:5300, TCP and UDP"), "{told}");
    assert!(check("[serve]\n", 0).contains("[::]:5201, TCP and UDP"));
    let told = check("[serve]\nlisten = \"127.0.0.1:5280\"\ntoken_only = true\nmax_runs = 3\n", 2);
    for problem in [
        "watch.toml:8: serve.listen: `5280` is the port of page and API, too",
        "watch.toml:9: serve.token_only: there is no token",
        "watch.toml:10: serve.max_runs: unknown key",
    ] {
        assert!(told.contains(problem), "{problem} in {told}");
    }
    let told = check(&format_section(5300, "files = [\"nowhere\"]\n"), 2);
    assert!(told.contains("cannot serve the files of") && told.contains("nowhere"), "{told}");
}

#[test]
fn the_server_refuses_runs_as_busy_while_the_agent_makes_a_heavy_one() {
    let folder = Folder::new("agent_server_busy");
    let [page, port, far_port] = [free_port(), free_port(), free_port()];
    let measure = format!(
        "[[host]]\nname = \"far\"\naddress = \"127.0.0.1:{far_port}\"\n[[target]]\nhost = \"far\"\n\
         [[measure]]\nname = \"bulk\"\nkind = \"throughput\"\ndirections = \"forward\"\n\
         time = \"10 s\"\nevery = \"15 s\"\nrate = \"10 Mbit/s\"\njitter = \"0 s\"\n"
    );
    write_watch_file(&folder, page, &format_section(port, &measure));
    let mut far = Command::new(env!("CARGO_BIN_EXE_longhaul"))
        .args(["serve", "-B", "127.0.0.1", "--anonymous", "--json", "-p", &far_port.to_string()])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the server starts");
    let mut events = BufReader::new(far.stderr.take().expect("a pipe")).lines();
    let mut wait_for = |word: &str| events.find(|it| it.as_ref().is_ok_and(|it| it.contains(word)));
    let is_serving = wait_for("serving").is_some();
    let mut agent = WatchAgent::start(&folder, &[]);
    agent.wait_for("event=serving");
    let has_begun = wait_for("session_opened").is_some();
    let told = run_test(&folder, port, true, 3);
    agent.wait_for("event=run");
    far.kill().expect("it runs");
    far.wait().expect("it ends");
    assert!(is_serving && has_begun);
    assert!(told.contains("this host measures by itself; try again later"), "{told}");
}
