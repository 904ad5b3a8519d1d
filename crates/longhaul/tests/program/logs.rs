//! Logs of services outside a terminal: one line per event with time and level, and no token.

use crate::support::{Folder, free_port, longhaul};
use longhaul_sys::signal::{Signal, send_signal};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

/// A service whose log is read line by line. It is killed with the test if that fails.
struct LoggedService {
    child: Child,
    log: BufReader<Box<dyn Read>>,
}

impl LoggedService {
    fn start(folder: &Folder, arguments: &[&str]) -> LoggedService {
        let mut child = Command::new(env!("CARGO_BIN_EXE_longhaul"))
            .args(arguments)
            .env_remove("LONGHAUL_TOKEN")
            .env_remove("NOTIFY_SOCKET")
            .env("XDG_DATA_HOME", &folder.0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let out = child.stdout.take().expect("a pipe");
        let log: Box<dyn Read> = match arguments[0] {
            "serve" => Box::new(child.stderr.take().expect("a pipe")),
            _ => Box::new(out),
        };
        LoggedService { child, log: BufReader::new(log) }
    }

    fn next_line(&mut self) -> String {
        let mut line = String::new();
        // A test beside kills a lab, of which every command warns.
        while line.is_empty() || line.starts_with("warning: ") {
            line.clear();
            assert!(self.log.read_line(&mut line).expect("a line") > 0, "the log has ended");
        }
        line
    }

    /// Ends it in order; returns the rest of its log.
    fn stop(mut self) -> String {
        send_signal(self.child.id(), Signal::SIGTERM).expect("it runs");
        let mut rest = String::new();
        self.log.read_to_string(&mut rest).expect("the log");
        assert!(self.child.wait().expect("it ends").success());
        rest
    }
}

impl Drop for LoggedService {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asserts that every line has time, level and event.
fn assert_logfmt(log: &str) {
    for line in log.lines() {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        let time = words[0].strip_prefix("time=").unwrap_or_else(|| panic!("{line:?}"));
        assert!(time.len() == 24 && time.ends_with('Z') && time.contains('T'), "{line:?}");
        assert!(matches!(words[1], "level=info" | "level=warn"), "{line:?}");
        assert!(words[2].starts_with("event="), "{line:?}");
        assert!(line.contains(" msg="), "{line:?}");
    }
}

#[test]
fn a_generated_token_is_in_a_private_file_and_in_no_log() {
    for (name, options) in [("logs_serve", &[][..]), ("logs_serve_json", &["--json"])] {
        let folder = Folder::new(name);
        let port = free_port().to_string();
        let arguments = [&["serve", "-B", "127.0.0.1", "-p", &port][..], options].concat();
        let mut server = LoggedService::start(&folder, &arguments);
        let first = server.next_line();
        let file = folder.file(&format!("longhaul/serve-{port}.token"));
        assert!(first.contains(file.to_str().expect("UTF-8")), "{first}");
        let token = fs::read_to_string(&file).expect("the file of the token");
        let token = token.trim().to_owned();
        let mode = file.metadata().expect("a file").permissions().mode();
        assert_eq!((mode & 0o777, token.len()), (0o600, 32));
        let mut test = longhaul();
        test.args(["test", "127.0.0.1", "-p", &port, "-t", "300ms", "--no-save", "--quiet"]);
        test.arg("--token-file").arg(&file).assert().success();
        let log = first + &server.stop();
        assert!(log.contains("session_opened"), "{log}");
        assert!(!log.contains(&token), "{log}");
        assert!(!file.exists(), "it goes with the server");
        if options.is_empty() {
            assert_logfmt(&log);
        }
    }
}

#[test]
fn a_given_token_is_in_no_log() {
    let folder = Folder::new("logs_serve_given");
    let token = "a-token-that-no-log-may-have";
    for format in ["logfmt", "json"] {
        let arguments =
            ["serve", "-B", "127.0.0.1", "-p", "0", "--token", token, "--log-format", format];
        let mut server = LoggedService::start(&folder, &arguments);
        let log = server.next_line() + &server.stop();
        assert!(log.contains("serving") && !log.contains(token), "{log}");
    }
}

#[test]
fn an_agent_without_a_terminal_logs_one_unwrapped_line_per_event() {
    let folder = Folder::new("logs_agent_whose_archive_is_in_a_folder_with_a_long_name");
    let port = free_port();
    let text = format!(
        "[agent]\nname = \"here\"\narchive = \"archive.sqlite3\"\nlisten = \"127.0.0.1:{port}\"\n\
         jitter = \"0 s\"\n[[host]]\nname = \"there\"\naddress = \"127.0.0.1\"\nport = 9\n\
         [[target]]\nhost = \"there\"\n[[measure]]\nname = \"audit\"\nkind = \"host\"\n\
         every = \"1 s\"\n"
    );
    let file = folder.file("watch.toml");
    fs::write(&file, text).expect("written");
    let mut agent = LoggedService::start(&folder, &["watch", file.to_str().expect("UTF-8")]);
    let first = agent.next_line();
    assert!(first.len() > 120 && first.contains("event=watching"), "{first}");
    assert!(first.contains(&format!("page=http://127.0.0.1:{port}/")), "{first}");
    let mut run = agent.next_line();
    while !run.contains("event=run") {
        run = agent.next_line();
    }
    for field in ["measurement=audit", "from=here", "to=here", "run="] {
        assert!(run.contains(field), "{run}");
    }
    let log = first + &run + &agent.stop();
    assert!(log.contains("msg=stopped"), "{log}");
    assert_logfmt(&log);
    assert!(File::open(folder.file("archive.sqlite3")).is_ok());
}
