//! The test programs of the workspace: built by one call of cargo, and run in parallel.
//!
//! No test asserts anything that a busy machine can change, so more of them run at a time than the
//! machine has cores: many wait for a deadline or for a process.

use crate::parallel_jobs::run_in_parallel;
use crate::program_runner::{self, cargo_command, format_command};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
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
