//! Everything that must hold before a change lands, cheapest first.
//!
//! Each step stands alone; the first that fails ends the run with its name. What a step could not
//! check on this machine is said aloud, and only a check with a stand-in may be left out that way.

use crate::process::{self, cargo, show_and_run};
use crate::{Outcome, boundaries, needs, page, tidy, tree};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

type Step = (&'static str, fn() -> Outcome);

const STEPS: &[Step] = &[
    ("what the tests need", needs::ensure),
    ("tidy", tidy::run),
    ("formatting", formatting),
    // Before the program is built, so that it is tested with its page in it.
    ("page", page::check),
    ("lints", lints),
    ("boundaries", boundaries::run),
    ("unit tests", unit_tests),
    ("hostile requests", hostile_requests),
    (
        "what the tests of the fleet's archive need",
        crate::clickhouse::ensure,
    ),
    ("tests between namespaces", privileged_tests),
    ("documentation", documentation),
    ("fuzzing", fuzzing),
];

/// Runs every step in order.
pub fn run() -> Outcome {
    let started = Instant::now();
    for (name, step) in STEPS {
        println!("\n=== {name}");
        let began = Instant::now();
        step().map_err(|e| format!("ci stops at \"{name}\": {e}"))?;
        println!("=== {name}: passed in {} s", began.elapsed().as_secs());
    }
    println!(
        "\nci: everything passed in {} s",
        started.elapsed().as_secs()
    );
    Ok(())
}

fn formatting() -> Outcome {
    show_and_run(cargo().args(["fmt", "--all", "--check"]))
}

fn lints() -> Outcome {
    show_and_run(cargo().args([
        "clippy",
        "--workspace",
        "--all-targets",
        "--locked",
        "--",
        "-D",
        "warnings",
    ]))
}

/// The API under requests made from its own description.
fn hostile_requests() -> Outcome {
    page::hostile::run(None)
}

/// Everything that needs no privilege: the tests inside the crates.
fn unit_tests() -> Outcome {
    show_and_run(cargo().args(["test", "--workspace", "--locked", "--lib", "--bins"]))?;
    show_and_run(cargo().args(["test", "--workspace", "--locked", "--doc"]))
}

/// The tests in files of their own: they make namespaces, and time things, so one at a time. Those
/// of the program and of the protocol mostly wait, each for processes of its own or for a deadline,
/// and may do so side by side.
fn privileged_tests() -> Outcome {
    needs::namespaces()?;
    let tests = |names: &[&str], options: &[&str]| {
        let mut test = cargo();
        test.args(["test", "--workspace", "--locked"]);
        for name in names {
            test.args(["--test", name]);
        }
        show_and_run(test.arg("--").args(options))
    };
    tests(&["agent", "program", "protocol"], &["--test-threads=4"])?;
    // All but those.
    let others = ["[!ap]*", "a[!g]*", "p[!r]*", "pr[!o]*", "pro[!gt]*"];
    tests(&others, &["--test-threads=1"])
}

fn documentation() -> Outcome {
    let mut doc = cargo();
    doc.args([
        "doc",
        "--workspace",
        "--locked",
        "--no-deps",
        "--document-private-items",
    ]);
    // With private items documented, a link to one leads somewhere.
    show_and_run(doc.env(
        "RUSTDOCFLAGS",
        "-D warnings -A rustdoc::private_intra_doc_links",
    ))
}

/// How long each target is fuzzed here; a night of it is for another place.
const FUZZ_SECONDS: u32 = 10;

/// The wire decoder under arbitrary bytes. Without cargo-fuzz its property tests, which ran
/// above, stand in.
pub fn fuzzing() -> Outcome {
    let listed = fuzz_targets().or_else(|| install_fuzz().then(fuzz_targets).flatten());
    let Some(targets) = listed else {
        println!(
            "cargo-fuzz or the nightly tool chain is not here: not fuzzed; the property tests of the wire ran"
        );
        return Ok(());
    };
    for target in targets {
        let limit = format!("-max_total_time={FUZZ_SECONDS}");
        // What is fuzzed is safe Rust: checks of overflow find more in it than sanitizers do, and it
        // is built in a third of the time.
        let quick = ["run", "--dev", "--sanitizer", "none"];
        show_and_run(fuzz().args(quick).args([&target, "--", &limit]))?;
    }
    Ok(())
}

/// Into the target folder, where there is a nightly tool chain to use it with; false when it
/// cannot be had.
fn install_fuzz() -> bool {
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

/// Programs that CI made for itself.
fn tools() -> PathBuf {
    tree::root().join("target/tools")
}

fn fuzz() -> Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = std::iter::once(tools().join("bin"));
    let path = std::env::join_paths(own.chain(std::env::split_paths(&path))).unwrap_or(path);
    let mut command = Command::new("cargo");
    command
        .current_dir(tree::root())
        .env("PATH", path)
        .args(["+nightly", "fuzz"]);
    command
}

fn fuzz_targets() -> Option<Vec<String>> {
    let listed = process::stdout_of(fuzz().arg("list"), Duration::from_secs(60)).ok()?;
    Some(listed.lines().map(str::to_owned).collect())
}
