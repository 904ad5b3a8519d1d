//! Fuzzes the parsers of external input for a bounded time.
//!
//! Without cargo-fuzz and a nightly tool chain the property tests of the same parsers are used
//! instead, and a message says so.

use crate::process::{self, cargo, show_and_run};
use crate::{Outcome, tree};
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

/// The time for which each target is fuzzed; long runs belong elsewhere.
const SECONDS: u32 = 10;
/// The number of targets that run at once.
const LANES: usize = 2;
/// The fuzzed code is safe Rust: overflow checks find more in it than sanitizers do, and the build
/// takes a third of the time.
const QUICK: [&str; 3] = ["--dev", "--sanitizer", "none"];

/// Builds every target if possible, at low priority.
pub fn build() -> Outcome {
    match targets() {
        Some(_) => show_and_run(fuzz("build").args(QUICK)),
        None => Ok(()),
    }
}

/// Runs every target.
pub fn run() -> Outcome {
    let Some(targets) = targets() else {
        println!(
            "cargo-fuzz or the nightly tool chain is not here: not fuzzed; the property tests of the \
             parsers ran"
        );
        return Ok(());
    };
    // One build for all parallel runs.
    build()?;
    let mut lanes: Vec<Vec<String>> = vec![Vec::new(); LANES];
    for (number, target) in targets.into_iter().enumerate() {
        lanes[number % LANES].push(target);
    }
    let lanes: Vec<_> = lanes
        .into_iter()
        .map(|targets| thread::spawn(move || targets.iter().try_for_each(|it| one(it))))
        .collect();
    // All runs end before the first failure is reported, so that none keeps running.
    let ends: Vec<Outcome> = lanes
        .into_iter()
        .map(|lane| lane.join().unwrap_or(Err("a fuzzer's thread died".into())))
        .collect();
    ends.into_iter().collect()
}

fn one(target: &str) -> Outcome {
    let limit = format!("-max_total_time={SECONDS}");
    show_and_run(fuzz("run").args(QUICK).args([
        target,
        "--",
        &limit,
        "-verbosity=0",
        "-print_final_stats=1",
    ]))
}

fn targets() -> Option<Vec<String>> {
    listed().or_else(|| install().then(listed).flatten())
}

fn listed() -> Option<Vec<String>> {
    let listed = process::stdout_of(&mut fuzz("list"), Duration::from_secs(60)).ok()?;
    Some(listed.lines().map(str::to_owned).collect())
}

/// Installs cargo-fuzz in the target folder if there is a nightly tool chain; returns false if that
/// is not possible.
fn install() -> bool {
    let mut nightly = Command::new("cargo");
    nightly.args(["+nightly", "--version"]);
    if process::stdout_of(&mut nightly, Duration::from_secs(60)).is_err() {
        return false;
    }
    let mut install = cargo();
    install
        .args(["install", "--quiet", "--locked", "cargo-fuzz", "--root"])
        .arg(tools());
    show_and_run(&mut install).is_ok()
}

/// Returns the folder of programs that xtask installed for itself.
fn tools() -> PathBuf {
    tree::root().join("target/tools")
}

fn fuzz(verb: &str) -> Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = std::iter::once(tools().join("bin"));
    let path = std::env::join_paths(own.chain(std::env::split_paths(&path))).unwrap_or(path);
    let mut command = Command::new("nice");
    command
        .current_dir(tree::root())
        .env("PATH", path)
        .args(["cargo", "+nightly", "fuzz", verb]);
    command
}
