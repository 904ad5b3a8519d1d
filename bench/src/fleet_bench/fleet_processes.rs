//! The processes of a fleet: its collector, its database, and lines of TCP that can be cut.

use crate::scratch_folder::ScratchFolder;
use std::fs::{self, File, Permissions};
use std::io::{BufRead, BufReader};
use std::net::TcpListener as BlockingListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use xtask::program_runner::{self, ChildGuard};
use xtask::{TaskResult, checkout, clickhouse};

/// The token with which agents enrol.
pub const ENROL_TOKEN: &str = "enrolment-of-the-bench-0123456789abcdef";
/// The time until the collector listens.
const STARTS: u32 = 600;
const START_POLL: Duration = Duration::from_millis(50);

/// `longhaul watch` as a collector; it can be killed and started again.
#[derive(Debug)]
pub struct CollectorProcess {
    longhaul: PathBuf,
    folder: PathBuf,
    pub port: u16,
    running: Option<ChildGuard>,
}

impl CollectorProcess {
    /// Writes the files of a collector whose archive is `hub.sqlite3` in the folder; `sections` are
    /// more of its watch file. Starts nothing.
    pub fn prepare(
        longhaul: &Path,
        folder: &ScratchFolder,
        sections: &str,
    ) -> Result<CollectorProcess, String> {
        let unused = BlockingListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
        let port = unused.map_err(|e| format!("no free port: {e}"))?.port();
        folder.write(
            "hub.toml",
            &format!(
                "[agent]\nname = \"hub\"\narchive = \"hub.sqlite3\"\nlisten = \"127.0.0.1:{port}\"\n\
                 [api]\nenrol_token_file = \"enrol.token\"\n{sections}"
            ),
        )?;
        let token = folder.write("enrol.token", ENROL_TOKEN)?;
        fs::set_permissions(&token, Permissions::from_mode(0o600))
            .map_err(|e| format!("{}: {e}", token.display()))?;
        let (longhaul, folder) = (longhaul.to_owned(), folder.path(""));
        Ok(CollectorProcess { longhaul, folder, port, running: None })
    }

    /// Starts it and waits until it listens.
    pub fn start(&mut self) -> TaskResult {
        let log = File::options().create(true).append(true).open(self.folder.join("hub.log"));
        let log = log.map_err(|e| format!("no log: {e}"))?;
        let mut command = Command::new(&self.longhaul);
        command.arg("watch").arg(self.folder.join("hub.toml")).arg("--json");
        let again = log.try_clone().map_err(|e| format!("no log: {e}"))?;
        command.stdin(Stdio::null()).stdout(again).stderr(log);
        self.running = Some(ChildGuard(program_runner::spawn(&mut command)?));
        for _ in 0..STARTS {
            if std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return Ok(());
            }
            std::thread::sleep(START_POLL);
        }
        let log = fs::read_to_string(self.folder.join("hub.log")).unwrap_or_default();
        Err(format!("the collector does not listen: {log}"))
    }

    pub fn kill(&mut self) {
        self.running = None;
    }

    /// Returns the CPU time of the running process in seconds.
    pub fn cpu_s(&self) -> f64 {
        self.running.as_ref().map_or(0.0, |child| read_cpu_s(child.0.id()))
    }
}

/// The embedded engine of ClickHouse behind its HTTP interface; it can be killed and started again
/// with its data.
#[derive(Debug)]
pub struct DatabaseProcess {
    python: PathBuf,
    folder: PathBuf,
    /// That of the running process.
    pub port: u16,
    running: Option<ChildGuard>,
}

impl DatabaseProcess {
    /// Installs the engine if it is missing. Starts nothing.
    pub fn prepare(folder: &ScratchFolder) -> Result<DatabaseProcess, String> {
        let python = clickhouse::ensure_engine()?;
        Ok(DatabaseProcess { python, folder: folder.path("database"), port: 0, running: None })
    }

    pub fn start(&mut self) -> TaskResult {
        let shim = checkout::find_root().join("crates/longhaul-clickhouse/tests/shim.py");
        let mut command = Command::new(&self.python);
        command.arg(shim).arg(&self.folder).arg("keep");
        // It ends when its standard input does.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = program_runner::spawn(&mut command)?;
        let mut line = String::new();
        let output = child.stdout.take().ok_or("it has no output")?;
        self.running = Some(ChildGuard(child));
        BufReader::new(output).read_line(&mut line).map_err(|e| format!("no port: {e}"))?;
        self.port = line.trim().parse().map_err(|_| format!("the engine says {line:?}"))?;
        Ok(())
    }

    pub fn kill(&mut self) {
        self.running = None;
    }

    /// Returns the CPU time of the running process in seconds.
    pub fn cpu_s(&self) -> f64 {
        self.running.as_ref().map_or(0.0, |child| read_cpu_s(child.0.id()))
    }
}

/// Returns the CPU time of a process in seconds, from `/proc/PID/stat`, in ticks of 10 ms.
pub fn read_cpu_s(pid: u32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after_name = text.rsplit(") ").next().unwrap_or_default();
    let fields = after_name.split(' ').skip(11).take(2);
    fields.filter_map(|it| it.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// A line of TCP from a port to another one of this machine.
#[derive(Debug)]
pub struct CutLine {
    pub port: u16,
    /// The port at its end; none while it is cut.
    end: watch::Sender<Option<u16>>,
}

impl CutLine {
    /// Listens until the runtime ends.
    pub async fn listen() -> Result<CutLine, String> {
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(|e| e.to_string())?;
        let port = listener.local_addr().map_err(|e| e.to_string())?.port();
        let (end, ends) = watch::channel(None);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(forward_connection(near, ends.clone()));
            }
        });
        Ok(CutLine { port, end })
    }

    pub fn lead_to(&self, port: u16) {
        self.end.send_replace(Some(port));
    }

    /// Closes all connections wherever they are, and new ones at once.
    pub fn cut(&self) {
        self.end.send_replace(None);
    }
}

async fn forward_connection(mut near: TcpStream, mut end: watch::Receiver<Option<u16>>) {
    let Some(port) = *end.borrow_and_update() else { return };
    let Ok(mut far) = TcpStream::connect(("127.0.0.1", port)).await else { return };
    tokio::select! {
        _ended = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
        _cut = end.changed() => {}
    }
}
