//! The steps of `make test` and `make test-all`, cheapest first.
//!
//! The first step that fails ends the run with its name. A table of the slowest steps and test
//! programs is printed at the end.

use crate::process::{cargo, show_and_run};
use crate::test_programs::{self, TestProgram};
use crate::{Outcome, boundaries, clickhouse, fuzz, needs, page, tidy, virtual_time};
use std::time::{Duration, Instant};

/// The number of rows of the table at the end.
const SLOWEST: usize = 15;
/// Tests that need the fleet database: modules of these test programs, or all of them if empty.
const DATABASE: [(&str, &str); 2] = [
    ("longhaul-clickhouse", ""),
    ("longhaul::program", "database"),
];
/// Tests that take minutes and run in `make test-all` only.
const SLOW: [(&str, &str); 1] = [("xtask::virtual", "interop")];

/// The steps that have run, with their times.
#[derive(Debug, Default)]
struct StepTimes(Vec<(String, Duration)>);

impl StepTimes {
    /// Runs a step and records its time.
    fn run(&mut self, name: &str, step: impl FnOnce() -> Outcome) -> Outcome {
        println!("\n=== {name}");
        let began = Instant::now();
        step().map_err(|e| format!("\"{name}\" failed: {e}"))?;
        println!("=== {name}: passed in {} s", began.elapsed().as_secs());
        self.0.push((name.to_owned(), began.elapsed()));
        Ok(())
    }

    /// Runs test programs in parallel and records the time of each.
    fn run_tests(&mut self, name: &str, programs: Vec<TestProgram>) -> Outcome {
        let mut times = Vec::new();
        self.run(name, || {
            times = test_programs::run_all(programs)?;
            Ok(())
        })?;
        let of_program = |(program, time)| (format!("  {program}"), time);
        self.0.extend(times.into_iter().map(of_program));
        Ok(())
    }

    fn print_slowest(&mut self) {
        self.0.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
        println!("\nslowest steps, and test programs (which run side by side):");
        for (name, time) in self.0.iter().take(SLOWEST) {
            println!("{:>7.1} s  {name}", time.as_secs_f64());
        }
    }
}

/// Runs everything that a change needs.
pub fn run_tests() -> Outcome {
    let began = Instant::now();
    let mut times = StepTimes::default();
    run_quick_steps(&mut times)?;
    finish(times, began);
    Ok(())
}

/// Runs the quick tests and the slow steps.
pub fn run_all_tests() -> Outcome {
    let began = Instant::now();
    let mut times = StepTimes::default();
    times.run("Node.js and the browser", needs::browser)?;
    times.run("the database for tests", clickhouse::ensure)?;
    run_quick_steps(&mut times)?;
    times.run(
        "the committed page is what its sources build",
        page::compare,
    )?;
    times.run("the page in a browser", page::check_built)?;
    let programs = test_programs::build()?;
    let slow = [DATABASE.as_slice(), SLOW.as_slice()].concat();
    let slow = programs.into_iter().filter_map(|it| it.only(&slow));
    times.run_tests("slow tests", slow.collect())?;
    times.run("hostile requests to the API", || page::hostile::run(None))?;
    times.run("lints", lint)?;
    times.run("documentation", document)?;
    times.run("fuzzing", fuzz::run)?;
    finish(times, began);
    Ok(())
}

fn finish(mut times: StepTimes, began: Instant) {
    times.print_slowest();
    println!("\neverything passed in {} s", began.elapsed().as_secs());
}

fn run_quick_steps(times: &mut StepTimes) -> Outcome {
    times.run("what the tests need", || {
        needs::ensure()?;
        needs::namespaces()?;
        virtual_time::kernel::ensure()
    })?;
    times.run("tidy", tidy::run)?;
    times.run("boundaries", boundaries::run)?;
    times.run("formatting", check_format)?;
    let mut programs = Vec::new();
    times.run("building the tests", || {
        programs = test_programs::build()?;
        Ok(())
    })?;
    let left_out = [DATABASE.as_slice(), SLOW.as_slice()].concat();
    let programs = programs.into_iter().filter_map(|it| it.without(&left_out));
    times.run_tests("tests", programs.collect())?;
    times.run("documentation tests", || {
        show_and_run(cargo().args([
            "test",
            "--workspace",
            "--locked",
            "--features",
            "longhaul/clickhouse",
            "--doc",
        ]))
    })
}

fn check_format() -> Outcome {
    show_and_run(cargo().args(["fmt", "--all", "--check"]))
}

fn lint() -> Outcome {
    let words =
        "clippy --workspace --all-targets --features longhaul/clickhouse --locked -- -D warnings";
    show_and_run(cargo().args(words.split(' ')))
}

fn document() -> Outcome {
    let words = "doc --workspace --features longhaul/clickhouse --locked --no-deps --document-private-items";
    let mut doc = cargo();
    // Documents private items, so that links to them resolve.
    doc.env(
        "RUSTDOCFLAGS",
        "-D warnings -A rustdoc::private_intra_doc_links",
    );
    show_and_run(doc.args(words.split(' ')))
}
