//! The steps of `make test` and `make test-all`, cheapest first.
//!
//! The first step that fails ends the run with its name. A table of the slowest steps and test
//! programs is printed at the end.
//!
//! # Test programs
//!
//! The test programs of the workspace: built by one call of cargo, and run in parallel.
//!
//! No test asserts anything that a busy machine can change, so more of them run at a time than the
//! machine has cores: many wait for a deadline or for a process.

use crate::program_runner::run_in_parallel;
use crate::program_runner::{
    self, ProgramOutput, cargo_command, format_command, run_script, show_and_run,
};
use crate::{TaskResult, boundaries, clickhouse, page_checks, tidy, virtual_time};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The number of rows of the table at the end.
const SLOWEST: usize = 15;
/// Tests that need the fleet database or root, or take minutes, and run in `make test-all` only: modules
/// of these test programs, or all of them if empty.
const SLOW_TESTS: [(&str, &str); 4] = [
    ("longhaul-clickhouse", ""),
    ("longhaul::program", "database"),
    ("longhaul::program", "slow_disk"),
    ("bench::virtual", "interop"),
];

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
        let times = self.run(name, || run_all(programs))?;
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
    times.run("dependencies", || run_script("deny.sh", &[]))?;
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
    let programs = times.run("building the tests", build_test_programs)?;
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

/// The number of programs that run at once.
const PARALLEL_PROGRAMS: usize = 3;
/// The time after which a hanging program is killed.
const LIMIT: Duration = Duration::from_secs(2400);
/// Programs to start first, because they run longest.
const LONGEST_PROGRAMS: [&str; 3] = ["bench::virtual", "longhaul::program", "longhaul::agent"];

/// An executable with tests, and a selection of them.
#[derive(Debug, Clone)]
pub struct TestProgram {
    /// Package and target: `longhaul::program`.
    pub name: String,
    executable: PathBuf,
    /// The folder of its package, in which cargo would run it.
    folder: PathBuf,
    /// Further arguments.
    filter: Vec<String>,
}

impl TestProgram {
    /// Keeps the tests that `rules` name, or all others; `None` if nothing remains. A rule is a package
    /// or program, and the name of a module or nothing.
    pub fn select(mut self, rules: &[(&str, &str)], named: bool) -> Option<TestProgram> {
        let package = self.name.split("::").next();
        let of_this = |rule: &&(&str, &str)| rule.0 == self.name || Some(rule.0) == package;
        let modules: Vec<&str> = rules.iter().filter(of_this).map(|rule| rule.1).collect();
        let is_whole = modules.is_empty() || modules.contains(&"");
        if is_whole && modules.is_empty() == named {
            return None;
        }
        for module in modules.into_iter().filter(|module| !module.is_empty()) {
            let skip = (!named).then(|| "--skip".to_owned());
            self.filter.extend(skip.into_iter().chain([format!("{module}::")]));
        }
        Some(self)
    }

    /// Runs the tests whose names contain one of these, without a capture of their output.
    pub fn run_shown(&self, tests: &[String]) -> Result<ProgramOutput, String> {
        let mut command = self.command(&longhaul_program()?);
        command.args(tests).arg("--nocapture");
        program_runner::capture_output(&mut command, LIMIT)
    }

    fn command(&self, shared_program: &Path) -> Command {
        let mut command = Command::new(&self.executable);
        command.current_dir(&self.folder).args(&self.filter);
        command.env("LONGHAUL_BIN", shared_program);
        command
    }

    fn run(&self, shared_program: &Path) -> Result<Duration, String> {
        let mut command = self.command(shared_program);
        let began = Instant::now();
        let output = program_runner::capture_output(&mut command, LIMIT)?;
        let time = began.elapsed();
        println!("$ {}\n{}{}", format_command(&command), output.stdout, output.stderr);
        if output.status.success() {
            return Ok(time);
        }
        Err(format!("{} ended with {}", self.name, output.status))
    }
}

/// Builds all test programs of the workspace.
pub fn build_test_programs() -> Result<Vec<TestProgram>, String> {
    let words_of_build = "test --workspace --features longhaul/clickhouse --locked --no-run \
                          --message-format json-render-diagnostics";
    let mut command = cargo_command();
    command.args(words_of_build.split(' ')).stdout(Stdio::piped());
    println!("$ {}", format_command(&command));
    let cannot = |e: std::io::Error| format!("cannot run cargo: {e}");
    let mut child = command.spawn().map_err(cannot)?;
    let lines = child.stdout.take().map(|out| BufReader::new(out).lines());
    let messages = lines.into_iter().flatten().map_while(Result::ok);
    let programs = messages.filter_map(|line| parse_test_program(&line)).collect();
    let status = child.wait().map_err(cannot)?;
    if status.success() {
        return Ok(programs);
    }
    Err(format!("cargo ended with {status}"))
}

/// Reads one message of cargo.
fn parse_test_program(line: &str) -> Option<TestProgram> {
    let message: Value = serde_json::from_str(line).ok()?;
    if message["profile"]["test"] != true {
        return None;
    }
    let manifest = Path::new(message["manifest_path"].as_str()?);
    let folder = manifest.parent()?;
    let package = folder.file_name()?.to_str()?;
    let target = message["target"]["name"].as_str()?;
    Some(TestProgram {
        name: format!("{package}::{target}"),
        executable: PathBuf::from(message["executable"].as_str()?),
        folder: folder.to_owned(),
        filter: Vec::new(),
    })
}

fn longhaul_program() -> Result<PathBuf, String> {
    Ok(program_runner::target_folder()?.join("debug/longhaul"))
}

/// Runs all programs, prints their output, and returns the time of each. All are run even if one
/// fails.
pub fn run_all(mut programs: Vec<TestProgram>) -> Result<Vec<(String, Duration)>, String> {
    let longhaul = longhaul_program()?;
    programs.sort_by_key(|it| !LONGEST_PROGRAMS.contains(&it.name.as_str()));
    let outcomes = run_in_parallel(&programs, PARALLEL_PROGRAMS, |program| program.run(&longhaul));
    let failed: Vec<&str> =
        outcomes.iter().filter_map(|outcome| outcome.as_ref().err().map(String::as_str)).collect();
    if !failed.is_empty() {
        return Err(failed.join("; "));
    }
    let times =
        programs.into_iter().zip(outcomes).map(|(program, time)| Some((program.name, time.ok()?)));
    Ok(times.flatten().collect())
}
