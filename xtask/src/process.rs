//! Runs programs in the checkout: prints their commands, and kills them after a time limit.

use crate::{Outcome, tree};
use serde_json::Value;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Variables with which `cargo run` describes xtask. Build scripts of libraries watch them, so a
/// cargo that inherits them would rebuild these libraries.
const OF_XTASK: [&str; 4] = [
    "CARGO_PKG_",
    "CARGO_MANIFEST_",
    "CARGO_CRATE_",
    "CARGO_BIN_",
];

/// Returns a command for the caller's `cargo`.
pub fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(tree::root());
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if OF_XTASK.iter().any(|prefix| text.starts_with(prefix)) {
            cargo.env_remove(&name);
        }
    }
    cargo
}

/// Prints the command, runs it on the caller's terminal, and fails unless it succeeds.
pub fn show_and_run(command: &mut Command) -> Outcome {
    println!("$ {}", words(command));
    let status = command
        .status()
        .map_err(|e| format!("cannot start `{}`: {e}", words(command)))?;
    if status.success() {
        return Ok(());
    }
    Err(format!("`{}` ended with {status}", words(command)))
}

/// The output and exit status of a program.
#[derive(Debug)]
pub struct Output {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

/// Runs a program and captures its output; kills it after `limit`.
pub fn capture(command: &mut Command, limit: Duration) -> Result<Output, String> {
    let shown = words(command);
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("cannot start `{shown}`: {e}"))?;
    finish(child, limit).map_err(|e| format!("`{shown}`: {e}"))
}

/// Waits for a child with piped output and captures it.
pub fn finish(mut child: Child, limit: Duration) -> Result<Output, String> {
    let stdout = drain(child.stdout.take());
    let stderr = drain(child.stderr.take());
    let status = wait(&mut child, limit)?;
    Ok(Output {
        status,
        stdout: stdout.join().unwrap_or_default(),
        stderr: stderr.join().unwrap_or_default(),
    })
}

/// Like [`capture`], but fails with the program's own message unless it succeeds.
pub fn stdout_of(command: &mut Command, limit: Duration) -> Result<String, String> {
    let output = capture(command, limit)?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = output.stderr.trim();
    Err(format!(
        "`{}` ended with {}: {said}",
        words(command),
        output.status
    ))
}

/// Waits for a child and kills it after `limit`.
pub fn wait(child: &mut Child, limit: Duration) -> Result<ExitStatus, String> {
    let deadline = Instant::now() + limit;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if Instant::now() < deadline => thread::sleep(Duration::from_millis(10)),
            Ok(None) => {
                end(child);
                return Err(format!("not done after {} s, ended", limit.as_secs()));
            }
            Err(e) => return Err(format!("cannot wait: {e}")),
        }
    }
}

/// Kills a child that may have ended already.
pub fn end(child: &mut Child) {
    // Both fail only if the child is gone, which is fine.
    let _ = child.kill();
    let _ = child.wait();
}

fn drain(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut text = Vec::new();
        if let Some(mut pipe) = pipe {
            // A broken pipe ends the text; the exit status shows the failure.
            let _ = pipe.read_to_end(&mut text);
        }
        String::from_utf8_lossy(&text).into_owned()
    })
}

/// Formats the command as one would type it.
pub fn words(command: &Command) -> String {
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy().into_owned())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Finds `name` in PATH or in Debian's folders for administrators' programs.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

/// Builds the program as users get it and returns its path; `LONGHAUL_BIN` names one that is
/// already built.
pub fn longhaul() -> Result<PathBuf, String> {
    built(
        &["build", "--package", "longhaul", "--release"],
        "release/longhaul",
    )
}

/// Builds the program with debug assertions for tests. It is built as part of the workspace,
/// because alone it would be another build with other features of its libraries.
pub fn longhaul_for_tests() -> Result<PathBuf, String> {
    let words = "test --workspace --features longhaul/clickhouse --locked --no-run --test program";
    built(&words.split(' ').collect::<Vec<_>>(), "debug/longhaul")
}

fn built(words: &[&str], file: &str) -> Result<PathBuf, String> {
    if let Some(built) = std::env::var_os("LONGHAUL_BIN") {
        return Ok(PathBuf::from(built));
    }
    show_and_run(cargo().args(words))?;
    Ok(target_folder()?.join(file))
}

/// Returns cargo's target folder.
pub fn target_folder() -> Result<PathBuf, String> {
    let metadata = metadata(&["--no-deps"])?;
    let folder = metadata["target_directory"].as_str();
    folder
        .map(PathBuf::from)
        .ok_or_else(|| "cargo metadata names no target folder".to_owned())
}

/// Returns cargo's metadata of the workspace, and of its dependencies unless `options` exclude
/// them.
pub fn metadata(options: &[&str]) -> Result<Value, String> {
    let mut command = cargo();
    command.args(["metadata", "--format-version", "1"]);
    let text = stdout_of(command.args(options), Duration::from_secs(300))?;
    serde_json::from_str(&text).map_err(|e| format!("cannot read cargo metadata: {e}"))
}
