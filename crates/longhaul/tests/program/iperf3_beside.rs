//! What tests of `longhaul iperf3` share: servers and clients of either kind, their lines and keys
//! without what was measured, and a user.

use crate::support::{Folder, HUNG, free_port};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Whose server, or client, it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    Iperf3,
    Longhaul,
}

pub const BOTH: [Whose; 2] = [Whose::Iperf3, Whose::Longhaul];

impl Whose {
    pub fn command(self) -> Command {
        match self {
            Whose::Iperf3 => Command::new("iperf3"),
            Whose::Longhaul => {
                let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
                command.arg("iperf3");
                command
            }
        }
    }
}

/// Does something listen there? Asked of the kernel: a connection would be a client.
fn listens(port: u16) -> bool {
    let wanted = format!(":{port:04X} ");
    ["/proc/net/tcp", "/proc/net/tcp6"].iter().any(|table| {
        let text = fs::read_to_string(table).unwrap_or_default();
        let mut lines = text.lines();
        lines.any(|line| line.contains(&wanted) && line.contains(" 0A "))
    })
}

pub fn await_that(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + HUNG;
    while !so() {
        assert!(Instant::now() < deadline, "{what} does not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A server on loopback.
pub struct Server {
    /// Absent: it runs in the background.
    pub child: Option<Child>,
    pub address: &'static str,
    pub port: u16,
}

impl Server {
    pub fn start(whose: Whose, options: &[&str]) -> Server {
        Server::at("127.0.0.1", whose, options)
    }

    pub fn at(address: &'static str, whose: Whose, options: &[&str]) -> Server {
        let port = free_port();
        let mut command = whose.command();
        command.args(["-s", "-B", address, "-p", &port.to_string()]);
        let child = command
            .args(options)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a server");
        await_that("its listener", || listens(port));
        Server {
            child: Some(child),
            address,
            port,
        }
    }

    /// A client of 3.12.
    pub fn client(&self, options: &str) -> Child {
        Command::new("iperf3")
            .args(["-c", self.address, "-p", &self.port.to_string()])
            .args(options.split_whitespace())
            .env("IPERF3_PASSWORD", "rossi")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("iperf3 is installed")
    }

    pub fn run(&self, options: &str) -> Output {
        ended(self.client(options))
    }

    /// What `client` prints once the server is free for it.
    pub fn asked_by(&self, mut client: impl FnMut() -> Command, options: &[&str]) -> Output {
        let until = Instant::now() + HUNG;
        loop {
            let mut command = client();
            command.args(["-c", self.address, "-p", &self.port.to_string()]);
            let output = command.args(options).output().expect("it runs");
            let said = [&output.stdout[..], &output.stderr[..]].concat();
            let said = String::from_utf8_lossy(&said).into_owned();
            let between = said.contains("Connection refused") || said.contains("busy");
            if !between || Instant::now() > until {
                return output;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn id(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    /// What it printed; it ends by itself, or by the signal that was sent.
    pub fn ended(mut self) -> Output {
        ended(self.child.take().expect("it runs"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Waits for a child that ends by itself.
pub fn ended(mut child: Child) -> Output {
    let drain = |mut pipe: Box<dyn Read + Send>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            pipe.read_to_end(&mut bytes).map(|_| bytes)
        })
    };
    let out = drain(Box::new(child.stdout.take().expect("piped")));
    let err = drain(Box::new(child.stderr.take().expect("piped")));
    let deadline = Instant::now() + HUNG;
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child") {
            break status;
        }
        if Instant::now() > deadline {
            child.kill().expect("it runs");
            panic!("it hangs");
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let read = |thread: std::thread::JoinHandle<std::io::Result<Vec<u8>>>| {
        thread.join().expect("a reader").expect("its output")
    };
    Output {
        status,
        stdout: read(out),
        stderr: read(err),
    }
}

pub fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill").args([name, &pid.to_string()]).status();
    assert!(sent.expect("kill").success());
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// A line with numbers, units and cookies as letters, and columns without their width.
pub fn pattern(line: &str) -> String {
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

/// The patterns of all lines; of intervals the first of each kind, since how many there are beyond
/// the last whole second depends on the machine.
pub fn patterns(output: &Output) -> Vec<String> {
    let mut patterns: Vec<String> = Vec::new();
    for line in text(&output.stdout).lines().map(pattern) {
        let bare = line.trim_end();
        let seen = ["[ 0]", "[SUM]", "- -"]
            .iter()
            .any(|it| bare.starts_with(it));
        let total = bare.ends_with("sender") || bare.ends_with("receiver");
        if !seen || total || bare.contains("local") || !patterns.contains(&line) {
            patterns.push(line);
        }
    }
    patterns
}

/// Every path of keys, those of objects too; what lists hold, together.
pub fn keys(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    found.insert(path.to_owned());
    match value {
        Value::Object(object) => {
            for (name, inner) in object {
                keys(inner, &format!("{path}.{name}"), found);
            }
        }
        Value::Array(list) => {
            for inner in list {
                keys(inner, &format!("{path}[]"), found);
            }
        }
        _ => {}
    }
}

fn openssl(arguments: &[&str]) {
    let done = Command::new("openssl").args(arguments).output();
    let done = done.expect("openssl is installed");
    assert!(done.status.success(), "{done:?}");
}

/// A key pair, and the one user `mario` with the password `rossi`.
pub struct Users {
    _folder: Folder,
    private: String,
    pub public: String,
    list: String,
}

impl Users {
    pub fn new(name: &str) -> Self {
        let folder = Folder::new(name);
        let path = |name: &str| folder.file(name).to_str().expect("UTF-8").to_owned();
        let (private, public) = (path("private.pem"), path("public.pem"));
        openssl(&["genrsa", "-out", &private, "2048"]);
        openssl(&["rsa", "-in", &private, "-pubout", "-out", &public]);
        let list = path("users.csv");
        // SHA-256 of {mario}rossi, from iperf3's own manual.
        let hash = "bf7a49a846d44b454a5d11e7acfaf13d138bbe0b7483aa3e050879700572709b";
        fs::write(&list, format!("mario,{hash}\n")).expect("written");
        Users {
            _folder: folder,
            private,
            public,
            list,
        }
    }

    pub fn of_server(&self) -> [&str; 4] {
        let (key, list) = ("--rsa-private-key-path", "--authorized-users-path");
        [key, &self.private, list, &self.list]
    }

    pub fn of_client<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        let (name, key) = ("--username", "--rsa-public-key-path");
        [&["-n", "1M", name, "mario", key, &self.public], more].concat()
    }
}
