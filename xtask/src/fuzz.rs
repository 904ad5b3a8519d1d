//! The parsers of what comes from outside, under arbitrary bytes for a bounded time.
//!
//! Without cargo-fuzz and a nightly tool chain the property tests of the same parsers stand in, and
//! that is said.

use crate::process::{self, cargo, show_and_run};
use crate::{Outcome, tree};
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

/// How long each target is fuzzed here; a night of it is for another place.
const SECONDS: u32 = 10;
/// Targets that run at one time.
const LANES: usize = 2;
/// What is fuzzed is safe Rust: checks of overflow find more in it than sanitizers do, and it is
/// built in a third of the time.
const QUICK: [&str; 3] = ["--dev", "--sanitizer", "none"];

/// Builds every target, where that can be done, and gives way to whatever else runs.
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
    // One build for all lanes.
    build()?;
    let mut lanes: Vec<Vec<String>> = vec![Vec::new(); LANES];
    for (number, target) in targets.into_iter().enumerate() {
        lanes[number % LANES].push(target);
    }
    let lanes: Vec<_> = lanes
        .into_iter()
        .map(|targets| thread::spawn(move || targets.iter().try_for_each(|it| one(it))))
        .collect();
    // All end before the first failure is told, so that nothing is left running.
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

/// Into the target folder, where there is a nightly tool chain to use it with; false when it
/// cannot be had.
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

/// Programs that these chores made for themselves.
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
