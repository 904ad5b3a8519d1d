//! The API under schemathesis: requests made from its own description, right ones and wrong ones.

use super::standing::Standing;
use crate::process::{self, show_and_run};
use crate::{Outcome, needs};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Held to, so that a new version of the tool does not change what CI says.
const TOOL: &str = "schemathesis>=4,<5";
/// Examples for each address and way of making them; more of them is for another place.
const EXAMPLES: &str = "25";
/// The same examples each time.
const SEED: &str = "280";

/// Runs it against the program's agent; `examples` for each address, or as CI has them.
pub fn run(examples: Option<&str>) -> Outcome {
    let program = process::longhaul_for_tests()?;
    let mut standing = Standing::new(&program)?;
    let outcome = show_and_run(
        Command::new(tool()?)
            // It leaves a folder where it runs.
            .current_dir(process::target_folder()?)
            .arg("run")
            .arg(format!("{}/api/v1/openapi.json", standing.address()))
            // News never end, so they have tests of their own.
            .args(["--exclude-path", "/api/v1/live"])
            // A range whose end is before its begin is refused; no schema can say so.
            .args(["--exclude-checks", "positive_data_acceptance"])
            .args(["--phases", "examples,coverage,fuzzing"])
            .args(["--max-examples", examples.unwrap_or(EXAMPLES)])
            .args(["--seed", SEED, "--generation-deterministic"])
            .args(["--request-timeout", "30", "--no-color"]),
    );
    if !standing.is_well() {
        return Err(format!("the agent did not outlive it: {}", standing.log()));
    }
    outcome
}

/// `SCHEMATHESIS`, or one in the target folder, made when it is not there.
fn tool() -> Result<PathBuf, String> {
    if let Some(named) = std::env::var_os("SCHEMATHESIS") {
        return Ok(PathBuf::from(named));
    }
    let folder = process::target_folder()?.join("schemathesis");
    let tool = folder.join("bin/schemathesis");
    if works(&tool) {
        return Ok(tool);
    }
    needs::venv()?;
    show_and_run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    show_and_run(Command::new(folder.join("bin/pip")).args([
        "install",
        "--quiet",
        "--disable-pip-version-check",
        TOOL,
    ]))?;
    Ok(tool)
}

fn works(tool: &PathBuf) -> bool {
    let mut version = Command::new(tool);
    version.arg("--version");
    process::stdout_of(&mut version, Duration::from_secs(60)).is_ok()
}
