//! What the tests of the program share: starting it, and golden files.

use assert_cmd::Command;
use longhaul_model::report::v1::{Report, ReportContent};
use longhaul_store::Archive;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Ends a test that hangs; on a busy machine anything may take long.
pub const HUNG: Duration = Duration::from_secs(300);

/// A free port below those that the kernel gives out: nobody takes it before its server does.
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = std::process::id() + NEXT.fetch_add(1, Ordering::Relaxed);
        let port = 20_000 + (number % 12_000) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Returns what a command printed without its warning about a lab: a test beside kills some.
pub fn skip_lab_warning(text: &str) -> &str {
    match text.split_once('\n') {
        Some((first, rest)) if first.starts_with("warning: a killed lab") => rest,
        _ => text,
    }
}

/// The program, with a clean environment of its own.
pub fn longhaul() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
    for name in [
        "LONGHAUL_TOKEN",
        "LONGHAUL_ARCHIVE",
        "LONGHAUL_LAB_TRUTH",
        "LONGHAUL_LAB",
        "CLICOLOR_FORCE",
    ] {
        command.env_remove(name);
    }
    // No test reads or writes the archive of whoever runs it.
    command.env("XDG_DATA_HOME", env!("CARGO_TARGET_TMPDIR"));
    command.timeout(HUNG);
    command
}

/// Longhaul that is subject to permission bits, whoever runs the test.
pub fn without_privileges(words: &[&str]) -> Command {
    let root = fs::metadata("/proc/self").expect("there").uid() == 0;
    let mut command = Command::new(if root { "setpriv" } else { "env" });
    if root {
        command.args([
            "--bounding-set=-dac_override,-dac_read_search",
            "--inh-caps=-dac_override,-dac_read_search",
        ]);
    }
    command.timeout(HUNG);
    command.arg(env!("CARGO_BIN_EXE_longhaul")).args(words);
    command
}

/// What `longhaul report` says of an archive: the result, or the error behind another exit code.
pub fn reported(archive: &Path, words: &[&str], code: i32) -> String {
    let assert =
        longhaul().arg("report").args(words).arg("--archive").arg(archive).assert().code(code);
    let output = assert.get_output();
    let text = match code {
        0 => output.stdout.clone(),
        _ => output.stderr.clone(),
    };
    String::from_utf8(text).expect("UTF-8")
}

/// A folder of one test's own, empty at its start and gone at its end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(test: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("the target folder can be written");
        Folder(path)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Standard output of `longhaul report show` on an archive that holds this report.
pub fn shown<P, O, A>(test: &str, report: &Report<P, O, A>, options: &[&str]) -> String
where
    Report<P, O, A>: ReportContent,
{
    let folder = Folder::new(test);
    let file = folder.file("archive.sqlite3");
    let mut archive = Archive::open(&file).expect("a new archive");
    archive.append(report).expect("append");
    let assert = longhaul()
        .args(["report", "show", "last", "--archive"])
        .arg(&file)
        .args(options)
        .assert()
        .success();
    String::from_utf8(assert.get_output().stdout.clone()).expect("UTF-8")
}

/// Compares with `tests/golden/NAME`, as the user sees it. With `LONGHAUL_GOLDEN=write` in the
/// environment the file is written instead, for the reviewer to read in the diff.
pub fn golden(name: &str, actual: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("LONGHAUL_GOLDEN").is_some_and(|v| v == "write") {
        fs::write(&path, actual).expect("write the golden file");
        return;
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        actual == expected,
        "{} differs; LONGHAUL_GOLDEN=write accepts this:\n{actual}",
        path.display()
    );
}

/// The text of a fixture report.
pub fn fixture(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/reports").join(name);
    fs::read_to_string(path).expect("the fixture is there")
}

/// Answers one HTTP request. Returns the URL and, when it is joined, the head of the request.
pub fn serve_answer(path: &str, answer: String) -> (String, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/{path}", listener.local_addr().expect("its address"));
    let serving = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let lines = BufReader::new(stream.try_clone().expect("its other half")).lines();
        let head: Vec<String> =
            lines.map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
        stream.write_all(answer.as_bytes()).expect("sent");
        head.join("\n")
    });
    (url, serving)
}
