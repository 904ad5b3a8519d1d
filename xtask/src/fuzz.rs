//! Fuzzes the parsers of external input for a bounded time.
//!
//! Without cargo-fuzz and a nightly tool chain the property tests of the same parsers are used
//! instead, and a message says so.

use crate::program_runner::{self, cargo_command, show_and_run};
use crate::{TaskResult, checkout};
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

/// The time for which each target is fuzzed; long runs belong elsewhere.
const SECONDS: u32 = 10;
/// The number of targets that run at once.
const PARALLEL_TARGETS: usize = 2;
/// The fuzzed code is safe Rust: overflow checks find more in it than sanitizers do, and the build
/// takes a third of the time.
const BUILD_OPTIONS: [&str; 3] = ["--dev", "--sanitizer", "none"];

/// Builds every target if possible, at low priority.
pub fn build_targets() -> TaskResult {
    match find_targets() {
        Some(_) => show_and_run(cargo_fuzz_command("build").args(BUILD_OPTIONS)),
        None => Ok(()),
    }
}

/// Runs every target.
pub fn run() -> TaskResult {
    let Some(targets) = find_targets() else {
        println!(
            "cargo-fuzz or the nightly tool chain is not here: not fuzzed; the property tests of the \
             parsers ran"
        );
        return Ok(());
    };
    // One build for all parallel runs.
    build_targets()?;
    let mut lanes: Vec<Vec<String>> = vec![Vec::new(); PARALLEL_TARGETS];
    for (number, target) in targets.into_iter().enumerate() {
        lanes[number % PARALLEL_TARGETS].push(target);
    }
    let lanes: Vec<_> = lanes
        .into_iter()
        .map(|targets| thread::spawn(move || targets.iter().try_for_each(|it| fuzz_target(it))))
        .collect();
    // All runs end before the first failure is reported, so that none keeps running.
    let ends: Vec<TaskResult> = lanes
        .into_iter()
        .map(|lane| lane.join().unwrap_or(Err("a fuzzer's thread died".into())))
        .collect();
    ends.into_iter().collect()
}

fn fuzz_target(target: &str) -> TaskResult {
    let limit = format!("-max_total_time={SECONDS}");
    show_and_run(cargo_fuzz_command("run").args(BUILD_OPTIONS).args([
        target,
        "--",
        &limit,
        "-verbosity=0",
        "-print_final_stats=1",
    ]))
}

fn find_targets() -> Option<Vec<String>> {
    list_targets().or_else(|| install_cargo_fuzz().then(list_targets).flatten())
}

fn list_targets() -> Option<Vec<String>> {
    let listed =
        program_runner::capture_stdout(&mut cargo_fuzz_command("list"), Duration::from_secs(60))
            .ok()?;
    Some(listed.lines().map(str::to_owned).collect())
}

/// Installs cargo-fuzz in the target folder if there is a nightly tool chain; returns false if that
/// is not possible.
fn install_cargo_fuzz() -> bool {
    let mut nightly = Command::new("cargo");
    nightly.args(["+nightly", "--version"]);
    if program_runner::capture_stdout(&mut nightly, Duration::from_secs(60)).is_err() {
        return false;
    }
    let mut install = cargo_command();
    install.args(["install", "--quiet", "--locked", "cargo-fuzz", "--root"]).arg(tools_folder());
    show_and_run(&mut install).is_ok()
}

/// Returns the folder of programs that xtask installed for itself.
fn tools_folder() -> PathBuf {
    checkout::find_root().join("target/tools")
}

fn cargo_fuzz_command(verb: &str) -> Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = std::iter::once(tools_folder().join("bin"));
    let path = std::env::join_paths(own.chain(std::env::split_paths(&path))).unwrap_or(path);
    let mut command = Command::new("nice");
    command
        .current_dir(checkout::find_root())
        .env("PATH", path)
        .args(["cargo", "+nightly", "fuzz", verb]);
    command
}
