//! Fuzzes the API with schemathesis: valid and invalid requests, generated from its own
//! description.

use super::fixture_agent::FixtureAgent;
use crate::TaskResult;
use crate::program_runner::{self, show_and_run};
use std::path::PathBuf;
use std::process::Command;

/// Pinned, so that a new version of the tool does not change CI results.
const TOOL: &str = "schemathesis>=4,<5";
/// The number of examples for each address and generation method; more belong elsewhere.
const EXAMPLES: &str = "25";
/// A fixed seed, so that the examples are always the same.
const SEED: &str = "280";

/// Fuzzes the agent's API.
pub fn run() -> TaskResult {
    let program = program_runner::build_longhaul_for_tests()?;
    let mut agent = FixtureAgent::new(&program)?;
    let outcome = show_and_run(
        Command::new(ensure_schemathesis()?)
            // The tool creates a folder in its working directory.
            .current_dir(program_runner::target_folder()?)
            .arg("run")
            .arg(format!("{}/api/v1/openapi.json", agent.address()))
            // The news stream never ends, so it has its own tests.
            .args(["--exclude-path", "/api/v1/live"])
            // A range that ends before it begins is refused; a schema cannot express that.
            .args(["--exclude-checks", "positive_data_acceptance"])
            .args(["--phases", "examples,coverage,fuzzing"])
            .args(["--max-examples", EXAMPLES])
            .args(["--seed", SEED, "--generation-deterministic"])
            .args(["--request-timeout", "30", "--no-color"]),
    );
    if !agent.is_well() {
        return Err(format!("the agent did not outlive it: {}", agent.log()));
    }
    outcome
}

/// Returns `SCHEMATHESIS`, or a copy in the target folder, installed if necessary.
fn ensure_schemathesis() -> Result<PathBuf, String> {
    if let Some(named) = std::env::var_os("SCHEMATHESIS") {
        return Ok(PathBuf::from(named));
    }
    let folder = program_runner::install_python_package("schemathesis", TOOL)?;
    Ok(folder.join("bin/schemathesis"))
}
