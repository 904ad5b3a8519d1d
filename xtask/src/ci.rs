//! The steps of `make test` and `make test-all`, cheapest first.
//!
//! The first step that fails ends the run with its name. A table of the slowest steps and test
//! programs is printed at the end.

use crate::program_runner::{cargo_command, run_script, show_and_run};
use crate::test_programs::{self, TestProgram};
use crate::{TaskResult, boundaries, clickhouse, page_checks, tidy, virtual_time};
use std::time::{Duration, Instant};

/// The number of rows of the table at the end.
const SLOWEST: usize = 15;
/// Tests that need the fleet database or take minutes, and run in `make test-all` only: modules of
/// these test programs, or all of them if empty.
const SLOW_TESTS: [(&str, &str); 3] =
    [("longhaul-clickhouse", ""), ("longhaul::program", "database"), ("bench::virtual", "interop")];

/// The steps that have run, with their times.
#[derive(Debug, Default)]
struct StepTimes(Vec<(String, Duration)>);

impl StepTimes {
    /// Runs a step and records its time.
    fn run<T>(
        &mut self,
        name: &str,
        step: impl FnOnce() -> Result<T, String>,
    ) -> Result<T, String> {
        println!("\n=== {name}");
        let began = Instant::now();
        let result = step().map_err(|e| format!("\"{name}\" failed: {e}"))?;
        println!("=== {name}: passed in {} s", began.elapsed().as_secs());
        self.0.push((name.to_owned(), began.elapsed()));
        Ok(result)
    }

    /// Runs test programs in parallel and records the time of each.
    fn run_tests(&mut self, name: &str, programs: Vec<TestProgram>) -> TaskResult {
        let times = self.run(name, || test_programs::run_all(programs))?;
        self.0.extend(times.into_iter().map(|(program, time)| (format!("  {program}"), time)));
        Ok(())
    }

    fn print_slowest(mut self) {
        self.0.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
        println!("\nslowest steps, and test programs (which run side by side):");
        for (name, time) in self.0.iter().take(SLOWEST) {
            println!("{:>7.1} s  {name}", time.as_secs_f64());
        }
        println!("\neverything passed");
    }
}

/// Runs everything that a change needs.
pub fn run_tests() -> TaskResult {
    let mut times = StepTimes::default();
    run_quick_steps(&mut times)?;
    times.print_slowest();
    Ok(())
}

/// Runs the quick tests and the slow steps.
pub fn run_all_tests() -> TaskResult {
    let mut times = StepTimes::default();
    times.run("Node.js and the browser", || run_script("requirements.sh", &["browser"]))?;
    times.run("the database for tests", clickhouse::ensure_clickhouse)?;
    let programs = run_quick_steps(&mut times)?;
    times.run("the committed page is what its sources build", page_checks::compare_page)?;
    times.run("the page in a browser", page_checks::check_built_page)?;
    let slow = programs.into_iter().filter_map(|it| it.select(&SLOW_TESTS, true));
    times.run_tests("slow tests", slow.collect())?;
    times.run("hostile requests to the API", page_checks::run)?;
    times.run("lints", || run_cargo(LINTS))?;
    times.run("documentation", build_docs)?;
    times.run("fuzzing", || run_script("fuzz.sh", &[]))?;
    times.print_slowest();
    Ok(())
}

/// Runs the quick steps and returns all test programs.
fn run_quick_steps(times: &mut StepTimes) -> Result<Vec<TestProgram>, String> {
    times.run("what the tests need", || {
        run_script("requirements.sh", &["programs"])?;
        virtual_time::guest_kernel::ensure_kernel()
    })?;
    times.run("tidy", tidy::run)?;
    times.run("boundaries", boundaries::run)?;
    times.run("formatting", || run_cargo("fmt --all --check"))?;
    let programs = times.run("building the tests", test_programs::build_test_programs)?;
    let quick = programs.iter().cloned().filter_map(|it| it.select(&SLOW_TESTS, false));
    times.run_tests("tests", quick.collect())?;
    times.run("documentation tests", || run_cargo(DOC_TESTS))?;
    Ok(programs)
}

const DOC_TESTS: &str = "test --workspace --locked --features longhaul/clickhouse --doc";
const LINTS: &str =
    "clippy --workspace --all-targets --features longhaul/clickhouse --locked -- -D warnings";
/// Documents private items, so that links to them resolve.
const DOCS: &str = "doc --workspace --features longhaul/clickhouse --locked --no-deps \
                    --document-private-items";

fn run_cargo(words: &str) -> TaskResult {
    show_and_run(cargo_command().args(words.split(' ')))
}

fn build_docs() -> TaskResult {
    let mut doc = cargo_command();
    doc.env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links");
    show_and_run(doc.args(DOCS.split(' ')))
}
