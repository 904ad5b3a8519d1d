//! Runs programs in the checkout: prints their commands, and kills them after a time limit.

use crate::{TaskResult, checkout};
use serde_json::Value;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Variables with which `cargo run` describes xtask. Build scripts of libraries watch them, so a
/// cargo that inherits them would rebuild these libraries.
const CARGO_RUN_VARIABLES: [&str; 4] =
    ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CRATE_", "CARGO_BIN_"];

/// Returns a command for the caller's `cargo_command`.
pub fn cargo_command() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(checkout::find_root());
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if CARGO_RUN_VARIABLES.iter().any(|prefix| text.starts_with(prefix)) {
            cargo.env_remove(&name);
        }
    }
    cargo
}

/// Prints the command, runs it on the caller's terminal, and fails unless it succeeds.
pub fn show_and_run(command: &mut Command) -> TaskResult {
    println!("$ {}", format_command(command));
    let status =
        command.status().map_err(|e| format!("cannot start `{}`: {e}", format_command(command)))?;
    if status.success() {
        return Ok(());
    }
    Err(format!("`{}` ended with {status}", format_command(command)))
}

/// Runs a script of the folder `scripts` on the caller's terminal.
pub fn run_script(name: &str, words: &[&str]) -> TaskResult {
    let script = checkout::find_root().join("scripts").join(name);
    show_and_run(Command::new(script).args(words))
}

/// Ensures a Python package in a virtual environment of its own, and returns the environment: the
/// folder `name` of the target folder.
pub fn install_python_package(name: &str, package: &str) -> Result<PathBuf, String> {
    let folder = target_folder()?.join(name);
    run_script("requirements.sh", &["python", &folder.to_string_lossy(), package])?;
    Ok(folder)
}

/// The output and exit status of a program.
#[derive(Debug)]
pub struct ProgramOutput {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

/// Starts a program.
pub fn spawn(command: &mut Command) -> Result<Child, String> {
    let child = command.spawn();
    child.map_err(|e| format!("cannot start `{}`: {e}", format_command(command)))
}

/// Starts a program without input whose output will be captured.
pub fn spawn_captured(command: &mut Command) -> Result<Child, String> {
    command.stdin(Stdio::null());
    spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()))
}

/// Starts a program without input and output.
pub fn spawn_silent(command: &mut Command) -> Result<Child, String> {
    command.stdin(Stdio::null());
    spawn(command.stdout(Stdio::null()).stderr(Stdio::null()))
}

/// Runs a program and captures its output; kills it after `limit`.
pub fn capture_output(command: &mut Command, limit: Duration) -> Result<ProgramOutput, String> {
    let child = spawn_captured(command)?;
    wait_with_output(child, limit).map_err(|e| format!("`{}`: {e}", format_command(command)))
}

/// Waits for a child with piped output and captures it.
pub fn wait_with_output(mut child: Child, limit: Duration) -> Result<ProgramOutput, String> {
    let stdout = spawn_reader(child.stdout.take());
    let stderr = spawn_reader(child.stderr.take());
    let status = wait_with_limit(&mut child, limit)?;
    Ok(ProgramOutput {
        status,
        stdout: stdout.join().unwrap_or_default(),
        stderr: stderr.join().unwrap_or_default(),
    })
}

/// Like [`capture_output`], but fails with the program's own message unless it succeeds.
pub fn capture_stdout(command: &mut Command, limit: Duration) -> Result<String, String> {
    let output = capture_output(command, limit)?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let message = output.stderr.trim();
    Err(format!("`{}` ended with {}: {message}", format_command(command), output.status))
}

/// Waits for a child and kills it after `limit`.
pub fn wait_with_limit(child: &mut Child, limit: Duration) -> Result<ExitStatus, String> {
    let deadline = Instant::now() + limit;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if Instant::now() < deadline => thread::sleep(Duration::from_millis(10)),
            Ok(None) => {
                kill_child(child);
                return Err(format!("not done after {} s, ended", limit.as_secs()));
            }
            Err(e) => return Err(format!("cannot wait: {e}")),
        }
    }
}

/// A child that is killed when this is dropped.
#[derive(Debug)]
pub struct ChildGuard(pub Child);

impl Drop for ChildGuard {
    fn drop(&mut self) {
        kill_child(&mut self.0);
    }
}

/// Kills a child that may have ended already.
pub fn kill_child(child: &mut Child) {
    // Both fail only if the child is gone, which is fine.
    let _ = child.kill();
    let _ = child.wait();
}

fn spawn_reader(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
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
pub fn format_command(command: &Command) -> String {
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
pub fn build_longhaul() -> Result<PathBuf, String> {
    build_program(&["build", "--package", "longhaul", "--release"], "release/longhaul")
}

/// Like [`build_longhaul`], but with the driver of the database.
pub fn build_longhaul_for_fleets() -> Result<PathBuf, String> {
    let words = "build --package longhaul --release --features clickhouse";
    build_program(&words.split(' ').collect::<Vec<_>>(), "release/longhaul")
}

/// Builds the program with debug assertions for tests. It is built as part of the workspace,
/// because alone it would be another build with other features of its libraries.
pub fn build_longhaul_for_tests() -> Result<PathBuf, String> {
    let words = "test --workspace --features longhaul/clickhouse --locked --no-run --test program";
    build_program(&words.split(' ').collect::<Vec<_>>(), "debug/longhaul")
}

fn build_program(words: &[&str], file: &str) -> Result<PathBuf, String> {
    if let Some(built) = std::env::var_os("LONGHAUL_BIN") {
        return Ok(PathBuf::from(built));
    }
    show_and_run(cargo_command().args(words))?;
    Ok(target_folder()?.join(file))
}

/// Returns cargo's target folder.
pub fn target_folder() -> Result<PathBuf, String> {
    let metadata = read_cargo_metadata(&["--no-deps"])?;
    let folder = metadata["target_directory"].as_str();
    folder.map(PathBuf::from).ok_or_else(|| "cargo metadata names no target folder".to_owned())
}

/// Returns cargo's metadata of the workspace, and of its dependencies unless `options` exclude
/// them.
pub fn read_cargo_metadata(options: &[&str]) -> Result<Value, String> {
    let mut command = cargo_command();
    command.args(["metadata", "--format-version", "1"]);
    let text = capture_stdout(command.args(options), Duration::from_secs(300))?;
    serde_json::from_str(&text).map_err(|e| format!("cannot read cargo metadata: {e}"))
}

/// Runs `work` on every task, at most `lanes` at a time and in their order; the results are in the
/// order of the tasks.
pub fn run_in_parallel<T: Sync, R: Send>(
    tasks: &[T],
    lanes: usize,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let keep = |index: usize, result: R| {
        done.lock().unwrap_or_else(PoisonError::into_inner).push((index, result));
    };
    let work_on_next = || {
        let index = next.fetch_add(1, Ordering::Relaxed);
        tasks.get(index).map(|task| keep(index, work(task)))
    };
    std::thread::scope(|scope| {
        for _ in 0..lanes {
            scope.spawn(|| while work_on_next().is_some() {});
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::run_in_parallel;

    #[test]
    fn every_task_is_done_once_and_its_result_is_in_its_place() {
        assert_eq!(run_in_parallel(&[3, 5, 1, 0], 3, |number| number * 2), [6, 10, 2, 0]);
        assert!(run_in_parallel(&[0; 0], 2, |number| *number).is_empty());
    }
}
