//! Everything that must hold before a change lands, cheapest first.
//!
//! Each step stands alone; the first that fails ends the run with its name. What a step could not
//! check on this machine is said aloud, and only a check with a stand-in may be left out that way.

use crate::process::{self, cargo, show_and_run};
use crate::{Outcome, boundaries, fuzz, needs, page, tidy};
use std::thread;
use std::time::Instant;

type Step = (&'static str, fn() -> Outcome);

/// Tests that mostly wait.
const WAITING: [&str; 5] = ["agent", "program", "protocol", "replicas", "watched"];

const STEPS: &[Step] = &[
    ("what the tests need", needs::ensure),
    ("tidy", tidy::run),
    ("formatting", formatting),
    ("page, and lints beside it", page_and_lints),
    ("boundaries", boundaries::run),
    ("unit tests", unit_tests),
    (
        "what the tests of the fleet's archive need",
        crate::clickhouse::ensure,
    ),
    (
        "tests between namespaces; beside them documentation and hostile requests",
        privileged_tests,
    ),
    ("fuzzing", fuzz::run),
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

/// The tools that look at the page mostly wait for a browser. It is built before anything takes it
/// in.
fn page_and_lints() -> Outcome {
    page::compare()?;
    let page = thread::spawn(page::check_built);
    let lints = lints();
    let page = page
        .join()
        .unwrap_or(Err("the check of the page died".into()));
    lints.and(page)
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
/// of the program, of the protocol and of the fleet's archive mostly wait, each for processes of
/// its own or for a deadline, and may do so side by side.
fn privileged_tests() -> Outcome {
    needs::namespaces()?;
    let (waiting, others): (Vec<_>, Vec<_>) =
        (process::tests()?.into_iter()).partition(|name| WAITING.contains(&name.as_str()));
    if waiting.len() != WAITING.len() {
        return Err(format!(
            "of the tests {WAITING:?} only {waiting:?} are there"
        ));
    }
    let beside = thread::spawn(beside_the_waiting);
    let waited = tests(&waiting, "--test-threads=4");
    let beside = beside
        .join()
        .unwrap_or(Err("what ran beside the tests died".into()));
    waited.and(beside)?;
    tests(&others, "--test-threads=1")
}

fn tests(names: &[String], option: &str) -> Outcome {
    let mut test = cargo();
    test.args(["test", "--workspace", "--locked"]);
    for name in names {
        test.args(["--test", name]);
    }
    show_and_run(test.args(["--", option]))
}

/// What the processor has time for meanwhile.
fn beside_the_waiting() -> Outcome {
    fuzz::build()?;
    documentation()?;
    hostile_requests()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tests_that_wait_are_there_and_are_not_all() {
        let all = process::tests().expect("cargo knows them");
        assert!(WAITING.iter().all(|name| all.contains(*name)), "{all:?}");
        assert!(all.len() > WAITING.len());
    }
}
