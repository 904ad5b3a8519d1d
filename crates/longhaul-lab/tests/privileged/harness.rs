//! Runs the tests one after the other, and runs this executable as the lab under test.

use longhaul_lab::lab_run::{LabRunRequest, run};
use longhaul_lab::lab_runtime::LabBackend;
use longhaul_lab::path_catalogue;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// A test: a sentence and the function that checks it.
pub type Test = (&'static str, fn());

/// Runs the tests whose names contain one of the words, or all tests without words.
pub fn run_all(words: &[OsString], tests: &[Test]) -> ExitCode {
    let wanted: Vec<String> = words
        .iter()
        .filter_map(|word| word.to_str().filter(|word| !word.starts_with('-')))
        .map(str::to_owned)
        .collect();
    let mut failed = 0;
    for (name, test) in tests {
        if !wanted.is_empty() && !wanted.iter().any(|word| name.contains(word.as_str())) {
            continue;
        }
        let outcome = std::panic::catch_unwind(test);
        failed += usize::from(outcome.is_err());
        println!("test {name} ... {}", if outcome.is_ok() { "ok" } else { "FAILED" });
    }
    std::fs::remove_dir_all(staging()).expect("the staging folder can be removed");
    ExitCode::from(u8::from(failed > 0))
}

/// Runs `PATH [key=value]… -- CMD…`, see [`Lab`].
pub fn be_the_lab(words: &[OsString]) -> ExitCode {
    let split = words.iter().position(|word| word == "--").expect("-- CMD");
    let (options, command) = (&words[..split], words[split + 1..].to_vec());
    let text: Vec<String> =
        options.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let sets: Vec<String> = text[1..].iter().filter(|word| word.contains('=')).cloned().collect();
    let spec = path_catalogue::load_path(&text[0], &sets).unwrap_or_else(|error| panic!("{error}"));
    let backend = std::env::var("TEST_BACKEND").expect("TEST_BACKEND");
    let request = LabRunRequest {
        spec,
        command,
        publish: Vec::new(),
        truth: std::env::var_os("LONGHAUL_LAB_TRUTH").map(PathBuf::from),
        backend: [LabBackend::Tun, LabBackend::Packet]
            .into_iter()
            .find(|known| known.name() == backend),
    };
    match run(&request) {
        Ok(code) => ExitCode::from(code as u8),
        Err(error) => {
            let source = std::error::Error::source(&error).map(ToString::to_string);
            eprintln!("error: {error}: {source:?}, {:?}, {:?}", error.hint, error.kind);
            ExitCode::from(99)
        }
    }
}

/// Runs the far command: listens until it is ended, or fails.
pub fn be_the_server() -> ExitCode {
    if std::env::var("TEST_FAR_FAILS").as_deref() == Ok("true") {
        eprintln!("nothing to serve");
        return ExitCode::from(2);
    }
    let _listener = std::net::TcpListener::bind("0.0.0.0:5201").expect("a listener");
    loop {
        std::thread::park();
    }
}

/// Returns a command for this executable. Unprivileged users may not have access to the build
/// folder, so they run a copy.
pub fn own_executable(unprivileged: bool) -> Command {
    let own = std::env::current_exe().expect("own executable");
    if !unprivileged {
        return Command::new(own);
    }
    let copy = staging().join("lab");
    if !copy.exists() {
        std::fs::copy(own, &copy).expect("a copy of the executable");
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
    command.arg(copy).current_dir("/");
    command
}

/// Creates a world-readable folder with the path files of these tests.
fn staging() -> PathBuf {
    let folder = std::env::temp_dir().join(format!("lab-tests-{}", std::process::id()));
    if !folder.exists() {
        std::fs::create_dir(&folder).expect("a folder");
        let all = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&folder, all).expect("permissions");
    }
    folder
}

/// Returns a path file of these tests.
pub fn own_path(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/paths");
    let staged = staging().join(name);
    std::fs::copy(folder.join(name), &staged).expect("a copy of the path file");
    staged.to_string_lossy().into_owned()
}

pub fn kill(pid: u32, signal: &str) {
    let words = [format!("-{signal}"), pid.to_string()];
    let status = Command::new("kill").args(words).status().expect("kill");
    assert!(status.success(), "kill -{signal} {pid}");
}

pub fn children_of(pid: u32) -> Vec<u32> {
    let listed = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let listed = listed.expect("the lab's children");
    listed.split_whitespace().flat_map(str::parse).collect()
}

/// Waits until the condition holds; two minutes are a guard against hanging.
pub fn until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !is_so() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A lab run in a separate process.
pub struct Lab<'a> {
    pub path: &'a str,
    /// The far command ends at once, with an error.
    pub far_fails: bool,
    pub backend: LabBackend,
    /// Runs as user nobody, in a user namespace.
    pub unprivileged: bool,
}

/// The result of a run.
pub struct Outcome {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Lab<'_> {
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = own_executable(self.unprivileged);
        command.arg("as-lab");
        match self.path {
            "plain.toml" | "machine-limit.toml" => command.arg(own_path(self.path)),
            shipped => command.arg(shipped),
        };
        command.arg("--").args(words);
        command.env("TEST_BACKEND", self.backend.name());
        command.env("TEST_FAR_FAILS", self.far_fails.to_string());
        command.env_remove("LONGHAUL_LAB_TRUTH");
        command
    }

    pub fn run(&self, words: &[&str]) -> Outcome {
        Outcome::of(&mut self.command(words))
    }
}

impl Outcome {
    pub fn of(command: &mut Command) -> Outcome {
        let output = command.output().expect("the command can be started");
        Outcome {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}
