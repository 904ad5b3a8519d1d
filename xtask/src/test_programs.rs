//! The test programs of the workspace: built by one call of cargo, and run in parallel.
//!
//! No test asserts anything that a busy machine can change, so more of them run at a time than the
//! machine has cores: many wait for a deadline or for a process.

use crate::TaskResult;
use crate::program_runner::{self, cargo_command, format_command};
use serde_json::Value;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

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
    /// Leaves out the tests that `rules` name; `None` if nothing remains. A rule is a package or
    /// program, and the name of a module or nothing.
    pub fn without(mut self, rules: &[(&str, &str)]) -> Option<TestProgram> {
        for module in self.modules(rules) {
            if module.is_empty() {
                return None;
            }
            self.filter.extend(["--skip".to_owned(), format!("{module}::")]);
        }
        Some(self)
    }

    /// Keeps only the tests that `rules` name; `None` if there are none.
    pub fn only(mut self, rules: &[(&str, &str)]) -> Option<TestProgram> {
        let modules = self.modules(rules);
        let wanted = modules.iter().filter(|module| !module.is_empty());
        self.filter.extend(wanted.map(|module| format!("{module}::")));
        (!modules.is_empty()).then_some(self)
    }

    /// Returns the modules that the rules for this program name.
    fn modules<'a>(&self, rules: &[(&str, &'a str)]) -> Vec<&'a str> {
        let package = self.name.split("::").next();
        let of_this = |rule: &&(&str, &str)| rule.0 == self.name || Some(rule.0) == package;
        rules.iter().filter(of_this).map(|rule| rule.1).collect()
    }

    fn run(&self, shared_program: &Path) -> Result<Duration, String> {
        let mut command = Command::new(&self.executable);
        command.current_dir(&self.folder).args(&self.filter);
        command.env("LONGHAUL_BIN", shared_program);
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

/// Runs all programs, prints their output, and returns the time of each. All are run even if one
/// fails.
pub fn run_all(mut programs: Vec<TestProgram>) -> Result<Vec<(String, Duration)>, String> {
    let longhaul = program_runner::target_folder()?.join("debug/longhaul");
    programs.sort_by_key(|it| !LONGEST_PROGRAMS.contains(&it.name.as_str()));
    let waiting = Mutex::new(VecDeque::from(programs));
    let ended = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..PARALLEL_PROGRAMS {
            scope.spawn(|| {
                let next = || lock_mutex(&waiting).pop_front();
                while let Some(program) = next() {
                    let outcome = program.run(&longhaul);
                    lock_mutex(&ended).push((program.name, outcome));
                }
            });
        }
    });
    let ended = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
    let failed: Vec<&str> = (ended.iter())
        .filter_map(|(_, outcome)| outcome.as_ref().err().map(String::as_str))
        .collect();
    fail_with(&failed)?;
    let times = ended.into_iter().filter_map(|(name, it)| Some((name, it.ok()?)));
    Ok(times.collect())
}

fn fail_with(failed: &[&str]) -> TaskResult {
    if failed.is_empty() {
        return Ok(());
    }
    Err(failed.join("; "))
}

fn lock_mutex<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
