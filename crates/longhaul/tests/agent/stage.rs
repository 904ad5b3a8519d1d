//! A far end, an agent with a file of its own, and what it says.

use longhaul_store::Archive;
use longhaul_store::history_store::{PlannedOutcome, PlannedRun, PlannedRunFilter, TimeRange};
use longhaul_sys::signal::{self, Signal};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Ends a test that hangs; on a busy machine anything may take long.
pub const DEADLINE: Duration = Duration::from_secs(300);

pub fn program() -> &'static str {
    env!("CARGO_BIN_EXE_longhaul")
}

/// A folder of one test's own, empty at its start and gone at its end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(test: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("agent-{test}"));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("the target folder can be written");
        Folder(path)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.file(name);
        fs::write(&path, text).expect("write");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

/// `longhaul serve` on a port of its own; ended with the test.
pub struct FarEnd {
    child: Child,
    pub port: u16,
    log: Receiver<String>,
}

impl FarEnd {
    pub fn start(options: &[&str]) -> FarEnd {
        let mut child = Command::new(program())
            .args(["serve", "-B", "127.0.0.1", "-p", "0", "--json", "--anonymous"])
            .args(options)
            .env_remove("LONGHAUL_TOKEN")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start the far end");
        let mut log = BufReader::new(child.stderr.take().expect("its log"));
        let mut line = String::new();
        log.read_line(&mut line).expect("a line");
        let first: Value = serde_json::from_str(&line).expect("JSON");
        let address = first["addresses"][0].as_str().expect("an address");
        let port = address.rsplit(':').next().and_then(|it| it.parse().ok());
        let (say, said) = channel();
        std::thread::spawn(move || {
            let mut lines = log.lines().map_while(Result::ok);
            lines.try_for_each(|line| say.send(line))
        });
        FarEnd { child, port: port.expect("a port"), log: said }
    }

    /// Until its log tells of this.
    pub fn wait_for(&self, event: &str) {
        let next = || self.log.recv_timeout(DEADLINE).expect("its log");
        while !next().contains(event) {}
    }
}

impl Drop for FarEnd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A file with one host, `far`, and what `rest` adds.
pub fn file(port: u16, rest: &str) -> String {
    format!(
        "[agent]\nname = \"near\"\narchive = \"archive.sqlite3\"\nlisten = \"127.0.0.1:0\"\n\
         jitter = \"0 s\"\n\
         [[host]]\nname = \"far\"\naddress = \"127.0.0.1\"\nport = {port}\n\
         [[target]]\nhost = \"far\"\n{rest}"
    )
}

/// Light runs, as often as can be.
pub const LOOKS: &str = "[[measure]]\nname = \"look\"\nkind = \"path\"\ncount = 1\n\
                         every = \"1 s\"\n\
                         [[measure]]\nname = \"audit\"\nkind = \"host\"\nevery = \"1 s\"\n";

/// `longhaul watch --json`.
pub struct Agent {
    pub child: Child,
    lines: Receiver<Value>,
    stderr: PathBuf,
}

impl Agent {
    /// Events are found as if time ran faster by this factor.
    pub fn start_accelerated(folder: &Folder, factor: u32) -> Agent {
        let mut command = Command::new(program());
        command.arg("watch").arg(folder.file("watch.toml"));
        command.env("LONGHAUL_TIME_FACTOR", factor.to_string());
        Agent::of(command, &folder.file("stderr.txt"))
    }

    pub fn start(folder: &Folder) -> Agent {
        let mut command = Command::new(program());
        command.arg("watch").arg(folder.file("watch.toml"));
        Agent::of(command, &folder.file("stderr.txt"))
    }

    pub fn of(mut command: Command, stderr: &Path) -> Agent {
        let said = fs::File::options().create(true).append(true).open(stderr);
        let mut child = command
            .arg("--json")
            .env_remove("LONGHAUL_TOKEN")
            .env_remove("NOTIFY_SOCKET")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(said.expect("a file"))
            .spawn()
            .expect("start the agent");
        let out = BufReader::new(child.stdout.take().expect("its lines"));
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                let value = serde_json::from_str(&line);
                let value = value.unwrap_or_else(|_| panic!("not JSON: {line}"));
                if send.send(value).is_err() {
                    return;
                }
            }
        });
        Agent { child, lines, stderr: stderr.to_owned() }
    }

    /// The next line that fits; those before it are gone. `None`, and those lines on stderr, when the agent
    /// ends first.
    pub fn next(&mut self, fits: impl Fn(&Value) -> bool) -> Option<Value> {
        let until = Instant::now() + DEADLINE;
        let mut passed = Vec::new();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) if fits(&line) => return Some(line),
                Ok(line) => passed.push(line),
                Err(end) => {
                    let log = fs::read_to_string(&self.stderr).unwrap_or_default();
                    eprintln!("{end}, after {passed:?}; on stderr: {log}");
                    return None;
                }
            }
        }
    }

    /// The next line of this kind.
    pub fn wait_for(&mut self, event: &str) -> Value {
        let found = self.next(|line| line["event"] == event);
        found.unwrap_or_else(|| panic!("the agent never said {event}"))
    }

    /// The next note or trouble with these words.
    pub fn wait_for_words(&mut self, words: &str) -> Value {
        let fits = |line: &Value| line["text"].as_str().is_some_and(|it| it.contains(words));
        let found = self.next(fits);
        found.unwrap_or_else(|| panic!("the agent never said {words:?}"))
    }

    pub fn signal(&self, signal: Signal) {
        signal::send_signal(self.child.id(), signal).expect("the agent is there");
    }

    /// Returns whether any thread of the agent has a child: the process of a run.
    pub fn has_child_process(&self) -> bool {
        let threads = fs::read_dir(format!("/proc/{}/task", self.child.id()));
        threads.into_iter().flatten().flatten().any(|thread| {
            let children = fs::read_to_string(thread.path().join("children"));
            children.is_ok_and(|pids| !pids.trim().is_empty())
        })
    }

    pub fn kill(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Ends it in order.
    pub fn stop(mut self) -> Vec<Value> {
        self.signal(Signal::SIGTERM);
        let status = self.ended();
        assert_eq!(status.code(), Some(0), "an orderly end");
        self.rest()
    }

    pub fn ended(&mut self) -> ExitStatus {
        let until = Instant::now() + DEADLINE;
        loop {
            if let Some(status) = self.child.try_wait().expect("its end") {
                return status;
            }
            assert!(Instant::now() < until, "the agent does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// All that it still said.
    pub fn rest(&mut self) -> Vec<Value> {
        self.lines.iter().collect()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn archive(folder: &Folder) -> Archive {
    let path = folder.file("archive.sqlite3");
    let archive = Archive::open_existing(&path).expect("it can be opened");
    archive.expect("the agent has made it")
}

pub fn planned(archive: &Archive) -> Vec<PlannedRun> {
    let filter =
        PlannedRunFilter { range: TimeRange::ALL, pair: None, state: None, limit: 100_000 };
    archive.planned(&filter).expect("rows")
}

/// The run of a planned one that is done.
pub fn run_of(row: &PlannedRun) -> Option<&str> {
    match &row.outcome {
        Some(PlannedOutcome::Done { run_id }) => Some(run_id),
        _ => None,
    }
}

pub fn reason_of(row: &PlannedRun) -> Option<&str> {
    match &row.outcome {
        Some(PlannedOutcome::Missed { reason, .. }) => Some(reason),
        _ => None,
    }
}

/// Every planned run has an end.
pub fn assert_all_ended(archive: &Archive) {
    let open: Vec<PlannedRun> =
        planned(archive).into_iter().filter(|row| row.outcome.is_none()).collect();
    assert!(open.is_empty(), "planned and never ended: {open:?}");
}
