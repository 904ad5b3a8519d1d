//! The steps of `make test` and `make test-all`, cheapest first.
//!
//! The first step that fails ends the run with its name. A table of the slowest steps and test
//! programs is printed at the end.

use crate::program_runner::{cargo_command, show_and_run};
use crate::test_programs::{self, TestProgram};
use crate::{
    TaskResult, boundaries, clickhouse, fuzz, page_checks, test_requirements, tidy, virtual_time,
};
use std::time::{Duration, Instant};

/// The number of rows of the table at the end.
const SLOWEST: usize = 15;
/// Tests that need the fleet database: modules of these test programs, or all of them if empty.
const DATABASE: [(&str, &str); 2] =
    [("longhaul-clickhouse", ""), ("longhaul::program", "database")];
/// Tests that take minutes and run in `make test-all` only.
const SLOW: [(&str, &str); 1] = [("bench::virtual", "interop")];

/// The steps that have run, with their times.
#[derive(Debug, Default)]
struct StepTimes(Vec<(String, Duration)>);

impl StepTimes {
    /// Runs a step and records its time.
    fn run(&mut self, name: &str, step: impl FnOnce() -> TaskResult) -> TaskResult {
        println!("\n=== {name}");
        let began = Instant::now();
        step().map_err(|e| format!("\"{name}\" failed: {e}"))?;
        println!("=== {name}: passed in {} s", began.elapsed().as_secs());
        self.0.push((name.to_owned(), began.elapsed()));
        Ok(())
    }

    /// Runs test programs in parallel and records the time of each.
    fn run_tests(&mut self, name: &str, programs: Vec<TestProgram>) -> TaskResult {
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
pub fn run_tests() -> TaskResult {
    let began = Instant::now();
    let mut times = StepTimes::default();
    run_quick_steps(&mut times)?;
    print_summary(times, began);
    Ok(())
}

/// Runs the quick tests and the slow steps.
pub fn run_all_tests() -> TaskResult {
    let began = Instant::now();
    let mut times = StepTimes::default();
    times.run("Node.js and the browser", test_requirements::ensure_browser)?;
    times.run("the database for tests", clickhouse::ensure_clickhouse)?;
    run_quick_steps(&mut times)?;
    times.run("the committed page is what its sources build", page_checks::compare_page)?;
    times.run("the page in a browser", page_checks::check_built_page)?;
    let programs = test_programs::build_test_programs()?;
    let slow = [DATABASE.as_slice(), SLOW.as_slice()].concat();
    let slow = programs.into_iter().filter_map(|it| it.only(&slow));
    times.run_tests("slow tests", slow.collect())?;
    times.run("hostile requests to the API", || page_checks::api_fuzzing::run(None))?;
    times.run("lints", run_lints)?;
    times.run("documentation", build_docs)?;
    times.run("fuzzing", fuzz::run)?;
    print_summary(times, began);
    Ok(())
}

fn print_summary(mut times: StepTimes, began: Instant) {
    times.print_slowest();
    println!("\neverything passed in {} s", began.elapsed().as_secs());
}

fn run_quick_steps(times: &mut StepTimes) -> TaskResult {
    times.run("what the tests need", || {
        test_requirements::ensure_test_programs()?;
        test_requirements::check_namespaces()?;
        virtual_time::guest_kernel::ensure_kernel()
    })?;
    times.run("tidy", tidy::run)?;
    times.run("boundaries", boundaries::run)?;
    times.run("formatting", check_format)?;
    let mut programs = Vec::new();
    times.run("building the tests", || {
        programs = test_programs::build_test_programs()?;
        Ok(())
    })?;
    let left_out = [DATABASE.as_slice(), SLOW.as_slice()].concat();
    let programs = programs.into_iter().filter_map(|it| it.without(&left_out));
    times.run_tests("tests", programs.collect())?;
    times.run("documentation tests", || {
        let words = "test --workspace --locked --features longhaul/clickhouse --doc";
        show_and_run(cargo_command().args(words.split(' ')))
    })
}

fn check_format() -> TaskResult {
    show_and_run(cargo_command().args(["fmt", "--all", "--check"]))
}

fn run_lints() -> TaskResult {
    let words =
        "clippy --workspace --all-targets --features longhaul/clickhouse --locked -- -D warnings";
    show_and_run(cargo_command().args(words.split(' ')))
}

fn build_docs() -> TaskResult {
    let words = "doc --workspace --features longhaul/clickhouse --locked --no-deps --document-private-items";
    let mut doc = cargo_command();
    // Documents private items, so that links to them resolve.
    doc.env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links");
    show_and_run(doc.args(words.split(' ')))
}
